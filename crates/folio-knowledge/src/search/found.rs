//! The passages of an answer. Pure.

use folio_index::{Hit, PartScore, highlights};
use folio_storage::value::StoredPassage;
use folio_tools::retrieval::{FoundPassage, Highlight, PassageRank};

use super::areas::{Pages, area, areas};

/// Maximum highlighted words of a passage.
// proto: FoundPassage.highlights "at most {} words"
const HIGHLIGHTS_MAX: usize = 50;

/// A confirmed hit with its passage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub(super) hit: Hit,
    pub(super) passage: StoredPassage,
    pub(super) document_name: String,
    /// None: not reranked.
    pub(super) relevance: Option<f64>,
}

/// Returns the passages of an answer, in the order of the candidates. `query`: the text of the search.
pub(super) fn passages(candidates: Vec<Candidate>, query: &str, pages: &Pages) -> Vec<FoundPassage> {
    candidates.into_iter().map(|candidate| passage(candidate, query, pages)).collect()
}

fn passage(candidate: Candidate, query: &str, pages: &Pages) -> FoundPassage {
    let Candidate { hit, passage, document_name, relevance } = candidate;
    let (document, segments) = (&hit.document, passage.segments.as_slice());
    let words = highlights(&passage.text, query, passage.language.as_deref(), HIGHLIGHTS_MAX);
    let highlight = |chars: std::ops::Range<u32>| {
        let area = area(pages, document, segments, &chars);
        Highlight { start: chars.start, end: chars.end, area }
    };
    let rank = |part: PartScore| PassageRank { rank: part.rank, score: part.score };
    FoundPassage {
        highlights: words.into_iter().map(highlight).collect(),
        areas: areas(pages, document, segments),
        document_name,
        number: hit.number,
        tokens: passage.tokens,
        section_id: passage.section_id,
        section_titles: passage.section_titles,
        page: passage.source_page,
        language: passage.language,
        metadata_pairs: passage.metadata_pairs,
        score: relevance.unwrap_or(hit.score),
        lexical: hit.lexical.map(rank),
        dense: hit.dense.map(rank),
        relevance,
        text: passage.text,
        document: hit.document,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use folio_resources::{BoundingBox, WordBoxes};
    use folio_storage::value::StoredSegment;
    use folio_types::DocumentId;

    use super::super::areas::PageWords;
    use super::*;

    const TEXT: &str = "Die Rechnungen sind bezahlt";

    /// Returns a candidate whose text is the first page of its document.
    pub(in super::super) fn candidate(number: u32) -> Candidate {
        let document = DocumentId::derive(&["a"]);
        let lexical = Some(PartScore { rank: 1, score: 7.5 });
        let hit = Hit { document, generation: 1, number, score: 1.0 / 61.0, lexical, dense: None };
        let end = u32::try_from(TEXT.chars().count()).unwrap();
        let passage = StoredPassage {
            section_id: "s".to_owned(),
            section_titles: vec!["Zahlung".to_owned()],
            segments: vec![StoredSegment { text_start: 0, page: 1, start: 0, end, is_verbatim: true }],
            tokens: 6,
            language: Some("de".to_owned()),
            metadata_pairs: vec![("customer".to_owned(), "acme".to_owned())],
            ..StoredPassage::of_text(number, TEXT)
        };
        Candidate { hit, passage, document_name: "a.pdf".to_owned(), relevance: None }
    }

    #[test]
    fn a_passage_has_its_scores_and_highlights_with_positions() {
        let word = BoundingBox { left: 0.0, top: 0.0, right: 50.0, bottom: 10.0 };
        let words = PageWords::new(TEXT, WordBoxes::new(100.0, 100.0, [word; 4]));
        let pages = Pages::from([((DocumentId::derive(&["a"]), 1), words)]);
        let found = passages(vec![candidate(3)], "rechnung", &pages).remove(0);
        assert_eq!((found.number, found.page, found.score), (3, 1, 1.0 / 61.0));
        assert_eq!(found.lexical, Some(PassageRank { rank: 1, score: 7.5 }));
        assert_eq!((found.dense, found.relevance), (None, None));
        let [highlight] = &found.highlights[..] else { panic!("{found:?}") };
        assert_eq!((highlight.start, highlight.end), (4, 14), "a form of the word");
        assert!(highlight.area.is_some_and(|area| area.page == 1 && area.right > 0.4), "{highlight:?}");
        assert_eq!(found.areas.len(), 1);

        let reranked = Candidate { relevance: Some(-3.5), ..candidate(0) };
        let found = passages(vec![reranked], "nothing", &Pages::new()).remove(0);
        assert_eq!((found.score, found.relevance), (-3.5, Some(-3.5)));
        assert!(found.highlights.is_empty() && found.areas.is_empty());
    }
}
