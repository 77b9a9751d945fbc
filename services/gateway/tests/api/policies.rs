//! The approval policy of an organization, end to end.

use folio_proto::v1;
use folio_proto::v1::*;
use folio_types::{Code, Reason, Role, System};
use serde_json::json;
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};

pub(crate) fn rule(name: &str, ruling: policy_rule::Ruling) -> PolicyRule {
    PolicyRule { name: name.into(), ruling: Some(ruling), ..Default::default() }
}

pub(crate) fn when(path: &str, test: policy_condition::Test, rule: PolicyRule) -> PolicyRule {
    PolicyRule { arguments: vec![PolicyCondition { path: path.into(), test: Some(test) }], ..rule }
}

pub(crate) fn ask(roles: &[v1::Role], not_by_requester: bool) -> policy_rule::Ruling {
    policy_rule::Ruling::Ask(Ask { roles: roles.iter().map(|role| (*role).into()).collect(), not_by_requester })
}

pub(crate) async fn set(admin: &Client, rules: Vec<PolicyRule>) -> SetPolicyResponse {
    let policy = Some(Policy { rules, approval_ttl_seconds: 3_600 });
    admin.policies().set_policy(SetPolicyRequest { policy, ..Default::default() }).await.unwrap().into_inner()
}

/// Chats with `auto_approve`, and reads the stream to its end.
pub(crate) async fn chat(client: &Client, document: &str) -> Vec<Event> {
    chat_as(client, document, ChatRequest { auto_approve: true, ..Default::default() }).await
}

/// Chats with the approvals of a request, and reads the stream to its end.
pub(crate) async fn chat_as(client: &Client, document: &str, approved: ChatRequest) -> Vec<Event> {
    let request = ChatRequest { text: "do it".into(), document_ids: vec![document.into()], ..approved };
    client.chat(request).await
}

pub(crate) fn waiting(events: &[Event]) -> AwaitingApproval {
    match &events.last().unwrap().kind {
        Some(Kind::AwaitingApproval(waiting)) => waiting.clone(),
        other => panic!("no pause: {other:?}"),
    }
}

pub(crate) fn decided(turn: &AwaitingApproval, decision: decision::Decision) -> ApproveRequest {
    let call = turn.pending.iter().find(|call| call.needs_approval).unwrap();
    let decision = Decision { call_id: call.call_id.clone(), decision: Some(decision), ..Default::default() };
    ApproveRequest { turn_id: turn.turn_id.clone(), decisions: vec![decision], ..Default::default() }
}

fn approved(turn: &AwaitingApproval) -> ApproveRequest {
    decided(turn, decision::Decision::Approved(Approved {}))
}

pub(crate) async fn tags(client: &Client) -> Vec<String> {
    let list = ListTagsRequest { order_by: "name".into(), ..Default::default() };
    client.tags().list_tags(list).await.unwrap().into_inner().tags.into_iter().map(|tag| tag.name).collect()
}

pub(crate) fn named(name: &str) -> policy_condition::Test {
    policy_condition::Test::EqualsJson(json!(name).to_string())
}

