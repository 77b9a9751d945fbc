//! Chats that need no approval.

use folio_history::journal::WorkingChange;
use folio_history::thread::RequestRow;
use folio_types::{SchemaId, SchemaRevId};

use super::*;
use crate::turn::{Delta, ToolResult};

#[test]
fn a_chat_without_tools_appends_twice() {
    let mut rig = Rig::new();
    let ticket = rig.start("hello");
    assert!(matches!(rig.answer(ticket), Some(Ok(Answer::Streaming { turn: 1, from: 1, joined: false }))));
    rig.reply(text_reply("hi"));
    assert_eq!(rig.journal(), ["accepted", "ended"]);
    assert_eq!(rig.appends, 2);
    let EventKind::Completed { text, rounds, finish, usage, .. } = rig.last_event() else { panic!() };
    assert_eq!((text.as_str(), rounds.len(), *finish, usage.model_calls), ("hi", 0, FinishReason::Stop, 1));
    let numbers: Vec<_> = rig.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "invariant 9");
    assert_eq!(rig.record().ended.as_ref().unwrap().event, *numbers.last().unwrap());
    assert!(rig.store.open_rows.is_empty() && rig.machine.is_idle());
    assert_eq!(rig.store.header.title, "hello");
}

#[test]
fn read_only_rounds_are_buffered_until_the_end() {
    let mut rig = Rig::with_calls(&["r1", "r2", "nonsense"]);
    assert_eq!(rig.work.iter().filter(|work| matches!(work, Effect::RunRead(_))).count(), 2, "reads run together");
    rig.finish();
    assert_eq!(rig.journal(), ["accepted", "round", "ended"]);
    assert_eq!(rig.appends, 2);
    let messages = rig.messages();
    let Message::Assistant { calls, .. } = &messages[1] else { panic!() };
    let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1_1_1", "call_1_1_2", "call_1_1_3"]);
    assert_eq!(messages[4], Message::Tool { call: "call_1_1_3".into(), content: "unknown tool nonsense".into() });
}

#[test]
fn auto_approved_writes_run_one_after_another_each_with_an_intent() {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| start.options.auto_approved_tools = vec!["w1".into(), "w2".into()]);
    rig.reply(calls_reply(&["r1", "w1", "w2", "r2"]));
    rig.finish();
    assert_eq!(rig.journal(), ["accepted", "round", "intent", "outcome", "intent", "outcome", "outcome", "ended"]);
    assert_eq!(rig.aggregates.calls(), ["1.1.2", "1.1.3"]);
    assert_eq!(rig.appends, 4);
    let order: Vec<_> = rig.log.iter().filter(|name| ["read", "plan", "run"].contains(name)).collect();
    assert_eq!(order, [&"read", &"plan", &"run", &"plan", &"run", &"read"], "calls run in their order");
}

#[test]
fn a_failed_plan_is_reported_and_leaves_no_intent() {
    let mut rig = Rig::auto_approved(&["r1", "w1"]);
    let outcome = ToolOutcome::Done(result("early"));
    rig.send(Command::ToolFinished { round: 1, index: 2, outcome });
    assert_eq!(rig.status(2), None, "the call has not started");
    rig.step();
    rig.work.clear();
    rig.send(Command::Planned { round: 1, index: 2, plan: Err(PlanFailure::Failed("no such schema".into())) });
    rig.reply(text_reply("sorry"));
    assert_eq!(rig.journal(), ["accepted", "round", "ended"]);
    let call = rig.record().call(1, 2).unwrap().result.clone().unwrap();
    assert_eq!((call.status, call.content.as_str()), (CallStatus::Failed, "no such schema"));
}

#[test]
fn a_write_with_an_unknown_outcome_is_recovered_not_repeated() {
    let mut rig = Rig::auto_approved(&["w1"]);
    rig.step();
    let Some(Effect::RunTool(run, intent)) = rig.work.pop_front() else { panic!() };
    rig.aggregates.write(&run.call, &run.name, &intent);
    rig.send(Command::ToolFinished { round: 1, index: 1, outcome: ToolOutcome::Unknown });
    assert!(matches!(rig.work.front(), Some(Effect::Recover(..))));
    rig.run();
    assert_eq!(rig.aggregates.effects.len(), 1, "invariant 3");
    assert_eq!(rig.status(1), Some(CallStatus::Ok));
}

