//! `update_extraction_field`.

use async_trait::async_trait;
use folio_storage::{Aggregate as _, ExtractionChange};
use folio_types::extraction::Extraction;
use folio_types::op::Expected;
use serde::Deserialize;
use serde_json::Value;

use super::{edited, result};
use crate::arguments::{self, anything, required, text};
use crate::call::{WriteCall, writes};
use crate::decide::misplanned;
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};

pub(super) fn tool() -> Tool {
    writes::<UpdateField>(
        "update_extraction_field",
        "Changes one value of the working extraction, else of the document's newest one. The result must still match \
         the schema; a verified extraction is not verified any more. Gives the data as it is then.",
        vec![
            required("path", text("Where the value is, such as total, parties.0.name or items[0].amount.")),
            required("value", anything("The new value, as JSON: a text, a number, true, null, a list or an object.")),
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
    type Of = Extraction;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        arguments::read(arguments)
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        let extraction = current(resources, context).await?;
        edited(&resources.stores, &extraction, &self.path, self.value.clone()).await?;
        Ok(subject::on(&extraction))
    }

    async fn change(
        self,
        resources: &ToolResources,
        context: &CallContext,
        plan: &Plan,
    ) -> Result<ExtractionChange, ToolError> {
        let id = Extraction::id_in(&plan.target).ok_or_else(misplanned)?;
        let found = resources.stores.extractions.get(&context.principal.org, id).await?;
        // The patch is made on the very version that the write expects; what is gone or newer has moved.
        let extraction =
            found.filter(|found| Expected::Version(found.version) == plan.expected).ok_or(ToolError::Moved)?;
        Ok(ExtractionChange::Edit { data: edited(&resources.stores, &extraction, &self.path, self.value).await? })
    }
}

/// The extraction that is patched: the working one, else the newest of the document.
async fn current(resources: &ToolResources, context: &CallContext) -> Result<Extraction, ToolError> {
    if let Some(working) = &context.working.extraction {
        let found = resources.stores.extractions.get(&context.principal.org, &working.id).await?;
        return found.ok_or_else(|| {
            ToolError::Told(format!(
                "The working extraction {} was deleted; get_extraction_result shows what else there is, and \
                 run_extraction makes a new one.",
                working.id
            ))
        });
    }
    result::stored(resources, context, None).await
}
