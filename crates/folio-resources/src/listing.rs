//! Lists: the row of each resource, and the conditions of filters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use folio_types::{Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::Kind;

/// Returns the form in which names are compared and searched: lowercase, with the final sigma ς replaced by σ.
pub fn folded(name: &str) -> String {
    name.to_lowercase().replace('ς', "σ")
}

/// Returns an exact search term `field/value`, such as `tag/tag_0190…`.
pub fn term(field: &str, value: impl Display) -> String {
    format!("{field}/{value}")
}

/// Returns the term that each resource with this parent has.
pub fn parent_term(parent: impl Display) -> String {
    term("of", parent)
}

/// Fields by which lists filter and sort. Stored separately from the resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRow {
    pub id: String,
    /// Name or title. Empty if the kind has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Exact search terms, built by [`term`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub terms: BTreeSet<String>,
    /// Searched by substrings of the searchable values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Id of the parent. A resource with a parent has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Time of creation. None: lists of the kind have no [`Condition::Created`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Bytes of the file. 0 if the kind has no files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(size: &u64) -> bool {
    *size == 0
}

impl ListRow {
    /// Returns true if all conditions hold.
    pub fn matches(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| condition.matches(self))
    }

    /// Returns the folded values of the metadata as far as searches find them: of values with more than
    /// [`limits::METADATA_SEARCHABLE_CHARS`] characters together, the first characters of each long value, of each the
    /// same number.
    pub fn searchable_metadata(&self) -> impl Iterator<Item = (&str, String)> {
        let share = searchable_share(&self.metadata);
        self.metadata.iter().map(move |(key, value)| (key.as_str(), folded(value).chars().take(share).collect()))
    }

    /// Returns the searchable value of a key of the metadata.
    fn searchable_value(&self, key: &str) -> Option<String> {
        let value = folded(self.metadata.get(key)?);
        // Folding a text never results in more characters than the text has bytes.
        match self.metadata.values().map(String::len).sum::<usize>() <= limits::METADATA_SEARCHABLE_CHARS {
            true => Some(value),
            false => Some(value.chars().take(searchable_share(&self.metadata)).collect()),
        }
    }
}

/// Number of characters at the start of a value that are searchable regardless of the other values: the share of each
/// value of a document with the maximum number of long values.
// proto: none "internal; the indexes of the stores use it"
pub const ALWAYS_SEARCHABLE_CHARS: usize = limits::METADATA_SEARCHABLE_CHARS / limits::METADATA_MAX;

/// Returns the keys of the metadata whose values are searchable in part only.
pub fn partly_searchable_keys(metadata: &BTreeMap<String, String>) -> Vec<String> {
    let share = searchable_share(metadata);
    let is_longer = |value: &String| folded(value).chars().count() > share;
    metadata.iter().filter(|(_, value)| is_longer(value)).map(|(key, _)| key.clone()).collect()
}

/// Returns the maximum number of searchable characters of each value.
fn searchable_share(metadata: &BTreeMap<String, String>) -> usize {
    let mut lengths: Vec<usize> = metadata.values().map(|value| folded(value).chars().count()).collect();
    lengths.sort_unstable();
    let mut left = limits::METADATA_SEARCHABLE_CHARS;
    for (length, values) in lengths.iter().zip((1..=lengths.len()).rev()) {
        if length * values > left {
            return left / values;
        }
        left -= length;
    }
    usize::MAX
}

/// A period of creation times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CreationPeriod {
    /// The start, inclusive. None: unbounded.
    pub start: Option<Timestamp>,
    /// The end, exclusive. None: unbounded.
    pub end: Option<Timestamp>,
}

