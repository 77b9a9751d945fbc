//! Background ingestion: reads the text of uploaded documents.
//!
//! Uploaders add a job to a queue that all nodes share ([`JobStore`]; in memory for a single process), and any node
//! takes it. Organizations take turns. If a node dies, another node takes its jobs. The queue is only a hint that starts ingestion immediately
//! and usually once. The document store is authoritative ([`folio_storage::TextStore::waiting_texts`]) and is scanned at
//! the start and periodically, so neither a crash nor a lost queue loses a document. The store counts started attempts;
//! a document whose attempts crashed the process too often fails.

pub(crate) mod attempts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use folio_storage::{ClaimedJob, Job, JobStore, PendingText, Stores, TextWait};
use folio_trace::TraceContext;
use folio_types::{DocumentId, Environment, Incarnation, OrgId, Reason, Result};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::ocr::Installed;
use crate::reader::TextReader;
use crate::upload::Uploader;
use attempts::Ingestion;

const QUEUE: &str = "texts";
/// Interval of polls when no job was submitted in this process.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of polls while the queue is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of renewing the active jobs, and of counting the waiting jobs.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Time without renewal after which another node takes a job.
const ABANDONED_AFTER: Duration = Duration::from_secs(45);
/// Timeout of returning the active documents to the queue at shutdown.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of documents that one query of the store returns.
const SCAN_LIMIT: usize = 256;
/// Maximum number of queries of one scan. The next scan continues after the last document.
const SCAN_QUERIES: usize = 4;

type Key = (OrgId, DocumentId);

/// Submits documents for ingestion. Cheap to clone.
#[derive(Clone)]
pub struct IngestHandle {
    jobs: Arc<dyn JobStore>,
    signals: Arc<Signals>,
}

/// State that the handles and the ingestor of a process share.
#[derive(Debug, Default)]
struct Signals {
    /// Notifies the ingestor of a new job.
    wake: Notify,
    /// True if the store may contain pending documents that are not in the queue.
    has_unqueued: AtomicBool,
    /// Number of documents that this process reads.
    reading: AtomicU64,
    /// Number of jobs that no node has taken.
    waiting: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestLoad {
    /// Number of documents that this process reads.
    pub reading: u64,
    /// Number of jobs in the queue that no node has taken, at the last count.
    pub waiting: u64,
}

impl std::fmt::Debug for IngestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IngestHandle")
    }
}

impl IngestHandle {
    pub fn new(jobs: Arc<dyn JobStore>) -> Self {
        Self { jobs, signals: Arc::default() }
    }

    pub fn load(&self) -> IngestLoad {
        let [reading, waiting] =
            [&self.signals.reading, &self.signals.waiting].map(|count| count.load(Ordering::Relaxed));
        IngestLoad { reading, waiting }
    }

    /// Submits a new document. If the queue is full or unavailable, a later scan of the store finds the document.
    pub async fn submit(&self, org: &OrgId, document: &DocumentId) {
        match push(self.jobs.as_ref(), org, document, 0, TraceContext::current()).await {
            Ok(_) => self.signals.wake.notify_one(),
            Err(error) => {
                self.signals.has_unqueued.store(true, Ordering::Release);
                tracing::debug!(%error, %document, "cannot queue a document; a scan of the store will find it");
            }
        }
    }
}

/// Adds a job. Its payload is the attempt count of the store and, after an upload, the upload's `traceparent`. Returns
/// true if the job is new.
async fn push(
    jobs: &dyn JobStore,
    org: &OrgId,
    document: &DocumentId,
    attempts: u32,
    upload: Option<TraceContext>,
) -> Result<bool> {
    let upload = upload.map(|trace| format!(" {}", trace.traceparent())).unwrap_or_default();
    let job = Job { key: format!("{org} {document}"), group: org.to_string(), payload: format!("{attempts}{upload}") };
    jobs.push(QUEUE, &job).await
}

