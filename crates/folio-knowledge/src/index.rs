//! Writes of passages to the index.

use folio_index::adapter::validate_upsert;
use folio_index::{Embedding, IndexedDocument, Passage, Written};
use folio_resources::Document;
use folio_storage::READ_PASSAGES_MAX;
use folio_storage::value::{PassageHead, StoredPassage, StoredVector};
use folio_types::{BlobId, DocumentId, OrgId, Reason, Result};

use crate::knowledge::Knowledge;
use crate::rebuild::request_rebuild;

/// Returns the name under which the size of the passages of a document is counted.
pub(crate) fn size_name(document: &DocumentId) -> BlobId {
    BlobId::derive(&["passages", document.as_str()])
}

/// Returns the bytes of passages that count as storage.
pub(crate) fn stored_bytes(passages: &[StoredPassage]) -> u64 {
    let of_vector = |vector: &StoredVector| vector.values.len().saturating_mul(size_of::<f32>());
    let of_passage = |passage: &StoredPassage| {
        let pairs = passage.metadata_pairs.iter().map(|(key, value)| key.len().saturating_add(value.len()));
        let vectors = passage.vectors.iter().map(of_vector);
        pairs.chain(vectors).fold(passage.text.len().saturating_add(passage.padding.len()), usize::saturating_add)
    };
    let bytes = passages.iter().map(of_passage).fold(0, usize::saturating_add);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Returns a generation of a document as input of the index.
pub(crate) fn indexed(document: &Document, head: &PassageHead, passages: Vec<StoredPassage>) -> IndexedDocument {
    let passage = |passage: StoredPassage| {
        let vector = |vector: StoredVector| Embedding { space: vector.space, values: vector.values };
        Passage {
            number: passage.number,
            text: passage.text,
            context: passage.padding,
            language: passage.language,
            vectors: passage.vectors.into_iter().map(vector).collect(),
        }
    };
    IndexedDocument {
        document: document.id.clone(),
        generation: head.generation,
        tags: document.tags.clone(),
        metadata: document.metadata.clone(),
        date: Some(document.created_at),
        passages: passages.into_iter().map(passage).collect(),
    }
}

/// Reads all passages of a generation. The result is shorter if the generation was replaced meanwhile.
pub(crate) async fn read_all(knowledge: &Knowledge, org: &OrgId, head: &PassageHead) -> Result<Vec<StoredPassage>> {
    let (store, mut passages) = (knowledge.passages(), Vec::new());
    let numbers: Vec<u32> = (0..head.passages).collect();
    for numbers in numbers.chunks(READ_PASSAGES_MAX) {
        passages.extend(store.read(org, &head.document, head.generation, numbers).await?);
    }
    Ok(passages)
}

/// Removes the vectors of a single document that exceeds the bounds of a write, so that its words are found. Otherwise a document with
/// vectors of two models could be live in the stores, and missing in the index.
fn fit(documents: &mut [IndexedDocument], validate: impl Fn(&[IndexedDocument]) -> Result<()>) {
    let [_] = documents else { return };
    let is_too_large = validate(documents).is_err_and(|error| error.reason == Reason::TooLarge);
    for document in documents.iter_mut().filter(|_| is_too_large) {
        tracing::warn!(document = %document.document, "a document is too large for the index with its vectors: words find it");
        document.passages.iter_mut().for_each(|passage| passage.vectors.clear());
    }
}

/// Writes documents to the index. If the index must be built first, its rebuild is requested, which includes the documents. A single
/// document beyond the bounds is written without vectors.
pub(crate) async fn upsert(knowledge: &Knowledge, org: &OrgId, mut documents: Vec<IndexedDocument>) -> Result<()> {
    fit(&mut documents, validate_upsert);
    match knowledge.index.upsert(org, documents).await? {
        Written::Applied { .. } => Ok(()),
        Written::NotUsable(_) => request_rebuild(knowledge, org).await.map(drop),
    }
}

/// Removes everything of the passages of a deleted document from the stores and from the index. Idempotent.
pub async fn remove_document(knowledge: &Knowledge, org: &OrgId, document: &DocumentId) -> Result<()> {
    knowledge.passages().remove(org, document).await?;
    remove_passages(knowledge, org, document).await
}

/// Removes the passages of a document from the stores and from the index. Idempotent. The record of its newest job remains, so that
/// the state of its ingestion names the reason.
pub(crate) async fn remove_passages(knowledge: &Knowledge, org: &OrgId, document: &DocumentId) -> Result<()> {
    knowledge.passages().remove_passages(org, document).await?;
    // Of a deleted document, the deletion has removed the size.
    let now = knowledge.resources.environment.now();
    let documents = knowledge.stores.of::<Document>();
    documents.set_blob_bytes(org, document, &size_name(document), 0, now).await?;
    // An index that must be built first contains nothing of the document.
    knowledge.index.delete_documents(org, std::slice::from_ref(document)).await.map(drop)
}

/// Removes everything that ingestions stored of a deleted document, also what an attempt stored after the clean-up of the
/// deletion. Idempotent.
pub(crate) async fn remove_deleted(knowledge: &Knowledge, org: &OrgId, document: &DocumentId) -> Result<()> {
    knowledge.stores.remove_ingested(org, document).await?;
    remove_passages(knowledge, org, document).await
}

#[cfg(test)]
mod tests {
    use folio_types::Error;

    use super::*;
    use crate::vectors::tests::passage;

    #[test]
    fn a_document_beyond_the_bounds_is_indexed_without_vectors() {
        let document = || IndexedDocument {
            document: DocumentId::derive(&["a"]),
            generation: 1,
            tags: Vec::new(),
            metadata: std::collections::BTreeMap::new(),
            date: None,
            passages: vec![Passage {
                text: "pump".to_owned(),
                vectors: vec![Embedding { space: "a".to_owned(), values: vec![1.0] }],
                ..Passage::default()
            }],
        };
        let too_large = |documents: &[IndexedDocument]| match documents
            .iter()
            .any(|document| document.passages.iter().any(|passage| !passage.vectors.is_empty()))
        {
            true => Err(Error::invalid_field("documents", "are too large").with_reason(Reason::TooLarge)),
            false => Ok(()),
        };
        let mut one = [document()];
        fit(&mut one, validate_upsert);
        assert_eq!(one, [document()], "within the bounds");
        fit(&mut one, too_large);
        assert_eq!((one[0].passages[0].text.as_str(), one[0].passages[0].vectors.len()), ("pump", 0));
        let mut several = [document(), document()];
        fit(&mut several, too_large);
        assert_eq!(several, [document(), document()], "the caller writes them one by one");
    }

    #[test]
    fn texts_pairs_and_vectors_count_as_storage() {
        let pairs = vec![("ab".to_owned(), "c".to_owned())];
        let counted = StoredPassage { padding: "x".to_owned(), metadata_pairs: pairs, ..passage(0, "ä", &["a", "b"]) };
        assert_eq!(stored_bytes(&[counted, passage(1, "d", &[])]), 2 + 1 + 3 + 8 + 1);
        assert_eq!(stored_bytes(&[]), 0);
    }
}
