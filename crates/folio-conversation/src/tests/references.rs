//! Calls of one round that refer to one another.

use serde_json::Value;

use super::*;

fn creations() -> [(&'static str, Value); 3] {
    let schema = json!({"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema":
        {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
         "additionalProperties": false}}});
    [
        ("create_schema", json!({"name": "S", "response_format": schema})),
        ("create_prompt", json!({"name": "P", "content": "Extract.", "schema_id": "$create_schema.schema_id"})),
        ("update_prompt", json!({"prompt_id": "$create_prompt.prompt_id", "content": "Extract the total."})),
    ]
}

#[tokio::test]
async fn one_approval_creates_a_schema_and_a_prompt_that_is_linked_to_it() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(calls(&creations())).await;
    for (shown, (_, arguments)) in pending.iter().zip(creations()) {
        assert!(shown.needs_approval && shown.digest == Digest::of_json(&arguments), "the digest covers the reference");
    }
    sandbox.models.then([say("Made them.")]);
    let answer = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    let ApproveAnswer::Reached { round, .. } = &answer else { panic!("{answer:?}") };
    assert!(round.results.iter().all(|result| result.status == CallStatus::Ok), "{:?}", round.results);
    let results: Vec<Value> =
        round.results.iter().map(|result| serde_json::from_str(&result.content).unwrap()).collect();
    assert_eq!(results[1]["schema_revid"], results[0]["schema_revid"]);
    assert_eq!((&results[2]["prompt_id"], &results[2]["version"]), (&results[1]["prompt_id"], &json!(2)));
    let intents: Vec<Option<Value>> = sandbox
        .journal(&turn.thread)
        .await
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Intent(intent) => Some(intent.arguments),
            _ => None,
        })
        .collect();
    let ids = |index: usize, argument: &str| intents[index].as_ref().map(|arguments| arguments[argument].clone());
    assert_eq!((intents.len(), &intents[0]), (3, &None));
    assert_eq!(ids(1, "schema_id").as_ref(), Some(&results[0]["schema_id"]));
    assert_eq!(ids(2, "prompt_id").as_ref(), Some(&results[1]["prompt_id"]));
    assert_eq!(sandbox.models.requests().len(), 2, "one response with three calls, and the answer");
    let repeated = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    assert_eq!(repeated, answer, "invariant 7");
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn after_a_rejection_the_calls_that_refer_to_the_call_do_not_run() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(calls(&creations())).await;
    sandbox.models.then([say("Well.")]);
    let rejected = Decision::Reject { reason: None };
    let decisions = [(&pending[0], rejected), (&pending[1], Decision::Approve), (&pending[2], Decision::Approve)];
    let answer = sandbox.approve_with(decide(&turn, &decisions)).await.unwrap();
    let ApproveAnswer::Reached { round, .. } = &answer else { panic!("{answer:?}") };
    let statuses: Vec<CallStatus> = round.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [CallStatus::Rejected, CallStatus::NotRun, CallStatus::NotRun]);
    assert!(round.results[1].content.contains("$create_schema.schema_id"), "{}", round.results[1].content);
    sandbox.finish().await;
}

#[tokio::test]
async fn an_invalid_reference_is_an_error_of_the_call_and_of_an_edit() {
    let sandbox = Sandbox::start().await;
    let [schema, prompt, _] = creations();
    sandbox.models.then([calls(&[prompt]), say("Sorry.")]);
    let events = sandbox.run(sandbox.chat("please")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    let result = &rounds[0].results[0];
    assert_eq!(result.status, CallStatus::Failed);
    assert!(result.content.contains("write \"$create_schema.schema_id\""), "{}", result.content);

    let (turn, pending) = sandbox.pause_at(calls(&creations())).await;
    for reference in ["$create_prompt.prompt_id", "$update_prompt.prompt_id", "$create_schema.schema_revid"] {
        let arguments = json!({"name": "P", "content": "Extract.", "schema_id": reference});
        let edited = decide(&turn, &[(&pending[1], Decision::ApproveEdited { arguments })]);
        let error = sandbox.approve_with(edited).await.unwrap_err();
        assert_eq!(error.reason, Reason::SchemaMismatch, "{reference}");
        assert!(error.message.contains("$create_schema.schema_id"), "{}", error.message);
    }
    assert_eq!(sandbox.turn(&turn).await.status, TurnStatus::AwaitingApproval);
    sandbox.models.then([say("Done.")]);
    let other = json!({"name": "Another", "response_format": schema.1["response_format"]});
    let edited = Decision::ApproveEdited { arguments: other };
    let decisions = [(&pending[0], edited), (&pending[1], Decision::Approve), (&pending[2], Decision::Approve)];
    let answer = sandbox.approve_with(decide(&turn, &decisions)).await.unwrap();
    let ApproveAnswer::Reached { round, .. } = &answer else { panic!("{answer:?}") };
    assert!(round.results.iter().all(|result| result.status == CallStatus::Ok), "{:?}", round.results);
    sandbox.finish().await;
}
