//! Migrations of the keyspace at start, by one process at a time.
//!
//! A migration is a file of repeatable statements. The version of the keyspace is a row of the keyspace. The lock is
//! another row, inserted `IF NOT EXISTS` with a time to live, so that a dead process blocks others only for a short
//! time.
//!
//! Builds without a migration may continue to use the keyspace: a migration adds tables and columns, which these builds
//! ignore. The first line of an exception is [`INCOMPATIBLE`]. A third row contains the number of the newest such
//! migration. Builds that lack this migration refuse the keyspace.

use std::time::{Duration, Instant};

use folio_types::{Code, Error, Reason, Result};

use super::KeyspaceState;
use super::session::{ConditionalResult, Cql, Read, Select, StatementKind};
use super::values::values;

/// The first migration has number 1.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.cql"),
    include_str!("migrations/0002.cql"),
    include_str!("migrations/0003.cql"),
    include_str!("migrations/0004.cql"),
    include_str!("migrations/0005.cql"),
    include_str!("migrations/0006.cql"),
    include_str!("migrations/0007.cql"),
    include_str!("migrations/0008.cql"),
    include_str!("migrations/0009.cql"),
    include_str!("migrations/0010.cql"),
    include_str!("migrations/0011.cql"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// 0 if the keyspace had no tables.
    pub from: i32,
    pub to: i32,
}

pub(crate) fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

const VERSION: &str = "SELECT version FROM migrations WHERE name = 'keyspace'";

/// First line of a migration without which a build must not use the keyspace.
const INCOMPATIBLE: &str = "-- Incompatible with builds that lack this migration.";

/// Stores the number of an incompatible migration before its statements run. The number is also the timestamp, so that a
/// process whose lock expired does not lower it.
const REQUIRE: &str = "INSERT INTO migrations (name, version) VALUES ('required', ?) USING TIMESTAMP ?";

/// Selects the number of the newest incompatible migration. No row: all migrations are compatible.
const REQUIRED: &str = "SELECT version FROM migrations WHERE name = 'required'";

const LOCK_SECONDS: i32 = 120;

const RELEASE_ATTEMPTS: u32 = 3;

const LOCK_WAIT: Duration = Duration::from_millis(250);

/// Time within which a failed migration is repeated from its beginning. While another process creates the keyspace or a table, a
/// server may already list it although it is not usable yet, or other servers may not know it.
const REPEAT_LIMIT: Duration = Duration::from_secs(30);

/// Creates the keyspace if it does not exist, selects it, and migrates it. Errors: `INVALID_FIELD` if the name of the
/// keyspace is invalid; `STORE_UNAVAILABLE`, with the code `FAILED_PRECONDITION` if a newer build migrated it incompatibly.
pub(crate) async fn migrate(cql: &Cql) -> Result<Migrated> {
    let (since, lock_owner) = (Instant::now(), format!("{:032x}", cql.options().environment.random()));
    loop {
        match migrate_once(cql, &lock_owner).await {
            Err(error) if may_pass(&error) && since.elapsed() <= REPEAT_LIMIT => {
                tracing::warn!(%error, "the keyspace cannot be migrated; retrying");
            }
            result => return result,
        }
        tokio::time::sleep(LOCK_WAIT).await;
    }
}

/// Returns whether a migration may succeed if it is repeated.
fn may_pass(error: &Error) -> bool {
    error.reason != Reason::InvalidField && error.code != Code::FailedPrecondition
}

async fn migrate_once(cql: &Cql, lock_owner: &str) -> Result<Migrated> {
    let (select, found) = begin(cql).await?;
    // A process without a migration to run does not wait for the lock.
    if found >= newest() {
        return Ok(Migrated { from: found, to: found });
    }
    if !lock(cql, lock_owner, &select).await? {
        return Ok(Migrated { from: newest(), to: newest() });
    }
    let result = run(cql, &select).await;
    if let Err(error) = release(cql, lock_owner).await {
        tracing::warn!(%error, "cannot release the migration lock; it expires by itself");
    }
    result
}

/// Creates the keyspace and the table `migrations` if they do not exist, and selects the keyspace. Returns its version.
async fn begin(cql: &Cql) -> Result<(Select, i32)> {
    create_keyspace(cql).await?;
    cql.use_keyspace().await?;
    if cql.first_text("SELECT name FROM migrations LIMIT 1").await?.is_none() {
        let table = "CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, version int, holder text)";
        cql.define(table).await?;
    }
    // Another process may have created the table, which is not known to every server yet.
    cql.await_schema_agreement().await?;
    let select = cql.select(VERSION).await?;
    let found = version_in(cql.row(&select, Read::Quorum, values![]).await?);
    if found > newest() {
        check_newer(found, version_in(cql.row(&cql.select(REQUIRED).await?, Read::Serial, values![]).await?))?;
    }
    Ok((select, found))
}

