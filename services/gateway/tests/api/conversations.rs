//! Conversations through the gateway.

use folio_history::journal::Access;
use folio_proto::v1;
use folio_proto::v1::*;
use folio_types::Reason;
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};

async fn document(client: &Client) -> String {
    client.ready_document("a.txt", "Total 12.50").await.document_id
}

fn say(text: &str, document: &str) -> ChatRequest {
    ChatRequest { text: text.into(), document_ids: vec![document.into()], ..Default::default() }
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
