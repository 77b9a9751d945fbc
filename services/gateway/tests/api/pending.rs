//! Pending approvals across threads.

use std::time::Duration;

use folio_history::thread::Phase;
use folio_proto::v1;
use folio_proto::v1::*;
use folio_storage::SharedTurn;
use folio_testkit::wait_for;
use folio_types::policy::Approver;
use folio_types::{Code, Environment as _, Incarnation, Reason, Role, System, ThreadId, TurnId, UserId};
use serde_json::json;
use v1::event::Kind;
use watch_pending_approvals_response::Change;

use crate::harness::{Answer, Client, Server, refused};

const SOON: Duration = Duration::from_secs(20);

/// Chats until the turn pauses; returns the turn.
async fn pause(server: &Server, client: &Client, tag: &'static str) -> String {
    let document = client.ready_document(&format!("{tag}.txt"), "text").await.document_id;
    pause_with(server, client, tag, ChatRequest { document_ids: vec![document], ..Default::default() }).await
}

/// Chats in an existing thread until the turn pauses; returns the turn.
async fn pause_in(server: &Server, client: &Client, tag: &'static str, thread: &str) -> String {
    pause_with(server, client, tag, ChatRequest { thread_id: thread.into(), ..Default::default() }).await
}

async fn pause_with(server: &Server, client: &Client, tag: &'static str, request: ChatRequest) -> String {
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": tag }))]));
    let request = ChatRequest { text: "do it".into(), ..request };
    match client.chat(request).await.pop().unwrap().kind {
        Some(Kind::AwaitingApproval(waiting)) => waiting.turn_id,
        other => panic!("no pause: {other:?}"),
    }
}

fn thread_of(turn: &str) -> &str {
    turn.rsplit_once('.').unwrap().0
}

async fn decide(server: &Server, client: &Client, turn: &str) {
    server.model.answer("Done.");
    let reject =
        ApproveRequest { turn_id: turn.into(), round: 1, undecided: Undecided::Reject.into(), ..Default::default() };
    client.conversations().approve(reject).await.unwrap();
}

