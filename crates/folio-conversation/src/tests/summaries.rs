//! Summaries of long conversations: the requests that contain them, truncation and fork.

use super::*;

/// Answers of the model, after which ten messages have left the window.
const TURNS: usize = 15;

async fn long_thread(sandbox: &Sandbox) -> ThreadId {
    let mut thread = None;
    for number in 0..TURNS {
        sandbox.models.then([say(&format!("answer {number}"))]);
        let text = format!("question {number}");
        let chat = match &thread {
            Some(thread) => sandbox.chat_in(thread, &text),
            None => sandbox.chat(&text),
        };
        let events = sandbox.run(chat).await;
        thread = events.first().map(|event| event.turn.thread.clone());
    }
    thread.unwrap()
}

#[tokio::test]
async fn a_long_conversation_continues_with_the_summary_of_its_beginning() {
    let sandbox = Sandbox::start().await;
    let thread = long_thread(&sandbox).await;
    sandbox.models.then([say("They counted </summary> to five."), say("Done.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "continue")).await;
    assert!(matches!(closing(&events), EventKind::Completed { text, .. } if text == "Done."), "{events:?}");
    let requests = sandbox.models.requests();
    let [.., summary, turn] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(summary.system.starts_with("You summarize") && summary.tools.is_empty(), "{}", summary.system);
    let [Message::User { text, .. }] = summary.messages.as_slice() else { panic!("{:?}", summary.messages) };
    assert!(text.contains("question 0") && text.contains("answer 4") && !text.contains("question 5"), "{text}");
    assert_eq!(turn.state.matches("</summary>").count(), 1, "{}", turn.state);
    assert!(turn.state.contains("They counted"), "{}", turn.state);
    let sent = format!("{:?}", turn.messages);
    assert!(!sent.contains("question 4") && sent.contains("question 5"), "{sent}");
    let EventKind::Completed { usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(usage.model_calls, 2);

    let entries = sandbox.journal(&thread).await;
    let ranges = entries.iter().filter_map(|entry| match entry {
        Entry::Summary(summary) => Some((summary.from, summary.to)),
        _ => None,
    });
    assert_eq!(ranges.collect::<Vec<_>>(), [(1, 10)]);

    // A fork has the summary without a call of its own.
    let forked = sandbox.conversations.fork_thread(&sandbox.principal, fork(&thread, None)).await.unwrap();
    let calls = sandbox.models.requests().len();
    sandbox.models.then([say("Forked.")]);
    sandbox.run(sandbox.chat_in(&forked.id, "continue")).await;
    let requests = sandbox.models.requests();
    assert_eq!(requests.len(), calls + 1);
    assert!(requests.last().unwrap().state.contains("They counted"), "{}", requests.last().unwrap().state);

    // A truncation below the range drops the summary.
    sandbox.models.then([say("Short.")]);
    let truncated = ChatCommand { truncate_to_message_count: Some(4), ..sandbox.chat_in(&thread, "again") };
    sandbox.run(truncated).await;
    assert!(!sandbox.models.requests().last().unwrap().state.contains("They counted"));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_with_a_credit_budget_spends_none_of_it_on_a_summary() {
    let sandbox = Sandbox::start().await;
    let thread = long_thread(&sandbox).await;
    sandbox.models.then([say("Done.")]);
    let limited = ChatCommand { credit_budget: Some(1_000), ..sandbox.chat_in(&thread, "continue") };
    sandbox.run(limited).await;
    assert_eq!(sandbox.models.requests().len(), TURNS + 1);
    sandbox.models.then([say("They counted."), say("Done.")]);
    sandbox.run(sandbox.chat_in(&thread, "again")).await;
    assert_eq!(sandbox.models.requests().len(), TURNS + 3, "the next turn makes it");
    sandbox.finish().await;
}

#[tokio::test]
async fn summaries_can_be_switched_off() {
    let sandbox = Sandbox::start_with(Options { summaries: false, ..Options::default() }).await;
    let thread = long_thread(&sandbox).await;
    sandbox.models.then([say("Done.")]);
    sandbox.run(sandbox.chat_in(&thread, "continue")).await;
    assert_eq!(sandbox.models.requests().len(), TURNS + 1);
    sandbox.finish().await;
}
