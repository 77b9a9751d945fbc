//! `get_extraction_result`: the working extraction first, then the store.
//!
//! The working extraction is the conversation's own copy: forking and truncating bring back the one that belonged there.
//! Its record says whether people edited it since or vouch for it, so both are read. Where the record holds other data, the
//! answer shows both; where it is gone, the copy is worth nothing any more: the answer says so and falls back to the
//! store. Reading changes no working state.

use async_trait::async_trait;
use folio_history::journal::WorkingExtraction;
use folio_types::extraction::Extraction;
use folio_types::{DocumentId, ExtractionId, PromptRevId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::{optional, text};
use crate::call::{ReadCall, reads};
use crate::tool::{CallContext, Tool, ToolError, ToolResources};
use crate::{documents, prompts};

pub(super) fn tool() -> Tool {
    reads::<GetResult>(
        "get_extraction_result",
        "Gives the extraction of the conversation's document: the working one, else the newest that is stored. edited \
         says whether it was changed after the model gave it, verified whether a person vouches for it; note, where it \
         is there, what is different from what the conversation knew.",
        vec![optional("prompt_revid", text("Only an extraction by this prompt revision, such as prm_….1.")).or_empty()],
    )
}

#[derive(Deserialize)]
struct GetResult {
    prompt_revid: Option<String>,
}

#[async_trait]
impl ReadCall for GetResult {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let prompt = self.prompt_revid.filter(|revid| !revid.is_empty()).map(|revid| prompts::revid(&revid));
        let prompt: Option<PromptRevId> = prompt.transpose()?;
        let working = context.working.extraction.as_ref();
        let Some(working) = working.filter(|working| prompt.as_ref().is_none_or(|prompt| *prompt == working.prompt))
        else {
            return stored(resources, context, prompt.as_ref()).await.map(|found| json!(Shown::stored(&found)));
        };
        match resources.stores.extractions.get(&context.principal.org, &working.id).await? {
            Some(record) => Ok(json!(Shown::working(working, &record))),
            None => instead_of(&working.id, stored(resources, context, prompt.as_ref()).await),
        }
    }
}

/// An extraction as the model reads it.
#[derive(Serialize)]
struct Shown<'a> {
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

impl<'a> Shown<'a> {
    fn stored(record: &'a Extraction) -> Self {
        Self {
            extraction_id: &record.id,
            document_id: &record.document,
            prompt_revid: &record.prompt,
            edited: record.edited.is_some(),
            verified: record.verified,
            data: record.current(),
            stored_data: None,
            note: None,
        }
    }

    /// The working copy, with what its record says of it.
    fn working(working: &'a WorkingExtraction, record: &'a Extraction) -> Self {
        let shown = Self::stored(record);
        if working.data == *record.current() {
            return shown;
        }
        let note = "The stored extraction was changed elsewhere since this conversation knew it as data. stored_data is \
                    what holds now, what edited and verified speak of, and what update_extraction_field changes.";
        Self { data: &working.data, stored_data: Some(record.current()), note: Some(note.to_owned()), ..shown }
    }
}

/// What there is in the place of a working extraction that was deleted.
fn instead_of(gone: &ExtractionId, found: Result<Extraction, ToolError>) -> Result<Value, ToolError> {
    match found {
        Ok(found) => {
            let note = format!("The working extraction {gone} was deleted. This is the newest stored one.");
            Ok(json!(Shown { note: Some(note), ..Shown::stored(&found) }))
        }
        Err(ToolError::Told(text)) => {
            Err(ToolError::Told(format!("The working extraction {gone} was deleted. {text}")))
        }
        Err(error) => Err(error),
    }
}

/// The newest extraction of the conversation's document, by a prompt revision where one is named.
pub(super) async fn stored(
    resources: &ToolResources,
    context: &CallContext,
    prompt: Option<&PromptRevId>,
) -> Result<Extraction, ToolError> {
    let document = documents::own(resources, context).await?;
    let found = resources.stores.extractions.newest(&context.principal.org, &document.id, prompt).await?;
    found.ok_or_else(|| {
        let by = prompt.map(|prompt| format!(" by prompt {prompt}")).unwrap_or_default();
        ToolError::Told(format!("The document has no extraction{by}; call run_extraction."))
    })
}
