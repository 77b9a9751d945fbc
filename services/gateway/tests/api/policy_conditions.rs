//! What a rule of the policy is about: calls by their arguments, and turns by who asks.

use folio_proto::v1;
use folio_proto::v1::*;
use folio_types::{Reason, Role};
use serde_json::{Value, json};
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};
use crate::policies::{ask, chat, decided, named, rule, set, waiting, when};

fn deny(name: &str) -> PolicyRule {
    rule(name, policy_rule::Ruling::Deny(Deny {}))
}

/// Plays a turn of these calls, and gives which of them a rule denied, by their place.
async fn denied(server: &Server, client: &Client, document: &str, calls: Vec<(&'static str, Value)>) -> Vec<usize> {
    server.model.next(Answer::Calls(calls));
    server.model.answer("Done.");
    let events = chat(client, document).await;
    assert!(matches!(events.last().unwrap().kind, Some(Kind::Completed(_))), "{events:?}");
    let mut results: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event.kind {
            Some(Kind::ToolResult(result)) => Some(result),
            _ => None,
        })
        .collect();
    results.sort_by_key(|result| result.call_id.rsplit('.').next().unwrap().parse::<usize>().unwrap());
    let denied = |result: &ToolResult| result.content.contains("the organization's policy does not allow this call");
    results.iter().enumerate().filter(|(_, result)| denied(result)).map(|(place, _)| place).collect()
}

fn format(name: &str) -> Value {
    let schema = json!({
        "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
        "additionalProperties": false,
    });
    json!({ "type": "json_schema", "json_schema": { "name": name, "schema": schema, "strict": true } })
}

#[tokio::test]
async fn invariant_2_a_condition_holds_however_an_argument_is_spelled() {
    let server = Server::start().await;
    let member = server.member().await;
    let admin = server.user(&member.org, Role::Admin).await;
    let own = member.ready_document("own.txt", "text").await.document_id;
    let other = member.ready_document("other.txt", "text").await.document_id;
    let left_out = policy_condition::Test::Absent(Absent {});
    let inner = "response_format.json_schema.name";
    let rules = vec![
        when("document_id", left_out, PolicyRule { tools: vec!["delete_document".into()], ..deny("own document") }),
        when(inner, named("secret"), deny("secret schemas")),
        when("document_id", named(&other), rule("other document", ask(&[], false))),
    ];
    set(&admin, rules).await;

    let delete = |arguments: Value| ("delete_document", arguments);
    let spellings = [json!({}), json!({"document_id": null}), json!({"document_id": ""})];
    let calls = spellings.clone().map(delete).to_vec();
    assert_eq!(denied(&server, &member, &own, calls).await, [0, 1, 2]);
    let schema = |name: &str, format: Value| ("create_schema", json!({ "name": name, "response_format": format }));
    let calls = vec![
        schema("One", format("secret")),
        schema("Two", json!(format("secret").to_string())),
        schema("Three", json!(format("open").to_string())),
    ];
    assert_eq!(denied(&server, &member, &own, calls).await, [0, 1]);
    let list = member.schemas().list_schemas(ListSchemasRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.schemas.iter().map(|schema| schema.name.as_str()).collect::<Vec<_>>(), ["Three"]);

    // What is edited is spelled the same way before it is judged.
    server.model.next(Answer::Calls(vec![delete(json!({ "document_id": other }))]));
    let turn = waiting(&chat(&member, &own).await);
    for arguments in spellings {
        let edited = ApprovedEdited { arguments_json: arguments.to_string() };
        let request = decided(&turn, decision::Decision::ApprovedEdited(edited));
        let error = refused(member.conversations().approve(request).await, "edited to what is denied");
        assert_eq!(error.reason, Reason::PolicyDenied, "{arguments}");
    }
    let documents = member.documents().list_documents(ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(documents.documents.len(), 2, "invariant 2");
    server.stop().await;
}
