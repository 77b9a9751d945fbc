//! The rules that names, colors, tags, metadata and prompts hold, whoever writes them: a tool of the agent or a service.
//!
//! An error names the field that it was given, so that a service passes it on as it is; a tool tells its message to the
//! model.

use folio_llm::schema::{
    CheckedFormat, Rules, Violation, check_response_format, describe, is_deeper_than, validate_data,
};
pub use folio_types::fields::{check_document_patch, check_metadata, check_name, check_tags};
use folio_types::schema::SchemaRevision;
use folio_types::{Code, Error, FieldViolation, Reason, Result, limits};
use serde_json::Value;

/// Characters of a description.
pub const DESCRIPTION_CHARS: usize = 2_000;
/// Characters of a search text.
pub const SEARCH_CHARS: usize = 200;

/// A color: `#rrggbb`. Gives it in lower case.
pub fn check_color(field: &str, color: &str) -> Result<String> {
    match color.strip_prefix('#') {
        Some(digits) if digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(color.to_ascii_lowercase())
        }
        _ => Err(Error::invalid_field(field, "must be a color such as \"#1f77b4\"")),
    }
}

/// A description: at most [`DESCRIPTION_CHARS`] characters.
pub fn check_description(field: &str, description: &str) -> Result<()> {
    let chars = description.chars().count();
    if chars > DESCRIPTION_CHARS {
        let text = format!("has {chars} characters, at most {DESCRIPTION_CHARS}");
        return Err(Error::invalid_field(field, text));
    }
    if description.contains('\0') {
        return Err(Error::invalid_field(field, "must not hold NUL characters"));
    }
    Ok(())
}

/// A prompt's content: not blank, at most [`limits::PROMPT_BYTES`] bytes.
pub fn check_content(field: &str, content: &str) -> Result<()> {
    if content.trim().is_empty() {
        return Err(Error::invalid_field(field, "must not be empty"));
    }
    if content.len() > limits::PROMPT_BYTES {
        let text = format!("has {} bytes, at most {}", content.len(), limits::PROMPT_BYTES);
        return Err(Error::invalid_field(field, text));
    }
    if content.contains('\0') {
        return Err(Error::invalid_field(field, "must not hold NUL characters"));
    }
    Ok(())
}

/// A piece of a name that is searched for: at most [`SEARCH_CHARS`] characters.
pub fn check_search(field: &str, search: &str) -> Result<()> {
    if search.chars().count() > SEARCH_CHARS {
        return Err(Error::invalid_field(field, format!("has more than {SEARCH_CHARS} characters")));
    }
    Ok(())
}

/// A response format, with `INVALID_SCHEMA` and every violation's path below `field`.
pub fn check_format(field: &str, format: &Value, rules: Rules) -> Result<CheckedFormat> {
    check_response_format(format, rules).map_err(|violations| invalid_schema(field, &violations))
}

/// The error of a schema that breaks rules.
pub fn invalid_schema(field: &str, violations: &[Violation]) -> Error {
    let message = format!("the schema breaks these rules:\n{}", describe(violations));
    with_violations(Error::invalid(Reason::InvalidSchema, message), field, violations)
}

/// The error of data that does not match its schema.
pub fn schema_mismatch(field: &str, violations: &[Violation]) -> Error {
    let message = format!("the data does not match its schema:\n{}", describe(violations));
    with_violations(Error::invalid(Reason::SchemaMismatch, message), field, violations)
}

/// What is wrong with data, held against a stored schema. Errors: `INVALID_SCHEMA` of `field` where the schema cannot be
/// compiled (any more), `STORED_FORMAT` where the revision holds none.
pub async fn violations_of(field: &str, schema: &SchemaRevision, data: &Value) -> Result<Vec<Violation>> {
    let Some(inner) = schema.schema() else {
        let message = format!("schema revision {} holds no schema", schema.revid);
        return Err(Error::new(Code::DataLoss, Reason::StoredFormat, message));
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

/// Data of an extraction: bounded in size and nesting.
pub fn check_data(field: &str, data: &Value) -> Result<()> {
    if is_deeper_than(data, limits::JSON_DEPTH) {
        return Err(Error::invalid_field(field, format!("nests deeper than {} levels", limits::JSON_DEPTH)));
    }
    let bytes = data.to_string().len();
    if bytes > limits::EXTRACTION_BYTES {
        let message = format!("{field} has {bytes} bytes, at most {}", limits::EXTRACTION_BYTES);
        return Err(Error::invalid(Reason::TooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_have_one_spelling() {
        assert_eq!(check_color("color", "#AbCdEf").unwrap(), "#abcdef");
        for bad in ["", "red", "#fff", "#12345g", "#1234567", "123456"] {
            assert!(check_color("color", bad).is_err(), "{bad}");
        }
    }
}
