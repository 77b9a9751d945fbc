//! Fixture: a store, a scripted model, a document, and sequential tool calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use folio_history::job::JobLimits;
use folio_history::journal::WorkingState;
use folio_llm::{
    Catalogue, EmbeddingRequest, Embeddings, ModelError, ModelInfo, ModelKind, ModelReply, ModelRequest, ModelStream,
    Models, RankedDocument, RerankRequest, Reranking,
};
use folio_metering::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, UsageRecorder};
use folio_resources::{Document, DocumentChange, Extraction, ExtractionChange, NewDocument, TextState};
use folio_storage::{IngestUpdate, NewPage, RowStore, SharedOptions, Stores};
use folio_storage_conformance::layer::{Layered, RowLayer};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::Simulated;
use folio_tools::images::{ImageSource, ReadImage};
use folio_tools::{
    CallContext, DocumentScope, Plan, ProfileTools, Registry, ToolError, ToolKind, ToolOutput, ToolResources, WriteTool,
};
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::models::ModelOptions;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::profile::Subject;
use folio_types::{
    BlobId, CallId, Digest, DocumentId, Environment as _, Error, ExtractionId, OrgId, Principal, Reason, Role, TagId,
    ThreadId, Timestamp, TurnId, UserId,
};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

pub(crate) struct Fixture {
    pub(crate) models: Arc<ScriptedModels>,
    pub(crate) tools: Arc<ProfileTools>,
    pub(crate) context: CallContext,
    pub(crate) environment: Arc<Simulated>,
    calls: AtomicU32,
    // The last field, so that the folder outlives the store.
    _store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

pub(crate) const PAGES: [&str; 2] = ["Invoice INV-7\nTotal: 120.50", "Second page: thank you"];

/// A disk without free space for new content.
struct FullDisk;

#[async_trait]
impl RowLayer for FullDisk {
    async fn check_space(&self, _: &dyn RowStore) -> Result<(), Error> {
        Err(Error::exhausted(Reason::Overloaded, "the disk is full").retry_after(Duration::from_secs(60)))
    }
}

impl Fixture {
    /// Makes the store refuse new content.
    pub(crate) fn fill_disk(&mut self) {
        let stores = &mut self.context.resources.stores;
        stores.rows = Layered::over(FullDisk, &stores.rows);
    }

