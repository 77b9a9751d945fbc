//! Many processes start on an empty keyspace at once.

use folio_tests::faults::tables::Tables;
use folio_tests::harness::cluster::Launcher;

use crate::command_line::text;

/// Number of processes that start at once.
const PROCESSES: usize = 8;
/// Number of empty keyspaces. `FOLIO_MIGRATE_ROUNDS` sets another number.
const ROUNDS: usize = 2;

#[tokio::test]
async fn many_processes_migrate_an_empty_keyspace_at_once_and_create_one_first_token() {
    let rounds = std::env::var("FOLIO_MIGRATE_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let servers = tokio::task::spawn_blocking(|| (folio_test_servers::redis_url(), folio_test_servers::cql()));
    let (redis, cql) = servers.await.unwrap();
    let (redis, cql) = (redis.unwrap(), cql.unwrap());
    let replicas = if cql.split(',').count() >= 3 { 3 } else { 1 };
    let folder = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let keyspace = format!("migrate_{:x}", rand::random::<u64>());
        let launcher = Launcher::new(folder.path(), &redis, &cql, &keyspace, replicas);
        let runs = (0..PROCESSES).map(|_| {
            let launcher = launcher.clone();
            tokio::task::spawn_blocking(move || launcher.run(&["migrate"]))
        });
        let mut tokens = 0;
        for output in futures::future::join_all(runs).await {
            let output = output.unwrap();
            assert!(output.status.success(), "round {round}: {}", text(&output.stderr));
            tokens += text(&output.stdout).lines().filter(|line| line.starts_with("folio_")).count();
        }
        let live = Tables::open(&cql, &keyspace).await.unwrap().aggregates().await.unwrap();
        let stored = |prefix: &str| live.iter().filter(|one| one.is_live && one.id.starts_with(prefix)).count();
        assert_eq!((tokens, stored("org_"), stored("tok_")), (1, 1, 1), "round {round}");
    }
}
