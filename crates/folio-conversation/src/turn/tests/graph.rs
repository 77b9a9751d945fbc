//! Turns with a graph: routes, corrections, the answer before the memory, and crashes between any two nodes.

use folio_history::journal::{NodeEnd, TurnNode, TurnProfile, TurnRoutes, WorkingState};
use folio_types::profile::{AnswerCheck, NodeKind};
use serde_json::{Value, json};

use super::rig::wrong_reply;
use super::*;
use crate::turn::Delta;

fn node(name: &str, kind: NodeKind, next: Option<&str>) -> TurnNode {
    TurnNode {
        name: name.to_owned(),
        kind,
        tools: vec!["r1".to_owned(), "retrieve_documents".to_owned()],
        answer_type: format!("{name} type"),
        schema: json!({ "type": "object" }),
        checks: Vec::new(),
        text_members: vec!["answer".to_owned()],
        default_answer: None,
        routes: TurnRoutes { otherwise: next.map(str::to_owned), ..TurnRoutes::default() },
    }
}

/// Returns a graph like that of the assistant.
pub(super) fn graph() -> Vec<TurnNode> {
    let classify = TurnNode {
        default_answer: Some(json!({ "intent": "unknown" })),
        routes: TurnRoutes {
            member: "intent".to_owned(),
            by_value: vec![("sum".to_owned(), "sum_agent".to_owned())],
            otherwise: Some("qa_agent".to_owned()),
        },
        ..node("classify", NodeKind::Route, None)
    };
    let qa = TurnNode { checks: vec![AnswerCheck::Sources], ..node("qa_agent", NodeKind::Answer, Some("memory")) };
    let sum = node("sum_agent", NodeKind::Answer, Some("memory"));
    vec![classify, qa, sum, node("memory", NodeKind::Memory, None)]
}

fn turn() -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.profile = Some(TurnProfile { graph: graph().into(), ..rig::profile() });
    });
    rig
}

fn say(value: &Value) -> Reply {
    text_reply(&value.to_string())
}

fn classified(rig: &mut Rig, intent: &str) {
    rig.reply(say(&json!({ "intent": intent })));
}

fn current(rig: &Rig) -> Option<&str> {
    rig.record().node().map(|node| node.name.as_str())
}

fn answer() -> Value {
    json!({ "answer": "42", "sources": [] })
}

fn state(rig: &Rig) -> Value {
    let working: &WorkingState = &rig.store.header.working;
    working.profile_state.as_deref().cloned().unwrap_or_default()
}

fn is_completed(rig: &Rig) -> bool {
    matches!(rig.end(), Some(End::Completed { text, .. }) if text == "42")
}

fn ends(rig: &Rig) -> Vec<(String, NodeEnd)> {
    let nodes = rig.record().rounds.iter().filter_map(|round| round.node.as_ref());
    nodes.filter_map(|node| Some((node.name.clone(), node.end.clone()?))).collect()
}

#[test]
fn the_answer_of_each_node_chooses_the_next_one() {
    for (intent, agent) in [("sum", "sum_agent"), ("other", "qa_agent")] {
        let mut rig = turn();
        assert_eq!(current(&rig), Some("classify"));
        classified(&mut rig, intent);
        assert_eq!(current(&rig), Some(agent));
        rig.reply(calls_reply(&["r1"]));
        rig.run();
        assert_eq!(current(&rig), Some(agent), "a round with calls does not end its node");
        rig.reply(say(&answer()));
        assert_eq!(current(&rig), Some("memory"));
        rig.reply(say(&json!({ "summary": "It is 42." })));
        assert!(is_completed(&rig), "{:?}", rig.end());
        assert_eq!(state(&rig)["actions_taken"], json!(["classify", agent, "memory"]));
        assert_eq!(state(&rig)["conversation_summary"], "It is 42.");
        let names: Vec<String> = ends(&rig).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["classify", agent, "memory"]);
        assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 4, "each node counts");
        rig.check_stored();
    }
}

#[test]
fn the_answer_is_appended_and_sent_before_the_memory_is_updated() {
    let mut rig = turn();
    classified(&mut rig, "sum");
    rig.reply(say(&answer()));
    assert_eq!(rig.calling().map(|call| call.round), Some(3), "the memory is being updated");
    assert_eq!(rig.journal(), ["accepted", "round", "round"]);
    let ended = rig.events.iter().rev().find_map(|event| match &event.kind {
        EventKind::NodeEnded { node, .. } => node.end.clone(),
        _ => None,
    });
    let ended = ended.unwrap().answer.unwrap();
    assert!(ended["answer"] == "42" && ended["timestamp"].is_string(), "{ended}");
    assert!(!rig.events.iter().any(|event| matches!(event.kind, EventKind::TextDelta { .. })));
}

