use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_resources::policy::Policy;
use folio_resources::{OwnQuotas, TagRuns};
use folio_testkit::{Simulated, wait_for};
use folio_types::{Code, Error, IngestionMode, Reason, Timestamp};

use super::*;
use folio_storage::SharedOptions;
use folio_storage_embedded::{EmbeddedStore, Options};

const SOON: Duration = Duration::from_secs(20);

/// Processes with one shared store and a simulated clock.
struct Processes {
    quotas: QuotaCache,
    clock: Arc<Simulated>,
    shared: Arc<CountingSlotStore>,
    org: OrgId,
    _folder: tempfile::TempDir,
}

/// Counts the calls to the store. Every call fails while `is_unavailable` is true.
struct CountingSlotStore {
    inner: Arc<dyn SlotStore>,
    calls: AtomicUsize,
    is_unavailable: Mutex<bool>,
}

impl CountingSlotStore {
    fn count(&self) -> Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match *self.is_unavailable.lock().unwrap() {
            true => Err(Error::unavailable(Reason::StoreUnavailable, "unavailable")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SlotStore for CountingSlotStore {
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool> {
        self.count()?;
        self.inner.take(org, kind, slot, limit).await
    }

    async fn sync(&self, org: &OrgId, kind: &str, renewed: &[String], freed: &[String]) -> Result<()> {
        self.count()?;
        self.inner.sync(org, kind, renewed, freed).await
    }

    fn lease(&self) -> Duration {
        self.inner.lease()
    }
}

impl Processes {
    fn new(turns: u32, slot_lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = EmbeddedStore::open(Options::at(folder.path())).unwrap().stores();
        let quotas = QuotaCache::new(stores.of(), Quotas { concurrent_turns: turns, ..Quotas::default() });
        let clock = Arc::new(Simulated::new(folio_testkit::seed()));
        let options = SharedOptions { slot_lease, ..SharedOptions::default() };
        let inner = folio_storage_memory::shared_stores(clock.clone(), options).slots;
        let shared =
            Arc::new(CountingSlotStore { inner, calls: AtomicUsize::default(), is_unavailable: Mutex::default() });
        Self { quotas, clock, shared, org: OrgId::derive(&["a"]), _folder: folder }
    }

    fn start(&self) -> Slots {
        Slots::of_turns(self.quotas.clone(), self.shared.clone())
    }

    async fn takes(&self, slots: &Slots, name: &str) -> Slot {
        wait_for("a slot to be free", SOON, || async { slots.take(&self.org, name).await.ok() }).await
    }
}

fn assert_quota_exceeded(taken: Result<Slot>) {
    let error = taken.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::QuotaExceeded));
    assert_eq!((error.details["quota"].as_str(), error.details["limit"].as_str()), ("concurrent_turns", "2"));
    assert!(error.retry_after.is_some());
}

#[tokio::test]
async fn all_processes_share_a_limit_and_organizations_do_not() {
    let all = Processes::new(2, Duration::from_secs(60));
    let [one, other] = [all.start(), all.start()];
    let taken = [one.take(&all.org, "1").await.unwrap(), other.take(&all.org, "2").await.unwrap()];
    assert_quota_exceeded(one.take(&all.org, "3").await);
    assert_quota_exceeded(other.take(&all.org, "3").await);
    let _theirs = one.take(&OrgId::derive(&["b"]), "3").await.unwrap();
    drop(taken);
    let _again = [all.takes(&other, "3").await, all.takes(&other, "4").await];
    assert_quota_exceeded(one.take(&all.org, "5").await);
}

#[tokio::test]
async fn quotas_that_the_caller_just_read_apply_to_the_next_slot() {
    let all = Processes::new(2, Duration::from_secs(60));
    let slots = all.start();
    let with = |concurrent_turns| Organization {
        id: all.org.clone(),
        name: "a".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
        version: 1,
        policy: Policy::default(),
        approval_ttl_seconds: None,
        thread_retention_days: None,
        tag_runs: TagRuns::default(),
        auto_create: false,
        ingestion: IngestionMode::default(),
        quotas: OwnQuotas { concurrent_turns, ..OwnQuotas::default() },
    };
    let _one = slots.take(&all.org, "1").await.unwrap();
    slots.cache_quotas(&all.org, Some(&with(Some(1)))).await;
    let refused = slots.take(&all.org, "2").await.unwrap_err();
    assert_eq!((refused.reason, refused.details["limit"].as_str()), (Reason::QuotaExceeded, "1"));
    slots.cache_quotas(&all.org, Some(&with(None))).await;
    let _two = slots.take(&all.org, "2").await.unwrap();
    slots.cache_quotas(&all.org, None).await;
    assert_quota_exceeded(slots.take(&all.org, "3").await);
}

#[tokio::test]
async fn a_freed_slot_is_available_in_its_process_at_once() {
    let all = Processes::new(2, Duration::from_secs(60));
    let slots = all.start();
    let mut taken = vec![slots.take(&all.org, "a").await.unwrap(), slots.take(&all.org, "b").await.unwrap()];
    for name in 0..50 {
        drop(taken.remove(0));
        taken.push(slots.take(&all.org, &name.to_string()).await.unwrap());
    }
}

#[tokio::test]
async fn a_joined_slot_ignores_the_quota_and_counts_once_in_all_processes() {
    let all = Processes::new(2, Duration::from_secs(60));
    let [one, other] = [all.start(), all.start()];
    let taken = one.take(&all.org, "1").await.unwrap();
    // Another process takes over the turn before the first one frees the slot.
    let _over = other.join(&all.org, "1");
    let second = one.take(&all.org, "2").await.unwrap();
    let _beyond = [other.join(&all.org, "3"), other.join(&all.org, "4")];
    drop(second);
    drop(taken);
    wait_for("only the joined slots are taken", SOON, || async {
        let probe = |limit| all.shared.inner.take(&all.org, "concurrent_turns", "probe", limit);
        let taken = !probe(3).await.unwrap() && probe(4).await.unwrap();
        all.shared.inner.sync(&all.org, "concurrent_turns", &[], &["probe".to_owned()]).await.unwrap();
        taken.then_some(())
    })
    .await;
    assert_quota_exceeded(one.take(&all.org, "5").await);
}

#[tokio::test]
async fn an_organization_without_a_quota_causes_no_calls_to_the_store() {
    let all = Processes::new(0, Duration::from_secs(60));
    let slots = all.start();
    let mut taken = Vec::new();
    for name in 0..100 {
        taken.push(slots.take(&all.org, &name.to_string()).await.unwrap());
    }
    taken.push(slots.join(&all.org, "joined"));
    drop(taken);
    wait_for("all changes are synced", SOON, || async { slots.0.local().is_empty().then_some(()) }).await;
    assert_eq!(all.shared.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn leases_are_renewed_and_those_of_a_dead_process_expire() {
    // Leases are renewed in real time every few milliseconds. They expire by the simulated clock.
    let all = Processes::new(2, Duration::from_millis(30));
    let slots = all.start();
    let _taken = slots.take(&all.org, "taken").await.unwrap();
    assert!(all.shared.inner.take(&all.org, "concurrent_turns", "of a dead process", 2).await.unwrap());
    assert_quota_exceeded(slots.take(&all.org, "more").await);
    all.clock.advance(Duration::from_millis(29));
    let renewed = all.shared.calls.load(Ordering::SeqCst) + 2;
    wait_for("leases are renewed", SOON, || async {
        (all.shared.calls.load(Ordering::SeqCst) >= renewed).then_some(())
    })
    .await;
    all.clock.advance(Duration::from_millis(1));
    let _more = slots.take(&all.org, "more").await.unwrap();
    assert_quota_exceeded(slots.take(&all.org, "one more").await);
}

#[tokio::test]
async fn without_the_shared_store_each_process_counts_its_own_slots() {
    let all = Processes::new(2, Duration::from_secs(60));
    *all.shared.is_unavailable.lock().unwrap() = true;
    let [one, other] = [all.start(), all.start()];
    let _taken = [one.take(&all.org, "1").await.unwrap(), one.take(&all.org, "2").await.unwrap()];
    assert_quota_exceeded(one.take(&all.org, "3").await);
    let _separate = other.take(&all.org, "3").await.unwrap();
}
