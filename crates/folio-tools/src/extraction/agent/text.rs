//! The tool `get_document_text`.

use std::ops::ControlFlow;

use async_trait::async_trait;
use folio_storage::value::PageText;
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{document_of, of_turn};
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::document_text::{add_page, check_ready, for_each_page};
use crate::tool::{CallContext, Tool, ToolError};

/// Name of the tool whose results are page texts.
pub const PAGE_TEXT_TOOL: &str = "get_document_text";
/// Maximum size of the text as JSON, in bytes. The rest of a tool result is for the other members.
const TEXT_BYTES: usize = limits::TOOL_RESULT_BYTES - 1_024;

pub(super) fn tool() -> Tool {
    read_tool::<GetDocumentText>(
        PAGE_TEXT_TOOL,
        "Returns the text of the document. Without page: the first pages, as many as fit. Result: pages (their number), text, \
         next_page (only if the text continues: the page to read next), truncated (only if the end of the page is missing).",
        vec![optional("page", number("Only this page, from 1. Default: the first pages.", 1, 1_000_000))],
    )
}

/// Returns the line that replaces an old result. `arguments`: those of its call.
pub fn page_text_removed(arguments: &Value) -> String {
    match arguments.get("page").and_then(Value::as_f64) {
        Some(page) => {
            format!("[The text of page {page} was removed. Call {PAGE_TEXT_TOOL} with page {page} to read it again.]")
        }
        None => format!("[The text of the first pages was removed. Call {PAGE_TEXT_TOOL} to read it again.]"),
    }
}

#[derive(Deserialize)]
struct GetDocumentText {
    #[serde(default, deserialize_with = "arguments::whole")]
    page: Option<u32>,
}

#[async_trait]
impl ReadCall for GetDocumentText {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let extraction = of_turn(context).await?;
        let document = document_of(context, &extraction).await?;
        if let Err(error) = check_ready(&document) {
            let text = format!("No OCR data found for this document. {}", error.message);
            return Err(ToolError::ForModel(text));
        }
        let pages = document.pages;
        let (from, count) = match self.page {
            Some(page) if page > pages => {
                let text = format!("page {page} is out of range: the document has {pages} pages.");
                return Err(ToolError::ForModel(text));
            }
            Some(page) => (page, 1),
            None => (1, pages),
        };
        let (stores, org) = (&context.resources.stores, &context.principal.org);
        let mut read = PagesThatFit::new(pages);
        for_each_page(stores, org, &document.id, (from, count), |page| read.add(page)).await?;
        Ok(read.result(from, pages))
    }
}

/// The pages that fit into a result.
struct PagesThatFit {
    text: String,
    /// Size of the text as JSON, in bytes.
    bytes: usize,
    /// Number of the last added page. None: no page is added.
    last: Option<u32>,
    is_truncated: bool,
}

impl PagesThatFit {
    fn new(pages: u32) -> Self {
        let text = format!("Document ({pages} pages):\n\n");
        Self { bytes: json_bytes(&text), text, last: None, is_truncated: false }
    }

    /// Adds a page if it fits. The first page is cut to the size that fits.
    fn add(&mut self, PageText { number, text, .. }: PageText) -> ControlFlow<()> {
        let mut page = String::new();
        add_page(&mut page, Some(number), &text);
        let mut bytes = json_bytes(&page);
        let rest = TEXT_BYTES.saturating_sub(self.bytes);
        if bytes > rest {
            if self.last.is_some() {
                return ControlFlow::Break(());
            }
            page = cut(page, rest);
            bytes = json_bytes(&page);
            self.is_truncated = true;
        }
        self.text.push_str(&page);
        self.bytes += bytes;
        self.last = Some(number);
        ControlFlow::Continue(())
    }

    fn result(self, from: u32, pages: u32) -> Value {
        let mut result = json!({ "pages": pages, "text": self.text });
        let next = self.last.unwrap_or(from).saturating_add(1);
        if let Some(members) = result.as_object_mut() {
            if next <= pages {
                members.insert("next_page".to_owned(), next.into());
            }
            if self.is_truncated {
                let note = "The page exceeds the size of a tool result; its end is missing and cannot be read.";
                members.insert("truncated".to_owned(), note.into());
            }
        }
        result
    }
}

/// Returns the size of a text in a JSON string, without its quotation marks.
fn json_bytes(text: &str) -> usize {
    Value::from(text).to_string().len().saturating_sub(2)
}

/// Returns the longest start of a text of at most `max` bytes as JSON.
fn cut(mut text: String, max: usize) -> String {
    let mut bytes = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        bytes += json_bytes(c.encode_utf8(&mut [0; 4]));
        (bytes > max).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u32, text: &str) -> PageText {
        PageText { number, text: text.to_owned(), gap: None, first_cell: None }
    }

    #[test]
    fn whole_pages_are_returned_as_long_as_they_fit_and_the_next_one_is_named() {
        let third = "\"line\"\n".repeat(TEXT_BYTES / 3 / 10);
        let mut read = PagesThatFit::new(9);
        let added: Vec<bool> = (1..=9).map(|number| read.add(page(number, &third)).is_continue()).collect();
        assert_eq!(added.iter().position(|added| !added), Some(2));
        let result = read.result(1, 9);
        assert_eq!(result["next_page"], 3);
        assert!(result["text"].as_str().unwrap().starts_with("Document (9 pages):\n\n--- page 1 ---\n\"line\""));
        let bytes = result.to_string().len();
        assert!((TEXT_BYTES / 2..=limits::TOOL_RESULT_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_page_that_does_not_fit_is_cut_and_the_last_page_has_no_next_one() {
        let mut read = PagesThatFit::new(1);
        assert!(read.add(page(1, &"ä\u{1}\n".repeat(TEXT_BYTES))).is_continue());
        let result = read.result(1, 1);
        assert!(result.get("next_page").is_none() && result["truncated"].is_string());
        let bytes = result.to_string().len();
        assert!((TEXT_BYTES - 10..=limits::TOOL_RESULT_BYTES).contains(&bytes), "{bytes}");
        let mut short = PagesThatFit::new(1);
        assert!(short.add(page(1, "Total 5")).is_continue());
        let expected = json!({"pages": 1, "text": "Document (1 pages):\n\n--- page 1 ---\nTotal 5\n"});
        assert_eq!(short.result(1, 1), expected);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, max, expected) in
            [("abc", 3, "abc"), ("abc", 2, "ab"), ("aäb", 2, "a"), ("a\nb", 2, "a"), ("", 0, "")]
        {
            assert_eq!(cut(text.to_owned(), max), expected, "{text:?} {max}");
        }
    }
}
