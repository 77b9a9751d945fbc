//! Tests of deliveries on the embedded store, with a receiver on the loopback interface.

mod full_disk;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use folio_history::job::{DELIVERY_KIND, ItemRun, JobFilter, JobHeader, JobLimits, JobQueue};
use folio_jobs::{Dependencies, ItemTask, JobHints, JobKind as _, Jobs, SingleProcess};
use folio_providers::{Providers, SecretsOptions, Vault};
use folio_resources::{
    Document, DocumentChange, DocumentPatch, Extraction, NewDocument, NewPrompt, Organization, OrganizationChange,
    Prompt, PromptChange, Resource, Tag, TagChange, TagRunsPatch, TextState, WebhookEndpoint, WebhookEndpointChange,
    WebhookEndpointId,
};
use folio_storage::{IngestUpdate, ResourceStore, SharedOptions, SharedStores, Stores, TextStore};
use folio_storage_conformance::layer::{Layered, TextLayer};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_testkit::wait_for;
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Write};
use folio_types::page::PageRequest;
use folio_types::{
    BlobId, CallId, Digest, DocumentId, Environment, ExtractionId, Incarnation, JobId, OrgId, PromptId, Reason, Result,
    Secret, System, TagId, ThreadId, TurnId, UserId,
};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::event::Source;
use crate::{Counters, Delivery, DeliveryJobs, DeliveryState, Event, signing_key, with_events};

const LIMIT: Duration = Duration::from_secs(20);
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Received requests, and the status of the answers.
struct Received {
    requests: Mutex<Vec<(HeaderMap, Bytes)>>,
    status: Mutex<StatusCode>,
}

impl Received {
    fn all(&self) -> Vec<(HeaderMap, Bytes)> {
        self.requests.lock().unwrap().clone()
    }
}

async fn receive(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(header::HeaderName, &'static str); 1], &'static str) {
    received.requests.lock().unwrap().push((headers, body));
    (*received.status.lock().unwrap(), [(header::LOCATION, "/hook")], "thanks")
}

async fn receiver() -> (Arc<Received>, SocketAddr) {
    let received = Arc::new(Received { requests: Mutex::default(), status: Mutex::new(StatusCode::OK) });
    let router = Router::new().route("/hook", post(receive)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (received, address)
}

/// Returns a sandbox with a document, and with an endpoint at a receiver. `allowed`: the private networks that the operator
/// allows.
async fn start(allowed: &[&str]) -> (Arc<Received>, TempDir, Sandbox) {
    let (received, address) = receiver().await;
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), allowed);
    test.create_endpoint(address).await;
    test.create_document().await;
    (received, folder, test)
}

struct Sandbox {
    store: EmbeddedStore,
    shared: SharedStores,
    /// The stores without the layer.
    stores: Stores,
    providers: Providers,
    environment: Arc<dyn Environment>,
    org: OrgId,
    endpoint: WebhookEndpointId,
    document: DocumentId,
}

impl Sandbox {
    fn open(folder: &std::path::Path, allowed: &[&str]) -> Self {
        Self::open_with(StoreOptions::at(folder), allowed)
    }

    fn open_with(options: StoreOptions, allowed: &[&str]) -> Self {
        let store = EmbeddedStore::open(options).unwrap();
        let environment: Arc<dyn Environment> = Arc::new(System);
        let shared = folio_storage_memory::shared_stores(Arc::clone(&environment), SharedOptions::default());
        let stores = store.stores();
        let secrets = SecretsOptions { master_keys: vec![Secret::new(MASTER_KEY)], ..SecretsOptions::default() };
        let table = folio_llm::Options::openai(Secret::new("sk"), Some("http://127.0.0.1:9/v1"), Some("model"));
        let allowed_networks = allowed.iter().map(|network| network.parse().unwrap()).collect();
        let options = folio_providers::Options { allowed_networks, ..folio_providers::Options::default() };
        let vault = Vault::new(&secrets).unwrap();
        let providers = Providers::new(table, &options, vault, &stores, Arc::clone(&environment)).unwrap();
        Self {
            store,
            shared,
            stores,
            providers,
            environment,
            org: OrgId::derive(&["o"]),
            endpoint: WebhookEndpointId::derive(&["e"]),
            document: DocumentId::derive(&["d"]),
        }
    }

