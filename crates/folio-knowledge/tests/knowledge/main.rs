//! Ingestion on an embedded store and an embedded index, with a scripted embedding model.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod concurrent;
mod disk;
mod generations;
mod tenants;
mod vectors;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::{
    INGESTION_KIND, IngestionInput, ItemRun, JobCommand, JobFilter, JobHeader, JobLimits, JobQueue, JobState, JobWrite,
    JobWritten, NewJob, REEMBEDDING_KIND, WaitReason,
};
use folio_index::{
    Answer, EmbeddedIndex, EmbeddedOptions, Filter, IndexState, IndexedDocument, ListedDocument, PassageIndex, Search,
    Statistics, Written,
};
use folio_jobs::{Dependencies, ItemTask, JobHints, JobKind as _, Jobs, SingleProcess};
use folio_knowledge::{
    IndexRebuilds, IngestRequest, Ingested, IngestionJobs, IngestionState, Knowledge, Maintenance, Reembeddings,
    ingest, ingestion_of, rebuild, remove_document, update_serving_space,
};
use folio_llm::{
    Catalogue, EmbeddingRequest, Embeddings, ModelError, ModelInfo, ModelKind, ModelOptions, ModelReply, ModelRequest,
    ModelStream, Models,
};
use folio_metering::UsageRecorder;
use folio_passages::Context;
use folio_resources::{
    DictionaryEntry, DictionaryEntryChange, DictionaryEntryId, Document, DocumentChange, DocumentPatch, Heading,
    LinkKey, NewDictionaryEntry, NewDocument, Organization, OrganizationChange, PageStructure, Provenance, Resource,
    TextState,
};
use folio_storage::value::{PassageGeneration, PassageHead, encode};
use folio_storage::{IngestUpdate, NewPage, SharedOptions, SharedStores, Stores, create_job};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::{Simulated, wait_for};
use folio_tools::mcp::NoMcpServers;
use folio_tools::sections::OutlineCache;
use folio_tools::{ToolResources, document_dictionary};
use folio_types::message::Usage;
use folio_types::op::{Expected, Write};
use folio_types::page::PageRequest;
use folio_types::{
    BlobId, Digest, DocumentId, Environment as _, Error, Incarnation, IngestionMode, JobId, OrgId, Principal, Reason,
    Role, UserId,
};
use futures::future::BoxFuture;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use self::vectors::Vectors;

/// An index with failures, and with steps of other processes.
#[derive(Default)]
struct Scripted {
    /// The organization whose index cannot be removed.
    undeletable: Option<OrgId>,
    /// Runs before the next rebuild.
    before_rebuild: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Runs during the next removal of documents.
    during_removal: Mutex<Option<BoxFuture<'static, ()>>>,
    /// True: another process changes the index before the end of the next rebuild.
    is_changed: AtomicBool,
}

struct ScriptedIndex(Arc<dyn PassageIndex>, Scripted);