    /// Lets abandoned calls run to their end.
    pub(crate) fn drain_abandoned_calls(&mut self) {
        let meter = UsageRecorder::new(self.context.resources.stores.usage.clone(), self.environment.clone());
        self.context.resources.meter = Arc::new(meter.with_abandoned_calls(AbandonedCalls::Drain));
    }

    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let stores = store.stores();
        let environment = Arc::new(Simulated::new(7));
        let models = Arc::new(ScriptedModels::default());
        let meter = UsageRecorder::new(stores.usage.clone(), environment.clone());
        let resources = ToolResources {
            stores,
            models: models.clone(),
            meter: Arc::new(PricedMeter { models: models.clone(), meter }),
            environment: environment.clone(),
            extraction: folio_tools::extraction::Options::default(),
            job_limits: JobLimits::default(),
            job_hints: folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default()).jobs,
            mcp: Arc::new(folio_tools::mcp::NoMcpServers),
            passages: Arc::new(folio_tools::ingestion::NoPassages),
            outlines: folio_tools::sections::OutlineCache::default(),
            retriever: Arc::new(folio_tools::retrieval::NoRetriever),
            images: Arc::new(FakeImages),
            tasks: TaskTracker::new(),
        };
        let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
        let document = add_document(&resources.stores, &principal.org, "invoice.pdf", &PAGES, &[]).await;
        let context = CallContext {
            resources,
            principal,
            call: CallId::new(TurnId::new(ThreadId::derive(&["thread"]), 1), 1, 1),
            epoch: 1,
            subject: Subject::first_document(std::slice::from_ref(&document)),
            documents: vec![document],
            scope: DocumentScope::default(),
            working: WorkingState::default(),
            model: "base".to_owned(),
            budget_part: None,
            is_preview: false,
        };
        let tools = Registry::standard().unwrap().profile("document").unwrap();
        Self { models, tools, context, environment, calls: AtomicU32::new(0), _store: store, _folder: folder }
    }

    pub(crate) fn document(&self) -> DocumentId {
        self.context.documents[0].clone()
    }

    /// Returns the context of a new call, one second after the previous one.
    pub(crate) fn next(&self) -> CallContext {
        self.environment.advance(Duration::from_secs(1));
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        CallContext { call: CallId::new(self.context.call.turn.clone(), number, 1), ..self.context.clone() }
    }

    /// Runs a call as a turn does: checks it, plans it, runs it, and updates the working state.
    pub(crate) async fn call(&mut self, name: &str, arguments: Value) -> Result<Value, ToolError> {
        let context = self.next();
        let output = self.call_in(&context, name, &arguments).await?;
        self.context.working.apply(&output.change);
        Ok(output.content)
    }

    pub(crate) async fn call_in(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &Value,
    ) -> Result<ToolOutput, ToolError> {
        let mut arguments = arguments.clone();
        self.tools.canonicalize(name, &mut arguments);
        assert_eq!(self.tools.problem(name, &arguments), None);
        match &self.tools.get(name).unwrap().kind {
            ToolKind::Read(tool) => tool.run(context, arguments).await,
            ToolKind::Write(tool) => {
                let plan = tool.plan(context, &arguments).await?;
                tool.run(context, &arguments, &plan).await
            }
            ToolKind::Tasks => panic!("{name} starts tasks"),
        }
    }

    pub(crate) fn write_tool(&self, name: &str) -> &dyn WriteTool {
        match &self.tools.get(name).unwrap().kind {
            ToolKind::Write(tool) => tool.as_ref(),
            ToolKind::Read(_) | ToolKind::Tasks => panic!("{name} is not a write tool"),
        }
    }

    pub(crate) async fn plan(&self, context: &CallContext, name: &str, arguments: &Value) -> Result<Plan, ToolError> {
        self.write_tool(name).plan(context, arguments).await
    }

    pub(crate) async fn run(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        self.write_tool(name).run(context, arguments, plan).await
    }

    pub(crate) async fn ok(&mut self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments.clone()).await.unwrap_or_else(|error| panic!("{name} {arguments}: {error:?}"))
    }

    pub(crate) async fn error_of(&mut self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments.clone()).await {
            Err(ToolError::ForModel(text)) => text,
            other => panic!("{name} {arguments}: {other:?}"),
        }
    }

    /// Applies a user's change to an extraction through the service.
    pub(crate) async fn write_extraction(&self, id: &str, change: ExtractionChange) {
        let (principal, id) = (&self.context.principal, id.parse().unwrap());
        let stored = self.extraction(&id).await;
        let request = Digest::of(format!("{id} {}", stored.version).as_bytes());
        let (key, at) = (request.as_str().parse().unwrap(), self.environment.now());
        let write = Write::by_platform(principal.org.clone(), key, at, Expected::Version(stored.version), change);
        let extractions = self.context.resources.stores.of::<Extraction>();
        assert!(matches!(extractions.decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    }

    pub(crate) async fn extraction(&self, id: &ExtractionId) -> Extraction {
        let extractions = self.context.resources.stores.of::<Extraction>();
        extractions.get(&self.context.principal.org, id).await.unwrap().unwrap()
    }

    pub(crate) async fn add_document(&self, name: &str, pages: &[&str], tags: &[TagId]) -> DocumentId {
        add_document(&self.context.resources.stores, &self.context.principal.org, name, pages, tags).await
    }

    /// Replaces the text of a document.
    pub(crate) async fn ingest(&self, id: &DocumentId, pages: Vec<NewPage>) {
        let at = self.environment.now();
        let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at };
        let texts = &self.context.resources.stores.texts;
        texts.ingest(&self.context.principal.org, id.as_str(), update).await.unwrap();
    }

    /// Asserts that each call fails with an error for the model that contains the given text.
    pub(crate) async fn assert_errors<const N: usize>(&mut self, name: &str, cases: [(Value, &str); N]) {
        for (arguments, says) in cases {
            let message = self.error_of(name, arguments.clone()).await;
            assert!(message.contains(says), "{name} {arguments}: {message}");
        }
    }

    pub(crate) async fn tag(&mut self, name: &str) -> TagId {
        text(&self.ok("create_tag", json!({ "name": name })).await["tag_id"]).parse().unwrap()
    }

    /// Runs the working prompt on the document. The model answers with this text.
    pub(crate) async fn extract(&mut self, answer: &str) -> Value {
        self.models.answer(answer);
        self.ok("run_extraction", json!({})).await
    }

    /// Creates a schema with one field, `total`, and a linked prompt. Returns their revids.
    pub(crate) async fn invoice_prompt(&mut self) -> (String, String) {
        let schema = self.ok("create_schema", json!({ "name": "Invoice", "response_format": invoice() })).await;
        let arguments = json!({ "name": "Invoice", "content": "Read the total.", "schema_id": schema["schema_id"] });
        let prompt = self.ok("create_prompt", arguments).await;
        (text(&schema["schema_revid"]), text(&prompt["prompt_revid"]))
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string")).to_owned()
}

pub(crate) fn id_of(revid: &str) -> String {
    revid.split_once('.').unwrap().0.to_owned()
}

pub(crate) fn format_of(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({ "type": "json_schema", "json_schema": { "name": "invoice", "strict": true, "schema": {
        "type": "object", "properties": properties, "required": required, "additionalProperties": false } } })
}

pub(crate) fn invoice() -> Value {
    format_of(json!({ "total": { "type": "number" } }))
}

async fn add_document(stores: &Stores, org: &OrgId, name: &str, pages: &[&str], tags: &[TagId]) -> DocumentId {
    let id = DocumentId::derive(&[org.as_str(), name]);
    let at = Timestamp::constant(1_790_000_000, 0);
    let new = NewDocument {
        tags: tags.to_vec(),
        metadata: BTreeMap::from([("customer".to_owned(), "Acme".to_owned())]),
        ..NewDocument::file(name, "application/pdf", name.as_bytes(), BlobId::derive(&[name]))
    };
    let key = Digest::of(name.as_bytes()).as_str().parse().unwrap();
    let write = Write::by_platform(org.clone(), key, at, Expected::Absent, DocumentChange::Create(new));
    assert!(matches!(stores.of::<Document>().decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    let pages = pages.iter().zip(1..).map(|(text, number)| NewPage::of_text(number, *text)).collect();
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at };
    stores.texts.ingest(org, id.as_str(), update).await.unwrap();
    id
}

/// A model that returns scripted answers and records its requests.
#[derive(Default)]
pub(crate) struct ScriptedModels {
    answers: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// True if extractions request quotes and confidences from the model `base`.
    pub(crate) has_evidence: AtomicBool,
    /// True if the context of the model `other` is too small for any request.
    pub(crate) other_is_small: AtomicBool,
    /// Models whose calls are refused because the remaining credit does not cover them. If there are any, the model
    /// `cheap` is a further fallback.
    pub(crate) unaffordable_models: Mutex<Vec<&'static str>>,
    /// Models that organizations have in addition to the shared ones.
    own: Mutex<BTreeMap<OrgId, String>>,
    /// True if the model does not answer.
    pub(crate) is_hanging: AtomicBool,
    /// True if no permit is available, so that calls are not sent.
    pub(crate) is_full: AtomicBool,
    /// True if the organizations have chosen the model `sees` for images.
    pub(crate) has_vision: AtomicBool,
    /// True if the model `vectors` expects prefixes.
    pub(crate) has_prefixes: AtomicBool,
    /// The texts of each embedding request.
    embedded: Mutex<Vec<Vec<String>>>,
    embedding_failures: Mutex<VecDeque<Option<ModelError>>>,
    /// Dimensions of vectors in addition to two.
    pub(crate) more_dimensions: AtomicUsize,
}

impl ScriptedModels {
    pub(crate) fn answer(&self, text: &str) {
        self.answer_until(FinishReason::Stop, text);
    }

    /// Adds an answer that ends for this reason.
    pub(crate) fn answer_until(&self, finish: FinishReason, text: &str) {
        let usage = Usage { input_tokens: 100, output_tokens: 10, reported: true, model_calls: 1, ..Usage::default() };
        let reply = ModelReply { text: text.to_owned(), finish: Some(finish), usage, ..ModelReply::default() };
        self.answers.lock().unwrap().push_back(Ok(reply));
    }

    pub(crate) fn add_own_model(&self, org: &OrgId, model: &str) {
        self.own.lock().unwrap().insert(org.clone(), model.to_owned());
    }

    pub(crate) fn fail(&self, error: ModelError) {
        self.answers.lock().unwrap().push_back(Err(error));
    }

    /// Returns the names of the requested models.
    pub(crate) fn requested(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.model).collect()
    }

    /// Returns the last user message of a request.
    pub(crate) fn message(&self, request: usize) -> String {
        match self.requests()[request].messages.last() {
            Some(Message::User { text, .. }) => text.clone(),
            other => panic!("the last message is not from the user: {other:?}"),
        }
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the texts of each embedding request since the last call.
    pub(crate) fn take_embedded(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.embedded.lock().unwrap())
    }

    /// Sets the results of the next embedding requests. None: the request succeeds.
    pub(crate) fn fail_embeddings(&self, failures: impl IntoIterator<Item = Option<ModelError>>) {
        self.embedding_failures.lock().unwrap().extend(failures);
    }
}

#[async_trait]
impl Models for ScriptedModels {
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        let model = |name: &str, prompts| ModelInfo {
            name: name.to_owned(),
            provider: "test".to_owned(),
            options: ModelOptions { context_tokens: 8_000, max_output_tokens: 1_000, prompts, ..Default::default() },
        };
        let mut other = model("other", true);
        if self.other_is_small.load(Ordering::Relaxed) {
            other.options.context_tokens = 100;
        }
        let mut base = model("base", true);
        base.options.evidence = self.has_evidence.load(Ordering::Relaxed);
        let mut models = vec![base, other, model("chat-only", false)];
        models.extend(self.own.lock().unwrap().get(org).map(|name| model(name, true)));
        let mut fallbacks = vec!["chat-only".to_owned(), "other".to_owned()];
        if !self.unaffordable_models.lock().unwrap().is_empty() {
            models.push(model("cheap", true));
            fallbacks.push("cheap".to_owned());
        }
        for (name, kind) in [("vectors", ModelKind::Embedding), ("rates", ModelKind::Rerank)] {
            let mut options =
                ModelOptions { kind, context_tokens: 64, input_price: Some(20_000), ..Default::default() };
            if kind == ModelKind::Embedding && self.has_prefixes.load(Ordering::Relaxed) {
                options.query_prefix = "query: ".to_owned();
                options.passage_prefix = "passage: ".to_owned();
            }
            models.push(ModelInfo { name: name.to_owned(), provider: "test".to_owned(), options });
        }
        let has_vision = self.has_vision.load(Ordering::Relaxed);
        if has_vision {
            let mut sees = model("sees", false);
            sees.options.vision = true;
            models.push(sees);
        }
        let catalogue = Catalogue::new(models, "base".to_owned(), fallbacks);
        let catalogue = catalogue.with_retrieval_models("vectors".to_owned(), "rates".to_owned());
        Ok(Arc::new(catalogue.with_image_model(if has_vision { "sees".to_owned() } else { String::new() })))
    }

    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::Failed("no tool streams".to_owned()))
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let progress = request.progress.clone();
        self.requests.lock().unwrap().push(request);
        while self.is_full.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        progress.set_sent(true);
        while self.is_hanging.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        let next = self.answers.lock().unwrap().pop_front();
        let next = next.unwrap_or_else(|| panic!("the model has no scripted answer left"));
        next.inspect_err(|error| progress.set_sent(error.is_possibly_charged()))
    }

    /// The vector of a text has the length of the text in its first dimension.
    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        request.progress.set_sent(true);
        let tokens = 10 * request.texts.len() as u64;
        let usage = Usage { input_tokens: tokens, reported: true, model_calls: 1, ..Usage::default() };
        let dimensions = 2 + self.more_dimensions.load(Ordering::Relaxed);
        let vector = |text: &String| {
            let mut vector = vec![1.0; dimensions];
            vector[0] = text.len() as f32;
            vector
        };
        let vectors = request.texts.iter().map(vector).collect();
        self.embedded.lock().unwrap().push(request.texts);
        match self.embedding_failures.lock().unwrap().pop_front().flatten() {
            Some(error) => Err(error),
            None => Ok(Embeddings { vectors, usage }),
        }
    }

    /// The shortest document is the most relevant one.
    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        request.progress.set_sent(true);
        let mut indexes: Vec<usize> = (0..request.documents.len()).collect();
        indexes.sort_by_key(|index| request.documents[*index].len());
        let ranked = |index| RankedDocument { index, relevance: 0.5 };
        let results = indexes.into_iter().take(request.top_n).map(ranked).collect();
        let usage = Usage { input_tokens: 7, reported: true, model_calls: 1, ..Usage::default() };
        Ok(Reranking { results, usage })
    }
}

