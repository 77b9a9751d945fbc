//! Turns without approvals.

use folio_types::Temperature;
use folio_types::message::FinishReason;

use super::*;

#[tokio::test]
async fn a_plain_chat_streams_and_commits_with_two_appends() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("The total is 12.50.")]);
    let events = sandbox.run(sandbox.chat("  What is the total of this invoice, please, and who sent it to us?")).await;
    assert_eq!(names(&events), ["turn_started", "round_started", "text_delta", "round_finished", "completed"]);
    assert!(events.iter().enumerate().all(|(at, event)| event.number == at as u64 + 1));
    let EventKind::Completed { text, finish, usage, .. } = closing(&events) else { panic!() };
    assert_eq!((text.as_str(), *finish, usage.model_calls), ("The total is 12.50.", FinishReason::Stop, 1));

    let header = sandbox.header(&events[0].turn.thread).await;
    assert_eq!(header.title, "What is the total of this invoice, please, and who");
    assert_eq!((header.model.as_deref(), header.open_turn, header.epoch), (Some("scripted"), None, 1));
    let journal = sandbox.journal(&header.id).await;
    assert!(matches!(journal.as_slice(), [Entry::Accepted(_), Entry::Ended(_)]), "{journal:?}");
    assert_eq!(header.version, 2, "accepted and ended");
    let usage = sandbox.usage().await;
    assert_eq!(usage.len(), 1);
    assert_eq!(usage[0].key, format!("{}.1.0.1.1", events[0].turn));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_fallback_model_answers_before_the_first_token_and_event_and_usage_name_it() {
    let unavailable = || ModelError::Unavailable { retry_after: Duration::from_secs(9) };
    let sandbox = Sandbox::start().await;
    for error in [unavailable(), ModelError::RateLimited { retry_after: None }] {
        sandbox.models.then([Step::Fail(error), say("From the other.")]);
        let events = sandbox.run(sandbox.chat("hello")).await;
        assert_eq!(names(&events), ["turn_started", "round_started", "text_delta", "round_finished", "completed"]);
        let finished = events.iter().find_map(|event| match &event.kind {
            EventKind::RoundFinished { model, .. } => Some(model.as_str()),
            _ => None,
        });
        assert_eq!(finished, Some("other"));
        let requested: Vec<_> = sandbox.models.requests().into_iter().map(|request| request.model).collect();
        assert_eq!(requested[requested.len() - 2..], ["scripted", "other"]);
        let settled = sandbox.usage().await;
        assert!(settled.iter().any(|record| record.model == "other" && record.completed), "{settled:?}");
        assert!(
            !settled.iter().any(|record| record.model == "scripted"),
            "no request was sent to the model: {settled:?}"
        );
    }
    // The breaker opened during the retries of this call: the sent attempts are settled, and no token arrived.
    let failed = Box::new(ModelError::Failed("502".to_owned()));
    let stop_error = ModelError::RetriesStopped { error: failed, retry_after: Duration::from_secs(9) };
    sandbox.models.then([Step::Fail(stop_error), say("From the other.")]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let settled = sandbox.usage().await;
    assert!(settled.iter().any(|record| record.model == "scripted" && !record.completed), "{settled:?}");
    // If both endpoints are suspended, or after another failure, the turn fails.
    sandbox.models.then([Step::Fail(unavailable()), Step::Fail(unavailable())]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { error, .. } if error.reason == Reason::ModelUnavailable));
    sandbox.models.then([Step::Fail(ModelError::Failed("broken".to_owned()))]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { error, .. } if error.reason == Reason::ModelFailed));
    sandbox.finish().await;
}

#[tokio::test]
async fn the_model_is_sent_the_document_the_history_and_the_tools() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("One."), say("Two.")]);
    let events = sandbox.run(ChatCommand { model: Some("other".to_owned()), ..sandbox.chat("first") }).await;
    sandbox.run(sandbox.chat_in(&events[0].turn.thread, "second")).await;
    let sent = sandbox.models.requests();
    assert!(sent.iter().all(|request| request.model == "other"), "the thread retains its model");
    assert!(sent.iter().all(|request| request.temperature == Some(Temperature::default())), "the same calls each time");
    assert!(sent[0].system.contains("file name: \"invoice.pdf\"") && sent[0].system.contains("Total: 12.50"));
    let profile = folio_tools::Registry::standard().unwrap().profile("document").unwrap();
    assert_eq!(sent[0].tools, profile.definitions(false, []));
    let text = |text: &str| Message::user(text.to_owned());
    assert_eq!(sent[0].messages, [text("first")]);
    assert_eq!(sent[1].messages.len(), 3);
    assert_eq!((&sent[1].messages[0], &sent[1].messages[2]), (&text("first"), &text("second")));
    sandbox.finish().await;
}

