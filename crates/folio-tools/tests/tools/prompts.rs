//! Tests of the prompt tools.

use folio_resources::{Prompt, PromptChange, PromptUpdate};
use folio_types::Temperature;
use folio_types::op::{Expected, Write, WriteOutcome};
use serde_json::json;

use crate::fixture::{Fixture, format_of, id_of, invoice, text};

#[tokio::test]
async fn a_prompt_is_created_shown_listed_revised_and_deleted() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    let (schema, _) = test.invoice_prompt().await;
    let schema_id = id_of(&schema);
    let made = test
        .ok(
            "create_prompt",
            json!({ "name": "Totals", "content": "Read.", "schema_id": schema_id, "model": "other", "tag_ids": [tag, tag] }),
        )
        .await;
    assert_eq!((&made["version"], &made["schema_revid"]), (&json!(1), &json!(schema)));
    let revid = text(&made["prompt_revid"]);
    assert_eq!(test.context.working.prompt_revid.as_ref().unwrap().to_string(), revid);
    let shown = test.ok("get_prompt", json!({ "prompt_revid": revid })).await;
    assert_eq!(
        (&shown["content"], &shown["model"], &shown["tag_ids"]),
        (&json!("Read."), &json!("other"), &json!([tag]))
    );

    let revised = test.ok("update_prompt", json!({ "prompt_id": made["prompt_id"], "content": "Read more." })).await;
    assert_eq!((&revised["version"], &revised["schema_revid"]), (&json!(2), &json!(schema)));
    let same = test.ok("update_prompt", json!({ "prompt_id": made["prompt_id"], "content": "Read more." })).await;
    assert_eq!((&same["version"], &same["new_version"]), (&json!(2), &json!(false)));
    let bare = json!({ "prompt_id": made["prompt_id"], "schema_id": "", "model": "", "tag_ids": [] });
    let bare = test.ok("update_prompt", bare).await;
    let shown = test.ok("get_prompt", json!({ "prompt_revid": bare["prompt_revid"] })).await;
    assert_eq!((&shown["schema_revid"], &shown["model"], &shown["tag_ids"]), (&json!(null), &json!(null), &json!([])));
    assert_eq!(shown["content"], json!("Read more."));

    let listed = test.ok("list_prompts", json!({ "name_search": "tot" })).await;
    assert_eq!((&listed["total"], &listed["prompts"][0]["version"]), (&json!(1), &json!(3)));
    test.ok("delete_prompt", json!({ "prompt_id": made["prompt_id"] })).await;
    assert_eq!(test.context.working.prompt_revid, None);
    assert!(test.error_of("get_prompt", json!({ "prompt_revid": revid })).await.contains("list_prompts"));
}

#[tokio::test]
async fn creating_with_an_existing_name_adds_a_version_to_its_prompt() {
    let mut test = Fixture::new().await;
    let (_, first) = test.invoice_prompt().await;
    let second = test.ok("create_prompt", json!({ "name": "invoice", "content": "Only this." })).await;
    assert_eq!(second["version"], json!(2));
    assert!(first.starts_with(&text(&second["prompt_id"])));
    let shown = test.ok("get_prompt", json!({ "prompt_revid": second["prompt_revid"] })).await;
    assert_eq!((&shown["schema_revid"], &shown["content"]), (&json!(null), &json!("Only this.")));
}

