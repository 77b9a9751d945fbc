//! Conflicts among the documents of a stack: rows with the same key and different values. Pure.

use std::collections::BTreeMap;

use folio_resources::{Column, Stack, StackRow};
use folio_types::{Digest, DocumentId, Error, Reason, Result};
use serde_json::Value;

use super::aggregate::comparable;

/// Maximum number of columns of a key.
// proto: GetStackConflictsRequest.key_columns "1 to {} columns"
const KEY_COLUMNS_MAX: usize = 4;
/// Maximum number of conflicts of an answer.
// proto: GetStackConflictsResponse.conflicts "at most {} conflicts"
pub const TABLE_CONFLICTS_MAX: usize = 1_000;
/// Size of the conflicts of an answer after which it lists no further ones, in bytes.
// proto: GetStackConflictsResponse.conflicts "about {} MiB"
const CONFLICTS_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of values of a conflict.
// proto: StackConflict.values "at most {} values"
const CONFLICT_VALUES_MAX: usize = 10;
/// Maximum number of documents that a value names.
// proto: StackConflictValue.document_ids "at most {} documents"
pub const CONFLICT_DOCUMENTS_MAX: usize = 10;
/// Maximum length of a value of a conflict, in characters. A longer value is cut.
// proto: StackConflictValue.value "at most {} characters"
const VALUE_CHARS_MAX: usize = 200;
/// Maximum number of different values that a search keeps.
const VALUES_MAX: usize = 200_000;

/// A value of some documents with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictingValue {
    /// The start of the value: a text as it is, another value as JSON.
    pub value: String,
    /// The first documents with the value.
    pub documents: Vec<DocumentId>,
    /// Number of documents with the value.
    pub count: u64,
}

/// The different values of a column in rows with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableConflict {
    /// The values of the key, as in [`ConflictingValue::value`].
    pub key: Vec<String>,
    /// Name of the column.
    pub column: String,
    /// The values that most documents have, the most frequent first: at least two. A conflict may have more values.
    pub values: Vec<ConflictingValue>,
}

impl TableConflict {
    /// Returns the bytes of the texts.
    fn bytes(&self) -> usize {
        let value = |value: &ConflictingValue| {
            value.documents.iter().map(|id| id.as_str().len()).fold(value.value.len(), usize::saturating_add)
        };
        let key = self.key.iter().map(String::len).fold(self.column.len(), usize::saturating_add);
        self.values.iter().map(value).fold(key, usize::saturating_add)
    }
}

/// Finds conflicts row by row.
#[derive(Debug)]
pub struct ConflictFinder {
    key: Vec<Column>,
    others: Vec<Column>,
    /// By the digest of the key.
    keys: BTreeMap<Digest, Keyed>,
    values: usize,
}

#[derive(Debug)]
struct Keyed {
    key: Vec<String>,
    /// The values of the other columns, by their digests.
    columns: Vec<BTreeMap<Digest, ConflictingValue>>,
}

/// Checks the number of the columns of a key.
///
/// # Errors
/// `INVALID_FIELD`
pub fn check_key_columns(key: &[String]) -> Result<()> {
    match key.len() {
        1..=KEY_COLUMNS_MAX => Ok(()),
        _ => Err(Error::invalid_field("key_columns", format!("must have 1 to {KEY_COLUMNS_MAX} elements"))),
    }
}

impl ConflictFinder {
    /// `columns`: names of the columns whose values are compared. Empty: all columns outside of the key.
    ///
    /// # Errors
    /// `INVALID_FIELD`; `NOT_FOUND` for an unknown column.
    pub fn new(stack: &Stack, key: &[String], columns: &[String]) -> Result<Self> {
        check_key_columns(key)?;
        let named = |name: &String| stack.column(name).cloned();
        let key: Vec<Column> = key.iter().map(named).collect::<Result<_>>()?;
        let is_other = |column: &&Column| !key.iter().any(|other| other.number == column.number);
        let others = match columns.is_empty() {
            true => stack.columns.iter().filter(is_other).cloned().collect(),
            false => columns.iter().map(named).collect::<Result<_>>()?,
        };
        Ok(Self { key, others, keys: BTreeMap::new(), values: 0 })
    }

    /// Adds a row. A row without a complete key is ignored.
    ///
    /// # Errors
    /// `TOO_LARGE` if the table has too many different values.
    pub fn add(&mut self, row: &StackRow) -> Result<()> {
        let value = |column: &Column| row.cells.get(&column.number)?.counted_value(column);
        let Some(key) = self.key.iter().map(value).collect::<Option<Vec<_>>>() else { return Ok(()) };
        let texts: Vec<String> = key.iter().zip(&self.key).map(|(value, column)| comparable(column, value)).collect();
        let columns = self.others.len();
        let keyed = self.keys.entry(Digest::of_json(&Value::from(texts))).or_insert_with(|| Keyed {
            key: key.into_iter().map(shown).collect(),
            columns: vec![BTreeMap::new(); columns],
        });
        for (column, found) in self.others.iter().zip(&mut keyed.columns) {
            let Some(value) = value(column) else { continue };
            let entry = found.entry(Digest::of(comparable(column, value).as_bytes())).or_insert_with(|| {
                self.values += 1;
                ConflictingValue { value: shown(value), documents: Vec::new(), count: 0 }
            });
            entry.count += 1;
            if entry.documents.len() < CONFLICT_DOCUMENTS_MAX {
                entry.documents.push(row.document.clone());
            }
        }
        if self.values > VALUES_MAX {
            let message = format!("the table has more than {VALUES_MAX} different values; compare fewer columns");
            return Err(Error::precondition(Reason::TooLarge, message));
        }
        Ok(())
    }

