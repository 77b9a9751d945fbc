//! A run of the agent: the message that starts its turn, and the end of its extraction.
//!
//! A job drives the run, and the request that created it streams the events of the same turn: both send the same message with the
//! same request id, so they share one turn, whichever is first. After a crash, the next attempt of the job resumes the turn.

use folio_history::command::ChatCommand;
use folio_history::event::EventKind;
use folio_history::journal::Mention;
use folio_history::thread::NewThread;
use folio_llm::Catalogue;
use folio_resources::{
    AgentStep, Extraction, ExtractionChange, ExtractionReport, ExtractionState, NewExtraction, PromptRevision,
};
use folio_storage::Stores;
use folio_types::limits::{DAY, JOB_OPEN_MAX};
use folio_types::op::{Expected, OpKey, Write, WriteOutcome};
use folio_types::profile::{EXTRACTION_PROFILE, Subject};
use folio_types::{
    Digest, DocumentId, Error, ExtractionId, JobId, Principal, PromptRevId, Reason, Result, ThreadId, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The name of the kind of job.
pub const AGENT_JOB_KIND: &str = "extraction_agent";
/// Maximum number of attempts to store the end of a run while other writes change the extraction.
const ATTEMPTS: u32 = 5;

/// The message of a run that extracts a document.
const EXTRACT: &str =
    "Extract the data of the document as the referenced prompt describes, and complete the extraction.";
/// The start of the message of a run that corrects an extraction. The words of the person follow.
const CORRECT: &str = "Correct the extraction as follows, and complete it again. Do not change anything else.";

/// A run. The input of a job of its own, whose only item is the extraction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRunInput {
    /// The thread of the run, whose subject is the extraction.
    pub thread: ThreadId,
    pub prompt: PromptRevId,
    /// The model of the turn.
    pub model: String,
    /// The words of the person that requests a correction. None: the agent extracts the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
    /// Credits that the turn of the run may use. None: no budget of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

/// Returns the model of a run: the requested one, else the first preferred one that conversations may use, else the default.
///
/// # Errors
/// `MODEL_NOT_AVAILABLE` if conversations may not use the requested or the default model.
pub fn agent_model<'a>(models: &'a Catalogue, requested: Option<&str>, preferred: &[Option<&str>]) -> Result<&'a str> {
    let preferred = preferred.iter().copied().flatten().find(|name| models.for_chat(Some(*name)).is_ok());
    Ok(&models.for_chat(requested.or(preferred))?.name)
}

/// Returns the extraction in progress with which the first run begins.
pub fn new_agent_extraction(document: DocumentId, prompt: PromptRevision, model: String) -> NewExtraction {
    NewExtraction {
        document,
        prompt: prompt.revid,
        schema: prompt.schema,
        model,
        data: json!({}),
        report: ExtractionReport::default(),
        approvals: None,
    }
}

impl AgentRunInput {
    /// Returns a run that extracts the document, without a budget of its own.
    pub fn new(thread: ThreadId, prompt: PromptRevId, model: String) -> Self {
        Self { thread, prompt, model, correction: None, credit_budget: None }
    }

    /// Returns the thread of the run, which is hidden and outlives the job of the run.
    pub fn new_thread(
        &self,
        principal: &Principal,
        job: &JobId,
        extraction: &ExtractionId,
        document: DocumentId,
        at: Timestamp,
    ) -> NewThread {
        NewThread {
            subject: Some(Subject::Extraction(extraction.clone())),
            job: Some(job.clone()),
            model: Some(self.model.clone()),
            ephemeral: true,
            expires_at: Some(at.saturating_add(JOB_OPEN_MAX + DAY).unwrap_or(Timestamp::MAX)),
            ..NewThread::new(self.thread.clone(), principal, EXTRACTION_PROFILE, vec![document], at)
        }
    }

    /// Returns the message that starts or joins the turn of the run.
    ///
    /// # Errors
    /// None for a parsed or derived id of a thread.
    pub fn message(&self) -> Result<ChatCommand> {
        let text = match &self.correction {
            Some(words) => format!("{CORRECT}\n\n{words}"),
            None => EXTRACT.to_owned(),
        };
        Ok(ChatCommand {
            thread: Some(self.thread.clone()),
            mentions: vec![Mention::Prompt(self.prompt.clone())],
            model: Some(self.model.clone()),
            credit_budget: self.credit_budget,
            // A thread has one run.
            request_id: Some(self.thread.as_str().parse()?),
            ..ChatCommand::new(text)
        })
    }
}

/// The state of a run when the events of its turn end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// The turn has ended. An extraction that is still in progress has failed with this error.
    Ended(Error),
    /// The turn waits for decisions. `is_resumable`: no call of the round needs one.
    Waiting { round: u32, is_resumable: bool },
    /// The turn can be resumed.
    Interrupted(Error),
}

