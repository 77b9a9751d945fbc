//! A thread is created together with its first message. Ownership and repeated requests of new threads.

use folio_history::thread::NewThread;

use super::*;

#[tokio::test]
async fn a_process_that_dies_before_the_first_append_leaves_no_thread_and_after_it_a_turn() {
    for (point, threads) in [("accept:before", 0), ("accept:after", 1)] {
        let mut sandbox = Sandbox::start().await;
        sandbox.hang_at(Some(point));
        let chat = ChatCommand { request_id: request("c-1"), ..sandbox.chat("hello") };
        let chatting = sandbox.spawn_chat(chat.clone());
        sandbox.reaches(point).await;
        assert_eq!(sandbox.threads().await.len(), threads, "{point}");
        sandbox.restart().await;
        let _ = chatting.await;
        assert_eq!(sandbox.threads().await.len(), threads, "{point}");
        sandbox.models.then([say("Hello.")]);
        let events = sandbox.run(chat).await;
        assert!(matches!(closing(&events), EventKind::Completed { .. }), "{point}: {events:?}");
        let threads = sandbox.threads().await;
        assert_eq!((threads.len(), threads[0].turns, events[0].turn.number), (1, 1, 1), "{point}");
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn concurrent_chats_with_one_request_id_create_one_thread() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("Hello.")]);
    let chat = || ChatCommand { request_id: request("c-1"), ..sandbox.chat("hello") };
    let (one, two, three) = tokio::join!(sandbox.run(chat()), sandbox.run(chat()), sandbox.run(chat()));
    assert_eq!(one.last(), two.last());
    assert_eq!(one.last(), three.last());
    assert_eq!(sandbox.threads().await.len(), 1);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_thread_that_does_not_exist_is_visible_to_no_user() {
    let mut sandbox = Sandbox::start().await;
    sandbox.hang_at(Some("accept:before"));
    let chat = ChatCommand { request_id: request("c-1"), ..sandbox.chat("hello") };
    let chatting = sandbox.spawn_chat(chat.clone());
    sandbox.reaches("accept:before").await;
    let rows = sandbox.open_rows().await;
    let thread = ThreadId::derive(&[
        sandbox.principal.org.as_str(),
        sandbox.principal.user.as_str(),
        "document",
        sandbox.document.as_str(),
        "c-1",
    ]);
    assert!(rows.iter().all(|row| row.turn.thread == thread));
    let error = sandbox.conversations.open_turn(&sandbox.principal, &thread).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    let error = sandbox.conversations.delete_thread(&sandbox.principal, &thread, None).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    sandbox.restart().await;
    let _ = chatting.await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_fork_belongs_to_the_user_that_forked() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("One.")]);
    let thread = sandbox.run(sandbox.chat("first")).await[0].turn.thread.clone();
    let admin = Principal { user: UserId::derive(&["admin"]), role: Role::Admin, ..sandbox.principal.clone() };
    let fork = fork(&thread, request("f-1"));
    let forked = sandbox.conversations.fork_thread(&admin, fork.clone()).await.unwrap();
    assert_eq!(forked.user, admin.user);
    let own = sandbox.conversations.fork_thread(&sandbox.principal, fork).await.unwrap();
    assert_eq!(own.user, sandbox.principal.user);
    assert_ne!(own.id, forked.id, "each user has separate request ids");
    let error = sandbox.conversations.open_turn(&sandbox.principal, &forked.id).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    sandbox.finish().await;
}

