//! Runs of the extraction agent: a request creates the extraction, the thread and the job of a run, and streams the events of its
//! turn. The run continues if the stream ends.

use folio_history::event::{CallView, Event, EventKind, RoundView};
use folio_history::job::JobHeader;
use folio_history::peer::EventStream;
use folio_jobs::JobRequest;
use folio_resources::{AgentStep, Document, Extraction, ExtractionChange, Prompt, PromptRevision, Resource as _};
use folio_tools::extraction::{self, AGENT_JOB_KIND, AgentRunInput, RunEnd};
use folio_types::message::Usage;
use folio_types::{DocumentId, Error, ExtractionId, JobId, Reason, Result, ThreadId, Timestamp, TurnId};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::declaration::{Declaration, Quota};
use crate::extractions::{SERVICE, with_citations};
use crate::operation::Operation;
use crate::reference::PromptRef;

/// Maximum size of the words of a correction, in bytes.
// proto: CorrectExtractionRequest.text "at most {} KiB"
const CORRECTION_BYTES: usize = 16 * 1_024;
/// Maximum number of records of model calls that are read to add up the credits of a run.
// proto: none "a limit of a read, beyond which the credits are unknown"
const USAGE_RECORDS_MAX: usize = 10_000;

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The extraction is created, or a further run of it has started.
    Started { extraction: ExtractionId, job: JobId },
    /// A part of the text of the model.
    Text(String),
    /// The model calls a tool.
    Tool { name: String, arguments: Value },
    /// The last event: the turn of the run ended, or waits for an approval.
    Complete(Box<AgentResult>),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentResult {
    /// In progress if the run waits for an approval.
    pub extraction: Extraction,
    /// Usage of all model calls of the run.
    pub usage: Usage,
    /// Credits of the model calls of the run. None: the calls are not metered, or the organization made too many other calls
    /// meanwhile.
    pub credits: Option<u64>,
}

/// Events of a run in order. An error means that the stream is lost although the run continues.
pub type AgentEvents = BoxStream<'static, Result<AgentEvent>>;

/// Creates an extraction in progress, on which the agent works, and streams the events of the run. A repeated request streams the
/// events of the same run.
#[derive(Debug, Clone, Serialize)]
pub struct StartExtraction {
    /// The document, whose text must be ready.
    pub document_id: DocumentId,
    pub prompt_revid: PromptRef,
    /// None: the prompt's model if conversations may use it, else the default model.
    pub model: Option<String>,
    /// Credits that the model calls of the run may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for StartExtraction {
    const DECLARATION: Declaration = SERVICE.change("StartExtraction").long().quota(Quota::Turns);
    type Output = AgentEvents;

    async fn run(self, context: &Context) -> Result<AgentEvents> {
        let prompt = context.revision::<Prompt>(&self.prompt_revid).await?;
        let job = begin(context, &self.document_id, prompt, (self.model.as_deref(), self.credit_budget)).await?;
        start(context, job).await
    }
}

/// Creates the thread and the job of a run, and then its extraction in progress. Returns the job. Idempotent.
pub(crate) async fn begin(
    context: &Context,
    document: &DocumentId,
    prompt: PromptRevision,
    (model, credit_budget): (Option<&str>, Option<u64>),
) -> Result<JobHeader> {
    let document = context.find::<Document>(document).await?;
    extraction::check_ready(&document)?;
    let (prompt_revid, thread) = (prompt.revid.clone(), run_thread(context));
    let model = chat_model(context, model, prompt.model.as_deref()).await?;
    let new = extraction::new_agent_extraction(document.id.clone(), prompt, model.clone());
    let id = ExtractionId::derive(&context.request.id_parts());
    let input = AgentRunInput { credit_budget, ..AgentRunInput::new(thread.clone(), prompt_revid, model) };
    let job = create_run(context, (&id, document.id), input).await?;
    context.create::<Extraction>(ExtractionChange::Begin(Box::new(new), thread)).await?;
    Ok(job)
}

/// Starts a further run of the agent, which corrects an extraction as a person describes, and streams the events of the run. A
/// repeated request streams the events of the same run.
#[derive(Debug, Clone, Serialize)]
pub struct CorrectExtraction {
    pub extraction_id: ExtractionId,
    /// The words of the person.
    pub text: String,
    /// None: the model of the extraction if conversations may use it, else the default model.
    pub model: Option<String>,
    /// Credits that the model calls of the run may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for CorrectExtraction {
    const DECLARATION: Declaration = SERVICE.change("CorrectExtraction").long().quota(Quota::Turns);
    type Output = AgentEvents;

