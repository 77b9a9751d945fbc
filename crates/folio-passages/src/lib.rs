//! Chunks of a document: the passages that an index finds and a model reads.
//!
//! Everything is a pure function of the sections of one generation of a document's text. Equal input gives equal
//! chunks.
//!
//! 1. [`Document::validate`] checks each bound.
//! 2. Each block becomes units: sentences, tables, or parts of those that exceed the window.
//! 3. Units of one section are joined up to the window. A chunk never crosses a section.
//! 4. Context is added to each chunk as padding, in lines such as `Image Summary: …`.
//!
//! The crate must not know stores, models, jobs or the index. The caller selects the [`TokenCounter`].

mod chunk;
mod input;
mod options;
mod packer;
mod padding;
mod split;
mod tokens;
mod units;

pub use chunk::{Chunk, Chunking, LINKED_DOCUMENT, Segment, chunk_document, document_path};
pub use input::{Block, Context, DictionaryTerm, Document, ImageSummary, Section, Span, TableRow};
pub use options::ChunkOptions;
pub use tokens::{Counting, Estimate, FileTokenizer, TokenCounter};

#[cfg(test)]
mod tests;