/// Fails if a keyspace with a version above [`newest`] requires a migration that this build lacks.
fn check_newer(version: i32, required: i32) -> Result<()> {
    let newest = newest();
    if required <= newest {
        tracing::info!(version, newest, "a newer build migrated the keyspace compatibly");
        return Ok(());
    }
    let message = format!(
        "the keyspace has version {version} and requires builds that support {required}, this build supports up to \
         {newest}: a newer build migrated it"
    );
    Err(Error::precondition(Reason::StoreUnavailable, message))
}

/// Returns the state of the keyspace without changing it.
pub(crate) async fn inspect(cql: &Cql) -> Result<KeyspaceState> {
    let name = &cql.options().keyspace;
    let tables = format!(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{name}' AND table_name = 'migrations'"
    );
    if !is_name(name) || cql.first_text(&tables).await?.is_none() {
        return Ok(KeyspaceState { version: None, newest: newest(), required: 0 });
    }
    cql.use_keyspace().await?;
    let row: Row = cql.row(&cql.select(VERSION).await?, Read::Serial, values![]).await?;
    let required = version_in(cql.row(&cql.select(REQUIRED).await?, Read::Serial, values![]).await?);
    Ok(KeyspaceState { version: row.and_then(|(version,)| version), newest: newest(), required })
}

type Row = Option<(Option<i32>,)>;

async fn version(cql: &Cql, select: &Select) -> Result<i32> {
    Ok(version_in(cql.row(select, Read::Serial, values![]).await?))
}

/// Returns the version in the row. No row: 0.
fn version_in(row: Row) -> i32 {
    row.and_then(|(version,)| version).unwrap_or(0)
}

async fn release(cql: &Cql, lock_owner: &str) -> Result<()> {
    let text = "DELETE FROM migrations WHERE name = 'lock' IF holder = ?";
    let release = cql.prepare(text, StatementKind::Conditional).await?;
    for _ in 1..RELEASE_ATTEMPTS {
        if let ConditionalResult::Applied | ConditionalResult::Refused =
            cql.conditional(&release, values![lock_owner]).await?
        {
            return Ok(());
        }
    }
    match cql.conditional(&release, values![lock_owner]).await? {
        ConditionalResult::Unknown(error) => Err(error),
        ConditionalResult::Applied | ConditionalResult::Refused => Ok(()),
    }
}

/// Acquires the lock. Returns false if another process has migrated the keyspace meanwhile.
async fn lock(cql: &Cql, lock_owner: &str, version: &Select) -> Result<bool> {
    let text = "INSERT INTO migrations (name, holder) VALUES ('lock', ?) IF NOT EXISTS USING TTL ?";
    let lock = cql.prepare(text, StatementKind::Conditional).await?;
    let read_owner = cql.select("SELECT holder FROM migrations WHERE name = 'lock'").await?;
    let since = Instant::now();
    loop {
        match cql.conditional(&lock, values![lock_owner, LOCK_SECONDS]).await? {
            ConditionalResult::Applied => return Ok(true),
            ConditionalResult::Refused | ConditionalResult::Unknown(_) => {
                // An insert with an unknown outcome may have been applied. If this read fails, the insert is repeated.
                let row = cql.row::<(Option<String>,)>(&read_owner, Read::Serial, values![]).await;
                if row.is_ok_and(|row| row.and_then(|(lock_owner,)| lock_owner).as_deref() == Some(lock_owner)) {
                    return Ok(true);
                }
                // The lock of a process that died, or whose release failed, lasts longer than its migration.
                if self::version(cql, version).await.is_ok_and(|version| version >= newest()) {
                    return Ok(false);
                }
            }
        }
        let timeout = cql.options().migration_timeout;
        if since.elapsed() > timeout {
            let message =
                format!("another process is migrating the keyspace; its lock was not released within {timeout:?}");
            return Err(Error::unavailable(Reason::StoreUnavailable, message));
        }
        // The lock belongs to another process, which sends no notification.
        tokio::time::sleep(LOCK_WAIT).await;
    }
}

