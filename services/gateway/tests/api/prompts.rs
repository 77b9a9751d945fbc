//! PromptService and ModelService.

use folio_types::Reason;
use serde_json::{Value, json};

use crate::harness::{MODEL, Server};

/// Returns a prompt with these fields besides its name and its content.
fn prompt(name: &str, more: Value) -> Value {
    let mut prompt = json!({"name": name, "content": "Read the total."});
    prompt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "prompt": prompt })
}

#[tokio::test]
async fn a_prompt_has_versions() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await.schema_id;
    let tag = client.tag("t").await.tag_id;
    let wanted = prompt("Total", json!({"schema_revid": schema, "model": MODEL, "tag_ids": [tag]}));
    let first = client.done("CreatePrompt", wanted).await["prompt"].take();
    assert_eq!(first["schema_revid"], format!("{schema}.1"));
    assert_eq!((&first["model"], &first["tag_ids"]), (&json!(MODEL), &json!([tag])));

    let id = &first["prompt_id"];
    let second = client.done("CreatePrompt", prompt("total", json!({}))).await["prompt"].take();
    assert_eq!((&second["prompt_id"], &second["revision"]), (id, &json!(2)));
    assert_eq!(
        (&second["schema_revid"], &second["tag_ids"]),
        (&Value::Null, &Value::Null),
        "the next version is what the request says"
    );

    let update = json!({"prompt": {"prompt_id": id, "content": "Read the sum."}});
    assert_eq!(client.done("UpdatePrompt", update.clone()).await["revised"], true);
    assert_eq!(client.done("UpdatePrompt", update).await["revised"], Value::Null);

    let page = async |token: &Value| {
        client.done("ListPromptRevisions", json!({"prompt_id": id, "page_size": 2, "page_token": token})).await
    };
    let (first, count) = (page(&json!("")).await, |page: &Value| page["prompt_revisions"].as_array().unwrap().len());
    assert_eq!((count(&first), &first["total_size"]), (2, &json!(3)));
    let rest = page(&first["next_page_token"]).await;
    assert_eq!((count(&rest), &rest["prompt_revisions"][0]["revision"]), (1, &json!(1)));
    server.stop().await;
}

#[tokio::test]
async fn references_of_a_prompt_must_exist() {
    let server = Server::start().await;
    let client = server.member().await;
    let missing_tag = folio_types::TagId::derive(&["x"]).to_string();
    let missing_schema = folio_types::SchemaId::derive(&["x"]).to_string();
    let cases = [
        (json!({"model": "unknown"}), Reason::ModelNotAvailable, "prompt.model"),
        (json!({"model": "chat-only"}), Reason::ModelNotAvailable, "prompt.model"),
        (json!({"tag_ids": [missing_tag]}), Reason::NotFound, "prompt.tag_ids"),
        (json!({"schema_revid": missing_schema}), Reason::NotFound, "prompt.schema_revid"),
        (json!({"content": " "}), Reason::InvalidField, "prompt.content"),
    ];
    for (wanted, reason, field) in cases {
        let wanted = prompt("a", wanted);
        let checked = client.done("ValidatePrompt", wanted.clone()).await;
        assert_eq!(checked["valid"], Value::Null);
        let violations = checked["violations"].as_array().unwrap();
        assert_eq!(violations.iter().map(|violation| &violation["field"]).collect::<Vec<_>>(), [field]);
        assert_eq!(client.refusal("CreatePrompt", wanted).await.reason, reason);
    }
    assert_eq!(client.done("ValidatePrompt", prompt("a", json!({}))).await["valid"], true);
    assert_eq!(client.done("ListPrompts", json!({})).await["total_size"], Value::Null, "nothing was stored");
    server.stop().await;
}

#[tokio::test]
async fn data_is_validated_against_the_schema_of_a_prompt() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("s", "total").await.schema_id;
    let check = async |wanted: Value, data: &str| {
        let made = client.done("CreatePrompt", wanted).await;
        let request = json!({"prompt_revid": made["prompt"]["prompt_id"], "data_json": data});
        client.done("ValidatePromptData", request).await
    };
    let with = || prompt("with", json!({"schema_revid": schema}));
    let without = || prompt("without", json!({}));
    assert_eq!(check(with(), r#"{"total": 3}"#).await["valid"], true);
    let wrong = check(with(), r#"{"total": "three"}"#).await;
    assert_eq!((&wrong["valid"], &wrong["violations"][0]["path"]), (&Value::Null, &json!("#/total")));
    assert_eq!(check(without(), r#"{"any": 1}"#).await["valid"], true);
    assert_eq!(check(without(), "[1]").await["valid"], Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn models_are_listed_for_chats_and_for_prompts() {
    let server = Server::start().await;
    let client = server.member().await;
    let names = async |wanted: &str, filter: &str, order_by: &str| {
        let answer = client.done("ListModels", json!({"use": wanted, "filter": filter, "order_by": order_by})).await;
        assert_eq!(answer["default_model"], MODEL);
        answer["models"].as_array().unwrap().iter().map(|model| model["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("MODEL_USE_UNSPECIFIED", "", "").await, [MODEL, "chat-only", "prompts-only"]);
    assert_eq!(names("MODEL_USE_CHAT", "", "name").await, ["chat-only", MODEL]);
    assert_eq!(names("MODEL_USE_PROMPTS", "name:ONLY", "").await, ["prompts-only"]);
    server.stop().await;
}
