//! The face MCP: roles, scopes, tenants, malformed messages, and calls that wait.

use folio_types::access::Scope;
use folio_types::{OrgId, Role, System};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Answer, Http};
use crate::harness::{Client, Server};

/// The tools of DocRouter's document chat, which a client calls about a named document.
const DOCUMENT_TOOLS: [&str; 30] = [
    "create_prompt",
    "create_schema",
    "create_tag",
    "delete_document",
    "delete_prompt",
    "delete_schema",
    "delete_tag",
    "get_extraction_result",
    "get_ocr_text",
    "get_prompt",
    "get_schema",
    "get_tag",
    "help_prompts",
    "help_schemas",
    "image_annotator",
    "list_documents",
    "list_llm_models",
    "list_prompts",
    "list_schemas",
    "list_tags",
    "pdf_outline",
    "run_extraction",
    "section_reader",
    "update_document",
    "update_extraction_field",
    "update_prompt",
    "update_schema",
    "update_tag",
    "validate_against_schema",
    "validate_schema",
];

/// The tools that read the tables of stacks.
const STACK_TOOLS: [&str; 4] = ["search_stacks", "list_stack_rows", "ask_stack", "find_stack_conflicts"];

/// The tools that read documents without a turn.
const SEARCH_TOOLS: [&str; 6] =
    ["search_documents", "search", "get_section", "list_document_links", "list_missing_links", "search_collections"];

/// The tools that require a stack and the role member.
const STACK_CALLS: [&str; 7] = [
    "get_document_text",
    "define_columns",
    "extract_row",
    "update_cell",
    "get_table_state",
    "complete_table",
    "fill_stack",
];

/// Sends a message of a client with a handshake, which reads no stream.
async fn post(http: &Http, message: &Value) -> Answer {
    http.json(Method::POST, "/mcp", message).await
}

/// Sends a request, and returns its result.
async fn ask(http: &Http, method: &str, params: Value) -> Value {
    let answer = post(http, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()["result"].clone()
}

async fn call(http: &Http, tool: &str, arguments: Value) -> Value {
    ask(http, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

fn reason(result: &Value) -> &str {
    result["structuredContent"]["error"]["reason"].as_str().unwrap_or_default()
}

async fn tool_names(http: &Http) -> Vec<String> {
    let listed = ask(http, "tools/list", json!({})).await;
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Sends a request of a stateless client whose headers repeat its parts. Returns the last event of the stream.
async fn stateless(http: &Http, tool: &str, params: Value) -> Value {
    let mut params = params;
    params["name"] = tool.into();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {"form": {}}});
    let message = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params});
    let request = http.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    let answer = http.send(request.header("mcp-name", tool).json(&message)).await;
    let event = answer.text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    let message: Value = serde_json::from_str(event.unwrap_or_else(|| panic!("{answer:?}"))).unwrap();
    assert_eq!(message["id"], "a");
    message["result"].clone()
}

