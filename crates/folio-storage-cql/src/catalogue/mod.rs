//! The catalogue: the rows that lists and searches read instead of the resources.
//!
//! # Rows
//!
//! An item has a row under each of its terms. Each row contains all data that filters need. If that data exceeds
//! [`VALUE_BYTES`], only the row under `all` contains it, and the other rows are empty:
//!
//! | term | sort key | one row for |
//! |---|---|---|
//! | `all` | | each item |
//! | `name` | the name, folded | each item that has a name |
//! | `tag/TAG`, `user/USER`, `profile/PROFILE`, `of/DOCUMENT`, `of/DOCUMENT/PROMPT` | | each of its terms |
//! | `metadata/KEY` | | each key of its metadata |
//! | `text/name/CHAR`, `text/metadata/KEY/CHAR` | the following 32 characters | each character of the name or value |
//!
//! A substring of a name is therefore a range of sort keys in the partitions of its first character. The hash of an
//! item's id selects one of the [`SHARDS`](super::table) shards of a term, so that a partition has about an eighth of
//! the term's rows.
//!
//! # Order of writes
//!
//! Rows are written unconditionally with the item's version as their timestamp. The result therefore does not depend on
//! repeated writes, on the order of writes, or on clocks. New rows are written before the deciding write and old rows
//! are removed after it, so that lists never miss a live item. A reader also reads the item, skips a dangling row and
//! removes the row with [`repair_row`]. [`rebuild`] rewrites all rows of a kind.

mod query;
mod rows;

use std::collections::BTreeSet;

use folio_resources::{Kind, ListRow};
use folio_types::{OrgId, Result};
pub(crate) use query::{CatalogueRow, Counts, Query, page};
pub(crate) use rows::ALL;
use rows::{Key, NAME, keys};

use super::keyspace::Keyspace;
use super::record::load;
use super::session::Read;
use super::table::{Position, SHARDS};
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

/// Size of a value, in bytes, above which only the row under `all` contains it.
const VALUE_BYTES: usize = 2_048;

async fn write_rows(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, &str),
    listed: &ListEntry,
    keys: impl IntoIterator<Item = Key>,
    value: Option<Vec<u8>>,
    stamp: i64,
) -> Result<()> {
    let rows = keys.into_iter().map(|Key { term, sort_key }| {
        let value = value.as_ref().map(|value| match value.len() <= VALUE_BYTES || term == ALL {
            true => value.clone(),
            false => Vec::new(),
        });
        (term, Position { sort_key, at: listed.at, id: listed.row.id.clone() }, value)
    });
    keyspace.tables.catalogue.change((org, kind), rows, stamp).await
}

/// Returns None for a dangling row.
async fn value_of(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, &str),
    position: &Position,
    value: &[u8],
) -> Result<Option<ListRow>> {
    if !value.is_empty() {
        return decode(value).map(Some);
    }
    let all = Position { sort_key: String::new(), ..position.clone() };
    let found = keyspace.tables.catalogue.value((org, kind, ALL), &all).await?;
    found.filter(|value| !value.is_empty()).map(|value| decode(&value)).transpose()
}

/// Writes the new rows of an item, before its deciding write.
pub(crate) async fn insert_new_rows(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    before: Option<&ListEntry>,
    after: &ListEntry,
) -> Result<()> {
    let had = before.map(|before| keys(&before.row)).unwrap_or_default();
    let new: BTreeSet<Key> = keys(&after.row).difference(&had).cloned().collect();
    let value = encode(&after.row)?;
    write_rows(keyspace, (org, kind), after, new, Some(value), stamp(after.version, Stage::BeforeCommit)).await
}

/// Removes the rows of an item's previous terms and updates the rows whose value changed, after its deciding write.
pub(crate) async fn remove_old_rows(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    before: &ListEntry,
    after: Option<&ListEntry>,
    version: u64,
) -> Result<()> {
    let stamp = stamp(version, Stage::AfterCommit);
    let kept = after.map(|after| keys(&after.row)).unwrap_or_default();
    if let Some(after) = after.filter(|after| after.row != before.row) {
        let value = encode(&after.row)?;
        write_rows(keyspace, (org, kind), after, kept.clone(), Some(value), stamp).await?;
    }
    let old: BTreeSet<Key> = keys(&before.row).difference(&kept).cloned().collect();
    write_rows(keyspace, (org, kind), before, old, None, stamp).await
}

