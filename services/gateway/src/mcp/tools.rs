//! The tools: those of conversations about one document or one stack, and operations on documents, stacks and turns.

use folio_history::command::ChatCommand;
use folio_history::journal::Access;
use folio_operations::conversations::{CancelTurn, GetTurn, registry};
use folio_operations::documents::ListDocuments;
use folio_operations::filter::quote;
use folio_operations::{Declaration, ListRequest, Operation as _};
use folio_resources::Document;
use folio_tools::ToolSpec;
use folio_types::profile::DOCUMENT_PROFILE;
use folio_types::{Error, Result, TurnId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Client;
use super::assistant;
use super::call::{self, Outcome};
use super::collections;
use super::links;
use super::message::Failure;
use super::passages;
use super::stack_calls;
use super::stacks;
use super::tool_uses;

const SEARCH_DOCUMENTS: &str = "search_documents";
const GET_TURN: &str = "get_turn";
const CANCEL_TURN: &str = "cancel_turn";
/// The tool with which a model finds tools that it does not receive. A client receives every tool.
const FIND_TOOLS: &str = "find_tools";

/// The argument that every tool of a conversation has in addition to its own ones.
pub(super) const DOCUMENT: &str = "document";
const DOCUMENT_TEXT: &str = "Id of the document that the call is about, from search_documents. Other arguments that \
    default to the conversation's document default to this one.";

/// Maximum number of documents in one answer of a search.
const SEARCH_MAX: i32 = 100;

/// Lists the tools that the caller may call.
pub(super) async fn list(client: &Client) -> Result<Value, Failure> {
    let mut tools = Vec::new();
    let may = |declaration: &Declaration| client.caller.authorize(declaration).is_ok();
    if may(&ListDocuments::DECLARATION) {
        let text = "Finds documents of the organization by their name and other conditions. Call it first: every other \
            tool needs the id of a document. Returns documents (document_id, name, media_type, text_state, pages, tags, \
            metadata) and next_cursor, which is empty on the last page.";
        let properties = json!({
            "name": { "type": "string", "description": "A part of the file name. Default: every name." },
            "filter": { "type": "string", "description": "Conditions as in ListDocuments, such as state=ready or \
                tag:TAG_ID or metadata.KEY=VALUE. Default: none." },
            "cursor": { "type": "string", "description": "next_cursor of the previous page. Default: the first page." },
            "limit": { "type": "integer", "minimum": 1, "maximum": SEARCH_MAX, "description": "Maximum number of \
                documents. Default: 50." },
        });
        tools.push(tool(SEARCH_DOCUMENTS, text, (properties, &[]), true));
    }
    tools.extend(document_tools().filter(|(declaration, _)| may(declaration)).map(|(_, tool)| tool));
    tools.extend(stacks::list(client));
    tools.extend(stack_calls::list(client)?);
    if may(&ChatCommand::DECLARATION) {
        tools.push(assistant::description());
        let profile = registry()?.profile(DOCUMENT_PROFILE)?;
        let specs = profile.specs().filter(|spec| spec.name != FIND_TOOLS);
        tools.extend(specs.map(|spec| conversation_tool(spec, (DOCUMENT, DOCUMENT_TEXT))));
    }
    let turn_id = || json!({ "turn_id": { "type": "string", "description": "The turn_id of an earlier result." } });
    if may(&GetTurn::DECLARATION) {
        let text = "Returns the state of a call: its result if it has ended, or waiting_for_approval with the call. \
            Call it after an earlier call returned waiting_for_approval.";
        tools.push(tool(GET_TURN, text, (turn_id(), &["turn_id"]), true));
    }
    let (declaration, log) = tool_uses::description();
    tools.extend(may(declaration).then_some(log));
    if may(&CancelTurn::DECLARATION) {
        let text = "Cancels a call that waits for approval or runs. A call that waits blocks further calls about the \
            same document. Returns the state of the call.";
        tools.push(tool(CANCEL_TURN, text, (turn_id(), &["turn_id"]), false));
    }
    Ok(client.protocol.cached(json!({ "tools": tools })))
}

/// Returns the tools about documents that run one operation each, with the operations.
fn document_tools() -> impl Iterator<Item = (&'static Declaration, Value)> {
    passages::tools().into_iter().chain(links::tools()).chain([collections::description()])
}

pub(super) fn tool(
    name: &str,
    description: &str,
    (properties, required): (Value, &[&str]),
    is_read_only: bool,
) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": is_read_only, "openWorldHint": false },
    })
}

/// Describes a tool of conversations, with the argument that names the document or the stack.
pub(super) fn conversation_tool(spec: &ToolSpec, (argument, description): (&str, &str)) -> Value {
    let mut schema = spec.parameters.clone();
    let subject = json!({ "type": "string", "description": description });
    if let Some(schema) = schema.as_object_mut() {
        if let Some(properties) = schema.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
            properties.insert(argument.to_owned(), subject);
        }
        if let Some(required) = schema.entry("required").or_insert_with(|| json!([])).as_array_mut() {
            required.push(argument.into());
        }
    }
    let is_read_only = spec.access == Access::ReadOnly;
    json!({
        "name": spec.name,
        "description": spec.description,
        "inputSchema": schema,
        "annotations": { "readOnlyHint": is_read_only, "openWorldHint": false },
    })
}

