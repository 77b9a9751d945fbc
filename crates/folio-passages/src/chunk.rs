//! Chunks, and the function that creates them.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::{DocumentId, Error, Reason, Result};
use serde::{Deserialize, Serialize};

use crate::input::{Document, ImageSummary, Section, Span};
use crate::options::ChunkOptions;
use crate::packer::{Packed, pack};
use crate::padding::{Dictionary, IMAGES_MAX, Padding, in_one_line, padding};
use crate::tokens::{Counting, TokenCounter};
use crate::units::units;

/// Maximum chunks of a document.
pub(crate) const CHUNKS_MAX: usize = 20_000;
/// The key of a pair that names a document to which the text of a passage refers. The ingestion adds these pairs.
pub const LINKED_DOCUMENT: &str = "linked_document_id";
/// Keys of the pairs of chunks. Metadata of the document with such a key is omitted.
const SYSTEM_KEYS: &[&str] = &[
    "document_path",
    "file_name",
    "source_page",
    "section_id",
    "section_title",
    "image_id",
    "image_page",
    "image_file_name",
    LINKED_DOCUMENT,
];

/// A part of the text of a chunk, and the characters of a page that it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index in the chunk's text of the first character.
    pub text_start: u32,
    pub span: Span,
    /// True: character `text_start + n` of the chunk is character `span.start + n` of the page. False: rows of a table,
    /// which the chunk contains in another form.
    pub is_verbatim: bool,
}

/// A chunk of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Position in the document, from 0, without gaps.
    pub number: u32,
    pub section_id: String,
    pub title_path: Vec<String>,
    /// The text of the section.
    pub text: String,
    /// Tokens of the text, at most the window.
    pub tokens: u64,
    /// Characters at the start of the text that the chunk before contains, too.
    pub overlap_chars: u32,
    /// Lines of context, at most the padding.
    pub padding: String,
    pub padding_tokens: u64,
    /// True: the padding does not contain the whole context.
    pub is_padding_cut: bool,
    /// The origin of the text, in order.
    pub segments: Vec<Segment>,
    /// Page of the first character, from 1.
    pub source_page: u32,
    /// Path of the document. The same for each generation of its text.
    pub document_path: String,
    /// Metadata of the document, the position of the chunk, and its images. A key may be repeated.
    pub metadata_pairs: Vec<(String, String)>,
}

impl Chunk {
    /// Returns the text for an embedding model: the padding and the text.
    pub fn embedded_text(&self) -> String {
        if self.padding.is_empty() { self.text.clone() } else { format!("{}\n{}", self.padding, self.text) }
    }
}

/// The chunks of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    pub chunks: Vec<Chunk>,
    /// The meaning of all token counts.
    pub counting: Counting,
}

/// Returns the path of a document, which names its file regardless of the generation of its text.
pub fn document_path(document: &DocumentId) -> String {
    format!("documents/{document}")
}

/// Returns the chunks of a document.
///
/// # Errors
/// `INVALID_FIELD` or `TOO_LARGE` if options or input exceed a bound, or if the document has more than 20,000 chunks.
pub fn chunk_document(document: &Document, options: &ChunkOptions, counter: &dyn TokenCounter) -> Result<Chunking> {
    options.validate()?;
    document.validate()?;
    let dictionary = Dictionary::new(&document.context.dictionary);
    let mut images = Images::new();
    document.context.images.iter().for_each(|image| images.entry(image.page).or_default().push(image));
    let mut chunks = Vec::new();
    for section in &document.sections {
        let units = units(&section.blocks, u64::from(options.window), counter)?;
        for packed in pack(units, options, counter)? {
            if chunks.len() >= CHUNKS_MAX {
                let message = format!("has more than {CHUNKS_MAX} chunks; use a larger window");
                return Err(Error::invalid_field("window", message).with_reason(Reason::TooLarge));
            }
            let number = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            chunks.push(chunk(number, document, section, packed, (&dictionary, &images), options, counter)?);
        }
    }
    Ok(Chunking { chunks, counting: counter.counting() })
}

/// Images by their pages.
type Images<'a> = BTreeMap<u32, Vec<&'a ImageSummary>>;

/// Returns the images of a chunk: those on its pages, in its section if their section is known.
fn images_of<'a>(images: &Images<'a>, section: &Section, segments: &[Segment]) -> Vec<&'a ImageSummary> {
    let pages: BTreeSet<u32> = segments.iter().map(|segment| segment.span.page).collect();
    let on_pages = pages.iter().filter_map(|page| images.get(page)).flatten();
    let of_section = on_pages.filter(|image| image.section_id.as_ref().is_none_or(|id| *id == section.id));
    of_section.take(IMAGES_MAX).copied().collect()
}

fn chunk(
    number: u32,
    document: &Document,
    section: &Section,
    packed: Packed,
    (dictionary, images): (&Dictionary<'_>, &Images<'_>),
    options: &ChunkOptions,
    counter: &dyn TokenCounter,
) -> Result<Chunk> {
    let Packed { text, segments, tokens, overlap_chars } = packed;
    let images = images_of(images, section, &segments);
    let budget = u64::from(options.padding);
    let padding = padding(&text, section, &images, &document.context, dictionary, budget, counter)?;
    let Padding { text: padding, tokens: padding_tokens, is_cut: is_padding_cut } = padding;
    let source_page = segments.first().map_or(1, |segment| segment.span.page);
    let document_path = document_path(&document.id);
    let of_document = document.metadata.iter().filter(|(key, _)| !SYSTEM_KEYS.contains(&key.as_str()));
    let mut metadata_pairs: Vec<_> = of_document.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut add = |key: &str, value: String| metadata_pairs.push((key.to_owned(), value));
    add("document_path", document_path.clone());
    add("file_name", document.file_name.clone());
    add("source_page", source_page.to_string());
    add("section_id", section.id.clone());
    add("section_title", in_one_line(&section.title_path.join(" > ")));
    for image in images {
        add("image_id", image.image_id.clone());
        add("image_page", image.page.to_string());
        add("image_file_name", image.file_name.clone().unwrap_or_else(|| document.file_name.clone()));
    }
    Ok(Chunk {
        number,
        section_id: section.id.clone(),
        title_path: section.title_path.clone(),
        text,
        tokens,
        overlap_chars,
        padding,
        padding_tokens,
        is_padding_cut,
        segments,
        source_page,
        document_path,
        metadata_pairs,
    })
}
