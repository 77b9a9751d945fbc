//! The routes of the dictionary of an organization. No client of DocRouter calls them.

use folio_operations::ListRequest;
use folio_operations::dictionary::{
    CreateDictionaryEntry, DeleteDictionaryEntry, DictionaryFormat, ExportDictionary, GetDictionaryEntry,
    ListDictionaryEntries, StatedProvenance, UpdateDictionaryEntry,
};
use folio_operations::dictionary_import::{ImportDictionary, ImportedRow};
use folio_resources::{DictionaryEntry, DictionaryEntryId, ENTRY_SOURCES_MAX, fields};
use folio_types::{DocumentId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, conditions, page};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};
use super::streamed::{File, Streamed};

const ENTRIES: &str = org_path!("/dictionary");
const ENTRY: &str = org_path!("/dictionary/{dictionary_entry_id}");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateDictionaryEntry>(Level::Own, post(ENTRIES, create)),
        route::<ListDictionaryEntries>(Level::Own, get(ENTRIES, list)),
        route::<GetDictionaryEntry>(Level::Own, get(ENTRY, find)),
        route::<UpdateDictionaryEntry>(Level::Own, put(ENTRY, update)),
        route::<DeleteDictionaryEntry>(Level::Own, delete(ENTRY, remove)),
        route::<ImportDictionary>(Level::Own, post(org_path!("/dictionary/import"), import)),
        route::<ExportDictionary>(Level::Own, get(org_path!("/dictionary/export"), export)),
    ]
}

/// The fields of an entry that clients set.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryEntryFields {
    /// The term. Spellings that differ in case, whitespace or compatible characters are the same term.
    term: String,
    /// The meaning in one line.
    expansion: String,
    /// A text that distinguishes the meaning from others of the term. Null removes it.
    disambiguation: Option<String>,
    /// Short texts such as a region, without `;`. Null removes them.
    tags: Option<Vec<String>>,
    /// Documents that contain the term with this meaning. Null removes them.
    source_document_ids: Option<Vec<String>>,
    /// `person`, `agent` or `inferred`. Null in an update: `person` if the meaning changes, otherwise the stored one.
    provenance: Option<String>,
    /// The confidence of an inferred meaning, from 0 to 1.
    confidence: Option<f64>,
}

impl DictionaryEntryFields {
    fn sources(&self) -> Result<Vec<DocumentId>, Failure> {
        let ids = self.source_document_ids.as_deref().unwrap_or_default();
        Ok(fields::ids("dictionary_entry.source_document_ids", ids, ENTRY_SOURCES_MAX)?)
    }

    fn provenance(&self) -> Option<StatedProvenance> {
        let name = match (&self.provenance, self.confidence) {
            (Some(name), _) => name.clone(),
            (None, Some(_)) => "inferred".to_owned(),
            (None, None) => return None,
        };
        Some(StatedProvenance { name, confidence: self.confidence })
    }
}

/// An entry of the dictionary.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryEntryBody {
    /// Identifies the entry.
    id: String,
    /// The term.
    term: String,
    /// The meaning.
    expansion: String,
    /// A text that distinguishes the meaning from others of the term.
    disambiguation: Option<String>,
    /// Short texts such as a region.
    tags: Vec<String>,
    /// Documents that contain the term with this meaning. A document may have been deleted.
    source_document_ids: Vec<String>,
    /// `person`, `agent` or `inferred`.
    provenance: String,
    /// The confidence of an inferred meaning, from 0 to 1.
    confidence: Option<f64>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the entry, or in whose name an agent created it.
    created_by: String,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// A page of entries.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryEntryList {
    /// The entries of the page, in the order of their terms.
    dictionary_entries: Vec<DictionaryEntryBody>,
    /// Number of entries that match, exact up to 1,024.
    total_count: u64,
    /// Number of entries before the page.
    skip: u32,
}

impl From<&DictionaryEntry> for DictionaryEntryBody {
    fn from(entry: &DictionaryEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            term: entry.term.clone(),
            expansion: entry.expansion.clone(),
            disambiguation: entry.disambiguation.clone(),
            tags: entry.tags.clone(),
            source_document_ids: entry.sources.iter().map(ToString::to_string).collect(),
            provenance: entry.provenance.name().to_owned(),
            confidence: entry.provenance.confidence(),
            created_at: entry.created_at,
            created_by: entry.created_by.to_string(),
            updated_at: entry.updated_at,
        }
    }
}

/// The query parameters of a list.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryQuery {
    /// Number of entries before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of entries of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// Part of the term, in any spelling.
    term: Option<String>,
    /// A tag of the entry.
    tag: Option<String>,
    /// `person`, `agent` or `inferred`.
    provenance: Option<String>,
}

/// The query parameters of an export.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryExportQuery {
    /// The format of the file. Default: `json_lines`.
    #[serde(default)]
    #[schema(inline)]
    format: DictionaryFileFormat,
    /// Part of the term, in any spelling.
    term: Option<String>,
    /// A tag of the entries.
    tag: Option<String>,
    /// `person`, `agent` or `inferred`.
    provenance: Option<String>,
}

