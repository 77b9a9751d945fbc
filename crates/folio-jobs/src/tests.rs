//! Tests of running jobs on the embedded store: each node of a test is a [`Jobs`] with an incarnation of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::{
    ItemRun, ItemState, JobCommand, JobFilter, JobHeader, JobLimits, JobQueue, JobState, JobWrite, JobWritten, NewJob,
    Steps, WaitReason,
};
use folio_resources::{Member, MemberWrite};
use folio_storage::{JobRecordStore, SharedOptions, SlotStore, Stores};
use folio_storage_conformance::layer::{JobRecordLayer, Layered};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_testkit::{Simulated, wait_for};
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::page::PageRequest;
use folio_types::{
    Environment, Error, Incarnation, JobId, Liveness, OrgId, Principal, Reason, Result, Role, Timestamp, UserId,
};
use serde_json::{Value, json};

use crate::{
    Dependencies, Failpoint, ItemTask, JobControl, JobHints, JobKind, JobRequest, Jobs, Options, Placement, QueueLoad,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Behavior of [`TestKind`] with an item. Default: it returns the item's subject.
#[derive(Debug, Clone)]
enum Script {
    Fail(Error),
    /// Never returns.
    Hang,
    /// Reports progress and never returns.
    Report(Steps),
    Panic,
}

#[derive(Default)]
struct TestKind {
    script: Mutex<BTreeMap<String, Script>>,
    /// The attempts so far.
    runs: Mutex<Vec<ItemRun>>,
    /// The ended jobs of which the kind was notified, in order. The first notification fails.
    ended: Mutex<Vec<JobId>>,
}

impl TestKind {
    fn set(&self, subject: &str, script: Option<Script>) {
        let mut scripts = self.script.lock().unwrap();
        match script {
            Some(script) => scripts.insert(subject.to_owned(), script),
            None => scripts.remove(subject),
        };
    }

    fn runs(&self) -> Vec<ItemRun> {
        self.runs.lock().unwrap().clone()
    }
}

#[async_trait]
impl JobKind for TestKind {
    fn name(&self) -> &'static str {
        "test"
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        self.runs.lock().unwrap().push(task.run.clone());
        let subject = task.subject().unwrap_or_default();
        let script = self.script.lock().unwrap().get(subject).cloned();
        match script {
            None => Ok(json!(subject)),
            Some(Script::Fail(error)) => Err(error),
            Some(Script::Hang) => std::future::pending().await,
            Some(Script::Report(steps)) => {
                task.steps.send_replace(Some(steps));
                std::future::pending().await
            }
            Some(Script::Panic) => panic!("a fault of the kind"),
        }
    }

    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let mut ended = self.ended.lock().unwrap();
        ended.push(job.id.clone());
        if ended.len() == 1 { Err(Error::internal("a fault of the kind")) } else { Ok(()) }
    }
}

/// Every node is alive except those in the set.
#[derive(Default)]
struct TestPlacement {
    dead: Mutex<BTreeSet<Incarnation>>,
}

#[async_trait]
impl Placement for TestPlacement {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        if self.dead.lock().unwrap().contains(owner) { Liveness::Dead } else { Liveness::Live }
    }

    async fn is_placed_here(&self, _org: &OrgId, _job: &JobId) -> bool {
        true
    }

    async fn wait_for_node_loss(&self) {
        std::future::pending().await
    }
}

