//! Many processes start on an empty keyspace at once.

use folio_tests::harness::migrations::migrate_at_once;

#[tokio::test]
async fn many_processes_migrate_an_empty_keyspace_at_once_and_create_one_first_token() {
    let servers = tokio::task::spawn_blocking(|| (folio_test_servers::redis_url(), folio_test_servers::cql()));
    let (redis, cql) = servers.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    migrate_at_once(folder.path(), &redis.unwrap(), &cql.unwrap(), 1).await.unwrap();
}
