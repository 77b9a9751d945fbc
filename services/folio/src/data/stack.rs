//! `folio stack`.

mod columns;
mod conflicts;
mod export;
mod members;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_resources::{ColumnType, NewColumn};
use folio_types::StackId;
use serde_json::{Map, Value, json};

pub(super) use self::columns::{COLUMNS_BYTES, column};
use self::columns::{Columns, define};
use self::conflicts::{Conflicts, compare};
use self::export::{Export, download};
use self::members::{Create, Members, change, make};
use super::job::word;
use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, deleted, job, list_items, parsed, present, stack_agent, stack_changes,
    stack_text, tag, time,
};
use crate::client::{Client, answer};
use crate::names::{Choice, chosen};
use crate::{documents, names};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List stacks, newest first.
    List(ListArguments),
    /// Print a stack with its columns.
    #[command(visible_alias = "show")]
    Get(ItemArguments),
    /// Create a stack of documents.
    Create(Create),
    /// Add documents to a stack without a rule.
    Add(Members),
    /// Remove documents from a stack without a rule.
    Remove(Members),
    /// Delete a stack. Its documents remain.
    #[command(visible_alias = "rm")]
    Delete(ItemArguments),
    /// Change a stack: its name, members, model, review rule or automatic filling.
    Update(stack_changes::Changes),
    /// Send a message to the agent of the stack, which proposes columns and fills or corrects rows.
    Message(stack_agent::Message),
    /// Approve or reject the calls of the agent that wait, such as proposed columns.
    Answer(stack_agent::Answer),
    /// Define the columns of the table from a JSON file.
    Columns(Columns),
    /// Change the definition of one column from a JSON file. Only its cells are filled again.
    Column(stack_changes::ColumnChange),
    /// Fill the rows with missing cells by a job.
    Fill(Fill),
    /// List the rows of the table, newest first.
    Rows(Rows),
    /// Print the cells of a row with their evidence.
    Row(stack_changes::ShowRow),
    /// Print the stack and its rows, and then each change until a signal stops the command.
    Watch(stack_changes::Watch),
    /// Set the value of a cell.
    Set(Set),
    /// Approve cells of a row.
    Approve(Review),
    /// Reject cells of a row.
    Reject(Review),
    /// Withdraw the decisions about cells of a row.
    Reset(Review),
    /// List documents with the same key and different values.
    Conflicts(Conflicts),
    /// Compute aggregates of the cells.
    Ask(Ask),
    /// Write the table as JSON, JSON lines, CSV or XLSX.
    Export(Export),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fill {
    /// The stack, by id or name.
    stack: String,
    /// The model [default: the model of the stack, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    /// Print the created job and exit. The job continues on the server.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rows {
    /// The stack, by id or name.
    stack: String,
    /// Only rows with a cell that waits for a decision.
    #[arg(long)]
    waiting: bool,
    /// Maximum number of rows.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

/// A row of a table.
#[derive(Debug, clap::Args)]
pub(crate) struct Row {
    /// The stack, by id or name.
    stack: String,
    /// The document of the row, by id or name.
    document: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    row: Row,
    /// The name of the column.
    column: String,
    /// The value as JSON; a text that is no JSON is a text; null removes the value.
    #[arg(allow_negative_numbers = true)]
    value: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Review {
    #[command(flatten)]
    row: Row,
    /// The columns [default: those whose cells wait for a decision].
    columns: Vec<String>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// The stack, by id or name.
    stack: String,
    /// Functions of columns, such as sum:Total, or count.
    #[arg(value_name = "FUNCTION:COLUMN", required = true, value_parser = aggregate)]
    aggregates: Vec<(Function, String)>,
    /// A column whose values divide the rows into groups; may be given several times.
    #[arg(long = "by", value_name = "COLUMN")]
    group_by: Vec<String>,
    /// Only rows with this value of a column count; may be given several times. Without a value: rows that have none.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = condition)]
    filter: Vec<(String, String)>,
    /// Only approved values count.
    #[arg(long)]
    approved: bool,
    #[command(flatten)]
    data: DataArguments,
}

/// A function of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Function {
    Count,
    Sum,
    Average,
    Min,
    Max,
}

impl From<Function> for v1::TableFunction {
    fn from(function: Function) -> Self {
        match function {
            Function::Count => Self::Count,
            Function::Sum => Self::Sum,
            Function::Average => Self::Average,
            Function::Min => Self::Min,
            Function::Max => Self::Max,
        }
    }
}

/// Parses an aggregate such as `sum:Total`.
fn aggregate(text: &str) -> Result<(Function, String), String> {
    let (function, column) = text.split_once(':').unwrap_or((text, ""));
    match <Function as clap::ValueEnum>::from_str(function, true) {
        Ok(function) => Ok((function, column.to_owned())),
        Err(_) => Err(format!("unknown function {function:?}: expected count, sum, average, min or max")),
    }
}

/// Parses a condition such as `Vendor=ACME` to the name of the column and the value as JSON.
fn condition(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("expected COLUMN=VALUE")?;
    Ok((column.to_owned(), if value.is_empty() { "null".to_owned() } else { parsed(value).to_string() }))
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| stacks(&client, &list).await).await,
        Command::Get(get) => get.data.run(async |client| Ok(stack_text::view(&find(&client, &get.item).await?))).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Add(members) => members.data.run(async |client| change(&client, &members, true).await).await,
        Command::Remove(members) => members.data.run(async |client| change(&client, &members, false).await).await,
        Command::Delete(delete) => delete.data.run(async |client| remove(&client, &delete.item).await).await,
        Command::Update(changes) => stack_changes::update(changes).await,
        Command::Message(message) => stack_agent::send(message).await,
        Command::Answer(decision) => stack_agent::decide(decision).await,
        Command::Column(column) => stack_changes::redefine(column).await,
        Command::Row(show) => stack_changes::show_row(show).await,
        Command::Watch(watch) => stack_changes::watch(watch).await,
        Command::Columns(columns) => columns.data.run(async |client| define(&client, &columns).await).await,
        Command::Fill(fill) => fill.data.run(async |client| start(&client, &fill).await).await,
        Command::Rows(rows) => rows.data.run(async |client| list_rows(&client, &rows).await).await,
        Command::Set(set) => set.data.run(async |client| edit(&client, &set).await).await,
        Command::Approve(approve) => {
            let decision = v1::FieldDecision::Approved;
            approve.data.run(async |client| decide(&client, &approve, decision).await).await
        }
        Command::Reject(reject) => {
            let decision = v1::FieldDecision::Rejected;
            reject.data.run(async |client| decide(&client, &reject, decision).await).await
        }
        Command::Reset(reset) => {
            let decision = v1::FieldDecision::None;
            reset.data.run(async |client| decide(&client, &reset, decision).await).await
        }
        Command::Conflicts(conflicts) => conflicts.data.run(async |client| compare(&client, &conflicts).await).await,
        Command::Ask(ask) => ask.data.run(async |client| compute(&client, &ask).await).await,
        Command::Export(export) => export.stores.run(async |client| download(&client, &export).await).await,
    }
}

