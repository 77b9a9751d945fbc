//! The commands of a job.

use std::time::Duration;

use folio_types::limits::{JOB_FAILURES_MAX, JOB_MESSAGE_CHARS};
use folio_types::{Code, Error, Incarnation, Principal, Reason, Result, Timestamp};

use super::{ItemState, JobHeader, JobItem, JobPage, JobState, Steps, WaitReason};

/// Minimum and maximum time between two starts of a blocked job.
const RETRY_MIN: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(15 * 60);

/// A command to a job. `Start` to `Fail` come from the owner, the others from users and the sweep. Items are named by
/// their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobCommand {
    /// Takes the job over. Of a running job, the caller has verified that the owner is dead, or that no actor of this
    /// incarnation runs it.
    Start {
        owner: Incarnation,
        /// The result of [`super::current_principal`]. An error fails the job.
        access: Result<Principal>,
    },
    /// Starts an attempt of a pending item.
    Begin {
        item: usize,
    },
    /// Ends the attempt of an item. A retriable error makes the item pending until it has failed
    /// [`JOB_FAILURES_MAX`] times.
    Finish {
        item: usize,
        result: Result<()>,
    },
    /// Makes a running item pending without a failure, because it lacks credit or capacity that other running items use, or
    /// waits for decisions while other items can run.
    Postpone {
        item: usize,
    },
    /// Counts the running time until now, and stores the progress of running items.
    Checkpoint {
        steps: Vec<(usize, Steps)>,
    },
    /// Replaces the current page, all of whose items have ended, by the next one. The caller has stored the current page.
    Advance {
        page: JobPage,
    },
    /// Interrupts the running attempts until `retry_at`.
    Wait {
        reason: WaitReason,
        error: Option<Error>,
        retry_at: Timestamp,
    },
    /// Hands the job over: the node stops. Interrupted attempts do not count as failures.
    Release,
    /// Ends the job, all of whose items have ended.
    Complete,
    Fail {
        error: Error,
    },
    Cancel,
    Pause,
    /// Queues a paused job, or a waiting one before its time.
    Resume,
    /// Fails the job if it is open for too long.
    Expire,
}

/// Returns the time of the next start of a job that is blocked since a time: after as long as it is blocked, at least
/// 30 s and at most 15 min, so that the delay doubles.
pub fn retry_at(blocked_since: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let blocked = blocked_since
        .map_or(Duration::ZERO, |since| Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO));
    now.saturating_add(blocked.clamp(RETRY_MIN, RETRY_MAX)).unwrap_or(Timestamp::MAX)
}

impl JobHeader {
    /// Returns the header after a command. None: the command changes nothing, because it was already executed.
    ///
    /// # Errors
    /// `JOB_ENDED`; `VERSION_CONFLICT` if the state does not permit the command, so that the owner reads the job again.
    pub fn after(&self, command: JobCommand, now: Timestamp) -> Result<Option<Self>> {
        match (&command, &self.state) {
            (JobCommand::Cancel, JobState::Cancelled)
            | (JobCommand::Pause, JobState::Paused)
            | (JobCommand::Resume, JobState::Queued | JobState::Running) => return Ok(None),
            (JobCommand::Expire, _) if !self.is_ended() && now < self.open_until() => return Ok(None),
            _ if self.is_ended() => return Err(self.ended_error()),
            _ => {}
        }
        let mut next = self.clone();
        if self.state == JobState::Running && !matches!(command, JobCommand::Start { .. }) {
            let ran = now.duration_since(self.updated_at).as_millis();
            next.running_millis = next.running_millis.saturating_add(u64::try_from(ran).unwrap_or(0));
        }
        next.apply(command, now)?;
        next.version += 1;
        next.updated_at = now.max(self.updated_at);
        Ok(Some(next))
    }

    fn apply(&mut self, command: JobCommand, now: Timestamp) -> Result<()> {
        match command {
            JobCommand::Start { owner, access } => return self.start(owner, access, now),
            JobCommand::Cancel => self.end(JobState::Cancelled, now),
            JobCommand::Pause => self.interrupt(JobState::Paused),
            JobCommand::Resume => {
                if self.state == JobState::Paused {
                    self.blocked_since = None;
                }
                self.state = JobState::Queued;
            }
            JobCommand::Expire => self.end(too_old(), now),
            _ if self.state != JobState::Running => return Err(Error::version_conflict("the job does not run")),
            JobCommand::Begin { item } => self.begin(item, now)?,
            JobCommand::Finish { item, result } => self.finish(item, result, now)?,
            JobCommand::Postpone { item } => {
                self.running_item(item)?.state = ItemState::Pending;
                self.check_running_time(now);
            }
            JobCommand::Checkpoint { steps } => {
                for (index, steps) in steps {
                    let item = self.items.get_mut(index).filter(|item| item.state == ItemState::Running);
                    if let Some(item) = item {
                        item.steps = Some(steps);
                    }
                }
                self.check_running_time(now);
            }
            JobCommand::Advance { page } => {
                if self.has_open_items() || self.next_page().is_none() {
                    return Err(Error::internal("a job cannot leave its last page, or a page with open items"));
                }
                self.advance(page);
                self.check_running_time(now);
            }
            JobCommand::Wait { reason, error, retry_at } => self.wait(reason, error, retry_at, now),
            JobCommand::Release => self.interrupt(JobState::Queued),
            JobCommand::Complete => {
                if self.has_open_items() || self.next_page().is_some() {
                    return Err(Error::internal("a job with open items cannot be completed"));
                }
                self.end(JobState::Completed, now);
            }
            JobCommand::Fail { error } => self.end(JobState::Failed(stored(error)), now),
        }
        Ok(())
    }

