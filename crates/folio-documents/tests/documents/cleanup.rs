//! Clean-up after deletions and expiry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_history::thread::{Append, Fence, NewThread, ThreadFilter, ThreadHeader};
use folio_resources::{
    DocumentChange, Extraction, ExtractionChange, ExtractionReport, Kind, NewExtraction, NewPrompt, Organization,
    OrganizationChange, Prompt, PromptChange, Resource as _, TagRunsPatch,
};
use folio_storage::value::DeletionRow;
use folio_storage::{
    BlobReader, BlobStore, BlobWriter, ChunkSet, ResourceExecutor, StoredBlob, StoredResource, StoredSummary, Stores,
    SummaryScope, ThreadStore,
};
use folio_storage_conformance::layer::{Layered, ResourceLayer, ThreadLayer};
use folio_types::message::MessageImage;
use folio_types::op::{Expected, OpKey, OpResult, OpState, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{
    BlobId, BlobKey, Error, ExtractionId, IngestionId, MessageImageId, Principal, PromptId, PromptRevId, Result, Role,
    ThreadId, Timestamp, UnknownFields, limits,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::json;
use tokio::sync::Notify;

use super::*;

async fn delete(fixture: &Fixture, id: &DocumentId) {
    let (org, key) = (fixture.principal.org.clone(), "delete".parse().unwrap());
    let expected = Expected::Version(fixture.document(id).await.version);
    let write = Write::by_platform(org, key, fixture.environment.now(), expected, DocumentChange::Delete);
    fixture.stores().of::<Document>().decide(id, write).await.unwrap();
}

async fn change_organization(fixture: &Fixture, key: &str, expected: Expected, change: OrganizationChange) {
    let write =
        Write::by_platform(OrgId::platform(), key.parse().unwrap(), fixture.environment.now(), expected, change);
    fixture.stores().of::<Organization>().decide(&fixture.principal.org, write).await.unwrap();
}

async fn thread(fixture: &Fixture, documents: Vec<DocumentId>) -> ThreadId {
    let id = ThreadId::generate(&*fixture.environment);
    let at = fixture.environment.now();
    let thread = NewThread::new(id.clone(), &fixture.principal, "document", documents, at);
    fixture.stores().threads.create(thread).await.unwrap();
    id
}

/// None: the thread does not expire.
async fn end(fixture: &Fixture, thread: &ThreadId) -> Option<Timestamp> {
    fixture.stores().threads.header(&fixture.principal.org, thread).await.unwrap().unwrap().expires_at
}

#[tokio::test]
async fn bytes_are_removed_at_once_and_threads_expire_after_a_day() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let uploaded = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document;
    let kept = fixture.upload(&uploader, "r2", "b.txt", b"text").await.unwrap().document;
    let (document, bytes) = (uploaded.id.clone(), uploaded.blob_key());
    let thread_of_document = thread(&fixture, vec![document.clone()]).await;
    let other = thread(&fixture, vec![kept.id.clone()]).await;
    let (cleaner, handle) = fixture.cleaner();
    let deleted = fixture.environment.now();
    delete(&fixture, &document).await;
    handle.sweep_soon();
    let is_removed = async || fixture.bytes(&bytes).await.is_none().then_some(());
    wait_for("the bytes are removed", SOON, is_removed).await;
    let marked = async || end(&fixture, &thread_of_document).await;
    let ends = wait_for("its thread is marked", SOON, marked).await;
    assert!(ends >= deleted + limits::DAY, "{ends}");

    // An upload in progress writes its bytes; the second sweep removes them.
    fixture.store_blob(&bytes, b"late").await;
    fixture.environment.advance(limits::DAY + Duration::from_secs(1));
    handle.sweep_soon();
    wait_for("the bytes are removed again", SOON, is_removed).await;
    cleaner.stop(SOON).await;
    assert!(fixture.deletions::<Document>().await.is_empty());
    assert_eq!(end(&fixture, &thread_of_document).await, Some(ends), "the conversations' sweep removes it");
    assert_eq!(end(&fixture, &other).await, None);
    assert_eq!(fixture.bytes(&kept.blob_key()).await.unwrap(), b"text");
}

#[tokio::test]
async fn summaries_and_records_of_chunks_are_removed_with_their_document() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let deleted = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document.id;
    let kept = fixture.upload(&uploader, "r2", "b.txt", b"text").await.unwrap().document.id;
    let (stores, org, at) = (fixture.stores(), fixture.principal.org.clone(), fixture.environment.now());
    let summary = StoredSummary {
        section: None,
        scope: SummaryScope::Document,
        text: "A text.".to_owned(),
        sources: vec![0],
        text_generation: at,
        input: None,
        model: "small".to_owned(),
        created_at: at,
    };
    let set = ChunkSet {
        id: "chk_1".to_owned(),
        run: IngestionId::derive(&["run"]),
        text_generation: at,
        window: 200,
        overlap: 30,
        padding: 120,
        chunks: 1,
        tokens: 1,
        digest: Digest::of(b""),
        is_indexed: false,
        created_at: at,
        unknown: UnknownFields::default(),
    };
    for document in [&deleted, &kept] {
        stores.summaries().put(&org, document, &summary).await.unwrap();
        stores.chunk_sets().put(&org, document, &set).await.unwrap();
    }
    let rows = async |document: &DocumentId| {
        let summaries = stores.summaries().list(&org, document).await.unwrap().len();
        summaries + stores.chunk_sets().list(&org, document).await.unwrap().len()
    };
    let (cleaner, handle) = fixture.cleaner();
    delete(&fixture, &deleted).await;
    handle.sweep_soon();
    wait_for("the rows are removed", SOON, async || (rows(&deleted).await == 0).then_some(())).await;
    assert_eq!(rows(&kept).await, 2);
    cleaner.stop(SOON).await;
}

