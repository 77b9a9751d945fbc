//! Translations between a search and the index. Pure.

use std::collections::BTreeMap;

use folio_index::{DocumentRule, Filter, Gap, IndexState, PartUse};
use folio_resources::CollectionRule;
use folio_tools::retrieval::{PassageFilter, SearchGap, SearchPart};

/// Returns pairs of metadata.
fn pairs(metadata: &BTreeMap<String, String>) -> Vec<(String, String)> {
    metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the filter of the index. `rules`: those of the collections of the filter.
pub(super) fn filter(filter: &PassageFilter, rules: &[CollectionRule]) -> Filter {
    let PassageFilter { document_ids, tag_ids, metadata, start_time, end_time, languages, collection_ids: _ } = filter;
    let rule = |rule: &CollectionRule| DocumentRule { tags: rule.tags.clone(), metadata: pairs(&rule.metadata) };
    Filter {
        documents: Some(document_ids.clone()).filter(|documents| !documents.is_empty()),
        tags: tag_ids.clone(),
        metadata: pairs(metadata),
        from: *start_time,
        before: *end_time,
        languages: languages.clone(),
        collections: rules.iter().map(rule).collect(),
    }
}

/// Returns the use of a part. `not_requested`: the reason for which the search did not request the part. None: it did.
pub(super) fn part(part: PartUse, not_requested: Option<SearchGap>) -> SearchPart {
    let PartUse { is_used, gaps } = part;
    let of_index = gaps.into_iter().filter_map(gap);
    SearchPart { is_used, gaps: not_requested.into_iter().chain(of_index).collect() }
}

fn gap(gap: Gap) -> Option<SearchGap> {
    match gap {
        // The caller names the reason.
        Gap::NotRequested | Gap::State(IndexState::Ready) => None,
        Gap::NoWords => Some(SearchGap::NoWords),
        Gap::State(IndexState::Missing) => Some(SearchGap::IndexMissing),
        Gap::State(IndexState::Rebuilding) => Some(SearchGap::IndexRebuilding),
        Gap::State(IndexState::Torn | IndexState::OtherVersion) => Some(SearchGap::IndexDamaged),
        Gap::Memory { passages } => Some(SearchGap::Memory(passages)),
        Gap::WithoutVector { passages } => Some(SearchGap::WithoutVector(passages)),
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{DocumentId, Timestamp};

    use super::*;

    #[test]
    fn each_gap_of_the_index_is_named() {
        let all = vec![
            Gap::NotRequested,
            Gap::NoWords,
            Gap::State(IndexState::Ready),
            Gap::State(IndexState::Missing),
            Gap::State(IndexState::Rebuilding),
            Gap::State(IndexState::Torn),
            Gap::State(IndexState::OtherVersion),
            Gap::Memory { passages: 3 },
            Gap::WithoutVector { passages: 4 },
        ];
        let found = part(PartUse { is_used: true, gaps: all }, Some(SearchGap::NoEmbeddingModel));
        assert!(found.is_used);
        assert_eq!(
            found.gaps,
            [
                SearchGap::NoEmbeddingModel,
                SearchGap::NoWords,
                SearchGap::IndexMissing,
                SearchGap::IndexRebuilding,
                SearchGap::IndexDamaged,
                SearchGap::IndexDamaged,
                SearchGap::Memory(3),
                SearchGap::WithoutVector(4),
            ]
        );
        assert_eq!(part(PartUse { is_used: true, gaps: Vec::new() }, None).gaps, []);
    }

    #[test]
    fn an_empty_list_of_documents_selects_all() {
        assert_eq!(filter(&PassageFilter::default(), &[]), Filter::default());
        let document = DocumentId::derive(&["a"]);
        let some = PassageFilter {
            document_ids: vec![document.clone()],
            start_time: Some(Timestamp::UNIX_EPOCH),
            ..PassageFilter::default()
        };
        let rule = CollectionRule { tags: vec![], metadata: [("k".to_owned(), "v".to_owned())].into() };
        let found = filter(&some, &[rule]);
        let expected = DocumentRule { tags: vec![], metadata: vec![("k".to_owned(), "v".to_owned())] };
        assert_eq!(found.collections, [expected]);
        assert_eq!(
            (found.documents, found.from, found.before),
            (Some(vec![document]), Some(Timestamp::UNIX_EPOCH), None)
        );
    }
}