#[tokio::test]
async fn the_working_state_follows_the_history_and_changes_nothing_before_it() {
    let sandbox = Sandbox::start().await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema":
        {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
         "additionalProperties": false}}});
    let create = call("create_schema", json!({"name": "S", "response_format": schema}));
    sandbox.models.then([create, say("Made."), say("Again.")]);
    let events = sandbox.run(ChatCommand { auto_approve: true, ..sandbox.chat("first") }).await;
    let thread = &events[0].turn.thread;
    sandbox.run(sandbox.chat_in(thread, "second")).await;
    let revid = sandbox.header(thread).await.working.schema_revid.unwrap();
    let sent = sandbox.models.requests();
    assert_eq!(sent[0].state, "", "the working state is empty");
    assert!(sent[1].state.contains(&format!("schema_revid: {revid}\n")), "{}", sent[1].state);
    assert_eq!(sent[0].system, sent[1].system, "a change in the turn leaves the system message cached");
    assert!(sent[1].messages.starts_with(&sent[0].messages));
    assert!(sent[0].system.contains("# Guide") && !sent[2].system.contains("# Guide"), "the thread has a schema");
    assert!(sent[0].system.starts_with(&sent[2].system), "the guide follows the document");
    assert!(sent[1].state.starts_with(&sent[2].state), "the next turn has the same state without the next call");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_found_tool_is_sent_last_for_the_rest_of_the_turn() {
    let sandbox = Sandbox::start().await;
    let find = Step::Raw(vec![("find_tools".to_owned(), "{\"query\": \"list tags\"}".to_owned())]);
    sandbox.models.then([find, say("Found."), say("Hello.")]);
    let events = sandbox.run(sandbox.chat("which tags are there?")).await;
    sandbox.run(sandbox.chat_in(&events[0].turn.thread, "hello")).await;
    let sent: Vec<Vec<String>> = sandbox
        .models
        .requests()
        .iter()
        .map(|request| request.tools.iter().map(|tool| tool.name.clone()).collect())
        .collect();
    assert_eq!(sent[1].last().map(String::as_str), Some("list_tags"));
    assert_eq!(sent[1][..sent[0].len()], sent[0]);
    assert_eq!(sent[2], sent[0], "the next turn starts with the tools that are always sent");
    sandbox.finish().await;
}

#[tokio::test]
async fn invalid_calls_are_reported_to_the_model() {
    let sandbox = Sandbox::start().await;
    let raw = Step::Raw(vec![
        ("list_tags".to_owned(), "{\"limit\": ".to_owned()),
        ("launch_rocket".to_owned(), "{}".to_owned()),
        ("get_tag".to_owned(), "{\"tag_id\": 7}".to_owned()),
        ("get_tag".to_owned(), "{\"tag_id\": \"tag_nope\"}".to_owned()),
    ]);
    sandbox.models.then([raw, say("Sorry.")]);
    let events = sandbox.run(sandbox.chat("look")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(rounds[0].results.len(), 4);
    assert!(rounds[0].results.iter().all(|result| result.status == CallStatus::Failed), "{rounds:?}");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_queue_is_bounded_and_drops_disconnected_clients() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([gated(say("One."))]);
    let first = sandbox.begin(sandbox.chat("one")).await;
    let thread = sandbox.newest_thread().await;
    let mut waiting = Vec::new();
    for count in 1..=8 {
        waiting.push(sandbox.enqueue(sandbox.chat_in(&thread, "more"), count).await);
    }
    let ninth = ChatCommand { if_busy: IfBusy::Enqueue, ..sandbox.chat_in(&thread, "q9") };
    let error = sandbox.chat_error(ninth).await;
    assert_eq!(error.reason, Reason::QueueFull, "invariant 10");
    for left in waiting {
        left.abort();
        let _ = left.await;
    }
    sandbox.models.release();
    all(first).await;
    assert_eq!(sandbox.models.requests().len(), 1, "a caller that disconnected while queued gets no turn");
    sandbox.finish().await;
}

#[tokio::test]
async fn an_ephemeral_thread_imports_its_sanitized_history_and_expires_after_a_day() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("Yes.")]);
    let orphan = Message::Tool { call: "nothing".to_owned(), content: "lost".to_owned() };
    let history = vec![Message::user("before".to_owned()), orphan];
    let chat = ChatCommand { ephemeral: true, history, ..sandbox.chat("now") };
    let events = sandbox.run(chat).await;
    let sent = sandbox.models.requests().pop().unwrap().messages;
    assert_eq!(sent.len(), 2, "{sent:?}");
    let thread = events[0].turn.thread.clone();
    assert!(sandbox.threads().await.is_empty());
    let forked = sandbox.conversations.fork_thread(&sandbox.principal, fork(&thread, None)).await.unwrap();
    let source = sandbox.header(&thread).await;
    assert_eq!((forked.ephemeral, forked.expires_at), (true, source.expires_at), "a fork expires with its source");
    sandbox.environment.advance(Duration::from_secs(25 * 60 * 60));
    for thread in [thread, forked.id] {
        sandbox.wait_for_removal(&thread).await;
    }
    sandbox.finish().await;
}

