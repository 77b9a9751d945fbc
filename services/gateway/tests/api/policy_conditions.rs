//! Conditions of policy rules: on the arguments of calls, and on the requester of a turn.

use folio_proto::v1;
use folio_proto::v1::*;
use folio_types::{Reason, Role};
use serde_json::{Value, json};
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};
use crate::policies::{ask, chat, chat_as, decided, named, rule, set, tags, waiting, when};

fn deny(name: &str) -> PolicyRule {
    rule(name, policy_rule::Ruling::Deny(Deny {}))
}

/// Runs a turn with these calls, and returns the positions of the calls that a rule denied.
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
    let denied = |result: &ToolResult| result.content.contains("policy denies this call");
    results.iter().enumerate().filter(|(_, result)| denied(result)).map(|(position, _)| position).collect()
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
    let absent = policy_condition::Test::Absent(Absent {});
    let inner = "response_format.json_schema.name";
    let rules = vec![
        when("document_id", absent, PolicyRule { tools: vec!["delete_document".into()], ..deny("own document") }),
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
    let names: Vec<_> = list.schemas.into_iter().map(|schema| schema.name).collect();
    assert_eq!(names, ["Three"]);

    // Edited arguments are normalized before the policy is evaluated.
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

#[tokio::test]
async fn every_condition_is_evaluated_for_the_calls_of_a_turn() {
    use policy_condition::Test;
    let server = Server::start().await;
    let member = server.member().await;
    let admin = server.user(&member.org, Role::Admin).await;
    let document = member.ready_document("a.txt", "text").await.document_id;
    let of = |tool: &str, rule: PolicyRule| PolicyRule { tools: vec![tool.into()], ..rule };
    let rules = vec![
        of("create_tag", when("name", Test::InJson(r#"["one", "two"]"#.into()), deny("in"))),
        of("create_tag", when("name", Test::Matches("(?i)^invoice$".into()), deny("matches"))),
        of("create_tag", when("color", Test::Absent(Absent {}), deny("absent"))),
        of("list_tags", when("limit", Test::Less(10.0), deny("less"))),
        of("list_tags", when("limit", Test::Greater(50.0), deny("greater"))),
    ];
    set(&admin, rules).await;
    let tag = |name: &str| ("create_tag", json!({ "name": name, "color": "#112233" }));
    let list = |limit: u32| ("list_tags", json!({ "limit": limit }));
    let bare = ("create_tag", json!({ "name": "four" }));
    let calls = vec![tag("one"), tag("two"), tag("three"), tag("INVOICE"), bare];
    assert_eq!(denied(&server, &member, &document, calls).await, [0, 1, 3, 4]);
    assert_eq!(tags(&member).await, ["three"]);
    let calls = vec![list(9), list(10), list(50), list(51), ("list_tags", json!({}))];
    assert_eq!(denied(&server, &member, &document, calls).await, [0, 3]);
    server.stop().await;
}

#[tokio::test]
async fn invariant_2_a_rule_matches_user_and_profile_and_overrides_approved_tools() {
    let server = Server::start().await;
    let one = server.member().await;
    let two = server.user(&one.org, Role::Member).await;
    let admin = server.user(&one.org, Role::Admin).await;
    let document = one.ready_document("a.txt", "text").await.document_id;
    let about = |name: &str, rule: PolicyRule| when("name", named(name), rule);
    let rules = vec![
        about("user", PolicyRule { user_ids: vec![one.user.to_string()], ..deny("the user") }),
        about("role", PolicyRule { roles: vec![v1::Role::Admin.into()], ..deny("the role") }),
        about("profile", PolicyRule { profiles: vec!["document".into()], ..deny("the profile") }),
    ];
    let calls = || ["user", "role", "profile", "none"].map(|name| ("create_tag", json!({ "name": name }))).to_vec();
    let read = set(&admin, rules).await.policy.unwrap();
    assert_eq!(read.rules[0].user_ids, [one.user.to_string()]);
    assert_eq!(denied(&server, &one, &document, calls()).await, [0, 2]);
    assert_eq!(tags(&one).await, ["none", "role"]);
    assert_eq!(denied(&server, &admin, &document, calls()).await, [1, 2]);
    assert_eq!(denied(&server, &two, &document, calls()).await, [2]);

    // By the name of its tool a call is let run no more than by `auto_approve`.
    let rules = vec![about("deny", deny("deny")), about("ask", rule("ask", ask(&[], false)))];
    set(&admin, rules).await;
    let approved = || ChatRequest { auto_approved_tools: vec!["create_tag".into()], ..Default::default() };
    let create = |name: &str| ("create_tag", json!({ "name": name }));
    server.model.next(Answer::Calls(vec![create("deny"), create("free")]));
    server.model.answer("Done.");
    chat_as(&one, &document, approved()).await;
    server.model.next(Answer::Calls(vec![create("ask")]));
    let turn = waiting(&chat_as(&one, &document, approved()).await);
    assert_eq!(turn.pending[0].approval_requirement.as_ref().unwrap().rule, "ask");
    let stored_tags = tags(&one).await;
    assert!(stored_tags.contains(&"free".to_owned()), "{stored_tags:?}");
    assert!(
        !stored_tags.contains(&"deny".to_owned()) && !stored_tags.contains(&"ask".to_owned()),
        "invariant 2: {stored_tags:?}"
    );
    server.stop().await;
}