#[tokio::test]
async fn every_message_needs_a_token_and_every_tool_its_role_and_scope() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let anonymous = Http::new(&server, &server.stranger(None));
    let refused = post(&anonymous, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (StatusCode::UNAUTHORIZED, Some("INVALID_TOKEN")));
    let document = server.user(&org, Role::Member).await.ready_document("a.txt", "Total 12.50").await.document_id;

    let viewer = Http::new(&server, &server.user(&org, Role::Viewer).await);
    let tools = tool_names(&viewer).await;
    let expected = [&SEARCH_TOOLS[..], &STACK_TOOLS, &["get_turn", "list_tool_uses"]].concat();
    assert_eq!(tools, expected, "a viewer runs no turns");
    assert_eq!(reason(&call(&viewer, "list_tags", json!({"document": document})).await), "ROLE_NOT_ALLOWED");
    let found = call(&viewer, "search_documents", json!({"name": "a"})).await;
    assert_eq!(found["structuredContent"]["documents"][0]["document_id"], document);
    let member = Http::new(&server, &server.user(&org, Role::Member).await);
    let tools = tool_names(&member).await;
    for tool in DOCUMENT_TOOLS.into_iter().chain(STACK_CALLS) {
        assert_eq!(tools.iter().filter(|name| *name == tool).count(), 1, "{tool}: {tools:?}");
    }
    let unknown = call(&member, "no_tool", json!({"document": document})).await;
    assert_eq!(reason(&unknown), "UNKNOWN_TOOL");
    assert!(unknown.to_string().contains("tools/list"), "{unknown}");

    for scope in Scope::ALL.iter().copied() {
        let limited = Http::new(&server, &server.restricted_user(&org, Role::Admin, &[scope], true).await);
        let tools = tool_names(&limited).await;
        let (searches, calls) = (call(&limited, "search_documents", json!({})).await, scope == Scope::Conversations);
        assert_eq!(reason(&searches) == "SCOPE_NOT_ALLOWED", scope != Scope::Documents, "{scope:?}");
        assert_eq!(tools.iter().any(|tool| tool == "search_documents"), scope == Scope::Documents, "{scope:?}");
        let stacks = reason(&call(&limited, "search_stacks", json!({})).await) != "SCOPE_NOT_ALLOWED";
        assert_eq!(stacks, scope == Scope::Extractions, "{scope:?}");
        assert_eq!(tools.iter().any(|tool| tool == "search_stacks"), stacks, "{scope:?}");
        assert_eq!(tools.iter().any(|tool| tool == "list_tags"), calls, "{scope:?}");
        let listed = call(&limited, "list_tags", json!({"document": document})).await;
        assert_eq!(reason(&listed) == "SCOPE_NOT_ALLOWED", !calls, "{scope:?}: {listed}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_documents_turns_and_resources_of_another_organization_are_like_missing_ones() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), Role::Admin).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    let (ours, theirs) = (Http::new(&server, &us), Http::new(&server, &them));
    let missing = "doc_00000000000000000000000000000000".to_owned();
    let foreign = them.ready_document("same.txt", "Total 12.50").await.document_id;
    let listed = call(&theirs, "list_tags", json!({"document": foreign})).await;
    let turn = listed["_meta"]["turn_id"].as_str().unwrap().to_owned();
    let missing_turn = "thr_00000000000000000000000000000000.1";
    let without = |value: &Value, id: &str| value.to_string().replace(id, "ID");
    let same = |of_theirs: &Value, id: &str, of_missing: &Value, other: &str| {
        assert_eq!(without(of_theirs, id), without(of_missing, other));
    };
    for tool in tool_names(&ours).await {
        let others = [&SEARCH_TOOLS[..], &["ask", "get_turn", "list_tool_uses", "cancel_turn"]].concat();
        let of_stacks = [&STACK_TOOLS[..], &STACK_CALLS].concat();
        if others.contains(&tool.as_str()) || of_stacks.contains(&tool.as_str()) {
            continue;
        }
        let of_theirs = call(&ours, &tool, json!({"document": foreign})).await;
        let of_missing = call(&ours, &tool, json!({"document": missing})).await;
        assert_eq!(reason(&of_theirs), "NOT_FOUND", "{tool}: {of_theirs}");
        same(&of_theirs, &foreign, &of_missing, &missing);
    }
    let ask_about = async |id: &str| call(&ours, "ask", json!({"question": "Total?", "document_ids": [id]})).await;
    let (of_theirs, of_missing) = (ask_about(&foreign).await, ask_about(&missing).await);
    assert_eq!(reason(&of_theirs), "NOT_FOUND", "{of_theirs}");
    same(&of_theirs, &foreign, &of_missing, &missing);
    for tool in ["get_turn", "cancel_turn"] {
        let of_theirs = call(&ours, tool, json!({"turn_id": turn})).await;
        assert_eq!(reason(&of_theirs), "NOT_FOUND", "{tool}: {of_theirs}");
    }
    let (thread, _) = turn.rsplit_once('.').unwrap();
    let (missing_thread, _) = missing_turn.rsplit_once('.').unwrap();
    let log = async |id: &str| call(&ours, "list_tool_uses", json!({"thread_id": id})).await;
    let (of_theirs, of_missing) = (log(thread).await, log(missing_thread).await);
    assert_eq!(reason(&of_theirs), "NOT_FOUND", "{of_theirs}");
    same(&of_theirs, thread, &of_missing, missing_thread);
    let own = call(&theirs, "list_tool_uses", json!({"thread_id": thread})).await;
    assert_eq!(own["structuredContent"]["tool_uses"][0]["tool"], "list_tags", "{own}");
    let stacks = format!("/v0/orgs/{}/stacks", them.org);
    let stack =
        theirs.json(Method::POST, &stacks, &json!({"name": "Bills"})).await.json()["id"].as_str().unwrap().to_owned();
    let missing_stack = "stk_00000000000000000000000000000000";
    for (tool, rest) in [
        ("list_stack_rows", json!({})),
        ("ask_stack", json!({"aggregates": [{"function": "count"}]})),
        ("find_stack_conflicts", json!({"key_columns": ["a"], "columns": ["b"]})),
        ("get_table_state", json!({})),
        ("define_columns", json!({"columns": [{"name": "Total", "type": "number"}]})),
        ("extract_row", json!({"document_id": foreign, "cells": []})),
        ("update_cell", json!({"document_id": foreign, "column": "Total", "value": 1, "confidence": 1})),
        ("complete_table", json!({})),
        ("list_documents", json!({})),
        ("fill_stack", json!({})),
    ] {
        let with = |stack: &str| {
            let mut arguments = rest.clone();
            arguments["stack"] = stack.into();
            arguments
        };
        let of_theirs = call(&ours, tool, with(&stack)).await;
        assert_eq!(reason(&of_theirs), "NOT_FOUND", "{tool}: {of_theirs}");
        same(&of_theirs, &stack, &call(&ours, tool, with(missing_stack)).await, missing_stack);
    }
    let found = call(&ours, "search_stacks", json!({})).await;
    assert_eq!(found["structuredContent"]["stacks"], json!([]));
    let of_missing = call(&ours, "get_turn", json!({"turn_id": missing_turn})).await;
    assert_eq!(reason(&of_missing), "NOT_FOUND");
    let read = async |id: &str| {
        let params = json!({"uri": format!("folio://documents/{id}")});
        post(&ours, &json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params})).await.json()
    };
    let (of_theirs, of_missing) = (read(&foreign).await, read(&missing).await);
    assert_eq!(of_theirs["error"]["data"]["reason"], "NOT_FOUND");
    same(&of_theirs, &foreign, &of_missing, &missing);
    let found = call(&ours, "search_documents", json!({})).await;
    assert_eq!(found["structuredContent"]["documents"], json!([]));
    for arguments in [json!({"query": "total"}), json!({"query": "total", "document_ids": [foreign]})] {
        let found = call(&ours, "search", arguments).await;
        assert_eq!(found["structuredContent"]["passages"], json!([]), "{found}");
    }
    let structure = them.call_ok("GetDocumentStructure", json!({"document_id": foreign})).await;
    let section = structure["sections"][0]["section_id"].as_str().unwrap().to_owned();
    let read = async |section: String| call(&ours, "get_section", json!({"section_id": section})).await;
    let (of_theirs, of_missing) = (read(section.clone()).await, read(section.replace(&foreign, &missing)).await);
    assert_eq!(reason(&of_theirs), "NOT_FOUND", "{of_theirs}");
    same(&of_theirs, &foreign, &of_missing, &missing);
    let links = async |id: &str| call(&ours, "list_document_links", json!({"document_id": id})).await;
    let (of_theirs, of_missing) = (links(&foreign).await, links(&missing).await);
    assert_eq!(reason(&of_theirs), "NOT_FOUND", "{of_theirs}");
    same(&of_theirs, &foreign, &of_missing, &missing);
    let collections = json!({"collection": {"name": "Theirs", "metadata": {"year": "2026"}}});
    them.call_ok("CreateCollection", collections).await;
    for (tool, member) in [("search_collections", "collections"), ("list_missing_links", "links")] {
        assert_eq!(call(&ours, tool, json!({})).await["structuredContent"][member], json!([]), "{tool}");
    }
    let found = call(&theirs, "search_collections", json!({"name": "their"})).await;
    assert_eq!(found["structuredContent"]["collections"][0]["name"], "Theirs", "{found}");
    server.stop().await;
}

