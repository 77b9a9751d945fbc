//! Describes why a value cannot be read, in the kinds of problems that the clients of DocRouter know.

use serde_json::Value;

use crate::rest::failure::{InvalidValue, segment};

/// Maximum number of characters of a message.
const MESSAGE_CHARS: usize = 300;

/// Returns the problem that the deserializer of a type reported at a path. `source`: `body` or `query`.
pub(super) fn problem(source: &'static str, path: &serde_path_to_error::Path, message: &str) -> InvalidValue {
    let path = path.to_string();
    let names = path.split(['.', '[', ']']).filter(|name| !name.is_empty());
    let mut location: Vec<Value> = std::iter::once(Value::from(source)).chain(names.map(segment)).collect();
    let kind = kind_of(message);
    if kind == "missing"
        && let Some(name) = message.split('`').nth(1)
    {
        location.push(Value::from(name));
    }
    InvalidValue { kind, location, message: text_of(kind, message).chars().take(MESSAGE_CHARS).collect() }
}

/// The kinds of problems that a type states at the beginning of its message.
const STATED: [&str; 6] =
    ["int_parsing", "bool_parsing", "greater_than_equal", "less_than_equal", "literal_error", "value_error"];

/// Returns the kind of a message of serde.
fn kind_of(message: &str) -> &'static str {
    let stated = message.split_once(": ").and_then(|(kind, _)| STATED.into_iter().find(|stated| *stated == kind));
    if let Some(kind) = stated {
        return kind;
    }
    if message.starts_with("missing field") {
        return "missing";
    }
    if message.starts_with("unknown variant") {
        return "literal_error";
    }
    let Some((found, expected)) = message.split_once(", expected ") else { return "value_error" };
    if expected.starts_with("a string") {
        "string_type"
    } else if expected.starts_with("a sequence") {
        "list_type"
    } else if expected.starts_with("a boolean") {
        "bool_type"
    } else if found.contains("floating point") && is_integer(expected) {
        "int_from_float"
    } else if is_integer(expected) {
        "int_type"
    } else if expected.starts_with("struct") || expected.starts_with("a map") {
        "model_attributes_type"
    } else {
        "value_error"
    }
}

fn is_integer(expected: &str) -> bool {
    ["u8", "u16", "u32", "u64", "i32", "i64", "usize"].iter().any(|name| expected.starts_with(name))
}

fn text_of(kind: &'static str, message: &str) -> String {
    match kind {
        "missing" => "Field required".to_owned(),
        "value_error" => {
            format!("Value error, {}", message.strip_prefix("value_error: ").unwrap_or(message))
        }
        kind => message.strip_prefix(kind).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_serde_have_a_kind() {
        for (message, kind, text) in [
            ("missing field `name`", "missing", "Field required"),
            (
                "invalid type: integer `1`, expected a string",
                "string_type",
                "invalid type: integer `1`, expected a string",
            ),
            (
                "invalid type: string \"x\", expected a sequence",
                "list_type",
                "invalid type: string \"x\", expected a sequence",
            ),
            (
                "invalid type: string \"false\", expected a boolean",
                "bool_type",
                "invalid type: string \"false\", expected a boolean",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "int_from_float",
                "invalid type: floating point `1.5`, expected u32",
            ),
            ("invalid type: string \"1\", expected u32", "int_type", "invalid type: string \"1\", expected u32"),
            (
                "unknown variant `x`, expected `asc` or `desc`",
                "literal_error",
                "unknown variant `x`, expected `asc` or `desc`",
            ),
            ("int_parsing: the value is not an integer", "int_parsing", "the value is not an integer"),
            ("value_error: is empty", "value_error", "Value error, is empty"),
            ("anything else", "value_error", "Value error, anything else"),
        ] {
            assert_eq!((kind_of(message), text_of(kind_of(message), message).as_str()), (kind, text), "{message}");
        }
    }
}
