//! Estimates the tokens of an answer from its schema. Pure. The limit ends the answer of a model that repeats itself.
//!
//! | part of the schema | tokens |
//! |---|---|
//! | number, boolean, null | 16 |
//! | string | its longest `enum` or `const` value, else `maxLength`, at most 128 |
//! | property | those of its name, 4, and those of its value |
//! | array | 50 items, or `maxItems` if that is less |
//! | `anyOf`, `oneOf`, list of types | the largest alternative |
//! | `$ref` | those of the referenced schema, up to 8 references deep |
//! | anything else: open objects, conditions | unknown |
//!
//! The limit is `256 + 2 × tokens`, at least 512. If the tokens are unknown, the limit is that of the model.

use folio_llm::count_tokens;
use serde_json::{Map, Value};

const ANSWER_TOKENS_MIN: u64 = 512;
const BASE_TOKENS: u64 = 256;
/// Factor for indentation, and for tokenizers that need more tokens than [`count_tokens`].
const FACTOR: u64 = 2;
const SCALAR_TOKENS: u64 = 16;
const STRING_TOKENS: u64 = 128;
const PUNCTUATION_TOKENS: u64 = 4;
const ITEMS: u64 = 50;
/// Maximum nesting of references, because a schema may refer to itself.
const REFERENCES_MAX: u32 = 8;
/// Maximum number of visited subschemas. References may multiply them.
const STEPS_MAX: u32 = 10_000;

/// Returns the limit for an answer that matches the schema. None: the schema does not bound its size.
pub(super) fn answer_tokens(schema: &Value) -> Option<u64> {
    let mut estimate = Estimate { root: schema, steps: 0 };
    let tokens = estimate.value(schema, 0)?;
    Some(BASE_TOKENS.saturating_add(tokens.saturating_mul(FACTOR)).max(ANSWER_TOKENS_MIN))
}

struct Estimate<'a> {
    root: &'a Value,
    steps: u32,
}

impl<'a> Estimate<'a> {
    /// Returns the tokens of a value that matches the schema. `references`: the number of references on the path to it.
    fn value(&mut self, schema: &'a Value, references: u32) -> Option<u64> {
        self.steps = self.steps.saturating_add(1);
        let schema = schema.as_object().filter(|_| self.steps <= STEPS_MAX)?;
        if let Some(reference) = schema.get("$ref") {
            let pointer = reference.as_str()?.strip_prefix('#')?;
            let target = self.root.pointer(pointer).filter(|_| references < REFERENCES_MAX)?;
            return self.value(target, references.saturating_add(1));
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return values.iter().map(tokens_of).max();
        }
        if let Some(value) = schema.get("const") {
            return Some(tokens_of(value));
        }
        if let Some(alternatives) = ["anyOf", "oneOf"].iter().find_map(|keyword| schema.get(*keyword)?.as_array()) {
            return self.largest(alternatives, references);
        }
        match schema.get("type")? {
            Value::String(name) => self.of_type(name, schema, references),
            Value::Array(names) => {
                let mut largest = 0;
                for name in names {
                    largest = self.of_type(name.as_str()?, schema, references)?.max(largest);
                }
                Some(largest)
            }
            _ => None,
        }
    }

    fn largest(&mut self, alternatives: &'a [Value], references: u32) -> Option<u64> {
        let mut largest = 0;
        for schema in alternatives {
            largest = self.value(schema, references)?.max(largest);
        }
        Some(largest)
    }

    fn of_type(&mut self, name: &str, schema: &'a Map<String, Value>, references: u32) -> Option<u64> {
        match name {
            "number" | "integer" | "boolean" | "null" => Some(SCALAR_TOKENS),
            "string" => {
                let longest = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(STRING_TOKENS);
                Some(longest.min(STRING_TOKENS).saturating_add(PUNCTUATION_TOKENS))
            }
            "array" => {
                let items = schema.get("maxItems").and_then(Value::as_u64).map_or(ITEMS, |max| max.min(ITEMS));
                let item = self.value(schema.get("items")?, references)?;
                Some(items.saturating_mul(item.saturating_add(PUNCTUATION_TOKENS)))
            }
            "object" if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                let mut tokens = PUNCTUATION_TOKENS;
                for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                    let value = self.value(property, references)?;
                    let name = count_tokens(name).saturating_add(PUNCTUATION_TOKENS);
                    tokens = tokens.saturating_add(name).saturating_add(value);
                }
                Some(tokens)
            }
            _ => None,
        }
    }
}

fn tokens_of(value: &Value) -> u64 {
    count_tokens(&value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(properties: Value) -> Value {
        json!({"type": "object", "additionalProperties": false, "properties": properties})
    }

    #[test]
    fn the_limit_grows_with_the_schema() {
        let total = json!({"type": "number"});
        assert_eq!(answer_tokens(&object(json!({"total": total}))), Some(ANSWER_TOKENS_MIN));
        // 4 for the object, and for each of ten properties 1 for the name, 4 for punctuation, 132 for the text.
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let texts: Map<String, Value> = names.iter().map(|name| ((*name).into(), json!({"type": "string"}))).collect();
        assert_eq!(answer_tokens(&object(texts.into())), Some(256 + 2 * (4 + 10 * (1 + 4 + 132))));
        let list = |max: u64| object(json!({"a": {"type": "array", "items": {"type": "integer"}, "maxItems": max}}));
        assert_eq!(answer_tokens(&list(20)), Some(256 + 2 * (4 + 1 + 4 + 20 * 20)));
        assert_eq!(answer_tokens(&list(1_000)), Some(256 + 2 * (4 + 1 + 4 + 50 * 20)));
    }

    #[test]
    fn alternatives_count_as_their_largest_and_references_as_their_target() {
        let long = "x".repeat(4_000);
        let tokens = tokens_of(&json!(long));
        for schema in [
            json!({"enum": ["a", long]}),
            json!({"const": long}),
            json!({"anyOf": [{"type": "null"}, {"const": long}]}),
            json!({"$ref": "#/$defs/text", "$defs": {"text": {"const": long}}}),
        ] {
            assert_eq!(answer_tokens(&schema), Some(256 + 2 * tokens), "{schema}");
        }
        assert_eq!(answer_tokens(&json!({"type": ["string", "null"], "maxLength": 3})), Some(ANSWER_TOKENS_MIN));
    }

    #[test]
    fn a_schema_that_does_not_bound_the_answer_has_no_limit() {
        let itself = json!({"type": "array", "items": {"$ref": "#"}});
        let mut wide = json!({"type": "null"});
        for _ in 0..14 {
            wide = json!({"anyOf": [wide, wide]});
        }
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"allOf": [{"type": "null"}]}),
            json!({"$ref": "https://example.org/schema"}),
            object(json!({"any": {}})),
            itself,
            wide,
        ] {
            assert_eq!(answer_tokens(&schema), None, "{schema}");
        }
    }
}
