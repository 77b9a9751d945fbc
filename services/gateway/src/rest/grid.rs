//! The sort model and the filter model of a data grid, and the ranking of names: the query parameters of lists that read a
//! bounded collection.

use std::cmp::{Ordering, Reverse};

use folio_types::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use super::failure::Failure;

/// Maximum number of sort keys, and of filter items.
const ITEMS_MAX: usize = 32;

/// A value of a row that can be sorted and filtered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Time(Timestamp),
    /// Ids with their names. A text matches the names; `isAnyOf` matches ids or names.
    #[cfg_attr(not(test), allow(dead_code, reason = "no served list has a column of names"))]
    Names(Vec<(String, String)>),
}

/// A row of a list.
pub(crate) trait Row {
    /// Returns the name that `name_search` searches.
    fn name(&self) -> &str;

    /// Returns the value of a field. None: the list has no such field.
    fn cell(&self, field: &str) -> Option<Cell>;
}

/// The parameters `name_search`, `sort` and `filters` of a request.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// In lower case.
    name: Option<String>,
    sort: Vec<SortKey>,
    filters: Filters,
}

#[derive(Debug, Deserialize)]
struct SortKey {
    field: String,
    #[serde(default)]
    sort: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filters {
    #[serde(default)]
    items: Vec<Filter>,
    #[serde(default)]
    logic_operator: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Filter {
    field: String,
    operator: String,
    #[serde(default)]
    value: Value,
}

impl Grid {
    /// Parses the parameters of a request. An empty text counts as absent.
    ///
    /// # Errors
    /// Status 400 if a model is no JSON, has another shape, or has too many items.
    pub(crate) fn parse(name: Option<&str>, sort: Option<&str>, filters: Option<&str>) -> Result<Self, Failure> {
        let given = |text: Option<&str>| text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let refused = |what: &str| Failure::bad_request(format!("Invalid {what} JSON"));
        let sort: Vec<SortKey> = match given(sort) {
            Some(text) => serde_json::from_str(&text).map_err(|_| refused("sort"))?,
            None => Vec::new(),
        };
        let filters: Filters = match given(filters) {
            Some(text) => serde_json::from_str(&text).map_err(|_| refused("filters"))?,
            None => Filters::default(),
        };
        if sort.len() > ITEMS_MAX || filters.items.len() > ITEMS_MAX {
            return Err(Failure::bad_request(format!("A list has at most {ITEMS_MAX} sort keys and filters")));
        }
        Ok(Self { name: given(name).map(|name| name.to_lowercase()), sort, filters })
    }

    /// Returns true if the request neither searches, sorts nor filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_none() && self.sort.is_empty() && self.filters.items.is_empty()
    }

    /// Returns the rows that match, in their order. The rows are in the default order, which decides between equal rows.
    pub(crate) fn apply<T: Row>(&self, rows: Vec<T>) -> Vec<T> {
        let mut rows: Vec<T> = rows.into_iter().filter(|row| self.matches(row)).collect();
        rows.sort_by(|left, right| {
            let ranks = self.rank(left.name()).cmp(&self.rank(right.name()));
            self.sort.iter().fold(ranks, |order, key| order.then_with(|| key.compare(left, right)))
        });
        rows
    }

    /// Returns 0 for a name that equals the searched text, 1 for one that starts with it, 2 for another.
    fn rank(&self, name: &str) -> u8 {
        let Some(searched) = &self.name else { return 0 };
        let name = name.to_lowercase();
        if name == *searched {
            0
        } else if name.starts_with(searched.as_str()) {
            1
        } else {
            2
        }
    }

    fn matches<T: Row>(&self, row: &T) -> bool {
        let is_named = self.name.as_ref().is_none_or(|name| row.name().to_lowercase().contains(name.as_str()));
        let mut results = self.filters.items.iter().filter_map(|filter| filter.matches(row)).peekable();
        if !is_named || results.peek().is_none() {
            return is_named;
        }
        match self.filters.logic_operator.as_deref() {
            Some("or") => results.any(|matches| matches),
            _ => results.all(|matches| matches),
        }
    }
}

impl SortKey {
    fn compare<T: Row>(&self, left: &T, right: &T) -> Ordering {
        let order = match (left.cell(&self.field), right.cell(&self.field)) {
            (Some(left), Some(right)) => left.order().cmp(&right.order()),
            _ => Ordering::Equal,
        };
        if self.sort.as_deref() == Some("desc") { order.reverse() } else { order }
    }
}

/// The value by which cells are ordered.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum CellOrder {
    Text(String),
    Time(Timestamp),
    Names(Reverse<bool>, String),
}

impl Cell {
    fn order(&self) -> CellOrder {
        match self {
            Self::Text(text) => CellOrder::Text(text.to_lowercase()),
            Self::Time(time) => CellOrder::Time(*time),
            Self::Names(names) => {
                let mut sorted: Vec<String> = names.iter().map(|(_, name)| name.to_lowercase()).collect();
                sorted.sort_unstable();
                // Rows without names come first.
                CellOrder::Names(Reverse(sorted.is_empty()), sorted.join(","))
            }
        }
    }
}