struct Sandbox {
    stores: Stores,
    slots: Arc<dyn SlotStore>,
    hints: JobHints,
    environment: Arc<Simulated>,
    placement: Arc<TestPlacement>,
    kind: Arc<TestKind>,
    org: OrgId,
    _store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
        let environment = Arc::new(Simulated::new(7));
        let shared = folio_storage_memory::shared_stores(Arc::clone(&environment) as _, SharedOptions::default());
        Self {
            stores: store.stores(),
            slots: shared.slots,
            hints: JobHints::new(shared.jobs),
            environment,
            placement: Arc::default(),
            kind: Arc::default(),
            org: OrgId::derive(&["o"]),
            _store: store,
            _folder: folder,
        }
    }

    fn dependencies(&self, node: &str) -> Dependencies {
        Dependencies {
            stores: self.stores.clone(),
            slots: Arc::clone(&self.slots),
            hints: self.hints.clone(),
            environment: Arc::clone(&self.environment) as _,
            incarnation: Incarnation::derive(&[node]),
            placement: Arc::clone(&self.placement) as _,
            kinds: vec![Arc::clone(&self.kind) as _],
            failpoint: None,
        }
    }

    async fn start(&self, node: &str) -> Jobs {
        Jobs::start(self.dependencies(node), options()).await.unwrap()
    }

    fn principal(&self) -> Principal {
        Principal::new(self.org.clone(), UserId::derive(&["u"]), Role::Member)
    }

    async fn create(&self, name: &str, items: &[&str]) -> JobHeader {
        let new = NewJob {
            id: JobId::derive(&[name]),
            principal: self.principal(),
            kind: "test".to_owned(),
            input: json!({}),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            running_max: Duration::from_secs(3_600),
            at: self.environment.now(),
        };
        self.stores.jobs.create(new.header().unwrap()).await.unwrap()
    }

    fn control(&self, limits: JobLimits) -> JobControl {
        let environment: Arc<dyn Environment> = Arc::clone(&self.environment) as _;
        JobControl::new(&self.stores, self.hints.clone(), environment, limits)
    }

    fn request(&self, name: &str) -> JobRequest {
        let (id, principal, items) = (JobId::derive(&[name]), self.principal(), vec!["one".to_owned()]);
        JobRequest { id, principal, kind: "test".to_owned(), input: json!({}), items }
    }

    async fn header(&self, job: &JobHeader) -> JobHeader {
        self.stores.jobs.header(&self.org, &job.id).await.unwrap().unwrap()
    }

    /// Waits until a condition of the job is true; returns the header.
    async fn wait(&self, job: &JobHeader, what: &str, condition: impl Fn(&JobHeader) -> bool) -> JobHeader {
        wait_for(what, LIMIT, || async { Some(self.header(job).await).filter(|header| condition(header)) }).await
    }

    async fn wait_for_end(&self, job: &JobHeader) -> JobHeader {
        self.wait(job, "the job ends", JobHeader::is_ended).await
    }

    /// Executes a command of a user, as any process may.
    async fn command(&self, job: &JobHeader, command: JobCommand) {
        loop {
            let before = self.header(job).await;
            let Some(after) = before.after(command.clone(), self.environment.now()).unwrap() else { return };
            let write = JobWrite { batch: self.environment.random(), before, after, outcome: None };
            if let JobWritten::Done(_) = self.stores.jobs.write(write).await.unwrap() {
                return;
            }
        }
    }

    async fn outcomes(&self, job: &JobHeader) -> Vec<(u32, u32, Value)> {
        let found = self.stores.jobs.outcomes(&self.org, &job.id, 0, 100).await.unwrap();
        found.into_iter().map(|outcome| (outcome.item, outcome.attempt, outcome.value)).collect()
    }
}

fn options() -> Options {
    let short = Duration::from_millis(20);
    Options { sweep_interval: short, poll_interval: short, retry_pause: short, ..Options::default() }
}

/// Returns a failpoint at which a task never continues, as if its node had died, and a flag that is true after a task
/// reached it.
fn hang_at(step: &'static str) -> (Option<Failpoint>, Arc<AtomicBool>) {
    let reached = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&reached);
    let failpoint: Failpoint = Arc::new(move |name: &str| -> futures::future::BoxFuture<'static, ()> {
        if name != step {
            return Box::pin(std::future::ready(()));
        }
        flag.store(true, Ordering::SeqCst);
        Box::pin(std::future::pending())
    });
    (Some(failpoint), reached)
}

