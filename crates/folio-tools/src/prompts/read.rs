//! The tools `get_prompt` and `list_prompts`.

use async_trait::async_trait;

use folio_resources::{Document, Prompt, PromptFilter, PromptRevision};
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::revid;
use crate::arguments::{self, Paging, list_of_text, name_search, optional, paging, required, text};
use crate::call::{ReadCall, read_tool};
use crate::subject::{find_by_argument, find_revision};
use crate::tool::{CallContext, Tool, ToolError};

const DOCUMENT_ID: &str = "Only prompts that share a tag with this document. Default: all.";
const TAG_IDS: &str = "Only prompts with all of these tags. Default: all.";

pub(super) fn tools() -> Vec<Tool> {
    let filters = [
        name_search(),
        optional("document_id", text(DOCUMENT_ID)).or_empty(),
        optional("tag_ids", list_of_text(TAG_IDS, limits::TAGS_MAX)).or_empty(),
    ];
    vec![
        read_tool::<GetPrompt>(
            "get_prompt",
            "Returns one version of a prompt. Call it before update_prompt. Result: prompt_revid, prompt_id, version, \
             name, schema_revid, model, tag_ids, content.",
            vec![required("prompt_revid", text("Id of the version, such as prm_….1."))],
        ),
        read_tool::<ListPrompts>(
            "list_prompts",
            "Returns the prompts, newest first. Call it to find a prompt to reuse. Result: total, skip, prompts (the \
             fields of get_prompt without content).",
            paging().into_iter().chain(filters).collect(),
        ),
    ]
}

#[derive(Deserialize)]
struct GetPrompt {
    prompt_revid: String,
}

#[async_trait]
impl ReadCall for GetPrompt {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let found = find_revision::<Prompt>(context, &revid(context, &self.prompt_revid).await?).await?;
        let mut result = summary(&found);
        if let Some(members) = result.as_object_mut() {
            members.insert("content".to_owned(), found.content.into());
        }
        Ok(result)
    }
}

#[derive(Deserialize)]
struct ListPrompts {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
    document_id: Option<String>,
    tag_ids: Option<Vec<String>>,
}

#[async_trait]
impl ReadCall for ListPrompts {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let mut filter = PromptFilter { name_search: arguments::search(self.name_search)?, ..Default::default() };
        filter.all_tags = arguments::tag_ids(&self.tag_ids.unwrap_or_default())?;
        if self.document_id.is_some() {
            let document: Document = find_by_argument(context, self.document_id.as_deref()).await?;
            filter.document = Some(document.id);
        }
        let page = context.store::<Prompt>().list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("prompts", page, |prompt| summary(&prompt.latest)))
    }
}

fn summary(revision: &PromptRevision) -> Value {
    json!({
        "prompt_revid": revision.revid,
        "prompt_id": revision.revid.of,
        "version": revision.revid.version,
        "name": revision.name,
        "schema_revid": revision.schema,
        "model": revision.model,
        "tag_ids": revision.tags,
    })
}
