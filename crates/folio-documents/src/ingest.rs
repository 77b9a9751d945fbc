//! Reading the text of uploaded documents, in the background.
//!
//! Who takes a file in says so in a queue that all nodes share ([`JobStore`]; in one process it is in memory), and any of
//! them reads it: a job of a node that is gone is taken by another one. The queue only makes it start at once, and once:
//! the store says which documents wait ([`folio_storage::DocumentStore::pending_text`]), and is asked at the start and now
//! and then. So nothing is lost with a process or with the queue. The store counts attempts that began, and a document
//! whose attempts ended with the process too often counts as failed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use folio_resources::{Document, TextState};
use folio_storage::{BlobReader, IngestUpdate, Job, JobStore, Stores, TakenJob, Waits};
use folio_trace::TraceContext;
use folio_types::{DocumentId, Environment, Error, Incarnation, OrgId, Reason, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::ocr::Installed;
use crate::reader::{Reading, TextReader};
use crate::upload::hexadecimal;

/// The name of the queue.
const QUEUE: &str = "texts";
/// How often the queue is asked where nobody says that something is in it.
const LOOK: Duration = Duration::from_millis(500);
/// The same where it did not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often a document is said to be still under way, and those that wait are counted.
const KEEP: Duration = Duration::from_secs(10);
/// From when on a document that nobody says this of is taken by another node.
const ABANDONED_AFTER: Duration = Duration::from_secs(45);
/// Documents that the store is asked for at once.
const SCAN_LIMIT: usize = 256;
/// Attempts for a fault of the store or the machine, within one run.
const FAULTS: u32 = 4;
/// The pause after the first fault; doubles each time.
const FAULT_PAUSE: Duration = Duration::from_millis(250);
/// What folders of files on their way begin with.
const SCRATCH_PREFIX: &str = "folio-read-";

type Key = (OrgId, DocumentId);

/// Tells of new documents. Cheap to clone.
#[derive(Clone)]
pub struct IngestHandle {
    jobs: Arc<dyn JobStore>,
    news: Arc<News>,
}

/// What an ingestor of this process is told.
#[derive(Debug, Default)]
struct News {
    /// Something is in the queue.
    wake: Notify,
    /// The store may know documents that are not in the queue.
    missed: AtomicBool,
    /// Documents that are being read here.
    reading: AtomicU64,
    /// Documents in the queue that nobody reads.
    waiting: AtomicU64,
}

/// How much there is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToRead {
    /// Documents that are being read in this process.
    pub reading: u64,
    /// Documents in the queue that nobody reads, as they were last counted.
    pub waiting: u64,
}

impl std::fmt::Debug for IngestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IngestHandle")
    }
}

impl IngestHandle {
    /// By this queue; whoever shares it reads what is in it.
    pub fn to(jobs: Arc<dyn JobStore>) -> Self {
        Self { jobs, news: Arc::default() }
    }

    /// How much there is to read, as an ingestor of this process knows.
    pub fn to_read(&self) -> ToRead {
        let [reading, waiting] = [&self.news.reading, &self.news.waiting].map(|count| count.load(Ordering::Relaxed));
        ToRead { reading, waiting }
    }

    /// A new document waits to be read. Where the queue is full or away, the document is found in the store later.
    pub async fn submit(&self, org: &OrgId, document: &DocumentId) {
        match push(self.jobs.as_ref(), org, document, 0, TraceContext::current()).await {
            Ok(_) => self.news.wake.notify_one(),
            Err(error) => {
                self.news.missed.store(true, Ordering::Release);
                tracing::debug!(%error, %document, "a document is read when it is found waiting");
            }
        }
    }
}

/// Adds a job, whose payload is the attempts that the store counts and, of an upload, its `traceparent`. Gives whether it
/// was not there.
async fn push(
    jobs: &dyn JobStore,
    org: &OrgId,
    document: &DocumentId,
    attempts: u32,
    upload: Option<TraceContext>,
) -> Result<bool> {
    let upload = upload.map(|trace| format!(" {}", trace.traceparent())).unwrap_or_default();
    jobs.push(QUEUE, &Job { key: format!("{org} {document}"), payload: format!("{attempts}{upload}") }).await
}

