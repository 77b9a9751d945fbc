//! The tools on offer, with what every request says of them.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Value, json};

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// Tools as a model is offered them, in order. Written once: a profile's tools are some 20 KiB, the same in each request.
/// Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    list: Arc<[ToolDefinition]>,
    written: Arc<str>,
}

impl Tools {
    /// The tools as a request has them: a JSON array.
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
        let written: Value = list
            .iter()
            .map(|tool| {
                json!({
                    "type": "function",
                    "function": {
                        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                    },
                })
            })
            .collect();
        Self { list: list.into(), written: written.to_string().into() }
    }
}

impl Deref for Tools {
    type Target = [ToolDefinition];

    fn deref(&self) -> &[ToolDefinition] {
        &self.list
    }
}
