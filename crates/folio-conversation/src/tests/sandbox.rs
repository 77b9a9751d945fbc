//! Test harness: the conversations of one node on an embedded store.

use std::ops::Deref;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_history::event::{CallView, TurnView};
use folio_history::thread::{OpenTurnRow, ThreadHeader};
use folio_metering::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, UsageRecorder};
use folio_quotas::{QuotaCache, Slots};
use folio_resources::quota::Quotas;
use folio_resources::{Document, DocumentChange, NewDocument, TextState};
use folio_storage::{IngestUpdate, NewPage, SharedOptions, SlotStore, UsageRecord};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_testkit::Simulated;
use folio_tools::Registry;
use folio_types::{BlobId, Incarnation, RequestId};
use tokio::task::JoinHandle;

use super::script::Script;
use super::*;
use crate::failpoint::Action;
use folio_history::peer::EventStream;

use crate::{Conversations, Dependencies, Failpoints, Snapshot};
use folio_history::command::CallDecision;

pub(super) const SOON: Duration = Duration::from_secs(30);

pub(super) type Wrap<'a> = Box<dyn FnOnce(&mut Stores) + 'a>;

/// Failpoints: the point at which tasks block, and the points that were reached.
#[derive(Clone, Default)]
struct FailpointState {
    hang: Arc<Mutex<Option<String>>>,
    reached: Arc<Mutex<Vec<String>>>,
}

/// A store, a caller with a document, and the models that a test scripts.
pub(super) struct Base {
    pub(super) models: Arc<Script>,
    pub(super) stores: Stores,
    pub(super) environment: Arc<Simulated>,
    pub(super) principal: Principal,
    pub(super) document: DocumentId,
    store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

impl Base {
    pub(super) async fn new(wrap: Option<Wrap<'_>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
        let mut stores = store.stores();
        if let Some(wrap) = wrap {
            wrap(&mut stores);
        }
        let environment = Arc::new(Simulated::new(folio_testkit::seed()));
        let (org, user) = (OrgId::generate(&*environment), UserId::generate(&*environment));
        let principal = Principal::new(org, user, Role::Member);
        let (models, document) = (Script::new(), DocumentId::derive(&["before the upload"]));
        let mut base = Self { models, stores, environment, principal, document, store, _folder: folder };
        base.document = base.upload("invoice.pdf", "Invoice 7\nTotal: 12.50").await;
        base
    }

    pub(super) async fn upload(&self, name: &str, text: &str) -> DocumentId {
        let (org, now) = (&self.principal.org, self.environment.now());
        let id = DocumentId::generate(&*self.environment);
        let change = DocumentChange::Create(NewDocument::file(name, "application/pdf", b"x", BlobId::derive(&[name])));
        let key = RequestId::generate(&*self.environment);
        let write = Write::by_platform(org.clone(), key, now, Expected::Absent, change);
        self.stores.of::<Document>().decide(&id, write).await.unwrap();
        let pages = vec![NewPage::of_text(1, text)];
        let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: now };
        self.stores.texts.ingest(org, id.as_str(), update).await.unwrap();
        id
    }

    pub(super) async fn close(self) {
        let Self { store, models, stores, .. } = self;
        drop((models, stores));
        store.close().await;
    }

    pub(super) fn chat(&self, text: &str) -> ChatCommand {
        ChatCommand { documents: vec![self.document.clone()], ..ChatCommand::new(text) }
    }

    pub(super) fn chat_in(&self, thread: &ThreadId, text: &str) -> ChatCommand {
        ChatCommand { thread: Some(thread.clone()), ..ChatCommand::new(text) }
    }

    /// Returns the threads of the organization, newest first.
    pub(super) async fn threads(&self) -> Vec<ThreadHeader> {
        let page = self.stores.threads.list(&self.principal.org, &Default::default(), &Default::default()).await;
        page.unwrap().items
    }

    /// Checks invariant 4: in the stored history, each assistant message with calls is followed by a result for each
    /// call.
    pub(super) async fn assert_sendable(&self, thread: &ThreadId) {
        let history = folio_history::History::fold(self.journal(thread).await);
        for turn in history.turns().iter().filter(|turn| turn.ended.is_some()) {
            for round in &turn.rounds {
                assert_eq!(round.unanswered().count(), 0, "round {} of turn {}", round.round, turn.number());
            }
        }
    }

