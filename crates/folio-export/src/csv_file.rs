//! CSV files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek as _, Write};

use folio_types::{Error, Result};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::spool::SpooledTable;
use crate::{io_error, unused_name};

/// Maximum length of the name of a file without its extension, in characters.
const FILE_NAME_CHARS: usize = 100;

/// Characters that make spreadsheets read a text as a formula if the text starts with them, with their full-width forms.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Characters at which a spreadsheet may divide a quoted text: in languages whose lists are separated by semicolons, a line of a
/// CSV file with commas is one cell that does not begin with a quotation mark.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// Writes one table as a CSV file, several as a ZIP archive of CSV files.
pub(crate) fn write(mut tables: Vec<SpooledTable>) -> Result<File> {
    let mut file = tempfile::tempfile().map_err(io_error)?;
    if tables.len() <= 1 {
        for table in tables.drain(..) {
            write_table(table, &mut file)?;
        }
        return Ok(file);
    }
    let failed = |error: zip::result::ZipError| Error::internal(format!("the export cannot be written: {error}"));
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
    let mut names = HashSet::new();
    for table in tables {
        let name = file_name(&table.name, &mut names);
        archive.start_file(format!("{name}.csv"), options).map_err(failed)?;
        write_table(table, &mut archive)?;
    }
    let mut file = archive.finish().map_err(failed)?;
    file.flush().map_err(io_error)?;
    file.rewind().map_err(io_error)?;
    Ok(file)
}

/// Returns a file name that no other file of the archive has, without characters that file systems refuse. The name of a table
/// contains paths of the data, which are hostile input.
fn file_name(table: &str, names: &mut HashSet<String>) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = table.chars().map(safe).collect();
    unused_name(name.trim_start_matches('.'), FILE_NAME_CHARS, names)
}

fn write_table(table: SpooledTable, out: impl Write) -> Result<()> {
    let failed = |error: csv::Error| Error::internal(format!("the export cannot be written: {error}"));
    let mut writer = csv::Writer::from_writer(out);
    let header: Vec<String> = table.columns.iter().map(|column| cell(&Value::from(column.clone()))).collect();
    writer.write_record(header).map_err(failed)?;
    table.for_each(|_, cells| writer.write_record(cells.iter().map(cell)).map_err(failed))?;
    writer.flush().map_err(io_error)
}

/// Returns the text of a cell. In a text, each part that a spreadsheet would read as a formula gets a leading apostrophe, because
/// documents are hostile input.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => without_formulas(text),
        other => other.to_string(),
    }
}

fn without_formulas(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    safe.extend(begins_with_separator(text).then_some('\''));
    for part in text.split_inclusive(SEPARATORS) {
        safe.extend(begins_like_formula(part).then_some('\''));
        safe.push_str(part);
    }
    safe
}

/// Returns true for a text whose start some spreadsheets remove: blanks and a separator. Apostrophes in front of them are skipped, so
/// that a text with such an apostrophe gets another one, and [`restored`] returns it unchanged.
fn begins_with_separator(text: &str) -> bool {
    text.trim_start_matches('\'').trim_start_matches(' ').starts_with(['\t', '\r', '\n'])
}

/// Returns true for a part that a spreadsheet may read as a formula, also behind apostrophes.
fn begins_like_formula(part: &str) -> bool {
    // A quotation mark of the text may be read as one of the CSV file, and the next one as the end of the quoted text.
    part.trim_start_matches('\'').trim_start_matches([' ', '"']).starts_with(FORMULA_STARTS)
}

/// Returns the text of a cell without the apostrophes that [`cell`] adds.
pub(crate) fn restored(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for (index, part) in cell.split_inclusive(SEPARATORS).enumerate() {
        let inner = part
            .strip_prefix('\'')
            .filter(|inner| (index == 0 && begins_with_separator(inner)) || begins_like_formula(inner));
        text.push_str(inner.unwrap_or(part));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_that_begins_like_a_formula_gets_an_apostrophe() {
        for text in ["=A1", "+1", "-1", "@A", "\tA", "\rA", "\nA", " \nA", "＝A1", "＋1", "－1", "＠A", " =A1", "\"=A1"]
        {
            assert_eq!(cell(&json!(text)), format!("'{text}"));
        }
        for (value, text) in [
            (json!("A=1"), "A=1"),
            (json!(" A"), " A"),
            (json!("A; B\nC = 1;\n"), "A; B\nC = 1;\n"),
            (json!("A - B, =C"), "A - B, =C"),
            (json!(-1.5), "-1.5"),
            (json!(null), ""),
            (json!(true), "true"),
        ] {
            assert_eq!(cell(&value), text);
        }
    }

    #[test]
    fn a_part_that_begins_like_a_formula_after_a_separator_gets_an_apostrophe() {
        for (text, expected) in [
            ("x;=A1", "x;'=A1"),
            ("x;  =A1", "x;'  =A1"),
            ("x;\"=A1;", "x;'\"=A1;"),
            ("x\t+1", "x\t'+1"),
            ("x\r\n-1\n@A", "x\r\n'-1\n'@A"),
            ("=1;＝2;3", "'=1;'＝2;3"),
            ("\n=A1", "'\n'=A1"),
            ("'=A1;'\"-1", "''=A1;''\"-1"),
        ] {
            assert_eq!(cell(&json!(text)), expected);
        }
        assert_eq!(cell(&json!(json!(["x;=A1"]).to_string())), "[\"x;'=A1\"]");
    }
}
