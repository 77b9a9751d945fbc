//! The credit meter on the embedded store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::{Basis, Grant, GrantKind};
use folio_metering::{
    AbandonedCalls, BudgetMeter, BudgetScope, CreditMeter, Meter, MeteredCall, Options, Permit, QuotaMeter, Settlement,
    Share, UsageRecorder,
};
use folio_quotas::{QuotaCache, Slots};
use folio_resources::quota::Quotas;
use folio_resources::{Organization, OrganizationChange, OwnQuotas};
use folio_storage::{SharedOptions, Stores, UsageRecord, UsageStore};
use folio_storage_conformance::layer::{Layered, UsageLayer};
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::wait_for;
use folio_types::message::Usage;
use folio_types::models::ModelPrices;
use folio_types::op::{Expected, Write};
use folio_types::{
    BudgetPart, BudgetRoot, BudgetUse, Code, Environment, Error, GrantId, JobId, OrgId, Reason, Result, System,
    Timestamp, UserId,
};
use futures::FutureExt as _;
use tokio_util::task::TaskTracker;

const STOP: Duration = Duration::from_secs(30);
/// Time without calls after which a block is returned, in tests whose calls share a block also on a busy machine.
const IDLE: Duration = Duration::from_secs(3);

pub(crate) struct Fixture {
    _folder: tempfile::TempDir,
    _store: EmbeddedStore,
    pub(crate) stores: Stores,
    pub(crate) org: OrgId,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
        Self { _folder: folder, stores: store.stores(), _store: store, org: OrgId::derive(&["meter"]) }
    }

    async fn meter(&self, monthly_allowance: u64) -> CreditMeter {
        self.meter_with(monthly_allowance, Duration::from_millis(100)).await
    }

    /// Returns a meter that keeps an idle block for this time.
    async fn meter_with(&self, monthly_allowance: u64, idle_seconds: Duration) -> CreditMeter {
        let options = Options { monthly_allowance, idle_seconds, ..Options::default() };
        CreditMeter::start(&self.stores, Arc::new(System), options).await.unwrap()
    }

    /// Returns a call with a prompt of `input_tokens`. 1,000 tokens cost 1 cent, or 2 credits.
    pub(crate) fn call(&self, key: &str, input_tokens: u64) -> MeteredCall {
        let prices = ModelPrices { input: Some(10_000_000), cached_input: None, output: Some(0) };
        MeteredCall {
            org: self.org.clone(),
            user: UserId::derive(&["meter"]),
            key: key.to_owned(),
            operation: "chat",
            model: "model".to_owned(),
            prices,
            document: None,
            input_tokens,
            max_output_tokens: 0,
        }
    }
}

/// Makes a call that uses `input_tokens`.
async fn make_call(meter: &impl Meter, call: MeteredCall, input_tokens: u64) {
    let permit = meter.request_permit(call).await.unwrap();
    meter.settle(permit, Settlement::Completed(used(input_tokens))).await.unwrap();
}

fn used(input_tokens: u64) -> Usage {
    Usage { input_tokens, model_calls: 1, reported: true, ..Usage::default() }
}

#[tokio::test]
async fn invariant_5_a_call_is_charged_once_and_unused_credit_is_returned() {
    let fixture = Fixture::new();
    let meter = fixture.meter_with(1_000, IDLE).await;
    let permit = meter.request_permit(fixture.call("a", 5_000)).await.unwrap();
    assert!(meter.balance(&fixture.org).await.unwrap().in_blocks >= 10);
    meter.settle(permit, Settlement::Completed(used(2_001))).await.unwrap();
    let unsent = meter.request_permit(fixture.call("b", 5_000)).await.unwrap();
    meter.settle(unsent, Settlement::NotSent).await.unwrap();
    let more = meter.request_permit(fixture.call("c", 1_000)).await.unwrap();
    let counted = Usage { reported: false, ..used(9_000) };
    meter.settle(more, Settlement::Partial(counted)).await.unwrap();
    let again = meter.request_permit(fixture.call("a", 5_000)).await;
    assert!(
        again.is_err_and(|error| error.reason == Reason::VersionConflict),
        "a second call with the same key is refused"
    );

    let idle = async || meter.balance(&fixture.org).await.unwrap().account.blocks.is_empty().then_some(());
    wait_for("the block to be returned", STOP, idle).await;
    let balance = meter.balance(&fixture.org).await.unwrap();
    assert_eq!((balance.available, balance.account.settled), (993, 7));
    let records = fixture.stores.usage.list(&fixture.org, Timestamp::UNIX_EPOCH, 10).await.unwrap();
    let charged: Vec<_> = records.into_iter().map(|record| (record.key, record.charged.unwrap())).collect();
    let [(a, first), (c, second)] = &charged[..] else { panic!("{charged:?}") };
    let first = (a.as_str(), first.credits, first.cost_microdollars, first.basis);
    assert_eq!(first, ("a", 5, Some(20_010), Basis::Reported));
    assert_eq!((c.as_str(), second.credits, second.written_off, second.basis), ("c", 2, 16, Basis::Counted));
    meter.stop(STOP).await;
}