    pub(super) async fn header(&self, thread: &ThreadId) -> ThreadHeader {
        self.stores.threads.header(&self.principal.org, thread).await.unwrap().unwrap()
    }

    pub(super) async fn journal(&self, thread: &ThreadId) -> Vec<Entry> {
        let entries = self.stores.threads.entries(&self.principal.org, thread, 0, 10_000).await.unwrap();
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Returns the dependencies of a single node. Its meter records the usage of model calls.
    pub(super) fn dependencies(&self, incarnation: Incarnation, slots: Arc<dyn SlotStore>) -> Dependencies {
        let usage = UsageRecorder::new(self.stores.usage.clone(), self.environment.clone());
        Dependencies {
            turn_slots: Slots::of_turns(QuotaCache::new(self.stores.of(), Quotas::default()), slots),
            stores: self.stores.clone(),
            models: self.models.clone(),
            meter: Arc::new(LimitedMeter { models: self.models.clone(), meter: usage }),
            tools: Registry::standard().unwrap(),
            environment: self.environment.clone(),
            extraction: folio_tools::extraction::Options::default(),
            job_limits: folio_history::job::JobLimits::default(),
            job_hints: folio_storage_memory::shared_stores(self.environment.clone(), SharedOptions::default()).jobs,
            mcp: Arc::new(folio_tools::mcp::NoMcpServers),
            retriever: Arc::new(folio_tools::retrieval::NoRetriever),
            passages: Arc::new(folio_tools::ingestion::NoPassages),
            images: Arc::new(folio_tools::images::NoImages),
            incarnation,
            owners: Arc::new(crate::SingleProcessOwners),
            all_nodes: None,
            shared_turns: None,
            failpoints: Failpoints::default(),
        }
    }

    pub(super) async fn wait_for_model_calls(&self, times: usize) {
        wait_for("a model call", SOON, || async { (self.models.requests().len() >= times).then_some(()) }).await;
    }

    pub(super) async fn ended(&self, thread: &ThreadId) {
        wait_for("the open turn to end", SOON, || async {
            self.header(thread).await.open_turn.is_none().then_some(())
        })
        .await;
    }

    pub(super) async fn tag_names(&self) -> Vec<String> {
        let page =
            self.stores.of::<Tag>().list(&self.principal.org, &Default::default(), &Default::default()).await.unwrap();
        let mut names: Vec<String> = page.items.into_iter().map(|tag| tag.name).collect();
        names.sort();
        names
    }
}

pub(super) struct Sandbox {
    pub(super) conversations: Conversations,
    base: Base,
    tools: Arc<Registry>,
    points: FailpointState,
    options: Options,
    abandoned: AbandonedCalls,
}

impl Deref for Sandbox {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Sandbox {
    pub(super) async fn start() -> Self {
        Self::start_with(Options { sweep_interval: Duration::from_millis(50), ..Options::default() }).await
    }

    pub(super) async fn start_with(options: Options) -> Self {
        Self::start_as(options, None, None, AbandonedCalls::Abort).await
    }

    /// Starts with other tools and wrapped stores (None: the defaults), and a policy for abandoned model calls.
    pub(super) async fn start_as(
        options: Options,
        tools: Option<Arc<Registry>>,
        wrap: Option<Wrap<'_>>,
        abandoned: AbandonedCalls,
    ) -> Self {
        let tools = tools.unwrap_or_else(|| Registry::standard().unwrap());
        let (base, points) = (Base::new(wrap).await, FailpointState::default());
        let conversations = node(&base, &tools, &points, (&options, abandoned)).await;
        Self { conversations, base, tools, points, options, abandoned }
    }

    /// Simulates a crash of the process and a restart on the same store.
    pub(super) async fn restart(&mut self) {
        self.conversations.stop().await;
        self.hang_at(None);
        let options = (&self.options, self.abandoned);
        self.conversations = node(&self.base, &self.tools, &self.points, options).await;
    }

    /// Simulates an upgrade of the process: a restart with other profiles and tools.
    pub(super) async fn upgrade(&mut self, tools: Arc<Registry>) {
        self.tools = tools;
        self.restart().await;
    }

    pub(super) async fn finish(self) {
        self.conversations.drain(SOON).await;
        let snapshot = self.conversations.snapshot();
        assert_eq!(snapshot.tasks, 0, "leaked tasks");
        assert!(snapshot.busy.is_empty(), "leaked work: {:?}", snapshot.busy);
        assert_eq!(self.models.open(), 0, "leaked model requests");
        assert_eq!(self.models.left(), 0, "unused steps of the script");
        let Self { conversations, base, .. } = self;
        drop(conversations);
        base.close().await;
    }

