//! Runs of the extraction agent in jobs: an item drives the turn of a run until the turn ends.

use std::sync::Arc;

use async_trait::async_trait;
use folio_conversation::Conversations;
use folio_history::command::{ApproveAnswer, ApproveCommand, ChatCommand};
use folio_history::event::Event;
use folio_history::job::{ItemState, JobHeader, JobItem, JobState};
use folio_history::peer::{EventStream, SharedPeer};
use folio_jobs::{ItemTask, JobKind};
use folio_knowledge::TurnDriver;
use folio_resources::{Extraction, ExtractionState};
use folio_storage::Stores;
use folio_tools::extraction::{AGENT_JOB_KIND, AgentRunInput, RunEnd, end_run};
use folio_types::{Code, Environment, Error, ExtractionId, Principal, Reason, Result, Role, ThreadId, TurnId};
use futures::StreamExt as _;
use serde_json::{Value, json};

/// Runs turns for jobs.
pub(crate) enum TurnRunner {
    /// The conversations of this process, which is the only node.
    ThisNode(Conversations),
    /// The conversations of all nodes: another node may own the thread of a run.
    AllNodes(SharedPeer),
}

impl TurnRunner {
    async fn start(&self, principal: &Principal, message: ChatCommand) -> Result<EventStream> {
        match self {
            Self::ThisNode(conversations) => conversations.chat(principal, message).await,
            Self::AllNodes(peer) => peer.chat(principal, message).await,
        }
    }

    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<()> {
        match self {
            Self::ThisNode(conversations) => conversations.cancel(principal, turn).await.map(drop),
            Self::AllNodes(peer) => peer.cancel(principal, turn).await.map(drop),
        }
    }

    async fn resume(&self, principal: &Principal, turn: &TurnId, round: u32) -> Result<ApproveAnswer> {
        let command = ApproveCommand {
            turn: turn.clone(),
            round: Some(round),
            decisions: Vec::new(),
            reject_undecided: false,
            continue_auto_approved: true,
        };
        match self {
            Self::ThisNode(conversations) => conversations.approve(principal, command).await,
            Self::AllNodes(peer) => peer.approve(principal, command).await,
        }
    }
}

/// Drives runs of the agent to their end.
pub(crate) struct AgentRuns {
    runner: TurnRunner,
    stores: Stores,
    environment: Arc<dyn Environment>,
}

impl AgentRuns {
    pub(crate) fn new(runner: TurnRunner, stores: Stores, environment: Arc<dyn Environment>) -> Self {
        Self { runner, stores, environment }
    }

    /// Drives the run of an item, and returns the outcome of the item. `id`: the extraction of the run.
    ///
    /// # Errors
    /// `NO_EXTRACTION` if the agent did not complete the extraction; `VERSION_CONFLICT`, without a model call, if the extraction does
    /// not name the run. After an error for which the job attempts the item again, the extraction is still in progress.
    pub(crate) async fn run(&self, task: &ItemTask, id: &ExtractionId, input: &AgentRunInput) -> Result<Value> {
        // The job of a run of its own is created before the request changes the extraction.
        let found = self.stores.of::<Extraction>().get(&task.principal.org, id).await?;
        let Some(found) = found.filter(|found| found.is_run_of(&input.thread)) else {
            let message = "the run has not begun, another run has replaced it, or its extraction was deleted";
            return Err(Error::version_conflict(message));
        };
        if found.state() == ExtractionState::Failed {
            // An earlier attempt or the request has stored the end of the run.
            let failure = found.agent.and_then(|run| run.failure).unwrap_or_default();
            return Err(Error::precondition(Reason::NoExtraction, failure));
        }
        let run = (id, &input.thread);
        let error = match self.drive(&task.principal, input.message()?).await {
            Ok(ended) => match self.end(&task.principal, run, &ended.message).await? {
                ExtractionState::Failed => Error::precondition(Reason::NoExtraction, ended.message),
                ExtractionState::Completed | ExtractionState::InProgress => {
                    return Ok(json!({ "extraction_id": id.as_str() }));
                }
            },
            Err(error) => error,
        };
        if task.is_last_attempt(&error) {
            self.end(&task.principal, run, &error.message).await?;
        }
        Err(error)
    }

