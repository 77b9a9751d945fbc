//! Writes on a disk with less free space than the reserve.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use folio_credit::LedgerRow;
use folio_history::job::{DELIVERY_KIND, EXTRACTION_KIND, JobHeader, JobLimits, NewJob, TEXT_INGESTION_KIND};
use folio_history::journal::{Accepted, End, Ended, Entry};
use folio_history::thread::{Append, Appended, Fence, NewThread};
use folio_resources::{Document, DocumentChange, ImageAnnotation, ImageDescription, NewDocument, TextState};
use folio_storage::value::{PassageHead, StoredPassage};
use folio_storage::{
    ChunkSet, IngestUpdate, NewPage, PassagesWritten, StoredSummary, Stores, SummaryScope, VectorKey, create_job,
    create_job_of_accepted_write,
};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::wait_for;
use folio_types::message::FinishReason;
use folio_types::op::{Expected, OpState, Write, WriteOutcome};
use folio_types::{
    BlobId, BlobKey, BlockId, Digest, DocumentId, Error, IngestionId, JobId, OrgId, Principal, Reason, Role, ThreadId,
    Timestamp, UnknownFields, UserId,
};

fn org() -> OrgId {
    OrgId::derive(&["org"])
}

fn now() -> Timestamp {
    Timestamp::constant(1_790_000_000, 0)
}

fn blob_key(name: &str) -> BlobKey {
    BlobKey { org: org(), document: DocumentId::derive(&[name]), blob: BlobId::derive(&[name]) }
}

fn thread(name: &str) -> NewThread {
    let principal = Principal::new(org(), UserId::derive(&["user"]), Role::Member);
    NewThread::new(ThreadId::derive(&[name]), &principal, "document", Vec::new(), now())
}

async fn decide(
    stores: &Stores,
    name: &str,
    expected: Expected,
    change: DocumentChange,
) -> Result<WriteOutcome, Error> {
    let op = format!("{name}-{expected:?}").replace(['(', ')'], "").parse().unwrap();
    let write = Write::by_platform(org(), op, now(), expected, change);
    stores.of::<Document>().decide(&DocumentId::derive(&[name]), write).await
}

async fn create_document(stores: &Stores, name: &str) -> Result<WriteOutcome, Error> {
    let new = NewDocument::file(name, "text/plain", b"text", blob_key(name).blob);
    decide(stores, name, Expected::Absent, DocumentChange::Create(new)).await
}

async fn store_blob(stores: &Stores, name: &str) -> Result<(), Error> {
    let mut blob = stores.blobs.create(&blob_key(name)).await?;
    blob.write(Bytes::from_static(b"text")).await?;
    blob.finish().await
}

async fn ingest(stores: &Stores, name: &str) -> Result<(), Error> {
    let pages = vec![NewPage::of_text(1, "text")];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: now() };
    stores.texts.ingest(&org(), DocumentId::derive(&[name]).as_str(), update).await
}

/// Writes one passage of a document and returns the result.
async fn write_passage(stores: &Stores, name: &str) -> Result<PassagesWritten, Error> {
    let document = DocumentId::derive(&[name]);
    let (text_generation, created_at) = (now(), now());
    let head = PassageHead { document, generation: 1, passages: 1, space: None, text_generation, created_at };
    stores.passages().write(&org(), &head, &[StoredPassage::of_text(0, "text")]).await
}

