//! Audit entries of the turns of a thread.
//!
//! Audit entries are derived deterministically from committed journal entries ([`TurnLog`]), so writing them is
//! idempotent. They are durable before the turn's next append is reported, and before a pause, an end or a decision is
//! reported. After a crash, the node that loads the thread writes the missing entries with its first append. The
//! open-turn row is removed only after the turn's audit entries are durable: by the owner, or by the sweep with
//! [`write_turn`].

mod turn_log;

use std::sync::Arc;

use folio_history::journal::Entry;
use folio_resources::audit::AuditEntry;
use folio_types::{OrgId, Result, TurnId};

use crate::shared::Shared;
use turn_log::TurnLog;

/// Tracks the audit entries of a thread's newest turn.
#[derive(Debug, Clone)]
pub(crate) struct Auditor {
    log: TurnLog,
    /// Entries of committed journal entries that may be missing in the audit log.
    due: Vec<AuditEntry>,
    /// State after the commit of the append in flight.
    sent: Option<SentBatch>,
}

#[derive(Debug, Clone)]
struct SentBatch {
    log: TurnLog,
    due: Vec<AuditEntry>,
    writes: Arc<AuditWrites>,
}

/// Audit entries that are written with an append.
#[derive(Debug, Default)]
pub(crate) struct AuditWrites {
    /// Audit entries of earlier journal entries, unless `after_commit` contains them. Written in parallel with the
    /// append.
    pub(crate) with_append: Vec<AuditEntry>,
    /// Entries of earlier journal entries and of the append. Written after its commit and before it is reported.
    pub(crate) after_commit: Vec<AuditEntry>,
}

impl Auditor {
    /// Returns an auditor, to which the journal must be passed from its beginning.
    pub(crate) fn new(thread: folio_types::ThreadId) -> Self {
        Self { log: TurnLog::new(thread), due: Vec::new(), sent: None }
    }

    /// Reads the next committed journal entry. At the start of a turn, the due entries of earlier turns are dropped:
    /// the sweep writes those that are missing ([`write_turn`]).
    pub(crate) fn read(&mut self, entry: &Entry) {
        if matches!(entry, Entry::Accepted(_)) {
            self.due.clear();
        }
        self.log.push(entry, &mut self.due);
    }

    /// Returns the audit entries to write with an append of these journal entries. Idempotent for retries.
    pub(crate) fn writes_for(&mut self, journal: &[Entry]) -> Arc<AuditWrites> {
        let (mut log, mut entries) = (self.log.clone(), Vec::new());
        journal.iter().for_each(|entry| log.push(entry, &mut entries));
        // An append that ends with an intent is not reported to callers, and another append always follows. Its audit
        // entries are therefore written with that append.
        let continues = matches!(journal.last(), Some(Entry::Intent(_)));
        let (due, mut after_commit) = if continues { (entries, Vec::new()) } else { (Vec::new(), entries) };
        let mut with_append = self.due.clone();
        if !after_commit.is_empty() {
            // One write after the commit in place of two.
            after_commit.splice(0..0, with_append.drain(..));
        }
        let writes = Arc::new(AuditWrites { with_append, after_commit });
        self.sent = Some(SentBatch { log, due, writes: Arc::clone(&writes) });
        writes
    }

    /// Returns the entries to write with the append in flight.
    pub(crate) fn in_flight_writes(&self) -> Arc<AuditWrites> {
        self.sent.as_ref().map(|sent| Arc::clone(&sent.writes)).unwrap_or_default()
    }

    /// Must be called when the append in flight and its audit entries are committed.
    pub(crate) fn commit(&mut self) {
        if let Some(SentBatch { log, due, .. }) = self.sent.take() {
            self.log = log;
            self.due = due;
        }
    }

    /// Returns the entries that may be missing in the audit log while no append is in flight.
    pub(crate) fn due(&self) -> &[AuditEntry] {
        &self.due
    }
}

/// Writes all audit entries of a turn from the journal of its thread. No effect if the thread was deleted.
///
/// # Errors
/// `STORE_UNAVAILABLE`, or `INTERNAL` if the thread has fewer entries than its header states.
pub(crate) async fn write_turn(shared: &Shared, org: &OrgId, turn: &TurnId) -> Result<()> {
    let Some(header) = shared.dependencies.stores.threads.header(org, &turn.thread).await? else { return Ok(()) };
    let (mut log, mut entries) = (TurnLog::new(turn.thread.clone()), Vec::new());
    let push = |entry: Entry| {
        if entry.turn() == Some(turn.number) {
            log.push(&entry, &mut entries);
        }
    };
    shared.for_each_entry(&header, push).await?;
    if entries.is_empty() { Ok(()) } else { shared.dependencies.stores.audit.append(org, &entries).await }
}
