//! Checks that dashboards and alert rules name metrics in `docs/observability.md`. The test of traces in
//! `tests/cluster` checks that this document contains exactly the metrics of `/metrics`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::{is_test, report, root, sources};

/// Returns the names of the metrics in a text, without the suffixes that Prometheus appends for a histogram.
fn metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let names = words.filter(|word| word.starts_with("folio_"));
    let plain = |name: &str| {
        let ends = ["_seconds_bucket", "_seconds_count", "_seconds_sum"];
        let cut = ends.iter().find(|end| name.ends_with(*end)).map_or(0, |end| end.len() - "_seconds".len());
        name[..name.len() - cut].to_owned()
    };
    names.map(plain).collect()
}

fn files() -> Vec<PathBuf> {
    let folder = root().join("deploy/observability");
    let boards = std::fs::read_dir(folder.join("dashboards")).expect("there are dashboards");
    boards.map(|board| board.expect("a file").path()).chain([folder.join("alerts.yaml")]).collect()
}

#[test]
fn dashboards_and_alerts_name_existing_metrics() {
    let document = std::fs::read_to_string(root().join("docs/observability.md")).expect("the document is readable");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `folio_")?.split('`').next());
    let known: BTreeSet<String> = rows.map(|name| format!("folio_{name}")).collect();
    let (mut wrong, mut shown) = (Vec::new(), BTreeSet::new());
    for file in files() {
        let named = metric_names(&std::fs::read_to_string(&file).expect("a file is read"));
        assert!(!named.is_empty(), "{} names no metric", file.display());
        wrong.extend(named.difference(&known).map(|name| format!("{}: {name}", file.display())));
        shown.extend(named);
    }
    report("a dashboard or alert names a metric that docs/observability.md does not list", &wrong);
    let unseen: Vec<_> = known.difference(&shown).cloned().collect();
    report("a metric is on no dashboard and in no alert", &unseen);
}

#[test]
fn every_alert_has_a_row_in_the_operations_manual() {
    let rules = std::fs::read_to_string(root().join("deploy/observability/alerts.yaml")).expect("the rules are read");
    let rules: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let manual = std::fs::read_to_string(root().join("docs/operations.md")).expect("the manual is read");
    let cells = manual.lines().filter_map(|line| line.strip_prefix("| `Folio")).filter_map(|row| row.split('|').next());
    let cells: Vec<String> = cells.map(|cell| format!("`Folio{cell}")).collect();
    let names = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let described: BTreeSet<&str> = names.filter(|name| name.starts_with("Folio")).collect();
    let differing: Vec<_> = rules.symmetric_difference(&described).map(|name| (*name).to_owned()).collect();
    report("an alert has no row in docs/operations.md, or a row names no alert", &differing);
}

#[test]
fn the_operations_manual_quotes_existing_log_messages() {
    let manual = std::fs::read_to_string(root().join("docs/operations.md")).expect("the manual is read");
    let cells = manual.lines().filter(|line| line.starts_with("| ")).filter_map(|row| row.split('|').nth(1));
    let logs = cells.filter_map(|cell| cell.split_once("log: ")).flat_map(|(_, quoted)| quoted.split(';').take(1));
    let messages: Vec<&str> = logs.flat_map(|quoted| quoted.split('`').skip(1).step_by(2)).collect();
    assert!(messages.len() > 8, "{messages:?}");
    let sources: Vec<String> = sources().into_iter().filter(|(file, _)| !is_test(file)).map(|(_, text)| text).collect();
    // A source may wrap a message, and "…" replaces a value.
    let sources: Vec<String> = sources.iter().map(|text| text.replace("\\\n", "")).map(|text| words(&text)).collect();
    let exists = |message: &str| {
        let mut parts = message.split('…').map(words).filter(|part| !part.is_empty());
        parts.all(|part| sources.iter().any(|text| text.contains(&part)))
    };
    let unknown: Vec<_> =
        messages.iter().filter(|message| !exists(message)).map(|message| (*message).to_owned()).collect();
    report("docs/operations.md quotes a log message that no source contains", &unknown);
}

/// Returns a text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn alerts_ignore_the_models_of_organizations() {
    let rules = std::fs::read_to_string(root().join("deploy/observability/alerts.yaml")).expect("the rules are read");
    let of_models: Vec<_> = rules.match_indices("folio_model_").map(|(at, _)| &rules[at..]).collect();
    assert!(of_models.len() >= 4, "{}", of_models.len());
    let without_tenant_filter = of_models.iter().filter(|rest| {
        let metric = rest.split('}').next().unwrap_or_default();
        let own = metric.split_once('{').filter(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        !own.is_some_and(|(_, labels)| labels.contains(r#"provider!="(tenants)""#))
    });
    let mut wrong: Vec<_> =
        without_tenant_filter.map(|rest| rest.lines().next().unwrap_or_default().to_owned()).collect();
    wrong.extend(rules.lines().filter(|line| counts_failures_of_tenants(line)).map(|line| line.trim().to_owned()));
    report("an alert counts failures of endpoints that organizations configured", &wrong);
}

/// Returns true if a rule counts calls or turns that fail because the endpoint of an organization fails.
fn counts_failures_of_tenants(line: &str) -> bool {
    let methods = ["RunExtraction", "DiscoverModels", "TestProvider"];
    let calls = line.contains(r#"status=~"UNAVAILABLE"#)
        && !line.split_once(r#"method!~""#).is_some_and(|(_, not)| methods.iter().all(|method| not.contains(method)));
    let turns = line.contains(r#"outcome="failed""#)
        && !line.contains(r#"error!~"SPU_EXHAUSTED|QUOTA_EXCEEDED|BUDGET_EXHAUSTED|MODEL_.*""#);
    calls || turns
}

#[test]
fn dashboards_are_json_and_rules_are_complete() {
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a file is read");
        if file.extension().is_some_and(|extension| extension == "json") {
            let board: serde_json::Value = serde_json::from_str(&text).expect("a dashboard is JSON");
            assert!(board["panels"].as_array().is_some_and(|panels| panels.len() >= 4), "{}", file.display());
        } else {
            let count = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
            let alerts = count("- alert:");
            assert!(alerts > 10);
            assert_eq!([count("expr:"), count("labels:"), count("summary:")], [alerts; 3]);
        }
    }
}
