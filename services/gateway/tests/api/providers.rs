//! Endpoints of providers: one that does not answer, and repeated discoveries.

use std::time::Duration;

use folio_types::{OrgId, Reason, Role, System};
use serde_json::{Value, json};

use crate::harness::{Server, model_list};

/// Returns a request to set a provider of the platform.
fn platform_provider(url: &str) -> Value {
    let models = json!([{"name": "own", "enabled": true, "chat": true, "prompts": true}]);
    let provider = json!({"name": "mine", "base_url": url, "api_key": "sk-own", "models": models});
    json!({"provider": provider, "owner": "PROVIDER_OWNER_PLATFORM"})
}

#[tokio::test]
async fn an_unresponsive_endpoint_blocks_no_change() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    // The endpoint accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    platform.call_ok("UpdateProvider", platform_provider(&url)).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = platform.clone();
        let discover = json!({"name": "mine", "owner": "PROVIDER_OWNER_PLATFORM"});
        calls.spawn(async move { client.refusal("DiscoverModels", discover).await });
    }
    for _ in 0..18 {
        let refusal = tokio::time::timeout(Duration::from_secs(30), calls.join_next()).await;
        let refusal = refusal.expect("two calls wait for the endpoint, the others are refused immediately");
        assert_eq!(refusal.unwrap().unwrap().reason, Reason::Overloaded, "above the limit of an organization");
    }
    for client in [&platform, &them] {
        let made = client.call_ok("CreateToken", json!({"token": {"name": "x", "role": "ROLE_VIEWER"}})).await;
        client.call_ok("RevokeToken", json!({"token_id": made["token"]["token_id"]})).await;
    }
    assert_eq!(calls.len(), 2, "the two calls still wait");
    drop(silent);
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_discovery_calls_no_endpoint() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let (endpoint, url) = model_list().await;
    platform.call_ok("UpdateProvider", platform_provider(&url)).await;
    let discover = |name: &str| json!({"name": name, "owner": "PROVIDER_OWNER_PLATFORM", "request_id": "discover"});
    let first = platform.call_ok("DiscoverModels", discover("mine")).await;
    assert_eq!(first["provider"]["available_models"], json!(["listed"]));
    endpoint.abort();
    assert_eq!(platform.call_ok("DiscoverModels", discover("mine")).await, first);
    let error = platform.refusal("DiscoverModels", discover("openai")).await;
    assert_eq!(error.reason, Reason::RequestIdConflict, "other content");
    server.stop().await;
}
