//! A double of an MCP server with the tool `create`, which records its calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub struct McpServerDouble {
    calls: Mutex<Vec<Value>>,
    is_silent: AtomicBool,
}

impl McpServerDouble {
    /// Starts a server, which lives as long as the runtime. Returns it and its URL.
    pub async fn start() -> (Arc<Self>, String) {
        let server = Arc::new(Self::default());
        let router = Router::new().route("/mcp", post(respond)).with_state(Arc::clone(&server));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, url)
    }

    /// Returns the parameters of the received calls of tools, in order.
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().expect("no holder panicked").clone()
    }

    /// Leaves later calls of tools without a reply.
    pub fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    async fn result(&self, message: &Value) -> Value {
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "double", "version": "1" },
            }),
            "tools/list" => {
                let schema = json!({ "type": "object" });
                json!({ "tools": [{ "name": "create", "description": "Creates a ticket.", "inputSchema": schema }] })
            }
            "tools/call" => {
                self.calls.lock().expect("no holder panicked").push(message["params"].clone());
                if self.is_silent.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                json!({ "content": [{ "type": "text", "text": "created" }] })
            }
            other => panic!("unexpected request {other:?}"),
        }
    }
}

async fn respond(State(server): State<Arc<McpServerDouble>>, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).expect("a JSON message");
    if message["id"].is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": server.result(&message).await });
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
