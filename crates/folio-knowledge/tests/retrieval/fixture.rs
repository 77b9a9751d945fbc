//! Fixture: stores, an index, scripted models, and documents with passages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::JobLimits;
use folio_index::{EmbeddedIndex, EmbeddedOptions, Embedding, IndexedDocument, Passage, PassageIndex, Written};
use folio_knowledge::IndexRetriever;
use folio_llm::{
    Catalogue, EmbeddingRequest, Embeddings, ModelError, ModelInfo, ModelKind, ModelReply, ModelRequest, ModelStream,
    Models, RankedDocument, RerankRequest, Reranking,
};
use folio_metering::{Meter, MeteredCall, Permit, Settlement, UsageRecorder};
use folio_resources::{BoundingBox, Document, DocumentChange, DocumentPatch, NewDocument, TextState, WordBoxes};
use folio_storage::value::{PassageHead, ServingSpace, StoredPassage, StoredSegment, StoredVector};
use folio_storage::{IngestUpdate, NewPage, SharedOptions, UsageRecord};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::Simulated;
use folio_tools::ToolResources;
use folio_tools::retrieval::{FoundPassages, NoRetriever, PassageQuery, Retriever as _};
use folio_types::message::{FinishReason, Usage};
use folio_types::models::ModelOptions;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{
    BlobId, Digest, DocumentId, Environment as _, Error, OrgId, Principal, Result, Role, TagId, Timestamp, UserId,
};
use tokio_util::task::TaskTracker;

/// The price of each model call in credits.
pub(crate) const PRICE: u64 = 10;