async fn stacks(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.stacks().list_stacks(ListStacksRequest { filter: list.filter() }) => stacks
    };
    let found = found.await?;
    let tags = tag::names_by_id(client, found.iter().any(|stack| stack.rule.is_some())).await?;
    let rows = found.iter().map(shown).collect();
    let view = View::list(["stack_id", "name", "columns", "members", "complete_time"], rows);
    Ok(view.table_of(stack_text::list(&found, &tags)))
}

/// Returns the id of a stack that is named by id or name.
pub(super) async fn id(client: &Client, what: &str, choose: Choice<v1::Stack>) -> Result<String> {
    if what.parse::<StackId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("stack", what, choose, client.stacks().list_stacks(ListStacksRequest) => stacks);
    Ok(chosen?.stack_id)
}

async fn find(client: &Client, what: &str) -> Result<v1::Stack> {
    let stack_id = id(client, what, names::choose).await?;
    present(answer(client.stacks().get_stack(v1::GetStackRequest { stack_id })).await?.stack)
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let stack_id = id(client, what, names::choose_only).await?;
    let request = v1::DeleteStackRequest { stack_id: stack_id.clone(), ..Default::default() };
    answer(client.stacks().delete_stack(request)).await?;
    Ok(deleted(&stack_id))
}

fn column_definitions(text: &str) -> Result<Vec<v1::StackColumn>> {
    let columns: Vec<NewColumn> = serde_json::from_str(text).context("the columns are invalid")?;
    Ok(columns.into_iter().map(column).collect())
}

async fn start(client: &Client, fill: &Fill) -> Result<View> {
    let stack_id = id(client, &fill.stack, names::choose).await?;
    let request =
        v1::FillStackRequest { stack_id, model: fill.model.clone(), credit_budget: fill.budget, ..Default::default() };
    let created = answer(client.stacks().fill_stack(request)).await?.job;
    job::follow(client, created, fill.no_wait, "fills the rows").await
}

