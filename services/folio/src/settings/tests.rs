//! The requirements of each form of a server, and the command lines of deployments.

use std::path::Path;

use clap::Parser as _;
use folio_resources::quota::Quotas;
use serde_json::Value;

use super::*;
use crate::arguments::{Arguments, Command};

const SECRET: &str = "[\"a secret of thirty-two bytes, at the least\"]";

/// Loads the settings of a command line with these variables.
fn settings(line: &[&str], variables: &[(&str, &str)]) -> Result<Settings> {
    let arguments = Arguments::try_parse_from(std::iter::once("folio").chain(line.iter().copied()))?;
    let (flags, purpose) = match &arguments.command {
        Command::Serve(serve) => (serve.flags(), Purpose::Serve),
        Command::Migrate(migrate) => (migrate.stores.flags(), Purpose::Command),
        Command::Cluster(cluster) => (cluster.flags(), Purpose::Command),
        _ => (Flags::new(), Purpose::Command),
    };
    // The settings file of a container does not exist in the test.
    let settings_arguments = SettingsArguments { config: Some("/dev/null".into()) };
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let loaded = read(&settings_arguments, &flags, variables.collect())?;
    anyhow::ensure!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    loaded.settings.check(&flags, purpose)?;
    Ok(loaded.settings)
}

fn problems(line: &[&str], variables: &[(&str, &str)]) -> String {
    match settings(line, variables) {
        Ok(_) => String::new(),
        Err(error) => format!("{error:#}"),
    }
}

const STORES: [&str; 6] = ["--redis", "redis://h:1", "--cql", "h:1,h:2", "--blobs", "s3://b"];

#[test]
fn every_form_of_a_server_is_understood() {
    let secret = [("FOLIO_CLUSTER__SECRETS", SECRET)];
    let alone = settings(&["serve"], &[]).unwrap();
    assert!(alone.server.is(Role::Gateway) && alone.server.is(Role::Node) && !alone.storage.is_shared());
    for (roles, gateway, node) in [("gateway", true, false), ("node", false, true), ("gateway,node", true, true)] {
        let one = settings(&[&["serve", "--roles", roles], &STORES[..]].concat(), &secret).unwrap();
        assert_eq!((one.server.is(Role::Gateway), one.server.is(Role::Node)), (gateway, node));
        assert_eq!(one.storage.cql.contact_points, ["h:1", "h:2"]);
        assert!(one.storage.is_shared());
    }
}

#[test]
fn all_contradicting_settings_are_reported_together() {
    let reported =
        problems(&["serve", "--roles", "node", "--redis", "redis://h", "--data", "x", "--listen", "h:1"], &[]);
    for path in ["storage.cql", "storage.blobs", "storage.data", "cluster.secrets", "server.listen"] {
        assert!(reported.contains(path), "{path} in {reported}");
    }
    let reported =
        problems(&["serve", "--roles", "gateway", "--node-listen", "0.0.0.0:1", "--node-advertise", "h:1"], &[]);
    for path in ["server.roles: gateway alone", "cluster.listen", "cluster.advertise", "not loopback"] {
        assert!(reported.contains(path), "{path} in {reported}");
    }
    let secret = [("FOLIO_CLUSTER__SECRETS", SECRET), ("FOLIO_CLUSTER__INSECURE", "true")];
    let node = [&["serve", "--roles", "node", "--node-listen", "0.0.0.0:1"], &STORES[..]].concat();
    assert!(problems(&node, &secret).contains("cluster.advertise: is required"));
    assert!(problems(&["serve", "--cql", "h"], &secret).contains("storage.redis.url"));
    assert!(problems(&["serve", "--roles", "master"], &[]).contains("gateway"));
    assert!(problems(&["serve"], &[("FOLIO_SERVER__ROLES", "[]")]).contains("server.roles"));
    let both = problems(&[&["serve"], &STORES[..]].concat(), &[("FOLIO_STORAGE__CQL__USER", "u"), secret[0]]);
    assert!(both.contains("storage.cql.user"), "{both}");
}