    fn with_events(&self, stores: Stores) -> Stores {
        with_events(stores, Arc::clone(&self.shared.jobs), JobLimits::default(), Counters::default())
    }

    fn jobs(&self) -> DeliveryJobs {
        self.counted_jobs(Counters::default())
    }

    fn counted_jobs(&self, counters: Counters) -> DeliveryJobs {
        let environment = Arc::clone(&self.environment);
        DeliveryJobs::new(self.stores.clone(), self.providers.clone(), environment, counters).unwrap()
    }

    async fn create_endpoint(&self, address: SocketAddr) {
        let secret = self.providers.vault().seal(&self.org, self.endpoint.as_str(), &Secret::new(SECRET)).unwrap();
        let create = WebhookEndpointChange::Create {
            url: format!("http://{address}/hook"),
            event_types: BTreeSet::from(["document.ready".to_owned()]),
            secret: Some(secret),
            enabled: true,
        };
        let key = "endpoint".parse().unwrap();
        let write = Write::by_platform(self.org.clone(), key, self.environment.now(), Expected::Absent, create);
        self.stores.of::<WebhookEndpoint>().decide(&self.endpoint, write).await.unwrap();
    }

    async fn create_document(&self) {
        self.create_document_with(false).await;
    }

    async fn create_document_with(&self, has_auto_create: bool) {
        let create = DocumentChange::Create(NewDocument {
            has_auto_create,
            auto_create_budget: has_auto_create.then_some(7),
            ..NewDocument::file("a.txt", "text/plain", b"x", BlobId::derive(&["b"]))
        });
        let key = "document".parse().unwrap();
        let write = Write::by_platform(self.org.clone(), key, self.environment.now(), Expected::Absent, create);
        self.stores.of::<Document>().decide(&self.document, write).await.unwrap();
    }

    fn ready(&self) -> IngestUpdate {
        let at = self.environment.now();
        IngestUpdate { state: TextState::Ready, pages: Vec::new(), lacks_program: false, at }
    }

    /// Stores the text of the document with its events.
    async fn ingest(&self, update: IngestUpdate) {
        let stores = self.with_events(self.stores.clone());
        stores.texts.ingest(&self.org, self.document.as_str(), update).await.unwrap();
    }

    /// Creates a delivery of an event whose record may not be stored.
    async fn create_delivery(&self, event: &Event) -> JobHeader {
        let key = (&self.org, &self.endpoint);
        crate::create_delivery(&*self.stores.jobs, key, event, &["a"], event.at).await.unwrap()
    }

    /// Returns all deliveries.
    async fn deliveries(&self) -> Vec<JobHeader> {
        let filter = JobFilter { queue: JobQueue::Deliveries, ..JobFilter::default() };
        self.stores.jobs.list(&self.org, &filter, &PageRequest::default()).await.unwrap().items
    }

    async fn stored_endpoint(&self) -> WebhookEndpoint {
        self.stores.of::<WebhookEndpoint>().get(&self.org, &self.endpoint).await.unwrap().unwrap()
    }

    /// Runs the item of a delivery as the first attempt of its job. Also returns the record of the attempt.
    async fn attempt(&self, kind: &DeliveryJobs, job: JobHeader) -> (Result<Value>, Value) {
        let (record, recorded) = watch::channel(None);
        let task = ItemTask {
            principal: job.principal.clone(),
            run: ItemRun { job: job.id.clone(), item: 1, epoch: 1, attempt: 1 },
            job,
            steps: watch::channel(None).0,
            record,
        };
        let result = kind.run_item(task).await;
        let recorded = recorded.borrow().clone();
        (result, recorded.unwrap_or(Value::Null))
    }
}

/// Never returns from the write of a text: the process dies between the record and all that follows.
struct DiesAfterRecord;