#[test]
fn the_tenth_round_with_tool_calls_ends_the_turn_completed() {
    let mut rig = Rig::started();
    for round in 1..=9 {
        rig.reply(calls_reply(&[format!("r{round}").as_str()]));
        rig.run();
    }
    rig.reply(calls_reply(&["r1", "w1"]));
    assert!(rig.calling().is_none() && rig.work.is_empty(), "invariant 10");
    let ended = rig.record().ended.clone().unwrap();
    let End::Completed { text, finish, .. } = &ended.end else { panic!() };
    let answer = "(The maximum number of tool rounds was reached.)";
    assert_eq!((text.as_str(), *finish), (answer, FinishReason::MaxRounds));
    assert!(ended.results.iter().all(|result| result.status == CallStatus::NotRun && result.round == 10));
    assert_eq!((ended.results.len(), ended.usage.model_calls), (2, 10));
}

#[test]
fn a_turn_that_reaches_its_size_ends_after_the_round() {
    let mut rig = Rig::with_calls(&["r1"]);
    rig.machine.history.turn_mut(1).unwrap().bytes = limits::TURN_BYTES;
    rig.run();
    let Some(End::Completed { text, finish: FinishReason::MaxRounds, .. }) = rig.end() else {
        panic!("{:?}", rig.end())
    };
    assert_eq!(text, "(The maximum size of a turn was reached.)");
    assert_eq!(rig.status(1), Some(CallStatus::Ok), "the calls of the round have run");
}

#[test]
fn calls_beyond_the_bound_of_a_round_get_an_error_result() {
    let mut rig = Rig::auto_approved(&vec!["w1"; limits::CALLS_PER_ROUND_MAX + 3]);
    rig.run();
    let round = rig.record().newest_round().unwrap();
    let failed = round.calls.iter().filter(|call| call.status() == Some(CallStatus::Failed)).count();
    assert_eq!((round.calls.len(), failed), (limits::CALLS_PER_ROUND_MAX + 3, 3));
}

#[test]
fn large_results_are_truncated_visibly_and_appended_within_bounds() {
    let mut rig = Rig::started();
    for fill in ["ü", "\u{1}", "\""] {
        rig.reply(calls_reply(&vec!["r"; limits::CALLS_PER_ROUND_MAX]));
        while let Some(Effect::RunRead(run)) = rig.work.pop_front() {
            let outcome = ToolOutcome::Done(result(&fill.repeat(120_000 / fill.len())));
            rig.send(Command::ToolFinished { round: run.call.round, index: run.call.index, outcome });
            if rig.work.front().is_some_and(|work| matches!(work, Effect::CallModel(_))) {
                break;
            }
        }
    }
    rig.reply(text_reply(&"\"".repeat(limits::MODEL_TEXT_BYTES)));
    assert!(rig.record().ended.is_some());
    for call in rig.record().rounds.iter().flat_map(|round| &round.calls) {
        let content = &call.result.as_ref().unwrap().content;
        assert!(content.len() <= limits::TOOL_RESULT_BYTES && content.ends_with("too long]"));
    }
    let stored = rig.stored();
    assert_eq!(stored.last().unwrap().rounds, rig.record().rounds, "the stored rounds equal those in memory");
    assert_eq!(stored.last().unwrap().bytes, rig.record().bytes);
}

#[test]
fn hostile_answers_fit_an_entry() {
    let mut rig = Rig::started();
    let mut reply = calls_reply(&vec!["\u{1}"; 500]);
    for call in &mut reply.calls {
        call.arguments = json!({ "a": "\u{2}".repeat(20_000) });
        call.provider_id = "\u{3}".repeat(100_000);
        call.name = "\u{4}".repeat(100);
    }
    reply.text = "\u{1}".repeat(200_000);
    rig.reply(reply);
    rig.run();
    rig.model_fails(false);
    assert!(matches!(rig.record().ended.as_ref().unwrap().end, End::Failed { retriable: false, .. }));
}

#[test]
fn a_second_chat_is_refused_or_interrupts_the_running_turn() {
    let mut rig = Rig::new();
    rig.start("one");
    let second = rig.start("two");
    assert_eq!(rig.refusal(second), Some(Reason::TurnBusy));
    let third = rig.start_as("three", |start| start.if_busy = IfBusy::Interrupt);
    assert!(matches!(rig.answer(third), Some(Ok(Answer::Streaming { turn: 2, .. }))));
    let first = rig.machine.history().turn(1).unwrap();
    assert_eq!(first.ended.as_ref().unwrap().end, End::Cancelled);
    assert_eq!(rig.work.len(), 1, "the first turn's model call is stopped");
}

