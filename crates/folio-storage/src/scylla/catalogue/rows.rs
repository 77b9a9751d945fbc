//! Under which terms and places an item is found.

use std::collections::BTreeSet;

use folio_types::{DocumentId, PromptRevId, TagId, UserId};

use super::query::Lookup;
use crate::naming::{Kind, folded};
use crate::value::ListRow;

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
    fn of(term: impl Into<String>) -> Self {
        Self { term: term.into(), place: String::new() }
    }
}

/// The terms under which each item of a kind has a row whatever it is.
pub(crate) fn walked(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Extraction => &[],
        Kind::Document | Kind::Schema | Kind::Prompt | Kind::Tag | Kind::Thread => &[ALL, NAME],
    }
}

/// Where an item is found.
pub(crate) fn keys(kind: Kind, row: &ListRow) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    keys.extend(row.tags.iter().map(|tag| Key::of(tag_term(tag))));
    keys.extend(row.user.iter().map(|user| Key::of(user_term(user))));
    keys.extend(row.profile.iter().map(|profile| Key::of(profile_term(profile))));
    for document in &row.documents {
        keys.insert(Key::of(document_term(document)));
        keys.extend(row.prompt.iter().map(|prompt| Key::of(document_prompt_term(document, prompt))));
    }
    if kind == Kind::Extraction {
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

const NAME_FIELD: &str = "text/name";

fn metadata_field(key: &str) -> String {
    format!("text/metadata/{key}")
}

fn metadata_term(key: &str) -> String {
    format!("metadata/{key}")
}

pub(crate) fn tag_term(tag: &TagId) -> String {
    format!("tag/{tag}")
}

fn user_term(user: &UserId) -> String {
    format!("user/{user}")
}

fn profile_term(profile: &str) -> String {
    format!("profile/{profile}")
}

fn document_term(document: &DocumentId) -> String {
    format!("of/{document}")
}

fn document_prompt_term(document: &DocumentId, prompt: &PromptRevId) -> String {
    format!("of/{document}/{prompt}")
}

/// The lookup of everything under a term.
pub(crate) fn all(term: &str) -> Lookup {
    Lookup { term: term.to_owned(), prefix: String::new() }
}

impl Lookup {
    pub(crate) fn tag(tag: &TagId) -> Self {
        all(&tag_term(tag))
    }

    pub(crate) fn user(user: &UserId) -> Self {
        all(&user_term(user))
    }

    pub(crate) fn profile(profile: &str) -> Self {
        all(&profile_term(profile))
    }

    pub(crate) fn document(document: &DocumentId) -> Self {
        all(&document_term(document))
    }

    pub(crate) fn document_prompt(document: &DocumentId, prompt: &PromptRevId) -> Self {
        all(&document_prompt_term(document, prompt))
    }
}

/// Where a piece of a name (folded, not empty) is found.
pub(crate) fn name_pieces(piece: &str) -> Lookup {
    piece_of(NAME_FIELD, piece)
}

/// Where a piece of a metadata value (folded) is found.
pub(crate) fn value_pieces(key: &str, piece: &str) -> Lookup {
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
        let keys = keys(Kind::Document, &row);
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
