//! Tests of migrations.

use folio_storage_cql::CqlStore;
use folio_types::{Code, Reason};
use scylla::client::session_builder::SessionBuilder;

use crate::options;

async fn drop_keyspace(keyspace: &str) -> scylla::client::session::Session {
    let session = SessionBuilder::new().known_nodes(options(keyspace).await.contact_points).build().await.unwrap();
    session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {keyspace}"), ()).await.unwrap();
    session
}

#[tokio::test]
async fn concurrently_starting_nodes_migrate_an_empty_keyspace_once() {
    let session = drop_keyspace("folio_migrated").await;
    let options = options("folio_migrated").await;
    let openings = (0..4).map(|_| CqlStore::open(options.clone()));
    futures::future::try_join_all(openings).await.unwrap();
    CqlStore::open(options).await.unwrap();
    session.query_unpaged("DROP KEYSPACE folio_migrated", ()).await.unwrap();
}

#[tokio::test]
async fn a_keyspace_of_a_newer_build_is_refused() {
    let session = drop_keyspace("folio_newer").await;
    let options = options("folio_newer").await;
    CqlStore::open(options.clone()).await.unwrap();
    let newer = "UPDATE folio_newer.migrations SET version = 1000 WHERE name = 'keyspace' IF version > 0";
    session.query_unpaged(newer, ()).await.unwrap();
    let refused = CqlStore::open(options).await.unwrap_err();
    assert_eq!((refused.code, refused.reason), (Code::FailedPrecondition, Reason::StoreUnavailable), "{refused}");
    session.query_unpaged("DROP KEYSPACE folio_newer", ()).await.unwrap();
}