#[test]
fn a_reservation_outlives_its_call() {
    let reported = |reservation: &str, more: &[(&str, &str)]| {
        let seconds =
            [("FOLIO_CREDIT__RESERVATION_SECONDS", reservation), ("FOLIO_MODELS__TIMEOUTS__CALL_SECONDS", "60")];
        problems(&["serve"], &[&seconds[..], more].concat())
    };
    assert!(
        reported("60", &[]).contains("credit.reservation_seconds: must be longer than models.timeouts.call_seconds")
    );
    assert_eq!(reported("61", &[]), "");
    assert_eq!(reported("60", &[("FOLIO_CREDIT__UNLIMITED", "true")]), "", "nothing is reserved");
}

#[test]
fn organizations_of_a_cluster_have_limits_by_default() {
    let secret = ("FOLIO_CLUSTER__SECRETS", SECRET);
    let cluster = [&["serve"], &STORES[..]].concat();
    let limits = |line: &[&str], variables: &[(&str, &str)]| {
        let variables = [&[secret], variables].concat();
        settings(line, &variables).unwrap().limits.quotas()
    };
    assert_eq!(limits(&["serve"], &[]), Quotas::default(), "a single process has no limits");
    assert_eq!(limits(&cluster, &[]), Quotas::OF_CLUSTERS);
    let own = [("FOLIO_LIMITS__CONCURRENT_TURNS", "0"), ("FOLIO_LIMITS__DOCUMENTS", "7")];
    let expected = Quotas { concurrent_turns: 0, documents: 7, ..Quotas::OF_CLUSTERS };
    assert_eq!(limits(&cluster, &own), expected);
    assert_eq!(limits(&["serve"], &own), Quotas { documents: 7, ..Quotas::default() });
    let printed = toml::to_string_pretty(&settings(&cluster, &[secret]).unwrap()).unwrap();
    assert!(printed.contains("concurrent_turns = 32"), "{printed}");
    assert!(problems(&["serve"], &[("FOLIO_LIMITS__DOCUMENTS", "1000000001")]).contains("limits.documents"));
}

#[test]
fn a_command_needs_only_its_own_stores() {
    let migrate = settings(&["migrate", "--cql", "h"], &[]).unwrap();
    assert_eq!(migrate.storage.cql.contact_points, ["h"]);
    assert!(settings(&["cluster", "status", "--json", "--redis", "redis://h", "--cql", "h"], &[]).is_ok());
}

