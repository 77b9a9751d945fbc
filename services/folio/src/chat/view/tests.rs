//! Tests of the view of a chat.

use super::*;

fn thinking(text: &str) -> Kind {
    Kind::ThinkingDelta(v1::ThinkingDelta { text: text.to_owned() })
}

fn text(text: &str) -> Kind {
    Kind::TextDelta(v1::TextDelta { text: text.to_owned() })
}

fn round(attempt: u32) -> Kind {
    Kind::RoundStarted(v1::RoundStarted { round: 1, attempt })
}

fn completed(text: &str) -> Kind {
    Kind::Completed(v1::Completed { text: text.to_owned(), ..v1::Completed::default() })
}

const NOW: Duration = Duration::from_secs(10);

#[test]
fn thinking_folds_into_one_line_with_time_and_length() {
    let mut view = View::new();
    assert!(view.event(&thinking("first I "), NOW).is_empty());
    assert!(view.event(&thinking("think"), NOW + Duration::from_millis(900)).is_empty());
    assert_eq!(view.waiting(), Waiting::Thinking);
    let shown = view.event(&text("Hello"), NOW + Duration::from_millis(2_500));
    assert_eq!(texts(&shown), ["▸ thought for 2.5 s (13 characters; /thinking shows it)", "Hello"]);
    assert_eq!(view.thinking(), "first I think");
}

#[test]
fn unfolded_thinking_streams() {
    let mut view = View::new();
    view.unfold(true);
    assert_eq!(view.event(&thinking("hm"), NOW), [Output::Part(DIM, "hm".to_owned())]);
    assert_eq!(texts(&view.event(&text("Hello"), NOW)), ["\n", "Hello"]);
}

#[test]
fn an_answer_is_shown_once_with_or_without_streaming() {
    let mut view = View::new();
    view.event(&round(1), NOW);
    view.event(&text("Hel"), NOW);
    view.event(&text("lo"), NOW);
    assert!(view.event(&completed("Hello"), NOW).is_empty());
    view.event(&round(1), NOW);
    assert_eq!(texts(&view.event(&completed("Hello"), NOW)), ["Hello"]);
}

#[test]
fn a_second_attempt_discards_the_text_of_the_first() {
    let mut view = View::new();
    view.event(&round(1), NOW);
    view.event(&text("Hel"), NOW);
    assert!(texts(&view.event(&round(2), NOW))[0].contains("is discarded"));
    view.event(&text("Good day"), NOW);
    assert!(view.event(&completed("Good day"), NOW).is_empty());
}

#[test]
fn a_failure_states_whether_it_can_be_resumed() {
    let mut view = View::new();
    let error =
        v1::Error { message: "no answer".to_owned(), reason: "MODEL_TIMEOUT".to_owned(), ..v1::Error::default() };
    let failed = |retriable| Kind::Failed(v1::Failed { error: Some(error.clone()), retriable });
    assert_eq!(
        texts(&view.event(&failed(true), NOW)),
        ["The turn failed: no answer (MODEL_TIMEOUT); /retry resumes it"]
    );
    assert_eq!(texts(&view.event(&failed(false), NOW)), ["The turn failed: no answer (MODEL_TIMEOUT)"]);
}

#[test]
fn the_usage_of_each_round_of_the_last_turn_is_kept() {
    let started = Kind::TurnStarted(v1::TurnStarted::default());
    let finished = |round, input_tokens| {
        let usage = Some(v1::Usage { input_tokens, ..v1::Usage::default() });
        Kind::RoundFinished(v1::RoundFinished { round, usage, ..v1::RoundFinished::default() })
    };
    let mut view = View::whole();
    for kind in [started.clone(), finished(1, 900), finished(2, 950), started, finished(1, 400), finished(3, 450)] {
        assert_eq!(view.event(&kind, Duration::ZERO), Vec::new());
    }
    let tokens = |(round, usage): (u32, v1::Usage)| (round, usage.input_tokens);
    assert_eq!(view.into_usages().into_iter().map(tokens).collect::<Vec<_>>(), [(1, 400), (3, 450)]);
}

#[test]
fn the_usage_of_a_turn_shows_cached_and_counted_tokens() {
    let usage = |cached_input_tokens, reported, model_calls| v1::Usage {
        input_tokens: 900,
        cached_input_tokens,
        output_tokens: 20,
        reported,
        model_calls,
        credits: 0,
    };
    let cached = "900 tokens in (640 from the provider's cache), 20 out, 2 model calls";
    assert_eq!(usage_line(&usage(640, true, 2)), cached);
    assert_eq!(usage_line(&usage(0, false, 1)), "900 tokens in, 20 out, 1 model call, counted by Folio");
}

#[test]
fn a_snapshot_shows_the_turn_so_far() {
    let mut view = View::new();
    let turn = v1::Turn {
        rounds: vec![v1::Round { round: 1, text: "So far".to_owned(), ..v1::Round::default() }],
        ..v1::Turn::default()
    };
    let shown = view.event(&Kind::Snapshot(v1::Snapshot { turn: Some(turn) }), NOW);
    assert!(texts(&shown).contains(&"So far".to_owned()), "{shown:?}");
    assert!(view.event(&completed("So far"), NOW).is_empty());
}

fn preview(shown: &[Output]) -> Vec<String> {
    let Some(Output::Preview(lines)) = shown.last() else { panic!("no preview: {shown:?}") };
    lines.iter().map(|line| crate::layout::text_of(line)).collect()
}

#[test]
fn formatted_text_is_previewed_until_its_block_is_complete() {
    let mut view = View::new();
    view.set_width(Some(20));
    view.event(&round(1), NOW);
    assert_eq!(preview(&view.event(&text("The **total** is"), NOW)), ["The total is"]);
    assert_eq!(preview(&view.event(&text(" 42 euros and"), NOW)), ["The total is 42", "euros and"]);
    let shown = view.event(&text(" more.\n\n- one"), NOW);
    assert_eq!(shown[0], Output::Preview(Vec::new()), "the preview is replaced");
    assert_eq!(texts(&shown), ["The total is 42", "euros and more."]);
    assert_eq!(preview(&shown), ["", "• one"]);
    let shown = view.event(&completed("The **total** is 42 euros and more.\n\n- one"), NOW);
    assert_eq!(texts(&shown), ["", "• one"]);
    assert!(view.event(&completed("The **total** is 42 euros and more.\n\n- one"), NOW).is_empty());
}

#[test]
fn control_characters_of_a_formatted_text_are_replaced() {
    let mut view = View::new();
    view.set_width(Some(40));
    view.event(&round(1), NOW);
    assert_eq!(preview(&view.event(&text("a\u{1b}[2Jb"), NOW)), ["a\u{fffd}[2Jb"]);
    assert_eq!(texts(&view.event(&completed("c\u{1b}d"), NOW)), ["a\u{fffd}[2Jb", "c\u{fffd}d"]);
}

#[test]
fn calls_that_read_a_guide_are_folded() {
    let mut view = View::new();
    let call = |name: &str| v1::Call { name: name.to_owned(), ..v1::Call::default() };
    let calls = v1::ToolCalls { calls: vec![call("help_schemas"), call("list_tags")] };
    assert_eq!(texts(&view.event(&Kind::ToolCalls(calls), NOW)), ["→ list_tags"]);
}
