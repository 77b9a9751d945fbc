//! Normalizes the values of an answer by the types that the schema declares. Pure.
//!
//! | declared type | text of the model | value |
//! |---|---|---|
//! | `number`, `integer` | `1.234,50 €`, `19 %`, `(3.20)` | 1234.5, 19, -3.2 |
//! | string with `format: date` | `17. März 2026` | `2026-03-17` |
//! | string with `format: currency`, with the pattern `^[A-Z]{3}$`, or an `enum` of such codes | `€` | `EUR` |
//!
//! A text that has no such meaning stays, and the validation reports it. A text also stays if an alternative of the schema
//! permits any string. The notation of the document decides about `1.234` and `03/04/2026`.

use std::collections::BTreeMap;

use folio_resources::{item_path, member_path};
use folio_types::notation::{Style, currency};
use serde_json::Value;

use super::schema_walk::SchemaWalk;

const CURRENCY_PATTERN: &str = "^[A-Z]{3}$";

/// Normalizes the data. Returns the texts of the changed values by their paths.
pub(super) fn normalize(schema: &Value, data: &mut Value, style: Style) -> BTreeMap<String, String> {
    let walk = SchemaWalk::new(schema);
    let mut normalizer = Normalizer { walk, style, originals: BTreeMap::new() };
    let schemas = walk.root();
    normalizer.value("", data, &schemas);
    normalizer.originals
}

struct Normalizer<'a> {
    walk: SchemaWalk<'a>,
    style: Style,
    originals: BTreeMap<String, String>,
}

/// The meanings that a schema permits for a text.
#[derive(Debug, Default)]
struct Meanings {
    has_number: bool,
    has_integer: bool,
    has_date: bool,
    has_currency: bool,
    /// True if the text is valid as it is.
    has_text: bool,
}

