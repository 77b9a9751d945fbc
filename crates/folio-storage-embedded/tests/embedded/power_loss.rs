//! Loss of power: acknowledged writes survive, and every write is complete or absent, for the files that a loss of power
//! leaves at each sync of a recorded process and at random points. A deletion of a thread, which takes several writes, is
//! complete after the sweep.
//!
//! `FOLIO_POWER_POINTS` sets the number of random points, `FOLIO_POWER_BULK` the number of large writes of the process.

mod image;
mod recorder;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use folio_storage::{ConditionalRow, Stores};
use folio_storage_conformance::{STEPS, step};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::OrgId;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::crash::dump;
use image::write_image;
use recorder::{ACKNOWLEDGED, Change, record};

const FOLDER: &str = "FOLIO_POWER_FOLDER";
const FAULT: &str = "FOLIO_POWER_FAULT";
/// Size from which a memtable is flushed, in bytes: so small that the large writes cause flushes and compactions.
const MEMTABLE_BYTES: u64 = 64 * 1024;
/// Number of rows that the large writes overwrite in turn.
const BULK_ROWS: usize = 8;
const BULK_BYTES: usize = 20 * 1024;
/// Number of images that are checked concurrently.
const CONCURRENCY: usize = 4;

fn variable(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn steps() -> usize {
    STEPS + variable("FOLIO_POWER_BULK", 40)
}

fn options(folder: &Path) -> Options {
    Options { memtable_bytes: MEMTABLE_BYTES, ..Options::at(folder) }
}

/// Executes one atomic write: a step of the scenario or, after these, a large write.
async fn run_step(stores: &Stores, number: usize) {
    let Some(bulk) = number.checked_sub(STEPS) else { return step(stores, number).await.unwrap() };
    let value = |bulk: usize| {
        let mut random = StdRng::seed_from_u64(bulk as u64);
        let digits: String = (0..BULK_BYTES).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        digits.into_bytes()
    };
    let row = ConditionalRow {
        group: "bulk".to_owned(),
        key: (bulk % BULK_ROWS).to_string(),
        before: bulk.checked_sub(BULK_ROWS).map(value),
        after: value(bulk),
        guard: None,
    };
    assert!(stores.rows.compare_and_set(&OrgId::derive(&["bulk"]), row).await.unwrap());
}

/// The process that is recorded: executes the steps, acknowledges each, and reopens the store in the middle. Without the
/// variables of the tests it passes.
#[test]
fn recorded_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let acknowledges_early = std::env::var_os(FAULT).is_some();
    let acknowledge = |number: usize| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{ACKNOWLEDGED}{number}").and_then(|()| out.flush()).unwrap();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for part in [0..steps() / 2, steps() / 2..steps()] {
            let store = EmbeddedStore::open(options(&Path::new(&folder).join("data"))).unwrap();
            let stores = store.stores();
            for number in part {
                if acknowledges_early {
                    acknowledge(number + 1);
                }
                run_step(&stores, number).await;
                if !acknowledges_early {
                    acknowledge(number + 1);
                }
            }
            drop(stores);
            store.close().await;
        }
    });
}

/// The states of the store after each number of steps.
struct Expected {
    /// Digests of all rows and blobs.
    states: Vec<u64>,
    /// For each number of steps, the number of steps that survive at least: steps without an fsync may be lost.
    durable: Vec<usize>,
}

async fn state(store: &EmbeddedStore) -> u64 {
    let mut hasher = DefaultHasher::new();
    dump(store).await.hash(&mut hasher);
    hasher.finish()
}