/// A store of blobs that never answers a deletion.
struct Unresponsive(Arc<dyn BlobStore>, Notify);

#[async_trait]
impl BlobStore for Unresponsive {
    async fn create(&self, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        self.0.create(key).await
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>> {
        self.0.open(key).await
    }

    async fn delete(&self, _: &BlobKey) -> Result<()> {
        self.1.notify_one();
        std::future::pending().await
    }

    async fn delete_document(&self, _: &OrgId, _: &DocumentId) -> Result<()> {
        self.1.notify_one();
        std::future::pending().await
    }

    async fn delete_all(&self, _: &OrgId) -> Result<()> {
        self.1.notify_one();
        std::future::pending().await
    }

    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>> {
        self.0.scan()
    }
}

#[tokio::test]
async fn a_stop_aborts_a_sweep_that_exceeds_the_limit() {
    let fixture = Fixture::new();
    let document = fixture.upload(&fixture.uploader(None), "r1", "a.txt", b"text").await.unwrap().document;
    delete(&fixture, &document.id).await;
    let blobs = Arc::new(Unresponsive(fixture.stores().blobs, Notify::new()));
    let stores = Stores { blobs: blobs.clone(), ..fixture.stores() };
    let (cleaner, _handle) = fixture.cleaner_of(stores);
    blobs.1.notified().await;
    cleaner.stop(Duration::from_millis(10)).await;
    assert_eq!(fixture.deletions::<Document>().await.len(), 1, "the next sweep repeats it");
}

async fn change_prompt(fixture: &Fixture, key: &str, expected: Expected, change: PromptChange) -> PromptId {
    let (id, org) = (PromptId::derive(&["prompt"]), fixture.principal.org.clone());
    let write = Write::by_platform(org, key.parse().unwrap(), fixture.environment.now(), expected, change);
    fixture.stores().of::<Prompt>().decide(&id, write).await.unwrap();
    id
}

async fn create_prompt(fixture: &Fixture) -> PromptId {
    let (name, content) = ("read".to_owned(), "Read it.".to_owned());
    let create = PromptChange::Create(NewPrompt { name, content, ..NewPrompt::default() });
    change_prompt(fixture, "create-prompt", Expected::Absent, create).await
}

#[tokio::test]
async fn the_revisions_of_a_deleted_prompt_are_removed_at_once() {
    let fixture = Fixture::new();
    let id = create_prompt(&fixture).await;
    change_prompt(&fixture, "delete-prompt", Expected::Version(1), PromptChange::Delete).await;
    let (stores, org) = (fixture.stores(), fixture.principal.org.clone());
    let (cleaner, handle) = fixture.cleaner();
    handle.sweep_soon();
    let is_removed =
        async || stores.resources.revision_numbers(&org, id.as_str()).await.unwrap().is_empty().then_some(());
    wait_for("the revisions are removed", SOON, is_removed).await;
    let is_forgotten = async || fixture.deletions::<Prompt>().await.is_empty().then_some(());
    wait_for("the deletion is in no index", SOON, is_forgotten).await;
    cleaner.stop(SOON).await;
}

#[tokio::test]
async fn requests_and_the_data_of_op_rows_expire() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let document = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document.id;
    let id = ExtractionId::generate(&*fixture.environment);
    let op = |request: &str| OpKey::Request { user: fixture.principal.user.clone(), request: request.parse().unwrap() };
    let write = |request: &str, expected: Expected, change: ExtractionChange| Write {
        org: fixture.principal.org.clone(),
        op: op(request),
        digest: Digest::of(request.as_bytes()),
        by: fixture.principal.user.clone(),
        at: fixture.environment.now(),
        expected,
        change,
    };
    let new = NewExtraction {
        document,
        prompt: PromptRevId::new(create_prompt(&fixture).await, 1),
        schema: None,
        model: "model".to_owned(),
        data: json!({ "secret": 1 }),
        report: ExtractionReport::default(),
        approvals: None,
    };
    let extractions = fixture.stores().of::<Extraction>();
    extractions.decide(&id, write("made", Expected::Absent, ExtractionChange::Create(Box::new(new)))).await.unwrap();
    extractions.decide(&id, write("gone", Expected::Version(1), ExtractionChange::Delete)).await.unwrap();
    let (org, target) = (fixture.principal.org.clone(), Extraction::target(&id));
    let ops = fixture.stores().ops;
    let data = async || match ops.row(&org, &target, &op("made")).await.unwrap().unwrap().state {
        OpState::Done(OpResult::Extraction { data, .. }) => data,
        other => panic!("{other:?}"),
    };
    let has_request = async || ops.request(&org, &op("made")).await.unwrap().is_some();
    let (cleaner, handle) = fixture.cleaner();
    assert_eq!(data().await, json!({ "secret": 1 }));
    fixture.environment.advance(limits::DAY + Duration::from_secs(60));
    handle.sweep_soon();
    wait_for("the data is removed", SOON, async || data().await.is_null().then_some(())).await;
    assert!(has_request().await, "the request is kept longer");
    fixture.environment.advance(limits::DAY);
    handle.sweep_soon();
    wait_for("the request is removed", SOON, async || (!has_request().await).then_some(())).await;
    cleaner.stop(SOON).await;
}

