//! Damaged records, and damaged rows of the indexes that sweeps read.

use std::sync::Arc;
use std::time::Duration;

use folio_history::thread::{Append, Appended, Fence, NewThread, OpenTurnRow};
use folio_resources::{Document, DocumentChange, NewDocument};
use folio_storage::TextWait;
use folio_storage_cql::{CqlStore, Options};
use folio_testkit::Simulated;
use folio_types::op::{Expected, Write};
use folio_types::{
    BlobId, DocumentId, Environment as _, Incarnation, OrgId, Principal, Reason, Role, ThreadId, Timestamp, TurnId,
    UserId,
};

use crate::migrations::drop_keyspace;
use crate::{nonce, open_shared_stores, options};

const KEYSPACE: &str = "folio_unreadable";

#[tokio::test]
async fn unreadable_rows_of_indexes_are_skipped_and_unreadable_threads_are_left_to_the_sweep() {
    let session = drop_keyspace(KEYSPACE).await;
    let (environment, org) = (Arc::new(Simulated::new(1)), OrgId::derive(&[&nonce()]));
    let options = Options { environment: Arc::clone(&environment) as _, ..options(KEYSPACE).await };
    let cql = CqlStore::open(options).await.unwrap();
    let blobs = open_shared_stores().await;
    let stores = cql.stores(blobs.stores.blobs.clone());
    let (principal, at) = (Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member), environment.now());
    let new = |name: &str| NewThread::new(ThreadId::derive(&[name]), &principal, "document", Vec::new(), at);

    // Each damaged row precedes the others of its index.
    for index in ["deleted/document", "job_expiry", "op_data", "pending_text", "request", "thread_expiry"] {
        let insert =
            format!("INSERT INTO {KEYSPACE}.system_rows (name, bucket, at, key, value) VALUES (?, 0, 0, '0', 0xff)");
        session.query_unpaged(insert, (index,)).await.unwrap();
    }
    let unused = Fence { epoch: 0, version: 0 };
    for name in ["damaged", "readable"] {
        stores.threads.create(new(name)).await.unwrap();
        assert!(stores.threads.expire_unused(&org, &new(name).id, unused, at).await.unwrap());
    }
    let damage = format!("UPDATE {KEYSPACE}.threads SET header = 0xff WHERE org = ? AND id = ?");
    session.query_unpaged(damage.as_str(), (org.as_str(), new("damaged").id.as_str())).await.unwrap();
    for _ in 0..2 {
        let mut expired = stores.threads.expired(at, 3).await.unwrap();
        expired.sort();
        let mut both = ["damaged", "readable"].map(|name| (org.clone(), new(name).id));
        both.sort();
        assert_eq!(expired, both, "the sweep finds that one is unreadable");
        let times = Timestamp::MIN..=Timestamp::MAX;
        let documents = stores.of::<Document>();
        assert!(documents.indexed_deletions(&times, None, 1).await.unwrap().is_empty());
        assert!(stores.jobs.expired(at, 1).await.unwrap().is_empty());
        assert!(stores.ops.indexed_data(at, 1).await.unwrap().is_empty());
        assert_eq!(stores.ops.forget_requests(at, 1).await.unwrap(), 0);
        let waiting = stores.texts.waiting_texts(TextWait::Worker, None, 1).await.unwrap();
        assert!(waiting.is_empty());
    }
    assert_eq!(stores.unreadable.count(), 6);

    let document = DocumentId::derive(&["document"]);
    let create = DocumentChange::Create(NewDocument::file("a.txt", "text/plain", b"text", BlobId::derive(&["b"])));
    let write = Write::by_platform(org.clone(), "create".parse().unwrap(), at, Expected::Absent, create);
    stores.of::<Document>().decide(&document, write).await.unwrap();
    let mut threads = ["a", "b", "c"].map(|name| ThreadId::derive(&[name]));
    threads.sort();
    for thread in &threads {
        let new = NewThread::new(thread.clone(), &principal, "document", vec![document.clone()], at);
        stores.threads.create(new).await.unwrap();
    }
    let [first, others @ ..] = &threads;
    session.query_unpaged(damage.as_str(), (org.as_str(), first.as_str())).await.unwrap();
    let error = stores.threads.expire_referrers(&org, document.as_str(), at).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoredFormat);
    for thread in others {
        assert_eq!(stores.threads.header(&org, thread).await.unwrap().unwrap().expires_at, Some(at));
    }

    // A row of the index of open turns stays readable for a newer version when it moves.
    let turn = TurnId::new(ThreadId::derive(&["open"]), 1);
    let until = at + Duration::from_secs(24 * 3_600);
    let row = OpenTurnRow { org: org.clone(), turn: turn.clone(), epoch: 1, at, until };
    let append = Append::new(1, Fence { epoch: 0, version: 0 }, at);
    let append = Append { opens: Some(row), new_owner: Some((1, Incarnation::derive(&["owner"]))), ..append };
    assert!(matches!(stores.threads.begin(new("open"), append).await.unwrap(), Appended::Done(_)));
    let select = format!("SELECT bucket, shard FROM {KEYSPACE}.open_turns");
    let rows = session.query_unpaged(select, ()).await.unwrap().into_rows_result().unwrap();
    let (bucket, shard): (i64, i32) = rows.first_row().unwrap();
    let insert = format!("INSERT INTO {KEYSPACE}.open_turns (bucket, shard, key, value) VALUES (?, ?, '0', 0xff)");
    session.query_unpaged(insert, (bucket, shard)).await.unwrap();
    for _ in 0..3 {
        let found = stores.open_turns.scan(None, 1).await.unwrap();
        assert_eq!(found.iter().map(|row| &row.turn).collect::<Vec<_>>(), [&turn]);
        environment.advance(Duration::from_secs(120));
        stores.open_turns.compact().await.unwrap();
    }
    let select = format!("SELECT value FROM {KEYSPACE}.open_turns WHERE key = '0' ALLOW FILTERING");
    let rows = session.query_unpaged(select, ()).await.unwrap().into_rows_result().unwrap();
    let (value,): (Vec<u8>,) = rows.single_row().unwrap();
    assert_eq!((value, stores.unreadable.count()), (vec![0xff], 7));
    session.query_unpaged(format!("DROP KEYSPACE {KEYSPACE}"), ()).await.unwrap();
}
