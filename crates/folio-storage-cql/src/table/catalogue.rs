//! `catalogue`: the rows that lists and searches read. One partition for each list, term and shard. Rows are ordered by
//! a sort key (a name, a substring of a text, or nothing), then by creation.
//!
//! Rows are derived data, written unconditionally with the version of their item as timestamp. Repetition, order and
//! clocks of the writes therefore do not matter.

use folio_types::{OrgId, Result};

use crate::session::Read;
use crate::values::{limit, values};
use folio_storage::page_token;

/// Number of shards of each term. The hash of an item's id selects the shard.
pub(crate) const SHARDS: i32 = 8;

/// The position of a row in its partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// A name, a substring of a text, or empty.
    pub(crate) sort_key: String,
    /// The time of the item's creation, in microseconds.
    pub(crate) at: i64,
    pub(crate) id: String,
}

/// Reads rows of a shard strictly between two positions.
const RANGE: &str = "SELECT sort_key, at, id, value FROM catalogue WHERE org = ? AND list = ? AND term = ? AND shard = ? \
                     AND (sort_key, at, id) > (?, ?, ?) AND (sort_key, at, id) < (?, ?, ?)";

table! { Catalogue:
    put: write "INSERT INTO catalogue (org, list, term, shard, sort_key, at, id, value) \
                VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    remove: write "DELETE FROM catalogue USING TIMESTAMP ? \
                   WHERE org = ? AND list = ? AND term = ? AND shard = ? AND sort_key = ? AND at = ? AND id = ?",
    forward: read &format!("{RANGE} ORDER BY sort_key ASC, at ASC, id ASC LIMIT ?"),
    backward: read &format!("{RANGE} ORDER BY sort_key DESC, at DESC, id DESC LIMIT ?"),
    one: read "SELECT value FROM catalogue WHERE org = ? AND list = ? AND term = ? AND shard = ? \
               AND sort_key = ? AND at = ? AND id = ?",
    count: read "SELECT count(*) FROM catalogue WHERE org = ? AND list = ? AND term = ? AND shard = ?",
}

impl Catalogue {
    /// Writes and removes rows: `(term, position, value)`. A row without a value is removed.
    pub(crate) async fn change(
        &self,
        (org, list): (&OrgId, &str),
        rows: impl IntoIterator<Item = (String, Position, Option<Vec<u8>>)>,
        version: i64,
    ) -> Result<()> {
        let (mut statements, mut bytes) = (Vec::new(), 0);
        for (term, Position { sort_key, at, id }, value) in rows {
            let shard = shard(&id);
            let size = ROW_BYTES + term.len() + sort_key.len() + value.as_ref().map_or(0, Vec::len);
            if statements.len() == BATCH_ROWS || (bytes + size > BATCH_BYTES && !statements.is_empty()) {
                self.cql.write_all(std::mem::take(&mut statements)).await?;
                bytes = 0;
            }
            bytes += size;
            statements.push(match value {
                Some(value) => (&self.put, values![org.as_str(), list, term, shard, sort_key, at, id, value, version]),
                None => (&self.remove, values![version, org.as_str(), list, term, shard, sort_key, at, id]),
            });
        }
        match statements.is_empty() {
            true => Ok(()),
            false => self.cql.write_all(statements).await,
        }
    }

    pub(crate) async fn value(
        &self,
        (org, list, term): (&OrgId, &str, &str),
        Position { sort_key, at, id }: &Position,
    ) -> Result<Option<Vec<u8>>> {
        let values = values![org.as_str(), list, term, shard(id), sort_key, *at, id];
        let row: Option<(Option<Vec<u8>>,)> = self.cql.row(&self.one, Read::Quorum, values).await?;
        Ok(row.and_then(|(value,)| value))
    }

    /// Returns at most `rows` rows of a shard strictly between two positions, in ascending or descending order.
    pub(crate) async fn range(
        &self,
        (org, list, term): (&OrgId, &str, &str),
        shard: i32,
        (from, to): (&Position, &Position),
        (backward, rows): (bool, usize),
    ) -> Result<Vec<(Position, Vec<u8>)>> {
        let select = if backward { &self.backward } else { &self.forward };
        let values = values![
            org.as_str(),
            list,
            term,
            shard,
            &from.sort_key,
            from.at,
            &from.id,
            &to.sort_key,
            to.at,
            &to.id,
            limit(rows)
        ];
        let rows: Vec<(String, i64, String, Option<Vec<u8>>)> = self.cql.rows(select, Read::Quorum, values).await?;
        let row = |(sort_key, at, id, value): (_, _, _, Option<Vec<u8>>)| {
            (Position { sort_key, at, id }, value.unwrap_or_default())
        };
        Ok(rows.into_iter().map(row).collect())
    }

    pub(crate) async fn count(&self, (org, list, term): (&OrgId, &str, &str), shard: i32) -> Result<u64> {
        let values = values![org.as_str(), list, term, shard];
        let row: Option<(i64,)> = self.cql.row(&self.count, Read::Quorum, values).await?;
        Ok(row.map_or(0, |(count,)| count.cast_unsigned()))
    }
}

const BATCH_ROWS: usize = 100;

/// Maximum size of a batch, in bytes. A server refuses a batch over several partitions of more than 50 KiB.
const BATCH_BYTES: usize = 24 * 1024;

/// Approximate overhead of a row without its term, sort key and value, in bytes.
const ROW_BYTES: usize = 120;

fn shard(id: &str) -> i32 {
    let [first, ..] = page_token::digest(&[id.as_bytes()]);
    i32::from(first) % SHARDS
}
