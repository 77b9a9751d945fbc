//! Creation, fork, rename and deletion of threads.

use super::*;

#[tokio::test]
async fn a_thread_with_an_open_turn_is_deleted_completely() {
    let sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, None).await.unwrap();
    let error = sandbox.conversations.get_turn(&sandbox.principal, &turn).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    let again = sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, None).await.unwrap_err();
    assert_eq!(again.reason, Reason::NotFound);
    sandbox.wait_for_empty_index().await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_fork_starts_with_the_messages_and_the_working_state_of_its_position() {
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
    let fork = |count: Option<u32>| {
        let id = format!("f-{}", count.unwrap_or_default());
        ForkThreadCommand { message_count: count, ..fork(&thread, request(&id)) }
    };
    let early = sandbox.conversations.fork_thread(&sandbox.principal, fork(Some(2))).await.unwrap();
    assert_eq!(early.working.schema_revid, None);
    let complete = sandbox.conversations.fork_thread(&sandbox.principal, fork(None)).await.unwrap();
    assert!(complete.working.schema_revid.is_some());
    let again = sandbox.conversations.fork_thread(&sandbox.principal, fork(None)).await.unwrap();
    assert_eq!(complete.id, again.id);
    let error = sandbox.conversations.fork_thread(&sandbox.principal, fork(Some(9))).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    sandbox.run(sandbox.chat_in(&early.id, "continue")).await;
    assert_eq!(sandbox.models.requests().pop().unwrap().messages.len(), 3);
    sandbox.finish().await;
}

