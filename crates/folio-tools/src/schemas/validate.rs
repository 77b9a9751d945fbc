//! The tools `validate_schema` and `validate_against_schema`. They return every violation with its path.

use async_trait::async_trait;
use folio_llm::schema::{Rules, Violation, check_response_format};
use folio_resources::Schema;
use folio_types::json::{ParseError, read};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FORMAT, revid};
use crate::arguments::{anything, object_or_text, required, text};
use crate::call::{ReadCall, read_tool};
use crate::rules;
use crate::subject::find_revision;
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tools() -> Vec<Tool> {
    let schema = read_tool::<ValidateSchema>(
        "validate_schema",
        "Validates a response format without storing it. Call it before create_schema or update_schema. Result: \
         valid, violations (only if valid is false; each with path and message).",
        vec![required("response_format", object_or_text(FORMAT)).or_near_format()],
    );
    let data = read_tool::<ValidateAgainstSchema>(
        "validate_against_schema",
        "Validates data against a stored schema. Result: valid, violations (only if valid is false; each with path \
         and message).",
        vec![
            required("schema_revid", text("Id of the version, such as sch_….1.")),
            required("data", anything("Data, as JSON.")).or_json_string(),
        ],
    );
    vec![schema, data]
}

#[derive(Deserialize)]
struct ValidateSchema {
    response_format: Value,
}

#[async_trait]
impl ReadCall for ValidateSchema {
    async fn run(self, _: &CallContext) -> Result<Value, ToolError> {
        Ok(validity(&check_response_format(&self.response_format, Rules::Strict).err().unwrap_or_default()))
    }
}

fn validity(violations: &[Violation]) -> Value {
    if violations.is_empty() { json!({ "valid": true }) } else { json!({ "valid": false, "violations": violations }) }
}

#[derive(Deserialize)]
struct ValidateAgainstSchema {
    schema_revid: String,
    data: Value,
}

#[async_trait]
impl ReadCall for ValidateAgainstSchema {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let found = find_revision::<Schema>(context, &revid(context, &self.schema_revid).await?).await?;
        let violations = match violation_of_string(&self.data) {
            Some(violation) => vec![violation],
            None => rules::violations_of("schema", &found, &self.data).await?,
        };
        Ok(validity(&violations))
    }
}

/// Returns the violation of a string that contains a JSON object or array which is nested too deep or has a number that
/// cannot be represented exactly. The canonical spelling of the arguments keeps such a string.
fn violation_of_string(data: &Value) -> Option<Violation> {
    let text = data.as_str().filter(|text| text.trim_start().starts_with(['{', '[']))?;
    match read(text) {
        Ok(_) | Err(ParseError::Syntax(_)) => None,
        Err(error) => Some(Violation { path: "#".to_owned(), message: error.to_string() }),
    }
}
