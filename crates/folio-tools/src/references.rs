//! Checks of references from the arguments of a call to the results of earlier calls of its round
//! ([`folio_history::reference`]), before the policy is evaluated and before a person decides.
//!
//! An argument accepts only a reference to the id that it expects: `schema_id` accepts `$create_schema.schema_id`. So the
//! call needs no check of its own for a reference, and its plan checks the id.

use folio_history::reference::{Reference, id_texts, replace_references};
use serde_json::Value;

use crate::registry::ProfileTools;
use crate::rules::excerpt;

/// Description of the repair, for the model.
const REPAIR: &str = "replaced the field of a reference by the id that the argument expects";

impl ProfileTools {
    /// Replaces the id of a resource by that of its version, or the reverse, in references whose argument expects the
    /// other one. Returns a description. None: nothing was replaced.
    pub(crate) fn repair_references(&self, arguments: &mut Value) -> Option<String> {
        let repaired = replace_references(arguments, |argument, reference| {
            let expected = expected_id(argument);
            let is_returned = self.result_ids(reference.tool).is_some_and(|ids| ids.contains(&expected));
            let is_near = kind(reference.field) == kind(expected) && reference.field != expected;
            (is_returned && is_near).then(|| Reference { field: expected, ..*reference }.to_string())
        });
        if repaired == *arguments {
            return None;
        }
        *arguments = repaired;
        Some(REPAIR.to_owned())
    }

    /// Checks the references in a call's arguments. `names`: the tools of all calls of the round, in order. `position`:
    /// index of the call among them, from 0. Returns a message for the model or the user. None: every reference is valid.
    pub fn reference_problem(&self, names: &[&str], position: usize, arguments: &Value) -> Option<String> {
        id_texts(arguments).filter(|(_, text)| text.starts_with('$')).find_map(|(argument, text)| {
            let expected = expected_id(argument);
            let problem = self.problem_with(names, position, expected, text)?;
            let remedy = match self.example(expected) {
                Some(example) => {
                    format!("To refer to an earlier call of the same response, write \"{example}\".")
                }
                None => "Write an id.".to_owned(),
            };
            Some(format!("{argument}: {:?} {problem}. {remedy}", excerpt(text)))
        })
    }

    fn problem_with(&self, names: &[&str], position: usize, expected: &str, text: &str) -> Option<String> {
        let Some(reference) = Reference::parse(text) else { return Some("is not a reference".to_owned()) };
        let Reference { tool, field, .. } = reference;
        let Some(ids) = self.result_ids(tool) else { return Some("refers to an unknown tool".to_owned()) };
        if !ids.contains(&field) {
            return Some(format!("refers to an id that the result of {tool} does not have"));
        }
        if field != expected {
            return Some(format!("refers to {field} instead of {expected}"));
        }
        match reference.target(names.iter().copied()) {
            Some(target) if target < position => None,
            Some(target) if target == position => Some("refers to its own call".to_owned()),
            Some(_) => Some("refers to a later call".to_owned()),
            None => Some(format!("refers to a call that this response does not contain; call {tool} before this call")),
        }
    }

    /// None: the tool does not exist.
    fn result_ids(&self, tool: &str) -> Option<&'static [&'static str]> {
        self.get(tool).map(|tool| tool.result_ids)
    }

    /// Returns a reference to the id, preferably to a call that creates it. None: no tool returns it.
    fn example(&self, id: &str) -> Option<String> {
        let creates = format!("create_{}", kind(id));
        let names = || self.specs().map(|spec| spec.name);
        let returns = |name: &&str| self.result_ids(name).is_some_and(|ids| ids.contains(&id));
        let tool = names().find(|name| *name == creates).filter(&returns).or_else(|| names().find(returns))?;
        Some(Reference { tool, nth: 1, field: id }.to_string())
    }
}

/// Returns the member of a result that an argument expects.
fn expected_id(argument: &str) -> &str {
    argument.strip_suffix('s').unwrap_or(argument)
}