#[tokio::test]
async fn the_links_of_a_document_and_missing_targets_are_listed() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let annex = client.ready_document("annex.txt", "Prices").await.document_id;
    let text = "See annex.txt and https://example.com/schedule.pdf for details.";
    let document = client.ready_document("contract.txt", text).await.document_id;
    for document in [&annex, &document] {
        client.call_ok("ResolveDocumentLinks", json!({"document_id": document})).await;
    }
    let all = call(&http, "list_document_links", json!({"document_id": document})).await;
    let links = all["structuredContent"]["links"].as_array().unwrap();
    let of = |status: &str| links.iter().find(|link| link["status"] == status).unwrap_or_else(|| panic!("{all}"));
    assert_eq!(of("matched")["documents"][0]["document_name"], "annex.txt");
    assert_eq!(of("missing")["target"], "https://example.com/schedule.pdf");
    let some = call(&http, "list_document_links", json!({"document_id": document, "status": "matched"})).await;
    assert_eq!(some["structuredContent"]["links"], json!([of("matched")]));
    let missing = call(&http, "list_missing_links", json!({})).await;
    let link = &missing["structuredContent"]["links"][0];
    assert_eq!((&link["target"], &link["document_ids"]), (&of("missing")["target"], &json!([document])), "{missing}");
    server.stop().await;
}

