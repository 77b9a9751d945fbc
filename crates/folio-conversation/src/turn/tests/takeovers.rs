//! Takeovers of turns without an owner.

use folio_history::journal::{Entry, ResumeCause};
use folio_history::thread::{HeaderChange, OpenTurn, OpenTurnRow, Phase};
use folio_types::{Timestamp, TurnId};

use super::*;
use crate::turn::{Ticket, is_open_row_over};

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
fn a_reload_of_a_waiting_turn_is_no_attempt_and_continues_its_events() {
    let mut rig = Rig::with_calls(&["w1", "bad"]);
    rig.reload();
    let ticket = rig.decide(1, &[approve(1)]);
    rig.run();
    assert_eq!(rig.calling().map(|call| (call.round, call.attempt, call.epoch)), Some((2, 1, 2)));
    rig.reply(calls_reply(&["w2"]));
    assert!(matches!(rig.decided(ticket).kind, EventKind::AwaitingApproval { round: 2, .. }));
    rig.reload();
    rig.wait(300);
    rig.send(Command::Expire { turn: 1 });
    let resumed = rig.store.entries.iter().filter_map(|entry| match entry {
        Entry::Resumed(resumed) => Some((resumed.cause, resumed.epoch)),
        _ => None,
    });
    let causes: Vec<_> = resumed.collect();
    assert_eq!(causes, [(ResumeCause::Reload, 2), (ResumeCause::Reload, 3)]);
    let numbers: Vec<_> = rig.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "invariant 9: without a gap");
    assert!(!rig.events.iter().any(|event| matches!(event.kind, EventKind::Snapshot(_))));
    assert!(matches!(rig.last_event(), EventKind::Expired));
    rig.check_stored();
}

#[test]
fn invariant_9_events_of_lost_decisions_are_not_sent() {
    // A snapshot of another owner contains the result of the rejected call.
    for (load, results) in [(Rig::reload as fn(&mut Rig), 2), (Rig::crash as fn(&mut Rig), 1)] {
        let mut rig = Rig::with_calls(&["w1", "w2"]);
        let sent = rig.events.clone();
        let decisions = super::rig::decide(Ticket(9), 1, 1, &[reject(1), approve(2)]);
        // The rejected call has its result, and the other call is being planned.
        let effects = rig.machine.handle(rig.now, Command::Decide(Box::new(decisions)));
        assert!(matches!(effects.as_slice(), [Effect::PlanTool(..)]), "{effects:?}");
        load(&mut rig);
        assert_eq!(rig.events, sent);
        rig.decide(1, &[approve(1), reject(2)]);
        rig.finish();
        let shown = rig.events.iter().filter(|event| matches!(event.kind, EventKind::ToolResult { .. })).count();
        assert_eq!(shown, results);
    }
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
fn a_chat_waits_for_the_end_of_a_turn_that_is_recovered() {
    let mut rig = Rig::auto_approved(&["w1"]);
    rig.step();
    rig.crash();
    rig.send(Command::TakeOver);
    let next = rig.start("next");
    assert!(rig.answer(next).is_none());
    rig.run();
    assert!(matches!(rig.answer(next), Some(Ok(Answer::Streaming { turn: 2, .. }))));
}

#[test]
fn a_repeated_request_of_an_earlier_turn_does_not_take_over_the_open_turn() {
    let mut rig = Rig::new();
    let same = |start: &mut Start| start.request = "mine".parse().unwrap();
    rig.start_as("one", same);
    rig.reply(text_reply("hi"));
    rig.start("two");
    rig.crash();
    let repeated = rig.start_as("one", same);
    assert!(matches!(rig.answer(repeated), Some(Ok(Answer::Streaming { turn: 1, joined: true, .. }))));
    assert!(rig.machine.is_orphaned());
}

#[test]
fn the_header_states_the_phase_of_the_open_turn() {
    let phase = |rig: &Rig| rig.store.header.open_turn.as_ref().map(|open| (open.number, open.phase));
    let mut rig = Rig::started();
    assert_eq!(phase(&rig), Some((1, Phase::Running)));
    rig.reply(calls_reply(&["w1"]));
    assert_eq!(phase(&rig), Some((1, Phase::Paused)));
    rig.decide(1, &[approve(1)]);
    rig.run();
    assert_eq!(phase(&rig), Some((1, Phase::Executing)));
    rig.model_fails(true);
    assert_eq!(phase(&rig), None);
    rig.resume();
    assert_eq!(phase(&rig), Some((1, Phase::Running)));
}

#[test]
fn an_open_row_may_be_removed_after_the_end_of_its_turn_or_of_a_later_owner() {
    let mut header = Rig::new().store.header;
    let row = |number, epoch| OpenTurnRow {
        org: header.org.clone(),
        turn: TurnId::new(header.id.clone(), number),
        epoch,
        at: Timestamp::MIN,
        until: Timestamp::MAX,
    };
    let rows = [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)].map(|(number, epoch)| row(number, epoch));
    (header.turns, header.epoch) = (2, 2);
    assert_eq!(rows.each_ref().map(|row| is_open_row_over(&header, row)), [true, true, true, false, false]);
    header.open_turn = Some(OpenTurn { number: 2, phase: Phase::Running, expires_at: None });
    assert_eq!(rows.each_ref().map(|row| is_open_row_over(&header, row)), [true, false, false, false, false]);
}

