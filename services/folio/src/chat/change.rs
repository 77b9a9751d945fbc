//! Formats the change that a call proposes as rows of its approval card (see [`super::card`]): the fields of a schema,
//! the text of a prompt, and the differences to the current values.

use std::borrow::Cow;
use std::time::Duration;

use anstyle::Style;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::terminal::{BAD, BOLD, DIM, GOOD};

/// Maximum number of listed fields of a schema.
const FIELDS_MAX: usize = 500;
/// Maximum number of values of an enumeration that are listed.
const VALUES_MAX: usize = 8;
/// Number of unchanged lines around a difference.
const CONTEXT_LINES: usize = 2;
/// Time after which a coarser difference is shown.
const DIFF_TIME: Duration = Duration::from_millis(200);
/// Maximum number of characters of a value that is shown in the line of its name.
const BRIEF_CHARS: usize = 60;
/// Names of arguments that contain a schema or a response format.
const SCHEMA_ARGUMENTS: [&str; 2] = ["response_format", "schema"];
/// Names under which the current values contain the name of the resource.
const NAMES: [&str; 2] = ["name", "document_name"];

/// A row of a card, without its frame. The mark (`+ `, `- ` or empty) precedes each of its lines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) style: Style,
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

fn row(style: Style, text: impl Into<String>) -> Row {
    Row { style, mark: "", text: text.into() }
}

/// Returns the rows for the arguments of a call. `current` has the current values under the names of the arguments.
/// None: the call creates a resource, or the values are unknown.
pub(crate) fn rows(arguments: &Value, current: Option<&Value>) -> Vec<Row> {
    let Some(arguments) = arguments.as_object() else { return text_rows(&pretty(arguments)) };
    let value = |key: &str| current.and_then(|current| current.get(key));
    let mut rows = Vec::new();
    // The changed resource, unless the call changes its name.
    let name = NAMES.iter().filter(|key| !arguments.contains_key(**key)).find_map(|key| value(key)?.as_str());
    if let Some(name) = name {
        rows.push(row(BOLD, format!("of {name:?}")));
    }
    for (key, new) in arguments {
        rows.extend(argument(key, new, value(key)));
    }
    rows
}

fn argument(key: &str, new: &Value, old: Option<&Value>) -> Vec<Row> {
    if old.is_some_and(|old| same(old, new)) {
        return vec![row(DIM, format!("{key}: unchanged"))];
    }
    if let Some(schema) = schema_of(key, new) {
        return schema_rows(key, (new, &schema), old.and_then(|old| Some((old, schema_of(key, old)?))));
    }
    let (text, before) = (text_of(new), old.map(text_of));
    match before {
        Some(before) if is_brief(&text) && is_brief(&before) => {
            vec![row(Style::new(), format!("{key}: {} → {}", visible(&before), visible(&text)))]
        }
        Some(before) => {
            let mut rows = vec![row(BOLD, format!("changes of {key}"))];
            rows.extend(diff(&before, &text));
            rows
        }
        None if is_brief(&text) => vec![row(Style::new(), format!("{key}: {}", visible(&text)))],
        None => {
            let mut rows = vec![row(BOLD, key)];
            rows.extend(text_rows(&text));
            rows
        }
    }
}

/// Returns true if two values are equal, or are the same JSON in a text and in an object.
fn same(old: &Value, new: &Value) -> bool {
    parsed(old) == parsed(new)
}

/// Returns the object that a text contains as JSON, or the value itself.
fn parsed(value: &Value) -> Cow<'_, Value> {
    let object = value.as_str().and_then(|text| serde_json::from_str(text).ok()).filter(Value::is_object);
    object.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Returns a text without quotes, short JSON in one line, and other JSON with line breaks.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) if value.to_string().chars().count() > BRIEF_CHARS => pretty(value),
        other => other.to_string(),
    }
}

fn visible(text: &str) -> &str {
    if text.is_empty() { "(empty)" } else { text }
}

