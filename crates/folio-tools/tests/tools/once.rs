//! Tests of invariant 3: effects happen once, regardless of crashes.

use folio_tools::ToolError;
use folio_types::op::{ClosedAs, OpKey, OpRow, OpState};
use folio_types::{Digest, Reason, Timestamp};
use serde_json::{Value, json};

use crate::fixture::{Fixture, format_of, id_of, invoice};

/// Returns every write tool with arguments that are valid in the returned fixture.
async fn prepared() -> (Fixture, Vec<(&'static str, Value)>) {
    let mut test = Fixture::new().await;
    let (schema, prompt) = test.invoice_prompt().await;
    let tag = test.tag("billing").await;
    test.extract(r#"{"total": 1}"#).await;
    test.ok("dictionary_upsert", json!({ "term": "MY", "expansion": "Malaysia" })).await;
    let spare = test.ok("create_schema", json!({ "name": "Spare", "response_format": invoice() })).await;
    let wider = format_of(json!({ "number": { "type": "string" } }));
    let calls = vec![
        ("create_schema", json!({ "name": "New", "response_format": invoice() })),
        ("create_schema", json!({ "name": "Invoice", "response_format": wider })),
        ("update_schema", json!({ "schema_id": id_of(&schema), "name": "Renamed" })),
        ("delete_schema", json!({ "schema_id": spare["schema_id"] })),
        ("create_prompt", json!({ "name": "New", "content": "x", "schema_id": id_of(&schema) })),
        ("create_prompt", json!({ "name": "Invoice", "content": "y" })),
        ("update_prompt", json!({ "prompt_id": id_of(&prompt), "content": "z" })),
        ("create_tag", json!({ "name": "New" })),
        ("update_tag", json!({ "tag_id": tag, "color": "#000000" })),
        ("delete_tag", json!({ "tag_id": tag })),
        ("dictionary_upsert", json!({ "term": "NEW", "expansion": "North East Wales", "confidence": 0.5 })),
        ("dictionary_upsert", json!({ "term": "my", "expansion": "Model Year" })),
        ("run_extraction", json!({ "prompt_revid": prompt })),
        ("update_extraction_field", json!({ "path": "total", "value": 5 })),
        ("delete_prompt", json!({ "prompt_id": id_of(&prompt) })),
        ("update_document", json!({ "document_name": "other.pdf" })),
        ("delete_document", json!({})),
    ];
    (test, calls)
}

#[tokio::test]
async fn invariant_3_a_call_that_runs_twice_gives_the_first_result() {
    let (test, calls) = prepared().await;
    for (name, arguments) in calls {
        let context = test.next();
        let plan = test.plan(&context, name, &arguments).await.unwrap();
        if name == "run_extraction" {
            // The model has only one answer, so a second model call would fail.
            test.models.answer(r#"{"total": 2}"#);
        }
        let first = test.run(&context, name, &arguments, &plan).await.unwrap();
        let second = test.run(&context, name, &arguments, &plan).await.unwrap();
        assert_eq!(first, second, "{name}");
        // Recovery reads the op row and returns the same result.
        let op = OpKey::Call(context.call.clone());
        let row =
            test.context.resources.stores.ops.row(&context.principal.org, &plan.target, &op).await.unwrap().unwrap();
        assert_eq!(row.digest, Digest::of_json(&arguments), "{name}");
        let OpState::Done(result) = row.state else { panic!("{name}: {row:?}") };
        assert_eq!(test.write_tool(name).output(&plan.target, result, &arguments), first, "{name}");
    }
}

#[tokio::test]
async fn invariant_3_a_call_whose_op_is_closed_never_runs_and_another_digest_does_not_answer_it() {
    for closed in [ClosedAs::Aborted, ClosedAs::Conflict] {
        let (test, calls) = prepared().await;
        for (name, arguments) in calls {
            let context = test.next();
            let plan = test.plan(&context, name, &arguments).await.unwrap();
            let (org, op) = (&context.principal.org, OpKey::Call(context.call.clone()));
            let at = Timestamp::constant(1_790_000_000, 0);
            let own = Digest::of_json(&arguments);
            let digest = if closed == ClosedAs::Aborted { own } else { Digest::of(b"other arguments") };
            let ops = &test.context.resources.stores.ops;
            ops.close(org, &plan.target, OpRow::closed(op.clone(), digest, closed, at)).await.unwrap();
            let ran = test.run(&context, name, &arguments, &plan).await;
            if closed == ClosedAs::Conflict {
                let Err(ToolError::Failed(error)) = ran else { panic!("{name}: {ran:?}") };
                assert_eq!(error.reason, Reason::RequestIdConflict, "{name}");
                continue;
            }
            assert_eq!(ran, Err(ToolError::Conflict), "{name}");
            let row = ops.row(org, &plan.target, &op).await.unwrap().unwrap();
            assert_eq!(row.state, OpState::Aborted, "{name}");
        }
        assert_eq!(test.models.requests().len(), 1, "no model was asked for a call that was closed");
    }
}

#[tokio::test]
async fn invariant_3_a_target_with_another_version_is_not_changed() {
    let (mut test, calls) = prepared().await;
    for (name, arguments) in calls {
        let context = test.next();
        let plan = test.plan(&context, name, &arguments).await.unwrap();
        if !matches!(plan.expected, folio_types::op::Expected::Version(_)) {
            continue;
        }
        let mut stale = plan.clone();
        stale.expected = folio_types::op::Expected::Version(999);
        assert_eq!(test.run(&context, name, &arguments, &stale).await, Err(ToolError::Conflict), "{name}");
        let op = OpKey::Call(context.call.clone());
        let row = test.context.resources.stores.ops.row(&context.principal.org, &plan.target, &op).await.unwrap();
        assert_eq!(row, None, "{name}");
    }
    // Another writer changes the target between plan and run.
    let schema = test.ok("create_schema", json!({ "name": "Racy", "response_format": invoice() })).await;
    let arguments = json!({ "schema_id": schema["schema_id"], "name": "Mine" });
    let context = test.next();
    let plan = test.plan(&context, "update_schema", &arguments).await.unwrap();
    test.ok("update_schema", json!({ "schema_id": schema["schema_id"], "name": "Theirs" })).await;
    assert_eq!(test.run(&context, "update_schema", &arguments, &plan).await, Err(ToolError::Conflict));
}

#[tokio::test]
async fn a_name_that_is_taken_between_plan_and_run_is_reported() {
    let mut test = Fixture::new().await;
    let arguments = json!({ "name": "Raced", "response_format": invoice() });
    let context = test.next();
    let plan = test.plan(&context, "create_schema", &arguments).await.unwrap();
    test.ok("create_schema", arguments.clone()).await;
    let message = test.run(&context, "create_schema", &arguments, &plan).await.unwrap_err();
    assert!(matches!(&message, ToolError::ForModel(text) if text.contains("Raced")), "{message:?}");
}
