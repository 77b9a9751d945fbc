//! The tool `create_schema`.

use async_trait::async_trait;
use folio_llm::schema::{CheckedFormat, Rules};

use folio_resources::{Schema, SchemaChange};
use folio_types::limits::NAME_CHARS;
use folio_types::op::Expected;
use serde::Deserialize;
use serde_json::Value;

use super::FORMAT;
use crate::arguments::{self, object_or_text, required, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{rules, subject};

pub(super) fn tool() -> Tool {
    write_tool::<CreateSchema>(
        "create_schema",
        "Creates a schema, which becomes the working schema. If the name exists, creates its next version. Complete \
         example: {\"name\":\"Receipt\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\
         \"name\":\"receipt\",\"strict\":true,\"schema\":{\"type\":\"object\",\"properties\":{\
         \"date\":{\"type\":[\"string\",\"null\"]},\"total\":{\"type\":[\"number\",\"null\"]}},\
         \"required\":[\"date\",\"total\"],\"additionalProperties\":false}}}}. Result: schema_revid, \
         schema_id, version, name, new_version (false if nothing changed). An id argument of a later call in the same \
         response may refer to it: \"$create_schema.schema_id\", for a second call \"$create_schema[2].schema_id\".",
        vec![
            required("name", text(&format!("Name, 1 to {NAME_CHARS} characters."))),
            required("response_format", object_or_text(FORMAT)).or_near_format(),
        ],
    )
}

struct CreateSchema {
    name: String,
    format: CheckedFormat,
}

#[async_trait]
impl WriteCall for CreateSchema {
    type Target = Schema;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
            response_format: Value,
        }
        let Arguments { name, response_format } = arguments::parse(arguments)?;
        folio_resources::fields::check_name("name", &name)?;
        Ok(Self { name, format: rules::check_format("response_format", &response_format, Rules::Strict)? })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        subject::plan_create::<Schema>(context, &self.name).await
    }

    async fn change(self, _: &CallContext, plan: &Plan) -> Result<SchemaChange, ToolError> {
        let CheckedFormat { response_format, strict } = self.format;
        Ok(match plan.expected {
            Expected::Absent => SchemaChange::Create { name: self.name, response_format, strict },
            Expected::Version(_) => {
                SchemaChange::Update { name: None, response_format: Some((response_format, strict)), review_rule: None }
            }
        })
    }
}
