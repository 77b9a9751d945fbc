//! An upgrade and a soak test with a short duration. `cargo xtask upgrade` and `cargo xtask soak` run the same programs
//! longer, and with another version.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Mutex;

use folio_tests::harness::process::{binary, run_timed};

/// Minimum number of approvals between two replacements.
const APPROVALS: usize = 4;
/// Duration of the soak test: 22 seconds. Its samples show no steady state, so growth does not matter.
const HOURS: &str = "0.006";

/// The programs run one after another, because each starts a cluster.
static MACHINE: Mutex<()> = Mutex::new(());

/// Runs a program on the CQL server of this test run. Returns its output and the numbers in its last line by name.
fn run(program: &str, arguments: &[&str]) -> (Output, BTreeMap<String, f64>) {
    let _machine = MACHINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let cql = folio_test_servers::cql().expect("a CQL server");
    let mut command = Command::new(binary(program));
    let output = run_timed(command.args(arguments).env(folio_test_servers::CQL, cql));
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

/// Returns the lines with the error of a cycle or of the program.
fn errors(output: &Output) -> String {
    let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    let is_error = |line: &&str| ["cycle ", "Error: ", "thread "].iter().any(|start| line.starts_with(start));
    printed.lines().filter(is_error).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_short_soak_test_has_no_error_samples_every_series_and_exceeds_no_bound() {
    let (output, numbers) = run("soak", &["--hours", HOURS]);
    assert_eq!(numbers.get("errors"), Some(&0.0), "{}", errors(&output));
    assert!(["cycles", "turns", "approvals", "samples"].iter().all(|name| numbers[*name] > 1.0), "{numbers:?}");
    // The bounds of keys, rows and partitions apply to a run of any duration; growth needs an hour.
    for name in ["series without samples", "exceeded bounds"] {
        assert_eq!(numbers.get(name), Some(&0.0), "{name}: {numbers:?}");
    }
    assert_eq!(output.status.success(), numbers["violations"] == 0.0, "{}", output.status);
}
