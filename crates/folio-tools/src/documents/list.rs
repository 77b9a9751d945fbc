//! The tool `list_documents`.

use std::collections::BTreeMap;

use async_trait::async_trait;

use folio_resources::{Document, DocumentFilter, TextState};
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{self, Paging, list_of_text, map_of_text, name_search, optional, paging};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    let filters = [
        name_search(),
        optional("tag_ids", list_of_text("Only documents with all of these tags. Default: all.", limits::TAGS_MAX))
            .or_empty(),
        optional(
            "metadata_search",
            map_of_text(
                "Only documents whose metadata contains these texts, such as {\"customer\":\"acme\"}. Default: all.",
            ),
        )
        .or_empty(),
    ];
    read_tool::<ListDocuments>(
        "list_documents",
        "Returns the documents of the organization, newest first. Call it to find a document_id. Result: total, \
         skip, documents (document_id, document_name, media_type, pages, text (uploaded, processing, ready, no_text \
         or failed), reason, tag_ids, metadata).",
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
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let metadata = self.metadata_search.unwrap_or_default();
        folio_resources::fields::check_metadata("metadata_search", &metadata)?;
        let filter = DocumentFilter {
            name_search: arguments::search(self.name_search)?,
            all_tags: arguments::tag_ids(&self.tag_ids.unwrap_or_default())?,
            metadata,
            ..DocumentFilter::default()
        };
        let page = context.store::<Document>().list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("documents", page, summary))
    }
}

fn summary(document: Document) -> Value {
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
