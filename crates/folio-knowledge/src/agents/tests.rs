//! The modes `fast` and `agentic` on the embedded store and index, with a model and agents that follow the same rule.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use folio_history::job::{ItemRun, ItemState, JobLimits, NewJob};
use folio_history::journal::WorkingState;
use folio_index::{EmbeddedIndex, EmbeddedOptions, Filter, Search};
use folio_jobs::{ItemTask, JobKind as _};
use folio_llm::{
    Catalogue, EmbeddingRequest, Embeddings, ModelError, ModelInfo, ModelReply, ModelRequest, ModelStream, Models,
    RerankRequest, Reranking,
};
use folio_metering::UsageRecorder;
use folio_resources::{DocumentChange, Heading, NewDocument, PageStructure};
use folio_storage::value::StoredPassage;
use folio_storage::{IngestUpdate, NewPage, SharedOptions, SummaryScope};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::Simulated;
use folio_tools::ingestion::NoPassages;
use folio_tools::sections::OutlineCache;
use folio_tools::{CallContext, DocumentScope, Registry, ToolError, ToolKind};
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::models::ModelOptions;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{BlobId, BudgetUse, CallId, Environment as _, JobId, OrgId, TurnId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::*;
use crate::IngestionJobs;
use crate::index::{read_all, remove_document};

/// Returns the summary of the part with this title. None: the document or its beginning.
fn summary(title: Option<&str>) -> String {
    title.map_or_else(|| "About the document or its beginning.".to_owned(), |title| format!("About {title}."))
}

/// A model that summarizes by the rule of [`summary`].
struct RuleModels {
    /// Number of calls of [`Models::complete`].
    calls: Mutex<u32>,
    has_model: bool,
}

#[async_trait]
impl Models for RuleModels {
    async fn catalogue(&self, _: &OrgId) -> Result<Arc<Catalogue>> {
        let options = ModelOptions { context_tokens: 16_000, ..ModelOptions::default() };
        let model = ModelInfo { name: "rule".to_owned(), provider: "test".to_owned(), options };
        let models = if self.has_model { vec![model] } else { Vec::new() };
        Ok(Arc::new(Catalogue::new(models, "rule".to_owned(), Vec::new())))
    }

    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::Failed("summaries are not streamed".to_owned()))
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        *self.calls.lock().unwrap() += 1;
        let Some(Message::User { text, .. }) = request.messages.last() else { panic!("no message of the user") };
        let title = text.lines().find_map(|line| line.strip_prefix("Title: "));
        let usage = Usage { input_tokens: 9, output_tokens: 3, reported: true, model_calls: 1, ..Usage::default() };
        Ok(ModelReply { text: summary(title), finish: Some(FinishReason::Stop), usage, ..ModelReply::default() })
    }

    async fn embed(&self, _: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        Err(ModelError::Failed("there is no embedding model".to_owned()))
    }

    async fn rerank(&self, _: RerankRequest) -> Result<Reranking, ModelError> {
        Err(ModelError::Failed("there is no rerank model".to_owned()))
    }
}

/// Agents that store the summary of each part, generate chunks and index them, by calls of the tools.
#[derive(Default)]
struct ScriptedAgents {
    knowledge: Mutex<Option<Knowledge>>,
    /// True: the agents end before the chunks are indexed.
    is_lazy: bool,
    cancelled: Mutex<Vec<ThreadId>>,
}

/// Makes the tool calls of a run and numbers them.
struct Calls {
    context: CallContext,
    number: u32,
}

impl Calls {
    async fn call(&mut self, agent: &str, name: &str, arguments: Value) -> Result<Value, ToolError> {
        self.number += 1;
        let call = CallId::new(self.context.call.turn.clone(), self.number, 1);
        let context = CallContext { call, ..self.context.clone() };
        let tools = Registry::standard()?.profile(agent)?;
        assert_eq!(tools.problem(name, &arguments), None);
        let output = match &tools.find(name)?.kind {
            ToolKind::Read(tool) => tool.run(&context, arguments).await?,
            ToolKind::Write(tool) => {
                let plan = tool.plan(&context, &arguments).await?;
                tool.run(&context, &arguments, &plan).await?
            }
            ToolKind::Tasks => panic!("{name} starts tasks"),
        };
        self.context.working.apply(&output.change);
        Ok(output.content)
    }