#[async_trait]
impl TextLayer for DiesAfterRecord {
    async fn ingest(&self, below: &dyn TextStore, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        below.ingest(org, id, update).await?;
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_event_is_delivered_although_the_process_dies_after_the_record() {
    let (received, address) = receiver().await;
    let folder = tempfile::tempdir().unwrap();
    let first = Sandbox::open(folder.path(), &["127.0.0.1"]);
    first.create_endpoint(address).await;
    first.create_document().await;
    let dying = Stores { texts: Layered::over(DiesAfterRecord, &first.stores.texts), ..first.stores.clone() };
    let dying = first.with_events(dying);
    let (org, id, update) = (first.org.clone(), first.document.to_string(), first.ready());
    let write = tokio::spawn(async move { dying.texts.ingest(&org, &id, update).await });
    wait_for("the record", LIMIT, || async {
        let found = first.stores.of::<Document>().get(&first.org, &first.document).await.unwrap();
        found.filter(|found| found.state == TextState::Ready)
    })
    .await;
    write.abort();
    assert_eq!(first.shared.jobs.waiting(folio_storage::JOB_HINTS).await.unwrap(), 0, "no hint was added");
    let Sandbox { store, .. } = first;
    store.close().await;

    let second = Sandbox::open(folder.path(), &["127.0.0.1"]);
    let dependencies = Dependencies {
        stores: second.stores.clone(),
        slots: Arc::clone(&second.shared.slots),
        hints: JobHints::new(Arc::clone(&second.shared.jobs)),
        environment: Arc::clone(&second.environment),
        incarnation: Incarnation::derive(&["second"]),
        placement: Arc::new(SingleProcess),
        kinds: vec![Arc::new(second.jobs())],
        failpoint: None,
    };
    let jobs = Jobs::start(dependencies, folio_jobs::Options::default()).await.unwrap();
    let ended = wait_for("the end of the delivery", LIMIT, || async {
        second.deliveries().await.into_iter().next().filter(JobHeader::is_ended)
    })
    .await;
    let delivery = Delivery::of(ended).unwrap().with_attempt(&*second.stores.jobs).await.unwrap();
    assert_eq!((delivery.state(), delivery.attempts()), (DeliveryState::Delivered, 1));
    let attempt = delivery.attempt.unwrap();
    assert_eq!(attempt.status, Some(200));
    assert!(attempt.request_head.starts_with("POST http://127.0.0.1"), "{}", attempt.request_head);
    assert!(attempt.response_head.ends_with("\nthanks"), "{}", attempt.response_head);
    let requests = received.all();
    let [(headers, body)] = requests.as_slice() else { panic!("{} requests", requests.len()) };
    let webhook = Webhook::from_bytes(signing_key(&Secret::new(SECRET)).unwrap()).unwrap();
    webhook.verify(body, headers).unwrap();
    assert_eq!(headers["webhook-id"], delivery.event.id.as_str());
    let body: Value = serde_json::from_slice(body).unwrap();
    assert_eq!((&body["type"], &body["data"]["document_id"]), (&json!("document.ready"), &json!(second.document)));
    jobs.stop().await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_record_is_stored() {
    let (received, _folder, test) = start(&["127.0.0.1"]).await;
    let kind = test.jobs();
    let events = crate::event::of_text(&test.org, &test.document, &test.ready());
    let event = events.unwrap();
    let job = test.create_delivery(&event).await;
    let (early, record) = test.attempt(&kind, job.clone()).await;
    assert_eq!((early.unwrap_err().reason, record), (Reason::StoreUnavailable, Value::Null));
    let old = JobHeader { created_at: event.at - Duration::from_secs(601), ..job.clone() };
    let lost = test.attempt(&kind, old).await.0.unwrap_err();
    assert!(!lost.is_retriable() && lost.message.contains("not stored"), "{lost}");
    assert_eq!(received.all().len(), 0);
    test.stores
        .texts
        .ingest(&test.org, test.document.as_str(), IngestUpdate { at: event.at, ..test.ready() })
        .await
        .unwrap();
    test.attempt(&kind, job).await.0.unwrap();
    assert_eq!(received.all().len(), 1);
}

#[tokio::test]
async fn a_text_whose_write_was_repeated_has_one_event() {
    let (received, _folder, test) = start(&["127.0.0.1"]).await;
    let (lost, repeated) = (test.ready(), test.ready());
    let repeated = IngestUpdate { at: lost.at + Duration::from_secs(1), ..repeated };
    let lost = crate::event::of_text(&test.org, &test.document, &lost).unwrap();
    let lost = test.create_delivery(&lost).await;
    test.ingest(repeated).await;
    let kind = test.jobs();
    for job in test.deliveries().await {
        let attempt = test.attempt(&kind, job.clone()).await.0;
        assert_eq!(attempt.is_err(), job.id == lost.id, "{attempt:?}");
    }
    assert_eq!(received.all().len(), 1);
}

#[tokio::test]
async fn an_event_of_an_extraction_is_sent_only_if_its_write_was_decided() {
    let (received, _folder, test) = start(&["127.0.0.1"]).await;
    let (kind, at, extraction) = (test.jobs(), test.environment.now(), ExtractionId::derive(&["x"]));
    for (name, state) in
        [("done", Some(OpState::Done(OpResult::Deleted))), ("refused", Some(OpState::Conflict)), ("unknown", None)]
    {
        let op = OpKey::Request { user: UserId::platform(), request: name.parse().unwrap() };
        let source = Source::Extraction { extraction: extraction.clone(), op: op.clone() };
        let event = Event { source: Some(source), ..Event::test(&test.org, &test.endpoint, &[name], at) };
        let event = Event { name: "extraction.completed".to_owned(), ..event };
        let job = test.create_delivery(&event).await;
        if let Some(state) = state {
            let row = OpRow { op, digest: Digest::of(b"x"), state, at };
            test.stores.ops.close(&test.org, &Extraction::target(&extraction), row).await.unwrap();
        }
        let attempt = test.attempt(&kind, job).await.0;
        assert_eq!(attempt.is_ok(), name == "done", "{name}: {attempt:?}");
    }
    assert_eq!(received.all().len(), 1);
}

#[tokio::test]
async fn a_failed_attempt_is_recorded_repeated_and_reported_to_the_endpoint() {
    let (received, _folder, test) = start(&["127.0.0.1"]).await;
    let kind = test.jobs();
    test.ingest(test.ready()).await;
    let jobs = test.deliveries().await;
    let [job] = jobs.as_slice() else { panic!("{} deliveries", jobs.len()) };
    assert_eq!((job.kind.as_str(), job.items[0].id.as_str()), (DELIVERY_KIND, test.endpoint.as_str()));
    assert_eq!(test.shared.jobs.waiting(folio_storage::JOB_HINTS).await.unwrap(), 1, "a hint after the record");

    for (status, problem) in
        [(StatusCode::SERVICE_UNAVAILABLE, "503"), (StatusCode::FOUND, "redirects are not followed")]
    {
        *received.status.lock().unwrap() = status;
        let (refused, record) = test.attempt(&kind, job.clone()).await;
        let refused = refused.unwrap_err();
        assert!(refused.message.contains(problem), "{refused}");
        assert_eq!(refused.reason, Reason::WebhookFailed);
        assert!(refused.is_retriable());
        assert_eq!(record["status"], status.as_u16());
        assert!(test.stored_endpoint().await.failing_since.is_some());
    }
    assert_eq!(received.all().len(), 2, "the redirect was not followed");
    *received.status.lock().unwrap() = StatusCode::NO_CONTENT;
    test.attempt(&kind, job.clone()).await.0.unwrap();
    assert_eq!(test.stored_endpoint().await.failing_since, None);
}

#[tokio::test]
async fn an_endpoint_that_fails_for_5_days_is_disabled_and_counted_once() {
    let (received, _folder, test) = start(&["127.0.0.1"]).await;
    *received.status.lock().unwrap() = StatusCode::SERVICE_UNAVAILABLE;
    let at = test.environment.now() - Duration::from_secs(6 * 24 * 60 * 60);
    let report = WebhookEndpointChange::Report { error: Some("503".to_owned()) };
    let write = Write::by_platform(test.org.clone(), "report".parse().unwrap(), at, Expected::Version(1), report);
    test.stores.of::<WebhookEndpoint>().decide(&test.endpoint, write).await.unwrap();
    test.ingest(test.ready()).await;
    let job = test.deliveries().await.remove(0);
    let counters = Counters::default();
    let kind = test.counted_jobs(counters.clone());
    for _ in 0..2 {
        test.attempt(&kind, job.clone()).await.0.unwrap_err();
        assert!(!test.stored_endpoint().await.enabled);
    }
    assert_eq!((counters.disabled_endpoints(), received.all().len()), (1, 1));
}

#[tokio::test]
async fn an_address_that_the_operator_does_not_allow_receives_nothing() {
    let (received, _folder, test) = start(&[]).await;
    let event = Event::test(&test.org, &test.endpoint, &["r"], test.environment.now());
    let job = test.create_delivery(&event).await;
    let (refused, _) = test.attempt(&test.jobs(), job).await;
    assert!(refused.unwrap_err().message.contains("not public"));
    assert_eq!(received.all().len(), 0);
}

#[tokio::test]
async fn an_unreachable_endpoint_is_not_tried_by_each_delivery() {
    // A bound socket that does not listen keeps its port from the servers of other tests.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &["127.0.0.1"]);
    test.create_endpoint(address).await;
    test.create_document().await;
    let kind = test.jobs();
    test.ingest(test.ready()).await;
    let job = test.deliveries().await.remove(0);
    let (refused, record) = test.attempt(&kind, job.clone()).await;
    assert!(refused.unwrap_err().message.contains("cannot connect"));
    assert!(record["request_head"].as_str().unwrap().contains("webhook-signature: v1,"));
    let (next, record) = test.attempt(&kind, job).await;
    assert!(next.unwrap_err().message.contains("another delivery"));
    assert_eq!(record, Value::Null, "no request was made");
}

/// Executes a change as the platform.
async fn change<R: Resource>(test: &Sandbox, stores: &Stores, id: &R::Id, expected: Expected, change: R::Change) {
    let org = if R::KIND == Organization::KIND { OrgId::platform() } else { test.org.clone() };
    let key = format!("{:032x}", test.environment.random()).parse().unwrap();
    let write = Write::by_platform(org, key, test.environment.now(), expected, change);
    stores.of::<R>().decide(id, write).await.unwrap();
}

/// Creates a prompt with a tag. Returns the change that adds the tag to a document without tags.
async fn create_tagged_prompt(test: &Sandbox) -> DocumentChange {
    let tag = TagId::derive(&["t"]);
    let create = TagChange::Create { name: "t".into(), color: None, description: None };
    change::<Tag>(test, &test.stores, &tag, Expected::Absent, create).await;
    let (name, content, tags) = ("p".into(), "c".into(), vec![tag.clone()]);
    let create = PromptChange::Create(NewPrompt { name, content, tags, ..NewPrompt::default() });
    change::<Prompt>(test, &test.stores, &PromptId::derive(&["p"]), Expected::Absent, create).await;
    DocumentChange::Update(DocumentPatch { tags: Some(vec![tag]), ..DocumentPatch::default() })
}

#[tokio::test]
async fn a_prompt_that_shares_a_tag_with_a_document_runs_on_each_text_and_after_each_new_tag() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document().await;
    let stores = test.with_events(test.stores.clone());
    let tagged = create_tagged_prompt(&test).await;
    let runs = async || {
        let found = test.stores.jobs.list(&test.org, &JobFilter::default(), &PageRequest::default()).await.unwrap();
        found.items.into_iter().map(|job| job.input["tag_run"]["write"].clone()).rev().collect::<Vec<_>>()
    };
    stores.texts.ingest(&test.org, test.document.as_str(), test.ready()).await.unwrap();
    assert_eq!(runs().await, [] as [Value; 0], "the document has no tag");

    change::<Document>(&test, &stores, &test.document, Expected::Version(1), tagged).await;
    assert_eq!(runs().await, [json!({ "document": 2 })]);
    assert_eq!(test.shared.jobs.waiting(folio_storage::JOB_HINTS).await.unwrap(), 1, "a hint after the write");
    let update = test.ready();
    for _ in 0..2 {
        stores.texts.ingest(&test.org, test.document.as_str(), update.clone()).await.unwrap();
    }
    assert_eq!(runs().await, [json!({ "document": 2 }), json!("text")], "a repeated write causes no other run");

    let create = OrganizationChange::Create { name: "o".into() };
    change::<Organization>(&test, &stores, &test.org, Expected::Absent, create).await;
    let disable = OrganizationChange::Update {
        name: None,
        thread_retention_days: None,
        tag_runs: TagRunsPatch { disabled: Some(true), batch_documents: None },
        auto_create: None,
        ingestion: None,
    };
    change::<Organization>(&test, &stores, &test.org, Expected::Version(1), disable).await;
    stores.texts.ingest(&test.org, test.document.as_str(), test.ready()).await.unwrap();
    assert_eq!(runs().await.len(), 2, "the organization disabled the runs");
}

#[tokio::test]
async fn a_change_of_a_document_during_its_first_ingestion_creates_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document().await;
    let stores = test.with_events(test.stores.clone());
    let jobs = async || {
        let filter = JobFilter { queue: JobQueue::Ingestions, ..JobFilter::default() };
        test.stores.jobs.list(&test.org, &filter, &PageRequest::default()).await.unwrap().items.len()
    };
    let rename =
        |name: &str| DocumentChange::Update(DocumentPatch { name: Some(name.to_owned()), ..DocumentPatch::default() });
    change::<Document>(&test, &stores, &test.document, Expected::Version(1), rename("b.txt")).await;
    assert_eq!(jobs().await, 0, "the document was never ingested");

    let (running, documents) = (JobId::derive(&["running"]), [test.document.clone()]);
    stores.passages().set_last_ingestion(&test.org, &running, &documents).await.unwrap();
    change::<Document>(&test, &stores, &test.document, Expected::Version(2), rename("c.txt")).await;
    assert_eq!(jobs().await, 1);
    let empty = IngestUpdate { state: TextState::NoText("blank".into()), ..test.ready() };
    stores.texts.ingest(&test.org, test.document.as_str(), empty).await.unwrap();
    assert_eq!(jobs().await, 2);
    change::<Document>(&test, &stores, &test.document, Expected::Version(3), DocumentChange::Delete).await;
    assert_eq!(jobs().await, 3);
}

#[tokio::test]
async fn a_document_without_text_causes_the_job_that_stores_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document().await;
    let stores = test.with_events(test.stores.clone());
    let create = OrganizationChange::Create { name: "o".into() };
    change::<Organization>(&test, &stores, &test.org, Expected::Absent, create).await;
    let empty = IngestUpdate { state: TextState::NoText("blank".into()), ..test.ready() };
    stores.texts.ingest(&test.org, test.document.as_str(), empty).await.unwrap();
    let filter = JobFilter { queue: JobQueue::Ingestions, ..JobFilter::default() };
    let found = test.stores.jobs.list(&test.org, &filter, &PageRequest::default()).await.unwrap().items;
    assert_eq!(found.iter().map(|job| job.kind.as_str()).collect::<Vec<_>>(), ["text_ingestion"]);
}