impl Expected {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(options(folder.path())).unwrap();
        let stores = store.stores();
        let mut expected = Self { states: vec![state(&store).await], durable: vec![0] };
        for number in 0..steps() {
            let (commits, rows) = (store.commits(), store.everything().unwrap());
            run_step(&stores, number).await;
            // A step that changes no row stores a blob, which is a file that is synced by itself.
            let is_durable = store.commits() > commits || rows == store.everything().unwrap();
            let durable = if is_durable { number + 1 } else { *expected.durable.last().unwrap() };
            expected.states.push(state(&store).await);
            expected.durable.push(durable);
        }
        drop(stores);
        store.close().await;
        expected
    }

    /// Opens the store that a loss of power after these changes leaves. Returns a description of a lost or torn write.
    async fn check(&self, changes: &[Change], random: Option<StdRng>) -> Result<(), String> {
        let acknowledged = changes.iter().rev().find_map(|change| match change {
            Change::Acknowledged(number) => Some(*number),
            _ => None,
        });
        let acknowledged = acknowledged.unwrap_or(0);
        let folder = tempfile::tempdir().unwrap();
        write_image(changes, folder.path(), random);
        let store = match EmbeddedStore::open(options(&folder.path().join("data"))) {
            Ok(store) => store,
            Err(error) => return Err(format!("after {acknowledged} acknowledged steps: {error}")),
        };
        let found = state(&store).await;
        store.close().await;
        let last = (acknowledged + 1).min(self.states.len() - 1);
        match self.states[self.durable[acknowledged]..=last].contains(&found) {
            true => Ok(()),
            false => {
                let state = self.states.iter().position(|state| *state == found);
                let state =
                    state.map_or("an unknown state".to_owned(), |steps| format!("the state after {steps} steps"));
                Err(format!("after {acknowledged} acknowledged steps the store has {state}"))
            }
        }
    }
}

fn recorded(has_fault: bool) -> Vec<Change> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["power_loss::recorded_process", "--exact", "--nocapture"]).env(FOLDER, folder.path());
    if has_fault {
        command.env(FAULT, "acknowledges early");
    }
    record(&mut command, folder.path())
}

/// Returns the lengths of the prefixes of the changes that end with a sync.
fn sync_points(changes: &[Change]) -> Vec<usize> {
    let is_sync = |(_, change): &(usize, &Change)| matches!(change, Change::Sync { .. });
    changes.iter().enumerate().filter(is_sync).map(|(number, _)| number + 1).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_of_power_at_any_sync_and_at_random_points_loses_nothing_acknowledged() {
    let expected = Expected::new().await;
    let changes = tokio::task::spawn_blocking(|| recorded(false)).await.unwrap();
    let count = |is: fn(&Change) -> bool| changes.iter().filter(|change| is(change)).count();
    assert_eq!(count(|change| matches!(change, Change::Acknowledged(_))), steps());
    // The large writes cause flushes and compactions, which create, rename and remove files.
    assert!(count(|change| matches!(change, Change::Rename { .. })) > 10);
    assert!(count(|change| matches!(change, Change::Remove(_))) > 10);
    let mut random = StdRng::seed_from_u64(folio_testkit::seed());
    let mut points: Vec<(usize, Option<StdRng>)> =
        sync_points(&changes).into_iter().map(|point| (point, None)).collect();
    let syncs = points.len();
    for _ in 0..variable("FOLIO_POWER_POINTS", 200) {
        points.push((random.random_range(0..=changes.len()), Some(StdRng::seed_from_u64(random.random()))));
    }
    println!("{} changes, {syncs} syncs, {} images", changes.len(), points.len());
    let checks = points.into_iter().map(|(point, random)| {
        let (expected, changes) = (&expected, &changes);
        async move {
            let kind = if random.is_some() { "at random" } else { "at a sync" };
            let checked = expected.check(&changes[..point], random).await;
            checked.map_err(|lost| format!("change {point} of {}, {kind}: {lost}", changes.len()))
        }
    });
    let failures: Vec<String> =
        stream::iter(checks).buffer_unordered(CONCURRENCY).filter_map(|done| async { done.err() }).collect().await;
    assert!(failures.is_empty(), "{} images:\n{}", failures.len(), failures.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_loss_test_catches_an_acknowledgement_before_the_sync() {
    let expected = Expected::new().await;
    let changes = tokio::task::spawn_blocking(|| recorded(true)).await.unwrap();
    let acknowledgements = changes.iter().enumerate().filter(|(_, change)| matches!(change, Change::Acknowledged(_)));
    let points = acknowledgements.map(|(number, _)| number + 1).take(5);
    let checks = stream::iter(points).then(|point| expected.check(&changes[..point], None));
    assert!(checks.try_collect::<Vec<()>>().await.is_err());
}
