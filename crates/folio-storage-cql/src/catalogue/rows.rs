//! Under which terms and places an item is found.

use std::collections::BTreeSet;

use folio_resources::{Condition, ListRow, folded};

use super::query::Lookup;

/// The term of every item.
pub(crate) const ALL: &str = "all";
/// The term of every item that has a name; its place is the name.
pub(crate) const NAME: &str = "name";

/// Characters of a text that a place holds.
const PIECE_CHARS: usize = 32;

/// A term, and the place under it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) term: String,
    pub(crate) place: String,
}

impl Key {
    fn of<T: Into<String>>(term: T) -> Self {
        Self { term: term.into(), place: String::new() }
    }
}

/// Returns the keys of an item's rows. An item with a parent is only found by its terms.
pub(crate) fn keys(row: &ListRow) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = row.terms.iter().map(Key::of::<&String>).collect();
    if row.parent.is_some() {
        return keys;
    }
    keys.insert(Key::of(ALL));
    let name = folded(&row.name);
    keys.insert(Key { term: NAME.to_owned(), place: name.clone() });
    keys.extend(pieces(NAME_FIELD, &name));
    for (key, value) in &row.metadata {
        keys.insert(Key::of(metadata_term(key)));
        keys.extend(pieces(&metadata_field(key), &folded(value)));
    }
    keys
}

/// Returns the lookups that a condition means: at least one of them finds each item that fulfils it.
pub(crate) fn lookups(condition: &Condition) -> Vec<Lookup> {
    match condition {
        Condition::AnyTerm(terms) => terms.iter().map(|term| all(term)).collect(),
        Condition::SharedTerm { .. } => Vec::new(),
        Condition::NameContains(piece) => vec![name_pieces(piece)],
        Condition::MetadataContains { key, piece } => vec![value_pieces(key, piece)],
    }
}

const NAME_FIELD: &str = "text/name";

fn metadata_field(key: &str) -> String {
    format!("text/metadata/{key}")
}

fn metadata_term(key: &str) -> String {
    format!("metadata/{key}")
}

/// The lookup of everything under a term.
pub(crate) fn all(term: &str) -> Lookup {
    Lookup { term: term.to_owned(), prefix: String::new() }
}

/// Where a piece of a name (folded, not empty) is found.
fn name_pieces(piece: &str) -> Lookup {
    piece_of(NAME_FIELD, piece)
}

/// Where a piece of a metadata value (folded) is found.
fn value_pieces(key: &str, piece: &str) -> Lookup {
    if piece.is_empty() { all(&metadata_term(key)) } else { piece_of(&metadata_field(key), piece) }
}

fn piece_of(field: &str, piece: &str) -> Lookup {
    let first: String = piece.chars().take(1).collect();
    Lookup { term: format!("{field}/{first}"), prefix: piece.chars().take(PIECE_CHARS).collect() }
}

/// A key for each character of a text: it, and what follows.
fn pieces(field: &str, text: &str) -> BTreeSet<Key> {
    let piece = |(at, first): (usize, char)| {
        let place = text.get(at..).unwrap_or_default().chars().take(PIECE_CHARS).collect();
        Key { term: format!("{field}/{first}"), place }
    };
    text.char_indices().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_of_a_name_is_the_beginning_of_a_place() {
        let name = "Überweisung 00012 an die Äcme GmbH & Co. KG, Köln";
        let row = ListRow { id: "x".into(), name: name.into(), ..ListRow::default() };
        let keys = keys(&row);
        let text: Vec<char> = folded(name).chars().collect();
        for from in 0..text.len() {
            for to in from + 1..=text.len() {
                let piece: String = text[from..to].iter().collect();
                let Lookup { term, prefix } = name_pieces(&piece);
                assert!(keys.iter().any(|key| key.term == term && key.place.starts_with(&prefix)), "{piece}");
            }
        }
    }
}