fn is_brief(text: &str) -> bool {
    !text.contains('\n') && text.chars().count() <= BRIEF_CHARS
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn text_rows(text: &str) -> Vec<Row> {
    text.lines().map(|line| row(Style::new(), format!("  {line}"))).collect()
}

fn diff(old: &str, new: &str) -> Vec<Row> {
    let differences = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let mut rows = Vec::new();
    for group in differences.grouped_ops(CONTEXT_LINES) {
        if !rows.is_empty() {
            rows.push(row(DIM, "…"));
        }
        for change in group.iter().flat_map(|operation| differences.iter_changes(operation)) {
            let (style, mark) = match change.tag() {
                ChangeTag::Insert => (GOOD, "+ "),
                ChangeTag::Delete => (BAD, "- "),
                ChangeTag::Equal => (DIM, "  "),
            };
            rows.push(Row { style, mark, text: change.value().trim_end_matches(['\n', '\r']).to_owned() });
        }
    }
    rows
}

/// Returns the schema in an argument: in a response format, as JSON text, or the argument itself. None: the argument
/// contains no schema.
fn schema_of(key: &str, value: &Value) -> Option<Value> {
    if !SCHEMA_ARGUMENTS.contains(&key) {
        return None;
    }
    let value = parsed(value);
    let value: &Value = &value;
    let schema = value.pointer("/json_schema/schema").or_else(|| value.get("schema")).unwrap_or(value);
    schema.get("properties").is_some().then(|| schema.clone())
}

/// Returns the rows of an argument with a schema. `new` and `old` are pairs of an argument and the schema that it
/// contains.
fn schema_rows(key: &str, (new, schema): (&Value, &Value), old: Option<(&Value, Value)>) -> Vec<Row> {
    let lines = fields(schema);
    let Some((old, old_schema)) = old else {
        let mut rows = vec![row(BOLD, "fields (* required)")];
        rows.extend(lines.iter().map(|line| row(Style::new(), format!("  {line}"))));
        return rows;
    };
    let before = fields(&old_schema);
    if before == lines {
        // The fields do not show every keyword of a schema.
        let mut rows = vec![row(BOLD, format!("changes of {key}"))];
        rows.extend(diff(&pretty(&parsed(old)), &pretty(&parsed(new))));
        return rows;
    }
    let mut rows = vec![row(BOLD, "changes of the fields (* required)")];
    rows.extend(diff(&before.join("\n"), &lines.join("\n")));
    rows
}

/// Returns one line per field of an object schema, indented by level: required mark, name, type and description.
fn fields(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    add_fields(schema, 0, &mut lines);
    if lines.len() > FIELDS_MAX {
        let more = lines.len() - FIELDS_MAX;
        lines.truncate(FIELDS_MAX);
        lines.push(format!("… {more} more fields"));
    }
    lines
}

/// Adds the fields of an object or of the items of an array. The parser of JSON bounds the depth.
fn add_fields(schema: &Value, depth: usize, lines: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        if let Some(items) = schema.get("items") {
            add_fields(items, depth, lines);
        }
        for key in ["anyOf", "oneOf"] {
            let options = schema.get(key).and_then(Value::as_array);
            options.into_iter().flatten().for_each(|option| add_fields(option, depth, lines));
        }
        return;
    };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, field) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
        let mark = if is_required { "*" } else { " " };
        let description = match field.get("description").and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => {
                format!(" — {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            _ => String::new(),
        };
        lines.push(format!("{}{mark} {name}: {}{description}", "  ".repeat(depth), type_of(field)));
        add_fields(field, depth + 1, lines);
    }
}

