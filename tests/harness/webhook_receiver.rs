//! A receiver of webhooks, which accepts every request.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;

/// The received requests.
pub type Received = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

async fn receive(State(received): State<Received>, headers: HeaderMap, body: Bytes) {
    received.lock().expect("no holder panicked").push((headers, body));
}

/// Starts a receiver, which lives as long as the runtime. Returns its requests and its URL.
pub async fn receiver() -> (Received, String) {
    let received = Received::default();
    let router = Router::new().route("/hook", post(receive)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (received, url)
}
