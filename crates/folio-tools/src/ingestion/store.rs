//! The tool `summary_store`. The server decides which parts have summaries, and of which sections a summary is made.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Document, SectionId};
use folio_storage::{StoredSummary, SummaryScope};
use folio_types::op::{OpResult, Target};
use folio_types::{Reason, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::parts::{Parts, SUMMARY_CHARS, one_line, store_summary};
use super::{of_turn, plan_write, record};
use crate::arguments::{self, optional, required, text};
use crate::decide::{invalid_plan, recorded_result};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolKind, ToolOutput, WriteTool};

/// Maximum number of parts that an error names.
const NAMED_MAX: usize = 10;

pub(super) fn tool() -> Tool {
    let summary = format!(
        "Summary in one paragraph, 1 to {SUMMARY_CHARS} characters, in the language of the text. Line ends become blanks."
    );
    Tool::new(
        "summary_store",
        "Stores the summary of a section, a chapter or the document of this run, and replaces an earlier one. Store the summaries of \
         sections before those of the chapters that contain them, and that of the document last: ingestion_status returns them in \
         this order. Result: stored (the section_id, or the document_id).",
        vec![
            required("summary", text(&summary)),
            optional(
                "section_id",
                text("Section or chapter from ingestion_status, such as doc_….….s2. Default: the document."),
            )
            .or_blank(),
        ],
        ToolKind::Write(Arc::new(StoreSummary)),
    )
}

#[derive(Deserialize)]
struct Arguments {
    summary: String,
    section_id: Option<String>,
}

/// The resolved part of a plan.
#[derive(Serialize, Deserialize)]
struct Resolved {
    section: Option<u32>,
    scope: SummaryScope,
    sources: Vec<u32>,
    text_generation: Timestamp,
}

struct StoreSummary;

impl Arguments {
    /// Returns the summary in one line.
    fn checked(&self) -> Result<String, ToolError> {
        let line = one_line(&self.summary);
        match line.chars().count() {
            0 => Err(ToolError::ForModel("summary is blank: pass the summary of the part.".to_owned())),
            count if count > SUMMARY_CHARS => Err(ToolError::ForModel(format!(
                "summary has {count} characters; the maximum is {SUMMARY_CHARS}. Shorten it."
            ))),
            _ => Ok(line),
        }
    }

    /// Returns the number of the section. None: the document.
    fn section(&self, document: &Document) -> Result<Option<u32>, ToolError> {
        let Some(id) = &self.section_id else { return Ok(None) };
        let hint = "expected a section_id such as doc_….….s2; call ingestion_status to find it.";
        let id: SectionId = arguments::id("section_id", id, hint)?;
        if id.text.document != document.id {
            let text = "section_id names a section of another document. Call ingestion_status for those of this run.";
            return Err(ToolError::ForModel(text.to_owned()));
        }
        if id.rest.is_some() {
            let text = "section_id names the rest of a section. Pass the id of the whole section.";
            return Err(ToolError::ForModel(text.to_owned()));
        }
        let current = id.text.check_current(document);
        current.map(|()| Some(id.number)).map_err(|error| match error.reason {
            Reason::VersionConflict => ToolError::ForModel(format!(
                "section_id {id} is of an earlier text: the document was read again. End your task and report it."
            )),
            _ => error.into(),
        })
    }
}

#[async_trait]
impl WriteTool for StoreSummary {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        let arguments: Arguments = arguments::parse(arguments)?;
        arguments.checked()?;
        let (run, document) = of_turn(context).await?;
        let section = arguments.section(&document)?;
        let parts = Parts::load(&context.resources, &document).await?;
        let Some(step) = parts.plan.step(section) else {
            let text = "The section has no summary of its own: it is a part of the section that contains it, or does not exist. Call \
                        ingestion_status for the parts that need a summary.";
            return Err(ToolError::ForModel(text.to_owned()));
        };
        let (known, missing) = parts.below(step).await?;
        if !missing.is_empty() {
            let named: Vec<String> = missing.iter().take(NAMED_MAX).map(|number| parts.id_of(Some(*number))).collect();
            let (count, named) = (missing.len(), named.join(", "));
            let text = format!("{count} parts below have no summary yet. Store their summaries first: {named}.");
            return Err(ToolError::ForModel(text));
        }
        let sources = parts.sources(step, &known);
        let resolved = Resolved { section, scope: step.scope, sources, text_generation: parts.generation };
        Ok(plan_write(&run, json!(resolved)))
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        if let Some(result) = recorded_result(context, arguments, &plan.target).await? {
            return Ok(self.output(&plan.target, result, arguments));
        }
        let resolved = Resolved::deserialize(&plan.resolved).map_err(|_| invalid_plan())?;
        let Resolved { section, scope, sources, text_generation } = resolved;
        let call: Arguments = arguments::parse(arguments)?;
        let (_, document) = of_turn(context).await?;
        if document.text_generation != Some(text_generation) {
            return Err(ToolError::Conflict);
        }
        let resources = &context.resources;
        let summary = StoredSummary {
            section,
            scope,
            text: call.checked()?,
            sources,
            text_generation,
            input: None,
            model: context.model.clone(),
            created_at: resources.environment.now(),
        };
        store_summary(&resources.stores, &document, &summary).await?;
        let id = call.section_id.unwrap_or_else(|| document.id.to_string());
        let result = record(context, arguments, plan, id).await?;
        Ok(self.output(&plan.target, result, arguments))
    }

    fn output(&self, _: &Target, result: OpResult, _: &Value) -> ToolOutput {
        let stored = match result {
            OpResult::Resource { id, .. } => id,
            _ => String::new(),
        };
        ToolOutput::new(json!({ "stored": stored }))
    }

    async fn conflict(&self, _: &CallContext, _: &Value) -> Option<String> {
        let text = "The text of the document was read again, so nothing was stored. End your task and report it.";
        Some(text.to_owned())
    }
}
