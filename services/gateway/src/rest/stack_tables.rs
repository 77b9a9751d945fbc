//! The routes of the rows and the table of a stack. No client of DocRouter calls them.

use std::collections::BTreeMap;

use folio_operations::ListRequest;
use folio_operations::exports::ExportFormat;
use folio_operations::stack_rows::{GetStackRow, ListStackRows, ReviewStackCells, RowView, UpdateStackCell};
use folio_operations::stack_tables::{AskTable, ExportTable, GetStackConflicts, RequestedAggregate, TableAnswer};
use folio_resources::{Cell, Column, FieldDecision};
use folio_tools::stack::{AggregatedGroup, ConflictingValue, TableConflict};
use folio_types::{DocumentId, StackId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::endpoint::{get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::list::{Limit, Skip, page};
use super::reply::{Reply, Versioned};
use super::routes::{Level, Route, org_path, route};
use super::streamed::{File, Streamed};

const ROW: &str = org_path!("/stacks/{stack_id}/rows/{document_id}");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListStackRows>(Level::Own, get(org_path!("/stacks/{stack_id}/rows"), list)),
        route::<GetStackRow>(Level::Own, get(ROW, find)),
        route::<UpdateStackCell>(Level::Own, put(org_path!("/stacks/{stack_id}/rows/{document_id}/cells"), edit)),
        route::<ReviewStackCells>(Level::Own, post(org_path!("/stacks/{stack_id}/rows/{document_id}/review"), review)),
        route::<GetStackConflicts>(Level::Own, post(org_path!("/stacks/{stack_id}/conflicts"), conflicts)),
        route::<AskTable>(Level::Own, post(org_path!("/stacks/{stack_id}/ask"), ask)),
        route::<ExportTable>(Level::Own, get(org_path!("/stacks/{stack_id}/export"), export)),
    ]
}

/// A cell of a row.
#[derive(Debug, Serialize, ToSchema)]
struct CellBody {
    /// The name of the column.
    column: String,
    /// The value. Null: the document has no value.
    #[schema(value_type = Object)]
    value: Option<Value>,
    /// `empty`, `filled`, `edited`, `approved` or `rejected`.
    state: &'static str,
    /// The confidence of the model. Null: a person entered the value.
    confidence: Option<f64>,
    /// The page of the quote. Null: the value has no citation.
    page: Option<u32>,
    /// The quote that contains the value.
    quote: Option<String>,
    /// True if the value waits for a decision.
    waiting: bool,
}

/// The row of a document.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RowBody {
    /// Identifies the row.
    id: String,
    /// The document.
    document_id: String,
    /// The name of the document.
    document_name: String,
    /// The cells in the order of the columns.
    cells: Vec<CellBody>,
    /// The columns whose cells are not filled.
    missing_columns: Vec<String>,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<&RowView> for RowBody {
    fn from(RowView { row, document_name, columns }: &RowView) -> Self {
        let cell = |column: &Column| row.cells.get(&column.number).map(|cell| cell_body(column, cell));
        let missing = columns.iter().filter(|column| row.is_missing(column));
        Self {
            id: row.id.to_string(),
            document_id: row.document.to_string(),
            document_name: document_name.clone(),
            cells: columns.iter().filter_map(cell).collect(),
            missing_columns: missing.map(|column| column.name().to_owned()).collect(),
            updated_at: row.updated_at,
        }
    }
}

fn cell_body(column: &Column, cell: &Cell) -> CellBody {
    let citation = cell.citation.as_deref();
    CellBody {
        column: column.name().to_owned(),
        value: cell.value.clone(),
        state: cell.state().as_str(),
        confidence: cell.confidence,
        page: citation.map(|citation| citation.page),
        quote: citation.map(|citation| citation.quote.clone()),
        waiting: cell.is_waiting(),
    }
}

impl From<&RowView> for Versioned<RowBody> {
    fn from(found: &RowView) -> Self {
        Self { version: found.row.version, body: found.into() }
    }
}

/// The query parameters of a list.
#[derive(Debug, Deserialize, ToSchema)]
struct RowQuery {
    /// Number of rows before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of rows of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// True: only rows with a cell that waits for a decision.
    #[serde(default)]
    waiting: bool,
}

/// A page of rows.
#[derive(Debug, Serialize, ToSchema)]
struct RowList {
    /// The rows of the page, newest first.
    rows: Vec<RowBody>,
    /// Number of stored rows that match, exact up to 1,024.
    total_count: u64,
    /// Number of rows before the page.
    skip: u32,
}