async fn run(cql: &Cql, select: &Select) -> Result<Migrated> {
    // Another process may have migrated the keyspace while this process waited for the lock.
    let from = version(cql, select).await?;
    let first = "INSERT INTO migrations (name, version) VALUES ('keyspace', ?) IF NOT EXISTS";
    let first = cql.prepare(first, StatementKind::Conditional).await?;
    let next = "UPDATE migrations SET version = ? WHERE name = 'keyspace' IF version = ?";
    let next = cql.prepare(next, StatementKind::Conditional).await?;
    let require = cql.prepare(REQUIRE, StatementKind::Write).await?;
    for (number, file) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > from) {
        if file.starts_with(INCOMPATIBLE) {
            cql.write(&require, values![number, i64::from(number)]).await?;
        }
        for statement in statements(file) {
            cql.define(&statement).await?;
        }
        match number {
            1 => cql.conditional(&first, values![number]).await?,
            _ => cql.conditional(&next, values![number, number - 1]).await?,
        };
        if version(cql, select).await? < number {
            let message = format!("migration {number} was not recorded; restart the process to repeat it");
            return Err(Error::unavailable(Reason::StoreUnavailable, message));
        }
        tracing::info!(number, "the keyspace was migrated");
    }
    Ok(Migrated { from, to: newest() })
}

/// Returns the statements of a migration file, without comments.
fn statements(file: &str) -> Vec<String> {
    let code: Vec<_> = file.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

async fn create_keyspace(cql: &Cql) -> Result<()> {
    let name = &cql.options().keyspace;
    if !is_name(name) {
        return Err(Error::invalid(
            Reason::InvalidField,
            "invalid name of a keyspace: expected lower-case letters, digits and underscores, a letter first",
        ));
    }
    let query = format!("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{name}'");
    if cql.first_text(&query).await?.is_some() {
        return Ok(());
    }
    let datacenter = match &cql.options().datacenter {
        Some(datacenter) => datacenter.clone(),
        None => cql.first_text("SELECT data_center FROM system.local").await?.ok_or_else(|| {
            let message = "the server does not report its data center; set the data center of the store";
            Error::unavailable(Reason::StoreUnavailable, message)
        })?,
    };
    let datacenter = datacenter.replace('\'', "''");
    let copies = cql.options().replication_factor;
    let scylla = cql.first_text("SELECT version FROM system.versions WHERE key = 'local'").await?;
    let tablets = if scylla.is_some_and(|version| tablets_without_conditions(&version)) {
        " AND tablets = {'enabled': false}"
    } else {
        ""
    };
    cql.define(&format!(
        "CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', '{datacenter}': {copies}}}{tablets}"
    ))
    .await
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
        && name.len() <= 48
}

/// Returns whether tablets of this version of ScyllaDB lack conditional writes.
fn tablets_without_conditions(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '~']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ((6, 0)..(2000, 0)).contains(&version) || ((2024, 2)..(2025, 4)).contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablets_are_disabled_if_they_do_not_support_conditional_writes() {
        for version in ["6.0.1", "6.2.0-0.2024", "2024.2.1", "2025.1.0", "2025.3.5-rc1"] {
            assert!(tablets_without_conditions(version), "{version}");
        }
        for version in ["5.4.1", "2024.1.9", "2025.4.0", "2026.1.0~dev"] {
            assert!(!tablets_without_conditions(version), "{version}");
        }
    }

    #[test]
    fn a_newer_keyspace_is_refused_only_if_it_requires_a_missing_migration() {
        for required in [0, 1, newest()] {
            check_newer(newest() + 2, required).unwrap();
        }
        let refused = check_newer(newest() + 2, newest() + 1).unwrap_err();
        assert_eq!((refused.code, refused.reason), (Code::FailedPrecondition, Reason::StoreUnavailable));
        assert!(!may_pass(&refused));
    }

    #[test]
    fn a_migration_is_repeated_if_a_server_does_not_know_a_new_table_yet() {
        assert!(may_pass(&Error::internal("a CQL statement was refused: table migrations does not exist")));
        assert!(may_pass(&Error::unavailable(Reason::StoreUnavailable, "the store is unreachable or timed out")));
        assert!(!may_pass(&Error::invalid(Reason::InvalidField, "invalid name of a keyspace")));
    }

    #[test]
    fn every_migration_is_repeatable_and_every_table_reads_from_another_replica_early() {
        for statement in MIGRATIONS.iter().flat_map(|file| statements(file)) {
            let is_repeatable = statement.contains("IF NOT EXISTS") || statement.contains("IF EXISTS");
            assert!(is_repeatable, "{statement}");
            let is_early = statement.contains("speculative_retry = '100ms'");
            // A later migration drops this table.
            let is_short_lived = statement.contains("EXISTS catalogue");
            assert!(is_early || is_short_lived || !statement.contains("CREATE TABLE"), "{statement}");
        }
    }
}
