//! `get_extraction_result`.

use async_trait::async_trait;
use folio_types::PromptRevId;
use folio_types::extraction::Extraction;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{self, PROMPT_REVID_HINT};
use crate::documents;
use crate::tool::{CallContext, ReadTool, ToolError, ToolOutput, ToolResources};

pub(super) struct GetResult;

#[derive(Deserialize)]
struct Which {
    prompt_revid: Option<String>,
}

#[async_trait]
impl ReadTool for GetResult {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let Which { prompt_revid } = arguments::read(&arguments)?;
        let prompt: Option<PromptRevId> = match prompt_revid.as_deref().filter(|revid| !revid.is_empty()) {
            Some(revid) => Some(arguments::id("prompt_revid", revid, PROMPT_REVID_HINT)?),
            None => None,
        };
        if let Some(working) = &context.working.extraction
            && prompt.as_ref().is_none_or(|prompt| *prompt == working.prompt)
        {
            return Ok(ToolOutput::new(json!({
                "extraction_id": working.id,
                "document_id": working.document,
                "prompt_revid": working.prompt,
                "data": working.data,
            })));
        }
        let found = stored(resources, context, prompt.as_ref()).await?;
        Ok(ToolOutput::new(json!({
            "extraction_id": found.id,
            "document_id": found.document,
            "prompt_revid": found.prompt,
            "verified": found.verified,
            "data": found.current(),
        })))
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
        ToolError::Told(format!("The document has no extraction{by} yet; call run_extraction."))
    })
}
