//! Checks the dependencies of each crate, the crates that may use a heavy dependency, and that the turn machine does no
//! I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::{report, root, sources};

/// Crates without domain logic that every crate of the workspace may depend on.
const SHARED: &[&str] = &["folio-types", "folio-trace"];

/// Crates of the workspace, without `folio-`, that a crate may depend on besides [`SHARED`] (dev-dependencies apart).
const MAY_USE: &[(&str, &str)] = &[
    ("folio-types", ""),
    ("folio-trace", ""),
    ("folio-breaker", ""),
    ("folio-credit", ""),
    ("folio-history", "resources"),
    ("folio-resources", ""),
    ("folio-proto", "history resources"),
    ("folio-client", "proto"),
    ("folio-permits", ""),
    ("folio-accounts", "permits resources storage"),
    ("folio-process", ""),
    ("folio-storage", "credit history resources"),
    ("folio-storage-client", "breaker storage"),
    ("folio-storage-conformance", "credit history resources storage"),
    ("folio-blobs", "storage"),
    ("folio-storage-embedded", "blobs credit history resources storage"),
    ("folio-storage-cql", "breaker credit history resources storage storage-client"),
    ("folio-storage-redis", "breaker history storage storage-client"),
    ("folio-storage-memory", "history storage"),
    ("folio-quotas", "resources storage"),
    ("folio-llm", "breaker permits"),
    ("folio-providers", "llm resources storage"),
    ("folio-documents", "history permits quotas resources storage"),
    ("folio-metering", "credit quotas resources storage"),
    ("folio-tools", "history llm metering passages resources storage"),
    ("folio-mcp", "llm providers resources tools"),
    ("folio-jobs", "history storage"),
    ("folio-webhooks", "history jobs llm providers resources storage"),
    ("folio-conversation", "history llm metering quotas resources storage tools"),
    ("folio-export", "resources"),
    ("folio-passages", ""),
    ("folio-index", "permits"),
    ("folio-index-conformance", "index"),
    ("folio-index-placed", "cluster index storage"),
    ("folio-index-qdrant", "breaker index storage storage-client"),
    ("folio-knowledge", "history index jobs llm metering passages permits resources storage tools"),
    (
        "folio-operations",
        "accounts credit documents export history jobs knowledge llm metering permits providers resources storage tools \
         webhooks",
    ),
    ("folio-cluster", "history proto resources storage"),
    ("folio-testkit", ""),
    ("folio-test-servers", ""),
    (
        "folio-gateway",
        "accounts cluster credit documents history knowledge llm metering operations permits proto resources storage \
         tools",
    ),
    ("folio-node", "cluster conversation documents history jobs knowledge llm metering quotas resources storage tools"),
    ("llm-sim", ""),
    ("xtask", "test-servers"),
];

/// Crates that may use a dependency (dev-dependencies apart).
const DEPENDENCY_OWNERS: &[(&str, &[&str])] = &[
    ("fjall", &["folio-storage-embedded"]),
    ("scylla", &["folio-storage-cql"]),
    ("redis", &["folio-storage-redis"]),
    ("object_store", &["folio-blobs"]),
    ("folio-storage-conformance", &[]),
    ("folio-index-conformance", &[]),
    ("tantivy", &["folio-index"]),
    ("tokenizers", &["folio-passages"]),
    ("whatlang", &["folio-knowledge"]),
    ("jsonschema", &["folio-llm"]),
    ("ractor", &["folio-conversation", "folio-jobs", "folio-metering"]),
    (
        "tonic",
        &[
            "folio-proto",
            "folio-client",
            "folio-process",
            "folio-cluster",
            "folio-gateway",
            "folio",
            "folio-index-qdrant",
        ],
    ),
    ("hayro-interpret", &["folio-documents"]),
    ("hmac", &["folio-accounts", "folio-cluster"]),
    ("argon2", &["folio-accounts"]),
    ("opentelemetry", &["folio-process", "folio-trace"]),
    ("opentelemetry_sdk", &["folio-process", "folio-trace"]),
    ("opentelemetry-otlp", &["folio-process"]),
    ("opentelemetry-proto", &["folio-process"]),
    ("tracing-opentelemetry", &["folio-process", "folio-trace"]),
    ("aws-lc-rs", &["folio-providers"]),
    ("rcgen", &["folio-cluster"]),
    ("axum", &["folio", "folio-gateway", "llm-sim"]),
    ("tonic-web", &["folio-gateway"]),
    ("tower-http", &["folio-gateway"]),
    ("utoipa", &["folio-gateway"]),
    ("multer", &["folio-gateway"]),
    ("struson", &["folio-gateway"]),
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
            let is_allowed = allowed.split(' ').any(|name| used.strip_prefix("folio-") == Some(name));
            if manifests.contains_key(used) && !SHARED.contains(&used.as_str()) && !is_allowed {
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
fn only_the_listed_crates_use_a_heavy_dependency() {
    let mut wrong = Vec::new();
    for (name, uses) in manifests() {
        for (dependency, owners) in DEPENDENCY_OWNERS {
            if uses.contains(*dependency) && !owners.contains(&name.as_str()) {
                wrong.push(format!("{name} uses {dependency}"));
            }
        }
    }
    report("a crate uses a dependency of other crates", &wrong);
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