/// The format of a file with entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DictionaryFileFormat {
    /// A JSON object in each line.
    #[default]
    JsonLines,
    Csv,
}

impl From<DictionaryFileFormat> for DictionaryFormat {
    fn from(format: DictionaryFileFormat) -> Self {
        match format {
            DictionaryFileFormat::JsonLines => Self::JsonLines,
            DictionaryFileFormat::Csv => Self::Csv,
        }
    }
}

/// A file with entries.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryFile {
    /// The format of the file. Default: `json_lines`.
    #[serde(default)]
    #[schema(inline)]
    format: DictionaryFileFormat,
    /// The file, at most 1 MiB with at most 1,000 rows.
    content: String,
}

/// The results of an import.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryImport {
    /// The result of each row, in the order of the file.
    rows: Vec<DictionaryRowResult>,
}

/// The result of a row.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryRowResult {
    /// The number of the row, from 1.
    row: usize,
    /// The term of the row.
    term: String,
    /// Identifies the entry. Null: the row was not written.
    dictionary_entry_id: Option<String>,
    /// True if the row created the entry.
    created: bool,
    /// The reason for which the row was not written.
    code: Option<String>,
    /// The description of the failure.
    detail: Option<String>,
}

/// Returns the filter of the operation.
fn filter(term: Option<&str>, tag: Option<&str>, provenance: Option<&str>) -> String {
    conditions(&[("term:", term), ("tag:", tag), ("provenance:", provenance)])
}

async fn create(client: Client, Json(fields): Json<DictionaryEntryFields>) -> Reply<Versioned<DictionaryEntryBody>> {
    let operation = CreateDictionaryEntry {
        source_document_ids: fields.sources()?,
        provenance: fields.provenance(),
        term: fields.term,
        expansion: fields.expansion,
        disambiguation: fields.disambiguation.unwrap_or_default(),
        tags: fields.tags.unwrap_or_default(),
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn list(client: Client, Query(query): Query<DictionaryQuery>) -> Reply<Json<DictionaryEntryList>> {
    let filter = filter(query.term.as_deref(), query.tag.as_deref(), query.provenance.as_deref());
    let request = ListRequest { filter, order_by: "name".to_owned(), ..ListRequest::default() };
    let page = page(query.skip, query.limit, request, |list| client.run(ListDictionaryEntries { list })).await?;
    let dictionary_entries = page.rows.iter().map(Into::into).collect();
    Ok(Json(DictionaryEntryList { dictionary_entries, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id(dictionary_entry_id): Id<DictionaryEntryId>) -> Reply<Versioned<DictionaryEntryBody>> {
    Ok(Versioned::of(&client.run(GetDictionaryEntry { dictionary_entry_id }).await?))
}

async fn update(
    client: Client,
    Id(dictionary_entry_id): Id<DictionaryEntryId>,
    Json(fields): Json<DictionaryEntryFields>,
) -> Reply<Versioned<DictionaryEntryBody>> {
    let operation = UpdateDictionaryEntry {
        dictionary_entry_id,
        source_document_ids: Some(fields.sources()?),
        provenance: fields.provenance(),
        term: Some(fields.term),
        expansion: Some(fields.expansion),
        disambiguation: Some(fields.disambiguation.unwrap_or_default()),
        tags: Some(fields.tags.unwrap_or_default()),
        etag: client.etag,
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn remove(client: Client, Id(dictionary_entry_id): Id<DictionaryEntryId>) -> Reply<Json<Message>> {
    client.run(DeleteDictionaryEntry { dictionary_entry_id, etag: client.etag }).await?;
    Ok(Message::new("Dictionary entry deleted successfully"))
}

async fn import(client: Client, Json(file): Json<DictionaryFile>) -> Reply<Json<DictionaryImport>> {
    let operation = ImportDictionary { format: file.format.into(), content: file.content };
    let imported = client.run(operation).await?;
    let result = |(row, ImportedRow { term, result }): (usize, ImportedRow)| match result {
        Ok(entry) => DictionaryRowResult {
            row,
            term,
            dictionary_entry_id: Some(entry.id.to_string()),
            created: entry.is_created,
            code: None,
            detail: None,
        },
        Err(error) => DictionaryRowResult {
            row,
            term,
            dictionary_entry_id: None,
            created: false,
            code: Some(error.reason.as_str().to_owned()),
            detail: Some(error.message),
        },
    };
    Ok(Json(DictionaryImport { rows: (1..).zip(imported).map(result).collect() }))
}

async fn export(client: Client, Query(query): Query<DictionaryExportQuery>) -> Reply<Streamed<File>> {
    let filter = filter(query.term.as_deref(), query.tag.as_deref(), query.provenance.as_deref());
    let (media_type, name) = match query.format {
        DictionaryFileFormat::JsonLines => ("application/jsonl", "dictionary.jsonl"),
        DictionaryFileFormat::Csv => ("text/csv; charset=utf-8", "dictionary.csv"),
    };
    let content = client.run(ExportDictionary { filter, format: query.format.into() }).await?;
    Ok(Streamed::new(&client, media_type, content.into_stream()).attachment(name))
}