#[tokio::test]
async fn a_new_version_keeps_the_temperature() {
    let mut test = Fixture::new().await;
    let (_, first) = test.invoice_prompt().await;
    let temperature = Some(Temperature::new("temperature", 0.7).unwrap());
    let (stores, principal) = (&test.context.resources.stores, &test.context.principal);
    let change = PromptChange::Update(PromptUpdate { temperature: Some(temperature), ..PromptUpdate::default() });
    let (id, at) = (id_of(&first).parse().unwrap(), test.context.resources.environment.now());
    let key = "temperature".parse().unwrap();
    let write = Write::by_platform(principal.org.clone(), key, at, Expected::Version(1), change);
    assert!(matches!(stores.of::<Prompt>().decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    let next = test.ok("create_prompt", json!({ "name": "Invoice", "content": "Only this." })).await;
    let revid = text(&next["prompt_revid"]).parse().unwrap();
    let principal = &test.context.principal;
    let revision = test.context.resources.stores.of::<Prompt>().revision(&principal.org, &revid).await.unwrap();
    let revision = revision.unwrap();
    assert_eq!((revision.content.as_str(), revision.temperature), ("Only this.", temperature));
}

#[tokio::test]
async fn a_prompt_links_the_newest_or_a_specified_schema_version() {
    let mut test = Fixture::new().await;
    let (schema, _) = test.invoice_prompt().await;
    let id = id_of(&schema);
    let wider = format_of(json!({ "number": { "type": "string" } }));
    let newest = test.ok("update_schema", json!({ "schema_id": id, "response_format": wider })).await;
    let arguments = json!({ "name": "newest", "content": "x", "schema_id": id });
    assert_eq!(test.ok("create_prompt", arguments).await["schema_revid"], newest["schema_revid"]);
    let arguments = json!({ "name": "first", "content": "x", "schema_id": id, "schema_version": 1 });
    assert_eq!(test.ok("create_prompt", arguments).await["schema_revid"], json!(schema));
    let arguments = json!({ "name": "ninth", "content": "x", "schema_id": id, "schema_version": 9 });
    assert!(test.error_of("create_prompt", arguments).await.contains("schema_version 9"));
    let arguments = json!({ "name": "no", "content": "x", "schema_version": 1 });
    assert!(test.error_of("create_prompt", arguments).await.contains("schema_id"));
}

#[tokio::test]
async fn a_model_that_is_unknown_or_not_for_prompts_is_refused() {
    let mut test = Fixture::new().await;
    for model in ["ghost", "chat-only"] {
        let message = test.error_of("create_prompt", json!({ "name": "a", "content": "x", "model": model })).await;
        assert!(message.contains("list_llm_models"), "{message}");
    }
    let made = test.ok("create_prompt", json!({ "name": "a", "content": "x" })).await;
    assert!(
        test.error_of("update_prompt", json!({ "prompt_id": made["prompt_id"], "model": "ghost" }))
            .await
            .contains("ghost")
    );
    let listed = test.ok("list_llm_models", json!({})).await;
    let names: Vec<_> = listed["models"].as_array().unwrap().iter().map(|model| text(&model["model"])).collect();
    assert_eq!((names, &listed["default"]), (vec!["base".to_owned(), "other".to_owned()], &json!("base")));
}

#[tokio::test]
async fn prompts_are_found_by_the_tags_that_a_document_shares() {
    let mut test = Fixture::new().await;
    let (shared, other) = (test.tag("shared").await, test.tag("other").await);
    test.ok("create_prompt", json!({ "name": "one", "content": "x", "tag_ids": [shared, other] })).await;
    test.ok("create_prompt", json!({ "name": "two", "content": "x", "tag_ids": [other] })).await;
    test.ok("create_prompt", json!({ "name": "three", "content": "x" })).await;
    let tagged = test.add_document("b.pdf", &["x"], std::slice::from_ref(&shared)).await;
    let names = |listed: serde_json::Value| -> Vec<String> {
        listed["prompts"].as_array().unwrap().iter().map(|prompt| text(&prompt["name"])).collect()
    };
    assert_eq!(names(test.ok("list_prompts", json!({ "document_id": tagged })).await), ["one"]);
    let untagged = test.document();
    assert_eq!(names(test.ok("list_prompts", json!({ "document_id": untagged })).await), Vec::<String>::new());
    assert_eq!(names(test.ok("list_prompts", json!({ "tag_ids": [other] })).await), ["two", "one"]);
    assert_eq!(names(test.ok("list_prompts", json!({ "tag_ids": [other, shared] })).await), ["one"]);
}

#[tokio::test]
async fn invalid_prompts_are_reported() {
    let mut test = Fixture::new().await;
    let ghost = folio_types::TagId::derive(&["ghost"]);
    let cases = [
        (json!({ "name": "", "content": "x" }), "name"),
        (json!({ "name": "a", "content": " " }), "content"),
        (json!({ "name": "a", "content": "x".repeat(64 * 1024 + 1) }), "content"),
        (json!({ "name": "a", "content": "x", "schema_id": "sch_1" }), "list_schemas"),
        (json!({ "name": "a", "content": "x", "tag_ids": ["billing"] }), "list_tags"),
        (json!({ "name": "a", "content": "x", "tag_ids": [ghost] }), "list_tags"),
        (json!({ "name": "a", "content": "x", "schema_id": folio_types::SchemaId::derive(&["g"]) }), "list_schemas"),
    ];
    test.assert_errors("create_prompt", cases).await;
    let made = test.ok("create_prompt", json!({ "name": "a", "content": "x" })).await;
    assert!(
        test.error_of("update_prompt", json!({ "prompt_id": made["prompt_id"] })).await.contains("Nothing to change")
    );
}

#[tokio::test]
async fn a_preview_shows_the_effect_of_a_call_and_writes_nothing() {
    let mut test = Fixture::new().await;
    let schema = test.ok("create_schema", json!({ "name": "Invoice", "response_format": invoice() })).await;
    let made = test.ok("create_prompt", json!({ "name": "Total", "content": "Read the total." })).await;
    let context = folio_tools::CallContext { is_preview: true, ..test.next() };
    let id = made["prompt_id"].clone();
    let update = json!({ "prompt_id": id, "content": "Read the sum.", "schema_id": schema["schema_id"] });
    let preview = test.write_tool("update_prompt").preview(&context, &update).await.unwrap().unwrap();
    let (changes, count) = preview.changes();
    let found: Vec<_> = changes.iter().map(|change| (change.path.as_str(), change.new.clone().unwrap())).collect();
    assert_eq!(found, [("/content", json!("Read the sum.")), ("/schema", schema["schema_revid"].clone())]);
    assert_eq!((count, changes[0].old.clone()), (2, Some(json!("Read the total."))));
    let listed = test.ok("list_prompts", json!({})).await;
    assert_eq!((&listed["total"], &listed["prompts"][0]["version"]), (&json!(1), &json!(1)));

    let create = json!({ "name": "Other", "content": "x" });
    let created = test.write_tool("create_prompt").preview(&context, &create).await.unwrap().unwrap();
    assert!(created.before.is_none() && created.after.is_some());
    let deleted =
        test.write_tool("delete_prompt").preview(&context, &json!({ "prompt_id": id })).await.unwrap().unwrap();
    assert!(deleted.before.is_some() && deleted.after.is_none());
    assert_eq!(test.ok("list_prompts", json!({})).await["total"], json!(1));
    let missing = json!({ "prompt_id": "prm_00000000000000000000000000000001" });
    assert!(test.write_tool("delete_prompt").preview(&context, &missing).await.is_err());
}
