//! Each kind of event, in its order, with its number.

use folio_proto::v1;
use folio_proto::v1::event::Kind;

use crate::client::{assert_numbered, outline};
use crate::sandbox::Sandbox;

const TALK: &str = "
rules:
  - when: {user: think}
    answer:
      text: The total is 957.00 EUR, as printed near the end of the document.
      thinking: [{text: Let me see where the total stands in this document., signature: sig-1}]
      usage: {prompt_tokens: 100, cached_tokens: 10, completion_tokens: 20}
";

#[tokio::test]
async fn a_turn_of_words_streams_thinking_and_text_and_completes() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let events = client.chat(&document, "think").await.end().await;
    assert_eq!(
        outline(&events),
        ["turn_started", "round_started", "thinking_delta", "text_delta", "round_finished", "completed"]
    );
    assert_numbered(&events, 1);
    let joined = |pick: fn(&Kind) -> Option<&str>| -> String {
        events.iter().filter_map(|event| event.kind.as_ref().and_then(pick)).collect()
    };
    let text = joined(|kind| if let Kind::TextDelta(delta) = kind { Some(&delta.text) } else { None });
    let thinking = joined(|kind| if let Kind::ThinkingDelta(delta) = kind { Some(&delta.text) } else { None });
    let Some(Kind::Completed(completed)) = &events.last().unwrap().kind else { panic!("{events:?}") };
    assert_eq!(text, "The total is 957.00 EUR, as printed near the end of the document.");
    assert_eq!((completed.text.as_str(), completed.thinking.as_str()), (text.as_str(), thinking.as_str()));
    assert!(thinking.starts_with("Let me see"));
    assert_eq!(completed.finish_reason(), v1::FinishReason::Stop);
    let usage = completed.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.model_calls),
        (100, 10, 20, 1)
    );
    let Some(Kind::TurnStarted(started)) = &events[0].kind else { panic!() };
    assert_eq!(started.model, "scripted");
    let thread = client.thread(&started.thread_id).await;
    assert_eq!(thread.thread.unwrap().title, "think");
    assert_eq!(thread.messages.len(), 2);
}
