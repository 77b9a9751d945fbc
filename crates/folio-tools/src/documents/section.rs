//! The tool `section_reader`.

use async_trait::async_trait;
use folio_resources::SectionId;
use folio_types::{Reason, limits};
use serde::Deserialize;
use serde_json::{Value, json};

use super::find_to_read;
use crate::arguments::{self, number, optional, required, text};
use crate::call::{ReadCall, read_tool};
use crate::document_text::add_page;
use crate::sections::{SECTION_TOKENS_DEFAULT, SectionBounds, read_section};
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum text of one call, so that its JSON stays below the bound on tool results.
const TEXT_BYTES: usize = limits::TOOL_RESULT_BYTES / 4 * 3;
/// Largest accepted number of tokens. A longer text exceeds [`TEXT_BYTES`].
const TOKENS_MAX: u32 = 16_000;

pub(super) fn tool() -> Tool {
    read_tool::<ReadSection>(
        "section_reader",
        "Returns the text of a section of a document with the sections in it. Call it for the sections that the task needs, \
         after pdf_outline returned their section_id. Result: section_id, title, level, first_page, last_page, text (with a line such as \
         \"--- page 3 ---\" before each page if there are several), tokens (about), truncated and rest_id (only if the text was cut: call \
         section_reader with rest_id as section_id for the rest).",
        vec![
            required(
                "section_id",
                text("Id from pdf_outline, or the rest_id of an earlier result, such as doc_….….s2."),
            ),
            optional(
                "max_tokens",
                number(
                    &format!("Maximum length of the text in tokens. Default: {SECTION_TOKENS_DEFAULT}."),
                    1,
                    TOKENS_MAX,
                ),
            ),
        ],
    )
}

#[derive(Deserialize)]
struct ReadSection {
    section_id: String,
    #[serde(default, deserialize_with = "arguments::whole")]
    max_tokens: Option<u32>,
}

#[async_trait]
impl ReadCall for ReadSection {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let hint = "expected a section_id such as doc_….….s2; call pdf_outline to find it.";
        let id: SectionId = arguments::id("section_id", &self.section_id, hint)?;
        let document = find_to_read(context, &id.text.document).await?;
        let resources = &context.resources;
        let tokens = u64::from(self.max_tokens.unwrap_or(SECTION_TOKENS_DEFAULT));
        let bounds = SectionBounds { tokens, bytes: TEXT_BYTES };
        let read = read_section(&resources.stores, &resources.outlines, &document, &id, bounds).await;
        let read = read.map_err(|error| match error.reason {
            Reason::VersionConflict => ToolError::ForModel(format!(
                "section_id {id} is of an earlier text: the document was read again. Call pdf_outline for the current ids."
            )),
            _ => error.into(),
        })?;
        let mut text = String::new();
        for part in &read.pages {
            add_page(&mut text, (read.pages.len() > 1).then_some(part.number), &part.text);
        }
        let mut result = json!({
            "section_id": id.to_string(),
            "title": read.section.title,
            "level": read.section.level,
            "first_page": read.section.start.page,
            "last_page": read.section.last_page(document.pages),
            "text": text,
            "tokens": read.tokens,
        });
        if let (Some(rest), Some(members)) = (&read.rest, result.as_object_mut()) {
            members.insert("truncated".to_owned(), true.into());
            members.insert("rest_id".to_owned(), rest.to_string().into());
        }
        Ok(result)
    }
}
