//! The cells that a call of an agent writes: their values in the form of the columns, and the check of their quotes.

use std::collections::BTreeMap;

use folio_resources::{
    Column, Document, FilledCell, STACK_COLUMNS_MAX, Stack, StackRow, StackRowChange, folded, member_path,
};
use folio_types::TurnId;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{check_members, only_document};
use crate::document_text::check_ready;
use crate::extraction::{CheckedQuotes, PageQuote, check_quotes, stated_confidence, stated_quote};
use crate::tool::{CallContext, ToolError};

/// A cell of a call.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CellArgument {
    pub(super) column: String,
    #[serde(default)]
    pub(super) value: Value,
    pub(super) confidence: Value,
    pub(super) citation: Option<Value>,
}

/// Returns the JSON Schema of the argument with cells.
pub(super) fn cells_schema() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": STACK_COLUMNS_MAX,
        "description": "Cells of the row. Columns may be omitted.",
        "items": {
            "type": "object",
            "properties": {
                "column": { "type": "string", "description": "Name of the column." },
                "value": { "description": VALUE },
                "confidence": { "description": CONFIDENCE },
                "citation": { "type": "object", "description": CITATION },
            },
            "required": ["column", "value", "confidence"],
        },
    })
}

pub(super) const VALUE: &str = "Value in the type of the column: text, number, whole number, true or false, a date such as \
                                2026-12-31, or one of the values of an enum. null: the document has no value.";
pub(super) const CONFIDENCE: &str = "Your confidence, a number from 0.0 to 1.0.";
pub(super) const CITATION: &str =
    "page (number), and quote: 3 to 500 characters of that page, copied exactly, that contain the value.";

/// Returns the write of cells of a document, which are checked against the columns, the row and the text of the document. `row`:
/// None if the document has no row.
///
/// # Errors
/// `ForModel` with all problems of the call.
pub(super) async fn checked(
    context: &CallContext,
    stack: &Stack,
    document: &Document,
    row: Option<&StackRow>,
    arguments: &[CellArgument],
) -> Result<StackRowChange, ToolError> {
    if stack.columns.is_empty() {
        let text = format!("The table has no columns. Call {} first.", super::DEFINE_COLUMNS);
        return Err(ToolError::ForModel(text));
    }
    check_ready(document)?;
    // The start of an item has checked the members.
    if row.is_none() && only_document(context).is_none() {
        check_members(&context.resources.stores, &context.principal.org, stack).await?;
    }
    let only_missing = only_document(context).map(|_| &context.call.turn);
    let (mut cells, mut quotes, mut problems) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut data = Map::new();
    for argument in arguments {
        match cell(stack, (row, only_missing), argument) {
            Ok((column, cell, quote)) => {
                let is_repeated = cells.iter().any(|other: &FilledCell| other.column == cell.column);
                if is_repeated {
                    problems.push(format!("column {:?} appears twice", column.name()));
                }
                if let Some(value) = &cell.value {
                    data.insert(column.name().to_owned(), value.clone());
                    quotes.extend(quote.map(|quote| (member_path("", column.name()), quote)));
                }
                cells.push(cell);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(ToolError::invalid(&problems));
    }
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    let data = Value::Object(data);
    let CheckedQuotes { citations, missing } = check_quotes(stores, org, document, &data, quotes).await?;
    if !missing.is_empty() {
        return Err(ToolError::invalid(&missing));
    }
    for citation in citations {
        let of_path = |column: &&Column| member_path("", column.name()) == citation.path;
        let number = stack.columns.iter().find(of_path).map(|column| column.number);
        if let Some(cell) = cells.iter_mut().find(|cell| Some(cell.column) == number) {
            cell.citation = Some(Box::new(citation));
        }
    }
    Ok(StackRowChange::Fill {
        stack: stack.id.clone(),
        document: document.id.clone(),
        cells,
        columns: stack.columns.clone(),
        rule: stack.review_rule.clone(),
        text_generation: document.text_generation,
    })
}

/// Returns the column and the value of a cell, and its quote. `only_missing`: the turn of an item of a filling job, which writes only
/// cells that are missing or that it has written itself. None: a conversation, which may also replace other cells.
fn cell<'a>(
    stack: &'a Stack,
    (row, only_missing): (Option<&StackRow>, Option<&TurnId>),
    argument: &CellArgument,
) -> Result<(&'a Column, FilledCell, Option<PageQuote>), String> {
    let column = stack.column(&argument.column).map_err(|error| error.message)?;
    let name = column.name();
    let stored = row.and_then(|row| row.cells.get(&column.number));
    if stored.is_some_and(|cell| cell.is_protected(column)) {
        return Err(format!("column {name:?}: a person entered the value or decided about it; omit the column"));
    }
    let is_missing = row.is_none_or(|row| row.is_missing(column));
    let is_of_other = |turn: &TurnId| stored.is_some_and(|cell| cell.turn.as_ref() != Some(turn));
    if !is_missing && only_missing.is_some_and(is_of_other) {
        return Err(format!("column {name:?}: the cell was filled before, and is not missing; omit the column"));
    }
    let value = column.value(&argument.value).map_err(|problem| format!("column {name:?}: the value {problem}"))?;
    let confidence =
        stated_confidence(&argument.confidence).map_err(|problem| format!("column {name:?}: {problem}"))?;
    let stated = argument.citation.as_ref().filter(|citation| !citation.is_null());
    let quote = stated.map(stated_quote).transpose();
    let quote = quote.map_err(|problem| format!("column {name:?}: citation: {problem}"))?;
    let cell = FilledCell {
        column: column.number,
        revision: column.revision,
        value,
        confidence: Some(confidence),
        citation: None,
    };
    Ok((column, cell, quote))
}

/// Returns the current values of these columns, for the text about a conflict.
pub(super) fn current_values(stack: &Stack, row: Option<&StackRow>, columns: &[&str]) -> String {
    let named = |column: &&Column| columns.iter().any(|name| folded(name) == folded(column.name()));
    let shown = |column: &Column| {
        let cell = row.and_then(|row| row.cells.get(&column.number));
        let value = cell.and_then(|cell| cell.value.as_ref()).map_or_else(|| "null".to_owned(), Value::to_string);
        format!(" {:?} is {}.", column.name(), crate::rules::excerpt(&value))
    };
    stack.columns.iter().filter(named).map(shown).collect()
}
