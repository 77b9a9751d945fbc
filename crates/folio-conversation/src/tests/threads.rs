//! Threads as a whole.

use folio_types::{Code, Reason};
use serde_json::json;

use super::sandbox::{Sandbox, request};
use super::script::{Step, call, say};
use crate::{ForkCommand, NewThreadCommand};

#[tokio::test]
async fn a_thread_made_with_a_request_id_is_made_once() {
    let sandbox = Sandbox::start().await;
    let command = NewThreadCommand {
        documents: vec![sandbox.document.clone()],
        title: "Mine".to_owned(),
        request_id: request("t-1"),
        ..NewThreadCommand::default()
    };
    let one = sandbox.conversations.create_thread(&sandbox.principal, command.clone()).await.unwrap();
    let two = sandbox.conversations.create_thread(&sandbox.principal, command).await.unwrap();
    assert_eq!(one, two);
    sandbox.models.then([say("Hello.")]);
    sandbox.run(sandbox.chat_in(&one.id, "hello")).await;
    assert_eq!(sandbox.header(&one.id).await.title, "Mine", "a title that was given stays");
    sandbox.finish().await;
}

#[tokio::test]
async fn renaming_never_races_with_a_turn() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("One."), Step::Hang]);
    let events = sandbox.run(sandbox.chat("first")).await;
    let thread = &events[0].turn.thread;
    let rename = |title: &str| sandbox.conversations.rename_thread(&sandbox.principal, thread, title.to_owned());
    assert_eq!(rename("Better").await.unwrap().title, "Better");
    assert_eq!(rename("  ").await.unwrap_err().code, Code::InvalidArgument);
    let running = sandbox.begin(sandbox.chat_in(thread, "second")).await;
    sandbox.asked(2).await;
    assert_eq!(rename("While it runs").await.unwrap().title, "While it runs");
    let turn = folio_types::TurnId::new(thread.clone(), 2);
    sandbox.conversations.cancel(&sandbox.principal, &turn).await.unwrap();
    drop(running);
    assert_eq!(sandbox.header(thread).await.title, "While it runs");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_thread_with_an_open_turn_is_removed_whole() {
    let sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, None).await.unwrap();
    let error = sandbox.conversations.get_turn(&sandbox.principal, &turn).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    let again = sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, None).await.unwrap_err();
    assert_eq!(again.reason, Reason::NotFound);
    folio_testkit::wait_for("an empty index", super::sandbox::SOON, || async {
        sandbox.open_rows().await.is_empty().then_some(())
    })
    .await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_fork_begins_with_the_messages_and_the_working_state_of_its_point() {
    let sandbox = Sandbox::start().await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema":
        {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
         "additionalProperties": false}}});
    let create = call("create_schema", json!({"name": "S", "response_format": schema}));
    sandbox.models.then([say("One."), create, say("Made."), say("Forked.")]);
    let first = sandbox.run(sandbox.chat("first")).await;
    let thread = first[0].turn.thread.clone();
    let mut second = sandbox.chat_in(&thread, "second");
    second.auto_approve = true;
    sandbox.run(second).await;
    let fork = |count| ForkCommand {
        thread: thread.clone(),
        message_count: count,
        title: None,
        request_id: request(&format!("f-{count:?}").replace(['(', ')'], "-")),
    };
    let early = sandbox.conversations.fork_thread(&sandbox.principal, fork(Some(2))).await.unwrap();
    assert_eq!(early.working.schema_revid, None);
    let whole = sandbox.conversations.fork_thread(&sandbox.principal, fork(None)).await.unwrap();
    assert!(whole.working.schema_revid.is_some());
    let again = sandbox.conversations.fork_thread(&sandbox.principal, fork(None)).await.unwrap();
    assert_eq!(whole.id, again.id);
    let error = sandbox.conversations.fork_thread(&sandbox.principal, fork(Some(9))).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    sandbox.run(sandbox.chat_in(&early.id, "go on")).await;
    assert_eq!(sandbox.models.requests().pop().unwrap().messages.len(), 3);
    sandbox.finish().await;
}

#[tokio::test]
async fn tools_are_listed_by_profile() {
    let sandbox = Sandbox::start().await;
    assert_eq!(sandbox.conversations.list_tools(None).unwrap().len(), 27);
    assert_eq!(sandbox.conversations.list_tools(Some("pirate")).unwrap_err().reason, Reason::UnknownProfile);
    sandbox.finish().await;
}

#[tokio::test]
async fn removing_a_thread_stops_what_runs_in_it() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([Step::Hang]);
    let stream = sandbox.begin(sandbox.chat("x")).await;
    sandbox.asked(1).await;
    let thread = sandbox.listed().await;
    sandbox.conversations.delete_thread(&sandbox.principal, &thread, None).await.unwrap();
    let events = super::sandbox::all(stream).await;
    assert_eq!(super::sandbox::closing(&events), &folio_types::event::EventKind::Cancelled);
    assert!(sandbox.stores.threads.header(&sandbox.principal.org, &thread).await.unwrap().is_none());
    sandbox.finish().await;
}