#[test]
fn a_snapshot_contains_no_json_of_a_node_in_progress() {
    let mut rig = turn();
    let call = rig.calling().unwrap();
    let (round, attempt) = (call.round, call.attempt);
    let deltas = [Delta::Thinking("Is it a sum?".to_owned()), Delta::Text("{\"intent\":".to_owned())];
    deltas.into_iter().for_each(|delta| rig.send(Command::ModelDelta { round, attempt, delta }));
    let view = rig.machine.view(rig.now, 1).unwrap();
    let shown = view.rounds.last().unwrap();
    assert_eq!((shown.text.as_str(), shown.thinking.as_str()), ("", "Is it a sum?"));
    rig.reply(wrong_reply("{}"));
    let view = rig.machine.view(rig.now, 1).unwrap();
    assert_eq!(view.rounds.iter().map(|round| round.text.as_str()).collect::<Vec<_>>(), ["", ""]);
}

#[test]
fn a_node_receives_its_own_rounds_and_the_memory_receives_the_answer() {
    let mut rig = turn();
    classified(&mut rig, "sum");
    rig.reply(calls_reply(&["r1"]));
    rig.run();
    let sent = rig.record().messages();
    assert!(
        matches!(sent.as_slice(), [Message::User { .. }, Message::Assistant { .. }, Message::Tool { .. }]),
        "{sent:?}"
    );
    rig.reply(say(&answer()));
    let sent = rig.record().messages();
    let [Message::User { text: question, .. }, Message::User { text: data, .. }] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert!(question == "hello" && data.contains("\"answer\":\"42\""), "{data}");
    rig.reply(say(&json!({ "summary": "" })));
    let visible = rig.messages();
    let [_, _, _, Message::Assistant { text, .. }] = visible.as_slice() else { panic!("{visible:?}") };
    assert_eq!(text, "42", "the JSON of nodes is not a message");
}

#[test]
fn the_memory_receives_no_quotes_of_documents() {
    let mut rig = turn();
    classified(&mut rig, "qa");
    rig.reply(say(&answer()));
    let stored = rig.record().node_answer(NodeKind::Answer).map(|(_, answer)| answer.clone()).unwrap();
    assert_eq!(stored["passages"], json!([]));
    let Some(Message::User { text, .. }) = rig.record().messages().pop() else { panic!("no message") };
    assert!(text.contains("\"answer\":\"42\"") && !text.contains("passages"), "{text}");
}

#[test]
fn a_second_violation_uses_the_default_answer_or_fails_with_the_raw_text() {
    let mut rig = turn();
    rig.reply(wrong_reply("one"));
    rig.reply(wrong_reply("two"));
    let (name, end) = ends(&rig).remove(0);
    assert_eq!((name.as_str(), end.is_default, end.answer), ("classify", true, Some(json!({ "intent": "unknown" }))));
    assert_eq!(current(&rig), Some("qa_agent"));
    rig.reply(wrong_reply("three"));
    assert_eq!(current(&rig), Some("qa_agent"), "each node corrects its own answer once");
    rig.reply(text_reply("no JSON"));
    let Some(End::Failed { error, retriable: false }) = rig.end() else { panic!("{:?}", rig.end()) };
    assert_eq!((error.reason, error.details["raw_text"].as_str()), (Reason::AnswerInvalid, "no JSON"));
    assert_eq!(state(&rig), Value::Null, "a turn without an answer leaves the memory unchanged");
    assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 4);
}

#[test]
fn a_source_that_was_not_retrieved_is_a_violation() {
    let mut rig = turn();
    classified(&mut rig, "qa");
    rig.reply(say(&json!({ "answer": "42", "sources": ["doc_x"] })));
    let sent = rig.record().messages();
    let Some(Message::User { text, .. }) = sent.last() else { panic!("{sent:?}") };
    assert!(text.contains("#/sources/0: \"doc_x\" was not retrieved"), "{text}");
    rig.reply(say(&answer()));
    assert_eq!(current(&rig), Some("memory"));
}

/// The failures while the memory is being updated.
#[test]
fn the_memory_never_fails_the_turn() {
    type Failure = fn(&mut Rig);
    let failures: [(&str, Failure); 8] = [
        ("the model fails", |rig| rig.model_fails(false)),
        ("the model fails retriably", |rig| rig.model_fails(true)),
        ("the answer is wrong twice", |rig| {
            rig.reply(wrong_reply("one"));
            rig.reply(wrong_reply("two"));
        }),
        ("the user cancels", |rig| {
            rig.cancel();
        }),
        ("another chat interrupts", |rig| {
            rig.start_as("next", |start| start.if_busy = IfBusy::Interrupt);
        }),
        ("the node dies", |rig| {
            rig.crash();
            rig.send(Command::TakeOver);
        }),
        ("the node dies and a request waits", |rig| {
            rig.crash();
            rig.resume();
            rig.reply(say(&json!({ "summary": "" })));
        }),
        ("the node dies after a wrong answer", |rig| {
            rig.reply(wrong_reply("one"));
            rig.crash();
            rig.send(Command::TakeOver);
        }),
    ];
    for (name, fail) in failures {
        let mut rig = turn();
        classified(&mut rig, "sum");
        rig.reply(say(&answer()));
        fail(&mut rig);
        let history = rig.stored();
        let end = history.turn(1).unwrap().ended.as_ref().map(|ended| &ended.end);
        assert!(matches!(end, Some(End::Completed { text, .. }) if text == "42"), "{name}: {end:?}");
        let working = &history.turn(1).unwrap().working;
        let state = working.profile_state.as_deref().unwrap();
        assert_eq!(state["actions_taken"], json!(["classify", "sum_agent", "memory"]), "{name}");
        assert!(state["current_response"]["timestamp"].is_string(), "{name}");
    }
}

