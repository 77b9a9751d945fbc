//! Files with the entries of a dictionary: JSON lines and CSV, for exports and imports.
//!
//! Both directions have the same columns, so that an import restores an export. Rows are hostile input: a row that cannot be
//! read is reported by itself.

use folio_resources::{DictionaryEntry, TAG_SEPARATOR};
use folio_types::{Error, Reason, Result};
use serde::{Deserialize, Serialize};

use crate::csv_file::{cell, restored};

/// The columns of a CSV file, and the members of an object in JSON lines.
const COLUMNS: [&str; 7] =
    ["term", "expansion", "disambiguation", "tags", "source_document_ids", "provenance", "confidence"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum DictionaryFormat {
    /// An object in each line.
    JsonLines,
    Csv,
}

/// A row of a file. None: the row omits the value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DictionaryRow {
    pub term: String,
    pub expansion: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disambiguation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_document_ids: Option<Vec<String>>,
    /// The name of a kind of provenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

impl From<&DictionaryEntry> for DictionaryRow {
    fn from(entry: &DictionaryEntry) -> Self {
        Self {
            term: entry.term.clone(),
            expansion: entry.expansion.clone(),
            disambiguation: Some(entry.disambiguation.clone().unwrap_or_default()),
            tags: Some(entry.tags.clone()),
            source_document_ids: Some(entry.sources.iter().map(ToString::to_string).collect()),
            provenance: Some(entry.provenance.name().to_owned()),
            confidence: entry.provenance.confidence(),
        }
    }
}

/// Returns the start of a file: the names of the columns of a CSV file.
///
/// # Errors
/// `INTERNAL`
pub fn dictionary_header(format: DictionaryFormat) -> Result<Vec<u8>> {
    match format {
        DictionaryFormat::JsonLines => Ok(Vec::new()),
        DictionaryFormat::Csv => csv_lines([COLUMNS.map(str::to_owned)]),
    }
}

/// Returns rows as lines of a file. In CSV, no cell is a formula of a spreadsheet.
///
/// # Errors
/// `INTERNAL`
pub fn dictionary_lines(format: DictionaryFormat, rows: &[DictionaryRow]) -> Result<Vec<u8>> {
    if format == DictionaryFormat::Csv {
        return csv_lines(rows.iter().map(cells));
    }
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row).map_err(not_written)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

fn cells(row: &DictionaryRow) -> [String; 7] {
    let list = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(&TAG_SEPARATOR.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        row.term.clone(),
        row.expansion.clone(),
        text(&row.disambiguation),
        list(&row.tags),
        list(&row.source_document_ids),
        text(&row.provenance),
        row.confidence.map(|confidence| confidence.to_string()).unwrap_or_default(),
    ]
}

fn csv_lines(rows: impl IntoIterator<Item = [String; 7]>) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.map(|text| cell(&text.into()))).map_err(not_written)?;
    }
    writer.into_inner().map_err(not_written)
}

fn not_written(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("the export cannot be written: {error}"))
}

/// Reads the rows of a file. A row that cannot be read is an error of its own. Blank lines are skipped.
///
/// # Errors
/// `INVALID_FIELD` of `field` if the file has more than `max` rows, or the columns of a CSV file are not those of a dictionary.
pub fn read_dictionary(
    field: &str,
    format: DictionaryFormat,
    content: &str,
    max: usize,
) -> Result<Vec<Result<DictionaryRow>>> {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let rows = match format {
        DictionaryFormat::JsonLines => {
            let lines = content.lines().filter(|line| !line.trim().is_empty());
            lines.take(max.saturating_add(1)).map(json_row).collect()
        }
        DictionaryFormat::Csv => csv_rows(field, content, max)?,
    };
    if rows.len() > max {
        let problem = format!("has more than {max} rows; import the file in parts");
        return Err(Error::invalid_field(field, problem).with_reason(Reason::TooLarge));
    }
    Ok(rows)
}