/// The value of a cell.
#[derive(Debug, Deserialize, ToSchema)]
struct CellValue {
    /// The name of the column.
    column: String,
    /// The value in the type of the column. Null removes the value.
    #[schema(value_type = Object)]
    value: Value,
}

/// A decision about cells.
#[derive(Debug, Deserialize, ToSchema)]
struct CellReview {
    /// The names of the columns. Omitted: those whose cells wait for a decision.
    #[serde(default)]
    column_names: Vec<String>,
    decision: ReviewDecision,
}

/// The decision about the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ReviewDecision {
    Approve,
    Reject,
    /// Withdraws the decision.
    Reset,
}

/// A search for conflicts.
#[derive(Debug, Deserialize, ToSchema)]
struct ConflictSearch {
    /// The columns whose values identify a subject.
    key_columns: Vec<String>,
    /// The columns whose values are compared. Omitted: all other columns.
    #[serde(default)]
    compared_columns: Vec<String>,
}

/// The conflicts among documents.
#[derive(Debug, Serialize, ToSchema)]
struct ConflictList {
    /// The first conflicts, in the order of their keys.
    conflicts: Vec<ConflictBody>,
    /// Number of all conflicts.
    total_count: u64,
}

/// Different values of a column in rows with the same key.
#[derive(Debug, Serialize, ToSchema)]
struct ConflictBody {
    /// The values of the key columns.
    key: Vec<String>,
    /// The name of the column.
    column: String,
    /// The values.
    values: Vec<ConflictValueBody>,
}

/// A value of a conflict.
#[derive(Debug, Serialize, ToSchema)]
struct ConflictValueBody {
    /// The start of the value.
    value: String,
    /// The first documents with the value.
    document_ids: Vec<String>,
    /// Number of documents with the value.
    document_count: u64,
}

/// A question about a table.
#[derive(Debug, Deserialize, ToSchema)]
struct TableQuestion {
    /// The aggregates.
    aggregates: Vec<AggregateFields>,
    /// The columns whose values divide the rows into groups.
    #[serde(default)]
    group_by: Vec<String>,
    /// Values by the names of columns: only rows with exactly these values count. Null: rows without a value that counts.
    #[serde(default)]
    #[schema(value_type = Object)]
    filter: BTreeMap<String, Value>,
    /// True: only approved values count.
    #[serde(default)]
    approved_only: bool,
}

/// A function of the values of a column.
#[derive(Debug, Deserialize, ToSchema)]
struct AggregateFields {
    /// `count`, `sum`, `average`, `min` or `max`.
    function: String,
    /// The name of the column. Null: the rows, which `count` counts.
    column: Option<String>,
}

/// The answer to a question about a table.
#[derive(Debug, Serialize, ToSchema)]
struct TableAnswerBody {
    /// The groups in the order of their keys.
    groups: Vec<TableGroupBody>,
    /// Number of rows of the table.
    row_count: u64,
}

/// The results for a group of rows.
#[derive(Debug, Serialize, ToSchema)]
struct TableGroupBody {
    /// The values of the columns that group the rows.
    #[schema(value_type = Vec<Object>)]
    key: Vec<Value>,
    /// Number of rows.
    row_count: u64,
    /// The results, in the order of the aggregates.
    values: Vec<AggregateBody>,
}

/// The result of an aggregate.
#[derive(Debug, Serialize, ToSchema)]
struct AggregateBody {
    /// A decimal number, or a date. Null: no row has a value.
    value: Option<String>,
    /// False: the number is rounded.
    exact: bool,
    /// Number of rows whose value counts.
    counted_rows: u64,
    /// Number of rows without a value that counts.
    skipped_rows: u64,
    /// The unit of the column.
    unit: Option<String>,
}