pub(crate) struct Fixture {
    pub(crate) models: Arc<ScriptedModels>,
    pub(crate) resources: ToolResources,
    pub(crate) index: Arc<EmbeddedIndex>,
    pub(crate) retriever: IndexRetriever,
    pub(crate) principal: Principal,
    environment: Arc<Simulated>,
    // The last fields, so that the folder outlives the store and the index.
    _store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path().join("stores"))).unwrap();
        let index = EmbeddedIndex::open(folder.path().join("index"), EmbeddedOptions::default()).unwrap();
        let (stores, index) = (store.stores(), Arc::new(index));
        let environment = Arc::new(Simulated::new(7));
        let models = Arc::new(ScriptedModels::default());
        let meter = UsageRecorder::new(stores.usage.clone(), environment.clone());
        let resources = ToolResources {
            stores,
            models: models.clone(),
            meter: Arc::new(PricedMeter(meter)),
            environment: environment.clone(),
            extraction: folio_tools::extraction::Options::default(),
            job_limits: JobLimits::default(),
            job_hints: folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default()).jobs,
            mcp: Arc::new(folio_tools::mcp::NoMcpServers),
            passages: Arc::new(folio_tools::ingestion::NoPassages),
            outlines: folio_tools::sections::OutlineCache::default(),
            retriever: Arc::new(NoRetriever),
            images: Arc::new(folio_tools::images::NoImages),
            tasks: TaskTracker::new(),
        };
        let retriever = IndexRetriever::new(index.clone());
        let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
        let test = Self { models, resources, index, retriever, principal, environment, _store: store, _folder: folder };
        test.build_index(&test.principal.org).await;
        test
    }

    /// Makes the empty index of an organization ready.
    pub(crate) async fn build_index(&self, org: &OrgId) {
        self.index.begin_rebuild(org, 1).await.unwrap();
        assert!(matches!(self.index.finish_rebuild(org, 1).await.unwrap(), Written::Applied { .. }));
    }

    /// Returns a principal of another organization, whose index is ready.
    pub(crate) async fn stranger(&self) -> Principal {
        let stranger = Principal::new(OrgId::derive(&["other"]), UserId::derive(&["other"]), Role::Member);
        self.build_index(&stranger.org).await;
        stranger
    }

    /// Lets searches of an organization use the vectors of its embedding model.
    pub(crate) async fn serve_vectors(&self, org: &OrgId) {
        let serving = ServingSpace { model: "vectors".to_owned(), space: self.space().await };
        assert!(self.resources.stores.passages().set_serving_space(org, None, &serving).await.unwrap());
    }

    async fn space(&self) -> String {
        let catalogue = self.models.catalogue(&self.principal.org).await.unwrap();
        catalogue.for_embeddings(Some("vectors")).unwrap().vector_space()
    }

    /// Stores a document with one page, each line of which is a passage, and indexes it.
    pub(crate) async fn add(&self, org: &OrgId, name: &str, lines: &[&str]) -> DocumentId {
        self.add_tagged(org, name, lines, &[]).await
    }

    pub(crate) async fn add_tagged(&self, org: &OrgId, name: &str, lines: &[&str], tags: &[TagId]) -> DocumentId {
        let id = DocumentId::derive(&[org.as_str(), name]);
        let new = NewDocument {
            tags: tags.to_vec(),
            metadata: BTreeMap::from([("customer".to_owned(), "Acme".to_owned())]),
            ..NewDocument::file(name, "application/pdf", b"x", BlobId::derive(&[name]))
        };
        self.write(org, &id, Expected::Absent, DocumentChange::Create(new)).await;
        self.read_text(org, &id, lines).await;
        self.publish(org, &id, 1, lines).await;
        self.index(org, &id, 1, lines).await;
        id
    }

    async fn write(&self, org: &OrgId, id: &DocumentId, expected: Expected, change: DocumentChange) {
        let key = Digest::of(format!("{id} {change:?}").as_bytes()).as_str().parse().unwrap();
        let write = Write::by_platform(org.clone(), key, self.environment.now(), expected, change);
        let documents = self.resources.stores.of::<Document>();
        assert!(matches!(documents.decide(id, write).await.unwrap(), WriteOutcome::Row(_)));
    }

    pub(crate) async fn document(&self, org: &OrgId, id: &DocumentId) -> Document {
        self.resources.stores.of::<Document>().get(org, id).await.unwrap().unwrap()
    }

    pub(crate) async fn delete(&self, org: &OrgId, id: &DocumentId) {
        let version = self.document(org, id).await.version;
        self.write(org, id, Expected::Version(version), DocumentChange::Delete).await;
    }

    pub(crate) async fn patch(&self, org: &OrgId, id: &DocumentId, patch: DocumentPatch) {
        let version = self.document(org, id).await.version;
        self.write(org, id, Expected::Version(version), DocumentChange::Update(patch)).await;
    }

    /// Stores a text, a second after the one before. Each word has a box of the same height in the line of its number.
    pub(crate) async fn read_text(&self, org: &OrgId, id: &DocumentId, lines: &[&str]) {
        self.environment.advance(Duration::from_secs(1));
        let text = lines.join("\n");
        let boxes = (0..text.split_whitespace().count()).map(|at| {
            let top = f64::from(u32::try_from(at).unwrap());
            BoundingBox { left: 0.0, top, right: 50.0, bottom: top + 1.0 }
        });
        let boxes = WordBoxes::new(100.0, 100.0, boxes);
        let pages = vec![NewPage { boxes, ..NewPage::of_text(1, text) }];
        let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: self.environment.now() };
        self.resources.stores.texts.ingest(org, id.as_str(), update).await.unwrap();
    }

    /// Makes a generation of passages live in the stores.
    pub(crate) async fn publish(&self, org: &OrgId, id: &DocumentId, generation: u64, lines: &[&str]) {
        let space = self.space().await;
        let mut start = 0;
        let mut passages = Vec::new();
        for (number, line) in (0u32..).zip(lines) {
            let end = start + u32::try_from(line.chars().count()).unwrap();
            passages.push(StoredPassage {
                section_id: format!("{id}.1.s{number}"),
                section_titles: vec!["Terms".to_owned()],
                segments: vec![StoredSegment { text_start: 0, page: 1, start, end, is_verbatim: true }],
                tokens: 5,
                language: Some("en".to_owned()),
                metadata_pairs: vec![("customer".to_owned(), "Acme".to_owned())],
                vectors: vec![StoredVector { space: space.clone(), values: vector_of(line) }],
                ..StoredPassage::of_text(number, *line)
            });
            start = end + 1;
        }
        let head = PassageHead {
            document: id.clone(),
            generation,
            passages: u32::try_from(passages.len()).unwrap(),
            space: Some(space),
            text_generation: self.document(org, id).await.text_generation.unwrap(),
            created_at: self.environment.now(),
        };
        self.resources.stores.passages().write(org, &head, &passages).await.unwrap();
    }

    /// Writes a generation of passages to the index.
    pub(crate) async fn index(&self, org: &OrgId, id: &DocumentId, generation: u64, lines: &[&str]) {
        let space = self.space().await;
        let passage = |(number, line): (u32, &&str)| Passage {
            number,
            text: (*line).to_owned(),
            context: String::new(),
            language: Some("en".to_owned()),
            vectors: vec![Embedding { space: space.clone(), values: vector_of(line) }],
        };
        let document = self.document(org, id).await;
        let indexed = IndexedDocument {
            document: id.clone(),
            generation,
            tags: document.tags,
            metadata: document.metadata,
            date: Some(document.created_at),
            passages: (0u32..).zip(lines).map(passage).collect(),
        };
        let written = self.index.upsert(org, vec![indexed]).await.unwrap();
        assert_eq!(written, Written::Applied { stale: 0 });
    }

    pub(crate) async fn search(&self, query: &PassageQuery) -> FoundPassages {
        self.search_as(&self.principal, query).await.unwrap()
    }

    pub(crate) async fn search_as(&self, principal: &Principal, query: &PassageQuery) -> Result<FoundPassages> {
        self.retriever.search(&self.resources, principal, query).await
    }

    /// Returns the operations of the model calls of an organization, in any order.
    pub(crate) async fn operations(&self, org: &OrgId) -> Vec<String> {
        let from: Timestamp = self.environment.now() - Duration::from_secs(3_600);
        let records: Vec<UsageRecord> = self.resources.stores.usage.list(org, from, 100).await.unwrap();
        let mut operations: Vec<String> = records.into_iter().map(|record| record.operation).collect();
        operations.sort();
        operations
    }
}

