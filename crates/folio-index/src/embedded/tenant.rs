//! The index of one organization: its folder, its reader, and its writer while documents are written.
//!
//! ```text
//! ORGANIZATION/index.json      version file
//! ORGANIZATION/segments/       files of the index library
//! ```
//!
//! Every function blocks. The lock of the writer is taken before that of the reader.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use folio_types::{DocumentId, Error, OrgId, Reason};
use tantivy::indexer::{IndexWriterOptions, NoMergePolicy};
use tantivy::schema::IndexRecordOption;
use tantivy::{
    DocSet as _, Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, SegmentMeta, SegmentReader, TERMINATED, Term,
};

use super::failure::Failure;
use super::fields::{Fields, GENERATION};
use super::manifest;
use super::vectors::VectorCache;
use crate::answer::IndexState;
use crate::passage::IndexedDocument;

/// File of the index library with the segments of the last commit.
const META_FILE: &str = "meta.json";
/// Memory in bytes that a writer uses for the words of a commit before it writes a segment.
pub(super) const WRITER_BYTES: usize = 20_000_000;
/// Maximum size in bytes of an index whose checksums are compared when it is opened. Damage of a larger index is found
/// when it is read.
const CHECKED_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum time for which a write waits for the writer of its organization. The maintenance may use the writer for minutes, and the
/// write has one of the few permits of all organizations.
const WRITER_WAIT: Duration = Duration::from_secs(5);
/// Time between two attempts to lock a writer.
const WRITER_POLL: Duration = Duration::from_millis(5);

/// An open index.
pub(super) struct Reader {
    pub index: Index,
    reader: IndexReader,
    pub fields: Fields,
}

impl Reader {
    pub(super) fn searcher(&self) -> Searcher {
        self.reader.searcher()
    }
}

#[derive(Clone)]
struct Opened {
    state: IndexState,
    /// None: the index is not usable.
    reader: Option<Arc<Reader>>,
}

/// Counts the open writers. Dropping it subtracts one.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct OpenWriter {
    writer: IndexWriter,
    last_used: Instant,
    _counted: Counted,
}

