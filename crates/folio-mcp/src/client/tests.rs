//! Tests with a server on the loopback interface.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use folio_providers::{SecretsOptions, Vault};
use folio_resources::{McpOAuth, McpServerId};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_types::{OrgId, Secret, System, Timestamp, UserId};

use super::*;

const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The behaviour of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Handshake,
    Stateless,
    /// Answers calls as a stream of events.
    Stream,
    /// Answers calls with this status.
    Status(u16),
    /// Answers calls with more than the bound.
    Huge,
    /// Refuses every credential.
    Unauthorized,
}

struct Received {
    kind: Kind,
    requests: Mutex<Vec<(String, HeaderMap)>>,
}

impl Received {
    fn methods(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }

    fn header(&self, method: &str, name: &str) -> Option<String> {
        let requests = self.requests.lock().unwrap();
        let (_, headers) = requests.iter().find(|(found, _)| found == method)?;
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }
}

async fn receive(State(received): State<Arc<Received>>, headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let method = message["method"].as_str().unwrap().to_owned();
    received.requests.lock().unwrap().push((method.clone(), headers));
    let id = message["id"].clone();
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let json = |text: String| ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    match (method.as_str(), received.kind) {
        ("initialize", Kind::Stateless) => {
            let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } });
            (StatusCode::BAD_REQUEST, json(error.to_string())).into_response()
        }
        ("initialize", Kind::Unauthorized) => StatusCode::UNAUTHORIZED.into_response(),
        ("initialize", _) => {
            let answer = json(result(json!({ "protocolVersion": "2025-06-18", "capabilities": {} })));
            ([("mcp-session-id", "s1")], answer).into_response()
        }
        ("notifications/initialized", _) => StatusCode::ACCEPTED.into_response(),
        ("tools/list", _) => match message["params"]["cursor"].as_str() {
            None => json(result(json!({ "tools": [{ "name": "a", "inputSchema": {} }], "nextCursor": "2" }))),
            Some(_) => json(result(json!({ "tools": [{ "name": "b", "inputSchema": {} }] }))),
        },
        ("tools/call", Kind::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        ("tools/call", Kind::Huge) => json(result(json!({ "content": "x".repeat(2 * 1024 * 1024) }))),
        ("tools/call", Kind::Stream) => {
            let progress = r#"{"jsonrpc": "2.0", "method": "notifications/progress"}"#;
            let events =
                format!("data: {progress}\n\ndata: {}\n\n", result(json!({ "structuredContent": { "ok": 1 } })));
            ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
        }
        ("tools/call", _) => json(result(json!({ "structuredContent": message["params"]["arguments"] }))),
        (other, _) => panic!("{other}"),
    }
}

