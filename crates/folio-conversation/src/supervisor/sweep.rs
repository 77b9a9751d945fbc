//! The sweep: ends expired pauses and turns without an owner, removes rows of ended turns from the open-turn index, and
//! deletes expired threads.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_history::thread::{OpenTurnRow, Phase, ThreadHeader};
use folio_storage::REPUBLISH_INTERVAL;
use folio_types::{Result, Timestamp};
use jiff::SignedDuration;
use ractor::ActorRef;
use tokio::sync::oneshot;

use super::{Key, SupervisorMsg};
use crate::actor::Msg;
use crate::audit;
use crate::shared::Shared;
use crate::turn::{OPEN_TURN_ROW_HOURS, is_open_row_over};

const ROWS_PER_READ: usize = 256;
/// Maximum time between the insertion of an open-turn row and the first append to its thread.
const FIRST_APPEND_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);
/// Number of sweep intervals after which the row of a waiting turn is checked again, at most [`REPUBLISH_INTERVAL`]. A
/// turn can end without a notice to this node: a node that counts as dead may still commit, and a store may later complete a
/// commit that it did not acknowledge.
const CHECK_INTERVAL_SWEEPS: u32 = 120;
/// Number of sweep intervals after which a turn that waits for child turns reads their states again, because a notice may be
/// lost.
pub(crate) const CHILDREN_CHECK_SWEEPS: u32 = 6;
/// Maximum number of threads that one sweep deletes.
const DELETIONS_MAX: usize = 64;

/// Threads with a turn that waits for decisions, with the time of the next check of their rows. Most rows are of this
/// kind.
#[derive(Debug, Default)]
pub(crate) struct WaitingThreads(Mutex<Checks>);

#[derive(Debug, Default)]
struct Checks {
    /// The number of the turn and the time of the next check of its rows.
    times: HashMap<Key, (u32, Timestamp)>,
    /// Number of calls of [`WaitingThreads::forget`].
    forgotten: u64,
}

impl WaitingThreads {
    /// Makes the next sweep check the rows of a thread, because its conversation stopped. A row may remain although the
    /// turn ended: its removal failed, the end was committed without an answer, or a store moved the row meanwhile.
    pub(crate) fn forget(&self, thread: &Key) {
        let mut checks = self.lock();
        checks.times.remove(thread);
        checks.forgotten = checks.forgotten.wrapping_add(1);
    }

    /// Returns the time of the next check of the turn's rows if that is after `now`, and the number of calls of
    /// [`Self::forget`].
    fn get(&self, thread: &Key, turn: u32, now: Timestamp) -> (Option<Timestamp>, u64) {
        let checks = self.lock();
        let recorded = checks.times.get(thread).filter(|(number, until)| *number == turn && now < *until);
        (recorded.map(|(_, until)| *until), checks.forgotten)
    }

    /// Records the result of a check that began after `forgotten` calls of [`Self::forget`]. After a further call, the
    /// check may have read the thread before its conversation stopped.
    fn record(&self, thread: &Key, turn: u32, until: Option<Timestamp>, forgotten: u64) {
        let mut checks = self.lock();
        match until.filter(|_| checks.forgotten == forgotten) {
            Some(until) => {
                checks.times.insert(thread.clone(), (turn, until));
            }
            // The row of an ended turn does not affect the turn that waits.
            None if checks.times.get(thread).is_some_and(|(number, _)| *number == turn) => {
                checks.times.remove(thread);
            }
            None => {}
        }
    }

    fn retain(&self, is_kept: impl Fn(&Key) -> bool) {
        self.lock().times.retain(|thread, _| is_kept(thread));
    }

    fn lock(&self) -> MutexGuard<'_, Checks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Sweeper {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
}

impl Sweeper {
    pub(super) fn new(shared: Arc<Shared>, supervisor: ActorRef<SupervisorMsg>) -> Self {
        Self { shared, supervisor }
    }

    /// Makes the next sweep check all rows, because a pending turn may have been decided on the dead node.
    pub(super) fn recheck_all(&self) {
        self.shared.waiting.retain(|_| false);
    }

    /// Sweeps open turns and expired threads once. Failures are logged; the next sweep repeats the work.
    pub(super) async fn sweep(&self) {
        if let Err(error) = self.sweep_turns().await {
            tracing::warn!(%error, "the sweep of open turns was interrupted");
        }
        if let Err(error) = self.sweep_threads().await {
            tracing::warn!(%error, "the sweep of threads was interrupted");
        }
        self.shared.counters.sweeps.fetch_add(1, Ordering::Relaxed);
    }

