//! Tests of the tag tools and the help tools.

use serde_json::json;

use crate::fixture::{Fixture, text};

#[tokio::test]
async fn a_tag_is_created_shown_listed_changed_and_deleted() {
    let mut test = Fixture::new().await;
    let made = test.ok("create_tag", json!({ "name": "Billing", "color": "#AABBCC", "description": "Bills" })).await;
    let id = made["tag_id"].clone();
    let shown = test.ok("get_tag", json!({ "tag_id": id })).await;
    assert_eq!(shown, json!({ "tag_id": id, "name": "Billing", "color": "#AABBCC", "description": "Bills" }));
    test.ok("update_tag", json!({ "tag_id": id, "name": "Bills", "color": "" })).await;
    let shown = test.ok("get_tag", json!({ "tag_id": id })).await;
    assert_eq!(shown, json!({ "tag_id": id, "name": "Bills", "color": null, "description": "Bills" }));
    let listed = test.ok("list_tags", json!({ "name_search": "ILL" })).await;
    assert_eq!((&listed["total"], &listed["tags"][0]["tag_id"]), (&json!(1), &id));
    test.ok("delete_tag", json!({ "tag_id": id })).await;
    assert!(test.error_of("get_tag", json!({ "tag_id": id })).await.contains("list_tags"));
}

#[tokio::test]
async fn invalid_tags_are_reported() {
    let mut test = Fixture::new().await;
    let existing = test.tag("Billing").await;
    let other = test.tag("other").await;
    let cases = [
        (json!({ "name": "billing" }), existing.as_str()),
        (json!({ "name": "a", "color": "red" }), "color"),
        (json!({ "name": " a" }), "must not"),
        (json!({ "name": "a " }), "must not"),
        (json!({ "name": " " }), "must not"),
    ];
    test.assert_errors("create_tag", cases).await;
    let cases = [
        (json!({ "tag_id": existing }), "Nothing to change"),
        (json!({ "tag_id": "billing", "name": "x" }), "list_tags"),
        (json!({ "tag_id": existing, "name": " a" }), "must not"),
        (json!({ "tag_id": existing, "name": "a " }), "must not"),
        (json!({ "tag_id": existing, "name": " " }), "must not"),
        (json!({ "tag_id": other, "name": "BILLING" }), "already exists"),
    ];
    test.assert_errors("update_tag", cases).await;
}

#[tokio::test]
async fn a_tag_in_use_is_not_deleted_and_the_error_names_its_user() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    test.ok("update_document", json!({ "tag_ids": [tag] })).await;
    let message = test.error_of("delete_tag", json!({ "tag_id": tag })).await;
    assert!(message.contains("invoice.pdf") || message.contains(test.document().as_str()), "{message}");
    test.ok("update_document", json!({ "tag_ids": [] })).await;
    test.ok("create_prompt", json!({ "name": "Totals", "content": "x", "tag_ids": [tag] })).await;
    assert!(test.error_of("delete_tag", json!({ "tag_id": tag })).await.contains("prompt"));
}

#[tokio::test]
async fn help_contains_a_valid_schema() {
    let mut test = Fixture::new().await;
    let help = text(&test.ok("help_schemas", json!({})).await["help"]);
    let example = help.split("```json").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(test.ok("validate_schema", json!({ "response_format": example })).await, json!({ "valid": true }));
    assert!(text(&test.ok("help_prompts", json!({})).await["help"]).contains("run_extraction"));
}

#[tokio::test]
async fn further_tools_are_found_with_their_parameters() {
    let mut test = Fixture::new().await;
    let found = test.ok("find_tools", json!({ "query": "delete the tag" })).await;
    assert_eq!((&found["tools"][0]["name"], &found["tools"][1]), (&json!("delete_tag"), &json!(null)));
    assert_eq!(found["tools"][0]["parameters"]["required"], json!(["tag_id"]));
    assert!(test.error_of("find_tools", json!({ "query": "zebra" })).await.contains("list_llm_models"));
}