#[tokio::test]
async fn invalid_requests_have_no_effect_and_may_be_corrected_and_repeated() {
    let sandbox = Sandbox::start().await;
    let good = ChatCommand { request_id: request("c-1"), ..sandbox.chat("x") };
    let large = "\\\u{1}".repeat(50 * 1024);
    let table = [
        (ChatCommand { profile: Some("pirate".into()), ..good.clone() }, Reason::UnknownProfile, "pirate"),
        (ChatCommand { documents: vec![], ..good.clone() }, Reason::InvalidField, ""),
        (ChatCommand { model: Some("gpt-0".into()), ..good.clone() }, Reason::ModelNotAvailable, "gpt-0"),
        (ChatCommand { auto_approved_tools: vec!["rm".into()], ..good.clone() }, Reason::UnknownTool, "rm"),
        (sandbox.chat_in(&ThreadId::derive(&["nowhere"]), "x"), Reason::NotFound, "thread"),
        (ChatCommand { documents: vec![DocumentId::derive(&["gone"])], ..good.clone() }, Reason::NotFound, "document"),
        (ChatCommand { text: large, ..good.clone() }, Reason::TooLarge, ""),
    ];
    for (command, reason, names) in table {
        let error = sandbox.chat_error(command).await;
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.message.contains(names), "{error}");
    }
    let viewer = Principal { role: Role::Viewer, ..sandbox.principal.clone() };
    let error = sandbox.conversations.chat(&viewer, good.clone()).await.err().unwrap();
    assert_eq!(error.reason, Reason::RoleNotAllowed);
    assert_eq!((sandbox.models.requests().len(), sandbox.threads().await.len()), (0, 0));
    sandbox.until("an empty table", |now| now.live == 0).await;
    sandbox.models.then([say("Hello.")]);
    sandbox.run(good).await;
    assert_eq!(sandbox.threads().await.len(), 1);
    sandbox.finish().await;
}

#[tokio::test]
async fn other_organizations_and_users_have_no_access() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([say("Mine.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    let turn = &events[0].turn;
    let other_user = UserId::derive(&["other"]);
    let strangers = [
        Principal { org: OrgId::derive(&["b"]), role: Role::Admin, ..sandbox.principal.clone() },
        Principal { user: other_user.clone(), ..sandbox.principal.clone() },
    ];
    for stranger in &strangers {
        let error = sandbox.conversations.get_turn(stranger, turn).await.unwrap_err();
        assert_eq!(error.code, Code::NotFound, "invariant 6");
        let error = sandbox.conversations.chat(stranger, sandbox.chat_in(&turn.thread, "hi")).await.err().unwrap();
        assert_eq!(error.code, Code::NotFound, "invariant 6");
        assert!(sandbox.conversations.delete_thread(stranger, &turn.thread, None).await.is_err());
    }
    let admin = Principal { user: other_user, role: Role::Admin, ..sandbox.principal.clone() };
    assert!(sandbox.conversations.get_turn(&admin, turn).await.is_ok());
    sandbox.finish().await;
}

#[tokio::test]
async fn a_queued_chat_is_refused_by_a_pause_or_supersedes_it() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([gated(call("create_tag", json!({"name": "a"}))), say("Instead.")]);
    let first = sandbox.begin(sandbox.chat("one")).await;
    let thread = sandbox.newest_thread().await;
    let chat = |text: &str, if_pending| ChatCommand { if_pending, ..sandbox.chat_in(&thread, text) };
    let rejecting = sandbox.enqueue(chat("rejected", IfPending::Reject), 1).await;
    let superseding = sandbox.enqueue(chat("supersedes", IfPending::Supersede), 2).await;
    sandbox.models.release();
    // A slow reader may find the turn superseded already. It receives one closing event in any case.
    let turn = all(first).await[0].turn.clone();
    assert_eq!(rejecting.await.unwrap().err().unwrap().reason, Reason::TurnPending);
    let second = all(superseding.await.unwrap().unwrap()).await;
    assert!(matches!(closing(&second), EventKind::Completed { text, .. } if text == "Instead."), "{second:?}");
    assert_eq!(sandbox.turn(&turn).await.status, TurnStatus::Superseded);
    sandbox.finish().await;
}

#[tokio::test]
async fn mentions_are_resolved_within_the_organization() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([call("create_tag", json!({"name": "ours", "description": "What is ours."})), say("Made.")]);
    let source = sandbox.run(ChatCommand { auto_approve: true, ..sandbox.chat("make it") }).await;
    let tags = sandbox.stores.of::<Tag>().list(&sandbox.principal.org, &Default::default(), &Default::default()).await;
    let ours = tags.unwrap().items[0].id.clone();
    let unknown = folio_types::TagId::derive(&["theirs"]);
    sandbox.models.then([say("Seen.")]);
    let mentions = [ours.clone(), unknown.clone()].map(folio_history::journal::Mention::Tag).to_vec();
    let chat = ChatCommand { mentions, ..sandbox.chat_in(&source[0].turn.thread, "what are these?") };
    sandbox.run(chat).await;
    let system = sandbox.models.requests().pop().unwrap().system;
    assert!(system.contains(&format!("## Tag {ours}\n\nname: \"ours\"")) && system.contains("What is ours."));
    assert!(system.contains(&format!("## Tag {unknown}\n\nNot found")), "invariant 6: {system}");
    sandbox.finish().await;
}
