//! Columns of the table of a stack, and the form of their values.

use std::collections::HashSet;

use folio_types::{Error, Reason, Result, Timestamp, named_enum};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::fields::check_phrase;
use crate::{fields, folded};

/// Maximum number of columns of a table.
// proto: Stack.columns "at most {} columns"
pub const STACK_COLUMNS_MAX: usize = 64;
/// Maximum length of the name of a column, in characters.
// proto: StackColumn.name "1 to {} characters"
pub const COLUMN_NAME_CHARS: usize = 100;
/// Maximum length of the description of a column, in characters.
// proto: StackColumn.description "at most {} characters"
pub const COLUMN_DESCRIPTION_CHARS: usize = 1_000;
/// Maximum length of a unit, in characters.
// proto: StackColumn.unit "at most {} characters"
pub const COLUMN_UNIT_CHARS: usize = 50;
/// Maximum number of permitted values of a column of the type `enum`.
// proto: StackColumn.enum_values "at most {} values"
pub const COLUMN_VALUES_MAX: usize = 100;
/// Maximum length of a permitted value, in characters.
// proto: StackColumn.enum_values "1 to {} characters"
pub const COLUMN_VALUE_CHARS: usize = 200;
/// Maximum size of the value of a cell as JSON, in bytes.
// proto: StackCell.value_json "at most {} KiB"
pub const CELL_BYTES: usize = 8 * 1_024;

/// Bounds of the absolute value of a number other than 0, within which sums are exact.
const NUMBER_RANGE: std::ops::Range<f64> = 1e-18..1e18;
/// The time of day that completes a date for its check.
const MIDNIGHT: &str = "T00:00:00Z";

named_enum! {
    /// The type of the values of a column.
    pub enum ColumnType {
        Text = "text",
        /// A decimal number.
        Number = "number",
        Integer = "integer",
        Boolean = "boolean",
        /// A day in the form `2026-12-31`.
        Date = "date",
        /// One of the permitted values of the column.
        Enum = "enum",
    }
}

impl ColumnType {
    /// Returns true if sums and averages of the values are defined.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }
}

/// The definition of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Text that describes the value to models and people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// True if each document should have a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The unit of the values, such as `EUR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The permitted values of the type `enum`. Empty for other types.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl NewColumn {
    /// Validates the definition. `field`: the path of the column in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD`.
    pub fn checked(mut self, field: &str) -> Result<Self> {
        check_phrase(&format!("{field}.name"), &self.name, COLUMN_NAME_CHARS)?;
        self.description =
            fields::paragraph(&format!("{field}.description"), &self.description, COLUMN_DESCRIPTION_CHARS)?;
        self.unit = self.unit.filter(|unit| !unit.is_empty());
        if let Some(unit) = &self.unit {
            check_phrase(&format!("{field}.unit"), unit, COLUMN_UNIT_CHARS)?;
        }
        self.check_values(&format!("{field}.enum_values"))?;
        Ok(self)
    }

    fn check_values(&self, field: &str) -> Result<()> {
        let (values, is_enum) = (&self.values, self.kind == ColumnType::Enum);
        if is_enum == values.is_empty() {
            let problem = if is_enum { "is required for the type enum" } else { "requires the type enum" };
            return Err(Error::invalid_field(field, problem));
        }
        if values.len() > COLUMN_VALUES_MAX {
            return Err(Error::invalid_field(field, format!("has more than {COLUMN_VALUES_MAX} elements")));
        }
        let mut seen = HashSet::new();
        for (index, value) in values.iter().enumerate() {
            check_phrase(&format!("{field}[{index}]"), value, COLUMN_VALUE_CHARS)?;
            if !seen.insert(folded(value)) {
                return Err(Error::invalid_field(format!("{field}[{index}]"), "appears twice"));
            }
        }
        Ok(())
    }
}

/// Validates the columns of a table: each one, their number, and that no two names are equal, ignoring case.
///
/// # Errors
/// `INVALID_FIELD`.
pub fn check_columns(field: &str, columns: Vec<NewColumn>) -> Result<Vec<NewColumn>> {
    if columns.is_empty() || columns.len() > STACK_COLUMNS_MAX {
        return Err(Error::invalid_field(field, format!("must have 1 to {STACK_COLUMNS_MAX} elements")));
    }
    let mut seen = HashSet::new();
    let check = |(index, column): (usize, NewColumn)| {
        let field = format!("{field}[{index}]");
        let column = column.checked(&field)?;
        match seen.insert(folded(&column.name)) {
            true => Ok(column),
            false => Err(Error::invalid_field(format!("{field}.name"), "another column has this name")),
        }
    };
    columns.into_iter().enumerate().map(check).collect()
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Identifies the column in the rows of its table. A table uses a number once.
    pub number: u32,
    /// Incremented by each change of the values that the column expects, from 1. A cell that was filled for an earlier
    /// revision is filled again.
    pub revision: u32,
    #[serde(flatten)]
    pub definition: NewColumn,
}

