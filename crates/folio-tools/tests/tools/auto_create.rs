//! Tests of the bounds of a run without a person.

use folio_history::job;
use folio_resources::{Extraction, Resource as _};
use folio_tools::auto_create::{REFINEMENTS_MAX, check_plan};
use folio_tools::extraction::Options;
use folio_tools::{CallContext, Registry, ToolError};
use folio_types::ProposalId;
use folio_types::profile::Subject;
use serde_json::{Value, json};

use crate::extraction::long_document;
use crate::fixture::{Fixture, format_of, text};

/// Plans a call as a turn does: plans the write, and checks the plan. Returns the message for the model if it is refused.
async fn refused(test: &Fixture, context: &CallContext, name: &str, arguments: Value) -> Option<String> {
    let plan = test.plan(context, name, &arguments).await.unwrap();
    match check_plan(context, &arguments, &plan).await {
        Ok(()) => None,
        Err(ToolError::ForModel(text)) => Some(text),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_changes_only_what_it_has_created() {
    let mut test = Fixture::new().await;
    let format = format_of(json!({ "total": { "type": "number" } }));
    // A person has created these in a conversation.
    let schema = test.ok("create_schema", json!({ "name": "Invoice", "response_format": format })).await;
    let prompt = test.ok("create_prompt", json!({ "name": "Invoice", "content": "Read it." })).await;
    let tag = test.ok("create_tag", json!({ "name": "invoice" })).await;

    test.tools = Registry::standard().unwrap().profile("auto_create").unwrap();
    let of_person = test.context.clone();
    test.context.subject = Some(Subject::Proposal(ProposalId::derive(&["p"])));
    test.context.call.turn.number = 2;
    let context = test.next();
    let update = json!({ "schema_id": schema["schema_id"], "response_format": format });
    let create = json!({ "name": "Invoice", "response_format": format });
    let with_tag = json!({ "name": "New", "content": "Read it.", "tag_ids": [tag["tag_id"]] });
    let foreign = json!({ "prompt_revid": prompt["prompt_revid"] });
    let calls = [
        ("update_schema", update.clone()),
        ("create_schema", create),
        ("delete_prompt", json!({ "prompt_id": prompt["prompt_id"] })),
        ("delete_document", json!({})),
        ("create_prompt", with_tag),
        ("run_extraction", foreign),
    ];
    for (name, arguments) in calls {
        assert!(refused(&test, &context, name, arguments).await.is_some(), "{name}");
    }
    let of_person = CallContext { call: test.next().call, ..of_person };
    assert_eq!(refused(&test, &of_person, "update_schema", update).await, None, "a conversation has no such bounds");

    // The run has created these.
    let schema = test.ok("create_schema", json!({ "name": "Receipt", "response_format": format })).await;
    let new = json!({ "name": "Receipt", "content": "Read it.", "schema_id": schema["schema_id"] });
    let prompt = test.ok("create_prompt", new).await;
    let context = test.next();
    let update = json!({ "prompt_id": prompt["prompt_id"], "content": "Read all." });
    assert_eq!(refused(&test, &context, "update_prompt", update).await, None);
    let run = json!({ "prompt_revid": text(&prompt["prompt_revid"]) });
    for _ in 0..=REFINEMENTS_MAX {
        assert_eq!(refused(&test, &test.next(), "run_extraction", run.clone()).await, None);
        test.models.answer(r#"{"total": 120.5}"#);
        test.ok("run_extraction", run.clone()).await;
    }
    let message = refused(&test, &test.next(), "run_extraction", run).await.unwrap();
    assert!(message.contains("2 refinements"), "{message}");
}

#[tokio::test]
async fn a_run_extracts_a_long_document_within_its_call() {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    long_document(&mut test).await;
    test.context.resources.extraction = Options { request_windows_max: 1, ..Options::default() };
    let planned = async |test: &Fixture| {
        let plan = test.plan(&test.next(), "run_extraction", &json!({})).await.unwrap();
        plan.target.kind().to_owned()
    };
    assert_eq!(planned(&test).await, job::KIND, "a call of a conversation starts a job");
    test.context.subject = Some(Subject::Proposal(ProposalId::derive(&["p"])));
    assert_eq!(planned(&test).await, Extraction::KIND);
    for _ in 0..=10 {
        test.models.answer(r#"{"total": 957.5}"#);
    }
    assert_eq!(test.ok("run_extraction", json!({})).await["data"], json!({ "total": 957.5 }));
    assert!(test.models.requests().len() > 1, "the document has several windows");
}
