//! The catalogue: the rows that lists and searches read instead of the resources.
//!
//! # Rows
//!
//! An item has these rows:
//!
//! | table | key | one row for | ordered by |
//! |---|---|---|---|
//! | `list_rows` | `all`, with the item's [`ListRow`] | each item | creation |
//! | `list_rows` | `tag/TAG`, `user/USER`, `of/DOCUMENT`, `prompt/PROMPT`, … | each of its terms | creation |
//! | `list_rows` | `metadata/KEY` | each key of its metadata | creation |
//! | `list_names` | the name, folded | each item | name |
//! | `list_groups` | `name/GROUP`, `metadata/KEY/GROUP` | each distinct group of three characters and of two | creation |
//!
//! A substring of a text has groups of characters that the text has, too. A search therefore reads the items of its
//! rarest groups and compares the substring with their list rows. Only the searchable characters of an item have groups
//! ([`ListRow::searchable_metadata`]).
//!
//! The rows of a term are in buckets of a week; `list_buckets` contains the buckets of each term. For names and groups the
//! hash of the item's id selects one of the [`SHARDS`](super::table) shards.
//!
//! # Order of writes
//!
//! Rows are written unconditionally with the item's version as their timestamp. The result therefore does not depend on
//! repeated writes, on the order of writes, or on clocks. New rows are written before the deciding write and old rows
//! are removed after it. Between the two, the row under `all` contains the current and the next list row, so that lists
//! never miss a live item, not even after a crash between the two. A reader also reads the item, skips a dangling row and
//! removes it ([`repair_keys`]). [`rebuild`] rewrites all rows of a kind.
//!
//! The tables have no grace period for deleted rows, so a server that missed a deletion can bring a row back, and a late
//! write can restore one. Both are dangling rows.

mod query;
mod rows;
mod scan;

use std::collections::BTreeSet;
use std::time::Duration;

use folio_resources::{Kind, ListRow};
use folio_types::{OrgId, Result};
use moka::sync::Cache;

pub(crate) use query::{CatalogueRow, Counts, Query, matching_ids, page};
use rows::keys;
use scan::{ALL_TIMES, Scan};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::Read;
use super::table::{ALL, Key, RowChange, Source, StoredValue, bucket};
use super::values::micros;
use folio_storage::value::{decode, encode};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListEntry {
    pub(crate) row: ListRow,
    /// The time of the item's creation, in microseconds.
    pub(crate) at: i64,
    pub(crate) version: u64,
}

impl From<&folio_resources::ListEntry> for ListEntry {
    fn from(listed: &folio_resources::ListEntry) -> Self {
        Self { row: listed.row.clone(), at: micros(listed.created_at), version: listed.version }
    }
}

/// The stage of a write for one version of an item. A later stage has a higher timestamp.
#[derive(Debug, Clone, Copy)]
enum Stage {
    BeforeCommit = 0,
    /// The removal of a dangling row.
    Repair = 1,
    AfterCommit = 2,
}

fn stamp(version: u64, stage: Stage) -> i64 {
    version.cast_signed().saturating_mul(4).saturating_add(stage as i64)
}

/// Maximum number of cached buckets, about 400 bytes each.
const BUCKETS_CACHED: u64 = 20_000;
/// Time after which a bucket is written again, so that the buckets of deleted documents do not fill the cache.
const BUCKETS_KEPT: Duration = Duration::from_secs(600);

/// The buckets of terms whose rows in `list_buckets` this process wrote.
pub(crate) struct Buckets(Cache<String, ()>);

impl Default for Buckets {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(BUCKETS_CACHED).time_to_live(BUCKETS_KEPT).build())
    }
}

async fn write_rows(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, &str),
    (at, id): (i64, &str),
    change: RowChange,
    stamp: i64,
) -> Result<()> {
    let cached = |term: &str| format!("{org}/{kind}/{term}/{}", bucket(at));
    let terms = change.put.iter().filter_map(|key| match key {
        Key::Term(term) => Some(term.clone()),
        Key::Name(_) | Key::Group(_) => None,
    });
    let new: Vec<String> = terms.filter(|term| !keyspace.buckets.0.contains_key(&cached(term))).collect();
    keyspace.tables.catalogue.change((org, kind), (at, id), change, &new, stamp).await?;
    for term in &new {
        keyspace.buckets.0.insert(cached(term), ());
    }
    Ok(())
}

/// Returns the value of the row under `all`.
fn value_of(row: &ListRow, next: Option<&ListRow>) -> Result<StoredValue> {
    let next = next.map(encode).transpose()?.unwrap_or_default();
    Ok(StoredValue { current: encode(row)?, next })
}

/// Writes the new rows of an item, before its deciding write.
pub(crate) async fn insert_new_rows(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    before: Option<&ListEntry>,
    after: &ListEntry,
) -> Result<()> {
    let value = match before {
        Some(before) if before.row == after.row => return Ok(()),
        Some(before) => value_of(&before.row, Some(&after.row))?,
        None => value_of(&after.row, None)?,
    };
    let had = before.map(|before| keys(&before.row)).unwrap_or_default();
    let put = keys(&after.row).difference(&had).cloned().collect();
    let (change, stamp) =
        (RowChange { value: Some(value), put, remove: Vec::new() }, stamp(after.version, Stage::BeforeCommit));
    write_rows(keyspace, (org, kind), (after.at, &after.row.id), change, stamp).await
}

