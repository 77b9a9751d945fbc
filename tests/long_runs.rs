//! An upgrade with a short duration. `cargo xtask upgrade` runs the same program longer, and with another version.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use folio_tests::harness::process::binary;

/// Minimum number of approvals between two replacements.
const APPROVALS: usize = 4;

/// Runs a program on the CQL server of this test run. Returns its output and the numbers in its last line by name.
fn run(program: &str, arguments: &[&str]) -> (Output, BTreeMap<String, f64>) {
    let cql = folio_test_servers::cql().expect("a CQL server");
    let mut command = Command::new(binary(program));
    let output = command.args(arguments).env(folio_test_servers::CQL, cql).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    let last = printed.lines().last().unwrap_or_default();
    let numbers = last.split(", ").filter_map(|part| {
        let (name, number) = part.rsplit_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    (output, numbers.collect())
}

#[test]
fn processes_of_two_versions_are_replaced_under_traffic_without_a_violation() {
    let (seed, old) = (folio_testkit::seed().to_string(), binary("folio").display().to_string());
    let arguments = ["--seed", &seed, "--old", &old, "--approvals", &APPROVALS.to_string()];
    let (output, numbers) = run("upgrade", &arguments);
    assert!(output.status.success(), "{}", output.status);
    assert!(numbers["turns"] > 0.0 && numbers["approvals"] >= APPROVALS as f64, "{numbers:?}");
    assert_eq!((numbers["processes replaced"], numbers["violations"]), (8.0, 0.0), "{numbers:?}");
}