/// Sets the modification time of a blob.
fn set_modified(fixture: &Fixture, key: &BlobKey, at: Timestamp) {
    let folder = fixture.folder.path().join("data/blobs").join(key.org.as_str());
    let path = folder.join(key.document.as_str()).join(key.blob.as_str());
    std::fs::File::options().write(true).open(path).unwrap().set_modified(at.into()).unwrap();
}

#[tokio::test]
async fn images_of_messages_that_no_live_thread_contains_are_removed_after_a_day() {
    let fixture = Fixture::new();
    let (stores, principal, now) = (fixture.stores(), &fixture.principal, fixture.environment.now());
    let (images, org) = (stores.message_images(), &principal.org);
    let old = now - limits::DAY - Duration::from_secs(60);
    let thread = NewThread::new(ThreadId::derive(&["live"]), principal, "document", vec![], now);
    stores.threads.create(thread.clone()).await.unwrap();
    let mut keys = Vec::new();
    for (name, at, thread) in [
        ("unsent", old, None),
        ("young", now, None),
        ("sent", old, Some(thread.id.clone())),
        ("lost", old, Some(ThreadId::derive(&["deleted"]))),
    ] {
        let id = MessageImageId::derive(&[name]);
        let image = MessageImage { id, media_type: "image/jpeg".into(), width: 1, height: 1, bytes: 4 };
        let file = (Digest::of(name.as_bytes()), Bytes::from_static(b"jpeg"));
        images.store(org, &principal.user, &image, file, now).await.unwrap();
        if let Some(thread) = thread {
            assert!(images.add_thread(org, &image.id, &thread).await.unwrap());
        }
        let document = DocumentId::derive(&["message image", image.id.as_str()]);
        keys.push(BlobKey { org: org.clone(), document, blob: BlobId::derive(&["message image"]) });
        set_modified(&fixture, &keys[keys.len() - 1], at);
    }
    let (cleaner, _) = fixture.cleaner();
    let is_removed = async |key: &BlobKey| fixture.bytes(key).await.is_none().then_some(());
    for at in [0, 3] {
        wait_for("the image is removed", SOON, || is_removed(&keys[at])).await;
    }
    let stored = async || (stores.of::<Document>().content_bytes(org).await.unwrap() == 8 + 16 * 1024).then_some(());
    wait_for("two images and a journal are left", SOON, stored).await;
    for (name, is_left) in [("unsent", false), ("young", true), ("sent", true), ("lost", false)] {
        let found = images.get(org, &MessageImageId::derive(&[name])).await.unwrap();
        assert_eq!(found.is_some(), is_left, "{name}");
    }
    cleaner.stop(SOON).await;
}

