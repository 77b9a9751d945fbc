//! The catalogue: what lists and searches read instead of the things themselves.
//!
//! # Rows
//!
//! An item has a row under each of its terms, and in each row all that a filter needs to know of it; where that is more than
//! [`VALUE_BYTES`], only the row under `all` has it, and the others are empty:
//!
//! | term | place | one row for |
//! |---|---|---|
//! | `all` | | each item |
//! | `name` | the name, folded | each item that has a name |
//! | `tag/TAG`, `user/USER`, `profile/PROFILE`, `of/DOCUMENT`, `of/DOCUMENT/PROMPT` | | what it has |
//! | `metadata/KEY` | | each key of its metadata |
//! | `text/name/CHAR`, `text/metadata/KEY/CHAR` | what follows from there on, 32 characters | each character of the name or value |
//!
//! So a piece of a name is a range of places in the partitions of its first character. Each term is spread over
//! [`SHARDS`](super::table) shards by the hash of the ids, which bounds a partition to an eighth of what an organization has.
//!
//! # Derived
//!
//! Rows are written plainly and bear the item's version as their timestamp, so that it does not matter how often, in which
//! order and under whose clock they arrive. New ones are written before the deciding write, old ones removed after it: an
//! item that lives is never missing. A row that leads nowhere is passed over by readers, who read the item itself, and is
//! removed by [`mend`]; [`repair`] writes and removes whatever an organization's rows lack or have too much.

mod query;
mod rows;

use std::collections::BTreeSet;

use folio_types::{OrgId, Result};

pub(crate) use query::{Counts, Found, Lookup, Query, page};
use rows::{ALL, Key, keys};
pub(crate) use rows::{name_pieces, value_pieces};

use super::aggregate::{Aggregate, load};
use super::keyspace::Keyspace;
use super::session::Strength;
use super::table::{Position, SHARDS};
use crate::naming::Kind;
use crate::value::{ListRow, Record, Stored, decode, encode};

/// An item as the catalogue shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listed {
    pub(crate) row: ListRow,
    /// When the item was made, in microseconds.
    pub(crate) at: i64,
    /// The item's version.
    pub(crate) version: u64,
}

/// Which of the writes about one version a row's timestamp is of: later ones count more.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Before the deciding write that makes the version.
    Entered = 0,
    /// A row that led nowhere.
    Mended = 1,
    /// After the deciding write.
    Settled = 2,
}

fn stamp(version: u64, stage: Stage) -> i64 {
    version.cast_signed().saturating_mul(4).saturating_add(stage as i64)
}

/// Bytes from which a row leaves out what the row under `all` says.
const VALUE_BYTES: usize = 2_048;

async fn change(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, Kind),
    listed: &Listed,
    keys: impl IntoIterator<Item = Key>,
    value: Option<Vec<u8>>,
    stamp: i64,
) -> Result<()> {
    let rows = keys.into_iter().map(|Key { term, place }| {
        let value = value.as_ref().map(|value| match value.len() <= VALUE_BYTES || term == ALL {
            true => value.clone(),
            false => Vec::new(),
        });
        (term, Position { place, at: listed.at, id: listed.row.id.clone() }, value)
    });
    keyspace.tables.catalogue.change(&keyspace.cql, (org, kind.word()), rows, stamp).await
}

/// What a row says of its item; none where it leads nowhere.
async fn said(
    keyspace: &Keyspace,
    (org, kind): (&OrgId, Kind),
    position: &Position,
    value: &[u8],
) -> Result<Option<ListRow>> {
    if !value.is_empty() {
        return decode(value).map(Some);
    }
    let all = Position { place: String::new(), ..position.clone() };
    let found = keyspace.tables.catalogue.value(&keyspace.cql, (org, kind.word(), ALL), &all).await?;
    found.filter(|value| !value.is_empty()).map(|value| decode(&value)).transpose()
}

/// Writes the rows that an item gets, before its deciding write.
pub(crate) async fn enter(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: Kind,
    before: Option<&Listed>,
    after: &Listed,
) -> Result<()> {
    let had = before.map(|before| keys(kind, &before.row)).unwrap_or_default();
    let new: BTreeSet<Key> = keys(kind, &after.row).difference(&had).cloned().collect();
    let value = encode(&after.row)?;
    change(keyspace, (org, kind), after, new, Some(value), stamp(after.version, Stage::Entered)).await
}