/// Removes the rows of an item's previous keys and updates its value, after its deciding write.
pub(crate) async fn remove_old_rows(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    before: &ListEntry,
    after: Option<&ListEntry>,
    version: u64,
) -> Result<()> {
    let after = after.map(|after| &after.row);
    if after == Some(&before.row) {
        return Ok(());
    }
    let kept = after.map(keys).unwrap_or_default();
    let value = after.map(|row| value_of(row, None)).transpose()?;
    let remove = keys(&before.row).difference(&kept).cloned().collect();
    let change = RowChange { value, put: Vec::new(), remove };
    write_rows(keyspace, (org, kind), (before.at, &before.row.id), change, stamp(version, Stage::AfterCommit)).await
}

/// Removes the rows of an item that do not describe its stored state. `seen.version`: 0, or the version of a write that
/// is known to be lost; otherwise the rows of a version that is not stored yet stay.
pub(crate) async fn repair_row(keyspace: &Keyspace, org: &OrgId, seen: &ListEntry) -> Result<()> {
    let kind = Kind::of_id(&seen.row.id)?.name;
    let loaded = load(keyspace, org, &seen.row.id, Read::Serial).await?;
    let version = loaded.header.version.unwrap_or(0);
    let is_at = loaded.header.created_at == seen.at || version == 0;
    let now = loaded.live().filter(|_| is_at).map(|fields| fields.row);
    let item = (seen.at, seen.row.id.as_str());
    repair_keys(keyspace, (org, kind), item, keys(&seen.row), (now.as_ref(), version.max(seen.version))).await
}

/// Removes the rows of an item that its list row does not have. None: the item is not listed. `version` is that of the
/// item.
pub(crate) async fn repair_keys(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, &str),
    item: (i64, &str),
    seen: BTreeSet<Key>,
    (now, version): (Option<&ListRow>, u64),
) -> Result<()> {
    let kept = now.map(keys).unwrap_or_default();
    let remove = seen.difference(&kept).cloned().collect();
    let change = RowChange { remove, ..RowChange::default() };
    write_rows(keyspace, (org, kind), item, change, stamp(version, Stage::Repair)).await
}

/// Removes dangling rows that a reader found, all of one item.
pub(crate) async fn repair_found(keyspace: &Keyspace, org: &OrgId, found: &CatalogueRow) -> Result<()> {
    let id = &found.position.id;
    let (kind, loaded) = (Kind::of_id(id)?.name, load(keyspace, org, id, Read::Serial).await?);
    let version = loaded.header.version.unwrap_or(0);
    let is_at = loaded.header.created_at == found.position.at;
    let now = loaded.live().filter(|_| is_at).map(|fields| fields.row);
    let item = (found.position.at, id.as_str());
    repair_keys(keyspace, (org, kind), item, found.keys()?, (now.as_ref(), version)).await
}

/// Visits the list row of every item of a kind.
pub(crate) async fn for_each_row(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    mut visit: impl FnMut(ListRow) + Send,
) -> Result<()> {
    let source = (Source::Term(ALL.to_owned()), ALL_TIMES);
    let mut scan = Scan::open(keyspace, (org, kind), source, false, ROWS_PER_READ, None).await?;
    while let Some((_, value)) = scan.next().await? {
        if !value.current.is_empty() {
            visit(decode(&value.current)?);
        }
    }
    Ok(())
}

const ROWS_PER_READ: usize = 500;

/// Rewrites all rows of all items of a kind from the items, and removes dangling rows; returns the number of items.
/// Reads all items of the organization: for operators, not for requests.
pub(crate) async fn rebuild(keyspace: &Keyspace, org: &OrgId, kind: &Kind) -> Result<u64> {
    let mut items = 0;
    for source in [Source::Term(ALL.to_owned()), Source::Names] {
        let counts = source != Source::Names;
        let source = (source, ALL_TIMES);
        let mut scan = Scan::open(keyspace, (org, kind.name), source, false, ROWS_PER_READ, None).await?;
        while let Some((position, value)) = scan.next().await? {
            let row = match value.current.is_empty() {
                true => ListRow { id: position.id.clone(), name: position.sort_key.clone(), ..ListRow::default() },
                false => decode(&value.current)?,
            };
            repair_row(keyspace, org, &ListEntry { row, at: position.at, version: 0 }).await?;
            let loaded = load(keyspace, org, &position.id, Read::Serial).await?;
            let at = loaded.header.created_at;
            if let Some(fields) = loaded.live() {
                let put = keys(&fields.row).into_iter().collect();
                let change = RowChange { value: Some(value_of(&fields.row, None)?), put, remove: Vec::new() };
                let stamp = stamp(fields.version, Stage::AfterCommit);
                write_rows(keyspace, (org, kind.name), (at, &fields.row.id), change, stamp).await?;
                items += u64::from(counts);
            }
        }
    }
    Ok(items)
}