#[tokio::test]
async fn a_job_runs_its_items_stores_their_outcomes_and_leaves_the_index() {
    let sandbox = Sandbox::new();
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one", "two"]).await;
    jobs.wake();
    let ended = sandbox.wait_for_end(&job).await;
    assert_eq!((&ended.state, ended.epoch), (&JobState::Completed, 1));
    assert_eq!(sandbox.outcomes(&job).await, [(1, 1, json!("one")), (2, 1, json!("two"))]);
    wait_for("an empty index", LIMIT, || async {
        sandbox.stores.jobs.open(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(jobs.running(), 0);
    jobs.stop().await;
}

#[tokio::test]
async fn another_node_completes_the_job_of_a_dead_node_and_repeats_no_answered_item() {
    for step in ["start:after", "begin:before", "begin:after", "finish:before", "finish:after", "complete:before"] {
        let sandbox = Sandbox::new();
        let dead = Dependencies { failpoint: hang_at(step).0, ..sandbox.dependencies("dead") };
        let first = Jobs::start(dead, options()).await.unwrap();
        let job = sandbox.create("j", &["one"]).await;
        let is_reached = |header: &JobHeader| match step {
            "start:after" | "begin:before" => header.version == 1,
            "begin:after" => header.version == 2,
            "finish:before" => header.version == 2 && !sandbox.kind.runs().is_empty(),
            _ => header.version == 3,
        };
        let before = sandbox.wait(&job, step, is_reached).await;
        let next = sandbox.start("next").await;
        assert_eq!(sandbox.header(&job).await.owner, before.owner, "a live owner keeps its job");
        sandbox.placement.dead.lock().unwrap().insert(Incarnation::derive(&["dead"]));
        let ended = sandbox.wait_for_end(&job).await;
        assert_eq!((&ended.state, ended.epoch), (&JobState::Completed, 2), "{step}");
        let runs = sandbox.kind.runs();
        let attempts: BTreeSet<_> = runs.iter().map(|run| run.ledger_key(1)).collect();
        assert_eq!(attempts.len(), runs.len(), "{step}: two attempts have one ledger key");
        assert_eq!(runs.len(), if step == "finish:before" { 2 } else { 1 }, "{step}: {runs:?}");
        assert_eq!(sandbox.outcomes(&job).await.len(), 1, "{step}");
        assert_eq!(ended.items[0].failures, u32::from(["begin:after", "finish:before"].contains(&step)), "{step}");
        next.stop().await;
        first.stop().await;
    }
}

#[tokio::test]
async fn another_node_completes_a_job_that_waited_stored_progress_or_was_handed_over() {
    for (step, failures) in [
        ("wait:before", 1),
        ("wait:after", 0),
        ("checkpoint:before", 1),
        ("checkpoint:after", 1),
        ("release:before", 1),
        ("release:after", 0),
    ] {
        let sandbox = Sandbox::new();
        let script = match step.split_once(':') {
            Some(("wait", _)) => Script::Fail(Error::exhausted(Reason::CreditExhausted, "no credit")),
            Some(("checkpoint", _)) => Script::Report(Steps { done: 1, total: 2 }),
            _ => Script::Hang,
        };
        sandbox.kind.set("one", Some(script));
        let (failpoint, reached) = hang_at(step);
        let dead = Dependencies { failpoint, ..sandbox.dependencies("dead") };
        let first = Jobs::start(dead, options()).await.unwrap();
        let job = sandbox.create("j", &["one"]).await;
        sandbox.wait(&job, "the item began", |header| header.items[0].attempt == 1).await;
        let draining = first.clone();
        let drain = tokio::spawn(async move {
            if step.starts_with("release") {
                draining.drain(Duration::from_millis(10)).await;
            }
        });
        wait_for(step, LIMIT, || async { reached.load(Ordering::SeqCst).then_some(()) }).await;
        sandbox.kind.set("one", None);
        let next = sandbox.start("next").await;
        sandbox.placement.dead.lock().unwrap().insert(Incarnation::derive(&["dead"]));
        // The wait of a job without credit ends.
        sandbox.environment.advance(Duration::from_secs(60));
        let ended = sandbox.wait_for_end(&job).await;
        assert_eq!((&ended.state, ended.epoch), (&JobState::Completed, 2), "{step}");
        assert_eq!((ended.items[0].attempt, ended.items[0].failures), (2, failures), "{step}");
        assert_eq!(sandbox.outcomes(&job).await, [(1, 2, json!("one"))], "{step}");
        let attempts: BTreeSet<_> = sandbox.kind.runs().iter().map(|run| run.ledger_key(1)).collect();
        assert_eq!(attempts.len(), 2, "{step}: each attempt has its own ledger key");
        next.stop().await;
        first.stop().await;
        drain.abort();
    }
}

#[tokio::test]
async fn the_owner_stores_the_progress_of_the_running_item() {
    let sandbox = Sandbox::new();
    let steps = Steps { done: 2, total: 12 };
    sandbox.kind.set("one", Some(Script::Report(steps)));
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one"]).await;
    jobs.wake();
    let stored = sandbox.wait(&job, "the progress", |header| header.items[0].steps.is_some()).await;
    assert_eq!((stored.items[0].steps, &stored.state), (Some(steps), &JobState::Running));
    jobs.stop().await;
}

#[tokio::test]
async fn a_replaced_owner_writes_nothing_and_stops() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one"]).await;
    for (command, state) in [(JobCommand::Pause, JobState::Paused), (JobCommand::Cancel, JobState::Cancelled)] {
        sandbox.wait(&job, "the item runs", |header| header.run_of(0).is_some()).await;
        sandbox.command(&job, command).await;
        wait_for("the actor stops", LIMIT, || async { (jobs.running() == 0).then_some(()) }).await;
        assert_eq!(sandbox.header(&job).await.state, state);
        if state == JobState::Paused {
            sandbox.command(&job, JobCommand::Resume).await;
            jobs.wake();
        }
    }
    jobs.stop().await;
}

#[tokio::test]
async fn a_job_without_credit_waits_and_tries_again() {
    let sandbox = Sandbox::new();
    let error = Error::exhausted(Reason::CreditExhausted, "no credit");
    sandbox.kind.set("two", Some(Script::Fail(error)));
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one", "two"]).await;
    let waits = |header: &JobHeader| matches!(header.state, JobState::Waiting { reason: WaitReason::Credit, .. });
    let waiting = sandbox.wait(&job, "the job waits", waits).await;
    assert_eq!((&waiting.items[0].state, waiting.items[1].failures), (&ItemState::Done, 0));
    sandbox.kind.set("two", None);
    sandbox.environment.advance(Duration::from_secs(60));
    let ended = sandbox.wait_for_end(&job).await;
    assert_eq!((&ended.state, ended.blocked_since), (&JobState::Completed, None));
    let outcomes = sandbox.outcomes(&job).await;
    let values: Vec<_> = outcomes.into_iter().map(|(item, _, value)| (item, value)).collect();
    assert_eq!(values, [(1, json!("one")), (2, json!("two"))]);
    jobs.stop().await;
}

#[tokio::test]
async fn an_item_without_capacity_is_postponed_while_others_run() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    sandbox.kind.set("two", Some(Script::Fail(Error::exhausted(Reason::QuotaExceeded, "too many calls"))));
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one", "two"]).await;
    let is_postponed = |header: &JobHeader| header.items[1].attempt == 1 && header.run_of(1).is_none();
    let running = sandbox.wait(&job, "the second item is postponed", is_postponed).await;
    assert_eq!((&running.state, running.items[1].failures), (&JobState::Running, 0));
    assert!(running.run_of(0).is_some(), "the first item continues");
    jobs.stop().await;
}

#[tokio::test]
async fn an_item_that_waits_for_decisions_or_another_job_delays_no_other_item() {
    for (reason, waits_for) in [(Reason::TurnPending, WaitReason::Approval), (Reason::JobOpen, WaitReason::Limit)] {
        delays_no_other_item(&Error::precondition(reason, "the item waits"), waits_for).await;
    }
}

/// Runs a job with two items that wait, and one that ends.
async fn delays_no_other_item(error: &Error, waits_for: WaitReason) {
    let sandbox = Sandbox::new();
    for item in ["one", "two"] {
        sandbox.kind.set(item, Some(Script::Fail(error.clone())));
    }
    let limits = JobLimits { items_running_max: 1, ..JobLimits::default() };
    let jobs = Jobs::start(sandbox.dependencies("a"), Options { limits, ..options() }).await.unwrap();
    let job = sandbox.create("j", &["one", "two", "three"]).await;
    let waits = |header: &JobHeader| matches!(header.state, JobState::Waiting { .. });
    let waiting = sandbox.wait(&job, "the job waits", waits).await;
    assert!(matches!(&waiting.state, JobState::Waiting { reason, .. } if *reason == waits_for), "{waiting:?}");
    let items: Vec<_> = waiting.items.iter().map(|item| (&item.state, item.attempt, item.failures)).collect();
    let pending = (&ItemState::Pending, 1, 0);
    assert_eq!(items, [pending, pending, (&ItemState::Done, 1, 0)], "each item was attempted once");
    sandbox.kind.set("two", None);
    sandbox.environment.advance(Duration::from_secs(60));
    sandbox.wait(&job, "the second item ends", |header| waits(header) && header.progress().done == 2).await;
    sandbox.kind.set("one", None);
    sandbox.environment.advance(Duration::from_secs(600));
    let ended = sandbox.wait_for_end(&job).await;
    assert_eq!((&ended.state, ended.items[0].failures), (&JobState::Completed, 0));
    jobs.stop().await;
}

#[tokio::test]
async fn the_job_of_a_removed_member_fails() {
    let sandbox = Sandbox::new();
    let member = Member::new(sandbox.principal().user, "u", Role::Member, sandbox.environment.now());
    let removed = Member { removed_at: Some(Timestamp::UNIX_EPOCH), ..member };
    sandbox.stores.access().write_member(&sandbox.org, MemberWrite::unguarded(None, removed)).await.unwrap();
    let jobs = sandbox.start("a").await;
    let ended = sandbox.wait_for_end(&sandbox.create("j", &["one"]).await).await;
    assert!(matches!(&ended.state, JobState::Failed(error) if error.reason == Reason::RoleNotAllowed), "{ended:?}");
    assert_eq!(sandbox.kind.runs(), []);
    jobs.stop().await;
}

#[tokio::test]
async fn an_item_that_panics_fails_after_some_attempts_without_the_others() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Panic));
    let jobs = sandbox.start("a").await;
    let ended = sandbox.wait_for_end(&sandbox.create("j", &["one", "two"]).await).await;
    assert_eq!((ended.progress().done, ended.progress().failed), (1, 1));
    assert_eq!(ended.items[0].failures, folio_types::limits::JOB_FAILURES_MAX);
    jobs.stop().await;
}

