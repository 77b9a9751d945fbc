//! `create_schema`.

use async_trait::async_trait;
use folio_llm::schema::{CheckedFormat, Rules};
use folio_storage::SchemaChange;
use folio_types::op::Expected;
use folio_types::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::FORMAT;
use crate::arguments::{self, object_or_text, required, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject};

pub(super) fn tool() -> Tool {
    writes::<CreateSchema>(
        "create_schema",
        "Creates a schema; call validate_schema with its response_format first. Where one of that name is there \
         already (without regard to case), this makes its next version, and none where nothing changes. Gives the \
         schema_revid.",
        vec![
            required("name", text("The schema's name, for people: at most 200 characters.")),
            required("response_format", object_or_text(FORMAT)).or_text(),
        ],
    )
}

struct CreateSchema {
    name: String,
    format: CheckedFormat,
}

#[async_trait]
impl WriteCall for CreateSchema {
    type Of = Schema;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Given {
            name: String,
            response_format: Value,
        }
        let Given { name, response_format } = arguments::read(arguments)?;
        rules::check_name("name", &name)?;
        Ok(Self { name, format: rules::check_format("response_format", &response_format, Rules::Strict)? })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        subject::named::<Schema>(resources, context, &self.name).await
    }

    async fn change(self, _: &ToolResources, _: &CallContext, plan: &Plan) -> Result<SchemaChange, ToolError> {
        let CheckedFormat { response_format, strict } = self.format;
        Ok(match plan.expected {
            Expected::Absent => SchemaChange::Create { name: self.name, response_format, strict },
            Expected::Version(_) => {
                SchemaChange::Update { name: None, response_format: Some((response_format, strict)) }
            }
        })
    }
}