fn unreadable(problem: impl std::fmt::Display) -> Error {
    Error::invalid(Reason::InvalidField, format!("the row cannot be read: {problem}"))
}

fn json_row(line: &str) -> Result<DictionaryRow> {
    let value = folio_types::json::read(line).map_err(unreadable)?;
    DictionaryRow::deserialize(value).map_err(unreadable)
}

/// Reads at most one row more than `max`.
fn csv_rows(field: &str, content: &str, max: usize) -> Result<Vec<Result<DictionaryRow>>> {
    let mut reader = csv::ReaderBuilder::new().from_reader(content.as_bytes());
    let invalid = |problem: String| Error::invalid_field(field, problem);
    let columns: Vec<String> = reader
        .headers()
        .map_err(|error| invalid(format!("the names of the columns cannot be read: {error}")))?
        .iter()
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for (index, column) in columns.iter().enumerate() {
        if !COLUMNS.contains(&column.as_str()) || columns.iter().take(index).any(|earlier| earlier == column) {
            let known = COLUMNS.join(", ");
            let excerpt: String = column.chars().take(40).collect();
            return Err(invalid(format!("the column {excerpt:?} is unknown or repeated; the columns are {known}")));
        }
    }
    if let Some(missing) = COLUMNS.iter().take(2).find(|column| !columns.iter().any(|found| found == *column)) {
        return Err(invalid(format!("the first row must name the columns; {missing} is missing")));
    }
    let rows = reader.records().take(max.saturating_add(1));
    Ok(rows.map(|record| csv_row(&columns, &record.map_err(unreadable)?)).collect())
}

