//! The rules that names, colors, tags, metadata and prompts hold, whoever writes them: a tool of the agent or a service.
//!
//! An error names the field that it was given, so that a service passes it on as it is; a tool tells its message to the
//! model.

use std::collections::{BTreeMap, BTreeSet};

use folio_llm::schema::{
    CheckedFormat, Rules, Violation, check_response_format, describe, is_deeper_than, validate_data,
};
use folio_llm::{ModelError, ModelInfo, Models};
use folio_types::document::DocumentPatch;
use folio_types::schema::SchemaRevision;
use folio_types::{Code, Error, FieldViolation, Reason, Result, TagId, limits};
use serde_json::Value;

/// Characters of a description.
pub const DESCRIPTION_CHARS: usize = 2_000;
/// Bytes of a metadata key.
pub const METADATA_KEY_BYTES: usize = 128;
/// Characters of a search text.
pub const SEARCH_CHARS: usize = 200;

/// A name: 1 to [`limits::NAME_CHARS`] characters, none of them a control character, and no blanks around it:
/// nobody sees what distinguishes `Invoice` from `Invoice `.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let chars = name.chars().count();
    if name.trim().is_empty() {
        return Err(Error::invalid_field(field, "must not be empty"));
    }
    if name.trim().len() != name.len() {
        return Err(Error::invalid_field(field, "must not begin or end with blanks"));
    }
    if chars > limits::NAME_CHARS {
        let description = format!("has {chars} characters, at most {}", limits::NAME_CHARS);
        return Err(Error::invalid_field(field, description));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid_field(field, "must not hold control characters or line breaks"));
    }
    Ok(())
}

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

/// Tags of a document or prompt: at most [`limits::TAGS_MAX`]. Gives them without doubles, in the order given.
pub fn check_tags(field: &str, tags: &[TagId]) -> Result<Vec<TagId>> {
    let mut seen = BTreeSet::new();
    let kept: Vec<TagId> = tags.iter().filter(|tag| seen.insert((*tag).clone())).cloned().collect();
    if kept.len() > limits::TAGS_MAX {
        let text = format!("holds {} tags, at most {}", kept.len(), limits::TAGS_MAX);
        return Err(Error::invalid_field(field, text));
    }
    Ok(kept)
}

/// Metadata of a document: at most [`limits::METADATA_MAX`] entries, bounded each.
pub fn check_metadata(field: &str, metadata: &BTreeMap<String, String>) -> Result<()> {
    if metadata.len() > limits::METADATA_MAX {
        let text = format!("holds {} entries, at most {}", metadata.len(), limits::METADATA_MAX);
        return Err(Error::invalid_field(field, text));
    }
    for (key, value) in metadata {
        let shown: String = key.chars().take(40).collect();
        if key.trim().is_empty() || key.chars().any(char::is_control) || key.len() > METADATA_KEY_BYTES {
            let text = format!("key {shown:?} must be 1 to {METADATA_KEY_BYTES} bytes without control characters");
            return Err(Error::invalid_field(field, text));
        }
        if value.len() > limits::METADATA_VALUE_BYTES || value.contains('\0') {
            let text =
                format!("the value of {shown:?} must be at most {} bytes without NUL", limits::METADATA_VALUE_BYTES);
            return Err(Error::invalid_field(field, text));
        }
    }
    Ok(())
}

/// What is to change of a document. `prefix` (`document.`, or empty) goes before the names of its fields; gives the
/// patch with its tags without doubles.
pub fn check_document_patch(prefix: &str, mut patch: DocumentPatch) -> Result<DocumentPatch> {
    if let Some(name) = &patch.name {
        check_name(&format!("{prefix}name"), name)?;
    }
    if let Some(tags) = &patch.tags {
        patch.tags = Some(check_tags(&format!("{prefix}tag_ids"), tags)?);
    }
    if let Some(metadata) = &patch.metadata {
        check_metadata(&format!("{prefix}metadata"), metadata)?;
    }
    Ok(patch)
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

/// A model that prompts may name: known, enabled and offered to prompts. Checked when a prompt is created, when it is
/// changed, and when it is run.
pub fn check_prompt_model(models: &dyn Models, name: &str) -> Result<ModelInfo> {
    match models.get(name) {
        Some(model) if model.prompts => Ok(model),
        _ => Err(ModelError::NotAvailable(name.chars().take(120).collect()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_of_one_line() {
        assert!(check_name("name", "Rechnung – Größe").is_ok());
        assert!(check_name("name", &"ä".repeat(200)).is_ok());
        for bad in ["", "  ", " a", "a ", "a\u{a0}", "a\nb", "a\u{0}", &"x".repeat(201)] {
            let error = check_name("schema.name", bad).unwrap_err();
            assert_eq!(error.violations[0].field, "schema.name");
        }
    }

    #[test]
    fn colors_have_one_spelling() {
        assert_eq!(check_color("color", "#AbCdEf").unwrap(), "#abcdef");
        for bad in ["", "red", "#fff", "#12345g", "#1234567", "123456"] {
            assert!(check_color("color", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tags_lose_doubles_and_keep_their_order() {
        let (a, b) = (TagId::derive(&["a"]), TagId::derive(&["b"]));
        assert_eq!(check_tags("tag_ids", &[b.clone(), a.clone(), b.clone()]).unwrap(), [b, a]);
        let many: Vec<_> = (0..51).map(|n: u32| TagId::derive(&[&n.to_string()])).collect();
        assert!(check_tags("tag_ids", &many).is_err());
    }

    #[test]
    fn metadata_is_bounded() {
        let of = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert!(check_metadata("metadata", &of("k", &"v".repeat(1_024))).is_ok());
        assert!(check_metadata("metadata", &of("k", &"v".repeat(1_025))).is_err());
        assert!(check_metadata("metadata", &of(" ", "v")).is_err());
        assert!(check_metadata("metadata", &of(&"k".repeat(129), "v")).is_err());
        let many = (0..51).map(|n| (n.to_string(), String::new())).collect();
        assert!(check_metadata("metadata", &many).is_err());
    }
}