impl RunEnd {
    /// Returns the state of the run after a closing event.
    pub fn of(closing: &EventKind) -> Self {
        let ended = |message| Self::Ended(Error::precondition(Reason::NoExtraction, message));
        match closing {
            EventKind::Completed { .. } => ended("the agent ended without completing the extraction"),
            EventKind::Failed { error, retriable: true } => Self::Interrupted(error.clone()),
            EventKind::Failed { error, retriable: false } => Self::Ended(error.clone()),
            EventKind::Cancelled => ended("the run was cancelled"),
            EventKind::Expired => ended("an approval of the run expired"),
            EventKind::Superseded => ended("another message replaced the run"),
            EventKind::AwaitingApproval { round, pending, .. } => {
                Self::Waiting { round: *round, is_resumable: pending.iter().all(|call| !call.needs_approval) }
            }
            _ => Self::Interrupted(Error::unavailable(Reason::NodeLost, "the events of the run ended early")),
        }
    }
}

/// Stores that the run of a thread has failed, unless the agent completed the extraction, or a later run has started. Returns the
/// state that is then stored. Idempotent, so the job and the request of a run may both call it.
///
/// # Errors
/// `NOT_FOUND` if the extraction was deleted; `VERSION_CONFLICT` if other writes change it too often.
pub async fn end_run(
    stores: &Stores,
    principal: &Principal,
    (id, thread): (&ExtractionId, &ThreadId),
    reason: &str,
    at: Timestamp,
) -> Result<ExtractionState> {
    let extractions = stores.of::<Extraction>();
    for _ in 0..ATTEMPTS {
        let found = extractions.get(&principal.org, id).await?;
        let found = found.ok_or_else(|| Error::not_found("extraction", id))?;
        if found.state() != ExtractionState::InProgress || !found.is_run_of(thread) {
            return Ok(found.state());
        }
        let step = AgentStep::Fail { reason: reason.to_owned() };
        let write = Write {
            org: principal.org.clone(),
            op: OpKey::Request {
                user: principal.user.clone(),
                request: format!("agent-end-{id}-{}", found.version).parse()?,
            },
            digest: Digest::of_json(&json!({ "end": id, "version": found.version })),
            by: principal.user.clone(),
            at,
            expected: Expected::Version(found.version),
            change: ExtractionChange::Agent(Box::new(step)),
        };
        if let WriteOutcome::Row(_) = extractions.decide(id, write).await? {
            return Ok(ExtractionState::Failed);
        }
    }
    let message = format!("extraction {id} was changed concurrently");
    Err(Error::version_conflict(message))
}

#[cfg(test)]
mod tests {
    use folio_history::event::CallView;
    use folio_history::journal::Access;
    use folio_types::{CallId, PromptId, TurnId};

    use super::*;

    #[test]
    fn the_job_and_the_request_of_a_run_send_the_same_message() {
        let thread = ThreadId::derive(&["run"]);
        let prompt = PromptRevId::new(PromptId::derive(&["prompt"]), 2);
        let input =
            AgentRunInput { credit_budget: Some(7), ..AgentRunInput::new(thread.clone(), prompt, "model".into()) };
        let stored: AgentRunInput = serde_json::from_value(json!(input)).unwrap();
        let message = input.message().unwrap();
        assert_eq!(stored.message().unwrap(), message);
        assert_eq!((message.thread, message.request_id.unwrap().as_str()), (Some(thread.clone()), thread.as_str()));
        assert_eq!(message.credit_budget, Some(7));
        let correction = AgentRunInput { correction: Some("The total is 5.".to_owned()), ..input };
        assert!(correction.message().unwrap().text.ends_with("\n\nThe total is 5."));
    }

    #[test]
    fn a_run_ends_waits_or_is_interrupted() {
        let error = Error::internal("broken");
        let failed = |retriable| EventKind::Failed { error: error.clone(), retriable };
        assert_eq!(RunEnd::of(&failed(true)), RunEnd::Interrupted(error.clone()));
        assert_eq!(RunEnd::of(&failed(false)), RunEnd::Ended(error.clone()));
        for ended in [EventKind::Cancelled, EventKind::Expired, EventKind::Superseded] {
            assert!(matches!(RunEnd::of(&ended), RunEnd::Ended(_)), "{ended:?}");
        }
        let early = EventKind::TextDelta { text: String::new() };
        assert!(matches!(RunEnd::of(&early), RunEnd::Interrupted(error) if error.is_retriable()));
        let call = |needs_approval| CallView {
            id: CallId::new(TurnId::new(ThreadId::derive(&["run"]), 1), 2, 1),
            name: "extract_fields".to_owned(),
            arguments: json!({}),
            digest: Digest::of(b""),
            access: Access::ReadWrite,
            needs_approval,
            approval_requirement: None,
            group: None,
        };
        for (calls, is_resumable) in [(vec![call(false)], true), (vec![call(false), call(true)], false)] {
            let waiting = EventKind::AwaitingApproval { round: 2, pending: calls, expires_at: Timestamp::UNIX_EPOCH };
            assert_eq!(RunEnd::of(&waiting), RunEnd::Waiting { round: 2, is_resumable });
        }
    }
}
