//! Fallback models: their cost, the credit check, and their requests.

use folio_llm::ModelRequest;

use super::*;

fn rate_limited() -> ModelError {
    ModelError::RateLimited { retry_after: None }
}

/// Returns a call that is sent and fails before the first token.
fn fails_after_sending() -> Step {
    Step::Break(String::new(), rate_limited())
}

/// Returns the numbers of model calls and prompt tokens, first of the turn and then of its usage records.
async fn spent(sandbox: &Sandbox, events: &[Event]) -> [(u32, u64); 2] {
    let turn = sandbox.turn(&events[0].turn).await.usage;
    let prefix = format!("{}.", events[0].turn);
    let records = sandbox.usage().await.into_iter().filter(|record| record.key.starts_with(&prefix));
    let records = records
        .fold((0, 0), |(calls, tokens), record| (calls + record.usage.model_calls, tokens + record.usage.input_tokens));
    [(turn.model_calls, turn.input_tokens), records]
}

#[tokio::test]
async fn usage_of_a_model_that_a_fallback_replaced_counts_in_the_turn() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([fails_after_sending(), say("From the other.")]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Completed { usage, .. } if usage.model_calls == 2), "{events:?}");
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!(turn, recorded);

    sandbox.models.then([fails_after_sending(), fails_after_sending()]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { retriable: true, .. }), "{events:?}");
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!((turn.0, turn), (2, recorded));

    // The context of the only fallback is too small for the turn.
    sandbox.models.set_other_context(500);
    sandbox.models.then([fails_after_sending()]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    let EventKind::Failed { error, retriable, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((error.reason, *retriable), (Reason::ModelRateLimited, true), "the error of the first model: {error}");
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!((turn.0, turn), (1, recorded));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_model_that_the_credit_does_not_cover_is_no_fallback() {
    let sandbox = Sandbox::start().await;
    sandbox.models.set_fallbacks(&["other", "cheap"]);
    sandbox.models.make_unaffordable(&["other"]);
    sandbox.models.then([Step::Fail(rate_limited()), say("From the cheap one.")]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let requested: Vec<_> = sandbox.models.requests().into_iter().map(|request| request.model).collect();
    assert_eq!(requested, ["scripted", "cheap"]);

    sandbox.models.make_unaffordable(&["other", "cheap"]);
    sandbox.models.then([Step::Fail(rate_limited())]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    let EventKind::Failed { error, retriable, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((error.reason, *retriable), (Reason::ModelRateLimited, true), "the error of the first model: {error}");

    // Insufficient credit for the requested model itself fails the turn.
    sandbox.models.make_unaffordable(&["scripted"]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { error, .. } if error.reason == Reason::CreditExhausted));
    sandbox.finish().await;
}

/// Returns the model of a request and the texts of the thinking blocks in it.
fn thinking_texts(request: &ModelRequest) -> (&str, Vec<&str>) {
    let blocks = request.messages.iter().flat_map(|message| match message {
        Message::Assistant { thinking, .. } => thinking.as_slice(),
        _ => &[],
    });
    (request.model.as_str(), blocks.map(|block| block.text.as_str()).collect())
}

#[tokio::test]
async fn thinking_is_sent_only_to_the_model_that_produced_it() {
    let sandbox = Sandbox::start().await;
    let fails = || Step::Fail(rate_limited());
    sandbox.models.then([fails(), Step::Think("by the other", vec!["list_tags"]), Step::Think("by itself", vec![])]);
    let events = sandbox.run(sandbox.chat("first")).await;
    sandbox.models.then([fails(), say("Two.")]);
    sandbox.run(sandbox.chat_in(&events[0].turn.thread, "second")).await;
    let requests = sandbox.models.requests();
    let sent: Vec<_> = requests.iter().map(thinking_texts).collect();
    let expected: [(&str, Vec<&str>); 5] = [
        ("scripted", vec![]),
        ("other", vec![]),
        ("scripted", vec![]),
        ("scripted", vec!["by itself"]),
        ("other", vec!["by the other"]),
    ];
    assert_eq!(sent, expected);
    sandbox.finish().await;
}