#[async_trait]
impl PassageIndex for ScriptedIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState, Error> {
        self.0.state(org).await
    }

    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<(), Error> {
        let before = self.1.before_rebuild.lock().unwrap().take();
        if let Some(step) = before {
            step.await;
        }
        self.0.begin_rebuild(org, rebuild).await
    }

    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written, Error> {
        match self.1.is_changed.swap(false, Ordering::Relaxed) {
            true => Ok(Written::NotUsable(IndexState::Rebuilding)),
            false => self.0.finish_rebuild(org, rebuild).await,
        }
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written, Error> {
        self.0.upsert(org, documents).await
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written, Error> {
        let during = self.1.during_removal.lock().unwrap().take();
        if let Some(step) = during {
            step.await;
        }
        self.0.delete_documents(org, documents).await
    }

    async fn delete_organization(&self, org: &OrgId) -> Result<(), Error> {
        match self.1.undeletable.as_ref() == Some(org) {
            true => Err(Error::unavailable(Reason::NodeLost, "a node is lost")),
            false => self.0.delete_organization(org).await,
        }
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer, Error> {
        self.0.search(org, search).await
    }

    async fn documents(
        &self,
        org: &OrgId,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<ListedDocument>, Error> {
        self.0.documents(org, after, limit).await
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics, Error> {
        self.0.statistics(org).await
    }

    async fn organizations(&self) -> Result<Vec<OrgId>, Error> {
        self.0.organizations().await
    }
}

struct Sandbox {
    knowledge: Knowledge,
    models: Arc<Vectors>,
    environment: Arc<Simulated>,
    shared: SharedStores,
    org: OrgId,
    // The last fields, so that the folder outlives the store.
    _store: EmbeddedStore,
    _folder: TempDir,
}

impl Sandbox {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let (stores, environment) = (store.stores(), Arc::new(Simulated::new(folio_testkit::seed())));
        let models = Arc::new(Vectors::default());
        let shared = folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default());
        let resources = ToolResources {
            stores: stores.clone(),
            models: models.clone(),
            meter: Arc::new(UsageRecorder::new(stores.usage.clone(), environment.clone())),
            environment: environment.clone(),
            extraction: folio_tools::extraction::Options::default(),
            job_limits: JobLimits::default(),
            job_hints: shared.jobs.clone(),
            mcp: Arc::new(NoMcpServers),
            passages: Arc::new(folio_tools::ingestion::NoPassages),
            outlines: OutlineCache::default(),
            retriever: Arc::new(folio_tools::retrieval::NoRetriever),
            images: Arc::new(folio_tools::images::NoImages),
            tasks: TaskTracker::new(),
        };
        let index = EmbeddedIndex::open(folder.path().join("index"), EmbeddedOptions::default()).unwrap();
        let org = OrgId::derive(&["o"]);
        let sandbox = Self {
            knowledge: Knowledge::new(resources, Arc::new(index)),
            models,
            environment,
            shared,
            org: org.clone(),
            _store: store,
            _folder: folder,
        };
        let create = OrganizationChange::Create { name: "o".to_owned() };
        sandbox.change::<Organization>(&OrgId::platform(), &org, Expected::Absent, create).await;
        sandbox
    }

    fn stores(&self) -> &Stores {
        &self.knowledge.stores
    }

    fn with_script(&self, script: Scripted) -> Knowledge {
        let mut knowledge = self.knowledge.clone();
        knowledge.index = Arc::new(ScriptedIndex(Arc::clone(&self.knowledge.index), script));
        knowledge
    }

    async fn change<R: Resource>(&self, owner: &OrgId, id: &R::Id, expected: Expected, change: R::Change) {
        let key = format!("{:032x}", self.environment.random()).parse().unwrap();
        let write = Write::by_platform(owner.clone(), key, self.environment.now(), expected, change);
        self.stores().of::<R>().decide(id, write).await.unwrap();
    }

    /// Adds an entry to the dictionary.
    async fn define(&self, term: &str, expansion: &str) {
        let new = NewDictionaryEntry {
            term: term.to_owned(),
            expansion: expansion.to_owned(),
            disambiguation: None,
            tags: Vec::new(),
            sources: Vec::new(),
            provenance: Provenance::Person,
        };
        let (id, create) = (DictionaryEntryId::derive(&[term]), DictionaryEntryChange::Create(Box::new(new)));
        self.change::<DictionaryEntry>(&self.org, &id, Expected::Absent, create).await;
    }

    async fn create(&self, name: &str, text: &str) -> DocumentId {
        let id = DocumentId::derive(&[name]);
        let new = NewDocument {
            metadata: BTreeMap::from([("kind".to_owned(), "manual".to_owned())]),
            ..NewDocument::file(name, "text/plain", b"x", BlobId::derive(&[name]))
        };
        self.change::<Document>(&self.org, &id, Expected::Absent, DocumentChange::Create(new)).await;
        self.set_text(&id, text).await;
        id
    }

    async fn set_text(&self, id: &DocumentId, text: &str) {
        store_text(self.stores(), &self.environment, (&self.org, id), text).await;
    }

    async fn ingest(&self, id: &DocumentId) -> Result<Ingested, Error> {
        ingest_now(&self.knowledge, &self.environment, (&self.org, id)).await
    }

    /// Ingests a document, builds the index if it is missing, and returns the live generation.
    async fn ingested(&self, id: &DocumentId) -> PassageHead {
        let Ingested::Live(head) = self.ingest(id).await.unwrap() else { panic!("the document has a text") };
        rebuild(&self.knowledge, &self.org).await.unwrap();
        head
    }

    /// Starts a node that runs every kind of job of the crate.
    async fn start_jobs(&self) -> Jobs {
        let knowledge = &self.knowledge;
        let dependencies = Dependencies {
            stores: self.stores().clone(),
            slots: self.shared.slots.clone(),
            hints: JobHints::new(self.shared.jobs.clone()),
            environment: self.environment.clone(),
            incarnation: Incarnation::derive(&["n"]),
            placement: Arc::new(SingleProcess),
            kinds: vec![
                Arc::new(IngestionJobs::of_users(knowledge.clone())),
                Arc::new(IngestionJobs::of_writes(knowledge.clone())),
                Arc::new(IndexRebuilds(knowledge.clone())),
                Arc::new(Reembeddings(knowledge.clone())),
            ],
            failpoint: None,
        };
        let options = folio_jobs::Options { sweep_interval: Duration::from_millis(50), ..Default::default() };
        Jobs::start(dependencies, options).await.unwrap()
    }

    /// Runs the jobs and the maintenance until searches use the vectors of a model, and the job that computes the vectors has
    /// ended. A sweep may find every vector before the job has removed the former generations.
    async fn run_until_serving(&self, model: &str) {
        let jobs = self.start_jobs().await;
        let (queue, kind) = (JobQueue::Ingestions, Some(REEMBEDDING_KIND.to_owned()));
        let open = JobFilter { queue, kind, is_open: Some(true), ..JobFilter::default() };
        maintain_until(&self.knowledge, "searches with the chosen model", || async {
            let serving = self.knowledge.serving_space(&self.org).await.unwrap();
            let open = self.stores().jobs.list(&self.org, &open, &PageRequest::default()).await.unwrap();
            serving.filter(|serving| serving.model == model && open.items.is_empty())
        })
        .await;
        jobs.stop().await;
    }

    /// Creates a job that ingests documents, as a user does, and returns it when it has ended.
    async fn run_job(&self, documents: &[&DocumentId]) -> JobHeader {
        let documents: Vec<DocumentId> = documents.iter().map(|id| (*id).clone()).collect();
        let new = NewJob {
            id: JobId::derive(&[&format!("{:032x}", self.environment.random())]),
            principal: Principal::new(self.org.clone(), UserId::derive(&["u"]), Role::Member),
            kind: INGESTION_KIND.to_owned(),
            input: json!(IngestionInput { mode: IngestionMode::Index, cause: None, credit_budget: None }),
            items: documents.iter().map(ToString::to_string).collect(),
            running_max: Duration::from_secs(3_600),
            at: self.environment.now(),
        };
        let (stores, id) = (self.stores(), new.id.clone());
        stores.passages().set_last_ingestion(&self.org, &id, &documents).await.unwrap();
        create_job(&*stores.jobs, &stores.job_pages(), &JobLimits::default(), new).await.unwrap();
        wait_for("the end of the job", SOON, || async {
            stores.jobs.header(&self.org, &id).await.unwrap().filter(JobHeader::is_ended)
        })
        .await
    }

    async fn state_of(&self, id: &DocumentId) -> IngestionState {
        let document = self.stores().of::<Document>().get(&self.org, id).await.unwrap().unwrap();
        ingestion_of(self.stores(), &document).await.unwrap().state
    }

    async fn head(&self, id: &DocumentId) -> Option<PassageHead> {
        self.knowledge.passages().head(&self.org, id).await.unwrap()
    }

    /// Returns the number of the stored generations of a document.
    async fn generations(&self, id: &DocumentId) -> usize {
        let group = format!("passage_generation/{id}");
        self.stores().rows.list(&self.org, &group).await.unwrap().len()
    }

    /// Stores the row of a generation, as a write that was interrupted before its head.
    async fn interrupt(&self, id: &DocumentId, generation: u64) {
        let (group, key) = (format!("passage_generation/{id}"), format!("{generation:016x}"));
        let row = encode(&PassageGeneration { generation, passages: 1 }).unwrap();
        self.stores().rows.put(&self.org, &group, &key, row).await.unwrap();
    }

    /// Returns the documents and generations of the passages that contain a word.
    async fn found(&self, word: &str) -> Vec<(DocumentId, u64)> {
        let search = Search { text: word.to_owned(), vector: None, filter: Filter::default(), limit: 10 };
        let answer = self.knowledge.index.search(&self.org, &search).await.unwrap();
        answer.hits.into_iter().map(|hit| (hit.document, hit.generation)).collect()
    }

    async fn state(&self) -> IndexState {
        self.knowledge.index.state(&self.org).await.unwrap()
    }
}

/// Stores a text of one page. A line `# TITLE` is a heading.
async fn store_text(stores: &Stores, environment: &Simulated, (org, id): (&OrgId, &DocumentId), text: &str) {
    environment.advance(Duration::from_secs(1));
    let mut headings = Vec::new();
    let words = text.split_whitespace().collect::<Vec<_>>();
    for (at, pair) in words.windows(2).enumerate().filter(|(_, pair)| pair[0] == "#") {
        headings.push(Heading { level: 1, title: pair[1].to_owned(), word: u32::try_from(at).unwrap() });
    }
    let structure = PageStructure { headings, ..PageStructure::default() };
    let page = NewPage { structure, ..NewPage::of_text(1, text) };
    let at = environment.now();
    let update = IngestUpdate { state: TextState::Ready, pages: vec![page], lacks_program: false, at };
    stores.texts.ingest(org, id.as_str(), update).await.unwrap();
}

async fn ingest_now(
    knowledge: &Knowledge,
    environment: &Simulated,
    (org, id): (&OrgId, &DocumentId),
) -> Result<Ingested, Error> {
    environment.advance(Duration::from_secs(1));
    let request = IngestRequest {
        org: org.clone(),
        user: UserId::platform(),
        document: id.clone(),
        key: format!("{:032x}", environment.random()),
        context: Context::default(),
    };
    ingest(knowledge, request).await
}

/// Runs the maintenance, with a sweep every 50 ms, until the condition returns a value.
async fn maintain_until<T, F>(knowledge: &Knowledge, what: &str, condition: impl FnMut() -> F)
where
    F: Future<Output = Option<T>>,
{
    let interval = Duration::from_millis(50);
    let maintenance = Maintenance::start(knowledge.clone(), interval, Arc::new(|_: &OrgId| true));
    wait_for(what, SOON, condition).await;
    maintenance.stop(Duration::from_secs(5)).await;
}

/// Timeout of every wait, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

const TEXT: &str = "# Pumps\n\nThe pump of the MY region delivers water.\n\n# Valves\n\nThe valve closes.";

#[tokio::test]
async fn invariant_10_a_document_uses_the_entries_of_its_terms_and_not_the_whole_dictionary() {
    let test = Sandbox::new().await;
    for (term, expansion) in [("MY", "Malaysia"), ("SG", "Singapore"), ("valve", "a part")] {
        test.define(term, expansion).await;
    }
    let id = test.create("pumps.md", TEXT).await;
    let document = test.stores().of::<Document>().get(&test.org, &id).await.unwrap().unwrap();
    let found = document_dictionary(test.stores(), &document, 10).await.unwrap();
    let terms: Vec<&str> = found.iter().map(|entry| entry.term.as_str()).collect();
    assert_eq!(terms, ["MY", "valve"]);
    assert_eq!(document_dictionary(test.stores(), &document, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_document_becomes_passages_of_its_sections_that_a_search_finds() {
    let test = Sandbox::new().await;
    test.define("MY", "Malaysia").await;
    let document = test.create("pumps.md", TEXT).await;
    let head = test.ingested(&document).await;
    assert_eq!((head.passages, head.space.clone()), (2, None));
    let passages = test.knowledge.passages().read(&test.org, &document, head.generation, &[0, 1]).await.unwrap();
    assert_eq!((passages[0].section_titles.clone(), passages[0].source_page), (vec!["Pumps".to_owned()], 1));
    assert!(passages[0].padding.contains("MY = Malaysia"), "{:?}", passages[0].padding);
    assert!(!passages[1].padding.contains("Malaysia"), "{:?}", passages[1].padding);
    assert!(passages[1].text.contains("valve closes") && passages[1].vectors.is_empty());
    assert!(passages[0].metadata_pairs.contains(&("kind".to_owned(), "manual".to_owned())));
    assert_eq!(test.found("valve").await, [(document.clone(), head.generation)]);
    assert_eq!(test.found("Malaysia").await.len(), 1, "the context is searched, too");
    let bytes = test.stores().of::<Document>().content_bytes(&test.org).await.unwrap();
    assert!(bytes > 2 * TEXT.len() as u64, "passages count as storage: {bytes}");

    test.set_text(&document, "# Fans\n\nThe fan turns.").await;
    let next = test.ingested(&document).await;
    assert!(next.generation > head.generation && next.text_generation > head.text_generation);
    assert!(test.found("valve").await.is_empty());
    assert_eq!(test.found("fan").await, [(document.clone(), next.generation)]);
    assert!(test.knowledge.passages().read(&test.org, &document, head.generation, &[0]).await.unwrap().is_empty());
    let found = test.stores().of::<Document>().get(&test.org, &document).await.unwrap().unwrap();
    assert_eq!(ingestion_of(test.stores(), &found).await.unwrap().state, IngestionState::Indexed);
}

#[tokio::test]
async fn vectors_of_another_model_replace_those_of_an_interrupted_attempt() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    let head = test.ingested(&document).await;
    test.interrupt(&document, head.generation + 60_000).await;
    test.models.choose(&["second", "first"]);
    test.run_until_serving("second").await;
    assert_eq!(test.generations(&document).await, 1, "the interrupted generation was removed");
}

#[tokio::test]
async fn a_sweep_adds_what_an_index_lacks_and_removes_what_it_must_not_contain() {
    let test = Sandbox::new().await;
    let [lost, orphan] = [test.create("lost.md", TEXT).await, test.create("orphan.md", TEXT).await];
    let deleted = test.create("deleted.md", TEXT).await;
    for document in [&lost, &orphan, &deleted] {
        test.ingested(document).await;
    }
    assert_eq!(test.state().await, IndexState::Ready);
    let index = &test.knowledge.index;
    index.delete_documents(&test.org, std::slice::from_ref(&lost)).await.unwrap();
    test.knowledge.passages().remove(&test.org, &orphan).await.unwrap();
    // A process stored passages of a deleted document and died.
    test.change::<Document>(&test.org, &deleted, Expected::Version(1), DocumentChange::Delete).await;
    index.delete_documents(&test.org, std::slice::from_ref(&deleted)).await.unwrap();
    let other = OrgId::derive(&["deleted"]);
    index.begin_rebuild(&other, 1).await.unwrap();
    index.finish_rebuild(&other, 1).await.unwrap();
    maintain_until(&test.knowledge, "the sweep", || async {
        let listed = index.documents(&test.org, None, 10).await.unwrap();
        let documents: Vec<_> = listed.into_iter().map(|listed| listed.document).collect();
        let organizations = index.organizations().await.unwrap();
        let is_removed = test.head(&deleted).await.is_none();
        (documents == [lost.clone()] && organizations == [test.org.clone()] && is_removed).then_some(())
    })
    .await;
    assert_eq!(test.found("pump").await.len(), 1);
}

#[tokio::test]
async fn an_index_that_moves_to_this_process_is_compared_at_once() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.knowledge.index.delete_documents(&test.org, &[document]).await.unwrap();
    // False during the first sweep, for the organization of the index and that of the stores.
    let calls = AtomicUsize::new(0);
    let is_responsible = Arc::new(move |_: &OrgId| calls.fetch_add(1, Ordering::Relaxed) > 1);
    let maintenance = Maintenance::start(test.knowledge.clone(), Duration::from_secs(3_600), is_responsible);
    let found = || async {
        maintenance.changed().notify_one();
        test.found("pump").await.pop()
    };
    wait_for("the comparison", SOON, found).await;
    maintenance.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_lost_index_is_rebuilt_from_the_stores() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.knowledge.index.delete_organization(&test.org).await.unwrap();
    assert_eq!((test.state().await, test.found("pump").await), (IndexState::Missing, Vec::new()));
    // No node of this test runs the job of the first ingestion.
    let jobs = || async {
        let filter = JobFilter { queue: JobQueue::Ingestions, ..JobFilter::default() };
        let listed = test.stores().jobs.list(&test.org, &filter, &PageRequest::default()).await.unwrap();
        assert!(listed.items.iter().all(|job| job.kind == "index_rebuild"), "{:?}", listed.items);
        listed.items
    };
    let cancel = || async {
        for open in jobs().await.into_iter().filter(|job| !job.is_ended()) {
            let cancelled = open.after(JobCommand::Cancel, test.environment.now()).unwrap().unwrap();
            let write = JobWrite { batch: test.environment.random(), before: open, after: cancelled, outcome: None };
            assert!(matches!(test.stores().jobs.write(write).await.unwrap(), JobWritten::Done(_)));
        }
        test.environment.advance(Duration::from_secs(60));
    };
    test.environment.advance(Duration::from_secs(60));
    test.ingest(&document).await.unwrap();
    assert_eq!(jobs().await.len(), 1, "the open job serves each request");
    cancel().await;
    for _ in 0..2 {
        test.ingest(&document).await.unwrap();
        assert_eq!(jobs().await.len(), 2, "another job, because the first one has ended");
    }
    cancel().await;
    maintain_until(&test.knowledge, "the job of a sweep", || async { (jobs().await.len() == 3).then_some(()) }).await;
    let head = test.head(&document).await.unwrap();
    assert_eq!(rebuild(&test.knowledge, &test.org).await.unwrap(), 1);
    assert_eq!(rebuild(&test.knowledge, &test.org).await.unwrap(), 0, "the index is ready");
    assert_eq!(test.found("pump").await, [(document, head.generation)]);
}

#[tokio::test]
async fn a_job_ingests_documents_builds_the_missing_index_and_states_the_result_of_each() {
    let test = Sandbox::new().await;
    let [ready, empty] = [test.create("ready.md", TEXT).await, test.create("empty.md", TEXT).await];
    let (state, at) = (TextState::NoText("blank".to_owned()), test.environment.now() + Duration::from_secs(1));
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
    test.stores().texts.ingest(&test.org, empty.as_str(), update).await.unwrap();
    assert_eq!(test.state_of(&ready).await, IngestionState::None);
    let jobs = test.start_jobs().await;
    let ended = test.run_job(&[&ready, &empty]).await;
    assert_eq!(ended.state, JobState::Completed);
    assert_eq!(test.state_of(&ready).await, IngestionState::Indexed);
    assert_eq!(test.state_of(&empty).await, IngestionState::Skipped("the document has no text: blank".to_owned()));
    wait_for("the index", SOON, || async { (test.found("pump").await.len() == 1).then_some(()) }).await;
    jobs.stop().await;
}

#[tokio::test]
async fn a_sweep_computes_vectors_of_the_chosen_model_by_a_job() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let documents = [test.create("one.md", TEXT).await, test.create("two.md", "# Fans\n\nThe fan turns.").await];
    for document in &documents {
        test.ingested(document).await;
    }
    assert_eq!(test.models.take(), 3);
    test.models.choose(&["second", "first"]);
    test.run_until_serving("second").await;
    assert_eq!(test.models.take(), 3, "each passage is embedded once with the chosen model");
    for document in &documents {
        let head = test.head(document).await.unwrap();
        assert_eq!(head.space.as_deref(), Some("own/second/0"));
        let listed = test.knowledge.index.documents(&test.org, None, 10).await.unwrap();
        let indexed = listed.iter().find(|listed| listed.document == *document).unwrap();
        assert_eq!(indexed.generation, head.generation, "the index has the generation with both vectors");
    }
}

#[tokio::test]
async fn new_vectors_of_an_earlier_text_do_not_replace_a_later_text() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.models.choose(&["second", "first"]);
    let (knowledge, environment) = (test.knowledge.clone(), test.environment.clone());
    let (org, id) = (test.org.clone(), document.clone());
    test.models.run_during(async move {
        store_text(&knowledge.stores, &environment, (&org, &id), "# Fans\n\nThe fan turns.").await;
        ingest_now(&knowledge, &environment, (&org, &id)).await.unwrap();
        environment.advance(Duration::from_secs(1));
    });
    test.run_until_serving("second").await;
    let found = test.stores().of::<Document>().get(&test.org, &document).await.unwrap().unwrap();
    let head = test.head(&document).await.unwrap();
    assert_eq!(Some(head.text_generation), found.text_generation);
    assert_eq!(test.found("fan").await, [(document, head.generation)]);
    assert!(test.found("valve").await.is_empty());
}

#[tokio::test]
async fn a_document_that_a_model_refuses_does_not_keep_others_from_its_vectors() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    // Two documents of one item of the job.
    let mut buckets: BTreeMap<String, Vec<(DocumentId, String)>> = BTreeMap::new();
    let mut names = (0..).map(|number| format!("{number}.md"));
    let mut pair = loop {
        let name = names.next().unwrap();
        let id = DocumentId::derive(&[&name]);
        let bucket = Digest::of(id.as_str().as_bytes()).as_str()[..2].to_owned();
        let documents = buckets.entry(bucket).or_default();
        documents.push((id, name));
        if documents.len() == 2 {
            break std::mem::take(documents);
        }
    };
    pair.sort();
    for ((_, name), text) in pair.iter().zip([TEXT, "# Fans\n\nThe fan turns."]) {
        let document = test.create(name, text).await;
        test.ingested(&document).await;
    }
    test.models.choose(&["second", "first"]);
    *test.models.refused.lock().unwrap() = Some("pump");
    let jobs = test.start_jobs().await;
    let [(refused, _), (other, _)] = &pair[..] else { panic!("{pair:?}") };
    maintain_until(&test.knowledge, "vectors of the other document", || async {
        test.head(other).await.filter(|head| head.space.as_deref() == Some("own/second/0"))
    })
    .await;
    jobs.stop().await;
    assert_eq!(test.head(refused).await.unwrap().space.as_deref(), Some("own/first/0"));
    assert_eq!(test.knowledge.serving_space(&test.org).await.unwrap().unwrap().model, "first");
}

