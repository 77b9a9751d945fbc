//! Tests of the index of open turns with a simulated clock: what a sweep reads, and what moves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use folio_history::thread::{Append, Appended, Fence, NewThread, OpenTurnRow};
use folio_storage::{OpenTurnStore, Stores};
use folio_storage_cql::{CqlStore, Options};
use folio_testkit::{Simulated, wait_for};
use folio_types::{
    Environment, Error, Incarnation, OrgId, Principal, Reason, Result, Role, System, ThreadId, Timestamp, TurnId,
    UserId,
};
use futures::StreamExt as _;

use crate::migrations::drop_keyspace;
use crate::{nonce, open_shared_stores, options};

/// Default number of turns before the first measurement, and between it and the second one. `FOLIO_OPEN_TURNS=20000`
/// measures after 20,000 and 40,000 turns.
const TURNS: usize = 300;
/// Simulated time in which these turns begin and end.
const SPAN: Duration = Duration::from_secs(300);
/// Simulated time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Number of turns that stay open all the time.
const WAITING: usize = 3;
/// Maximum number of tombstones of a read, which is the number at which Cassandra logs a warning.
const TOMBSTONES_MAX: u64 = 1_000;

struct Index {
    stores: Stores,
    environment: Arc<Simulated>,
    org: OrgId,
}

impl Index {
    /// Opens a turn on a new thread, as the owner of the thread does. Returns its row.
    async fn open(&self, name: String) -> OpenTurnRow {
        let at = self.environment.now();
        let (new, append) = opening(&self.org, &name, at);
        let row = append.opens.clone().unwrap();
        let done = self.stores.threads.begin(new, append).await.unwrap();
        assert!(matches!(done, Appended::Done(_)), "{done:?}");
        row
    }

    /// Opens and ends turns, with a sweep in each interval.
    async fn run(&self, turns: usize) {
        let sweeps = usize::try_from(SPAN.as_secs() / SWEEP_INTERVAL.as_secs()).unwrap();
        for _ in 0..sweeps {
            let opened = futures::stream::iter(0..turns / sweeps).map(|_| self.open(nonce())).buffer_unordered(16);
            let opened: Vec<_> = opened.collect().await;
            self.environment.advance(SWEEP_INTERVAL);
            self.stores.open_turns.remove(&opened).await.unwrap();
            sweep(&*self.stores.open_turns).await.unwrap();
        }
    }
}

/// Returns a new thread and its first append, which opens a turn.
fn opening(org: &OrgId, name: &str, at: Timestamp) -> (NewThread, Append) {
    let principal = Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member);
    let id = ThreadId::derive(&[org.as_str(), name]);
    let until = at + Duration::from_secs(40 * 24 * 3_600);
    let row = OpenTurnRow { org: org.clone(), turn: TurnId::new(id.clone(), 1), epoch: 1, at, until };
    let new = NewThread::new(id, &principal, "document", Vec::new(), at);
    let append = Append::new(1, Fence { epoch: 0, version: 0 }, at);
    (new, Append { opens: Some(row), new_owner: Some((1, Incarnation::derive(&["owner"]))), ..append })
}

/// Reads the whole index in pages and compacts it, as the sweep of a node does. Returns the turns.
async fn sweep(index: &dyn OpenTurnStore) -> Result<BTreeSet<String>> {
    let (mut turns, mut after) = (BTreeSet::new(), None);
    loop {
        let rows = index.scan(after.as_ref(), 256).await?;
        let Some(last) = rows.last().cloned() else { break };
        turns.extend(rows.into_iter().map(|row| row.turn.to_string()));
        after = Some(last);
    }
    index.compact().await?;
    Ok(turns)
}

#[tokio::test]
async fn a_sweep_reads_as_many_tombstones_after_twice_as_many_turns() {
    let turns = std::env::var("FOLIO_OPEN_TURNS").ok().map_or(TURNS, |text| text.parse().unwrap());
    let session = drop_keyspace("folio_open_turns").await;
    let (environment, org) = (Arc::new(Simulated::new(1)), OrgId::derive(&[&nonce()]));
    let options = Options { environment: Arc::clone(&environment) as _, ..options("folio_open_turns").await };
    let cql = CqlStore::open(options).await.unwrap();
    let blobs = open_shared_stores().await;
    let index = Index { stores: cql.stores(blobs.stores.blobs.clone()), environment, org };
    let mut waiting = BTreeSet::new();
    for number in 0..WAITING {
        waiting.insert(index.open(format!("waiting {number}")).await.turn.to_string());
    }
    let mut totals = Vec::new();
    for part in 1..=2 {
        index.run(turns).await;
        // A loaded server loses traces.
        let counts = wait_for("complete traces", Duration::from_secs(120), || async {
            cql.tombstones(sweep(&*index.stores.open_turns)).await.unwrap()
        })
        .await;
        let (most, total) = (counts.iter().copied().max().unwrap_or(0), counts.iter().sum::<u64>());
        println!("after {} turns: {} reads, {total} tombstones, at most {most} in a read", part * turns, counts.len());
        assert!(most < TOMBSTONES_MAX, "{counts:?}");
        totals.push(total);
    }
    assert!(totals[0] > 0, "the traces contain no tombstone");
    assert!(totals[1] <= totals[0] + totals[0] / 10, "{totals:?}");
    let found = sweep(&*index.stores.open_turns).await.unwrap();
    assert_eq!(found, waiting, "turns that stay open for longer than a bucket is read");
    // No process ran for a month.
    index.environment.advance(Duration::from_secs(30 * 24 * 3_600));
    for _ in 0..2 {
        assert_eq!(sweep(&*index.stores.open_turns).await.unwrap(), waiting);
    }
    session.query_unpaged("DROP KEYSPACE folio_open_turns", ()).await.unwrap();
}

