//! Tests of the schema tools.

use serde_json::json;

use crate::fixture::{Fixture, format_of, invoice, text};

#[tokio::test]
async fn a_schema_is_created_shown_listed_revised_renamed_and_deleted() {
    let mut test = Fixture::new().await;
    let made = test.ok("create_schema", json!({ "name": "Invoice", "response_format": invoice() })).await;
    assert_eq!((&made["version"], &made["new_version"]), (&json!(1), &json!(true)));
    let revid = text(&made["schema_revid"]);
    assert_eq!(test.context.working.schema_revid.as_ref().unwrap().to_string(), revid);
    let shown = test.ok("get_schema", json!({ "schema_revid": revid })).await;
    assert_eq!((&shown["name"], &shown["response_format"]), (&json!("Invoice"), &invoice()));

    let wider = format_of(json!({ "total": { "type": "number" }, "number": { "type": "string" } }));
    let arguments = json!({ "schema_id": made["schema_id"], "response_format": wider });
    let revised = test.ok("update_schema", arguments.clone()).await;
    assert_eq!((&revised["version"], &revised["new_version"]), (&json!(2), &json!(true)));
    let unchanged = test.ok("update_schema", arguments).await;
    assert_eq!((&unchanged["version"], &unchanged["new_version"]), (&json!(2), &json!(false)));
    let renamed = test.ok("update_schema", json!({ "schema_id": made["schema_id"], "name": "Bill" })).await;
    assert_eq!((&renamed["version"], &renamed["name"]), (&json!(2), &json!("Bill")));
    assert_eq!(test.context.working.schema_revid.as_ref().unwrap().version, 2);
    assert_eq!(test.ok("get_schema", json!({ "schema_revid": revid })).await["response_format"], invoice());

    let listed = test.ok("list_schemas", json!({ "name_search": "bIl" })).await;
    assert_eq!((&listed["total"], &listed["schemas"][0]["name"]), (&json!(1), &json!("Bill")));
    assert_eq!(test.ok("list_schemas", json!({ "name_search": "invoice" })).await["total"], json!(0));

    let deleted = test.ok("delete_schema", json!({ "schema_id": made["schema_id"] })).await;
    assert_eq!(deleted["deleted"], made["schema_id"]);
    assert_eq!(test.context.working.schema_revid, None);
    assert!(test.error_of("get_schema", json!({ "schema_revid": revid })).await.contains("list_schemas"));
    assert!(test.error_of("delete_schema", json!({ "schema_id": made["schema_id"] })).await.contains("does not exist"));
}

#[tokio::test]
async fn creating_with_an_existing_name_adds_the_next_version() {
    let mut test = Fixture::new().await;
    let first = test.ok("create_schema", json!({ "name": "Invoice", "response_format": invoice() })).await;
    let wider = format_of(json!({ "number": { "type": "string" } }));
    let second = test.ok("create_schema", json!({ "name": "INVOICE", "response_format": wider })).await;
    assert_eq!((&second["schema_id"], &second["version"]), (&first["schema_id"], &json!(2)));
    assert_eq!(second["name"], json!("Invoice"));
    let same = test.ok("create_schema", json!({ "name": "Invoice", "response_format": wider })).await;
    assert_eq!((&same["version"], &same["new_version"]), (&json!(2), &json!(false)));
    assert_eq!(test.ok("list_schemas", json!({})).await["total"], json!(1));
}

#[tokio::test]
async fn a_response_format_may_come_as_text() {
    let mut test = Fixture::new().await;
    let written = invoice().to_string();
    assert_eq!(test.ok("validate_schema", json!({ "response_format": written })).await, json!({ "valid": true }));
    let made = test.ok("create_schema", json!({ "name": "a", "response_format": written })).await;
    let shown = test.ok("get_schema", json!({ "schema_revid": made["schema_revid"] })).await;
    assert_eq!(shown["response_format"], invoice());
}

