//! Conversations through the gateway.

use folio_history::journal::Access;
use folio_proto::v1;
use folio_proto::v1::*;
use folio_types::{Code, Reason};
use serde_json::json;
use v1::approve_response::Outcome;
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};

async fn document(client: &Client) -> String {
    client.ready_document("a.txt", "Total 12.50").await.document_id
}

fn say(text: &str, document: &str) -> ChatRequest {
    ChatRequest { text: text.into(), document_ids: vec![document.into()], ..Default::default() }
}

/// The waiting calls of a stream that ended with a pause.
fn pending(events: &[Event]) -> AwaitingApproval {
    match &events.last().unwrap().kind {
        Some(Kind::AwaitingApproval(waiting)) => waiting.clone(),
        other => panic!("no pause: {other:?}"),
    }
}

fn decide(call: &Call, decision: v1::decision::Decision) -> Decision {
    Decision {
        call_id: call.call_id.clone(),
        arguments_digest: call.arguments_digest.clone(),
        decision: Some(decision),
    }
}

fn approved(call: &Call) -> Decision {
    decide(call, v1::decision::Decision::Approved(Approved {}))
}

fn approve(turn_id: &str, decisions: Vec<Decision>) -> ApproveRequest {
    ApproveRequest { turn_id: turn_id.into(), decisions, ..Default::default() }
}

fn create_tag(name: &str) -> (&'static str, serde_json::Value) {
    ("create_tag", json!({ "name": name }))
}

#[tokio::test]
async fn a_chat_streams_its_events_and_is_stored() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = document(&client).await;
    server.model.next(Answer::Calls(vec![("list_tags", json!({}))]));
    server.model.answer("There are none.");
    let request = ChatRequest { request_id: "r".into(), ..say("Which tags are there?", &document) };
    let events = client.chat(request.clone()).await;
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let Some(Kind::TurnStarted(started)) = &events[0].kind else { panic!("{:?}", events[0]) };
    let Some(Kind::Completed(done)) = &events.last().unwrap().kind else { panic!("{:?}", events.last()) };
    assert_eq!((done.text.as_str(), done.finish_reason()), ("There are none.", FinishReason::Stop));

    let again = client.chat(request).await;
    assert_eq!(again.last(), events.last(), "the same request is answered by its recorded end");
    assert_eq!(server.model.calls(), 2);
    let turn_id = events[0].turn_id.clone();
    let watch = WatchTurnRequest { turn_id: turn_id.clone(), from_event: 3 };
    let mut stream = client.conversations().watch_turn(watch).await.unwrap().into_inner();
    let mut watched = Vec::new();
    while let Some(next) = stream.message().await.unwrap() {
        watched.push(next.event.unwrap());
    }
    assert_eq!(watched.last(), events.last());
    let turn = client.conversations().get_turn(GetTurnRequest { turn_id }).await.unwrap().into_inner().turn.unwrap();
    assert_eq!((turn.status(), turn.rounds[0].calls[0].name.as_str()), (TurnStatus::Completed, "list_tags"));

    let get = GetThreadRequest { thread_id: started.thread_id.clone(), ..Default::default() };
    let thread = client.threads().get_thread(get).await.unwrap().into_inner();
    assert_eq!(thread.thread.unwrap().title, "Which tags are there?");
    assert_eq!(thread.messages.iter().map(|message| message.count).collect::<Vec<_>>(), [1, 1, 1, 2]);
    server.stop().await;
}

#[tokio::test]
async fn a_pending_call_runs_when_it_is_approved() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = document(&client).await;
    server.model.next(Answer::Calls(vec![create_tag("one"), create_tag("two"), ("list_tags", json!({}))]));
    server.model.answer("Done.");
    let waiting = pending(&client.chat(say("Make two tags", &document)).await);
    assert_eq!(waiting.pending.iter().map(|call| call.needs_approval).collect::<Vec<_>>(), [true, true, false]);
    let thread_id = waiting.turn_id.rsplit_once('.').unwrap().0.to_owned();
    let get = GetThreadRequest { thread_id: thread_id.clone(), ..Default::default() };
    let open = client.threads().get_thread(get).await.unwrap().into_inner().pending_turn.unwrap();
    assert_eq!((open.status(), open.pending.len()), (TurnStatus::AwaitingApproval, 3));
    let more = ChatRequest { thread_id, document_ids: Vec::new(), ..say("And more", "") };
    let error = refused(client.conversations().chat(more).await, "a waiting turn");
    assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::TurnPending));

    let first = approve(&waiting.turn_id, vec![approved(&waiting.pending[0])]);
    let answer = client.conversations().approve(first.clone()).await.unwrap().into_inner();
    let Some(Outcome::StillAwaiting(still)) = answer.outcome else { panic!("{answer:?}") };
    assert_eq!(still.missing.len(), 1);
    let conflict = decide(&waiting.pending[0], v1::decision::Decision::Rejected(Rejected { reason: "no".into() }));
    let error = refused(client.conversations().approve(approve(&waiting.turn_id, vec![conflict])).await, "conflict");
    assert_eq!(error.reason, Reason::DecisionConflict);

    let rest = ApproveRequest { undecided: Undecided::Reject.into(), ..first };
    let answer = client.conversations().approve(rest.clone()).await.unwrap().into_inner();
    let Some(Outcome::Completed(done)) = &answer.outcome else { panic!("{answer:?}") };
    assert_eq!(done.text, "Done.");
    let statuses: Vec<_> = answer.round.as_ref().unwrap().results.iter().map(CallResult::status).collect();
    assert_eq!(statuses, [CallStatus::Ok, CallStatus::Rejected, CallStatus::Ok]);
    let again = client.conversations().approve(rest).await.unwrap().into_inner();
    assert_eq!(again, answer, "the same decisions get the same answer");
    let tags = client.tags().list_tags(ListTagsRequest::default()).await.unwrap().into_inner();
    assert_eq!(tags.tags.iter().map(|tag| tag.name.as_str()).collect::<Vec<_>>(), ["one"]);
    server.stop().await;
}

