use folio_types::message::FinishReason;
use folio_types::{Error, Incarnation, RequestId, TurnId, UserId};

use super::*;
use crate::journal::{Accepted, AcceptedCall, Access, Outcome, Resumed, Round, TurnOptions};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn group(tasks: usize, running_max: u32) -> Group {
    let task = |number: usize| GroupTask {
        thread: ThreadId::derive(&["child", &number.to_string()]),
        profile: "document".into(),
        tool: (number == 2).then(|| "create_tag".to_owned()),
        children_max: 0,
        budget_parts: Vec::new(),
    };
    Group {
        turn: 1,
        round: 1,
        index: 1,
        id: GroupId::derive(&["g"]),
        tasks: (1..=tasks).map(task).collect(),
        running_max,
        arguments: None,
        expires_at: at(100),
        event: 4,
        at: at(1),
    }
}

fn end(status: ChildStatus, summary: &str) -> ChildEnd {
    ChildEnd { status, summary: summary.to_owned(), usage: Usage { model_calls: 1, ..Usage::default() } }
}

#[test]
fn at_most_the_permitted_number_of_children_is_open_and_the_next_ones_start_in_order() {
    use ChildState::{Absent, Interrupted, Open};
    let ended = || ChildState::Ended(end(ChildStatus::Failed, "no"));
    for (states, expected) in [
        (vec![], GroupStep::Start(vec![1, 2, 3])),
        (vec![Absent, Absent, Absent, Absent, Absent], GroupStep::Start(vec![1, 2, 3])),
        (vec![Open, Open, Open, Absent, Absent], GroupStep::Wait),
        (vec![Open, ended(), Open, Absent, Absent], GroupStep::Start(vec![4])),
        (vec![Open, Interrupted, Open, Absent, Absent], GroupStep::Start(vec![2])),
        (vec![ended(), ended(), ended(), Absent, Absent], GroupStep::Start(vec![4, 5])),
        (vec![ended(), ended(), ended(), ended(), Open], GroupStep::Wait),
        (vec![ended(), ended(), ended(), ended(), ended()], GroupStep::Finished),
    ] {
        assert_eq!(group(5, 3).step(&states), expected, "{states:?}");
    }
    assert_eq!(group(2, 0).step(&[]), GroupStep::Start(vec![1]), "one child can always start");
}

/// Simulates every order in which children end: each state of a child is reached, and the group finishes.
#[test]
fn every_order_of_ends_finishes_the_group_within_its_bound() {
    fn explore(group: &Group, states: Vec<ChildState>, seen: &mut usize) {
        *seen += 1;
        let open = states.iter().filter(|state| **state == ChildState::Open).count();
        assert!(open <= 2, "{states:?}");
        match group.step(&states) {
            GroupStep::Finished => assert!(states.iter().all(|state| matches!(state, ChildState::Ended(_)))),
            GroupStep::Wait => {
                assert!(open > 0, "a group waits only for an open child: {states:?}");
                for (at, _) in states.iter().enumerate().filter(|(_, state)| **state == ChildState::Open) {
                    let mut next = states.clone();
                    next[at] = ChildState::Ended(end(ChildStatus::Completed, "x"));
                    explore(group, next, seen);
                }
            }
            GroupStep::Start(numbers) => {
                let mut next = states;
                numbers.iter().for_each(|number| next[*number as usize - 1] = ChildState::Open);
                explore(group, next, seen);
            }
        }
    }
    let mut seen = 0;
    explore(&group(5, 2), vec![ChildState::Absent; 5], &mut seen);
    assert!(seen > 30, "{seen}");
}

