//! The tool `get_document_text`.

use std::ops::ControlFlow;

use async_trait::async_trait;
use folio_resources::Document;
use folio_storage::value::PageText;
use folio_types::limits;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{document_of, of_turn};
use crate::arguments::{self, Argument, number, optional};
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
         next_character (only if the end of a long page is missing: read it with page and from_character), next_page (only if the \
         text continues: the page to read next).",
        page_arguments().into(),
    )
}

/// Declares the arguments that select the pages of a document.
pub(crate) fn page_arguments() -> [Argument; 2] {
    [
        optional("page", number("Only this page, from 1. Default: the first pages.", 1, 1_000_000)),
        optional("from_character", number("Only with page: the position in it, from 0. Default: 0.", 0, 100_000_000)),
    ]
}

/// Returns the line that replaces an old result. `arguments`: those of its call.
pub fn page_text_removed(arguments: &Value) -> String {
    match arguments.get("page").and_then(Value::as_f64) {
        Some(page) => {
            let from = arguments.get("from_character").and_then(Value::as_f64).filter(|from| *from > 0.0);
            let part = from.map(|from| format!(" and from_character {from}")).unwrap_or_default();
            format!(
                "[The text of page {page} was removed. Call {PAGE_TEXT_TOOL} with page {page}{part} to read it again.]"
            )
        }
        None => format!("[The text of the first pages was removed. Call {PAGE_TEXT_TOOL} to read it again.]"),
    }
}

#[derive(Deserialize)]
struct GetDocumentText {
    #[serde(default, deserialize_with = "arguments::whole")]
    page: Option<u32>,
    #[serde(default, deserialize_with = "arguments::whole")]
    from_character: Option<u32>,
}

#[async_trait]
impl ReadCall for GetDocumentText {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let extraction = of_turn(context).await?;
        let document = document_of(context, &extraction).await?;
        read_pages(context, &document, self.page, self.from_character).await
    }
}

/// Returns the result of a call that reads the text of a document: the pages that fit, from a page or a position in it.
pub(crate) async fn read_pages(
    context: &CallContext,
    document: &Document,
    page: Option<u32>,
    from_character: Option<u32>,
) -> Result<Value, ToolError> {
    if let Err(error) = check_ready(document) {
        let text = format!("No OCR data found for this document. {}", error.message);
        return Err(ToolError::ForModel(text));
    }
    let pages = document.pages;
    let (from, count) = match page {
        Some(page) if page > pages => {
            let text = format!("page {page} is out of range: the document has {pages} pages.");
            return Err(ToolError::ForModel(text));
        }
        Some(page) => (page, 1),
        None => (1, pages),
    };
    let from_character = from_character.unwrap_or(0);
    if from_character > 0 && page.is_none() {
        let text = "from_character is a position in one page: state the page, too.";
        return Err(ToolError::ForModel(text.to_owned()));
    }
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    let mut read = PagesThatFit::new(pages, usize::try_from(from_character).unwrap_or(usize::MAX));
    for_each_page(stores, org, &document.id, (from, count), |page| read.add(page)).await?;
    if let Some(characters) = read.shorter_page {
        let text = format!("from_character {from_character} is out of range: page {from} has {characters} characters.");
        return Err(ToolError::ForModel(text));
    }
    Ok(read.result(from, pages))
}

/// The pages that fit into a result.
struct PagesThatFit {
    text: String,
    /// Size of the text as JSON, in bytes.
    bytes: usize,
    /// Position in the first page from which its text is added, in characters.
    from_character: usize,
    /// Number of the last added page. None: no page is added.
    last: Option<u32>,
    /// Position of the first character of the first page that did not fit. None: all of it fit.
    next_character: Option<usize>,
    /// Number of characters of the first page if it ends before `from_character`.
    shorter_page: Option<usize>,
}

impl PagesThatFit {
    fn new(pages: u32, from_character: usize) -> Self {
        let text = format!("Document ({pages} pages):\n\n");
        let bytes = json_bytes(&text);
        Self { text, bytes, from_character, last: None, next_character: None, shorter_page: None }
    }

