//! The tool `find_tools`, which enables the tools of a profile that are not sent at first.
//!
//! The selection is a pure function of the tools and of the call's arguments. The conversation repeats it for each model
//! call, so that the found tools are sent for the rest of the turn, also after a recovery.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::arguments::{required, text};
use crate::mcp;
use crate::tool::{CallContext, ReadTool, Tool, ToolError, ToolKind, ToolOutput, ToolSpec};

pub(crate) const NAME: &str = "find_tools";

/// Maximum number of tools that a call finds.
const FOUND_MAX: usize = 5;
/// Minimum length of a word of a query, in characters. Shorter words have no meaning for the selection.
const WORD_CHARS: usize = 3;

/// Returns the description with the tools of both profiles, and with further ones.
macro_rules! description {
    ($further:literal) => {
        concat!(
            "Returns further tools, which can be called afterwards: run_extractions, list_documents, update_document, ",
            "delete_document, get_schema, list_schemas, delete_schema, validate_against_schema, get_prompt, ",
            "delete_prompt, create_tag, get_tag, list_tags, update_tag, delete_tag, list_llm_models",
            $further,
            ". Call it if you need one of them. Result: tools (name, description, parameters).",
        )
    };
}

/// Creates the tool. `on_request`: the tools that the profile does not send at first.
pub(crate) fn tool(on_request: Vec<ToolSpec>) -> Tool {
    let has_servers = on_request.iter().any(|spec| mcp::TOOLS.contains(&spec.name));
    Tool::new(
        NAME,
        match has_servers {
            true => description!(", list_server_tools, read_from_server, write_to_server"),
            false => description!(""),
        },
        vec![required("query", text("Words of the task or a name, such as \"delete tag\"."))],
        ToolKind::Read(Arc::new(FindTools(on_request))),
    )
}

struct FindTools(Vec<ToolSpec>);

#[async_trait]
impl ReadTool for FindTools {
    async fn run(&self, _: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let found = find(self.0.iter(), &arguments);
        if found.is_empty() {
            let names: Vec<&str> = self.0.iter().map(|spec| spec.name).collect();
            return Err(ToolError::ForModel(format!(
                "query matches none of: {}. Pass one of these names.",
                names.join(", ")
            )));
        }
        let tools: Vec<Value> = found.into_iter().map(show).collect();
        Ok(ToolOutput::new(json!({ "tools": tools })))
    }
}

fn show(spec: &ToolSpec) -> Value {
    let ToolSpec { name, description, parameters, .. } = spec;
    json!({ "name": name, "description": description, "parameters": parameters })
}

/// Returns the tools that match most words of a query, in the given order. Words in names count first; if no name
/// matches, words in descriptions count. Empty if nothing matches.
pub(crate) fn find<'a>(specs: impl Iterator<Item = &'a ToolSpec> + Clone, arguments: &Value) -> Vec<&'a ToolSpec> {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let words: Vec<&str> = query
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.chars().count() >= WORD_CHARS)
        .map(|word| word.strip_suffix('s').unwrap_or(word))
        .collect();
    let best = |text: fn(&ToolSpec) -> &str| {
        let score = |spec: &ToolSpec| words.iter().filter(|word| text(spec).to_lowercase().contains(**word)).count();
        let most = specs.clone().map(score).max().unwrap_or_default();
        specs.clone().filter(|spec| most > 0 && score(spec) == most).take(FOUND_MAX).collect::<Vec<_>>()
    };
    let by_name = best(|spec| spec.name);
    if by_name.is_empty() { best(|spec| spec.description) } else { by_name }
}

#[cfg(test)]
mod tests {
    use folio_types::profile::DOCUMENT_PROFILE;

    use super::*;
    use crate::Registry;

    #[test]
    fn a_query_finds_the_tools_whose_names_or_else_descriptions_match_most_words() {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        let found = |query: &str| -> Vec<&'static str> {
            let on_request = document.on_request();
            find(on_request, &json!({ "query": query })).into_iter().map(|spec| spec.name).collect()
        };
        assert_eq!(found("delete tag"), ["delete_tag"]);
        assert_eq!(found("update_document"), ["update_document"]);
        assert_eq!(found("Please RENAME the documents!"), ["list_documents", "update_document", "delete_document"]);
        assert_eq!(found("tags"), ["create_tag", "get_tag", "list_tags", "update_tag", "delete_tag"]);
        assert_eq!(found("metadata"), ["list_documents", "update_document"], "by description");
        for nothing in ["", "a b", "zebra", "ä"] {
            assert_eq!(found(nothing), Vec::<&str>::new(), "{nothing:?}");
        }
        assert!(found("e l t list delete get").len() <= FOUND_MAX);
    }

    #[test]
    fn the_description_names_each_tool_that_is_sent_on_request() {
        let registry = Registry::standard().unwrap();
        for profile in registry.profiles() {
            let names: Vec<&str> = profile.on_request().map(|spec| spec.name).collect();
            let Some(tool) = profile.get(NAME) else {
                assert!(names.is_empty(), "{} has no {NAME}", profile.profile.name);
                continue;
            };
            let list = tool.spec.description.split_once("afterwards: ").unwrap().1.split_once('.').unwrap().0;
            assert_eq!(list.split(", ").collect::<Vec<_>>(), names);
        }
    }
}
