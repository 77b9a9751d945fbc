//! Writes on a disk with less free space than the reserve.

use bytes::Bytes;
use folio_credit::LedgerRow;
use folio_history::journal::{Accepted, End, Ended, Entry};
use folio_history::thread::{Append, Appended, Fence, NewThread};
use folio_resources::{Document, DocumentChange, NewDocument, TextState};
use folio_storage::{IngestUpdate, NewPage, Stores};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::message::FinishReason;
use folio_types::op::{Expected, OpState, Write, WriteOutcome};
use folio_types::{
    BlobId, BlobKey, BlockId, DocumentId, Error, OrgId, Principal, Reason, Role, ThreadId, Timestamp, UserId,
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
    let new = NewDocument {
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        size: 4,
        sha256: String::new(),
        blob: blob_key(name).blob,
        tags: Vec::new(),
        metadata: Default::default(),
    };
    decide(stores, name, Expected::Absent, DocumentChange::Create(new)).await
}

async fn store_blob(stores: &Stores, name: &str) -> Result<(), Error> {
    let mut blob = stores.blobs.create(&blob_key(name)).await?;
    blob.write(Bytes::from_static(b"text")).await?;
    blob.finish().await
}

async fn ingest(stores: &Stores, name: &str) -> Result<(), Error> {
    let pages = vec![NewPage { number: 1, text: "text".to_owned() }];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: now() };
    stores.texts.ingest(&org(), DocumentId::derive(&[name]).as_str(), update).await
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
    assert_refused(stores.threads.create(thread("new")).await, "a thread");
    assert_refused(append(&stores, accepted(2), 1).await, "a turn");

    let end = End::Completed { text: "answer".to_owned(), thinking: Vec::new(), finish: FinishReason::Stop };
    let ended = Entry::Ended(Box::new(Ended::new(1, end, 1, now())));
    assert!(matches!(append(&stores, ended, 1).await.unwrap(), Appended::Done(_)));
    let settled = stores.credit.settle(&org(), &block, row.settled_as_reserved(now())).await.unwrap();
    assert!(settled.settled.is_some_and(|settled| settled.credits == 5));
    stores.credit.seal(&org(), &block).await.unwrap();
    let WriteOutcome::Row(row) = decide(&stores, "old", Expected::Version(1), DocumentChange::Delete).await.unwrap()
    else {
        panic!("version mismatch")
    };
    assert!(matches!(row.state, OpState::Done(_)), "{row:?}");
    stores.blobs.delete(&blob_key("old")).await.unwrap();
    stores.threads.delete(&org(), &thread("old").id, None).await.unwrap();
    stores.health.check().await.unwrap();
    store.close().await;
}
