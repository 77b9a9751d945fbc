//! Tests of the embedded store's queue and commits.

use folio_history::thread::{Append, Appended, Fence, NewThread, OpenTurnRow};
use folio_storage::{Stores, UsageRecord};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::message::Usage;
use folio_types::{Code, Error, OrgId, Principal, Reason, Role, ThreadId, Timestamp, TurnId, UserId};

fn thread(number: u32) -> NewThread {
    let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
    let (id, at) = (ThreadId::derive(&[&number.to_string()]), Timestamp::constant(1_790_000_000, 0));
    NewThread::new(id, &principal, "document", Vec::new(), at)
}

fn append(version: u64) -> Append {
    let at = Timestamp::constant(1_790_000_000, 0);
    Append::new(u128::from(version) + 1, Fence { epoch: 0, version }, at)
}

async fn ten_appends(stores: &Stores, number: u32) -> u64 {
    let thread = stores.threads.create(thread(number)).await.unwrap();
    let mut version = thread.version;
    for _ in 0..10 {
        match stores.threads.append(&thread.org, &thread.id, append(version)).await.unwrap() {
            Appended::Done(header) => version = header.version,
            refused => panic!("{refused:?}"),
        }
    }
    version
}

#[tokio::test]
async fn concurrent_writes_share_commits_and_all_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let stores = store.stores();
    let versions = futures::future::join_all((0..50).map(|number| ten_appends(&stores, number))).await;
    assert!(versions.iter().all(|version| *version == 10));
    let commits = store.commits();
    assert!(commits < 550, "{commits} commits for 550 writes: no commit was shared");
    store.close().await;
}

#[tokio::test]
async fn recording_usage_costs_no_fsync_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let at = Timestamp::constant(1_790_000_000, 0);
    let record = UsageRecord {
        org: OrgId::derive(&["org"]),
        user: UserId::derive(&["user"]),
        key: "call".to_owned(),
        operation: "chat".to_owned(),
        model: "small".to_owned(),
        usage: Usage::default(),
        completed: true,
        at,
        document: None,
        charged: None,
    };
    let commits = store.commits();
    store.stores().usage.record(record.clone(), at).await.unwrap();
    assert_eq!(store.commits(), commits);
    store.close().await;
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    assert_eq!(store.stores().usage.list(&record.org, at, 10).await.unwrap(), [record]);
    store.close().await;
}

#[tokio::test]
async fn removing_an_open_turn_costs_no_fsync_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let turn = TurnId::new(thread(1).id, 1);
    let row = OpenTurnRow { org: thread(1).org, turn, epoch: 1, at: thread(1).at, until: thread(1).at };
    store.stores().threads.create(thread(1)).await.unwrap();
    let opening = Append { opens: Some(row.clone()), ..append(0) };
    store.stores().threads.append(&row.org, &thread(1).id, opening).await.unwrap();
    assert_eq!(store.commits(), 2, "an append and the row that it opens share one commit");
    store.stores().open_turns.remove(&[row]).await.unwrap();
    assert_eq!(store.commits(), 2);
    store.close().await;
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    assert_eq!(store.stores().open_turns.scan(None, 10).await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options { queue: 2, ..Options::at(folder.path()) }).unwrap();
    let stores = store.stores();
    let answers = futures::future::join_all((0..500).map(|number| stores.threads.create(thread(number)))).await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(!refused.is_empty() && refused.len() < 500, "{} of 500 refused", refused.len());
    let expected = (Code::ResourceExhausted, Reason::StoreUnavailable);
    let is_expected = |error: &&Error| (error.code, error.reason) == expected && error.is_retriable();
    assert!(refused.iter().all(is_expected), "{refused:?}");
    for (number, answer) in (0..).zip(&answers) {
        let stored = stores.threads.header(&thread(number).org, &thread(number).id).await.unwrap();
        assert_eq!(stored.is_some(), answer.is_ok(), "thread {number}");
    }
    store.close().await;
}
