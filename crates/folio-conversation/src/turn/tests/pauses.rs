//! Approvals.

use super::*;

#[test]
fn a_round_with_a_call_that_waits_runs_none_of_its_calls() {
    let rig = Rig::with_calls(&["r1", "w1"]);
    assert!(rig.work.is_empty());
    assert_eq!(rig.journal(), ["accepted", "round", "paused"]);
    let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!() };
    assert_eq!(pending.iter().map(|call| call.needs_approval).collect::<Vec<_>>(), [false, true]);
    assert!(rig.machine.is_idle());
}

#[test]
fn one_approved_write_costs_four_appends_and_its_own_write() {
    let mut rig = Rig::with_calls(&["w1"]);
    let ticket = rig.decide(1, &[approve(1)]);
    rig.finish();
    assert_eq!(rig.journal(), ["accepted", "round", "paused", "decisions", "intent", "outcome", "ended"]);
    assert_eq!((rig.appends, rig.aggregates.effects.len()), (4, 1));
    assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }));
    let numbers: Vec<_> = rig.events.iter().map(|event| event.number).collect();
    assert_eq!(
        numbers,
        (1..=numbers.len() as u64).collect::<Vec<_>>(),
        "invariant 9: event numbers continue after approvals"
    );
}

#[test]
fn decisions_are_durable_before_a_read_runs() {
    let mut rig = Rig::with_calls(&["r1", "w1"]);
    rig.decide(1, &[approve(2)]);
    assert_eq!(rig.journal().last().unwrap(), "decisions");
    assert!(matches!(rig.work.front(), Some(Effect::RunRead(_))));
    rig.run();
    assert_eq!(rig.journal()[3..], ["decisions", "outcome", "intent"]);
}

#[test]
fn the_same_decisions_get_the_same_answer_and_different_ones_are_refused_invariant_7() {
    let mut rig = Rig::with_calls(&["w1", "w2"]);
    let first = rig.decide(1, &[approve(1), reject(2)]);
    let joined = rig.decide(1, &[approve(1), reject(2)]);
    rig.run();
    assert!(rig.answer(joined).is_none(), "it waits for the answer");
    rig.reply(text_reply("done"));
    rig.wait(100_000);
    let late = rig.decide(1, &[approve(1), reject(2)]);
    assert_eq!(rig.decided(first), rig.decided(joined));
    assert_eq!(rig.decided(first), rig.decided(late));
    rig.crash();
    let reloaded = rig.decide(1, &[approve(1), reject(2)]);
    assert_eq!(rig.decided(first), rig.decided(reloaded));
    for different in [vec![approve(1), approve(2)], vec![(2, Decision::Reject { reason: None })]] {
        let refused = rig.decide(1, &different);
        assert_eq!(rig.refusal(refused), Some(Reason::DecisionConflict));
    }
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
    let content = rig.record().call(1, 2).unwrap().result.clone().unwrap().content;
    assert_eq!(content, "User rejected this action. Reason: no");
}

#[test]
fn an_approval_runs_one_model_round_and_the_next_calls_wait_again() {
    let mut rig = Rig::with_calls(&["w1"]);
    let first = rig.decide(1, &[approve(1)]);
    rig.run();
    rig.reply(calls_reply(&["r1"]));
    let EventKind::AwaitingApproval { round: 2, pending, .. } = rig.decided(first).kind else { panic!() };
    assert!(!pending[0].needs_approval && rig.work.is_empty());
    let unnamed = rig.decide_as(2, &[], |decide| decide.round = None);
    assert_eq!(rig.refusal(unnamed), Some(Reason::InvalidField));
    let second = rig.decide(2, &[]);
    rig.finish();
    assert!(matches!(rig.decided(second).kind, EventKind::Completed { .. }));
    let repeated = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.decided(first), rig.decided(repeated), "the answer stays the pause that followed");
    let repeated = rig.decide(2, &[]);
    assert_eq!(rig.decided(second), rig.decided(repeated));
}

#[test]
fn the_turn_continues_through_rounds_without_approval_if_requested() {
    let mut rig = Rig::with_calls(&["w1"]);
    let ticket = rig.decide_as(1, &[approve(1)], |decide| decide.continue_auto_approved = true);
    rig.run();
    rig.reply(calls_reply(&["r1"]));
    rig.run();
    rig.reply(calls_reply(&["w2"]));
    assert!(matches!(rig.decided(ticket).kind, EventKind::AwaitingApproval { round: 3, .. }));
}