#[test]
fn a_request_id_joins_its_turn_and_is_refused_for_another_content() {
    let mut rig = Rig::new();
    let same = |start: &mut Start| start.request = "mine".parse().unwrap();
    rig.start_as("one", same);
    let joined = rig.start_as("one", same);
    assert!(matches!(rig.answer(joined), Some(Ok(Answer::Streaming { turn: 1, joined: true, .. }))));
    let other = rig.start_as("two", same);
    assert_eq!(rig.refusal(other), Some(Reason::RequestIdConflict));
    rig.reply(text_reply("hi"));
    let repeated = rig.start_as("one", same);
    assert!(matches!(rig.answer(repeated), Some(Ok(Answer::Streaming { turn: 1, joined: true, .. }))));
    assert_eq!(rig.turn(), 1);
}

#[test]
fn truncation_takes_effect_when_the_turn_is_accepted() {
    let mut rig = Rig::new();
    for (text, count) in [("one", 0), ("two", 2)] {
        rig.start_as(text, |start| start.truncate_to = Some(count));
        rig.reply(text_reply(&format!("answer {text}")));
    }
    let beyond = rig.start_as("x", |start| start.truncate_to = Some(5));
    assert_eq!(rig.refusal(beyond), Some(Reason::InvalidField));
    rig.start_as("again", |start| start.truncate_to = Some(3));
    let texts: Vec<_> = rig.machine.history().messages().map(|shown| (shown.count, shown.message)).collect();
    let user = |text: &str| Message::user(text.to_owned());
    assert_eq!(texts.len(), 4);
    assert_eq!((&texts[2], &texts[3]), (&(3, user("two")), &(4, user("again"))));
}

#[test]
fn deltas_are_shown_and_answers_of_other_model_calls_are_dropped() {
    let mut rig = Rig::started();
    let events = rig.events.len();
    for (round, attempt) in [(1, 2), (2, 1)] {
        let (error, usage) = (Error::internal("late"), text_reply("late").usage);
        rig.send(Command::ModelDelta { round, attempt, delta: Delta::Text("late".into()) });
        rig.send(Command::ModelReplied { round, attempt, reply: Box::new(text_reply("late")) });
        rig.send(Command::ModelFailed { round, attempt, error, retriable: false, usage });
    }
    assert_eq!(rig.events.len(), events);
    rig.send(Command::ModelDelta { round: 1, attempt: 1, delta: Delta::Thinking("why".into()) });
    rig.send(Command::ModelDelta { round: 1, attempt: 1, delta: Delta::Text("hi".into()) });
    assert_eq!(rig.events.len(), events + 2);
    let shown = rig.machine.view(rig.now, 1).unwrap().rounds.pop().unwrap();
    assert_eq!((shown.thinking.as_str(), shown.text.as_str()), ("why", "hi"));
    rig.reply(calls_reply(&["r1"]));
    let [.., requested, started] = rig.events.as_slice() else { panic!() };
    assert!(
        matches!(requested.kind, EventKind::ToolCalls { .. }) && matches!(started.kind, EventKind::ToolStarted { .. })
    );
}

#[test]
fn an_answer_without_calls_keeps_its_finish_reason() {
    use FinishReason::{Length, Stop, ToolCalls};
    for (finish, reported) in [(Length, Length), (ToolCalls, Stop)] {
        let mut rig = Rig::started();
        rig.reply(Reply { finish, ..text_reply("hi") });
        assert!(matches!(rig.end(), Some(End::Completed { finish, .. }) if *finish == reported));
    }
}

#[test]
fn a_rename_of_a_running_thread_keeps_the_buffered_entries() {
    let mut rig = Rig::with_calls(&["r1"]);
    rig.run();
    let ticket = rig.ticket();
    rig.send(Command::Rename { ticket, title: "other".into(), request: None });
    let Some(Ok(Answer::Renamed(header))) = rig.answer(ticket) else { panic!() };
    assert_eq!(header.title, "other");
    rig.reply(text_reply("done"));
    assert_eq!(rig.journal(), ["accepted", "round", "ended"]);
    let stored = rig.stored();
    assert_eq!(stored.last().unwrap().rounds, rig.record().rounds);
}

