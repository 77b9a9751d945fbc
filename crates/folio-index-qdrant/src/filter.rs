//! Filters. Each begins with the organization, so that no request reaches a point of another one.

use folio_index::adapter::metadata_text;
use folio_index::{DocumentRule, Filter as SearchFilter};
use folio_types::{DocumentId, OrgId, TagId};

use crate::manifest::Kind;
use crate::wire::condition::ConditionOneOf;
use crate::wire::r#match::MatchValue;
use crate::wire::{Condition, FieldCondition, Filter, HasVectorCondition, Match, Range, RepeatedStrings, key};

fn field(key: &str, value: MatchValue) -> Condition {
    let matched = Some(Match { match_value: Some(value) });
    let field = FieldCondition { key: key.to_owned(), r#match: matched, range: None };
    Condition { condition_one_of: Some(ConditionOneOf::Field(field)) }
}

fn equals(key: &str, text: &str) -> Condition {
    field(key, MatchValue::Keyword(text.to_owned()))
}

fn any_of<'a>(key: &str, texts: impl Iterator<Item = &'a str>) -> Condition {
    field(key, MatchValue::Keywords(RepeatedStrings { strings: texts.map(str::to_owned).collect() }))
}

/// Returns the filter of everything of an organization.
pub(crate) fn of_org(org: &OrgId) -> Filter {
    Filter { must: vec![equals(key::ORG, org.as_str())], ..Filter::default() }
}

/// Returns the filter of all points of a kind of an organization.
pub(crate) fn of_kind(org: &OrgId, kind: Kind) -> Filter {
    let mut filter = of_org(org);
    filter.must.push(equals(key::KIND, kind.as_str()));
    filter
}

/// Returns the filter of all documents and passages of an organization.
pub(crate) fn of_content(org: &OrgId) -> Filter {
    Filter { must_not: vec![equals(key::KIND, Kind::Organization.as_str())], ..of_org(org) }
}

/// Returns the filter of the passages that some writes stored.
pub(crate) fn of_writes<'a>(org: &OrgId, writes: impl Iterator<Item = &'a str>) -> Filter {
    let mut filter = of_kind(org, Kind::Passage);
    filter.must.push(any_of(key::WRITE, writes));
    filter
}

/// Returns the filter of the document points with some tokens.
pub(crate) fn of_tokens<'a>(org: &OrgId, tokens: impl Iterator<Item = &'a str>) -> Filter {
    let mut filter = of_kind(org, Kind::Document);
    filter.must.push(any_of(key::TOKEN, tokens));
    filter
}

/// Returns the filter of the organization point in a state of a rebuild.
pub(crate) fn of_state(org: &OrgId, state: &str, rebuild: u64) -> Filter {
    let mut filter = of_kind(org, Kind::Organization);
    filter.must.push(equals(key::STATE, state));
    filter.must.push(equals(key::TOKEN, &rebuild.to_string()));
    filter
}

fn nested(filter: Filter) -> Condition {
    Condition { condition_one_of: Some(ConditionOneOf::Filter(filter)) }
}

/// Returns the conditions for all of these tags and metadata values.
fn of_rule(tags: &[TagId], metadata: &[(String, String)]) -> Vec<Condition> {
    let tags = tags.iter().map(|tag| equals(key::TAGS, tag.as_str()));
    tags.chain(metadata.iter().map(|(name, value)| equals(key::METADATA, &metadata_text(name, value)))).collect()
}

/// Returns the filter of the passages that match the conditions of a search, without those of some writes.
pub(crate) fn of_search<'a>(org: &OrgId, search: &SearchFilter, without: impl Iterator<Item = &'a str>) -> Filter {
    let SearchFilter { documents, tags, metadata, from, before, languages, collections } = search;
    let mut filter = of_kind(org, Kind::Passage);
    if let Some(documents) = documents {
        filter.must.push(any_of(key::DOCUMENT, documents.iter().map(DocumentId::as_str)));
    }
    filter.must.extend(of_rule(tags, metadata));
    if !collections.is_empty() {
        let of_collection = |rule: &DocumentRule| {
            // A filter without conditions matches every point.
            nested(Filter { must: of_rule(&rule.tags, &rule.metadata), ..Filter::default() })
        };
        let should = collections.iter().map(of_collection).collect();
        filter.must.push(nested(Filter { should, ..Filter::default() }));
    }
    if !languages.is_empty() {
        filter.must.push(any_of(key::LANGUAGE, languages.iter().map(String::as_str)));
    }
    // Microseconds are exact in 64-bit floating-point numbers until the year 2255.
    let date = |at: &folio_types::Timestamp| at.as_microsecond() as f64;
    let range = Range { gte: from.as_ref().map(date), lt: before.as_ref().map(date), ..Range::default() };
    if range != Range::default() {
        let field = FieldCondition { key: key::DATE.to_owned(), r#match: None, range: Some(range) };
        filter.must.push(Condition { condition_one_of: Some(ConditionOneOf::Field(field)) });
    }
    let mut without = without.peekable();
    if without.peek().is_some() {
        filter.must_not.push(any_of(key::WRITE, without));
    }
    filter
}

/// Excludes the points with a vector of this name.
pub(crate) fn without_vector(mut filter: Filter, name: &str) -> Filter {
    let condition = HasVectorCondition { has_vector: name.to_owned() };
    filter.must_not.push(Condition { condition_one_of: Some(ConditionOneOf::HasVector(condition)) });
    filter
}

#[cfg(test)]
mod tests {
    use folio_types::Timestamp;

    use super::*;

    fn org() -> OrgId {
        OrgId::derive(&["a"])
    }

    #[test]
    fn each_filter_begins_with_the_organization() {
        let none = SearchFilter::default;
        for filter in [
            of_org(&org()),
            of_kind(&org(), Kind::Passage),
            of_content(&org()),
            of_writes(&org(), ["a"].into_iter()),
            of_tokens(&org(), ["a"].into_iter()),
            of_state(&org(), "ready", 1),
            of_search(&org(), &none(), std::iter::empty()),
            without_vector(of_search(&org(), &none(), ["a"].into_iter()), "d"),
        ] {
            assert_eq!(filter.must.first(), Some(&equals(key::ORG, org().as_str())), "{filter:?}");
            assert!(filter.should.is_empty(), "an alternative weakens a filter");
        }
    }

    #[test]
    fn conditions_of_a_search_apply_together() {
        let search = SearchFilter {
            documents: Some(vec![]),
            tags: vec![TagId::derive(&["a"]), TagId::derive(&["b"])],
            metadata: vec![("k".to_owned(), "v".to_owned())],
            from: Some(Timestamp::UNIX_EPOCH),
            before: None,
            languages: vec!["de".to_owned()],
            collections: vec![DocumentRule { tags: vec![TagId::derive(&["c"])], metadata: vec![] }],
        };
        let filter = of_search(&org(), &search, ["w"].into_iter());
        // Organization, kind, documents, two tags, metadata, collections, languages and dates.
        assert_eq!((filter.must.len(), filter.must_not.len()), (9, 1), "{filter:?}");
        assert!(of_search(&org(), &SearchFilter::default(), std::iter::empty()).must_not.is_empty());
    }
}
