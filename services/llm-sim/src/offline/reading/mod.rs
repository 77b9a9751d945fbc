//! Reading a document's text by rules: labelled values and tables. Works on text as it comes out of PDF, OCR, CSV and
//! Markdown; knows the usual labels of business papers in some languages, and takes other labels as they are.

mod dates;
mod labels;
mod letters;
mod lines;
mod numbers;
mod tables;

use serde_json::Value;

pub use labels::{canonical, is_identifier, snake, tokens};
pub use numbers::currency;

/// Fields of a document at most; what comes after is left out.
const FIELDS_MAX: usize = 60;
/// Lines that are read at most.
const LINES_MAX: usize = 20_000;
/// Characters of a line that is looked at; a longer one is prose or worse.
const LINE_CHARS: usize = 600;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The heading, if there is one.
    pub title: Option<String>,
    /// Labelled values, in order, labels made unique.
    pub fields: Vec<Field>,
    /// Tables, in order.
    pub tables: Vec<Table>,
    /// The ISO code of the currency of the amounts, if it shows.
    pub currency: Option<&'static str>,
    /// How numbers and dates are written.
    pub style: Style,
}

/// A labelled value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The label as printed.
    pub label: String,
    /// The value as printed.
    pub value: String,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The columns' labels.
    pub columns: Vec<String>,
    /// The rows: as many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// How a document writes numbers and dates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// `1.234,56` rather than `1,234.56`.
    pub comma_decimal: bool,
    /// `03/17/2026` rather than `17/03/2026`, where it could be either.
    pub month_first: bool,
}

/// What kind of value a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number, an amount, a percentage.
    Number,
    /// A date.
    Date,
    /// Anything else.
    Text,
}

impl Style {
    /// The style of a text.
    fn of(text: &str) -> Self {
        Self { comma_decimal: numbers::prefers_comma(text), month_first: dates::prefers_month_first(text) }
    }

    /// The text as a number, if it is one.
    pub fn number(self, text: &str) -> Option<Value> {
        numbers::number(text, self)
    }

    /// The text as a date (`YYYY-MM-DD`), if it is one.
    pub fn date(self, text: &str) -> Option<String> {
        dates::date(text, self)
    }

    /// What kind of value stands under a label.
    pub fn kind(self, label: &str, value: &str) -> Kind {
        if self.date(value).is_some() {
            Kind::Date
        } else if !is_identifier(label) && self.number(value).is_some() {
            Kind::Number
        } else {
            Kind::Text
        }
    }
}

/// Reads a text.
pub fn read(text: &str) -> Reading {
    let style = Style::of(text);
    let cleaned: Vec<String> = text
        .lines()
        .take(LINES_MAX)
        .map(|line| if line.chars().count() > LINE_CHARS { String::new() } else { lines::clean(line) })
        .filter(|line| !lines::is_mark(line))
        .collect();
    let mut rest: Vec<&str> = cleaned.iter().map(String::as_str).collect();
    let (tables, listed) = tables::take(&mut rest, style);
    let title = lines::title(&rest);
    let mut fields = listed;
    fields.extend(lines::fields(&rest, style));
    letters::add(&mut fields, &rest, style);
    let fields = unique(fields);
    let named = fields.iter().find(|field| canonical(&field.label) == Some("currency"));
    let named = named.and_then(|field| currency(&field.value));
    let amounts =
        fields.iter().map(|field| &field.value).chain(tables.iter().flat_map(|table| table.rows.iter().flatten()));
    let shown = amounts.filter(|value| style.number(value).is_some()).find_map(|value| currency(value));
    Reading { title, fields, tables, currency: named.or(shown).or_else(|| currency_of_prose(&cleaned)), style }
}

/// The currency in a column's heading or in prose, such as "all amounts in EUR".
fn currency_of_prose(lines: &[String]) -> Option<&'static str> {
    lines.iter().flat_map(|line| line.split_whitespace()).find_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        (word.len() == 3 && word.chars().all(|c| c.is_ascii_uppercase())).then(|| currency(word)).flatten()
    })
}

/// Labels made unique: the same label and value once, another value under the same label with a number.
fn unique(fields: Vec<Field>) -> Vec<Field> {
    let mut kept: Vec<Field> = Vec::new();
    for mut field in fields {
        if kept.len() >= FIELDS_MAX || kept.contains(&field) {
            continue;
        }
        let same = |kept: &[Field], label: &str| kept.iter().any(|other| snake(&other.label) == snake(label));
        let label = field.label.clone();
        let mut number = 2;
        while same(&kept, &field.label) {
            field.label = format!("{label} {number}");
            number += 1;
        }
        kept.push(field);
    }
    kept
}

#[cfg(test)]
mod tests;
