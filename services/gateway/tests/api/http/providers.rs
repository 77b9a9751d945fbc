//! The routes of the platform's model providers.

use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Server, model_list};

const PROVIDERS: &str = "/v0/account/llm/providers";

/// Returns a provider of the list.
async fn listed(http: &Http, name: &str) -> Value {
    let list = http.get(PROVIDERS).await;
    assert_eq!(list.status, 200, "{list:?}");
    let providers = list.json()["providers"].as_array().unwrap().clone();
    providers.into_iter().find(|provider| provider["name"] == name).unwrap_or_else(|| panic!("{name}: {list:?}"))
}

#[tokio::test]
async fn a_platform_administrator_changes_the_providers_of_all_organizations() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let platform = server.platform_admin(&org).await;
    let http = Http::new(&server, &platform);
    // The settings file of the server has the provider `openai`, with a key and one model.
    let hub = listed(&http, "openai").await;
    assert_eq!(hub["litellm_models_enabled"], json!(["hub-model"]), "{hub}");
    assert_eq!((&hub["token"], &hub["token_created_at"]), (&Value::Null, &json!("1970-01-01T00:00:00Z")));

    let (endpoint, url) = model_list().await;
    let models = json!([{ "name": "own", "enabled": true, "chat": true, "prompts": true }]);
    let provider = json!({ "name": "mine", "base_url": url, "models": models });
    let owner = "PROVIDER_OWNER_PLATFORM";
    platform.call_ok("UpdateProvider", json!({ "provider": provider, "owner": owner })).await;
    platform.call_ok("DiscoverModels", json!({ "name": "mine", "owner": owner })).await;
    let mine = listed(&http, "mine").await;
    assert_eq!(mine["litellm_models_available"], json!(["listed", "own"]), "{mine}");
    assert_eq!((&mine["litellm_models_enabled"], &mine["token_created_at"]), (&json!(["own"]), &Value::Null));

    let set = async |name: &str, body: Value| {
        let answer = http.json(Method::PUT, &format!("/v0/account/llm/provider/{name}"), &body).await;
        (answer.status.as_u16(), answer.json())
    };
    let body = json!({
        "litellm_models_enabled": ["listed", "own"], "litellm_models_chat_agent": ["listed"], "token": "sk-very-SECRET",
    });
    let done = (200, json!({ "message": "LLM provider config updated successfully" }));
    assert_eq!(set("mine", body.clone()).await, done);
    let changed = listed(&http, "mine").await;
    assert_eq!(changed["litellm_models_enabled"], json!(["listed", "own"]), "{changed}");
    assert_eq!(changed["litellm_models_chat_agent"], json!(["listed"]), "{changed}");
    assert_eq!(changed["token"], Value::Null);
    let stored_at = changed["token_created_at"].as_str().unwrap();
    assert!(stored_at > "2026" && stored_at.ends_with('Z'), "{changed}");
    let of_others = server.user(&OrgId::generate(&System), Role::Admin).await;
    let list = of_others.call_ok("ListProviders", json!({})).await;
    assert_eq!(list["effective_providers"], Value::Null, "the URL of the platform is its own: {list}");

    // Null changes nothing, and an empty token deletes the key.
    let nothing = json!({ "litellm_models_enabled": null, "token": null });
    assert_eq!(set("mine", nothing).await, done);
    assert_eq!(listed(&http, "mine").await, changed);
    assert_eq!(set("mine", json!({ "token": "", "enabled": false })).await, done);
    let disabled = listed(&http, "mine").await;
    assert_eq!((&disabled["token_created_at"], &disabled["enabled"]), (&Value::Null, &json!(false)));

    for (name, body, detail) in [
        ("none", json!({}), "Provider 'none' not found"),
        ("mine", json!({ "litellm_models_enabled": ["x"] }), "Model 'x' is not available for provider 'mine'"),
        ("mine", json!({ "litellm_models_chat_agent": ["x"] }), "Model 'x' is not available for provider 'mine'"),
    ] {
        let (status, answer) = set(name, body).await;
        assert_eq!((status, &answer["detail"]), (400, &json!(detail)));
    }
    assert_eq!(set("mine", json!({ "enabled": "yes" })).await.0, 422);
    assert_eq!(set("mine", json!({ "token": "a b SECRET" })).await.0, 422);
    endpoint.abort();
    server.stop().await;
}

#[tokio::test]
async fn the_providers_of_the_platform_need_its_administrator_and_no_organization() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = Http::new(&server, &server.user(&org, Role::Admin).await);
    let account = server.session(&server.account("root", true).await, None).await;
    let other = server.session(&server.account("ann", false).await, None).await;
    let refused = json!("Admin access required");
    for http in [&admin, &Http::new(&server, &other)] {
        let answer = http.get(PROVIDERS).await;
        assert_eq!(answer.status, 403, "{answer:?}");
        let answer = http.json(Method::PUT, "/v0/account/llm/provider/openai", &json!({ "enabled": false })).await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    assert_eq!(admin.get(PROVIDERS).await.detail(), refused);
    let http = Http::new(&server, &account);
    let answer = http.json(Method::PUT, "/v0/account/llm/provider/openai", &json!({ "enabled": false })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(listed(&http, "openai").await["enabled"], false);
    // The providers of an organization need one.
    let error = account.refusal("ListProviders", json!({})).await;
    assert_eq!(error.violations[0].field, "owner");
    server.stop().await;
}
