//! Fills a schema with read values by matching names and descriptions of properties to labels.

use serde_json::{Map, Value};

use super::reading::{Reading, Table, accepts, canonical, tokens};

/// Maximum nesting of a schema.
const DEPTH_MAX: usize = 16;
/// Minimum similarity of a label and a property.
const SIMILARITY_MIN: u32 = 50;

/// Returns a value that matches the schema. Unknown values are null if the schema permits it, otherwise empty.
pub(super) fn fill(schema: &Value, reading: &Reading) -> Value {
    let source =
        ValueSource { labels: reading.fields.iter().map(|f| (f.label.as_str(), f.value.as_str())).collect(), reading };
    Filler { root: schema }.value(schema, &[], &source, 0)
}

/// The source of values: the document, or a row of a table.
struct ValueSource<'a> {
    labels: Vec<(&'a str, &'a str)>,
    reading: &'a Reading,
}

struct Filler<'a> {
    root: &'a Value,
}

impl Filler<'_> {
    fn value(&self, schema: &Value, path: &[String], source: &ValueSource<'_>, depth: usize) -> Value {
        let schema = self.resolve(schema);
        if depth > DEPTH_MAX {
            return empty(schema);
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(options) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            return self.any_of(options, schema, path, source, depth);
        }
        if let Some(options) = schema.get("enum").and_then(Value::as_array) {
            return select_enum(options, schema, path, source);
        }
        let types = types(schema);
        if types.contains(&"object") || schema.get("properties").is_some() {
            return self.object(schema, path, source, depth);
        }
        if types.contains(&"array") {
            return self.array(schema, path, source, depth);
        }
        scalar(schema, &types, path, source).unwrap_or_else(|| empty(schema))
    }

    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        for _ in 0..8 {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { break };
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let Some(target) = target else { break };
            schema = target;
        }
        schema
    }

    fn any_of(
        &self,
        options: &[Value],
        schema: &Value,
        path: &[String],
        source: &ValueSource<'_>,
        depth: usize,
    ) -> Value {
        let nullable = options.iter().any(|option| types(self.resolve(option)).contains(&"null"));
        for option in options.iter().filter(|option| !types(self.resolve(option)).contains(&"null")) {
            // The description may be next to the options.
            let mut option = self.resolve(option).clone();
            if let (Value::Object(fields), Some(description)) = (&mut option, schema.get("description")) {
                fields.entry("description").or_insert_with(|| description.clone());
            }
            let filled = self.value(&option, path, source, depth + 1);
            if !nullable || !is_empty(&filled) {
                return filled;
            }
        }
        Value::Null
    }

    fn object(&self, schema: &Value, path: &[String], source: &ValueSource<'_>, depth: usize) -> Value {
        let mut filled = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let inner: Vec<String> = path.iter().cloned().chain(std::iter::once(name.clone())).collect();
            filled.insert(name.clone(), self.value(property, &inner, source, depth + 1));
        }
        let unknown = !filled.is_empty() && filled.values().all(is_empty);
        if unknown && types(schema).contains(&"null") { Value::Null } else { Value::Object(filled) }
    }

    /// Returns a list: objects from the most similar table, or plain values from a labelled list.
    fn array(&self, schema: &Value, path: &[String], source: &ValueSource<'_>, depth: usize) -> Value {
        let items = self.resolve(schema.get("items").unwrap_or(&Value::Null));
        let limit =
            schema.get("maxItems").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(1_000);
        let list: Vec<Value> = match items.get("properties").and_then(Value::as_object) {
            Some(properties) => match best_table(&source.reading.tables, properties) {
                Some(table) => table
                    .rows
                    .iter()
                    .take(limit)
                    .map(|row| {
                        let labels =
                            table.columns.iter().map(String::as_str).zip(row.iter().map(String::as_str)).collect();
                        self.value(items, &[], &ValueSource { labels, reading: source.reading }, depth + 1)
                    })
                    .collect(),
                None => Vec::new(),
            },
            None => best_label(schema, path, source, |_| true)
                .map(|text| text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>())
                .unwrap_or_default()
                .into_iter()
                .take(limit)
                .filter_map(|part| parse_as(part, &types(items), items, source))
                .collect(),
        };
        if list.is_empty() { empty(schema) } else { Value::Array(list) }
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the replacement of an unknown value.
fn empty(schema: &Value) -> Value {
    let types = types(schema);
    let has = |name: &str| types.contains(&name);
    if types.is_empty() || has("null") {
        Value::Null
    } else if has("string") {
        Value::from("")
    } else if has("number") || has("integer") {
        let minimum = schema.get("minimum").filter(|minimum| minimum.as_f64().is_some_and(|minimum| minimum > 0.0));
        minimum.cloned().unwrap_or_else(|| Value::from(0))
    } else if has("boolean") {
        Value::from(false)
    } else if has("array") {
        Value::Array(Vec::new())
    } else {
        Value::Object(Map::new())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

/// Returns the option that the document contains. Default: null or the first option.
fn select_enum(options: &[Value], schema: &Value, path: &[String], source: &ValueSource<'_>) -> Value {
    let equal = |option: &Value, text: &str| match option {
        Value::String(option) => tokens(option) == tokens(text),
        Value::Null => false,
        other => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *other),
    };
    let found = best_label(schema, path, source, |text| options.iter().any(|option| equal(option, text)));
    let currency = path.last().filter(|name| canonical(name) == Some("currency")).and(source.reading.currency);
    let found = found.or(currency);
    let named = found.and_then(|text| options.iter().find(|option| equal(option, text)));
    let null = options.iter().find(|option| option.is_null());
    named.or(null).or_else(|| options.first()).cloned().unwrap_or(Value::Null)
}

fn scalar(schema: &Value, types: &[&str], path: &[String], source: &ValueSource<'_>) -> Option<Value> {
    let label = best_label(schema, path, source, |text| parse_as(text, types, schema, source).is_some());
    if let Some(text) = label {
        return parse_as(text, types, schema, source);
    }
    let name = path.last()?;
    let text = match canonical(name) {
        Some("currency") => source.reading.currency.map(str::to_owned),
        _ if matches!(name.as_str(), "title" | "heading" | "document_type") => source.reading.title.clone(),
        _ => None,
    };
    parse_as(&text?, types, schema, source)
}

/// Parses a printed value as one of the types.
fn parse_as(text: &str, types: &[&str], schema: &Value, source: &ValueSource<'_>) -> Option<Value> {
    let has = |name: &str| types.contains(&name);
    if has("number") || has("integer") {
        let number = source.reading.style.number(text).filter(|number| has("number") || number.is_i64());
        if number.is_some() || !has("string") {
            return number;
        }
    }
    if has("boolean") {
        return match text.to_lowercase().as_str() {
            "yes" | "true" | "ja" | "oui" | "si" | "x" | "✓" => Some(Value::from(true)),
            "no" | "false" | "nein" | "non" => Some(Value::from(false)),
            _ => None,
        };
    }
    if !has("string") && !types.is_empty() {
        return None;
    }
    let described = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let dated = schema.get("format").is_some_and(|format| format == "date") || described.contains("YYYY-MM-DD");
    Some(Value::from(match source.reading.style.date(text) {
        Some(date) => date,
        None if dated && schema.get("format").is_some() => return None,
        None => text.to_owned(),
    }))
}

/// Returns the value of the usable label that is most similar to the property.
fn best_label<'a>(
    schema: &Value,
    path: &[String],
    source: &ValueSource<'a>,
    usable: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let style = source.reading.style;
    let fits = |value: &str| path.last().is_none_or(|name| accepts(name, value, style)) && usable(value);
    let scored = source.labels.iter().filter(|(_, value)| !value.is_empty() && fits(value));
    let scored = scored.map(|(label, value)| (similarity(path, description, label), *value));
    // Of equal scores, the first label in the document wins.
    scored.rev().max_by_key(|(score, _)| *score).filter(|(score, _)| *score >= SIMILARITY_MIN).map(|(_, value)| value)
}

/// Returns the similarity of a label and a property, 0 to 120.
pub(super) fn similarity(path: &[String], description: &str, label: &str) -> u32 {
    let Some(name) = path.last() else { return 0 };
    if description.contains(&format!("{label:?}")) {
        return 120;
    }
    let (own, printed) = (tokens(name), tokens(label));
    let full: Vec<String> = path.iter().flat_map(|part| tokens(part)).collect();
    if printed.is_empty() || own.is_empty() {
        return 0;
    }
    if own == printed || full == printed {
        return 110;
    }
    let canonical_name = canonical(&own.join(" ")).or_else(|| canonical(name));
    if canonical_name.is_some() && canonical_name == canonical(label) {
        return 100;
    }
    // `seller: {name}` is filled with the value of the label "Seller".
    let parent = path.len().checked_sub(2).and_then(|at| path.get(at));
    if let Some(parent) = parent
        && matches!(name.as_str(), "name" | "value")
        && (tokens(parent) == printed || (canonical(parent).is_some() && canonical(parent) == canonical(label)))
    {
        return 95;
    }
    if let (Some(own), Some(printed)) = (canonical_name, canonical(label))
        && !matches!((own, printed), ("invoice_date", "date") | ("total", "amount"))
    {
        return 0;
    }
    let shared = printed.iter().filter(|word| full.contains(word)).count();
    let own_shared = own.iter().filter(|word| printed.contains(word)).count();
    let all = printed.len() + full.len() - shared.min(full.len());
    if own_shared == 0 || shared == 0 {
        return 0;
    }
    let jaccard = u32::try_from(100 * shared / all.max(1)).unwrap_or(0);
    if jaccard >= 50 { 40 + jaccard / 2 } else { 0 }
}

/// Returns the table whose columns are most similar to the properties.
fn best_table<'a>(tables: &'a [Table], properties: &Map<String, Value>) -> Option<&'a Table> {
    let score = |table: &Table| -> u32 {
        let best = |(name, property): (&String, &Value)| {
            let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
            let path = std::slice::from_ref(name);
            table.columns.iter().map(|column| similarity(path, description, column)).max().unwrap_or(0)
        };
        properties.iter().map(best).filter(|score| *score >= SIMILARITY_MIN).sum()
    };
    let scored = tables.iter().rev().map(|table| (score(table), table));
    scored.max_by_key(|(score, _)| *score).filter(|(score, _)| *score > 0).map(|(_, table)| table)
}
