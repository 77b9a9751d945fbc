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

async fn pause_with(server: &Server, client: &Client, tag: &'static str, request: ChatRequest) -> String {
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": tag }))]));
    let request = ChatRequest { text: "do it".into(), ..request };
    match client.chat(request).await.pop().unwrap().kind {
        Some(Kind::AwaitingApproval(waiting)) => waiting.turn_id,
        other => panic!("no pause: {other:?}"),
    }
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
