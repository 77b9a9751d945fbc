//! The tool `get_document_text` of the profiles about stacks, whose documents are those of the stack.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use super::{document_of, of_turn};
use crate::arguments::{self, required, text};
use crate::call::{ReadCall, read_tool};
use crate::extraction::{PAGE_TEXT_TOOL, page_arguments, read_pages};
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    let document = required("document_id", text("Document of the stack, from list_documents."));
    read_tool::<GetDocumentText>(
        PAGE_TEXT_TOOL,
        "Returns the text of a document of the stack. Without page: the first pages, as many as fit. Result: pages (their \
         number), text, next_character (only if the end of a long page is missing: read it with page and from_character), next_page \
         (only if the text continues: the page to read next).",
        std::iter::once(document).chain(page_arguments()).collect(),
    )
}

#[derive(Deserialize)]
struct GetDocumentText {
    document_id: String,
    #[serde(default, deserialize_with = "arguments::whole")]
    page: Option<u32>,
    #[serde(default, deserialize_with = "arguments::whole")]
    from_character: Option<u32>,
}

#[async_trait]
impl ReadCall for GetDocumentText {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let stack = of_turn(context).await?;
        let document = document_of(context, &stack, &self.document_id).await?;
        read_pages(context, &document, self.page, self.from_character).await
    }
}