#[tokio::test]
async fn a_rebuild_of_an_index_that_another_process_changed_fails() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingest(&document).await.unwrap();
    let knowledge = test.with_script(Scripted { is_changed: AtomicBool::new(true), ..Scripted::default() });
    let error = rebuild(&knowledge, &test.org).await.unwrap_err();
    assert!(error.reason == Reason::VersionConflict && error.is_retriable(), "{error}");
    assert_eq!(rebuild(&knowledge, &test.org).await.unwrap(), 1);
}

#[tokio::test]
async fn a_rebuild_does_not_wait_for_a_long_one_of_another_organization() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingest(&document).await.unwrap();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let step: BoxFuture<'static, ()> = Box::pin(async move {
        begun.send(()).unwrap();
        std::future::pending().await
    });
    let knowledge = test.with_script(Scripted { before_rebuild: Mutex::new(Some(step)), ..Scripted::default() });
    let (long, org) = (knowledge.clone(), OrgId::derive(&["long"]));
    let of_long = org.clone();
    let long = tokio::spawn(async move { rebuild(&long, &of_long).await });
    begins.await.unwrap();
    assert_eq!(rebuild(&knowledge, &test.org).await.unwrap(), 1, "the index of another organization");
    let refused = rebuild(&knowledge, &org).await.unwrap_err();
    assert_eq!(folio_jobs::wait_reason(&refused), Some(WaitReason::Limit), "{refused}");
    long.abort();
    assert!(long.await.unwrap_err().is_cancelled());
    assert_eq!(rebuild(&knowledge, &org).await.unwrap(), 0, "the organization has no documents");
}

