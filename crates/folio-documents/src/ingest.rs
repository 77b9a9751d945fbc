//! Reading the text of uploaded documents, in the background.
//!
//! The store says which documents wait ([`folio_storage::DocumentStore::pending_text`]); the queue in memory only makes a
//! new one start at once. So nothing is lost with the process: what was waiting or under way is found again at the next
//! start. The store counts attempts that began, and a document whose attempts ended with the process too often counts as
//! failed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use folio_storage::{BlobReader, IngestUpdate, Stores, Waits};
use folio_types::document::{Document, TextState};
use folio_types::{DocumentId, Environment, Error, OrgId, Reason, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ocr::Installed;
use crate::reader::{Reading, TextReader};
use crate::upload::hexadecimal;

/// Documents that the store is asked for at once.
const SCAN_LIMIT: usize = 256;
/// Attempts for a fault of the store or the machine, within one run.
const FAULTS: u32 = 4;
/// The pause after the first fault; doubles each time.
const FAULT_PAUSE: Duration = Duration::from_millis(250);
/// What folders of files on their way begin with.
const SCRATCH_PREFIX: &str = "folio-read-";

type Key = (OrgId, DocumentId);

/// Tells the ingestor of new documents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct IngestHandle {
    queue: mpsc::Sender<Key>,
    missed: Arc<AtomicBool>,
}

impl IngestHandle {
    /// A new document waits to be read. Never blocks: where the queue is full, the document is found in the store later.
    pub fn submit(&self, org: &OrgId, document: &DocumentId) {
        if self.queue.try_send((org.clone(), document.clone())).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }
}

/// The component: owns the task that reads documents.
#[derive(Debug)]
pub struct Ingestor {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Ingestor {
    /// Starts reading: first what the store has waiting, then what is submitted.
    pub fn start(stores: Stores, environment: Arc<dyn Environment>, reader: TextReader) -> (Self, IngestHandle) {
        let (queue, submitted) = mpsc::channel(reader.options().queue.max(1));
        let (stop, missed) = (CancellationToken::new(), Arc::new(AtomicBool::new(true)));
        let actor = Actor {
            work: Arc::new(Work { stores, environment, reader }),
            stop: stop.clone(),
            submitted,
            waiting: VecDeque::new(),
            known: HashSet::new(),
            running: JoinSet::new(),
            since: HashMap::new(),
            missed: Arc::clone(&missed),
            installed: Installed::default(),
        };
        let task = tokio::spawn(actor.run());
        (Self { stop, task }, IngestHandle { queue, missed })
    }

