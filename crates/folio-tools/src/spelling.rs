//! One spelling of a call's arguments. Models leave an argument out by null or by something empty, and write an object as a
//! text that holds its JSON; what is stored, shown, digested and judged by the policy is always written the same way.

use std::sync::Arc;

use folio_types::json;
use serde_json::Value;

/// How an argument may be written beside its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// In no other way.
    Own,
    /// An empty text, list or object leaves it out.
    Empty,
    /// A blank text leaves it out.
    Blank,
    /// A text may hold its JSON.
    Text,
}

/// How one argument may be written.
#[derive(Debug, Clone)]
pub(crate) struct Spelled {
    pub(crate) name: &'static str,
    /// Whether null leaves it out.
    pub(crate) optional: bool,
    pub(crate) spelling: Spelling,
}

/// How the arguments of a tool may be written.
#[derive(Debug, Clone, Default)]
pub struct Spellings(pub(crate) Arc<[Spelled]>);

impl Spellings {
    /// Writes arguments in the one way that they have: without those that are left out, objects as objects.
    pub(crate) fn unify(&self, arguments: &mut Value) {
        let Some(members) = arguments.as_object_mut() else { return };
        for spelled in self.0.iter() {
            let Some(value) = members.get_mut(spelled.name) else { continue };
            if spelled.leaves_out(value) {
                // The others keep their order.
                members.shift_remove(spelled.name);
            } else if spelled.spelling == Spelling::Text {
                unwrap(value);
            }
        }
    }
}

impl Spelled {
    fn leaves_out(&self, value: &Value) -> bool {
        match (self.spelling, value) {
            (_, Value::Null) => self.optional,
            (Spelling::Empty, Value::String(text)) => text.is_empty(),
            (Spelling::Empty, Value::Array(items)) => items.is_empty(),
            (Spelling::Empty, Value::Object(members)) => members.is_empty(),
            (Spelling::Blank, Value::String(text)) => text.trim().is_empty(),
            _ => false,
        }
    }
}

/// Puts the object or list that a text holds in its place; any other text is the tool's to refuse.
fn unwrap(value: &mut Value) {
    if let Value::String(text) = value
        && let Ok(held @ (Value::Object(_) | Value::Array(_))) = json::read(text)
    {
        *value = held;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use folio_types::profile::DOCUMENT_PROFILE;
    use serde_json::json;

    /// What becomes of the arguments of a call.
    fn unified(tool: &str, arguments: &Value) -> Value {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        let checked = document.check(tool, &arguments.to_string());
        assert_eq!(checked.problem, None, "{tool} {arguments}");
        let mut edited = arguments.clone();
        document.unify(tool, &mut edited);
        assert_eq!(edited, checked.arguments, "edited arguments have the same spelling");
        edited
    }

    #[test]
    fn what_is_left_out_has_one_spelling() {
        for (tool, argument) in [
            ("delete_document", "document_id"),
            ("run_extraction", "prompt_revid"),
            ("get_extraction_result", "prompt_revid"),
            ("list_prompts", "document_id"),
            ("list_tags", "name_search"),
        ] {
            for spelled in [json!({}), json!({ argument: null }), json!({ argument: "" })] {
                assert_eq!(unified(tool, &spelled), json!({}), "{tool} {spelled}");
            }
            let named = json!({ argument: "x" });
            assert_eq!(unified(tool, &named), named);
        }
        let bare = json!({ "name": "n", "content": "c" });
        let spelled = json!({
            "schema_id": "", "name": "n", "model": "", "content": "c", "schema_version": null, "tag_ids": [],
        });
        assert_eq!(unified("create_prompt", &spelled), bare);
        let tag = json!({ "name": "n", "color": "", "description": "" });
        assert_eq!(unified("create_tag", &tag), json!({ "name": "n" }));
        assert_eq!(unified("list_documents", &json!({ "name_search": " ", "metadata_search": {} })), json!({}));
    }

    #[test]
    fn what_clears_stays() {
        for (tool, clearing) in [
            ("update_tag", json!({ "tag_id": "t", "color": "", "description": "" })),
            ("update_prompt", json!({ "prompt_id": "p", "schema_id": "", "model": "", "tag_ids": [] })),
            ("update_document", json!({ "tag_ids": [], "metadata": {} })),
            ("update_extraction_field", json!({ "path": "a", "value": null })),
        ] {
            assert_eq!(unified(tool, &clearing), clearing, "{tool}");
        }
    }

    #[test]
    fn an_object_that_was_written_as_text_is_the_object() {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "invoice" } });
        for (tool, argument) in [
            ("create_schema", "response_format"),
            ("update_schema", "response_format"),
            ("validate_schema", "schema"),
            ("validate_against_schema", "data"),
        ] {
            let mut spelled = match tool {
                "create_schema" => json!({ "name": "Invoice" }),
                "update_schema" => json!({ "schema_id": "s" }),
                "validate_schema" => json!({}),
                _ => json!({ "schema_revid": "s" }),
            };
            spelled[argument] = json!(format.to_string());
            assert_eq!(unified(tool, &spelled)[argument], format, "{tool}");
            spelled[argument] = json!("{ no JSON");
            assert_eq!(unified(tool, &spelled), spelled, "{tool}");
        }
        let null = json!({ "schema_id": "s", "response_format": null });
        assert_eq!(unified("update_schema", &null), json!({ "schema_id": "s" }));
        let null = json!({ "schema_revid": "s", "data": null });
        assert_eq!(unified("validate_against_schema", &null), null, "null is data");
    }
}