#[tokio::test]
async fn invariant_2_a_rule_overrides_the_approvals_of_a_request() {
    let server = Server::start().await;
    let member = server.member().await;
    let admin = server.user(&member.org, Role::Admin).await;
    let document = member.ready_document("a.txt", "text").await.document_id;
    let rules = vec![
        when("name", named("never"), rule("never", policy_rule::Ruling::Deny(Deny {}))),
        when("name", named("ask"), rule("ask", ask(&[], false))),
    ];
    let stored = set(&admin, rules).await;
    let read = member.policies().get_policy(GetPolicyRequest::default()).await.unwrap().into_inner();
    assert_eq!((&read.policy, &read.etag), (&stored.policy, &stored.etag));

    let create = |name: &'static str| ("create_tag", json!({ "name": name }));
    server.model.next(Answer::Calls(vec![create("never"), create("fine")]));
    server.model.answer("Done.");
    let events = chat(&member, &document).await;
    assert!(matches!(events.last().unwrap().kind, Some(Kind::Completed(_))), "{events:?}");
    assert_eq!(tags(&member).await, ["fine"], "a call that no rule matches runs as the request permits");

    server.model.next(Answer::Calls(vec![create("ask")]));
    let turn = waiting(&chat(&member, &document).await);
    let left = turn.expire_time.unwrap().seconds - now_seconds();
    assert!((3_000..=3_600).contains(&left), "the policy sets the time to live: {left}");
    assert_eq!(tags(&member).await, ["fine"], "invariant 2");
    // The policy is evaluated with the edited arguments as well.
    let edited = ApprovedEdited { arguments_json: json!({"name": "never"}).to_string() };
    let error = refused(
        member.conversations().approve(decided(&turn, decision::Decision::ApprovedEdited(edited))).await,
        "edited to denied arguments",
    );
    assert_eq!((error.code, error.reason), (Code::PermissionDenied, Reason::PolicyDenied));
    server.model.answer("Made.");
    member.conversations().approve(approved(&turn)).await.unwrap();
    assert_eq!(tags(&member).await, ["ask", "fine"]);

    set(&admin, vec![rule("all", policy_rule::Ruling::Allow(Allow {}))]).await;
    server.model.next(Answer::Calls(vec![create("allowed")]));
    server.model.answer("Done.");
    chat_as(&member, &document, ChatRequest::default()).await;
    assert_eq!(tags(&member).await, ["allowed", "ask", "fine"], "no call waited");
    server.stop().await;
}

