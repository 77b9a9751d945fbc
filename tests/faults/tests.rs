//! Random faults with a short duration. `cargo xtask chaos` runs the same program longer.

use std::process::Command;

use folio_tests::harness::process::binary;

/// Minimum numbers of the short run. They take less than a minute on two idle cores.
const FAULTS: usize = 12;
const APPROVALS: usize = 120;

/// `cargo xtask outage` stops one of three servers, for longer and with more approvals.
#[test]
fn invariant_3_every_approved_write_is_made_although_the_cql_server_stops() {
    let seed = folio_testkit::seed().to_string();
    let output = Command::new(binary("outage"))
        .args(["--seed", &seed, "--cql-nodes", "1", "--suspend", "8", "--approvals", "60"])
        .output()
        .expect("the program starts");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn random_faults_violate_no_invariant() {
    let seed = folio_testkit::seed().to_string();
    let output = Command::new(binary("chaos"))
        .args(["--seed", &seed, "--faults", &FAULTS.to_string(), "--approvals", &APPROVALS.to_string()])
        .output()
        .expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let last = printed.lines().last().expect("a last line");
    let numbers: Vec<usize> = last
        .split(", ")
        .filter_map(|part| part.split(' ').next_back().and_then(|number| number.parse().ok()))
        .collect();
    let [turns, approvals, faults, violations] = numbers[..] else { panic!("{last:?}") };
    assert!(turns > 0 && approvals >= APPROVALS && faults >= FAULTS && violations == 0, "{last:?}");
}
