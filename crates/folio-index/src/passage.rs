//! The input of an index, with its bounds.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::limits::{METADATA_MAX, METADATA_VALUE_BYTES, NAME_CHARS, TAGS_MAX};
use folio_types::{DocumentId, Error, Reason, Result, TagId, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum documents of an upsert or of a deletion.
pub const DOCUMENTS_MAX: usize = 1_000;
/// Maximum passages of all documents of an upsert.
const PASSAGES_MAX: usize = 20_000;
/// Maximum size in bytes of the text of a passage, and of its context.
const TEXT_BYTES: usize = 128 * 1024;
/// Maximum size in bytes of all texts and vectors of an upsert.
pub const UPSERT_BYTES: usize = 512 * 1024 * 1024;
/// Maximum vectors of a passage: that of the embedding model in use, and that of its successor.
const VECTORS_MAX: usize = 2;
/// Maximum dimension of a vector: that of an embedding model in the settings of providers.
const DIMENSIONS_MAX: usize = 8_192;
/// Maximum length of a language code.
const LANGUAGE_BYTES: usize = 16;

/// A vector of an embedding model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    /// Name of the vector space, such as provider and model. Only vectors of the same space are compared.
    pub space: String,
    /// 1 to 8,192 finite numbers, which are not all zero. Vectors are compared by their angle.
    #[serde(with = "folio_types::numbers")]
    pub values: Vec<f32>,
}

/// A passage of a document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Passage {
    /// Position in the document.
    pub number: u32,
    pub text: String,
    /// Context that is also searched, with a lower weight: titles, summaries, dictionary entries.
    pub context: String,
    /// Code of the language, such as `de`. None: unknown.
    pub language: Option<String>,
    /// At most one vector for each of two spaces.
    pub vectors: Vec<Embedding>,
}

/// One generation of the passages of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexedDocument {
    pub document: DocumentId,
    /// A later generation has a larger number.
    pub generation: u64,
    pub tags: Vec<TagId>,
    pub metadata: BTreeMap<String, String>,
    /// The date of the document for filters. None: no filter by date matches.
    pub date: Option<Timestamp>,
    pub passages: Vec<Passage>,
}

/// Checks the number of something. `what` names its unit.
///
/// # Errors
/// `TOO_LARGE` with the name of the field.
pub fn at_most(field: &str, count: usize, most: usize, what: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    let message = format!("has {count} {what}; at most {most} are accepted");
    Err(Error::invalid_field(field, message).with_reason(Reason::TooLarge))
}

pub(crate) fn validate_language(field: &str, language: &str) -> Result<()> {
    let is_code = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (2..=LANGUAGE_BYTES).contains(&language.len()) && language.bytes().all(is_code) {
        return Ok(());
    }
    let excerpt: String = language.chars().take(LANGUAGE_BYTES).collect();
    Err(Error::invalid_field(field, format!("invalid language code {excerpt:?}: expected a code such as de or pt-br")))
}

pub(crate) fn validate_metadata<'a>(
    field: &str,
    pairs: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
) -> Result<()> {
    at_most(field, pairs.len(), METADATA_MAX, "entries")?;
    for (key, value) in pairs {
        at_most(field, key.chars().count(), NAME_CHARS, "characters in a key")?;
        at_most(field, value.len(), METADATA_VALUE_BYTES, "bytes in a value")?;
    }
    Ok(())
}

impl Embedding {
    /// Checks the bounds of a vector.
    pub(crate) fn validate(&self, field: &str) -> Result<()> {
        if self.space.is_empty() {
            return Err(Error::invalid_field(field, "has no name of its vector space"));
        }
        at_most(field, self.space.len(), NAME_CHARS, "bytes in the name of its vector space")?;
        at_most(field, self.values.len(), DIMENSIONS_MAX, "dimensions")?;
        let norm = norm(&self.values);
        if !norm.is_finite() || norm <= f32::MIN_POSITIVE {
            return Err(Error::invalid_field(field, "invalid vector: expected finite numbers that are not all zero"));
        }
        Ok(())
    }

    /// Returns the values scaled to length 1.
    pub fn unit(&self) -> Vec<f32> {
        let norm = norm(&self.values);
        self.values.iter().map(|value| value / norm).collect()
    }
}

/// Returns the length of a vector. A length beyond the range of `f32` is infinite.
fn norm(values: &[f32]) -> f32 {
    values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt() as f32
}

/// Returns the text under which a metadata entry is indexed. The length of the key makes the text unique.
pub fn metadata_text(key: &str, value: &str) -> String {
    format!("{}:{key}{value}", key.len())
}

