//! Tests of the change, the credentials and the tools of MCP servers.

use folio_types::op::Expected;

use super::*;
use crate::golden::{assert_golden, at, org, user};

fn text(description: &str) -> McpToolText {
    McpToolText { description: description.into(), input_schema: json!({"type": "object"}) }
}

fn mcp_server() -> McpServer {
    let disabled = AllowedMcpTool { disabled_at: Some(at()), ..AllowedMcpTool::new(true, text("Closes a ticket.")) };
    McpServer {
        id: McpServerId::derive(&["golden"]),
        org: org(),
        name: "tickets".into(),
        url: "https://example.com/mcp".into(),
        token: Some(SealedKey { master: "0011223344556677".into(), sealed: "c2VhbGVk".into() }),
        oauth: None,
        enabled: true,
        tools: BTreeMap::from([
            ("close".into(), disabled),
            ("create".into(), AllowedMcpTool::new(true, text("Creates a ticket."))),
            ("find".into(), AllowedMcpTool::new(false, text("Finds tickets."))),
        ]),
        created_by: user(),
        created_at: at(),
        updated_at: at(),
        version: 2,
    }
}

fn apply(before: &McpServer, change: McpServerChange) -> Result<Plan<McpServer>> {
    let (key, expected) = ("change".parse().unwrap(), Expected::Version(before.version));
    let write = Write::by_platform(org(), key, at(), expected, change);
    McpServer::apply(&before.id, &write, Some(before.clone()))
}

fn update() -> McpServerChange {
    McpServerChange::Update { name: None, url: None, token: None, oauth: None, enabled: None, tools: None }
}

#[test]
fn the_stored_format_is_that_of_the_golden_file() {
    assert_golden("live", mcp_server());
}

#[test]
fn another_url_removes_the_token_unless_the_update_sets_one() {
    let other = SealedKey { master: "m".into(), sealed: "o".into() };
    let moved = |token| {
        let McpServerChange::Update { name, oauth, enabled, tools, .. } = update() else { panic!("an update") };
        let url = Some("https://other.example/mcp".to_owned());
        let change = McpServerChange::Update { name, url, token, oauth, enabled, tools };
        apply(&mcp_server(), change).unwrap().after.unwrap().token
    };
    assert_eq!(moved(None), None);
    assert_eq!(moved(Some(Some(other.clone()))), Some(other));
    assert_eq!(apply(&mcp_server(), update()).unwrap().after, Some(mcp_server()), "nothing changes");
}

fn with_oauth() -> McpServer {
    let (token_url, scopes) = ("https://login.example/token".to_owned(), vec!["tickets".to_owned()]);
    let secret = SealedKey { master: "0011223344556677".into(), sealed: "b2F1dGg=".into() };
    let oauth = McpOAuth { token_url, client_id: "folio".to_owned(), secret, scopes };
    McpServer { token: None, oauth: Some(oauth), ..mcp_server() }
}

#[test]
fn the_stored_format_of_an_oauth_client_is_that_of_the_golden_file() {
    assert_golden("oauth", with_oauth());
}

#[test]
fn a_new_credential_replaces_one_of_the_other_kind_and_another_url_removes_it() {
    let other = SealedKey { master: "m".into(), sealed: "o".into() };
    let new = |secret| {
        let stored = with_oauth().oauth.unwrap();
        NewMcpOAuth { token_url: stored.token_url, client_id: "other".into(), secret, scopes: Vec::new() }
    };
    let access = |before: McpServer, url, token, oauth| {
        let mut server = before;
        server.set_access(url, token, oauth).unwrap();
        (server.token, server.oauth.map(|oauth| (oauth.client_id, oauth.secret)))
    };
    let kept = with_oauth().oauth.unwrap().secret;
    let (moved, client) =
        (Some("https://other.example/mcp"), |id: &str, secret: &SealedKey| Some((id.to_owned(), secret.clone())));
    assert_eq!(access(with_oauth(), None, None, None), (None, client("folio", &kept)));
    assert_eq!(access(with_oauth(), moved, None, None), (None, None));
    assert_eq!(access(with_oauth(), None, None, Some(None)), (None, None));
    assert_eq!(access(with_oauth(), None, Some(Some(other.clone())), None), (Some(other.clone()), None));
    assert_eq!(access(with_oauth(), None, Some(None), None), (None, client("folio", &kept)));
    assert_eq!(access(with_oauth(), moved, None, Some(Some(new(None)))), (None, client("other", &kept)));
    let set = Some(Some(new(Some(other.clone()))));
    assert_eq!(access(mcp_server(), None, None, set), (None, client("other", &other)));
    assert!(mcp_server().set_access(None, None, Some(Some(new(None)))).is_err(), "it has no stored secret");
}