    async fn sweep_turns(&self) -> Result<()> {
        let mut found = HashSet::new();
        let mut after: Option<OpenTurnRow> = None;
        loop {
            let rows = self.shared.dependencies.stores.open_turns.scan(after.as_ref(), ROWS_PER_READ).await?;
            let has_more = rows.len() == ROWS_PER_READ;
            for row in rows {
                let key: Key = (row.org.clone(), row.turn.thread.clone());
                let (turn, now) = (row.turn.number, self.shared.dependencies.environment.checked_now()?);
                let (recorded, forgotten) = self.shared.waiting.get(&key, turn, now);
                let checked = self.check_row(&row, &key, recorded).await;
                if let Some(until) = self.skip_unreadable(&key, checked)? {
                    self.shared.waiting.record(&key, turn, until, forgotten);
                    found.insert(key);
                }
                after = Some(row);
            }
            if !has_more {
                self.shared.waiting.retain(|thread| found.contains(thread));
                return self.shared.dependencies.stores.open_turns.compact().await;
            }
        }
    }

    /// Handles one row. Returns the time until which the row needs no check. None: check it in the next sweep.
    async fn check_row(&self, row: &OpenTurnRow, key: &Key, recorded: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let now = self.shared.dependencies.environment.checked_now()?;
        if let Some(actor) = self.shared.table.find(key) {
            let _ = actor.send_message(Msg::Sweep);
        } else if recorded.is_some() {
            return Ok(recorded);
        }
        let header = self.shared.dependencies.stores.threads.header(&key.0, &key.1).await?;
        let action = classify(row, header.as_ref(), now);
        match action {
            SweepAction::CheckChildren(_) | SweepAction::WaitUntil(_) if recorded.is_some() => return Ok(recorded),
            SweepAction::Remove | SweepAction::Advance | SweepAction::CheckChildren(_)
                if !self.shared.is_responsible_for(&key.0, &key.1, header.as_ref()).await => {}
            SweepAction::Remove => self.remove_ended_row(row).await?,
            SweepAction::Skip => {}
            SweepAction::WaitUntil(_) => self.republish_if_lost(key.clone(), row, header.as_ref()).await,
            SweepAction::CheckChildren(_) | SweepAction::Advance => self.advance(key.clone()).await,
        }
        Ok(action.next_check(now, self.shared.options.sweep_interval))
    }

    /// Removes the row of an ended turn after the turn's audit entries are stored.
    async fn remove_ended_row(&self, row: &OpenTurnRow) -> Result<()> {
        if let Err(error) = audit::write_turn(&self.shared, &row.org, &row.turn).await {
            tracing::warn!(turn = %row.turn, %error, "cannot write the audit entries of a turn; the next sweep retries");
            return Ok(());
        }
        self.shared.dependencies.stores.open_turns.remove(std::slice::from_ref(row)).await
    }

    /// Publishes a pending turn again if Redis lost its published state.
    async fn republish_if_lost(&self, key: Key, row: &OpenTurnRow, header: Option<&ThreadHeader>) {
        let Some(shared_stores) = &self.shared.dependencies.shared_turns else { return };
        if !self.shared.is_responsible_for(&key.0, &key.1, header).await {
            return;
        }
        if matches!(shared_stores.turns.get(&row.org, &row.turn).await, Ok(None))
            && let Some(actor) = self.start(key).await
        {
            let _ = actor.send_message(Msg::Republish);
        }
    }

    /// Starts the conversation of a turn, which ends the turn. A conversation in memory has been notified already.
    async fn advance(&self, key: Key) {
        if self.shared.table.find(&key).is_some() {
            return;
        }
        if let Some(actor) = self.start(key).await {
            let _ = actor.send_message(Msg::Sweep);
        }
    }

    /// Returns the conversation of a thread, started if necessary. None: the node has no capacity.
    async fn start(&self, key: Key) -> Option<ActorRef<Msg>> {
        let (reply, found) = oneshot::channel();
        self.supervisor.send_message(SupervisorMsg::Start(key.clone(), reply)).ok()?;
        found.await.ok()?.ok()?;
        self.shared.table.find(&key)
    }