#[tokio::test]
async fn the_charge_of_a_call_is_known_before_its_settlement() {
    let fixture = Fixture::new();
    let meter = fixture.meter(1_000).await;
    let counted = Usage { reported: false, ..used(9_000) };
    for (key, settlement, expected) in [
        ("complete", Settlement::Completed(used(2_001)), 5),
        ("without a number of calls", Settlement::Completed(Usage { model_calls: 0, ..used(2_001) }), 5),
        ("beyond its reservation", Settlement::Partial(counted), 10),
        ("not sent", Settlement::NotSent, 0),
    ] {
        let budgeted = budget_meter(&meter, &BudgetScope::of_request(100));
        let permit = budgeted.request_permit(fixture.call(key, 5_000)).await.unwrap();
        let known = budgeted.charge(&permit.call, &settlement);
        assert_eq!((known, budgeted.settle(permit, settlement).await.unwrap()), (expected, expected), "{key}");
    }
    meter.stop(STOP).await;
}

#[tokio::test]
async fn a_call_that_may_exceed_its_part_of_a_budget_is_refused() {
    let fixture = Fixture::new();
    let meter = fixture.meter_with(1_000, IDLE).await;
    let (store, whole) = (fixture.stores.budgets(), job_budget(24));
    let part_of = |item: u32| BudgetScope::new(store.clone(), fixture.org.clone(), whole.child(item));
    let budgeted_by = |part: &BudgetScope| budget_meter(&meter, part);
    let part = part_of(1);
    part.grant(Share::Equal { open: 2 }, |_| false).await.unwrap();
    let budgeted = budgeted_by(&part);
    make_call(&budgeted, fixture.call("a", 5_000), 2_000).await;
    let refused = budgeted.request_permit(fixture.call("b", 5_000)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::BudgetExhausted);
    let repeated = budgeted.request_permit(fixture.call("a", 4_000)).await.unwrap_err();
    assert_eq!(repeated.reason, Reason::VersionConflict, "the meter refuses the call, so its reservation returns");
    make_call(&budgeted, fixture.call("c", 4_000), 3_000).await;
    part.take_back().await.unwrap();
    let used = async || store.use_of(&fixture.org, &whole).await.unwrap().unwrap();
    assert_eq!(used().await, BudgetUse { credits: 24, used: 10, rest: 14 });
    let late = budgeted.request_permit(fixture.call("d", 1_000)).await.unwrap_err();
    assert_eq!(late.reason, Reason::BudgetExhausted, "a returned part pays for no call");
    part_of(2).grant(Share::Equal { open: 1 }, |_| false).await.unwrap();
    let dead = budgeted_by(&part_of(2));
    let unsettled = dead.request_permit(fixture.call("e", 1_000)).await.unwrap();
    let next = part_of(3);
    next.grant(Share::Equal { open: 1 }, |item| item == "2").await.unwrap();
    next.take_back().await.unwrap();
    dead.settle(unsettled, Settlement::NotSent).await.unwrap();
    assert_eq!(used().await, BudgetUse { credits: 24, used: 12, rest: 12 }, "the call of a dead owner is used");
    meter.stop(STOP).await;
}

fn job_budget(credits: u64) -> BudgetPart {
    BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["budget"])), credits)
}

fn budget_meter(inner: &CreditMeter, scope: &BudgetScope) -> BudgetMeter {
    BudgetMeter::new(Arc::new(inner.clone()), scope.clone(), TaskTracker::new())
}

#[tokio::test]
async fn the_budget_of_a_request_bounds_its_calls() {
    let fixture = Fixture::new();
    let meter = fixture.meter(1_000).await;
    let budgeted = budget_meter(&meter, &BudgetScope::of_request(12));
    make_call(&budgeted, fixture.call("a", 5_000), 1_000).await;
    make_call(&budgeted, fixture.call("b", 5_000), 5_000).await;
    let refused = budgeted.request_permit(fixture.call("c", 1_000)).await.unwrap_err();
    assert_eq!(refused.reason, Reason::BudgetExhausted);
    meter.stop(STOP).await;
}

/// A meter whose calls wait for ever.
struct Waiting;

