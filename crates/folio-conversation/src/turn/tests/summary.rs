//! Summaries of messages that left the window.

use folio_history::journal::TurnProfile;

use super::*;

/// Turns with a question and an answer after which ten messages have left the window.
const TURNS: usize = 15;

fn start(rig: &mut Rig) {
    rig.start_as("question", |start| start.options.summarizes = true);
}

/// A thread whose newest turn is about to call the model.
fn long_thread() -> Rig {
    let mut rig = Rig::new();
    for _ in 0..TURNS {
        start(&mut rig);
        rig.reply(text_reply("answer"));
    }
    start(&mut rig);
    rig
}

fn round(rig: &Rig) -> Option<u32> {
    rig.calling().map(|call| call.round)
}

#[test]
fn messages_that_left_the_window_are_summarized_before_the_first_round() {
    let mut rig = long_thread();
    assert_eq!(round(&rig), Some(0));
    rig.reply(text_reply("They talked."));
    let summary = rig.machine.history().summary().unwrap();
    assert_eq!((summary.text.as_str(), summary.from, summary.to, summary.turn), ("They talked.", 1, 10, 16));
    assert_eq!(rig.journal().iter().rev().take(2).map(String::as_str).collect::<Vec<_>>(), ["summary", "accepted"]);
    assert_eq!(round(&rig), Some(1));
    let shown = rig.events.iter().any(|event| matches!(event.kind, EventKind::RoundStarted { round: 0, .. }));
    assert!(!shown, "a summary is no round");
    rig.reply(text_reply("answer"));
    assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 2, "its call counts");
    rig.check_stored();
    for _ in 0..4 {
        start(&mut rig);
        assert_eq!(round(&rig), Some(1), "at most every ten messages");
        rig.reply(text_reply("answer"));
    }
    start(&mut rig);
    assert_eq!(round(&rig), Some(0));
}

#[test]
fn a_summary_that_fails_or_is_lost_does_not_fail_the_turn() {
    let mut rig = long_thread();
    rig.model_fails(false);
    assert_eq!(round(&rig), Some(1), "it is not repeated in this turn");
    rig.reply(text_reply("answer"));
    assert!(matches!(rig.end(), Some(End::Completed { .. })));
    start(&mut rig);
    assert_eq!(round(&rig), Some(0), "the next turn makes it");
    rig.reply(text_reply(" "));
    assert_eq!((round(&rig), rig.machine.history().summary()), (Some(1), None), "an empty text is no summary");

    let mut rig = long_thread();
    let attempt = rig.calling().unwrap().attempt;
    rig.crash();
    rig.resume();
    let call = rig.calling().unwrap();
    assert_eq!((call.round, call.attempt), (0, attempt + 1), "the ledger key is another one");
    rig.reply(text_reply("They talked."));
    rig.reply(text_reply("answer"));
    assert!(matches!(rig.end(), Some(End::Completed { .. })));

    let mut rig = long_thread();
    rig.cancel();
    assert!(matches!(rig.end(), Some(End::Cancelled)));
    assert_eq!(rig.machine.history().summary(), None);
}

#[test]
fn a_summary_takes_a_part_of_the_time_of_its_turn() {
    for (running_seconds, expected) in [(None, 60), (Some(300), 60), (Some(100), 50), (Some(1), 0)] {
        let mut rig = Rig::new();
        for _ in 0..=TURNS {
            rig.start_as("question", |start| {
                start.options.summarizes = true;
                start.options.profile = Some(TurnProfile { running_seconds, ..rig::profile() });
            });
            if rig.turn() as usize <= TURNS {
                rig.reply(text_reply("answer"));
            }
        }
        let call = rig.calling().unwrap();
        assert_eq!((call.round, call.time_left.unwrap().as_secs()), (0, expected), "{running_seconds:?}");
        rig.model_fails(false);
        assert_eq!(round(&rig), Some(1), "the turn has the rest of its time");
    }
}

/// The append of the summary is lost, applied without an answer, or overtaken by another node.
#[test]
fn a_summary_whose_append_is_lost_or_overtaken_is_stored_once() {
    for mishap in [Mishap::AnswerLost, Mishap::NeverArrived, Mishap::Overtaken] {
        let mut rig = long_thread();
        rig.mishaps.push_back(mishap);
        rig.reply(text_reply("They talked."));
        assert_eq!(rig.is_lost, mishap == Mishap::Overtaken, "{mishap:?}");
        if rig.is_lost {
            rig.crash();
            rig.resume();
            assert_eq!(round(&rig), Some(0), "the summary is not stored");
            rig.reply(text_reply("They talked."));
        }
        rig.reply(text_reply("answer"));
        assert!(matches!(rig.end(), Some(End::Completed { .. })), "{mishap:?}");
        assert_eq!(rig.journal().iter().filter(|kind| *kind == "summary").count(), 1, "{mishap:?}");
        rig.check_stored();
    }
}

#[test]
fn a_turn_with_a_credit_budget_makes_no_summary_and_keeps_the_messages() {
    let mut rig = long_thread();
    rig.cancel();
    rig.start_as("question", |start| {
        (start.options.summarizes, start.options.credit_budget) = (true, Some(1_000));
    });
    assert_eq!(round(&rig), Some(1));
    assert!(rig.machine.history().window_messages(true) > 2 * TURNS, "messages without a summary stay in the window");
    rig.reply(text_reply("answer"));
    start(&mut rig);
    assert_eq!(round(&rig), Some(0), "the next turn makes it");
}

#[test]
fn a_turn_that_does_not_record_summaries_makes_none() {
    let mut rig = Rig::new();
    for _ in 0..=TURNS {
        rig.start("question");
        assert_eq!(round(&rig), Some(1));
        rig.reply(text_reply("answer"));
    }
}