#[tokio::test]
async fn an_organization_runs_a_bounded_number_of_jobs_in_all_nodes_together() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    let nodes = [sandbox.start("a").await, sandbox.start("b").await];
    for number in 0..12 {
        sandbox.create(&format!("j{number}"), &["one"]).await;
    }
    let running = async || {
        let filter = JobFilter { is_open: Some(true), ..JobFilter::default() };
        let page = sandbox.stores.jobs.list(&sandbox.org, &filter, &PageRequest::default()).await.unwrap();
        assert_eq!(page.total, 12);
        page.items.iter().filter(|job| job.state == JobState::Running).count()
    };
    wait_for("eight running jobs", LIMIT, || async { (running().await == 8).then_some(()) }).await;
    nodes.iter().for_each(Jobs::wake);
    // Several sweeps of both nodes pass, which must start no other job.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(running().await, 8);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_drained_node_hands_its_jobs_over_without_a_failure() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    let first = sandbox.start("a").await;
    let job = sandbox.create("j", &["one"]).await;
    sandbox.wait(&job, "the item runs", |header| header.run_of(0).is_some()).await;
    first.drain(Duration::from_millis(50)).await;
    assert_eq!(sandbox.header(&job).await.state, JobState::Queued);
    sandbox.kind.set("one", None);
    let next = sandbox.start("b").await;
    let ended = sandbox.wait_for_end(&job).await;
    assert_eq!((&ended.state, ended.items[0].attempt, ended.items[0].failures), (&JobState::Completed, 2, 0));
    next.stop().await;
}

