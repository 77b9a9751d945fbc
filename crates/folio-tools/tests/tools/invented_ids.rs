//! Tests of ids that a model invented: the error lists existing ones.

use folio_types::{DocumentId, PromptId, PromptRevId, SchemaId, SchemaRevId, TagId};
use serde_json::json;

use crate::fixture::{Fixture, id_of};

#[tokio::test]
async fn an_id_that_does_not_exist_gets_existing_ids_with_names() {
    let mut test = Fixture::new().await;
    let (schema_revid, prompt_revid) = test.invoice_prompt().await;
    let (schema, prompt, document) = (id_of(&schema_revid), id_of(&prompt_revid), test.document().to_string());
    let tag = test.tag("billing").await.to_string();
    let ghost = ["ghost"];
    let (no_schema, no_prompt, no_tag) = (SchemaId::derive(&ghost), PromptId::derive(&ghost), TagId::derive(&ghost));
    let (no_schema_revid, no_prompt_revid) =
        (SchemaRevId::new(no_schema.clone(), 1), PromptRevId::new(no_prompt.clone(), 1));
    for (name, arguments, id, label) in [
        ("get_schema", json!({ "schema_revid": no_schema_revid }), &schema_revid, "Invoice"),
        ("get_schema", json!({ "schema_revid": "invoice_v1" }), &schema_revid, "Invoice"),
        ("validate_against_schema", json!({ "schema_revid": "x", "data": {} }), &schema_revid, "Invoice"),
        ("update_schema", json!({ "schema_id": no_schema, "name": "x" }), &schema, "Invoice"),
        ("delete_schema", json!({ "schema_id": "invoice" }), &schema, "Invoice"),
        ("create_prompt", json!({ "name": "x", "content": "x", "schema_id": no_schema }), &schema, "Invoice"),
        ("create_prompt", json!({ "name": "x", "content": "x", "tag_ids": [no_tag] }), &tag, "billing"),
        ("get_prompt", json!({ "prompt_revid": no_prompt_revid }), &prompt_revid, "Invoice"),
        ("run_extraction", json!({ "prompt_revid": "invoice_prompt" }), &prompt_revid, "Invoice"),
        ("get_extraction_result", json!({ "prompt_revid": "x" }), &prompt_revid, "Invoice"),
        ("update_prompt", json!({ "prompt_id": no_prompt, "content": "x" }), &prompt, "Invoice"),
        ("get_tag", json!({ "tag_id": no_tag }), &tag, "billing"),
        ("list_prompts", json!({ "document_id": DocumentId::derive(&ghost) }), &document, "invoice.pdf"),
    ] {
        let message = test.error_of(name, arguments.clone()).await;
        assert!(message.contains(&format!("{id} \"{label}\"")), "{name} {arguments}: {message}");
    }
    let message = test.error_of("create_prompt", json!({ "name": "x", "content": "x", "model": "ghost" })).await;
    assert!(message.contains("base, other."), "{message}");
}

#[tokio::test]
async fn an_unknown_version_of_an_existing_resource_gets_its_newest_version() {
    let mut test = Fixture::new().await;
    let (schema_revid, _) = test.invoice_prompt().await;
    let unknown = format!("{}.9", id_of(&schema_revid));
    let message = test.error_of("get_schema", json!({ "schema_revid": unknown })).await;
    assert!(message.contains(&format!("{unknown} does not exist")) && message.contains(&schema_revid), "{message}");
}

#[tokio::test]
async fn invariant_10_at_most_five_ids_are_listed() {
    let mut test = Fixture::new().await;
    let unknown = json!({ "tag_id": TagId::derive(&["ghost"]) });
    assert!(test.error_of("get_tag", unknown.clone()).await.contains("No tag exists"));
    let mut tags = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        tags.push(test.tag(name).await);
    }
    let message = test.error_of("get_tag", unknown).await;
    let listed: Vec<bool> = tags.iter().map(|tag| message.contains(tag.as_str())).collect();
    assert_eq!(listed, [false, false, true, true, true, true, true], "the newest: {message}");
    assert!(message.contains("of 7") && message.contains("list_tags"), "{message}");
}