#[async_trait]
impl Meter for Waiting {
    fn max_price(&self, _: &MeteredCall) -> u64 {
        10
    }

    fn charge(&self, _: &MeteredCall, _: &Settlement) -> u64 {
        0
    }

    async fn request_permit(&self, _: MeteredCall) -> Result<Permit> {
        std::future::pending().await
    }

    async fn settle(&self, _: Permit, _: Settlement) -> Result<u64> {
        Ok(0)
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_for_a_permit_returns_its_reservation() {
    let fixture = Fixture::new();
    let (store, budget, tasks) = (fixture.stores.budgets(), job_budget(24), TaskTracker::new());
    let scope = BudgetScope::new(store.clone(), fixture.org.clone(), budget.clone());
    let budgeted = BudgetMeter::new(Arc::new(Waiting), scope, tasks.clone());
    let used = async || store.use_of(&fixture.org, &budget).await.unwrap().unwrap().used;
    let (meter, call) = (budgeted.clone(), fixture.call("a", 1));
    let request = tokio::spawn(async move { meter.request_permit(call).await.is_ok() });
    wait_for("the reservation", STOP, || async { (used().await == 10).then_some(()) }).await;
    request.abort();
    wait_for("the return of the reservation", STOP, || async { (used().await == 0).then_some(()) }).await;

    assert!(budgeted.request_permit(fixture.call("b", 1)).now_or_never().is_none());
    wait_for("the end of the tasks", STOP, || async { tasks.is_empty().then_some(()) }).await;
    let stored = store.read(&fixture.org, &budget.root).await.unwrap().unwrap();
    assert!(stored.own.reserved.is_empty(), "dropped before the reservation was stored: {stored:?}");
}

#[tokio::test]
async fn a_call_that_is_settled_late_keeps_its_stored_charge_and_is_counted() {
    let fixture = Fixture::new();
    let options = Options { reservation_seconds: Duration::ZERO, ..Options::default() };
    let meter = CreditMeter::start(&fixture.stores, Arc::new(System), options).await.unwrap();
    let (late, in_time) = (fixture.call("late", 5_000), fixture.call("in time", 1_000));
    let permit = meter.request_permit(late).await.unwrap();
    meter.escrow().reclaim(&fixture.org).await.unwrap();
    meter.settle(permit, Settlement::Completed(used(1_000))).await.unwrap();
    assert_eq!((meter.counters().settled_late(), meter.counters().used()), (1, 10));
    make_call(&meter, in_time, 1_000).await;
    assert_eq!((meter.counters().settled_late(), meter.counters().used()), (1, 12));
    meter.stop(STOP).await;
    let records = fixture.stores.usage.list(&fixture.org, Timestamp::UNIX_EPOCH, 10).await.unwrap();
    let bases: Vec<_> = records.into_iter().map(|record| (record.key, record.charged.unwrap().basis)).collect();
    assert_eq!(bases, [("late".to_owned(), Basis::Reserved), ("in time".to_owned(), Basis::Reported)]);
}

/// Fails the next write of a usage record if the flag is set, and clears the flag.
struct FailOnce(Arc<AtomicBool>);

#[async_trait]
impl UsageLayer for FailOnce {
    async fn record(&self, below: &dyn UsageStore, record: UsageRecord, now: Timestamp) -> Result<()> {
        match self.0.swap(false, Ordering::SeqCst) {
            true => Err(Error::unavailable(Reason::StoreUnavailable, "unavailable")),
            false => below.record(record, now).await,
        }
    }
}

#[tokio::test]
async fn a_record_that_could_not_be_written_is_written_when_the_block_is_returned() {
    let mut fixture = Fixture::new();
    let fails = Arc::new(AtomicBool::new(true));
    fixture.stores.usage = Layered::over(FailOnce(fails.clone()), &fixture.stores.usage);
    let meter = fixture.meter(1_000).await;
    for key in ["a", "b"] {
        make_call(&meter, fixture.call(key, 1_000), 1_000).await;
    }
    assert!(!fails.load(Ordering::SeqCst), "the first record is not written");
    meter.stop(STOP).await;
    let records = fixture.stores.usage.list(&fixture.org, Timestamp::UNIX_EPOCH, 10).await.unwrap();
    let mut keys: Vec<_> = records.into_iter().map(|record| record.key).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b"]);
}

#[tokio::test]
async fn recorded_calls_without_credit_have_a_cost() {
    let fixture = Fixture::new();
    let meter = UsageRecorder::new(fixture.stores.usage.clone(), Arc::new(System));
    make_call(&meter, fixture.call("a", 1_000), 1_000).await;
    let unpriced = MeteredCall { prices: ModelPrices::default(), ..fixture.call("b", 1_000) };
    let permit = meter.request_permit(unpriced).await.unwrap();
    meter.settle(permit, Settlement::Partial(Usage { reported: false, ..used(1_000) })).await.unwrap();
    let records = fixture.stores.usage.list(&fixture.org, Timestamp::UNIX_EPOCH, 10).await.unwrap();
    let charged = records.into_iter().map(|record| record.charged.unwrap());
    let charges: Vec<_> = charged.map(|charged| (charged.credits, charged.cost_microdollars, charged.basis)).collect();
    assert_eq!(charges, [(0, Some(10_000), Basis::Reported), (0, None, Basis::Counted)]);
}

#[tokio::test]
async fn a_call_beyond_the_balance_is_refused_until_a_top_up() {
    let fixture = Fixture::new();
    let meter = fixture.meter(5).await;
    let error = meter.request_permit(fixture.call("a", 5_000)).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::CreditExhausted));
    assert_eq!((error.details["balance"].as_str(), error.details["need"].as_str()), ("5", "10"));
    make_call(&meter, fixture.call("b", 1_000), 1_000).await;
    let grant = Grant::new(GrantId::derive(&["top-up"]), GrantKind::Purchase, 7, System.now());
    meter.escrow().grant(&fixture.org, grant.clone()).await.unwrap();
    meter.escrow().grant(&fixture.org, grant).await.unwrap();
    make_call(&meter, fixture.call("a", 5_000), 5_000).await;
    meter.stop(STOP).await;
    let account = meter.escrow().store().account(&fixture.org).await.unwrap();
    assert_eq!((account.available(), account.settled, account.blocks.len()), (0, 12, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_5_concurrent_calls_on_two_nodes_never_overdraw() {
    let fixture = Fixture::new();
    let meters = [fixture.meter(200).await, fixture.meter(200).await];
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..60_usize {
        let (meter, call) = (meters[number % 2].clone(), fixture.call(&number.to_string(), 5_000));
        calls.spawn(async move {
            match meter.request_permit(call).await {
                Ok(permit) => {
                    meter.settle(permit, Settlement::Completed(used(5_000))).await.unwrap();
                    true
                }
                Err(error) => {
                    assert!([Reason::CreditExhausted, Reason::Overloaded].contains(&error.reason), "{error}");
                    false
                }
            }
        });
    }
    let made = calls.join_all().await.into_iter().filter(|made| *made).count();
    for meter in &meters {
        meter.stop(STOP).await;
    }
    meters[0].escrow().reclaim(&fixture.org).await.unwrap();
    let account = meters[0].escrow().store().account(&fixture.org).await.unwrap();
    account.check().unwrap();
    assert!(made <= 20, "{made}");
    assert_eq!(account.settled, 10 * u64::try_from(made).unwrap());
    assert_eq!((account.available(), account.blocks.len()), (200 - account.settled, 0));
    assert!(made >= 15, "most of the credit is used: {made} calls");
}

#[tokio::test]
async fn an_organization_has_its_own_handling_of_abandoned_calls() {
    let fixture = Fixture::new();
    let environment: Arc<dyn Environment> = Arc::new(System);
    let organizations = fixture.stores.of::<Organization>();
    let change = async |op: &str, expected, change| {
        let write = Write::by_platform(OrgId::platform(), op.parse().unwrap(), System.now(), expected, change);
        organizations.decide(&fixture.org, write).await.unwrap();
    };
    change("create", Expected::Absent, OrganizationChange::Create { name: "theirs".to_owned() }).await;
    let own = OwnQuotas { abandoned_calls: Some(AbandonedCalls::Drain), ..OwnQuotas::default() };
    change("limits", Expected::Version(1), OrganizationChange::SetQuotas(own)).await;

    let shared = folio_storage_memory::shared_stores(Arc::clone(&environment), SharedOptions::default());
    let quotas = QuotaCache::new(fixture.stores.of(), Quotas::default());
    let recorder = UsageRecorder::new(Arc::clone(&fixture.stores.usage), environment);
    let meter = QuotaMeter::new(Arc::new(recorder), Slots::of_model_calls(quotas, shared.slots));
    let own = meter.request_permit(fixture.call("own", 10)).await.unwrap();
    let other = MeteredCall { org: OrgId::derive(&["other"]), ..fixture.call("other", 10) };
    let other = meter.request_permit(other).await.unwrap();
    assert_eq!((own.abandoned_calls, other.abandoned_calls), (AbandonedCalls::Drain, AbandonedCalls::Abort));
    for permit in [own, other] {
        meter.settle(permit, Settlement::NotSent).await.unwrap();
    }
}