    /// Adds a page if it fits. The first page is cut to the size that fits.
    fn add(&mut self, PageText { number, text, .. }: PageText) -> ControlFlow<()> {
        let from = if self.last.is_none() { self.from_character } else { 0 };
        let Some(text) = text_from(&text, from) else {
            self.shorter_page = Some(text.chars().count());
            return ControlFlow::Break(());
        };
        let mut page = String::new();
        add_page(&mut page, Some(number), text);
        let mut bytes = json_bytes(&page);
        let rest = TEXT_BYTES.saturating_sub(self.bytes);
        if bytes > rest {
            if self.last.is_some() {
                return ControlFlow::Break(());
            }
            page = cut(page, rest);
            bytes = json_bytes(&page);
            let heading = page.find('\n').map_or(0, |end| end + 1);
            let added = page.get(heading..).unwrap_or_default().chars().count();
            // Not even the line end that was added to the page may have fit.
            self.next_character = Some(added).filter(|added| *added < text.chars().count()).map(|added| from + added);
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
            if let Some(character) = self.next_character {
                members.insert("next_character".to_owned(), character.into());
            }
            if next <= pages {
                members.insert("next_page".to_owned(), next.into());
            }
        }
        result
    }
}

/// Returns the size of a text in a JSON string, without its quotation marks.
fn json_bytes(text: &str) -> usize {
    Value::from(text).to_string().len().saturating_sub(2)
}

/// Returns the text from a position in characters. None: the position is not in the text. Each text has the position 0.
fn text_from(text: &str, from: usize) -> Option<&str> {
    if from == 0 {
        return Some(text);
    }
    let (start, _) = text.char_indices().nth(from)?;
    text.get(start..)
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
        let mut read = PagesThatFit::new(9, 0);
        let added: Vec<bool> = (1..=9).map(|number| read.add(page(number, &third)).is_continue()).collect();
        assert_eq!(added.iter().position(|added| !added), Some(2));
        let result = read.result(1, 9);
        assert_eq!(result["next_page"], 3);
        assert!(result["text"].as_str().unwrap().starts_with("Document (9 pages):\n\n--- page 1 ---\n\"line\""));
        let bytes = result.to_string().len();
        assert!((TEXT_BYTES / 2..=limits::TOOL_RESULT_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_parts_of_a_page_that_does_not_fit_are_the_whole_page_and_the_last_page_has_no_next_one() {
        let text = "ä\u{1}\n".repeat(TEXT_BYTES / 4);
        let (mut from, mut read_again) = (0, String::new());
        let last_from = loop {
            let mut read = PagesThatFit::new(1, from);
            assert!(read.add(page(1, &text)).is_continue());
            let result = read.result(1, 1);
            assert!(result.get("next_page").is_none());
            let part =
                result["text"].as_str().unwrap().strip_prefix("Document (1 pages):\n\n--- page 1 ---\n").unwrap();
            read_again.push_str(part);
            let Some(next) = result["next_character"].as_u64() else { break from };
            let bytes = result.to_string().len();
            assert!((TEXT_BYTES - 10..=limits::TOOL_RESULT_BYTES).contains(&bytes), "{bytes}");
            from = usize::try_from(next).unwrap();
        };
        assert!(last_from > 0 && read_again == text);
        let mut beyond = PagesThatFit::new(1, 7);
        assert!(beyond.add(page(1, "Total 5")).is_break());
        assert_eq!(beyond.shorter_page, Some(7));
        let mut short = PagesThatFit::new(1, 0);
        assert!(short.add(page(1, "Total 5")).is_continue());
        let expected = json!({"pages": 1, "text": "Document (1 pages):\n\n--- page 1 ---\nTotal 5\n"});
        assert_eq!(short.result(1, 1), expected);
    }

    #[test]
    fn the_line_of_a_removed_text_names_the_part_of_the_page() {
        let line = |arguments| page_text_removed(&arguments);
        let part = line(json!({ "page": 3, "from_character": 60_000 }));
        assert!(part.contains("with page 3 and from_character 60000 to"), "{part}");
        assert!(line(json!({ "page": 3, "from_character": 0 })).contains("with page 3 to"));
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
