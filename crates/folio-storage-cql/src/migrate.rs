//! Migrations: the keyspace is brought up to date at start, by one process at a time.
//!
//! Each is a file of statements that may be run again. The version of the keyspace is a row in it; the lock is another,
//! taken `IF NOT EXISTS` with a time to live, so that a process that dies holds nobody up for long. A keyspace that is
//! newer than this build is refused.

use std::time::{Duration, Instant};

use folio_types::{Code, Error, Reason, Result};

use super::session::{Cql, Select, Sent, Strength, Use};
use super::values::values;

/// The migrations; the first has number 1.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.cql"),
    include_str!("migrations/0002.cql"),
    include_str!("migrations/0003.cql"),
    include_str!("migrations/0004.cql"),
];

/// What opening a keyspace did to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Its version before; 0: it had no tables.
    pub from: i32,
    /// Its version now.
    pub to: i32,
}

/// The version of the keyspace that this build works with.
pub(crate) fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// Reads the version.
const VERSION: &str = "SELECT version FROM migrations WHERE name = 'keyspace'";

/// Seconds after which the lock of a process that died is free.
const LOCK_SECONDS: i32 = 120;

/// How long a process that finds the lock taken waits before it looks again.
const LOCK_WAIT: Duration = Duration::from_millis(250);

/// How often the beginning is tried: a server may name a keyspace that another process makes before it can be used.
const BEGINNINGS: usize = 8;

/// Makes the keyspace where it is not there, chooses it, and brings it up to date.
///
/// Errors: `STORE_UNAVAILABLE`, which as a failed precondition says that the keyspace is newer than this build.
pub(crate) async fn migrate(cql: &Cql) -> Result<Migrated> {
    let mut tried = 1;
    while let Err(error) = begin(cql).await {
        if tried == BEGINNINGS || error.reason == Reason::InvalidField {
            return Err(error);
        }
        tried += 1;
        tokio::time::sleep(LOCK_WAIT).await;
    }
    let select = cql.select(VERSION).await?;
    // Those that find nothing to do do not wait for each other.
    let found = known(cql.row(&select, Strength::Quorum, values![]).await?)?;
    if found == newest() {
        return Ok(Migrated { from: found, to: found });
    }
    let holder = format!("{:032x}", cql.options().environment.random());
    lock(cql, &holder).await?;
    let done = run(cql, &select).await;
    let release = cql.prepare("DELETE FROM migrations WHERE name = 'lock' IF holder = ?", Use::Conditional).await?;
    if let Ok(Sent::Unknown(error)) | Err(error) = cql.conditional(&release, values![holder]).await {
        tracing::warn!(%error, "the lock of the migrations was not given back; it goes by itself");
    }
    done
}

/// Makes the keyspace and the table of its version where they are not there, and chooses it.
async fn begin(cql: &Cql) -> Result<()> {
    make_keyspace(cql).await?;
    cql.use_keyspace().await?;
    if cql.ask("SELECT name FROM migrations LIMIT 1").await?.is_none() {
        let table = "CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, version int, holder text)";
        cql.define(table).await?;
    }
    Ok(())
}

/// The version of the keyspace, which nothing is done to; none: there is no such keyspace, or it has no tables yet.
///
/// Errors: `STORE_UNAVAILABLE`.
pub(crate) async fn look(cql: &Cql) -> Result<Option<i32>> {
    let name = &cql.options().keyspace;
    let tables = format!(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{name}' AND table_name = 'migrations'"
    );
    if !is_name(name) || cql.ask(&tables).await?.is_none() {
        return Ok(None);
    }
    cql.use_keyspace().await?;
    let row: Row = cql.row(&cql.select(VERSION).await?, Strength::Serial, values![]).await?;
    Ok(row.and_then(|(version,)| version))
}

/// The row of the version.
type Row = Option<(Option<i32>,)>;

async fn version(cql: &Cql, select: &Select) -> Result<i32> {
    known(cql.row(select, Strength::Serial, values![]).await?)
}

/// The version that a row tells, none: 0; one that this build does not know is an error.
fn known(row: Row) -> Result<i32> {
    let version = row.and_then(|(version,)| version).unwrap_or(0);
    if version > newest() {
        return Err(Error::new(
            Code::FailedPrecondition,
            Reason::StoreUnavailable,
            format!("the keyspace has version {version}, this build knows up to {}: it is of a newer one", newest()),
        ));
    }
    Ok(version)
}