#[test]
fn a_repeated_rename_is_made_once_and_another_one_with_its_request_id_is_refused() {
    let mut rig = Rig::new();
    let mut rename = |title: &str| {
        let (ticket, digest) = (rig.ticket(), Digest::of(title.as_bytes()));
        let request = Some(RequestRow { request: "once".parse().unwrap(), turn: 0, digest });
        rig.send(Command::Rename { ticket, title: title.into(), request });
        (rig.answer(ticket).unwrap().clone().map(drop).map_err(|error| error.reason), rig.store.header.version)
    };
    assert_eq!(rename("one"), (Ok(()), 1));
    assert_eq!(rename("one"), (Ok(()), 1));
    assert_eq!(rename("two"), (Err(Reason::RequestIdConflict), 1));
    assert_eq!(rig.store.header.title, "one");
}

#[test]
fn a_used_request_id_is_refused_or_its_request_is_found_by_a_reload() {
    let mut rig = Rig::new();
    let row = |turn| RequestRow { request: "once".parse().unwrap(), turn, digest: Digest::of(b"one") };
    for (turn, refusal) in [(0, Some(Reason::RequestIdConflict)), (1, None)] {
        rig.store.requests.insert(row(turn).request, row(turn));
        let chat = rig.start_as("hello", |start| start.request = row(turn).request);
        assert!(rig.refusal(chat) == refusal && rig.is_lost, "a request without a turn is not found by a reload");
        rig.crash();
    }
    rig.mishaps.push_back(Mishap::Overtaken);
    let ticket = rig.ticket();
    rig.send(Command::Rename { ticket, title: "one".into(), request: Some(row(0)) });
    assert!(rig.answer(ticket).is_none() && rig.is_lost, "another node owns the thread");
}

#[test]
fn the_working_state_after_a_turn_is_stored_in_the_header() {
    let mut rig = Rig::auto_approved(&["r1"]);
    let (round, index) = call_position(&rig.work.pop_front().unwrap());
    let schema_revid = Some(SchemaRevId::new(SchemaId::derive(&["a"]), 1));
    let change = WorkingChange { schema_revid: schema_revid.clone(), ..WorkingChange::default() };
    let outcome = ToolOutcome::Done(ToolResult { change, ..result("made") });
    rig.send(Command::ToolFinished { round, index, outcome });
    rig.finish();
    assert_eq!(rig.store.header.working.schema_revid, schema_revid);
}

#[test]
fn a_result_lists_the_repairs_of_the_calls_arguments() {
    let repairs = || vec!["added \"strict\":true".to_owned(), "set a name".to_owned()];
    let finished = |content: &str, status| {
        let (mut rig, mut reply) = (Rig::new(), calls_reply(&["r1"]));
        rig.start("hello");
        reply.calls[0].repairs = repairs();
        rig.reply(reply);
        let outcome = ToolOutcome::Done(ToolResult { status, ..result(content) });
        rig.send(Command::ToolFinished { round: 1, index: 1, outcome });
        rig.record().call(1, 1).unwrap().result.clone().unwrap().content
    };
    let listed = r#"{"repairs":["added \"strict\":true","set a name"]"#;
    for (content, expected) in [
        (r#"{"valid":true}"#, format!(r#"{listed},"valid":true}}"#)),
        ("{}", format!("{listed}}}")),
        ("no JSON", "no JSON\nThe arguments were repaired: added \"strict\":true; set a name.".to_owned()),
    ] {
        for status in [CallStatus::Ok, CallStatus::Failed, CallStatus::Conflict] {
            assert_eq!(finished(content, status), expected);
        }
        assert_eq!(finished(content, CallStatus::Cancelled), content);
    }
}

#[test]
fn the_repaired_arguments_wait_for_approval_and_an_edit_lists_no_repairs() {
    for (decision, has_repairs) in
        [(Decision::Approve, true), (Decision::ApproveEdited { arguments: json!({ "on": "w1" }) }, false)]
    {
        let (mut rig, mut reply) = (Rig::started(), calls_reply(&["w1"]));
        reply.calls[0].repairs = vec!["set a name".to_owned()];
        rig.reply(reply);
        let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!() };
        assert_eq!(pending[0].digest, Digest::of_json(&json!({ "on": "w1" })));
        rig.decide(1, &[(1, decision)]);
        // A recovery lists them, too.
        rig.step();
        rig.crash();
        rig.send(Command::TakeOver);
        rig.run();
        let content = rig.record().call(1, 1).unwrap().result.clone().unwrap().content;
        assert_eq!(content.contains("set a name"), has_repairs, "{content}");
    }
}
