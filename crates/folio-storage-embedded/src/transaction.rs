//! The transactions of one commit. Reads include the writes of the transaction and of earlier transactions in the
//! commit.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use fjall::{OwnedWriteBatch as WriteBatch, PersistMode, Slice};
use folio_types::{Error, Reason, Result};

use super::engine::OpenDatabase;
use super::keys::Space;
use super::reads::{Range, Reads, Visit, unreadable};
use super::value::{Stored, encode};

/// Maximum length of a key, in bytes.
const KEY_BYTES: usize = 16 * 1024;

/// The writes to a space on top of the store. None: the key is removed. Keys and values are in the form of the store, which
/// takes them without a copy.
type Overlay = BTreeMap<Slice, Option<Slice>>;

pub(crate) struct Transaction<'a> {
    opened: &'a OpenDatabase,
    overlays: BTreeMap<Space, Overlay>,
    /// The previous overlay entries of the keys that the current transaction wrote. Outer None: the overlay had no
    /// entry.
    undo: Vec<(Space, Slice, Option<Option<Slice>>)>,
    bytes: usize,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(opened: &'a OpenDatabase) -> Self {
        Self { opened, overlays: BTreeMap::new(), undo: Vec::new(), bytes: 0 }
    }

    pub(crate) fn put<T: Stored>(&mut self, space: Space, key: Vec<u8>, value: &T) -> Result<()> {
        let value = encode(value)?;
        self.put_bytes(space, key, value)
    }

    pub(crate) fn put_bytes(&mut self, space: Space, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        if key.len() > KEY_BYTES {
            let message =
                format!("a key of {} bytes exceeds the limit of {KEY_BYTES} bytes; shorten the name or id", key.len());
            return Err(Error::invalid(Reason::TooLarge, message));
        }
        self.set(space, key, Some(value));
        Ok(())
    }

    pub(crate) fn remove(&mut self, space: Space, key: Vec<u8>) {
        self.set(space, key, None);
    }

    pub(crate) fn remove_all(&mut self, space: Space, prefix: Vec<u8>) -> Result<()> {
        for key in self.keys(Range::prefix(space, prefix), usize::MAX)? {
            self.remove(space, key);
        }
        Ok(())
    }

    fn set(&mut self, space: Space, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let key = Slice::from(key);
        let before = self.overlays.entry(space).or_default().insert(key.clone(), value.map(Slice::from));
        self.undo.push((space, key, before));
    }

    /// Ends the current transaction and retains its writes.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Ends the current transaction and reverts its writes.
    pub(crate) fn undo(&mut self) {
        while let Some((space, key, before)) = self.undo.pop() {
            let overlay = self.overlays.entry(space).or_default();
            match before {
                Some(value) => overlay.insert(key, value),
                None => overlay.remove(&key),
            };
        }
    }

    /// Returns the total size of all writes, which limits the size of a commit.
    pub(crate) fn written_bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the written rows into one batch. None: nothing was written.
    pub(crate) fn into_batch(self, mode: PersistMode) -> Option<WriteBatch> {
        let mut batch = self.opened.db.batch().durability(Some(mode));
        for (space, overlay) in self.overlays {
            let keyspace = self.opened.space(space);
            for (key, value) in overlay {
                match value {
                    Some(value) => batch.insert(keyspace, key, value),
                    None => batch.remove(keyspace, key),
                }
            }
        }
        (!batch.is_empty()).then_some(batch)
    }
}

