//! Invariant 6: tenants never meet.

use folio_tools::{CallContext, ToolError};
use folio_types::{OrgId, Principal, UserId};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn invariant_6_another_organizations_ids_are_not_there() {
    let mut world = World::new().await;
    let tag = world.tag("billing").await;
    let (schema, prompt) = world.invoice_prompt().await;
    world.models.answer(r#"{"total": 1}"#);
    world.ok("run_extraction", json!({})).await;
    let of = |revid: &str| revid.split_once('.').unwrap().0.to_owned();
    let document = world.document();
    let principal = Principal {
        org: OrgId::derive(&["other"]),
        user: UserId::derive(&["other"]),
        ..world.context.principal.clone()
    };
    // Even with the thread of the first organization's document and its working state.
    let other = |world: &World| CallContext { principal: principal.clone(), ..world.next() };
    for (name, arguments) in [
        ("get_ocr_text", json!({})),
        ("get_schema", json!({ "schema_revid": schema })),
        ("validate_against_schema", json!({ "schema_revid": schema, "data": {} })),
        ("get_prompt", json!({ "prompt_revid": prompt })),
        ("list_prompts", json!({ "document_id": document })),
        ("get_tag", json!({ "tag_id": tag })),
        ("run_extraction", json!({ "prompt_revid": prompt })),
        ("run_extraction", json!({})),
        ("update_extraction_field", json!({ "path": "total", "value": 2 })),
        ("update_document", json!({ "document_id": document, "document_name": "x" })),
        ("delete_document", json!({ "document_id": document })),
        ("update_schema", json!({ "schema_id": of(&schema), "name": "x" })),
        ("delete_schema", json!({ "schema_id": of(&schema) })),
        ("create_prompt", json!({ "name": "x", "content": "x", "schema_id": of(&schema) })),
        ("create_prompt", json!({ "name": "x", "content": "x", "tag_ids": [tag] })),
        ("update_prompt", json!({ "prompt_id": of(&prompt), "content": "x" })),
        ("delete_prompt", json!({ "prompt_id": of(&prompt) })),
        ("update_tag", json!({ "tag_id": tag, "name": "x" })),
        ("delete_tag", json!({ "tag_id": tag })),
    ] {
        let result = world.call_in(&other(&world), name, &arguments).await;
        assert!(matches!(&result, Err(ToolError::Told(_))), "{name}: {result:?}");
    }
    for name in ["list_documents", "list_schemas", "list_prompts", "list_tags"] {
        let listed = world.call_in(&other(&world), name, &json!({})).await.unwrap();
        assert_eq!(listed.content["total"], json!(0), "{name}");
    }
    // A name of another organization is free here, and makes an aggregate of its own.
    let context = other(&world);
    let arguments = json!({ "name": "Billing" });
    let made = world.call_in(&context, "create_tag", &arguments).await.unwrap();
    assert_ne!(made.content["tag_id"], json!(tag));
    assert_eq!(world.models.asked().len(), 1);
}