#[tokio::test]
async fn bytes_that_no_document_names_are_removed_after_a_day() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let now = fixture.environment.now();
    let (old, young) = (now - limits::DAY - Duration::from_secs(60), now - limits::DAY + Duration::from_secs(60));
    let referred = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document.blob_key();
    set_modified(&fixture, &referred, old);
    // Bytes of processes that crashed before they wrote the document. Another attempt created the first document.
    let of_request = |request: &str| {
        let Principal { org, user, .. } = fixture.principal.clone();
        let document = DocumentId::derive(&["upload", org.as_str(), user.as_str(), request]);
        BlobKey { org, document, blob: BlobId::derive(&["crashed"]) }
    };
    let left = ["r1", "orphan", "young"].map(of_request);
    for (key, at) in left.iter().zip([old, old, young]) {
        fixture.store_blob(key, b"left").await;
        set_modified(&fixture, key, at);
    }
    let (cleaner, handle) = fixture.cleaner();
    let is_removed = async |key: &BlobKey| fixture.bytes(key).await.is_none().then_some(());
    for key in &left[..2] {
        wait_for("the orphaned bytes are removed", SOON, || is_removed(key)).await;
    }
    assert_eq!(fixture.bytes(&left[2]).await.unwrap(), b"left", "young");
    assert_eq!(fixture.bytes(&referred).await.unwrap(), b"text");

    fixture.environment.advance(Duration::from_secs(3_700));
    handle.sweep_soon();
    wait_for("the next search finds bytes that are old enough", SOON, || is_removed(&left[2])).await;
    cleaner.stop(SOON).await;
    assert_eq!(fixture.bytes(&referred).await.unwrap(), b"text");
    assert_eq!(fixture.stores().blobs.scan().count().await, 1);
}

#[tokio::test]
async fn a_deleted_organization_is_erased_at_once_and_again_after_a_day() {
    let fixture = Fixture::new();
    let uploader = fixture.uploader(None);
    let (stores, org) = (fixture.stores(), fixture.principal.org.clone());
    change_organization(&fixture, "create", Expected::Absent, OrganizationChange::Create { name: "deleted".into() })
        .await;
    let document = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document;
    let thread_of_document = thread(&fixture, vec![document.id.clone()]).await;
    let header = async || stores.threads.header(&org, &thread_of_document).await.unwrap();
    assert!(header().await.is_some());
    change_organization(&fixture, "delete", Expected::Version(1), OrganizationChange::Delete).await;
    let (cleaner, handle) = fixture.cleaner();
    let erased =
        async || (fixture.bytes(&document.blob_key()).await.is_none() && header().await.is_none()).then_some(());
    wait_for("everything is erased", SOON, erased).await;
    assert_eq!(fixture.deletions::<Organization>().await.len(), 1, "it is erased again");

    // A turn in progress writes again.
    let late = thread(&fixture, vec![]).await;
    fixture.environment.advance(limits::DAY + Duration::from_secs(1));
    handle.sweep_soon();
    let forgotten = async || fixture.deletions::<Organization>().await.is_empty().then_some(());
    wait_for("it is erased finally", SOON, forgotten).await;
    assert!(stores.threads.header(&org, &late).await.unwrap().is_none());
    assert!(stores.of::<Organization>().get(&OrgId::platform(), &org).await.unwrap().is_none());
    cleaner.stop(SOON).await;
}