/// Writes each kind of content that an ingestion derives from a text; returns its name and the result of the write.
async fn write_derived(stores: &Stores, name: &str) -> [(&'static str, Result<(), Error>); 4] {
    let (org, document) = (org(), DocumentId::derive(&[name]));
    let summary = StoredSummary {
        section: None,
        scope: SummaryScope::Document,
        text: "A text.".to_owned(),
        sources: vec![0],
        text_generation: now(),
        input: None,
        model: "small".to_owned(),
        created_at: now(),
    };
    let set = ChunkSet {
        id: "chk_1".to_owned(),
        run: IngestionId::derive(&["run"]),
        text_generation: now(),
        window: 200,
        overlap: 30,
        padding: 120,
        chunks: 1,
        tokens: 1,
        digest: Digest::of(b""),
        is_indexed: false,
        created_at: now(),
        unknown: UnknownFields::default(),
    };
    let description = ImageDescription { caption: "An image.".to_owned(), steps: Vec::new(), entities: Vec::new() };
    let (text_generation, model, at) = (now(), "small".to_owned(), now());
    let annotation = ImageAnnotation { text_generation, page: 1, number: 1, description, model, at };
    let vector = (VectorKey::new("space", "text"), vec![1.0]);
    [
        ("a summary", stores.summaries().put(&org, &document, &summary).await),
        ("a set of chunks", stores.chunk_sets().put(&org, &document, &set).await),
        ("a description of an image", stores.image_annotations().put(&org, &document, &annotation).await),
        ("a cached vector", stores.vector_cache().put(&org, Some(&document), &[vector]).await),
    ]
}

fn job(name: &str, kind: &str) -> NewJob {
    NewJob {
        id: JobId::derive(&[name]),
        principal: Principal::new(org(), UserId::derive(&["user"]), Role::Member),
        kind: kind.to_owned(),
        input: serde_json::json!({}),
        items: vec!["item".to_owned()],
        running_max: Duration::from_secs(60),
        at: now(),
    }
}

async fn create_new_job(stores: &Stores, name: &str) -> Result<JobHeader, Error> {
    let new = job(name, EXTRACTION_KIND);
    create_job(&*stores.jobs, &stores.job_pages(), &JobLimits::default(), new).await
}

async fn append(stores: &Stores, entry: Entry, version: u64) -> Result<Appended, Error> {
    let fence = Fence { epoch: 0, version };
    let append = Append { entries: vec![entry], ..Append::new(u128::from(version), fence, now()) };
    stores.threads.append(&org(), &thread("old").id, append).await
}

fn accepted(turn: u32) -> Entry {
    let (request, user) = (format!("r-{turn}").parse().unwrap(), UserId::derive(&["user"]));
    Entry::Accepted(Box::new(Accepted::new(turn, request, user, "question", now())))
}

fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, what: &str) {
    let error = outcome.expect_err(what);
    assert!(error.reason == Reason::Overloaded && error.message.contains("free space"), "{what}: {error}");
}

#[tokio::test]
async fn without_free_space_content_is_refused_and_turns_end_credit_settles_and_content_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let stores = store.stores();
    create_document(&stores, "old").await.unwrap();
    store_blob(&stores, "old").await.unwrap();
    ingest(&stores, "old").await.unwrap();
    assert_eq!(write_passage(&stores, "old").await.unwrap(), PassagesWritten::Live);
    for (what, written) in write_derived(&stores, "old").await {
        assert_eq!(written, Ok(()), "{what}");
    }
    let old_job = create_new_job(&stores, "old").await.unwrap();
    stores.threads.create(thread("old")).await.unwrap();
    append(&stores, accepted(1), 0).await.unwrap();
    let block = BlockId::derive(&["block"]);
    let row = LedgerRow::new("call", UserId::derive(&["user"]), 5, now());
    stores.credit.reserve(&org(), &block, row.clone()).await.unwrap();
    drop(stores);
    store.close().await;

    let store = EmbeddedStore::open(Options { reserve_bytes: u64::MAX, ..Options::at(folder.path()) }).unwrap();
    let stores = store.stores();
    assert_refused(create_document(&stores, "new").await, "a document");
    assert_refused(store_blob(&stores, "new").await, "a blob");
    assert_refused(ingest(&stores, "old").await, "a text");
    assert_refused(write_passage(&stores, "new").await, "a passage");
    for (what, written) in write_derived(&stores, "new").await {
        assert_refused(written, what);
    }
    assert_refused(stores.threads.create(thread("new")).await, "a thread");
    assert_refused(append(&stores, accepted(2), 1).await, "a turn");
    assert_refused(create_new_job(&stores, "new").await, "a job");
    assert_eq!(create_new_job(&stores, "old").await.unwrap().id, old_job.id, "a repeated request");

    let end = End::Completed { text: "answer".to_owned(), thinking: Vec::new(), finish: FinishReason::Stop };
    let ended = Entry::Ended(Box::new(Ended::new(1, end, 1, now())));
    assert!(matches!(append(&stores, ended, 1).await.unwrap(), Appended::Done(_)));
    stores.jobs.create(job("delivery of the end", DELIVERY_KIND).header().unwrap()).await.unwrap();
    let settled = stores.credit.settle(&org(), &block, row.settled_as_reserved(now())).await.unwrap();
    assert!(settled.settled.is_some_and(|settled| settled.credits == 5));
    stores.credit.seal(&org(), &block).await.unwrap();
    let WriteOutcome::Row(row) = decide(&stores, "old", Expected::Version(1), DocumentChange::Delete).await.unwrap()
    else {
        panic!("version mismatch")
    };
    assert!(matches!(row.state, OpState::Done(_)), "{row:?}");
    let (pages, removal) = (stores.job_pages(), job("removal of passages", TEXT_INGESTION_KIND));
    create_job_of_accepted_write(&*stores.jobs, &pages, &JobLimits::default(), removal).await.unwrap();
    stores.blobs.delete(&blob_key("old")).await.unwrap();
    let old = DocumentId::derive(&["old"]);
    stores.remove_ingested(&org(), &old).await.unwrap();
    assert!(stores.passages().head(&org(), &old).await.unwrap().is_none());
    assert!(stores.summaries().list(&org(), &old).await.unwrap().is_empty());
    assert!(stores.chunk_sets().list(&org(), &old).await.unwrap().is_empty());
    assert!(stores.image_annotations().list(&org(), &old, now()).await.unwrap().is_empty());
    let key = VectorKey::new("space", "text");
    assert!(stores.vector_cache().get(&org(), &[key]).await.unwrap().is_empty());
    stores.threads.delete(&org(), &thread("old").id, None).await.unwrap();
    stores.health.check().await.unwrap();
    store.close().await;
}