/// The images of every document. Number 7 is damaged, and number 8 has no bytes.
struct FakeImages;

#[async_trait]
impl ImageSource for FakeImages {
    async fn embedded(&self, _: &Document, _: u32, number: u32) -> Result<ReadImage, Error> {
        match number {
            7 => Err(Error::invalid_field("image_id", "the image cannot be read: damaged")),
            8 => Err(Error::precondition(Reason::UnsupportedType, "no bytes")),
            _ => {
                Ok(ReadImage { media_type: "image/jpeg", width: 512, height: 512, bytes: Bytes::from_static(b"jpeg") })
            }
        }
    }
}

struct PricedMeter {
    models: Arc<ScriptedModels>,
    meter: UsageRecorder,
}

#[async_trait]
impl Meter for PricedMeter {
    /// One credit per call.
    fn max_price(&self, _: &MeteredCall) -> u64 {
        1
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        self.meter.charge(call, settlement)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit, Error> {
        let is_unaffordable = self.models.unaffordable_models.lock().unwrap().contains(&call.model.as_str());
        match is_unaffordable {
            true => Err(Error::exhausted(Reason::CreditExhausted, "the remaining credit does not cover the call")),
            false => self.meter.request_permit(call).await,
        }
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64, Error> {
        self.meter.settle(permit, settlement).await
    }
}

pub(crate) async fn usage(test: &Fixture) -> Vec<folio_storage::UsageRecord> {
    let from = test.context.resources.environment.now() - Duration::from_secs(3_600);
    test.context.resources.stores.usage.list(&test.context.principal.org, from, 100).await.unwrap()
}