/// The query parameters of an export.
#[derive(Debug, Deserialize, ToSchema)]
struct TableExportQuery {
    /// The format of the file. Default: `json_lines`.
    #[serde(default)]
    #[schema(inline)]
    format: TableFileFormat,
    /// True: also the state and the evidence of each cell.
    #[serde(default)]
    details: bool,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TableFileFormat {
    Json,
    /// A JSON object in each line.
    #[default]
    JsonLines,
    Csv,
    Xlsx,
}

async fn list(client: Client, Id(stack_id): Id<StackId>, Query(query): Query<RowQuery>) -> Reply<Json<RowList>> {
    let filter = if query.waiting { "waiting:true".to_owned() } else { String::new() };
    let request = ListRequest { filter, ..ListRequest::default() };
    let read = |list| client.run(ListStackRows { stack_id: stack_id.clone(), list });
    let page = page(query.skip, query.limit, request, read).await?;
    let rows = page.rows.iter().map(Into::into).collect();
    Ok(Json(RowList { rows, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id((stack_id, document_id)): Id<(StackId, DocumentId)>) -> Reply<Versioned<RowBody>> {
    Ok((&client.run(GetStackRow { stack_id, document_id }).await?).into())
}

async fn edit(
    client: Client,
    Id((stack_id, document_id)): Id<(StackId, DocumentId)>,
    Json(CellValue { column, value }): Json<CellValue>,
) -> Reply<Versioned<RowBody>> {
    let operation = UpdateStackCell { stack_id, document_id, column, value, etag: client.etag };
    Ok((&client.run(operation).await?).into())
}

async fn review(
    client: Client,
    Id((stack_id, document_id)): Id<(StackId, DocumentId)>,
    Json(CellReview { column_names: columns, decision }): Json<CellReview>,
) -> Reply<Versioned<RowBody>> {
    let decision = match decision {
        ReviewDecision::Approve => Some(FieldDecision::Approved),
        ReviewDecision::Reject => Some(FieldDecision::Rejected),
        ReviewDecision::Reset => None,
    };
    let operation = ReviewStackCells { stack_id, document_id, columns, decision, etag: client.etag };
    Ok((&client.run(operation).await?).into())
}

async fn conflicts(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(ConflictSearch { key_columns, compared_columns: columns }): Json<ConflictSearch>,
) -> Reply<Json<ConflictList>> {
    let (found, total_count) = client.run(GetStackConflicts { stack_id, key_columns, columns }).await?;
    let value = |ConflictingValue { value, documents, count }: ConflictingValue| ConflictValueBody {
        value,
        document_ids: documents.iter().map(ToString::to_string).collect(),
        document_count: count,
    };
    let conflict = |TableConflict { key, column, values }: TableConflict| ConflictBody {
        key,
        column,
        values: values.into_iter().map(value).collect(),
    };
    Ok(Json(ConflictList { conflicts: found.into_iter().map(conflict).collect(), total_count }))
}

async fn ask(
    client: Client,
    Id(stack_id): Id<StackId>,
    Json(question): Json<TableQuestion>,
) -> Reply<Json<TableAnswerBody>> {
    let TableQuestion { aggregates, group_by, filter, approved_only } = question;
    let aggregate = |AggregateFields { function, column }: AggregateFields| RequestedAggregate { function, column };
    let aggregates = aggregates.into_iter().map(aggregate).collect();
    let TableAnswer { groups, units, rows } =
        client.run(AskTable { stack_id, aggregates, group_by, filter, approved_only }).await?;
    let group = |AggregatedGroup { key, rows, values }: AggregatedGroup| TableGroupBody {
        key: key.into_iter().map(Option::unwrap_or_default).collect(),
        row_count: rows,
        values: values
            .into_iter()
            .zip(&units)
            .map(|(value, unit)| AggregateBody {
                value: value.value,
                exact: value.is_exact,
                counted_rows: value.counted,
                skipped_rows: value.skipped,
                unit: unit.clone(),
            })
            .collect(),
    };
    Ok(Json(TableAnswerBody { groups: groups.into_iter().map(group).collect(), row_count: rows }))
}

async fn export(
    client: Client,
    Id(stack_id): Id<StackId>,
    Query(query): Query<TableExportQuery>,
) -> Reply<Streamed<File>> {
    let (format, media_type, name) = match (query.format, query.details) {
        (TableFileFormat::Json, _) => (ExportFormat::Json, "application/json", "table.json"),
        (TableFileFormat::JsonLines, _) => (ExportFormat::JsonLines, "application/jsonl", "table.jsonl"),
        (TableFileFormat::Csv, false) => (ExportFormat::Csv, "text/csv; charset=utf-8", "table.csv"),
        (TableFileFormat::Csv, true) => (ExportFormat::Csv, "application/zip", "table.zip"),
        (TableFileFormat::Xlsx, _) => {
            let media_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
            (ExportFormat::Xlsx, media_type, "table.xlsx")
        }
    };
    let content = client.run(ExportTable { stack_id, format, has_details: query.details }).await?;
    Ok(Streamed::new(&client, media_type, content.into_stream()).attachment(name))
}
