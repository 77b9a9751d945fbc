//! Rows and files that remain of deleted documents and organizations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use folio_storage::is_owned_by;
use folio_types::OrgId;
use futures::TryStreamExt as _;

use super::tables::Tables;

/// Tables with the text of a document, whose partition keys contain its id.
const TEXT_TABLES: [&str; 3] = ["text_pages", "text_boxes", "text_structure"];
/// Tables and groups of rows to which a process may write once more after the erasure of an organization: blocks of credit that the
/// process closes, and the last use of a token. A second erasure, a day later, removes these rows.
const LATE_TABLES: [&str; 1] = ["credit_blocks"];
const LATE_GROUPS: [&str; 1] = ["token_use"];

/// A row of the table `org_rows`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedRow {
    pub(super) org: String,
    pub(super) group: String,
    pub(super) key: String,
    /// The encoded value. Empty: the row has no value.
    pub(super) value: Vec<u8>,
}

/// Returns a description of each row and file that names a deleted document or an erased organization.
pub(super) async fn leftovers(
    tables: &Tables,
    keyspace: &str,
    blobs: &Path,
    (documents, erased): (&[String], &OrgId),
) -> Result<Vec<String>> {
    let rows = tables.org_rows().await?;
    let mut found = of_documents(&rows, documents);
    for table in TEXT_TABLES {
        let ids = tables.ids(table).await?;
        let ids: BTreeSet<String> = ids.into_iter().filter(|id| documents.contains(id)).collect();
        found.extend(ids.into_iter().map(|id| format!("{table}: {id}")));
    }
    found.extend(of_organization(&rows, erased));
    for table in tables.tables_of_organizations(keyspace).await? {
        if table == "org_rows" || LATE_TABLES.contains(&table.as_str()) {
            continue;
        }
        let count = tables.organizations(&table).await?.into_iter().filter(|org| org == erased.as_str()).count();
        found.extend((count > 0).then(|| format!("{table}: {count} rows of {erased}")));
    }
    let orgs = BTreeSet::from([erased.clone()]);
    let keys = tables.keys_of_indexes().await?;
    found.extend(keys.into_iter().filter(|key| is_owned_by(&orgs, key)).map(|key| format!("an index of rows: {key}")));
    let names = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.contains(erased.as_str()) || documents.iter().any(|id| path.contains(id.as_str()))
    };
    found.extend(files_below(blobs).iter().filter(|path| names(path)).map(|path| path.display().to_string()));
    Ok(found)
}

/// Returns the rows whose group or key names a document.
fn of_documents(rows: &[ObservedRow], documents: &[String]) -> Vec<String> {
    let names = |row: &&ObservedRow| {
        documents.iter().any(|id| row.group.contains(id.as_str()) || row.key.contains(id.as_str()))
    };
    rows.iter().filter(names).map(|row| format!("{}: {}", row.group, row.key)).collect()
}

fn of_organization(rows: &[ObservedRow], erased: &OrgId) -> Vec<String> {
    let is_of = |row: &&ObservedRow| row.org == erased.as_str() && !LATE_GROUPS.contains(&row.group.as_str());
    rows.iter().filter(is_of).map(|row| format!("{} of {erased}: {}", row.group, row.key)).collect()
}

/// Returns all files in a folder and its subfolders. A file that is deleted meanwhile may be missing.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

impl Tables {
    /// Returns all rows of the table `org_rows`.
    pub(super) async fn org_rows(&self) -> Result<Vec<ObservedRow>> {
        type Row = (String, String, String, Option<Vec<u8>>);
        let text = "SELECT org, part, key, value FROM org_rows";
        let rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        let row = |(org, group, key, value): Row| ObservedRow { org, group, key, value: value.unwrap_or_default() };
        Ok(rows.map_ok(row).try_collect().await?)
    }

    /// Returns the column `id` of all rows of a table.
    async fn ids(&self, table: &str) -> Result<Vec<String>> {
        self.texts(format!("SELECT id FROM {table}")).await
    }

    /// Returns the column `org` of all rows of a table.
    async fn organizations(&self, table: &str) -> Result<Vec<String>> {
        self.texts(format!("SELECT org FROM {table}")).await
    }

    /// Returns the keys of the rows of indexes that span organizations.
    async fn keys_of_indexes(&self) -> Result<Vec<String>> {
        let mut keys = self.texts("SELECT key FROM system_rows".to_owned()).await?;
        keys.extend(self.texts("SELECT key FROM open_turns".to_owned()).await?);
        Ok(keys)
    }

    async fn texts(&self, statement: String) -> Result<Vec<String>> {
        let rows = self.session.query_iter(statement, ()).await?.rows_stream::<(String,)>()?;
        Ok(rows.map_ok(|(text,)| text).try_collect().await?)
    }

    /// Returns the tables whose partition key contains an organization.
    async fn tables_of_organizations(&self, keyspace: &str) -> Result<BTreeSet<String>> {
        let text = "SELECT table_name, column_name, kind FROM system_schema.columns WHERE keyspace_name = ?";
        let mut rows = self.session.query_iter(text, (keyspace,)).await?.rows_stream::<(String, String, String)>()?;
        let mut found: BTreeMap<String, bool> = BTreeMap::new();
        while let Some((table, column, kind)) = rows.try_next().await? {
            *found.entry(table).or_default() |= column == "org" && kind == "partition_key";
        }
        Ok(found.into_iter().filter(|(_, has_org)| *has_org).map(|(table, _)| table).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_name_a_deleted_document_or_an_erased_organization_are_found() {
        let row = |org: &OrgId, group: &str, key: &str| ObservedRow {
            org: org.to_string(),
            group: group.to_owned(),
            key: key.to_owned(),
            value: Vec::new(),
        };
        let [kept, erased] = ["kept", "erased"].map(|name| OrgId::derive(&[name]));
        let rows = [
            row(&kept, "passage_head/00", "doc_1"),
            row(&kept, "passage/doc_2/00/0000", "0"),
            row(&kept, "token_use", "tok_1"),
            row(&erased, "token_use", "tok_2"),
            row(&erased, "serving_space", "only"),
        ];
        assert_eq!(of_documents(&rows, &["doc_2".to_owned(), "doc_3".to_owned()]), ["passage/doc_2/00/0000: 0"]);
        assert_eq!(of_organization(&rows, &erased), [format!("serving_space of {erased}: only")]);
    }
}
