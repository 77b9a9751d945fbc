//! Calls of the index between processes, and their results, in JSON.

use folio_index::{Answer, IndexState, IndexedDocument, ListedDocument, PassageIndex, Search, Statistics, Written};
use folio_types::{DocumentId, Error, OrgId, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An operation with its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    State,
    BeginRebuild {
        rebuild: u64,
    },
    FinishRebuild {
        rebuild: u64,
    },
    Upsert {
        documents: Vec<IndexedDocument>,
    },
    /// A part of an upsert that exceeds the size of a request, except the last part.
    Stage(Part),
    /// The last part of an upsert.
    Commit(Part),
    DeleteDocuments {
        documents: Vec<DocumentId>,
    },
    DeleteOrganization,
    Search {
        search: Search,
    },
    Documents {
        after: Option<DocumentId>,
        limit: usize,
    },
    Statistics,
}

/// A part of an upsert. The passages of a document may be in several consecutive parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The upsert, which its caller names.
    pub(crate) upload: String,
    /// Number of the part, from 0.
    pub(crate) number: usize,
    pub(crate) documents: Vec<IndexedDocument>,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    State(IndexState),
    Written(Written),
    Done,
    Answer(Answer),
    Documents(Vec<ListedDocument>),
    Statistics(Statistics),
}

pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::internal(format!("a call of the index cannot be encoded: {error}")))
}

/// # Errors
/// `INVALID_FIELD` if the bytes are no call or result of this version.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::invalid_field("call", format!("cannot be read: {error}")))
}

/// Makes a call on an index. The parts of an upsert were joined before.
pub(crate) async fn make(index: &dyn PassageIndex, org: &OrgId, call: Call) -> Result<Reply> {
    Ok(match call {
        Call::State => Reply::State(index.state(org).await?),
        Call::BeginRebuild { rebuild } => {
            index.begin_rebuild(org, rebuild).await?;
            Reply::Done
        }
        Call::FinishRebuild { rebuild } => Reply::Written(index.finish_rebuild(org, rebuild).await?),
        Call::Upsert { documents } => Reply::Written(index.upsert(org, documents).await?),
        Call::Stage(_) | Call::Commit(_) => {
            return Err(Error::internal("a part of an upsert was not joined with the others"));
        }
        Call::DeleteDocuments { documents } => Reply::Written(index.delete_documents(org, &documents).await?),
        Call::DeleteOrganization => {
            index.delete_organization(org).await?;
            Reply::Done
        }
        Call::Search { search } => Reply::Answer(index.search(org, &search).await?),
        Call::Documents { after, limit } => Reply::Documents(index.documents(org, after.as_ref(), limit).await?),
        Call::Statistics => Reply::Statistics(index.statistics(org).await?),
    })
}

/// Creates the error for a result of another operation.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    let kind = match reply {
        Reply::State(_) => "state",
        Reply::Written(_) => "written",
        Reply::Done => "done",
        Reply::Answer(_) => "answer",
        Reply::Documents(_) => "documents",
        Reply::Statistics(_) => "statistics",
    };
    Error::internal(format!("a node answered a call of the index with the result {kind:?}"))
}

#[cfg(test)]
mod tests {
    use folio_index::{Embedding, Filter, Gap, Hit, PartScore, PartUse, Passage};

    use super::*;

    #[test]
    fn calls_and_results_are_transferred_exactly() {
        let vector = Embedding { space: "a/b".to_owned(), values: vec![0.1, -0.7] };
        let document = IndexedDocument {
            document: DocumentId::derive(&["a"]),
            generation: u64::MAX,
            tags: vec![],
            metadata: [("k".to_owned(), "v".to_owned())].into(),
            date: None,
            passages: vec![Passage { text: "a\u{0}".to_owned(), vectors: vec![vector.clone()], ..Passage::default() }],
        };
        let search = Search { text: "a".to_owned(), vector: Some(vector), filter: Filter::default(), limit: 3 };
        for call in [
            Call::State,
            Call::FinishRebuild { rebuild: u64::MAX },
            Call::Upsert { documents: vec![document.clone()] },
            Call::Stage(Part { upload: "u".to_owned(), number: 1, documents: vec![document] }),
            Call::Search { search },
            Call::Documents { after: None, limit: 5 },
        ] {
            assert_eq!(decode::<Call>(&encode(&call).unwrap()).unwrap(), call);
        }
        let hit = Hit {
            document: DocumentId::derive(&["a"]),
            generation: 1,
            number: 2,
            score: 1.0 / 61.0,
            lexical: Some(PartScore { rank: 1, score: 0.1 }),
            dense: None,
        };
        let part =
            PartUse { is_used: true, gaps: vec![Gap::State(IndexState::Rebuilding), Gap::Memory { passages: 3 }] };
        let reply = Reply::Answer(Answer { hits: vec![hit], lexical: part.clone(), dense: part });
        assert_eq!(decode::<Reply>(&encode(&reply).unwrap()).unwrap(), reply);
        assert!(decode::<Call>(b"{\"other\":{}}").is_err());
    }
}
