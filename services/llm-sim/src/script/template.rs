//! Templates: `{{…}}` in a scripted response is replaced by a value from the conversation.
//!
//! `{{last.TOOL.path}}`: from the last result of a tool, where `path` selects a value in its JSON (`a.0.b`; without a
//! path the whole result) · `{{user}}`: the last user message. A string that consists of one template takes the value
//! with its type; within a longer string the value is written as text.

use serde_json::Value;

use crate::request::ChatRequest;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Template {
    Result { tool: String, path: Vec<String> },
    User,
}

/// A segment of a text: literal or template.
enum Segment<'a> {
    Plain(&'a str),
    Template(Template),
}

/// The source of values.
pub(super) struct Scope<'a>(pub(super) &'a ChatRequest);

impl Template {
    fn parse(inner: &str) -> Result<Self, String> {
        let mut parts = inner.trim().split('.');
        match (parts.next(), parts.next()) {
            (Some("last"), Some(tool)) if !tool.is_empty() => {
                Ok(Self::Result { tool: tool.to_owned(), path: parts.map(str::to_owned).collect() })
            }
            (Some("user"), None) => Ok(Self::User),
            _ => Err(format!("unknown template {{{{{inner}}}}}; expected last.TOOL.path or user")),
        }
    }

    /// Validates the templates of a text.
    pub(super) fn check_text(text: &str) -> Result<(), String> {
        segments(text).map(drop)
    }

    /// Validates the templates of all strings within a value.
    pub(super) fn check_value(value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => Self::check_text(text),
            Value::Array(items) => items.iter().try_for_each(Self::check_value),
            Value::Object(fields) => fields.values().try_for_each(Self::check_value),
            _ => Ok(()),
        }
    }
}

fn segments(text: &str) -> Result<Vec<Segment<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inner, after)) = after.split_once("}}") else {
            return Err(format!("a template is not closed: {{{{{after}"));
        };
        if !before.is_empty() {
            found.push(Segment::Plain(before));
        }
        found.push(Segment::Template(Template::parse(inner)?));
        rest = after;
    }
    if !rest.is_empty() {
        found.push(Segment::Plain(rest));
    }
    Ok(found)
}

impl Scope<'_> {
    /// Replaces the templates of a text. Returns the value itself if the text is one template.
    pub(super) fn fill(&self, text: &str) -> Result<Value, String> {
        if !text.contains("{{") {
            return Ok(text.into());
        }
        let found = segments(text)?;
        if let [Segment::Template(template)] = found.as_slice() {
            return self.value(template);
        }
        let mut filled = String::new();
        for segment in found {
            match segment {
                Segment::Plain(plain) => filled.push_str(plain),
                Segment::Template(template) => match self.value(&template)? {
                    Value::String(text) => filled.push_str(&text),
                    other => filled.push_str(&other.to_string()),
                },
            }
        }
        Ok(filled.into())
    }

    /// Replaces the templates of a text. Returns text.
    pub(super) fn fill_text(&self, text: &str) -> Result<String, String> {
        Ok(match self.fill(text)? {
            Value::String(text) => text,
            other => other.to_string(),
        })
    }

    /// Replaces the templates of all strings within a value.
    pub(super) fn fill_value(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => self.fill(text)?,
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect::<Result<_, _>>()?,
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.fill_value(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }

    fn value(&self, template: &Template) -> Result<Value, String> {
        let Template::Result { tool, path } = template else { return Ok(self.0.user().into()) };
        let results = self.0.answered_calls(0);
        let result = results.iter().rfind(|(call, _)| call.name == *tool);
        let content = result.ok_or_else(|| format!("no result of {tool} in the conversation"))?.1;
        let value: Value = serde_json::from_str(content).unwrap_or_else(|_| content.into());
        let mut value_at_path = &value;
        for step in path {
            let next = match value_at_path {
                Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
                other => other.get(step),
            };
            value_at_path = next.ok_or_else(|| format!("the result of {tool} has no {}: {content}", path.join(".")))?;
        }
        Ok(value_at_path.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> ChatRequest {
        let call = |id: &str| json!({"id": id, "function": {"name": "create_schema", "arguments": "{}"}});
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [call("a")]},
            {"role": "tool", "tool_call_id": "a", "content": "{\"schema_revid\": \"first\"}"},
            {"role": "assistant", "tool_calls": [call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "{\"schema_revid\": \"second\", \"n\": [1, {\"x\": 2}]}"},
        ]});
        ChatRequest::parse(&body, 0).unwrap()
    }

    #[test]
    fn templates_take_values_from_earlier_results() {
        let request = request();
        let scope = Scope(&request);
        assert_eq!(scope.fill("{{last.create_schema.schema_revid}}").unwrap(), "second");
        assert_eq!(scope.fill("{{last.create_schema.n.1.x}}").unwrap(), 2);
        assert_eq!(scope.fill("id {{last.create_schema.n.0}} of {{user}}").unwrap(), "id 1 of go");
        let filled = scope.fill_value(&json!({"a": ["{{last.create_schema.n.0}}", {"b": "{{user}}"}]})).unwrap();
        assert_eq!(filled, json!({"a": [1, {"b": "go"}]}));
    }

    #[test]
    fn a_missing_value_is_an_error() {
        let request = request();
        let scope = Scope(&request);
        assert!(scope.fill("{{last.get_tag.x}}").unwrap_err().contains("no result of get_tag"));
        assert!(scope.fill("{{last.create_schema.nope}}").unwrap_err().contains("has no nope"));
        assert!(Template::check_text("{{last}}").is_err());
        assert!(Template::check_text("{{user").is_err());
    }
}
