//! `update_extraction_field`.

use async_trait::async_trait;
use folio_storage::ExtractionChange;
use folio_types::extraction::Extraction;
use folio_types::op::{Expected, OpResult, Target};
use serde::Deserialize;
use serde_json::Value;

use super::{edited, output, result};
use crate::arguments;
use crate::decide::{done, misplanned, recorded, write};
use crate::tool::{CallContext, Plan, ToolError, ToolOutput, ToolResources, WriteTool};

pub(super) struct UpdateField;

#[derive(Deserialize)]
struct Field {
    path: String,
    #[serde(default)]
    value: Value,
}

#[async_trait]
impl WriteTool for UpdateField {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Field { path, value } = arguments::read(arguments)?;
        let extraction = current(resources, context).await?;
        edited(&resources.stores, &extraction, &path, value).await?;
        Ok(Plan {
            target: Target::Extraction(extraction.id),
            expected: Expected::Version(extraction.version),
            resolved: Value::Null,
        })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let Target::Extraction(id) = &plan.target else { return Err(misplanned()) };
        if let Some(result) = recorded(resources, context, arguments, &plan.target).await? {
            return Ok(output(&plan.target, result));
        }
        let Field { path, value } = arguments::read(arguments)?;
        let found = resources.stores.extractions.get(&context.principal.org, id).await?;
        // The patch is made on the very version that the write expects; what is gone or newer has moved.
        let extraction =
            found.filter(|found| Expected::Version(found.version) == plan.expected).ok_or(ToolError::Moved)?;
        let data = edited(&resources.stores, &extraction, &path, value).await?;
        let write = write(resources, context, arguments, plan, ExtractionChange::Edit { data });
        let result = done(resources.stores.extractions.decide(id, write).await?)?;
        Ok(output(&plan.target, result))
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

/// The extraction that is patched: the working one, else the newest of the document.
async fn current(resources: &ToolResources, context: &CallContext) -> Result<Extraction, ToolError> {
    if let Some(working) = &context.working.extraction {
        let found = resources.stores.extractions.get(&context.principal.org, &working.id).await?;
        return found.ok_or_else(|| {
            ToolError::Told(format!("The working extraction {} was deleted; call run_extraction.", working.id))
        });
    }
    result::stored(resources, context, None).await
}
