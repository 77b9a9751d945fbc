//! The routes of prompts.

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Client, MODEL, Server};

async fn start() -> (Server, Client, Http, String) {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, prompts) = (Http::new(&server, &client), format!("/v0/orgs/{}/prompts", client.org));
    (server, client, http, prompts)
}

fn names(list: &Value) -> Vec<&str> {
    list["prompts"].as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_prompt_has_versions_and_an_update_replaces_every_field() {
    let (server, client, http, prompts) = start().await;
    let (schema, tag) = (client.schema("Invoice", "total").await, client.tag("a").await);
    let fields = json!({
        "name": "Total", "content": "Read the total.", "schema_id": schema, "tag_ids": [tag], "model": MODEL, "description": "x",
    });
    let created = http.json(Method::POST, &prompts, &fields).await;
    let first = created.json();
    assert_eq!((created.status.as_u16(), &first["prompt_version"]), (200, &json!(1)), "{first}");
    assert_eq!((&first["schema_id"], &first["schema_version"]), (&json!(schema), &json!(1)));
    assert_eq!((&first["tag_ids"], &first["model"], &first["kb_id"]), (&json!([tag]), &json!(MODEL), &Value::Null));
    let one = format!("{prompts}/{}", first["prompt_id"].as_str().unwrap());

    let renamed = json!({
        "name": "Sum", "content": "Read the total.", "schema_id": schema, "schema_version": 1, "tag_ids": [tag], "model": MODEL,
    });
    let renamed = http.json(Method::PUT, &one, &renamed).await.json();
    assert_eq!((&renamed["name"], &renamed["prompt_revid"]), (&json!("Sum"), &first["prompt_revid"]));
    let bare = http.json(Method::PUT, &one, &json!({ "name": "Sum", "content": "Read the sum." })).await.json();
    assert_eq!((&bare["prompt_version"], &bare["schema_id"], &bare["tag_ids"]), (&json!(2), &Value::Null, &json!([])));
    assert_eq!(bare["model"], MODEL, "the model that runs the prompt");
    // A client that chooses no model sends this one.
    let chosen = json!({ "name": "Sum", "content": "Read the sum.", "model": "gpt-4o-mini" });
    assert_eq!(http.json(Method::PUT, &one, &chosen).await.json(), bare);

    let versions = http.get(&format!("{one}/versions")).await.json();
    assert_eq!((names(&versions), &versions["total_count"]), (vec!["Sum", "Sum"], &json!(2)));
    assert_eq!(versions["prompts"][0], bare);
    let old = http.get(&format!("{prompts}/{}", first["prompt_revid"].as_str().unwrap())).await.json();
    assert_eq!((&old["content"], &old["name"]), (&json!("Read the total."), &json!("Sum")));
    assert_eq!(http.get(&one).await.detail(), "Prompt not found", "the id is not one of a revision");
    let deleted = http.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Prompt deleted successfully" }));
    assert_eq!(http.json(Method::DELETE, &one, &Value::Null).await.detail(), "Prompt not found");
    server.stop().await;
}

#[tokio::test]
async fn unknown_references_are_refused_with_the_texts_that_clients_match() {
    let (server, _, http, prompts) = start().await;
    let (tag, schema) = (folio_types::TagId::derive(&["x"]), folio_types::SchemaId::derive(&["x"]));
    for (more, status, text) in [
        (json!({ "tag_ids": [tag] }), 400, format!("Invalid tag IDs: [\"{tag}\"]")),
        (json!({ "tag_ids": ["x"] }), 400, "Invalid tag IDs: [\"x\"]".to_owned()),
        (json!({ "schema_id": schema }), 404, format!("Schema with ID {schema} not found")),
        (
            json!({ "schema_id": schema, "schema_version": 3 }),
            404,
            format!("Schema with ID {schema} version 3 not found"),
        ),
        (json!({ "schema_id": "x" }), 404, "Schema with ID x not found".to_owned()),
        (json!({ "model": "no-such-model" }), 400, "Invalid model: no-such-model".to_owned()),
        (json!({ "model": "chat-only" }), 400, "Invalid model: chat-only".to_owned()),
        (json!({ "kb_id": "k" }), 400, "Knowledge bases are not supported by this server".to_owned()),
    ] {
        let mut fields = json!({ "name": "a", "content": "b" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = http.json(Method::POST, &prompts, &fields).await;
        assert_eq!((refused.status.as_u16(), refused.detail()), (status, json!(text)), "{fields}");
    }
    let missing = http.json(Method::POST, &prompts, &json!({ "name": "a" })).await;
    assert_eq!((missing.status.as_u16(), &missing.detail()[0]["loc"]), (422, &json!(["body", "content"])));
    server.stop().await;
}

#[tokio::test]
async fn prompts_are_listed_by_tags_and_by_the_tags_of_a_document() {
    let (server, client, http, prompts) = start().await;
    let (blue, red) = (client.tag("blue").await, client.tag("red").await);
    for (name, tags) in [("both", json!([blue, red])), ("one", json!([red])), ("none", json!([]))] {
        let fields = json!({ "name": name, "content": "Read.", "tag_ids": tags });
        assert_eq!(http.json(Method::POST, &prompts, &fields).await.status, 200);
    }
    let list = async |query: String| http.get(&format!("{prompts}?{query}")).await.json();
    assert_eq!(names(&list(String::new()).await), ["none", "one", "both"]);
    assert_eq!(names(&list(format!("tag_ids={red}")).await), ["one", "both"]);
    assert_eq!(names(&list(format!("tag_ids={red}%2C{blue}")).await), ["both"]);
    let document = client.ready_document("a.txt", "x").await.document_id;
    assert_eq!(names(&list(format!("document_id={document}")).await), Vec::<&str>::new());
    client.call_ok("UpdateDocument", json!({"document": {"document_id": document, "tag_ids": [blue]}})).await;
    assert_eq!(names(&list(format!("document_id={document}")).await), ["both"]);
    let by_tag = r#"{"items": [{"field": "tag_ids", "operator": "contains", "value": "BLU"}]}"#;
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("filters", by_tag).finish();
    assert_eq!(names(&list(query).await), ["both"]);
    let missing = http.get(&format!("{prompts}?document_id=x")).await;
    assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("Document not found")));
    server.stop().await;
}

#[tokio::test]
async fn the_built_in_prompt_is_named_default() {
    let (server, _, http, prompts) = start().await;
    let built_in = http.get(&format!("{prompts}/default")).await.json();
    assert_eq!((&built_in["prompt_id"], &built_in["prompt_revid"]), (&json!("default"), &json!("default")));
    assert_eq!((&built_in["name"], &built_in["prompt_version"]), (&json!("Document Summary"), &json!(1)));
    let versions = http.get(&format!("{prompts}/default/versions")).await.json();
    assert_eq!(versions, json!({ "prompts": [built_in], "total_count": 1, "skip": 0 }));
    let refused = http.json(Method::PUT, &format!("{prompts}/default"), &json!({ "name": "a", "content": "b" })).await;
    assert_eq!(refused.status, 404);
    assert_eq!(http.get(&prompts).await.json()["total_count"], 0);
    server.stop().await;
}
