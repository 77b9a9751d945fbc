//! Golden samples of cached vectors, of the holder of an index, and of an attempt to fill a row.

use super::*;

pub(super) fn vectors() -> Vec<Sample> {
    let vector = |document, vector| {
        let digest = Digest::of(b"golden").as_str().to_owned();
        CachedVector { digest, document, vector }
    };
    vec![
        sample("passage", vector(Some(document_id()), vec![0.6, -0.8])),
        sample("query", vector(None, vec![1.0])),
        sample("plain", CachedVectorSlot { slot: 258 }),
        sample("plain", IndexHolder { address: "node-1:7000".to_owned(), term: 3, is_complete: true }),
        sample("plain", RowFill { job: JobId::derive(&["golden"]), epoch: 2, attempt: 3 }),
    ]
}
