//! XLSX workbooks.

use std::collections::HashSet;
use std::fs::File;
use std::io::Seek as _;

use folio_types::{Error, Result};
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};
use serde_json::Value;

use crate::spool::{SpooledTable, too_large};
use crate::{io_error, unused_name};

/// Maximum number of rows of a sheet, with the header.
const ROWS_MAX: u64 = 1_048_576;
/// Maximum length of a cell, in UTF-16 code units.
// proto: ExportFormat.EXPORT_FORMAT_XLSX "after {} characters"
const CELL_UNITS: usize = 32_767;
/// Maximum length of the name of a sheet, in characters.
const SHEET_NAME_CHARS: usize = 31;
/// Integers up to this size are exact in a spreadsheet.
const EXACT_INTEGER: u64 = 1 << 53;

/// Writes a sheet for each table.
pub(crate) fn write(tables: Vec<SpooledTable>) -> Result<File> {
    let mut workbook = Workbook::new();
    let mut names = HashSet::new();
    for table in tables {
        if table.rows >= ROWS_MAX {
            return Err(too_large(format!("the table {} has more rows than a sheet permits: {ROWS_MAX}", table.name)));
        }
        let name = sheet_name(&table.name, &mut names);
        let sheet = workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        sheet.set_name(name).map_err(failed)?;
        write_table(table, sheet)?;
    }
    let mut file = tempfile::tempfile().map_err(io_error)?;
    workbook.save_to_writer(&mut file).map_err(failed)?;
    file.rewind().map_err(io_error)?;
    Ok(file)
}

fn failed(error: XlsxError) -> Error {
    Error::internal(format!("the export cannot be written: {error}"))
}

fn write_table(table: SpooledTable, sheet: &mut Worksheet) -> Result<()> {
    let bold = Format::new().set_bold();
    sheet.set_freeze_panes(1, 0).map_err(failed)?;
    for (column, name) in (0..).zip(&table.columns) {
        sheet.write_string_with_format(0, column, cut(name), &bold).map_err(failed)?;
    }
    let mut row = 0;
    table.for_each(|_, cells| {
        row += 1;
        for (column, value) in (0..).zip(&cells) {
            write_cell(sheet, row, column, value).map_err(failed)?;
        }
        Ok(())
    })
}

/// Writes a cell. A text is never read as a formula. An integer that a spreadsheet would round is written as a text.
fn write_cell(sheet: &mut Worksheet, row: u32, column: u16, value: &Value) -> Result<(), XlsxError> {
    match value {
        Value::Null => {}
        Value::Bool(value) => drop(sheet.write_boolean(row, column, *value)?),
        Value::Number(number) => {
            let is_exact = number.as_i64().is_none_or(|number| number.unsigned_abs() <= EXACT_INTEGER)
                && number.as_u64().is_none_or(|number| number <= EXACT_INTEGER);
            match number.as_f64().filter(|number| is_exact && number.is_finite()) {
                Some(number) => drop(sheet.write_number(row, column, number)?),
                None => drop(sheet.write_string(row, column, number.to_string())?),
            }
        }
        Value::String(text) => drop(sheet.write_string(row, column, cut(text))?),
        other => drop(sheet.write_string(row, column, cut(&other.to_string()))?),
    }
    Ok(())
}

/// Returns the start of a text that fits into a cell.
fn cut(text: &str) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= CELL_UNITS
    };
    text.chars().take_while(fits).collect()
}

/// Returns a name that a workbook accepts and that no other sheet has, ignoring the case.
fn sheet_name(table: &str, names: &mut HashSet<String>) -> String {
    let safe =
        |c: char| if matches!(c, '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\'') || c.is_control() { '_' } else { c };
    let base: String = table.strip_prefix("data.").unwrap_or(table).chars().map(safe).collect();
    let base = if base.is_empty() { "table".to_owned() } else { base };
    unused_name(&base, SHEET_NAME_CHARS, names)
}
