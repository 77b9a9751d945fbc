//! Runs one job: performs the commands of its state machine. The items run in tasks of their own, but only the actor
//! of the job changes the header.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use folio_history::job::{
    ItemOutcome, ItemState, JobCommand, JobHeader, JobItem, JobQueue, JobState, JobWrite, JobWritten, OpenJobRow,
    RowAction, Steps, WaitReason, current_principal, retry_at, row_action,
};
use folio_types::{Error, Principal, Reason};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::kind::{is_wait_of_item, wait_reason};
use crate::shared::{Key, Shared};
use crate::{ItemTask, JobKind};

/// The reason for which a run ends before the job does.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another process changed the job: it was cancelled, paused or taken over.
    Replaced,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Runner<'a> {
    shared: &'a Shared,
    key: &'a Key,
    kind: Arc<dyn JobKind>,
    /// The newest header that this runner wrote.
    header: JobHeader,
    /// Maximum number of items that run at a time. It falls to the number that had enough credit and capacity.
    items_max: usize,
    /// Time of the next [`Self::check`]. The end of an item or of a page does not move it, so that a job with short items also
    /// renews its slot.
    next_check: Instant,
    /// Time that the job waited until this start, in seconds. The span of the first attempt takes it.
    waited: Option<f64>,
}

/// An attempt of an item that this runner started.
struct Attempt {
    index: usize,
    item: u32,
    attempt: u32,
    progress: watch::Receiver<Option<Steps>>,
    record: watch::Receiver<Option<Value>>,
}

/// The result of an attempt. None: a pause ended.
type Ended = Option<Result<Value, Error>>;

/// The running attempts of items, and the pauses after failed attempts, as tasks. Dropping it aborts them.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Ended>,
    attempts: HashMap<task::Id, Attempt>,
    /// The indexes of the items that pause.
    paused: HashMap<task::Id, usize>,
    /// The items that wait for decisions or for another job, by index. They are attempted again after the job has waited.
    postponed: BTreeMap<usize, (WaitReason, Error)>,
    /// The wait for credit, capacity or a store. No further attempt starts, and the job waits once the others have ended.
    wait: Option<(WaitReason, Error, Option<ItemOutcome>)>,
}

/// Starts a job and runs its items until it ends, waits or is handed over. Returns at once if the job must not start.
pub(crate) async fn run(shared: &Shared, key: &Key) -> Result<(), Stop> {
    let Some(header) = shared.jobs().header(&key.0, &key.1).await? else { return Ok(()) };
    let Some(kind) = shared.kind(&header.kind) else { return Ok(()) };
    // The header may have changed since the sweep read it.
    let action = row_action(&OpenJobRow::of(&header), Some(&header), |owner| shared.liveness(owner), shared.now());
    if action != RowAction::Start {
        return Ok(());
    }
    let member = shared.dependencies.stores.access().member(&key.0, &header.principal.user).await?;
    let access = current_principal(&header.principal, member.as_ref(), kind.role_min());
    let owner = shared.dependencies.incarnation.clone();
    let items_max = usize::try_from(shared.options.limits.items_running_max).unwrap_or(usize::MAX);
    let next_check = Instant::now() + shared.options.poll_interval;
    let waited = header.ready_since().map(|since| shared.now().duration_since(since).as_secs_f64().max(0.0));
    let mut runner = Runner { shared, key, kind, header, items_max, next_check, waited };
    runner.write("start", JobCommand::Start { owner, access: access.clone() }, None).await?;
    // The command `Start` without access has failed the job.
    let Ok(principal) = access else { return Ok(()) };
    while runner.header.state == JobState::Running {
        match (runner.header.next_item(), runner.header.next_page()) {
            _ if shared.draining.is_cancelled() => runner.write("release", JobCommand::Release, None).await?,
            (Some(_), _) => runner.run_items(&principal).await?,
            (None, Some(page)) => runner.advance(page).await?,
            (None, None) => runner.write("complete", JobCommand::Complete, None).await?,
        }
    }
    Ok(())
}

