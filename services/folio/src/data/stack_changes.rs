//! `folio stack update`, `column`, `row` and `watch`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use folio_resources::NewColumn;
use serde_json::{Map, Value, json};
use v1::watch_table_response::Change;

use super::job::word;
use super::output::{Format, View};
use super::stack::{self, COLUMNS_BYTES, Row};
use super::{DataArguments, parsed, present, read_text, stack_text, tag, time, update_mask, watched};
use crate::client::{Client, answer};
use crate::terminal::{stdout_closed, write_stdout};
use crate::{documents, names};

#[derive(Debug, clap::Args)]
pub(crate) struct Changes {
    /// The stack, by id or name.
    stack: String,
    /// The new name.
    #[arg(long)]
    name: Option<String>,
    /// The new description.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A document of the stack, by id or name, instead of the present documents or the rule; may be given several times.
    #[arg(long = "document", value_name = "DOCUMENT", conflicts_with_all = ["tags", "metadata"])]
    documents: Vec<String>,
    /// A tag of the new rule, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// An entry of the metadata in the new rule; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=TEXT", value_parser = super::document::entry)]
    metadata: Vec<(String, String)>,
    /// The new model of the turns that fill rows; an empty text is the default of the organization.
    #[arg(long)]
    model: Option<String>,
    /// Approve values with at least this confidence, from 0 to 1; the others wait for a decision.
    #[arg(long, value_name = "CONFIDENCE")]
    approve_from: Option<f64>,
    /// Approve only values with a citation.
    #[arg(long, requires = "approve_from")]
    require_citation: bool,
    /// Remove the review rule, so that no later value waits for a decision.
    #[arg(long, conflicts_with = "approve_from")]
    no_review_rule: bool,
    /// Fill rows of new documents, and cells of changed columns, without a request.
    #[arg(long, value_enum)]
    auto_fill: Option<Switch>,
    /// Credit that each automatic job may cost [default: no budget].
    #[arg(long, value_name = "CREDITS", requires = "auto_fill")]
    auto_fill_budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ColumnChange {
    /// The stack, by id or name.
    stack: String,
    /// The current name of the column.
    column: String,
    /// A JSON object with the whole definition, as in the file of `folio stack columns`; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowRow {
    #[command(flatten)]
    row: Row,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Watch {
    /// The stack, by id or name.
    stack: String,
    #[command(flatten)]
    data: DataArguments,
}

/// The columns of a printed change.
const CHANGE_COLUMNS: [&str; 5] = ["change", "document", "values", "missing_columns", "waiting"];

pub(super) async fn update(changes: Changes) -> Result<()> {
    changes.data.run(async |client| change(&client, &changes).await).await
}

async fn change(client: &Client, changes: &Changes) -> Result<View> {
    let (stack, paths) = changed(client, changes).await?;
    ensure!(!paths.is_empty(), "nothing to change; folio stack update --help lists the options");
    let request = v1::UpdateStackRequest { stack: Some(stack), update_mask: update_mask(&paths), ..Default::default() };
    Ok(stack_text::view(&present(answer(client.stacks().update_stack(request)).await?.stack)?))
}

/// Returns the stack with its new values, and the names of the fields that change.
async fn changed(client: &Client, changes: &Changes) -> Result<(v1::Stack, Vec<&'static str>)> {
    let stack_id = stack::id(client, &changes.stack, names::choose).await?;
    let (mut stack, mut paths) = (v1::Stack { stack_id, ..v1::Stack::default() }, Vec::new());
    if let Some(name) = &changes.name {
        stack.name.clone_from(name);
        paths.push("name");
    }
    if let Some(description) = &changes.description {
        stack.description.clone_from(description);
        paths.push("description");
    }
    if !changes.documents.is_empty() {
        stack.document_ids = documents::ids(client, &changes.documents).await?;
        paths.push("document_ids");
    }
    if !changes.tags.is_empty() || !changes.metadata.is_empty() {
        stack.rule = Some(v1::StackMemberRule {
            tag_ids: tag::ids(client, &changes.tags).await?,
            metadata: changes.metadata.iter().cloned().collect(),
        });
        paths.push("rule");
    }
    if let Some(model) = &changes.model {
        stack.model.clone_from(model);
        paths.push("model");
    }
    stack.review_rule = changes
        .approve_from
        .map(|min_confidence| v1::StackReviewRule { min_confidence, requires_citation: changes.require_citation });
    if stack.review_rule.is_some() || changes.no_review_rule {
        paths.push("review_rule");
    }
    if let Some(auto_fill) = changes.auto_fill {
        let settings = v1::StackAutoFill { credit_budget: changes.auto_fill_budget };
        stack.auto_fill = (auto_fill == Switch::On).then_some(settings);
        paths.push("auto_fill");
    }
    Ok((stack, paths))
}

pub(super) async fn redefine(column: ColumnChange) -> Result<()> {
    column.data.run(async |client| define(&client, &column).await).await
}

async fn define(client: &Client, column: &ColumnChange) -> Result<View> {
    let text = read_text(&column.file, COLUMNS_BYTES)?;
    let definition: NewColumn = serde_json::from_str(&text).context("the column is invalid")?;
    let request = v1::UpdateStackColumnRequest {
        stack_id: stack::id(client, &column.stack, names::choose).await?,
        column_name: column.column.clone(),
        column: Some(stack::column(definition)),
        ..Default::default()
    };
    Ok(stack_text::view(&present(answer(client.stacks().update_stack_column(request)).await?.stack)?))
}

pub(super) async fn show_row(show: ShowRow) -> Result<()> {
    show.data.run(async |client| cells(&client, &show).await).await
}

/// Lists the cells of a row with their evidence.
async fn cells(client: &Client, show: &ShowRow) -> Result<View> {
    let (stack_id, document_id) = stack::row_ids(client, &show.row).await?;
    let request = v1::GetStackRowRequest { stack_id, document_id };
    let row = present(answer(client.stacks().get_stack_row(request)).await?.row)?;
    let missing = row.missing_columns.iter().filter(|name| !row.cells.iter().any(|cell| cell.column == **name));
    let missing = missing.map(|name| json!({ "column": name, "state": "missing" }));
    let rows = row.cells.iter().map(cell).chain(missing).collect();
    Ok(View::list(["column", "value", "state", "confidence", "page", "quote", "waiting"], rows))
}

fn cell(cell: &v1::StackCell) -> Value {
    let citation = cell.citation.as_ref();
    json!({
        "column": cell.column,
        "value": cell.value_json.as_deref().map(parsed),
        "state": word(cell.state().as_str_name(), "STACK_CELL_STATE_"),
        "confidence": cell.confidence,
        "page": citation.map(|citation| citation.page),
        "quote": citation.map(|citation| citation.quote.as_str()),
        "waiting": cell.waiting,
        "by_agent": cell.by_agent,
        "approved_by_rule": cell.approved_by_rule,
        "user_id": cell.user_id,
        "update_time": time(cell.update_time.as_ref()),
        "reviewer_id": cell.reviewer_id,
        "review_time": time(cell.review_time.as_ref()),
    })
}

pub(super) async fn watch(watch: Watch) -> Result<()> {
    let work = async |client: Client| {
        // Without this branch the command would notice the end of its reader only at the next change.
        tokio::select! {
            ended = follow(&client, &watch) => ended,
            () = stdout_closed() => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    };
    watch.data.run(work).await
}

/// Prints the stack, its rows and each change, until a signal stops the command or the stack is deleted.
async fn follow(client: &Client, watch: &Watch) -> Result<View> {
    let stack_id = stack::id(client, &watch.stack, names::choose).await?;
    let (mut changes, mut printed) = (client.watch_table(&stack_id), Printed::default());
    loop {
        let change = watched(changes.next_update().await)?.and_then(|message| message.change);
        if let Some(line) = change.and_then(|change| printed.line(&change, watch.data.format())) {
            write_stdout(&line)?;
        }
    }
}

/// The state of a printed stream.
#[derive(Debug, Default)]
struct Printed {
    /// The version of the stack that was printed.
    etag: String,
}

impl Printed {
    /// Returns a change as a line, after the header if it is the first one. None: a keep-alive.
    fn line(&mut self, change: &Change, format: Format) -> Option<String> {
        let is_first = self.etag.is_empty();
        let (kind, members) = match change {
            Change::Stack(stack) if stack.etag == self.etag => return None,
            Change::Stack(stack) => {
                self.etag.clone_from(&stack.etag);
                ("stack", stack::shown(stack))
            }
            Change::Row(row) => ("row", stack::row(row)),
            Change::RemovedStackRowId(id) => ("removed", json!({ "stack_row_id": id })),
        };
        let mut row = Map::from_iter([("change".to_owned(), Value::from(kind))]);
        if let Value::Object(members) = members {
            row.extend(members);
        }
        let format = if format == Format::Json { Format::Jsonl } else { format };
        let text = View::list(CHANGE_COLUMNS, vec![Value::Object(row)]).render(format);
        Some(match text.split_once('\n') {
            Some((_, line)) if !is_first && format != Format::Jsonl => line.to_owned(),
            _ => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line_and_a_keep_alive_is_none() {
        let mut printed = Printed::default();
        let stack = Change::Stack(v1::Stack { etag: "1".into(), ..Default::default() });
        let first = printed.line(&stack, Format::Json).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&first).unwrap()["change"], "stack");
        assert_eq!(printed.line(&stack, Format::Json), None);
        let row = Change::Row(v1::StackRow { document_name: "a.txt".into(), ..Default::default() });
        let line = printed.line(&row, Format::Csv).unwrap();
        assert!(line.starts_with("row,a.txt,") && line.lines().count() == 1, "{line}");
        let removed = printed.line(&Change::RemovedStackRowId("srw_1".into()), Format::Jsonl).unwrap();
        assert!(removed.contains("srw_1"), "{removed}");
    }

    #[test]
    fn a_cell_has_its_evidence() {
        let citation = v1::Citation { page: 2, quote: "Total 5".into(), ..Default::default() };
        let filled = v1::StackCell {
            column: "Total".into(),
            value_json: Some("5".into()),
            state: v1::StackCellState::Filled.into(),
            citation: Some(citation),
            waiting: true,
            ..Default::default()
        };
        let shown = cell(&filled);
        assert_eq!((&shown["value"], &shown["state"], &shown["page"]), (&json!(5), &json!("filled"), &json!(2)));
        assert_eq!(cell(&v1::StackCell::default())["value"], Value::Null);
    }
}
