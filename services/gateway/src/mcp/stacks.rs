//! The tools that read the tables of stacks. They are operations.

use std::collections::BTreeMap;

use folio_operations::stack_rows::{ListStackRows, RowView};
use folio_operations::stack_tables::{AskTable, GetStackConflicts, RequestedAggregate, TableAnswer};
use folio_operations::stacks::ListStacks;
use folio_operations::{ListRequest, Operation as _};
use folio_resources::{Cell, Column, Stack, StackMembers};
use folio_tools::stack::{AggregateFunction, AggregatedGroup, ConflictingValue, TableConflict};
use folio_types::{Result, StackId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Client;
use super::call;
use super::tools::{filter, parse, tool};

pub(super) const SEARCH_STACKS: &str = "search_stacks";
pub(super) const LIST_STACK_ROWS: &str = "list_stack_rows";
pub(super) const ASK_STACK: &str = "ask_stack";
pub(super) const FIND_STACK_CONFLICTS: &str = "find_stack_conflicts";

/// Maximum number of stacks or rows of one answer.
const PAGE_MAX: i32 = 20;

/// Returns the tools if the caller may call them. They have the same role and scope.
pub(super) fn list(client: &Client) -> Vec<Value> {
    if client.caller.authorize(&ListStacks::DECLARATION).is_err() {
        return Vec::new();
    }
    let text = |description: &str| json!({ "type": "string", "description": description });
    let texts =
        |description: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description });
    let flag = |description: &str| json!({ "type": "boolean", "description": description });
    let stack = || text("The stack_id of a stack, from search_stacks.");
    let cursor = || text("next_cursor of the previous page. Default: the first page.");
    let limit = || {
        let description = format!("Maximum number per page. Default: {PAGE_MAX}.");
        json!({ "type": "integer", "minimum": 1, "maximum": PAGE_MAX, "description": description })
    };
    let functions = AggregateFunction::names();
    let aggregate = json!({
        "type": "object",
        "properties": {
            "function": { "type": "string", "enum": functions },
            "column": text("The name of the column. Default: the rows, which only count accepts."),
        },
        "required": ["function"],
        "additionalProperties": false,
    });
    let search = json!({
        "name": text("A part of the name. Default: every name."),
        "cursor": cursor(),
        "limit": limit(),
    });
    let rows = json!({
        "stack": stack(),
        "waiting": flag("True: only rows with a value that waits for a decision of a person. Default: false."),
        "cursor": cursor(),
        "limit": limit(),
    });
    let question = json!({
        "stack": stack(),
        "aggregates": { "type": "array", "items": aggregate, "minItems": 1, "description": "The values to compute." },
        "group_by": texts("Names of columns whose values divide the rows into groups. Default: one group."),
        "filter": {
            "type": "object",
            "additionalProperties": true,
            "description": "Values by the names of columns: only rows with exactly these values count. null selects rows without a \
                value. Default: all rows.",
        },
        "approved_only": flag("True: only approved values count. Default: every value counts that was not rejected."),
    });
    let conflicts = json!({
        "stack": stack(),
        "key_columns": texts("Names of columns that identify a subject, such as a vendor."),
        "columns": texts("Names of columns whose values are compared. Default: all other columns."),
    });
    let search_text = "Finds stacks by their name. A stack is a table over documents, with a row for each document. \
        Returns stacks (stack_id, name, description, columns) and next_cursor, which is empty on the last page.";
    let rows_text = "Returns rows of the table of a stack, newest first: the document, and its cells by the names of the \
        columns, with value, state, confidence, page and quote. missing_columns have not been filled.";
    let ask_text = "Computes counts, sums, averages, minima and maxima of the columns of a stack exactly, over all rows. \
        Call it instead of adding values of rows.";
    let conflicts_text = "Finds documents of a stack that contradict each other: rows with the same values of the key \
        columns and different values of another column.";
    vec![
        tool(SEARCH_STACKS, search_text, (search, &[]), true),
        tool(LIST_STACK_ROWS, rows_text, (rows, &["stack"]), true),
        tool(ASK_STACK, ask_text, (question, &["stack", "aggregates"]), true),
        tool(FIND_STACK_CONFLICTS, conflicts_text, (conflicts, &["stack", "key_columns"]), true),
    ]
}