    /// Deletes expired threads, and continues deletions that were interrupted. If a turn is open, the conversation deletes the
    /// thread: it cancels the turn first, so that no call is left unfinished and watchers receive the end. It also deletes the
    /// threads of child turns, which only the journal names.
    async fn sweep_threads(&self) -> Result<()> {
        // A wrong clock would expire threads for good, possibly after the clock is right again.
        let now = self.shared.dependencies.environment.checked_now()?;
        let threads = &self.shared.dependencies.stores.threads;
        // Unreadable threads stay at the start of the index.
        let limit = DELETIONS_MAX.saturating_add(self.shared.dependencies.stores.unreadable.count());
        let expired: HashSet<Key> = threads.expired(now, limit).await?.into_iter().collect();
        // The recorded pauses of expired threads are invalid.
        self.shared.waiting.retain(|thread| !expired.contains(thread));
        for key in expired {
            let deleted = self.delete_expired(&key).await;
            self.skip_unreadable(&key, deleted)?;
        }
        Ok(())
    }

    async fn delete_expired(&self, key: &Key) -> Result<()> {
        let actor = match self.shared.table.find(key) {
            None => {
                let header = self.shared.dependencies.stores.threads.header(&key.0, &key.1).await?;
                if !self.shared.is_responsible_for(&key.0, &key.1, header.as_ref()).await {
                    return Ok(());
                }
                let has_work = |header: &ThreadHeader| header.open_turn.is_some() || self.may_have_tasks(header);
                if !header.as_ref().is_some_and(has_work) {
                    return self.shared.delete_thread(&key.0, &key.1, None).await;
                }
                self.start(key.clone()).await
            }
            live => live,
        };
        if let Some(actor) = actor {
            let _ = actor.send_message(Msg::DeleteThread);
        }
        Ok(())
    }

    /// Returns the result of a step for one thread. None: the thread is unreadable.
    fn skip_unreadable<T>(&self, (org, thread): &Key, step: Result<T>) -> Result<Option<T>> {
        self.shared.dependencies.stores.unreadable.skip(format_args!("thread {thread} of {org}"), step)
    }
}

impl Sweeper {
    /// Returns true if turns of the thread may have started child turns.
    fn may_have_tasks(&self, header: &ThreadHeader) -> bool {
        let profile = self.shared.dependencies.tools.profile(&header.profile);
        profile.is_ok_and(|found| !found.profile.delegates.is_empty())
    }
}

/// Action that a row requires.
#[derive(Debug, PartialEq, Eq)]
enum SweepAction {
    /// Remove the row: the turn ended, and the header's epoch is not below the row's epoch.
    Remove,
    /// Check the row later: its append may still arrive.
    Skip,
    /// The turn waits for decisions until this time.
    WaitUntil(Timestamp),
    /// The turn waits for child turns until this time: read their states.
    CheckChildren(Timestamp),
    /// The turn has no owner, or its pause or group has expired: advance it.
    Advance,
}

impl SweepAction {
    /// Returns the time until which the row needs no check, also on a node that is not responsible for the thread: a turn may wait
    /// for days, and each check reads its thread. None: check the row in the next sweep.
    fn next_check(&self, now: Timestamp, sweep_interval: Duration) -> Option<Timestamp> {
        match self {
            Self::WaitUntil(until) => Some(next_check(*until, now, sweep_interval)),
            Self::CheckChildren(until) => {
                let next = now.saturating_add(sweep_interval.saturating_mul(CHILDREN_CHECK_SWEEPS));
                Some(next.map_or(*until, |next| next.min(*until)))
            }
            Self::Remove | Self::Skip | Self::Advance => None,
        }
    }
}

/// Returns true if the append that creates the row's thread may still arrive.
fn may_create_thread(row: &OpenTurnRow, now: Timestamp) -> bool {
    let inserted = row.until.saturating_sub(SignedDuration::from_hours(OPEN_TURN_ROW_HOURS));
    let first = row.turn.number == 1 && row.epoch == 1;
    first && inserted.is_ok_and(|inserted| now.duration_since(inserted) < FIRST_APPEND_TIMEOUT)
}

/// Returns the time of the next check of a turn that waits for decisions until `until`.
fn next_check(until: Timestamp, now: Timestamp, sweep_interval: Duration) -> Timestamp {
    let interval = sweep_interval.saturating_mul(CHECK_INTERVAL_SWEEPS).min(REPUBLISH_INTERVAL);
    now.saturating_add(interval).map_or(until, |next| until.min(next))
}