    async fn run(&mut self, is_lazy: bool) -> Result<(), ToolError> {
        let orchestrator = "summary_orchestrator";
        loop {
            let status = self.call(orchestrator, "ingestion_status", json!({})).await?;
            let missing = status["summaries"]["missing"].as_array().unwrap().clone();
            let Some(part) = missing.first() else { break };
            let title = part["title"].as_str().filter(|title| !title.is_empty());
            let mut arguments = json!({ "summary": summary(title) });
            if let Some(id) = part.get("section_id") {
                arguments["section_id"] = id.clone();
            }
            self.call(orchestrator, "summary_store", arguments).await?;
        }
        let chunks = self.call("chunk_builder", "chunk_generate", json!({})).await?;
        if !is_lazy {
            let arguments = json!({ "chunks_id": chunks["chunks_id"] });
            self.call("rag_ingestor", "rag_chunk_index", arguments).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl TurnDriver for ScriptedAgents {
    async fn drive(&self, principal: &Principal, message: ChatCommand) -> Result<Error> {
        let knowledge = self.knowledge.lock().unwrap().clone().unwrap();
        let thread = message.thread.unwrap();
        let header = knowledge.stores.threads.header(&principal.org, &thread).await?.unwrap();
        assert_eq!(header.profile, "ingest_planner");
        let passages = Arc::new(knowledge.clone()) as Arc<dyn PassageIngester>;
        let context = CallContext {
            resources: ToolResources { passages, ..knowledge.resources.clone() },
            principal: principal.clone(),
            call: CallId::new(TurnId::new(thread, 1), 1, 1),
            epoch: 1,
            documents: header.documents,
            subject: header.subject,
            scope: DocumentScope::default(),
            working: WorkingState::default(),
            model: "rule".to_owned(),
            budget_part: None,
            is_preview: false,
        };
        Calls { context, number: 0 }.run(self.is_lazy).await.unwrap();
        Ok(Error::internal("the agent ended"))
    }

    async fn cancel(&self, _: &Principal, thread: &ThreadId) -> Result<()> {
        self.cancelled.lock().unwrap().push(thread.clone());
        Ok(())
    }
}

struct Fixture {
    knowledge: Knowledge,
    agents: Agents,
    driver: Arc<ScriptedAgents>,
    models: Arc<RuleModels>,
    run: IngestionRun,
    environment: Arc<Simulated>,
    // Declared last, because fields are dropped in order: the folder must outlive the store and the index.
    _store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new(is_lazy: bool, has_model: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path().join("store"))).unwrap();
        let stores = store.stores();
        let environment = Arc::new(Simulated::new(7));
        let models = Arc::new(RuleModels { calls: Mutex::new(0), has_model });
        let resources = ToolResources {
            stores: stores.clone(),
            models: models.clone(),
            meter: Arc::new(UsageRecorder::new(stores.usage.clone(), environment.clone())),
            environment: environment.clone(),
            extraction: folio_tools::extraction::Options::default(),
            job_limits: JobLimits::default(),
            job_hints: folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default()).jobs,
            mcp: Arc::new(folio_tools::mcp::NoMcpServers),
            passages: Arc::new(NoPassages),
            outlines: OutlineCache::default(),
            retriever: Arc::new(folio_tools::retrieval::NoRetriever),
            images: Arc::new(folio_tools::images::NoImages),
            tasks: TaskTracker::new(),
        };
        let index = EmbeddedIndex::open(folder.path().join("index"), EmbeddedOptions::default()).unwrap();
        let knowledge = Knowledge::new(resources, Arc::new(index));
        let driver = Arc::new(ScriptedAgents { is_lazy, ..ScriptedAgents::default() });
        *driver.knowledge.lock().unwrap() = Some(knowledge.clone());
        let agents = Agents::new(Arc::clone(&driver) as Arc<dyn TurnDriver>);
        let org = OrgId::derive(&["org"]);
        knowledge.index.begin_rebuild(&org, 1).await.unwrap();
        knowledge.index.finish_rebuild(&org, 1).await.unwrap();
        let document = add_document(&knowledge, &org, environment.now()).await;
        let job = JobId::derive(&["job"]);
        let run = IngestionRun {
            // The job of a new text belongs to the platform.
            principal: Principal::new(org, UserId::platform(), Role::Admin),
            document,
            run: ItemRun { job, item: 1, epoch: 1, attempt: 1 },
            budget_part: None,
        };
        Self { knowledge, agents, driver, models, run, environment, _store: store, _folder: folder }
    }

    fn org(&self) -> &OrgId {
        &self.run.principal.org
    }

