//! The response format: the wrapper of a schema.

use folio_types::{json, limits};
use serde_json::{Map, Value};

use super::graph::Graph;
use super::validate::{Validator, too_deep};
use super::{PATTERNS_MAX, Violation, bounded, bounds, is_deeper_than, join, strict};

/// Maximum length of the name of a response format, in ASCII characters.
const NAME_CHARS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// The default: the strict rules.
    Strict,
    /// Any valid Draft 7 schema. If it violates the strict rules, it is sent to models as not strict.
    AllowNonStrict,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CheckedFormat {
    /// `{type, json_schema: {name, schema, strict}}`, as stored.
    pub response_format: Value,
    /// True if the schema obeys the strict rules and declares it.
    pub strict: bool,
}

/// Parses a schema argument. Some models write it as a string that contains JSON.
fn normalize(value: &Value) -> Result<Value, Vec<Violation>> {
    let Value::String(text) = value else { return Ok(value.clone()) };
    if text.len() > limits::SCHEMA_BYTES * 2 {
        return Err(vec![too_large(text.len())]);
    }
    json::read(text).map_err(|refused| vec![Violation::new("#", refused.to_string())])
}

fn too_large(bytes: usize) -> Violation {
    Violation::new("#", format!("has {bytes} bytes; the maximum is {}", limits::SCHEMA_BYTES))
}

/// Validates a response format, given as JSON or as a string that contains JSON. The error lists at least one and at
/// most [`super::VIOLATIONS_MAX`] violations.
pub fn check_response_format(value: &Value, rules: Rules) -> Result<CheckedFormat, Vec<Violation>> {
    let format = normalize(value)?;
    check_bounds(&format)?;
    let mut violations = Vec::new();
    let Some(inner) = check_wrapper(&format, rules, &mut violations) else { return Err(bounded(violations)) };
    let schema = inner.get("schema").unwrap_or(&Value::Null);
    let declares_strict = inner.get("strict") == Some(&Value::Bool(true));
    let mut strict_violations = Vec::new();
    for violation in schema_violations(schema, &mut strict_violations) {
        violations.push(inside_wrapper(violation));
    }
    let strict = declares_strict && strict_violations.is_empty();
    if rules == Rules::Strict {
        violations.extend(strict_violations.into_iter().map(inside_wrapper));
    }
    if !violations.is_empty() {
        return Err(bounded(violations));
    }
    Ok(CheckedFormat { response_format: stored_form(inner, schema, strict), strict })
}

/// Validates a bare schema. An empty result means that it is valid.
pub fn check_schema(schema: &Value, rules: Rules) -> Vec<Violation> {
    if let Err(violations) = check_bounds(schema) {
        return violations;
    }
    let mut strict = Vec::new();
    let mut violations = schema_violations(schema, &mut strict);
    if rules == Rules::Strict {
        violations.append(&mut strict);
    }
    bounded(violations)
}

fn check_bounds(value: &Value) -> Result<(), Vec<Violation>> {
    if is_deeper_than(value, limits::JSON_DEPTH) {
        return Err(vec![too_deep()]);
    }
    let bytes = value.to_string().len();
    if bytes > limits::SCHEMA_BYTES {
        return Err(vec![too_large(bytes)]);
    }
    let patterns = bounds::patterns(value);
    if patterns > PATTERNS_MAX {
        return Err(vec![Violation::new("#", format!("has {patterns} patterns; the maximum is {PATTERNS_MAX}"))]);
    }
    Ok(())
}

/// Validates the wrapper. Returns the member `json_schema` if it exists.
fn check_wrapper<'a>(
    format: &'a Value,
    rules: Rules,
    violations: &mut Vec<Violation>,
) -> Option<&'a Map<String, Value>> {
    const FORMAT: &str =
        "must be {\"type\": \"json_schema\", \"json_schema\": {\"name\", \"schema\", \"strict\": true}}";
    let Some(members) = format.as_object() else {
        violations.push(Violation::new("#", FORMAT));
        return None;
    };
    if members.get("type").and_then(Value::as_str) != Some("json_schema") {
        violations.push(Violation::new("#/type", format!("must be \"json_schema\": the whole {FORMAT}")));
    }
    unknown_members("#", members, &["type", "json_schema"], violations);
    let Some(inner) = members.get("json_schema").and_then(Value::as_object) else {
        violations.push(Violation::new("#/json_schema", "must be an object with \"name\", \"schema\" and \"strict\""));
        return None;
    };
    unknown_members("#/json_schema", inner, &["name", "description", "schema", "strict"], violations);
    if !inner.get("name").and_then(Value::as_str).is_some_and(is_format_name) {
        let message = "must be 1 to 64 characters out of A-Z, a-z, 0-9, _ and -";
        violations.push(Violation::new("#/json_schema/name", message));
    }
    if inner.get("description").is_some_and(|description| !description.is_string()) {
        violations.push(Violation::new("#/json_schema/description", "must be a string"));
    }
    match (inner.get("strict"), rules) {
        (Some(Value::Bool(true)), _) | (Some(Value::Bool(false)) | None, Rules::AllowNonStrict) => {}
        (_, Rules::Strict) => violations.push(Violation::new("#/json_schema/strict", "must be true")),
        (_, Rules::AllowNonStrict) => {
            violations.push(Violation::new("#/json_schema/strict", "must be true or false"));
        }
    }
    if inner.get("schema").is_none() {
        violations.push(Violation::new("#/json_schema/schema", "is missing"));
        return None;
    }
    Some(inner)
}

