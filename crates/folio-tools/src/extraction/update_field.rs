//! The tool `update_extraction_field`.

use async_trait::async_trait;
use folio_resources::Resource as _;
use folio_resources::{Extraction, ExtractionChange};
use folio_types::op::Expected;
use serde::Deserialize;
use serde_json::Value;

use super::{apply_edit, result};
use crate::arguments::{self, anything, required, text};
use crate::call::{WriteCall, write_tool};
use crate::decide::invalid_plan;
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError};

pub(super) fn tool() -> Tool {
    write_tool::<UpdateField>(
        "update_extraction_field",
        "Sets one value of the current extraction. Call it to correct a value. The data must still match the \
         schema. Result: extraction_id, document_id, prompt_revid, data.",
        vec![
            required("path", text("Path of the value, such as total or items[0].amount.")),
            required("value", anything("New value, as JSON.")),
        ],
    )
}

#[derive(Deserialize)]
struct UpdateField {
    path: String,
    #[serde(default)]
    value: Value,
}

#[async_trait]
impl WriteCall for UpdateField {
    type Target = Extraction;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        arguments::parse(arguments)
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let extraction = current(context).await?;
        apply_edit(&context.resources.stores, &extraction, &self.path, self.value.clone()).await?;
        Ok(subject::plan_update(&extraction))
    }

    async fn change(self, context: &CallContext, plan: &Plan) -> Result<ExtractionChange, ToolError> {
        let id = Extraction::id_in(&plan.target).ok_or_else(invalid_plan)?;
        let found = context.store::<Extraction>().get(&context.principal.org, &id).await?;
        // The patch applies to exactly the version that the write expects. A deleted or newer extraction is a conflict.
        let extraction =
            found.filter(|found| Expected::Version(found.version) == plan.expected).ok_or(ToolError::Conflict)?;
        let data = apply_edit(&context.resources.stores, &extraction, &self.path, self.value).await?;
        Ok(ExtractionChange::Edit { data })
    }
}

/// Returns the extraction to change: the working extraction, else the newest of the document.
async fn current(context: &CallContext) -> Result<Extraction, ToolError> {
    if let Some(working) = &context.working.extraction {
        let found = context.store::<Extraction>().get(&context.principal.org, &working.id).await?;
        return found.ok_or_else(|| {
            ToolError::ForModel(format!(
                "The working extraction {} was deleted. Call get_extraction_result for other extractions, or \
                 run_extraction to create one.",
                working.id
            ))
        });
    }
    result::stored(context, None).await
}
