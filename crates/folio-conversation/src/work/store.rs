//! Appends, lookups of appends, and rows of the open-turn index.

use std::sync::Arc;
use std::time::Duration;

use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, NewThread, OpenTurnRow, ThreadHeader};
use folio_types::{Code, Error, Reason, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Backoff, TaskContext};
use crate::actor::TaskMsg;
use crate::audit::AuditWrites;
use crate::context::ContextLoader;
use crate::shared::NextRemoval;
use crate::turn::Command;

/// Maximum lookups of an append. Afterwards the conversation stops and is reloaded.
const LOOK_UPS_MAX: u32 = 12;
/// Maximum number of times that an append is sent. Afterwards the conversation stops: the store reads but does not
/// write.
const SENDS_MAX: u32 = 8;
/// Maximum rows of ended turns that one append removes. They are in several partitions.
const REMOVALS_PER_APPEND: usize = 8;
/// Time after which rows of ended turns that no append removed are removed together.
const REMOVAL_DELAY: Duration = Duration::from_millis(200);

impl TaskContext {
    /// Sends an append, and creates the thread if `new` is given. Reports the response of the store. A commit is
    /// reported after the audit entries are durable.
    pub(crate) async fn append(self, mut append: Append, new: Option<Arc<NewThread>>, audit: Arc<AuditWrites>) {
        let batch = append.batch;
        let stages: Vec<&str> = append.entries.iter().map(stage).collect();
        if append.opens.is_some() {
            append.removes = self.shared.removals.take(REMOVALS_PER_APPEND);
        }
        for stage in &stages {
            self.hit_failpoint(stage, "before").await;
        }
        let threads = &self.shared.dependencies.stores.threads;
        let sent = async {
            match new {
                Some(new) => threads.begin(NewThread::clone(&new), append).await,
                None => threads.append(&self.org, &self.thread, append).await,
            }
        };
        let sent = self.shared.with_store_timeout(sent);
        let (answer, recorded) = tokio::join!(sent, self.record(&audit.with_append));
        for stage in &stages {
            self.hit_failpoint(stage, "after").await;
        }
        match answer {
            Ok(Appended::Done(header)) => {
                if recorded && self.record(&audit.after_commit).await {
                    self.report(Command::Appended { batch, header });
                }
            }
            Ok(Appended::Refused { header, request }) => self.report(Command::AppendRefused { batch, header, request }),
            Err(error) if error.reason == Reason::NotFound => self.send(TaskMsg::ThreadDeleted(error)),
            // A retry would be refused again.
            Err(error) if error.code == Code::InvalidArgument => self.send(TaskMsg::Unwritable(error)),
            Err(error) => {
                tracing::warn!(thread = %self.thread, %error, "the outcome of an append is unknown");
                self.report(Command::AppendUnknown { batch });
            }
        }
    }

    /// Prefetches a turn's context within half the store time limit. The first model call waits for the prefetch.
    pub(crate) async fn prefetch(self, context: Arc<Mutex<ContextLoader>>, write_counter: u64) {
        let read = async { context.lock().await.prefetch(write_counter).await };
        let _ = tokio::time::timeout(self.shared.options.store_timeout / 2, read).await;
    }

    /// Looks up an append until the store answers. An append that is not committed is sent again after a growing pause,
    /// at most [`SENDS_MAX`] times; afterwards the conversation stops.
    pub(crate) async fn look_up(
        self,
        (batch, sends): (u128, u32),
        new: Option<Arc<NewThread>>,
        audit: Arc<AuditWrites>,
    ) {
        let mut backoff = Backoff::new(&self.shared);
        for _ in 0..LOOK_UPS_MAX {
            match self.shared.with_store_timeout(self.look(batch, new.as_deref())).await {
                Ok(Some((false, _))) if sends >= SENDS_MAX => {
                    return self.stop_conversation("the thread store accepts no writes; retry later");
                }
                Ok(Some((is_committed, header))) => {
                    if !is_committed {
                        Backoff::after(&self.shared, sends.saturating_sub(1)).pause().await;
                    } else if !(self.record(&audit.with_append).await && self.record(&audit.after_commit).await) {
                        return;
                    }
                    return self.report(Command::LookedUp { batch, is_committed, header: Box::new(header) });
                }
                Ok(None) => return self.send(TaskMsg::ThreadDeleted(Error::not_found("thread", &self.thread))),
                Err(error) => tracing::warn!(thread = %self.thread, %error, "cannot look up an append"),
            }
            backoff.pause().await;
        }
        self.stop_conversation("the thread store is unavailable; retry later");
    }

    /// Returns whether the append is committed, and a header that was read consistently with that state. None: the
    /// thread does not exist, and `new` is None.
    async fn look(&self, batch: u128, new: Option<&NewThread>) -> Result<Option<(bool, ThreadHeader)>> {
        let threads = &self.shared.dependencies.stores.threads;
        let mut is_committed = threads.has_batch(&self.org, &self.thread, batch).await?;
        loop {
            let Some(header) = threads.header(&self.org, &self.thread).await? else {
                return Ok(new.map(|new| (false, new.header())));
            };
            let now = threads.has_batch(&self.org, &self.thread, batch).await?;
            if now == is_committed {
                return Ok(Some((is_committed, header)));
            }
            is_committed = now;
        }
    }

    /// Removes a row of an ended turn, unless an append that opens a turn takes the row within [`REMOVAL_DELAY`]. If the
    /// removal fails, the next sweep removes the row.
    pub(crate) fn remove_open_turn(&self, row: OpenTurnRow) {
        let shared = Arc::clone(&self.shared);
        if !shared.removals.push(row, Instant::now()) {
            return;
        }
        self.shared.tracker.spawn(async move {
            loop {
                let rows = match shared.removals.next(Instant::now(), REMOVAL_DELAY) {
                    NextRemoval::Remove(rows) => rows,
                    NextRemoval::Wait(until) => {
                        tokio::select! {
                            () = shared.token.cancelled() => return,
                            () = tokio::time::sleep_until(until) => {}
                        }
                        continue;
                    }
                    NextRemoval::End => return,
                };
                if let Err(error) = shared.dependencies.stores.open_turns.remove(&rows).await {
                    tracing::warn!(rows = rows.len(), %error, "rows of ended turns are left to the sweep");
                }
            }
        });
    }
}

/// Returns the failpoint stage of an entry.
fn stage(entry: &Entry) -> &'static str {
    match entry {
        Entry::Accepted(_) => "accept",
        Entry::Round(_) => "round",
        Entry::Paused(_) => "pause",
        Entry::Decisions(_) => "decide",
        Entry::Intent(_) => "intent",
        Entry::Group(_) => "group",
        Entry::Outcome(_) => "outcome",
        Entry::Resumed(_) => "resume",
        Entry::Closing(_) => "closing",
        Entry::Ended(_) => "end",
        Entry::Imported(_) => "import",
        Entry::Summary(_) => "summary",
    }
}
