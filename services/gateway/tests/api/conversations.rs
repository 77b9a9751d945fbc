//! Conversations through the gateway.

use folio_history::journal::Access;
use folio_proto::v1::event::Kind;
use folio_proto::v1::{ChatRequest, WatchTurnRequest};
use folio_types::Reason;
use serde_json::{Value, json};

use crate::harness::{Answer, Server};

#[tokio::test]
async fn losing_the_client_does_not_stop_the_turn_and_cancel_does() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    server.model.next(Answer::Hang);
    let chat = ChatRequest { text: "Hello".into(), document_ids: vec![document], ..Default::default() };
    let mut stream = client.conversations().chat(chat).await.unwrap().into_inner();
    let turn_id = stream.message().await.unwrap().unwrap().event.unwrap().turn_id;
    drop(stream);
    let busy = json!({"text": "x", "thread_id": turn_id.rsplit_once('.').unwrap().0});
    assert_eq!(client.refusal("Chat", busy).await.reason, Reason::TurnBusy);
    let turn = client.call_ok("GetTurn", json!({"turn_id": turn_id})).await;
    assert_eq!(turn["turn"]["status"], "TURN_STATUS_RUNNING");
    let watch = WatchTurnRequest { turn_id: turn_id.clone(), from_event: 1 };
    let mut watched = client.conversations().watch_turn(watch).await.unwrap().into_inner();
    let cancel = json!({"turn_id": turn_id, "request_id": "c"});
    let cancelled = client.call_ok("CancelTurn", cancel.clone()).await;
    assert_eq!(cancelled["turn"]["status"], "TURN_STATUS_CANCELLED");
    let mut last = None;
    while let Some(next) = watched.message().await.unwrap() {
        last = next.event.unwrap().kind;
    }
    assert!(matches!(last, Some(Kind::Cancelled(_))), "{last:?}");
    assert_eq!(client.call_ok("CancelTurn", cancel).await, cancelled);
    server.stop().await;
}

#[tokio::test]
async fn tools_are_listed_in_pages() {
    let server = Server::start().await;
    let client = server.member().await;
    let list = async |request| client.call_ok("ListTools", request).await;
    let count = |page: &Value| page["tools"].as_array().unwrap().len();
    let all = list(json!({})).await;
    let profile = folio_tools::Registry::standard().unwrap().profile("document").unwrap();
    assert_eq!(count(&all), profile.specs().count());
    assert_eq!(all["total_size"], count(&all));
    for tool in all["tools"].as_array().unwrap() {
        let parameters: Value = serde_json::from_str(tool["parameters_json"].as_str().unwrap()).unwrap();
        assert_eq!(parameters["type"], "object", "{tool}");
        assert!(tool["access"].is_string(), "{tool}");
    }
    let writes = list(json!({"filter": "access:read_write"})).await;
    assert_eq!(writes["total_size"], profile.specs().filter(|spec| spec.access == Access::ReadWrite).count());
    let page = list(json!({"page_size": 20, "order_by": "name"})).await;
    let rest = list(json!({"page_token": page["next_page_token"], "order_by": "name"})).await;
    assert_eq!(count(&page) + count(&rest), count(&all));
    assert_eq!(client.refusal("ListTools", json!({"profile": "nothing"})).await.reason, Reason::UnknownProfile);
    server.stop().await;
}