impl IndexedDocument {
    fn validate(&self) -> Result<()> {
        at_most("tags", self.tags.len(), TAGS_MAX, "tags")?;
        validate_metadata("metadata", self.metadata.iter())?;
        let mut numbers = BTreeSet::new();
        for passage in &self.passages {
            if !numbers.insert(passage.number) {
                let message = format!("have the number {} twice", passage.number);
                return Err(Error::invalid_field("passages", message));
            }
            at_most("passages.text", passage.text.len(), TEXT_BYTES, "bytes")?;
            at_most("passages.context", passage.context.len(), TEXT_BYTES, "bytes")?;
            if let Some(language) = &passage.language {
                validate_language("passages.language", language)?;
            }
            at_most("passages.vectors", passage.vectors.len(), VECTORS_MAX, "vectors")?;
            let mut spaces = BTreeSet::new();
            for vector in &passage.vectors {
                vector.validate("passages.vectors")?;
                if !spaces.insert(vector.space.as_str()) {
                    return Err(Error::invalid_field("passages.vectors", "has two vectors of one space"));
                }
            }
        }
        Ok(())
    }

    /// Returns the size in bytes of the texts and vectors of all passages.
    pub fn bytes(&self) -> usize {
        let of_passage = |passage: &Passage| {
            let vectors = passage.vectors.iter().map(|vector| vector.values.len().saturating_mul(size_of::<f32>()));
            vectors.fold(passage.text.len().saturating_add(passage.context.len()), usize::saturating_add)
        };
        self.passages.iter().map(of_passage).fold(0, usize::saturating_add)
    }
}

/// Checks the bounds of an upsert.
///
/// # Errors
/// `INVALID_FIELD` or `TOO_LARGE` with the name of the field.
pub fn validate_upsert(documents: &[IndexedDocument]) -> Result<()> {
    at_most("documents", documents.len(), DOCUMENTS_MAX, "documents")?;
    let mut ids = BTreeSet::new();
    let (mut passages, mut bytes) = (0usize, 0usize);
    for document in documents {
        if !ids.insert(&document.document) {
            return Err(Error::invalid_field("documents", format!("contain {} twice", document.document)));
        }
        passages = passages.saturating_add(document.passages.len());
        bytes = bytes.saturating_add(document.bytes());
        at_most("documents.passages", passages, PASSAGES_MAX, "passages")?;
        at_most("documents.passages", bytes, UPSERT_BYTES, "bytes of texts and vectors")?;
        document.validate()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(passages: Vec<Passage>) -> IndexedDocument {
        let document = DocumentId::derive(&["a"]);
        IndexedDocument { document, generation: 1, tags: vec![], metadata: BTreeMap::new(), date: None, passages }
    }

    fn with_vector(values: Vec<f32>) -> Passage {
        Passage { vectors: vec![Embedding { space: "a".to_owned(), values }], ..Passage::default() }
    }

    #[test]
    fn input_out_of_bounds_is_refused() {
        let language = |code: &str| Passage { language: Some(code.to_owned()), ..Passage::default() };
        let one = with_vector(vec![1.0]).vectors;
        let two = [one.clone(), one].concat();
        for refused in [
            Passage { text: "a".repeat(TEXT_BYTES + 1), ..Passage::default() },
            Passage { context: "a".repeat(TEXT_BYTES + 1), ..Passage::default() },
            language("German"),
            language(""),
            with_vector(vec![]),
            with_vector(vec![0.0; 3]),
            with_vector(vec![f32::NAN]),
            with_vector(vec![f32::INFINITY]),
            with_vector(vec![1.0; DIMENSIONS_MAX + 1]),
            Passage { vectors: two, ..Passage::default() },
        ] {
            assert!(validate_upsert(&[document(vec![refused.clone()])]).is_err(), "{refused:?}");
        }
        assert!(validate_upsert(&[document(vec![Passage::default(), Passage::default()])]).is_err());
        assert!(validate_upsert(&[document(vec![]), document(vec![])]).is_err());
        let numbered = |number| Passage { number, ..Passage::default() };
        let many: Vec<_> = (0..=PASSAGES_MAX).map(|at| numbered(u32::try_from(at).unwrap())).collect();
        assert!(validate_upsert(&[document(many)]).is_err());
        assert!(
            validate_upsert(&[document(vec![language("pt-br"), Passage { number: 1, ..with_vector(vec![0.5]) }])])
                .is_ok()
        );
    }

    #[test]
    fn metadata_texts_are_unique() {
        assert_ne!(metadata_text("a", "bc"), metadata_text("ab", "c"));
    }

    #[test]
    fn the_longest_vectors_of_embedding_models_are_accepted() {
        assert!(validate_upsert(&[document(vec![with_vector(vec![1.0; 8_192])])]).is_ok());
    }

    #[test]
    fn a_vector_is_scaled_to_length_1() {
        let vector = Embedding { space: "a".to_owned(), values: vec![3.0, 4.0] };
        assert_eq!(vector.unit(), [0.6, 0.8]);
    }
}