/// Returns the kind of resource that an id identifies.
fn kind(id: &str) -> &str {
    id.strip_suffix("_revid").or_else(|| id.strip_suffix("_id")).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use folio_types::profile::DOCUMENT_PROFILE;
    use serde_json::json;

    use super::*;
    use crate::Registry;

    fn document() -> Arc<ProfileTools> {
        Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap()
    }

    const ROUND: [&str; 5] = ["create_schema", "create_schema", "create_prompt", "run_extraction", "create_tag"];

    fn problem(position: usize, arguments: &Value) -> Option<String> {
        document().reference_problem(&ROUND, position, arguments)
    }

    #[test]
    fn an_argument_accepts_a_reference_to_the_id_that_it_expects() {
        for (position, arguments) in [
            (2, json!({ "schema_id": "$create_schema.schema_id" })),
            (2, json!({ "schema_id": "$create_schema[2].schema_id" })),
            (3, json!({ "prompt_revid": "$create_prompt.prompt_revid" })),
            (3, json!({ "schema_revid": "$create_prompt.schema_revid" })),
            (
                4,
                json!({ "document_id": "$run_extraction.document_id", "prompt_revid": "$run_extraction.prompt_revid" }),
            ),
            (2, json!({ "schema_id": "sch_1", "name": "$create_tag.tag_id", "content": "$5 or $nothing.x" })),
            (2, json!({ "schema_id": "" })),
            (2, json!({})),
        ] {
            assert_eq!(problem(position, &arguments), None, "{arguments}");
        }
        let tags = json!({ "tag_ids": ["tag_1", "$create_tag.tag_id"] });
        assert_eq!(document().reference_problem(&["create_tag", "create_prompt"], 1, &tags), None);
        let checked =
            document().check("create_prompt", r#"{"name":"n","content":"c","schema_id":"$create_schema.schema_id"}"#);
        assert_eq!((checked.problem, checked.repairs), (None, Vec::new()));
    }

    #[test]
    fn an_invalid_reference_gets_an_error_with_the_right_form() {
        let create = "write \"$create_schema.schema_id\"";
        for (position, arguments, states, form) in [
            (0, json!({ "schema_id": "$create_schema.schema_id" }), "its own call", create),
            (0, json!({ "schema_id": "$create_schema[2].schema_id" }), "a later call", create),
            (2, json!({ "schema_id": "$create_schema[3].schema_id" }), "does not contain", create),
            (2, json!({ "schema_id": "$update_schema.schema_id" }), "does not contain", create),
            (2, json!({ "schema_id": "$make_schema.schema_id" }), "unknown tool", create),
            (2, json!({ "schema_id": "$create_schema.id" }), "create_schema does not have", create),
            (2, json!({ "schema_id": "$create_schema.name" }), "create_schema does not have", create),
            (4, json!({ "schema_id": "$create_prompt.prompt_id" }), "prompt_id instead of schema_id", create),
            (2, json!({ "schema_id": "$create_schema" }), "is not a reference", create),
            (2, json!({ "schema_id": "${create_schema.schema_id}" }), "is not a reference", create),
            (
                2,
                json!({ "schema_revid": "$validate_schema.schema_revid" }),
                "does not have",
                "$create_schema.schema_revid",
            ),
            (2, json!({ "schema_id": "$delete_schema.schema_id" }), "does not have", create),
            (3, json!({ "prompt_revid": "$create_prompt.version" }), "does not have", "$create_prompt.prompt_revid"),
            (3, json!({ "tag_ids": ["tag_1", "$create_tag.tag_id"] }), "a later call", "$create_tag.tag_id"),
            (3, json!({ "document_id": "$documents.document_id" }), "unknown tool", "document_id\""),
            (3, json!({ "owner_id": "$create_tag.tag_id" }), "tag_id instead of owner_id", "Write an id."),
        ] {
            let problem = problem(position, &arguments).unwrap();
            assert!(problem.contains(states) && problem.contains(form), "{arguments}: {problem}");
            assert!(problem.starts_with(arguments.as_object().unwrap().keys().next().unwrap().as_str()), "{problem}");
        }
        let long = format!("$create_schema.{}", "x".repeat(10_000));
        assert!(problem(2, &json!({ "schema_id": long })).unwrap().len() < 320);
    }

    #[test]
    fn a_reference_to_the_other_id_of_the_resource_is_repaired() {
        let repaired = |mut arguments: Value| {
            let description = document().repair_references(&mut arguments);
            (arguments, description.is_some())
        };
        for (sent, expected) in [
            (json!({ "schema_id": "$create_schema.schema_revid" }), json!({ "schema_id": "$create_schema.schema_id" })),
            (
                json!({ "prompt_revid": "$create_prompt[2].prompt_id" }),
                json!({ "prompt_revid": "$create_prompt[2].prompt_revid" }),
            ),
        ] {
            assert_eq!(repaired(sent), (expected.clone(), true));
            assert_eq!(repaired(expected.clone()), (expected, false), "idempotent");
        }
        for other in [
            json!({ "schema_id": "$create_prompt.schema_revid" }),
            json!({ "schema_id": "$create_schema.name" }),
            json!({ "schema_id": "$make_schema.schema_revid" }),
            json!({ "name": "$create_schema.schema_revid" }),
        ] {
            assert_eq!(repaired(other.clone()), (other, false));
        }
        let checked = document().check("run_extraction", r#"{"prompt_revid":"$create_prompt.prompt_id"}"#);
        assert_eq!((checked.problem, checked.repairs.len()), (None, 1));
    }
}
