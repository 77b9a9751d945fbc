//! The tool `pdf_outline`.

use async_trait::async_trait;
use folio_resources::{Document, ImageId, LinkTarget, Section, TextId};
use folio_storage::value::PageElements;
use folio_types::limits;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{document_id, read_by_argument};
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum number of pages whose structure a call returns.
const PAGES_MAX: u32 = 200;
/// Number of pages whose tables, links and images are read together.
const PAGES_AT_ONCE: u32 = 32;
/// Maximum size of the sections of a result, and of its other elements, in bytes of JSON.
const SECTIONS_BYTES: usize = limits::TOOL_RESULT_BYTES / 2;
const ELEMENTS_BYTES: usize = limits::TOOL_RESULT_BYTES / 4;

pub(super) fn tool() -> Tool {
    let page = "First page, from 1. Default: 1.";
    read_tool::<GetOutline>(
        "pdf_outline",
        "Returns the structure of a document of any format: its headings as sections, its tables, links and images. Call it \
         before section_reader to find a section_id, and to see how long a document is. It returns no text. Result: document_id, \
         document_name, media_type, pages (their number), sections (section_id, level (1 is the highest, 0: text without a heading), \
         title, first_page, last_page), tables (page, rows, columns), links (page, anchor, url or to_page), images (image_id, page, \
         caption), next_from_page (only if more follows: call again with it as from_page), incomplete (only if tables, links or images of the \
         pages were left out).",
        vec![document_id(), optional("from_page", number(page, 1, 1_000_000))],
    )
}

#[derive(Deserialize)]
struct GetOutline {
    document_id: Option<String>,
    #[serde(default, deserialize_with = "arguments::whole")]
    from_page: Option<u32>,
}

#[derive(Serialize)]
struct SectionRow<'s> {
    section_id: String,
    level: u8,
    title: &'s str,
    first_page: u32,
    last_page: u32,
}

#[async_trait]
impl ReadCall for GetOutline {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let document = read_by_argument(context, self.document_id.as_deref()).await?;
        let resources = &context.resources;
        let (text, outline) = resources.outlines.outline(&resources.stores, &document).await?;
        let from = self.from_page.unwrap_or(1);
        if from > document.pages {
            let text = format!("from_page {from} is out of range: the document has {} pages.", document.pages);
            return Err(ToolError::ForModel(text));
        }
        let mut end = from.saturating_add(PAGES_MAX).min(document.pages.saturating_add(1));
        let (mut sections, mut bytes) = (Vec::new(), 0);
        let pages = from..end;
        for section in outline.sections().iter().filter(|section| pages.contains(&section.start.page)) {
            let row = row(&text, section, document.pages);
            let value = json!(row);
            bytes += value.to_string().len();
            // The sections of the first page are complete, so that the next call continues after it.
            if bytes > SECTIONS_BYTES && section.start.page > from {
                end = section.start.page;
                break;
            }
            sections.push((section.start.page, value));
        }
        sections.retain(|(page, _)| *page < end);
        let sections: Vec<Value> = sections.into_iter().map(|(_, section)| section).collect();
        let elements = Elements::read(context, &document, &text, (from, end)).await?;
        let mut result = json!({
            "document_id": document.id,
            "document_name": document.name,
            "media_type": document.media_type,
            "pages": document.pages,
            "sections": sections,
            "tables": elements.tables,
            "links": elements.links,
            "images": elements.images,
        });
        if let Some(members) = result.as_object_mut() {
            if end <= document.pages {
                members.insert("next_from_page".to_owned(), end.into());
            }
            if elements.is_incomplete {
                members.insert("incomplete".to_owned(), true.into());
            }
        }
        Ok(result)
    }
}

fn row<'s>(text: &TextId, section: &'s Section, pages: u32) -> SectionRow<'s> {
    SectionRow {
        section_id: text.section(section.number).to_string(),
        level: section.level,
        title: &section.title,
        first_page: section.start.page,
        last_page: section.last_page(pages),
    }
}

/// The tables, links and images of some pages.
#[derive(Default)]
struct Elements {
    tables: Vec<Value>,
    links: Vec<Value>,
    images: Vec<Value>,
    bytes: usize,
    is_incomplete: bool,
}

impl Elements {
    async fn read(
        context: &CallContext,
        document: &Document,
        text: &TextId,
        (from, end): (u32, u32),
    ) -> Result<Self, ToolError> {
        let (texts, mut found, mut next) = (&context.resources.stores.texts, Self::default(), from);
        while next < end && !found.is_incomplete {
            let count = PAGES_AT_ONCE.min(end - next);
            let pages = texts.elements(&document.org, document.id.as_str(), next, count).await?;
            pages.iter().for_each(|page| found.add(text, page));
            next += count;
        }
        Ok(found)
    }

    fn add(&mut self, text: &TextId, page: &PageElements) {
        let number = page.number;
        for table in &page.tables {
            let columns = table.rows.first().map_or(0, Vec::len);
            let value = json!({ "page": number, "rows": table.rows.len(), "columns": columns });
            if self.fits(&value) {
                self.tables.push(value);
            }
        }
        for link in &page.links {
            let value = match &link.target {
                LinkTarget::Url(url) => json!({ "page": number, "anchor": link.anchor, "url": url }),
                LinkTarget::Page(to) => json!({ "page": number, "anchor": link.anchor, "to_page": to }),
            };
            if self.fits(&value) {
                self.links.push(value);
            }
        }
        for image in &page.images {
            let id = ImageId { text: text.clone(), page: number, number: image.number };
            let value = json!({ "image_id": id.to_string(), "page": number, "caption": image.caption });
            if self.fits(&value) {
                self.images.push(value);
            }
        }
    }

    fn fits(&mut self, value: &Value) -> bool {
        self.bytes += value.to_string().len();
        self.is_incomplete |= self.bytes > ELEMENTS_BYTES;
        !self.is_incomplete
    }
}
