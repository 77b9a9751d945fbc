//! Golden samples of summaries and of records of chunks.

use super::*;
use crate::traits::{ChunkSet, StoredSummary, SummaryScope};

pub(super) fn summaries() -> Vec<Sample> {
    let summary = StoredSummary {
        section: Some(2),
        scope: SummaryScope::Chapter,
        text: "Größe und Preise der Teile.".to_owned(),
        sources: vec![2, 3, 4],
        text_generation: at(),
        input: Some(Digest::of(b"golden")),
        model: "small".to_owned(),
        created_at: at(),
    };
    let of_document = StoredSummary {
        section: None,
        scope: SummaryScope::Document,
        sources: vec![0, 2],
        input: None,
        ..summary.clone()
    };
    let section = StoredSummary { scope: SummaryScope::Section, sources: vec![2], ..summary.clone() };
    let set = ChunkSet {
        id: "chk_0123456789abcdef".to_owned(),
        run: IngestionId::derive(&["golden"]),
        text_generation: at(),
        window: 200,
        overlap: 30,
        padding: 120,
        chunks: 7,
        tokens: 1_234,
        digest: Digest::of(b"golden"),
        is_indexed: true,
        created_at: at(),
        unknown: UnknownFields::default(),
    };
    vec![sample("chapter", summary), sample("document", of_document), sample("section", section), sample("plain", set)]
}