/// Removes the rows of an item that do not describe its stored state. `seen.version`: 0, or the version of a write that
/// is known to be lost; otherwise the rows of a version that is not stored yet stay.
pub(crate) async fn repair_row(keyspace: &Keyspace, org: &OrgId, seen: &ListEntry) -> Result<()> {
    let kind = Kind::of_id(&seen.row.id)?.name;
    let loaded = load(keyspace, org, &seen.row.id, Read::Serial).await?;
    let version = loaded.header.version.unwrap_or(0);
    let at = loaded.header.created_at;
    let now = loaded.live().map(|fields| keys(&fields.row)).unwrap_or_default();
    let wrong: BTreeSet<Key> = if at == seen.at || version == 0 {
        keys(&seen.row).difference(&now).cloned().collect()
    } else {
        keys(&seen.row)
    };
    write_rows(keyspace, (org, kind), seen, wrong, None, stamp(version.max(seen.version), Stage::Repair)).await
}

/// Visits the `all` row of every item of a kind.
pub(crate) async fn for_each_row(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: &str,
    mut visit: impl FnMut(ListRow) + Send,
) -> Result<()> {
    let mut cursor = Some((0, FIRST));
    while let Some(from) = cursor {
        let (rows, next) = read_rows(keyspace, (org, kind, ALL), from).await?;
        for (_, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            visit(decode(value)?);
        }
        cursor = next;
    }
    Ok(())
}

/// A shard of a term, and a position in it.
type Cursor = (i32, Position);

/// Reads rows of a term after the cursor, shard by shard. Returns the next cursor; None after the last shard.
async fn read_rows(
    keyspace: &Keyspace,
    list: (&OrgId, &str, &str),
    (shard, from): Cursor,
) -> Result<(Vec<(Position, Vec<u8>)>, Option<Cursor>)> {
    let catalogue = &keyspace.tables.catalogue;
    let rows = catalogue.range(list, shard, (&from, &last()), (false, ROWS_PER_READ)).await?;
    let next = match rows.last() {
        Some((end, _)) if rows.len() == ROWS_PER_READ => Some((shard, end.clone())),
        _ => (shard + 1 < SHARDS).then_some((shard + 1, FIRST)),
    };
    Ok((rows, next))
}

const ROWS_PER_READ: usize = 500;
/// A position before every row of a shard.
const FIRST: Position = Position { sort_key: String::new(), at: i64::MIN, id: String::new() };

fn last() -> Position {
    Position { sort_key: char::MAX.to_string(), at: i64::MAX, id: String::new() }
}

/// Rewrites all rows of all items of a kind from the items, and removes dangling rows; returns the number of items.
/// Reads all items of the organization: for operators, not for requests. Does nothing for a kind with parents, because
/// such a kind has no term of its own.
pub(crate) async fn rebuild(keyspace: &Keyspace, org: &OrgId, kind: &Kind) -> Result<u64> {
    let mut items = 0;
    let terms: &[&str] = if kind.has_parent { &[] } else { &[ALL, NAME] };
    for term in terms.iter().copied() {
        let mut cursor = Some((0, FIRST));
        while let Some(from) = cursor {
            let (rows, next) = read_rows(keyspace, (org, kind.name, term), from).await?;
            for (position, value) in rows {
                let row = value_of(keyspace, (org, kind.name), &position, &value).await?.unwrap_or_else(|| ListRow {
                    id: position.id.clone(),
                    name: position.sort_key.clone(),
                    ..ListRow::default()
                });
                repair_row(keyspace, org, &ListEntry { row, at: position.at, version: 0 }).await?;
                let loaded = load(keyspace, org, &position.id, Read::Serial).await?;
                let at = loaded.header.created_at;
                if let Some(fields) = loaded.live() {
                    let listed = ListEntry { row: fields.row, at, version: fields.version };
                    let (stamp, value) = (stamp(listed.version, Stage::AfterCommit), encode(&listed.row)?);
                    let keys = keys(&listed.row);
                    write_rows(keyspace, (org, kind.name), &listed, keys, Some(value), stamp).await?;
                    items += u64::from(term == ALL);
                }
            }
            cursor = next;
        }
    }
    Ok(items)
}