#[tokio::test]
async fn a_job_that_is_open_for_too_long_fails_and_its_record_is_deleted_after_its_retention() {
    let sandbox = Sandbox::new();
    let job = sandbox.create("j", &["one"]).await;
    sandbox.command(&job, JobCommand::Pause).await;
    sandbox.environment.advance(folio_types::limits::JOB_OPEN_MAX);
    let jobs = sandbox.start("a").await;
    let ended = sandbox.wait_for_end(&job).await;
    assert!(matches!(&ended.state, JobState::Failed(error) if error.reason == Reason::JobExpired), "{ended:?}");
    sandbox.environment.advance(folio_types::limits::JOB_RETENTION);
    wait_for("a deleted record", LIMIT, || async {
        sandbox.stores.jobs.header(&sandbox.org, &job.id).await.unwrap().is_none().then_some(())
    })
    .await;
    jobs.stop().await;
}

/// Makes one job unreadable.
struct Unreadable(JobId);

#[async_trait]
impl JobRecordLayer for Unreadable {
    async fn header(&self, below: &dyn JobRecordStore, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>> {
        if *id == self.0 {
            return Err(Error::stored_format("the header is malformed"));
        }
        below.header(org, id).await
    }

    async fn delete(&self, below: &dyn JobRecordStore, org: &OrgId, id: &JobId) -> Result<()> {
        if *id == self.0 {
            return Err(Error::stored_format("the header is malformed"));
        }
        below.delete(org, id).await
    }
}

#[tokio::test]
async fn an_unreadable_job_stops_neither_the_deletion_nor_the_start_of_the_others() {
    let sandbox = Sandbox::new();
    let mut ended = Vec::new();
    for name in ["a", "b", "c"] {
        let job = sandbox.create(name, &["one"]).await;
        sandbox.command(&job, JobCommand::Cancel).await;
        ended.push(job);
    }
    sandbox.environment.advance(folio_types::limits::JOB_RETENTION);
    // The sweep reads the jobs in the order of their expiry, and then of their ids.
    ended.sort_by(|one, other| one.id.cmp(&other.id));
    let unreadable = &ended[0];
    let open = sandbox.create("open", &["one"]).await;
    let jobs = Layered::over(Unreadable(unreadable.id.clone()), &sandbox.stores.jobs);
    let stores = Stores { jobs, ..sandbox.stores.clone() };
    let node = Jobs::start(Dependencies { stores, ..sandbox.dependencies("a") }, options()).await.unwrap();
    sandbox.wait_for_end(&open).await;
    for job in &ended[1..] {
        wait_for("a deleted record", LIMIT, || async {
            sandbox.stores.jobs.header(&sandbox.org, &job.id).await.unwrap().is_none().then_some(())
        })
        .await;
    }
    assert!(sandbox.stores.jobs.header(&sandbox.org, &unreadable.id).await.unwrap().is_some());
    assert_eq!(sandbox.stores.unreadable.count(), 1, "each sweep finds it, and the first one counts it");
    node.stop().await;
}

#[tokio::test]
async fn a_job_runs_a_bounded_number_of_items_at_a_time() {
    let sandbox = Sandbox::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        sandbox.kind.set(name, Some(Script::Hang));
    }
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &names).await;
    let is_full = |header: &JobHeader| header.run_of(3).is_some();
    let running = sandbox.wait(&job, "four running items", is_full).await;
    assert_eq!((running.next_item(), running.run_of(4)), (Some(4), None));
    jobs.stop().await;
}

