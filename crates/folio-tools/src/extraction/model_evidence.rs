//! Quotes and confidences of a model. Pure.
//!
//! For a model with the option `evidence`, the schema of the answer has an additional last member with the quotes and
//! confidences. The member is removed from the answer before the data are parsed, so that a malformed member does not fail the
//! extraction.

use std::collections::BTreeMap;

use folio_resources::{CITATIONS_MAX, QUOTE_CHARS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::path::Path;

/// The name of the member.
const MEMBER: &str = "_evidence";
/// Minimum length of a quote, in characters. A shorter quote is not specific, because most texts contain it.
pub(super) const QUOTE_CHARS_MIN: usize = 3;
/// Maximum number of entries of the member. Further entries are dropped.
const ENTRIES_MAX: usize = CITATIONS_MAX;

/// The part of the system message that specifies the member. Many endpoints restrict the answer by the schema, but do not show
/// the schema to the model.
pub(super) const INSTRUCTIONS: &str = "\
The last member, _evidence, has one entry for each text, number and date of the answer, such as \
{\"path\": \"total\", \"quote\": \"Total: 12.50\", \"confidence\": 0.9}. path: the member of the answer, such as total or \
items[0].price. quote: 3 to 500 characters of the document that contain the value, copied exactly, or null. confidence: how \
certain the value is, from 0 to 1.";

/// The unchecked statements of a model about one value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ValueEvidence {
    /// Words of the document that contain the value, as the model copied them: 3 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quote: Option<String>,
    /// The confidence, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) confidence: Option<f64>,
}

/// The evidence for values by their canonical paths.
pub(super) type Evidence = BTreeMap<String, ValueEvidence>;

/// Returns the schema of the member.
pub(super) fn member_schema() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "quote": {"type": ["string", "null"]},
                "confidence": {"type": "number"},
            },
            "required": ["path", "quote", "confidence"],
            "additionalProperties": false,
        },
    })
}

/// Returns the schema with the member. None: the schema does not describe an object with listed properties, has a property of
/// this name, or refers to itself.
pub(super) fn extended(schema: &Value) -> Option<Value> {
    let mut extended = schema.clone();
    let root = extended.as_object_mut()?;
    let is_object = root.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || refers_to_root(schema) {
        return None;
    }
    let properties = root.get_mut("properties")?.as_object_mut()?;
    if properties.contains_key(MEMBER) {
        return None;
    }
    properties.insert(MEMBER.to_owned(), member_schema());
    root.entry("required").or_insert_with(|| json!([])).as_array_mut()?.push(Value::from(MEMBER));
    Some(extended)
}

/// Returns true if the schema contains a reference to itself. The values of such a reference would also have the member.
fn refers_to_root(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("$ref").and_then(Value::as_str) == Some("#") || members.values().any(refers_to_root)
        }
        Value::Array(items) => items.iter().any(refers_to_root),
        _ => false,
    }
}

