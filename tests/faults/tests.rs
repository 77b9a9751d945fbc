//! Short runs of the programs that inject random faults. `cargo xtask chaos`, `batch`, `stack`, `ingestions` and `outage` run them
//! longer.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use folio_tests::harness::process::{binary, run_timed};

/// Minimum numbers of faults and approvals of the short run, which takes less than a minute on two idle cores.
const FAULTS: usize = 12;
const APPROVALS: usize = 120;
/// Number of documents of the short batch, stack and ingestion, and the minimum number of faults during each.
const DOCUMENTS: usize = 20;
const BATCH_FAULTS: usize = 3;

/// The programs run one after another, because each needs the machine: with the load of another one, the reads of an outage do not
/// reach the bounds of a gateway before the CQL connections count as broken, two seconds after the stop.
static MACHINE: Mutex<()> = Mutex::new(());

/// Suspends a CQL server for 8 s during approvals. `cargo xtask outage` suspends the server longer, and also kills it.
fn outage(arguments: &[&str]) {
    let seed = folio_testkit::seed().to_string();
    let mut command = Command::new(binary("outage"));
    command.args(["--seed", &seed, "--suspend", "8", "--approvals", "60"]).args(arguments);
    let output = run_timed(&mut command);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn invariant_3_every_approved_write_is_made_although_the_cql_server_stops() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    outage(&["--cql-nodes", "1"]);
}

#[test]
fn invariant_3_no_turn_fails_while_one_of_three_cql_servers_is_stopped() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    outage(&["--cql-nodes", "3", "--overlapping", "3", "--migrations", "2"]);
}

#[test]
fn random_faults_violate_no_invariant() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = folio_testkit::seed().to_string();
    let mut command = Command::new(binary("chaos"));
    command.args(["--seed", &seed, "--faults", &FAULTS.to_string(), "--approvals", &APPROVALS.to_string()]);
    let output = run_timed(&mut command);
    let [turns, approvals, faults, violations] = numbers(&output);
    let is_complete = turns > 0 && approvals >= APPROVALS && faults >= FAULTS;
    assert!(
        is_complete && violations == 0,
        "{turns} turns, {approvals} approvals, {faults} faults, {violations} violations"
    );
}

#[test]
fn invariant_3_each_document_of_a_batch_under_random_faults_has_one_result() {
    batch(&[]);
}

#[test]
fn invariant_3_each_document_of_a_stack_under_random_faults_has_one_row_that_was_written_once() {
    batch(&["--stack"]);
}

fn batch(arguments: &[&str]) {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = folio_testkit::seed().to_string();
    let mut command = Command::new(binary("batch"));
    command.args(["--seed", &seed, "--documents", &DOCUMENTS.to_string(), "--faults", &BATCH_FAULTS.to_string()]);
    let output = run_timed(command.args(arguments));
    let [documents, results, faults, violations] = numbers(&output);
    assert_eq!((documents, results, violations), (DOCUMENTS, DOCUMENTS, 0));
    assert!(faults >= BATCH_FAULTS, "{faults} faults");
}

#[test]
fn invariant_3_each_document_of_an_ingestion_under_random_faults_has_one_generation_of_passages() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = folio_testkit::seed().to_string();
    let mut command = Command::new(binary("ingestions"));
    command.args(["--seed", &seed, "--documents", &DOCUMENTS.to_string(), "--faults", &BATCH_FAULTS.to_string()]);
    let output = run_timed(&mut command);
    let [documents, faults, violations] = numbers(&output);
    assert_eq!((documents, violations), (DOCUMENTS, 0));
    assert!(faults >= BATCH_FAULTS, "{faults} faults");
}

/// Returns the numbers in the last line that a program printed, such as `turns 12, approvals 120`. Fails if the program failed.
fn numbers<const N: usize>(output: &Output) -> [usize; N] {
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let last = printed.lines().last().expect("a last line");
    let numbers = last.split(", ").filter_map(|part| part.split(' ').next_back()?.parse().ok());
    numbers.collect::<Vec<usize>>().try_into().unwrap_or_else(|_| panic!("{last:?}"))
}
