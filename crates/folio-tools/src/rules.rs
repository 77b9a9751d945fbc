//! Validation of response formats and data, used by the tools and by the API.
//!
//! An error contains the field name that the caller passes, so the API returns it unchanged. A tool sends its message
//! to the model.

use folio_llm::schema::{
    CheckedFormat, Rules, Violation, check_response_format, describe, is_deeper_than, validate_data,
};
use folio_resources::SchemaRevision;
use folio_types::{Error, FieldViolation, Reason, Result, limits};
use serde_json::Value;

/// Returns the start of an untrusted text, for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Validates a response format. Fails with `INVALID_SCHEMA` and every violation with its path below `field`.
pub fn check_format(field: &str, format: &Value, rules: Rules) -> Result<CheckedFormat> {
    check_response_format(format, rules).map_err(|violations| invalid_schema(field, &violations))
}

pub fn invalid_schema(field: &str, violations: &[Violation]) -> Error {
    let message = format!("the schema is invalid:\n{}", describe(violations));
    with_violations(Error::invalid(Reason::InvalidSchema, message), field, violations)
}

pub fn schema_mismatch(field: &str, violations: &[Violation]) -> Error {
    let message = format!("the data does not match its schema:\n{}", describe(violations));
    with_violations(Error::invalid(Reason::SchemaMismatch, message), field, violations)
}

/// Validates data against a stored schema and returns the violations. Fails with `INVALID_SCHEMA` of `field` if the
/// schema cannot be compiled, and with `STORED_FORMAT` if the revision contains no schema.
pub async fn violations_of(field: &str, schema: &SchemaRevision, data: &Value) -> Result<Vec<Violation>> {
    let Some(inner) = schema.schema() else {
        let message = format!("schema revision {} contains no schema", schema.revid);
        return Err(Error::stored_format(message));
    };
    validate_data(inner, data).await.map_err(|violations| invalid_schema(field, &violations))
}

fn with_violations(mut error: Error, field: &str, violations: &[Violation]) -> Error {
    error.violations = violations
        .iter()
        .map(|v| FieldViolation { field: format!("{field}{}", v.path), description: v.message.clone() })
        .collect();
    error
}

/// Validates the size and nesting depth of the data of an extraction.
pub fn check_data(field: &str, data: &Value) -> Result<()> {
    if is_deeper_than(data, limits::JSON_DEPTH) {
        return Err(Error::invalid_field(field, format!("has more than {} levels of nesting", limits::JSON_DEPTH)));
    }
    let bytes = data.to_string().len();
    if bytes > limits::EXTRACTION_BYTES {
        let message = format!("{field} has {bytes} bytes; the maximum is {}", limits::EXTRACTION_BYTES);
        return Err(Error::invalid(Reason::TooLarge, message));
    }
    Ok(())
}