impl Filter {
    /// Returns whether a row matches. None: the filter is skipped, because its field is unknown or its value is empty.
    fn matches<T: Row>(&self, row: &T) -> Option<bool> {
        let cell = row.cell(&self.field)?;
        let values = values(&self.value);
        let needs_no_value = matches!(self.operator.as_str(), "isEmpty" | "isNotEmpty");
        if values.is_empty() && !needs_no_value {
            return None;
        }
        let first = values.first().map(String::as_str).unwrap_or_default();
        match cell {
            Cell::Text(text) => text_matches(&self.operator, &text, first, &values),
            Cell::Time(time) => time_matches(&self.operator, time, first),
            Cell::Names(names) => names_match(&self.operator, &names, first, &values),
        }
    }
}

/// Returns the texts of a value: a text, a number, a list, or a text with commas. Empty: the value is empty.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(values).collect(),
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(value) => vec![value.to_string()],
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

fn text_matches(operator: &str, text: &str, value: &str, values: &[String]) -> Option<bool> {
    let (folded, value_folded) = (text.to_lowercase(), value.to_lowercase());
    Some(match operator {
        "contains" => folded.contains(&value_folded),
        "doesNotContain" => !folded.contains(&value_folded),
        "equals" | "=" | "is" => text == value,
        "doesNotEqual" | "!=" | "not" => text != value,
        "startsWith" => folded.starts_with(&value_folded),
        "endsWith" => folded.ends_with(&value_folded),
        "isEmpty" => text.is_empty(),
        "isNotEmpty" => !text.is_empty(),
        "isAnyOf" => any_of(values).any(|value| value == text),
        _ => return None,
    })
}

fn names_match(operator: &str, names: &[(String, String)], value: &str, values: &[String]) -> Option<bool> {
    let any = |matches: &dyn Fn(&str) -> bool| names.iter().any(|(_, name)| matches(&name.to_lowercase()));
    let value = value.to_lowercase();
    Some(match operator {
        "contains" => any(&|name| name.contains(&value)),
        "doesNotContain" => !any(&|name| name.contains(&value)),
        "equals" | "=" | "is" => any(&|name| name == value),
        "doesNotEqual" | "!=" | "not" => !any(&|name| name == value),
        "startsWith" => any(&|name| name.starts_with(&value)),
        "endsWith" => any(&|name| name.ends_with(&value)),
        "isEmpty" => names.is_empty(),
        "isNotEmpty" => !names.is_empty(),
        "isAnyOf" => any_of(values)
            .any(|value| names.iter().any(|(id, name)| id == value || name.to_lowercase() == value.to_lowercase())),
        _ => return None,
    })
}

/// Returns the alternatives of `isAnyOf`: the elements of a list, or the parts of a text between commas.
fn any_of(values: &[String]) -> impl Iterator<Item = &str> {
    let split = values.len() == 1;
    values.iter().flat_map(move |value| {
        let count = if split { usize::MAX } else { 1 };
        value.splitn(count, ',').map(str::trim)
    })
}

fn time_matches(operator: &str, time: Timestamp, value: &str) -> Option<bool> {
    // A time always has a value.
    if matches!(operator, "isEmpty" | "isNotEmpty") {
        return Some(operator == "isNotEmpty");
    }
    let (start, end) = period(value)?;
    Some(match operator {
        "is" | "equals" | "=" => start <= time && time < end,
        "not" | "doesNotEqual" | "!=" => time < start || end <= time,
        "after" => end <= time,
        "onOrAfter" => start <= time,
        "before" => time < start,
        "onOrBefore" => time < end,
        _ => return None,
    })
}

