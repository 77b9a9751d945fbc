//! Canonical spelling of a call's arguments. Models write null or an empty value for an omitted argument, and a string
//! with JSON for an object. The stored, displayed and digested arguments, which the policy evaluates, have one
//! spelling.

use std::sync::Arc;

use folio_types::json;
use serde_json::Value;

use crate::repair::repair_response_format;

/// Accepted alternative spelling of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// No alternative.
    CanonicalOnly,
    /// An empty text, list or object means that the argument is omitted.
    EmptyMeansOmitted,
    /// A blank text means that the argument is omitted.
    BlankMeansOmitted,
    /// A string may contain the value as JSON.
    JsonInString,
    /// A response format: a string may contain it as JSON, and near misses of a model are repaired.
    ResponseFormat,
}

#[derive(Debug, Clone)]
pub(crate) struct ArgumentSpelling {
    pub(crate) name: &'static str,
    /// True if null means that the argument is omitted.
    pub(crate) optional: bool,
    pub(crate) spelling: Spelling,
}

#[derive(Debug, Clone, Default)]
pub struct Spellings(pub(crate) Arc<[ArgumentSpelling]>);

impl Spellings {
    /// Repairs the near misses of a model in the response formats of a call. Returns a description of each kind of
    /// repair, empty if there is none.
    pub(crate) fn repair(&self, arguments: &mut Value) -> Vec<String> {
        let Some(members) = arguments.as_object_mut() else { return Vec::new() };
        let formats = self.0.iter().filter(|spelled| spelled.spelling == Spelling::ResponseFormat);
        formats.flat_map(|spelled| repair_response_format(members, spelled.name)).collect()
    }

    /// Converts arguments to the canonical spelling: without omitted arguments, and with objects instead of strings.
    pub(crate) fn canonicalize(&self, arguments: &mut Value) {
        let Some(members) = arguments.as_object_mut() else { return };
        for spelled in self.0.iter() {
            let Some(value) = members.get_mut(spelled.name) else { continue };
            if spelled.is_omitted(value) {
                // `shift_remove` keeps the order of the other members.
                members.shift_remove(spelled.name);
            } else if matches!(spelled.spelling, Spelling::JsonInString | Spelling::ResponseFormat) {
                parse_string(value);
            }
        }
    }
}

impl ArgumentSpelling {
    fn is_omitted(&self, value: &Value) -> bool {
        match (self.spelling, value) {
            (_, Value::Null) => self.optional,
            (Spelling::EmptyMeansOmitted, Value::String(text)) => text.is_empty(),
            (Spelling::EmptyMeansOmitted, Value::Array(items)) => items.is_empty(),
            (Spelling::EmptyMeansOmitted, Value::Object(members)) => members.is_empty(),
            (Spelling::BlankMeansOmitted, Value::String(text)) => text.trim().is_empty(),
            _ => false,
        }
    }
}

/// Replaces a string that contains a JSON object or array by that value. The tool rejects any other string. Returns true
/// if the value was replaced.
pub(crate) fn parse_string(value: &mut Value) -> bool {
    let Value::String(text) = value else { return false };
    let Ok(parsed @ (Value::Object(_) | Value::Array(_))) = json::read(text) else { return false };
    *value = parsed;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use folio_types::profile::DOCUMENT_PROFILE;
    use serde_json::json;

    fn canonical(tool: &str, arguments: &Value) -> Value {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        let checked = document.check(tool, &arguments.to_string());
        assert_eq!(checked.problem, None, "{tool} {arguments}");
        let mut edited = arguments.clone();
        document.canonicalize(tool, &mut edited);
        assert_eq!(edited, checked.arguments, "edited arguments have the same spelling");
        edited
    }

    #[test]
    fn an_omitted_argument_has_one_spelling() {
        for (tool, argument) in [
            ("delete_document", "document_id"),
            ("run_extraction", "prompt_revid"),
            ("get_extraction_result", "prompt_revid"),
            ("list_prompts", "document_id"),
            ("list_tags", "name_search"),
        ] {
            for spelled in [json!({}), json!({ argument: null }), json!({ argument: "" })] {
                assert_eq!(canonical(tool, &spelled), json!({}), "{tool} {spelled}");
            }
            let named = json!({ argument: "x" });
            assert_eq!(canonical(tool, &named), named);
        }
        let bare = json!({ "name": "n", "content": "c" });
        let spelled = json!({
            "schema_id": "", "name": "n", "model": "", "content": "c", "schema_version": null, "tag_ids": [],
        });
        assert_eq!(canonical("create_prompt", &spelled), bare);
        let tag = json!({ "name": "n", "color": "", "description": "" });
        assert_eq!(canonical("create_tag", &tag), json!({ "name": "n" }));
        assert_eq!(canonical("list_documents", &json!({ "name_search": " ", "metadata_search": {} })), json!({}));
    }

    #[test]
    fn a_value_that_clears_a_field_is_kept() {
        for (tool, clearing) in [
            ("update_tag", json!({ "tag_id": "t", "color": "", "description": "" })),
            ("update_prompt", json!({ "prompt_id": "p", "schema_id": "", "model": "", "tag_ids": [] })),
            ("update_document", json!({ "tag_ids": [], "metadata": {} })),
            ("update_extraction_field", json!({ "path": "a", "value": null })),
        ] {
            assert_eq!(canonical(tool, &clearing), clearing, "{tool}");
        }
    }

    #[test]
    fn a_string_that_contains_an_object_becomes_the_object() {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "invoice" } });
        for (tool, argument) in [
            ("create_schema", "response_format"),
            ("update_schema", "response_format"),
            ("validate_schema", "response_format"),
            ("validate_against_schema", "data"),
        ] {
            let mut spelled = match tool {
                "create_schema" => json!({ "name": "Invoice" }),
                "update_schema" => json!({ "schema_id": "s" }),
                "validate_schema" => json!({}),
                _ => json!({ "schema_revid": "s" }),
            };
            spelled[argument] = json!(format.to_string());
            assert_eq!(canonical(tool, &spelled)[argument], format, "{tool}");
            spelled[argument] = json!("{ no JSON");
            assert_eq!(canonical(tool, &spelled), spelled, "{tool}");
        }
        let null = json!({ "schema_id": "s", "response_format": null });
        assert_eq!(canonical("update_schema", &null), json!({ "schema_id": "s" }));
        let null = json!({ "schema_revid": "s", "data": null });
        assert_eq!(canonical("validate_against_schema", &null), null, "null is data");
    }
}