/// Lists the ids of the turns that wait for the caller, page by page.
async fn listed(client: &Client, page_size: i32) -> Vec<String> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListPendingApprovalsRequest { page_size, page_token, ..Default::default() };
        let page = client.conversations().list_pending_approvals(request).await.unwrap().into_inner();
        assert!(page.pending_approvals.len() <= page_size as usize);
        all.extend(page.pending_approvals.into_iter().map(|found| found.turn_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

async fn lists(client: &Client, turns: &[&String]) {
    wait_for("the listed turns", SOON, || async {
        let found = listed(client, 1).await;
        (found.iter().collect::<Vec<_>>() == turns).then_some(())
    })
    .await;
}

async fn require_another_approver(admin: &Client) {
    let ask = Ask { roles: vec![v1::Role::Member.into()], not_by_requester: true };
    let named = PolicyCondition {
        path: "name".into(),
        test: Some(policy_condition::Test::EqualsJson(json!("shared").to_string())),
    };
    let rule = PolicyRule {
        name: "four eyes".into(),
        arguments: vec![named],
        ruling: Some(policy_rule::Ruling::Ask(ask)),
        ..Default::default()
    };
    let policy = Some(Policy { rules: vec![rule], ..Default::default() });
    admin.policies().set_policy(SetPolicyRequest { policy, ..Default::default() }).await.unwrap();
}

#[tokio::test]
async fn invariant_6_pending_turns_are_listed_for_their_approvers_oldest_first() {
    let server = Server::start().await;
    let requester = server.member().await;
    let colleague = server.user(&requester.org, Role::Member).await;
    let admin = server.user(&requester.org, Role::Admin).await;
    let viewer = server.user(&requester.org, Role::Viewer).await;
    let stranger = server.user(&server.member().await.org, Role::Admin).await;
    require_another_approver(&admin).await;
    let own = pause(&server, &requester, "own").await;
    let shared = pause(&server, &requester, "shared").await;
    let other = pause(&server, &colleague, "other").await;

    lists(&admin, &[&own, &shared, &other]).await;
    lists(&colleague, &[&shared, &other]).await;
    lists(&requester, &[&own]).await;
    lists(&stranger, &[]).await;
    let error = refused(
        viewer.conversations().list_pending_approvals(ListPendingApprovalsRequest::default()).await,
        "a viewer's list",
    );
    assert_eq!(error.code, Code::PermissionDenied);
    let request = ListPendingApprovalsRequest::default();
    let page = colleague.conversations().list_pending_approvals(request).await.unwrap().into_inner();
    let first = &page.pending_approvals[0];
    assert_eq!((&first.user_id, first.calls[0].name.as_str()), (&requester.user.to_string(), "create_tag"));
    assert_eq!(
        first.calls[0]
            .approval_requirement
            .as_ref()
            .map(|requirement| (requirement.rule.as_str(), requirement.not_by_requester)),
        Some(("four eyes", true))
    );
    assert!(first.turn_id.starts_with(&first.thread_id));
    assert!(first.pause_time.unwrap().seconds < first.expire_time.unwrap().seconds);

    let of_colleague = ListPendingApprovalsRequest { filter: format!("user:{}", colleague.user), ..Default::default() };
    let page = admin.conversations().list_pending_approvals(of_colleague).await.unwrap().into_inner();
    assert_eq!(page.pending_approvals.len(), 1);
    assert_eq!(page.pending_approvals[0].turn_id, other);

    decide(&server, &colleague, &shared).await;
    // A decided turn is not listed, although the index is late.
    assert_eq!(listed(&admin, 10).await, [own, other.clone()]);
    assert_eq!(listed(&colleague, 10).await, [other]);
    server.stop().await;
}

#[tokio::test]
async fn the_requester_is_the_user_that_started_the_turn_not_the_owner_of_the_thread() {
    let server = Server::start().await;
    let owner = server.member().await;
    let admin = server.user(&owner.org, Role::Admin).await;
    require_another_approver(&admin).await;
    let thread = thread_of(&pause(&server, &owner, "own").await).to_owned();
    decide(&server, &owner, &format!("{thread}.1")).await;
    let turn = pause_in(&server, &admin, "shared", &thread).await;

    lists(&owner, &[&turn]).await;
    assert_eq!(listed(&admin, 10).await, Vec::<String>::new(), "the requester does not decide its own call");
    let of = async |user: &UserId| {
        let request = ListPendingApprovalsRequest { filter: format!("user:{user}"), ..Default::default() };
        owner.conversations().list_pending_approvals(request).await.unwrap().into_inner().pending_approvals
    };
    assert_eq!(of(&owner.user).await, []);
    let found = of(&admin.user).await;
    assert_eq!((found.len(), &found[0].user_id, &found[0].turn_id), (1, &admin.user.to_string(), &turn));

    let approved = Decision {
        call_id: found[0].calls[0].call_id.clone(),
        decision: Some(decision::Decision::Approved(Approved {})),
        ..Default::default()
    };
    let approve = ApproveRequest { turn_id: turn, decisions: vec![approved], ..Default::default() };
    let own = refused(admin.conversations().approve(approve.clone()).await, "the requester");
    assert_eq!(own.reason, Reason::PolicyDenied);
    server.model.answer("Done.");
    owner.conversations().approve(approve).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_stream_reports_pending_turns_and_their_end() {
    let server = Server::start().await;
    let member = server.member().await;
    let stranger = server.member().await;
    let before = pause(&server, &member, "before").await;
    lists(&member, &[&before]).await;
    let watch = async |client: &Client| {
        client
            .conversations()
            .watch_pending_approvals(WatchPendingApprovalsRequest::default())
            .await
            .unwrap()
            .into_inner()
    };
    let (mut mine, mut other_stream) = (watch(&member).await, watch(&stranger).await);
    let mut next = async || {
        let message = tokio::time::timeout(SOON, mine.message()).await.expect("a message");
        message.unwrap().unwrap().change.unwrap()
    };
    let waits = |change: Change| match change {
        Change::PendingApproval(found) => found.turn_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(waits(next().await), before);
    assert_eq!(next().await, Change::CaughtUp(CaughtUp {}));
    let after = pause(&server, &member, "after").await;
    assert_eq!(waits(next().await), after);
    decide(&server, &member, &before).await;
    assert_eq!(next().await, Change::RemovedTurnId(before));
    let change = other_stream.message().await.unwrap().unwrap().change.unwrap();
    assert_eq!(change, Change::CaughtUp(CaughtUp {}), "invariant 6");
    let silence = tokio::time::timeout(Duration::from_millis(50), other_stream.message()).await;
    assert!(silence.is_err(), "{silence:?}");
    // The drain ends the stream and does not wait for it.
    server.stop().await;
    let error = refused(other_stream.message().await, "a stream of a gateway that drains");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Draining));
}

#[tokio::test]
async fn a_watcher_sees_its_turns_behind_any_number_of_turns_of_other_approvers() {
    let server = Server::start().await;
    let member = server.member().await;
    let now = System.now();
    for number in 0..5_000 {
        let turn = TurnId::new(ThreadId::derive(&[&number.to_string()]), 1);
        let state = SharedTurn {
            org: member.org.clone(),
            user: UserId::derive(&["another"]),
            requester: UserId::derive(&["another"]),
            turn,
            owner: Incarnation::derive(&["owner"]),
            epoch: 1,
            version: 1,
            phase: Some(Phase::Paused),
            pending: Vec::new(),
            since: Some(now - Duration::from_secs(3_600)),
            expires_at: Some(now + Duration::from_secs(3_600)),
            approvers: vec![Approver { roles: vec![Role::Admin], not_by_requester: false }],
        };
        assert!(server.turns.publish(&state).await.unwrap());
    }
    let mine = pause(&server, &member, "mine").await;
    let watch = WatchPendingApprovalsRequest::default();
    let mut stream = member.conversations().watch_pending_approvals(watch).await.unwrap().into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(SOON, stream.message()).await.expect("a message");
        message.unwrap().unwrap().change.unwrap()
    };
    assert!(matches!(next().await, Change::PendingApproval(found) if found.turn_id == mine));
    assert_eq!(next().await, Change::CaughtUp(CaughtUp {}));
    decide(&server, &member, &mine).await;
    assert_eq!(next().await, Change::RemovedTurnId(mine));
    drop(stream);
    server.stop().await;
}
