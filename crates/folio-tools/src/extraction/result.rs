//! The tool `get_extraction_result`.
//!
//! The working extraction is a copy in the thread, which fork and truncate restore. The stored extraction also has
//! edits and verification by users, so the tool reads both. If their data differ, the result contains both. If the
//! stored extraction is deleted, the result ignores the copy and contains the newest stored extraction instead. The
//! tool does not change the working state.

use async_trait::async_trait;
use folio_history::journal::WorkingExtraction;
use folio_resources::{Extraction, ExtractionFilter, ExtractionState};
use folio_types::{DocumentId, ExtractionId, PromptRevId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::{optional, text};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};
use crate::{documents, prompts};

const PROMPT_REVID: &str = "Only an extraction by this prompt version, such as prm_….1. Default: any.";

pub(super) fn tool() -> Tool {
    read_tool::<GetResult>(
        "get_extraction_result",
        "Returns the current extraction of the document. Call it before you report or correct values. Result: \
         extraction_id, document_id, prompt_revid, edited, verified (by a person or a review rule), data, stored_data \
         and note (only if the stored extraction differs).",
        vec![optional("prompt_revid", text(PROMPT_REVID)).or_empty()],
    )
}

#[derive(Deserialize)]
struct GetResult {
    prompt_revid: Option<String>,
}

#[async_trait]
impl ReadCall for GetResult {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let prompt = match self.prompt_revid.as_deref() {
            Some(revid) => Some(prompts::revid(context, revid).await?),
            None => None,
        };
        let working = context.working.extraction.as_ref();
        let Some(working) = working.filter(|working| prompt.as_ref().is_none_or(|prompt| *prompt == working.prompt))
        else {
            return stored(context, prompt.as_ref()).await.map(|found| json!(ExtractionView::stored(&found)));
        };
        match context.store::<Extraction>().get(&context.principal.org, &working.id).await? {
            Some(record) => Ok(json!(ExtractionView::working(working, &record))),
            None => after_deletion(&working.id, stored(context, prompt.as_ref()).await),
        }
    }
}

#[derive(Serialize)]
struct ExtractionView<'a> {
    extraction_id: &'a ExtractionId,
    document_id: &'a DocumentId,
    prompt_revid: &'a PromptRevId,
    edited: bool,
    verified: bool,
    data: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_data: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl<'a> ExtractionView<'a> {
    fn stored(record: &'a Extraction) -> Self {
        Self {
            extraction_id: &record.id,
            document_id: &record.document,
            prompt_revid: &record.prompt,
            edited: record.edited.is_some(),
            verified: record.verified,
            data: record.current(),
            stored_data: None,
            note: partial_data(record).map(str::to_owned),
        }
    }

    /// Adds a note before the note that exists.
    fn with_note(self, note: &str) -> Self {
        let note = match &self.note {
            Some(existing) => format!("{note} {existing}"),
            None => note.to_owned(),
        };
        Self { note: Some(note), ..self }
    }

    /// Returns the working copy with the edits and verification of the stored extraction.
    fn working(working: &'a WorkingExtraction, record: &'a Extraction) -> Self {
        let stored = Self::stored(record);
        if working.data == *record.current() {
            return stored;
        }
        let note = "The stored extraction was changed outside of this conversation. data is the copy of this conversation; \
                    stored_data is current. edited and verified describe stored_data, and update_extraction_field \
                    changes it.";
        Self { data: &working.data, stored_data: Some(record.current()), ..stored }.with_note(note)
    }
}

/// Returns a note if the data is what the agent of the profile `extraction` has written so far.
fn partial_data(record: &Extraction) -> Option<&'static str> {
    match record.state() {
        ExtractionState::Completed => None,
        ExtractionState::InProgress => {
            Some("Another agent is working on this extraction: its data is partial and may not match the schema.")
        }
        ExtractionState::Failed => {
            Some("Another agent did not complete this extraction: its data is partial and may not match the schema.")
        }
    }
}

/// Returns the newest stored extraction in place of the deleted working extraction.
fn after_deletion(deleted: &ExtractionId, found: Result<Extraction, ToolError>) -> Result<Value, ToolError> {
    match found {
        Ok(found) => {
            let note = format!("The working extraction {deleted} was deleted. This is the newest stored extraction.");
            Ok(json!(ExtractionView::stored(&found).with_note(&note)))
        }
        Err(ToolError::ForModel(text)) => {
            Err(ToolError::ForModel(format!("The working extraction {deleted} was deleted. {text}")))
        }
        Err(error) => Err(error),
    }
}

/// Returns the newest extraction of the conversation's document. `prompt` restricts it to one prompt revision.
pub(super) async fn stored(context: &CallContext, prompt: Option<&PromptRevId>) -> Result<Extraction, ToolError> {
    let document = documents::of_conversation(context).await?;
    let filter = ExtractionFilter {
        document: Some(document.id.clone()),
        prompt_revision: prompt.cloned(),
        ..ExtractionFilter::default()
    };
    let found = context.store::<Extraction>().first(&context.principal.org, &filter).await?;
    found.ok_or_else(|| {
        let by = prompt.map(|prompt| format!(" by prompt {prompt}")).unwrap_or_default();
        ToolError::ForModel(format!("The document has no extraction{by}. Call run_extraction."))
    })
}
