//! Imports point down only, and each heavy dependency has its place.

use std::collections::{BTreeMap, BTreeSet};

use crate::{report, root, sources};

/// Crates without domain logic that every crate of the workspace may depend on.
const SHARED: &[&str] = &["folio-types", "folio-trace"];

/// Crates of the workspace that a crate may depend on besides [`SHARED`] (dev-dependencies apart).
const MAY_USE: &[(&str, &[&str])] = &[
    ("folio-types", &[]),
    ("folio-trace", &[]),
    ("folio-breaker", &[]),
    ("folio-credit", &[]),
    ("folio-history", &["folio-resources"]),
    ("folio-resources", &[]),
    ("folio-proto", &["folio-history", "folio-resources"]),
    ("folio-permits", &[]),
    ("folio-process", &[]),
    ("folio-storage", &["folio-credit", "folio-history", "folio-resources"]),
    ("folio-storage-client", &["folio-breaker", "folio-storage"]),
    ("folio-storage-conformance", &["folio-credit", "folio-history", "folio-resources", "folio-storage"]),
    ("folio-blobs", &["folio-storage"]),
    ("folio-storage-embedded", &["folio-blobs", "folio-credit", "folio-history", "folio-resources", "folio-storage"]),
    (
        "folio-storage-cql",
        &["folio-breaker", "folio-credit", "folio-history", "folio-resources", "folio-storage", "folio-storage-client"],
    ),
    ("folio-storage-redis", &["folio-breaker", "folio-history", "folio-storage", "folio-storage-client"]),
    ("folio-storage-memory", &["folio-history", "folio-storage"]),
    ("folio-quotas", &["folio-resources", "folio-storage"]),
    ("folio-llm", &["folio-breaker", "folio-permits"]),
    ("folio-providers", &["folio-llm", "folio-resources", "folio-storage"]),
    ("folio-documents", &["folio-history", "folio-permits", "folio-quotas", "folio-resources", "folio-storage"]),
    ("folio-metering", &["folio-credit", "folio-quotas", "folio-resources", "folio-storage"]),
    (
        "folio-tools",
        &["folio-documents", "folio-history", "folio-llm", "folio-metering", "folio-resources", "folio-storage"],
    ),
    (
        "folio-conversation",
        &[
            "folio-documents",
            "folio-history",
            "folio-llm",
            "folio-metering",
            "folio-quotas",
            "folio-resources",
            "folio-storage",
            "folio-tools",
        ],
    ),
    (
        "folio-operations",
        &[
            "folio-credit",
            "folio-documents",
            "folio-history",
            "folio-llm",
            "folio-metering",
            "folio-permits",
            "folio-providers",
            "folio-resources",
            "folio-storage",
            "folio-tools",
        ],
    ),
    ("folio-cluster", &["folio-history", "folio-proto", "folio-resources", "folio-storage"]),
    ("folio-testkit", &[]),
    ("folio-test-servers", &[]),
    (
        "folio-gateway",
        &[
            "folio-cluster",
            "folio-credit",
            "folio-documents",
            "folio-history",
            "folio-llm",
            "folio-metering",
            "folio-operations",
            "folio-permits",
            "folio-proto",
            "folio-providers",
            "folio-resources",
            "folio-storage",
            "folio-tools",
        ],
    ),
    (
        "folio-node",
        &[
            "folio-cluster",
            "folio-conversation",
            "folio-documents",
            "folio-history",
            "folio-llm",
            "folio-metering",
            "folio-proto",
            "folio-quotas",
            "folio-resources",
            "folio-storage",
            "folio-tools",
        ],
    ),
    ("llm-sim", &[]),
    ("xtask", &["folio-test-servers"]),
];

/// In which crates a dependency may be named (tests apart).
const PLACES: &[(&str, &[&str])] = &[
    ("fjall", &["folio-storage-embedded"]),
    ("scylla", &["folio-storage-cql"]),
    ("redis", &["folio-storage-redis"]),
    ("object_store", &["folio-blobs"]),
    ("folio-storage-conformance", &[]),
    ("jsonschema", &["folio-llm"]),
    ("ractor", &["folio-conversation", "folio-metering", "folio-node", "folio-documents"]),
    ("tonic", &["folio-proto", "folio-process", "folio-cluster", "folio-gateway", "folio-node", "folio"]),
    ("pdf-extract", &["folio-documents"]),
    ("hmac", &["folio-cluster"]),
    ("opentelemetry", &["folio-process", "folio-trace"]),
    ("opentelemetry_sdk", &["folio-process", "folio-trace"]),
    ("opentelemetry-otlp", &["folio-process"]),
    ("opentelemetry-proto", &["folio-process"]),
    ("tracing-opentelemetry", &["folio-process", "folio-trace"]),
    ("aws-lc-rs", &["folio-providers"]),
    ("rcgen", &["folio-cluster"]),
    ("axum", &["folio", "folio-gateway", "llm-sim"]),
    ("clap", &["folio", "llm-sim", "xtask"]),
];

fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let mut manifests = BTreeMap::new();
    for folder in ["crates", "services"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path().join("Cargo.toml");
            if path.is_file() {
                let (name, uses) = read(&std::fs::read_to_string(path).unwrap());
                manifests.insert(name, uses);
            }
        }
    }
    let (name, uses) = read(&std::fs::read_to_string(root().join("xtask/Cargo.toml")).unwrap());
    manifests.insert(name, uses);
    assert!(manifests.len() >= MAY_USE.len());
    manifests
}

fn read(text: &str) -> (String, BTreeSet<String>) {
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    let name = manifest["package"]["name"].as_str().expect("a package has a name").to_owned();
    let uses = manifest.get("dependencies").and_then(|table| table.as_table());
    (name, uses.map(|table| table.keys().cloned().collect()).unwrap_or_default())
}

#[test]
fn imports_between_crates_point_down() {
    let manifests = manifests();
    let mut wrong = Vec::new();
    for (name, allowed) in MAY_USE {
        for used in &manifests[*name] {
            let own = manifests.contains_key(used);
            if own && !SHARED.contains(&used.as_str()) && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    for name in manifests.keys().filter(|name| *name != "folio") {
        if !MAY_USE.iter().any(|(known, _)| known == name) {
            wrong.push(format!("{name} is not in the table of this test"));
        }
    }
    report("imports between crates must point down", &wrong);
}

#[test]
fn heavy_dependencies_stay_in_their_place() {
    let mut wrong = Vec::new();
    for (name, uses) in manifests() {
        for (dependency, places) in PLACES {
            if uses.contains(*dependency) && !places.contains(&name.as_str()) {
                wrong.push(format!("{name} uses {dependency}"));
            }
        }
    }
    report("a dependency has left its place", &wrong);
}

#[test]
fn the_turn_machine_does_no_io() {
    let forbidden =
        ["tokio", "std::fs", "std::net", "async ", ".await", "ractor", "Timestamp::now", "Instant::now", "rand::"];
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let path = file.to_string_lossy();
        if path.contains("folio-conversation/src/turn/") && !crate::is_test(&file) && !path.contains("model_check") {
            for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                for word in forbidden.iter().filter(|word| line.contains(*word)) {
                    wrong.push(format!("{path}:{}: {word}", at + 1));
                }
            }
        }
    }
    report("the turn machine is pure", &wrong);
}