#[test]
fn a_turn_at_its_limits_completes_only_with_an_answer() {
    for (rounds_max, completes) in [(3, true), (2, true), (1, false)] {
        let mut rig = Rig::new();
        rig.start_as("hello", |start| {
            start.options.profile = Some(TurnProfile { graph: graph().into(), ..rig::profile() });
            start.options.rounds_max = rounds_max;
        });
        classified(&mut rig, "sum");
        if rig.calling().is_some() {
            rig.reply(say(&answer()));
        }
        if rig.calling().is_some() {
            rig.reply(say(&json!({ "summary": "" })));
        }
        assert_eq!(is_completed(&rig), completes, "{rounds_max}: {:?}", rig.end());
        assert_eq!(rig.calling(), None);
        let finished: Vec<u32> = rig
            .events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::RoundFinished { round, .. } => Some(*round),
                _ => None,
            })
            .collect();
        assert_eq!(finished, (1..=rounds_max).collect::<Vec<_>>(), "each round finishes once");
    }
}

/// Steps of a turn, each of which one model answer or a run of its calls makes.
const STEPS: usize = 5;

fn step(rig: &mut Rig, step: usize) {
    match step {
        0 => classified(rig, "sum"),
        1 => rig.reply(calls_reply(&["r1"])),
        2 => rig.run(),
        3 => rig.reply(say(&answer())),
        _ => rig.reply(say(&json!({ "summary": "done" }))),
    }
}

/// Returns the step with which a resumed turn continues: the first one of the recorded node.
fn resumed_step(rig: &Rig) -> usize {
    match ends(rig).len() {
        0 => 0,
        1 => 1,
        _ => 4,
    }
}

/// The node dies before and after each step, and the turn is resumed: it continues at the recorded node, never repeats one that
/// has ended, and completes once.
#[test]
fn a_crash_at_any_step_resumes_at_the_recorded_node() {
    for died_at in 0..STEPS {
        let mut rig = turn();
        (0..died_at).for_each(|at| step(&mut rig, at));
        let ended = ends(&rig);
        rig.crash();
        rig.resume();
        // Rounds whose node has not ended are not appended, and run again.
        assert_eq!(ends(&rig), ended, "{died_at}");
        (resumed_step(&rig)..STEPS).for_each(|at| step(&mut rig, at));
        assert!(is_completed(&rig), "{died_at}: {:?}", rig.end());
        assert_eq!(state(&rig)["actions_taken"], json!(["classify", "sum_agent", "memory"]), "{died_at}");
        rig.check_stored();
    }
}

/// The append of each node's end is lost, applied without an answer, or overtaken by another node.
#[test]
fn an_append_that_is_lost_or_overtaken_loses_no_node() {
    for at in [0, 3, 4] {
        for mishap in [Mishap::AnswerLost, Mishap::NeverArrived, Mishap::Overtaken] {
            let mut rig = turn();
            (0..at).for_each(|earlier| step(&mut rig, earlier));
            rig.mishaps.push_back(mishap);
            step(&mut rig, at);
            let mut next = at + 1;
            if rig.is_lost {
                rig.crash();
                rig.resume();
                next = resumed_step(&rig);
            }
            (next..STEPS).for_each(|at| step(&mut rig, at));
            assert!(is_completed(&rig), "{at} {mishap:?}: {:?}", rig.end());
            assert_eq!(state(&rig)["actions_taken"], json!(["classify", "sum_agent", "memory"]), "{at} {mishap:?}");
        }
    }
}

#[test]
fn the_memory_of_a_turn_continues_that_of_the_turn_before_it() {
    let mut rig = turn();
    (0..STEPS).for_each(|at| step(&mut rig, at));
    rig.start_as("again", |start| {
        start.options.profile = Some(TurnProfile { graph: graph().into(), ..rig::profile() });
    });
    classified(&mut rig, "qa");
    rig.reply(say(&answer()));
    rig.model_fails(false);
    let state = state(&rig);
    assert_eq!(state["actions_taken"], json!(["classify", "sum_agent", "memory", "classify", "qa_agent", "memory"]));
    assert_eq!((&state["conversation_summary"], &state["user_input"]), (&json!("done"), &json!("again")));
}