#[test]
fn results_are_in_order_and_a_failed_child_is_a_failed_result() {
    let ends = [end(ChildStatus::Completed, "7 EUR"), end(ChildStatus::Failed, "no model"), ChildEnd::not_started("x")];
    let (status, content, usage) = group(3, 3).result(&ends);
    assert_eq!((status, usage.model_calls), (CallStatus::Ok, 2));
    let content: Value = serde_json::from_str(&content).unwrap();
    let id = |number: &str| ThreadId::derive(&["child", number]).to_string();
    let expected = json!([
        { "task": 1, "agent": "document", "status": "completed", "summary": "7 EUR", "thread_id": id("1") },
        { "task": 2, "tool": "create_tag", "status": "failed", "summary": "no model", "thread_id": id("2") },
        { "task": 3, "agent": "document", "status": "not_started", "summary": "x", "thread_id": id("3") },
    ]);
    assert_eq!((&content["tasks"], &content["group_id"]), (&expected, &json!(GroupId::derive(&["g"]))));
    let (status, ..) = group(1, 3).result(&[end(ChildStatus::Expired, "late")]);
    assert_eq!(status, CallStatus::Failed, "no child completed");
}

#[test]
fn summaries_are_truncated_at_their_bound_and_so_that_the_result_fits() {
    let long = "é".repeat(limits::TASK_SUMMARY_BYTES);
    let (_, content, _) = group(1, 3).result(&[end(ChildStatus::Completed, &long)]);
    let content: Value = serde_json::from_str(&content).unwrap();
    let summary = content["tasks"][0]["summary"].as_str().unwrap();
    assert!(summary.len() <= limits::TASK_SUMMARY_BYTES && summary.ends_with(TRUNCATION_NOTE));
    for text in [long, "\u{1}".repeat(limits::TASK_SUMMARY_BYTES)] {
        let ends = vec![end(ChildStatus::Completed, &text); limits::TASKS_PER_GROUP_MAX];
        let (_, content, _) = group(limits::TASKS_PER_GROUP_MAX, 3).result(&ends);
        assert!(content.len() <= limits::TOOL_RESULT_BYTES - RESULT_FRAME, "{}", content.len());
        assert!(serde_json::from_str::<Value>(&content).is_ok());
    }
}

#[test]
fn the_children_of_a_root_turn_never_exceed_its_maximum() {
    assert_eq!(children_of_each(64, 65), None);
    assert_eq!(children_of_each(16, 16), Some(0));
    assert_eq!(children_of_each(0, 1), None);
    // The worst case: each turn starts groups of `width` while it may, and each of its children does so as well.
    fn total(left: u32, depth: u32, width: u32) -> u32 {
        let (mut left, mut sum) = (left, 0);
        while let Some(each) = children_of_each(left, width as usize).filter(|_| depth <= limits::TASK_DEPTH_MAX) {
            sum += width + width * total(each, depth + 1, width);
            left -= width * (1 + each);
        }
        sum
    }
    for width in 1..=16 {
        let total = total(limits::TASKS_PER_TURN_MAX, 1, width);
        assert!(total <= limits::TASKS_PER_TURN_MAX && total >= width, "{width}: {total}");
    }
}

fn accepted(direct_call: bool) -> Entry {
    let call = AcceptedCall {
        name: "create_tag".into(),
        arguments: json!({}),
        access: Access::ReadWrite,
        problem: None,
        repairs: Vec::new(),
    };
    let request: RequestId = "r".parse().unwrap();
    let accepted = Accepted::new(1, request, UserId::derive(&["u"]), "task", at(1));
    let options = TurnOptions { direct_call: direct_call.then(|| Box::new(call)), ..TurnOptions::default() };
    Entry::Accepted(Box::new(Accepted { options, ..accepted }))
}

fn ended(end: End) -> Entry {
    Entry::Ended(Box::new(Ended {
        usage: Usage { model_calls: 3, ..Usage::default() },
        ..Ended::new(1, end, 9, at(2))
    }))
}

fn completed() -> End {
    End::Completed { text: "42".into(), thinking: Vec::new(), finish: FinishReason::Stop }
}

fn lost() -> End {
    End::Failed { error: Error::unavailable(Reason::NodeLost, "died"), retriable: true }
}

fn resumed(cause: ResumeCause) -> Entry {
    Entry::Resumed(Resumed { turn: 1, owner: Incarnation::derive(&["n"]), epoch: 2, cause, at: at(3) })
}

