//! `docs/protocol.md` names a test for each row of its tables, and every test that it names exists.

use std::collections::BTreeSet;

use crate::{report, root, sources};

fn document() -> String {
    std::fs::read_to_string(root().join("docs/protocol.md")).expect("docs/protocol.md is readable")
}

/// Returns the quoted test names in the last column of a row.
fn named(row: &str) -> Vec<&str> {
    let last = row.trim().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let quoted = last.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains('_') && !name.contains(['/', '.', ' '])).collect()
}

fn is_table_row(line: &str) -> bool {
    line.starts_with('|') && !line.starts_with("|-") && !line.contains("| test |")
}

#[test]
fn every_test_that_the_protocol_names_exists() {
    let sources = sources();
    let functions = sources.iter().flat_map(|(_, text)| text.split("fn ").skip(1));
    let functions = functions.filter_map(|rest| rest.split('(').next());
    // A suite is declared as `test_name: "suite name",`.
    let suites = sources.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| line.trim().split_once(": \""));
    let suites = suites.filter(|(_, suite)| suite.ends_with("\",")).map(|(name, _)| name);
    let tests: BTreeSet<&str> = functions.chain(suites).collect();
    let text = document();
    let rows = text.lines().filter(|line| is_table_row(line));
    let missing = rows.flat_map(named).filter(|name| !tests.contains(name)).map(str::to_owned);
    report("docs/protocol.md names a missing test", &missing.collect::<Vec<_>>());
}

#[test]
fn every_row_of_the_protocols_tables_names_a_test() {
    let text = document();
    let without = text.lines().filter(|line| is_table_row(line) && named(line).is_empty()).map(str::to_owned);
    report("a row of docs/protocol.md names no test", &without.collect::<Vec<_>>());
    assert!(text.lines().filter(|line| is_table_row(line)).count() > 30, "the tables are found");
}
