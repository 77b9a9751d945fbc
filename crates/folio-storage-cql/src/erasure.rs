//! Erasure of organizations. The schema determines the tables that belong to organizations; reading the keys of all
//! partitions, page by page, determines their partitions. Each partition of an erased organization is deleted as a
//! whole.
//!
//! A server that missed the deletion of a row brings it back if the table has no grace period for deleted rows
//! (`gc_grace_seconds = 0`). Such tables are read and deleted on all replicas: while one does not answer, the erasure fails,
//! and the next sweep repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use scylla::response::PagingState;
use scylla::value::{CqlValue, Row};

use super::keyspace::Keyspace;
use super::session::{Cql, Read, Select, StatementKind, on_all_replicas};
use super::values::{Values, values};
use folio_storage::{ErasureStore, is_owned_by};

/// Tables whose partition key contains this column belong to organizations.
const ORG: &str = "org";
/// Maximum number of partitions that are deleted concurrently.
const DELETED_AT_ONCE: usize = 8;

pub(crate) struct Erasures(pub(crate) Arc<Keyspace>);

#[async_trait]
impl ErasureStore for Erasures {
    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()> {
        let cql = &self.0.cql;
        let without_grace = without_grace(cql).await?;
        for (table, key) in tables(cql).await? {
            if key.iter().any(|column| column == ORG) {
                let statement = format!("SELECT DISTINCT {} FROM {table}", key.join(", "));
                let owned = |row: &Row| names_one_of(orgs, &key, row);
                let on_all = without_grace.contains(&table);
                delete_where(cql, &statement, (&table, &key), on_all, owned).await?;
            }
        }
        let listed = |row: &Row| match row.columns.as_slice() {
            [.., Some(CqlValue::Text(key))] => is_owned_by(orgs, key),
            _ => false,
        };
        let key = ["bucket", "shard", "key"].map(str::to_owned);
        delete_where(cql, "SELECT bucket, shard, key FROM open_turns", ("open_turns", &key), false, listed).await?;
        let key = ["name", "bucket", "at", "key"].map(str::to_owned);
        delete_where(cql, "SELECT name, bucket, at, key FROM system_rows", ("system_rows", &key), false, listed).await
    }
}

/// Returns every table of the keyspace with the columns of its partition key, in key order.
async fn tables(cql: &Cql) -> Result<BTreeMap<String, Vec<String>>> {
    let columns = cql
        .select("SELECT table_name, column_name, kind, position FROM system_schema.columns WHERE keyspace_name = ?")
        .await?;
    let keyspace = values![&cql.options().keyspace];
    let rows: Vec<(String, String, String, i32)> = cql.rows(&columns, Read::Quorum, keyspace).await?;
    let mut keys: BTreeMap<String, BTreeMap<i32, String>> = BTreeMap::new();
    for (table, column, _, position) in rows.into_iter().filter(|(_, _, kind, _)| kind == "partition_key") {
        keys.entry(table).or_default().insert(position, column);
    }
    Ok(keys.into_iter().map(|(table, columns)| (table, columns.into_values().collect())).collect())
}

/// Returns the tables of the keyspace without a grace period for deleted rows.
async fn without_grace(cql: &Cql) -> Result<BTreeSet<String>> {
    let select = "SELECT table_name, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ?";
    let keyspace = values![&cql.options().keyspace];
    let rows: Vec<(String, i32)> = cql.rows(&cql.select(select).await?, Read::Quorum, keyspace).await?;
    Ok(rows.into_iter().filter(|(_, seconds)| *seconds == 0).map(|(table, _)| table).collect())
}

fn names_one_of(orgs: &BTreeSet<OrgId>, key: &[String], row: &Row) -> bool {
    let at = key.iter().position(|column| column == ORG);
    match at.and_then(|at| row.columns.get(at)) {
        Some(Some(CqlValue::Text(org))) => is_owned_by(orgs, org),
        _ => false,
    }
}

/// Deletes the partitions whose rows are `wanted`. The first columns of a row are the partition key. `on_all`: every
/// replica must answer.
async fn delete_where(
    cql: &Cql,
    select: &str,
    (table, key): (&str, &[String]),
    on_all: bool,
    wanted: impl Fn(&Row) -> bool,
) -> Result<()> {
    let mut select: Select = cql.select(select).await?;
    let conditions: Vec<_> = key.iter().map(|column| format!("{column} = ?")).collect();
    let delete = format!("DELETE FROM {table} WHERE {}", conditions.join(" AND "));
    let mut delete = cql.prepare(&delete, StatementKind::Write).await?;
    if on_all {
        (select, delete) = (select.on_all_replicas(), on_all_replicas(delete));
    }
    let mut next = Some(PagingState::start());
    while let Some(from) = next {
        let (rows, behind) = cql.page::<Row>(&select, Read::Quorum, &Vec::new(), from).await?;
        let picked = rows.into_iter().filter(|row| wanted(row));
        let keys = picked.map(|row| row.columns.into_iter().take(key.len()).collect::<Values>());
        let deleted = futures::stream::iter(keys).map(|key| cql.write(&delete, key));
        deleted.buffer_unordered(DELETED_AT_ONCE).try_collect::<()>().await?;
        next = behind;
    }
    Ok(())
}

#[cfg(feature = "dump")]
pub(crate) async fn everything(cql: &Cql) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for table in tables(cql).await?.into_keys() {
        let all = cql.select(&format!("SELECT * FROM {table}")).await?;
        let rows: Vec<Row> = cql.rows(&all, Read::Quorum, Vec::new()).await?;
        found.extend(rows.into_iter().map(|row| {
            let columns = row.columns.into_iter().flatten().map(|value| match value {
                CqlValue::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                other => format!("{other:?}"),
            });
            format!("{table} {}", columns.collect::<Vec<_>>().join(" "))
        }));
    }
    Ok(found)
}
