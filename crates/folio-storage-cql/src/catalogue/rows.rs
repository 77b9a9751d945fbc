//! The keys of an item's rows in the catalogue, and the sources that a filter reads.

use std::collections::BTreeSet;

use folio_resources::{ALWAYS_SEARCHABLE_CHARS, Condition, ListRow, folded, parent_term};

use crate::table::{ALL, Key};

/// Number of characters of a group. A shorter text is found by a group of [`SHORT_GROUP_CHARS`], and one character by
/// a scan.
const GROUP_CHARS: usize = 3;
const SHORT_GROUP_CHARS: usize = 2;

/// Returns the keys of an item's rows. An item with a parent has no name.
pub(crate) fn keys(row: &ListRow) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = row.terms.iter().cloned().map(Key::Term).collect();
    keys.insert(Key::Term(ALL.to_owned()));
    if row.parent.is_some() {
        return keys;
    }
    let name = folded(&row.name);
    keys.extend(groups_of_text(NAME_FIELD, &name));
    keys.insert(Key::Name(name));
    for (key, value) in row.searchable_metadata() {
        keys.insert(Key::Term(metadata_term(key)));
        keys.extend(groups_of_text(&metadata_term(key), &value));
    }
    keys
}

/// A condition as the rows that contain all of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    /// The items with at least one of the terms.
    Terms(Vec<String>),
    /// Items whose text contains each group of characters, and perhaps the whole substring. Without a group, the text is
    /// too short, and `term` is the list of all items that can match.
    Text { term: String, groups: Vec<String> },
    /// Items of any rows: only their list rows show whether the condition holds.
    Unindexed,
}

/// Maximum number of parents whose rows are read to filter by parent. Of more parents, the list rows of all items are
/// compared.
const PARENTS_READ_MAX: usize = 16;

impl Filter {
    /// Returns the rows of a condition. An unresolved condition has none.
    pub(crate) fn of(condition: &Condition) -> Self {
        match condition {
            Condition::AnyTerm(terms) => Self::Terms(terms.clone()),
            Condition::SharedTerm { .. } | Condition::ParentTerms { .. } | Condition::RefersTo(_) => {
                Self::Terms(Vec::new())
            }
            Condition::AnyId(ids) if ids.is_empty() => Self::Terms(Vec::new()),
            Condition::AnyId(_) => Self::Unindexed,
            Condition::AnyParent(parents) if parents.len() > PARENTS_READ_MAX => Self::Unindexed,
            Condition::AnyParent(parents) => Self::Terms(parents.iter().map(parent_term).collect()),
            Condition::Created(_) => Self::Unindexed,
            Condition::NameContains(substring) => {
                Self::Text { term: ALL.to_owned(), groups: groups_of_substring(NAME_FIELD, substring) }
            }
            Condition::NameEquals(name) => {
                Self::Text { term: ALL.to_owned(), groups: groups_of_substring(NAME_FIELD, &folded(name)) }
            }
            Condition::MetadataContains { key, substring } if substring.is_empty() => {
                Self::Terms(vec![metadata_term(key)])
            }
            Condition::MetadataContains { key, substring } => {
                let term = metadata_term(key);
                Self::Text { groups: groups_of_substring(&term, substring), term }
            }
            Condition::MetadataEquals { key, value } => {
                let term = metadata_term(key);
                let start: String = folded(value).chars().take(ALWAYS_SEARCHABLE_CHARS).collect();
                Self::Text { groups: groups_of_substring(&term, &start), term }
            }
        }
    }
}

const NAME_FIELD: &str = "name";

fn metadata_term(key: &str) -> String {
    format!("metadata/{key}")
}

/// Returns the distinct groups of `length` characters of a text.
fn groups(field: &str, text: &str, length: usize) -> BTreeSet<String> {
    let starts = text.char_indices().map(|(at, _)| text.get(at..).unwrap_or_default());
    let group = |rest: &str| {
        let group: String = rest.chars().take(length).collect();
        (group.chars().count() == length).then(|| format!("{field}/{group}"))
    };
    starts.filter_map(group).collect()
}

fn groups_of_text(field: &str, text: &str) -> impl Iterator<Item = Key> {
    [GROUP_CHARS, SHORT_GROUP_CHARS].into_iter().flat_map(|length| groups(field, text, length)).map(Key::Group)
}