/// Returns the texts of passages, in order.
pub(crate) fn texts(found: &FoundPassages) -> Vec<&str> {
    found.passages.iter().map(|passage| passage.text.as_str()).collect()
}

/// Returns a vector by the subject of a text, also if texts about it have no word in common.
fn vector_of(text: &str) -> Vec<f32> {
    let has = |words: &[&str]| if words.iter().any(|word| text.contains(word)) { 1.0 } else { 0.05 };
    vec![has(&["payable", "remittance"]), has(&["rain", "weather"]), 0.05]
}

/// Models whose answers a test scripts.
#[derive(Default)]
pub(crate) struct ScriptedModels {
    answers: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
    requests: Mutex<Vec<ModelRequest>>,
    pub(crate) has_no_embedding_model: AtomicBool,
    pub(crate) has_no_rerank_model: AtomicBool,
    pub(crate) fails_embeddings: AtomicBool,
    pub(crate) fails_reranking: AtomicBool,
}

impl ScriptedModels {
    pub(crate) fn answer(&self, text: &str) {
        self.answer_until(FinishReason::Stop, text);
    }

    pub(crate) fn answer_until(&self, finish: FinishReason, text: &str) {
        let usage = Usage { input_tokens: 100, output_tokens: 10, reported: true, model_calls: 1, ..Usage::default() };
        let reply = ModelReply { text: text.to_owned(), finish: Some(finish), usage, ..ModelReply::default() };
        self.answers.lock().unwrap().push_back(Ok(reply));
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl Models for ScriptedModels {
    async fn catalogue(&self, _: &OrgId) -> Result<Arc<Catalogue>, Error> {
        let model = |name: &str, options| ModelInfo { name: name.to_owned(), provider: "test".to_owned(), options };
        let chat = ModelOptions { context_tokens: 16_000, max_output_tokens: 1_000, chat: true, ..Default::default() };
        let small = ModelOptions { context_tokens: 500, ..chat.clone() };
        let mut models = vec![model("base", chat), model("small", small)];
        for (name, kind) in [("vectors", ModelKind::Embedding), ("rates", ModelKind::Rerank)] {
            models.push(model(name, ModelOptions { kind, context_tokens: 512, ..Default::default() }));
        }
        let chosen = |is_missing: &AtomicBool, name: &str| match is_missing.load(Ordering::Relaxed) {
            true => String::new(),
            false => name.to_owned(),
        };
        let vectors = chosen(&self.has_no_embedding_model, "vectors");
        let rates = chosen(&self.has_no_rerank_model, "rates");
        let catalogue = Catalogue::new(models, "base".to_owned(), Vec::new());
        Ok(Arc::new(catalogue.with_retrieval_models(vectors, rates)))
    }

    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::Failed("nothing streams".to_owned()))
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        request.progress.set_sent(true);
        self.requests.lock().unwrap().push(request);
        let next = self.answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| panic!("the model has no scripted answer left"))
    }

    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        request.progress.set_sent(true);
        if self.fails_embeddings.load(Ordering::Relaxed) {
            return Err(ModelError::Failed("the embedding endpoint is down".to_owned()));
        }
        let usage = Usage { input_tokens: 3, reported: true, model_calls: 1, ..Usage::default() };
        Ok(Embeddings { vectors: request.texts.iter().map(|text| vector_of(text)).collect(), usage })
    }

    /// The longest document is the most relevant one.
    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        request.progress.set_sent(true);
        if self.fails_reranking.load(Ordering::Relaxed) {
            return Err(ModelError::Failed("the rerank endpoint is down".to_owned()));
        }
        let mut indexes: Vec<usize> = (0..request.documents.len()).collect();
        indexes.sort_by_key(|index| std::cmp::Reverse(request.documents[*index].len()));
        let ranked = |index| RankedDocument { index, relevance: request.documents[index].len() as f64 };
        let results = indexes.into_iter().take(request.top_n).map(ranked).collect();
        let usage = Usage { input_tokens: 7, reported: true, model_calls: 1, ..Usage::default() };
        Ok(Reranking { results, usage })
    }
}

/// A meter with a fixed price.
struct PricedMeter(UsageRecorder);

#[async_trait]
impl Meter for PricedMeter {
    fn max_price(&self, _: &MeteredCall) -> u64 {
        PRICE
    }

    fn charge(&self, _: &MeteredCall, _: &Settlement) -> u64 {
        PRICE
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit, Error> {
        self.0.request_permit(call).await
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64, Error> {
        self.0.settle(permit, settlement).await
    }
}
