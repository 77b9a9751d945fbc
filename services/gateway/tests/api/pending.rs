//! Pending approvals across threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use folio_gateway::Options;
use folio_history::journal::Entry;
use folio_history::thread::Phase;
use folio_proto::v1::*;
use folio_resources::policy::Approver;
use folio_storage::{SharedTurn, Stores, ThreadStore};
use folio_storage_conformance::layer::{Layered, ThreadLayer};
use folio_testkit::wait_for;
use folio_types::{Code, Environment as _, Incarnation, OrgId, Reason, Role, System, ThreadId, TurnId, UserId};
use serde_json::json;
use tonic::Streaming;
use watch_pending_approvals_response::Change;

use crate::harness::{Answer, Client, Server, refused};

const SOON: Duration = Duration::from_secs(20);

/// Chats until the turn pauses; returns the turn.
async fn pause(server: &Server, client: &Client, tag: &'static str) -> String {
    let document = client.ready_document(&format!("{tag}.txt"), "text").await.document_id;
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": tag }))]));
    let events = client.stream("Chat", json!({"text": "do it", "document_ids": [document]})).await;
    let turn = &events.last().unwrap()["event"]["awaiting_approval"]["turn_id"];
    turn.as_str().unwrap_or_else(|| panic!("no pause: {events:?}")).to_owned()
}

async fn decide(server: &Server, client: &Client, turn: &str) {
    server.model.answer("Done.");
    client.call_ok("Approve", json!({"turn_id": turn, "round": 1, "undecided": "UNDECIDED_REJECT"})).await;
}

/// Waits until the index has a turn. Returns its entry.
async fn published(server: &Server, client: &Client, turn: &str) -> SharedTurn {
    let turn: TurnId = turn.parse().unwrap();
    let read = async || server.turns.get(&client.org, &turn).await.unwrap();
    wait_for("the index has the turn", SOON, read).await
}

async fn watch(client: &Client) -> Streaming<WatchPendingApprovalsResponse> {
    let request = WatchPendingApprovalsRequest::default();
    client.conversations().watch_pending_approvals(request).await.unwrap().into_inner()
}

async fn next(stream: &mut Streaming<WatchPendingApprovalsResponse>) -> Change {
    let message = tokio::time::timeout(SOON, stream.message()).await.expect("a message");
    message.unwrap().unwrap().change.unwrap()
}

/// Returns the change that a stream reports within a moment. Skips keep-alives. None: the stream reports no change.
async fn change_at_once(stream: &mut Streaming<WatchPendingApprovalsResponse>) -> Option<Change> {
    loop {
        let message = tokio::time::timeout(Duration::from_millis(50), stream.message()).await.ok()?;
        match message.unwrap().unwrap().change.unwrap() {
            Change::CaughtUp(_) => {}
            change => return Some(change),
        }
    }
}

/// Returns the turn that a stream reports as pending.
async fn waiting(stream: &mut Streaming<WatchPendingApprovalsResponse>) -> String {
    match next(stream).await {
        Change::PendingApproval(found) => found.turn_id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_stream_reports_pending_turns_and_their_end() {
    let server = Server::start().await;
    let member = server.member().await;
    let stranger = server.member().await;
    let before = pause(&server, &member, "before").await;
    wait_for("the index has the turn", SOON, || async {
        let listed = member.call_ok("ListPendingApprovals", json!({})).await;
        (listed["pending_approvals"][0]["turn_id"] == before.as_str()).then_some(())
    })
    .await;
    let (mut mine, mut other_stream) = (watch(&member).await, watch(&stranger).await);
    assert_eq!(waiting(&mut mine).await, before);
    assert_eq!(next(&mut mine).await, Change::CaughtUp(CaughtUp {}));
    let after = pause(&server, &member, "after").await;
    assert_eq!(waiting(&mut mine).await, after);
    decide(&server, &member, &before).await;
    assert_eq!(next(&mut mine).await, Change::RemovedTurnId(before));
    assert_eq!(next(&mut other_stream).await, Change::CaughtUp(CaughtUp {}), "invariant 6");
    assert_eq!(change_at_once(&mut other_stream).await, None, "invariant 6");
    // The drain ends the stream and does not wait for it.
    server.stop().await;
    let error = refused(other_stream.message().await, "a stream of a gateway that drains");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Draining));
}

