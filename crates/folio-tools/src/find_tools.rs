//! The tool `find_tools`, which enables the tools of a profile that not every request contains.
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

/// Returns the description, with the kinds of resources that further tools reach. It names no tool: a small model calls
/// `find_tools` for a name that resembles the task, although a tool that it has serves the task.
macro_rules! description {
    ($servers:literal) => {
        concat!(
            "Returns further tools, which search, list, read, validate, correct, change or delete documents and their outlines and sections, extractions, ",
            "schemas, prompts, tags and dictionary terms, extract several documents, or list models",
            $servers,
            ". Call it if no other tool does the task. Result: tools (name, description, parameters), which can be ",
            "called afterwards.",
        )
    };
}

/// Creates the tool. `others`: the other tools of the profile. It finds those that each request contains, too: their
/// description states what a call needs first, while a tool with a similar name may serve another task.
pub(crate) fn tool(others: Vec<ToolSpec>) -> Tool {
    let has_servers = others.iter().any(|spec| mcp::TOOLS.contains(&spec.name));
    Tool::new(
        NAME,
        match has_servers {
            true => description!(" and the tools of servers"),
            false => description!(""),
        },
        vec![required("query", text("Words of the task or a name, such as \"delete tag\"."))],
        ToolKind::Read(Arc::new(FindTools(others))),
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
    use folio_types::profile::{DOCUMENT_PROFILE, Sending};

    use super::*;
    use crate::Registry;

    #[test]
    fn a_query_finds_the_tools_whose_names_or_else_descriptions_match_most_words() {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        let found = |query: &str| -> Vec<&'static str> {
            find(document.others(), &json!({ "query": query })).into_iter().map(|spec| spec.name).collect()
        };
        assert_eq!(found("delete tag"), ["delete_tag"]);
        assert_eq!(found("update_document"), ["update_document"]);
        assert_eq!(
            found("Please RENAME the documents!"),
            ["retrieve_documents", "list_documents", "update_document", "delete_document"]
        );
        assert_eq!(found("tags"), ["create_tag", "get_tag", "list_tags", "update_tag", "delete_tag"]);
        assert_eq!(
            found("run the extraction"),
            ["run_extraction", "run_extractions"],
            "also a tool that is sent already"
        );
        assert_eq!(found("look up in the dictionary"), ["dictionary_lookup"]);
        assert_eq!(found("abbreviation"), ["dictionary_lookup", "dictionary_suggest"]);
        assert_eq!(found("metadata"), ["list_documents", "update_document"], "by description");
        for nothing in ["", "a b", "zebra", "ä"] {
            assert_eq!(found(nothing), Vec::<&str>::new(), "{nothing:?}");
        }
        assert!(found("e l t list delete get").len() <= FOUND_MAX);
    }

    /// The resources that tools reach, as the names of the tools contain them.
    const SUBJECTS: [&str; 10] =
        ["document", "outline", "section", "extraction", "schema", "prompt", "tag", "dictionary", "model", "server"];

    #[test]
    fn the_description_mentions_the_subject_of_each_further_tool_and_names_none() {
        let registry = Registry::standard().unwrap();
        for profile in registry.profiles() {
            let is_further =
                |name: &str| profile.profile.tool(name).is_some_and(|tool| tool.sending != Sending::Always);
            let further: Vec<&ToolSpec> = profile.specs().filter(|spec| is_further(spec.name)).collect();
            let Some(tool) = profile.get(NAME) else {
                assert!(further.is_empty(), "{} has no {NAME}", profile.profile.name);
                continue;
            };
            let description = tool.spec.description;
            for spec in further {
                assert!(!description.contains(spec.name), "{}", spec.name);
                let subject = SUBJECTS.iter().find(|subject| spec.name.contains(**subject));
                assert!(subject.is_some_and(|subject| description.contains(*subject)), "{}", spec.name);
            }
        }
    }

    #[test]
    fn a_name_finds_its_tool() {
        let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        for spec in document.others() {
            let found = find(document.others(), &json!({ "query": spec.name }));
            assert!(found.contains(&spec), "{}", spec.name);
        }
    }
}