/// A clock on which a minute passes between two readings.
#[derive(Debug)]
struct Hurried(Simulated);

impl Environment for Hurried {
    fn now(&self) -> Timestamp {
        self.0.advance(Duration::from_secs(60));
        self.0.now()
    }

    fn random(&self) -> u128 {
        self.0.random()
    }
}

#[tokio::test]
async fn a_turn_is_not_accepted_if_its_row_is_acknowledged_after_its_bucket_may_have_been_read() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let hurried = Arc::new(Hurried(Simulated::new(1)));
    let (new, append) = opening(&org, "late", hurried.now());
    let hurried = Options { environment: hurried, ..options("folio_suites").await };
    let stores = CqlStore::open(hurried).await.unwrap().stores(opened.stores.blobs.clone());
    let refused = stores.threads.begin(new.clone(), append.clone()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::StoreUnavailable);
    assert_eq!(opened.stores.threads.header(&org, &new.id).await.unwrap(), None);
    assert!(matches!(opened.stores.threads.begin(new, append).await.unwrap(), Appended::Done(_)));
    opened.stores.erasure.erase(&[org].into()).await.unwrap();
}

const MONTH: Duration = Duration::from_secs(31 * 24 * 3_600);

/// A clock that is a month ahead.
#[derive(Debug)]
struct Ahead {
    is_detected: bool,
}

impl Environment for Ahead {
    fn now(&self) -> Timestamp {
        System.now() + MONTH
    }

    fn random(&self) -> u128 {
        System.random()
    }

    fn checked_now(&self) -> Result<Timestamp> {
        let error = || Error::unavailable(Reason::StoreUnavailable, "the clock is wrong");
        if self.is_detected { Err(error()) } else { Ok(self.now()) }
    }
}

#[tokio::test]
async fn a_process_with_a_wrong_clock_puts_no_row_into_a_bucket_of_the_future() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let mut stores = Vec::new();
    for is_detected in [true, false] {
        let environment = Arc::new(Ahead { is_detected });
        let cql = CqlStore::open(Options { environment, ..options("folio_suites").await }).await.unwrap();
        stores.push(cql.stores(opened.stores.blobs.clone()));
    }
    let [wrong, later] = &stores[..] else { panic!("two stores are open") };
    let (new, append) = opening(&org, "ahead", System.now());
    let refused = wrong.threads.begin(new, append).await.unwrap_err();
    assert_eq!(refused.reason, Reason::StoreUnavailable);
    let rows = later.open_turns.scan(None, 10_000).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.org == org).count(), 0);
}

/// A clock of which one reading is a month ahead.
#[derive(Debug, Default)]
struct Jumping {
    /// The number of readings before that one. Negative: it is past.
    until: AtomicI64,
}

impl Environment for Jumping {
    fn now(&self) -> Timestamp {
        let is_ahead = self.until.fetch_sub(1, Ordering::Relaxed) == 0;
        System.now() + if is_ahead { MONTH } else { Duration::ZERO }
    }

    fn random(&self) -> u128 {
        System.random()
    }

    fn checked_now(&self) -> Result<Timestamp> {
        let read = self.now();
        let is_right = read < System.now() + MONTH / 2;
        let error = || Error::unavailable(Reason::StoreUnavailable, "the clock is wrong");
        is_right.then_some(read).ok_or_else(error)
    }
}

#[tokio::test]
async fn a_clock_that_jumps_for_a_moment_hides_no_open_turn_from_the_sweep() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let jumping = Arc::new(Jumping { until: AtomicI64::new(-1) });
    let environment = Arc::<Jumping>::clone(&jumping);
    let cql = CqlStore::open(Options { environment, ..options("folio_suites").await }).await.unwrap();
    let stores = cql.stores(opened.stores.blobs.clone());
    let (mut accepted, mut refused) = (BTreeSet::new(), 0);
    for readings in 0..8 {
        jumping.until.store(readings, Ordering::Relaxed);
        let (new, append) = opening(&org, &format!("jump {readings}"), System.now());
        match stores.threads.begin(new.clone(), append).await {
            Ok(Appended::Done(_)) => drop(accepted.insert(new.id)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.reason, Reason::StoreUnavailable);
                refused += 1;
            }
        }
    }
    jumping.until.store(-1, Ordering::Relaxed);
    let (new, append) = opening(&org, "planned ahead", System.now() + MONTH);
    assert!(matches!(stores.threads.begin(new.clone(), append).await.unwrap(), Appended::Done(_)));
    accepted.insert(new.id);
    assert!(refused > 0, "the clock was read");
    let rows = opened.stores.open_turns.scan(None, 10_000).await.unwrap();
    let found: BTreeSet<_> = rows.into_iter().filter(|row| row.org == org).map(|row| row.turn.thread).collect();
    assert!(accepted.is_subset(&found), "{accepted:?} {found:?}");
    opened.stores.erasure.erase(&[org].into()).await.unwrap();
}