fn csv_row(columns: &[String], record: &csv::StringRecord) -> Result<DictionaryRow> {
    let text = |name: &str| {
        let position = columns.iter().position(|column| column == name)?;
        record.get(position).map(restored)
    };
    let list = |name: &str| {
        let cell = text(name)?;
        Some(cell.split(TAG_SEPARATOR).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    };
    let filled = |name: &str| text(name).filter(|cell| !cell.trim().is_empty());
    Ok(DictionaryRow {
        term: text("term").unwrap_or_default(),
        expansion: text("expansion").unwrap_or_default(),
        disambiguation: text("disambiguation"),
        tags: list("tags"),
        source_document_ids: list("source_document_ids"),
        provenance: filled("provenance"),
        confidence: filled("confidence")
            .map(|cell| cell.trim().parse())
            .transpose()
            .map_err(|_| unreadable("confidence is not a number"))?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [DictionaryFormat; 2] = [DictionaryFormat::JsonLines, DictionaryFormat::Csv];

    fn row() -> DictionaryRow {
        DictionaryRow {
            term: "MY".to_owned(),
            expansion: "Malaysia, \"the country\"".to_owned(),
            disambiguation: Some("In texts of sales.\nNot the pronoun.".to_owned()),
            tags: Some(vec!["APAC".to_owned(), "Sales".to_owned()]),
            source_document_ids: Some(vec!["doc_1".to_owned()]),
            provenance: Some("inferred".to_owned()),
            confidence: Some(0.75),
        }
    }

    fn file(format: DictionaryFormat, rows: &[DictionaryRow]) -> String {
        let bytes = [dictionary_header(format).unwrap(), dictionary_lines(format, rows).unwrap()].concat();
        String::from_utf8(bytes).unwrap()
    }

    fn read(format: DictionaryFormat, content: &str) -> Vec<DictionaryRow> {
        let rows = read_dictionary("content", format, content, 100).unwrap();
        rows.into_iter().collect::<Result<_>>().unwrap()
    }

    #[test]
    fn an_import_restores_an_export() {
        let formula = DictionaryRow {
            term: "=A1".to_owned(),
            expansion: "@cmd; =1+1".to_owned(),
            disambiguation: Some(String::new()),
            tags: Some(vec!["-5".to_owned(), "+x".to_owned()]),
            source_document_ids: Some(Vec::new()),
            provenance: Some("person".to_owned()),
            confidence: None,
        };
        let rows = [row(), formula];
        for format in FORMATS {
            assert_eq!(read(format, &file(format, &rows)), rows, "{format:?}");
        }
    }

    #[test]
    fn no_cell_of_a_csv_file_is_a_formula() {
        let hostile = DictionaryRow {
            term: "=cmd()".to_owned(),
            expansion: "+1".to_owned(),
            disambiguation: Some("@a\n-b".to_owned()),
            tags: Some(vec!["x".to_owned(), "=2".to_owned()]),
            ..row()
        };
        let text = file(DictionaryFormat::Csv, &[hostile]);
        assert_eq!(text.lines().nth(1).unwrap(), "'=cmd(),'+1,\"'@a", "{text}");
        assert!(text.contains("'-b") && text.contains("x;'=2"), "{text}");
    }

    #[test]
    fn a_csv_file_may_omit_columns_and_reorder_them() {
        let rows = read(DictionaryFormat::Csv, "\u{feff}Expansion, term\r\nMalaysia,MY\r\n\r\n");
        let expected =
            DictionaryRow { term: "MY".to_owned(), expansion: "Malaysia".to_owned(), ..DictionaryRow::default() };
        assert_eq!(rows, [expected]);
        let rows = read(DictionaryFormat::Csv, "term,expansion,tags,disambiguation,confidence\nMY,Malaysia,,,\n");
        let (tags, disambiguation) = (&rows[0].tags, &rows[0].disambiguation);
        assert_eq!((tags.as_deref(), disambiguation.as_deref(), rows[0].confidence), (Some(&[][..]), Some(""), None));
    }

    #[test]
    fn an_unreadable_row_does_not_prevent_the_others() {
        for (format, content) in [
            (
                DictionaryFormat::JsonLines,
                "{\"term\": \"A\", \"expansion\": \"a\"}\n\n{\"term\": 1}\n[]\n{\"term\": \"B\", \"expansion\": \"b\", \"x\": 1}\n{\"term\": \"C\", \"expansion\": \"c\"}",
            ),
            (DictionaryFormat::Csv, "term,expansion,confidence\nA,a,\nB\nB,b,much\nB,b,,\nC,c,1\n"),
        ] {
            let rows = read_dictionary("content", format, content, 100).unwrap();
            let terms: Vec<_> = rows.iter().map(|row| row.as_ref().ok().map(|row| row.term.as_str())).collect();
            assert_eq!(terms, [Some("A"), None, None, None, Some("C")], "{format:?}");
        }
    }

    #[test]
    fn a_file_with_unknown_columns_or_too_many_rows_is_refused() {
        for content in ["", "term\nMY\n", "term,expansion,id\n", "term,expansion,Term\n", "MY,Malaysia\n"] {
            let refused = read_dictionary("content", DictionaryFormat::Csv, content, 100).unwrap_err();
            assert_eq!(refused.violations[0].field, "content", "{content:?}");
        }
        for format in FORMATS {
            let content = file(format, &vec![row(); 3]);
            assert_eq!(read_dictionary("content", format, &content, 3).unwrap().len(), 3);
            let refused = read_dictionary("content", format, &content, 2).unwrap_err();
            assert_eq!(refused.reason, Reason::TooLarge, "{format:?}");
        }
        assert!(read_dictionary("content", DictionaryFormat::JsonLines, "", 0).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_content_is_read_without_a_panic(content in "\\PC{0,200}") {
            for format in FORMATS {
                let _ = read_dictionary("content", format, &content, 10);
            }
        }

        #[test]
        fn any_text_is_restored(text in "[^\u{0}-\u{8}]{0,30}|['= \"\t\n;]{0,8}") {
            let written = DictionaryRow { disambiguation: Some(text.clone()), ..row() };
            let read = read(DictionaryFormat::Csv, &file(DictionaryFormat::Csv, &[written]));
            prop_assert_eq!(read[0].disambiguation.as_deref(), Some(text.as_str()));
        }
    }
}
