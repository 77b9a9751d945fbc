//! SchemaService.

use folio_types::{Code, Reason};
use serde_json::{Value, json};

use crate::harness::{Server, format};

const LOOSE: &str = r#"{"type":"json_schema","json_schema":{"name":"loose","schema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","maximum":9007199254740993}}}}}"#;

#[tokio::test]
async fn a_schema_has_versions_and_a_name_of_its_own() {
    let server = Server::start().await;
    let client = server.member().await;
    let first = client.schema("Invoice", "total").await;
    assert_eq!(first.revision, 1);
    let second = client.schema("INVOICE", "sum").await;
    assert_eq!(second.schema_id, first.schema_id, "a same-name create makes the next version");
    assert_eq!(second.revision, 2);

    let id = &first.schema_id;
    let unchanged = json!({"schema": {"schema_id": id, "response_format_json": format("sum")}});
    let answer = client.done("UpdateSchema", unchanged).await;
    assert_eq!((&answer["revised"], &answer["schema"]["revision"]), (&Value::Null, &json!(2)));
    let answer = client.done("UpdateSchema", json!({"schema": {"schema_id": id, "name": "Bill"}})).await;
    assert_eq!(answer["revised"], Value::Null, "a new name alone renames without a revision");
    assert_eq!(answer["schema"]["name"], "Bill");

    let revision = async |revid: &str| {
        client.done("GetSchemaRevision", json!({"schema_revid": revid})).await["schema_revision"].take()
    };
    let old = revision(&format!("{id}.1")).await;
    assert_eq!((&old["revision"], &old["name"]), (&json!(1), &json!("Bill")));
    assert!(old["response_format_json"].as_str().unwrap().contains("total"));
    assert_eq!(revision(id).await["revision"], 2);

    let versions = client.done("ListSchemaRevisions", json!({"schema_id": id})).await;
    let found = versions["schema_revisions"].as_array().unwrap();
    let numbers: Vec<_> = found.iter().map(|revision| &revision["revision"]).collect();
    assert_eq!((numbers, &versions["total_size"]), (vec![&json!(2), &json!(1)], &json!(2)));
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_create_is_executed_once_even_if_its_name_is_now_taken() {
    let server = Server::start().await;
    let client = server.member().await;
    let create = |property: &str| json!({"schema": {"name": "Invoice", "response_format_json": format(property)}, "request_id": "once"});
    let first = client.done("CreateSchema", create("total")).await["schema"]["schema_id"].take();
    client.done("UpdateSchema", json!({"schema": {"schema_id": first, "name": "Bill"}})).await;
    let second = client.schema("Invoice", "sum").await;
    assert_ne!(first, second.schema_id);
    let again = client.done("CreateSchema", create("total")).await;
    assert_eq!(again["schema"]["schema_id"], first, "the schema that the request made");
    let found = client.done("GetSchemaRevision", json!({"schema_revid": second.schema_id})).await;
    assert_eq!(found["schema_revision"]["revision"], 1, "the other schema got no version");
    assert_eq!(client.refusal("CreateSchema", create("net")).await.reason, Reason::RequestIdConflict);
    server.stop().await;
}

#[tokio::test]
async fn strict_rules_hold_unless_the_request_allows_others() {
    let server = Server::start().await;
    let client = server.member().await;
    let create =
        |allow: bool| json!({"schema": {"name": "loose", "response_format_json": LOOSE}, "allow_non_strict": allow});
    let error = client.refusal("CreateSchema", create(false)).await;
    assert_eq!((error.code, error.reason), (Code::InvalidArgument, Reason::InvalidSchema));
    assert!(
        error.violations.iter().all(|violation| violation.field.starts_with("schema.response_format_json#")),
        "{error:?}"
    );

    let check = async |allow: bool| {
        client.done("ValidateSchema", json!({"response_format_json": LOOSE, "allow_non_strict": allow})).await
    };
    let answer = check(false).await;
    assert!(answer["valid"].is_null() && answer["violations"].is_array(), "{answer}");
    assert_eq!(check(true).await["valid"], true);

    let made = client.done("CreateSchema", create(true)).await;
    assert_eq!(made["schema"]["strict"], Value::Null);
    let format = made["schema"]["response_format_json"].as_str().unwrap();
    assert!(format.contains("9007199254740993"), "{format}");
    assert!(format.find("\"b\"") < format.find("\"a\""), "the order of properties is kept: {format}");
    server.stop().await;
}

#[tokio::test]
async fn data_is_validated_against_a_revision() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await.schema_id;
    let check =
        async |data: &str| client.done("ValidateData", json!({"schema_revid": schema, "data_json": data})).await;
    assert_eq!(check(r#"{"total": 3}"#).await["valid"], true);
    let answer = check(r#"{"total": "three"}"#).await;
    assert_eq!(answer["valid"], Value::Null);
    assert!(answer["violations"][0]["path"].as_str().unwrap().contains("total"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_schema_that_a_prompt_uses_is_not_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await.schema_id;
    let prompt = client.prompt("Read it", &schema).await.prompt_id;
    let error = client.refusal("DeleteSchema", json!({"schema_id": schema})).await;
    assert_eq!(error.reason, Reason::InUse);
    assert!(error.message.contains("Read it"), "{error}");
    client.done("DeletePrompt", json!({"prompt_id": prompt})).await;
    client.done("DeleteSchema", json!({"schema_id": schema})).await;
    server.stop().await;
}