    /// Starts an operation, and crashes and restarts the node when the operation reaches this point.
    pub(super) async fn crash_at<T>(&mut self, point: &str, start: impl FnOnce(&Self) -> JoinHandle<T>) {
        self.points.reached.lock().unwrap().clear();
        self.hang_at(Some(point));
        let operation = start(self);
        self.reaches(point).await;
        self.restart().await;
        let _ = operation.await;
    }

    /// Blocks every task that reaches the failpoint `point`. None: blocks no task.
    pub(super) fn hang_at(&self, point: Option<&str>) {
        *self.points.hang.lock().unwrap() = point.map(str::to_owned);
    }

    pub(super) async fn reaches(&self, point: &str) {
        wait_for(point, SOON, || async {
            self.points.reached.lock().unwrap().iter().any(|reached| reached == point).then_some(())
        })
        .await;
    }

    pub(super) async fn begin(&self, command: ChatCommand) -> EventStream {
        self.conversations.chat(&self.principal, command).await.unwrap()
    }

    pub(super) async fn chat_error(&self, command: ChatCommand) -> Error {
        self.conversations.chat(&self.principal, command).await.err().expect("the chat is refused")
    }

    pub(super) fn spawn_chat(&self, command: ChatCommand) -> JoinHandle<Result<EventStream>> {
        let (conversations, principal) = (self.conversations.clone(), self.principal.clone());
        tokio::spawn(async move { conversations.chat(&principal, command).await })
    }

    pub(super) fn spawn_approve(&self, command: ApproveCommand) -> JoinHandle<Result<ApproveAnswer>> {
        let (conversations, principal) = (self.conversations.clone(), self.principal.clone());
        tokio::spawn(async move { conversations.approve(&principal, command).await })
    }

    /// Spawns a chat, and waits until `count` chats of a thread are queued.
    pub(super) async fn enqueue(&self, chat: ChatCommand, count: usize) -> JoinHandle<Result<EventStream>> {
        let waits = self.spawn_chat(ChatCommand { if_busy: IfBusy::Enqueue, ..chat });
        self.until("queued chats", |now| now.busy.iter().any(|view| view.queued == count)).await;
        waits
    }

    pub(super) async fn until(&self, subject: &str, holds: impl Fn(&Snapshot) -> bool) {
        wait_for(subject, SOON, || async { holds(&self.conversations.snapshot()).then_some(()) }).await;
    }

    pub(super) async fn wait_for_empty_index(&self) {
        wait_for("an empty open-turn index", SOON, || async { self.open_rows().await.is_empty().then_some(()) }).await;
    }

    pub(super) async fn wait_for_idle_model(&self) {
        wait_for("all model requests to end", SOON, || async { (self.models.open() == 0).then_some(()) }).await;
    }

    pub(super) async fn wait_for_removal(&self, thread: &ThreadId) {
        let header = || self.stores.threads.header(&self.principal.org, thread);
        wait_for("the removal of the thread", SOON, || async { header().await.unwrap().is_none().then_some(()) }).await;
    }

    pub(super) async fn run(&self, command: ChatCommand) -> Vec<Event> {
        all(self.begin(command).await).await
    }

    /// Runs a turn that pauses after the model's `step`. Returns the turn and its pending calls.
    pub(super) async fn pause_at(&self, step: Step) -> (TurnId, Vec<CallView>) {
        self.models.then([step]);
        let events = self.run(self.chat("please")).await;
        pending(&events)
    }

    pub(super) async fn approve_with(&self, command: ApproveCommand) -> Result<ApproveAnswer> {
        self.conversations.approve(&self.principal, command).await
    }

    pub(super) async fn turn(&self, turn: &TurnId) -> TurnView {
        self.conversations.get_turn(&self.principal, turn).await.unwrap()
    }

    pub(super) async fn newest_thread(&self) -> ThreadId {
        self.threads().await[0].id.clone()
    }

    pub(super) async fn usage(&self) -> Vec<UsageRecord> {
        self.stores.usage.list(&self.principal.org, Timestamp::MIN, 1_000).await.unwrap()
    }

