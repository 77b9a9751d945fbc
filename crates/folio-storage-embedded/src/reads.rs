//! Reads with one interface for snapshots and transactions.

use std::ops::ControlFlow;

use fjall::{Readable as _, Snapshot};
use folio_types::{Error, Reason, Result};

use super::engine::OpenDatabase;
use super::keys::{self, Space};
use super::value::{Stored, decode};
use folio_storage::UnreadableRecords;

/// Logs the cause, which the returned error omits.
pub(crate) fn unreadable(error: &fjall::Error) -> Error {
    tracing::error!(%error, "the embedded store cannot be read");
    Error::unavailable(Reason::StoreUnavailable, "the store cannot be read")
}

/// The keys from `start` on and before `end`.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) space: Space,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) reverse: bool,
}

impl Range {
    pub(crate) fn prefix(space: Space, prefix: Vec<u8>) -> Self {
        let end = keys::after(&prefix);
        Self { space, start: prefix, end, reverse: false }
    }

    pub(crate) fn from(mut self, start: Vec<u8>) -> Self {
        self.start = self.start.max(start);
        self
    }

    /// Starts with the key that follows `key`.
    pub(crate) fn after(self, mut key: Vec<u8>) -> Self {
        key.push(0);
        self.from(key)
    }

    pub(crate) fn before(mut self, end: Vec<u8>) -> Self {
        self.end = self.end.min(end);
        self
    }

    /// If true, the range is walked from the last key to the first.
    pub(crate) fn reversed(mut self, reverse: bool) -> Self {
        self.reverse = reverse;
        self
    }
}

/// Receives each key and value of a range.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>;

/// A consistent state to read from.
pub(crate) trait Reads {
    fn bytes(&self, space: Space, key: &[u8]) -> Result<Option<fjall::Slice>>;

    /// Calls `visit` for each row of a range, in order, until `visit` breaks.
    fn walk(&self, range: Range, visit: Visit<'_>) -> Result<()>;

    fn read<T: Stored>(&self, space: Space, key: &[u8]) -> Result<Option<T>>
    where
        Self: Sized,
    {
        self.bytes(space, key)?.map(|bytes| decode(&bytes)).transpose()
    }

    fn contains(&self, space: Space, key: &[u8]) -> Result<bool> {
        Ok(self.bytes(space, key)?.is_some())
    }

    /// Returns the first items that `pick` makes of the keys and values of a range, in order, at most `limit`. `pick`: None to skip
    /// a row.
    fn select<T>(
        &self,
        range: Range,
        limit: usize,
        mut pick: impl FnMut(&[u8], &[u8]) -> Result<Option<T>>,
    ) -> Result<Vec<T>>
    where
        Self: Sized,
    {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        self.walk(range, &mut |key, bytes| {
            found.extend(pick(key, bytes)?);
            Ok(if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(found)
    }

    /// Returns the first values of a range, at most `limit`.
    fn values<T: Stored>(&self, range: Range, limit: usize) -> Result<Vec<T>>
    where
        Self: Sized,
    {
        self.select(range, limit, |_, bytes| decode(bytes).map(Some))
    }

    /// Returns the first values of a range that can be decoded, at most `limit`: for indexes, which sweeps read.
    fn readable<T: Stored>(&self, range: Range, limit: usize, unreadable: &UnreadableRecords) -> Result<Vec<T>>
    where
        Self: Sized,
    {
        self.select(range, limit, |key, bytes| unreadable.skip(String::from_utf8_lossy(key), decode(bytes)))
    }

    /// Returns the first keys of a range, at most `limit`.
    fn keys(&self, range: Range, limit: usize) -> Result<Vec<Vec<u8>>>
    where
        Self: Sized,
    {
        self.select(range, limit, |key, _| Ok(Some(key.to_vec())))
    }
}

/// A snapshot of whole, durable transactions.
pub(crate) struct View<'a> {
    opened: &'a OpenDatabase,
    snapshot: Snapshot,
}

impl<'a> View<'a> {
    pub(crate) fn new(opened: &'a OpenDatabase) -> Self {
        Self { snapshot: opened.db.snapshot(), opened }
    }
}

impl Reads for View<'_> {
    fn bytes(&self, space: Space, key: &[u8]) -> Result<Option<fjall::Slice>> {
        self.snapshot.get(self.opened.space(space), key).map_err(|error| unreadable(&error))
    }

    fn walk(&self, range: Range, visit: Visit<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let mut rows = self.snapshot.range(self.opened.space(range.space), range.start..range.end);
        loop {
            let next = if range.reverse { rows.next_back() } else { rows.next() };
            let Some(row) = next else { return Ok(()) };
            let (key, value) = row.into_inner().map_err(|error| unreadable(&error))?;
            if visit(&key, &value)?.is_break() {
                return Ok(());
            }
        }
    }
}