/// The command line and variables of a deployed process.
struct Deployed {
    line: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Deployed {
    fn check(&self, at: &str) -> Settings {
        let line: Vec<&str> =
            self.line.iter().map(String::as_str).filter(|part| !part.starts_with("--config")).collect();
        let ours = self.variables.iter().filter(|(name, _)| name.starts_with("FOLIO_"));
        let variables: Vec<_> = ours.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        settings(&line, &variables).unwrap_or_else(|error| panic!("{at}: {line:?}: {error:#}"))
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn words(list: &Value) -> Vec<String> {
    let words = list.as_array().into_iter().flatten();
    words.map(|word| word.as_str().expect("a word of a command line").to_owned()).collect()
}

#[test]
fn every_process_of_the_composition_is_understood() {
    let text = std::fs::read_to_string(root().join("compose.yaml")).unwrap();
    let composition: Value = serde_saphyr::from_str(&plain(&text)).unwrap();
    let mut roles = Vec::new();
    for (name, service) in composition["services"].as_object().unwrap() {
        if service["image"] != "folio:local" {
            continue;
        }
        let variables = service["environment"].as_object().unwrap().iter();
        let variables = variables.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let process = Deployed { line: words(&service["command"]), variables: variables.collect() };
        let settings = process.check(name);
        assert_eq!(settings.storage.cql.contact_points, ["scylla:9042"], "{name}");
        roles.push(process.line[..3.min(process.line.len())].join(" "));
    }
    roles.sort();
    let expected =
        ["migrate --cql scylla:9042", "serve --roles gateway", "serve --roles gateway", "serve --roles node"];
    assert_eq!(roles[..4], expected);
    assert_eq!(roles.len(), 6);
}

/// Replaces each `${NAME:-default}` with its default.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split("${");
    plain.push_str(parts.next().unwrap());
    for part in parts {
        let (variable, rest) = part.split_once('}').unwrap();
        plain.push_str(variable.split_once(":-").unwrap().1);
        plain.push_str(rest);
    }
    plain
}

#[test]
fn every_container_that_the_chart_renders_is_understood() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("helm/folio/examples/snapshots")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for manifest in text.split("\n---") {
            let Ok(manifest) = serde_saphyr::from_str::<Value>(manifest) else { panic!("{}", path.display()) };
            let containers = manifest["spec"]["template"]["spec"]["containers"].as_array().cloned();
            for container in containers.unwrap_or_default() {
                let line = words(&container["args"]);
                if !line.first().is_some_and(|command| ["serve", "migrate"].contains(&command.as_str())) {
                    continue;
                }
                let variables = container["env"].as_array().unwrap().iter();
                let variables = variables.map(|variable| {
                    let name = variable["name"].as_str().unwrap().to_owned();
                    // The value of a secret exists only in the cluster.
                    let known = variable["value"].as_str().map(str::to_owned);
                    let placeholder = match name.as_str() {
                        "FOLIO_PURCHASES__SECRETS" => r#"["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]"#,
                        "FOLIO_SECRETS__MASTER_KEYS" => r#"["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]"#,
                        name if name.ends_with("URL") => "redis://from-a-secret",
                        _ => "from-a-secret",
                    };
                    (name, known.unwrap_or_else(|| placeholder.to_owned()))
                });
                let process = Deployed { line, variables: variables.collect() };
                let settings = process.check(&path.display().to_string());
                assert_eq!(
                    settings.limits.quotas(),
                    Quotas::OF_CLUSTERS,
                    "the default of the chart is that of the program"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen} containers");
}

/// Returns every key with its default as TOML, with `NAME` as the name in free maps. `none`: no default.
fn known() -> BTreeMap<String, String> {
    let mut all = serde_json::to_value(Settings::default()).unwrap();
    for (path, entry) in free_maps().unwrap() {
        let path = path.replace('*', "NAME");
        let map = path.split('.').try_fold(&mut all, |value, part| value.get_mut(part)).unwrap();
        map.as_object_mut().unwrap().insert("NAME".to_owned(), entry);
    }
    let mut keys = BTreeMap::new();
    leaves("", &all, &mut keys);
    keys
}

fn leaves(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    let Value::Object(members) = value else {
        let text = toml::Value::try_from(value).map_or("none".to_owned(), |value| format!("`{value}`"));
        into.insert(path.to_owned(), text);
        return;
    };
    for (name, value) in members {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(&below, value, into);
    }
}

#[test]
fn docs_settings_lists_exactly_the_existing_keys_with_their_defaults() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let document = std::fs::read_to_string(document).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<_> = rows.map(|(key, rest)| (key, rest.split(" | ").next().unwrap_or_default())).collect();
    let reported: BTreeMap<String, String> = rows.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
    assert_eq!(reported.len(), rows.len(), "no key has two rows");
    let known = known();
    let missing: Vec<_> = known.iter().filter(|(key, default)| reported.get(*key) != Some(*default)).collect();
    let unknown: Vec<_> = reported.keys().filter(|key| !known.contains_key(*key)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/settings.md has no row or another default for {missing:#?}, and rows for the unknown keys {unknown:#?}"
    );
}