#[tokio::test]
async fn another_node_continues_a_job_with_several_pages() {
    for step in ["advance:before", "advance:after"] {
        let sandbox = Sandbox::new();
        let (failpoint, reached) = hang_at(step);
        let dead = Dependencies { failpoint, ..sandbox.dependencies("dead") };
        let first = Jobs::start(dead, options()).await.unwrap();
        let items: Vec<String> = (0..=JOB_PAGE_ITEMS).map(|number| format!("item {number}")).collect();
        let request = JobRequest { items, ..sandbox.request("j") };
        let job = sandbox.control(JobLimits::default()).create(request).await.unwrap();
        wait_for("the end of the first page", LIMIT, || async { reached.load(Ordering::SeqCst).then_some(()) }).await;
        sandbox.placement.dead.lock().unwrap().insert(Incarnation::derive(&["dead"]));
        let next = sandbox.start("next").await;
        let ended = sandbox.wait_for_end(&job).await;
        assert_eq!((&ended.state, ended.progress().done), (&JobState::Completed, JOB_PAGE_ITEMS + 1), "{step}");
        assert_eq!(sandbox.kind.runs().len(), JOB_PAGE_ITEMS + 1, "{step}: an answered item ran again");
        let outcomes = sandbox.stores.jobs.outcomes(&sandbox.org, &job.id, 0, 1_000).await.unwrap();
        assert_eq!(outcomes.last().map(|last| (last.item, outcomes.len())), Some((101, 101)));
        let pages = sandbox.stores.job_pages().pages(&ended, &[0, 1]).await.unwrap();
        assert!(pages.iter().flat_map(|page| &page.items).all(|item| item.has_ended()), "{step}");
        // The first notification fails. It is repeated before the job leaves the page.
        assert!(sandbox.kind.ended.lock().unwrap().len() >= 2, "{step}");
        next.stop().await;
        first.stop().await;
        sandbox.environment.advance(folio_types::limits::JOB_RETENTION);
        let sweep = sandbox.start("sweep").await;
        wait_for("removed pages", LIMIT, || async {
            sandbox.stores.job_pages().pages(&ended, &[0]).await.is_err().then_some(())
        })
        .await;
        sweep.stop().await;
    }
}

