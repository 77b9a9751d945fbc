//! `get_ocr_text`.

use async_trait::async_trait;
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::own;
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, reads};
use crate::document_text::{self, Cut};
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

/// Bytes of text that one call gives, so that its JSON stays below a result's bound.
const TEXT_BYTES: usize = limits::TOOL_RESULT_BYTES / 4 * 3;

pub(super) fn tool() -> Tool {
    reads::<GetText>(
        "get_ocr_text",
        "Gives the text of the conversation's document: one page, or all of it as far as it fits. pages says how many \
         there are; truncated, where it is there, says what to ask for next.",
        vec![optional("page_num", number("The page, from 1. Left out: all pages.", 1, 1_000_000))],
    )
}

#[derive(Deserialize)]
struct GetText {
    #[serde(default, deserialize_with = "arguments::whole")]
    page_num: Option<u32>,
}

#[async_trait]
impl ReadCall for GetText {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let document = own(resources, context).await?;
        document_text::check_ready(&document)?;
        let (from, count) = match self.page_num {
            Some(page) if page > document.pages => {
                let text = format!("There is no page {page}: the document has {} pages.", document.pages);
                return Err(ToolError::Told(text));
            }
            Some(page) => (page, 1),
            None => (1, document.pages),
        };
        let org = &context.principal.org;
        let read = document_text::read(&resources.stores, org, &document.id, from, count, TEXT_BYTES).await?;
        let mut shown = json!({
            "document_id": document.id,
            "pages": document.pages,
            "page_num": self.page_num,
            "text": read.text,
        });
        if let (Some(Cut { page }), Some(members)) = (read.cut, shown.as_object_mut()) {
            let note = match self.page_num {
                Some(_) => "This page is longer than a result may be; its end is left out.".to_owned(),
                None => format!("Cut within page {page}. Ask with page_num for the pages from {page} on."),
            };
            members.insert("truncated".to_owned(), note.into());
        }
        Ok(shown)
    }
}