#[tokio::test]
async fn the_request_id_of_a_new_thread_identifies_one_content() {
    let sandbox = Sandbox::start().await;
    let other = sandbox.upload("other.pdf", "Other").await;
    let create = CreateThreadCommand {
        documents: vec![sandbox.document.clone()],
        title: "Mine".to_owned(),
        request_id: request("t-1"),
        ..CreateThreadCommand::default()
    };
    let conversations = &sandbox.conversations;
    let created = conversations.create_thread(&sandbox.principal, create.clone()).await.unwrap();
    assert_eq!(conversations.create_thread(&sandbox.principal, create.clone()).await.unwrap(), created);
    for changed in [
        CreateThreadCommand { title: "Other".to_owned(), ..create.clone() },
        CreateThreadCommand { model: Some("scripted".to_owned()), ..create.clone() },
        CreateThreadCommand { documents: vec![other], ..create.clone() },
    ] {
        let error = conversations.create_thread(&sandbox.principal, changed.clone()).await.unwrap_err();
        assert_eq!(error.reason, Reason::RequestIdConflict, "{changed:?}");
    }
    sandbox.models.then([say("Hello.")]);
    sandbox.run(sandbox.chat_in(&created.id, "hello")).await;
    let fork = fork(&created.id, request("f-1"));
    let forked = conversations.fork_thread(&sandbox.principal, fork.clone()).await.unwrap();
    assert_eq!(conversations.fork_thread(&sandbox.principal, fork.clone()).await.unwrap().id, forked.id);
    for changed in [
        ForkThreadCommand { title: Some("Copy".to_owned()), ..fork.clone() },
        ForkThreadCommand { message_count: Some(0), ..fork.clone() },
        ForkThreadCommand { thread: forked.id.clone(), ..fork.clone() },
        ForkThreadCommand { request_id: request("t-1"), ..fork },
    ] {
        let error = conversations.fork_thread(&sandbox.principal, changed.clone()).await.unwrap_err();
        assert_eq!(error.reason, Reason::RequestIdConflict, "{changed:?}");
    }
    // A chat in the thread cannot use the request id that created the thread.
    let chat = ChatCommand { request_id: request("t-1"), ..sandbox.chat_in(&created.id, "again") };
    let error = sandbox.chat_error(chat).await;
    assert_eq!(error.reason, Reason::RequestIdConflict);
    let header = sandbox.header(&created.id).await;
    assert_eq!((header.title.as_str(), header.turns), ("Mine", 1), "a title of the request is kept");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_repeated_rename_has_no_effect() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([say("One.")]);
    let chat = ChatCommand { request_id: request("c-1"), ..sandbox.chat("first") };
    let thread = sandbox.run(chat).await[0].turn.thread.clone();
    async fn rename(sandbox: &Sandbox, thread: &ThreadId, title: &str, id: &str) -> Result<String> {
        let principal = &sandbox.principal;
        let renamed = sandbox.conversations.rename_thread(principal, thread, title.to_owned(), request(id)).await;
        renamed.map(|header| header.title)
    }
    assert_eq!(rename(&sandbox, &thread, "Better", "r-1").await.unwrap(), "Better");
    assert_eq!(rename(&sandbox, &thread, "Best", "r-2").await.unwrap(), "Best");
    let repeated = rename(&sandbox, &thread, "Better", "r-1").await.unwrap();
    assert_eq!(repeated, "Best", "a repeated request has no further effect");
    sandbox.restart().await;
    assert_eq!(rename(&sandbox, &thread, "Better", "r-1").await.unwrap(), "Best", "also after a restart");
    for id in ["r-1", "c-1"] {
        let error = rename(&sandbox, &thread, "Worst", id).await.unwrap_err();
        assert_eq!(error.reason, Reason::RequestIdConflict, "{id}");
    }
    let chat = ChatCommand { request_id: request("r-1"), ..sandbox.chat_in(&thread, "again") };
    let error = sandbox.chat_error(chat).await;
    assert_eq!(error.reason, Reason::RequestIdConflict, "a chat with the id of a rename");
    let header = sandbox.header(&thread).await;
    assert_eq!((header.title.as_str(), header.turns), ("Best", 1));
    // A repeated rename does not disturb a running turn.
    sandbox.models.then([gated(say("Two."))]);
    let running = sandbox.begin(sandbox.chat_in(&thread, "second")).await;
    sandbox.wait_for_model_calls(2).await;
    assert_eq!(rename(&sandbox, &thread, "Better", "r-1").await.unwrap(), "Best");
    sandbox.models.release();
    assert!(matches!(closing(&all(running).await), EventKind::Completed { .. }));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_repeated_deletion_succeeds_only_for_the_same_request() {
    let mut sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    async fn delete(sandbox: &Sandbox, turn: &TurnId, id: &str) -> Result<()> {
        let id = request(id);
        sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, id.as_ref()).await
    }
    delete(&sandbox, &turn, "d-1").await.unwrap();
    delete(&sandbox, &turn, "d-1").await.unwrap();
    sandbox.restart().await;
    delete(&sandbox, &turn, "d-1").await.unwrap();
    assert_eq!(delete(&sandbox, &turn, "d-2").await.unwrap_err().reason, Reason::NotFound);
    let stranger = Principal { user: UserId::derive(&["other"]), ..sandbox.principal.clone() };
    let id = request("d-1");
    let error = sandbox.conversations.delete_thread(&stranger, &turn.thread, id.as_ref()).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_3_a_chat_that_is_repeated_after_the_deletion_of_its_thread_has_no_effect() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("One.")]);
    let chat = ChatCommand { request_id: request("c-1"), ..sandbox.chat("first") };
    let thread = sandbox.run(chat.clone()).await[0].turn.thread.clone();
    sandbox.conversations.delete_thread(&sandbox.principal, &thread, None).await.unwrap();
    let error = sandbox.chat_error(chat).await;
    assert_eq!(error.reason, Reason::NotFound);
    sandbox.finish().await;
}

#[tokio::test]
async fn deleting_a_thread_stops_its_running_turn() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([Step::Hang]);
    let stream = sandbox.begin(sandbox.chat("x")).await;
    sandbox.wait_for_model_calls(1).await;
    let thread = sandbox.newest_thread().await;
    sandbox.conversations.delete_thread(&sandbox.principal, &thread, None).await.unwrap();
    let events = all(stream).await;
    assert_eq!(closing(&events), &EventKind::Cancelled);
    assert!(sandbox.stores.threads.header(&sandbox.principal.org, &thread).await.unwrap().is_none());
    sandbox.finish().await;
}