#[tokio::test]
async fn a_job_without_its_next_page_fails_and_keeps_the_ended_items() {
    let sandbox = Sandbox::new();
    let items: Vec<String> = (0..=JOB_PAGE_ITEMS).map(|number| format!("item {number}")).collect();
    let request = JobRequest { items, ..sandbox.request("j") };
    let job = sandbox.control(JobLimits::default()).create(request).await.unwrap();
    sandbox.stores.job_pages().remove(&sandbox.org, &job.id).await.unwrap();
    let jobs = sandbox.start("a").await;
    let ended = sandbox.wait_for_end(&job).await;
    assert!(matches!(&ended.state, JobState::Failed(error) if error.reason == Reason::Internal), "{:?}", ended.state);
    assert_eq!(ended.progress().done, JOB_PAGE_ITEMS);
    jobs.stop().await;
}

#[tokio::test]
async fn the_kind_of_an_ended_job_is_notified_whatever_ended_the_job_until_it_succeeds() {
    let sandbox = Sandbox::new();
    let expired = sandbox.create("expired", &["one"]).await;
    sandbox.command(&expired, JobCommand::Pause).await;
    sandbox.environment.advance(folio_types::limits::JOB_OPEN_MAX);
    let cancelled = sandbox.create("cancelled", &["one"]).await;
    sandbox.command(&cancelled, JobCommand::Cancel).await;
    let completed = sandbox.create("completed", &["one"]).await;
    let jobs = sandbox.start("a").await;
    wait_for("an empty index", LIMIT, || async {
        sandbox.stores.jobs.open(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
    let ended = sandbox.kind.ended.lock().unwrap().clone();
    for job in [&expired, &cancelled, &completed] {
        assert!(ended.contains(&job.id), "{job:?}: {ended:?}");
    }
    assert_eq!(ended.len(), 4, "only the notification that failed is repeated: {ended:?}");
    jobs.stop().await;
}

#[tokio::test]
async fn the_metrics_count_open_running_and_ended_jobs() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    let jobs = sandbox.start("a").await;
    let job = sandbox.create("j", &["one"]).await;
    let done = sandbox.create("k", &["two"]).await;
    sandbox.wait_for_end(&done).await;
    // The first notification of the kind fails, and each job is counted once it has left the index.
    let completed = wait_for("a counted job", LIMIT, || async {
        let snapshot = jobs.snapshot();
        snapshot.ended.into_iter().find(|ended| ended.end == "completed")
    })
    .await;
    assert_eq!((completed.kind, completed.count), ("test", 1));
    let expected = QueueLoad { queue: JobQueue::Work, open: 1, ready: 0, running: 1 };
    wait_for("one open job, which runs", LIMIT, || async { jobs.snapshot().queues.contains(&expected).then_some(()) })
        .await;
    sandbox.command(&job, JobCommand::Cancel).await;
    wait_for("the cancelled job", LIMIT, || async {
        jobs.snapshot().ended.iter().any(|ended| (ended.end, ended.count) == ("cancelled", 1)).then_some(())
    })
    .await;
    jobs.stop().await;
}

#[tokio::test]
async fn a_hint_starts_a_job_before_the_next_sweep() {
    let sandbox = Sandbox::new();
    let jobs =
        Jobs::start(sandbox.dependencies("a"), Options { sweep_interval: 2 * LIMIT, ..options() }).await.unwrap();
    let control = sandbox.control(JobLimits::default());
    let job = control.create(sandbox.request("j")).await.unwrap();
    assert_eq!(sandbox.wait_for_end(&job).await.state, JobState::Completed);
    jobs.stop().await;
}

#[tokio::test]
async fn a_node_has_capacity_until_a_queue_runs_its_maximum() {
    let sandbox = Sandbox::new();
    sandbox.kind.set("one", Some(Script::Hang));
    let jobs = Jobs::start(sandbox.dependencies("a"), Options { running_max: 1, ..options() }).await.unwrap();
    assert!(jobs.handle.shared.has_capacity());
    let control = sandbox.control(JobLimits::default());
    let job = control.create(sandbox.request("j")).await.unwrap();
    sandbox.wait(&job, "the item began", |header| header.items[0].attempt == 1).await;
    assert!(!jobs.handle.shared.has_capacity());
    control.execute(&sandbox.org, &job.id, JobCommand::Cancel).await.unwrap();
    wait_for("the end of the actor", LIMIT, || async { jobs.handle.shared.has_capacity().then_some(()) }).await;
    jobs.stop().await;
}

#[tokio::test]
async fn a_user_controls_a_job_in_any_process() {
    let sandbox = Sandbox::new();
    let control = sandbox.control(JobLimits { waiting_max: 1, running_max: 1, ..JobLimits::default() });
    let job = control.create(sandbox.request("j")).await.unwrap();
    assert_eq!(control.create(sandbox.request("j")).await.unwrap(), job, "a repeated creation");
    control.create(sandbox.request("k")).await.unwrap();
    assert_eq!(control.create(sandbox.request("l")).await.unwrap_err().reason, Reason::QueueFull);
    let execute = async |command| control.execute(&sandbox.org, &job.id, command).await.map(|header| header.state);
    assert_eq!(execute(JobCommand::Pause).await, Ok(JobState::Paused));
    assert_eq!(execute(JobCommand::Pause).await, Ok(JobState::Paused), "a repeated command");
    assert_eq!(execute(JobCommand::Resume).await, Ok(JobState::Queued));
    assert_eq!(execute(JobCommand::Cancel).await, Ok(JobState::Cancelled));
    assert_eq!(execute(JobCommand::Resume).await.unwrap_err().reason, Reason::JobEnded);
    let other = OrgId::derive(&["other"]);
    assert_eq!(control.find(&other, &job.id).await.unwrap_err().reason, Reason::NotFound);
    assert_eq!(control.execute(&other, &job.id, JobCommand::Cancel).await.unwrap_err().reason, Reason::NotFound);
    control.create(sandbox.request("l")).await.unwrap();
}