#[tokio::test]
async fn a_text_that_is_settled_creates_the_job_of_a_requested_proposal_once() {
    for (has_auto_create, state) in [
        (false, TextState::Ready),
        (true, TextState::Processing),
        (true, TextState::Ready),
        (true, TextState::NoText("empty".into())),
        (true, TextState::Failed("damaged".into())),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let test = Sandbox::open(folder.path(), &[]);
        test.create_document_with(has_auto_create).await;
        let stores = test.with_events(test.stores.clone());
        let expected = usize::from(has_auto_create && state.is_settled());
        let update = IngestUpdate { state, ..test.ready() };
        for _ in 0..2 {
            stores.texts.ingest(&test.org, test.document.as_str(), update.clone()).await.unwrap();
        }
        let found = test.stores.jobs.list(&test.org, &JobFilter::default(), &PageRequest::default()).await.unwrap();
        assert_eq!(found.items.len(), expected, "{update:?}");
        for job in found.items {
            let input = json!({ "at": update.at, "run_budget": 7 });
            assert_eq!((job.kind.as_str(), &job.input), ("auto_create", &input));
            assert_eq!(job.items[0].id, test.document.as_str());
        }
        let hints = test.shared.jobs.waiting(folio_storage::JOB_HINTS).await.unwrap();
        assert_eq!(hints > 0, expected > 0, "a hint after the write");
    }
}

