//! Writes of threads with their encoded entries, as adapters execute them.

use folio_history::journal::Entry;
use folio_history::thread::JournalSize;
use folio_history::thread_write::{Sizes, StoredState, ThreadWrite, WriteDecision, decide};
use folio_types::{Error, Reason, Result, limits};

use crate::value::encode;

/// A write of a thread with its encoded entries, in order.
#[derive(Debug, Clone)]
pub struct EncodedThreadWrite {
    pub write: ThreadWrite,
    pub imported: Vec<Vec<u8>>,
    /// The list is empty for a write without an append.
    pub appended: Vec<Vec<u8>>,
    sizes: Sizes,
}

impl EncodedThreadWrite {
    /// Fails with `TOO_LARGE` if an entry, an append or an import exceeds its bound.
    pub fn new(write: ThreadWrite) -> Result<Self> {
        let import = write.new_thread().map(|new| new.imported.as_slice()).unwrap_or_default();
        let append = write.append().map(|append| append.entries.as_slice()).unwrap_or_default();
        let (imported, import_size) = encoded(import, limits::THREAD_BYTES, "an import")?;
        let (appended, append_size) = encoded(append, limits::APPEND_BYTES as u64, "an append")?;
        Ok(Self { sizes: Sizes { imported: import_size, appended: append_size }, write, imported, appended })
    }

    pub fn size_bytes(&self) -> usize {
        let bytes = self.sizes.imported.bytes.saturating_add(self.sizes.appended.bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Evaluates the write against the rows that were read for it.
    pub fn decide(&self, read: StoredState) -> Result<WriteDecision> {
        decide(&self.write, self.sizes, read)
    }
}

fn encoded(entries: &[Entry], bound: u64, what: &str) -> Result<(Vec<Vec<u8>>, JournalSize)> {
    let mut size = JournalSize { entries: entries.len() as u64, bytes: 0 };
    let mut all = Vec::with_capacity(entries.len());
    let too_large = |message| Err(Error::invalid(Reason::TooLarge, message));
    for entry in entries {
        let stored = encode(entry)?;
        if stored.len() > limits::ENTRY_BYTES {
            let (bytes, max) = (stored.len(), limits::ENTRY_BYTES);
            return too_large(format!("a journal entry of {bytes} bytes exceeds the limit of {max} bytes"));
        }
        size.bytes += stored.len() as u64;
        all.push(stored);
    }
    if size.bytes > bound {
        return too_large(format!("{what} of {} bytes exceeds the limit of {bound} bytes", size.bytes));
    }
    Ok((all, size))
}