#[tokio::test]
async fn losing_the_client_does_not_stop_the_turn_and_cancel_does() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = document(&client).await;
    server.model.next(Answer::Hang);
    let mut stream = client.conversations().chat(say("Hello", &document)).await.unwrap().into_inner();
    let started = stream.message().await.unwrap().unwrap().event.unwrap();
    drop(stream);
    let turn_id = started.turn_id;
    let busy =
        ChatRequest { thread_id: turn_id.rsplit_once('.').unwrap().0.into(), document_ids: Vec::new(), ..say("x", "") };
    assert_eq!(refused(client.conversations().chat(busy).await, "busy").reason, Reason::TurnBusy);
    let get = GetTurnRequest { turn_id: turn_id.clone() };
    let turn = client.conversations().get_turn(get).await.unwrap().into_inner().turn.unwrap();
    assert_eq!(turn.status(), TurnStatus::Running);
    let mut watcher = client.conversations();
    let watch = WatchTurnRequest { turn_id: turn_id.clone(), from_event: 1 };
    let mut watched = watcher.watch_turn(watch).await.unwrap().into_inner();
    let cancel = CancelTurnRequest { turn_id, request_id: "c".into() };
    let turn = client.conversations().cancel_turn(cancel.clone()).await.unwrap().into_inner().turn.unwrap();
    assert_eq!(turn.status(), TurnStatus::Cancelled);
    let mut last = None;
    while let Some(next) = watched.message().await.unwrap() {
        last = next.event.unwrap().kind;
    }
    assert!(matches!(last, Some(Kind::Cancelled(_))), "{last:?}");
    assert_eq!(client.conversations().cancel_turn(cancel).await.unwrap().into_inner().turn.unwrap(), turn);
    server.stop().await;
}

#[tokio::test]
async fn a_failure_of_the_model_is_an_event_and_can_be_resumed() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = document(&client).await;
    let events = client.chat(say("Hello", &document)).await;
    let Some(Kind::Failed(failed)) = &events.last().unwrap().kind else { panic!("{:?}", events.last()) };
    assert_eq!((failed.retriable, failed.error.as_ref().unwrap().reason.as_str()), (true, "MODEL_FAILED"));
    server.model.answer("Here I am.");
    let resume = ResumeTurnRequest { turn_id: events[0].turn_id.clone(), request_id: String::new() };
    let mut stream = client.conversations().resume_turn(resume).await.unwrap().into_inner();
    let mut last = None;
    while let Some(next) = stream.message().await.unwrap() {
        last = next.event.unwrap().kind;
    }
    assert!(matches!(&last, Some(Kind::Completed(done)) if done.text == "Here I am."), "{last:?}");
    server.stop().await;
}

#[tokio::test]
async fn tools_are_listed_in_pages() {
    let server = Server::start().await;
    let client = server.member().await;
    let list =
        async |request: v1::ListToolsRequest| client.conversations().list_tools(request).await.unwrap().into_inner();
    let all = list(v1::ListToolsRequest::default()).await;
    let profile = folio_tools::Registry::standard().unwrap().profile("document").unwrap();
    let count = profile.specs().count();
    assert_eq!((all.tools.len(), usize::try_from(all.total_size).unwrap()), (count, count));
    for tool in &all.tools {
        let parameters: serde_json::Value = serde_json::from_str(&tool.parameters_json).unwrap();
        assert_eq!(parameters["type"], "object", "{}", tool.name);
        assert_ne!(tool.access(), v1::ToolAccess::Unspecified);
    }
    let writes = list(v1::ListToolsRequest { filter: "access:read_write".into(), ..Default::default() }).await;
    let write_count = profile.specs().filter(|spec| spec.access == Access::ReadWrite).count();
    assert_eq!(usize::try_from(writes.total_size).unwrap(), write_count);
    let page = list(v1::ListToolsRequest { page_size: 20, order_by: "name".into(), ..Default::default() }).await;
    let rest = v1::ListToolsRequest { page_token: page.next_page_token, order_by: "name".into(), ..Default::default() };
    assert_eq!(page.tools.len() + list(rest).await.tools.len(), count);
    let unknown = v1::ListToolsRequest { profile: "nothing".into(), ..Default::default() };
    let error = refused(client.conversations().list_tools(unknown).await, "profile");
    assert_eq!(error.reason, Reason::UnknownProfile);
    server.stop().await;
}
