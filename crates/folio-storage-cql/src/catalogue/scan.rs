//! Reads of the rows of a source in order: of a term bucket by bucket, of names and groups from all shards at a time.

use std::collections::VecDeque;

use folio_types::{OrgId, Result};

use crate::keyspace::Keyspace;
use crate::table::{Position, SHARDS, Source, StoredValue, bucket};

/// Maximum number of rows of one read.
const ROWS_PER_READ_MAX: usize = 512;
/// Maximum number of partitions that are read concurrently.
const PARTITIONS_AT_ONCE: usize = 16;

/// A position before every row of a source.
pub(super) const FIRST: Position = Position { sort_key: String::new(), at: i64::MIN, id: String::new() };

pub(super) fn last() -> Position {
    Position { sort_key: char::MAX.to_string(), at: i64::MAX, id: String::new() }
}

/// A period of creation times in microseconds: the start and the end, inclusive.
pub(super) type Period = (i64, i64);

pub(super) const ALL_TIMES: Period = (i64::MIN, i64::MAX);

/// Returns the positions before the first and after the last row of a period.
fn bounds((start, end): Period) -> (Position, Position) {
    let first = Position { at: start, ..FIRST };
    match end.checked_add(1) {
        Some(after) => (first, Position { at: after, ..FIRST }),
        None => (first, last()),
    }
}

/// Rows of a partition that were read. `is_exhausted`: the partition has no further rows.
struct Partition {
    number: i64,
    rows: VecDeque<(Position, StoredValue)>,
    is_exhausted: bool,
}

impl Partition {
    fn head(&self) -> Option<&Position> {
        self.rows.front().map(|(position, _)| position)
    }
}

/// Rows of a source in ascending or descending order.
pub(super) struct Scan<'a> {
    keyspace: &'a Keyspace,
    list: (&'a OrgId, &'a str),
    source: Source,
    backward: bool,
    /// The positions before the first and after the last row.
    first: Position,
    end: Position,
    /// Number of rows of the next read of a partition. Doubles with each read.
    rows_per_read: usize,
    /// Number of partitions that are opened next. Doubles while their rows do not suffice, so that a list with few rows in
    /// many buckets needs few round trips.
    width: usize,
    open: Vec<Partition>,
    unread: VecDeque<i64>,
    /// The position of the last row that was returned.
    position: Option<Position>,
}

impl<'a> Scan<'a> {
    /// Opens the rows after a position, or all rows. Names are not ordered by time, so that all of their rows are read
    /// for any period.
    pub(super) async fn open(
        keyspace: &'a Keyspace,
        list: (&'a OrgId, &'a str),
        (source, period): (Source, Period),
        backward: bool,
        rows_per_read: usize,
        after: Option<Position>,
    ) -> Result<Self> {
        let (first, end) = match &source {
            Source::Names => (FIRST, last()),
            Source::Term(_) | Source::Group(_) => bounds(period),
        };
        let (unread, width): (VecDeque<i64>, _) = match &source {
            Source::Term(term) => {
                let mut buckets: VecDeque<i64> = keyspace.tables.catalogue.buckets(list, term).await?.into();
                buckets.retain(|number| (bucket(period.0)..=bucket(period.1)).contains(number));
                if let Some(Position { at, .. }) = &after {
                    let end = bucket(*at);
                    buckets.retain(|bucket| if backward { *bucket <= end } else { *bucket >= end });
                }
                if backward {
                    buckets = buckets.into_iter().rev().collect();
                }
                (buckets, 1)
            }
            Source::Names | Source::Group(_) => ((0..i64::from(SHARDS)).collect(), SHARDS.unsigned_abs() as usize),
        };
        let rows_per_read = rows_per_read.clamp(8, ROWS_PER_READ_MAX);
        let open = Vec::new();
        Ok(Self { keyspace, list, source, backward, first, end, rows_per_read, width, open, unread, position: after })
    }

    /// Returns the next row. None: there are no further rows.
    pub(super) async fn next(&mut self) -> Result<Option<(Position, StoredValue)>> {
        loop {
            self.refill().await?;
            let heads = self.open.iter_mut().filter(|partition| !partition.rows.is_empty());
            let next = match self.backward {
                true => heads.max_by(|one, other| one.head().cmp(&other.head())),
                false => heads.min_by(|one, other| one.head().cmp(&other.head())),
            };
            if let Some(row) = next.and_then(|found| found.rows.pop_front()) {
                self.position = Some(row.0.clone());
                return Ok(Some(row));
            }
            if self.unread.is_empty() {
                return Ok(None);
            }
            let numbers: Vec<i64> = self.unread.drain(..self.width.min(self.unread.len())).collect();
            self.width = (self.width * 2).min(PARTITIONS_AT_ONCE);
            self.open = futures::future::try_join_all(numbers.into_iter().map(|number| self.read(number))).await?;
        }
    }

    /// Reads further rows of the partition whose rows were all returned.
    async fn refill(&mut self) -> Result<()> {
        let empty = self.open.iter().position(|partition| partition.rows.is_empty() && !partition.is_exhausted);
        let Some(number) = empty.and_then(|at| self.open.get(at)).map(|partition| partition.number) else {
            return Ok(());
        };
        self.rows_per_read = (self.rows_per_read * 2).min(ROWS_PER_READ_MAX);
        let read = self.read(number).await?;
        if let Some(partition) = self.open.iter_mut().find(|partition| partition.number == number) {
            *partition = read;
        }
        Ok(())
    }

    async fn read(&self, number: i64) -> Result<Partition> {
        let (from, to) = match (&self.position, self.backward) {
            (Some(after), true) => (&self.first, after),
            (Some(after), false) => (after, &self.end),
            (None, _) => (&self.first, &self.end),
        };
        let wanted = (self.backward, self.rows_per_read);
        let catalogue = &self.keyspace.tables.catalogue;
        let rows = catalogue.range(self.list, (&self.source, number), (from, to), wanted).await?;
        Ok(Partition { number, is_exhausted: rows.len() < self.rows_per_read, rows: rows.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_period_include_its_start_and_its_end() {
        let row = |at| Position { at, id: "ext_1".to_owned(), ..FIRST };
        let is_within = |period, at| {
            let (first, end) = bounds(period);
            first < row(at) && row(at) < end
        };
        assert_eq!([4, 5, 7, 8].map(|at| is_within((5, 7), at)), [false, true, true, false]);
        assert_eq!([i64::MIN, 0, i64::MAX - 1].map(|at| is_within(ALL_TIMES, at)), [true; 3]);
    }
}