/// Returns the groups that a text with the folded substring has. Empty for a single character.
fn groups_of_substring(field: &str, substring: &str) -> Vec<String> {
    let length = substring.chars().take(GROUP_CHARS).count();
    match length < SHORT_GROUP_CHARS {
        true => Vec::new(),
        false => groups(field, substring, length).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_substring_of_a_name_is_found_by_each_of_its_groups() {
        let name = "Überweisung 00012 an die Äcme GmbH & Co. KG, Köln";
        let row = ListRow { id: "x".into(), name: name.into(), ..ListRow::default() };
        let keys = keys(&row);
        let text: Vec<char> = folded(name).chars().collect();
        for from in 0..text.len() {
            for to in from + 1..=text.len() {
                let substring: String = text[from..to].iter().collect();
                let Filter::Text { term, groups } = Filter::of(&Condition::NameContains(substring.clone())) else {
                    panic!("no text")
                };
                assert_eq!(groups.is_empty(), to == from + 1, "{substring}");
                let missing = groups.iter().find(|group| !keys.contains(&Key::Group((*group).clone())));
                assert_eq!((missing, keys.contains(&Key::Term(term))), (None, true), "{substring}");
            }
        }
    }

    #[test]
    fn the_groups_of_an_exact_name_or_value_are_rows_of_the_item() {
        let value = "Überweisung ".repeat(80);
        let metadata = (0..50).map(|at| (format!("key-{at}"), value.clone())).collect();
        let row = ListRow { id: "x".into(), name: "Äcme GmbH".into(), metadata, ..ListRow::default() };
        let keys = keys(&row);
        for condition in [
            Condition::NameEquals(row.name.clone()),
            Condition::MetadataEquals { key: "key-7".into(), value: value.clone() },
        ] {
            let Filter::Text { groups, .. } = Filter::of(&condition) else { panic!("no text") };
            assert!(!groups.is_empty());
            assert_eq!(groups.iter().find(|group| !keys.contains(&Key::Group((*group).clone()))), None);
        }
        let empty = Filter::of(&Condition::MetadataEquals { key: "key-7".into(), value: String::new() });
        assert_eq!(empty, Filter::Text { term: "metadata/key-7".into(), groups: vec![] });
    }

    #[test]
    fn few_parents_are_read_by_their_rows_and_many_by_the_list_rows_of_the_items() {
        let parents = |count: usize| Condition::AnyParent((0..count).map(|number| format!("doc_{number}")).collect());
        assert_eq!(Filter::of(&parents(0)), Filter::Terms(vec![]));
        assert_eq!(Filter::of(&parents(2)), Filter::Terms(vec!["of/doc_0".into(), "of/doc_1".into()]));
        assert_eq!(Filter::of(&parents(PARENTS_READ_MAX + 1)), Filter::Unindexed);
    }

    #[test]
    fn ids_are_compared_with_the_list_rows_of_all_items_unless_there_are_none() {
        assert_eq!(Filter::of(&Condition::AnyId(BTreeSet::new())), Filter::Terms(vec![]));
        assert_eq!(Filter::of(&Condition::AnyId(["prm_0".to_owned()].into())), Filter::Unindexed);
    }

    #[test]
    fn an_item_with_a_parent_has_rows_for_all_items_and_for_its_terms() {
        let (terms, parent) = ([parent_term("doc_0")].into(), Some("doc_0".to_owned()));
        let row = ListRow { id: "x".into(), terms, parent, ..ListRow::default() };
        let expected = [ALL, "of/doc_0"].map(|term| Key::Term(term.to_owned()));
        assert_eq!(keys(&row), BTreeSet::from(expected));
    }

    #[test]
    fn an_item_has_at_most_two_rows_for_each_searchable_character() {
        let value = |at: u32| (0..341).map(|n| char::from_u32(0x4e00 + at * 341 + n).unwrap()).collect();
        let metadata = (0..50).map(|at| (format!("key-{at}"), value(at))).collect();
        let row = ListRow { id: "x".into(), name: "n".repeat(200), metadata, ..ListRow::default() };
        let rows = keys(&row).len();
        assert!(rows <= 2 * (200 + folio_types::limits::METADATA_SEARCHABLE_CHARS) + 52, "{rows}");
        assert!(rows > 1_000, "{rows}");
    }
}