async fn list_rows(client: &Client, rows: &Rows) -> Result<View> {
    let stack = find(client, &rows.stack).await?;
    let filter = if rows.waiting { "waiting:true" } else { "" };
    let found = list_items! {
        rows.limit, client.stacks().list_stack_rows(ListStackRowsRequest {
            stack_id: stack.stack_id.clone(), filter: filter.to_owned()
        }) => rows
    };
    let rows: Vec<Value> = found.await?.iter().map(row).collect();
    let table = stack_text::rows(&stack.columns, &rows);
    let view = View::list(["document", "values", "missing_columns", "waiting"], rows);
    Ok(view.table_of(table).empty("the table has no such rows"))
}

/// Returns the ids of the stack and of the document of a row. A name is that of a document of the stack: another document with this name
/// may be newer.
pub(super) async fn row_ids(client: &Client, row: &Row) -> Result<(String, String)> {
    let stack = find(client, &row.stack).await?;
    let found = documents::find_among(client, &row.document, |found| is_member(&stack, found), names::choose).await;
    let document = found.with_context(|| format!("stack {:?}", stack.name))?;
    Ok((stack.stack_id, document.document_id))
}

/// Returns true if the stack lists the document, or its rule applies to it.
fn is_member(stack: &v1::Stack, document: &v1::Document) -> bool {
    match &stack.rule {
        None => stack.document_ids.contains(&document.document_id),
        Some(rule) => {
            rule.tag_ids.iter().all(|tag| document.tag_ids.contains(tag))
                && rule.metadata.iter().all(|(key, value)| document.metadata.get(key) == Some(value))
        }
    }
}

async fn edit(client: &Client, set: &Set) -> Result<View> {
    let (stack_id, document_id) = row_ids(client, &set.row).await?;
    let request = v1::UpdateStackCellRequest {
        stack_id,
        document_id,
        column: set.column.clone(),
        value_json: parsed(&set.value).to_string(),
        ..Default::default()
    };
    Ok(View::one(row(&present(answer(client.stacks().update_stack_cell(request)).await?.row)?)))
}

async fn decide(client: &Client, review: &Review, decision: v1::FieldDecision) -> Result<View> {
    let (stack_id, document_id) = row_ids(client, &review.row).await?;
    let request = v1::ReviewStackCellsRequest {
        stack_id,
        document_id,
        columns: review.columns.clone(),
        decision: decision.into(),
        ..Default::default()
    };
    Ok(View::one(row(&present(answer(client.stacks().review_stack_cells(request)).await?.row)?)))
}

async fn compute(client: &Client, ask: &Ask) -> Result<View> {
    let aggregates = ask.aggregates.iter().map(|(function, column)| v1::TableAggregate {
        function: v1::TableFunction::from(*function).into(),
        column: column.clone(),
    });
    let request = v1::AskTableRequest {
        stack_id: id(client, &ask.stack, names::choose).await?,
        aggregates: aggregates.collect(),
        group_by: ask.group_by.clone(),
        filter: ask.filter.iter().cloned().collect(),
        approved_only: ask.approved,
    };
    let found = answer(client.stacks().ask_table(request)).await?;
    let group = |group: &v1::TableGroup| {
        let keys = ask.group_by.iter().cloned().zip(group.key_json.iter().map(|key| parsed(key)));
        let values = ask.aggregates.iter().zip(&group.values).map(|((function, column), value)| {
            let unit = if value.unit.is_empty() { String::new() } else { format!(" {}", value.unit) };
            (label(*function, column), Value::from(format!("{}{unit}", value.value)))
        });
        let rows = ("rows".to_owned(), Value::from(group.row_count));
        Value::Object(keys.chain([rows]).chain(values).collect::<Map<_, _>>())
    };
    let labels = ask.aggregates.iter().map(|(function, column)| label(*function, column));
    let columns: Vec<String> = ask.group_by.iter().cloned().chain(["rows".to_owned()]).chain(labels).collect();
    Ok(View::list(columns, found.groups.iter().map(group).collect()))
}

/// Returns the name of the column of an aggregate.
fn label(function: Function, column: &str) -> String {
    let function = word(v1::TableFunction::from(function).as_str_name(), "TABLE_FUNCTION_");
    if column.is_empty() { function } else { format!("{function}:{column}") }
}