/// Confirms no deletion, and counts the rows.
#[derive(Default)]
struct Unconfirmed(AtomicUsize);

#[async_trait]
impl ResourceLayer for Unconfirmed {
    async fn confirm_deletion(&self, _: &dyn ResourceExecutor, _: &'static Kind, _: &DeletionRow) -> Result<bool> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(false)
    }
}

#[tokio::test]
async fn an_organization_whose_deletion_is_not_confirmed_is_not_erased() {
    let fixture = Fixture::new();
    let (stores, org) = (fixture.stores(), fixture.principal.org.clone());
    let create = OrganizationChange::Create { name: "deletion in progress".into() };
    change_organization(&fixture, "create", Expected::Absent, create).await;
    let kept = thread(&fixture, vec![]).await;
    change_organization(&fixture, "delete", Expected::Version(1), OrganizationChange::Delete).await;
    let layer = Arc::new(Unconfirmed::default());
    let layered = Stores { resources: Layered::over(Arc::clone(&layer), &stores.resources), ..fixture.stores() };
    let (cleaner, handle) = fixture.cleaner_of(layered);
    for sweeps in 1..=3 {
        let is_read = async || (layer.0.load(Ordering::SeqCst) >= sweeps).then_some(());
        wait_for("a sweep reads the index", SOON, is_read).await;
        fixture.environment.advance(limits::DAY);
        handle.sweep_soon();
    }
    cleaner.stop(SOON).await;
    assert!(stores.threads.header(&org, &kept).await.unwrap().is_some());
    assert_eq!(fixture.deletions::<Organization>().await.len(), 1);
}

#[tokio::test]
async fn idle_threads_expire_by_the_retention_of_their_organization() {
    let fixture = Fixture::new();
    let (stores, org) = (fixture.stores(), fixture.principal.org.clone());
    let days = |days: i64| jiff::SignedDuration::from_hours(24 * days);
    change_organization(&fixture, "create", Expected::Absent, OrganizationChange::Create { name: "keeps".into() })
        .await;
    let keep = OrganizationChange::Update {
        name: None,
        thread_retention_days: Some(Some(7)),
        tag_runs: TagRunsPatch::default(),
        auto_create: None,
        ingestion: None,
    };
    change_organization(&fixture, "keep", Expected::Version(1), keep).await;
    let unused = thread(&fixture, vec![]).await;
    let used = thread(&fixture, vec![]).await;
    fixture.environment.advance(days(8).try_into().unwrap());
    let append = Append::new(7, Fence { epoch: 0, version: 0 }, fixture.environment.now());
    stores.threads.append(&org, &used, append).await.unwrap();
    let young = thread(&fixture, vec![]).await;
    let (cleaner, _handle) = fixture.cleaner();
    let marked = async || end(&fixture, &unused).await;
    let ends = wait_for("the thread is marked", SOON, marked).await;
    cleaner.stop(SOON).await;
    assert!(ends <= fixture.environment.now());
    assert_eq!((end(&fixture, &used).await, end(&fixture, &young).await), (None, None));
}

/// Makes a document, an organization and a thread unreadable.
struct Unreadable {
    document: DocumentId,
    org: OrgId,
    thread: ThreadId,
}

fn damaged<T>() -> Result<T> {
    Err(Error::stored_format("the record is malformed"))
}

#[async_trait]
impl ResourceLayer for Unreadable {
    async fn get(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        kind: &'static Kind,
        ids: &[String],
    ) -> Result<Vec<Option<StoredResource>>> {
        if ids.contains(&self.document.to_string()) { damaged() } else { below.get(org, kind, ids).await }
    }

    async fn confirm_deletion(
        &self,
        below: &dyn ResourceExecutor,
        kind: &'static Kind,
        row: &DeletionRow,
    ) -> Result<bool> {
        if row.id == self.org.as_str() { damaged() } else { below.confirm_deletion(kind, row).await }
    }
}

