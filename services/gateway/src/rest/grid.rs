//! The sort model and the filter model of a data grid as JSON, translated to the grid of an operation.

use folio_operations::grid::{Grid, GridFilter, GridOperator, GridSort};
use serde::Deserialize;
use serde_json::Value;

use super::failure::Failure;

/// A field of a list that requests may sort and filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// The name in requests.
    name: &'static str,
    /// The column of the operation.
    column: &'static str,
    is_time: bool,
}

impl Field {
    /// A field whose column has the same name.
    pub(crate) const fn same(name: &'static str) -> Self {
        Self::text(name, name)
    }

    /// A field with texts, or with references that texts match by their names.
    pub(crate) const fn text(name: &'static str, column: &'static str) -> Self {
        Self { name, column, is_time: false }
    }

    pub(crate) const fn time(name: &'static str, column: &'static str) -> Self {
        Self { name, column, is_time: true }
    }
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

/// Translates the parameters `name_search`, `sort` and `filters` of a request. Unknown fields, unknown operators and filters without a
/// value are skipped. The operation checks the values and their number. None: the request neither searches, sorts nor filters.
///
/// # Errors
/// Status 400 if a model is no JSON, or has another shape.
pub(crate) fn parse(
    name: Option<&str>,
    sort: Option<&str>,
    filters: Option<&str>,
    fields: &[Field],
) -> Result<Option<Grid>, Failure> {
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
    let field = |name: &str| fields.iter().find(|field| field.name == name).copied();
    let key = |key: SortKey| {
        let Field { column, .. } = field(&key.field)?;
        Some(GridSort { field: column.to_owned(), descending: key.sort.as_deref() == Some("desc") })
    };
    let filter = |filter: Filter| translated(field(&filter.field)?, &filter);
    let grid = Grid {
        name_search: given(name).unwrap_or_default(),
        sort: sort.into_iter().filter_map(key).collect(),
        filters: filters.items.into_iter().filter_map(filter).collect(),
        any: filters.logic_operator.as_deref() == Some("or"),
    };
    let is_empty = grid.name_search.is_empty() && grid.sort.is_empty() && grid.filters.is_empty();
    Ok((!is_empty).then_some(grid))
}

/// None: the filter is skipped.
fn translated(field: Field, filter: &Filter) -> Option<GridFilter> {
    let operator = operator(&filter.operator, field.is_time)?;
    let values = match operator {
        GridOperator::IsEmpty | GridOperator::IsNotEmpty => Vec::new(),
        GridOperator::IsAnyOf => alternatives(&filter.value),
        _ => values(&filter.value).into_iter().take(1).collect(),
    };
    let needs_value = !matches!(operator, GridOperator::IsEmpty | GridOperator::IsNotEmpty);
    (!needs_value || !values.is_empty()).then(|| GridFilter { field: field.column.to_owned(), operator, values })
}

/// Returns the operator with a name. None: the field has no such operator.
fn operator(name: &str, is_time: bool) -> Option<GridOperator> {
    Some(match (name, is_time) {
        ("isEmpty", _) => GridOperator::IsEmpty,
        ("isNotEmpty", _) => GridOperator::IsNotEmpty,
        ("is" | "equals" | "=", true) => GridOperator::On,
        ("not" | "doesNotEqual" | "!=", true) => GridOperator::NotOn,
        ("after", true) => GridOperator::After,
        ("onOrAfter", true) => GridOperator::OnOrAfter,
        ("before", true) => GridOperator::Before,
        ("onOrBefore", true) => GridOperator::OnOrBefore,
        ("is" | "equals" | "=", false) => GridOperator::Equals,
        ("not" | "doesNotEqual" | "!=", false) => GridOperator::DoesNotEqual,
        ("contains", false) => GridOperator::Contains,
        ("doesNotContain", false) => GridOperator::DoesNotContain,
        ("startsWith", false) => GridOperator::StartsWith,
        ("endsWith", false) => GridOperator::EndsWith,
        ("isAnyOf", false) => GridOperator::IsAnyOf,
        _ => return None,
    })
}

/// Returns the texts of a value. Empty: the value is blank, or contains no text.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(values).collect(),
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
        other => values(other),
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde_json::json;

