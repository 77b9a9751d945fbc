//! The tool `identify_document`.

use async_trait::async_trait;
use folio_resources::{AgentStep, DOCUMENT_TYPE_CHARS, DocumentType, Extraction};
use serde::Deserialize;
use serde_json::Value;

use super::{StepCall, fields, step_tool};
use crate::arguments::{anything, required, text};
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    step_tool::<IdentifyDocument>(
        "identify_document",
        "Stores the type of the document. Call it once you have read enough of the text. Result: result.",
        vec![
            required("document_type", text("Such as invoice or lease contract, at most 100 characters.")),
            required("confidence", anything("Your confidence, a number from 0.0 to 1.0.")),
        ],
    )
}

#[derive(Deserialize)]
struct IdentifyDocument {
    document_type: String,
    confidence: Value,
}

#[async_trait]
impl StepCall for IdentifyDocument {
    async fn step(&self, _: &CallContext, _: &Extraction) -> Result<AgentStep, ToolError> {
        let name = self.document_type.trim();
        let count = name.chars().count();
        let (confidence, mut problems) = match fields::confidence(&self.confidence) {
            Ok(confidence) => (confidence, Vec::new()),
            Err(problem) => (0.0, vec![problem]),
        };
        if count == 0 || count > DOCUMENT_TYPE_CHARS {
            problems.push(format!("document_type has {count} characters: expected 1 to {DOCUMENT_TYPE_CHARS}"));
        }
        if !problems.is_empty() {
            return Err(ToolError::invalid(&problems));
        }
        Ok(AgentStep::Identify(DocumentType { name: name.to_owned(), confidence }))
    }

    fn result(&self, _: &Value) -> String {
        format!("Document identified as '{}' (confidence: {})", self.document_type.trim(), self.confidence)
    }
}