#[tokio::test]
async fn a_table_is_changed_with_the_tools_of_the_agent_of_its_stack() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let stack = json!({"stack": {"name": "Bills", "document_ids": [document]}});
    let stack = client.call_ok("CreateStack", stack).await["stack"]["stack_id"].clone();
    let columns = json!([{"name": "Total", "type": "number"}]);
    let waiting = call(&http, "define_columns", json!({"stack": stack, "columns": columns})).await;
    assert_eq!(waiting["structuredContent"]["status"], "waiting_for_approval", "{waiting}");
    let pending = call(&http, "get_table_state", json!({"stack": stack})).await;
    assert_eq!(reason(&pending), "TURN_PENDING", "{pending}");
    call(&http, "cancel_turn", json!({"turn_id": waiting["structuredContent"]["turn_id"]})).await;

    let columns = json!([{"name": "Total", "type": "STACK_COLUMN_TYPE_NUMBER"}]);
    client.call_ok("DefineStackColumns", json!({"stack_id": stack, "columns": columns})).await;
    let cells =
        json!([{"column": "Total", "value": 12.5, "confidence": 0.9, "citation": {"page": 1, "quote": "Total 12.50"}}]);
    let filled = call(&http, "extract_row", json!({"stack": stack, "document_id": document, "cells": cells})).await;
    assert_eq!(filled["structuredContent"]["result"], "Saved 1 cells", "{filled}");
    let state = call(&http, "get_table_state", json!({"stack": stack})).await;
    assert_eq!(state["structuredContent"]["rows"][0]["cells"]["Total"]["value"], 12.5, "{state}");
    let listed = call(&http, "list_documents", json!({"stack": stack})).await;
    assert_eq!(listed["structuredContent"]["total"], 1, "{listed}");
    assert_eq!(reason(&call(&http, "fill_stack", json!({"stack": stack})).await), "NO_EXTRACTION");
    let missing = call(&http, "extract_row", json!({"document": document, "cells": cells})).await;
    assert!(missing.to_string().contains("search_stacks"), "{missing}");
    server.stop().await;
}