    async fn run(self, context: &Context) -> Result<AgentEvents> {
        check_correction(&self.text)?;
        let found = context.find::<Extraction>(&self.extraction_id).await?;
        let document = context.find::<Document>(&found.document).await?;
        extraction::check_ready(&document)?;
        let model = chat_model(context, self.model.as_deref(), Some(&found.model)).await?;
        let (thread, correction, credit_budget) = (run_thread(context), Some(self.text), self.credit_budget);
        let run = AgentRunInput::new(thread.clone(), found.prompt, model);
        let input = AgentRunInput { correction, credit_budget, ..run };
        let job = create_run(context, (&self.extraction_id, document.id), input).await?;
        let start_step = ExtractionChange::Agent(Box::new(AgentStep::Start { thread }));
        context.update::<Extraction>(&self.extraction_id, None, start_step).await?;
        start(context, job).await
    }
}

fn check_correction(text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid_field("text", "is missing"));
    }
    if text.len() > CORRECTION_BYTES {
        let problem = format!("has {} bytes; the maximum is {CORRECTION_BYTES}", text.len());
        return Err(Error::invalid_field("text", problem));
    }
    Ok(())
}

async fn chat_model(context: &Context, requested: Option<&str>, preferred: Option<&str>) -> Result<String> {
    let catalogue = context.catalogue().await?;
    Ok(extraction::agent_model(&catalogue, requested, &[preferred])?.to_owned())
}

/// The parts of a run that its events need.
struct StartedRun {
    extraction: ExtractionId,
    thread: ThreadId,
    job: JobId,
    /// No model call of the run is older.
    since: Timestamp,
}

/// Starts the turn of a run, and streams its events. Idempotent.
async fn start(context: &Context, job: JobHeader) -> Result<AgentEvents> {
    // A repeated request uses the model that the first one chose.
    let input: AgentRunInput = job.read_input()?;
    let item = job.items.first().ok_or_else(|| Error::internal("the job of a run has no item"))?;
    let extraction: ExtractionId = item.id.parse()?;
    let events = context.turn_runner()?.chat(context.principal(), input.message()?).await?;
    let run = StartedRun { extraction, thread: input.thread, job: job.id, since: job.created_at };
    Ok(progress(context.clone(), run, events))
}

/// Returns the thread of the run that the request starts.
fn run_thread(context: &Context) -> ThreadId {
    let [org, user, id] = context.request.id_parts();
    ThreadId::derive(&["extraction agent", org, user, id])
}

/// Creates the thread and the job of a run. Idempotent. Called before the extraction is changed, so that a refused or interrupted
/// request leaves no extraction in progress without a job. Until the extraction names the thread, an attempt of the job makes no
/// model call.
///
/// # Errors
/// `REQUEST_ID_CONFLICT` if the id was used for another input; `JOB_ENDED` if the job of an earlier attempt of the request ended
/// before that attempt changed the extraction.
async fn create_run(
    context: &Context,
    (extraction, document): (&ExtractionId, DocumentId),
    input: AgentRunInput,
) -> Result<JobHeader> {
    let (request, stores, principal) = (&context.request, context.stores(), context.principal());
    let is_changed = request.recorded_result(stores, &Extraction::target(extraction)).await?.is_some();
    let id = JobId::derive(&request.id_parts());
    let thread = input.new_thread(principal, &id, extraction, document, request.received_at());
    stores.threads.create(thread).await?;
    let job = JobRequest {
        id,
        principal: principal.clone(),
        kind: AGENT_JOB_KIND.to_owned(),
        input: json!(input),
        items: vec![extraction.to_string()],
    };
    let job = context.job_creator()?.create(job).await?;
    if job.is_ended() && !is_changed {
        let message =
            "the job of an earlier attempt of this request has ended; send the request with another request_id";
        return Err(Error::precondition(Reason::JobEnded, message));
    }
    Ok(job)
}

/// Converts the events of a turn to those of a run.
fn progress(context: Context, run: StartedRun, mut events: EventStream) -> AgentEvents {
    let states = async_stream::try_stream! {
        yield AgentEvent::Started { extraction: run.extraction.clone(), job: run.job.clone() };
        let mut reported = 0;
        while let Some(event) = events.next().await {
            let Event { turn, kind, .. } = event?;
            if kind.is_closing() {
                yield AgentEvent::Complete(Box::new(end(&context, &run, &turn, &kind).await?));
                break;
            }
            for event in of_turn(kind, &mut reported) {
                yield event;
            }
        }
    };
    states.boxed()
}

