//! Runs of the extraction agent: a request creates the extraction, the thread and the job of a run, and streams the events of its
//! turn. The run continues if the stream ends.

use folio_history::event::{CallView, Event, EventKind, RoundView};
use folio_history::job::JobHeader;
use folio_history::peer::EventStream;
use folio_history::thread::NewThread;
use folio_jobs::JobRequest;
use folio_resources::{
    AgentStep, Document, Extraction, ExtractionChange, ExtractionReport, NewExtraction, Prompt, PromptRevision,
};
use folio_tools::extraction::{self, AGENT_JOB_KIND, AgentRunInput, RunEnd};
use folio_types::limits::{DAY, JOB_OPEN_MAX};
use folio_types::message::Usage;
use folio_types::profile::{EXTRACTION_PROFILE, Subject};
use folio_types::{DocumentId, Error, ExtractionId, JobId, Result, ThreadId, Timestamp, TurnId};
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

/// Number of the run with which an extraction begins.
pub(crate) const FIRST_RUN: u32 = 1;

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
}

impl Operation for StartExtraction {
    const DECLARATION: Declaration = SERVICE.change("StartExtraction").long().quota(Quota::Turns);
    type Output = AgentEvents;

    async fn run(self, context: &Context) -> Result<AgentEvents> {
        let prompt = context.revision::<Prompt>(&self.prompt_revid).await?;
        let extraction = begin(context, &self.document_id, prompt, self.model).await?;
        start(context, &extraction, extraction.model.clone(), None).await
    }
}

/// Creates an extraction in progress. A repeated request returns the stored extraction.
pub(crate) async fn begin(
    context: &Context,
    document: &DocumentId,
    prompt: PromptRevision,
    model: Option<String>,
) -> Result<Extraction> {
    let document = context.find::<Document>(document).await?;
    extraction::check_ready(&document)?;
    let new = NewExtraction {
        document: document.id,
        prompt: prompt.revid,
        schema: prompt.schema,
        model: chat_model(context, model, prompt.model).await?,
        data: json!({}),
        report: ExtractionReport::default(),
        approvals: None,
    };
    context.create::<Extraction>(ExtractionChange::Begin(Box::new(new))).await
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
}

impl Operation for CorrectExtraction {
    const DECLARATION: Declaration = SERVICE.change("CorrectExtraction").long().quota(Quota::Turns);
    type Output = AgentEvents;

    async fn run(self, context: &Context) -> Result<AgentEvents> {
        check_correction(&self.text)?;
        let found = context.find::<Extraction>(&self.extraction_id).await?;
        let document = context.find::<Document>(&found.document).await?;
        extraction::check_ready(&document)?;
        let model = chat_model(context, self.model, Some(found.model)).await?;
        let start_step = ExtractionChange::Agent(Box::new(AgentStep::Start));
        let extraction = context.update::<Extraction>(&self.extraction_id, None, start_step).await?;
        start(context, &extraction, model, Some(self.text)).await
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

/// Returns the model of a run: the requested one, else the preferred one if conversations may use it, else the default.
async fn chat_model(context: &Context, requested: Option<String>, preferred: Option<String>) -> Result<String> {
    let catalogue = context.catalogue().await?;
    let preferred = preferred.filter(|name| catalogue.for_chat(Some(name)).is_ok());
    Ok(catalogue.for_chat(requested.or(preferred).as_deref())?.name.clone())
}

/// The parts of a run that its events need.
struct StartedRun {
    extraction: ExtractionId,
    /// Number of the run of the extraction.
    number: u32,
    job: JobId,
    /// No model call of the run is older.
    since: Timestamp,
}

/// Creates the thread and the job of a run, starts its turn, and streams its events. Idempotent.
async fn start(
    context: &Context,
    extraction: &Extraction,
    model: String,
    correction: Option<String>,
) -> Result<AgentEvents> {
    let job = create_run(context, extraction, model, correction).await?;
    // A repeated request uses the model that the first one chose.
    let input: AgentRunInput = job.read_input()?;
    let events = context.turn_runner()?.chat(context.principal(), input.message()?).await?;
    let (number, extraction) = (input.number, extraction.id.clone());
    let run = StartedRun { extraction, number, job: job.id, since: job.created_at };
    Ok(progress(context.clone(), run, events))
}

/// Creates the thread and the job of a run. Idempotent.
pub(crate) async fn create_run(
    context: &Context,
    extraction: &Extraction,
    model: String,
    correction: Option<String>,
) -> Result<JobHeader> {
    let (request, principal) = (&context.request, context.principal());
    let [org, user, id] = request.id_parts();
    let newest = extraction.agent.as_ref().map_or(FIRST_RUN, |agent| agent.number);
    let number = if correction.is_some() { newest } else { FIRST_RUN };
    let input = AgentRunInput {
        number,
        thread: ThreadId::derive(&["extraction agent", org, user, id]),
        prompt: extraction.prompt.clone(),
        model,
        correction,
    };
    let at = request.received_at();
    let new =
        NewThread::new(input.thread.clone(), principal, EXTRACTION_PROFILE, vec![extraction.document.clone()], at);
    let thread = NewThread {
        subject: Some(Subject::Extraction(extraction.id.clone())),
        model: Some(input.model.clone()),
        // The thread is hidden, and outlives its job.
        ephemeral: true,
        expires_at: Some(at.saturating_add(JOB_OPEN_MAX + DAY).unwrap_or(Timestamp::MAX)),
        ..new
    };
    context.stores().threads.create(thread).await?;
    let job = JobRequest {
        id: JobId::derive(&request.id_parts()),
        principal: principal.clone(),
        kind: AGENT_JOB_KIND,
        input: json!(input),
        items: vec![extraction.id.to_string()],
    };
    context.job_creator()?.create(job).await
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
        RunEnd::Ended(reason) => {
            let now = context.environment().now();
            extraction::end_run(stores, principal, (&run.extraction, run.number), &reason, now).await?;
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