#[tokio::test]
async fn malformed_messages_are_refused_and_change_nothing() {
    let server = Server::start().await;
    let http = Http::new(&server, &server.member().await);
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for (body, code) in [("{", -32_700), (deep.as_str(), -32_700), ("[]", -32_600), ("{\"jsonrpc\": \"1.0\"}", -32_600)]
    {
        let request = http.request(Method::POST, "/mcp").header("content-type", "application/json");
        let answer = http.send(request.body(body.to_owned())).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(code)), "{body}");
    }
    let request = http.request(Method::POST, "/mcp").header("content-type", "text/plain").body("{}");
    assert_eq!(http.send(request).await.json()["code"], "UNSUPPORTED_TYPE");
    let request = http.request(Method::POST, "/mcp").header("origin", "https://evil.example");
    assert_eq!(http.send(request.json(&json!({}))).await.status, StatusCode::FORBIDDEN);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(http.json(method, "/mcp", &Value::Null).await.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    let notification = post(&http, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!((notification.status, notification.text.as_str()), (StatusCode::ACCEPTED, ""));
    for (params, code) in [
        (json!({}), -32_602),
        (json!({"name": "list_tags", "arguments": []}), -32_602),
        (json!({"name": "list_tags", "_meta": {"request_id": ""}}), -32_602),
        (json!({"name": "list_tags", "requestState": "x"}), -32_602),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        assert_eq!(post(&http, &message).await.json()["error"]["code"], code, "{message}");
    }
    for (arguments, expected) in [(json!({}), "INVALID_FIELD"), (json!({"document": "../../etc"}), "INVALID_ID")] {
        let refused = call(&http, "list_tags", arguments).await;
        assert_eq!(reason(&refused), expected);
        let message = refused["structuredContent"]["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("document: ") && message.contains("search_documents"), "{message}");
    }
    let unknown = post(&http, &json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"})).await;
    assert_eq!(unknown.json()["error"]["code"], -32_601);
    let unknown_id = post(&http, &json!({"jsonrpc": "2.0", "id": "approval x", "result": {"action": "accept"}})).await;
    assert_eq!(unknown_id.status, StatusCode::BAD_REQUEST, "no request has this id");
    server.stop().await;
}

/// Returns the state of a call that waits.
async fn waiting(http: &Http, client: &Client, document: &str, request_id: &str) -> Value {
    let params = json!({
        "name": "create_tag",
        "arguments": {"document": document, "name": "made"},
        "_meta": {"request_id": request_id},
    });
    let waiting = ask(http, "tools/call", params).await;
    assert_eq!(waiting["structuredContent"]["status"], "waiting_for_approval", "{waiting}");
    assert!(client.call_ok("ListTags", json!({})).await["tags"][0].is_null(), "invariant 2");
    waiting["structuredContent"].clone()
}

#[tokio::test]
async fn a_waiting_call_is_approved_over_another_face_and_repeated_by_its_request_id() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let state = waiting(&http, &client, &document, "r-1").await;
    assert_eq!(waiting(&http, &client, &document, "r-1").await, state, "a repeated request joins its turn");
    let blocked = call(&http, "list_tags", json!({"document": document})).await;
    assert_eq!(reason(&blocked), "TURN_PENDING");
    let decision = json!({"call_id": state["call_id"], "arguments_digest": state["arguments_digest"], "approved": {}});
    client.call_ok("Approve", json!({"turn_id": state["turn_id"], "decisions": [decision]})).await;
    let done = call(&http, "get_turn", json!({"turn_id": state["turn_id"]})).await;
    assert!(done["structuredContent"]["tag_id"].is_string(), "{done}");
    let params = json!({
        "name": "create_tag",
        "arguments": {"document": document, "name": "made"},
        "_meta": {"request_id": "r-1"},
    });
    assert_eq!(ask(&http, "tools/call", params).await["structuredContent"], done["structuredContent"], "invariant 3");
    let other = json!({"name": "list_tags", "arguments": {"document": document}, "_meta": {"request_id": "r-1"}});
    assert_eq!(reason(&ask(&http, "tools/call", other).await), "REQUEST_ID_CONFLICT");
    assert_eq!(server.model.calls(), 0, "no model is called");
    server.stop().await;
}

#[tokio::test]
async fn a_stateless_client_decides_by_repeating_its_call_with_the_answer_of_its_user() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let arguments = json!({"document": document, "name": "made"});
    let asks = stateless(&http, "create_tag", json!({"arguments": arguments})).await;
    assert_eq!(asks["resultType"], "input_required", "{asks}");
    assert_eq!(asks["inputRequests"]["approval"]["method"], "elicitation/create");
    let answered = |answer: Value| {
        let responses = json!({"approval": answer});
        json!({"arguments": arguments, "requestState": asks["requestState"], "inputResponses": responses})
    };
    let other = stateless_error(&http, "delete_tag", answered(json!({"action": "decline"}))).await;
    assert_eq!(other["code"], -32_602, "the state belongs to another tool");
    let left = stateless(&http, "create_tag", answered(json!({"action": "cancel"}))).await;
    assert_eq!(left["structuredContent"]["status"], "waiting_for_approval");
    let accepted = json!({"action": "accept", "content": {"approve": true}});
    let done = stateless(&http, "create_tag", answered(accepted.clone())).await;
    assert!(done["structuredContent"]["tag_id"].is_string(), "{done}");
    assert_eq!(done["resultType"], "complete");
    let again = stateless(&http, "create_tag", answered(accepted)).await;
    assert_eq!(again["structuredContent"], done["structuredContent"], "invariant 7");

    // Another user of the organization cannot decide with the same state.
    let stranger = Http::new(&server, &server.user(&client.org, Role::Member).await);
    let foreign = stateless_error(&stranger, "create_tag", answered(json!({"action": "decline"}))).await;
    assert_eq!(foreign["data"]["reason"], "NOT_FOUND");
    server.stop().await;
}

/// Sends a request of a stateless client without a stream, and returns its error.
async fn stateless_error(http: &Http, tool: &str, mut params: Value) -> Value {
    params["name"] = tool.into();
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let request = http.request(Method::POST, "/mcp").header("mcp-protocol-version", "2026-07-28");
    let request = request.header("mcp-method", "tools/call").header("mcp-name", tool);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    http.send(request.json(&message)).await.json()["error"].clone()
}

#[tokio::test]
async fn invariant_2_a_rule_that_needs_another_approver_is_not_decided_by_the_caller() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.user(&org, Role::Admin).await;
    let rule = json!({"name": "two eyes", "tools": ["create_tag"], "ask": {"roles": ["ROLE_ADMIN"]}});
    admin.call_ok("SetPolicy", json!({"policy": {"rules": [rule]}})).await;
    let member = server.user(&org, Role::Member).await;
    let http = Http::new(&server, &member);
    let document = member.ready_document("a.txt", "Total 12.50").await.document_id;
    let arguments = json!({"document": document, "name": "made"});
    let waits = stateless(&http, "create_tag", json!({"arguments": arguments})).await;
    assert_eq!(
        waits["structuredContent"]["status"], "waiting_for_approval",
        "no question to a caller that may not decide"
    );
    assert_eq!(waits["structuredContent"]["rule"], "two eyes");
    server.stop().await;
}
