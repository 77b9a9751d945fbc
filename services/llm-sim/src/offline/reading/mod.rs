//! Reads a document's text by rules: labelled values and tables. Handles text of PDF, OCR, CSV and Markdown. The
//! vocabulary contains the usual labels of business documents in some languages. Other labels stay as printed.

mod correspondence;
mod label_types;
mod labelled_values;
mod labels;
mod tables;

use folio_types::notation::{Style, currency};

pub(crate) use label_types::accepts;
pub use labels::{canonical, is_identifier, property_name, tokens};

/// Maximum fields of a document. Further fields are omitted.
const FIELDS_MAX: usize = 60;
/// Maximum lines that are read.
const LINES_MAX: usize = 20_000;
/// Maximum length of a line, in characters. Longer lines are skipped as prose.
const LINE_CHARS: usize = 600;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Heading. None: not found.
    pub title: Option<String>,
    /// Labelled values in document order, with unique labels.
    pub fields: Vec<Field>,
    /// Tables in document order.
    pub tables: Vec<Table>,
    /// ISO code of the currency of the amounts. None: not found.
    pub currency: Option<&'static str>,
    pub style: Style,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Label as printed.
    pub label: String,
    /// Value as printed.
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    /// Rows with one cell per column.
    pub rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number, an amount or a percentage.
    Number,
    Date,
    /// Any other text.
    Text,
}

/// Returns the type of the value of a label in a document of this style.
pub fn value_kind(style: Style, label: &str, value: &str) -> Kind {
    if style.date(value).is_some() {
        Kind::Date
    } else if !is_identifier(label) && style.number(value).is_some() {
        Kind::Number
    } else {
        Kind::Text
    }
}

pub fn read(text: &str) -> Reading {
    let style = Style::of(text);
    let cleaned: Vec<String> = text
        .lines()
        .take(LINES_MAX)
        .map(|line| if line.chars().count() > LINE_CHARS { String::new() } else { labelled_values::clean(line) })
        .filter(|line| !labelled_values::is_mark(line))
        .collect();
    let mut rest: Vec<&str> = cleaned.iter().map(String::as_str).collect();
    let (tables, mut fields) = tables::take(&mut rest, style);
    let title = labelled_values::title(&rest);
    fields.extend(labelled_values::fields(&rest, style));
    fields.retain(|field| accepts(&field.label, &field.value, style));
    correspondence::add(&mut fields, &rest, style);
    let fields = unique(fields);
    let named = fields.iter().find(|field| canonical(&field.label) == Some("currency"));
    let named = named.and_then(|field| currency(&field.value));
    let amounts =
        fields.iter().map(|field| &field.value).chain(tables.iter().flat_map(|table| table.rows.iter().flatten()));
    let shown = amounts.filter(|value| style.number(value).is_some()).find_map(|value| currency(value));
    Reading { title, fields, tables, currency: named.or(shown).or_else(|| currency_of_prose(&cleaned)), style }
}

/// Returns the currency in a column heading or in prose, such as "all amounts in EUR".
fn currency_of_prose(lines: &[String]) -> Option<&'static str> {
    lines.iter().flat_map(|line| line.split_whitespace()).find_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        (word.len() == 3 && word.chars().all(|c| c.is_ascii_uppercase())).then(|| currency(word)).flatten()
    })
}

/// Makes labels unique: duplicates are removed, and another value of the same label gets a number.
fn unique(fields: Vec<Field>) -> Vec<Field> {
    let mut found: Vec<Field> = Vec::new();
    for mut field in fields {
        if found.len() >= FIELDS_MAX || found.contains(&field) {
            continue;
        }
        let is_used = |found: &[Field], label: &str| {
            found.iter().any(|other| property_name(&other.label) == property_name(label))
        };
        let label = field.label.clone();
        let mut number = 2;
        while is_used(&found, &field.label) {
            field.label = format!("{label} {number}");
            number += 1;
        }
        found.push(field);
    }
    found
}

#[cfg(test)]
mod tests;
