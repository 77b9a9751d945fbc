//! The schema checker on arbitrary input: it never panics or hangs, and every accepted schema is usable.

use serde_json::{Map, Value, json};

use super::*;

const INPUTS: usize = 100_000;

/// Keywords and other names that occur in schemas.
const NAMES: &str = "type properties required additionalProperties items anyOf allOf oneOf not $ref $defs \
                     definitions enum const pattern minimum format if then dependencies contains $id $schema \
                     patternProperties propertyNames uniqueItems multipleOf a b json_schema schema name strict";

/// Scalars that occur in schemas.
const TEXTS: &str = "object string array number null # #/properties/a #/$defs/a #/items http://x/y ^a+$ ( (?=a)b\\1 \
                     date json_schema a b http://json-schema.org/draft-07/schema#";

/// Generates JSON. Each input byte is one choice.
struct JsonGenerator<'b> {
    choices: std::slice::Iter<'b, u8>,
    names: Vec<&'static str>,
    texts: Vec<&'static str>,
}

impl JsonGenerator<'_> {
    fn next(&mut self) -> usize {
        self.choices.next().copied().map_or(0, usize::from)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.next() % 8 {
            0..=3 if depth > 0 => {
                let count = self.next() % 4;
                let mut members = Map::new();
                for _ in 0..count {
                    let index = self.next() % self.names.len();
                    let name = self.names[index];
                    members.insert(name.to_owned(), self.value(depth - 1));
                }
                Value::Object(members)
            }
            4 if depth > 0 => (0..self.next() % 4).map(|_| self.value(depth - 1)).collect(),
            5 => json!(self.next().is_multiple_of(2)),
            6 => json!(self.next() as i64 - 100),
            _ => {
                let index = self.next() % self.texts.len();
                json!(self.texts[index])
            }
        }
    }
}

fn check(schema: &Value, data: &Value) {
    let strict = check_schema(schema, Rules::Strict);
    assert!(strict.len() <= VIOLATIONS_MAX + 1);
    assert!(strict.iter().all(|violation| violation.path.starts_with('#')), "{schema}");
    match Validator::compile(schema) {
        Ok(validator) => assert!(validator.check(data).len() <= VIOLATIONS_MAX + 1),
        Err(violations) => {
            assert!(!violations.is_empty() && violations.len() <= VIOLATIONS_MAX + 1, "{schema}");
            assert!(!strict.is_empty(), "strict is stricter: {schema}");
        }
    }
}

#[test]
fn schema_checker_takes_any_schema_and_data() {
    bolero::check!().with_iterations(INPUTS).with_max_len(96).for_each(|choices: &[u8]| {
        let [names, texts] = [NAMES, TEXTS].map(|words| words.split(' ').collect());
        let mut generator = JsonGenerator { choices: choices.iter(), names, texts };
        let mut schema = generator.value(6);
        // Half of the inputs become an object at the root, so that the checks reach the subschemas.
        if choices.len().is_multiple_of(2) {
            schema = json!({ "type": "object", "properties": { "a": schema.clone() }, "required": ["a"],
                "additionalProperties": false, "$defs": { "a": schema } });
        }
        let data = generator.value(6);
        check(&schema, &data);
        // A response format keeps an accepted schema unchanged.
        if choices.first().is_some_and(|first| first % 4 == 0) {
            let format =
                json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema, "strict": true } });
            if let Ok(checked) = check_response_format(&format, Rules::Strict) {
                assert_eq!(checked.response_format, format);
            }
        }
    });
}
