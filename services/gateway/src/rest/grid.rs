//! The parameters `name_search`, `sort` and `filters` of lists that a data grid shows: they are translated to the grid of the
//! operation, which checks and evaluates it.

use folio_operations::grid::{Column, Grid, GridFilter, GridOperator, GridSort};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;

/// The fields of a list by which clients sort and filter.
pub(crate) struct GridFields {
    /// The columns of the operation.
    pub(crate) columns: &'static [Column],
    /// The names of clients, with the names of the columns.
    pub(crate) names: &'static [(&'static str, &'static str)],
}

/// An entry of `sort`.
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

impl GridFields {
    /// Parses the parameters of a request. Unknown fields and operators, and filters with an empty value, are skipped. None: the
    /// request neither searches, sorts nor filters.
    ///
    /// # Errors
    /// Status 400 if a model is no JSON or has another shape.
    pub(crate) fn parse(
        &self,
        name_search: Option<&str>,
        sort: Option<&str>,
        filters: Option<&str>,
    ) -> Result<Option<Grid>, Failure> {
        let (keys, filters) = (read::<Vec<SortKey>>("sort", sort)?, read::<Filters>("filters", filters)?);
        let key = |SortKey { field, sort }: SortKey| {
            let descending = sort.as_deref() == Some("desc");
            Some(GridSort { field: self.column(&field)?.name.to_owned(), descending })
        };
        let grid = Grid {
            name_search: name_search.filter(|text| !text.trim().is_empty()).unwrap_or_default().to_owned(),
            sort: keys.into_iter().filter_map(key).collect(),
            filters: filters.items.iter().filter_map(|filter| self.filter(filter)).collect(),
            any: filters.logic_operator.as_deref() == Some("or"),
        };
        let is_empty = grid.name_search.is_empty() && grid.sort.is_empty() && grid.filters.is_empty();
        Ok((!is_empty).then_some(grid))
    }

    fn column(&self, field: &str) -> Option<&'static Column> {
        let (_, name) = self.names.iter().find(|(known, _)| *known == field)?;
        self.columns.iter().find(|column| column.name == *name)
    }

    fn filter(&self, Filter { field, operator, value }: &Filter) -> Option<GridFilter> {
        let column = self.column(field)?;
        let operator = if column.is_time() { operator_of_times(operator)? } else { operator_of_texts(operator)? };
        let values = match operator {
            GridOperator::IsEmpty | GridOperator::IsNotEmpty => Vec::new(),
            GridOperator::IsAnyOf => alternatives(value),
            _ => texts(value).into_iter().take(1).collect(),
        };
        let needs_value = !matches!(operator, GridOperator::IsEmpty | GridOperator::IsNotEmpty);
        let is_skipped = needs_value && values.is_empty();
        (!is_skipped).then(|| GridFilter { field: column.name.to_owned(), operator, values })
    }
}

/// Reads a model. An empty text counts as absent.
fn read<T: DeserializeOwned + Default>(name: &str, text: Option<&str>) -> Result<T, Failure> {
    match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => serde_json::from_str(text).map_err(|_| Failure::bad_request(format!("Invalid {name} JSON"))),
        None => Ok(T::default()),
    }
}

fn operator_of_texts(name: &str) -> Option<GridOperator> {
    Some(match name {
        "contains" => GridOperator::Contains,
        "doesNotContain" => GridOperator::DoesNotContain,
        "equals" | "=" | "is" => GridOperator::Equals,
        "doesNotEqual" | "!=" | "not" => GridOperator::DoesNotEqual,
        "startsWith" => GridOperator::StartsWith,
        "endsWith" => GridOperator::EndsWith,
        "isAnyOf" => GridOperator::IsAnyOf,
        other => return operator_of_all(other),
    })
}

fn operator_of_times(name: &str) -> Option<GridOperator> {
    Some(match name {
        "is" | "=" | "equals" => GridOperator::On,
        "not" | "!=" | "doesNotEqual" => GridOperator::NotOn,
        "after" => GridOperator::After,
        "onOrAfter" => GridOperator::OnOrAfter,
        "before" => GridOperator::Before,
        "onOrBefore" => GridOperator::OnOrBefore,
        other => return operator_of_all(other),
    })
}

fn operator_of_all(name: &str) -> Option<GridOperator> {
    match name {
        "isEmpty" => Some(GridOperator::IsEmpty),
        "isNotEmpty" => Some(GridOperator::IsNotEmpty),
        _ => None,
    }
}

