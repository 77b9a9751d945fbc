//! Models that stand in for others: what they cost, and whether they can be paid.

use folio_llm::ModelError;
use folio_types::Reason;
use folio_types::event::{Event, EventKind};

use super::sandbox::{Sandbox, closing};
use super::script::{Step, say};

fn limited() -> ModelError {
    ModelError::RateLimited { retry_after: None }
}

/// It was sent, and fails before the first token.
fn sent_in_vain() -> Step {
    Step::Break(String::new(), limited())
}

/// Model calls and tokens of the prompts: of the turn, and of what was recorded.
async fn spent(sandbox: &Sandbox, events: &[Event]) -> [(u32, u64); 2] {
    let turn = sandbox.turn(&events[0].turn).await.usage;
    let prefix = format!("{}.", events[0].turn);
    let records = sandbox.usage().await.into_iter().filter(|record| record.key.starts_with(&prefix));
    let records = records
        .fold((0, 0), |(calls, tokens), record| (calls + record.usage.model_calls, tokens + record.usage.input_tokens));
    [(turn.model_calls, turn.input_tokens), records]
}

#[tokio::test]
async fn what_a_model_used_that_another_stood_in_for_counts_in_the_turn() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([sent_in_vain(), say("From the other.")]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Completed { usage, .. } if usage.model_calls == 2), "{events:?}");
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!(turn, recorded);

    sandbox.models.then([sent_in_vain(), sent_in_vain()]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { retriable: true, .. }), "{events:?}");
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!((turn.0, turn), (2, recorded));

    // The one that is left cannot hold the turn.
    sandbox.models.other_holds(500);
    sandbox.models.then([sent_in_vain()]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    let [turn, recorded] = spent(&sandbox, &events).await;
    assert_eq!((turn.0, turn), (1, recorded));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_model_that_cannot_be_paid_does_not_stand_in() {
    let sandbox = Sandbox::start().await;
    sandbox.models.fall_back_to(&["other", "cheap"]);
    sandbox.models.too_dear(&["other"]);
    sandbox.models.then([Step::Fail(limited()), say("From the cheap one.")]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let asked: Vec<_> = sandbox.models.requests().into_iter().map(|request| request.model).collect();
    assert_eq!(asked, ["scripted", "cheap"]);

    sandbox.models.too_dear(&["other", "cheap"]);
    sandbox.models.then([Step::Fail(limited())]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    let EventKind::Failed { error, retriable, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((error.reason, *retriable), (Reason::ModelRateLimited, true), "the first model's: {error}");

    // The model that is asked for is another matter.
    sandbox.models.too_dear(&["scripted"]);
    let events = sandbox.run(sandbox.chat("hello")).await;
    assert!(matches!(closing(&events), EventKind::Failed { error, .. } if error.reason == Reason::SpuExhausted));
    sandbox.finish().await;
}
