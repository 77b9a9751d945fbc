//! Bounds: texts are truncated, and messages, turns, decisions and requests are refused (invariant 10).

use folio_history::json_bytes;
use proptest::prelude::*;

use super::*;

#[test]
fn a_message_that_exceeds_an_entry_is_refused() {
    let mut rig = Rig::new();
    let ticket = rig.start(&"\u{1}".repeat(limits::USER_TEXT_BYTES));
    assert_eq!(rig.refusal(ticket), Some(Reason::TooLarge));
    let ticket = rig.start(&"x".repeat(limits::USER_TEXT_BYTES));
    assert!(rig.answer(ticket).unwrap().is_ok());
}

#[test]
fn a_full_thread_refuses_new_turns_but_ends_its_open_turn() {
    let mut rig = Rig::new();
    rig.start("one");
    rig.store.header.bytes = limits::THREAD_BYTES;
    rig.reply(text_reply("hi"));
    assert!(rig.record().ended.is_some());
    let ticket = rig.start("two");
    assert_eq!(rig.refusal(ticket), Some(Reason::ThreadFull));
    let mut rig = Rig::new();
    rig.store.header.turns = limits::TURNS_PER_THREAD;
    rig.crash();
    let ticket = rig.start("one");
    assert_eq!(rig.refusal(ticket), Some(Reason::ThreadFull));
}

#[test]
fn too_large_decisions_are_refused_completely() {
    let mut rig = Rig::with_calls(&["w1", "w2", "w3"]);
    let edited = |index| {
        let arguments = json!({ "on": "x".repeat(100_000) });
        (index, Decision::ApproveEdited { arguments })
    };
    let ticket = rig.decide(1, &[edited(1), edited(2), edited(3)]);
    assert_eq!(rig.refusal(ticket), Some(Reason::TooLarge));
    assert!(rig.work.is_empty());
    rig.decide(1, &[edited(1)]);
    rig.decide(1, &[edited(2)]);
    rig.decide(1, &[approve(3)]);
    rig.finish();
    assert!(rig.record().ended.is_some());
}

#[test]
fn requests_that_wait_are_bounded() {
    let mut rig = Rig::started();
    let now = rig.now;
    // The store does not answer, so all requests are deferred.
    let call = rig.calling().unwrap();
    let reply = Box::new(text_reply("hi"));
    let effects = rig.machine.handle(now, Command::ModelReplied { round: call.round, attempt: call.attempt, reply });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Append(_))));
    let mut refused = 0;
    for _ in 0..DEFERRED_MAX + 3 {
        let ticket = rig.ticket();
        for effect in rig.machine.handle(now, Command::Cancel { ticket, turn: 1 }) {
            let Effect::Answer(_, Err(error)) = effect else { panic!("{effect:?}") };
            assert_eq!(error.reason, Reason::Overloaded);
            assert!(error.is_retriable() && error.retry_after.is_some());
            refused += 1;
        }
    }
    assert_eq!(refused, 3);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_text_is_truncated_at_a_character_within_its_bounds(text in "[\\PC\u{0}-\u{1f}\"\\\\ü🦀]{0,400}", raw in 40usize..500, escaped in 60usize..500) {
        let mut truncated = text.clone();
        bounds::truncate(&mut truncated, raw, escaped);
        prop_assert!(truncated.len() <= raw && json_bytes(&truncated) <= escaped);
        if text.len() <= raw && json_bytes(&text) <= escaped {
            prop_assert_eq!(truncated, text);
        } else {
            prop_assert!(truncated.contains("[… truncated"));
        }
    }
}
