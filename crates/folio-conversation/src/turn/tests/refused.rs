//! A write whose first model call is refused: the turn fails, and resuming it runs the call.

use super::*;

/// Steps until the call with this index runs, and refuses the call.
fn refuse(rig: &mut Rig, index: u32) {
    while !matches!(rig.work.front(), Some(Effect::RunTool(run, _)) if run.call.index == index) {
        assert!(rig.step(), "the call at {index} runs");
    }
    let (round, index) = call_position(&rig.work.pop_front().unwrap());
    let error = Error::exhausted(Reason::CreditExhausted, "no credit").detail("need", 3);
    rig.send(Command::ToolFinished { round, index, outcome: ToolOutcome::Refused(error) });
}

fn is_refused(rig: &Rig) -> bool {
    let ended = rig.record().ended.as_ref().unwrap();
    ended.runs_again
        && matches!(&ended.end, End::Failed { error, retriable: true }
            if error.reason == Reason::CreditExhausted && error.details["need"] == "3")
}

fn statuses(rig: &Rig) -> Vec<Option<CallStatus>> {
    rig.record().rounds[0].calls.iter().map(|call| call.status()).collect()
}

#[test]
fn invariant_3_a_refused_call_runs_once_when_the_turn_is_resumed() {
    for crash in [false, true] {
        let mut rig = Rig::auto_approved(&["w1", "w2", "w3"]);
        refuse(&mut rig, 2);
        assert!(is_refused(&rig));
        assert_eq!(statuses(&rig), [Some(CallStatus::Ok), Some(CallStatus::NotRun), Some(CallStatus::NotRun)]);
        assert_eq!(rig.aggregates.calls(), ["1.1.1"], "completed effects are kept");
        assert!(matches!(rig.last_event(), EventKind::Failed { retriable: true, .. }), "invariant 8");
        if crash {
            rig.crash();
        }
        // The call is refused again.
        rig.resume();
        assert_eq!(rig.machine.view(rig.now, 1).unwrap().status, TurnStatus::Running);
        refuse(&mut rig, 2);
        assert!(is_refused(&rig));
        if crash {
            rig.crash();
        }
        rig.resume();
        rig.finish();
        assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
        assert_eq!(statuses(&rig), [Some(CallStatus::Ok); 3]);
        assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2", "1.1.3"], "invariant 3");
        rig.check_stored();
    }
}

#[test]
fn invariant_7_repeated_decisions_resume_a_round_whose_call_was_refused() {
    let mut rig = Rig::with_calls(&["w1", "w2", "r1", "w3"]);
    let decisions = [approve(1), reject(2), approve(4)];
    let ticket = rig.decide(1, &decisions);
    refuse(&mut rig, 1);
    assert!(matches!(rig.decided(ticket).kind, EventKind::Failed { retriable: true, .. }));
    assert!(rig.aggregates.effects.is_empty());
    let again = rig.decide(1, &decisions);
    rig.finish();
    assert!(matches!(rig.decided(again).kind, EventKind::Completed { .. }));
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.4"], "invariants 2 and 3");
}

#[test]
fn a_crash_after_resuming_leaves_no_call_unfinished() {
    for steps in 0..8 {
        let mut rig = Rig::with_calls(&["w1", "w2"]);
        let decisions = [approve(1), approve(2)];
        rig.decide(1, &decisions);
        refuse(&mut rig, 1);
        rig.resume();
        for _ in 0..steps {
            rig.step();
        }
        rig.crash();
        rig.send(Command::TakeOver);
        rig.run();
        assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2"], "decided calls are executed: {steps} steps");
        assert_eq!(statuses(&rig), [Some(CallStatus::Ok); 2], "{steps} steps");
    }
}

#[test]
fn a_later_chat_leaves_a_refused_call_unexecuted() {
    let mut rig = Rig::auto_approved(&["w1"]);
    refuse(&mut rig, 1);
    rig.start("something else");
    rig.reply(text_reply("well"));
    rig.send(Command::TakeOver);
    assert!(rig.aggregates.effects.is_empty());
    assert_eq!(rig.machine.history().turn(1).unwrap().call(1, 1).unwrap().status(), Some(CallStatus::NotRun));
}

#[test]
fn a_stale_refusal_changes_nothing() {
    let mut rig = Rig::auto_approved(&["w1"]);
    while !matches!(rig.work.front(), Some(Effect::RunTool(..))) {
        rig.step();
    }
    rig.cancel();
    let refused = || ToolOutcome::Refused(Error::exhausted(Reason::CreditExhausted, "no credit"));
    rig.send(Command::ToolFinished { round: 1, index: 1, outcome: refused() });
    rig.run();
    assert_eq!(rig.end(), Some(&End::Cancelled));
    rig.send(Command::ToolFinished { round: 1, index: 1, outcome: refused() });
    assert_eq!(rig.status(1), Some(CallStatus::Cancelled));
}