    fn start(&mut self, owner: Incarnation, access: Result<Principal>, now: Timestamp) -> Result<()> {
        match &self.state {
            JobState::Queued | JobState::Running => {}
            JobState::Waiting { retry_at, .. } if *retry_at <= now => {}
            _ => return Err(Error::version_conflict("the job waits or is paused")),
        }
        self.release_items(self.state == JobState::Running);
        self.epoch += 1;
        self.owner = Some(owner);
        self.state = JobState::Running;
        match access {
            Err(error) => self.end(JobState::Failed(stored(error)), now),
            Ok(_) if self.open_until() <= now => self.end(too_old(), now),
            Ok(_) => self.check_running_time(now),
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, now: Timestamp) -> Result<()> {
        let item = self.items.get_mut(index).filter(|item| item.state == ItemState::Pending);
        let item = item.ok_or_else(|| Error::version_conflict("the item is not pending"))?;
        item.state = ItemState::Running;
        item.attempt = item.attempt.saturating_add(1);
        item.steps = None;
        self.check_running_time(now);
        Ok(())
    }

    fn finish(&mut self, index: usize, result: Result<()>, now: Timestamp) -> Result<()> {
        let item = self.running_item(index)?;
        match result {
            Ok(()) => {
                item.state = ItemState::Done;
                item.steps = None;
                self.blocked_since = None;
            }
            Err(error) if error.is_retriable() => item.fail(error),
            Err(error) => item.state = ItemState::Failed(stored(error)),
        }
        if self.has_open_items() || self.next_page().is_some() {
            self.check_running_time(now);
        }
        Ok(())
    }

    fn running_item(&mut self, index: usize) -> Result<&mut JobItem> {
        let item = self.items.get_mut(index).filter(|item| item.state == ItemState::Running);
        item.ok_or_else(|| Error::version_conflict("no attempt of the item runs"))
    }

    /// Returns true if an item of the current page has not ended.
    fn has_open_items(&self) -> bool {
        self.items.iter().any(|item| !item.has_ended())
    }

    fn wait(&mut self, reason: WaitReason, error: Option<Error>, retry_at: Timestamp, now: Timestamp) {
        if matches!(reason, WaitReason::Credit | WaitReason::Limit) {
            self.blocked_since.get_or_insert(now);
            if self.blocked_until().is_some_and(|until| until <= now) {
                let error = error.unwrap_or_else(|| expired("the job waited too long for credit or limits"));
                return self.end(JobState::Failed(stored(error)), now);
            }
        }
        self.interrupt(JobState::Waiting { reason, error: error.map(stored), retry_at });
    }

    /// Fails the job if it ran for too long.
    fn check_running_time(&mut self, now: Timestamp) {
        if self.running_millis >= self.running_max_millis {
            let seconds = self.running_max_millis / 1_000;
            self.end(JobState::Failed(expired(&format!("the job exceeded its running time of {seconds} s"))), now);
        }
    }

    fn end(&mut self, state: JobState, now: Timestamp) {
        self.interrupt(state);
        self.ended_at = Some(now);
    }

    fn interrupt(&mut self, state: JobState) {
        self.release_items(false);
        self.state = state;
    }

    /// Makes running items pending. `is_failure`: their owner died.
    fn release_items(&mut self, is_failure: bool) {
        for item in self.items.iter_mut().filter(|item| item.state == ItemState::Running) {
            if is_failure {
                item.fail(Error::unavailable(Reason::NodeLost, "the node died while it worked on the item"));
            } else {
                item.state = ItemState::Pending;
            }
        }
    }

    fn ended_error(&self) -> Error {
        Error::precondition(Reason::JobEnded, format!("the job {} has ended", self.id))
    }
}

impl super::JobItem {
    pub fn has_ended(&self) -> bool {
        matches!(self.state, ItemState::Done | ItemState::Failed(_))
    }

    /// Counts a failure, and fails the item after the last one.
    fn fail(&mut self, error: Error) {
        self.failures = self.failures.saturating_add(1);
        let is_last = self.failures >= JOB_FAILURES_MAX;
        self.state = if is_last { ItemState::Failed(stored(error)) } else { ItemState::Pending };
    }
}

/// Returns an error as a header stores it: with a bounded message and without fields of a request.
fn stored(error: Error) -> Error {
    let message: String = error.message.chars().take(JOB_MESSAGE_CHARS).collect();
    Error { message, ..Error::new(error.code, error.reason, "") }
}

fn expired(message: &str) -> Error {
    Error::new(Code::DeadlineExceeded, Reason::JobExpired, message)
}

fn too_old() -> JobState {
    JobState::Failed(expired("the job did not end within 30 days"))
}
