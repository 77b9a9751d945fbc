//! Repeated and failed calls.

use folio_tools::extraction::PAGE_TEXT_TOOL;

use super::*;
use crate::turn::ToolResult;
use crate::turn::progress::REFUSED;

/// Fails the next call in progress.
fn fail(rig: &mut Rig) {
    let work = rig.work.pop_front().expect("a call is in progress");
    let (round, index) = call_position(&work);
    let message = "no such schema".to_owned();
    let command = if matches!(work, Effect::PlanTool(..)) {
        Command::Planned { round, index, plan: Err(PlanFailure::Failed(message)) }
    } else {
        let outcome = ToolOutcome::Done(ToolResult { status: CallStatus::Failed, ..result(&message) });
        Command::ToolFinished { round, index, outcome }
    };
    rig.send(command);
}

fn content(rig: &Rig, round: u32, index: u32) -> String {
    rig.record().call(round, index).unwrap().result.clone().unwrap().content
}

fn is_without_progress(end: Option<&End>) -> bool {
    matches!(end, Some(End::Failed { error, retriable: false }) if error.reason == Reason::NoProgress)
}

#[test]
fn the_second_identical_failure_advises_and_the_third_call_is_refused() {
    for name in ["r1", "w1"] {
        let mut rig = Rig::auto_approved(&[name]);
        fail(&mut rig);
        assert_eq!(content(&rig, 1, 1), "no such schema");
        rig.reply(calls_reply(&[name, "r2"]));
        fail(&mut rig);
        rig.run();
        let second = content(&rig, 2, 1);
        assert!(second.starts_with("This call failed twice") && second.ends_with("\nno such schema"), "{second}");
        for round in 3..=4 {
            rig.reply(calls_reply(&[name, &format!("r{round}")]));
            assert_eq!((content(&rig, round, 1).as_str(), rig.work.len()), (REFUSED, 1), "the call does not run");
            rig.run();
        }
        let mut other = calls_reply(&[name]);
        other.calls[0].arguments = json!({"on": "another"});
        rig.reply(other);
        rig.finish();
        assert_eq!(rig.record().call(5, 1).unwrap().status(), Some(CallStatus::Ok), "other arguments");
        assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
    }
}

#[test]
fn a_call_that_cannot_run_is_refused_only_for_the_same_reason() {
    let problem = "x".repeat(1_000);
    let mut rig = Rig::started();
    for (round, prefix) in (1..).zip(["", "", "", "other"]) {
        let mut reply = calls_reply(&["bad", &format!("r{round}")]);
        reply.calls[0].problem = Some(format!("{prefix}{problem}"));
        rig.reply(reply);
        rig.run();
    }
    let starts = [1, 2, 3, 4].map(|round| content(&rig, round, 1).chars().take(5).collect::<String>());
    assert_eq!(starts, ["xxxxx", "This ", "Not e", "other"]);
}

#[test]
fn identical_calls_of_one_round_are_refused_after_two_failures() {
    for (name, concurrent) in [("r1", 2), ("w1", 1)] {
        let mut rig = Rig::auto_approved(&[name, name, name]);
        assert_eq!(rig.work.len(), concurrent);
        fail(&mut rig);
        fail(&mut rig);
        assert_eq!(content(&rig, 1, 3), REFUSED);
        assert!(rig.calling().is_some());
    }
    let mut rig = Rig::with_calls(&["r1", "r1", "r1", "r2"]);
    rig.run();
    let statuses = [1, 2, 3, 4].map(|index| rig.status(index));
    assert_eq!(statuses, [Some(CallStatus::Ok); 4], "calls that succeed are not refused");
}