async fn lock(cql: &Cql, holder: &str) -> Result<()> {
    let text = "INSERT INTO migrations (name, holder) VALUES ('lock', ?) IF NOT EXISTS USING TTL ?";
    let lock = cql.prepare(text, Use::Conditional).await?;
    let mine = cql.select("SELECT holder FROM migrations WHERE name = 'lock'").await?;
    let since = Instant::now();
    loop {
        match cql.conditional(&lock, values![holder, LOCK_SECONDS]).await? {
            Sent::Applied => return Ok(()),
            Sent::Refused | Sent::Unknown(_) => {
                // Where this fails, too, the next look decides.
                let row = cql.row::<(Option<String>,)>(&mine, Strength::Serial, values![]).await;
                if row.is_ok_and(|row| row.and_then(|(holder,)| holder).as_deref() == Some(holder)) {
                    return Ok(());
                }
            }
        }
        if since.elapsed() > cql.options().migration_timeout {
            return Err(Error::unavailable(Reason::StoreUnavailable, "another process is migrating the keyspace"));
        }
        // The lock's holder is another process: there is nothing to be woken by.
        tokio::time::sleep(LOCK_WAIT).await;
    }
}

async fn run(cql: &Cql, select: &Select) -> Result<Migrated> {
    // The lock may have been waited for: another process was here.
    let from = version(cql, select).await?;
    let first = "INSERT INTO migrations (name, version) VALUES ('keyspace', ?) IF NOT EXISTS";
    let first = cql.prepare(first, Use::Conditional).await?;
    let next = "UPDATE migrations SET version = ? WHERE name = 'keyspace' IF version = ?";
    let next = cql.prepare(next, Use::Conditional).await?;
    for (number, file) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > from) {
        for statement in statements(file) {
            cql.define(&statement).await?;
        }
        let sent = match number {
            1 => cql.conditional(&first, values![number]).await?,
            _ => cql.conditional(&next, values![number, number - 1]).await?,
        };
        if version(cql, select).await? < number {
            return Err(Error::unavailable(
                Reason::StoreUnavailable,
                format!("migration {number} was not recorded: {sent:?}"),
            ));
        }
        tracing::info!(number, "the keyspace was migrated");
    }
    Ok(Migrated { from, to: newest() })
}

/// The statements of a file, without comments.
fn statements(file: &str) -> Vec<String> {
    let code: Vec<_> = file.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let code = code.join("\n");
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

async fn make_keyspace(cql: &Cql) -> Result<()> {
    let name = &cql.options().keyspace;
    if !is_name(name) {
        return Err(Error::invalid(Reason::InvalidField, "a keyspace has lower-case letters, digits and underscores"));
    }
    let there = format!("SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{name}'");
    if cql.ask(&there).await?.is_some() {
        return Ok(());
    }
    let datacenter = match &cql.options().datacenter {
        Some(datacenter) => datacenter.clone(),
        None => cql
            .ask("SELECT data_center FROM system.local")
            .await?
            .ok_or_else(|| Error::unavailable(Reason::StoreUnavailable, "the server does not name its data center"))?,
    };
    let datacenter = datacenter.replace('\'', "''");
    let copies = cql.options().replication_factor;
    let scylla = cql.ask("SELECT version FROM system.versions WHERE key = 'local'").await?;
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

/// Whether a ScyllaDB of this version has tablets that do not take conditional writes.
fn tablets_without_conditions(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '~']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ((6, 0)..(2000, 0)).contains(&version) || ((2024, 2)..(2025, 4)).contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tablets_are_off_where_they_take_no_conditional_writes() {
        for version in ["6.0.1", "6.2.0-0.2024", "2024.2.1", "2025.1.0", "2025.3.5-rc1"] {
            assert!(tablets_without_conditions(version), "{version}");
        }
        for version in ["5.4.1", "2024.1.9", "2025.4.0", "2026.1.0~dev"] {
            assert!(!tablets_without_conditions(version), "{version}");
        }
    }

    #[test]
    fn every_migration_can_be_run_again() {
        for file in MIGRATIONS {
            for statement in statements(file) {
                assert!(statement.contains("IF NOT EXISTS"), "{statement}");
            }
        }
    }
}
