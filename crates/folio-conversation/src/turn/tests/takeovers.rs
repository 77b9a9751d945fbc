//! Takeovers of turns without an owner.

use folio_history::journal::{Entry, ResumeCause};
use folio_history::thread::{HeaderChange, Phase};

use super::*;

fn is_node_lost(rig: &Rig) -> bool {
    let end = rig.record().ended.as_ref().map(|ended| &ended.end);
    matches!(end, Some(End::Failed { error, retriable: true }) if error.reason == Reason::NodeLost)
}

#[test]
fn a_running_turn_without_owner_ends_failed_retriable_invariant_8() {
    let mut rig = Rig::started();
    rig.crash();
    assert!(rig.machine.is_orphaned());
    rig.send(Command::TakeOver);
    assert!(is_node_lost(&rig));
    assert_eq!(rig.journal(), ["accepted", "resumed", "ended"]);
    assert!(matches!(&rig.store.entries[1], Entry::Resumed(resumed) if resumed.cause == ResumeCause::Takeover));
    let numbers: Vec<_> = rig.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers[numbers.len() - 2..], [1 << 32 | 1, 1 << 32 | 2], "invariant 9");
    let EventKind::Snapshot(view) = &rig.events[rig.events.len() - 2].kind else { panic!("{:?}", rig.events) };
    assert_eq!(view.next_event, 1 << 32 | 2);
    rig.resume();
    rig.reply(text_reply("hi"));
    assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
}

#[test]
fn an_owner_keeps_its_epoch_and_changes_the_phase_only_if_it_differs() {
    let mut rig = Rig::started();
    rig.reply(text_reply("hi"));
    let epoch = rig.store.header.epoch;
    rig.start("next");
    assert_eq!(rig.store.header.epoch, epoch);
    assert_eq!(rig.machine.phase_change(Phase::Running), HeaderChange::default());
    let open_turn = rig.machine.phase_change(Phase::Executing).open_turn.flatten().unwrap();
    assert_eq!((open_turn.number, open_turn.phase), (2, Phase::Executing));
}

#[test]
fn the_next_chat_ends_the_orphaned_turn_and_starts() {
    let mut rig = Rig::started();
    rig.crash();
    let next = rig.start("next");
    assert!(matches!(rig.answer(next), Some(Ok(Answer::Streaming { turn: 2, .. }))));
    assert!(matches!(rig.machine.history().turn(1).unwrap().ended.as_ref().unwrap().end, End::Failed { .. }));
}

#[test]
fn the_same_request_resumes_the_orphaned_turn() {
    let mut rig = Rig::new();
    let same = |start: &mut Start| start.request = "mine".parse().unwrap();
    rig.start_as("hello", same);
    rig.reply(calls_reply(&["r1"]));
    rig.crash();
    let joined = rig.start_as("hello", same);
    assert!(matches!(rig.answer(joined), Some(Ok(Answer::Streaming { turn: 1, joined: true, .. }))));
    assert_eq!(rig.calling().unwrap().round, 1, "a read-only round that was buffered is requested again");
    rig.reply(text_reply("hi"));
    rig.crash();
    rig.start_as("other", |start| start.request = "other".parse().unwrap());
    rig.model_fails(true);
    let resumed = rig.start_as("other", |start| start.request = "other".parse().unwrap());
    assert!(matches!(rig.answer(resumed), Some(Ok(Answer::Streaming { turn: 2, .. }))));
    assert!(rig.calling().is_some(), "a failed turn is resumed");
}

#[test]
fn decided_calls_are_recovered_before_the_turn_fails() {
    for steps in 0..5 {
        let mut rig = Rig::with_calls(&["w1", "r1", "w2"]);
        rig.decide(1, &[approve(1), approve(3)]);
        for _ in 0..steps {
            rig.step();
        }
        let decided = rig.journal().contains(&"decisions".to_owned());
        rig.crash();
        rig.send(Command::TakeOver);
        rig.run();
        if decided {
            assert!(is_node_lost(&rig), "{steps} steps");
            assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.3"], "invariant 3: {steps} steps");
            assert!(rig.record().rounds[0].calls.iter().all(|call| call.status() == Some(CallStatus::Ok)));
        } else {
            assert_eq!(rig.machine.view(rig.now, 1).unwrap().status, TurnStatus::AwaitingApproval);
        }
        let ticket = rig.decide(1, &[approve(1), approve(3)]);
        rig.finish();
        assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }), "{steps} steps");
        assert_eq!(rig.aggregates.effects.len(), 2);
    }
}

#[test]
fn a_repeated_approve_at_another_node_resumes_the_turn() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.decide(1, &[approve(1)]);
    rig.step();
    rig.step();
    rig.crash();
    let ticket = rig.decide(1, &[approve(1)]);
    rig.finish();
    assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }));
    assert_eq!(rig.aggregates.effects.len(), 1);
}

#[test]
fn a_pause_needs_no_takeover_and_its_decisions_take_over_the_thread() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.crash();
    assert!(!rig.machine.is_orphaned());
    rig.send(Command::TakeOver);
    assert_eq!(rig.appends, 2, "nothing to do");
    rig.decide(1, &[approve(1)]);
    rig.run();
    assert_eq!(rig.journal()[3..], ["resumed", "decisions", "intent"]);
    assert_eq!(rig.store.header.epoch, 2);
    rig.reply(text_reply("done"));
    let paused = rig.record().rounds[0].paused.as_ref().unwrap().event;
    let later = rig.events.iter().find(|event| event.number > paused).unwrap();
    assert_eq!(later.number, 1 << 32 | 1);
    assert!(matches!(later.kind, EventKind::Snapshot(_)));
}

#[test]
fn a_target_with_another_version_causes_a_conflict() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.decide(1, &[approve(1)]);
    rig.step();
    let Some(Effect::RunTool(_, intent)) = rig.work.front().cloned() else { panic!() };
    rig.aggregates.versions.insert(intent.target.to_string(), 7);
    rig.crash();
    rig.send(Command::TakeOver);
    rig.run();
    assert_eq!(rig.status(1), Some(CallStatus::Conflict));
    assert!(rig.aggregates.effects.is_empty() && is_node_lost(&rig));
}

#[test]
fn the_sweep_advances_a_decided_turn_whose_header_is_still_paused() {
    let mut rig = Rig::with_calls(&["r1", "w1"]);
    rig.decide(1, &[approve(2)]);
    rig.crash();
    rig.send(Command::Expire { turn: 1 });
    rig.run();
    assert!(is_node_lost(&rig));
    assert_eq!(rig.aggregates.calls(), ["1.1.2"], "decided calls are executed");
}

#[test]
fn an_append_that_was_sent_again_and_refused_is_looked_up_again() {
    let mut rig = Rig::new();
    let start = super::rig::start(rig.ticket(), "once", "hello");
    let effects = rig.machine.handle(rig.now, Command::Start(Box::new(start)));
    let [Effect::Append(append)] = effects.as_slice() else { panic!("{effects:?}") };
    let batch = append.batch;
    let header = Box::new(rig.store.header.clone());
    let unknown = Command::AppendUnknown { batch };
    assert_eq!(rig.machine.handle(rig.now, unknown), [Effect::LookUp { batch, sends: 1 }]);
    let looked_up = Command::LookedUp { batch, is_committed: false, header: header.clone() };
    assert_eq!(rig.machine.handle(rig.now, looked_up), effects);
    let refused = Command::AppendRefused { batch, header, request: None };
    assert_eq!(rig.machine.handle(rig.now, refused), [Effect::LookUp { batch, sends: 2 }]);
}
