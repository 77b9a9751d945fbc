//! The terms and sort keys of an item's rows in the catalogue.

use std::collections::BTreeSet;

use folio_resources::{Condition, ListRow, folded};

use super::query::Lookup;

/// The term of every item.
pub(crate) const ALL: &str = "all";
/// The term of every item with a name. The sort key is the folded name.
pub(crate) const NAME: &str = "name";

/// Maximum number of characters of a text in a sort key.
const SUBSTRING_CHARS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) term: String,
    pub(crate) sort_key: String,
}

impl Key {
    fn of<T: Into<String>>(term: T) -> Self {
        Self { term: term.into(), sort_key: String::new() }
    }
}

/// Returns the keys of an item's rows. An item with a parent has no rows other than those of its terms.
pub(crate) fn keys(row: &ListRow) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = row.terms.iter().map(Key::of::<&String>).collect();
    if row.parent.is_some() {
        return keys;
    }
    keys.insert(Key::of(ALL));
    let name = folded(&row.name);
    keys.insert(Key { term: NAME.to_owned(), sort_key: name.clone() });
    keys.extend(suffixes(NAME_FIELD, &name));
    for (key, value) in &row.metadata {
        keys.insert(Key::of(metadata_term(key)));
        keys.extend(suffixes(&metadata_field(key), &folded(value)));
    }
    keys
}

/// Returns the lookups that together find all items that fulfil a condition. None fulfils an unresolved `SharedTerm`.
pub(crate) fn lookups(condition: &Condition) -> Vec<Lookup> {
    match condition {
        Condition::AnyTerm(terms) => terms.iter().map(|term| all(term)).collect(),
        Condition::SharedTerm { .. } => Vec::new(),
        Condition::NameContains(substring) => vec![name_lookup(substring)],
        Condition::MetadataContains { key, substring } => vec![value_lookup(key, substring)],
    }
}

const NAME_FIELD: &str = "text/name";

fn metadata_field(key: &str) -> String {
    format!("text/metadata/{key}")
}

fn metadata_term(key: &str) -> String {
    format!("metadata/{key}")
}

pub(crate) fn all(term: &str) -> Lookup {
    Lookup { term: term.to_owned(), prefix: String::new() }
}

/// `substring` is folded and not empty.
fn name_lookup(substring: &str) -> Lookup {
    substring_lookup(NAME_FIELD, substring)
}

/// `substring` is folded. An empty substring finds every item with the key.
fn value_lookup(key: &str, substring: &str) -> Lookup {
    if substring.is_empty() { all(&metadata_term(key)) } else { substring_lookup(&metadata_field(key), substring) }
}

fn substring_lookup(field: &str, substring: &str) -> Lookup {
    let first: String = substring.chars().take(1).collect();
    Lookup { term: format!("{field}/{first}"), prefix: substring.chars().take(SUBSTRING_CHARS).collect() }
}

/// Returns one key for each character of a text. The sort key starts with that character.
fn suffixes(field: &str, text: &str) -> BTreeSet<Key> {
    let substring = |(at, first): (usize, char)| {
        let sort_key = text.get(at..).unwrap_or_default().chars().take(SUBSTRING_CHARS).collect();
        Key { term: format!("{field}/{first}"), sort_key }
    };
    text.char_indices().map(substring).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_substring_of_a_name_is_a_prefix_of_a_sort_key() {
        let name = "Überweisung 00012 an die Äcme GmbH & Co. KG, Köln";
        let row = ListRow { id: "x".into(), name: name.into(), ..ListRow::default() };
        let keys = keys(&row);
        let text: Vec<char> = folded(name).chars().collect();
        for from in 0..text.len() {
            for to in from + 1..=text.len() {
                let substring: String = text[from..to].iter().collect();
                let Lookup { term, prefix } = name_lookup(&substring);
                assert!(keys.iter().any(|key| key.term == term && key.sort_key.starts_with(&prefix)), "{substring}");
            }
        }
    }
}
