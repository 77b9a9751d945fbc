//! Direct calls through the actors: one thread for each user and document, and no model call.

use folio_history::command::DirectCall;

use super::*;

fn direct(sandbox: &Sandbox, tool: &str, arguments: serde_json::Value, number: u32) -> ChatCommand {
    let direct_call = Some(DirectCall { tool: tool.to_owned(), arguments, thread_number: number });
    ChatCommand { direct_call, ..sandbox.chat("Run it.") }
}

#[tokio::test]
async fn direct_calls_share_a_thread_wait_for_approval_and_are_repeated_by_their_request_id() {
    let sandbox = Sandbox::start().await;
    let listed = sandbox.run(direct(&sandbox, "list_tags", json!({}), 1)).await;
    let EventKind::Completed { rounds, usage, .. } = closing(&listed) else { panic!("{listed:?}") };
    assert_eq!((rounds[0].results[0].status, usage.is_empty()), (CallStatus::Ok, true));

    let create =
        ChatCommand { request_id: request("m-1"), ..direct(&sandbox, "create_tag", json!({"name": "invoices"}), 1) };
    let waiting = sandbox.run(create.clone()).await;
    let EventKind::AwaitingApproval { pending, .. } = closing(&waiting) else { panic!("{waiting:?}") };
    let turn = waiting[0].turn.clone();
    assert_eq!(turn.thread, listed[0].turn.thread, "one thread for each user and document");
    let second = direct(&sandbox, "list_tags", json!({}), 1);
    assert_eq!(sandbox.chat_error(second).await.reason, Reason::TurnPending);
    assert!(sandbox.tag_names().await.is_empty(), "invariant 2");
    sandbox.approve_with(approve_all(&turn, pending)).await.unwrap();
    assert_eq!(sandbox.tag_names().await, ["invoices"]);

    let repeated = sandbox.run(create.clone()).await;
    assert_eq!(repeated.last().unwrap().turn, turn, "the repeated request finds its turn");
    assert!(matches!(closing(&repeated), EventKind::Completed { .. }), "{repeated:?}");
    let other = ChatCommand { request_id: create.request_id, ..direct(&sandbox, "list_tags", json!({}), 1) };
    assert_eq!(sandbox.chat_error(other).await.reason, Reason::RequestIdConflict);
    let next = sandbox.run(direct(&sandbox, "list_tags", json!({}), 2)).await;
    assert_ne!(next[0].turn.thread, turn.thread);
    assert_eq!(sandbox.models.requests().len(), 0);
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn an_unknown_tool_is_refused_and_wrong_arguments_are_a_failed_result() {
    let sandbox = Sandbox::start().await;
    let unknown = sandbox.chat_error(direct(&sandbox, "launch_rocket", json!({}), 1)).await;
    assert_eq!((unknown.reason, unknown.violations[0].field.as_str()), (Reason::UnknownTool, "direct_call.tool"));
    let events = sandbox.run(direct(&sandbox, "get_tag", json!({"tag_id": 7}), 1)).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(rounds[0].results[0].status, CallStatus::Failed);
    sandbox.finish().await;
}