fn state(entries: impl IntoIterator<Item = Entry>) -> ChildState {
    let mut log = ChildLog::default();
    entries.into_iter().for_each(|entry| log.push(entry));
    log.state(at(60))
}

fn status(state: ChildState) -> (ChildStatus, String) {
    match state {
        ChildState::Ended(end) => (end.status, end.summary),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_state_of_a_child_follows_from_its_journal() {
    assert_eq!(state([]), ChildState::Absent);
    assert_eq!(state([accepted(false)]), ChildState::Open);
    let done = state([accepted(false), ended(completed())]);
    let usage = Usage { model_calls: 3, ..Usage::default() };
    assert_eq!(done, ChildState::Ended(ChildEnd { status: ChildStatus::Completed, summary: "42".into(), usage }));
    let error = Error::precondition(Reason::BudgetExhausted, "no credit");
    let failed = ended(End::Failed { error, retriable: false });
    assert_eq!(status(state([accepted(false), failed])), (ChildStatus::Failed, "no credit".to_owned()));
    for (end, expected) in [
        (End::Cancelled, ChildStatus::Cancelled),
        (End::Expired, ChildStatus::Expired),
        (End::Superseded, ChildStatus::Superseded),
    ] {
        assert_eq!(status(state([accepted(false), ended(end)])).0, expected);
    }
}

#[test]
fn a_child_whose_node_died_continues_until_its_maximum_of_resumes() {
    let mut entries = vec![accepted(false), ended(lost())];
    assert_eq!(state(entries.clone()), ChildState::Interrupted);
    entries.push(resumed(ResumeCause::Retry));
    assert_eq!(state(entries.clone()), ChildState::Open);
    for _ in 1..limits::TASK_RESUMES_MAX {
        entries.push(resumed(ResumeCause::Takeover));
    }
    entries.push(ended(lost()));
    assert_eq!(status(state(entries.clone())), (ChildStatus::Failed, "died".to_owned()));
    let reloads = std::iter::repeat_n(resumed(ResumeCause::Reload), 9);
    let entries = [accepted(false)].into_iter().chain(reloads).chain([ended(lost())]);
    assert_eq!(state(entries), ChildState::Interrupted, "a reload is no attempt");
    let mut log = ChildLog::default();
    [accepted(false), ended(lost())].into_iter().for_each(|entry| log.push(entry));
    assert_eq!(status(log.state(at(3 + 86_400))).0, ChildStatus::Failed, "it can no longer be resumed");
}

#[test]
fn the_summary_of_a_tool_is_its_result() {
    let result = |status| CallResult {
        round: 1,
        index: 1,
        status,
        content: "made".into(),
        change: Default::default(),
        usage: Usage::default(),
        at: None,
    };
    let outcome = |status| Entry::Outcome(Outcome { turn: 1, result: result(status) });
    let round =
        |status| Entry::Round(Box::new(Round { turn: 1, round: 1, results: vec![result(status)], ..Round::default() }));
    for (entry, expected) in [
        (outcome(CallStatus::Ok), ChildStatus::Completed),
        (round(CallStatus::Ok), ChildStatus::Completed),
        (outcome(CallStatus::Rejected), ChildStatus::Failed),
        (round(CallStatus::Failed), ChildStatus::Failed),
    ] {
        assert_eq!(status(state([accepted(true), entry, ended(completed())])), (expected, "made".to_owned()));
    }
    let Entry::Ended(mut closed) = ended(End::Cancelled) else { panic!() };
    closed.results.push(result(CallStatus::Cancelled));
    assert_eq!(status(state([accepted(true), Entry::Ended(closed)])).0, ChildStatus::Cancelled);
}

#[test]
fn a_view_names_the_thread_of_each_task() {
    let call = CallId::new(TurnId::new(ThreadId::derive(&["t"]), 1), 1, 1);
    let view = group(2, 3).view(call.clone());
    assert_eq!((view.call, view.tasks.len()), (call, 2));
    assert_eq!((view.tasks[1].number, view.tasks[1].tool.as_deref()), (2, Some("create_tag")));
    assert_eq!(view.tasks[0].thread, ThreadId::derive(&["child", "1"]));
}
