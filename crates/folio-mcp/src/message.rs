//! The messages of MCP: requests, and what is read from their answers. Pure.

use folio_llm::schema::is_deeper_than;
use folio_resources::{McpToolText, is_tool_name};
use folio_tools::mcp::{McpReply, OfferedTool};
use folio_types::limits;
use serde_json::{Value, json};

/// Versions of the protocol: the one that is proposed to servers with a handshake, and the stateless one.
pub(crate) const HANDSHAKE_VERSION: &str = "2025-11-25";
pub(crate) const STATELESS_VERSION: &str = "2026-07-28";

/// Maximum number of characters of a server's error that is shown.
const EXCERPT_CHARS: usize = 300;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Result(Value),
    /// The server refused the request, with this message.
    Error(String),
}

/// Returns a request. A notification has no id.
pub(crate) fn request(id: Option<u64>, method: &str, params: &Value) -> Value {
    match id {
        Some(id) => json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        None => json!({ "jsonrpc": "2.0", "method": method }),
    }
}

pub(crate) fn initialize() -> Value {
    json!({ "protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": client_info() })
}

fn client_info() -> Value {
    json!({ "name": "folio", "version": env!("CARGO_PKG_VERSION") })
}

/// Adds the members that each request of the stateless version has.
pub(crate) fn with_version(mut params: Value) -> Value {
    if let Some(params) = params.as_object_mut() {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS_VERSION,
            "io.modelcontextprotocol/clientInfo": client_info(),
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params.insert("_meta".to_owned(), meta);
    }
    params
}

/// Returns the answer to the request with this id. None: the message is another one, or malformed. An error may have no id,
/// because the server could not read it.
pub(crate) fn answer(message: &[u8], id: u64) -> Option<Answer> {
    let mut message: Value = serde_json::from_slice(message).ok()?;
    let is_of = message.get("id").and_then(Value::as_u64) == Some(id);
    if let Some(error) = message.get("error").filter(|_| is_of || message.get("id").is_none_or(Value::is_null)) {
        let text = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        return Some(Answer::Error(excerpt(text)));
    }
    let result = message.get_mut("result").filter(|_| is_of)?;
    Some(Answer::Result(result.take()))
}

/// Returns the start of a server's text, without control characters.
fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// Reads a page of `tools/list`: its tools, and the cursor of the next page. Malformed tools are skipped. None: the result is no
/// page.
pub(crate) fn tools(page: &Value) -> Option<(Vec<OfferedTool>, Option<String>)> {
    let tools = page.get("tools")?.as_array()?.iter().filter_map(tool).collect();
    let cursor = page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
    Some((tools, cursor.map(str::to_owned)))
}

fn tool(tool: &Value) -> Option<OfferedTool> {
    let name = tool.get("name")?.as_str().filter(|name| is_tool_name(name))?;
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let input_schema = tool.get("inputSchema").filter(|schema| schema.is_object())?;
    if is_deeper_than(input_schema, limits::JSON_DEPTH) {
        return None;
    }
    let text = McpToolText { description: description.to_owned(), input_schema: input_schema.clone() };
    let hint = tool.get("annotations").and_then(|annotations| annotations.get("readOnlyHint"));
    let is_read_only_hint = hint.and_then(Value::as_bool).unwrap_or(false);
    Some(OfferedTool { name: name.to_owned(), text, is_read_only_hint })
}

/// Reads the result of `tools/call`: the structured content, otherwise the texts. Other content, such as images, is named by its
/// type only.
pub(crate) fn reply(result: &Value) -> McpReply {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let items = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let content = match result.get("structuredContent").filter(|content| !content.is_null()) {
        Some(content) => content.clone(),
        None => items.iter().map(item).collect(),
    };
    McpReply { content, is_error }
}

fn item(item: &Value) -> Value {
    match item.get("text").filter(|text| text.is_string()) {
        Some(text) => text.clone(),
        None => json!({ "omitted": item.get("type").and_then(Value::as_str).map_or_else(String::new, excerpt) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_request_is_found_by_its_id() {
        let answer = |message: &str| answer(message.as_bytes(), 7);
        assert_eq!(answer(r#"{"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}"#), Some(Answer::Result(json!({"a": 1}))));
        let refused = Some(Answer::Error("no".to_owned()));
        assert_eq!(answer(r#"{"id": 7, "error": {"code": -32601, "message": "no"}}"#), refused);
        assert_eq!(answer(r#"{"id": null, "error": {"code": -32700, "message": "no"}}"#), refused);
        for other in [
            r#"{"id": 8, "result": {}}"#,
            r#"{"id": 8, "error": {"message": "no"}}"#,
            r#"{"method": "notifications/progress"}"#,
            r#"{"id": 7, "method": "sampling/createMessage"}"#,
            "{",
            "[]",
        ] {
            assert_eq!(answer(other), None, "{other}");
        }
        let long = format!(r#"{{"id": 7, "error": {{"message": "{}\n"}}}}"#, "ä".repeat(1_000));
        let Some(Answer::Error(text)) = answer(&long.replace('\n', "\\n")) else { panic!("an error") };
        assert_eq!(text.chars().count(), EXCERPT_CHARS);
    }

    #[test]
    fn malformed_tools_are_skipped() {
        let page = json!({ "nextCursor": "2", "tools": [
            { "name": "find", "inputSchema": {}, "annotations": { "readOnlyHint": true } },
            { "name": "create", "description": "Creates.", "inputSchema": { "type": "object" } },
            { "name": "no schema" }, { "name": "a b", "inputSchema": {} }, { "inputSchema": {} }, 1,
        ]});
        let (found, cursor) = tools(&page).unwrap();
        let names: Vec<(&str, bool)> = found.iter().map(|tool| (tool.name.as_str(), tool.is_read_only_hint)).collect();
        assert_eq!((names, cursor.as_deref()), (vec![("find", true), ("create", false)], Some("2")));
        assert_eq!(found[1].text.description, "Creates.");
        assert_eq!(tools(&json!({ "tools": [] })), Some((Vec::new(), None)));
        assert_eq!(tools(&json!({ "tools": {} })), None);
    }

    #[test]
    fn a_reply_contains_structured_content_or_texts() {
        let text = json!({ "type": "text", "text": "done" });
        let image = json!({ "type": "image", "data": "AAAA" });
        let texts = reply(&json!({ "content": [text, image] }));
        assert_eq!((texts.content, texts.is_error), (json!(["done", { "omitted": "image" }]), false));
        let structured = reply(&json!({ "content": [text], "structuredContent": { "id": 1 }, "isError": true }));
        assert_eq!((structured.content, structured.is_error), (json!({ "id": 1 }), true));
        assert_eq!(reply(&json!({})).content, json!([]));
    }

    #[test]
    fn a_stateless_request_states_its_version() {
        let params = with_version(json!({ "name": "find" }));
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], STATELESS_VERSION);
        assert_eq!(params["name"], "find");
        assert_eq!(request(None, "notifications/initialized", &Value::Null).get("id"), None);
    }
}