    pub(super) async fn open_rows(&self) -> Vec<OpenTurnRow> {
        self.stores.open_turns.scan(None, 1_000).await.unwrap()
    }
}

async fn node(
    base: &Base,
    tools: &Arc<Registry>,
    points: &FailpointState,
    (options, abandoned): (&Options, AbandonedCalls),
) -> Conversations {
    let FailpointState { hang, reached } = points.clone();
    let failpoints = Failpoints::new(move |point| {
        reached.lock().unwrap().push(point.to_owned());
        if hang.lock().unwrap().as_deref() == Some(point) { Action::Hang } else { Action::Pass }
    });
    let shared = folio_storage_memory::shared_stores(base.environment.clone(), SharedOptions::default());
    let mut dependencies = base.dependencies(Incarnation::generate(&*base.environment), shared.slots);
    dependencies.meter = Arc::new(LimitedMeter {
        models: base.models.clone(),
        meter: UsageRecorder::new(base.stores.usage.clone(), base.environment.clone()).with_abandoned_calls(abandoned),
    });
    let dependencies = Dependencies { tools: tools.clone(), failpoints, ..dependencies };
    Conversations::start(dependencies, options.clone()).await.unwrap()
}

/// A meter without credit for some models.
struct LimitedMeter {
    models: Arc<Script>,
    meter: UsageRecorder,
}

#[async_trait]
impl Meter for LimitedMeter {
    fn max_price(&self, _: &MeteredCall) -> u64 {
        self.models.price()
    }

    fn charge(&self, _: &MeteredCall, settlement: &Settlement) -> u64 {
        if *settlement == Settlement::NotSent { 0 } else { self.models.price() }
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        match self.models.is_unaffordable(&call.model) {
            true => Err(Error::exhausted(Reason::CreditExhausted, "the credit does not suffice for the call")),
            false => self.meter.request_permit(call).await,
        }
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        let charge = self.charge(&permit.call, &settlement);
        self.meter.settle(permit, settlement).await.map(|_| charge)
    }
}

/// Reads a stream to its end, and checks that its event numbers increase (invariant 9).
pub(super) async fn all(mut stream: EventStream) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let read = async {
        while let Some(event) = stream.next().await {
            let event = event.expect("the stream ends without an error");
            if let Some(last) = events.last() {
                assert!(event.number > last.number, "invariant 9: {} after {}", event.number, last.number);
            }
            events.push(event);
        }
    };
    tokio::time::timeout(SOON, read).await.expect("the stream ends in time");
    let closing = events.iter().filter(|event| event.kind.is_closing()).count();
    assert_eq!(closing, 1, "expected one closing event: {events:?}");
    assert!(events.last().unwrap().kind.is_closing());
    events
}

pub(super) fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| serde_json::to_value(&event.kind).unwrap()["event"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = events.iter().map(name).collect();
    names.dedup();
    names
}

pub(super) fn closing(events: &[Event]) -> &EventKind {
    &events.last().unwrap().kind
}

pub(super) fn pending(events: &[Event]) -> (TurnId, Vec<CallView>) {
    match &events.last().unwrap().kind {
        EventKind::AwaitingApproval { pending, .. } => (events[0].turn.clone(), pending.clone()),
        other => panic!("expected AwaitingApproval as the last event: {other:?}"),
    }
}

pub(super) fn decide(turn: &TurnId, decisions: &[(&CallView, Decision)]) -> ApproveCommand {
    let decisions = decisions.iter().map(|(call, decision)| CallDecision {
        call: call.id.clone(),
        decision: decision.clone(),
        digest: Some(call.digest.clone()),
    });
    ApproveCommand {
        turn: turn.clone(),
        round: None,
        decisions: decisions.collect(),
        reject_undecided: false,
        continue_auto_approved: false,
    }
}

pub(super) fn approve_all(turn: &TurnId, pending: &[CallView]) -> ApproveCommand {
    let waiting = pending.iter().filter(|call| call.needs_approval);
    decide(turn, &waiting.map(|call| (call, Decision::Approve)).collect::<Vec<_>>())
}

pub(super) fn reached(answer: ApproveAnswer) -> EventKind {
    match answer {
        ApproveAnswer::Reached { closing, .. } => closing.kind,
        other => panic!("the round was not executed: {other:?}"),
    }
}

pub(super) fn fork(thread: &ThreadId, request_id: Option<RequestId>) -> ForkThreadCommand {
    ForkThreadCommand { thread: thread.clone(), message_count: None, title: None, request_id }
}

pub(super) fn request(id: &str) -> Option<RequestId> {
    Some(id.parse().unwrap())
}