/// Returns start and end of a day, or of a minute or second in ISO 8601. A time without an offset is UTC.
fn period(value: &str) -> Option<(Timestamp, Timestamp)> {
    let end_of = |start: Timestamp, seconds: i64| start.checked_add(jiff::SignedDuration::from_secs(seconds)).ok();
    if let Ok(date) = value.parse::<Date>()
        && value.len() == "2026-01-01".len()
    {
        let start = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
        return Some((start, end_of(start, 24 * 60 * 60)?));
    }
    let start = value.parse::<Timestamp>().or_else(|_| format!("{value}Z").parse()).ok()?;
    let has_seconds = value.matches(':').count() >= 2;
    Some((start, end_of(start, if has_seconds { 1 } else { 60 })?))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde_json::json;

    use super::*;

    struct Sample(&'static str, &'static str, Vec<(&'static str, &'static str)>);

    impl Row for Sample {
        fn name(&self) -> &str {
            self.0
        }

        fn cell(&self, field: &str) -> Option<Cell> {
            let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
            Some(match field {
                "name" => Cell::Text(self.0.to_owned()),
                "created_at" => Cell::Time(self.1.parse().unwrap()),
                "tag_ids" => Cell::Names(self.2.iter().map(owned).collect()),
                _ => return None,
            })
        }
    }

    fn rows() -> Vec<Sample> {
        vec![
            Sample("Order", "2026-03-02T10:00:00Z", vec![("t1", "Blue")]),
            Sample("invoice (b)", "2026-03-01T10:00:00Z", vec![]),
            Sample("Invoice", "2026-02-28T23:59:59Z", vec![("t1", "Blue"), ("t2", "red")]),
            Sample("my invoice", "2026-01-01T00:00:00Z", vec![("t2", "red")]),
        ]
    }

    fn names(name: &str, sort: Value, filters: Value) -> Vec<&'static str> {
        let text = |value: Value| if value.is_null() { String::new() } else { value.to_string() };
        let grid = Grid::parse(Some(name), Some(&text(sort)), Some(&text(filters))).unwrap();
        grid.apply(rows()).iter().map(|row| row.0).collect()
    }

    fn filtered(field: &str, operator: &str, value: Value) -> Vec<&'static str> {
        names("", Value::Null, json!({"items": [{"field": field, "operator": operator, "value": value}]}))
    }

    #[test]
    fn names_are_ranked_and_then_sorted() {
        assert_eq!(names("invoice", Value::Null, Value::Null), ["Invoice", "invoice (b)", "my invoice"]);
        assert_eq!(names("(b", Value::Null, Value::Null), ["invoice (b)"]);
        let by_time = json!([{"field": "created_at", "sort": "asc"}]);
        assert_eq!(names("", by_time, Value::Null), ["my invoice", "Invoice", "invoice (b)", "Order"]);
        let mixed = json!([{"field": "nothing", "sort": "desc"}, {"field": "name", "sort": "desc"}]);
        assert_eq!(names("", mixed, Value::Null), ["Order", "my invoice", "invoice (b)", "Invoice"]);
    }

    #[test]
    fn operators_of_texts() {
        for (operator, value, expected) in [
            ("contains", "INV", &["invoice (b)", "Invoice", "my invoice"][..]),
            ("doesNotContain", "inv", &["Order"]),
            ("equals", "Invoice", &["Invoice"]),
            ("=", "invoice", &[]),
            ("doesNotEqual", "Invoice", &["Order", "invoice (b)", "my invoice"]),
            ("startsWith", "inv", &["invoice (b)", "Invoice"]),
            ("endsWith", "ICE", &["Invoice", "my invoice"]),
            ("isAnyOf", "Order,Invoice", &["Order", "Invoice"]),
            ("unknown", "x", &["Order", "invoice (b)", "Invoice", "my invoice"]),
            ("contains", "", &["Order", "invoice (b)", "Invoice", "my invoice"]),
        ] {
            assert_eq!(filtered("name", operator, json!(value)), expected, "{operator} {value}");
        }
        assert_eq!(filtered("name", "isAnyOf", json!(["Order", "none"])), ["Order"]);
        assert_eq!(filtered("nothing", "equals", json!("x")).len(), 4, "unknown fields are skipped");
    }

    #[test]
    fn operators_of_names_and_times() {
        assert_eq!(filtered("tag_ids", "contains", json!("BLU")), ["Order", "Invoice"]);
        assert_eq!(filtered("tag_ids", "isAnyOf", json!("t2")), ["Invoice", "my invoice"]);
        assert_eq!(filtered("tag_ids", "isAnyOf", json!(["RED", "none"])), ["Invoice", "my invoice"]);
        assert_eq!(filtered("tag_ids", "isEmpty", Value::Null), ["invoice (b)"]);
        for (operator, value, expected) in [
            ("is", "2026-03-01", &["invoice (b)"][..]),
            ("not", "2026-03-01", &["Order", "Invoice", "my invoice"]),
            ("after", "2026-03-01", &["Order"]),
            ("onOrAfter", "2026-03-01T10:00:00Z", &["Order", "invoice (b)"]),
            ("before", "2026-02-28", &["my invoice"]),
            ("onOrBefore", "2026-02-28", &["Invoice", "my invoice"]),
            ("is", "2026-02-28T23:59", &["Invoice"]),
            ("is", "yesterday", &["Order", "invoice (b)", "Invoice", "my invoice"]),
        ] {
            assert_eq!(filtered("created_at", operator, json!(value)), expected, "{operator} {value}");
        }
    }

    #[test]
    fn filters_are_joined_by_their_logic() {
        let items = json!([
            {"field": "name", "operator": "contains", "value": "order"},
            {"field": "tag_ids", "operator": "isEmpty"},
        ]);
        let joined = |logic: &str| names("", Value::Null, json!({"items": items, "logicOperator": logic}));
        assert_eq!(joined("and"), Vec::<&str>::new());
        assert_eq!(joined("or"), ["Order", "invoice (b)"]);
    }

    #[test]
    fn a_model_of_another_shape_is_refused() {
        for (sort, filters) in [("{", ""), ("{}", ""), ("[1]", ""), ("", "[]x"), ("", "{\"items\": 1}"), ("", "7")] {
            let refused = Grid::parse(None, Some(sort), Some(filters)).unwrap_err();
            assert_eq!(refused.into_response().status(), 400, "{sort} {filters}");
        }
        let many = json!(vec![json!({"field": "name"}); ITEMS_MAX + 1]).to_string();
        assert!(Grid::parse(None, Some(&many), None).is_err());
    }
}
