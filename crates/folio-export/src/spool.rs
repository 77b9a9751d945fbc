//! The rows of an export in temporary files, until all columns are known.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};

use folio_types::{Error, Reason, Result};
use serde_json::{Map, Value};

use crate::table::{EXTRACTIONS, ID, Row, rows};
use crate::{Record, TableFormat, csv_file, io_error, xlsx_file};

/// Maximum size of the rows of an export with tables, in bytes.
// proto: DownloadExtractionsRequest.format "at most {} MiB"
pub const SPOOL_BYTES: usize = 256 * 1024 * 1024;
/// Maximum number of tables of an export.
pub const TABLES_MAX: usize = 100;
/// Maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 2_000;
/// Maximum number of cells of all tables. Empty cells count, because each one is a byte of a CSV file.
const CELLS_MAX: u64 = 256 * 1024 * 1024;

/// The rows of a table in a temporary file, one JSON object per line.
pub(crate) struct SpooledTable {
    pub(crate) name: String,
    /// The columns in the order of their first occurrence.
    pub(crate) columns: Vec<String>,
    known: HashSet<String>,
    file: BufWriter<File>,
    pub(crate) rows: u64,
}

/// Collects the rows of an export.
pub struct Spool {
    tables: Vec<SpooledTable>,
    by_name: HashMap<String, usize>,
    bytes: usize,
}

impl Spool {
    /// # Errors
    /// `INTERNAL` if the temporary folder cannot be written.
    pub fn new() -> Result<Self> {
        let mut spool = Self::empty();
        // A file without rows has a header.
        let table = spool.table(EXTRACTIONS)?;
        table.known.insert(ID.to_owned());
        table.columns.push(ID.to_owned());
        Ok(spool)
    }

    pub(crate) fn empty() -> Self {
        Self { tables: Vec::new(), by_name: HashMap::new(), bytes: 0 }
    }

    /// Adds a table with these columns, so that a file without rows has a header.
    pub(crate) fn declare(&mut self, name: &str, columns: Vec<String>) -> Result<()> {
        let table = self.table(name)?;
        for column in columns {
            if table.known.insert(column.clone()) {
                table.columns.push(column);
            }
        }
        Ok(())
    }

    fn table(&mut self, name: &str) -> Result<&mut SpooledTable> {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => {
                if self.tables.len() >= TABLES_MAX {
                    return Err(too_large(format!("the export has more than {TABLES_MAX} tables")));
                }
                let file = BufWriter::new(tempfile::tempfile().map_err(io_error)?);
                let (name, columns, known) = (name.to_owned(), Vec::new(), HashSet::new());
                self.by_name.insert(name.clone(), self.tables.len());
                self.tables.push(SpooledTable { name, columns, known, file, rows: 0 });
                self.tables.len() - 1
            }
        };
        self.tables.get_mut(at).ok_or_else(|| Error::internal("a table of the export is missing"))
    }

    /// Adds a record. Blocks.
    ///
    /// # Errors
    /// `TOO_LARGE` beyond [`SPOOL_BYTES`], [`TABLES_MAX`] or [`COLUMNS_MAX`].
    pub fn add(&mut self, record: &Record) -> Result<()> {
        self.add_rows(rows(record))
    }

    /// Adds rows. Errors: those of [`Self::add`].
    pub(crate) fn add_rows(&mut self, rows: Vec<Row>) -> Result<()> {
        for row in rows {
            let (name, columns) = (row.table.clone(), row.columns());
            let cells = row.into_object();
            let mut line = serde_json::to_vec(&cells).map_err(|error| Error::internal(error.to_string()))?;
            line.push(b'\n');
            self.bytes = self.bytes.saturating_add(line.len());
            if self.bytes > SPOOL_BYTES {
                let message = format!(
                    "the rows of the export exceed {} MiB; narrow the filter, or use JSON lines",
                    SPOOL_BYTES >> 20
                );
                return Err(too_large(message));
            }
            let table = self.table(&name)?;
            for column in columns {
                if table.known.insert(column.clone()) {
                    table.columns.push(column);
                }
            }
            if table.columns.len() > COLUMNS_MAX {
                return Err(too_large(format!("the table {name} has more than {COLUMNS_MAX} columns; use JSON lines")));
            }
            table.rows += 1;
            table.file.write_all(&line).map_err(io_error)?;
        }
        Ok(())
    }

    /// Writes the file of the export. Returns it with the position at its start. Blocks.
    ///
    /// # Errors
    /// `TOO_LARGE` if a table has more rows than the format permits, or if the tables have more than `CELLS_MAX` cells.
    pub fn finish(self, format: TableFormat) -> Result<File> {
        check_cells(self.tables.iter().map(|table| (table.rows, table.columns.len())))?;
        let mut file = match format {
            TableFormat::Csv => csv_file::write(self.tables)?,
            TableFormat::Xlsx => xlsx_file::write(self.tables)?,
        };
        file.rewind().map_err(io_error)?;
        Ok(file)
    }
}

