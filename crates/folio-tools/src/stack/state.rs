//! The tool `get_table_state`.

use async_trait::async_trait;
use folio_history::json_bytes;
use folio_resources::{Column, NewColumn, Stack, StackRow, StackRowId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::list::page_of;
use super::{documents_of, of_turn};
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::rules::excerpt;
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum number of rows of a page of a result, and of their cells, so that the result of a wide table is not cut.
const PAGE_ROWS: usize = 20;
const PAGE_CELLS: usize = 120;
/// Size of the definitions of the columns as JSON from which on they are cut, in bytes.
const COLUMNS_BYTES: usize = 24 * 1024;

pub(super) fn tool() -> Tool {
    read_tool::<GetTableState>(
        "get_table_state",
        "Returns the columns and the rows of the table, at most 20 rows in a page. A person may change cells while you work. Result: \
         stack (name, description), columns (name, type, description, required, unit, enum), rows (document_id, cells: by column \
         name, with value, state (empty, filled, edited, approved or rejected) and confidence, missing: the columns that are \
         not filled), total (number of documents), next_page (only if there are more), complete. Long values are cut, and so are the \
         descriptions and the enum of a column if the table has many long ones (cut: true); a refused value names all of the enum.",
        vec![optional("page", number("Page of the rows, from 1. Default: 1.", 1, 10_000))],
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
        let members = documents_of(context, &stack).await?;
        let (page, next) = page_of(&members, self.page, page_rows(&stack));
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
        let mut result = json!({
            "stack": { "name": stack.name, "description": stack.description },
            "columns": definitions(&stack.columns),
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

/// Returns the number of rows of a page.
fn page_rows(stack: &Stack) -> usize {
    PAGE_CELLS.checked_div(stack.columns.len()).unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS)
}

/// Returns the definitions of columns. If they are too long together, each long one is cut.
fn definitions(columns: &[Column]) -> Vec<Value> {
    let whole: Vec<Value> = columns.iter().map(|column| json!(column.definition)).collect();
    if json_bytes(&whole) <= COLUMNS_BYTES {
        return whole;
    }
    let bytes = COLUMNS_BYTES / columns.len().max(1) / 3;
    columns.iter().map(|column| cut(&column.definition, bytes)).collect()
}

/// Returns a definition whose description and list of values have at most this size each.
fn cut(definition: &NewColumn, bytes: usize) -> Value {
    let mut kept = definition.clone();
    kept.description.truncate(kept.description.floor_char_boundary(bytes));
    let mut left = bytes;
    let fits = |value: &&String| match left.checked_sub(value.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let count = definition.values.iter().take_while(fits).count();
    kept.values.truncate(count);
    let mut shown = json!(kept);
    if let Some(members) = shown.as_object_mut().filter(|_| kept != *definition) {
        members.insert("cut".to_owned(), true.into());
    }
    shown
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

#[cfg(test)]
mod tests {
    use folio_resources::{
        COLUMN_DESCRIPTION_CHARS, COLUMN_VALUE_CHARS, COLUMN_VALUES_MAX, ColumnType, STACK_COLUMNS_MAX,
    };
    use folio_types::limits::TOOL_RESULT_BYTES;

    use super::super::aggregate::tests::stack;
    use super::*;

    fn column(number: u32, description: usize, values: usize) -> Column {
        let definition = NewColumn {
            name: format!("Column {number}"),
            kind: if values == 0 { ColumnType::Text } else { ColumnType::Enum },
            description: "ü".repeat(description),
            required: true,
            unit: None,
            values: (0..values).map(|value| format!("{value:03}{}", "v".repeat(COLUMN_VALUE_CHARS - 3))).collect(),
        };
        Column { number, revision: 1, definition }
    }

    #[test]
    fn the_definitions_of_a_usual_table_are_whole_and_those_of_the_widest_one_fit() {
        let usual: Vec<Column> = (1..=20).map(|number| column(number, 200, 2)).collect();
        assert!(definitions(&usual).iter().all(|column| column.get("cut").is_none()));
        let of = |number: u32| column(number, COLUMN_DESCRIPTION_CHARS, COLUMN_VALUES_MAX * (number as usize % 2));
        let widest: Vec<Column> = (1..).take(STACK_COLUMNS_MAX).map(of).collect();
        let found = definitions(&widest);
        assert!(json_bytes(&found) <= TOOL_RESULT_BYTES / 2, "{}", json_bytes(&found));
        assert!(
            found.iter().all(|column| column["cut"] == true && !column["description"].as_str().unwrap().is_empty())
        );
    }

    #[test]
    fn a_page_of_a_wide_table_has_fewer_rows() {
        for (columns, rows) in [(0, 20), (1, 20), (6, 20), (12, 10), (STACK_COLUMNS_MAX, 1)] {
            let columns = (1..).take(columns).map(|number| column(number, 0, 0)).collect();
            assert_eq!(page_rows(&Stack { columns, ..stack() }), rows);
        }
    }
}
