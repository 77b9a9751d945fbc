//! The routes of schemas.

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Client, Server};

/// A response format that is not strict: a property is optional, and others are permitted.
fn format(property: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { property: { "type": "number" }, "note": { "type": "string" } } });
    json!({ "type": "json_schema", "json_schema": { "name": "invoice", "schema": schema, "strict": false } })
}

async fn start() -> (Server, Client, Http, String) {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, schemas) = (Http::new(&server, &client), format!("/v0/orgs/{}/schemas", client.org));
    (server, client, http, schemas)
}

#[tokio::test]
async fn a_schema_has_versions_and_one_name() {
    let (server, client, http, schemas) = start().await;
    let created =
        http.json(Method::POST, &schemas, &json!({ "name": "Invoice", "response_format": format("a") })).await;
    let first = created.json();
    assert_eq!((created.status.as_u16(), &first["schema_version"]), (200, &json!(1)), "{first}");
    assert_eq!((&first["response_format"], &first["created_by"]), (&format("a"), &json!(client.user.to_string())));
    let id = first["schema_id"].as_str().unwrap();
    let again = http.json(Method::POST, &schemas, &json!({ "name": "invoice", "response_format": format("b") })).await;
    let second = again.json();
    assert_eq!((&second["schema_id"], &second["schema_version"]), (&first["schema_id"], &json!(2)));

    let renamed = http.json(Method::PUT, &format!("{schemas}/{id}"), &json!({ "name": "Bill" })).await.json();
    assert_eq!((&renamed["name"], &renamed["schema_revid"]), (&json!("Bill"), &second["schema_revid"]));
    let unchanged =
        http.json(Method::PUT, &format!("{schemas}/{id}"), &json!({ "response_format": format("b") })).await;
    assert_eq!(unchanged.json()["schema_version"], 2);
    let empty = http.json(Method::PUT, &format!("{schemas}/{id}"), &json!({})).await;
    let text = "At least one field (name or response_format) must be provided";
    assert_eq!((empty.status.as_u16(), empty.detail()), (422, json!(text)));

    let old = http.get(&format!("{schemas}/{}", first["schema_revid"].as_str().unwrap())).await.json();
    assert_eq!((&old["name"], &old["response_format"]), (&json!("Bill"), &format("a")));
    let of_schema = http.get(&format!("{schemas}/{id}")).await;
    assert_eq!((of_schema.status.as_u16(), of_schema.detail()), (404, json!("Schema not found")));
    let versions = http.get(&format!("{schemas}/{id}/versions")).await.json();
    let numbers: Vec<&Value> =
        versions["schemas"].as_array().unwrap().iter().map(|one| &one["schema_version"]).collect();
    assert_eq!(
        (numbers, &versions["total_count"], &versions["skip"]),
        (vec![&json!(2), &json!(1)], &json!(2), &json!(0))
    );
    let listed = http.get(&format!("{schemas}?name_search=bill")).await.json();
    assert_eq!((&listed["schemas"], &listed["total_count"]), (&json!([renamed]), &json!(1)));

    let deleted = http.json(Method::DELETE, &format!("{schemas}/{id}"), &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Schema deleted successfully" }));
    let missing = http.json(Method::DELETE, &format!("{schemas}/{id}"), &Value::Null).await;
    let text = "Schema not found or not in this organization";
    assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!(text)));
    assert_eq!(http.get(&format!("{schemas}/{}", first["schema_revid"].as_str().unwrap())).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_malformed_schema_is_refused_by_its_member_and_a_used_one_names_its_prompts() {
    let (server, client, http, schemas) = start().await;
    let mut bad = format("a");
    bad["json_schema"].as_object_mut().unwrap().remove("name");
    let refused = http.json(Method::POST, &schemas, &json!({ "name": "a", "response_format": bad })).await;
    assert_eq!(refused.status, 422);
    let location = refused.detail()[0]["loc"].clone();
    assert_eq!((&location[0], &location[1]), (&json!("body"), &json!("response_format")), "{location}");
    let schema = client.schema("Invoice", "total").await;
    client.prompt("Total", &schema).await;
    let used = http.json(Method::DELETE, &format!("{schemas}/{schema}"), &Value::Null).await;
    let text = r#"Cannot delete schema because it has dependent prompts:[{"name":"Total","schema_version":1}]"#;
    assert_eq!((used.status.as_u16(), used.detail()), (400, json!(text)));
    server.stop().await;
}

#[tokio::test]
async fn data_is_checked_against_a_version() {
    let (server, client, http, schemas) = start().await;
    let revision = format!("{}.1", client.schema("Invoice", "total").await);
    let validate = format!("{schemas}/{revision}/validate");
    let valid = http.json(Method::POST, &validate, &json!({ "data": { "total": 1 } })).await;
    assert_eq!((valid.status.as_u16(), valid.json()), (200, json!({ "valid": true })));
    let invalid = http.json(Method::POST, &validate, &json!({ "data": { "total": "x" } })).await;
    assert_eq!((invalid.status.as_u16(), &invalid.json()["valid"]), (200, &json!(false)));
    assert_eq!(invalid.json()["errors"][0]["path"], "total");
    let empty = http.json(Method::POST, &validate, &json!({})).await;
    assert_eq!((empty.status.as_u16(), empty.detail()), (400, json!("Request must include 'data' field")));
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_a_revision_of_another_organization_is_missing() {
    let (server, _, http, schemas) = start().await;
    let them = server.member().await;
    let foreign = format!("{}.1", them.schema("Invoice", "total").await);
    let validate = json!({ "data": {} });
    for answer in [
        http.get(&format!("{schemas}/{foreign}")).await,
        http.json(Method::POST, &format!("{schemas}/{foreign}/validate"), &validate).await,
    ] {
        assert_eq!((answer.status.as_u16(), answer.detail()), (404, json!("Schema not found")));
    }
    server.stop().await;
}
