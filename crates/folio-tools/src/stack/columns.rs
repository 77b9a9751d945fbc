//! The tool `define_columns`.

use async_trait::async_trait;
use folio_resources::{
    COLUMN_DESCRIPTION_CHARS, COLUMN_NAME_CHARS, COLUMN_UNIT_CHARS, COLUMN_VALUES_MAX, ColumnType, NewColumn,
    STACK_COLUMNS_MAX, Stack, StackChange, check_columns,
};
use folio_types::op::{OpResult, Target};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DEFINE_COLUMNS, of_turn};
use crate::arguments::{self, required};
use crate::call::{WriteCall, write_tool};
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolOutput};

pub(super) fn tool() -> Tool {
    let tool = write_tool::<DefineColumns>(
        DEFINE_COLUMNS,
        "Defines all columns of the table, in their order. Call it after you have read a sample of the documents. A person approves \
         the columns. A column with the name of an existing one replaces it and keeps its cells: cells are filled again only \
         if type, description, unit or enum change. A column that you omit is removed. Result: result.",
        vec![required("columns", columns_schema()).or_json_string()],
    );
    Tool { result_ids: &[], ..tool }
}

fn columns_schema() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": STACK_COLUMNS_MAX,
        "description": "The columns.",
        "items": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": format!("Unique name, 1 to {COLUMN_NAME_CHARS} characters, such as Invoice date."),
                },
                "type": { "type": "string", "enum": ColumnType::names(), "description": "Type of the values." },
                "description": {
                    "type": "string",
                    "description": format!(
                        "How the value is found in a document, at most {COLUMN_DESCRIPTION_CHARS} characters. Default: none."
                    ),
                },
                "required": { "type": "boolean", "description": "True if each document should have a value. Default: false." },
                "unit": {
                    "type": "string",
                    "description": format!("Unit of the values, such as EUR, at most {COLUMN_UNIT_CHARS} characters. Default: none."),
                },
                "enum": {
                    "type": "array",
                    "items": { "type": "string" },
                    "maxItems": COLUMN_VALUES_MAX,
                    "description": "The permitted values. Only, and always, with the type enum.",
                },
            },
            "required": ["name", "type"],
            "additionalProperties": false,
        },
    })
}

#[derive(Deserialize)]
struct DefineColumns {
    columns: Vec<NewColumn>,
}

#[async_trait]
impl WriteCall for DefineColumns {
    type Target = Stack;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let Self { columns } = arguments::parse(arguments)?;
        Ok(Self { columns: check_columns("columns", columns)? })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        Ok(subject::plan_update(&of_turn(context).await?))
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<StackChange, ToolError> {
        Ok(StackChange::DefineColumns(self.columns))
    }

    fn output(_: &Target, _: OpResult, arguments: &Value) -> ToolOutput {
        let count = arguments.get("columns").and_then(Value::as_array).map_or(0, Vec::len);
        ToolOutput::new(json!({ "result": format!("Defined {count} columns") }))
    }

    async fn conflict(&self, _: &CallContext) -> Option<String> {
        let text = "The stack changed meanwhile, so nothing was written. Call get_table_state and decide again.";
        Some(text.to_owned())
    }
}
