//! Cancelling, failing, resuming.

use super::*;

#[test]
fn cancelling_a_model_call_stops_it_and_ends_the_turn() {
    let mut rig = Rig::started();
    let ticket = rig.cancel();
    assert!(rig.work.is_empty());
    let Some(Ok(Answer::Ended(view))) = rig.answer(ticket) else { panic!() };
    assert_eq!(view.status, TurnStatus::Cancelled);
    assert!(matches!(rig.last_event(), EventKind::Cancelled));
    let again = rig.cancel();
    assert!(matches!(rig.answer(again), Some(Ok(Answer::Ended(_)))), "cancelling twice is no error");
    let unknown = rig.ticket();
    rig.send(Command::Cancel { ticket: unknown, turn: 7 });
    assert_eq!(rig.refusal(unknown), Some(Reason::NotFound));
}

#[test]
fn cancelling_an_expired_pause_ends_it_expired() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.wait(300);
    rig.cancel();
    assert_eq!(rig.end(), Some(&End::Expired));
}

#[test]
fn cancelling_a_pause_gives_its_calls_synthetic_results() {
    let mut rig = Rig::with_calls(&["w1", "r1"]);
    rig.cancel();
    assert_eq!(rig.journal()[3..], ["ended"]);
    assert!(rig.record().rounds[0].calls.iter().all(|call| call.status() == Some(CallStatus::Cancelled)));
}

#[test]
fn cancelling_a_running_write_closes_its_op_first() {
    for happened in [false, true] {
        let mut rig = Rig::with_calls(&["w1", "w2"]);
        rig.decide(1, &[approve(1), approve(2)]);
        rig.step();
        let Some(Effect::RunTool(run, intent)) = rig.work.front().cloned() else { panic!() };
        if happened {
            rig.aggregates.write(&run.call, &run.name, &intent);
        }
        let ticket = rig.cancel();
        assert_eq!(rig.journal().last().unwrap(), "closing");
        assert!(rig.answer(ticket).is_none() && matches!(rig.work.front(), Some(Effect::Close(..))));
        rig.run();
        assert_eq!(rig.end(), Some(&End::Cancelled));
        let status = rig.status(1);
        assert_eq!(status, Some(if happened { CallStatus::Ok } else { CallStatus::Cancelled }));
        assert_eq!(rig.status(2), Some(CallStatus::Cancelled));
        assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 2, "with the model call of the closed call");
        assert!(rig.aggregates.write(&run.call, &run.name, &intent).is_some());
        assert_eq!(rig.aggregates.effects.len(), usize::from(happened), "a late write is refused");
    }
}

#[test]
fn an_interrupted_cancellation_is_completed_by_the_next_owner() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.decide(1, &[approve(1)]);
    rig.step();
    rig.cancel();
    rig.crash();
    assert!(rig.machine.is_orphaned());
    rig.send(Command::TakeOver);
    rig.run();
    assert_eq!(rig.end(), Some(&End::Cancelled));
    assert!(rig.aggregates.effects.is_empty());
}

#[test]
fn a_failed_turn_is_resumed_at_its_next_model_call() {
    let mut rig = Rig::with_calls(&["r1"]);
    rig.run();
    rig.model_fails(true);
    assert!(matches!(rig.last_event(), EventKind::Failed { retriable: true, .. }));
    let epoch = rig.store.header.epoch;
    let ticket = rig.resume();
    assert_eq!(rig.store.header.epoch, epoch + 1);
    let Some(Ok(Answer::Streaming { from, .. })) = rig.answer(ticket) else { panic!() };
    assert_eq!(*from, 1 << 32 | 1);
    let call = rig.calling().unwrap();
    assert_eq!((call.round, call.attempt, rig.work.len()), (2, 2, 1), "no call that has a result runs");
    rig.reply(text_reply("done"));
    assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
    assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 2);
    let done = rig.resume();
    assert_eq!(rig.refusal(done), Some(Reason::TurnNotResumable));
}

#[test]
fn a_resume_joins_a_running_turn_and_is_refused_while_the_turn_waits_or_ends() {
    let mut ending = Rig::auto_approved(&["w1"]);
    ending.step();
    ending.cancel();
    let mut orphaned = Rig::started();
    orphaned.crash();
    for (mut rig, refusal) in [
        (Rig::started(), None),
        (orphaned, None),
        (Rig::with_calls(&["w1"]), Some(Reason::TurnNotResumable)),
        (ending, Some(Reason::TurnNotResumable)),
    ] {
        let ticket = rig.resume();
        assert_eq!(rig.refusal(ticket), refusal);
        assert!(refusal.is_some() || rig.calling().is_some());
    }
}

#[test]
fn a_failed_turn_is_not_resumed_after_a_day_after_the_next_chat_or_if_it_is_final() {
    let mut rig = Rig::started();
    rig.model_fails(true);
    rig.wait(24 * 60 * 60 + 1);
    let late = rig.resume();
    assert_eq!(rig.refusal(late), Some(Reason::TurnNotResumable));
    let mut rig = Rig::started();
    rig.model_fails(true);
    rig.start("next");
    rig.reply(text_reply("hi"));
    let ticket = rig.ticket();
    rig.send(Command::Resume { ticket, turn: 1 });
    assert_eq!(rig.refusal(ticket), Some(Reason::TurnNotResumable));
    let mut rig = Rig::started();
    rig.model_fails(false);
    let ticket = rig.resume();
    assert_eq!(rig.refusal(ticket), Some(Reason::TurnNotResumable));
}

#[test]
fn an_append_whose_answer_is_lost_is_looked_up_and_never_doubled() {
    for mishap in [Mishap::AnswerLost, Mishap::NeverArrived] {
        let mut rig = Rig::new();
        rig.mishaps.push_back(mishap);
        rig.start("hello");
        rig.mishaps.extend([mishap, mishap]);
        rig.reply(text_reply("hi"));
        assert_eq!(rig.journal(), ["accepted", "ended"]);
        assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
    }
}

#[test]
fn a_refused_owner_stops_and_requests_a_reload() {
    let mut rig = Rig::started();
    rig.mishaps.push_back(Mishap::Overtaken);
    rig.reply(text_reply("hi"));
    assert!(rig.is_lost && rig.machine.is_lost());
    assert_eq!(rig.journal(), ["accepted"], "invariant 1");
    assert!(!rig.events.iter().any(|event| event.kind.is_closing()), "no closing event before its append is committed");
    let before = rig.log.len();
    rig.start("more");
    assert_eq!(rig.log.len(), before);
}
