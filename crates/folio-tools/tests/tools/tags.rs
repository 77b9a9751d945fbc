//! The tools of tags, and of help.

use serde_json::json;

use crate::world::{World, text};

#[tokio::test]
async fn a_tag_is_created_shown_listed_changed_and_deleted() {
    let mut world = World::new().await;
    let made = world.ok("create_tag", json!({ "name": "Billing", "color": "#AABBCC", "description": "Bills" })).await;
    let id = made["tag_id"].clone();
    let shown = world.ok("get_tag", json!({ "tag_id": id })).await;
    assert_eq!(shown, json!({ "tag_id": id, "name": "Billing", "color": "#aabbcc", "description": "Bills" }));
    world.ok("update_tag", json!({ "tag_id": id, "name": "Bills", "color": "" })).await;
    let shown = world.ok("get_tag", json!({ "tag_id": id })).await;
    assert_eq!(shown, json!({ "tag_id": id, "name": "Bills", "color": null, "description": "Bills" }));
    let listed = world.ok("list_tags", json!({ "name_search": "ILL" })).await;
    assert_eq!((&listed["total"], &listed["tags"][0]["tag_id"]), (&json!(1), &id));
    world.ok("delete_tag", json!({ "tag_id": id })).await;
    assert!(world.told("get_tag", json!({ "tag_id": id })).await.contains("list_tags"));
}

#[tokio::test]
async fn what_a_tag_may_not_be_is_told() {
    let mut world = World::new().await;
    let there = world.tag("Billing").await;
    let told = world.told("create_tag", json!({ "name": "billing" })).await;
    assert!(told.contains(there.as_str()), "{told}");
    assert!(world.told("create_tag", json!({ "name": "a", "color": "red" })).await.contains("color"));
    assert!(world.told("update_tag", json!({ "tag_id": there })).await.contains("Nothing to change"));
    assert!(world.told("update_tag", json!({ "tag_id": "billing", "name": "x" })).await.contains("list_tags"));
    for name in [" a", "a ", " "] {
        assert!(world.told("create_tag", json!({ "name": name })).await.contains("must not"), "{name:?}");
        assert!(
            world.told("update_tag", json!({ "tag_id": there, "name": name })).await.contains("must not"),
            "{name:?}"
        );
    }
    let other = world.tag("other").await;
    assert!(world.told("update_tag", json!({ "tag_id": other, "name": "BILLING" })).await.contains("name"));
}

#[tokio::test]
async fn a_tag_that_something_has_is_not_deleted_and_who_has_it_is_named() {
    let mut world = World::new().await;
    let tag = world.tag("billing").await;
    world.ok("update_document", json!({ "tag_ids": [tag] })).await;
    let told = world.told("delete_tag", json!({ "tag_id": tag })).await;
    assert!(told.contains("invoice.pdf") || told.contains(world.document().as_str()), "{told}");
    world.ok("update_document", json!({ "tag_ids": [] })).await;
    world.ok("create_prompt", json!({ "name": "Totals", "content": "x", "tag_ids": [tag] })).await;
    assert!(world.told("delete_tag", json!({ "tag_id": tag })).await.contains("prompt"));
}

#[tokio::test]
async fn help_shows_a_schema_that_holds_the_rules() {
    let mut world = World::new().await;
    let help = text(&world.ok("help_schemas", json!({})).await["help"]);
    let example = help.split("```json").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(world.ok("validate_schema", json!({ "schema": example })).await, json!({ "valid": true }));
    assert!(text(&world.ok("help_prompts", json!({})).await["help"]).contains("run_extraction"));
}
