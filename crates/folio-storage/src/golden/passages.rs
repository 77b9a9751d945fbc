//! Golden samples of passages.

use super::*;

pub(super) fn passages() -> Vec<Sample> {
    let bare = StoredPassage { section_id: "s".to_owned(), tokens: 3, ..StoredPassage::of_text(0, "A text.") };
    let segment = StoredSegment { text_start: 0, page: 2, start: 5, end: 12, is_verbatim: true };
    let vector = StoredVector { space: "own/vectors/2".to_owned(), values: vec![0.6, -0.8] };
    let full = StoredPassage {
        number: 7,
        padding: "Section: One".to_owned(),
        section_titles: vec!["One".to_owned()],
        source_page: 2,
        segments: vec![segment],
        language: Some("en".to_owned()),
        metadata_pairs: vec![("source_page".to_owned(), "2".to_owned())],
        vectors: vec![vector],
        ..bare.clone()
    };
    let head = PassageHead {
        document: document_id(),
        generation: 3,
        passages: 8,
        space: None,
        text_generation: at(),
        created_at: at(),
    };
    vec![
        sample("bare", bare),
        sample("full", full),
        sample("with_vectors", PassageHead { space: Some("own/vectors/2".to_owned()), ..head.clone() }),
        sample("plain", head),
        sample("plain", PassageGeneration { generation: 3, passages: 8 }),
        sample("plain", PassageBucket { bucket: 17 }),
        sample("plain", LastIngestion { job: job_id(), item: 3 }),
        sample("plain", ServingSpace { model: "own/vectors".to_owned(), space: "own/vectors/2".to_owned() }),
    ]
}