#[test]
fn a_call_is_recorded_with_its_attempt_and_changes_nothing() {
    let call = |before: &McpServer, tool: &str| {
        apply(before, McpServerChange::Call { tool: tool.to_owned(), attempt: "a1".to_owned() })
    };
    let server = mcp_server();
    let plan = call(&server, "create").unwrap();
    assert_eq!(plan.after, Some(server.clone()));
    assert_eq!(plan.result, OpResult::Resource { id: server.id.to_string(), name: "a1".to_owned() });
    let disabled = McpServer { enabled: false, ..server.clone() };
    for (server, tool) in [(&server, "find"), (&server, "close"), (&server, "other"), (&disabled, "create")] {
        assert_eq!(call(server, tool).unwrap_err().reason, Reason::UnknownTool, "{tool}");
    }
}

#[test]
fn a_tool_is_disabled_once_and_enabled_when_it_is_allowed_again() {
    let disable = |before: &McpServer| {
        let tools = BTreeSet::from(["create".to_owned(), "unknown".to_owned()]);
        apply(before, McpServerChange::Disable { tools }).unwrap().after.unwrap()
    };
    let disabled = disable(&mcp_server());
    assert_eq!((disabled.version, disabled.callable("create")), (3, None));
    assert!(disabled.callable("find").is_some());
    assert_eq!(disable(&disabled), disabled);
    let mut tools = disabled.tools.clone();
    tools.insert("create".into(), AllowedMcpTool::new(true, text("Creates a ticket or two.")));
    let McpServerChange::Update { name, url, token, oauth, enabled, .. } = update() else { panic!("an update") };
    let allow = McpServerChange::Update { name, url, token, oauth, enabled, tools: Some(tools) };
    let allowed = apply(&disabled, allow);
    assert!(allowed.unwrap().after.unwrap().callable("create").is_some());
}

#[test]
fn the_digest_of_a_text_depends_on_its_content_only() {
    let with = |schema: &str| McpToolText { input_schema: serde_json::from_str(schema).unwrap(), ..text("a") };
    assert_eq!(with(r#"{"a": 1, "b": 2}"#).digest(), with(r#"{"b": 2, "a": 1}"#).digest());
    assert_ne!(with(r#"{"a": 1}"#).digest(), with(r#"{"a": 2}"#).digest());
    assert_ne!(text("a").digest(), text("b").digest());
}

#[test]
fn the_fields_of_a_server_and_the_texts_of_its_tools_are_bounded() {
    let name = |name: &str| check_server_name("f", name).is_ok();
    assert!(name("Jira_2-a") && name(&"a".repeat(NAME_CHARS)));
    assert!(!name("") && !name("a b") && !name("ä") && !name(&"a".repeat(NAME_CHARS + 1)));
    let url = |chars: usize| check_server_url("f", &"a".repeat(chars)).is_ok();
    assert_eq!((url(URL_CHARS), url(URL_CHARS + 1)), (true, false));
    let token = |text: &str| check_server_token("f", &Secret::new(text)).is_ok();
    assert!(token("") && token(&"a".repeat(TOKEN_CHARS)));
    assert!(!token(&"a".repeat(TOKEN_CHARS + 1)) && !token("a b") && !token("ä") && !token("a\r\nb"));
    let tools = |count: usize, name: &str, text: &McpToolText| {
        let tool = |number: usize| (format!("{name}{number}"), AllowedMcpTool::new(true, text.clone()));
        check_allowed_tools("f", &(0..count).map(tool).collect()).is_ok()
    };
    let long = |bytes: usize| text(&"a".repeat(bytes));
    assert!(tools(ALLOWED_TOOLS_MAX, "t", &text("a")) && !tools(ALLOWED_TOOLS_MAX + 1, "t", &text("a")));
    assert!(tools(1, "t", &long(DESCRIPTION_BYTES)) && !tools(1, "t", &long(DESCRIPTION_BYTES + 1)));
    assert!(!tools(ALLOWED_TOOLS_MAX, "t", &long(DESCRIPTION_BYTES)), "together");
    assert!(!tools(1, "a b", &text("a")) && !tools(1, &"a".repeat(TOOL_NAME_CHARS), &text("a")));
    let schema = |schema: Value| McpToolText { input_schema: schema, ..text("a") };
    let huge = json!({ "description": "a".repeat(INPUT_SCHEMA_BYTES) });
    assert!(!tools(1, "t", &schema(json!([]))) && !tools(1, "t", &schema(huge)));
}

#[test]
fn a_server_is_found_by_a_part_of_its_name_and_deleted_once() {
    let server = mcp_server();
    assert_eq!((server.unique_name(), server.label()), (Some("tickets"), "tickets"));
    for (search, expected) in [(None, true), (Some("TICK"), true), (Some("other"), false)] {
        let filter = McpServerFilter { name_search: search.map(str::to_owned) };
        assert_eq!(server.list_row().matches(&McpServer::conditions(&filter)), expected, "{search:?}");
    }
    let plan = apply(&server, McpServer::DELETE).unwrap();
    assert_eq!(plan, Plan { after: None, result: OpResult::Deleted });
}