/// Owns the task that reads documents. Dropping the ingestor cancels active documents and kills their child processes.
#[derive(Debug)]
pub struct Ingestor {
    stop: CancellationToken,
    /// Cancels the active documents.
    cancel: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Ingestor {
    /// Starts to read the documents in the queue and the pending documents of the store. `uploader` creates the documents of the
    /// parts of mails and archives.
    pub fn start(
        stores: Stores,
        queue: IngestHandle,
        environment: Arc<dyn Environment>,
        reader: TextReader,
        uploader: Uploader,
    ) -> Self {
        let (stop, cancel) = (CancellationToken::new(), CancellationToken::new());
        let actor = Actor {
            worker: Incarnation::generate(environment.as_ref()),
            work: Arc::new(Ingestion { stores, environment, reader, uploader }),
            stop: stop.clone(),
            cancel: cancel.clone(),
            queue,
            running: JoinSet::new(),
            active: HashMap::new(),
            next_poll: Instant::now(),
            scanned: None,
            installed: Installed::default(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(actor.run()));
        Self { stop, cancel, task }
    }

    /// Stops taking jobs, waits at most `limit` for the active ones, and returns the rest to the queue within
    /// `RELEASE_TIMEOUT`. Another node or the next start reads the cancelled documents; their attempts do not count.
    pub async fn drain(mut self, limit: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(limit, &mut self.task).await.is_ok() {
            return;
        }
        tracing::warn!("active documents are cancelled; another node or the next start reads them");
        self.cancel.cancel();
        if tokio::time::timeout(RELEASE_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the cancelled documents could not be returned to the queue; their attempts count");
        }
    }
}

struct Actor {
    work: Arc<Ingestion>,
    stop: CancellationToken,
    cancel: CancellationToken,
    queue: IngestHandle,
    /// Identity of this process in the queue.
    worker: Incarnation,
    running: JoinSet<()>,
    active: HashMap<Id, ActiveRead>,
    /// Time of the next poll of the queue.
    next_poll: Instant,
    /// The last document of the previous scan. None: the scan reached the end.
    scanned: Option<PendingText>,
    /// Installed programs at the last check. None at the start.
    installed: Installed,
}

struct ActiveRead {
    key: Key,
    job: ClaimedJob,
    /// Number of attempts before this one.
    attempts: u32,
    since: Instant,
}

fn delayed_interval(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Actor {
    async fn run(mut self) {
        self.work.clear_scratch();
        let mut rescans = delayed_interval(Duration::from_secs(self.work.reader.options().rescan_seconds.max(1)));
        let mut heartbeats = delayed_interval(HEARTBEAT_INTERVAL);
        let signals = Arc::clone(&self.queue.signals);
        loop {
            self.take().await;
            self.queue.signals.reading.store(as_u64(self.active.len()), Ordering::Relaxed);
            // At this time a slow document no longer counts against the concurrency.
            let next_slow = self.next_slow();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = self.running.join_next_with_id() => self.on_task_end(ended).await,
                _ = rescans.tick() => {
                    self.check_programs().await;
                    self.scan().await;
                }
                _ = heartbeats.tick() => {
                    self.renew().await;
                    self.count().await;
                }
                () = signals.wake.notified() => self.next_poll = Instant::now(),
                () = tokio::time::sleep_until(self.next_poll), if self.capacity() > 0 => {}
                () = tokio::time::sleep_until(next_slow.unwrap_or(self.next_poll)), if next_slow.is_some() => {}
            }
        }
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return self.release().await,
                Some(ended) = self.running.join_next_with_id() => self.on_task_end(ended).await,
                _ = heartbeats.tick() => self.renew().await,
            }
        }
    }

    /// Cancels the active documents and returns them to the queue.
    async fn release(&mut self) {
        self.running.shutdown().await;
        for ActiveRead { key, job, attempts, .. } in std::mem::take(&mut self.active).into_values() {
            if let Err(error) = self.work.cancel(&key).await {
                tracing::warn!(%error, document = %key.1, "cannot return a document to the queue; its attempt counts");
                continue;
            }
            self.remove_job(&job).await;
            if let Err(error) = push(self.queue.jobs.as_ref(), &key.0, &key.1, attempts, None).await {
                tracing::debug!(%error, "cannot queue a cancelled document; a scan of the store will find it");
            }
        }
    }

