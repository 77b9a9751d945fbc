//! The kind of jobs that run the extraction agent: a job drives the turn of a run until the turn ends.

use std::sync::Arc;

use async_trait::async_trait;
use folio_conversation::Conversations;
use folio_history::command::{ApproveAnswer, ApproveCommand};
use folio_history::event::Event;
use folio_history::job::{ItemState, JobHeader, JobState};
use folio_history::peer::{EventStream, SharedPeer};
use folio_jobs::{ItemTask, JobKind, wait_reason};
use folio_resources::{Extraction, ExtractionState};
use folio_storage::Stores;
use folio_tools::extraction::{AGENT_JOB_KIND, AgentRunInput, RunEnd, end_run};
use folio_types::limits::JOB_FAILURES_MAX;
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
    async fn start(&self, principal: &Principal, input: &AgentRunInput) -> Result<EventStream> {
        match self {
            Self::ThisNode(conversations) => conversations.chat(principal, input.message()?).await,
            Self::AllNodes(peer) => peer.chat(principal, input.message()?).await,
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

pub(crate) struct AgentJobs {
    runner: TurnRunner,
    stores: Stores,
    environment: Arc<dyn Environment>,
}

impl AgentJobs {
    pub(crate) fn new(runner: TurnRunner, stores: Stores, environment: Arc<dyn Environment>) -> Self {
        Self { runner, stores, environment }
    }

    /// Starts, joins or resumes the turn of a run, and follows it to its end. Returns the reason of the failure of an extraction that
    /// is then still in progress.
    async fn drive(&self, principal: &Principal, input: &AgentRunInput) -> Result<String> {
        let mut events = self.runner.start(principal, input).await?;
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(event?);
        }
        loop {
            let ended_early = || Error::unavailable(Reason::NodeLost, "the events of the run ended early");
            let Event { turn, kind, .. } = last.ok_or_else(ended_early)?;
            match RunEnd::of(&kind) {
                RunEnd::Ended(reason) => return Ok(reason),
                RunEnd::Interrupted(error) => return Err(error),
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

    async fn end(
        &self,
        principal: &Principal,
        run: (&ExtractionId, &ThreadId),
        reason: &str,
    ) -> Result<ExtractionState> {
        end_run(&self.stores, principal, run, reason, self.environment.now()).await
    }
}

/// Returns the error of a run that waits for decisions, so that its job waits too.
fn pending() -> Error {
    Error::precondition(Reason::TurnPending, "a call of the agent waits for an approval")
}

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
        // The job is created before the request changes the extraction.
        let found = self.stores.of::<Extraction>().get(&task.principal.org, &id).await?;
        if !found.is_some_and(|found| found.is_run_of(&input.thread)) {
            let message = "the run has not begun, another run has replaced it, or its extraction was deleted";
            return Err(Error::new(Code::Aborted, Reason::VersionConflict, message));
        }
        let error = match self.drive(&task.principal, &input).await {
            Ok(reason) => match self.end(&task.principal, (&id, &input.thread), &reason).await? {
                ExtractionState::Failed => Error::precondition(Reason::NoExtraction, reason),
                ExtractionState::Completed | ExtractionState::InProgress => {
                    return Ok(json!({ "extraction_id": id.as_str() }));
                }
            },
            Err(error) => error,
        };
        let failures = task.job.items.first().map_or(0, |item| item.failures).saturating_add(1);
        let is_last = !error.is_retriable() || failures >= JOB_FAILURES_MAX;
        if is_last && wait_reason(&error).is_none() {
            // The job does not attempt the run again.
            self.end(&task.principal, (&id, &input.thread), &error.message).await?;
        }
        Err(error)
    }

    /// Fails an extraction that is still in progress, and cancels the turn of the run, unless an attempt followed the turn to its end.
    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let input: AgentRunInput = job.read_input()?;
        for item in &job.items {
            let id: ExtractionId = item.id.parse()?;
            ignore_missing(self.end(&job.principal, (&id, &input.thread), &failure(job)).await.map(drop))?;
        }
        if job.progress().done == job.items.len() {
            return Ok(());
        }
        // A thread has one run, which is its first turn.
        ignore_missing(self.runner.cancel(&job.principal, &TurnId::new(input.thread, 1)).await)
    }
}

/// Returns the reason for which an ended job left its extraction in progress.
fn failure(job: &JobHeader) -> String {
    let of_item = job.items.iter().find_map(|item| match &item.state {
        ItemState::Failed(error) => Some(error.message.clone()),
        _ => None,
    });
    match &job.state {
        JobState::Cancelled => "the job of the run was cancelled".to_owned(),
        JobState::Failed(error) => error.message.clone(),
        _ => of_item.unwrap_or_else(|| "the job of the run ended".to_owned()),
    }
}

/// Ignores that the extraction was deleted, or that the turn did not start.
fn ignore_missing(ended: Result<()>) -> Result<()> {
    match ended {
        Err(error) if error.code == Code::NotFound => Ok(()),
        ended => ended,
    }
}