#[tokio::test]
async fn all_watchers_of_an_organization_share_one_query_per_second() {
    const WATCHERS: usize = 50;
    let server = Server::start().await;
    let member = server.member().await;
    let colleague = server.user(&member.org, Role::Member).await;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        watchers.push(watch(&member).await);
    }
    let mut other = watch(&colleague).await;
    for watcher in watchers.iter_mut().chain([&mut other]) {
        assert_eq!(next(watcher).await, Change::CaughtUp(CaughtUp {}));
    }
    let (before, since) = (server.index_reads.count(), Instant::now());
    let turn = pause(&server, &member, "shared").await;
    for watcher in &mut watchers {
        assert_eq!(waiting(watcher).await, turn);
    }
    decide(&server, &member, &turn).await;
    for watcher in &mut watchers {
        assert_eq!(next(watcher).await, Change::RemovedTurnId(turn.clone()));
    }
    let polled = async || (server.index_reads.count() >= before + 3).then_some(());
    wait_for("three queries", SOON, polled).await;
    let (queries, seconds) = (server.index_reads.count() - before, since.elapsed().as_secs());
    assert!(queries <= seconds + 2, "{queries} queries in {seconds} s for {WATCHERS} watchers");
    assert_eq!(change_at_once(&mut other).await, None, "invariant 6");
    drop((watchers, other));
    wait_for("the end of the poller", SOON, || async {
        let before = server.index_reads.count();
        // No event reports that the poller ended: only the time of two polls can show it.
        tokio::time::sleep(Duration::from_secs(2)).await;
        (server.index_reads.count() == before).then_some(())
    })
    .await;
    server.stop().await;
}

/// Measures how many journals are read at a time. Each read takes some time.
#[derive(Default)]
struct ConcurrentReads {
    active: AtomicUsize,
    largest: AtomicUsize,
    total: AtomicUsize,
}

#[async_trait]
impl ThreadLayer for ConcurrentReads {
    async fn entries(
        &self,
        below: &dyn ThreadStore,
        org: &OrgId,
        id: &ThreadId,
        from: u64,
        limit: usize,
    ) -> folio_types::Result<Vec<(u64, Entry)>> {
        self.total.fetch_add(1, Ordering::SeqCst);
        self.largest.fetch_max(self.active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // The store is slow.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let found = below.entries(org, id, from, limit).await;
        self.active.fetch_sub(1, Ordering::SeqCst);
        found
    }
}

#[tokio::test]
async fn invariant_10_two_watchers_of_an_organization_read_a_pending_turn_at_a_time() {
    const WATCHERS: usize = 20;
    let reads = Arc::new(ConcurrentReads::default());
    let layer = |stores: Stores| Stores { threads: Layered::over(Arc::clone(&reads), &stores.threads), ..stores };
    let server = Server::on(Options { failed_attempts_per_minute: 10_000, ..Options::default() }, layer).await;
    let member = server.member().await;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        watchers.push(watch(&member).await);
    }
    for watcher in &mut watchers {
        assert_eq!(next(watcher).await, Change::CaughtUp(CaughtUp {}));
    }
    let turn = pause(&server, &member, "read").await;
    for watcher in &mut watchers {
        assert_eq!(waiting(watcher).await, turn);
    }
    // The owner of the thread also reads the journal.
    let largest = reads.largest.load(Ordering::SeqCst);
    assert!((1..=3).contains(&largest), "{largest} reads at a time");
    drop(watchers);
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_reads_a_thread_that_does_not_wait_for_it_once_while_the_index_is_unchanged() {
    const POLLS: u64 = 5;
    let reads = Arc::new(ConcurrentReads::default());
    let layer = |stores: Stores| Stores { threads: Layered::over(Arc::clone(&reads), &stores.threads), ..stores };
    let server = Server::on(Options::default(), layer).await;
    let member = server.member().await;
    let colleague = server.user(&member.org, Role::Member).await;
    let turn = pause(&server, &member, "stale").await;
    let mut entry = published(&server, &member, &turn).await;
    entry.version += 1_000;
    entry.approvers = vec![Approver { roles: vec![Role::Member], not_by_requester: false }];
    assert!(server.turns.publish(&entry).await.unwrap());
    let mut stream = watch(&colleague).await;
    assert_eq!(next(&mut stream).await, Change::CaughtUp(CaughtUp {}));
    let (polls, before) = (server.index_reads.count(), reads.total.load(Ordering::SeqCst));
    assert!(before >= 1, "the entry names the colleague, so its thread is read");
    wait_for("further polls", SOON, async || (server.index_reads.count() >= polls + POLLS).then_some(())).await;
    // One of 30 polls compares the entries with their threads.
    let further = reads.total.load(Ordering::SeqCst) - before;
    assert!(further <= 1, "{further} reads in {POLLS} polls");
    drop(stream);
    decide(&server, &member, &turn).await;
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_learns_of_a_decision_that_the_index_lacks() {
    let server = Server::start().await;
    let member = server.member().await;
    let turn = pause(&server, &member, "lost").await;
    let mut entry = published(&server, &member, &turn).await;
    // The index ignores the publication of the decision, which has a lower version.
    entry.version += 1_000;
    assert!(server.turns.publish(&entry).await.unwrap());
    let mut stream = watch(&member).await;
    assert_eq!(waiting(&mut stream).await, turn);
    assert_eq!(next(&mut stream).await, Change::CaughtUp(CaughtUp {}));
    decide(&server, &member, &turn).await;
    // The index is compared with the threads every 30 s.
    let removed = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            match stream.message().await.unwrap().unwrap().change.unwrap() {
                Change::CaughtUp(_) => {}
                change => return change,
            }
        }
    });
    assert_eq!(removed.await.expect("a change"), Change::RemovedTurnId(turn));
    drop(stream);
    server.stop().await;
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
            node: Incarnation::derive(&["owner"]),
            epoch: 1,
            version: 1,
            phase: Some(Phase::Paused),
            pending: Vec::new(),
            paused_at: Some(now - Duration::from_secs(3_600)),
            expires_at: Some(now + Duration::from_secs(3_600)),
            approvers: vec![Approver { roles: vec![Role::Admin], not_by_requester: false }],
        };
        assert!(server.turns.publish(&state).await.unwrap());
    }
    let mine = pause(&server, &member, "mine").await;
    let mut stream = watch(&member).await;
    assert_eq!(waiting(&mut stream).await, mine);
    assert_eq!(next(&mut stream).await, Change::CaughtUp(CaughtUp {}));
    decide(&server, &member, &mine).await;
    assert_eq!(next(&mut stream).await, Change::RemovedTurnId(mine));
    drop(stream);
    server.stop().await;
}

