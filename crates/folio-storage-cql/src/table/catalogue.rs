//! `list_rows`, `list_buckets`, `list_names`, `list_groups`: the rows that lists and searches read.
//!
//! Rows are derived data, written unconditionally with the version of their item as timestamp. Repetition, order and
//! clocks of the writes therefore do not matter. A row is a hint, because a deletion that a server missed can be lost.

use std::collections::BTreeMap;

use folio_types::{OrgId, Result};
use scylla::value::CqlValue;

use crate::session::{Read, Select, Statement};
use crate::values::{Bind as _, limit, values};
use folio_storage::page_token;

/// Time range of a partition of `list_rows`, in microseconds: a week. A partition of an organization that creates 50,000
/// items per day has 350,000 rows: some 100 MB in the list of all items, 25 MB in other lists.
const BUCKET_MICROSECONDS: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Number of shards of the names, and of each group of characters. The hash of an item's id selects the shard.
pub(crate) const SHARDS: i32 = 8;

/// The term of every item. Only its rows have values.
pub(crate) const ALL: &str = "all";

/// The key of a row of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A row in the list of a term.
    Term(String),
    /// A row under the folded name.
    Name(String),
    /// A row under a field and a group of characters.
    Group(String),
}

/// Rows that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Term(String),
    Names,
    Group(String),
}

impl Source {
    /// Returns the key of a row of this source.
    pub(crate) fn key(&self, position: &Position) -> Key {
        match self {
            Self::Term(term) => Key::Term(term.clone()),
            Self::Names => Key::Name(position.sort_key.clone()),
            Self::Group(chars) => Key::Group(chars.clone()),
        }
    }
}

/// The position of a row in its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The folded name in a list by name, otherwise empty.
    pub(crate) sort_key: String,
    /// The time of the item's creation, in microseconds.
    pub(crate) at: i64,
    pub(crate) id: String,
}

/// The encoded list row of an item. Empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredValue {
    pub(crate) current: Vec<u8>,
    /// The list row of a write that may be committed.
    pub(crate) next: Vec<u8>,
}

/// A change of the rows of one item.
#[derive(Default)]
pub(crate) struct RowChange {
    pub(crate) value: Option<StoredValue>,
    pub(crate) put: Vec<Key>,
    pub(crate) remove: Vec<Key>,
}

const ROWS: &str = "SELECT at, id, value, next FROM list_rows WHERE org = ? AND list = ? AND term = ? AND bucket = ? \
                    AND (at, id) > (?, ?) AND (at, id) < (?, ?)";
const NAMES: &str = "SELECT name, at, id FROM list_names WHERE org = ? AND list = ? AND shard = ? \
                     AND (name, at, id) > (?, ?, ?) AND (name, at, id) < (?, ?, ?)";
const GROUPS: &str = "SELECT at, id FROM list_groups WHERE org = ? AND list = ? AND chars = ? AND shard = ? \
                      AND (at, id) > (?, ?) AND (at, id) < (?, ?)";

table! { Catalogue:
    put_value: write "INSERT INTO list_rows (org, list, term, bucket, at, id, value, next) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    put_row: write "INSERT INTO list_rows (org, list, term, bucket, at, id) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    remove_row: write "DELETE FROM list_rows USING TIMESTAMP ? \
                       WHERE org = ? AND list = ? AND term = ? AND bucket = ? AND at = ? AND id = ?",
    put_bucket: write "INSERT INTO list_buckets (org, list, term, bucket) VALUES (?, ?, ?, ?)",
    buckets: read "SELECT bucket FROM list_buckets WHERE org = ? AND list = ? AND term = ?",
    rows: read &format!("{ROWS} ORDER BY at ASC, id ASC LIMIT ?"),
    rows_backward: read &format!("{ROWS} ORDER BY at DESC, id DESC LIMIT ?"),
    values: read "SELECT at, id, value, next FROM list_rows \
                  WHERE org = ? AND list = ? AND term = ? AND bucket = ? AND (at, id) IN ?",
    count: read "SELECT count(*) FROM list_rows WHERE org = ? AND list = ? AND term = ? AND bucket = ?",
    put_name: write "INSERT INTO list_names (org, list, shard, name, at, id) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    remove_name: write "DELETE FROM list_names USING TIMESTAMP ? \
                        WHERE org = ? AND list = ? AND shard = ? AND name = ? AND at = ? AND id = ?",
    names: read &format!("{NAMES} ORDER BY name ASC, at ASC, id ASC LIMIT ?"),
    names_backward: read &format!("{NAMES} ORDER BY name DESC, at DESC, id DESC LIMIT ?"),
    put_group: write "INSERT INTO list_groups (org, list, chars, shard, at, id) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    remove_group: write "DELETE FROM list_groups USING TIMESTAMP ? \
                         WHERE org = ? AND list = ? AND chars = ? AND shard = ? AND at = ? AND id = ?",
    groups: read &format!("{GROUPS} ORDER BY at ASC, id ASC LIMIT ?"),
    groups_backward: read &format!("{GROUPS} ORDER BY at DESC, id DESC LIMIT ?"),
}

