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

/// Tools in the order in which a model receives them. Serialized once, because a profile's tools take about 20 KiB in
/// each request. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    list: Arc<[ToolDefinition]>,
    written: Arc<str>,
}

impl Tools {
    /// Returns the tools as a JSON array.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }
}

impl Default for Tools {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<ToolDefinition>> for Tools {
    fn from(list: Vec<ToolDefinition>) -> Self {
        let written = list.iter().map(|tool| {
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
        let written = serde_json::to_string(&written.collect::<Vec<_>>()).unwrap_or_default();
        Self { list: list.into(), written: written.into() }
    }
}

impl Deref for Tools {
    type Target = [ToolDefinition];

    fn deref(&self) -> &[ToolDefinition] {
        &self.list
    }
}