/// Runs `tools/call`. A refused call is a result with an error, so that a model can correct it.
pub(super) async fn call(client: &Client, mut params: Map<String, Value>) -> Result<Outcome, Failure> {
    let name = match params.remove("name") {
        Some(Value::String(name)) => name,
        _ => return Err(Failure::invalid_params("name must be a string")),
    };
    let arguments = match params.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(Failure::invalid_params("arguments must be an object")),
    };
    let result = match name.as_str() {
        SEARCH_DOCUMENTS => search(client, arguments).await,
        passages::SEARCH => passages::search(client, arguments).await,
        passages::GET_SECTION => passages::section(client, arguments).await,
        links::LIST_DOCUMENT_LINKS => links::of_document(client, arguments).await,
        links::LIST_MISSING_LINKS => links::missing(client, arguments).await,
        collections::SEARCH_COLLECTIONS => collections::search(client, arguments).await,
        assistant::ASK => return assistant::ask(client, arguments, &params).await,
        stacks::SEARCH_STACKS => stacks::search(client, arguments).await,
        stacks::LIST_STACK_ROWS => stacks::rows(client, arguments).await,
        stacks::ASK_STACK => stacks::ask(client, arguments).await,
        stacks::FIND_STACK_CONFLICTS => stacks::conflicts(client, arguments).await,
        stack_calls::FILL_STACK => stack_calls::fill(client, arguments, &params).await?,
        GET_TURN => get_turn(client, arguments).await,
        tool_uses::LIST_TOOL_USES => tool_uses::list(client, arguments).await,
        CANCEL_TURN => cancel_turn(client, arguments).await,
        _ => {
            let argument = if stack_calls::is_call(&name, &arguments)? { stack_calls::STACK } else { DOCUMENT };
            return call::run(client, name, (argument, arguments), &params).await;
        }
    };
    Ok(Outcome::Ended(result.unwrap_or_else(call::refused)))
}

pub(super) fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T> {
    let parsed = serde_path_to_error::deserialize(Value::Object(arguments));
    parsed.map_err(|error| Error::invalid_field(error.path().to_string(), error.inner().to_string()))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Search {
    name: String,
    filter: String,
    cursor: String,
    limit: i32,
}

async fn search(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let search: Search = parse(arguments)?;
    let list = ListRequest {
        page_size: search.limit.min(SEARCH_MAX),
        page_token: search.cursor,
        filter: filter(&search.name, &search.filter),
        ..ListRequest::default()
    };
    let page = client.run(ListDocuments { list }).await?.page;
    let documents: Vec<Value> = page.items.iter().map(document).collect();
    Ok(call::content(&json!({ "documents": documents, "next_cursor": page.next_page_token }), false))
}

/// Adds the condition on the name to a filter.
pub(super) fn filter(name: &str, filter: &str) -> String {
    if name.is_empty() {
        return filter.to_owned();
    }
    format!("name:{} {filter}", quote(name))
}

fn document(document: &Document) -> Value {
    // The tag of the state; a reason follows as another member.
    let state = serde_json::to_value(&document.state).ok().and_then(|state| state.get("state").cloned());
    json!({
        "document_id": document.id,
        "name": document.name,
        "media_type": document.media_type,
        "text_state": state,
        "pages": document.pages,
        "tags": document.tags,
        "metadata": document.metadata,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTurn {
    turn_id: TurnId,
}

async fn get_turn(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let OfTurn { turn_id } = parse(arguments)?;
    Ok(call::result(&client.run(GetTurn { turn_id }).await?))
}

async fn cancel_turn(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let OfTurn { turn_id } = parse(arguments)?;
    Ok(call::result(&client.run(CancelTurn { turn_id }).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_of_conversations_requires_the_document_and_keeps_its_own_arguments() {
        let profile = registry().unwrap().profile(DOCUMENT_PROFILE).unwrap();
        for spec in profile.specs() {
            let own = spec.parameters["properties"].as_object().unwrap();
            assert!(!own.contains_key(DOCUMENT), "{}", spec.name);
            let tool = conversation_tool(spec, (DOCUMENT, DOCUMENT_TEXT));
            let schema = &tool["inputSchema"];
            assert_eq!(schema["properties"].as_object().unwrap().len(), own.len() + 1, "{}", spec.name);
            assert!(schema["required"].as_array().unwrap().contains(&json!(DOCUMENT)), "{}", spec.name);
            assert_eq!(tool["annotations"]["readOnlyHint"], spec.access == Access::ReadOnly, "{}", spec.name);
        }
    }

    #[test]
    fn each_tool_about_documents_only_reads_and_names_its_operation() {
        for (declaration, tool) in document_tools() {
            assert_eq!(declaration.effect, folio_operations::Effect::Read, "{}", tool["name"]);
            assert_eq!(tool["annotations"]["readOnlyHint"], true, "{}", tool["name"]);
        }
    }

    #[test]
    fn the_name_is_a_quoted_condition_before_the_filter() {
        assert_eq!(filter("", "state=ready"), "state=ready");
        assert_eq!(filter(r#"a "b" \c"#, "tag:x"), r#"name:"a \"b\" \\c" tag:x"#);
        let conditions = folio_operations::filter::parse(&filter(r#"a "b" \c"#, "state=ready")).unwrap();
        assert_eq!((conditions.len(), conditions[0].value.as_str()), (2, r#"a "b" \c"#));
    }

    #[test]
    fn unknown_and_malformed_arguments_are_refused_by_their_name() {
        let search = |value: Value| parse::<Search>(value.as_object().unwrap().clone());
        assert_eq!(search(json!({"limit": "x"})).unwrap_err().violations[0].field, "limit");
        assert!(search(json!({"colour": "red"})).unwrap_err().message.contains("colour"));
        let turn = json!({"turn_id": "../../etc"});
        assert!(parse::<OfTurn>(turn.as_object().unwrap().clone()).is_err());
    }
}