#[tokio::test]
async fn invariant_2_a_manipulated_index_entry_shows_the_calls_of_the_journal_to_their_approvers_only() {
    let server = Server::start().await;
    let member = server.member().await;
    let colleague = server.user(&member.org, Role::Member).await;
    let turn = pause(&server, &member, "real").await;
    let mut entry = published(&server, &member, &turn).await;
    entry.version += 1_000;
    entry.user = UserId::derive(&["another"]);
    entry.approvers = vec![Approver { roles: vec![Role::Member], not_by_requester: false }];
    entry.pending[0].arguments = json!({"name": "harmless"});
    entry.pending[0].digest = folio_types::Digest::of_json(&entry.pending[0].arguments);
    entry.expires_at = entry.expires_at.map(|at| at + Duration::from_secs(600));
    assert!(server.turns.publish(&entry).await.unwrap());
    let read = member.call_ok("GetTurn", json!({"turn_id": turn})).await;
    let listed = member.call_ok("ListPendingApprovals", json!({})).await;
    let shown = &listed["pending_approvals"][0];
    assert_eq!(shown["calls"], read["turn"]["pending"]);
    assert_eq!(shown["expire_time"], read["turn"]["expire_time"]);
    assert_eq!((&shown["turn_id"], &shown["user_id"]), (&json!(turn), &json!(member.user)));
    let Change::PendingApproval(streamed) = next(&mut watch(&member).await).await else { panic!("no turn") };
    assert!(streamed.calls[0].arguments_json.contains("real"), "{streamed:?}");
    let of_colleague = colleague.call_ok("ListPendingApprovals", json!({})).await;
    assert!(of_colleague["pending_approvals"].is_null(), "{of_colleague}");
    assert_eq!(next(&mut watch(&colleague).await).await, Change::CaughtUp(CaughtUp {}));
    decide(&server, &member, &turn).await;
    server.stop().await;
}

#[tokio::test]
async fn the_list_is_incomplete_until_owners_had_time_to_publish_their_turns_again() {
    let server = Server::start().await;
    let member = server.member().await;
    for (minutes, incomplete) in [(0, true), (10, true), (12, false)] {
        server.data_age.set(Duration::from_secs(60 * minutes));
        let listed = member.call_ok("ListPendingApprovals", json!({})).await;
        let is_incomplete = listed["incomplete"].as_bool().unwrap_or_default();
        assert_eq!(is_incomplete, incomplete, "{minutes} minutes after a loss");
    }
    server.stop().await;
}