#[tokio::test]
async fn the_same_documents_in_another_order_are_the_same_documents() {
    let sandbox = Sandbox::start().await;
    let other = sandbox.upload("other.pdf", "Other").await;
    let documents = vec![sandbox.document.clone(), other];
    let (id, at) = (ThreadId::derive(&["both"]), Timestamp::UNIX_EPOCH);
    let new = NewThread::new(id, &sandbox.principal, "document", documents.clone(), at);
    let thread = sandbox.stores.threads.create(new).await.unwrap().id;
    sandbox.models.then([say("One.")]);
    let reversed = |documents: &[DocumentId]| ChatCommand {
        documents: documents.iter().rev().cloned().collect(),
        ..sandbox.chat_in(&thread, "both")
    };
    sandbox.run(reversed(&documents)).await;
    let error = sandbox.chat_error(reversed(&documents[..1])).await;
    assert_eq!(error.code, Code::InvalidArgument);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_request_id_of_a_thread_change_identifies_one_request_across_threads() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([say("One."), say("Two.")]);
    let one = sandbox.run(sandbox.chat("first")).await[0].turn.thread.clone();
    let two = sandbox.run(sandbox.chat("second")).await[0].turn.thread.clone();
    let principal = sandbox.principal.clone();
    let create = |id: &str| CreateThreadCommand {
        documents: vec![sandbox.document.clone()],
        request_id: request(id),
        ..CreateThreadCommand::default()
    };
    let fork = |thread: &ThreadId, id: &str| fork(thread, request(id));
    let conversations = &sandbox.conversations;
    conversations.rename_thread(&principal, &one, "Better".into(), request("rename")).await.unwrap();
    conversations.create_thread(&principal, create("create")).await.unwrap();
    let forked = conversations.fork_thread(&principal, fork(&one, "fork")).await.unwrap();
    let third = conversations.create_thread(&principal, create("third")).await.unwrap().id;
    conversations.delete_thread(&principal, &third, request("delete").as_ref()).await.unwrap();
    for id in ["rename", "create", "fork", "delete"] {
        let mut refused = Vec::new();
        refused.push(conversations.rename_thread(&principal, &two, "Better".into(), request(id)).await.map(drop));
        refused.push(conversations.fork_thread(&principal, fork(&two, id)).await.map(drop));
        refused.push(conversations.delete_thread(&principal, &two, request(id).as_ref()).await);
        if id != "create" {
            refused.push(conversations.create_thread(&principal, create(id)).await.map(drop));
        }
        for answer in refused {
            assert_eq!(answer.unwrap_err().reason, Reason::RequestIdConflict, "{id}");
        }
    }
    assert_ne!(sandbox.header(&two).await.title, "Better");
    // Repeated requests return their first results, even after the thread was deleted.
    conversations.rename_thread(&principal, &one, "Better".into(), request("rename")).await.unwrap();
    conversations.delete_thread(&principal, &third, request("delete").as_ref()).await.unwrap();
    conversations.delete_thread(&principal, &one, None).await.unwrap();
    sandbox.restart().await;
    let conversations = &sandbox.conversations;
    assert_eq!(conversations.fork_thread(&principal, fork(&one, "fork")).await.unwrap().id, forked.id);
    let changed = ForkThreadCommand { title: Some("Other".into()), ..fork(&one, "fork") };
    assert_eq!(conversations.fork_thread(&principal, changed).await.unwrap_err().reason, Reason::RequestIdConflict);
    let late = conversations.fork_thread(&principal, fork(&one, "another")).await.unwrap_err();
    assert_eq!(late.reason, Reason::NotFound);
    sandbox.finish().await;
}

#[tokio::test]
async fn the_request_of_a_rename_has_an_idempotency_record() {
    let sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    let (principal, thread) = (&sandbox.principal, &turn.thread);
    sandbox.conversations.rename_thread(principal, thread, "Better".into(), request("r-1")).await.unwrap();
    let op = OpKey::Request { user: principal.user.clone(), request: request("r-1").unwrap() };
    let stored = sandbox.stores.ops.request(&principal.org, &op).await.unwrap().unwrap();
    assert_eq!(stored.target, folio_types::op::Target::thread(thread));
    sandbox.conversations.cancel(principal, &turn).await.unwrap();
    sandbox.models.then([Step::Hang]);
    let running = sandbox.begin(sandbox.chat_in(thread, "again")).await;
    sandbox.wait_for_model_calls(2).await;
    drop(running);
    sandbox.conversations.delete_thread(principal, thread, None).await.unwrap();
    sandbox.finish().await;
}