    /// Takes jobs while there is capacity and a poll is due.
    async fn take(&mut self) {
        while self.capacity() > 0 && self.next_poll <= Instant::now() {
            let capacity = self.capacity();
            match self.queue.jobs.claim(QUEUE, &self.worker, capacity, ABANDONED_AFTER).await {
                Ok(taken) => {
                    let all = taken.len() < capacity;
                    for job in taken {
                        self.start(job).await;
                    }
                    // Documents that did not fit into the queue are only in the store.
                    if all && !(self.queue.signals.has_unqueued.load(Ordering::Acquire) && self.scan().await) {
                        self.next_poll = Instant::now() + POLL_INTERVAL;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot poll the ingestion queue");
                    self.next_poll = Instant::now() + RETRY_INTERVAL;
                }
            }
        }
    }

    /// Adds pending documents of the store to the queue, from the position of the previous scan on. Returns true if it
    /// added any.
    async fn scan(&mut self) -> bool {
        self.queue.signals.has_unqueued.store(false, Ordering::Release);
        // Organizations whose documents the queue refuses.
        let mut refused = HashSet::new();
        let mut added = false;
        for _ in 0..SCAN_QUERIES {
            let after = self.scanned.take();
            let pending = match self.work.stores.texts.waiting_texts(TextWait::Worker, after.as_ref(), SCAN_LIMIT).await
            {
                Ok(pending) => pending,
                Err(error) => {
                    tracing::warn!(%error, "cannot list documents with pending text");
                    break;
                }
            };
            match self.queue_documents(&pending, &mut refused).await {
                Ok(any) => added |= any,
                Err(error) => {
                    tracing::debug!(%error, "the ingestion queue is unavailable");
                    self.queue.signals.has_unqueued.store(true, Ordering::Release);
                    break;
                }
            }
            self.scanned = pending.into_iter().nth(SCAN_LIMIT - 1);
            if self.scanned.is_none() {
                break;
            }
        }
        if self.scanned.is_some() || !refused.is_empty() {
            self.queue.signals.has_unqueued.store(true, Ordering::Release);
        }
        if added {
            self.next_poll = Instant::now();
        }
        added
    }

    /// Adds documents to the queue. Returns true if it added any.
    async fn queue_documents(&self, pending: &[PendingText], refused: &mut HashSet<OrgId>) -> Result<bool> {
        let mut added = false;
        for found in pending {
            // The row is of a kind that has no text to ingest.
            let Ok(document) = found.id.parse() else { continue };
            let key = (found.org.clone(), document);
            if refused.contains(&key.0) || self.active.values().any(|running| running.key == key) {
                continue;
            }
            match push(self.queue.jobs.as_ref(), &key.0, &key.1, found.attempts, None).await {
                Ok(new) => added |= new,
                Err(error) if error.reason == Reason::Overloaded => {
                    refused.insert(key.0);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(added)
    }

    /// If a program was installed since the last check, marks the documents that lacked a program as pending.
    async fn check_programs(&mut self) {
        let installed = self.work.reader.installed();
        if installed.has_new_program(self.installed)
            && let Err(error) = self.work.requeue_for_programs().await
        {
            tracing::warn!(%error, "cannot requeue documents that lacked a program");
            return;
        }
        self.installed = installed;
    }

    async fn start(&mut self, job: ClaimedJob) {
        let Some(key) = parse(&job.job.key) else {
            tracing::error!(key = job.job.key, "dropped a job with an invalid document key");
            return self.remove_job(&job).await;
        };
        if let Some(running) = self.active.values_mut().find(|running| running.key == key) {
            // The renewal was late, so this process took its own job again.
            running.job = job;
            return;
        }
        // The attempts that the store had counted, plus the attempts since then.
        let (counted, upload) = job.job.payload.split_once(' ').unwrap_or((&job.job.payload, ""));
        let counted: u32 = counted.parse().unwrap_or(0);
        let attempts = counted.saturating_add(u32::try_from(job.attempt.saturating_sub(1)).unwrap_or(u32::MAX));
        let (work, document_key) = (Arc::clone(&self.work), key.clone());
        let span = tracing::info_span!(
            "ingest",
            otel.name = "ingest document",
            otel.kind = "consumer",
            otel.status_code = tracing::field::Empty,
            folio.document.id = %document_key.1,
            "error.type" = tracing::field::Empty,
        );
        if let Some(upload) = TraceContext::parse(upload, None) {
            upload.link_from(&span);
        }
        let task = self.running.spawn(async move { work.run(&document_key, attempts).await }.instrument(span));
        self.active.insert(task.id(), ActiveRead { key, job, attempts, since: Instant::now() });
    }

    /// Returns the number of documents that may start. Up to `slow_concurrency` slow documents do not count.
    fn capacity(&self) -> usize {
        let options = self.work.reader.options();
        let slow = self.active.values().filter(|running| running.since.elapsed() >= options.slow_after()).count();
        let permits_taken = self.active.len() - slow.min(options.slow_concurrency);
        options.concurrency.max(1).saturating_sub(permits_taken)
    }

    /// Returns the time at which the next document becomes slow. None if there is capacity.
    fn next_slow(&self) -> Option<Instant> {
        let slow_after = self.work.reader.options().slow_after();
        let quick = self.active.values().filter(|running| running.since.elapsed() < slow_after);
        quick.map(|running| running.since + slow_after).min().filter(|_| self.capacity() == 0)
    }

    async fn on_task_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "ingestion of a document panicked");
                error.id()
            }
        };
        if let Some(running) = self.active.remove(&id) {
            self.remove_job(&running.job).await;
        }
        self.next_poll = Instant::now();
    }

    /// Removes a job. If that fails, the job is taken again and its document is already settled.
    async fn remove_job(&self, job: &ClaimedJob) {
        if let Err(error) = self.queue.jobs.complete(QUEUE, job).await {
            tracing::debug!(%error, "cannot remove a finished job");
        }
    }

    /// Counts waiting jobs. If the queue is unavailable, the last count is kept.
    async fn count(&self) {
        match self.queue.jobs.waiting(QUEUE).await {
            Ok(waiting) => self.queue.signals.waiting.store(waiting, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "cannot count waiting jobs"),
        }
    }

    /// Renews the active jobs. If another node takes one of them nevertheless, both read the document and the store
    /// keeps one result.
    async fn renew(&self) {
        for running in self.active.values() {
            if let Err(error) = self.queue.jobs.extend(QUEUE, &running.job).await {
                tracing::debug!(%error, "cannot renew a job");
            }
        }
    }
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn parse(key: &str) -> Option<Key> {
    let (org, document) = key.split_once(' ')?;
    Some((org.parse().ok()?, document.parse().ok()?))
}
