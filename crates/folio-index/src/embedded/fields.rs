//! The fields of an index, and the entry of a passage.

use tantivy::schema::{
    BytesOptions, Field, IndexRecordOption, NumericOptions, Schema, TantivyDocument, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{IndexSettings, Term};

use crate::analysis;
use crate::passage::{Embedding, IndexedDocument, Passage, metadata_text};

/// Names of the fields that are read by name.
pub(super) const DOCUMENT: &str = "document";
pub(super) const GENERATION: &str = "generation";
pub(super) const NUMBER: &str = "number";

/// Size in bytes of a block of stored vectors.
const BLOCK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub document: Field,
    generation: Field,
    number: Field,
    pub date: Field,
    pub tag: Field,
    pub metadata: Field,
    pub language: Field,
    pub text: Field,
    pub context: Field,
    pub vector: Field,
}

/// Returns the options of a text field. The analysis of this crate passes words, so the index splits nothing.
fn text_options(record: IndexRecordOption, has_norms: bool) -> TextOptions {
    let indexing = TextFieldIndexing::default().set_tokenizer("raw").set_index_option(record).set_fieldnorms(has_norms);
    TextOptions::default().set_indexing_options(indexing)
}

impl Fields {
    pub(super) fn new() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let key = || text_options(IndexRecordOption::Basic, false);
        let words = || text_options(IndexRecordOption::WithFreqs, true);
        let fast = || NumericOptions::default().set_fast();
        let fields = Self {
            document: schema.add_text_field(DOCUMENT, key().set_fast("raw")),
            generation: schema.add_u64_field(GENERATION, fast()),
            number: schema.add_u64_field(NUMBER, fast()),
            date: schema.add_i64_field("date", fast()),
            tag: schema.add_text_field("tag", key()),
            metadata: schema.add_text_field("metadata", key()),
            language: schema.add_text_field("language", key()),
            text: schema.add_text_field("text", words()),
            context: schema.add_text_field("context", words()),
            vector: schema.add_bytes_field("vector", BytesOptions::default().set_stored()),
        };
        (schema.build(), fields)
    }

    /// Returns the settings of an index. Vectors cannot be compressed.
    pub(super) fn settings() -> IndexSettings {
        IndexSettings {
            docstore_compression: tantivy::store::Compressor::None,
            docstore_compress_dedicated_thread: false,
            docstore_blocksize: BLOCK_BYTES,
            ..IndexSettings::default()
        }
    }

    pub(super) fn metadata_term(&self, key: &str, value: &str) -> Term {
        Term::from_field_text(self.metadata, &metadata_text(key, value))
    }

    /// Returns the entry of a passage.
    pub(super) fn entry(&self, document: &IndexedDocument, passage: &Passage) -> TantivyDocument {
        let mut entry = TantivyDocument::new();
        entry.add_text(self.document, document.document.as_str());
        entry.add_u64(self.generation, document.generation);
        entry.add_u64(self.number, passage.number.into());
        if let Some(date) = document.date {
            entry.add_i64(self.date, date.as_microsecond());
        }
        document.tags.iter().for_each(|tag| entry.add_text(self.tag, tag.as_str()));
        document.metadata.iter().for_each(|(key, value)| entry.add_text(self.metadata, metadata_text(key, value)));
        let language = passage.language.as_deref();
        if let Some(language) = language {
            entry.add_text(self.language, language);
        }
        for (field, text) in [(self.text, &passage.text), (self.context, &passage.context)] {
            entry.add_pre_tokenized_text(field, tokens(analysis::terms(text, language)));
        }
        passage.vectors.iter().for_each(|vector| entry.add_bytes(self.vector, &encode(vector)));
        entry
    }
}

fn tokens(terms: Vec<String>) -> PreTokenizedString {
    let token = |(position, text)| Token { offset_from: 0, offset_to: 0, position, text, position_length: 1 };
    PreTokenizedString { text: String::new(), tokens: terms.into_iter().enumerate().map(token).collect() }
}

/// Encodes a vector as the length of the name of its space, the name, and the numbers, scaled to length 1.
fn encode(vector: &Embedding) -> Vec<u8> {
    let name = vector.space.as_bytes();
    let mut bytes = vec![u8::try_from(name.len()).unwrap_or(u8::MAX)];
    bytes.extend(name.iter().take(u8::MAX.into()));
    bytes.extend(vector.unit().into_iter().flat_map(f32::to_le_bytes));
    bytes
}

/// Returns the bytes of the numbers of an encoded vector if it is of this space.
pub(super) fn decode<'a>(bytes: &'a [u8], space: &str) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first()?;
    let (name, values) = rest.split_at_checked((*length).into())?;
    (name == space.as_bytes()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_vector_has_its_space() {
        let vector = Embedding { space: "a/b".to_owned(), values: vec![0.0, 2.0] };
        let bytes = encode(&vector);
        assert_eq!(decode(&bytes, "a/b"), Some([0.0f32.to_le_bytes(), 1.0f32.to_le_bytes()].concat().as_slice()));
        assert_eq!(decode(&bytes, "a"), None);
        assert_eq!(decode(&[9, 1], "a"), None);
    }
}