async fn start(kind: Kind) -> (Arc<Received>, SocketAddr) {
    let received = Arc::new(Received { kind, requests: Mutex::default() });
    let router = Router::new().route("/mcp", post(receive)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (received, address)
}

/// Returns a client, and a server of the organization with a token.
fn client(folder: &tempfile::TempDir, allowed: &[&str], address: SocketAddr) -> (McpClient, McpServer) {
    let stores = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap().stores();
    let secrets = SecretsOptions { master_keys: vec![Secret::new(MASTER_KEY)], ..SecretsOptions::default() };
    let table = folio_llm::Options::openai(Secret::new("sk"), Some("http://127.0.0.1:9/v1"), Some("model"));
    let allowed_networks = allowed.iter().map(|network| network.parse().unwrap()).collect();
    let options = folio_providers::Options { allowed_networks, ..folio_providers::Options::default() };
    let vault = Vault::new(&secrets).unwrap();
    let providers = Providers::new(table, &options, vault, &stores, Arc::new(System)).unwrap();
    let (org, id) = (OrgId::derive(&["a"]), McpServerId::derive(&["a"]));
    let token = providers.vault().seal(&org, id.as_str(), &Secret::new("secret")).unwrap();
    let server = McpServer {
        id,
        org,
        name: "tickets".to_owned(),
        url: format!("http://{address}/mcp"),
        token: Some(token),
        oauth: None,
        enabled: true,
        tools: std::collections::BTreeMap::new(),
        created_by: UserId::derive(&["a"]),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        version: 1,
    };
    (McpClient::new(providers).unwrap(), server)
}

async fn call(kind: Kind) -> (Arc<Received>, Result<McpReply, McpFailure>) {
    let (received, address) = start(kind).await;
    let folder = tempfile::tempdir().unwrap();
    let (client, server) = client(&folder, &["127.0.0.1"], address);
    let reply = client.call(&server, "find", &json!({ "id": 7 })).await;
    (received, reply)
}

#[tokio::test]
async fn a_server_with_a_handshake_receives_its_session_its_version_and_the_token() {
    let (received, reply) = call(Kind::Handshake).await;
    assert_eq!(reply, Ok(McpReply { content: json!({ "id": 7 }), is_error: false }));
    assert_eq!(received.methods(), ["initialize", "notifications/initialized", "tools/call"]);
    let header = |name: &str| received.header("tools/call", name);
    assert_eq!(header("authorization").as_deref(), Some("Bearer secret"));
    assert_eq!(header("mcp-session-id").as_deref(), Some("s1"));
    assert_eq!(header("mcp-protocol-version").as_deref(), Some("2025-06-18"));
}

#[tokio::test]
async fn a_stateless_server_receives_the_version_and_the_name_with_each_request() {
    let (received, reply) = call(Kind::Stateless).await;
    assert_eq!(reply.unwrap().content, json!({ "id": 7 }));
    let header = |name: &str| received.header("tools/call", name);
    assert_eq!(header("mcp-protocol-version").as_deref(), Some("2026-07-28"));
    assert_eq!((header("mcp-method").as_deref(), header("mcp-name").as_deref()), (Some("tools/call"), Some("find")));
}

#[tokio::test]
async fn a_reply_is_read_from_a_stream_of_events() {
    assert_eq!(call(Kind::Stream).await.1.unwrap().content, json!({ "ok": 1 }));
}

#[tokio::test]
async fn a_failed_call_states_whether_it_may_have_had_an_effect_and_is_sent_once() {
    for (kind, is_unknown) in
        [(Kind::Status(502), true), (Kind::Huge, true), (Kind::Status(404), false), (Kind::Status(307), false)]
    {
        let (received, reply) = call(kind).await;
        let failure = reply.unwrap_err();
        assert_eq!(matches!(failure, McpFailure::Unknown(_)), is_unknown, "{kind:?}: {failure:?}");
        assert_eq!(received.methods().iter().filter(|method| *method == "tools/call").count(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn the_pages_of_a_list_are_read() {
    let (_, address) = start(Kind::Handshake).await;
    let folder = tempfile::tempdir().unwrap();
    let (client, server) = client(&folder, &["127.0.0.1"], address);
    let tools = client.tools(&server).await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn a_server_at_an_address_that_is_not_permitted_receives_nothing() {
    let (received, address) = start(Kind::Handshake).await;
    let folder = tempfile::tempdir().unwrap();
    let (client, server) = client(&folder, &[], address);
    let named = McpServer { url: format!("http://localhost:{}/mcp", address.port()), ..server.clone() };
    for server in [server, named] {
        let failure = client.call(&server, "find", &json!({})).await.unwrap_err();
        assert!(matches!(failure, McpFailure::NotSent(_)), "{failure:?}");
    }
    assert!(received.methods().is_empty());
}

/// The credentials and the bodies that a token endpoint received, in order.
type Issued = Arc<Mutex<Vec<(String, String)>>>;

async fn issue(State(issued): State<Issued>, headers: HeaderMap, body: String) -> Response {
    let credential = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
    let mut issued = issued.lock().unwrap();
    issued.push((credential, body));
    let token = json!({ "access_token": format!("t{}", issued.len()), "token_type": "Bearer", "expires_in": 3_600 });
    ([(header::CONTENT_TYPE, "application/json")], token.to_string()).into_response()
}

/// Starts a server and a token endpoint. Returns a client, a server whose OAuth client uses this path of the endpoint, and what
/// both received.
async fn oauth(
    folder: &tempfile::TempDir,
    kind: Kind,
    token_url: &str,
) -> (McpClient, McpServer, Arc<Received>, Issued) {
    let issued = Issued::default();
    let router = Router::new().route("/token", post(issue)).with_state(Arc::clone(&issued));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token_url = token_url.replace("PORT", &listener.local_addr().unwrap().port().to_string());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (received, address) = start(kind).await;
    let (client, server) = client(folder, &["127.0.0.1"], address);
    let secret = client.providers.vault().seal(&server.org, server.id.as_str(), &Secret::new("s+/")).unwrap();
    let scopes = vec!["a".to_owned(), "b".to_owned()];
    let oauth = McpOAuth { token_url, client_id: "folio:1".to_owned(), secret, scopes };
    (client, McpServer { token: None, oauth: Some(oauth), ..server }, received, issued)
}

#[tokio::test]
async fn an_access_token_is_requested_once_and_sent_with_every_request() {
    let folder = tempfile::tempdir().unwrap();
    let (client, server, received, issued) = oauth(&folder, Kind::Handshake, "http://127.0.0.1:PORT/token").await;
    for _ in 0..2 {
        client.call(&server, "find", &json!({})).await.unwrap();
    }
    assert_eq!(received.header("initialize", "authorization").as_deref(), Some("Bearer t1"));
    assert_eq!(received.header("tools/call", "authorization").as_deref(), Some("Bearer t1"));
    let resource = server.url.replace(':', "%3A").replace('/', "%2F");
    let form = format!("grant_type=client_credentials&scope=a+b&resource={resource}");
    // The id and the secret are encoded: `folio%3A1:s%2B%2F`.
    assert_eq!(*issued.lock().unwrap(), [("Basic Zm9saW8lM0ExOnMlMkIlMkY=".to_owned(), form)]);
    // Another client of the server requests another token.
    let changed = server.oauth.clone().map(|oauth| McpOAuth { scopes: Vec::new(), ..oauth });
    client.call(&McpServer { oauth: changed, ..server }, "find", &json!({})).await.unwrap();
    assert_eq!(issued.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_refused_access_token_is_requested_again() {
    let folder = tempfile::tempdir().unwrap();
    let (client, server, received, issued) = oauth(&folder, Kind::Unauthorized, "http://127.0.0.1:PORT/token").await;
    for requested in [1, 2] {
        let failure = client.call(&server, "find", &json!({})).await.unwrap_err();
        assert!(matches!(failure, McpFailure::Refused(_)), "{failure:?}");
        assert_eq!(issued.lock().unwrap().len(), requested);
    }
    assert_eq!(received.methods(), ["initialize", "initialize"]);
}

#[tokio::test]
async fn a_server_receives_nothing_without_an_access_token() {
    // The last address is not permitted.
    for token_url in ["http://127.0.0.1:PORT/other", "http://127.0.0.1:1/token", "http://127.0.0.2:PORT/token"] {
        let folder = tempfile::tempdir().unwrap();
        let (client, server, received, issued) = oauth(&folder, Kind::Handshake, token_url).await;
        let failure = client.call(&server, "find", &json!({})).await.unwrap_err();
        assert!(matches!(failure, McpFailure::NotSent(_)), "{token_url}: {failure:?}");
        assert!(received.methods().is_empty() && issued.lock().unwrap().is_empty(), "{token_url}");
    }
}