/// Returns the events of a run for an event of its turn. `reported`: the last round whose events are returned.
fn of_turn(kind: EventKind, reported: &mut u32) -> Vec<AgentEvent> {
    let tool = |call: CallView| AgentEvent::Tool { name: call.name, arguments: call.arguments };
    match kind {
        EventKind::TextDelta { text } => vec![AgentEvent::Text(text)],
        EventKind::ToolCalls { calls } => calls.into_iter().map(tool).collect(),
        EventKind::RoundFinished { round, .. } => {
            *reported = round;
            Vec::new()
        }
        EventKind::Snapshot(view) => {
            let new = view.rounds.into_iter().filter(|round| round.round > *reported);
            let events = new.flat_map(|RoundView { text, calls, .. }| {
                let text = (!text.is_empty()).then_some(AgentEvent::Text(text));
                text.into_iter().chain(calls.into_iter().map(tool))
            });
            events.collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the result of a run after the closing event of its turn.
///
/// # Errors
/// The error of the turn, if the turn can be resumed. The job resumes it.
async fn end(context: &Context, run: &StartedRun, turn: &TurnId, closing: &EventKind) -> Result<AgentResult> {
    let (stores, principal) = (context.stores(), context.principal());
    match RunEnd::of(closing) {
        RunEnd::Ended(error) => {
            let now = context.environment().now();
            extraction::end_run(stores, principal, (&run.extraction, &run.thread), &error.message, now).await?;
        }
        RunEnd::Waiting { .. } => {}
        RunEnd::Interrupted(error) => return Err(error),
    }
    let usage = context.conversations().get_turn(principal, turn).await?.usage;
    let extraction = with_citations(context, context.find(&run.extraction).await?).await?;
    let records = stores.usage.list(&principal.org, run.since, USAGE_RECORDS_MAX).await?;
    let prefix = format!("{turn}.");
    let charged = records.iter().filter(|record| record.key.starts_with(&prefix)).map(|record| record.charged.as_ref());
    let credits: Option<u64> = charged.map(|charged| charged.map(|charged| charged.credits)).sum();
    let credits = credits.filter(|_| records.len() < USAGE_RECORDS_MAX);
    // The record of the last call may be written after the end of the turn, whose usage has the charge of each call.
    let credits = credits.map(|recorded| recorded.max(usage.credits));
    Ok(AgentResult { extraction, usage, credits })
}

#[cfg(test)]
mod tests {
    use folio_history::event::TurnView;
    use folio_history::journal::Access;
    use folio_types::{CallId, Digest};

    use super::*;

    fn call(round: u32) -> CallView {
        CallView {
            id: CallId::new(TurnId::new(ThreadId::derive(&["run"]), 1), round, 1),
            name: "extract_fields".to_owned(),
            arguments: json!({ "round": round }),
            digest: Digest::of(b""),
            access: Access::ReadWrite,
            needs_approval: false,
            approval_requirement: None,
            group: None,
        }
    }

    fn tool(round: u32) -> AgentEvent {
        AgentEvent::Tool { name: "extract_fields".to_owned(), arguments: json!({ "round": round }) }
    }

    #[test]
    fn a_snapshot_adds_only_the_rounds_that_were_not_reported() {
        let mut reported = 0;
        assert_eq!(
            of_turn(EventKind::TextDelta { text: "I".to_owned() }, &mut reported),
            [AgentEvent::Text("I".to_owned())]
        );
        assert_eq!(of_turn(EventKind::ToolCalls { calls: vec![call(1)] }, &mut reported), [tool(1)]);
        let finished = EventKind::RoundFinished { round: 1, model: String::new(), usage: Usage::default() };
        assert_eq!(of_turn(finished, &mut reported), []);
        let round = |round: u32, text: &str| RoundView {
            round,
            text: text.to_owned(),
            thinking: "hidden".to_owned(),
            calls: vec![call(round)],
            results: Vec::new(),
            node: None,
        };
        let turn = TurnId::new(ThreadId::derive(&["run"]), 1);
        let view =
            TurnView { rounds: vec![round(1, "old"), round(2, "new"), round(3, "")], ..TurnView::new(turn, "m", "t") };
        let events = of_turn(EventKind::Snapshot(Box::new(view)), &mut reported);
        assert_eq!(events, [AgentEvent::Text("new".to_owned()), tool(2), tool(3)]);
    }

    #[test]
    fn a_correction_has_words_within_its_bound() {
        assert_eq!(check_correction(" \n").unwrap_err().violations[0].field, "text");
        assert!(check_correction(&"x".repeat(CORRECTION_BYTES + 1)).is_err());
        check_correction(&"x".repeat(CORRECTION_BYTES)).unwrap();
    }
}