/// Divides the text of an answer into the text without the member, and the text of the member's value. If the length limit ended
/// the answer within the value, a closing brace is added to the first text. None: the answer does not have the member.
pub(super) fn split(text: &str) -> Option<(String, &str)> {
    let (mut depth, mut comma, mut at) = (0_usize, None, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                let end = at + string_length(text.get(at..)?);
                if depth == 1
                    && text.get(at + 1..end - 1) == Some(MEMBER)
                    && let Some(value) = text.get(end..)?.trim_start().strip_prefix(':')
                {
                    let (value, after) = value.split_at(value_length(value));
                    let before = text.get(..comma.unwrap_or(at))?;
                    let after = match (comma, after) {
                        (_, "") => "}",
                        (None, after) => after.strip_prefix(',').unwrap_or(after),
                        (Some(_), after) => after,
                    };
                    return Some((format!("{before}{after}"), value.trim()));
                }
                at = end;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => comma = Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns true if the data have each property of the schema of an answer. If a model writes the member with the evidence too
/// early, and reaches the length limit within the member, the properties after it are missing.
pub(super) fn has_all_properties(schema: &Value, data: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.is_none_or(|properties| properties.keys().all(|name| data.get(name).is_some()))
}

/// Returns the bytes of the string at the start of a text, with its quotation marks: at least two, unless the text ends.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the bytes of the value at the start of a text: up to the comma or bracket after it.
fn value_length(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at += string_length(text.get(at..).unwrap_or_default()).max(1);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b',' | b']' | b'}' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Parses the value of the member. Omits entries that are malformed or that do not name a single value of the data, quotes and
/// confidences beyond their bounds, and all but the first entry for a value.
pub(super) fn parse(text: &str, data: &Value) -> Evidence {
    let entries: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let mut evidence = Evidence::new();
    for entry in entries.iter().take(ENTRIES_MAX) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let path = text("path").and_then(|path| path.parse::<Path>().ok());
        let Some((path, value)) = path.and_then(|path| Some((path.canonical(data).ok()?, path.get(data).ok()?))) else {
            continue;
        };
        if value.is_object() || value.is_array() {
            continue;
        }
        let length = QUOTE_CHARS_MIN..=QUOTE_CHARS;
        let quote = text("quote").map(str::trim).filter(|quote| length.contains(&quote.chars().count()));
        let confidence = entry.get("confidence").and_then(Value::as_f64).filter(|share| (0.0..=1.0).contains(share));
        if quote.is_some() || confidence.is_some() {
            evidence.entry(path).or_insert(ValueEvidence { quote: quote.map(str::to_owned), confidence });
        }
    }
    evidence
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_schema_of_an_object_is_extended_by_a_last_member() {
        let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]});
        let extended = extended(&schema).unwrap();
        assert_eq!(extended["required"], json!(["total", MEMBER]));
        let names: Vec<&String> = extended["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["total", MEMBER]);
        assert_eq!(super::extended(&json!({"type": "object", "properties": {}})).unwrap()["required"], json!([MEMBER]));
    }

    #[test]
    fn other_schemas_are_not_extended() {
        for schema in [
            json!(true),
            json!({}),
            json!({"type": "object"}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"type": "array", "items": {}}),
            json!({"type": "object", "properties": {"_evidence": {}}}),
            json!({"type": "object", "properties": {"part": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}}),
            json!({"type": "object", "properties": {}, "required": true}),
        ] {
            assert_eq!(extended(&schema), None, "{schema}");
        }
    }

    #[test]
    fn the_member_is_removed_wherever_it_is() {
        for (text, data, value) in [
            (r#"{"a": 1, "_evidence": [{"b": ["}"]}]}"#, r#"{"a": 1}"#, r#"[{"b": ["}"]}]"#),
            (r#"{"_evidence": [], "a": 1}"#, r#"{ "a": 1}"#, "[]"),
            (r#"{"a": 1, "_evidence" : null, "b": {}}"#, r#"{"a": 1, "b": {}}"#, "null"),
            (r#"{"_evidence": "x\"}"}"#, "{}", r#""x\"}""#),
            (r#"{"a": 1, "_evidence": [{"path": "a", "qu"#, r#"{"a": 1}"#, r#"[{"path": "a", "qu"#),
            (r#"{"a": 1, "_evidence": NaN}"#, r#"{"a": 1}"#, "NaN"),
        ] {
            assert_eq!(split(text), Some((data.to_owned(), value)), "{text}");
        }
        for other in
            [r#"{"a": "_evidence"}"#, r#"{"a": {"_evidence": 1}}"#, r#"["_evidence"]"#, r#"{"_evidence"#, "", "\""]
        {
            assert_eq!(split(other), None, "{other}");
        }
    }

    #[test]
    fn data_without_a_property_of_the_schema_are_incomplete() {
        let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}});
        for (data, expected) in [
            (json!({"a": 1, "b": null}), true),
            (json!({"a": 1, "b": 2, "c": 3}), true),
            (json!({"a": 1}), false),
            (json!({}), false),
            (json!([]), false),
        ] {
            assert_eq!(has_all_properties(&schema, &data), expected, "{data}");
        }
        assert!(has_all_properties(&json!({"type": "object", "properties": {}}), &json!({})));
    }

    #[test]
    fn malformed_entries_are_dropped() {
        let data = json!({"total": 5, "items": [{"name": "Tea"}], "none": null});
        let long = "x".repeat(QUOTE_CHARS + 1);
        let text = json!([
            {"path": "total", "quote": " Total 5 ", "confidence": 0.5},
            {"path": "total", "quote": "another", "confidence": 1},
            {"path": "items.0.name", "quote": "Te", "confidence": 1},
            {"path": "items[0]", "quote": "Tea", "confidence": 1},
            {"path": "items[1].name", "quote": "Tea", "confidence": 1},
            {"path": "other", "quote": "Tea", "confidence": 1},
            {"path": "none", "quote": long, "confidence": 1.01},
            {"path": "a..b", "quote": "Tea", "confidence": 1},
            {"path": 7}, "total", null, {"quote": "Tea"},
        ]);
        let expected = [
            ("items[0].name", ValueEvidence { quote: None, confidence: Some(1.0) }),
            ("total", ValueEvidence { quote: Some("Total 5".to_owned()), confidence: Some(0.5) }),
        ];
        let expected: Evidence = expected.map(|(path, found)| (path.to_owned(), found)).into();
        assert_eq!(parse(&text.to_string(), &data), expected);
        for (confidence, expected) in
            [("0", Some(0.0)), ("1.0", Some(1.0)), ("-0.1", None), ("\"0.5\"", None), ("null", None), ("[0.5]", None)]
        {
            let text = format!(r#"[{{"path": "total", "quote": "Total 5", "confidence": {confidence}}}]"#);
            assert_eq!(parse(&text, &data)["total"].confidence, expected, "{confidence}");
        }
        for malformed in ["", "null", "{}", "[", "NaN", r#"[{"path": "total", "confidence": 1e999}]"#] {
            assert_eq!(parse(malformed, &data), Evidence::new(), "{malformed}");
        }
        let many = vec![json!({"path": "other"}); ENTRIES_MAX];
        let last = json!({"path": "total", "quote": "Total 5"});
        assert_eq!(parse(&Value::from([many, vec![last]].concat()).to_string(), &data), Evidence::new());
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_a_panic(text in "(\\PC|[{}\\[\\],:\"\\\\]|\"_evidence\":){0,40}") {
            if let Some((data, value)) = split(&text) {
                prop_assert!(data.len() + value.len() <= text.len() + 1);
                parse(value, &Value::Null);
            }
        }

        #[test]
        fn data_before_the_member_are_unchanged(total in any::<i64>(), evidence in "\\PC{0,20}") {
            let data = json!({ "total": total, "name": evidence });
            let mut answer = data.clone();
            answer[MEMBER] = json!([evidence]);
            let (rest, value) = split(&answer.to_string()).map(|(rest, value)| (rest, value.to_owned())).unwrap();
            prop_assert_eq!(rest, data.to_string());
            prop_assert_eq!(value, json!([evidence]).to_string());
        }
    }
}
