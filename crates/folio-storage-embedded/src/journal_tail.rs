//! Repair of the end of fjall's journal after a loss of power.
//!
//! A disk may keep the begin and the end of a batch that was not synced, but not its middle. fjall discards a last batch
//! without an end, but refuses to open a journal with a batch whose content does not match its begin or end. Here the
//! journal is cut after the last batch before it, as other write-ahead logs do (the point-in-time recovery of RocksDB,
//! SQLite's WAL).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fjall::{Database, JournalRecoveryError};

/// The last bytes of each batch in a journal of fjall 3. Its last byte is not zero.
const TRAILER: &[u8] = b"FJL\x03";
/// Maximum number of batches that are cut. All but the last are writes without an fsync. Damage before them is not the
/// effect of a loss of power.
const CUTS_MAX: usize = 16;

/// Opens a database with `open`. Cuts damaged batches from the end of its newest journal, at most [`CUTS_MAX`]. If the
/// database cannot be opened then, restores the journal.
///
/// Cost: each cut replays the journal again.
pub(crate) fn open_repaired(path: &Path, open: impl Fn() -> fjall::Result<Database>) -> fjall::Result<Database> {
    let before = newest_journal(path)?;
    let Some((journal, length)) = before else { return open() };
    let error = match open() {
        Err(error @ fjall::Error::JournalRecovery(_)) if is_damage(&error) => error,
        opened => return opened,
    };
    if newest_journal(path)? != Some((journal.clone(), length)) {
        return Err(error); // Another process repairs it or uses it.
    }
    let content = std::fs::read(&journal)?;
    let mut end = content.len();
    for _ in 0..CUTS_MAX {
        end = last_batch_start(content.get(..end).unwrap_or_default());
        cut(path, &journal, end)?;
        match open() {
            Err(error) if is_damage(&error) => {}
            Ok(database) => {
                let journal = journal.display();
                tracing::warn!(%error, %journal, end, "the end of the journal was damaged and is discarded");
                return Ok(database);
            }
            Err(error) => {
                restore(&journal, &content)?;
                return Err(error);
            }
        }
    }
    restore(&journal, &content)?;
    Err(error)
}

/// Returns true if a batch of a journal is damaged.
fn is_damage(error: &fjall::Error) -> bool {
    matches!(error, fjall::Error::JournalRecovery(error) if *error != JournalRecoveryError::InvalidFileName)
}

/// Returns the journal with the highest number, and its length. None: there is no journal.
fn newest_journal(path: &Path) -> io::Result<Option<(PathBuf, u64)>> {
    let entries = match path.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut newest = None;
    for entry in entries {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok());
        if let Some(number) = number {
            newest = newest.max(Some((number, entry.path(), entry.metadata()?.len())));
        }
    }
    Ok(newest.map(|(_, path, length)| (path, length)))
}

/// Returns the end of the batch before the last one. The file may end with zeros, because fjall allocates it in advance.
fn last_batch_start(content: &[u8]) -> usize {
    let last = content.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let mut candidates = content.get(..last).unwrap_or_default().windows(TRAILER.len());
    candidates.rposition(|bytes| bytes == TRAILER).map_or(0, |at| at + TRAILER.len())
}

/// Cuts the journal, unless another process uses the database.
fn cut(path: &Path, journal: &Path, end: usize) -> fjall::Result<()> {
    let lock = File::open(path.join("lock"))?;
    if lock.try_lock().is_err() {
        return Err(fjall::Error::Locked);
    }
    let file = File::options().write(true).open(journal)?;
    file.set_len(end as u64)?;
    Ok(file.sync_all()?)
}

fn restore(journal: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::write(journal, content)?;
    File::open(journal)?.sync_all()
}

#[cfg(test)]
mod tests {
    use fjall::{KeyspaceCreateOptions, PersistMode};

    use super::*;

    const BATCHES: u8 = 30;

    fn open(path: &Path) -> fjall::Result<Database> {
        open_repaired(path, || Database::builder(path).worker_threads(1).open())
    }

    /// Returns the numbers of the batches that the database contains.
    fn batches(database: &Database) -> Vec<u8> {
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        (0..=u8::MAX).filter(|number| rows.contains_key([*number]).unwrap()).collect()
    }

    fn write(database: &Database, number: u8) {
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(&rows, [number], [b'v'; 100]);
        batch.commit().unwrap();
    }

    /// Closes a database with 30 batches, and returns its folder, its journal and the begin of each batch.
    fn closed_database() -> (tempfile::TempDir, PathBuf, Vec<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path()).unwrap();
        (0..BATCHES).for_each(|number| write(&database, number));
        drop(database);
        let (journal, _) = newest_journal(folder.path()).unwrap().unwrap();
        let content = std::fs::read(&journal).unwrap();
        let mut starts = vec![content.len()];
        while starts[0] > 0 {
            starts.insert(0, last_batch_start(&content[..starts[0]]));
        }
        starts.pop();
        assert_eq!(starts.len(), usize::from(BATCHES));
        (folder, journal, starts)
    }

    fn overwrite(journal: &Path, at: usize, bytes: &[u8]) {
        let mut content = std::fs::read(journal).unwrap();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(journal, content).unwrap();
    }

    #[test]
    fn damaged_batches_at_the_end_of_the_journal_are_discarded() {
        // The number of items is at the second byte of a batch.
        let damages: [(usize, &[u8], &str); 3] =
            [(1, &[0], "TooManyItems"), (1, &[2], "InsufficientLength"), (60, &[0; 40], "ChecksumMismatch")];
        for (at, bytes, expected) in damages {
            for lost in [1, CUTS_MAX] {
                let (folder, journal, starts) = closed_database();
                let kept = starts.len() - lost;
                overwrite(&journal, starts[kept] + at, bytes);
                let error = Database::builder(folder.path()).open().err().unwrap();
                assert!(error.to_string().contains(expected), "{error}");
                let database = open(folder.path()).unwrap();
                assert_eq!(batches(&database), (0..u8::try_from(kept).unwrap()).collect::<Vec<_>>());
                write(&database, BATCHES);
                drop(database);
                assert_eq!(batches(&open(folder.path()).unwrap()).len(), kept + 1);
            }
        }
    }

    #[test]
    fn a_journal_with_damage_far_before_its_end_is_refused_and_unchanged() {
        let (folder, journal, starts) = closed_database();
        overwrite(&journal, starts[starts.len() - CUTS_MAX - 1] + 1, &[0]);
        let before = std::fs::read(&journal).unwrap();
        let error = open(folder.path()).err().unwrap();
        assert!(error.to_string().contains("TooManyItems"), "{error}");
        assert!(before == std::fs::read(&journal).unwrap());
    }

    #[test]
    fn a_journal_that_another_process_uses_is_not_cut() {
        let (folder, journal, starts) = closed_database();
        overwrite(&journal, starts[starts.len() - 1] + 1, &[0]);
        let before = std::fs::read(&journal).unwrap();
        let lock = File::open(folder.path().join("lock")).unwrap();
        lock.try_lock().unwrap();
        assert!(matches!(cut(folder.path(), &journal, 0), Err(fjall::Error::Locked)));
        assert!(matches!(open(folder.path()), Err(fjall::Error::Locked)));
        assert!(before == std::fs::read(&journal).unwrap());
    }
}