/// Removes the rows that an item no longer has, and renews those that say something else by now; after its deciding write.
pub(crate) async fn settle(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: Kind,
    before: &Listed,
    after: Option<&Listed>,
    version: u64,
) -> Result<()> {
    let stamp = stamp(version, Stage::Settled);
    let kept = after.map(|after| keys(kind, &after.row)).unwrap_or_default();
    if let Some(after) = after.filter(|after| after.row != before.row) {
        let value = encode(&after.row)?;
        change(keyspace, (org, kind), after, kept.clone(), Some(value), stamp).await?;
    }
    let old: BTreeSet<Key> = keys(kind, &before.row).difference(&kept).cloned().collect();
    change(keyspace, (org, kind), before, old, None, stamp).await
}

/// Removes rows of an item that are not what it is now.
pub(crate) async fn mend<T>(keyspace: &Keyspace, org: &OrgId, seen: &Listed) -> Result<()>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let loaded = load::<T>(keyspace, org, &seen.row.id, Strength::Serial).await?;
    let version = loaded.header.version.unwrap_or(0);
    let at = loaded.header.created_at;
    let now = loaded.live().map(|item| keys(T::KIND, &item.listed())).unwrap_or_default();
    let wrong: BTreeSet<Key> = if at == seen.at || version == 0 {
        keys(T::KIND, &seen.row).difference(&now).cloned().collect()
    } else {
        keys(T::KIND, &seen.row)
    };
    change(keyspace, (org, T::KIND), seen, wrong, None, stamp(version, Stage::Mended)).await
}

/// Visits the row of every item of a kind.
pub(crate) async fn walk(
    keyspace: &Keyspace,
    org: &OrgId,
    kind: Kind,
    mut visit: impl FnMut(ListRow) + Send,
) -> Result<()> {
    for shard in 0..SHARDS {
        let mut from = FIRST;
        loop {
            let catalogue = &keyspace.tables.catalogue;
            let list = (org, kind.word(), ALL);
            let part = catalogue.range(&keyspace.cql, list, shard, (&from, &last()), (false, ROWS)).await?;
            let Some((end, _)) = part.last() else { break };
            from = end.clone();
            let whole = part.len() < ROWS;
            for (_, value) in part.iter().filter(|(_, value)| !value.is_empty()) {
                visit(decode(value)?);
            }
            if whole {
                break;
            }
        }
    }
    Ok(())
}

/// Rows that are read at once.
const ROWS: usize = 500;
/// Before every row of a shard.
const FIRST: Position = Position { place: String::new(), at: i64::MIN, id: String::new() };

/// Behind every row of a shard.
fn last() -> Position {
    Position { place: char::MAX.to_string(), at: i64::MAX, id: String::new() }
}

/// Writes all rows of every item of a kind anew from the items themselves, and removes those that lead nowhere; gives how
/// many items there were. Reads all that the organization has of the kind: for an operator, not for a request.
pub(crate) async fn repair<T>(keyspace: &Keyspace, org: &OrgId) -> Result<u64>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let mut items = 0;
    for term in rows::walked(T::KIND).iter().copied() {
        for shard in 0..SHARDS {
            let mut from = FIRST;
            loop {
                let catalogue = &keyspace.tables.catalogue;
                let list = (org, T::KIND.word(), term);
                let part = catalogue.range(&keyspace.cql, list, shard, (&from, &last()), (false, ROWS)).await?;
                let Some((end, _)) = part.last() else { break };
                from = end.clone();
                let whole = part.len() < ROWS;
                for (position, value) in part {
                    let row = said(keyspace, (org, T::KIND), &position, &value).await?.unwrap_or_else(|| ListRow {
                        id: position.id.clone(),
                        name: position.place.clone(),
                        ..ListRow::default()
                    });
                    let seen = Listed { row, at: position.at, version: 0 };
                    mend::<T>(keyspace, org, &seen).await?;
                    let loaded = load::<T>(keyspace, org, &position.id, Strength::Serial).await?;
                    let at = loaded.header.created_at;
                    if let Some(item) = loaded.live() {
                        let listed = Listed { row: item.listed(), at, version: item.version() };
                        let (stamp, value) = (stamp(listed.version, Stage::Settled), encode(&listed.row)?);
                        let keys = keys(T::KIND, &listed.row);
                        change(keyspace, (org, T::KIND), &listed, keys, Some(value), stamp).await?;
                        items += u64::from(term == ALL);
                    }
                }
                if whole {
                    break;
                }
            }
        }
    }
    Ok(items)
}
