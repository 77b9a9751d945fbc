//! A row of the table of a stack as a record of an export.

use folio_resources::{Cell, CellAuthor, Citation, Column, Stack, StackRow};
use folio_types::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Spool;
use crate::table::Row;

/// The name of the table with a row for each document.
const TABLE: &str = "table";
/// The name of the table with the state and the evidence of each cell.
const CELLS: &str = "cells";
/// The columns of the table [`CELLS`].
const CELL_COLUMNS: [&str; 8] = ["document_id", "column", "value", "state", "confidence", "by_agent", "page", "quote"];

/// A row of a table as a record of JSON and JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackRecord {
    pub document_id: String,
    /// The name of the document.
    pub document: String,
    /// The values that count, by the names of their columns. Null: there is none.
    pub values: Map<String, Value>,
    /// The state and the evidence of each cell. None: the export has no details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<Value>>,
}

impl StackRecord {
    /// `document`: the name of the document.
    pub fn new(stack: &Stack, row: &StackRow, document: &str, has_details: bool) -> Self {
        let document_id = row.document.to_string();
        let value = |column: &Column| {
            let value = row.cells.get(&column.number).and_then(|cell| cell.counted_value(column));
            (column.name().to_owned(), value.cloned().unwrap_or_default())
        };
        let detail = |column: &Column| Some(details(&document_id, column, row.cells.get(&column.number)?));
        Self {
            document: document.to_owned(),
            values: stack.columns.iter().map(value).collect(),
            cells: has_details.then(|| stack.columns.iter().filter_map(detail).collect()),
            document_id,
        }
    }
}

/// Returns the members of a cell, in the order of [`CELL_COLUMNS`].
fn details(document_id: &str, column: &Column, cell: &Cell) -> Value {
    let citation = cell.citation.as_deref();
    json!({
        "document_id": document_id,
        "column": column.name(),
        "value": cell.value,
        "state": cell.state().as_str(),
        "confidence": cell.confidence,
        "by_agent": cell.author == CellAuthor::Agent,
        "page": citation.map(|citation: &Citation| citation.page),
        "quote": citation.map(|citation| &citation.quote),
    })
}

impl Spool {
    /// Creates a spool with the columns of a stack. `has_details`: with the table of the cells.
    ///
    /// # Errors
    /// `INTERNAL` if the temporary folder cannot be written.
    pub fn of_stack(stack: &Stack, has_details: bool) -> Result<Self> {
        let mut spool = Self::empty();
        let names = stack.columns.iter().map(|column| (column.name().to_owned(), Value::Null));
        spool.declare(TABLE, table_row(String::new(), String::new(), names).columns())?;
        if has_details {
            spool.declare(CELLS, CELL_COLUMNS.map(str::to_owned).into())?;
        }
        Ok(spool)
    }

    /// Adds a row of a stack. Blocks.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub fn add_stack_record(&mut self, record: &StackRecord) -> Result<()> {
        let StackRecord { document_id, document, values, cells } = record;
        let values = values.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut rows = vec![table_row(document_id.clone(), document.clone(), values)];
        for cell in cells.iter().flatten() {
            let members = cell.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
            rows.push(Row { table: CELLS.to_owned(), cells: members.collect() });
        }
        self.add_rows(rows)
    }
}

/// Returns the row of a document. A column of the stack with the name of one of the first two columns gets a suffix.
fn table_row(document_id: String, document: String, values: impl Iterator<Item = (String, Value)>) -> Row {
    let own = [("document".to_owned(), Value::from(document)), ("document_id".to_owned(), Value::from(document_id))];
    let mut row = Row { table: TABLE.to_owned(), cells: own.into_iter().chain(values).collect() };
    row.rename_equal_columns();
    row
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::TableFormat;

    fn stack() -> Stack {
        serde_json::from_value(json!({
            "id": "stk_f30f187168188861899f036152cad603", "org": "org_fa9cb13859228dbe826e977ab9cf66e0", "name": "s",
            "members": { "documents": [] }, "next_column": 3, "version": 1,
            "columns": [
                { "number": 1, "revision": 1, "name": "total", "type": "number" },
                { "number": 2, "revision": 1, "name": "document", "type": "text" },
            ],
            "created_by": "usr_af919444ae068b9db8d1d95740b2cc5d", "created_at": "2026-09-21T14:13:20Z",
            "updated_at": "2026-09-21T14:13:20Z",
        }))
        .unwrap()
    }

    fn record(has_details: bool) -> StackRecord {
        let cell = |value: Value, author: &str| {
            json!({
                "value": value, "author": author, "by": "usr_af919444ae068b9db8d1d95740b2cc5d",
                "at": "2026-09-21T14:13:20Z", "revision": 1,
            })
        };
        let row: StackRow = serde_json::from_value(json!({
            "id": "srw_f30f187168188861899f036152cad603", "org": "org_fa9cb13859228dbe826e977ab9cf66e0",
            "stack": "stk_f30f187168188861899f036152cad603", "document": "doc_787d98d06bf185a7a3acc794b27be98d",
            "cells": { "1": cell(json!(957.5), "agent"), "2": cell(json!("=A1"), "person") },
            "created_by": "usr_af919444ae068b9db8d1d95740b2cc5d", "created_at": "2026-09-21T14:13:20Z",
            "updated_at": "2026-09-21T14:13:20Z", "version": 1,
        }))
        .unwrap();
        StackRecord::new(&stack(), &row, "a.pdf", has_details)
    }

    #[test]
    fn a_table_has_a_column_for_each_one_of_the_stack_and_no_formulas() {
        let csv = |records: &[StackRecord]| {
            let mut spool = Spool::of_stack(&stack(), false).unwrap();
            records.iter().for_each(|record| spool.add_stack_record(record).unwrap());
            let mut text = String::new();
            spool.finish(TableFormat::Csv).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let header = "document,document_id,total,document~2\n";
        assert_eq!(csv(&[]), header);
        let expected = format!("{header}a.pdf,doc_787d98d06bf185a7a3acc794b27be98d,957.5,'=A1\n");
        assert_eq!(csv(&[record(false)]), expected);
    }

    #[test]
    fn details_are_a_table_of_their_own() {
        let record = record(true);
        let cells = record.cells.as_ref().unwrap();
        let names: Vec<&str> = cells[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, CELL_COLUMNS);
        assert_eq!((&cells[0]["state"], &cells[1]["state"]), (&json!("filled"), &json!("edited")));
        let mut spool = Spool::of_stack(&stack(), true).unwrap();
        spool.add_stack_record(&record).unwrap();
        let archive = zip::ZipArchive::new(spool.finish(TableFormat::Csv).unwrap()).unwrap();
        assert_eq!(archive.len(), 2);
    }
}
