//! Fills a schema with read values by matching names and descriptions of properties to labels.

use serde_json::{Map, Value, json};

use super::reading::{Reading, Table, date, number, snake, words};

/// Maximum nesting of a schema.
const DEPTH_MAX: usize = 16;

/// A label and its value.
type Labelled<'a> = (&'a str, &'a str);

/// Returns a value that matches the schema. Unknown values are null if the schema permits it, otherwise empty.
pub(super) fn fill(schema: &Value, reading: &Reading) -> Value {
    let labels: Vec<Labelled<'_>> = reading.fields.iter().map(|(label, value)| (&**label, &**value)).collect();
    value(schema, "", &labels, &reading.tables, 0)
}

fn value(schema: &Value, name: &str, labels: &[Labelled<'_>], tables: &[Table], depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(options) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
        let (null, others): (Vec<_>, Vec<_>) = options.iter().partition(|option| types(option).contains(&"null"));
        let Some(mut option) = others.first().map(|option| (*option).clone()) else { return Value::Null };
        if let (false, Some(kind)) = (null.is_empty(), option.get_mut("type")) {
            let kinds = json!([kind.take(), "null"]);
            *kind = kinds;
        }
        return value(&option, name, labels, tables, depth + 1);
    }
    let types = types(schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let filled =
            properties.iter().map(|(name, property)| (name.clone(), value(property, name, labels, tables, depth + 1)));
        return Value::Object(filled.collect());
    }
    if let Some(items) = schema.get("items") {
        let columns = items.get("properties").and_then(Value::as_object);
        let table = columns.and_then(|columns| best_table(tables, columns));
        let rows = table.into_iter().flat_map(|table| table.rows.iter().map(|row| (&table.columns, row)));
        let rows = rows.map(|(columns, row)| {
            let labels: Vec<_> = columns.iter().map(String::as_str).zip(row.iter().map(String::as_str)).collect();
            value(items, "", &labels, &[], depth + 1)
        });
        return Value::Array(rows.collect());
    }
    let scored = labels.iter().map(|(label, text)| (likeness(schema, name, label), *text)).rev();
    let found = scored.filter_map(|(score, text)| Some((score, typed(text, schema, &types)?))).max_by_key(|(s, _)| *s);
    found.filter(|(score, _)| *score > 0).map_or_else(|| empty(schema, &types), |(_, value)| value)
}

/// Returns the types that a schema permits.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the value of a property that the document lacks.
fn empty(schema: &Value, types: &[&str]) -> Value {
    let options = schema.get("enum").and_then(Value::as_array);
    match types.first() {
        _ if types.contains(&"null") => Value::Null,
        _ if options.is_some() => options.and_then(|options| options.first()).cloned().unwrap_or_default(),
        Some(&"string") => Value::from(""),
        Some(&"number" | &"integer") => Value::from(0),
        Some(&"boolean") => Value::from(false),
        Some(&"array") => Value::Array(Vec::new()),
        Some(&"object") => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// Parses a printed value as one of the types.
fn typed(text: &str, schema: &Value, types: &[&str]) -> Option<Value> {
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return options
            .iter()
            .find(|option| option.as_str().is_some_and(|own| own.eq_ignore_ascii_case(text)))
            .cloned();
    }
    match number(text) {
        Some(number) if types.contains(&"number") || (types.contains(&"integer") && number.is_i64()) => Some(number),
        _ if types.contains(&"string") => Some(Value::from(date(text).unwrap_or_else(|| text.to_owned()))),
        _ => None,
    }
}

/// Returns the similarity of a property and a label. 0: none.
fn likeness(schema: &Value, name: &str, label: &str) -> u32 {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let (own, printed) = (words(name), words(label));
    let covers = |all: &[String], some: &[String]| !some.is_empty() && some.iter().all(|word| all.contains(word));
    match () {
        () if description.contains(&format!("{label:?}")) => 3,
        () if snake(name) == snake(label) => 2,
        () => u32::from(covers(&own, &printed) || covers(&printed, &own)),
    }
}

/// Returns the table whose columns are most similar to the properties.
fn best_table<'a>(tables: &'a [Table], properties: &Map<String, Value>) -> Option<&'a Table> {
    let score = |table: &Table| -> u32 {
        let best = |(name, property): (&String, &Value)| {
            table.columns.iter().map(|column| likeness(property, name, column)).max().unwrap_or(0)
        };
        properties.iter().map(best).sum()
    };
    let scored = tables.iter().rev().map(|table| (score(table), table));
    scored.max_by_key(|(score, _)| *score).filter(|(score, _)| *score > 0).map(|(_, table)| table)
}
