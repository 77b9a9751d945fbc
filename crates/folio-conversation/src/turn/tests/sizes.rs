//! Bounds: texts are truncated, and messages, turns, decisions and requests are refused (invariant 10).

use folio_history::journal::{Decisions, Entry, Intent, Outcome, WorkingChange, WorkingExtraction};
use folio_history::json_bytes;
use folio_history::thread::HeaderChange;
use folio_types::message::ThinkingBlock;
use folio_types::op::{Expected, Target};
use folio_types::{DocumentId, ExtractionId, PromptId, PromptRevId};
use proptest::prelude::*;

use super::store::start_time;
use super::*;
use crate::turn::{CallPlan, Ticket, ToolResult};

#[test]
fn a_message_that_exceeds_an_entry_is_refused() {
    let mut rig = Rig::new();
    let ticket = rig.start(&"\u{1}".repeat(limits::USER_TEXT_BYTES));
    assert_eq!(rig.refusal(ticket), Some(Reason::TooLarge));
    let ticket = rig.start(&"x".repeat(limits::USER_TEXT_BYTES));
    assert!(rig.answer(ticket).unwrap().is_ok());
    let of_empty_text = json_bytes(&Rig::started().store.entries[0]) - "hello".len();
    let fits = bounds::ENTRY_CONTENT_BYTES - of_empty_text;
    for (bytes, refusal) in [(fits, None), (fits + 1, Some(Reason::TooLarge))] {
        let mut rig = Rig::new();
        let ticket = rig.start(&"x".repeat(bytes));
        assert_eq!(rig.refusal(ticket), refusal);
    }
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
    let decided = |bytes| {
        let (by, arguments) = (UserId::derive(&["user"]), json!("x".repeat(bytes)));
        let decided = vec![(1, Decision::ApproveEdited { arguments })];
        Decisions {
            turn: 1,
            round: 1,
            decided,
            by,
            role: Some(Role::Member),
            token_creator: None,
            decided_at: start_time(),
            continue_auto_approved: false,
        }
    };
    let fits = bounds::ENTRY_CONTENT_BYTES - json_bytes(&decided(0));
    for (bytes, refusal) in [(fits + 1, Some(Reason::TooLarge)), (fits, None)] {
        let ticket = rig.decide(1, &decided(bytes).decided);
        assert_eq!(rig.refusal(ticket), refusal);
    }
    rig.decide(1, &[edited(2)]);
    rig.decide(1, &[approve(3)]);
    rig.finish();
    assert!(rig.record().ended.is_some());
}

#[test]
fn the_plan_of_a_call_fits_an_entry_or_fails_the_call() {
    let (mut rig, target) = (Rig::auto_approved(&["w1"]), Target::new("tag", "t"));
    let plan =
        |bytes| CallPlan { target: target.clone(), expected: Expected::Absent, resolved: json!("x".repeat(bytes)) };
    let CallPlan { target, expected, resolved } = plan(0);
    let (arguments, at) = (None, Some(rig.now));
    let empty = Intent { turn: 1, round: 1, index: 1, target, expected, arguments, resolved, at };
    let fits = bounds::ENTRY_CONTENT_BYTES - json_bytes(&Entry::Intent(empty));
    for (bytes, status) in [(fits, None), (fits + 1, Some(CallStatus::Failed))] {
        let mut rig = Rig::auto_approved(&["w1"]);
        rig.send(Command::Planned { round: 1, index: 1, plan: Ok(plan(bytes)) });
        assert_eq!(rig.status(1), status);
    }
    rig.step();
    let appends = rig.appends;
    rig.send(Command::Planned { round: 1, index: 1, plan: Ok(plan(0)) });
    assert_eq!(rig.appends, appends, "a call has one intent");
}

#[test]
fn large_results_are_appended_before_the_turn_continues() {
    for calls in [8, 9] {
        let mut rig = Rig::with_calls(&vec!["r"; calls]);
        for _ in 0..8 {
            let (round, index) = call_position(&rig.work.pop_front().unwrap());
            let outcome = ToolOutcome::Done(result(&"x".repeat(limits::TOOL_RESULT_BYTES)));
            rig.send(Command::ToolFinished { round, index, outcome });
        }
        assert!(rig.journal().len() > 1, "the result of {calls} calls");
    }
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
    let cancel = |ticket| Command::Cancel { ticket, turn: 1 };
    let chat = |ticket| Command::Start(Box::new(super::rig::start(ticket, "chat", "hi")));
    let decide = |ticket| Command::Decide(Box::new(super::rig::decide(ticket, 1, 1, &[])));
    let requests: [&dyn Fn(Ticket) -> Command; 3] = [&cancel, &chat, &decide];
    for request in [requests[0]; DEFERRED_MAX].into_iter().chain(requests) {
        let ticket = rig.ticket();
        for effect in rig.machine.handle(now, request(ticket)) {
            let Effect::Answer(_, Err(error)) = effect else { panic!("{effect:?}") };
            assert_eq!(error.reason, Reason::Overloaded);
            assert!(error.is_retriable() && error.retry_after.is_some());
            refused += 1;
        }
    }
    assert_eq!(refused, 3);
}