#[test]
fn decisions_in_parts_wait_for_the_last_one() {
    let mut rig = Rig::with_calls(&["w1", "w2"]);
    let contradictory = rig.decide(1, &[approve(1), reject(1)]);
    assert_eq!(rig.refusal(contradictory), Some(Reason::DecisionConflict));
    let first = rig.decide(1, &[approve(1), approve(1)]);
    let Some(Ok(Answer::StillAwaiting { missing, .. })) = rig.answer(first) else { panic!() };
    assert_eq!(missing.len(), 1);
    assert!(rig.work.is_empty(), "nothing runs before");
    let appends = rig.appends;
    let again = rig.decide(1, &[approve(1)]);
    assert!(matches!(rig.answer(again), Some(Ok(Answer::StillAwaiting { .. }))) && rig.appends == appends);
    let other = rig.decide(1, &[reject(1), approve(2)]);
    assert_eq!(rig.refusal(other), Some(Reason::DecisionConflict));
    assert!(rig.work.is_empty(), "a conflict refuses the whole request");
    rig.crash();
    let last = rig.decide_as(1, &[], |decide| decide.reject_undecided = true);
    rig.finish();
    assert!(matches!(rig.decided(last).kind, EventKind::Completed { .. }));
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
    assert_eq!(rig.status(2), Some(CallStatus::Rejected));
}

#[test]
fn a_partly_decided_round_expires_without_running() {
    let mut rig = Rig::with_calls(&["w1", "w2"]);
    rig.decide(1, &[approve(1)]);
    rig.wait(300);
    let late = rig.decide(1, &[approve(2)]);
    assert_eq!(rig.refusal(late), Some(Reason::TurnExpired));
    assert_eq!(rig.end(), Some(&End::Expired));
    assert!(rig.aggregates.effects.is_empty());
    let recorded = rig.decide(1, &[approve(1)]);
    assert!(matches!(rig.decided(recorded).kind, EventKind::Expired), "recorded decisions get the outcome of the turn");
}

#[test]
fn edited_arguments_are_executed_and_reported() {
    let mut rig = Rig::with_calls(&["w1", "nonsense"]);
    let edited = json!({"on": "other"});
    let decision = (1, Decision::ApproveEdited { arguments: edited.clone() });
    let bad = rig.decide_as(1, std::slice::from_ref(&decision), |decide| {
        decide.decisions[0].problem = Some("on: not a string".into());
    });
    assert_eq!(rig.refusal(bad), Some(Reason::SchemaMismatch));
    let cannot_run = rig.decide(1, &[decision.clone(), (2, decision.1.clone())]);
    assert_eq!(rig.refusal(cannot_run), Some(Reason::NotAwaitingApproval));
    let first = rig.decide(1, std::slice::from_ref(&decision));
    let Some(Effect::PlanTool(run, _)) = rig.work.front() else { panic!() };
    assert_eq!(run.arguments, edited);
    rig.finish();
    let messages = rig.messages();
    let Message::Assistant { calls, .. } = &messages[1] else { panic!() };
    assert_eq!(calls[0].arguments, edited);
    let repeated = rig.decide(1, &[decision]);
    assert_eq!(rig.decided(first), rig.decided(repeated));
    let different = rig.decide(1, &[(1, Decision::ApproveEdited { arguments: json!({"on": "third"}) })]);
    assert_eq!(rig.refusal(different), Some(Reason::DecisionConflict));
}

#[test]
fn decisions_are_committed_while_the_store_of_the_target_does_not_answer() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.decide(1, &[approve(1)]);
    assert!(matches!(rig.work.pop_front(), Some(Effect::PlanTool(_, Patience::Once))));
    rig.send(Command::Planned { round: 1, index: 1, plan: Err(PlanFailure::StoreUnavailable) });
    assert_eq!(rig.journal().last().map(String::as_str), Some("decisions"));
    assert!(matches!(rig.work.front(), Some(Effect::PlanTool(_, Patience::Retry))));
    let waiting = rig.events.iter().filter(|event| matches!(event.kind, EventKind::WaitingForStore { .. })).count();
    assert_eq!(waiting, 1);
    rig.run();
    assert_eq!((rig.status(1), rig.aggregates.effects.len()), (Some(CallStatus::Ok), 1));
}

#[test]
fn a_digest_must_match_the_arguments_of_the_call() {
    let mut rig = Rig::with_calls(&["w1"]);
    let wrong = rig.decide_as(1, &[approve(1)], |decide| {
        decide.decisions[0].digest = Some(Digest::of(b"something else"));
    });
    assert_eq!(rig.refusal(wrong), Some(Reason::DigestMismatch));
    let digest = Digest::of_json(rig.record().call(1, 1).unwrap().arguments());
    rig.decide_as(1, &[approve(1)], |decide| decide.decisions[0].digest = Some(digest));
    assert_eq!(rig.work.len(), 1);
    let unknown = rig.decide(1, &[approve(7)]);
    rig.run();
    assert_eq!(rig.refusal(unknown), Some(Reason::UnknownCall));
}