impl Reads for Transaction<'_> {
    fn bytes(&self, space: Space, key: &[u8]) -> Result<Option<Slice>> {
        // Only the writer thread writes, so the newest state is consistent here.
        match self.overlays.get(&space).and_then(|overlay| overlay.get(key)) {
            Some(written) => Ok(written.clone()),
            None => self.opened.space(space).get(key).map_err(|error| unreadable(&error)),
        }
    }

    /// Walks forward only, because no transaction needs the other direction.
    fn walk(&self, range: Range, visit: Visit<'_>) -> Result<()> {
        debug_assert!(!range.reverse, "a transaction walks forward");
        if range.start >= range.end {
            return Ok(());
        }
        let bounds = (Bound::Included(range.start.as_slice()), Bound::Excluded(range.end.as_slice()));
        let overlay = self.overlays.get(&range.space);
        let mut written = overlay.into_iter().flat_map(|overlay| overlay.range::<[u8], _>(bounds)).peekable();
        let mut stored = self.opened.space(range.space).range(range.start.as_slice()..range.end.as_slice());
        let mut advance =
            || stored.next().map(fjall::Guard::into_inner).transpose().map_err(|error| unreadable(&error));
        let mut next = advance()?;
        loop {
            let stored_first = match (written.peek(), &next) {
                (None, None) => return Ok(()),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((over, _)), Some((under, _))) => under[..] < over[..],
            };
            let flow = if stored_first {
                match &next {
                    Some((key, value)) => visit(key, value)?,
                    None => ControlFlow::Continue(()),
                }
            } else {
                match written.next() {
                    Some((key, value)) => {
                        let replaces = next.as_ref().is_some_and(|(under, _)| under[..] == key[..]);
                        if replaces {
                            next = advance()?;
                        }
                        match value {
                            Some(value) => visit(key, value)?,
                            None => ControlFlow::Continue(()),
                        }
                    }
                    None => ControlFlow::Continue(()),
                }
            };
            if flow.is_break() {
                return Ok(());
            }
            if stored_first {
                next = advance()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{Options, keys};
    use folio_storage::value::{Count, decode};

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8, u64),
        Remove(u8),
        RemoveAll,
        Keep,
        Undo,
        Commit,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..12_u8, any::<u64>()).prop_map(|(key, value)| Step::Put(key, value)),
            3 => (0..12_u8).prop_map(Step::Remove),
            1 => Just(Step::RemoveAll),
            2 => Just(Step::Keep),
            2 => Just(Step::Undo),
            1 => Just(Step::Commit),
        ];
        prop::collection::vec(step, 1..60)
    }

    fn key(case: u32, number: u8) -> Vec<u8> {
        format!("{case}/{number}").into_bytes()
    }

    fn prefix(case: u32) -> Vec<u8> {
        format!("{case}/").into_bytes()
    }

    fn seen(transaction: &Transaction<'_>, case: u32) -> BTreeMap<Vec<u8>, u64> {
        let mut seen = BTreeMap::new();
        let mut order = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            let Count(value) = decode(value)?;
            order.push(key.to_vec());
            seen.insert(key.to_vec(), value);
            Ok(ControlFlow::Continue(()))
        };
        transaction.walk(Range::prefix(Space::Text, prefix(case)), &mut visit).unwrap();
        assert!(order.is_sorted() && order.len() == seen.len(), "{order:?}");
        for number in 0..12 {
            let found = transaction.read::<Count>(Space::Text, &key(case, number)).unwrap();
            assert_eq!(found.map(|Count(value)| value), seen.get(&key(case, number)).copied());
        }
        seen
    }

    fn behaves(opened: &OpenDatabase, case: u32, steps_of_case: &[Step]) {
        let mut transaction = Transaction::new(opened);
        transaction.put(Space::Text, keys::after(&prefix(case)), &Count(1)).unwrap();
        transaction.keep();
        let (mut kept, mut now) = (BTreeMap::new(), BTreeMap::new());
        for step in steps_of_case {
            match step {
                Step::Put(number, value) => {
                    transaction.put(Space::Text, key(case, *number), &Count(*value)).unwrap();
                    now.insert(key(case, *number), *value);
                }
                Step::Remove(number) => {
                    transaction.remove(Space::Text, key(case, *number));
                    now.remove(&key(case, *number));
                }
                Step::RemoveAll => {
                    transaction.remove_all(Space::Text, prefix(case)).unwrap();
                    now.clear();
                }
                Step::Keep => {
                    transaction.keep();
                    kept.clone_from(&now);
                }
                Step::Undo => {
                    transaction.undo();
                    now.clone_from(&kept);
                }
                Step::Commit => {
                    transaction.undo();
                    now.clone_from(&kept);
                    if let Some(batch) = transaction.into_batch(PersistMode::Buffer) {
                        batch.commit().unwrap();
                    }
                    transaction = Transaction::new(opened);
                }
            }
            assert_eq!(seen(&transaction, case), now, "after {step:?} of {steps_of_case:?}");
        }
    }

    #[test]
    fn reads_see_writes_and_no_reverted_writes() {
        let folder = tempfile::tempdir().unwrap();
        let opened = OpenDatabase::open(folder.path(), &Options::at(folder.path())).unwrap();
        let case = std::cell::Cell::new(0);
        let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
        proptest::test_runner::TestRunner::new(config)
            .run(&steps(), |steps_of_case| {
                case.set(case.get() + 1);
                behaves(&opened, case.get(), &steps_of_case);
                Ok(())
            })
            .unwrap();
    }
}
