use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_testkit::{Simulated, wait_for};
use folio_types::{Code, Error, Reason};

use super::*;
use folio_storage::SharedOptions;
use folio_storage_embedded::{EmbeddedStore, Options};

const SOON: Duration = Duration::from_secs(20);

/// Processes with one shared store, and a clock that a test moves.
struct Processes {
    quotas: KnownQuotas,
    clock: Arc<Simulated>,
    shared: Arc<Counted>,
    org: OrgId,
    _folder: tempfile::TempDir,
}

/// Counts what the store is asked, which is away at times.
struct Counted {
    inner: Arc<dyn SlotStore>,
    asked: AtomicUsize,
    away: Mutex<bool>,
}

impl Counted {
    fn ask(&self) -> Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match *self.away.lock().unwrap() {
            true => Err(Error::unavailable(Reason::StoreUnavailable, "away")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SlotStore for Counted {
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, most: u32) -> Result<bool> {
        self.ask()?;
        self.inner.take(org, kind, slot, most).await
    }

    async fn tell(&self, org: &OrgId, kind: &str, held: &[String], freed: &[String]) -> Result<()> {
        self.ask()?;
        self.inner.tell(org, kind, held, freed).await
    }

    fn lease(&self) -> Duration {
        self.inner.lease()
    }
}

impl Processes {
    /// An organization may have `turns` at once.
    fn new(turns: u32, slot_lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = EmbeddedStore::open(Options::at(folder.path())).unwrap().stores();
        let quotas = KnownQuotas::new(stores.of(), Quotas { concurrent_turns: turns, ..Quotas::default() });
        let clock = Arc::new(Simulated::new(folio_testkit::seed()));
        let options = SharedOptions { slot_lease, ..SharedOptions::default() };
        let inner = folio_storage_memory::shared_stores(clock.clone(), options).slots;
        let shared = Arc::new(Counted { inner, asked: AtomicUsize::default(), away: Mutex::default() });
        Self { quotas, clock, shared, org: OrgId::derive(&["a"]), _folder: folder }
    }

    fn start(&self) -> Slots {
        Slots::of_turns(self.quotas.clone(), self.shared.clone())
    }

    async fn takes(&self, slots: &Slots, name: &str) -> Slot {
        wait_for("a slot is free", SOON, || async { slots.take(&self.org, name).await.ok() }).await
    }
}

fn over(taken: Result<Slot>) {
    let error = taken.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::QuotaExceeded));
    assert_eq!((error.details["quota"].as_str(), error.details["limit"].as_str()), ("concurrent_turns", "2"));
    assert!(error.retry_after.is_some());
}

#[tokio::test]
async fn processes_count_together_and_each_organization_for_itself() {
    let all = Processes::new(2, Duration::from_secs(60));
    let [one, other] = [all.start(), all.start()];
    let held = [one.take(&all.org, "1").await.unwrap(), other.take(&all.org, "2").await.unwrap()];
    over(one.take(&all.org, "3").await);
    over(other.take(&all.org, "3").await);
    let _theirs = one.take(&OrgId::derive(&["b"]), "3").await.unwrap();
    drop(held);
    let _again = [all.takes(&other, "3").await, all.takes(&other, "4").await];
    over(one.take(&all.org, "5").await);
}

#[tokio::test]
async fn what_ended_here_makes_room_here_at_once() {
    let all = Processes::new(2, Duration::from_secs(60));
    let slots = all.start();
    let mut held = vec![slots.take(&all.org, "a").await.unwrap(), slots.take(&all.org, "b").await.unwrap()];
    for name in 0..50 {
        drop(held.remove(0));
        held.push(slots.take(&all.org, &name.to_string()).await.unwrap());
    }
}

#[tokio::test]
async fn what_goes_on_counts_beyond_the_quota_and_once_wherever_it_is() {
    let all = Processes::new(2, Duration::from_secs(60));
    let [one, other] = [all.start(), all.start()];
    let held = one.take(&all.org, "1").await.unwrap();
    // It is taken over before its old process gave it back.
    let _over = other.join(&all.org, "1");
    let second = one.take(&all.org, "2").await.unwrap();
    let _beyond = [other.join(&all.org, "3"), other.join(&all.org, "4")];
    drop(second);
    drop(held);
    wait_for("only what goes on there is held", SOON, || async {
        let probe = |most| all.shared.inner.take(&all.org, "concurrent_turns", "probe", most);
        let held = !probe(3).await.unwrap() && probe(4).await.unwrap();
        all.shared.inner.tell(&all.org, "concurrent_turns", &[], &["probe".to_owned()]).await.unwrap();
        held.then_some(())
    })
    .await;
    over(one.take(&all.org, "5").await);
}

#[tokio::test]
async fn an_organization_without_a_quota_costs_the_shared_store_nothing() {
    let all = Processes::new(0, Duration::from_secs(60));
    let slots = all.start();
    let mut held = Vec::new();
    for name in 0..100 {
        held.push(slots.take(&all.org, &name.to_string()).await.unwrap());
    }
    held.push(slots.join(&all.org, "joined"));
    drop(held);
    wait_for("all is told that is to be", SOON, || async { slots.0.here().is_empty().then_some(()) }).await;
    assert_eq!(all.shared.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn leases_are_renewed_and_those_of_a_dead_process_end() {
    // Renewed in earnest every few milliseconds, while the clock by which leases end stands still unless it is moved.
    let all = Processes::new(2, Duration::from_millis(30));
    let slots = all.start();
    let _held = slots.take(&all.org, "held").await.unwrap();
    assert!(all.shared.inner.take(&all.org, "concurrent_turns", "of a dead process", 2).await.unwrap());
    over(slots.take(&all.org, "more").await);
    all.clock.advance(Duration::from_millis(29));
    let renewed = all.shared.asked.load(Ordering::SeqCst) + 2;
    wait_for("leases are renewed", SOON, || async {
        (all.shared.asked.load(Ordering::SeqCst) >= renewed).then_some(())
    })
    .await;
    all.clock.advance(Duration::from_millis(1));
    let _more = slots.take(&all.org, "more").await.unwrap();
    over(slots.take(&all.org, "one more").await);
}

#[tokio::test]
async fn without_the_shared_store_each_process_counts_its_own() {
    let all = Processes::new(2, Duration::from_secs(60));
    *all.shared.away.lock().unwrap() = true;
    let [one, other] = [all.start(), all.start()];
    let _held = [one.take(&all.org, "1").await.unwrap(), one.take(&all.org, "2").await.unwrap()];
    over(one.take(&all.org, "3").await);
    let _there = other.take(&all.org, "3").await.unwrap();
}