impl Column {
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the column with another definition. Another name, or another `required`, keeps the cells.
    #[must_use]
    pub fn redefined(&self, definition: NewColumn) -> Self {
        let NewColumn { kind, description, unit, values, .. } = &self.definition;
        let expects_same = *kind == definition.kind
            && *description == definition.description
            && *unit == definition.unit
            && *values == definition.values;
        let revision = if expects_same { self.revision } else { self.revision.saturating_add(1) };
        Self { number: self.number, revision, definition }
    }

    /// Returns the canonical form of a value. None: null, that is, no value.
    ///
    /// # Errors
    /// The problem, as the end of a sentence whose subject is the value.
    pub fn value(&self, value: &Value) -> std::result::Result<Option<Value>, String> {
        let canonical = match (self.definition.kind, value) {
            (_, Value::Null) => return Ok(None),
            (ColumnType::Text, Value::String(text)) => text_value(text)?,
            (ColumnType::Number, Value::Number(number)) => number_value(number)?,
            (ColumnType::Integer, Value::Number(number)) => integer_value(number)?,
            (ColumnType::Boolean, Value::Bool(_)) => value.clone(),
            (ColumnType::Date, Value::String(text)) => date_value(text)?,
            (ColumnType::Enum, Value::String(text)) => self.enum_value(text)?,
            (kind, _) => return Err(format!("must be {}", form(kind))),
        };
        let bytes = canonical.to_string().len();
        if bytes > CELL_BYTES {
            return Err(format!("has {bytes} bytes; the maximum is {CELL_BYTES}"));
        }
        Ok(Some(canonical))
    }

    /// Returns the canonical value of a cell of this column in a request.
    ///
    /// # Errors
    /// `INVALID_FIELD`; `TOO_LARGE` if the value has more than [`CELL_BYTES`].
    pub fn checked_value(&self, field: &str, value: &Value) -> Result<Option<Value>> {
        self.value(value).map_err(|problem| {
            let reason = if problem.starts_with("has ") { Reason::TooLarge } else { Reason::InvalidField };
            Error::invalid_field(field, format!("{problem} (column {:?})", self.name())).with_reason(reason)
        })
    }

    fn enum_value(&self, text: &str) -> std::result::Result<Value, String> {
        let wanted = folded(text);
        let found = self.definition.values.iter().find(|value| folded(value) == wanted);
        let unknown = || format!("must be one of {}", Value::from(self.definition.values.clone()));
        found.map(|value| Value::from(value.clone())).ok_or_else(unknown)
    }
}

/// Describes the values of a type.
fn form(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Text => "a text",
        ColumnType::Number => "a number",
        ColumnType::Integer => "a whole number",
        ColumnType::Boolean => "true or false",
        ColumnType::Date => "a date such as \"2026-12-31\"",
        ColumnType::Enum => "one of the permitted values",
    }
}

fn text_value(text: &str) -> std::result::Result<Value, String> {
    if text.trim().is_empty() {
        return Err("is blank; use null if the document has no value".to_owned());
    }
    if text.contains('\0') {
        return Err("must not contain NUL characters".to_owned());
    }
    Ok(Value::from(text))
}

fn number_value(number: &Number) -> std::result::Result<Value, String> {
    let size = number.as_f64().map(f64::abs).filter(|size| *size == 0.0 || NUMBER_RANGE.contains(size));
    match size {
        Some(_) => Ok(Value::Number(number.clone())),
        None => Err("is too large or too close to 0 for exact sums".to_owned()),
    }
}

fn integer_value(number: &Number) -> std::result::Result<Value, String> {
    if number.is_i64() || number.is_u64() {
        return number_value(number);
    }
    // Some models write `1.0`.
    let whole = number.as_f64().filter(|value| value.fract() == 0.0).map(|value| format!("{value:.0}"));
    let whole = whole.and_then(|digits| digits.parse::<i64>().ok());
    whole.map(Value::from).ok_or_else(|| format!("must be {}", form(ColumnType::Integer)))
}

