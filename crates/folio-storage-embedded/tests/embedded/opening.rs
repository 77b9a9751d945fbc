//! Tests of opening, closing and reopening a folder.

use folio_history::thread::{Append, Appended, Fence, HeaderChange, NewThread};
use folio_resources::{Tag, TagChange};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::op::{Expected, OpResult, OpState, Write, WriteOutcome};
use folio_types::{Code, OrgId, Principal, Reason, Role, TagId, ThreadId, Timestamp, UserId};

fn org() -> OrgId {
    OrgId::derive(&["org"])
}

fn now() -> Timestamp {
    Timestamp::constant(1_790_000_000, 0)
}

fn create_tag(name: &str) -> Write<TagChange> {
    let change = TagChange::Create { name: name.to_owned(), color: None, description: None };
    Write::by_platform(org(), name.parse().unwrap(), now(), Expected::Absent, change)
}

fn thread() -> NewThread {
    let principal = Principal::new(org(), UserId::derive(&["user"]), Role::Member);
    NewThread::new(ThreadId::derive(&["thread"]), &principal, "document", Vec::new(), now())
}

fn append(batch: u128, version: u64) -> Append {
    let change = HeaderChange { title: Some(format!("title {batch}")), ..HeaderChange::default() };
    Append { change, ..Append::new(batch, Fence { epoch: 0, version }, now()) }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let id = TagId::derive(&["tag"]);
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let stores = store.stores();
    let decided = stores.of::<Tag>().decide(&id, create_tag("invoice")).await.unwrap();
    let WriteOutcome::Row(row) = &decided else { panic!("{decided:?}") };
    assert_eq!(row.state, OpState::Done(OpResult::Resource { id: id.to_string(), name: "invoice".to_owned() }));
    stores.threads.create(thread()).await.unwrap();
    let appended = stores.threads.append(&org(), &thread().id, append(1, 0)).await.unwrap();
    assert!(matches!(appended, Appended::Done(header) if header.version == 1 && header.title == "title 1"));
    store.close().await;
    let closed = stores.of::<Tag>().get(&org(), &id).await.unwrap_err();
    assert_eq!((closed.code, closed.reason), (Code::Unavailable, Reason::StoreUnavailable));
    let closed = stores.of::<Tag>().decide(&id, create_tag("other")).await.unwrap_err();
    assert_eq!(closed.reason, Reason::StoreUnavailable);

    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let stores = store.stores();
    assert_eq!(stores.of::<Tag>().decide(&id, create_tag("invoice")).await.unwrap(), decided);
    assert_eq!(stores.of::<Tag>().get(&org(), &id).await.unwrap().unwrap().name, "invoice");
    let header = stores.threads.header(&org(), &thread().id).await.unwrap().unwrap();
    assert_eq!((header.version, header.title.as_str()), (1, "title 1"));
    assert!(stores.threads.has_batch(&org(), &header.id, 1).await.unwrap());
    store.close().await;
}

#[tokio::test]
async fn a_folder_cannot_be_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let refused = EmbeddedStore::open(Options::at(folder.path())).unwrap_err();
    assert_eq!((refused.code, refused.reason), (Code::FailedPrecondition, Reason::StoreUnavailable));
    assert!(refused.message.contains("in use by another process"), "{refused}");
    store.close().await;
    EmbeddedStore::open(Options::at(folder.path())).unwrap().close().await;
}
