//! Runs one job: performs the commands of its state machine.

use std::sync::Arc;
use std::time::Duration;

use folio_history::job::{
    ItemOutcome, ItemState, JobCommand, JobHeader, JobState, JobWrite, JobWritten, OpenJobRow, RowAction, Steps,
    current_principal, retry_at, row_action,
};
use folio_types::{Error, Principal, Reason};
use serde_json::Value;
use tokio::sync::watch;

use crate::kind::wait_reason;
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
}

/// Starts a job and runs its items until it ends, waits or is handed over. Returns at once if the job must not start.
pub(crate) async fn run(shared: &Shared, key: &Key) -> Result<(), Stop> {
    let Some(header) = shared.jobs().header(&key.0, &key.1).await? else { return Ok(()) };
    let Some(kind) = shared.kind(&header.kind) else { return Ok(()) };
    // The sweep has read an older header.
    let action = row_action(&OpenJobRow::of(&header), Some(&header), |owner| shared.liveness(owner), shared.now());
    if action != RowAction::Start {
        return Ok(());
    }
    let member = shared.dependencies.stores.access().member(&key.0, &header.principal.user).await?;
    let access = current_principal(&header.principal, member.as_ref(), kind.role_min());
    let owner = shared.dependencies.incarnation.clone();
    let mut runner = Runner { shared, key, kind, header };
    runner.write("start", JobCommand::Start { owner, access: access.clone() }, None).await?;
    // The start failed the job of a principal without access.
    let Ok(principal) = access else { return Ok(()) };
    while runner.header.state == JobState::Running {
        match runner.header.next_item() {
            _ if shared.draining.is_cancelled() => runner.write("release", JobCommand::Release, None).await?,
            Some(index) => runner.run_item(index, &principal).await?,
            None => runner.write("complete", JobCommand::Complete, None).await?,
        }
    }
    Ok(())
}

impl Runner<'_> {
    async fn run_item(&mut self, index: usize, principal: &Principal) -> Result<(), Stop> {
        self.write("begin", JobCommand::Begin { item: index }, None).await?;
        // None: the job exceeded its running time.
        let Some(run) = self.header.run_of(index) else { return Ok(()) };
        let (item, attempt) = (run.item, run.attempt);
        let (steps, progress) = watch::channel(None);
        let (record, recorded) = watch::channel(None);
        let task = ItemTask { job: self.header.clone(), principal: principal.clone(), run, steps, record };
        let kind = Arc::clone(&self.kind);
        match self.attend(kind.run_item(task), &progress).await? {
            None => Ok(()),
            Some(Err(error)) => {
                let value = recorded.borrow().clone();
                let at = self.shared.now();
                let outcome = value.map(|value| ItemOutcome { item, attempt, value, at });
                self.handle_failure(index, error, outcome).await
            }
            Some(Ok(value)) => self.finish(index, (item, attempt), value).await,
        }
    }

    async fn finish(&mut self, index: usize, (item, attempt): (u32, u32), value: Value) -> Result<(), Stop> {
        let outcome = ItemOutcome { item, attempt, value, at: self.shared.now() };
        let finish = JobCommand::Finish { item: index, result: Ok(()) };
        match self.write("finish", finish, Some(outcome)).await {
            Err(Stop::Failed(error)) if error.reason == Reason::TooLarge => {
                self.handle_failure(index, error, None).await
            }
            written => written,
        }
    }

    /// Ends a failed attempt. `outcome`: the record of the attempt.
    async fn handle_failure(&mut self, index: usize, error: Error, outcome: Option<ItemOutcome>) -> Result<(), Stop> {
        if let Some(reason) = wait_reason(&error) {
            let retry_at = retry_at(self.header.blocked_since, self.shared.now());
            let wait = JobCommand::Wait { reason, error: Some(error), retry_at };
            return self.write("wait", wait, outcome).await;
        }
        self.write("finish", JobCommand::Finish { item: index, result: Err(error) }, outcome).await?;
        let item = self.header.items.get(index).filter(|item| item.state == ItemState::Pending);
        if let Some(pause) = item.map(|item| self.pause(item.failures)) {
            self.attend(tokio::time::sleep(pause), &watch::channel(None).1).await?;
        }
        Ok(())
    }

    /// Returns the pause after the nth failure of an item.
    fn pause(&self, failures: u32) -> Duration {
        self.shared.options.retry_pause.saturating_mul(1 << failures.saturating_sub(1).min(8))
    }

    /// Awaits work while it checks the job periodically and stores the progress of the work. None: the job ended or was
    /// handed over, and the work was dropped.
    async fn attend<T>(
        &mut self,
        work: impl Future<Output = T> + Send,
        progress: &watch::Receiver<Option<Steps>>,
    ) -> Result<Option<T>, Stop> {
        let shared = self.shared;
        let mut work = std::pin::pin!(work);
        while self.header.state == JobState::Running {
            tokio::select! {
                done = &mut work => return Ok(Some(done)),
                () = shared.interrupted.cancelled() => self.write("release", JobCommand::Release, None).await?,
                () = tokio::time::sleep(shared.options.poll_interval) => {
                    let steps = *progress.borrow();
                    self.check(steps).await?;
                }
            }
        }
        Ok(None)
    }

    /// Renews the slot, stores new progress, and stops if another process changed the job.
    async fn check(&mut self, steps: Option<Steps>) -> Result<(), Stop> {
        self.shared.sync_slot(self.key, true).await;
        match self.shared.jobs().header(&self.key.0, &self.key.1).await {
            Ok(Some(stored)) if stored.fence() == self.header.fence() => {}
            Ok(_) => return Err(Stop::Replaced),
            // The item continues while the store is unavailable; the fence protects its end.
            Err(error) if error.reason == Reason::StoreUnavailable => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let since = Duration::try_from(self.shared.now().duration_since(self.header.updated_at)).unwrap_or_default();
        let stored = self.header.items.iter().find(|item| item.state == ItemState::Running).and_then(|item| item.steps);
        if since >= self.shared.options.checkpoint_interval || steps != stored {
            self.write("checkpoint", JobCommand::Checkpoint { steps }, None).await?;
        }
        Ok(())
    }

    /// Writes a command. Repeats the write until the store answers, because only the answer permits the next step.
    async fn write(&mut self, step: &str, command: JobCommand, outcome: Option<ItemOutcome>) -> Result<(), Stop> {
        let (shared, environment) = (self.shared, &self.shared.dependencies.environment);
        let Some(after) = self.header.after(command, environment.now())? else { return Ok(()) };
        let write = JobWrite { batch: environment.random(), before: self.header.clone(), after, outcome };
        shared.hit(step, "before").await;
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
        shared.hit(step, "after").await;
        match written {
            JobWritten::Done(header) if header.fence() == write.after.fence() => {
                self.header = *header;
                Ok(())
            }
            JobWritten::Done(_) | JobWritten::Refused(_) => Err(Stop::Replaced),
        }
    }
}