/// Returns the request of a page. A limit of 0 is the default.
fn page(filter: String, cursor: String, limit: i32) -> ListRequest {
    let page_size = if limit == 0 { PAGE_MAX } else { limit.min(PAGE_MAX) };
    ListRequest { page_size, page_token: cursor, filter, ..ListRequest::default() }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Search {
    name: String,
    cursor: String,
    limit: i32,
}

pub(super) async fn search(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let Search { name, cursor, limit } = parse(arguments)?;
    let list = page(filter(&name, ""), cursor, limit);
    let page = client.run(ListStacks { list }).await?;
    let stacks: Vec<Value> = page.items.iter().map(stack).collect();
    Ok(call::content(&json!({ "stacks": stacks, "next_cursor": page.next_page_token }), false))
}

fn stack(stack: &Stack) -> Value {
    let documents = match &stack.members {
        StackMembers::Documents(documents) => Some(documents.len()),
        StackMembers::Rule(_) => None,
    };
    let column = |Column { definition, .. }: &Column| {
        json!({
            "name": definition.name,
            "type": definition.kind.as_str(),
            "description": definition.description,
            "unit": definition.unit,
        })
    };
    json!({
        "stack_id": stack.id,
        "name": stack.name,
        "description": stack.description,
        // Null: a rule selects the documents.
        "documents": documents,
        "columns": stack.columns.iter().map(column).collect::<Vec<_>>(),
        "complete": stack.completion.is_some(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    stack: StackId,
    #[serde(default)]
    waiting: bool,
    #[serde(default)]
    cursor: String,
    #[serde(default)]
    limit: i32,
}

pub(super) async fn rows(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let Rows { stack: stack_id, waiting, cursor, limit } = parse(arguments)?;
    let filter = if waiting { "waiting:true" } else { "" };
    let list = page(filter.to_owned(), cursor, limit);
    let page = client.run(ListStackRows { stack_id, list }).await?;
    let rows: Vec<Value> = page.items.iter().map(row).collect();
    Ok(call::content(&json!({ "rows": rows, "next_cursor": page.next_page_token }), false))
}

fn row(RowView { row, document_name, columns }: &RowView) -> Value {
    let cell = |column: &Column| Some((column.name().to_owned(), cell(row.cells.get(&column.number)?)));
    let missing = columns.iter().filter(|column| row.is_missing(column)).map(Column::name);
    json!({
        "document_id": row.document,
        "document_name": document_name,
        "cells": columns.iter().filter_map(cell).collect::<Map<String, Value>>(),
        "missing_columns": missing.collect::<Vec<_>>(),
    })
}

fn cell(cell: &Cell) -> Value {
    let citation = cell.citation.as_deref();
    json!({
        "value": cell.value,
        "state": cell.state().as_str(),
        "confidence": cell.confidence,
        "page": citation.map(|citation| citation.page),
        "quote": citation.map(|citation| &citation.quote),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    stack: StackId,
    aggregates: Vec<Aggregate>,
    #[serde(default)]
    group_by: Vec<String>,
    #[serde(default)]
    filter: BTreeMap<String, Value>,
    #[serde(default)]
    approved_only: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Aggregate {
    function: String,
    column: Option<String>,
}

pub(super) async fn ask(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let Question { stack: stack_id, aggregates, group_by, filter, approved_only } = parse(arguments)?;
    let aggregate = |Aggregate { function, column }: Aggregate| RequestedAggregate { function, column };
    let aggregates = aggregates.into_iter().map(aggregate).collect();
    let operation = AskTable { stack_id, aggregates, group_by, filter, approved_only };
    let TableAnswer { groups, units, rows } = client.run(operation).await?;
    let groups: Vec<Value> = groups.iter().map(|group| group_json(group, &units)).collect();
    Ok(call::content(&json!({ "groups": groups, "rows": rows }), false))
}

fn group_json(AggregatedGroup { key, rows, values }: &AggregatedGroup, units: &[Option<String>]) -> Value {
    let values = values.iter().zip(units).map(|(value, unit)| {
        json!({
            "value": value.value,
            "exact": value.is_exact,
            "unit": unit,
            "counted_rows": value.counted,
            "skipped_rows": value.skipped,
        })
    });
    json!({ "key": key, "rows": rows, "values": values.collect::<Vec<_>>() })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conflicts {
    stack: StackId,
    key_columns: Vec<String>,
    #[serde(default)]
    columns: Vec<String>,
}

pub(super) async fn conflicts(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let Conflicts { stack: stack_id, key_columns, columns } = parse(arguments)?;
    let (found, total) = client.run(GetStackConflicts { stack_id, key_columns, columns }).await?;
    let conflicts: Vec<Value> = found.iter().map(conflict).collect();
    Ok(call::content(&json!({ "conflicts": conflicts, "total": total }), false))
}

fn conflict(TableConflict { key, column, values }: &TableConflict) -> Value {
    let value = |ConflictingValue { value, documents, count }: &ConflictingValue| json!({ "value": value, "document_ids": documents, "documents": count });
    json!({ "key": key, "column": column, "values": values.iter().map(value).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_most_the_maximum() {
        for (limit, expected) in [(0, PAGE_MAX), (5, 5), (1_000, PAGE_MAX), (-1, -1)] {
            assert_eq!(page(String::new(), String::new(), limit).page_size, expected, "{limit}");
        }
    }

    #[test]
    fn malformed_questions_are_refused_by_their_member() {
        let stack = StackId::derive(&["s"]);
        let read = |value: Value| parse::<Question>(value.as_object().unwrap().clone());
        let valid = json!({ "stack": stack, "aggregates": [{ "function": "count" }] });
        assert_eq!(read(valid).unwrap().aggregates[0].column, None);
        let filtered = json!({ "stack": stack, "aggregates": [], "filter": { "Vendor": null } });
        assert_eq!(read(filtered).unwrap().filter["Vendor"], Value::Null);
        let malformed = json!({ "stack": "../../etc", "aggregates": [] });
        assert_eq!(read(malformed).unwrap_err().violations[0].field, "stack");
        let unknown = json!({ "stack": stack, "aggregates": [{ "function": "count", "row": 1 }] });
        assert!(read(unknown).unwrap_err().message.contains("row"));
    }
}
