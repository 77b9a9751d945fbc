//! The routes of tags.

use http::Method;
use serde_json::{Value, json};

use super::{Http, encoded};
use crate::harness::Server;

#[tokio::test]
async fn a_tag_is_created_changed_and_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, tags) = (Http::new(&server, &client), format!("/v0/orgs/{}/tags", client.org));
    let created = http.json(Method::POST, &tags, &json!({ "name": "Invoices", "color": "#AABBCC" })).await;
    let tag = created.json();
    assert_eq!((created.status.as_u16(), tag["color"].as_str()), (200, Some("#AABBCC")), "{tag}");
    assert_eq!(
        (&tag["description"], tag["created_by"].as_str()),
        (&Value::Null, Some(client.user.to_string().as_str()))
    );
    assert!(tag["created_at"].as_str().unwrap().ends_with('Z') && tag["updated_at"] == tag["created_at"], "{tag}");
    let one = format!("{tags}/{}", tag["id"].as_str().unwrap());
    assert_eq!(http.get(&one).await.json(), tag);

    let changed = http.json(Method::PUT, &one, &json!({ "name": "Bills", "description": "all", "color": null })).await;
    let changed = changed.json();
    assert_eq!(
        (&changed["name"], &changed["color"], &changed["description"]),
        (&json!("Bills"), &json!("#AABBCC"), &json!("all"))
    );
    let cleared = http.json(Method::PUT, &one, &json!({ "name": "Bills" })).await.json();
    assert_eq!((&cleared["color"], &cleared["description"]), (&json!("#AABBCC"), &Value::Null));

    let deleted = http.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Tag deleted successfully" }));
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let body = if method == Method::PUT { json!({ "name": "x" }) } else { Value::Null };
        let missing = http.json(method, &one, &body).await;
        assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("Tag not found")));
    }
    let malformed = http.get(&format!("{tags}/..%2F..%2Fschemas")).await;
    assert_eq!((malformed.status.as_u16(), malformed.detail()), (404, json!("Tag not found")));
    server.stop().await;
}

#[tokio::test]
async fn a_tag_in_use_and_a_taken_name_are_refused_with_their_texts() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, tags) = (Http::new(&server, &client), format!("/v0/orgs/{}/tags", client.org));
    let tag = http.json(Method::POST, &tags, &json!({ "name": "a" })).await.json();
    assert_eq!(tag["color"], "#3B82F6");
    let taken = http.json(Method::POST, &tags, &json!({ "name": "a" })).await;
    assert_eq!((taken.status.as_u16(), taken.detail()), (400, json!("Tag with name 'a' already exists")));
    let document = client.ready_document("a.txt", "x").await.document_id;
    let id = tag["id"].as_str().unwrap();
    client.call_ok("UpdateDocument", json!({"document": {"document_id": document, "tag_ids": [id]}})).await;
    let used = http.json(Method::DELETE, &format!("{tags}/{id}"), &Value::Null).await;
    let text = "Cannot delete tag 'a' because it is assigned to one or more documents";
    assert_eq!((used.status.as_u16(), used.detail()), (400, json!(text)));
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_paged_searched_sorted_and_filtered() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, tags) = (Http::new(&server, &client), format!("/v0/orgs/{}/tags", client.org));
    for name in ["my invoice", "Invoice", "Invoice 2", "Order"] {
        client.tag(name).await;
    }
    let names = async |query: &[(&str, &str)]| {
        let answer = http.get(&format!("{tags}?{}", encoded(query))).await.json();
        let names = answer["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), answer["total_count"].as_u64().unwrap(), answer["skip"].as_u64().unwrap())
    };
    let all = ["Order", "Invoice 2", "Invoice", "my invoice"].map(str::to_owned).to_vec();
    assert_eq!(names(&[]).await, (all.clone(), 4, 0));
    assert_eq!(names(&[("skip", "1"), ("limit", "2")]).await, (all[1..3].to_vec(), 4, 1));
    let ranked = ["Invoice", "Invoice 2", "my invoice"].map(str::to_owned).to_vec();
    assert_eq!(names(&[("name_search", "invoice")]).await, (ranked, 3, 0));
    let by_name = r#"[{"field": "name", "sort": "asc"}]"#;
    assert_eq!(names(&[("sort", by_name), ("limit", "1")]).await, (vec!["Invoice".to_owned()], 4, 0));
    let filter = r#"{"items": [{"field": "name", "operator": "startsWith", "value": "o"}]}"#;
    assert_eq!(names(&[("filters", filter)]).await, (vec!["Order".to_owned()], 1, 0));
    for (query, detail) in [("sort=x", "Invalid sort JSON"), ("filters=x", "Invalid filters JSON")] {
        let refused = http.get(&format!("{tags}?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.detail()), (400, json!(detail)));
    }
    let refused = http.get(&format!("{tags}?limit=101")).await;
    assert_eq!((refused.status.as_u16(), &refused.detail()[0]["loc"]), (422, &json!(["query", "limit"])));
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_change_is_made_once_and_a_version_is_checked() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, tags) = (Http::new(&server, &client), format!("/v0/orgs/{}/tags", client.org));
    let create = async |key: &str, name: &str| {
        let request = http.request(Method::POST, &tags).header("idempotency-key", key).json(&json!({ "name": name }));
        http.send(request).await
    };
    let (first, again) = (create("k", "a").await, create("k", "a").await);
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(create("k", "b").await.json()["code"], "REQUEST_ID_CONFLICT");
    assert_eq!(create("a b", "c").await.status, 422);

    let one = format!("{tags}/{}", first.json()["id"].as_str().unwrap());
    let etag = http.get(&one).await.header("etag").to_owned();
    assert!(etag.starts_with("\"v"), "{etag}");
    let update = async |etag: &str, name: &str| {
        let request = http.request(Method::PUT, &one).header("if-match", etag).json(&json!({ "name": name }));
        http.send(request).await
    };
    let changed = update(&etag, "b").await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
    let stale = update(&etag, "c").await;
    assert_eq!((stale.status.as_u16(), &stale.json()["code"]), (412, &json!("VERSION_CONFLICT")));
    let current = changed.header("etag").to_owned();
    let unchanged = http.send(http.request(Method::GET, &one).header("if-none-match", &current)).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.text.as_str()), (304, ""));
    assert_eq!(http.send(http.request(Method::GET, &one).header("if-none-match", &etag)).await.status, 200);
    server.stop().await;
}
