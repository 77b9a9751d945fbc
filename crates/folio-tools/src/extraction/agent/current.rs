//! The tool `get_current_extraction`.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::Fields;
use super::of_turn;
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    read_tool::<GetCurrent>(
        "get_current_extraction",
        "Returns the fields that are saved so far. A person may change them while you work. Result: status, document_type, \
         extracted_fields, confidence_scores and citations (of the same shape).",
        Vec::new(),
    )
}

#[derive(Deserialize)]
struct GetCurrent {}

#[async_trait]
impl ReadCall for GetCurrent {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let extraction = of_turn(context).await?;
        let fields = Fields::of(&extraction);
        let document_type = extraction.agent.as_ref().and_then(|agent| agent.document_type.as_ref());
        Ok(json!({
            "status": extraction.state().as_str(),
            "document_type": document_type.map(|found| &found.name),
            "extracted_fields": fields.data,
            "confidence_scores": fields.confidence_mirror(),
            "citations": fields.citation_mirror(),
        }))
    }
}