    /// Returns the section, the scope, the text and the sources of each summary.
    async fn summaries(&self) -> Vec<(Option<u32>, SummaryScope, String, Vec<u32>)> {
        let found = self.knowledge.stores.summaries().list(self.org(), &self.run.document).await.unwrap();
        found.into_iter().map(|found| (found.section, found.scope, found.text, found.sources)).collect()
    }

    /// Returns the live passages, and the numbers of those that a search finds.
    async fn passages(&self) -> (Vec<StoredPassage>, Vec<u32>) {
        let head = self.knowledge.passages().head(self.org(), &self.run.document).await.unwrap();
        let Some(head) = head else { return (Vec::new(), Vec::new()) };
        let passages = read_all(&self.knowledge, self.org(), &head).await.unwrap();
        let search = Search { text: "About Delivery".to_owned(), vector: None, filter: Filter::default(), limit: 100 };
        let answer = self.knowledge.index.search(self.org(), &search).await.unwrap();
        assert!(answer.hits.iter().all(|hit| hit.generation == head.generation));
        (passages, answer.hits.iter().map(|hit| hit.number).collect())
    }

    async fn forget(&self) {
        self.knowledge.stores.summaries().remove_document(self.org(), &self.run.document).await.unwrap();
        remove_document(&self.knowledge, self.org(), &self.run.document).await.unwrap();
    }
}