#[async_trait]
impl ThreadLayer for Unreadable {
    async fn list(
        &self,
        below: &dyn ThreadStore,
        org: &OrgId,
        filter: &ThreadFilter,
        page: &PageRequest,
    ) -> Result<Page<ThreadHeader>> {
        let found = below.list(org, filter, page).await?;
        if found.items.iter().any(|thread| thread.id == self.thread) { damaged() } else { Ok(found) }
    }
}

#[tokio::test]
async fn unreadable_records_end_no_search_and_are_counted_once() {
    let fixture = Fixture::new();
    let (uploader, org) = (fixture.uploader(None), fixture.principal.org.clone());
    change_organization(&fixture, "create", Expected::Absent, OrganizationChange::Create { name: "keeps".into() })
        .await;
    let keep = OrganizationChange::Update {
        name: None,
        thread_retention_days: Some(Some(7)),
        tag_runs: TagRunsPatch::default(),
        auto_create: None,
        ingestion: None,
    };
    change_organization(&fixture, "keep", Expected::Version(1), keep).await;
    let [damaged, unused] = [thread(&fixture, vec![]).await, thread(&fixture, vec![]).await];
    let uploaded = fixture.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document;
    let orphan = BlobKey { document: DocumentId::derive(&["orphan"]), ..uploaded.blob_key() };
    fixture.store_blob(&orphan, b"left").await;
    let old = fixture.environment.now() - limits::DAY - Duration::from_secs(60);
    for key in [&uploaded.blob_key(), &orphan] {
        set_modified(&fixture, key, old);
    }
    // The deletion of the unreadable organization is the first row of the index.
    let [first, second] = ["first", "second"].map(|name| OrgId::derive(&[name]));
    for deleted in [&first, &second] {
        let organizations = fixture.stores().of::<Organization>();
        let create = OrganizationChange::Create { name: deleted.to_string() };
        for (op, expected, change) in
            [("c", Expected::Absent, create), ("d", Expected::Version(1), OrganizationChange::Delete)]
        {
            let (key, at) = (format!("{op}-{deleted}").parse().unwrap(), fixture.environment.now());
            let write = Write::by_platform(OrgId::platform(), key, at, expected, change);
            organizations.decide(deleted, write).await.unwrap();
        }
        let at = fixture.environment.now();
        let principal = Principal::new(deleted.clone(), fixture.principal.user.clone(), Role::Member);
        let new = NewThread::new(ThreadId::derive(&[deleted.as_str()]), &principal, "document", Vec::new(), at);
        fixture.stores().threads.create(new).await.unwrap();
        fixture.environment.advance(Duration::from_secs(1));
    }
    fixture.environment.advance(8 * limits::DAY);
    let stores = fixture.stores();
    let layer = Arc::new(Unreadable { document: uploaded.id.clone(), org: first.clone(), thread: damaged.clone() });
    let layered = Stores {
        resources: Layered::over(Arc::clone(&layer), &stores.resources),
        threads: Layered::over(layer, &stores.threads),
        ..stores.clone()
    };
    let (cleaner, handle) = fixture.cleaner_of(layered);
    let thread_of = |org: &OrgId| (org.clone(), ThreadId::derive(&[org.as_str()]));
    let erased = async || {
        let (org, thread) = thread_of(&second);
        stores.threads.header(&org, &thread).await.unwrap().is_none().then_some(())
    };
    wait_for("the readable organization is erased", SOON, erased).await;
    wait_for("the readable thread is marked", SOON, async || end(&fixture, &unused).await).await;
    wait_for("the orphaned bytes are removed", SOON, async || fixture.bytes(&orphan).await.is_none().then_some(()))
        .await;
    wait_for("all are counted", SOON, async || (stores.unreadable.count() == 3).then_some(())).await;
    fixture.environment.advance(Duration::from_secs(3_700));
    handle.sweep_soon();
    cleaner.stop(SOON).await;
    assert_eq!(stores.unreadable.count(), 3);
    assert_eq!(end(&fixture, &damaged).await, None);
    assert_eq!(fixture.bytes(&uploaded.blob_key()).await.unwrap(), b"text");
    let (of_first, thread) = thread_of(&first);
    assert!(stores.threads.header(&of_first, &thread).await.unwrap().is_some());
    assert!(stores.of::<Organization>().get(&OrgId::platform(), &org).await.unwrap().is_some());
}