#[test]
fn a_truncated_text_fills_its_bounds() {
    // In each row, one bound leaves space for a whole number of characters before the note.
    let rows = [("x", 60, 500), ("x", 500, 60), ("\"", 500, 61), ("\u{1}", 60, 500), ("\u{1}", 500, 101)];
    for (fill, raw, escaped) in rows {
        let mut text = fill.repeat(400);
        bounds::truncate(&mut text, raw, escaped);
        assert!(text.len() == raw || json_bytes(&text) == escaped, "{fill:?} {raw} {escaped}: {text:?}");
    }
}

#[test]
fn a_change_of_the_working_state_above_half_an_entry_is_dropped() {
    let extraction = |bytes| WorkingExtraction {
        id: ExtractionId::derive(&["e"]),
        document: DocumentId::derive(&["d"]),
        prompt: PromptRevId::new(PromptId::derive(&["p"]), 1),
        data: json!("x".repeat(bytes)),
    };
    let change = |bytes| WorkingChange { extraction: Some(extraction(bytes)), ..WorkingChange::default() };
    let fits = bounds::ENTRY_CONTENT_BYTES / 2 - json_bytes(&change(0));
    for (bytes, is_kept) in [(fits, true), (fits + 1, false)] {
        let mut made = ToolResult { change: change(bytes), ..result("made") }.into_call_result(1, 1);
        bounds::fit_result(&mut made);
        assert_eq!((made.change.extraction.is_some(), made.content == "made"), (is_kept, is_kept));
    }
}

#[test]
fn arguments_beyond_the_bound_of_a_call_or_of_a_round_are_dropped() {
    let (of_call, half) = (limits::ARGUMENTS_BYTES, 68 * 1024);
    for (bytes, is_kept) in [
        (vec![of_call], vec![true]),
        (vec![of_call + 1], vec![false]),
        (vec![half, half], vec![true, true]),
        (vec![half, half + 1, half], vec![true, false, true]),
    ] {
        let mut calls = calls_reply(&vec!["w1"; bytes.len()]).calls;
        for (call, bytes) in calls.iter_mut().zip(&bytes) {
            call.arguments = json!("x".repeat(bytes - 2));
        }
        bounds::fit_calls(&mut calls);
        assert_eq!(calls.iter().map(|call| call.problem.is_none()).collect::<Vec<_>>(), is_kept, "{bytes:?}");
    }
    // Repairs count towards the bound of a round.
    let mut calls = calls_reply(&["w1", "w1"]).calls;
    calls.iter_mut().for_each(|call| call.arguments = json!("x".repeat(half - 2)));
    calls[1].repairs = vec!["set a name".to_owned()];
    bounds::fit_calls(&mut calls);
    assert!(calls[0].problem.is_none() && calls[1].problem.is_some() && calls[1].repairs.is_empty());
}

#[test]
fn a_long_tool_name_is_shortened_and_a_problem_is_not_truncated_for_its_escapes() {
    for (bytes, chars) in [(128, 128), (129, 32)] {
        let (mut rig, mut reply, problem) = (Rig::started(), calls_reply(&["nonsense"]), "\"".repeat(319));
        (reply.calls[0].name, reply.calls[0].problem) = ("n".repeat(bytes), Some(problem.clone()));
        rig.reply(reply);
        let call = rig.record().call(1, 1).unwrap();
        assert_eq!((call.call.name.len(), &call.result.as_ref().unwrap().content), (chars, &problem));
    }
}

#[test]
fn thinking_is_dropped_if_an_answer_exceeds_its_entry() {
    let (mut text, thinking) = ("x".repeat(1_000), vec![ThinkingBlock::default()]);
    let fits = bounds::ENTRY_CONTENT_BYTES - 24 * 1024 - json_bytes(&text) - json_bytes(&thinking);
    for (working, left) in [(fits, 1), (fits + 1, 0)] {
        let mut thinking = thinking.clone();
        bounds::fit_answer(&mut text, &mut thinking, working);
        assert_eq!((text.len(), thinking.len()), (1_000, left));
    }
}

#[test]
fn entries_are_split_into_full_batches() {
    let outcome = |bytes| Outcome { turn: 1, result: result(&"x".repeat(bytes)).into_call_result(1, 1) };
    let quarter = (limits::APPEND_BYTES - 8 * 1024) / 4;
    let full = outcome(quarter - json_bytes(&Entry::Outcome(outcome(0))));
    for (entries, batches) in [(4, 1), (5, 2)] {
        let drafts = bounds::split(vec![Entry::Outcome(full.clone()); entries], HeaderChange::default());
        assert_eq!(drafts.len(), batches);
    }
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