/// Position, value and value of the next write of a row in the order of creation.
type ValueRow = (i64, String, Option<Vec<u8>>, Option<Vec<u8>>);

fn stored((at, id, current, next): ValueRow) -> (Position, StoredValue) {
    let value = StoredValue { current: current.unwrap_or_default(), next: next.unwrap_or_default() };
    (Position { sort_key: String::new(), at, id }, value)
}

impl Catalogue {
    /// Changes the rows of an item that was created at a time in microseconds, and writes the rows of its buckets.
    /// Not atomic.
    pub(crate) async fn change(
        &self,
        (org, list): (&OrgId, &str),
        (at, id): (i64, &str),
        RowChange { value, put, remove }: RowChange,
        new_buckets: &[String],
        version: i64,
    ) -> Result<()> {
        let (org, bucket, shard) = (org.as_str(), bucket(at), shard(id));
        let mut statements: Vec<Statement<'_>> = Vec::new();
        for term in new_buckets {
            statements.push((&self.put_bucket, values![org, list, term, bucket]));
        }
        let has_value = value.is_some();
        if let Some(StoredValue { current, next }) = value {
            statements.push((&self.put_value, values![org, list, ALL, bucket, at, id, current, next, version]));
        }
        let put = put.into_iter().filter(|key| !(has_value && matches!(key, Key::Term(term) if term == ALL)));
        statements.extend(put.map(|key| match key {
            Key::Term(term) => (&self.put_row, values![org, list, term, bucket, at, id, version]),
            Key::Name(name) => (&self.put_name, values![org, list, shard, name, at, id, version]),
            Key::Group(chars) => (&self.put_group, values![org, list, chars, shard, at, id, version]),
        }));
        statements.extend(remove.into_iter().map(|key| match key {
            Key::Term(term) => (&self.remove_row, values![version, org, list, term, bucket, at, id]),
            Key::Name(name) => (&self.remove_name, values![version, org, list, shard, name, at, id]),
            Key::Group(chars) => (&self.remove_group, values![version, org, list, chars, shard, at, id]),
        }));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (statement, values) in statements {
            let size = ROW_BYTES + values.iter().flatten().map(size).sum::<usize>();
            if batch.len() == BATCH_ROWS || (bytes + size > BATCH_BYTES && !batch.is_empty()) {
                self.cql.write_all(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
            bytes += size;
            batch.push((statement, values));
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.cql.write_all(batch).await,
        }
    }

    /// Returns the buckets of a term that have or had rows, oldest first.
    pub(crate) async fn buckets(&self, (org, list): (&OrgId, &str), term: &str) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = self.cql.rows(&self.buckets, Read::Quorum, values![org.as_str(), list, term]).await?;
        Ok(rows.into_iter().map(|(bucket,)| bucket).collect())
    }

    /// Returns at most `rows` rows of a partition of the source strictly between two positions, in ascending or
    /// descending order. `partition`: a bucket of a term, otherwise a shard.
    pub(crate) async fn range(
        &self,
        (org, list): (&OrgId, &str),
        (source, partition): (&Source, i64),
        (from, to): (&Position, &Position),
        (backward, rows): (bool, usize),
    ) -> Result<Vec<(Position, StoredValue)>> {
        let org = org.as_str();
        let pick = |forward, descending| -> &Select { if backward { descending } else { forward } };
        let shard = i32::try_from(partition).unwrap_or_default();
        let positions = values![from.at, &from.id, to.at, &to.id, limit(rows)];
        match source {
            Source::Term(term) => {
                let values = [values![org, list, term, partition], positions].concat();
                let select = pick(&self.rows, &self.rows_backward);
                let found: Vec<ValueRow> = self.cql.rows(select, Read::Quorum, values).await?;
                Ok(found.into_iter().map(stored).collect())
            }
            Source::Names => {
                let (from, to) = ((&from.sort_key, from.at, &from.id), (&to.sort_key, to.at, &to.id));
                let values = values![org, list, shard, from.0, from.1, from.2, to.0, to.1, to.2, limit(rows)];
                let select = pick(&self.names, &self.names_backward);
                let found: Vec<(String, i64, String)> = self.cql.rows(select, Read::Quorum, values).await?;
                let row = |(sort_key, at, id)| (Position { sort_key, at, id }, StoredValue::default());
                Ok(found.into_iter().map(row).collect())
            }
            Source::Group(chars) => {
                let values = [values![org, list, chars, shard], positions].concat();
                let select = pick(&self.groups, &self.groups_backward);
                let found: Vec<(i64, String)> = self.cql.rows(select, Read::Quorum, values).await?;
                Ok(found.into_iter().map(|(at, id)| stored((at, id, None, None))).collect())
            }
        }
    }

    /// Returns the values of items by id. Items without a value are missing. All positions must be in one bucket
    /// ([`by_bucket`]).
    pub(crate) async fn values(
        &self,
        (org, list): (&OrgId, &str),
        bucket: i64,
        items: Vec<(i64, String)>,
    ) -> Result<Vec<(Position, StoredValue)>> {
        let item = |(at, id): (i64, String)| CqlValue::Tuple(vec![at.bind(), id.bind()]);
        let items = CqlValue::List(items.into_iter().map(item).collect());
        let mut values = values![org.as_str(), list, ALL, bucket];
        values.push(Some(items));
        let found: Vec<ValueRow> = self.cql.rows(&self.values, Read::Quorum, values).await?;
        Ok(found.into_iter().map(stored).collect())
    }

    /// Returns the number of rows in a bucket of a term.
    pub(crate) async fn count(&self, (org, list): (&OrgId, &str), term: &str, bucket: i64) -> Result<u64> {
        let values = values![org.as_str(), list, term, bucket];
        let row: Option<(i64,)> = self.cql.row(&self.count, Read::Quorum, values).await?;
        Ok(row.map_or(0, |(count,)| count.cast_unsigned()))
    }
}

/// Maximum number of items whose values one statement reads. ScyllaDB refuses more than 100.
const VALUES_PER_READ: usize = 100;

/// Groups items by the bucket of their values, at most [`VALUES_PER_READ`] in a group.
pub(crate) fn by_bucket<'a>(positions: impl IntoIterator<Item = &'a Position>) -> Vec<(i64, Vec<(i64, String)>)> {
    let mut buckets: BTreeMap<i64, Vec<(i64, String)>> = BTreeMap::new();
    for Position { at, id, .. } in positions {
        buckets.entry(bucket(*at)).or_default().push((*at, id.clone()));
    }
    let parts = |(bucket, items): (i64, Vec<(i64, String)>)| {
        let parts: Vec<_> = items.chunks(VALUES_PER_READ).map(|part| (bucket, part.to_vec())).collect();
        parts
    };
    buckets.into_iter().flat_map(parts).collect()
}

const BATCH_ROWS: usize = 200;

/// Maximum size of a batch, in bytes. A server refuses a batch over several partitions of more than 50 KiB.
const BATCH_BYTES: usize = 24 * 1024;

/// Approximate overhead of a row without its texts, in bytes.
const ROW_BYTES: usize = 60;

/// Returns the bytes of a text or value of a statement.
fn size(value: &CqlValue) -> usize {
    match value {
        CqlValue::Text(text) => text.len(),
        CqlValue::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Returns the bucket of an item by the time of its creation in microseconds.
pub(crate) fn bucket(at: i64) -> i64 {
    at.div_euclid(BUCKET_MICROSECONDS)
}

/// Returns the shard of an item.
pub(crate) fn shard(id: &str) -> i32 {
    let [first, ..] = page_token::digest(&[id.as_bytes()]);
    i32::from(first) % SHARDS
}