impl<'a> Normalizer<'a> {
    fn value(&mut self, path: &str, value: &mut Value, schemas: &[&'a Value]) {
        match value {
            Value::String(text) => {
                if let Some(normal) = self.normal(text, schemas).filter(|normal| normal.as_str() != Some(text.as_str()))
                {
                    self.originals.insert(path.to_owned(), std::mem::take(text));
                    *value = normal;
                }
            }
            Value::Array(items) => {
                let schemas = self.walk.items(schemas);
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(&item_path(path, index), item, &schemas);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let schemas = self.walk.member(schemas, name);
                    self.value(&member_path(path, name), member, &schemas);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the value that a text means. None: the schemas permit the text, or it has no such meaning.
    fn normal(&self, text: &str, schemas: &[&'a Value]) -> Option<Value> {
        let meanings = Meanings::of(text, schemas);
        if meanings.has_text {
            return None;
        }
        let number = || {
            let number = self.style.number(text)?;
            match (meanings.has_number, number.as_f64()) {
                (true, _) => Some(number),
                (false, Some(float)) if meanings.has_integer && float.fract() == 0.0 => whole(float),
                _ => None,
            }
        };
        let date = || meanings.has_date.then(|| self.style.date(text)).flatten().map(Value::from);
        let code = || meanings.has_currency.then(|| currency(text)).flatten().map(Value::from);
        number().or_else(date).or_else(code)
    }
}

impl Meanings {
    fn of(text: &str, schemas: &[&Value]) -> Self {
        let mut meanings = Self::default();
        for schema in schemas {
            let types: Vec<&str> = match schema.get("type") {
                Some(Value::String(name)) => vec![name.as_str()],
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            meanings.has_number |= types.contains(&"number");
            meanings.has_integer |= types.contains(&"integer");
            let codes = schema.get("enum").and_then(Value::as_array);
            match schema.get("format").and_then(Value::as_str) {
                Some("date") => meanings.has_date = true,
                Some("currency") => meanings.has_currency = true,
                _ if schema.get("pattern").and_then(Value::as_str) == Some(CURRENCY_PATTERN) => {
                    meanings.has_currency = true;
                }
                _ if codes.is_some_and(|codes| codes.iter().any(is_currency_code)) => {
                    meanings.has_currency = true;
                    meanings.has_text |= codes.is_some_and(|codes| codes.iter().any(|code| code == text));
                }
                _ => meanings.has_text |= types.contains(&"string"),
            }
        }
        meanings
    }
}

fn is_currency_code(value: &Value) -> bool {
    value.as_str().is_some_and(|code| code.len() == 3 && currency(code) == Some(code))
}

/// Returns a whole number as JSON.
fn whole(float: f64) -> Option<Value> {
    format!("{float:.0}").parse::<i64>().ok().map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COMMA: Style = Style { comma_decimal: true, month_first: false };

    /// Normalizes one value. Returns it with its original text.
    fn normalized(schema: &Value, value: Value, style: Style) -> (Value, Option<String>) {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let mut data = json!({"a": value});
        let mut originals = normalize(&schema, &mut data, style);
        (data["a"].clone(), originals.remove("a"))
    }

    #[test]
    fn texts_are_normalized_by_their_declared_type() {
        let number = json!({"type": ["number", "null"]});
        for (schema, text, value) in [
            (&number, "1.234,50 €", json!(1234.5)),
            (&number, "1.234", json!(1234)),
            (&number, "19 %", json!(19)),
            (&number, "12,5%", json!(12.5)),
            (&number, "(3,20)", json!(-3.2)),
            (&json!({"type": "integer"}), "2.000,00", json!(2000)),
            (&json!({"type": "string", "format": "date"}), "17. März 2026", json!("2026-03-17")),
            (&json!({"type": ["string", "null"], "format": "date"}), "17/03/2026", json!("2026-03-17")),
            (&json!({"type": "string", "format": "currency"}), "€", json!("EUR")),
            (&json!({"type": "string", "pattern": "^[A-Z]{3}$"}), "US$", json!("USD")),
            (&json!({"type": "string", "enum": ["EUR", "USD"]}), "€", json!("EUR")),
            (&json!({"anyOf": [{"type": "null"}, {"type": "number"}]}), "7,00", json!(7.0)),
        ] {
            assert_eq!(normalized(schema, json!(text), COMMA), (value, Some(text.to_owned())), "{schema} {text}");
        }
    }

    #[test]
    fn other_values_stay_without_an_original_text() {
        for (schema, value) in [
            (json!({"type": "number"}), json!("much")),
            (json!({"type": "number"}), json!(7)),
            (json!({"type": "integer"}), json!("1,5")),
            (json!({"type": "string"}), json!("1.234,50 €")),
            (json!({"type": ["string", "number"]}), json!("7")),
            (json!({"anyOf": [{"type": "number"}, {"type": "string"}]}), json!("7")),
            (json!({"type": "string", "format": "date"}), json!("2026-03-17")),
            (json!({"type": "string", "format": "date"}), json!("soon")),
            (json!({"type": "string", "enum": ["EUR", "USD"]}), json!("EUR")),
            (json!({"type": "string", "enum": ["paid", "open"]}), json!("€")),
            (json!({"type": "boolean"}), json!("yes")),
            (json!({}), json!("7")),
            (json!(true), json!("7")),
        ] {
            assert_eq!(normalized(&schema, value.clone(), COMMA), (value, None), "{schema}");
        }
    }

    #[test]
    fn the_notation_of_the_document_decides() {
        let month_first = Style { comma_decimal: false, month_first: true };
        let (number, date) = (json!({"type": "number"}), json!({"type": "string", "format": "date"}));
        assert_eq!(normalized(&number, json!("1.234"), month_first).0, json!(1.234));
        assert_eq!(normalized(&date, json!("03/04/2026"), month_first).0, json!("2026-03-04"));
        assert_eq!(normalized(&date, json!("03/04/2026"), COMMA).0, json!("2026-04-03"));
    }

    #[test]
    fn nested_values_and_references_are_normalized() {
        let schema = json!({
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
            "additionalProperties": {"type": "number"},
            "$defs": {"item": {"type": "object", "properties": {"price": {"type": "number"}, "next": {"$ref": "#/$defs/item"}}}},
        });
        let mut data = json!({"items": [{"price": 1}, {"price": "2,50", "next": {"price": "3 €"}}], "other": "4 %"});
        let originals = normalize(&schema, &mut data, COMMA);
        assert_eq!(data, json!({"items": [{"price": 1}, {"price": 2.5, "next": {"price": 3}}], "other": 4}));
        let expected = [("items[1].next.price", "3 €"), ("items[1].price", "2,50"), ("other", "4 %")];
        assert_eq!(originals, BTreeMap::from(expected.map(|(path, text)| (path.to_owned(), text.to_owned()))));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "number"}]});
        let mut data = json!("7");
        normalize(&schema, &mut data, COMMA);
        assert_eq!(data, json!(7));
    }
}