    /// Starts, joins or resumes the turn of a run, and follows it to its end. Returns the error of an extraction that is then still
    /// in progress, or of a run that has not stored one.
    pub(crate) async fn drive(&self, principal: &Principal, message: ChatCommand) -> Result<Error> {
        let mut events = self.runner.start(principal, message).await?;
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(event?);
        }
        loop {
            let ended_early = || Error::unavailable(Reason::NodeLost, "the events of the run ended early");
            let Event { turn, kind, .. } = last.ok_or_else(ended_early)?;
            match RunEnd::of(&kind) {
                RunEnd::Ended(error) => return Ok(error),
                RunEnd::Interrupted(error) => return Err(attempted_again(error)),
                // A person decided about an earlier round.
                RunEnd::Waiting { round, is_resumable: true } => {
                    match self.runner.resume(principal, &turn, round).await? {
                        ApproveAnswer::Reached { closing, .. } => last = Some(closing),
                        ApproveAnswer::StillAwaiting { .. } => return Err(pending()),
                    }
                }
                RunEnd::Waiting { is_resumable: false, .. } => return Err(pending()),
            }
        }
    }

    /// Cancels the turn of a run that is not attempted again, so that its calls create nothing more. A thread has one run, which
    /// is its first turn.
    pub(crate) async fn cancel(&self, principal: &Principal, thread: &ThreadId) -> Result<()> {
        ignore_missing(self.runner.cancel(principal, &TurnId::new(thread.clone(), 1)).await)
    }

    async fn end(
        &self,
        principal: &Principal,
        run: (&ExtractionId, &ThreadId),
        reason: &str,
    ) -> Result<ExtractionState> {
        end_run(&self.stores, principal, run, reason, self.environment.now()).await
    }

    /// Ends the run of an item that an ended job, or an ended item, left open: fails an extraction that is still in progress, and
    /// cancels the turn. Idempotent.
    pub(crate) async fn abort(&self, job: &JobHeader, item: &JobItem, run: (&ExtractionId, &ThreadId)) -> Result<()> {
        ignore_missing(self.end(&job.principal, run, &failure(job, item)).await.map(drop))?;
        self.cancel(&job.principal, run.1).await
    }
}

#[async_trait]
impl TurnDriver for AgentRuns {
    async fn drive(&self, principal: &Principal, message: ChatCommand) -> Result<Error> {
        Self::drive(self, principal, message).await
    }

    async fn cancel(&self, principal: &Principal, thread: &ThreadId) -> Result<()> {
        Self::cancel(self, principal, thread).await
    }
}

/// Returns the error of an attempt whose turn was interrupted. A turn that ends because the job is paused is resumed by the next
/// attempt, also if the job was resumed just before the end of the turn.
fn attempted_again(error: Error) -> Error {
    match error.reason {
        Reason::JobPaused => Error::unavailable(Reason::JobPaused, error.message),
        _ => error,
    }
}

/// Returns the error of a run that waits for decisions, so that its job waits too.
fn pending() -> Error {
    Error::precondition(Reason::TurnPending, "a call of the agent waits for an approval")
}

/// The kind of jobs with one run of the agent, whose item is the extraction.
pub(crate) struct AgentJobs(pub(crate) Arc<AgentRuns>);

#[async_trait]
impl JobKind for AgentJobs {
    fn name(&self) -> &'static str {
        AGENT_JOB_KIND
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let id: ExtractionId = task.subject()?.parse()?;
        let input: AgentRunInput = task.job.read_input()?;
        self.0.run(&task, &id, &input).await
    }

    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let input: AgentRunInput = job.read_input()?;
        // The attempt of a done item followed the turn to its end.
        for item in &job.items {
            if item.state != ItemState::Done {
                let id: ExtractionId = item.id.parse()?;
                self.0.abort(job, item, (&id, &input.thread)).await?;
            }
        }
        Ok(())
    }
}

/// Returns the reason for which a job left the run of an item open.
pub(crate) fn failure(job: &JobHeader, item: &JobItem) -> String {
    match (&item.state, &job.state) {
        (ItemState::Failed(error), _) | (_, JobState::Failed(error)) => error.message.clone(),
        (_, JobState::Cancelled) => "the job of the run was cancelled".to_owned(),
        _ => "the job of the run ended".to_owned(),
    }
}

/// Ignores that the extraction was deleted, or that the turn did not start.
fn ignore_missing(ended: Result<()>) -> Result<()> {
    match ended {
        Err(error) if error.code == Code::NotFound => Ok(()),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use folio_jobs::wait_reason;

    use super::*;

    #[test]
    fn a_turn_that_its_paused_job_interrupted_is_attempted_again() {
        let paused = attempted_again(Error::precondition(Reason::JobPaused, "the job is paused"));
        assert!(paused.is_retriable() && paused.reason == Reason::JobPaused);
        assert!(wait_reason(&paused).is_none(), "the job does not wait");
        let other = Error::precondition(Reason::BudgetExhausted, "no credit");
        assert_eq!(attempted_again(other.clone()), other);
    }
}
