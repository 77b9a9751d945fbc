//! Many processes that start on an empty keyspace at once.

use std::path::Path;

use anyhow::{Result, ensure};

use super::cluster::Launcher;
use crate::faults::tables::Tables;

/// Number of processes that start at once.
const PROCESSES: usize = 8;

/// Runs `folio migrate` in 8 processes at once on an empty keyspace, in each round on another one. All must succeed, and
/// one of them creates the first organization with its token.
pub async fn migrate_at_once(folder: &Path, redis: &str, cql: &str, rounds: usize) -> Result<()> {
    let replicas = if cql.split(',').count() >= 3 { 3 } else { 1 };
    for round in 1..=rounds {
        let keyspace = format!("migrate_{:x}", rand::random::<u64>());
        let launcher = Launcher::new(folder, redis, cql, &keyspace, replicas);
        let runs = (0..PROCESSES).map(|_| {
            let launcher = launcher.clone();
            tokio::task::spawn_blocking(move || launcher.run(&["migrate"]))
        });
        let mut tokens = 0;
        for output in futures::future::join_all(runs).await {
            let output = output?;
            ensure!(output.status.success(), "round {round}: {}", String::from_utf8_lossy(&output.stderr));
            let printed = String::from_utf8_lossy(&output.stdout);
            tokens += printed.lines().filter(|line| line.starts_with("folio_")).count();
        }
        let tables = Tables::open(cql, &keyspace).await?;
        let live = tables.aggregates().await?;
        let stored = |prefix: &str| live.iter().filter(|one| one.is_live && one.id.starts_with(prefix)).count();
        let created = (tokens, stored("org_"), stored("tok_"));
        ensure!(created == (1, 1, 1), "round {round}: printed tokens, organizations and tokens: {created:?}");
        tables.drop_keyspace(&keyspace).await?;
        println!("round {round}: {PROCESSES} processes migrated an empty keyspace");
    }
    Ok(())
}
