//! What the journal of a thread says to the audit log.
//!
//! Entries of the log follow from entries of the journal that stand, and from nothing else ([`TurnLog`]), so that whoever comes to
//! them writes the same ones, as often as it likes. They stand before the turn's next append is reported, and before anybody is told
//! of a pause, of an end, or that decisions were taken. Whatever dies before: who loads the thread finds what its newest turn lacks,
//! and writes it beside its first append; and the row of an open turn is removed only by who knows that the turn's entries stand
//! (its owner, or the sweep by [`write_turn`]).

mod turn_log;

use std::sync::Arc;

use folio_history::journal::Entry;
use folio_history::thread::Append;
use folio_types::audit::AuditEntry;
use folio_types::{Error, OrgId, Result, TurnId};

use crate::shared::Shared;
use turn_log::TurnLog;

/// Journal entries that are read at once.
const PAGE: usize = 512;

/// What the newest turn of a thread said to the audit log so far.
#[derive(Debug, Clone)]
pub(crate) struct Auditor {
    log: TurnLog,
    /// What stands in the journal, and perhaps not in the log.
    due: Vec<AuditEntry>,
    /// What follows once the append that is under way stands.
    sent: Option<Sent>,
}

#[derive(Debug, Clone)]
struct Sent {
    log: TurnLog,
    due: Vec<AuditEntry>,
    writes: Arc<Writes>,
}

/// What is to be written to the log with an append.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// What stood in the journal before: written beside the append.
    pub(crate) beside: Vec<AuditEntry>,
    /// What the append itself says, where somebody may be told of it next: written once it stands.
    pub(crate) after: Vec<AuditEntry>,
}

impl Auditor {
    /// That of a thread whose journal is read from its beginning.
    pub(crate) fn new(thread: folio_types::ThreadId) -> Self {
        Self { log: TurnLog::new(thread), due: Vec::new(), sent: None }
    }

    /// The next entry of the journal that stands. Of the turns before the newest one nothing is due: see the sweep.
    pub(crate) fn read(&mut self, entry: &Entry) {
        if matches!(entry, Entry::Accepted(_)) {
            self.due.clear();
        }
        self.log.push(entry, &mut self.due);
    }

    /// An append is sent, for the first time or again: what is to be written with it.
    pub(crate) fn sending(&mut self, append: &Append) -> Arc<Writes> {
        let (mut log, mut said) = (self.log.clone(), Vec::new());
        append.entries.iter().for_each(|entry| log.push(entry, &mut said));
        // An intent is always followed by another append: nobody is told of anything before.
        let goes_on = matches!(append.entries.last(), Some(Entry::Intent(_)));
        let (due, after) = if goes_on { (said, Vec::new()) } else { (Vec::new(), said) };
        let writes = Arc::new(Writes { beside: self.due.clone(), after });
        self.sent = Some(Sent { log, due, writes: Arc::clone(&writes) });
        writes
    }

    /// What was to be written with the append that is under way.
    pub(crate) fn under_way(&self) -> Arc<Writes> {
        self.sent.as_ref().map(|sent| Arc::clone(&sent.writes)).unwrap_or_default()
    }

    /// The append that was under way stands, and so does what was to be written with it.
    pub(crate) fn stands(&mut self) {
        if let Some(Sent { log, due, .. }) = self.sent.take() {
            self.log = log;
            self.due = due;
        }
    }

    /// What may be missing in the log while no append is under way.
    pub(crate) fn due(&self) -> &[AuditEntry] {
        &self.due
    }
}

/// Writes all that a turn says to the log, as the journal of its thread stands. A thread that is gone says nothing more.
///
/// Errors: the stores do not answer.
pub(crate) async fn write_turn(shared: &Shared, org: &OrgId, turn: &TurnId) -> Result<()> {
    let threads = &shared.stores().threads;
    let Some(header) = threads.header(org, &turn.thread).await? else { return Ok(()) };
    let mut log = TurnLog::new(turn.thread.clone());
    let (mut said, mut next) = (Vec::new(), 0);
    while next < header.entries {
        let page = threads.entries(org, &turn.thread, next, PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Err(Error::internal(format!("thread {} has fewer entries than its header says", turn.thread)));
        };
        next = last.saturating_add(1);
        for (_, entry) in page.iter().filter(|(_, entry)| entry.turn() == Some(turn.number)) {
            log.push(entry, &mut said);
        }
    }
    if said.is_empty() { Ok(()) } else { shared.stores().audit.append(org, &said).await }
}
