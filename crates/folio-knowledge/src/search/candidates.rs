//! Selection and order of the hits of an index. Pure.

use std::collections::BTreeMap;

use folio_index::Hit;
use folio_llm::RankedDocument;
use folio_resources::{CollectionRule, Document};
use folio_tools::retrieval::PassageFilter;
use folio_types::DocumentId;

use super::found::Candidate;

/// Maximum hits of one search of the index.
pub(super) const HITS_MAX: u32 = 100;

/// A document whose live passages are those of its current text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveDocument {
    pub(super) name: String,
    /// The generation of the live passages.
    pub(super) generation: u64,
}

/// Returns true if a document has the tags and the metadata of a filter, and is a member of a collection with one of the
/// rules. They may have changed since it was indexed. No rules: every document is a member.
pub(super) fn has_tags_and_metadata(document: &Document, filter: &PassageFilter, rules: &[CollectionRule]) -> bool {
    (rules.is_empty() || rules.iter().any(|rule| rule.is_member(document)))
        && filter.tag_ids.iter().all(|tag| document.tags.contains(tag))
        && filter.metadata.iter().all(|(key, value)| document.metadata.get(key) == Some(value))
}

/// The hits of live passages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Confirmed {
    /// In the order of the index.
    pub(super) hits: Vec<Hit>,
    /// Number of the other hits.
    pub(super) stale: u32,
}

/// Removes the hits of documents that are not live, or of another generation.
pub(super) fn confirm(hits: Vec<Hit>, live: &BTreeMap<DocumentId, LiveDocument>) -> Confirmed {
    let found = hits.len();
    let is_live = |hit: &Hit| live.get(&hit.document).is_some_and(|document| document.generation == hit.generation);
    let hits: Vec<Hit> = hits.into_iter().filter(is_live).collect();
    let stale = u32::try_from(found - hits.len()).unwrap_or(u32::MAX);
    Confirmed { hits, stale }
}

/// Returns the limit of a second search, which replaces stale hits by others. None: enough hits are confirmed, or the index
/// has no further ones. `requested`: the limit of the first search, which returned `found` hits.
pub(super) fn second_limit(wanted: u32, requested: u32, found: usize, confirmed: usize) -> Option<u32> {
    let (is_short, has_more) = (confirmed < wanted as usize, found >= requested as usize);
    (is_short && has_more && requested < HITS_MAX).then_some(HITS_MAX)
}

/// Orders candidates by a reranking, best first. Candidates that the model did not rate follow in their order.
pub(super) fn reranked(candidates: Vec<Candidate>, ranked: &[RankedDocument]) -> Vec<Candidate> {
    let mut waiting: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(waiting.len());
    for RankedDocument { index, relevance } in ranked {
        if let Some(candidate) = waiting.get_mut(*index).and_then(Option::take) {
            ordered.push(Candidate { relevance: Some(*relevance), ..candidate });
        }
    }
    ordered.extend(waiting.into_iter().flatten());
    ordered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::found::tests::candidate;
    use super::*;

    fn document(name: &str) -> DocumentId {
        DocumentId::derive(&[name])
    }

    fn hit(name: &str, generation: u64, number: u32) -> Hit {
        Hit { document: document(name), generation, number, score: 0.1, lexical: None, dense: None }
    }

    fn live(documents: &[(&str, u64)]) -> BTreeMap<DocumentId, LiveDocument> {
        let one = |(name, generation): &(&str, u64)| {
            (document(name), LiveDocument { name: (*name).to_owned(), generation: *generation })
        };
        documents.iter().map(one).collect()
    }

    #[test]
    fn hits_of_deleted_documents_and_other_generations_are_removed() {
        let hits =
            vec![hit("a", 2, 0), hit("gone", 1, 0), hit("b", 1, 7), hit("a", 1, 1), hit("a", 3, 1), hit("a", 2, 4)];
        let found = confirm(hits, &live(&[("a", 2), ("b", 1)]));
        assert_eq!(found, Confirmed { hits: vec![hit("a", 2, 0), hit("b", 1, 7), hit("a", 2, 4)], stale: 3 });
        assert_eq!(confirm(Vec::new(), &live(&[])), Confirmed { hits: Vec::new(), stale: 0 });
        assert_eq!(confirm(vec![hit("a", 1, 0)], &live(&[])).stale, 1);
    }

    #[test]
    fn a_second_search_is_made_only_if_it_may_find_more() {
        assert_eq!(second_limit(10, 10, 10, 10), None, "enough");
        assert_eq!(second_limit(10, 10, 10, 9), Some(HITS_MAX));
        assert_eq!(second_limit(10, 10, 9, 5), None, "the index has no further hits");
        assert_eq!(second_limit(50, HITS_MAX, HITS_MAX as usize, 0), None, "the largest search");
        assert_eq!(second_limit(10, 10, 0, 0), None);
    }

    #[test]
    fn candidates_are_ordered_by_their_relevance() {
        let ranked = |pairs: &[(usize, f64)]| {
            pairs
                .iter()
                .map(|(index, relevance)| RankedDocument { index: *index, relevance: *relevance })
                .collect::<Vec<_>>()
        };
        let order = |candidates: Vec<Candidate>| {
            candidates.iter().map(|found| (found.hit.number, found.relevance)).collect::<Vec<_>>()
        };
        let three = || (0..3).map(candidate).collect::<Vec<_>>();
        assert_eq!(
            order(reranked(three(), &ranked(&[(2, 0.9), (0, 0.1)]))),
            [(2, Some(0.9)), (0, Some(0.1)), (1, None)]
        );
        // Positions of a hostile endpoint.
        assert_eq!(order(reranked(three(), &ranked(&[(7, 0.9), (1, 0.5), (1, 0.4)]))).len(), 3);
        assert_eq!(order(reranked(three(), &[])), [(0, None), (1, None), (2, None)]);
    }

    proptest! {
        #[test]
        fn confirmed_hits_keep_their_order_and_none_is_lost_or_repeated(
            hits in proptest::collection::vec((0usize..4, 0u64..3, 0u32..50), 0..60),
            generations in proptest::collection::vec(proptest::option::of(0u64..3), 4),
        ) {
            let names = ["a", "b", "c", "d"];
            let all: Vec<Hit> = hits.into_iter().map(|(at, generation, number)| hit(names[at], generation, number)).collect();
            let live: Vec<(&str, u64)> =
                names.iter().zip(&generations).filter_map(|(name, generation)| Some((*name, (*generation)?))).collect();
            let found = confirm(all.clone(), &self::live(&live));
            prop_assert_eq!(found.hits.len() + found.stale as usize, all.len());
            let mut rest = all.iter();
            prop_assert!(found.hits.iter().all(|hit| rest.any(|other| other == hit)), "a subsequence");
        }

        #[test]
        fn a_reranking_keeps_each_candidate_once(
            indexes in proptest::collection::vec(0usize..12, 0..20),
        ) {
            let ranked: Vec<_> = indexes.iter().map(|index| RankedDocument { index: *index, relevance: 0.5 }).collect();
            let mut numbers: Vec<u32> =
                reranked((0..8).map(candidate).collect(), &ranked).iter().map(|found| found.hit.number).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..8).collect::<Vec<u32>>());
        }
    }
}
