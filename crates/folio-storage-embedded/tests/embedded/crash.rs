//! Kills the process before or after any call of a store: acknowledged writes survive, and every write is complete or
//! absent. A deletion of a thread, which takes several writes, is complete after the sweep.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures::stream::{self, StreamExt as _};

use folio_storage::StoredBlob;
use folio_storage_conformance::faults::{Fault, decorate};
use folio_storage_conformance::{STEPS, crash_points_passed, step, with_crash_points};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::Timestamp;

const FOLDER: &str = "FOLIO_CRASH_FOLDER";
const FAULT: &str = "FOLIO_CRASH_FAULT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildFault {
    /// The process acknowledges a step before it executes the step.
    EarlyAcknowledgement,
    /// The process executes one step in two writes.
    TornStep,
}

/// Returns all rows and blobs, after the deletions of threads that were interrupted between two pages are complete.
pub(crate) async fn dump(store: &EmbeddedStore) -> String {
    let threads = store.stores().threads;
    // The rows of interrupted deletions have this time, threads that expire have later ones.
    for (org, thread) in threads.expired(Timestamp::UNIX_EPOCH, 10).await.unwrap() {
        threads.delete(&org, &thread, None).await.unwrap();
    }
    let (mut rows, blobs) = (store.everything().unwrap(), store.stores().blobs);
    let mut scan = blobs.scan();
    while let Some(blob) = scan.next().await {
        let StoredBlob { key, .. } = blob.unwrap();
        let (mut reader, mut bytes) = (blobs.open(&key).await.unwrap().unwrap(), Vec::new());
        while let Some(chunk) = reader.read().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        rows.push(format!("blob: {key:?} {bytes:?}"));
    }
    rows.join("\n")
}

/// Returns the state of the store after each number of steps.
async fn expected() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let stores = store.stores();
    let mut seen = vec![dump(&store).await];
    for number in 0..STEPS {
        step(&stores, number).await.unwrap();
        seen.push(dump(&store).await);
    }
    drop(stores);
    store.close().await;
    seen
}

/// The process that the tests kill executes the steps and reports each step. Without the variables of the tests it
/// passes.
#[tokio::test]
async fn crashing_child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store = EmbeddedStore::open(Options::at(folder)).unwrap();
    let fault = std::env::var(FAULT).unwrap_or_default();
    let is = |one: ChildFault| fault == format!("{one:?}");
    let mut stores = with_crash_points(&store.stores());
    if is(ChildFault::TornStep) {
        stores = decorate(&stores, Fault::BegunInTwoWrites);
    }
    for number in 0..STEPS {
        if is(ChildFault::EarlyAcknowledgement) {
            report(&format!("acknowledged {}", number + 1));
        }
        step(&stores, number).await.unwrap();
        report(&format!("acknowledged {}", number + 1));
    }
    drop(stores);
    store.close().await;
    report(&format!("crash points {}", crash_points_passed()));
}

fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

struct ChildProgress {
    acknowledged: usize,
    /// The number of crash points. None: the process was killed.
    crash_points: Option<u64>,
}

fn run_child(folder: &Path, crash_at: u64, fault: Option<ChildFault>) -> ChildProgress {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::crashing_child", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env("FOLIO_CRASH_AT", crash_at.to_string())
        .env(FAULT, fault.map(|fault| format!("{fault:?}")).unwrap_or_default())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut progress = ChildProgress { acknowledged: 0, crash_points: None };
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The test harness writes to the same lines.
        if let Some((_, number)) = line.split_once("acknowledged ") {
            progress.acknowledged = number.trim().parse().unwrap();
        } else if let Some((_, number)) = line.split_once("crash points ") {
            progress.crash_points = number.trim().parse().ok();
        }
    }
    child.wait().unwrap();
    progress
}

async fn killed_at(expected: &[String], crash_at: u64, fault: Option<ChildFault>) -> Result<ChildProgress, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let progress = tokio::task::spawn_blocking(move || run_child(&path, crash_at, fault)).await.unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let seen = dump(&store).await;
    store.close().await;
    let allowed = expected.iter().skip(progress.acknowledged).take(2);
    if allowed.into_iter().all(|state| *state != seen) {
        return Err(format!("killed at {crash_at} after {} acknowledged steps:\n{seen}", progress.acknowledged));
    }
    Ok(progress)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_3_a_kill_at_any_commit_step_loses_nothing_acknowledged_and_tears_nothing() {
    let expected = expected().await;
    let complete = killed_at(&expected, u64::MAX, None).await.unwrap();
    assert_eq!(complete.acknowledged, STEPS);
    let points = complete.crash_points.expect("the child that was not killed reported its crash points");
    assert!(points > 2 * STEPS as u64, "only {points} crash points");
    let kills = (1..=points).map(|crash_at| {
        let expected = &expected;
        async move { (crash_at, killed_at(expected, crash_at, None).await.unwrap()) }
    });
    let mut kills = stream::iter(kills).buffer_unordered(4);
    while let Some((crash_at, progress)) = kills.next().await {
        assert!(progress.crash_points.is_none(), "no child was killed at {crash_at} of {points}");
    }
}

/// A kill in the middle of a write truncates the journal at some byte. For every such byte the store must contain
/// complete steps only.
#[tokio::test]
async fn a_journal_truncated_at_any_byte_shows_complete_steps_only() {
    let expected: Vec<String> = expected().await.iter().map(|state| without_blob(state)).collect();
    let original = tempfile::tempdir().unwrap();
    run_child(original.path(), u64::MAX, None);
    let journal = std::fs::read(original.path().join("store/0.jnl")).unwrap();
    let written = journal.iter().rposition(|byte| *byte != 0).unwrap();
    let seed = folio_testkit::seed();
    let mut states = std::collections::BTreeSet::new();
    let parts = 16;
    for part in 0..parts {
        let width = written / parts;
        let cut = part * width + (seed.rotate_left(part as u32 * 5) >> 20) as usize % width;
        let folder = tempfile::tempdir().unwrap();
        copy_folder(&original.path().join("store"), &folder.path().join("store"));
        let file = std::fs::File::options().write(true).open(folder.path().join("store/0.jnl")).unwrap();
        file.set_len(cut as u64).unwrap();
        file.set_len(journal.len() as u64).unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let seen = without_blob(&dump(&store).await);
        store.close().await;
        let state = expected.iter().position(|state| *state == seen);
        states.insert(state.unwrap_or_else(|| panic!("cut at {cut} of {written}:\n{seen}")));
    }
    assert!(states.len() > 5, "only {states:?}");
}

/// Removes the blob, which is a file and is not in the journal.
fn without_blob(state: &str) -> String {
    state.lines().filter(|line| !line.starts_with("blob: ")).collect::<Vec<_>>().join("\n")
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, path) = entry.map(|entry| (entry.file_type().unwrap(), entry.path())).unwrap();
        let to = to.join(path.file_name().unwrap());
        if entry.is_dir() {
            copy_folder(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_crash_test_catches_a_torn_step_and_an_early_acknowledgement() {
    let expected = expected().await;
    for fault in [ChildFault::TornStep, ChildFault::EarlyAcknowledgement] {
        let mut caught = false;
        let points = killed_at(&expected, u64::MAX, Some(fault)).await.unwrap().crash_points.unwrap();
        // The torn step is one of the last steps.
        for crash_at in (1..=points).rev() {
            if killed_at(&expected, crash_at, Some(fault)).await.is_err() {
                caught = true;
                break;
            }
        }
        assert!(caught, "{fault:?} was not caught");
    }
}
