//! Scores of extracted values against the truth. Pure.
//!
//! A value that differs from the truth counts against precision and recall. A normalized match is a value in another
//! notation: `1.234,50 EUR` for 1234.5, `17.03.2026` for 2026-03-17. An ambiguous notation (`1.234`, `03/04/2026`)
//! matches if one of its meanings is the expected value.

use std::ops::AddAssign;

use folio_types::notation::{Style, currency};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Result of one labelled field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The expected value. Numbers are compared by value, so that 120 equals 120.0.
    Exact,
    /// The expected value in another notation.
    Normalized,
    /// Another value.
    Wrong,
    /// No value, although the document contains one.
    Missing,
    /// A value, although the document contains none.
    Invented,
    /// No value, as expected.
    Absent,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Normalized => "normalized",
            Self::Wrong => "wrong",
            Self::Missing => "missing",
            Self::Invented => "invented",
            Self::Absent => "absent",
        }
    }
}

/// Returns the outcome of a field. None: the answer does not contain the field. Null, a blank text, an empty list and an
/// empty object are no value, in the truth as well.
pub fn score(expected: &Value, actual: Option<&Value>) -> Outcome {
    let actual = actual.filter(|value| !is_empty(value));
    match (is_empty(expected), actual) {
        (true, None) => Outcome::Absent,
        (true, Some(_)) => Outcome::Invented,
        (false, None) => Outcome::Missing,
        (false, Some(actual)) if matches(expected, actual, equals) => Outcome::Exact,
        (false, Some(actual)) if matches(expected, actual, means) => Outcome::Normalized,
        (false, Some(_)) => Outcome::Wrong,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Compares lists and objects by their members, and other values by `leaf`.
fn matches(expected: &Value, actual: &Value, leaf: fn(&Value, &Value) -> bool) -> bool {
    match (expected, actual) {
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| matches(expected, actual, leaf))
        }
        (Value::Object(expected), Value::Object(actual)) => {
            expected.len() == actual.len()
                && expected
                    .iter()
                    .all(|(name, expected)| actual.get(name).is_some_and(|actual| matches(expected, actual, leaf)))
        }
        _ => leaf(expected, actual),
    }
}

fn equals(expected: &Value, actual: &Value) -> bool {
    match (expected.as_f64(), actual.as_f64()) {
        (Some(expected), Some(actual)) => expected == actual,
        _ => expected == actual,
    }
}

/// Returns true if a value has the expected meaning in some notation.
fn means(expected: &Value, actual: &Value) -> bool {
    if equals(expected, actual) {
        return true;
    }
    match (expected, actual) {
        (Value::Number(_), Value::String(text)) => numbers(text).any(|number| equals(expected, &number)),
        (Value::Bool(expected), Value::String(text)) => text.trim().eq_ignore_ascii_case(&expected.to_string()),
        (Value::String(expected), Value::String(actual)) => text_means(expected, actual),
        // An identifier of digits only.
        (Value::String(expected), Value::Number(actual)) => expected.trim() == actual.to_string(),
        _ => false,
    }
}

fn text_means(expected: &str, actual: &str) -> bool {
    let is_iso_date = dates(expected).any(|date| date == expected);
    if is_iso_date {
        return dates(actual).any(|date| date == expected);
    }
    let is_currency = expected.len() == 3 && currency(expected) == Some(expected);
    let is_sign = !actual.chars().any(|c| c.is_ascii_digit());
    (is_currency && is_sign && currency(actual) == Some(expected)) || folded(expected) == folded(actual)
}

fn numbers(text: &str) -> impl Iterator<Item = Value> {
    Style::all().into_iter().filter_map(move |style| style.number(text))
}

fn dates(text: &str) -> impl Iterator<Item = String> {
    Style::all().into_iter().filter_map(move |style| style.date(text))
}

/// Returns a text in lower case, with single blanks and without punctuation at its ends.
fn folded(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_matches(|c: char| matches!(c, '.' | ',' | ';' | ':' | '"' | '\'' | ' ')).to_lowercase()
}

/// Numbers of outcomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub exact: u32,
    pub normalized: u32,
    pub wrong: u32,
    pub missing: u32,
    pub invented: u32,
    pub absent: u32,
}

impl Counts {
    pub fn add(&mut self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Exact => &mut self.exact,
            Outcome::Normalized => &mut self.normalized,
            Outcome::Wrong => &mut self.wrong,
            Outcome::Missing => &mut self.missing,
            Outcome::Invented => &mut self.invented,
            Outcome::Absent => &mut self.absent,
        };
        *counter += 1;
    }

    /// Returns the number of right values.
    pub fn right(&self) -> u32 {
        self.exact + self.normalized
    }

    /// Returns the number of fields whose value the documents contain.
    pub fn labelled(&self) -> u32 {
        self.right() + self.wrong + self.missing
    }

    /// Returns the share of right values among all extracted values. None: no value was extracted.
    pub fn precision(&self) -> Option<f64> {
        share(self.right(), self.right() + self.wrong + self.invented)
    }

    /// Returns the share of right values among all values of the documents. None: the documents have no values.
    pub fn recall(&self) -> Option<f64> {
        share(self.right(), self.labelled())
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.exact += other.exact;
        self.normalized += other.normalized;
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.invented += other.invented;
        self.absent += other.absent;
    }
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

#[cfg(test)]
mod tests;
