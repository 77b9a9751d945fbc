//! The sections of a document, and the context that its chunks receive.

use std::collections::BTreeMap;

use folio_types::limits::{METADATA_MAX, METADATA_VALUE_BYTES, NAME_CHARS};
use folio_types::{DocumentId, Error, Reason, Result};
use serde::{Deserialize, Serialize};

/// Maximum sections of a document.
const SECTIONS_MAX: usize = 50_000;
/// Maximum blocks of all sections of a document.
const BLOCKS_MAX: usize = 1_000_000;
/// Maximum bytes of the text of all blocks of a document.
const TEXT_BYTES: usize = 64 * 1024 * 1024;
/// Maximum bytes of a paragraph.
const PARAGRAPH_BYTES: usize = 4 * 1024 * 1024;
/// Maximum titles above a section, with its own.
const TITLES_MAX: usize = 16;
/// Maximum length of a title, in characters.
const TITLE_CHARS: usize = 500;
/// Maximum cells of a row of a table.
const CELLS_MAX: usize = 1_000;
/// Maximum dictionary entries of a document's context.
const DICTIONARY_MAX: usize = 10_000;
/// Maximum image summaries of a document's context.
const IMAGES_MAX: usize = 10_000;
/// Maximum length of a summary, an expansion or a disambiguation, in bytes.
const CONTEXT_BYTES: usize = 16 * 1024;

/// Characters of the text of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// Number of the page, from 1.
    pub page: u32,
    /// Index of the first character.
    pub start: u32,
    /// Index after the last character.
    pub end: u32,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    pub cells: Vec<String>,
    /// The characters of the row. The span of the table, if the positions of rows are unknown.
    pub span: Span,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Characters of the text of a page, from the index `start`, verbatim.
    Paragraph { page: u32, start: u32, text: String },
    /// The first row is the header.
    Table { rows: Vec<TableRow> },
}

/// A section of a document, without the sections below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Id of the section in its generation of the text.
    pub id: String,
    /// Titles from the document's top down to this section. Empty: text above the first heading.
    pub title_path: Vec<String>,
    /// Blocks in reading order.
    pub blocks: Vec<Block>,
}

/// The meaning of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryTerm {
    pub term: String,
    pub expansion: String,
    pub disambiguation: Option<String>,
}

/// The description of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    pub image_id: String,
    /// Number of the page with the image, from 1.
    pub page: u32,
    /// The section with the image. None: any section with text on the page.
    pub section_id: Option<String>,
    pub summary: String,
    /// Name of the image's file. None: the image is embedded in the document's file.
    pub file_name: Option<String>,
}

/// Context that is added to chunks. Everything is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    pub document_summary: Option<String>,
    /// Summaries by the ids of their sections.
    pub section_summaries: BTreeMap<String, String>,
    /// Entries in the order of their importance. A chunk receives those whose terms are in its text.
    pub dictionary: Vec<DictionaryTerm>,
    pub images: Vec<ImageSummary>,
}

/// One generation of the structure of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: DocumentId,
    pub file_name: String,
    /// Metadata of the document, which each chunk receives.
    pub metadata: BTreeMap<String, String>,
    /// Sections in reading order.
    pub sections: Vec<Section>,
    pub context: Context,
}

fn at_most(field: &str, count: usize, most: usize, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("has {count} {what}; at most {most} are accepted"))
        .with_reason(Reason::TooLarge))
}

fn context_text(field: &str, text: &str) -> Result<()> {
    at_most(field, text.len(), CONTEXT_BYTES, "bytes")
}

impl Block {
    /// Checks the pages, spans and sizes of a block, and returns its bytes.
    fn validate(&self) -> Result<usize> {
        match self {
            Self::Paragraph { page, start, text } => {
                at_most("sections.blocks", text.len(), PARAGRAPH_BYTES, "bytes in a paragraph")?;
                let chars = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
                if *page == 0 || start.checked_add(chars).is_none() {
                    return Err(Error::invalid_field("sections.blocks", "a paragraph has no page or exceeds its page"));
                }
                Ok(text.len())
            }
            Self::Table { rows } => {
                let mut bytes = 0usize;
                for TableRow { cells, span } in rows {
                    at_most("sections.blocks.rows", cells.len(), CELLS_MAX, "cells")?;
                    if span.page == 0 || span.start > span.end {
                        return Err(Error::invalid_field(
                            "sections.blocks.rows",
                            "a row has no page or a reversed span",
                        ));
                    }
                    bytes = cells.iter().fold(bytes, |sum, cell| sum.saturating_add(cell.len()).saturating_add(3));
                }
                Ok(bytes)
            }
        }
    }
}

impl Document {
    /// Checks each bound of the input.
    ///
    /// # Errors
    /// `TOO_LARGE` or `INVALID_FIELD` with the name of the field.
    pub fn validate(&self) -> Result<()> {
        at_most("metadata", self.metadata.len(), METADATA_MAX, "entries")?;
        for (key, value) in &self.metadata {
            at_most("metadata", key.chars().count(), NAME_CHARS, "characters in a key")?;
            at_most("metadata", value.len(), METADATA_VALUE_BYTES, "bytes in a value")?;
        }
        at_most("sections", self.sections.len(), SECTIONS_MAX, "sections")?;
        let (mut blocks, mut bytes) = (0usize, 0usize);
        for section in &self.sections {
            at_most("sections.id", section.id.chars().count(), NAME_CHARS, "characters")?;
            at_most("sections.title_path", section.title_path.len(), TITLES_MAX, "titles")?;
            for title in &section.title_path {
                at_most("sections.title_path", title.chars().count(), TITLE_CHARS, "characters in a title")?;
            }
            for block in &section.blocks {
                blocks = blocks.saturating_add(1);
                bytes = bytes.saturating_add(block.validate()?);
            }
        }
        at_most("sections.blocks", blocks, BLOCKS_MAX, "blocks")?;
        at_most("sections.blocks", bytes, TEXT_BYTES, "bytes of text")?;
        self.context.validate()
    }
}

impl Context {
    fn validate(&self) -> Result<()> {
        at_most("context.section_summaries", self.section_summaries.len(), SECTIONS_MAX, "summaries")?;
        at_most("context.dictionary", self.dictionary.len(), DICTIONARY_MAX, "entries")?;
        at_most("context.images", self.images.len(), IMAGES_MAX, "images")?;
        if let Some(summary) = &self.document_summary {
            context_text("context.document_summary", summary)?;
        }
        for summary in self.section_summaries.values() {
            context_text("context.section_summaries", summary)?;
        }
        for DictionaryTerm { term, expansion, disambiguation } in &self.dictionary {
            at_most("context.dictionary.term", term.chars().count(), NAME_CHARS, "characters")?;
            context_text("context.dictionary.expansion", expansion)?;
            context_text("context.dictionary.disambiguation", disambiguation.as_deref().unwrap_or_default())?;
        }
        for image in &self.images {
            at_most("context.images.image_id", image.image_id.chars().count(), NAME_CHARS, "characters")?;
            context_text("context.images.file_name", image.file_name.as_deref().unwrap_or_default())?;
            context_text("context.images.summary", &image.summary)?;
        }
        Ok(())
    }
}