#[test]
fn an_expired_turn_runs_nothing_and_answers_after_its_end_is_committed() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.wait(300);
    assert_eq!(
        rig.machine.view(rig.now, 1).unwrap().status,
        TurnStatus::Expired,
        "the pause is reported as expired before the expiry is written"
    );
    let ticket = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.refusal(ticket), Some(Reason::TurnExpired));
    assert_eq!(rig.journal().last().unwrap(), "ended");
    let answer = rig.log.iter().rposition(|name| *name == "answer").unwrap();
    let append = rig.log.iter().rposition(|name| *name == "append").unwrap();
    assert!(append < answer);
    assert_eq!(rig.status(1), Some(CallStatus::Expired));
    let next = rig.start("next");
    assert!(matches!(rig.answer(next), Some(Ok(Answer::Streaming { turn: 2, .. }))));
}

#[test]
fn the_sweep_and_a_chat_expire_a_pause_in_the_same_way() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.send(Command::Expire { turn: 1 });
    assert!(rig.record().ended.is_none(), "not yet");
    rig.wait(300);
    rig.send(Command::Expire { turn: 1 });
    assert_eq!(rig.end(), Some(&End::Expired));
    let mut rig = Rig::with_calls(&["w1"]);
    rig.wait(300);
    rig.start("next");
    assert_eq!(rig.machine.history().turn(1).unwrap().ended.as_ref().unwrap().end, End::Expired);
    assert_eq!(rig.turn(), 2);
}

#[test]
fn a_chat_is_refused_while_a_turn_waits_or_supersedes_it() {
    let mut rig = Rig::with_calls(&["w1"]);
    let refused = rig.start("next");
    assert_eq!(rig.refusal(refused), Some(Reason::TurnPending));
    rig.start_as("next", |start| start.if_pending = IfPending::Supersede);
    let first = rig.machine.history().turn(1).unwrap();
    assert_eq!(first.ended.as_ref().unwrap().end, End::Superseded);
    assert_eq!(first.call(1, 1).unwrap().status(), Some(CallStatus::Superseded));
    assert_eq!(rig.turn(), 2);
}

#[test]
fn a_refused_chat_does_not_affect_the_open_turn() {
    let mut rig = Rig::with_calls(&["w1"]);
    let refused = rig.start_as("next", |start| {
        start.if_pending = IfPending::Supersede;
        start.truncate_to = Some(999);
    });
    assert_eq!(rig.refusal(refused), Some(Reason::InvalidField));
    assert!(rig.record().ended.is_none(), "the pause still waits");
    let running = rig.decide(1, &[approve(1)]);
    rig.run();
    let refused = rig.start_as("next", |start| {
        start.if_busy = IfBusy::Interrupt;
        start.truncate_to = Some(999);
    });
    assert_eq!(rig.refusal(refused), Some(Reason::InvalidField));
    rig.reply(text_reply("done"));
    assert!(matches!(rig.decided(running).kind, EventKind::Completed { .. }));
}

#[test]
fn a_failure_after_decisions_is_their_answer_and_a_repeated_approve_resumes_the_turn() {
    let mut rig = Rig::with_calls(&["w1"]);
    let first = rig.decide(1, &[approve(1)]);
    rig.run();
    rig.model_fails(true);
    assert!(matches!(rig.decided(first).kind, EventKind::Failed { retriable: true, .. }));
    let again = rig.decide(1, &[approve(1)]);
    rig.reply(text_reply("done"));
    assert!(matches!(rig.decided(again).kind, EventKind::Completed { .. }));
    let later = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.decided(again), rig.decided(later), "the failed end is replaced");
    assert_eq!(rig.aggregates.effects.len(), 1);
}

#[test]
fn a_failure_is_resumed_by_the_decisions_of_its_newest_pause_only() {
    let mut rig = Rig::with_calls(&["w1"]);
    let first = rig.decide(1, &[approve(1)]);
    rig.run();
    rig.reply(calls_reply(&["w2"]));
    rig.decide(2, &[approve(1)]);
    rig.run();
    rig.model_fails(true);
    let earlier = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.decided(first), rig.decided(earlier));
    assert!(rig.calling().is_none());
    rig.decide(2, &[approve(1)]);
    assert!(rig.calling().is_some());
}

#[test]
fn rejections_are_durable_before_the_next_model_call() {
    let mut rig = Rig::with_calls(&["w1"]);
    rig.decide(1, &[reject(1)]);
    assert!(rig.calling().is_some());
    assert_eq!(rig.journal()[3..], ["decisions", "outcome"]);
}