impl CreationPeriod {
    fn contains(&self, at: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at < end)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The row has at least one of these terms.
    AnyTerm(Vec<String>),
    /// The row and the row of the resource `with` have a term of this field in common. A store resolves this condition to
    /// [`Self::AnyTerm`] before it lists. Unresolved, it matches nothing.
    SharedTerm { with: String, field: &'static str },
    /// The parent is a resource of the kind with this name, and has all of these terms. A store resolves this condition
    /// to [`Self::AnyParent`] before it lists. Unresolved, it matches nothing.
    ParentTerms { kind: &'static str, terms: Vec<String> },
    /// The newest revision refers to this resource. A store resolves this condition to [`Self::AnyId`] before it lists.
    /// Unresolved, it matches nothing.
    RefersTo(String),
    /// The id is one of these.
    AnyId(BTreeSet<String>),
    /// The parent is one of these.
    AnyParent(BTreeSet<String>),
    /// The time of creation is in this period.
    Created(CreationPeriod),
    /// The folded name contains this folded text.
    NameContains(String),
    /// The name is this text, in this spelling.
    NameEquals(String),
    /// The searchable value of a metadata key contains the folded text. Empty text: the key exists.
    MetadataContains { key: String, substring: String },
    /// The whole value of a metadata key is this text, in this spelling.
    MetadataEquals { key: String, value: String },
}

impl Condition {
    /// Returns the condition of a name search. None: the search text is missing or empty.
    pub fn name_search(search: Option<&String>) -> Option<Self> {
        search.filter(|substring| !substring.is_empty()).map(|substring| Self::NameContains(folded(substring)))
    }

    /// Returns the conditions of a name search and of a whole name. None: the filter lacks the condition.
    pub fn names(search: Option<&String>, name: Option<&String>) -> impl Iterator<Item = Self> {
        Self::name_search(search).into_iter().chain(name.cloned().map(Self::NameEquals))
    }

    /// Returns a condition for each list of terms of which a row must have at least one. An empty list is no condition.
    pub(crate) fn any_terms<const N: usize>(lists: [Vec<String>; N]) -> impl Iterator<Item = Self> {
        lists.into_iter().filter(|terms| !terms.is_empty()).map(Self::AnyTerm)
    }

    /// Resolves a [`Self::SharedTerm`] of this field, given the terms of the other resource.
    pub fn shared(field: &str, terms: &BTreeSet<String>) -> Self {
        let of_field = |found: &&String| found.split_once('/').is_some_and(|(name, _)| name == field);
        Self::AnyTerm(terms.iter().filter(of_field).cloned().collect())
    }

    fn matches(&self, row: &ListRow) -> bool {
        match self {
            Self::AnyTerm(terms) => terms.iter().any(|wanted| row.terms.contains(wanted)),
            Self::SharedTerm { .. } | Self::ParentTerms { .. } | Self::RefersTo(_) => false,
            Self::AnyId(ids) => ids.contains(&row.id),
            Self::AnyParent(parents) => row.parent.as_ref().is_some_and(|parent| parents.contains(parent)),
            Self::Created(period) => row.created_at.is_some_and(|at| period.contains(at)),
            Self::NameContains(substring) => folded(&row.name).contains(substring),
            Self::NameEquals(name) => row.name == *name,
            Self::MetadataContains { key, substring } => {
                row.searchable_value(key).is_some_and(|value| value.contains(substring))
            }
            Self::MetadataEquals { key, value } => row.metadata.get(key) == Some(value),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ListQuery {
    pub kind: &'static Kind,
    /// Parent of the listed resources, which a condition states, too. None: of any parent, or the kind has none.
    pub parent: Option<String>,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Identifies the filter in page tokens.
    pub filter: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ListRow {
        ListRow {
            id: "doc".into(),
            name: "Rechnung ΣΟΦΟΣ".into(),
            terms: [term("tag", "a"), term("user", "u")].into(),
            parent: Some("one".into()),
            created_at: Some(Timestamp::UNIX_EPOCH),
            metadata: [("city".to_owned(), "KÖLN-Süd".to_owned())].into(),
            ..ListRow::default()
        }
    }

    #[test]
    fn a_row_matches_only_if_every_condition_holds() {
        let any = |terms: &[&str]| Condition::AnyTerm(terms.iter().map(|&text| text.to_owned()).collect());
        let city = |substring: &str| Condition::MetadataContains { key: "city".into(), substring: folded(substring) };
        let city_is = |value: &str| Condition::MetadataEquals { key: "city".to_owned(), value: value.to_owned() };
        let name = |substring: &str| Condition::NameContains(folded(substring));
        let name_is = |name: &str| Condition::NameEquals(name.to_owned());
        let parents = |ids: &[&str]| Condition::AnyParent(ids.iter().map(|&id| id.to_owned()).collect());
        let ids = |ids: &[&str]| Condition::AnyId(ids.iter().map(|&id| id.to_owned()).collect());
        let at = |second| Some(Timestamp::constant(second, 0));
        let created = |start, end| Condition::Created(CreationPeriod { start, end });
        for (conditions, expected) in [
            (vec![], true),
            (vec![any(&["tag/a"])], true),
            (vec![any(&["tag/b", "tag/a"])], true),
            (vec![any(&["tag/b"])], false),
            (vec![any(&[])], false),
            (vec![any(&["tag/a"]), any(&["tag/b"])], false),
            (vec![name("rechnung σοφοσ")], true),
            (vec![name("x")], false),
            (vec![name_is("Rechnung ΣΟΦΟΣ")], true),
            (vec![name_is("Rechnung ΣΟΦΟσ")], false),
            (vec![name_is("Rechnung")], false),
            (vec![city("köln")], true),
            (vec![city("")], true),
            (vec![city("bonn")], false),
            (vec![city_is("KÖLN-Süd")], true),
            (vec![city_is("köln-süd")], false),
            (vec![city_is("KÖLN")], false),
            (vec![city_is("")], false),
            (vec![Condition::MetadataContains { key: "land".into(), substring: String::new() }], false),
            (vec![Condition::SharedTerm { with: "doc".into(), field: "tag" }], false),
            (vec![Condition::ParentTerms { kind: "document", terms: vec![] }], false),
            (vec![Condition::RefersTo("doc".into())], false),
            (vec![ids(&["doc", "other"])], true),
            (vec![ids(&["other"])], false),
            (vec![ids(&[])], false),
            (vec![parents(&["one", "two"])], true),
            (vec![parents(&["two"])], false),
            (vec![parents(&[])], false),
            (vec![created(None, None)], true),
            (vec![created(at(0), at(1))], true),
            (vec![created(at(-1), at(0))], false),
            (vec![created(at(1), None)], false),
        ] {
            assert_eq!(row().matches(&conditions), expected, "{conditions:?}");
        }
    }

    #[test]
    fn a_shared_term_means_the_terms_of_its_field() {
        assert_eq!(Condition::shared("tag", &row().terms), Condition::AnyTerm(vec!["tag/a".into()]));
        assert_eq!(Condition::name_search(Some(&String::new())), None);
        let unknown = Condition::Created(CreationPeriod::default());
        assert!(!ListRow { created_at: None, ..row() }.matches(&[unknown]), "a row without a time of creation");
    }

    #[test]
    fn long_values_share_the_searchable_characters_that_short_ones_leave() {
        let metadata: BTreeMap<String, String> = [("a", 10), ("b", 900), ("c", 900), ("d", 200)]
            .map(|(key, length)| (key.to_owned(), format!("{}Ü", "x".repeat(length - 1))))
            .into();
        assert_eq!(partly_searchable_keys(&metadata), ["b", "c"]);
        let row = ListRow { metadata, ..row() };
        let lengths: Vec<_> = row.searchable_metadata().map(|(_, value)| value.chars().count()).collect();
        assert_eq!(lengths, [10, 395, 395, 200]);
        let ends_with = |key: &str| {
            row.matches(&[Condition::MetadataContains { key: key.to_owned(), substring: "xü".to_owned() }])
        };
        assert_eq!(["a", "b", "c", "d"].map(ends_with), [true, false, false, true]);
        let short = [("a".to_owned(), "x".repeat(limits::METADATA_SEARCHABLE_CHARS))].into();
        assert_eq!(partly_searchable_keys(&short), Vec::<String>::new());
    }

    #[test]
    fn a_value_of_exactly_its_share_is_searchable_completely() {
        let half = limits::METADATA_SEARCHABLE_CHARS / 2;
        let of = |lengths: [usize; 2]| -> BTreeMap<String, String> {
            ["a", "b"].into_iter().zip(lengths).map(|(key, length)| (key.to_owned(), "x".repeat(length))).collect()
        };
        assert_eq!(partly_searchable_keys(&of([half, 2 * half])), ["b"]);
        for (lengths, expected) in [([half, half], usize::MAX), ([half, 2 * half], half), ([half + 1, 2 * half], half)]
        {
            assert_eq!(searchable_share(&of(lengths)), expected, "{lengths:?}");
        }
    }

    #[test]
    fn the_first_characters_of_each_value_are_searchable_whatever_the_other_values_are() {
        let metadata = (0..limits::METADATA_MAX).map(|at| (format!("key-{at}"), "x".repeat(500))).collect();
        let row = ListRow { metadata, ..row() };
        let shortest = row.searchable_metadata().map(|(_, value)| value.chars().count()).min();
        assert_eq!(shortest, Some(ALWAYS_SEARCHABLE_CHARS));
    }

    #[test]
    fn a_stored_row_omits_the_size_of_kinds_without_files() {
        let stored =
            |size_bytes| serde_json::to_value(ListRow { id: "doc".into(), size_bytes, ..ListRow::default() }).unwrap();
        assert_eq!(stored(0), serde_json::json!({"id": "doc"}));
        assert_eq!(stored(5), serde_json::json!({"id": "doc", "size_bytes": 5}));
    }
}