/// Describes the type of a field.
fn type_of(field: &Value) -> String {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let mut names: Vec<String> = values.iter().take(VALUES_MAX).map(Value::to_string).collect();
        if values.len() > VALUES_MAX {
            names.push(format!("… {} more", values.len() - VALUES_MAX));
        }
        return format!("one of {}", names.join(", "));
    }
    if let Some(value) = field.get("const") {
        return format!("always {value}");
    }
    if let Some(target) = field.get("$ref").and_then(Value::as_str) {
        return target.rsplit('/').next().unwrap_or(target).to_owned();
    }
    let options = ["anyOf", "oneOf"].iter().find_map(|key| field.get(*key).and_then(Value::as_array));
    if let Some(options) = options {
        return options.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    let format = field.get("format").and_then(Value::as_str);
    let named = |name: &str| match format.filter(|_| name != "null") {
        Some(format) => format!("{name} ({format})"),
        None => name.to_owned(),
    };
    match field.get("type") {
        Some(Value::String(name)) if name == "array" => match field.get("items") {
            Some(items) => format!("list of {}", type_of(items)),
            None => "list".to_owned(),
        },
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(named).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(rows: &[Row]) -> Vec<String> {
        rows.iter().map(|row| format!("{}{}", row.mark, row.text)).collect()
    }

    fn format_of(properties: Value, required: &[&str]) -> Value {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "type": "json_schema", "json_schema": { "name": "invoice", "schema": schema, "strict": true } })
    }

    #[test]
    fn a_schema_is_shown_as_a_list_of_fields() {
        let properties = json!({
            "number": { "type": "string", "description": "The number\nof the invoice" },
            "date": { "type": ["string", "null"], "format": "date" },
            "due": { "type": "string", "format": "date" },
            "currency": { "enum": ["EUR", "USD"] },
            "lines": { "type": "array", "items": { "type": "object", "properties": { "price": { "type": "number" } },
                "required": ["price"] } },
            "buyer": { "anyOf": [{ "type": "object", "properties": { "name": { "$ref": "#/definitions/name" } } },
                { "type": "null" }] },
        });
        let format = format_of(properties, &["number", "lines"]);
        let expected = [
            "name: Invoice",
            "fields (* required)",
            "  * number: string — The number of the invoice",
            "    date: string (date) or null",
            "    due: string (date)",
            "    currency: one of \"EUR\", \"USD\"",
            "  * lines: list of object",
            "    * price: number",
            "    buyer: object or null",
            "      name: name",
        ];
        assert_eq!(texts(&rows(&json!({ "name": "Invoice", "response_format": format }), None)), expected);
        let as_text = json!({ "name": "Invoice", "response_format": format.to_string() });
        assert_eq!(texts(&rows(&as_text, None)), expected);
    }

    #[test]
    fn an_update_of_a_schema_is_shown_as_a_difference() {
        let old = format_of(json!({ "a": { "type": "string" }, "b": { "type": "string" } }), &["a"]);
        let new = format_of(json!({ "a": { "type": "number" }, "b": { "type": "string" } }), &["a"]);
        let current = json!({ "name": "Invoice", "response_format": old });
        let arguments = json!({ "schema_id": "sch_1", "response_format": new });
        let expected = [
            "of \"Invoice\"",
            "schema_id: sch_1",
            "changes of the fields (* required)",
            "- * a: string",
            "+ * a: number",
            "    b: string",
        ];
        assert_eq!(texts(&rows(&arguments, Some(&current))), expected);
        let same = json!({ "response_format": current["response_format"].to_string() });
        assert_eq!(texts(&rows(&same, Some(&current))), ["of \"Invoice\"", "response_format: unchanged"]);
        let mut pattern = old.clone();
        pattern["json_schema"]["schema"]["properties"]["a"]["pattern"] = json!("x");
        let shown = texts(&rows(&json!({ "response_format": pattern }), Some(&current)));
        assert!(shown.iter().any(|line| line.starts_with("+ ") && line.contains("pattern")), "{shown:?}");
    }

    #[test]
    fn a_prompt_is_shown_as_its_text_and_an_update_as_a_difference() {
        let arguments = json!({ "name": "Extract", "content": "Read the document.\nReturn the total." });
        let expected = ["name: Extract", "content", "  Read the document.", "  Return the total."];
        assert_eq!(texts(&rows(&arguments, None)), expected);
        let current = json!({ "name": "Extract", "content": "Read the document.\nReturn all.", "model": "" });
        let arguments = json!({ "content": "Read the document.\nReturn the total.", "model": "large" });
        let expected = [
            "of \"Extract\"",
            "changes of content",
            "  Read the document.",
            "- Return all.",
            "+ Return the total.",
            "model: (empty) → large",
        ];
        assert_eq!(texts(&rows(&arguments, Some(&current))), expected);
    }

    #[test]
    fn the_change_of_a_document_is_shown_by_value() {
        let current = json!({ "document_name": "scan.pdf", "tag_ids": ["tag_1"], "metadata": {} });
        let arguments = json!({ "document_name": "invoice.pdf", "tag_ids": ["tag_1"], "metadata": { "by": "ACME" } });
        let expected =
            ["document_name: scan.pdf → invoice.pdf", "tag_ids: unchanged", "metadata: {} → {\"by\":\"ACME\"}"];
        assert_eq!(texts(&rows(&arguments, Some(&current))), expected);
    }

    #[test]
    fn a_schema_with_many_fields_is_cut() {
        let properties: serde_json::Map<String, Value> =
            (0..FIELDS_MAX + 7).map(|at| (format!("f{at}"), json!({ "type": "string" }))).collect();
        let lines = fields(&json!({ "properties": properties }));
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (FIELDS_MAX + 1, Some("… 7 more fields")));
    }

    #[test]
    fn arguments_that_are_no_object_are_shown_as_they_are() {
        assert_eq!(texts(&rows(&json!("no object"), None)), ["  \"no object\""]);
    }
}
