//! Organizations, documents and searches of the suite.

use std::collections::BTreeMap;

use folio_index::{Answer, Embedding, Filter, IndexedDocument, Passage, PassageIndex, Search, Written};
use folio_types::{DocumentId, OrgId};

use crate::{Outcome, same};

/// The vector space of the samples.
pub(crate) const SPACE: &str = "test/space";

pub(crate) fn org(nonce: &str, name: &str) -> OrgId {
    OrgId::derive(&["index conformance", nonce, name])
}

pub(crate) fn id(name: &str) -> DocumentId {
    DocumentId::derive(&["index conformance", name])
}

pub(crate) fn vector(values: &[f32]) -> Embedding {
    Embedding { space: SPACE.to_owned(), values: values.to_vec() }
}

pub(crate) fn passage(number: u32, text: &str, values: &[f32]) -> Passage {
    let vectors = if values.is_empty() { vec![] } else { vec![vector(values)] };
    Passage { number, text: text.to_owned(), vectors, ..Passage::default() }
}

pub(crate) fn document(name: &str, generation: u64, passages: Vec<Passage>) -> IndexedDocument {
    IndexedDocument { document: id(name), generation, tags: vec![], metadata: BTreeMap::new(), date: None, passages }
}

pub(crate) fn search(text: &str, values: &[f32]) -> Search {
    let vector = (!values.is_empty()).then(|| vector(values));
    Search { text: text.to_owned(), vector, filter: Filter::default(), limit: 20 }
}

/// Returns an empty index of an organization in the state `Ready`.
pub(crate) async fn ready(index: &dyn PassageIndex, org: &OrgId) -> Outcome {
    index.begin_rebuild(org, 1).await?;
    same(index.finish_rebuild(org, 1).await?, Written::Applied { stale: 0 }, "the end of a rebuild")
}

pub(crate) async fn upsert(index: &dyn PassageIndex, org: &OrgId, documents: Vec<IndexedDocument>) -> Outcome {
    same(index.upsert(org, documents).await?, Written::Applied { stale: 0 }, "an upsert")
}

/// Returns documents and numbers of the passages of an answer, in order.
pub(crate) fn found(answer: &Answer) -> Vec<(DocumentId, u32)> {
    answer.hits.iter().map(|hit| (hit.document.clone(), hit.number)).collect()
}

/// Returns the passages that a lexical search finds.
pub(crate) async fn words(index: &dyn PassageIndex, org: &OrgId, text: &str) -> Outcome<Vec<(DocumentId, u32)>> {
    Ok(found(&index.search(org, &search(text, &[])).await?))
}
