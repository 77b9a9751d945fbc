//! Tool calls since the last user message, oldest first, without those that did not run.

use serde_json::Value;

use crate::request::{ChatRequest, Role};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: Value,
    /// Result as JSON, or as a string if it is not JSON.
    pub(super) result: Value,
}

#[derive(Debug, Default)]
pub(super) struct Steps<'a>(Vec<Step<'a>>);

impl Step<'_> {
    pub(super) fn get(&self, field: &str) -> Option<&str> {
        self.result.get(field).and_then(Value::as_str)
    }

    /// Returns true if the result is an error.
    pub(super) fn is_error(&self) -> bool {
        match &self.result {
            Value::Object(fields) => fields.contains_key("error"),
            Value::String(_) => true,
            _ => false,
        }
    }

    /// Returns the result as bounded text.
    pub(super) fn result_text(&self) -> String {
        let text = match &self.result {
            Value::String(text) => text.clone(),
            Value::Object(fields) => match fields.get("error") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Object(error)) => {
                    error.get("message").and_then(Value::as_str).unwrap_or("an error").to_owned()
                }
                _ => self.result.to_string(),
            },
            other => other.to_string(),
        };
        text.chars().take(400).collect()
    }

    /// Returns true if the user rejected the call. Only a result that starts with the phrase counts, because a document
    /// may contain it.
    pub(super) fn was_rejected(&self) -> bool {
        let message = self.result.as_str().or_else(|| self.result.get("error")?.as_str());
        message.is_some_and(|message| message.starts_with("User rejected this action"))
    }

    /// Returns the text in the result of `get_ocr_text`.
    pub(super) fn document_text(&self) -> Option<String> {
        let pages = self.result.get("pages").and_then(Value::as_array);
        let page_text = |page: &Value| page.as_str().or_else(|| page.get("text")?.as_str()).map(str::to_owned);
        match pages {
            Some(pages) => Some(pages.iter().filter_map(page_text).collect::<Vec<_>>().join("\n")),
            None => ["text", "ocr_text", "content"].iter().find_map(|name| self.get(name)).map(str::to_owned),
        }
    }
}

impl<'a> Steps<'a> {
    pub(super) fn of(request: &'a ChatRequest) -> Self {
        let since = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let answered = request.answered_calls(since).into_iter();
        let steps = answered.filter(|(_, content)| !content.starts_with("Not run: ")).map(|(call, content)| {
            let result = serde_json::from_str(content).unwrap_or_else(|_| content.into());
            Step { tool: &call.name, arguments: serde_json::from_str(&call.arguments).unwrap_or_default(), result }
        });
        Self(steps.collect())
    }

    pub(super) fn last(&self, tool: &str) -> Option<&Step<'a>> {
        self.0.iter().rev().find(|step| step.tool == tool)
    }

    /// Returns the last successful call of a tool.
    pub(super) fn last_success(&self, tool: &str) -> Option<&Step<'a>> {
        self.0.iter().rev().find(|step| step.tool == tool && !step.is_error())
    }

    /// Returns the last call of a tool if no call of it succeeded.
    pub(super) fn last_failure(&self, tool: &str) -> Option<&Step<'a>> {
        if self.last_success(tool).is_some() { None } else { self.last(tool) }
    }

    pub(super) fn count(&self, tool: &str) -> usize {
        self.0.iter().filter(|step| step.tool == tool).count()
    }

    /// Returns the call that the user rejected.
    pub(super) fn rejected(&self) -> Option<&Step<'a>> {
        self.0.iter().find(|step| step.was_rejected())
    }

    pub(super) fn newest(&self) -> Option<&Step<'a>> {
        self.0.last()
    }
}
