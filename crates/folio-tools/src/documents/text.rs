//! The tool `get_ocr_text`.

use async_trait::async_trait;
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::of_conversation;
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::document_text::{self, Cut};
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum text of one call, so that its JSON stays below the bound on tool results.
const TEXT_BYTES: usize = limits::TOOL_RESULT_BYTES / 4 * 3;

pub(super) fn tool() -> Tool {
    read_tool::<GetText>(
        "get_ocr_text",
        "Returns the text of the conversation's document. Call it if the system message lacks text that you need. \
         Result: document_id, pages (their number), page_num, text, truncated (only if the text was cut: how to get \
         the rest).",
        vec![optional("page_num", number("Page, from 1. Default: all pages.", 1, 1_000_000))],
    )
}

#[derive(Deserialize)]
struct GetText {
    #[serde(default, deserialize_with = "arguments::whole")]
    page_num: Option<u32>,
}

#[async_trait]
impl ReadCall for GetText {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let document = of_conversation(context).await?;
        document_text::check_ready(&document)?;
        let (from, count) = match self.page_num {
            Some(page) if page > document.pages => {
                let text = format!("page_num {page} is out of range: the document has {} pages.", document.pages);
                return Err(ToolError::ForModel(text));
            }
            Some(page) => (page, 1),
            None => (1, document.pages),
        };
        let org = &context.principal.org;
        let read = document_text::read(&context.resources.stores, org, &document.id, from, count, TEXT_BYTES).await?;
        let mut result = json!({
            "document_id": document.id,
            "pages": document.pages,
            "page_num": self.page_num,
            "text": read.text,
        });
        if let (Some(Cut { page }), Some(members)) = (read.cut, result.as_object_mut()) {
            let note = match self.page_num {
                Some(_) => {
                    "The page exceeds the size of a tool result; its end is missing and cannot be read.".to_owned()
                }
                None => format!(
                    "The text ends within page {page}. Call get_ocr_text with page_num for page {page} and each page after it."
                ),
            };
            members.insert("truncated".to_owned(), note.into());
        }
        Ok(result)
    }
}
