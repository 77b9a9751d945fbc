//! Exports of extractions and of the tables of stacks: JSON, JSON lines, CSV and XLSX.
//!
//! JSON formats are written record by record. CSV and XLSX need all columns before the first row: a [`Spool`] collects the
//! rows in temporary files and then writes the file, so the memory of an export is bounded by a record and the names of its
//! columns. The files of dictionaries ([`read_dictionary`]) have fixed columns and need no spool.

mod csv_file;
mod dictionary;
mod record;
mod spool;
mod stack_record;
mod table;
mod xlsx_file;

use std::collections::HashSet;

pub use dictionary::{DictionaryFormat, DictionaryRow, dictionary_header, dictionary_lines, read_dictionary};
pub use record::Record;
pub use spool::{COLUMNS_MAX, SPOOL_BYTES, Spool, TABLES_MAX};
pub use stack_record::StackRecord;

/// A format with tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// One CSV file (RFC 4180), or a ZIP archive of CSV files if there are several tables.
    Csv,
    /// A workbook with a sheet for each table.
    Xlsx,
}

/// Returns a name that is not in `names`, ignoring case, and adds it to `names`. The name is the start of `base`, with a suffix
/// such as `~2` if that start is already in `names`.
fn unused_name(base: &str, max_chars: usize, names: &mut HashSet<String>) -> String {
    for number in 1.. {
        let suffix = if number == 1 { String::new() } else { format!("~{number}") };
        let kept = max_chars.saturating_sub(suffix.len());
        let name: String = base.chars().take(kept).chain(suffix.chars()).collect();
        if names.insert(name.to_lowercase()) {
            return name;
        }
    }
    base.to_owned()
}

/// Creates a file without a name in the temporary folder. Blocks.
///
/// # Errors
/// `INTERNAL` if the temporary folder cannot be written.
pub fn temporary_file() -> folio_types::Result<std::fs::File> {
    tempfile::tempfile().map_err(io_error)
}

/// Returns the error of a failed access to a file of an export.
pub fn io_error(error: std::io::Error) -> folio_types::Error {
    folio_types::Error::internal(format!("a file of the export failed: {error}"))
}