/// The component: owns the task that reads documents.
#[derive(Debug)]
pub struct Ingestor {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Ingestor {
    /// Starts reading: what is in the queue, and what the store has waiting.
    pub fn start(stores: Stores, queue: IngestHandle, environment: Arc<dyn Environment>, reader: TextReader) -> Self {
        let stop = CancellationToken::new();
        let actor = Actor {
            worker: Incarnation::generate(environment.as_ref()),
            work: Arc::new(Work { stores, environment, reader }),
            stop: stop.clone(),
            queue,
            running: JoinSet::new(),
            under_way: HashMap::new(),
            look_at: Instant::now(),
            installed: Installed::default(),
        };
        let task = tokio::spawn(actor.run());
        Self { stop, task }
    }

    /// Starts no further document, waits for those under way at most `limit`, and gives up the rest: they are found again
    /// by another node, or at the next start.
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
    queue: IngestHandle,
    /// Who takes jobs.
    worker: Incarnation,
    running: JoinSet<()>,
    /// What runs.
    under_way: HashMap<Id, UnderWay>,
    /// When the queue is asked next.
    look_at: Instant,
    /// The programs that were there when documents that lacked one were last looked for; none at the start.
    installed: Installed,
}

/// A document that is being read.
struct UnderWay {
    key: Key,
    job: TakenJob,
    since: Instant,
}

/// Ticks that do not pile up.
fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Actor {
    async fn run(mut self) {
        self.work.clear_scratch();
        let mut rescans = every(Duration::from_secs(self.work.reader.options().rescan_seconds.max(1)));
        let mut keeps = every(KEEP);
        let news = Arc::clone(&self.queue.news);
        loop {
            self.take().await;
            self.queue.news.reading.store(wide(self.under_way.len()), Ordering::Relaxed);
            // Its place is free then.
            let next_slow = self.next_slow();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = self.running.join_next_with_id() => self.ended(ended).await,
                _ = rescans.tick() => {
                    self.look_for_programs().await;
                    self.scan().await;
                }
                _ = keeps.tick() => {
                    self.keep().await;
                    self.count().await;
                }
                () = news.wake.notified() => self.look_at = Instant::now(),
                () = tokio::time::sleep_until(self.look_at), if self.room() > 0 => {}
                () = tokio::time::sleep_until(next_slow.unwrap_or(self.look_at)), if next_slow.is_some() => {}
            }
        }
        while !self.running.is_empty() {
            tokio::select! {
                Some(ended) = self.running.join_next_with_id() => self.ended(ended).await,
                _ = keeps.tick() => self.keep().await,
            }
        }
    }

