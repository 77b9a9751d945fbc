//! The tool `get_table_state`.

use async_trait::async_trait;
use folio_resources::{Column, Stack, StackRow, StackRowId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::list::page_of;
use super::{member_ids, of_turn, only_document};
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::rules::excerpt;
use crate::tool::{CallContext, Tool, ToolError};

/// Number of rows of a page of a result.
const PAGE_ROWS: usize = 20;

pub(super) fn tool() -> Tool {
    read_tool::<GetTableState>(
        "get_table_state",
        "Returns the columns and the rows of the table, 20 rows in a page. A person may change cells while you work. Result: \
         stack (name, description), columns (name, type, description, required, unit, enum), rows (document_id, cells: by column \
         name, with value, state (empty, filled, edited, approved or rejected) and confidence, missing: the columns that are \
         not filled), total (number of documents), next_page (only if there are more), complete. Long values are cut.",
        vec![optional("page", number("Page of the rows, from 1. Default: 1.", 1, 1_000))],
    )
}

#[derive(Deserialize)]
struct GetTableState {
    #[serde(default, deserialize_with = "arguments::whole")]
    page: Option<u32>,
}

#[async_trait]
impl ReadCall for GetTableState {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let (stack, org) = (of_turn(context).await?, &context.principal.org);
        let members = match only_document(context) {
            Some(only) => vec![only.clone()],
            None => member_ids(&context.resources.stores, org, &stack).await?,
        };
        let (page, next) = page_of(&members, self.page, PAGE_ROWS);
        let ids: Vec<StackRowId> = page.iter().map(|document| StackRowId::of(&stack.id, document)).collect();
        let found = context.store::<StackRow>().get_many(org, &ids).await?;
        let rows: Vec<Value> = page
            .iter()
            .map(|document| {
                let row = found.iter().find(|row| row.document == *document);
                let missing = stack.columns.iter().filter(|column| row.is_none_or(|row| row.is_missing(column)));
                json!({
                    "document_id": document,
                    "cells": row.map(|row| cells(&stack, row)).unwrap_or_default(),
                    "missing": missing.map(Column::name).collect::<Vec<_>>(),
                })
            })
            .collect();
        let columns: Vec<_> = stack.columns.iter().map(|column| &column.definition).collect();
        let mut result = json!({
            "stack": { "name": stack.name, "description": stack.description },
            "columns": columns,
            "rows": rows,
            "total": members.len(),
            "complete": stack.completion.is_some(),
        });
        if let (Some(next), Some(members)) = (next, result.as_object_mut()) {
            members.insert("next_page".to_owned(), next.into());
        }
        Ok(result)
    }
}

/// Returns the cells of a row by the names of their columns.
fn cells(stack: &Stack, row: &StackRow) -> Map<String, Value> {
    let cell = |column: &Column| {
        let cell = row.cells.get(&column.number)?;
        let value = match &cell.value {
            Some(Value::String(text)) => Value::from(excerpt(text)),
            other => json!(other),
        };
        let shown = json!({ "value": value, "state": cell.state().as_str(), "confidence": cell.confidence });
        Some((column.name().to_owned(), shown))
    };
    stack.columns.iter().filter_map(cell).collect()
}