fn unknown_members(path: &str, members: &Map<String, Value>, expected: &[&str], violations: &mut Vec<Violation>) {
    for name in members.keys().filter(|name| !expected.contains(&name.as_str())) {
        violations
            .push(Violation::new(join(path, name), format!("is unknown; expected one of {}", expected.join(", "))));
    }
}

fn is_format_name(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(is_name_character)
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Converts a text to a valid name of a response format. A valid name is returned unchanged.
pub fn format_name(text: &str) -> String {
    let text = if text.trim().is_empty() { "schema" } else { text.trim() };
    text.chars().take(NAME_CHARS).map(|c| if is_name_character(c) { c } else { '_' }).collect()
}

/// Returns the violations of Draft 7 and of the bounds. Violations of the strict rules are added to `strict`.
fn schema_violations(schema: &Value, strict: &mut Vec<Violation>) -> Vec<Violation> {
    match checked_graph(schema) {
        Err(violations) => violations,
        Ok(graph) => {
            strict::check(&graph, strict);
            Validator::compile_graph(&graph, schema).err().into_iter().flatten().collect()
        }
    }
}

/// Compiles a schema that is valid Draft 7 within the bounds.
pub(super) fn compile(schema: &Value) -> Result<Validator, Vec<Violation>> {
    check_bounds(schema)?;
    Validator::compile_graph(&checked_graph(schema)?, schema)
}

fn checked_graph(schema: &Value) -> Result<Graph<'_>, Vec<Violation>> {
    if !schema.is_object() {
        return Err(vec![Violation::new("#", "must be a JSON object with a JSON Schema")]);
    }
    if let Some(draft) = schema.get("$schema")
        && !draft.as_str().is_some_and(is_draft_7)
    {
        let message = "must be \"http://json-schema.org/draft-07/schema#\" or absent";
        return Err(vec![Violation::new("#/$schema", message)]);
    }
    let violations = super::validate::meta_violations(schema);
    if violations.is_empty() { Graph::build(schema) } else { Err(bounded(violations)) }
}

fn is_draft_7(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    matches!(rest, Some("json-schema.org/draft-07/schema" | "json-schema.org/draft-07/schema#"))
}

fn inside_wrapper(violation: Violation) -> Violation {
    let below = violation.path.strip_prefix('#').unwrap_or(&violation.path);
    Violation { path: format!("#/json_schema/schema{below}"), message: violation.message }
}

fn stored_form(inner: &Map<String, Value>, schema: &Value, strict: bool) -> Value {
    let mut json_schema = Map::new();
    for name in ["name", "description"] {
        if let Some(value) = inner.get(name) {
            json_schema.insert(name.to_owned(), value.clone());
        }
    }
    json_schema.insert("schema".to_owned(), schema.clone());
    json_schema.insert("strict".to_owned(), Value::Bool(strict));
    serde_json::json!({ "type": "json_schema", "json_schema": json_schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_valid_name_and_a_valid_name_stays() {
        for (text, name) in [
            ("invoice_v2-B", "invoice_v2-B"),
            (" Invoice 2026 ", "Invoice_2026"),
            ("Rechnung für März", "Rechnung_f_r_M_rz"),
            ("", "schema"),
            (" \t", "schema"),
        ] {
            assert_eq!(format_name(text), name, "{text:?}");
            assert!(is_format_name(name));
        }
        let longest = "x".repeat(NAME_CHARS);
        assert_eq!(format_name(&longest), longest);
        assert_eq!(format_name(&"ä".repeat(NAME_CHARS + 1)), "_".repeat(NAME_CHARS));
        assert!(!is_format_name("") && !is_format_name(&"x".repeat(NAME_CHARS + 1)) && !is_format_name("ä"));
    }
}