#[tokio::test]
async fn an_index_that_cannot_be_removed_does_not_keep_those_of_other_deleted_organizations() {
    let test = Sandbox::new().await;
    let mut deleted = ["a", "b", "c"].map(|name| OrgId::derive(&[name]));
    deleted.sort();
    for org in &deleted {
        test.knowledge.index.begin_rebuild(org, 1).await.unwrap();
    }
    let [first, others @ ..] = &deleted;
    let knowledge = test.with_script(Scripted { undeletable: Some(first.clone()), ..Scripted::default() });
    maintain_until(&knowledge, "the removals", || async {
        let indexed = test.knowledge.index.organizations().await.unwrap();
        (!others.iter().any(|org| indexed.contains(org))).then_some(())
    })
    .await;
    assert!(test.knowledge.index.organizations().await.unwrap().contains(first));
}

#[tokio::test]
async fn a_document_without_vectors_receives_them_within_an_hour() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let jobs = test.start_jobs().await;
    // Both are ingested while the model fails, and the second one after the job of the first hour has ended.
    for (text, pause) in [(TEXT, Duration::ZERO), ("# Fans\n\nThe fan turns.", Duration::from_secs(60 * 60))] {
        let document = test.create(&text[2..6], text).await;
        *test.models.fails.lock().unwrap() = true;
        assert!(test.ingest(&document).await.is_err());
        assert_eq!(test.head(&document).await.unwrap().space, None);
        *test.models.fails.lock().unwrap() = false;
        test.environment.advance(pause);
        maintain_until(&test.knowledge, "the vectors", || async {
            test.head(&document).await.filter(|head| head.space.as_deref() == Some("own/first/0"))
        })
        .await;
    }
    jobs.stop().await;
}