pub(super) fn shown(stack: &v1::Stack) -> Value {
    let column = |column: &v1::StackColumn| {
        json!({
            "name": column.name, "type": type_name(column.r#type()), "description": column.description,
            "required": column.required, "unit": column.unit, "enum": column.enum_values,
        })
    };
    let members = match &stack.rule {
        Some(rule) => json!({ "tag_ids": rule.tag_ids, "metadata": rule.metadata }),
        None => json!({ "documents": stack.document_count }),
    };
    json!({
        "stack_id": stack.stack_id, "name": stack.name, "description": stack.description, "members": members,
        "columns": stack.columns.iter().map(column).collect::<Vec<_>>(), "model": stack.model,
        "too_many_documents": stack.too_many_documents, "auto_fill": stack.auto_fill.is_some(),
        "min_confidence": stack.review_rule.as_ref().map(|rule| rule.min_confidence),
        "complete_time": time(stack.complete_time.as_ref()), "created_by": stack.created_by,
        "create_time": time(stack.create_time.as_ref()), "update_time": time(stack.update_time.as_ref()),
        "etag": stack.etag,
    })
}

fn type_name(kind: v1::StackColumnType) -> &'static str {
    ColumnType::try_from(kind).map_or("", ColumnType::as_str)
}

pub(super) fn row(row: &v1::StackRow) -> Value {
    let value = |cell: &v1::StackCell| {
        let value = cell.value_json.as_deref().map_or(Value::Null, parsed);
        (cell.column.clone(), value)
    };
    let state = |cell: &v1::StackCell| {
        (cell.column.clone(), Value::from(word(cell.state().as_str_name(), "STACK_CELL_STATE_")))
    };
    json!({
        "stack_row_id": row.stack_row_id, "document_id": row.document_id, "document": row.document_name,
        "values": row.cells.iter().map(value).collect::<Map<_, _>>(),
        "states": row.cells.iter().map(state).collect::<Map<_, _>>(), "missing_columns": row.missing_columns,
        "waiting": row.cells.iter().filter(|cell| cell.waiting).count(),
        "update_time": time(row.update_time.as_ref()), "etag": row.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_is_a_function_and_a_column() {
        assert_eq!(aggregate("sum:Net total"), Ok((Function::Sum, "Net total".to_owned())));
        assert_eq!(aggregate("COUNT"), Ok((Function::Count, String::new())));
        assert!(aggregate("median:Total").unwrap_err().contains("expected count, sum, average, min or max"));
        assert_eq!((label(Function::Max, "Total"), label(Function::Count, "")), ("max:Total".into(), "count".into()));
    }

    #[test]
    fn a_condition_is_a_column_and_a_value() {
        let of = |column: &str, value: &str| Ok((column.to_owned(), value.to_owned()));
        assert_eq!(condition("Vendor=ACME = Co"), of("Vendor", "\"ACME = Co\""));
        assert_eq!((condition("Total=7.50"), condition("Paid=true")), (of("Total", "7.5"), of("Paid", "true")));
        assert_eq!(condition("Vendor="), of("Vendor", "null"));
        assert!(condition("Vendor").is_err());
    }

    #[test]
    fn a_document_of_a_rule_has_its_tags_and_metadata() {
        let metadata = || [("year".to_owned(), "2026".to_owned())].into_iter().collect();
        let rule = v1::StackMemberRule { tag_ids: vec!["tag_1".to_owned()], metadata: metadata() };
        let by_rule = v1::Stack { rule: Some(rule), ..v1::Stack::default() };
        let mut document = v1::Document { document_id: "doc_1".to_owned(), ..v1::Document::default() };
        assert!(!is_member(&by_rule, &document));
        document.tag_ids = vec!["tag_2".to_owned(), "tag_1".to_owned()];
        assert!(!is_member(&by_rule, &document));
        document.metadata = metadata();
        assert!(is_member(&by_rule, &document));
        let mut listed = v1::Stack::default();
        assert!(!is_member(&listed, &document));
        listed.document_ids.push("doc_1".to_owned());
        assert!(is_member(&listed, &document));
    }

    #[test]
    fn columns_are_read_from_json() {
        let text = r#"[{"name": "Total", "type": "number", "unit": "EUR"}, {"name": "State", "type": "enum", "enum": ["open"]}]"#;
        let columns = column_definitions(text).unwrap();
        assert_eq!((columns[0].r#type(), columns[0].unit.as_str()), (v1::StackColumnType::Number, "EUR"));
        assert_eq!(
            (type_name(columns[1].r#type()), columns[1].enum_values.as_slice()),
            ("enum", &["open".to_owned()][..])
        );
        assert!(column_definitions(r#"[{"name": "a", "type": "money"}]"#).is_err());
    }
}
