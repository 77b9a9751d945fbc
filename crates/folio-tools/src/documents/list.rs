//! `list_documents`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use folio_storage::DocumentFilter;
use folio_types::document::{Document, TextState};
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{self, Paging, list_of_text, map_of_text, name_search, optional, paging};
use crate::call::{ReadCall, reads};
use crate::rules;
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

pub(super) fn tool() -> Tool {
    let filters = [
        name_search(),
        optional("tag_ids", list_of_text("Only those that have all of these tags.", limits::TAGS_MAX)).or_empty(),
        optional(
            "metadata_search",
            map_of_text("Only those whose metadata hold these values; a value may be a piece of the stored one."),
        )
        .or_empty(),
    ];
    reads::<ListDocuments>(
        "list_documents",
        "Lists the organization's documents, newest first, with their tags and metadata. total says how many there are.",
        paging().into_iter().chain(filters).collect(),
    )
}

#[derive(Deserialize)]
struct ListDocuments {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
    tag_ids: Option<Vec<String>>,
    metadata_search: Option<BTreeMap<String, String>>,
}

#[async_trait]
impl ReadCall for ListDocuments {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let metadata = self.metadata_search.unwrap_or_default();
        rules::check_metadata("metadata_search", &metadata)?;
        let filter = DocumentFilter {
            name_search: arguments::search(self.name_search)?,
            all_tags: arguments::tag_ids(&self.tag_ids.unwrap_or_default())?,
            metadata,
        };
        let page = resources.stores.documents.list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("documents", page, show))
    }
}

fn show(document: Document) -> Value {
    let (state, reason) = match document.state {
        TextState::Uploaded => ("uploaded", None),
        TextState::Processing => ("processing", None),
        TextState::Ready => ("ready", None),
        TextState::NoText(reason) => ("no_text", Some(reason)),
        TextState::Failed(reason) => ("failed", Some(reason)),
    };
    json!({
        "document_id": document.id,
        "document_name": document.name,
        "media_type": document.media_type,
        "pages": document.pages,
        "text": state,
        "reason": reason,
        "tag_ids": document.tags,
        "metadata": document.metadata,
    })
}
