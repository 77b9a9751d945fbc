//! The tools `extract_row` and `update_cell`.

use async_trait::async_trait;
use folio_resources::{Document, Resource as _, Stack, StackRow, StackRowChange, StackRowId};
use folio_types::op::{Expected, OpResult, Target};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cells::{self, CITATION, CONFIDENCE, CellArgument, VALUE, cells_schema, current_values};
use super::{document_of, of_turn, row_of};
use crate::arguments::{self, anything, optional, required, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolOutput};

const DOCUMENT: &str = "Document of the row, from list_documents.";

pub(super) fn extract_row() -> Tool {
    let tool = write_tool::<CellWrite<ExtractRow>>(
        "extract_row",
        "Saves cells of the row of a document, and creates the row if there is none. Read the document before. A cell that a person \
         entered or decided about cannot be written: omit its column. State null for a column without a value in the \
         document, so that it counts as filled. Result: result.",
        vec![required("document_id", text(DOCUMENT)), required("cells", cells_schema()).or_json_string()],
    );
    Tool { result_ids: &[], ..tool }
}

pub(super) fn update_cell() -> Tool {
    let tool = write_tool::<CellWrite<UpdateCell>>(
        "update_cell",
        "Corrects one cell of the row of a document. Result: result.",
        vec![
            required("document_id", text(DOCUMENT)),
            required("column", text("Name of the column.")),
            required("value", anything(VALUE)),
            required("confidence", anything(CONFIDENCE)),
            optional("citation", json!({ "type": "object", "description": CITATION })).or_json_string(),
        ],
    );
    Tool { result_ids: &[], ..tool }
}

/// A call that writes cells of a row.
trait CellCall: DeserializeOwned + Send + Sync + 'static {
    fn document(&self) -> &str;

    fn cells(&self) -> &[CellArgument];
}

#[derive(Deserialize)]
struct ExtractRow {
    document_id: String,
    cells: Vec<CellArgument>,
}

impl CellCall for ExtractRow {
    fn document(&self) -> &str {
        &self.document_id
    }

    fn cells(&self) -> &[CellArgument] {
        &self.cells
    }
}

#[derive(Deserialize)]
struct UpdateCell {
    document_id: String,
    #[serde(flatten)]
    cell: CellArgument,
}

impl CellCall for UpdateCell {
    fn document(&self) -> &str {
        &self.document_id
    }

    fn cells(&self) -> &[CellArgument] {
        std::slice::from_ref(&self.cell)
    }
}

/// The write of a [`CellCall`].
struct CellWrite<C>(C);

impl<C: CellCall> CellWrite<C> {
    /// Reads the stack of the turn, the document of the call, and its row. None: the document has no row.
    async fn read(&self, context: &CallContext) -> Result<(Stack, Document, Option<StackRow>), ToolError> {
        let stack = of_turn(context).await?;
        let document = document_of(context, &stack, self.0.document()).await?;
        let row = row_of(context, &stack, &document.id).await?;
        Ok((stack, document, row))
    }
}

/// Returns the version of the row that a write expects.
fn expected(row: Option<&StackRow>) -> Expected {
    row.map_or(Expected::Absent, |row| Expected::Version(row.version))
}

#[async_trait]
impl<C: CellCall> WriteCall for CellWrite<C> {
    type Target = StackRow;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        arguments::parse(arguments).map(Self)
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let (stack, document, row) = self.read(context).await?;
        cells::checked(context, &stack, &document, row.as_ref(), self.0.cells()).await?;
        let target = StackRow::target(&StackRowId::of(&stack.id, &document.id));
        Ok(Plan { target, expected: expected(row.as_ref()), resolved: Value::Null })
    }

    async fn change(self, context: &CallContext, plan: &Plan) -> Result<StackRowChange, ToolError> {
        let (stack, document, row) = self.read(context).await?;
        if expected(row.as_ref()) != plan.expected {
            return Err(ToolError::Conflict);
        }
        cells::checked(context, &stack, &document, row.as_ref(), self.0.cells()).await
    }

    fn output(_: &Target, _: OpResult, arguments: &Value) -> ToolOutput {
        let count = arguments.get("cells").and_then(Value::as_array).map_or(1, Vec::len);
        ToolOutput::new(json!({ "result": format!("Saved {count} cells") }))
    }

    async fn conflict(&self, context: &CallContext) -> Option<String> {
        let (stack, _, row) = self.read(context).await.ok()?;
        let columns: Vec<&str> = self.0.cells().iter().map(|cell| cell.column.as_str()).collect();
        let values = current_values(&stack, row.as_ref(), &columns);
        Some(format!("The row changed meanwhile, so nothing was written.{values} Decide again."))
    }
}