    use super::*;

    const FIELDS: &[Field] =
        &[Field::same("name"), Field::text("id", "tag_id"), Field::time("created_at", "create_time")];

    fn grid(name: &str, sort: &str, filters: &Value) -> Option<Grid> {
        let filters = if filters.is_null() { String::new() } else { filters.to_string() };
        parse(Some(name), Some(sort), Some(&filters), FIELDS).unwrap()
    }

    fn filtered(field: &str, operator: &str, value: Value) -> Option<GridFilter> {
        let filters = json!({ "items": [{ "field": field, "operator": operator, "value": value }] });
        grid("", "", &filters).map(|grid| grid.filters.into_iter().next().unwrap())
    }

    #[test]
    fn fields_are_translated_and_unknown_ones_are_skipped() {
        let sort = r#"[{"field": "id", "sort": "desc"}, {"field": "nothing"}, {"field": "created_at"}]"#;
        let found = grid("(b", sort, &Value::Null).unwrap();
        let keys: Vec<_> = found.sort.iter().map(|key| (key.field.as_str(), key.descending)).collect();
        assert_eq!((found.name_search.as_str(), keys), ("(b", vec![("tag_id", true), ("create_time", false)]));
        assert_eq!(grid(" ", r#"[{"field": "nothing"}]"#, &Value::Null), None);
        assert_eq!(filtered("nothing", "equals", json!("x")), None);
    }

    #[test]
    fn operators_depend_on_the_kind_of_the_field() {
        use GridOperator as Op;
        for (field, operator, value, expected) in [
            ("name", "contains", json!("a"), Some((Op::Contains, vec!["a"]))),
            ("name", "=", json!("a"), Some((Op::Equals, vec!["a"]))),
            ("name", "is", json!("a"), Some((Op::Equals, vec!["a"]))),
            ("name", "!=", json!(7), Some((Op::DoesNotEqual, vec!["7"]))),
            ("name", "isEmpty", json!("ignored"), Some((Op::IsEmpty, vec![]))),
            ("name", "isAnyOf", json!("a, b,"), Some((Op::IsAnyOf, vec!["a", "b"]))),
            ("name", "isAnyOf", json!(["a,b", "c"]), Some((Op::IsAnyOf, vec!["a,b", "c"]))),
            ("name", "isAnyOf", json!([]), None),
            ("name", "contains", json!(" "), None),
            ("name", "contains", json!(null), None),
            ("name", "after", json!("2026-01-31"), None),
            ("name", "unknown", json!("a"), None),
            ("created_at", "is", json!("2026-01-31"), Some((Op::On, vec!["2026-01-31"]))),
            ("created_at", "not", json!("2026-01-31"), Some((Op::NotOn, vec!["2026-01-31"]))),
            ("created_at", "onOrBefore", json!("2026-01-31"), Some((Op::OnOrBefore, vec!["2026-01-31"]))),
            ("created_at", "contains", json!("2026"), None),
        ] {
            let found = filtered(field, operator, value.clone());
            let expected = expected
                .map(|(operator, values)| (operator, values.into_iter().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(found.map(|found| (found.operator, found.values)), expected, "{field} {operator} {value}");
        }
    }

    #[test]
    fn filters_are_joined_by_their_logic() {
        let items = json!([{ "field": "name", "operator": "isEmpty" }]);
        let any = |logic: &str| grid("", "", &json!({ "items": items, "logicOperator": logic })).unwrap().any;
        assert_eq!(["and", "or", "xor"].map(any), [false, true, false]);
    }

    #[test]
    fn a_model_of_another_shape_is_refused() {
        for (sort, filters) in [("{", ""), ("{}", ""), ("[1]", ""), ("", "[]x"), ("", "{\"items\": 1}"), ("", "7")] {
            let refused = parse(None, Some(sort), Some(filters), FIELDS).unwrap_err();
            assert_eq!(refused.into_response().status(), 400, "{sort} {filters}");
        }
    }
}