#[tokio::test]
async fn a_violation_is_reported_with_its_path_and_not_stored() {
    let mut test = Fixture::new().await;
    let mut broken = invoice();
    broken["json_schema"]["schema"]["required"] = json!([]);
    let checked = test.ok("validate_schema", json!({ "response_format": broken })).await;
    assert_eq!(checked["valid"], json!(false));
    assert_eq!(checked["violations"][0]["path"], json!("#/json_schema/schema/required"));
    let message = test.error_of("create_schema", json!({ "name": "a", "response_format": broken })).await;
    assert!(message.contains("#/json_schema/schema/required"), "{message}");
    assert_eq!(test.ok("list_schemas", json!({})).await["total"], json!(0));
    assert_eq!(test.ok("validate_schema", json!({ "response_format": "{" })).await["valid"], json!(false));

    let made = test.ok("create_schema", json!({ "name": "a", "response_format": invoice() })).await;
    let arguments = json!({ "schema_id": made["schema_id"], "response_format": broken });
    assert!(test.error_of("update_schema", arguments).await.contains("required"));
    assert!(
        test.error_of("update_schema", json!({ "schema_id": made["schema_id"] })).await.contains("Nothing to change")
    );
    assert!(
        test.error_of("create_schema", json!({ "name": " ", "response_format": invoice() })).await.contains("name")
    );
    let revid = json!({ "schema_id": made["schema_revid"], "name": "b" });
    assert!(test.error_of("update_schema", revid).await.contains("without the .version"));
    assert!(test.error_of("get_schema", json!({ "schema_revid": made["schema_id"] })).await.contains("a version"));
}

#[tokio::test]
async fn data_is_checked_against_a_stored_schema() {
    let mut test = Fixture::new().await;
    let made = test.ok("create_schema", json!({ "name": "a", "response_format": invoice() })).await;
    let mut check = async |data| {
        test.ok("validate_against_schema", json!({ "schema_revid": made["schema_revid"], "data": data })).await
    };
    assert_eq!(check(json!({ "total": 1.5 })).await, json!({ "valid": true }));
    assert_eq!(check(json!("{\"total\": 2}")).await, json!({ "valid": true }));
    assert_eq!(check(json!({ "total": "secret" })).await["violations"][0]["path"], json!("#/total"));
    assert_eq!(check(json!(null)).await["valid"], json!(false));
    // A number that would lose digits is refused.
    let lossy = check(json!("{\"total\": 0.12345678901234567890}")).await;
    assert_eq!((&lossy["valid"], &lossy["violations"][0]["path"]), (&json!(false), &json!("#")));
    assert!(text(&lossy["violations"][0]["message"]).contains("0.12345678901234567890"), "{lossy}");
}

#[tokio::test]
async fn a_schema_that_a_prompt_uses_is_not_deleted_and_the_error_names_the_prompt() {
    let mut test = Fixture::new().await;
    let (schema, prompt) = test.invoice_prompt().await;
    let id = schema.split_once('.').unwrap().0;
    let message = test.error_of("delete_schema", json!({ "schema_id": id })).await;
    assert!(message.contains("Invoice") || message.contains(prompt.split_once('.').unwrap().0), "{message}");
    let prompt_id = prompt.split_once('.').unwrap().0;
    test.ok("delete_prompt", json!({ "prompt_id": prompt_id })).await;
    test.ok("delete_schema", json!({ "schema_id": id })).await;
}

#[tokio::test]
async fn a_renamed_schema_cannot_take_anothers_name() {
    let mut test = Fixture::new().await;
    test.ok("create_schema", json!({ "name": "A", "response_format": invoice() })).await;
    let other = test.ok("create_schema", json!({ "name": "B", "response_format": invoice() })).await;
    let message = test.error_of("update_schema", json!({ "schema_id": other["schema_id"], "name": "a" })).await;
    assert!(message.contains("already exists"), "{message}");
}

#[tokio::test]
async fn lists_are_paged() {
    let mut test = Fixture::new().await;
    for name in ["a", "b", "c"] {
        test.ok("create_schema", json!({ "name": name, "response_format": invoice() })).await;
    }
    let part = test.ok("list_schemas", json!({ "skip": 1, "limit": 1.0 })).await;
    assert_eq!((&part["total"], part["schemas"].as_array().unwrap().len()), (&json!(3), 1));
    assert_eq!(part["schemas"][0]["name"], json!("b"));
}
