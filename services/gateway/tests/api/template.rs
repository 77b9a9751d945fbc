//! Placeholders in the texts of a scenario or a sample: `${NAME}`, `${NAME/JSON/POINTER}` or `${FUNCTION(ARGUMENT)}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::harness::format;
use crate::samples::missing;

/// Returns the value of a name, if it is defined.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// Replaces the placeholders in the texts of a value. A text that consists of one placeholder becomes its value.
pub(crate) fn fill(value: &Value, lookup: Lookup<'_>) -> Value {
    match value {
        Value::String(text) => fill_text(text, lookup),
        Value::Array(items) => items.iter().map(|item| fill(item, lookup)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), fill(value, lookup))).collect(),
        other => other.clone(),
    }
}

fn fill_text(text: &str, lookup: Lookup<'_>) -> Value {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or_else(|| panic!("a placeholder of {text:?} is not closed"));
        let value = evaluate(name, lookup).unwrap_or_else(|| panic!("${{{name}}} is not defined"));
        if text.len() == name.len() + 3 {
            return value;
        }
        filled += &value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        filled += rest;
    }
    filled.into()
}

fn evaluate(name: &str, lookup: Lookup<'_>) -> Option<Value> {
    let Some((function, argument)) = name.strip_suffix(')').and_then(|name| name.split_once('(')) else {
        let (name, pointer) = name.split_at(name.find('/').unwrap_or(name.len()));
        return lookup(name)?.pointer(pointer).cloned();
    };
    let count = || argument.parse().unwrap();
    Some(match function {
        "format" => format(argument).into(),
        "base64" => STANDARD.encode(argument).into(),
        "text" => STANDARD.encode("x".repeat(count())).into(),
        "chars" => "x".repeat(count()).into(),
        "arrays" => format!("{}{}", "[".repeat(count()), "]".repeat(count())).into(),
        "missing" => missing().get(argument)?.as_str().into(),
        _ => return lookup(name),
    })
}
