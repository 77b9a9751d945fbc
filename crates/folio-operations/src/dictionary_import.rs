//! The import of a dictionary. Each row is a deciding write of its own, under an op key that follows from the request, the term
//! and the changed entry. A repeated request therefore finds the rows that it has written, also after a crash between two rows.

use std::collections::{HashMap, HashSet};

use folio_export::{DictionaryFormat, DictionaryRow, read_dictionary};
use folio_resources::{
    DictionaryEntry, DictionaryEntryChange, DictionaryEntryId, DictionaryEntryPatch, Document, NewDictionaryEntry,
    Provenance, Resource as _, fields, term_key,
};
use folio_types::op::{Expected, OpKey, OpState, Target, Write, WriteOutcome};
use folio_types::{Code, Digest, DocumentId, Error, Reason, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::json;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::dictionary::{SERVICE, StatedProvenance};
use crate::operation::Operation;

/// Maximum size of the file, in bytes.
// proto: ImportDictionaryRequest.content "at most {} MiB"
pub const IMPORT_BYTES: usize = 1024 * 1024;
/// Maximum number of rows of the file.
// proto: ImportDictionaryRequest.content "at most {} rows"
pub const IMPORT_ROWS_MAX: usize = 1_000;

const CONTENT: &str = "content";
/// Number of rows that are written at a time.
const CONCURRENT_ROWS: usize = 8;
/// Number of documents of one read.
const READ_DOCUMENTS: usize = 100;
/// Maximum number of attempts of a row whose entry changes meanwhile.
const ATTEMPTS: u32 = 5;

/// Creates or changes the entries of a file. Errors: `INVALID_FIELD` of `content`, and those of the stores. A row that is invalid
/// or conflicts fails by itself.
#[derive(Debug, Clone, Serialize)]
pub struct ImportDictionary {
    pub format: DictionaryFormat,
    pub content: String,
}

/// The result of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRow {
    /// Empty if the row is unreadable.
    pub term: String,
    pub result: Result<ImportedEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedEntry {
    pub id: DictionaryEntryId,
    /// True if the request created the entry.
    pub is_created: bool,
}

impl Operation for ImportDictionary {
    const DECLARATION: Declaration = SERVICE.change("ImportDictionary").long();
    type Output = Vec<ImportedRow>;

    async fn run(self, context: &Context) -> Result<Vec<ImportedRow>> {
        if self.content.len() > IMPORT_BYTES {
            let problem = format!("has more than {IMPORT_BYTES} bytes; import the file in parts");
            return Err(Error::invalid_field(CONTENT, problem).with_reason(Reason::TooLarge));
        }
        let rows = read_dictionary(CONTENT, self.format, &self.content, IMPORT_ROWS_MAX)?;
        context.request.record(context.stores(), Target::operation(Self::DECLARATION.name)).await?;
        let rows = checked(rows);
        let documents = existing_documents(context, &rows).await?;
        let write = |(term, row): (String, Result<CheckedRow>)| {
            let documents = &documents;
            async move {
                let result = match row {
                    Ok(row) => row.write(context, documents).await,
                    Err(error) => Err(error),
                };
                match result {
                    Err(error) if !is_of_row(&error) => Err(error),
                    result => Ok(ImportedRow { term, result }),
                }
            }
        };
        futures::stream::iter(rows).map(write).buffered(CONCURRENT_ROWS).try_collect().await
    }
}

/// Returns true if an error concerns one row. Other errors, such as those of the stores, end the import; a repetition of the
/// request continues it.
fn is_of_row(error: &Error) -> bool {
    matches!(
        error.code,
        Code::InvalidArgument | Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted
    )
}

/// A valid row.
#[derive(Debug)]
struct CheckedRow {
    key: String,
    new: NewDictionaryEntry,
    patch: DictionaryEntryPatch,
    digest: Digest,
}

/// Validates rows. Returns each with its term. A second row of a term is an error, because the order of rows must have no effect.
fn checked(rows: Vec<Result<DictionaryRow>>) -> Vec<(String, Result<CheckedRow>)> {
    let mut terms: HashMap<String, usize> = HashMap::new();
    let check = |(index, row): (usize, Result<DictionaryRow>)| {
        let row = match row {
            Ok(row) => row,
            Err(error) => return (String::new(), Err(error)),
        };
        let term: String = row.term.chars().take(folio_resources::TERM_CHARS).collect();
        let checked = CheckedRow::of(row).and_then(|row| match terms.insert(row.key.clone(), index) {
            Some(earlier) => {
                terms.insert(row.key.clone(), earlier);
                Err(Error::invalid_field("term", format!("row {} has the same term", earlier + 1)))
            }
            None => Ok(row),
        });
        (term, checked)
    };
    rows.into_iter().enumerate().map(check).collect()
}

impl CheckedRow {
    fn of(row: DictionaryRow) -> Result<Self> {
        let digest = Digest::of_json(&serde_json::to_value(&row).map_err(|error| Error::internal(error.to_string()))?);
        let DictionaryRow { term, expansion, disambiguation, tags, source_document_ids, provenance, confidence } = row;
        let sources = source_document_ids
            .map(|ids| fields::ids::<DocumentId>("source_document_ids", &ids, folio_resources::ENTRY_SOURCES_MAX))
            .transpose()?;
        let provenance = match provenance {
            Some(name) => Some(StatedProvenance { name, confidence }.parse("provenance")?),
            None if confidence.is_some() => {
                return Err(Error::invalid_field("confidence", "requires the provenance inferred"));
            }
            None => None,
        };
        let patch = DictionaryEntryPatch {
            term: Some(term.clone()),
            expansion: Some(expansion.clone()),
            disambiguation: disambiguation.map(Some),
            tags,
            sources,
            provenance,
        };
        let patch = patch.checked("")?;
        let new = NewDictionaryEntry {
            term,
            expansion,
            disambiguation: patch.disambiguation.clone().flatten(),
            tags: patch.tags.clone().unwrap_or_default(),
            sources: patch.sources.clone().unwrap_or_default(),
            provenance: provenance.unwrap_or(Provenance::Person),
        };
        Ok(Self { key: term_key(&new.term), new, patch, digest })
    }

    /// Creates the entry of the term, or changes it.
    async fn write(self, context: &Context, documents: &HashSet<DocumentId>) -> Result<ImportedEntry> {
        let (org, entries) = (&context.principal().org, context.stores().of::<DictionaryEntry>());
        let [org_part, user, request] = context.request.id_parts();
        let own = DictionaryEntryId::derive(&[org_part, user, request, &self.key]);
        for _ in 0..ATTEMPTS {
            let found = entries.by_name(org, &self.key).await?;
            let stored = found.as_ref().map(|found| found.sources.as_slice()).unwrap_or_default();
            let missing = self.new.sources.iter().find(|id| !stored.contains(id) && !documents.contains(id));
            let (id, expected, change) = match found {
                // The request has created the entry before.
                Some(found) if found.id == own => return Ok(ImportedEntry { id: own, is_created: true }),
                Some(found) => {
                    let change = DictionaryEntryChange::Update(Box::new(self.patch.clone()));
                    (found.id, Expected::Version(found.version), change)
                }
                None => (own.clone(), Expected::Absent, DictionaryEntryChange::Create(Box::new(self.new.clone()))),
            };
            if let Some(missing) = missing {
                return Err(Error::not_found("document", missing));
            }
            let is_created = expected == Expected::Absent;
            match entries.decide(&id, self.deciding_write(context, &id, expected, change)?).await {
                Ok(WriteOutcome::Row(row)) if matches!(row.state, OpState::Done(_)) => {
                    return Ok(ImportedEntry { id, is_created });
                }
                Ok(WriteOutcome::Row(_)) => break,
                // Another request created, changed or deleted the entry after the read.
                Ok(WriteOutcome::VersionMismatch) => {}
                Err(error) if matches!(error.reason, Reason::NameTaken | Reason::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let message = format!("the entry of {:?} was changed concurrently; import the row again", self.new.term);
        Err(Error::version_conflict(message))
    }

    fn deciding_write(
        &self,
        context: &Context,
        id: &DictionaryEntryId,
        expected: Expected,
        change: DictionaryEntryChange,
    ) -> Result<Write<DictionaryEntryChange>> {
        let principal = context.principal();
        let row = json!({ "request": context.request.id(), "entry": id, "kind": DictionaryEntry::KIND });
        let request = format!("folio-dictionary-{}", Digest::of_json(&row)).parse()?;
        Ok(Write {
            org: principal.org.clone(),
            op: OpKey::Request { user: principal.user.clone(), request },
            digest: self.digest.clone(),
            by: principal.user.clone(),
            at: context.request.received_at(),
            expected,
            change,
        })
    }
}

/// Returns those of the source documents of rows that exist.
async fn existing_documents(context: &Context, rows: &[(String, Result<CheckedRow>)]) -> Result<HashSet<DocumentId>> {
    let mut named: Vec<DocumentId> =
        rows.iter().filter_map(|(_, row)| row.as_ref().ok()).flat_map(|row| row.new.sources.clone()).collect();
    named.sort();
    named.dedup();
    let mut existing = HashSet::new();
    for ids in named.chunks(READ_DOCUMENTS) {
        let found = context.stores().of::<Document>().get_many(&context.principal().org, ids).await?;
        existing.extend(found.into_iter().map(|document| document.id));
    }
    Ok(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(term: &str) -> DictionaryRow {
        DictionaryRow { term: term.to_owned(), expansion: "meaning".to_owned(), ..DictionaryRow::default() }
    }

    #[test]
    fn an_invalid_row_fails_by_itself() {
        let unknown = DictionaryRow { provenance: Some("user".to_owned()), ..row("B") };
        let confident = DictionaryRow { confidence: Some(0.5), ..row("C") };
        let document = DictionaryRow { source_document_ids: Some(vec!["doc_1".to_owned()]), ..row("D") };
        let unreadable = Err(Error::invalid(Reason::InvalidField, "the row cannot be read"));
        let rows =
            vec![Ok(row("A")), Ok(row(" ")), unreadable, Ok(unknown), Ok(confident), Ok(document), Ok(row("ａ"))];
        let checked = checked(rows);
        let failed: Vec<&str> = checked
            .iter()
            .map(|(_, row)| match row {
                Ok(_) => "",
                Err(error) => error.violations.first().map_or("?", |violation| violation.field.as_str()),
            })
            .collect();
        assert_eq!(failed, ["", "term", "?", "provenance", "confidence", "source_document_ids[0]", "term"]);
        let repeated = checked[6].1.as_ref().unwrap_err();
        assert!(repeated.message.contains("row 1 has the same term"), "{repeated}");
        assert_eq!(checked[3].0, "B");
        assert!(checked.iter().filter_map(|(_, row)| row.as_ref().err()).all(is_of_row));
    }

    #[test]
    fn an_omitted_value_keeps_that_of_the_entry_and_an_empty_one_removes_it() {
        let omitted = CheckedRow::of(row("MY")).unwrap();
        assert_eq!((omitted.patch.disambiguation, omitted.patch.tags, omitted.patch.provenance), (None, None, None));
        assert_eq!((omitted.new.provenance, omitted.key.as_str()), (Provenance::Person, "my"));
        let empty = DictionaryRow { disambiguation: Some(String::new()), tags: Some(Vec::new()), ..row("MY") };
        let empty = CheckedRow::of(empty).unwrap();
        assert_eq!((empty.patch.disambiguation, empty.patch.tags), (Some(None), Some(Vec::new())));
        let inferred = DictionaryRow { provenance: Some("inferred".to_owned()), confidence: Some(0.5), ..row("MY") };
        assert_eq!(CheckedRow::of(inferred).unwrap().new.provenance, Provenance::Inferred { confidence: 0.5 });
    }

    #[test]
    fn an_error_of_a_store_ends_the_import() {
        assert!(!is_of_row(&Error::unavailable(Reason::StoreUnavailable, "down")));
        assert!(is_of_row(&Error::not_found("document", "doc_1")));
    }
}
