//! `update_schema`.

use async_trait::async_trait;
use folio_llm::schema::Rules;
use folio_storage::SchemaChange;
use folio_types::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::{FORMAT, which};
use crate::arguments::{self, object_or_text, optional, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject};

pub(super) fn tool() -> Tool {
    writes::<UpdateSchema>(
        "update_schema",
        "Makes a new version of a schema; call validate_schema with its response_format first. An unchanged \
         response_format makes no version, and a new name alone only renames. Gives the schema_revid.",
        vec![
            which(),
            optional("name", text("Its new name, where it changes.")),
            optional("response_format", object_or_text(FORMAT)).or_text(),
        ],
    )
}

struct UpdateSchema {
    schema_id: String,
    change: SchemaChange,
}

#[async_trait]
impl WriteCall for UpdateSchema {
    type Of = Schema;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Given {
            schema_id: String,
            name: Option<String>,
            response_format: Option<Value>,
        }
        let Given { schema_id, name, response_format } = arguments::read(arguments)?;
        if name.is_none() && response_format.is_none() {
            return Err(ToolError::Told("Nothing to change: give name, response_format or both.".to_owned()));
        }
        if let Some(name) = &name {
            rules::check_name("name", name)?;
        }
        let format = response_format.map(|format| rules::check_format("response_format", &format, Rules::Strict));
        let response_format = format.transpose()?.map(|format| (format.response_format, format.strict));
        Ok(Self { schema_id, change: SchemaChange::Update { name, response_format } })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        subject::existing::<Schema>(resources, context, Some(&self.schema_id)).await
    }

    async fn change(self, _: &ToolResources, _: &CallContext, _: &Plan) -> Result<SchemaChange, ToolError> {
        Ok(self.change)
    }
}
