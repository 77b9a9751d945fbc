//! Erasing organizations: the tables that belong to organizations are found in the schema, their partitions by reading the keys of
//! all, a page at a time. Each partition of an erased organization is deleted whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::access::Organization;
use folio_types::token::TokenRecord;
use folio_types::{OrgId, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};
use scylla::response::PagingState;
use scylla::value::{CqlValue, Row};

use super::access::INSTALLATION;
use super::keyspace::Keyspace;
use super::retry;
use super::session::{Cql, Select, Strength, Use};
use super::table::{AccessPart, SystemRow};
use super::values::{Values, values};
use folio_storage::ErasureStore;
use folio_storage::value::{First, decode, encode};

/// The system index of what was deleted. A row is entered before the tombstone: one without it says nothing.
const DELETED: &str = "deleted_organization";
/// The table of organizations: the tombstones stay.
const ORGANIZATIONS: &str = "organizations";
/// The column by which a table belongs to organizations.
const ORG: &str = "org";
/// Partitions that are deleted at once.
const DELETED_AT_ONCE: usize = 8;

pub(crate) struct Erasures(pub(crate) Arc<Keyspace>);

#[async_trait]
impl ErasureStore for Erasures {
    async fn delete(&self, org: &OrgId, at: Timestamp) -> Result<bool> {
        let Keyspace { cql, tables, .. } = &*self.0;
        for attempt in 0..retry::ATTEMPTS {
            let Some(old) = tables.access.organizations.get(cql, org.as_str(), Strength::Serial).await? else {
                return Ok(false);
            };
            let there: Organization = decode(&old)?;
            let row = SystemRow { at: 0, key: org.to_string(), value: encode(&First { org: org.clone() })? };
            if there.deleted_at.is_none() {
                tables.system_rows.put(cql, DELETED, row).await?;
                let tombstone = encode(&there.tombstone(at))?;
                if !tables.access.organizations.replace(cql, org.as_str(), old, tombstone).await? {
                    retry::pause(attempt, self.0.random()).await;
                    continue;
                }
            }
            // Also where it was deleted before: whoever did it may have ended here.
            tables.access.rows.remove(cql, INSTALLATION, AccessPart::Organization, org.as_str()).await?;
            return Ok(true);
        }
        Err(retry::contended("an organization"))
    }

    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, Timestamp)>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let mut found = Vec::new();
        for row in tables.system_rows.first(cql, DELETED, None, limit).await? {
            let First { org } = decode(&row.value)?;
            let there = tables.access.organizations.get(cql, org.as_str(), Strength::Quorum).await?;
            let there = there.map(|bytes| decode::<Organization>(&bytes)).transpose()?;
            found.extend(there.and_then(|there| there.deleted_at).map(|at| (org, at)));
        }
        Ok(found)
    }

    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()> {
        let cql = &self.0.cql;
        for org in orgs {
            // Its deletion may have ended before that, or its making may have come after.
            self.0.tables.access.rows.remove(cql, INSTALLATION, AccessPart::Organization, org.as_str()).await?;
        }
        for (table, key) in tables(cql).await? {
            if table != ORGANIZATIONS && key.iter().any(|column| column == ORG) {
                let columns = key.join(", ");
                let owned = |row: &Row| names_one_of(orgs, &key, row);
                delete_where(cql, &format!("SELECT DISTINCT {columns} FROM {table}"), (&table, &key), owned).await?;
            }
        }
        let owner = |row: &Row| match row.columns.get(1) {
            Some(Some(CqlValue::Blob(value))) => {
                decode::<TokenRecord>(value).is_ok_and(|token| orgs.contains(&token.org))
            }
            _ => false,
        };
        delete_where(cql, "SELECT id, value FROM tokens", ("tokens", &["id".to_owned()]), owner).await?;
        let key = ["name", "bucket", "at", "key"].map(str::to_owned);
        let listed = |row: &Row| match row.columns.as_slice() {
            [Some(CqlValue::Text(index)), .., Some(CqlValue::Text(key))] if index != DELETED => {
                key.split('/').next().is_some_and(|org| org.parse().is_ok_and(|org: OrgId| orgs.contains(&org)))
            }
            _ => false,
        };
        delete_where(cql, "SELECT name, bucket, at, key FROM system_rows", ("system_rows", &key), listed).await
    }

    async fn forget(&self, org: &OrgId) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        tables.system_rows.remove(cql, DELETED, 0, org.as_str()).await
    }
}

/// Every table of the keyspace with the columns of its partition key, in order.
async fn tables(cql: &Cql) -> Result<BTreeMap<String, Vec<String>>> {
    let columns = cql
        .select("SELECT table_name, column_name, kind, position FROM system_schema.columns WHERE keyspace_name = ?")
        .await?;
    let keyspace = values![&cql.options().keyspace];
    let rows: Vec<(String, String, String, i32)> = cql.rows(&columns, Strength::Quorum, keyspace).await?;
    let mut keys: BTreeMap<String, BTreeMap<i32, String>> = BTreeMap::new();
    for (table, column, _, position) in rows.into_iter().filter(|(_, _, kind, _)| kind == "partition_key") {
        keys.entry(table).or_default().insert(position, column);
    }
    Ok(keys.into_iter().map(|(table, columns)| (table, columns.into_values().collect())).collect())
}

fn names_one_of(orgs: &BTreeSet<OrgId>, key: &[String], row: &Row) -> bool {
    let at = key.iter().position(|column| column == ORG);
    match at.and_then(|at| row.columns.get(at)) {
        Some(Some(CqlValue::Text(org))) => org.parse().is_ok_and(|org: OrgId| orgs.contains(&org)),
        _ => false,
    }
}

/// Deletes what `wanted` picks of the rows of a read, which begin with the columns of `key`.
async fn delete_where(
    cql: &Cql,
    select: &str,
    (table, key): (&str, &[String]),
    wanted: impl Fn(&Row) -> bool,
) -> Result<()> {
    let select: Select = cql.select(select).await?;
    let conditions: Vec<_> = key.iter().map(|column| format!("{column} = ?")).collect();
    let delete = cql.prepare(&format!("DELETE FROM {table} WHERE {}", conditions.join(" AND ")), Use::Write).await?;
    let mut next = Some(PagingState::start());
    while let Some(from) = next {
        let (rows, behind) = cql.page::<Row>(&select, Strength::Quorum, &Vec::new(), from).await?;
        let picked = rows.into_iter().filter(|row| wanted(row));
        let keys = picked.map(|row| row.columns.into_iter().take(key.len()).collect::<Values>());
        let deleted = futures::stream::iter(keys).map(|key| cql.write(&delete, key));
        deleted.buffer_unordered(DELETED_AT_ONCE).try_collect::<()>().await?;
        next = behind;
    }
    Ok(())
}

/// Every row of every table, as text.
#[cfg(feature = "dump")]
pub(crate) async fn everything(cql: &Cql) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for table in tables(cql).await?.into_keys() {
        let all = cql.select(&format!("SELECT * FROM {table}")).await?;
        let rows: Vec<Row> = cql.rows(&all, Strength::Quorum, Vec::new()).await?;
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