    /// Returns the conflicts in the order of their keys, at most [`TABLE_CONFLICTS_MAX`] and about [`CONFLICTS_BYTES`], and the number
    /// of all conflicts.
    pub fn finish(self) -> (Vec<TableConflict>, u64) {
        let Self { others, keys, .. } = self;
        let mut keys: Vec<Keyed> = keys.into_values().collect();
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        let (mut conflicts, mut total, mut bytes) = (Vec::new(), 0, 0usize);
        for Keyed { key, columns } in keys {
            for (column, values) in others.iter().zip(columns).filter(|(_, values)| values.len() > 1) {
                total += 1;
                if conflicts.len() < TABLE_CONFLICTS_MAX && bytes < CONFLICTS_BYTES {
                    let mut values: Vec<ConflictingValue> = values.into_values().collect();
                    values.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.value.cmp(&other.value)));
                    values.truncate(CONFLICT_VALUES_MAX);
                    let conflict = TableConflict { key: key.clone(), column: column.name().to_owned(), values };
                    bytes = bytes.saturating_add(conflict.bytes());
                    conflicts.push(conflict);
                }
            }
        }
        (conflicts, total)
    }
}

/// Returns the start of a value: a text as it is, another value as JSON.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(VALUE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use folio_types::StackId;
    use serde_json::json;

    use super::super::aggregate::tests::{row, stack};
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn rows_with_the_same_key_and_different_values_conflict() {
        let mut finder = ConflictFinder::new(&stack(), &names(&["vendor"]), &[]).unwrap();
        for (document, cells) in [
            ("a", json!({ "vendor": "Acme", "total": 5, "date": "2026-01-01" })),
            ("b", json!({ "vendor": "Acme", "total": 5.0, "date": "2026-01-02" })),
            ("c", json!({ "vendor": "Acme", "date": "2026-01-02" })),
            ("d", json!({ "vendor": "Other", "total": 6 })),
            ("e", json!({ "total": 7 })),
        ] {
            finder.add(&row(document, &cells)).unwrap();
        }
        let (conflicts, total) = finder.finish();
        let id = |name: &str| DocumentId::derive(&[name]);
        let value = |value: &str, documents: Vec<DocumentId>| ConflictingValue {
            value: value.to_owned(),
            count: documents.len() as u64,
            documents,
        };
        let expected = TableConflict {
            key: names(&["Acme"]),
            column: "date".to_owned(),
            values: vec![value("2026-01-02", vec![id("b"), id("c")]), value("2026-01-01", vec![id("a")])],
        };
        assert_eq!((conflicts, total), (vec![expected], 1));
    }

    #[test]
    fn an_answer_lists_some_values_of_a_conflict_and_has_a_bounded_size() {
        let mut finder = ConflictFinder::new(&stack(), &names(&["vendor"]), &names(&["total"])).unwrap();
        for number in 0..CONFLICT_VALUES_MAX + 1 {
            // The last value is that of most documents.
            for copy in 0..=number {
                let cells = json!({ "vendor": "Acme", "total": number });
                finder.add(&row(&format!("{number} {copy}"), &cells)).unwrap();
            }
        }
        let (conflicts, _) = finder.finish();
        assert_eq!(conflicts[0].values.len(), CONFLICT_VALUES_MAX);
        assert_eq!((conflicts[0].values[0].value.as_str(), conflicts[0].values[0].count), ("10", 11));

        const KEYS: u32 = 300;
        let mut finder = ConflictFinder::new(&stack(), &names(&["pages"]), &names(&["vendor"])).unwrap();
        for pages in 0..KEYS {
            for number in 0..CONFLICT_VALUES_MAX {
                let vendor = format!("{number} {}", "𝄞".repeat(VALUE_CHARS_MAX));
                finder.add(&row(&format!("{pages} {number}"), &json!({ "pages": pages, "vendor": vendor }))).unwrap();
            }
        }
        let (conflicts, total) = finder.finish();
        let bytes: usize = conflicts.iter().map(TableConflict::bytes).sum();
        assert!((CONFLICTS_BYTES..CONFLICTS_BYTES + 32 * 1024).contains(&bytes), "{bytes}");
        assert_eq!(total, u64::from(KEYS));
    }

    #[test]
    fn a_search_names_columns_of_the_table() {
        let new = |key: &[&str], columns: &[&str]| ConflictFinder::new(&stack(), &names(key), &names(columns));
        assert!(new(&["vendor"], &["total"]).is_ok());
        assert!(new(&[], &[]).is_err() && new(&["missing"], &[]).is_err() && new(&["vendor"], &["x"]).is_err());
        assert_eq!(stack().id, StackId::derive(&["s"]));
    }
}