#[test]
fn the_snapshot_of_a_new_owner_precedes_the_end_in_the_same_append() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.crash();
    rig.wait(300);
    rig.send(Command::Expire { turn: 1 });
    let [.., snapshot, closing] = rig.events.as_slice() else { panic!() };
    let EventKind::Snapshot(view) = &snapshot.kind else { panic!("{snapshot:?}") };
    assert_eq!((closing.kind.clone(), view.next_event), (EventKind::Expired, closing.number));
}

#[test]
fn a_turn_whose_entries_the_store_refuses_fails_at_its_takeover() {
    let mut rig = Rig::started();
    let unwritable = || Command::Unwritable { error: Error::invalid(Reason::TooLarge, "too large") };
    rig.send(unwritable());
    assert!(rig.record().ended.is_none(), "the turn has an owner");
    rig.crash();
    rig.send(unwritable());
    assert!(matches!(rig.end(), Some(End::Failed { error, retriable: false }) if error.reason == Reason::TooLarge));
}

#[test]
fn a_machine_reports_its_phase_and_whether_it_can_be_dropped() {
    let after = |mut rig: Rig, step: &dyn Fn(&mut Rig)| {
        step(&mut rig);
        rig
    };
    let crashed = |rig| after(rig, &Rig::crash);
    let taking_over = |rig: &mut Rig| drop(rig.machine.handle(rig.now, Command::TakeOver));
    let chatting = |rig: &mut Rig| {
        let start = super::rig::start(Ticket(9), "once", "hello");
        rig.machine.handle(rig.now, Command::Start(Box::new(start)));
    };
    let decide = |rig: &mut Rig| {
        rig.decide(1, &[approve(1)]);
    };
    let executing = || after(Rig::with_calls(&["w1"]), &decide);
    let closing = |rig: &mut Rig| {
        rig.step();
        rig.cancel();
    };
    let lost = |rig: &mut Rig| {
        rig.mishaps.push_back(Mishap::Overtaken);
        rig.reply(text_reply("hi"));
    };
    for (rig, phase, is_idle, can_be_dropped, is_copy) in [
        (Rig::new(), None, true, true, true),
        (after(Rig::new(), &chatting), None, false, false, false),
        (Rig::started(), Some(Phase::Running), false, false, false),
        (Rig::with_calls(&["w1"]), Some(Phase::Paused), true, true, false),
        (crashed(Rig::with_calls(&["w1"])), Some(Phase::Paused), true, true, true),
        (crashed(Rig::started()), Some(Phase::Running), false, true, true),
        (after(crashed(Rig::started()), &taking_over), Some(Phase::Running), false, false, false),
        (executing(), Some(Phase::Executing), false, false, false),
        (after(executing(), &closing), Some(Phase::Closing), false, false, false),
        (after(Rig::started(), &lost), None, true, true, false),
    ] {
        let Rig { machine, .. } = &rig;
        assert_eq!(machine.phase(), phase);
        let reported = (machine.is_idle(), machine.can_be_dropped(), machine.is_copy());
        assert_eq!(reported, (is_idle, can_be_dropped, is_copy), "{:?}", machine.state);
    }
}

#[test]
fn an_append_that_was_sent_again_and_refused_is_looked_up_again() {
    let mut rig = Rig::new();
    let start = super::rig::start(rig.ticket(), "once", "hello");
    let effects = rig.machine.handle(rig.now, Command::Start(Box::new(start)));
    let [Effect::Append(append)] = effects.as_slice() else { panic!("{effects:?}") };
    let batch = append.batch;
    let header = Box::new(rig.store.header.clone());
    let check_stale_answers = |rig: &mut Rig| {
        let (batch, header) = (batch + 1, header.clone());
        for stale in [
            Command::AppendUnknown { batch },
            Command::LookedUp { batch, is_committed: false, header: header.clone() },
            Command::Appended { batch, header: header.clone() },
            Command::AppendRefused { batch, header, request: None },
        ] {
            assert_eq!(rig.machine.handle(rig.now, stale), [], "an answer of another append");
        }
    };
    check_stale_answers(&mut rig);
    let unknown = Command::AppendUnknown { batch };
    assert_eq!(rig.machine.handle(rig.now, unknown), [Effect::LookUp { batch, sends: 1 }]);
    let looked_up = Command::LookedUp { batch, is_committed: false, header: header.clone() };
    assert_eq!(rig.machine.handle(rig.now, looked_up), effects);
    check_stale_answers(&mut rig);
    let refused = Command::AppendRefused { batch, header, request: None };
    assert_eq!(rig.machine.handle(rig.now, refused), [Effect::LookUp { batch, sends: 2 }]);
}
