//! Repeated administrative requests: one effect, one answer, one pair of audit entries.

use folio_types::{OrgId, Reason, Role, System, TokenId};
use serde_json::{Value, json};

use crate::harness::{Client, MODEL, Server};

async fn audit_entries(client: &Client) -> usize {
    let log = client.done("ListAuditEntries", json!({"page_size": 500})).await;
    log["entries"].as_array().map_or(0, Vec::len)
}

/// Sends a request, then repeats it, then sends other content under the same id. Returns both answers.
async fn repeat(client: &Client, operation: &str, [mut request, mut other]: [Value; 2]) -> [Value; 2] {
    (request["request_id"], other["request_id"]) = (operation.into(), operation.into());
    let first = client.done(operation, request.clone()).await;
    let entries = audit_entries(client).await;
    let again = client.done(operation, request).await;
    let error = client.refusal(operation, other).await;
    assert_eq!(error.reason, Reason::RequestIdConflict, "{operation}: {error}");
    assert_eq!(audit_entries(client).await, entries, "{operation}: a repetition is not recorded");
    [first, again]
}

async fn repeat_all<const N: usize>(client: &Client, requests: [(&str, [Value; 2]); N]) {
    for (operation, requests) in requests {
        let [first, again] = repeat(client, operation, requests).await;
        assert_eq!(first, again, "{operation}: the same answer");
    }
}

fn provider(url: &str) -> Value {
    let models = json!([{"name": "own", "enabled": true, "chat": true, "prompts": true}]);
    json!({"provider": {"name": "mine", "base_url": url, "api_key": "sk-own", "models": models}})
}

fn organization(name: &str) -> Value {
    json!({"organization": {"name": name}})
}

#[tokio::test]
async fn a_repeated_change_has_one_effect_one_answer_and_one_record() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let member = |name: &str| json!({"member": {"name": name, "role": "ROLE_MEMBER"}});
    let ann = admin.done("AddMember", member("ann")).await["member"]["user_id"].take();
    let bob = admin.done("AddMember", member("bob")).await["member"]["user_id"].take();
    let viewer = server.user(&org, Role::Viewer).await;
    let mut listed = admin.done("ListTokens", json!({"filter": format!("user:{}", viewer.user)})).await;
    let tokens = [listed["tokens"][0]["token_id"].take(), json!(TokenId::derive(&["unknown"]).as_str())];
    let renamed = |id: &Value| json!({"member": {"user_id": id, "name": "anna"}, "update_mask": "name"});
    let removed = |id: &Value| json!({"user_id": id});
    let limits = |calls: u32| json!({"organization_id": org.to_string(), "own": {"concurrent_model_calls": calls}});
    let defaults = |name: &str| json!({"default_model": name});
    let changes = [
        ("UpdateOrganization", ["renamed", "another"].map(organization)),
        ("AddMember", ["cid", "dan"].map(member)),
        ("UpdateMember", [&ann, &bob].map(renamed)),
        ("RemoveMember", [&ann, &bob].map(removed)),
        ("RevokeToken", tokens.map(|id| json!({"token_id": id}))),
        ("SetPolicy", [60, 61].map(|seconds| json!({"policy": {"approval_ttl_seconds": seconds}}))),
        ("SetLimits", [7, 8].map(limits)),
        ("UpdateProvider", ["https://one.example/v1", "https://two.example/v1"].map(provider)),
        ("SetModelDefaults", ["own", "hub-model"].map(defaults)),
        ("GrantCredit", [5, 6].map(|credits| json!({"credits": credits}))),
        ("WithdrawCredit", [2, 3].map(|credits| json!({"credits": credits}))),
    ];
    repeat_all(&admin, changes).await;
    admin.done("SetModelDefaults", defaults("")).await;
    repeat_all(&admin, [("DeleteProvider", ["mine", "openai"].map(|name| json!({"name": name})))]).await;
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_request_undoes_no_later_change() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let first = json!({"organization": {"name": "one"}, "request_id": "first"});
    let answer = admin.done("UpdateOrganization", first.clone()).await;
    admin.done("UpdateOrganization", organization("two")).await;
    assert_eq!(admin.done("UpdateOrganization", first).await, answer, "the answer of the first request");
    assert_eq!(admin.done("GetOrganization", json!({})).await["organization"]["name"], "two");
    server.stop().await;
}

#[tokio::test]
async fn a_secret_is_in_the_first_answer_only() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let token = |name: &str| json!({"token": {"name": name, "role": "ROLE_VIEWER"}});
    let create = |name: &str| json!({"organization": {"name": name}, "admin_name": "ada"});
    let mut id = Value::Null;
    for (operation, requests, secret) in [
        ("CreateToken", ["job", "other"].map(token), "secret"),
        ("CreateOrganization", ["Acme", "Other"].map(create), "admin_token"),
    ] {
        let [mut first, again] = repeat(&platform, operation, requests).await;
        let secret = first.as_object_mut().unwrap().remove(secret).unwrap();
        assert!(!secret.as_str().unwrap().is_empty());
        assert_eq!(first, again, "{operation}: the answer without its secret");
        id = first["organization"]["organization_id"].take();
    }
    let entries = audit_entries(&platform).await;
    let delete = |name: &str| json!({"organization_id": id, "name": name});
    repeat_all(&platform, [("DeleteOrganization", ["Acme", "Other"].map(delete))]).await;
    assert_eq!(audit_entries(&platform).await, entries + 2, "one pair for the deletion");
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_test_calls_no_model() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    server.model.answer("ready");
    let test = |model: &str| json!({"name": "test", "model": model});
    repeat_all(&admin, [("TestProvider", [MODEL, ""].map(test))]).await;
    assert_eq!(server.model.calls(), 1);
    server.stop().await;
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

#[tokio::test]
async fn invariant_6_request_ids_of_administrators_never_collide() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), Role::Admin).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    for (client, name) in [(&us, "ours"), (&them, "theirs")] {
        let renamed =
            client.done("UpdateOrganization", json!({"organization": {"name": name}, "request_id": "same"})).await;
        assert_eq!(renamed["organization"]["name"], name);
    }
    // Another operation under the id is another request.
    let policy = json!({"policy": {"approval_ttl_seconds": 60}, "request_id": "same"});
    assert_eq!(us.refusal("SetPolicy", policy).await.reason, Reason::RequestIdConflict);
    server.stop().await;
}
