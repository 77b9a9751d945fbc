//! Tools of a request, serialized once.

use std::ops::Deref;
use std::sync::Arc;

use async_openai::types::chat::{ChatCompletionTool, ChatCompletionTools, FunctionObject};
use serde_json::Value;

/// A tool as it is sent to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Tools in the order in which a model receives them. Serialized once, because a profile's tools take about 8 KiB in
/// each request. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    list: Arc<[ToolDefinition]>,
    json: Arc<str>,
}

impl Tools {
    /// Returns the tools as a JSON array.
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl Default for Tools {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<ToolDefinition>> for Tools {
    fn from(list: Vec<ToolDefinition>) -> Self {
        let json = list.iter().map(|tool| {
            ChatCompletionTools::Function(ChatCompletionTool {
                function: FunctionObject {
                    name: tool.name.clone(),
                    description: Some(tool.description.clone()),
                    parameters: Some(tool.parameters.clone()),
                    strict: None,
                },
            })
        });
        // Strings and JSON values can always be serialized.
        let json = serde_json::to_string(&json.collect::<Vec<_>>()).unwrap_or_default();
        Self { list: list.into(), json: json.into() }
    }
}

impl Deref for Tools {
    type Target = [ToolDefinition];

    fn deref(&self) -> &[ToolDefinition] {
        &self.list
    }
}