#[test]
fn a_refused_call_waits_for_no_decision_and_the_answer_to_the_approval_is_the_end() {
    let mut rig = Rig::with_calls(&["w1"]);
    for round in 1..=2 {
        rig.decide(round, &[approve(1)]);
        fail(&mut rig);
        rig.reply(calls_reply(&["w1"]));
    }
    let EventKind::AwaitingApproval { round: 3, pending, .. } = rig.last_event() else { panic!() };
    assert!(!pending[0].needs_approval);
    let ticket = rig.decide(3, &[]);
    assert!(rig.work.is_empty() && is_without_progress(rig.end()), "{:?}", rig.end());
    assert!(matches!(rig.decided(ticket).kind, EventKind::Failed { retriable: false, .. }));
    assert_eq!(rig.journal()[rig.journal().len() - 3..], ["decisions", "outcome", "ended"]);
    let resumed = rig.resume();
    assert_eq!(rig.refusal(resumed), Some(Reason::TurnNotResumable));
    rig.check_stored();
}

/// Returns the number of rounds after which a turn with these calls ends without progress. None: it continues.
fn rounds_until_end(rounds: &[&[&str]]) -> Option<usize> {
    let mut rig = Rig::started();
    for (calls, round) in rounds.iter().zip(1..) {
        rig.reply(calls_reply(calls));
        rig.run();
        if rig.end().is_some() {
            assert!(is_without_progress(rig.end()) && rig.work.is_empty(), "{:?}", rig.end());
            assert!(matches!(rig.last_event(), EventKind::Failed { retriable: false, .. }), "invariant 8");
            return Some(round);
        }
    }
    None
}

#[test]
fn three_rounds_in_which_every_call_failed_or_repeated_an_earlier_one_end_the_turn() {
    let cases: [(&[&[&str]], Option<usize>); 5] = [
        (&[&["bad"], &["bad2"], &["bad3"]], Some(3)),
        (&[&["r1"], &["r1"], &["r1"], &["r1"]], Some(4)),
        (&[&["r1", "r2"], &["r2"], &["bad", "r1"], &["r1"]], Some(4)),
        (&[&["bad"], &["bad", "bad2"], &["r1", "bad"], &["bad"], &["r1"], &["bad3"]], Some(6)),
        (&[&["r1"], &["r1"], &["r1"], &["r1", "r2"], &["r2"], &["bad"]], None),
    ];
    for (rounds, end) in cases {
        assert_eq!(rounds_until_end(rounds), end, "{rounds:?}");
    }
}

#[test]
fn a_page_text_that_the_model_no_longer_has_may_be_read_again() {
    let read = |page: u32| {
        let mut reply = calls_reply(&["r1"]);
        reply.calls[0].name = PAGE_TEXT_TOOL.into();
        reply.calls[0].arguments = json!({ "page": page });
        reply
    };
    for (pages, end) in [
        ([1, 2, 3, 1, 2, 3, 1, 2].as_slice(), None),
        ([1, 2, 1, 2, 1].as_slice(), Some(5)),
        ([1, 1, 1, 1].as_slice(), Some(4)),
    ] {
        let mut rig = Rig::started();
        let ended = pages.iter().zip(1..).find_map(|(page, round)| {
            rig.reply(read(*page));
            rig.run();
            rig.end().is_some().then_some(round)
        });
        assert_eq!(ended, end, "{pages:?}");
        assert_eq!(is_without_progress(rig.end()), end.is_some());
    }
}

#[test]
fn an_owner_that_takes_the_turn_over_ends_it_without_progress() {
    let mut rig = Rig::auto_approved(&["w1"]);
    for _ in 0..3 {
        rig.run();
        rig.reply(calls_reply(&["w1"]));
    }
    rig.step();
    rig.crash();
    rig.send(Command::TakeOver);
    rig.run();
    assert!(is_without_progress(rig.end()), "{:?}", rig.end());
    assert_eq!(rig.aggregates.effects.len(), 4, "invariant 3");
}

#[test]
fn a_rejected_call_has_not_failed() {
    let mut rig = Rig::with_calls(&["w1"]);
    for (name, round) in ["w2", "w3", "w4"].into_iter().zip(1..) {
        rig.decide(round, &[reject(1)]);
        rig.reply(calls_reply(&[name]));
    }
    assert!(rig.end().is_none() && matches!(rig.last_event(), EventKind::AwaitingApproval { round: 4, .. }));
}