/// Checks the numbers of rows and columns of tables. Error: `TOO_LARGE`.
fn check_cells(tables: impl Iterator<Item = (u64, usize)>) -> Result<()> {
    let cells = tables.map(|(rows, columns)| rows.saturating_mul(u64::try_from(columns).unwrap_or(u64::MAX)));
    if cells.fold(0, u64::saturating_add) <= CELLS_MAX {
        return Ok(());
    }
    Err(too_large(format!(
        "the tables of the export have more than {CELLS_MAX} cells; narrow the filter, or use JSON lines"
    )))
}

pub(crate) fn too_large(message: String) -> Error {
    Error::invalid(Reason::TooLarge, message)
}

impl SpooledTable {
    /// Calls `row` with the cells of each row, by the columns of the table.
    pub(crate) fn for_each(self, mut row: impl FnMut(&[String], Vec<Value>) -> Result<()>) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|error| io_error(error.into_error()))?;
        file.rewind().map_err(io_error)?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(io_error)?;
            let mut cells: Map<String, Value> =
                serde_json::from_str(&line).map_err(|error| Error::internal(error.to_string()))?;
            let cells = self.columns.iter().map(|column| cells.remove(column).unwrap_or_default()).collect();
            row(&self.columns, cells)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use calamine::{Data, Reader as _, Xlsx};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::table::tests::record;

    fn exported(data: &[Value], format: TableFormat) -> Vec<u8> {
        let mut spool = Spool::new().unwrap();
        data.iter().for_each(|data| spool.add(&record(data.clone())).unwrap());
        let mut bytes = Vec::new();
        spool.finish(format).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn archive(bytes: Vec<u8>) -> Vec<(String, String)> {
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
        let count = archive.len();
        let read = |at| {
            let mut text = String::new();
            let mut file = archive.by_index(at).unwrap();
            file.read_to_string(&mut text).unwrap();
            (file.name().unwrap().into_owned(), text)
        };
        (0..count).map(read).collect()
    }

    const COLUMNS: &str =
        "extraction_id,document,document_id,prompt_revid,schema_revid,model,verified,create_time,update_time,state";
    const CELLS: &str = "ext_1,a.pdf,doc_1,prm_1.1,,model,true,2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,completed";

    #[test]
    fn a_csv_file_has_the_columns_of_all_records_and_no_formulas() {
        let data = [json!({"total": 1.5, "name": "=A1"}), json!({"name": "a, \"b\"", "note": "-"})];
        let text = String::from_utf8(exported(&data, TableFormat::Csv)).unwrap();
        let expected =
            format!("{COLUMNS},data.total,data.name,data.note\n{CELLS},1.5,'=A1,\n{CELLS},,\"a, \"\"b\"\"\",'-\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn several_tables_are_an_archive_of_csv_files() {
        let files = archive(exported(&[json!({"items": [{"a": 1}, {"b": "x"}]})], TableFormat::Csv));
        assert_eq!(files[0], ("extractions.csv".to_owned(), format!("{COLUMNS}\n{CELLS}\n")));
        assert_eq!(
            files[1],
            ("data.items.csv".to_owned(), "extraction_id,index,a,b\next_1,0,1,\next_1,1,,x\n".to_owned())
        );
        let files = archive(exported(&[json!({"../../x": [{"a": 1}]})], TableFormat::Csv));
        assert_eq!(files[1].0, "data..._.._x.csv");
        let files = archive(exported(&[json!({"x": 1, "a/b": [{"a": 1}], "A b": [{"a": 1}]})], TableFormat::Csv));
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["extractions.csv", "data.a_b.csv", "data.A_b~2.csv"]);
    }

    #[test]
    fn a_workbook_has_a_sheet_for_each_table_with_typed_cells() {
        let large = json!({"items": [{"exact": 9_007_199_254_740_993_u64, "price": 1.5, "text": "=1+1", "no": null, "yes": true}]});
        let mut book: Xlsx<_> = Xlsx::new(std::io::Cursor::new(exported(&[large], TableFormat::Xlsx))).unwrap();
        assert_eq!(book.sheet_names(), ["extractions", "items"]);
        let sheet = book.worksheet_range("items").unwrap();
        let row: Vec<Data> = sheet.rows().nth(1).unwrap().to_vec();
        let text = |text: &str| Data::String(text.to_owned());
        let expected = [
            text("ext_1"),
            text("0"),
            text("9007199254740993"),
            Data::Float(1.5),
            text("=1+1"),
            Data::Empty,
            Data::Bool(true),
        ];
        assert_eq!(row, expected);
    }

    #[test]
    fn tables_with_equal_names_have_different_sheets() {
        let long = "x".repeat(40);
        let data =
            json!({ long.clone(): [{"a": 1}], format!("{long}y"): [{"a": 1}], "A/b": [{"a": 1}], "a_B": [{"a": 1}] });
        let book: Xlsx<_> = Xlsx::new(std::io::Cursor::new(exported(&[data], TableFormat::Xlsx))).unwrap();
        let names =
            ["extractions", &"x".repeat(31), &format!("{}~2", "x".repeat(29)), "A_b", "a_B~2"].map(str::to_owned);
        assert_eq!(book.sheet_names(), names);
    }

    #[test]
    fn an_empty_export_has_no_rows() {
        assert_eq!(exported(&[], TableFormat::Csv), b"extraction_id\n");
        assert!(!exported(&[], TableFormat::Xlsx).is_empty());
    }

    #[test]
    fn tables_and_columns_are_bounded() {
        let many = |count: usize, value: Value| {
            Value::Object((0..count).map(|at| (format!("m{at}"), value.clone())).collect())
        };
        for data in [many(TABLES_MAX, json!([{"a": 1}])), many(COLUMNS_MAX, json!(1))] {
            let refused = Spool::new().unwrap().add(&record(data)).unwrap_err();
            assert_eq!(refused.reason, Reason::TooLarge);
        }
    }

    #[test]
    fn cells_are_bounded() {
        let check = |tables: &[(u64, usize)]| check_cells(tables.iter().copied()).map_err(|error| error.reason);
        assert_eq!(check(&[(CELLS_MAX / 2, 1), (CELLS_MAX / 4, 2)]), Ok(()));
        assert_eq!(check(&[(CELLS_MAX / 2, 1), (CELLS_MAX / 4, 2), (1, 1)]), Err(Reason::TooLarge));
        assert_eq!(check(&[(u64::MAX, 2)]), Err(Reason::TooLarge));
    }

    proptest! {
        #[test]
        fn each_scalar_of_a_record_is_in_its_csv(values in prop::collection::vec("[a-z]{1,6}", 1..6)) {
            let data = json!({ "list": values.iter().map(|value| json!({ "v": value })).collect::<Vec<_>>() });
            let files = archive(exported(&[data], TableFormat::Csv));
            let lines: Vec<&str> = files[1].1.lines().skip(1).collect();
            let expected: Vec<String> = values.iter().enumerate().map(|(at, value)| format!("ext_1,{at},{value}")).collect();
            prop_assert_eq!(lines, expected);
        }
    }
}