/// Returns the texts of a value that are not blank: of a text, a number, or a list of them.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(value) => vec![value.to_string()],
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

/// Returns the alternatives of `isAnyOf`: the elements of a list, or the parts of a text between commas.
fn alternatives(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
        }
        other => texts(other),
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use folio_operations::documents::COLUMNS;
    use serde_json::json;

    use super::*;

    const FIELDS: GridFields = GridFields {
        columns: COLUMNS,
        names: &[("document_name", "name"), ("upload_date", "create_time"), ("tag_ids", "tag_ids")],
    };

    fn parsed(sort: &Value, filters: &Value) -> Option<Grid> {
        FIELDS.parse(None, Some(&sort.to_string()), Some(&filters.to_string())).unwrap()
    }

    fn filtered(field: &str, operator: &str, value: &Value) -> Option<(GridOperator, Vec<String>)> {
        let grid = parsed(&json!([]), &json!({ "items": [{ "field": field, "operator": operator, "value": value }] }));
        let filter = grid?.filters.into_iter().next()?;
        Some((filter.operator, filter.values))
    }

    #[test]
    fn fields_have_the_columns_of_the_operation() {
        let sort = json!([{ "field": "upload_date", "sort": "desc" }, { "field": "x" }, { "field": "document_name" }]);
        let grid = parsed(&sort, &json!({ "logicOperator": "or" })).unwrap();
        let keys: Vec<_> = grid.sort.iter().map(|key| (key.field.as_str(), key.descending)).collect();
        assert_eq!((keys.as_slice(), grid.any), (&[("create_time", true), ("name", false)][..], true));
        let search = FIELDS.parse(Some("inv"), None, Some("")).unwrap().unwrap();
        assert_eq!(search, Grid { name_search: "inv".to_owned(), ..Grid::default() });
        for (name, sort, filters) in [(None, None, None), (Some(" "), Some("[]"), Some("{}")), (None, None, Some("{}"))]
        {
            assert_eq!(FIELDS.parse(name, sort, filters).unwrap(), None);
        }
    }

    #[test]
    fn operators_follow_the_kind_of_the_column() {
        use GridOperator as Op;
        for (field, operator, value, expected, values) in [
            ("document_name", "contains", json!("a"), Op::Contains, &["a"][..]),
            ("document_name", "=", json!(7), Op::Equals, &["7"]),
            ("document_name", "!=", json!(true), Op::DoesNotEqual, &["true"]),
            ("document_name", "isEmpty", json!("ignored"), Op::IsEmpty, &[]),
            ("document_name", "isNotEmpty", Value::Null, Op::IsNotEmpty, &[]),
            ("document_name", "startsWith", json!(["a", "b"]), Op::StartsWith, &["a"]),
            ("tag_ids", "isAnyOf", json!("a, b,"), Op::IsAnyOf, &["a", "b"]),
            ("tag_ids", "isAnyOf", json!(["a, b", "", "c"]), Op::IsAnyOf, &["a, b", "c"]),
            ("upload_date", "is", json!("2026-01-31"), Op::On, &["2026-01-31"]),
            ("upload_date", "!=", json!("2026-01-31"), Op::NotOn, &["2026-01-31"]),
            ("upload_date", "onOrBefore", json!("2026-01-31"), Op::OnOrBefore, &["2026-01-31"]),
        ] {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            assert_eq!(filtered(field, operator, &value), Some((expected, values)), "{field} {operator} {value}");
        }
    }

    #[test]
    fn unknown_fields_and_operators_and_empty_values_are_skipped() {
        for (field, operator, value) in [
            ("upload_date", "contains", json!("2026")),
            ("document_name", "after", json!("a")),
            ("document_name", "contains", json!(" ")),
            ("document_name", "isAnyOf", json!([])),
            ("document_name", "equals", json!({})),
            ("nothing", "contains", json!("a")),
        ] {
            assert_eq!(filtered(field, operator, &value), None, "{field} {operator} {value}");
        }
    }

    #[test]
    fn a_model_of_another_shape_is_refused() {
        for (sort, filters) in [("{", ""), ("{}", ""), ("[1]", ""), ("", "[]x"), ("", "{\"items\": 1}"), ("", "7")] {
            let refused = FIELDS.parse(None, Some(sort), Some(filters)).unwrap_err();
            assert_eq!(refused.into_response().status(), 400, "{sort} {filters}");
        }
    }
}
