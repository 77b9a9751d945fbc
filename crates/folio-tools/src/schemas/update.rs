//! The tool `update_schema`.

use async_trait::async_trait;
use folio_llm::schema::Rules;
use folio_types::limits::NAME_CHARS;

use serde::Deserialize;
use serde_json::Value;

use super::{FORMAT, schema_id};
use crate::arguments::{self, object_or_text, optional, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{rules, subject};
use folio_resources::{Schema, SchemaChange};

pub(super) fn tool() -> Tool {
    write_tool::<UpdateSchema>(
        "update_schema",
        "Creates the next version of a schema, or renames it. Prompts keep the version that they use. Result: the \
         fields of create_schema.",
        vec![
            schema_id(),
            optional("name", text(&format!("New name, 1 to {NAME_CHARS} characters. Default: unchanged."))),
            optional("response_format", object_or_text(&format!("{FORMAT} Default: unchanged."))).or_near_format(),
        ],
    )
}

struct UpdateSchema {
    schema_id: String,
    change: SchemaChange,
}

#[async_trait]
impl WriteCall for UpdateSchema {
    type Target = Schema;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Arguments {
            schema_id: String,
            name: Option<String>,
            response_format: Option<Value>,
        }
        let Arguments { schema_id, name, response_format } = arguments::parse(arguments)?;
        if name.is_none() && response_format.is_none() {
            return Err(ToolError::ForModel("Nothing to change: pass name or response_format.".to_owned()));
        }
        if let Some(name) = &name {
            folio_resources::fields::check_name("name", name)?;
        }
        let format = response_format.map(|format| rules::check_format("response_format", &format, Rules::Strict));
        let response_format = format.transpose()?.map(|format| (format.response_format, format.strict));
        Ok(Self { schema_id, change: SchemaChange::Update { name, response_format, review_rule: None } })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        subject::plan_existing::<Schema>(context, Some(&self.schema_id)).await
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<SchemaChange, ToolError> {
        Ok(self.change)
    }
}
