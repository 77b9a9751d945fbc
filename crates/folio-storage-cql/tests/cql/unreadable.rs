//! Damaged records, and damaged rows of the indexes that sweeps read.

use std::sync::Arc;
use std::time::Duration;

use folio_history::thread::{Append, Appended, Fence, NewThread, OpenTurnRow};
use folio_storage_cql::{CqlStore, Options};
use folio_testkit::Simulated;
use folio_types::{Environment as _, Incarnation, OrgId, Principal, Role, ThreadId, TurnId, UserId};

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
    session.query_unpaged(damage, (org.as_str(), new("damaged").id.as_str())).await.unwrap();
    for _ in 0..2 {
        let mut expired = stores.threads.expired(at, 3).await.unwrap();
        expired.sort();
        let mut both = ["damaged", "readable"].map(|name| (org.clone(), new(name).id));
        both.sort();
        assert_eq!(expired, both, "the sweep finds that one is unreadable");
        let times = folio_types::Timestamp::MIN..=folio_types::Timestamp::MAX;
        let documents = stores.of::<folio_resources::Document>();
        assert!(documents.indexed_deletions(&times, None, 1).await.unwrap().is_empty());
        assert!(stores.jobs.expired(at, 1).await.unwrap().is_empty());
        assert!(stores.ops.indexed_data(at, 1).await.unwrap().is_empty());
        assert_eq!(stores.ops.forget_requests(at, 1).await.unwrap(), 0);
        let waiting = stores.texts.waiting_texts(folio_storage::TextWait::Worker, None, 1).await.unwrap();
        assert!(waiting.is_empty());
    }
    assert_eq!(stores.unreadable.count(), 6);

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