#[tokio::test]
async fn jobs_that_do_not_follow_a_write_are_counted_by_kind_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document_with(true).await;
    let limits = JobLimits { waiting_max: 0, running_max: 0, ..JobLimits::default() };
    let counters = Counters::default();
    let stores = with_events(test.stores.clone(), Arc::clone(&test.shared.jobs), limits, counters.clone());
    let tagged = create_tagged_prompt(&test).await;
    stores.texts.ingest(&test.org, test.document.as_str(), test.ready()).await.unwrap();
    change::<Document>(&test, &stores, &test.document, Expected::Version(1), tagged).await;
    let refused = [(("auto_create", "QUEUE_FULL"), 1), (("extraction", "QUEUE_FULL"), 1)];
    assert_eq!(counters.refused_jobs(), refused);
}

/// Adds a tag to the document before its text is stored.
struct TagsBeforeText {
    document: DocumentId,
    resources: ResourceStore<Document>,
    write: Write<DocumentChange>,
}

#[async_trait]
impl TextLayer for TagsBeforeText {
    async fn ingest(&self, below: &dyn TextStore, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        self.resources.decide(&self.document, self.write.clone()).await?;
        below.ingest(org, id, update).await
    }
}

#[tokio::test]
async fn a_prompt_runs_on_a_text_although_the_document_gets_the_tag_while_the_text_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document().await;
    let (tagged, stores) = (create_tagged_prompt(&test).await, &test.stores);
    let (key, at) = ("tagged".parse().unwrap(), test.environment.now());
    let write = Write::by_platform(test.org.clone(), key, at, Expected::Version(1), tagged);
    let layer = TagsBeforeText { document: test.document.clone(), resources: stores.of(), write };
    let stores = test.with_events(Stores { texts: Layered::over(layer, &stores.texts), ..stores.clone() });
    stores.texts.ingest(&test.org, test.document.as_str(), test.ready()).await.unwrap();
    let found = test.stores.jobs.list(&test.org, &JobFilter::default(), &PageRequest::default()).await.unwrap();
    let runs: Vec<_> = found.items.iter().map(|job| &job.input["tag_run"]["write"]).collect();
    assert_eq!(runs, [&json!("text")]);
}

#[tokio::test]
async fn a_prompt_runs_for_the_user_on_whose_behalf_a_call_tags_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_document().await;
    let tagged = create_tagged_prompt(&test).await;
    let (key, at) = ("tagged".parse().unwrap(), test.environment.now());
    let write = Write::by_platform(test.org.clone(), key, at, Expected::Version(1), tagged);
    let call = CallId::new(TurnId::new(ThreadId::derive(&["t"]), 1), 1, 1);
    let write = Write { op: OpKey::Call(call), by: UserId::derive(&["u"]), ..write };
    let stores = test.with_events(test.stores.clone());
    stores.of::<Document>().decide(&test.document, write).await.unwrap();
    let found = test.stores.jobs.list(&test.org, &JobFilter::default(), &PageRequest::default()).await.unwrap();
    let users: Vec<_> = found.items.iter().map(|job| job.principal.user.clone()).collect();
    assert_eq!(users, [UserId::derive(&["u"])]);
}

#[test]
fn an_endpoint_has_a_maximum_of_open_deliveries() {
    crate::admit(999).unwrap();
    assert_eq!(crate::admit(1_000).unwrap_err().reason, Reason::QueueFull);
}