#[tokio::test]
async fn invariant_2_a_call_is_decided_only_by_the_approvers_of_its_rule() {
    let server = Server::start().await;
    let requester = server.member().await;
    let colleague = server.user(&requester.org, Role::Member).await;
    let viewer = server.user(&requester.org, Role::Viewer).await;
    let admin = server.user(&requester.org, Role::Admin).await;
    let stranger = server.member().await;
    let document = requester.ready_document("a.txt", "text").await.document_id;
    set(&admin, vec![rule("four eyes", ask(&[v1::Role::Member], true))]).await;
    server.model.next(Answer::Calls(vec![("create_tag", json!({"name": "made"}))]));
    let turn = waiting(&chat(&requester, &document).await);

    // The turn shows the rule and the approvers.
    let requirement =
        ApprovalRequirement { rule: "four eyes".into(), roles: vec![v1::Role::Member.into()], not_by_requester: true };
    assert_eq!(turn.pending[0].approval_requirement.as_ref(), Some(&requirement));
    let get = GetTurnRequest { turn_id: turn.turn_id.clone() };
    let seen = requester.conversations().get_turn(get).await.unwrap().into_inner().turn.unwrap();
    assert_eq!(seen.pending[0].approval_requirement.as_ref(), Some(&requirement));
    let own = refused(requester.conversations().approve(approved(&turn)).await, "the requester's own call");
    assert_eq!((own.code, own.reason), (Code::PermissionDenied, Reason::PolicyDenied));
    let viewed = refused(viewer.conversations().approve(approved(&turn)).await, "a viewer");
    assert_eq!(viewed.code, Code::PermissionDenied);
    let foreign = refused(stranger.conversations().approve(approved(&turn)).await, "another organization");
    assert_eq!(foreign.code, Code::NotFound);
    assert!(tags(&requester).await.is_empty(), "invariant 2");

    // An approver can read the turn and its thread while the turn is pending.
    let get = GetTurnRequest { turn_id: turn.turn_id.clone() };
    let seen = colleague.conversations().get_turn(get.clone()).await.unwrap().into_inner().turn.unwrap();
    assert_eq!(seen.status(), TurnStatus::AwaitingApproval);
    let thread = GetThreadRequest { thread_id: seen.turn_id.split('.').next().unwrap().into(), ..Default::default() };
    colleague.threads().get_thread(thread.clone()).await.unwrap();
    assert_eq!(
        refused(viewer.threads().get_thread(thread.clone()).await, "a viewer reads the thread").code,
        Code::NotFound
    );
    server.model.answer("Made.");
    colleague.conversations().approve(approved(&turn)).await.unwrap();
    assert_eq!(tags(&requester).await, ["made"]);
    let ended = colleague.conversations().get_turn(get).await.unwrap().into_inner().turn.unwrap();
    assert_eq!(ended.status(), TurnStatus::Completed);
    // The same decision again gets the same answer (invariant 7), and no other user may chat or cancel here.
    colleague.conversations().approve(approved(&turn)).await.unwrap();
    let cancel = CancelTurnRequest { turn_id: turn.turn_id.clone(), ..Default::default() };
    assert_eq!(refused(colleague.conversations().cancel_turn(cancel).await, "cancel").code, Code::NotFound);
    assert_eq!(refused(colleague.threads().get_thread(thread).await, "no call is pending").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn a_rule_that_never_matches_is_refused_and_an_etag_prevents_lost_updates() {
    let server = Server::start().await;
    let member = server.member().await;
    let admin = server.user(&member.org, Role::Admin).await;
    let typo = PolicyRule { tools: vec!["create_tags".into()], ..rule("typo", ask(&[], false)) };
    let policy = |rules, ttl| Some(Policy { rules, approval_ttl_seconds: ttl });
    let deny = || rule("deny", policy_rule::Ruling::Deny(Deny {}));
    let wrong = [
        ("rules[0].tools", policy(vec![typo], 0)),
        ("approval_ttl_seconds", policy(vec![], 31 * 24 * 3_600)),
        ("rules[0].ruling", policy(vec![PolicyRule { name: "no ruling".into(), ..Default::default() }], 0)),
        ("rules[1].profiles", policy(vec![deny(), PolicyRule { profiles: vec!["documents".into()], ..deny() }], 0)),
        ("rules[0].roles", policy(vec![PolicyRule { roles: vec![v1::Role::Viewer.into()], ..deny() }], 0)),
        ("rules[0].ask.roles", policy(vec![rule("viewers", ask(&[v1::Role::Viewer], false))], 0)),
    ];
    let wrong_conditions = [
        ("path", when("a..b", named("x"), deny())),
        ("matches", when("a", policy_condition::Test::Matches("(".into()), deny())),
        ("equals_json", when("a", policy_condition::Test::EqualsJson("null".into()), deny())),
        ("in_json", when("a", policy_condition::Test::InJson("[]".into()), deny())),
        ("in_json", when("a", policy_condition::Test::InJson(r#"["x", null]"#.into()), deny())),
    ];
    let wrong = wrong.map(|(field, policy)| (format!("policy.{field}"), policy)).into_iter();
    let wrong_conditions =
        wrong_conditions.map(|(field, rule)| (format!("policy.rules[0].arguments[0].{field}"), policy(vec![rule], 0)));
    for (field, policy) in wrong.chain(wrong_conditions) {
        let request = SetPolicyRequest { policy: policy.clone(), ..Default::default() };
        let error = refused(admin.policies().set_policy(request).await, "a wrong policy");
        assert_eq!(error.code, Code::InvalidArgument, "{policy:?}");
        assert_eq!(error.violations[0].field, field, "{policy:?}");
    }
    let first = set(&admin, vec![rule("one", ask(&[], false))]).await;
    let late = SetPolicyRequest { policy: None, etag: "v99".into(), ..Default::default() };
    assert_eq!(refused(admin.policies().set_policy(late).await, "another version").reason, Reason::VersionConflict);
    let cleared = SetPolicyRequest { policy: None, etag: first.etag.clone(), ..Default::default() };
    admin.policies().set_policy(cleared).await.unwrap();
    let read = member.policies().get_policy(GetPolicyRequest::default()).await.unwrap().into_inner();
    assert_eq!(read.policy, Some(Policy::default()));
    server.stop().await;
}

fn now_seconds() -> i64 {
    use folio_types::Environment as _;
    System.now().as_second()
}