pub(super) struct Tenant {
    pub org: OrgId,
    folder: PathBuf,
    /// Position in the order of uses of all organizations.
    pub last_used: AtomicU64,
    /// None: not opened.
    opened: Mutex<Option<Opened>>,
    pub(super) writer: Mutex<Option<OpenWriter>>,
    writers: Arc<AtomicUsize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks without waiting. None: another thread has the lock.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the bytes of all files in a folder and below it.
pub(super) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0u64;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = match entry.metadata() {
            // A merge removes files concurrently.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            data => data?,
        };
        let size = if data.is_dir() { folder_bytes(&entry.path())? } else { data.len() };
        bytes = bytes.saturating_add(size);
    }
    Ok(bytes)
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Tenant {
    pub(super) fn new(org: OrgId, root: &Path, writers: Arc<AtomicUsize>) -> Self {
        let folder = root.join(org.as_str());
        Self { org, folder, last_used: AtomicU64::new(0), opened: Mutex::default(), writer: Mutex::default(), writers }
    }

    fn segments(&self) -> PathBuf {
        self.folder.join("segments")
    }

    fn reader_of(index: Index, fields: Fields) -> Result<Arc<Reader>, Failure> {
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).num_warming_threads(1).try_into()?;
        Ok(Arc::new(Reader { index, reader, fields }))
    }

    fn open(&self) -> Result<Opened, Failure> {
        let state = manifest::read(&self.folder)?;
        if !state.is_usable() {
            return Ok(Opened { state, reader: None });
        }
        let (schema, fields) = Fields::new();
        let index = Index::open_in_dir(self.segments())?;
        if index.schema() != schema {
            return Err(Failure::State(IndexState::Torn));
        }
        if folder_bytes(&self.folder)? <= CHECKED_BYTES && !index.validate_checksum()?.is_empty() {
            return Err(Failure::State(IndexState::Torn));
        }
        Ok(Opened { state, reader: Some(Self::reader_of(index, fields)?) })
    }

    /// Returns the state, and the reader of a usable index. Opens the index if it is closed.
    fn opened(&self) -> Result<Opened, Failure> {
        let mut opened = lock(&self.opened);
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let found = match self.open() {
            Ok(found) => found,
            Err(Failure::State(state)) => {
                tracing::warn!(org = %self.org, ?state, "an index of passages cannot be opened and must be rebuilt");
                Opened { state, reader: None }
            }
            Err(error) => return Err(error),
        };
        *opened = Some(found.clone());
        Ok(found)
    }

    pub(super) fn state(&self) -> Result<IndexState, Failure> {
        Ok(self.opened()?.state)
    }

    /// Returns the state and the reader.
    ///
    /// # Errors
    /// [`Failure::State`] if the index is not usable.
    pub(super) fn usable(&self) -> Result<(IndexState, Arc<Reader>), Failure> {
        let Opened { state, reader } = self.opened()?;
        reader.map(|reader| (state, reader)).ok_or(Failure::State(state))
    }

    /// Returns true if the index is open and was not found to be damaged.
    pub(super) fn is_marked_usable(&self) -> bool {
        lock(&self.opened).as_ref().is_some_and(|opened| opened.state.is_usable())
    }

    /// Marks an index as damaged, also for later processes.
    pub(super) fn mark_torn(&self) {
        tracing::error!(org = %self.org, "an index of passages is damaged and must be rebuilt");
        let mut writer = lock(&self.writer);
        *writer = None;
        if self.folder.exists() && manifest::write(&self.folder, IndexState::Torn).is_err() {
            tracing::warn!(org = %self.org, "the damage of an index of passages cannot be recorded");
        }
        *lock(&self.opened) = Some(Opened { state: IndexState::Torn, reader: None });
    }

    /// Locks the writer for a write.
    ///
    /// # Errors
    /// `OVERLOADED` if another write, or the maintenance, uses the writer for more than [`WRITER_WAIT`].
    fn lock_writer(&self) -> Result<MutexGuard<'_, Option<OpenWriter>>, Failure> {
        let end = Instant::now() + WRITER_WAIT;
        loop {
            if let Some(writer) = try_lock(&self.writer) {
                return Ok(writer);
            }
            if Instant::now() >= end {
                let message = "the index of passages of the organization is being written; repeat the request later";
                return Err(Error::exhausted(Reason::Overloaded, message).retry_after(WRITER_WAIT).into());
            }
            std::thread::sleep(WRITER_POLL);
        }
    }

    /// Creates an empty index in the state `Rebuilding`.
    pub(super) fn begin_rebuild(&self, vectors: &VectorCache, rebuild: u64) -> Result<(), Failure> {
        let mut writer = self.lock_writer()?;
        self.remove(&mut writer, vectors)?;
        fs::create_dir_all(self.segments())?;
        let (schema, fields) = Fields::new();
        let index = Index::builder().schema(schema).settings(Fields::settings()).create_in_dir(self.segments())?;
        manifest::write_rebuild(&self.folder, rebuild)?;
        let reader = Some(Self::reader_of(index, fields)?);
        *lock(&self.opened) = Some(Opened { state: IndexState::Rebuilding, reader });
        Ok(())
    }

    /// # Errors
    /// [`Failure::State`] if the index is not usable, or another rebuild has begun.
    pub(super) fn finish_rebuild(&self, rebuild: u64) -> Result<(), Failure> {
        let _writer = self.lock_writer()?;
        let (state, reader) = self.usable()?;
        if state == IndexState::Rebuilding {
            if manifest::rebuild(&self.folder)? != Some(rebuild) {
                return Err(Failure::State(state));
            }
            manifest::write(&self.folder, IndexState::Ready)?;
            *lock(&self.opened) = Some(Opened { state: IndexState::Ready, reader: Some(reader) });
        }
        Ok(())
    }

    /// Stores that the index lacks documents. The state becomes `Rebuilding`, and a rebuild that has begun cannot end. Idempotent.
    pub(super) fn mark_incomplete(&self) -> Result<(), Failure> {
        let _writer = self.lock_writer()?;
        let (state, reader) = self.usable()?;
        if state == IndexState::Rebuilding && manifest::rebuild(&self.folder)?.is_none() {
            return Ok(());
        }
        tracing::warn!(org = %self.org, "an index of passages has too little disk space and is incomplete");
        manifest::write(&self.folder, IndexState::Rebuilding)?;
        *lock(&self.opened) = Some(Opened { state: IndexState::Rebuilding, reader: Some(reader) });
        Ok(())
    }

    pub(super) fn delete(&self, vectors: &VectorCache) -> Result<(), Failure> {
        let mut writer = self.lock_writer()?;
        self.remove(&mut writer, vectors)
    }

    /// Removes the folder. The version file is removed first, so that a crash leaves the state `Missing`.
    fn remove(&self, writer: &mut Option<OpenWriter>, vectors: &VectorCache) -> Result<(), Failure> {
        if let Some(open) = writer.take()
            && let Err(error) = open.writer.wait_merging_threads()
        {
            tracing::warn!(org = %self.org, %error, "merges of an index of passages failed before its removal");
        }
        let mut opened = lock(&self.opened);
        *opened = None;
        vectors.retain(&self.org, &[]);
        manifest::write(&self.folder, IndexState::Missing)?;
        remove_folder(&self.folder)?;
        if let Some(root) = self.folder.parent() {
            File::open(root)?.sync_all()?;
        }
        Ok(())
    }

    /// Opens the writer if it is closed.
    fn writer<'a>(&self, slot: &'a mut Option<OpenWriter>, reader: &Reader) -> Result<&'a mut IndexWriter, Failure> {
        let open = match slot.take() {
            Some(open) => open,
            None => {
                self.writers.fetch_add(1, Ordering::Relaxed);
                let counted = Counted(Arc::clone(&self.writers));
                let options = IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(1);
                let writer =
                    reader.index.writer_with_options(options.memory_budget_per_thread(WRITER_BYTES).build())?;
                OpenWriter { writer, last_used: Instant::now(), _counted: counted }
            }
        };
        let open = slot.insert(open);
        open.last_used = Instant::now();
        Ok(&mut open.writer)
    }

    /// Changes the index in one commit. After an error nothing is changed, and the writer is closed.
    fn commit(
        &self,
        slot: &mut Option<OpenWriter>,
        reader: &Reader,
        vectors: &VectorCache,
        change: impl FnOnce(&IndexWriter) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let committed = self.writer(slot, reader).and_then(|writer| {
            change(writer)?;
            writer.commit()?;
            Ok(())
        });
        if committed.is_err() {
            *slot = None;
        }
        committed?;
        self.reload(reader, vectors)
    }

    /// Makes commits and merges visible, and drops the vectors of merged segments.
    fn reload(&self, reader: &Reader, vectors: &VectorCache) -> Result<(), Failure> {
        reader.reader.reload()?;
        let segments: Vec<_> = reader.searcher().segment_readers().iter().map(|segment| segment.segment_id()).collect();
        vectors.retain(&self.org, &segments);
        Ok(())
    }

    /// Replaces documents. Returns the number of documents of which the index has a later generation.
    pub(super) fn upsert(&self, vectors: &VectorCache, documents: &[IndexedDocument]) -> Result<usize, Failure> {
        let mut slot = self.lock_writer()?;
        let (_, reader) = self.usable()?;
        let searcher = reader.searcher();
        let mut current = Vec::with_capacity(documents.len());
        for document in documents {
            let indexed = generation(&searcher, &reader.fields, &document.document)?;
            if indexed.is_none_or(|indexed| indexed <= document.generation) {
                current.push((document, indexed.is_some()));
            }
        }
        let stale = documents.len().saturating_sub(current.len());
        current.retain(|(document, is_indexed)| *is_indexed || !document.passages.is_empty());
        if current.is_empty() {
            return Ok(stale);
        }
        let fields = reader.fields;
        // The files of replaced segments can be removed only after their last reader.
        drop(searcher);
        self.commit(&mut slot, &reader, vectors, |writer| {
            for (document, is_indexed) in current {
                if is_indexed {
                    writer.delete_term(Term::from_field_text(fields.document, document.document.as_str()));
                }
                for passage in &document.passages {
                    writer.add_document(fields.entry(document, passage))?;
                }
            }
            Ok(())
        })?;
        Ok(stale)
    }

    pub(super) fn delete_documents(&self, vectors: &VectorCache, documents: &[DocumentId]) -> Result<(), Failure> {
        let mut slot = self.lock_writer()?;
        let (_, reader) = self.usable()?;
        let searcher = reader.searcher();
        let mut indexed = Vec::new();
        for document in documents {
            if generation(&searcher, &reader.fields, document)?.is_some() {
                indexed.push(Term::from_field_text(reader.fields.document, document.as_str()));
            }
        }
        if indexed.is_empty() {
            return Ok(());
        }
        drop(searcher);
        self.commit(&mut slot, &reader, vectors, |writer| {
            indexed.into_iter().for_each(|term| _ = writer.delete_term(term));
            Ok(())
        })
    }

    /// Returns the time since the last write if the writer is open and not in use.
    pub(super) fn writer_idle(&self) -> Option<Duration> {
        let slot = try_lock(&self.writer)?;
        slot.as_ref().map(|open| open.last_used.elapsed())
    }

    /// Returns true if no writer is open, and no deleted passages are on the disk, which the maintenance removes from open indexes
    /// only.
    pub(super) fn is_closable(&self) -> bool {
        try_lock(&self.writer).is_some_and(|slot| slot.is_none()) && !self.may_have_deletions()
    }

    fn may_have_deletions(&self) -> bool {
        let Some(opened) = try_lock(&self.opened) else { return true };
        let reader = opened.as_ref().and_then(|opened| opened.reader.as_ref());
        reader.is_some_and(|reader| reader.searcher().segment_readers().iter().any(SegmentReader::has_deletes))
    }

    /// Closes a writer that has been idle for this time. No effect while a write is in progress.
    pub(super) fn close_writer(&self, idle: Duration, vectors: &VectorCache) -> Result<(), Failure> {
        match try_lock(&self.writer) {
            Some(mut slot) => self.close(&mut slot, idle, vectors),
            None => Ok(()),
        }
    }

    fn close(&self, slot: &mut Option<OpenWriter>, idle: Duration, vectors: &VectorCache) -> Result<(), Failure> {
        let Some(open) = slot.take_if(|open| open.last_used.elapsed() >= idle) else { return Ok(()) };
        open.writer.wait_merging_threads()?;
        let (_, reader) = self.usable()?;
        self.remove_unused_files(&reader, vectors)
    }

    /// Removes the files of replaced segments, after the last reader of them. No writer may be open.
    fn remove_unused_files(&self, reader: &Reader, vectors: &VectorCache) -> Result<(), Failure> {
        self.reload(reader, vectors)?;
        let mut used = reader.index.load_metas()?.list_segment_files();
        used.insert(PathBuf::from(META_FILE));
        reader.index.clone().directory_mut().garbage_collect(|| used)?;
        Ok(())
    }

    /// Closes a writer that has been idle for this time, and removes deleted passages from the disk if no writer is
    /// open.
    pub(super) fn maintain(&self, idle: Duration, vectors: &VectorCache) -> Result<(), Failure> {
        let Some(mut slot) = try_lock(&self.writer) else { return Ok(()) };
        self.close(&mut slot, idle, vectors)?;
        let Some(Opened { reader: Some(reader), .. }) = lock(&self.opened).clone() else { return Ok(()) };
        let searcher = reader.searcher();
        if slot.is_some() || !searcher.segment_readers().iter().any(SegmentReader::has_deletes) {
            return Ok(());
        }
        drop(searcher);
        let with_deletions = reader.index.searchable_segment_metas()?;
        let with_deletions: Vec<_> =
            with_deletions.iter().filter(|segment| segment.has_deletes()).map(SegmentMeta::id).collect();
        let writer = self.writer(&mut slot, &reader)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        // A segment that is merged alone loses its deleted passages.
        let merged = with_deletions.into_iter().try_for_each(|segment| writer.merge(&[segment]).wait().map(|_| ()));
        let closed = slot.take().map_or(Ok(()), |open| open.writer.wait_merging_threads());
        let removed = self.remove_unused_files(&reader, vectors);
        merged?;
        closed?;
        removed
    }

    /// Returns the bytes on the disk.
    pub(super) fn disk_bytes(&self) -> Result<u64, Failure> {
        Ok(folder_bytes(&self.folder)?)
    }
}

/// Returns the generation of a document in the index. None: the document is not indexed.
fn generation(searcher: &Searcher, fields: &Fields, document: &DocumentId) -> Result<Option<u64>, Failure> {
    let term = Term::from_field_text(fields.document, document.as_str());
    for segment in searcher.segment_readers() {
        let postings = segment.inverted_index(fields.document)?.read_postings(&term, IndexRecordOption::Basic)?;
        let Some(mut postings) = postings else { continue };
        let mut entry = postings.doc();
        while entry != TERMINATED {
            if !segment.is_deleted(entry) {
                return Ok(segment.fast_fields().u64(GENERATION)?.first(entry));
            }
            entry = postings.advance();
        }
    }
    Ok(None)
}
