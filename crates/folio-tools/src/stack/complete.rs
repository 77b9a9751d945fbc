//! The tool `complete_table`.

use async_trait::async_trait;
use folio_resources::{Stack, StackChange};
use folio_types::DocumentId;
use folio_types::op::{OpResult, Target};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{member_ids, of_turn, unfilled};
use crate::arguments;
use crate::call::{WriteCall, write_tool};
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolOutput};

/// Maximum number of documents that an error names.
const NAMED_MAX: usize = 20;

pub(super) fn tool() -> Tool {
    let tool = write_tool::<CompleteTable>(
        "complete_table",
        "States that the table is complete. Each document must have a row whose cells are all filled. If rows are missing, the \
         error names their documents. Call it last. Result: result.",
        Vec::new(),
    );
    Tool { result_ids: &[], ..tool }
}

#[derive(Deserialize)]
struct CompleteTable {}

/// Returns the number of rows of a table without missing cells.
async fn complete_rows(context: &CallContext, stack: &Stack) -> Result<u32, ToolError> {
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    if stack.columns.is_empty() {
        return Err(ToolError::ForModel("Cannot complete: the table has no columns".to_owned()));
    }
    let missing = unfilled(stores, org, stack).await?;
    if !missing.is_empty() {
        let named: Vec<&str> = missing.iter().take(NAMED_MAX).map(DocumentId::as_str).collect();
        let text = format!(
            "Cannot complete: {} documents have cells that are not filled, the first: {}. Fill their rows with extract_row.",
            missing.len(),
            named.join(", ")
        );
        return Err(ToolError::ForModel(text));
    }
    let rows = member_ids(stores, org, stack).await?.len();
    Ok(u32::try_from(rows).unwrap_or(u32::MAX))
}

#[async_trait]
impl WriteCall for CompleteTable {
    type Target = Stack;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        arguments::parse(arguments)
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let stack = of_turn(context).await?;
        complete_rows(context, &stack).await?;
        Ok(subject::plan_update(&stack))
    }

    async fn change(self, context: &CallContext, _: &Plan) -> Result<StackChange, ToolError> {
        let stack = of_turn(context).await?;
        Ok(StackChange::Complete { rows: complete_rows(context, &stack).await? })
    }

    fn output(_: &Target, _: OpResult, _: &Value) -> ToolOutput {
        ToolOutput::new(json!({ "result": "Table complete" }))
    }
}