    /// Starts no further document, waits for those under way at most `limit`, and gives up the rest: they are found again
    /// at the next start.
    pub async fn drain(mut self, limit: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(limit, &mut self.task).await.is_err() {
            tracing::warn!("documents under way are given up; they are read after the next start");
        }
    }
}

impl Drop for Ingestor {
    fn drop(&mut self) {
        // Its running documents are children of the task, and end with it.
        self.task.abort();
    }
}

/// The state of the task.
struct Actor {
    work: Arc<Work>,
    stop: CancellationToken,
    submitted: mpsc::Receiver<Key>,
    /// At most the queue's size and one scan.
    waiting: VecDeque<(Key, u32)>,
    /// All that waits or runs.
    known: HashSet<Key>,
    running: JoinSet<Key>,
    /// Since when each of them runs.
    since: HashMap<Key, Instant>,
    /// The store may know documents that are not here.
    missed: Arc<AtomicBool>,
    /// The programs that were there when documents that lacked one were last looked for; none at the start.
    installed: Installed,
}

impl Actor {
    async fn run(mut self) {
        self.work.clear_scratch();
        let mut ticks = tokio::time::interval(Duration::from_secs(self.work.reader.options().rescan_seconds.max(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.refill().await;
            self.start_waiting();
            let next_slow = self.next_slow();
            let room = self.waiting.len() < self.work.reader.options().queue.max(1);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = self.running.join_next() => self.ended(ended),
                Some(key) = self.submitted.recv(), if room => self.enqueue(key, 0),
                // Its place is free then.
                () = tokio::time::sleep_until(next_slow.unwrap_or_else(Instant::now)), if next_slow.is_some() => {}
                _ = ticks.tick() => {
                    self.missed.store(true, Ordering::Release);
                    self.look_for_programs().await;
                }
            }
        }
        while let Some(ended) = self.running.join_next().await {
            self.ended(ended);
        }
    }

    /// Asks the store when the queue is empty: what did not fit is there.
    async fn refill(&mut self) {
        if !self.waiting.is_empty() || !self.missed.swap(false, Ordering::AcqRel) {
            return;
        }
        let limit = SCAN_LIMIT + self.running.len();
        match self.work.stores.documents.pending_text(Waits::ForItsTurn, limit).await {
            Ok(pending) => {
                let more = pending.len() == limit;
                for found in pending {
                    self.enqueue((found.org, found.document), found.attempts);
                }
                // Where all that was found is known already, the next tick asks again.
                if more && !self.waiting.is_empty() {
                    self.missed.store(true, Ordering::Release);
                }
            }
            Err(error) => tracing::warn!(%error, "documents that wait for their text could not be listed"),
        }
    }

    /// Where a program is there that was not: every document that lacked one waits for its turn again.
    async fn look_for_programs(&mut self) {
        let installed = self.work.reader.installed();
        if installed.is_more_than(self.installed)
            && let Err(error) = self.work.take_up_again().await
        {
            tracing::warn!(%error, "documents that lacked a program could not be taken up again now");
            return;
        }
        self.installed = installed;
    }

    fn enqueue(&mut self, key: Key, attempts: u32) {
        if self.known.insert(key.clone()) {
            self.waiting.push_back((key, attempts));
        }
    }

    fn start_waiting(&mut self) {
        while self.places_taken() < self.work.reader.options().concurrency.max(1) {
            let Some((key, attempts)) = self.waiting.pop_front() else { return };
            self.since.insert(key.clone(), Instant::now());
            let work = Arc::clone(&self.work);
            self.running.spawn(async move {
                work.run(&key, attempts).await;
                key
            });
        }
    }

    /// Documents that run and keep others waiting: all but those that take long, and these over their bound.
    fn places_taken(&self) -> usize {
        let options = self.work.reader.options();
        let slow = self.since.values().filter(|since| since.elapsed() >= options.slow_after()).count();
        self.since.len() - slow.min(options.slow_concurrency)
    }

    /// When the next one that runs begins to take long; none where nothing waits for that.
    fn next_slow(&self) -> Option<Instant> {
        let slow_after = self.work.reader.options().slow_after();
        let quick = self.since.values().filter(|since| since.elapsed() < slow_after);
        quick.min().map(|since| *since + slow_after).filter(|_| !self.waiting.is_empty())
    }

    fn ended(&mut self, ended: Result<Key, tokio::task::JoinError>) {
        match ended {
            Ok(key) => {
                self.known.remove(&key);
                self.since.remove(&key);
            }
            Err(error) => {
                // Its key is lost with it; all keys that are not waiting may come again.
                tracing::error!(%error, "reading a document panicked");
                self.known = self.waiting.iter().map(|(key, _)| key.clone()).collect();
                self.since.clear();
            }
        }
    }
}

/// What reading one document needs.
struct Work {
    stores: Stores,
    environment: Arc<dyn Environment>,
    reader: TextReader,
}

impl Work {
    /// Folders that an earlier process left, where the folder is our own.
    fn clear_scratch(&self) {
        let Some(scratch) = &self.reader.options().scratch else { return };
        if let Err(error) = std::fs::create_dir_all(scratch) {
            tracing::warn!(%error, "the folder for files on their way could not be made");
        }
        for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Puts every document that lacked a program back to those that wait for their turn.
    async fn take_up_again(&self) -> Result<()> {
        let documents = &self.stores.documents;
        let mut before = Vec::new();
        loop {
            let lacking = documents.pending_text(Waits::ForProgram, SCAN_LIMIT).await?;
            // The same again: a row without a document.
            if lacking.is_empty() || lacking == before {
                return Ok(());
            }
            before.clone_from(&lacking);
            tracing::info!(documents = lacking.len(), "a program was installed; what lacked one is read again");
            for found in lacking {
                let (state, at) = (TextState::Uploaded, self.environment.now());
                let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
                documents.ingest(&found.org, &found.document, update).await?;
            }
        }
    }

    async fn run(&self, (org, id): &Key, attempts: u32) {
        let mut pause = FAULT_PAUSE;
        for fault in 0..FAULTS {
            match self.attempt(org, id, attempts, fault == 0).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, document = %id, "the text of a document could not be read now"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// `first` of this run: only that one counts.
    async fn attempt(&self, org: &OrgId, id: &DocumentId, attempts: u32, first: bool) -> Result<()> {
        let Some(document) = self.stores.documents.get(org, id).await? else { return Ok(()) };
        if document.state.is_settled() {
            return Ok(());
        }
        if attempts >= self.reader.options().attempts.max(1) {
            let reason = format!("reading it was interrupted {attempts} times");
            return self.store(&document, Reading::without_text(TextState::Failed(reason))).await;
        }
        if first || document.state == TextState::Uploaded {
            self.store(&document, Reading::without_text(TextState::Processing)).await?;
        }
        let reading = self.read(&document).await?;
        tracing::info!(document = %id, pages = reading.pages.len(), state = state_name(&reading.state), "text read");
        self.store(&document, reading).await
    }

    async fn read(&self, document: &Document) -> Result<Reading> {
        let failed = |reason: &str| Reading::without_text(TextState::Failed(reason.to_owned()));
        let Some(blob) = self.stores.blobs.open(&document.org, &document.id).await? else {
            return Ok(failed("its bytes are missing"));
        };
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(self.reader.scratch()).map_err(disk)?;
        let file = folder.path().join("document");
        let sha256 = copy(blob, &file).await?;
        if sha256 != document.sha256 {
            return Ok(failed("its bytes are not the ones that were uploaded"));
        }
        let reading = self.reader.read(&document.media_type, &file, folder.path()).await?;
        if let Err(error) = folder.close() {
            tracing::warn!(%error, "a folder for files on their way could not be removed");
        }
        Ok(reading)
    }

    async fn store(&self, document: &Document, reading: Reading) -> Result<()> {
        let Reading { state, pages, lacks_program } = reading;
        let update = IngestUpdate { state, pages, lacks_program, at: self.environment.now() };
        self.stores.documents.ingest(&document.org, &document.id, update).await
    }
}

async fn copy(mut blob: Box<dyn BlobReader>, to: &Path) -> Result<String> {
    let mut file = tokio::fs::File::create(to).await.map_err(disk)?;
    let mut hash = Sha256::new();
    while let Some(chunk) = blob.read().await? {
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(disk)?;
    }
    file.flush().await.map_err(disk)?;
    Ok(hexadecimal(&hash.finalize()))
}

fn disk(error: std::io::Error) -> Error {
    Error::unavailable(Reason::StoreUnavailable, format!("a file on its way could not be written: {error}"))
}

fn state_name(state: &TextState) -> &'static str {
    match state {
        TextState::Uploaded => "uploaded",
        TextState::Processing => "processing",
        TextState::Ready => "ready",
        TextState::NoText(_) => "no_text",
        TextState::Failed(_) => "failed",
    }
}
