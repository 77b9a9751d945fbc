//! Entries of the dictionary as context of the passages of a document.

use folio_passages::{Block, DictionaryTerm, Section};
use folio_resources::{DictionaryEntry, Provenance, TermSearch};
use folio_types::Result;

/// Maximum entries of a document's context: the most frequent terms of its text.
const RELEVANT_MAX: usize = 200;
/// Maximum bytes of the text of a document in which terms are searched.
const TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Returns the terms that occur in a document, the most frequent first.
///
/// # Errors
/// `INTERNAL` if the terms are too large for a search.
pub(crate) fn relevant_terms(entries: Vec<DictionaryEntry>, sections: &[Section]) -> Result<Vec<DictionaryTerm>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let search = TermSearch::new(entries)?;
    Ok(search
        .relevant(&text_of(sections), RELEVANT_MAX)
        .into_iter()
        .map(|entry| DictionaryTerm {
            term: entry.term.clone(),
            expansion: expansion(entry),
            disambiguation: entry.disambiguation.clone(),
        })
        .collect())
}

/// Returns the meaning of an entry, with a mark if a model inferred it and no person has confirmed it.
fn expansion(entry: &DictionaryEntry) -> String {
    match entry.provenance {
        Provenance::Inferred { .. } => format!("{} (inferred)", entry.expansion),
        Provenance::Person | Provenance::Agent => entry.expansion.clone(),
    }
}

/// Returns the text of a document, with a line for each paragraph and each cell.
fn text_of(sections: &[Section]) -> String {
    let mut text = String::new();
    for block in sections.iter().flat_map(|section| &section.blocks) {
        let parts: Vec<&str> = match block {
            Block::Paragraph { text, .. } => vec![text],
            Block::Table { rows } => rows.iter().flat_map(|row| row.cells.iter().map(String::as_str)).collect(),
        };
        for part in parts {
            if text.len().saturating_add(part.len()) > TEXT_BYTES {
                return text;
            }
            text.push_str(part);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use folio_passages::{Span, TableRow};

    use super::*;

    #[test]
    fn the_text_contains_paragraphs_and_cells() {
        let span = Span { page: 1, start: 0, end: 1 };
        let row = TableRow { cells: vec!["a".to_owned(), "b".to_owned()], span };
        let blocks =
            vec![Block::Paragraph { page: 1, start: 0, text: "first".to_owned() }, Block::Table { rows: vec![row] }];
        let section = Section { id: "s".to_owned(), title_path: Vec::new(), blocks };
        assert_eq!(text_of(&[section]), "first\na\nb\n");
        assert_eq!(text_of(&[]), "");
    }
}