/// Stores a document with a beginning and a chapter of two sections, whose texts are longer than summaries.
async fn add_document(knowledge: &Knowledge, org: &OrgId, at: folio_types::Timestamp) -> DocumentId {
    let id = DocumentId::derive(&["contract"]);
    let new = NewDocument {
        metadata: BTreeMap::from([("customer".to_owned(), "Acme".to_owned())]),
        ..NewDocument::file("contract.txt", "text/plain", b"x", BlobId::derive(&["contract"]))
    };
    let write =
        Write::by_platform(org.clone(), "create".parse().unwrap(), at, Expected::Absent, DocumentChange::Create(new));
    assert!(matches!(knowledge.stores.of::<Document>().decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    let long = |word: &str| format!("{word} of goods and of services, as both parties agreed. ").repeat(20);
    let page = |number, title: &str, level, text: String| {
        let headings = if level == 0 { Vec::new() } else { vec![Heading { level, title: title.to_owned(), word: 0 }] };
        let structure = PageStructure { headings, ..PageStructure::default() };
        NewPage { structure, ..NewPage::of_text(number, text) }
    };
    let pages = vec![
        page(1, "", 0, long("Agreement")),
        page(2, "Terms", 1, format!("Terms\n{}", long("Terms"))),
        page(3, "Delivery", 2, format!("Delivery\n{}", long("Shipment"))),
        page(4, "Prices", 2, format!("Prices\n{}", long("Payment"))),
    ];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at };
    knowledge.stores.texts.ingest(org, id.as_str(), update).await.unwrap();
    id
}

async fn fast(test: &Fixture) -> Ingested {
    let found = test.agents.context(&test.knowledge, &test.run).await.unwrap();
    // Summaries are left out only if the organization has no model.
    let has_summary = !found.context.section_summaries.is_empty();
    assert_eq!(has_summary, found.omissions.is_empty(), "{:?}", found.omissions);
    ingest(&test.knowledge, test.run.request(VECTORS_CALL, found.context)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_an_ingestion_waits_while_its_organization_divides_other_documents() {
    let test = Fixture::new(false, false).await;
    let permits = &test.knowledge.permits;
    let active = [permits.division(test.org()).await.unwrap(), permits.division(test.org()).await.unwrap()];
    let request = test.run.request(VECTORS_CALL, Context::default());
    let mut ingestion = Box::pin(ingest(&test.knowledge, request));
    // Long enough for an ingestion that does not wait.
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut ingestion).await.is_err());
    assert!(test.passages().await.0.is_empty());
    drop(active);
    assert!(matches!(ingestion.await.unwrap(), Ingested::Live(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_modes_give_the_same_passages_summaries_and_searches() {
    let test = Fixture::new(false, true).await;
    assert!(matches!(fast(&test).await, Ingested::Live(_)));
    let (summaries, passages) = (test.summaries().await, test.passages().await);
    assert_eq!((summaries.len(), *test.models.calls.lock().unwrap()), (5, 5));
    assert!(passages.0.iter().any(|passage| passage.padding.contains("About Terms > Delivery.")), "{passages:?}");
    assert!(!passages.1.is_empty());

    test.forget().await;
    assert!(test.summaries().await.is_empty() && test.passages().await.0.is_empty());
    let ingested = test.agents.ingest(&test.knowledge, &test.run).await.unwrap();
    assert!(matches!(ingested, Ingested::Live(_)), "{ingested:?}");
    assert_eq!(test.summaries().await, summaries);
    assert_eq!(test.passages().await, passages);
    let run = NetworkRun::of(test.org(), &test.run.document, &test.run.run.job);
    let header = test.knowledge.stores.threads.header(test.org(), &run.thread).await.unwrap().unwrap();
    let document = ready(&test.knowledge, &test.run).await.unwrap().unwrap();
    assert_eq!(header.user, document.created_by, "the agents work for the user who uploaded the document");

    // A later ingestion without agents keeps the summaries.
    test.environment.advance(Duration::from_secs(1));
    let context = test.agents.stored_context(&test.knowledge, &test.run).await.unwrap();
    ingest(&test.knowledge, test.run.request(VECTORS_CALL, context)).await.unwrap();
    assert_eq!(test.passages().await.0, passages.0);
    assert_eq!(*test.models.calls.lock().unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_before_the_index_has_failed_and_an_ended_job_cancels_it() {
    let test = Fixture::new(true, true).await;
    let error = test.agents.ingest(&test.knowledge, &test.run).await.unwrap_err();
    assert!(error.reason == Reason::ModelFailed && !error.is_retriable(), "{error:?}");
    assert!(test.passages().await.0.is_empty());
    let new = NewJob {
        id: test.run.run.job.clone(),
        principal: test.run.principal.clone(),
        kind: "ingestion".to_owned(),
        input: json!({ "mode": "agentic" }),
        items: vec![test.run.document.to_string()],
        running_max: Duration::from_secs(60),
        at: test.environment.now(),
    };
    let job = new.header().unwrap();
    test.agents.end(&test.knowledge, &job, &test.run.document).await.unwrap();
    test.agents.end(&test.knowledge, &job, &DocumentId::derive(&["other"])).await.unwrap();
    let run = NetworkRun::of(test.org(), &test.run.document, &test.run.run.job);
    assert_eq!(*test.driver.cancelled.lock().unwrap(), [run.thread]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_of_a_job_is_paid_from_a_part_of_its_own() {
    let test = Fixture::new(false, true).await;
    let user = UserId::derive(&["user"]);
    let new = NewJob {
        id: test.run.run.job.clone(),
        principal: Principal::new(test.org().clone(), user, Role::Member),
        kind: "ingestion".to_owned(),
        input: json!({ "mode": "agentic", "credit_budget": 1_000 }),
        items: vec![test.run.document.to_string(), DocumentId::derive(&["other"]).to_string()],
        running_max: Duration::from_secs(60),
        at: test.environment.now(),
    };
    let mut job = new.header().unwrap();
    (job.items[0].state, job.items[0].attempt) = (ItemState::Running, 1);
    let task = ItemTask {
        principal: job.principal.clone(),
        run: job.run_of(0).unwrap(),
        steps: watch::Sender::new(None),
        record: watch::Sender::new(None),
        job: job.clone(),
    };
    let agents = Agents::new(Arc::clone(&test.driver) as Arc<dyn TurnDriver>);
    let jobs = IngestionJobs::of_users(test.knowledge.clone().with_network(Arc::new(agents)));
    jobs.run_item(task).await.unwrap();
    let (stores, run) = (&test.knowledge.stores, NetworkRun::of(test.org(), &test.run.document, &job.id));
    let header = stores.threads.header(test.org(), &run.thread).await.unwrap().unwrap();
    let (whole, part) = (job.budget_part().unwrap(), job.budget_part().unwrap().child(1));
    assert_eq!(header.budget_part, Some(part.clone()), "each run has a part of its own, because task names may repeat");
    let budgets = stores.budgets();
    assert_eq!(budgets.use_of(test.org(), &part).await.unwrap(), None, "the part has returned");
    assert_eq!(budgets.use_of(test.org(), &whole).await.unwrap(), Some(BudgetUse::unused(1_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_each_mode_ingests_by_code() {
    let test = Fixture::new(false, false).await;
    let ingested = test.agents.ingest(&test.knowledge, &test.run).await.unwrap();
    assert!(matches!(ingested, Ingested::Live(_)), "{ingested:?}");
    let without = test.passages().await;
    assert!(!without.0.is_empty() && test.summaries().await.is_empty());
    assert!(matches!(fast(&test).await, Ingested::Live(_)));
    assert_eq!(test.passages().await, without);
}