fn classify(row: &OpenTurnRow, header: Option<&ThreadHeader>, now: Timestamp) -> SweepAction {
    let Some(header) = header else {
        return if may_create_thread(row, now) { SweepAction::Skip } else { SweepAction::Remove };
    };
    if is_open_row_over(header, row) {
        return SweepAction::Remove;
    }
    match header.open_turn.as_ref().filter(|open| open.number == row.turn.number) {
        None if row.until <= now => SweepAction::Remove,
        None => SweepAction::Skip,
        Some(open) => match (open.phase, open.expires_at) {
            (Phase::Paused, Some(until)) if now < until => SweepAction::WaitUntil(until),
            (Phase::AwaitingChildren, Some(until)) if now < until => SweepAction::CheckChildren(until),
            (Phase::Paused | Phase::Running | Phase::Executing | Phase::AwaitingChildren | Phase::Closing, _) => {
                SweepAction::Advance
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use folio_history::thread::{NewThread, OpenTurn};
    use folio_types::{OrgId, Principal, Role, ThreadId, TurnId, UserId};

    use super::*;

    fn header(epoch: u64, turns: u32, open_turn: Option<OpenTurn>) -> ThreadHeader {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let new = NewThread::new(ThreadId::derive(&["t"]), &principal, "document", vec![], Timestamp::UNIX_EPOCH);
        ThreadHeader { epoch, turns, open_turn, ..new.header() }
    }

    #[test]
    fn a_waiting_turn_is_checked_after_120_sweeps_ten_minutes_or_at_its_end() {
        let second = |n| Timestamp::from_second(n).unwrap();
        let next = |until, sweep| next_check(second(until), second(100), Duration::from_secs(sweep)).as_second();
        assert_eq!(next(100_000, 1), 220);
        assert_eq!(next(200, 1), 200);
        assert_eq!((next(100_000, 5), next(100_000, 3_600)), (700, 700));
    }

    #[test]
    fn a_turn_with_child_turns_is_checked_after_6_sweeps_or_at_its_end_on_every_node() {
        let second = |n| Timestamp::from_second(n).unwrap();
        let next = |action: SweepAction| action.next_check(second(100), Duration::from_secs(5));
        assert_eq!(next(SweepAction::CheckChildren(second(100_000))), Some(second(130)));
        assert_eq!(next(SweepAction::CheckChildren(second(110))), Some(second(110)));
        assert_eq!(next(SweepAction::WaitUntil(second(100_000))), Some(second(700)));
        assert_eq!([SweepAction::Remove, SweepAction::Skip, SweepAction::Advance].map(next), [None; 3]);
    }

    #[test]
    fn a_row_is_removed_only_if_its_turn_ended_at_its_epoch_or_later() {
        let thread = ThreadId::derive(&["t"]);
        let second = |n| Timestamp::from_second(n).unwrap();
        let row = OpenTurnRow {
            org: OrgId::derive(&["o"]),
            turn: TurnId::new(thread, 1),
            epoch: 2,
            at: second(0),
            until: second(1_000),
        };
        let open = |phase, expires_at| Some(OpenTurn { number: 1, phase, expires_at });
        let classified = |header: ThreadHeader| classify(&row, Some(&header), second(100));
        assert_eq!(classify(&row, None, second(100)), SweepAction::Remove);
        let until = second(1_000 + OPEN_TURN_ROW_HOURS * 3_600);
        let first = OpenTurnRow { epoch: 1, until, ..row.clone() };
        assert_eq!(classify(&first, None, second(4_599)), SweepAction::Skip, "its first append may arrive");
        assert_eq!(classify(&first, None, second(4_600)), SweepAction::Remove);
        assert_eq!(classified(header(2, 1, None)), SweepAction::Remove);
        assert_eq!(classified(header(1, 1, None)), SweepAction::Skip, "the append of the row may still arrive");
        assert_eq!(classified(header(2, 0, None)), SweepAction::Skip);
        assert_eq!(classified(header(2, 1, open(Phase::Running, None))), SweepAction::Advance);
        let group = |until| classified(header(2, 1, open(Phase::AwaitingChildren, Some(second(until)))));
        assert_eq!((group(200), group(100)), (SweepAction::CheckChildren(second(200)), SweepAction::Advance));
        let paused = header(2, 1, open(Phase::Paused, Some(second(200))));
        assert_eq!(classified(paused), SweepAction::WaitUntil(second(200)));
        assert_eq!(classified(header(2, 1, open(Phase::Paused, Some(second(100))))), SweepAction::Advance);
    }
}