    /// Takes what is in the queue, as far as there is room and it is time to look.
    async fn take(&mut self) {
        while self.room() > 0 && self.look_at <= Instant::now() {
            let room = self.room();
            match self.queue.jobs.take(QUEUE, &self.worker, room, ABANDONED_AFTER).await {
                Ok(taken) => {
                    let all = taken.len() < room;
                    for job in taken {
                        self.begin(job).await;
                    }
                    // What did not fit into the queue is in the store.
                    if all && !(self.queue.news.missed.load(Ordering::Acquire) && self.scan().await) {
                        self.look_at = Instant::now() + LOOK;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the queue of documents could not be asked");
                    self.look_at = Instant::now() + LOOK_AGAIN;
                }
            }
        }
    }

    /// Puts what the store has waiting into the queue; whether there was something.
    async fn scan(&mut self) -> bool {
        self.queue.news.missed.store(false, Ordering::Release);
        let limit = SCAN_LIMIT + self.running.len();
        let pending = match self.work.stores.texts.pending_text(Waits::ForItsTurn, limit).await {
            Ok(pending) => pending,
            Err(error) => {
                tracing::warn!(%error, "documents that wait for their text could not be listed");
                return false;
            }
        };
        let mut added = false;
        for found in &pending {
            let key = (found.org.clone(), found.document.clone());
            if self.under_way.values().any(|running| running.key == key) {
                continue;
            }
            match push(self.queue.jobs.as_ref(), &found.org, &found.document, found.attempts, None).await {
                Ok(new) => added |= new,
                Err(error) => {
                    tracing::debug!(%error, "more documents wait than the queue takes now");
                    self.queue.news.missed.store(true, Ordering::Release);
                    break;
                }
            }
        }
        // Where all that was found is in the queue already, the next tick asks again.
        if added && pending.len() == limit {
            self.queue.news.missed.store(true, Ordering::Release);
        }
        if added {
            self.look_at = Instant::now();
        }
        added
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

    async fn begin(&mut self, job: TakenJob) {
        let Some(key) = parse(&job.job.key) else {
            tracing::error!(key = job.job.key, "a job about no document is dropped");
            return self.done(&job).await;
        };
        if let Some(running) = self.under_way.values_mut().find(|running| running.key == key) {
            // It was not kept in time.
            running.job = job;
            return;
        }
        // Those that the store counted when it was asked, and those that were taken from the queue since.
        let (counted, upload) = job.job.payload.split_once(' ').unwrap_or((&job.job.payload, ""));
        let counted: u32 = counted.parse().unwrap_or(0);
        let attempts = counted.saturating_add(u32::try_from(job.attempt.saturating_sub(1)).unwrap_or(u32::MAX));
        let (work, about) = (Arc::clone(&self.work), key.clone());
        let span = tracing::info_span!(
            "ingest",
            otel.name = "ingest document",
            otel.kind = "consumer",
            otel.status_code = tracing::field::Empty,
            folio.document.id = %about.1,
            "error.type" = tracing::field::Empty,
        );
        if let Some(upload) = TraceContext::parse(upload, None) {
            upload.link_from(&span);
        }
        let task = self.running.spawn(async move { work.run(&about, attempts).await }.instrument(span));
        self.under_way.insert(task.id(), UnderWay { key, job, since: Instant::now() });
    }

    /// How many may begin: those that take long count only over their bound.
    fn room(&self) -> usize {
        let options = self.work.reader.options();
        let slow = self.under_way.values().filter(|running| running.since.elapsed() >= options.slow_after()).count();
        let places_taken = self.under_way.len() - slow.min(options.slow_concurrency);
        options.concurrency.max(1).saturating_sub(places_taken)
    }

    /// When the next one that runs begins to take long; none where nobody waits for that.
    fn next_slow(&self) -> Option<Instant> {
        let slow_after = self.work.reader.options().slow_after();
        let quick = self.under_way.values().filter(|running| running.since.elapsed() < slow_after);
        quick.map(|running| running.since + slow_after).min().filter(|_| self.room() == 0)
    }

    async fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "reading a document panicked");
                error.id()
            }
        };
        if let Some(running) = self.under_way.remove(&id) {
            self.done(&running.job).await;
        }
        self.look_at = Instant::now();
    }

    /// A job that cannot be ended is taken again, and finds its document settled.
    async fn done(&self, job: &TakenJob) {
        if let Err(error) = self.queue.jobs.done(QUEUE, job).await {
            tracing::debug!(%error, "a job could not be ended");
        }
    }

    /// Counts what waits; where the queue is away, the last count stays.
    async fn count(&self) {
        match self.queue.jobs.waiting(QUEUE).await {
            Ok(waiting) => self.queue.news.waiting.store(waiting, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "what waits in the queue of documents could not be counted"),
        }
    }

    /// Another node that takes a document that is read here repeats it, and the store keeps one of the two.
    async fn keep(&self) {
        for running in self.under_way.values() {
            if let Err(error) = self.queue.jobs.keep(QUEUE, &running.job).await {
                tracing::debug!(%error, "a job could not be kept");
            }
        }
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn parse(key: &str) -> Option<Key> {
    let (org, document) = key.split_once(' ')?;
    Some((org.parse().ok()?, document.parse().ok()?))
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
        let texts = &self.stores.texts;
        let mut before = Vec::new();
        loop {
            let lacking = texts.pending_text(Waits::ForProgram, SCAN_LIMIT).await?;
            // The same again: a row without a document.
            if lacking.is_empty() || lacking == before {
                return Ok(());
            }
            before.clone_from(&lacking);
            tracing::info!(documents = lacking.len(), "a program was installed; what lacked one is read again");
            for found in lacking {
                let (state, at) = (TextState::Uploaded, self.environment.now());
                let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
                texts.ingest(&found.org, &found.document, update).await?;
            }
        }
    }

    async fn run(&self, (org, id): &Key, attempts: u32) {
        let mut pause = FAULT_PAUSE;
        for fault in 0..FAULTS {
            match self.attempt(org, id, attempts, fault == 0).await {
                Ok(()) => return,
                Err(error) => {
                    folio_trace::record_error(&tracing::Span::current(), error.reason.as_str());
                    tracing::warn!(%error, document = %id, "the text of a document could not be read now");
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// `first` of this run: only that one counts.
    async fn attempt(&self, org: &OrgId, id: &DocumentId, attempts: u32, first: bool) -> Result<()> {
        let Some(document) = self.stores.of::<Document>().get(org, id).await? else { return Ok(()) };
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
        self.stores.texts.ingest(&document.org, &document.id, update).await
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
