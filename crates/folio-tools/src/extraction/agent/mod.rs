//! The tools of the profile `extraction`: an agent reads a document and writes one extraction, step by step.
//!
//! The subject of the turn names the extraction, and the extraction names the document. No argument names either, so that
//! instructions in a document cannot make a call reach another extraction or document. Each write is one step
//! ([`folio_resources::AgentStep`]) that expects the version of the extraction that its plan read.

mod complete;
mod current;
mod fields;
mod identify;
mod quote_check;
mod run;
mod text;
mod write;

use async_trait::async_trait;
use folio_resources::{AgentStep, Document, Extraction, ExtractionChange, ExtractionState};
use folio_types::Error;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::profile::Subject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::arguments::{self, Argument};
use crate::call::{WriteCall, write_tool};
use crate::rules::excerpt;
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolOutput};

pub(crate) use fields::{PageQuote, confidence as stated_confidence, quote as stated_quote};
pub(crate) use quote_check::{CheckedQuotes, check_quotes};
pub use run::{AGENT_JOB_KIND, AgentRunInput, RunEnd, agent_model, end_run, new_agent_extraction};
pub use text::{PAGE_TEXT_TOOL, page_text_removed};
pub(crate) use text::{page_arguments, read_pages};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        text::tool(),
        current::tool(),
        identify::tool(),
        write::extract_fields(),
        write::update_field(),
        write::remove_field(),
        complete::tool(),
    ]
}

/// A call that writes a step of the agent: its arguments and their handler.
#[async_trait]
trait StepCall: DeserializeOwned + Send + Sync + 'static {
    /// Returns the step of this call on an extraction in progress.
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError>;

    /// Returns the result for the model. `data`: the data after the step.
    fn result(&self, data: &Value) -> String;

    /// Returns the paths that the call writes, with their values in the current data. None: the path has no value.
    fn current_values<'v>(&self, _data: &'v Value) -> Vec<(String, Option<&'v Value>)> {
        Vec::new()
    }
}

fn step_tool<C: StepCall>(name: &'static str, description: &'static str, arguments: Vec<Argument>) -> Tool {
    // The results are sentences without ids.
    Tool { result_ids: &[], ..write_tool::<StepWrite<C>>(name, description, arguments) }
}

/// The write of a [`StepCall`].
struct StepWrite<C>(C);

impl<C: StepCall> StepWrite<C> {
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError> {
        match extraction.state() {
            ExtractionState::InProgress if !extraction.is_run_of(&context.call.turn.thread) => {
                let text = "Another run has replaced this one, so the extraction cannot be changed. End your turn.";
                Err(ToolError::ForModel(text.to_owned()))
            }
            ExtractionState::InProgress => self.0.step(context, extraction).await,
            state => {
                let text = format!("The extraction is {}, so it cannot be changed. End your turn.", state.as_str());
                Err(ToolError::ForModel(text))
            }
        }
    }
}

#[async_trait]
impl<C: StepCall> WriteCall for StepWrite<C> {
    type Target = Extraction;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        arguments::parse(arguments).map(Self)
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let extraction = of_turn(context).await?;
        self.step(context, &extraction).await?;
        Ok(subject::plan_update(&extraction))
    }

    async fn change(self, context: &CallContext, plan: &Plan) -> Result<ExtractionChange, ToolError> {
        let extraction = of_turn(context).await?;
        if Expected::Version(extraction.version) != plan.expected {
            return Err(ToolError::Conflict);
        }
        self.step(context, &extraction).await.map(|step| ExtractionChange::Agent(Box::new(step)))
    }

    fn output(_: &Target, result: OpResult, arguments: &Value) -> ToolOutput {
        let data = match result {
            OpResult::Extraction { data, .. } => data,
            _ => Value::Null,
        };
        let text = C::deserialize(arguments).map_or_else(|_| "Saved".to_owned(), |call| call.result(&data));
        ToolOutput::new(json!({ "result": text }))
    }

    async fn conflict(&self, context: &CallContext) -> Option<String> {
        let extraction = of_turn(context).await.ok()?;
        let mut text = "The extraction changed meanwhile, so nothing was written.".to_owned();
        for (path, value) in self.0.current_values(extraction.current()).into_iter().take(CONFLICT_VALUES_MAX) {
            let path = excerpt(&path);
            text.push_str(&match value {
                Some(value) => format!(" The current value of '{path}' is {}.", shown(value)),
                None => format!(" '{path}' has no value now."),
            });
        }
        text.push_str(" Decide again.");
        Some(text)
    }
}

/// Maximum number of current values in the text about a conflict.
const CONFLICT_VALUES_MAX: usize = 20;
/// Maximum length of a value in a result, in characters.
const VALUE_CHARS: usize = 1_000;

/// Returns the start of a value as JSON.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(VALUE_CHARS).collect()
}

/// Returns the extraction that the turn is about.
async fn of_turn(context: &CallContext) -> Result<Extraction, ToolError> {
    let Some(Subject::Extraction(id)) = &context.subject else {
        return Err(ToolError::Failed(Error::internal("a turn of the profile extraction has no extraction")));
    };
    let found = context.store::<Extraction>().get(&context.principal.org, id).await?;
    found.ok_or_else(|| ToolError::ForModel("The extraction was deleted. End your turn.".to_owned()))
}

/// Returns the document of an extraction.
async fn document_of(context: &CallContext, extraction: &Extraction) -> Result<Document, ToolError> {
    let found = context.store::<Document>().get(&context.principal.org, &extraction.document).await?;
    found.ok_or_else(|| ToolError::ForModel("The document was deleted. End your turn.".to_owned()))
}