impl Runner<'_> {
    /// Runs the items of the page, several at a time, until all of them have ended, the job waits, ends or is handed over, or
    /// the node drains.
    async fn run_items(&mut self, principal: &Principal) -> Result<(), Stop> {
        let mut running = Running::default();
        loop {
            self.begin_items(principal, &mut running).await?;
            if self.header.state != JobState::Running {
                return Ok(());
            }
            if running.tasks.is_empty() {
                // A node that drains leaves the other items to the next owner.
                let has_startable = self.startable_item(&running).is_some();
                let postponed = running.postponed.into_values().next().filter(|_| !has_startable);
                let wait = running.wait.or_else(|| postponed.map(|(reason, error)| (reason, error, None)));
                return match wait {
                    None => Ok(()),
                    Some((reason, error, outcome)) => {
                        let retry_at = retry_at(self.header.blocked_since, self.shared.now());
                        let wait = JobCommand::Wait { reason, error: Some(error), retry_at };
                        self.write("wait", wait, outcome).await
                    }
                };
            }
            let shared = self.shared;
            tokio::select! {
                Some(ended) = running.tasks.join_next_with_id() => self.end(ended, &mut running).await?,
                () = shared.interrupted.cancelled() => self.write("release", JobCommand::Release, None).await?,
                () = tokio::time::sleep_until(self.next_check) => self.check(&running.attempts).await?,
            }
        }
    }

    /// Starts attempts of pending items, unless the node drains or the job has to wait.
    async fn begin_items(&mut self, principal: &Principal, running: &mut Running) -> Result<(), Stop> {
        while self.header.state == JobState::Running
            && running.tasks.len() < self.items_max
            && running.wait.is_none()
            && !self.shared.draining.is_cancelled()
        {
            let Some(index) = self.startable_item(running) else { return Ok(()) };
            self.write("begin", JobCommand::Begin { item: index }, None).await?;
            // None: the job exceeded its running time.
            let Some(run) = self.header.run_of(index) else { return Ok(()) };
            let (item, attempt) = (run.item, run.attempt);
            let (steps, progress) = watch::channel(None);
            let (record, recorded) = watch::channel(None);
            let task = ItemTask { job: self.header.clone(), principal: principal.clone(), run, steps, record };
            let (kind, span) = (Arc::clone(&self.kind), item_span(self.kind.name(), self.waited.take()));
            let of_attempt = span.clone();
            let work = async move {
                let result = kind.run_item(task).await;
                record_end(&of_attempt, &result);
                Some(result)
            };
            let id = running.tasks.spawn(work.instrument(span)).id();
            running.attempts.insert(id, Attempt { index, item, attempt, progress, record: recorded });
        }
        Ok(())
    }

    /// Returns the index of the first item of which an attempt may start now.
    fn startable_item(&self, running: &Running) -> Option<usize> {
        let startable = |(index, item): (usize, &JobItem)| {
            let is_delayed =
                running.postponed.contains_key(&index) || running.paused.values().any(|paused| *paused == index);
            (item.state == ItemState::Pending && !is_delayed).then_some(index)
        };
        self.header.items.iter().enumerate().find_map(startable)
    }

    /// Handles the end of an attempt or a pause. An attempt that panicked counts as a failure of its item.
    async fn end(&mut self, ended: Result<(task::Id, Ended), JoinError>, running: &mut Running) -> Result<(), Stop> {
        let panicked = || Error::unavailable(Reason::NodeLost, "the work on the item panicked");
        let (id, result) = match ended {
            Ok((id, Some(result))) => (id, result),
            Ok((id, None)) => {
                running.paused.remove(&id);
                return Ok(());
            }
            Err(error) => (error.id(), Err(panicked())),
        };
        let Some(attempt) = running.attempts.remove(&id) else { return Ok(()) };
        match result {
            Ok(value) => self.finish(&attempt, value, running).await,
            Err(error) => {
                let value = attempt.record.borrow().clone();
                let at = self.shared.now();
                let outcome =
                    value.map(|value| ItemOutcome { item: attempt.item, attempt: attempt.attempt, value, at });
                self.handle_failure(attempt.index, error, outcome, running).await
            }
        }
    }

    async fn finish(&mut self, attempt: &Attempt, value: Value, running: &mut Running) -> Result<(), Stop> {
        let outcome = ItemOutcome { item: attempt.item, attempt: attempt.attempt, value, at: self.shared.now() };
        let finish = JobCommand::Finish { item: attempt.index, result: Ok(()) };
        match self.write("finish", finish, Some(outcome)).await {
            Err(Stop::Failed(error)) if error.reason == Reason::TooLarge => {
                self.handle_failure(attempt.index, error, None, running).await
            }
            written => written,
        }
    }

    /// Ends a failed attempt. `outcome`: the record of the attempt. An item that lacks credit or capacity which other attempts
    /// may use is postponed, and so is an item that waits for decisions or for another job while another one can run. An item for which the job
    /// waits remains running until the other attempts have ended, because the wait interrupts them.
    async fn handle_failure(
        &mut self,
        index: usize,
        error: Error,
        outcome: Option<ItemOutcome>,
        running: &mut Running,
    ) -> Result<(), Stop> {
        if let Some(reason) = wait_reason(&error) {
            let has_running = !running.attempts.is_empty();
            match reason {
                _ if is_wait_of_item(&error) && (has_running || self.startable_item(running).is_some()) => {
                    running.postponed.insert(index, (reason, error));
                }
                WaitReason::Credit | WaitReason::Limit if has_running && !is_wait_of_item(&error) => {
                    self.items_max = running.attempts.len();
                }
                _ => {
                    running.wait.get_or_insert((reason, error, outcome));
                    return Ok(());
                }
            }
            return self.write("postpone", JobCommand::Postpone { item: index }, None).await;
        }
        self.write("finish", JobCommand::Finish { item: index, result: Err(error) }, outcome).await?;
        let item = self.header.items.get(index).filter(|item| item.state == ItemState::Pending);
        if let Some(pause) = item.map(|item| self.pause(item.failures)) {
            let pause = async move {
                tokio::time::sleep(pause).await;
                None
            };
            running.paused.insert(running.tasks.spawn(pause).id(), index);
        }
        Ok(())
    }

    /// Ends the work that the items of the current page left open, stores the page, all of whose items have ended, and continues with
    /// the next one. The job fails if the next page is missing or unreadable, because a later start cannot repair it.
    async fn advance(&mut self, page: u32) -> Result<(), Stop> {
        let pages = self.shared.dependencies.stores.job_pages();
        self.kind.end_job(&self.header).await?;
        pages.finish(&self.header).await?;
        match pages.pages(&self.header, &[page]).await {
            Ok(next) => {
                let page = next.into_iter().next().unwrap_or_default();
                self.write("advance", JobCommand::Advance { page }, None).await
            }
            Err(error) if !error.is_retriable() => self.write("fail", JobCommand::Fail { error }, None).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the pause after the nth failure of an item.
    fn pause(&self, failures: u32) -> Duration {
        self.shared.options.retry_pause.saturating_mul(1 << failures.saturating_sub(1).min(8))
    }

    /// Renews the slot, stores new progress, and stops if another process changed the job.
    async fn check(&mut self, attempts: &HashMap<task::Id, Attempt>) -> Result<(), Stop> {
        self.next_check = Instant::now() + self.shared.options.poll_interval;
        self.shared.sync_slot(self.key, true).await;
        match self.shared.jobs().fence(&self.key.0, &self.key.1).await {
            Ok(Some(stored)) if stored == self.header.fence() => {}
            Ok(_) => return Err(Stop::Replaced),
            // The items continue while the store is unavailable; the fence protects their end.
            Err(error) if error.reason == Reason::StoreUnavailable => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let since = Duration::try_from(self.shared.now().duration_since(self.header.updated_at)).unwrap_or_default();
        let stored = |index: usize| self.header.items.get(index).and_then(|item| item.steps);
        let newest = attempts.values().filter_map(|attempt| Some((attempt.index, (*attempt.progress.borrow())?)));
        let steps: Vec<(usize, Steps)> = newest.filter(|(index, steps)| stored(*index) != Some(*steps)).collect();
        if since >= self.shared.options.checkpoint_interval || !steps.is_empty() {
            self.write("checkpoint", JobCommand::Checkpoint { steps }, None).await?;
        }
        Ok(())
    }

    /// Writes a command. Repeats the write until the store answers, because only the answer permits the next step.
    async fn write(&mut self, step: &str, command: JobCommand, outcome: Option<ItemOutcome>) -> Result<(), Stop> {
        let (shared, environment) = (self.shared, &self.shared.dependencies.environment);
        let Some(after) = self.header.after(command, environment.now())? else { return Ok(()) };
        let write = JobWrite { batch: environment.random(), before: self.header.clone(), after, outcome };
        // A text that becomes ready causes a job, so that a failpoint of another job would stop at it.
        let has_failpoints = self.header.queue() != JobQueue::Ingestions;
        if has_failpoints {
            shared.hit(step, "before").await;
        }
        let written = loop {
            match shared.jobs().write(write.clone()).await {
                Ok(written) => break written,
                Err(error) if error.reason == Reason::StoreUnavailable => {
                    tracing::debug!(%error, job = %self.key.1, "a write of a job is repeated");
                }
                Err(error) => return Err(error.into()),
            }
            // The store sends no notification when it is available again.
            tokio::time::sleep(shared.options.retry_pause).await;
        };
        if has_failpoints {
            shared.hit(step, "after").await;
        }
        match written {
            JobWritten::Done(header) if header.fence() == write.after.fence() => {
                self.header = *header;
                Ok(())
            }
            JobWritten::Done(_) | JobWritten::Refused(_) => Err(Stop::Replaced),
        }
    }
}

/// Returns the span of an attempt. `waited`: the time that the job waited until its start, in seconds.
fn item_span(kind: &'static str, waited: Option<f64>) -> Span {
    let span = tracing::info_span!(
        "job_item",
        otel.name = format_args!("run item {kind}"),
        otel.status_code = Empty,
        "folio.job.kind" = kind,
        "folio.job.waited_seconds" = Empty,
        "folio.item.outcome" = Empty,
        "error.type" = Empty,
    );
    if let Some(seconds) = waited {
        span.record("folio.job.waited_seconds", seconds);
    }
    span
}

/// Records the end of an attempt. The span of an attempt that was interrupted has no outcome.
fn record_end(span: &Span, result: &Result<Value, Error>) {
    let outcome = outcome_of(result);
    span.record("folio.item.outcome", outcome);
    if let Err(error) = result {
        span.record("error.type", error.reason.as_str());
    }
    if outcome == FAILED {
        span.record("otel.status_code", "error");
    }
}

const FAILED: &str = "failed";

/// Returns the name of the outcome of an attempt: `done`, `skipped` ([`JobKind::run_item`]), `waits` if the item or its job waits
/// for credit, capacity, a store or a decision, `failed`.
fn outcome_of(result: &Result<Value, Error>) -> &'static str {
    match result {
        Ok(value) if value.get("skipped").is_some() => "skipped",
        Ok(_) => "done",
        Err(error) if wait_reason(error).is_some() => "waits",
        Err(_) => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_attempt_has_one_outcome() {
        let error = |reason| Err(Error::exhausted(reason, "no"));
        for (result, outcome) in [
            (Ok(json!({ "extraction_id": "e" })), "done"),
            (Ok(json!("skipped")), "done"),
            (Ok(json!({ "skipped": "the document has no text" })), "skipped"),
            (error(Reason::CreditExhausted), "waits"),
            (error(Reason::BudgetExhausted), "failed"),
        ] {
            assert_eq!(outcome_of(&result), outcome, "{result:?}");
        }
    }
}