fn date_value(text: &str) -> std::result::Result<Value, String> {
    let is_day = text.len() == "2026-12-31".len() && format!("{text}{MIDNIGHT}").parse::<Timestamp>().is_ok();
    if is_day { Ok(Value::from(text)) } else { Err(format!("must be {}", form(ColumnType::Date))) }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn column(number: u32, name: &str, kind: ColumnType) -> Column {
        let values = match kind {
            ColumnType::Enum => vec!["Paid".to_owned(), "Open".to_owned()],
            _ => Vec::new(),
        };
        let definition =
            NewColumn { name: name.to_owned(), kind, description: String::new(), required: false, unit: None, values };
        Column { number, revision: 1, definition }
    }

    #[test]
    fn a_value_has_the_type_of_its_column() {
        let long = "x".repeat(CELL_BYTES);
        for (kind, value, expected) in [
            (ColumnType::Text, json!("Äcme"), Some(json!("Äcme"))),
            (ColumnType::Text, json!(" "), None),
            (ColumnType::Text, json!("a\0"), None),
            (ColumnType::Text, json!(long), None),
            (ColumnType::Text, json!(5), None),
            (ColumnType::Text, json!(["a"]), None),
            (ColumnType::Number, json!(1.5), Some(json!(1.5))),
            (ColumnType::Number, json!(-7), Some(json!(-7))),
            (ColumnType::Number, json!(0), Some(json!(0))),
            (ColumnType::Number, json!(1e18), None),
            (ColumnType::Number, json!(1e-19), None),
            (ColumnType::Number, json!("1.5"), None),
            (ColumnType::Integer, json!(12), Some(json!(12))),
            (ColumnType::Integer, json!(12.0), Some(json!(12))),
            (ColumnType::Integer, json!(12.5), None),
            (ColumnType::Boolean, json!(true), Some(json!(true))),
            (ColumnType::Boolean, json!("true"), None),
            (ColumnType::Date, json!("2024-02-29"), Some(json!("2024-02-29"))),
            (ColumnType::Date, json!("2023-02-29"), None),
            (ColumnType::Date, json!("29.02.2024"), None),
            (ColumnType::Date, json!("2024-2-29"), None),
            (ColumnType::Enum, json!("PAID"), Some(json!("Paid"))),
            (ColumnType::Enum, json!("late"), None),
        ] {
            let found = column(1, "c", kind).value(&value);
            assert_eq!(found.clone().ok().flatten(), expected, "{kind:?} {value}: {found:?}");
            assert_eq!(found.is_ok(), expected.is_some(), "{kind:?} {value}");
        }
        assert_eq!(column(1, "c", ColumnType::Date).value(&Value::Null), Ok(None));
        let too_large = column(1, "c", ColumnType::Text).checked_value("value_json", &json!(long)).unwrap_err();
        assert_eq!(too_large.reason, Reason::TooLarge);
    }

    #[test]
    fn a_change_of_what_a_column_expects_is_a_new_revision() {
        let column = column(3, "total", ColumnType::Number);
        let of = |change: fn(&mut NewColumn)| {
            let mut definition = column.definition.clone();
            change(&mut definition);
            column.redefined(definition).revision
        };
        assert_eq!(of(|_| {}), 1);
        assert_eq!(of(|new| new.name = "sum".to_owned()), 1);
        assert_eq!(of(|new| new.required = true), 1);
        assert_eq!(of(|new| new.kind = ColumnType::Text), 2);
        assert_eq!(of(|new| new.description = "the gross total".to_owned()), 2);
        assert_eq!(of(|new| new.unit = Some("EUR".to_owned())), 2);
    }

    #[test]
    fn columns_have_bounded_definitions_and_different_names() {
        let new = |name: &str, kind, values: &[&str]| NewColumn {
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            ..column(1, name, kind).definition
        };
        let of = |columns| check_columns("columns", columns).map_err(|error| error.violations[0].field.clone());
        of(vec![new("a", ColumnType::Text, &[]), new("b", ColumnType::Enum, &["x"])]).unwrap();
        for (columns, field) in [
            (vec![], "columns"),
            (vec![new("a", ColumnType::Text, &[]); STACK_COLUMNS_MAX + 1], "columns"),
            (vec![new("a", ColumnType::Text, &[]), new("A", ColumnType::Date, &[])], "columns[1].name"),
            (vec![new("", ColumnType::Text, &[])], "columns[0].name"),
            (vec![new("a", ColumnType::Enum, &[])], "columns[0].enum_values"),
            (vec![new("a", ColumnType::Text, &["x"])], "columns[0].enum_values"),
            (vec![new("a", ColumnType::Enum, &["x", "X"])], "columns[0].enum_values[1]"),
        ] {
            assert_eq!(of(columns).unwrap_err(), field);
        }
        let long = NewColumn { unit: Some("x".repeat(COLUMN_UNIT_CHARS + 1)), ..new("a", ColumnType::Text, &[]) };
        assert_eq!(of(vec![long]).unwrap_err(), "columns[0].unit");
        for &kind in ColumnType::ALL {
            assert_eq!(ColumnType::from_name(kind.as_str()), Some(kind));
        }
    }
}
