//! Tests of migrations.

use folio_storage_cql::{CqlStore, inspect};
use folio_types::{Code, Reason};
use scylla::client::session_builder::SessionBuilder;

use crate::options;

pub(crate) async fn drop_keyspace(keyspace: &str) -> scylla::client::session::Session {
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
async fn a_keyspace_of_a_newer_build_is_refused_only_after_an_incompatible_migration() {
    let session = drop_keyspace("folio_newer").await;
    let options = options("folio_newer").await;
    CqlStore::open(options.clone()).await.unwrap();
    let newer = "UPDATE folio_newer.migrations SET version = 1000 WHERE name = 'keyspace' IF version > 0";
    session.query_unpaged(newer, ()).await.unwrap();
    session.query_unpaged("ALTER TABLE folio_newer.org_rows ADD added text", ()).await.unwrap();
    CqlStore::open(options.clone()).await.unwrap();
    for (required, is_accepted) in [(1, true), (1000, false)] {
        let require = "INSERT INTO folio_newer.migrations (name, version) VALUES ('required', ?)";
        session.query_unpaged(require, (required,)).await.unwrap();
        let state = inspect(options.clone()).await.unwrap();
        assert_eq!((state.version, state.required), (Some(1000), required));
        match CqlStore::open(options.clone()).await {
            Ok(_) => assert!(is_accepted),
            Err(refused) => {
                let expected = (Code::FailedPrecondition, Reason::StoreUnavailable);
                assert_eq!((refused.code, refused.reason, is_accepted), (expected.0, expected.1, false), "{refused}");
            }
        }
    }
    session.query_unpaged("DROP KEYSPACE folio_newer", ()).await.unwrap();
}
