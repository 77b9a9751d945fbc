//! Repeated administrative requests: one effect, one answer, one pair of audit entries.

use folio_types::{OrgId, Reason, System};
use serde_json::{Value, json};

use crate::harness::Server;

fn provider(url: &str) -> Value {
    let models = json!([{"name": "own", "enabled": true, "chat": true, "prompts": true}]);
    json!({"provider": {"name": "mine", "base_url": url, "api_key": "sk-own", "models": models}})
}

#[tokio::test]
async fn a_repeated_discovery_calls_no_endpoint() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let (endpoint, url) = crate::harness::model_list().await;
    let mut set = provider(&url);
    set["owner"] = "PROVIDER_OWNER_PLATFORM".into();
    platform.done("UpdateProvider", set).await;
    let discover = |name: &str| json!({"name": name, "owner": "PROVIDER_OWNER_PLATFORM", "request_id": "discover"});
    let first = platform.done("DiscoverModels", discover("mine")).await;
    assert_eq!(first["provider"]["available_models"], json!(["listed"]));
    endpoint.abort();
    assert_eq!(platform.done("DiscoverModels", discover("mine")).await, first);
    let error = platform.refusal("DiscoverModels", discover("openai")).await;
    assert_eq!(error.reason, Reason::RequestIdConflict, "other content");
    server.stop().await;
}
