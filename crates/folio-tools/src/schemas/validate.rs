//! The tools `validate_schema` and `validate_against_schema`. They return every violation with its path.

use async_trait::async_trait;
use folio_llm::schema::{Rules, Violation, check_response_format, check_schema, normalize};
use folio_types::json as exact;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FORMAT, revision};
use crate::arguments::{anything, object_or_text, required, text};
use crate::call::{ReadCall, read_tool};
use crate::rules;
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

pub(super) fn tools() -> Vec<Tool> {
    let schema = read_tool::<ValidateSchema>(
        "validate_schema",
        "Validates a response format without storing it. Always call it before create_schema or update_schema. \
         Result: valid, and if it is false violations (each with path and message).",
        vec![required("schema", object_or_text(FORMAT)).or_json_string()],
    );
    let data = read_tool::<ValidateAgainstSchema>(
        "validate_against_schema",
        "Validates data against a stored schema. Result: valid, and if it is false violations (each with path and \
         message).",
        vec![
            required("schema_revid", text("Id of the schema revision, such as sch_….1.")),
            required(
                "data",
                anything("Data to validate, as JSON. A string that contains a JSON object or array is parsed first."),
            )
            .or_json_string(),
        ],
    );
    vec![schema, data]
}

#[derive(Deserialize)]
struct ValidateSchema {
    schema: Value,
}

#[async_trait]
impl ReadCall for ValidateSchema {
    async fn answer(self, _: &ToolResources, _: &CallContext) -> Result<Value, ToolError> {
        Ok(match normalize(&self.schema) {
            Ok(format) => validity(&violations_of_format(&format)),
            Err(violations) => validity(&violations),
        })
    }
}

/// Returns the violations of a response format. A bare schema without the `json_schema` wrapper is validated too, so
/// that one call reports all violations.
fn violations_of_format(format: &Value) -> Vec<Violation> {
    let Err(violations) = check_response_format(format, Rules::Strict) else { return Vec::new() };
    if format.get("json_schema").is_some() || format.get("type").is_none_or(|kind| kind == "json_schema") {
        return violations;
    }
    let mut bare = check_schema(format, Rules::Strict);
    bare.push(Violation {
        path: "#".to_owned(),
        message: "this is a bare schema: wrap it as {\"type\": \"json_schema\", \"json_schema\": {\"name\": …, \
                  \"schema\": <this>, \"strict\": true}}"
            .to_owned(),
    });
    bare
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
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let found = revision(resources, context, &self.schema_revid).await?;
        let violations = match parse_text(self.data) {
            Ok(data) => rules::violations_of("schema", &found, &data).await?,
            Err(violation) => vec![violation],
        };
        Ok(validity(&violations))
    }
}

/// Parses a string that contains a JSON object or array. Returns any other value unchanged.
fn parse_text(data: Value) -> Result<Value, Violation> {
    let Value::String(written) = &data else { return Ok(data) };
    if !written.trim_start().starts_with(['{', '[']) {
        return Ok(data);
    }
    match exact::read(written) {
        Ok(inner) => Ok(inner),
        Err(exact::ParseError::Syntax(_)) => Ok(data),
        Err(refused) => Err(Violation { path: "#".to_owned(), message: refused.to_string() }),
    }
}