/// Environment variable with the mount point of the small disk, for the child process that runs the test there.
const DISK: &str = "FOLIO_TEST_SMALL_DISK";
const DISK_BYTES: u64 = 128 * 1024 * 1024;
const RESERVE: u64 = 16 * 1024 * 1024;
const CHUNK: usize = 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(20);

/// Mounts a small file system in a user namespace, which requires no privileges, and runs the rest of the test there in
/// a child process.
#[tokio::test]
async fn documents_on_a_full_disk_are_deleted_until_content_fits_again() {
    if let Some(disk) = std::env::var_os(DISK) {
        return fill_and_delete(Path::new(&disk)).await;
    }
    let disk = tempfile::tempdir().unwrap();
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        let mount = format!("mount -t tmpfs -o size={DISK_BYTES} tmpfs {} && {script}", disk.path().display());
        command.arg(mount).env(DISK, disk.path());
        command
    };
    if !in_namespace("true").status().is_ok_and(|status| status.success()) {
        // The test harness would capture the output of `eprintln!`.
        writeln!(std::io::stderr(), "not tested: this machine permits no mount in a user namespace").unwrap();
        return;
    }
    let name = "full_disk::documents_on_a_full_disk_are_deleted_until_content_fits_again";
    let mut test = in_namespace(r#"exec "$0" --exact --nocapture "$1""#);
    let output = test.arg(std::env::current_exe().unwrap()).arg(name).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

fn free_bytes(folder: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().last().unwrap().trim().parse().unwrap()
}

async fn fill_and_delete(disk: &Path) {
    let store = EmbeddedStore::open(Options { reserve_bytes: RESERVE, ..Options::at(disk.join("data")) }).unwrap();
    let stores = store.stores();
    let names: Vec<String> = (0..16).map(|at| format!("document-{at}")).collect();
    for name in &names {
        let mut blob = stores.blobs.create(&blob_key(name)).await.unwrap();
        blob.write(Bytes::from(vec![7; CHUNK])).await.unwrap();
        blob.finish().await.unwrap();
        create_document(&stores, name).await.unwrap();
    }
    // Another program fills the disk into the reserve.
    let mut other = std::fs::File::create(disk.join("other")).unwrap();
    while free_bytes(disk) > RESERVE / 2 {
        other.write_all(&vec![7; CHUNK]).unwrap();
    }
    let refused = || async { create_document(&stores, "refused").await.err() };
    assert_refused::<()>(Err(wait_for("content is refused", LIMIT, refused).await), "a document");
    for name in &names {
        let deleted = decide(&stores, name, Expected::Version(1), DocumentChange::Delete).await.unwrap();
        assert!(matches!(deleted, WriteOutcome::Row(row) if matches!(row.state, OpState::Done(_))), "{name}");
        stores.blobs.delete(&blob_key(name)).await.unwrap();
    }
    assert!(free_bytes(disk) > RESERVE, "the deletions freed the disk");
    let stored = || async { store_blob(&stores, "new").await.ok() };
    wait_for("content is accepted", LIMIT, stored).await;
    create_document(&stores, "new").await.unwrap();
    store.close().await;
}
