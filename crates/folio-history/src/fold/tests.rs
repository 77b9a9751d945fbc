//! Tests of the fold, by behaviour and with random histories.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::{History, import, json_bytes, sanitize, thinking_text};
use crate::event::{EventKind, TurnStatus};
use crate::journal::{
    Accepted, Access, Call, CallResult, CallStatus, Closing, ClosingCause, Decision, Decisions, End, Ended, Entry,
    Imported, Intent, Outcome, Paused, ResumeCause, Resumed, Round, TurnOptions, WorkingChange, WorkingExtraction,
    WorkingState,
};
use folio_resources::policy::{ApprovalRequirement, Approver};
use folio_types::limits;
use folio_types::message::{FinishReason, Message, ThinkingBlock, ToolCall, Usage};
use folio_types::op::{Expected, Target};
use folio_types::{DocumentId, ExtractionId, Incarnation, PromptId, PromptRevId, SchemaId, SchemaRevId};
use folio_types::{Error, Reason};
use folio_types::{OrgId, Principal, Role, ThreadId, UserId};

fn at() -> Timestamp {
    Timestamp::constant(1_790_000_000, 0)
}

pub(super) fn state(version: u32) -> WorkingState {
    let revid = SchemaRevId::new(SchemaId::derive(&["s"]), version);
    WorkingState { schema_revid: Some(revid), ..WorkingState::default() }
}

pub(super) fn accepted(turn: u32, truncate_to: Option<u32>, working: WorkingState) -> Entry {
    let request = format!("request-{turn}").parse().unwrap();
    let new = Accepted::new(turn, request, UserId::derive(&["u"]), &format!("question {turn}"), at());
    let options = TurnOptions { approval_ttl_seconds: 300, rounds_max: 10, ..TurnOptions::default() };
    Entry::Accepted(Box::new(Accepted { options, truncate_to, working, ..new }))
}

pub(super) fn ended(turn: u32, end: End, results: Vec<CallResult>, working: WorkingState, event: u64) -> Entry {
    Entry::Ended(Box::new(Ended { results, working, ..Ended::new(turn, end, event, at()) }))
}

pub(super) fn completed(turn: u32) -> End {
    End::Completed { text: format!("answer {turn}"), thinking: Vec::new(), finish: FinishReason::Stop }
}

pub(super) fn round(turn: u32, round: u32, calls: u32, results: Vec<CallResult>) -> Entry {
    let call = |index| Call {
        index,
        provider_id: "call_0".into(),
        name: format!("tool{index}"),
        arguments: json!({ "n": index }),
        access: Access::ReadWrite,
        needs_approval: true,
        approval_requirement: None,
        problem: None,
        repairs: Vec::new(),
    };
    Entry::Round(Box::new(Round {
        turn,
        round,
        model: "m".into(),
        text: format!("let me {round}"),
        thinking: vec![ThinkingBlock { text: "hm".into(), signature: Some("s".into()), ..ThinkingBlock::default() }],
        calls: (1..=calls).map(call).collect(),
        results,
        usage: Usage { input_tokens: 1, model_calls: 1, reported: true, ..Usage::default() },
        correction: None,
        node: None,
    }))
}

pub(super) fn result(round: u32, index: u32) -> CallResult {
    let (content, usage) = (format!("result {index}"), Usage::default());
    CallResult { round, index, status: CallStatus::Ok, content, change: Default::default(), usage, at: None }
}

fn paused(turn: u32, round: u32, event: u64) -> Entry {
    let expires_at = at().checked_add(jiff::SignedDuration::from_secs(300)).unwrap();
    Entry::Paused(Paused { turn, round, expires_at, working: WorkingState::default(), event, at: at() })
}

fn decisions(turn: u32, round: u32, decided: Vec<(u32, Decision)>) -> Entry {
    let by = UserId::derive(&["u"]);
    Entry::Decisions(Decisions {
        turn,
        round,
        decided,
        by,
        role: None,
        token_creator: None,
        decided_at: at(),
        continue_auto_approved: false,
    })
}

fn resumed(turn: u32, cause: ResumeCause) -> Entry {
    Entry::Resumed(Resumed { turn, owner: Incarnation::derive(&["n"]), epoch: 2, cause, at: at() })
}

/// Each turn has its own working state.
pub(super) fn chat(turns: u32) -> Vec<Entry> {
    (1..=turns)
        .flat_map(|turn| {
            [accepted(turn, None, state(turn)), ended(turn, completed(turn), Vec::new(), state(turn + 1), 5)]
        })
        .collect()
}

pub(super) fn texts(history: &History) -> Vec<String> {
    history
        .messages()
        .map(|shown| match shown.message {
            Message::User { text, .. } | Message::Assistant { text, .. } | Message::Tool { content: text, .. } => text,
        })
        .collect()
}

fn thread() -> ThreadId {
    ThreadId::derive(&["t"])
}

#[test]
fn truncation_keeps_counted_messages_and_restores_their_working_state() {
    for (keep, shown, working) in [
        (0, vec![], WorkingState::default()),
        (1, vec!["question 1"], state(1)),
        (2, vec!["question 1", "answer 1"], state(2)),
        (3, vec!["question 1", "answer 1", "question 2"], state(2)),
        (9, vec!["question 1", "answer 1", "question 2", "answer 2"], state(3)),
    ] {
        let mut history = History::fold(chat(2));
        assert_eq!(history.working_at(keep), working, "{keep}");
        history.push(accepted(3, Some(keep), working));
        let mut expected: Vec<_> = shown.into_iter().map(str::to_owned).collect();
        expected.push("question 3".into());
        assert_eq!(texts(&history), expected, "{keep}");
        assert_eq!(history.turns().len(), 3, "the record of a turn stays");
    }
}

#[test]
fn imported_messages_come_first_and_are_counted_and_truncated() {
    let user = |text: &str| Message::user(text.to_owned());
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: json!({}) };
    let messages = vec![
        user("old"),
        Message::Assistant { text: String::new(), thinking: Vec::new(), calls: vec![call] },
        Message::Tool { call: "c".into(), content: "r".into() },
        Message::Assistant { text: "said".into(), thinking: Vec::new(), calls: Vec::new() },
    ];
    let mut entries = vec![Entry::Imported(Imported { messages, working: state(7), position: None })];
    entries.extend(chat(1));
    let history = History::fold(entries.clone());
    let counts: Vec<_> = history.messages().map(|shown| (shown.turn, shown.count)).collect();
    assert_eq!(counts, [(None, 1), (None, 1), (None, 1), (None, 2), (Some(1), 3), (Some(1), 4)]);
    assert_eq!((history.working_at(2), history.working_at(1)), (state(7), WorkingState::default()));
    let mut truncated = history.clone();
    truncated.push(accepted(2, Some(1), WorkingState::default()));
    assert_eq!(texts(&truncated), ["old", "question 2"]);
}

#[test]
fn a_fork_has_the_prefix_and_its_working_states() {
    let history = History::fold(chat(3));
    let fork = History::fold(history.fork(Some(4)).unwrap());
    assert_eq!(texts(&fork), ["question 1", "answer 1", "question 2", "answer 2"]);
    assert_eq!(fork.working(), state(3));
    assert_eq!(fork.working_at(2), state(2), "a fork can be truncated like its source");
    assert_eq!(texts(&History::fold(history.fork(None).unwrap())), texts(&history));
}

#[test]
fn a_fork_and_a_truncation_restore_the_state_of_the_profile() {
    let step =
        |step: u32| WorkingState { profile_state: Some(Box::new(json!({ "step": step }))), ..WorkingState::default() };
    let change = |step: u32| WorkingChange {
        profile_state: Some(Box::new(json!({ "step": step }))),
        ..WorkingChange::default()
    };
    let mut history = History::new();
    for turn in 1..=3 {
        let before = if turn == 1 { WorkingState::default() } else { step(turn - 1) };
        history.push(accepted(turn, None, before));
        history.push(round(turn, 1, 1, vec![CallResult { change: change(turn), ..result(1, 1) }]));
        assert_eq!(history.working(), step(turn), "the change of the call applies at once");
        history.push(ended(turn, completed(turn), vec![], step(turn), 9));
    }
    assert_eq!((history.working_at(4), history.working_at(3)), (step(2), step(1)));
    assert_eq!(History::fold(history.fork(Some(2)).unwrap()).working(), step(1));
    let truncated = History::fold(history.fork(None).unwrap());
    assert_eq!((truncated.working(), truncated.working_at(4)), (step(3), step(2)));
}

#[test]
fn a_long_history_is_split_into_entries_within_their_bound() {
    let messages: Vec<_> = (0..20).map(|_| Message::user("x".repeat(60_000))).collect();
    let entries = import(messages.clone(), &state(1)).unwrap();
    assert!(entries.iter().all(|entry| json_bytes(entry) <= limits::ENTRY_BYTES));
    assert_eq!(entries.len(), 5, "an entry contains the messages that fit");
    let history = History::fold(entries);
    assert_eq!(history.messages().map(|shown| shown.message).collect::<Vec<_>>(), messages);
    let large = import(vec![Message::user("x".repeat(limits::ENTRY_BYTES))], &state(1));
    assert_eq!(large.unwrap_err().reason, Reason::TooLarge);
}

#[test]
fn a_round_whose_calls_lack_results_is_sent_as_text_only() {
    let mut history = History::fold([accepted(1, None, state(1)), round(1, 1, 2, vec![result(1, 1)])]);
    let Message::Assistant { calls, thinking, .. } = history.messages().nth(1).unwrap().message else { panic!() };
    assert!(calls.is_empty() && thinking.is_empty());
    history.push(Entry::Outcome(Outcome { turn: 1, result: result(1, 2) }));
    let messages: Vec<_> = history.messages().map(|shown| shown.message).collect();
    let Message::Assistant { calls, thinking, .. } = &messages[1] else { panic!() };
    assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_1_1_1", "call_1_1_2"]);
    assert_eq!((thinking.len(), messages.len()), (1, 4));
    let groups: Vec<_> = history.groups_before(2).map(|group| group.len()).collect();
    assert_eq!(groups, [3, 1], "newest first, and no call without its results");
}

#[test]
fn only_the_model_that_continues_a_turn_receives_a_corrected_answer() {
    let corrected = |text: &str| Round { text: text.into(), correction: Some("correct it".into()), ..Round::default() };
    for text in ["wrong", ""] {
        let mut history = History::fold([accepted(1, None, state(1))]);
        history.push(Entry::Round(Box::new(Round { turn: 1, round: 1, ..corrected(text) })));
        let sent = history.last().unwrap().messages();
        assert_eq!(sent.len(), if text.is_empty() { 2 } else { 3 });
        assert_eq!(sent.last(), Some(&Message::user("correct it")));
        assert_eq!(sanitize(sent.clone()), sent, "invariant 4");
        history.push(ended(1, completed(1), vec![], state(1), 9));
        assert_eq!(texts(&history), ["question 1", "answer 1"]);
        assert_eq!((history.count(), history.position(None).messages), (2, 2));
        assert_eq!(texts(&History::fold(history.fork(None).unwrap())), ["question 1", "answer 1"]);
    }
}

#[test]
fn a_result_is_final_and_edited_arguments_are_shown() {
    let edited = json!({ "n": "edited" });
    let mut history = History::fold([
        accepted(1, None, state(1)),
        round(1, 1, 1, Vec::new()),
        paused(1, 1, 4),
        decisions(1, 1, vec![(1, Decision::ApproveEdited { arguments: edited.clone() })]),
    ]);
    let record = history.turn_mut(1).unwrap();
    record.push_result(result(1, 1));
    record.push_result(CallResult { status: CallStatus::Cancelled, ..result(1, 1) });
    assert_eq!(record.call(1, 1).unwrap().status(), Some(CallStatus::Ok));
    let Message::Assistant { calls, .. } = &record.messages()[1] else { panic!() };
    assert_eq!(calls[0].arguments, edited);
    let view = record.view(&thread(), at());
    assert_eq!(view.rounds[0].calls[0].arguments, edited);
    assert_eq!(view.rounds[0].results[0].content, "result 1");
}

#[test]
fn the_answer_to_decisions_is_the_next_pause_or_end_and_a_failed_end_is_replaced() {
    let error = Error::unavailable(Reason::ModelFailed, "down");
    let mut history = History::fold([
        accepted(1, None, state(1)),
        round(1, 1, 1, Vec::new()),
        paused(1, 1, 4),
        decisions(1, 1, vec![(1, Decision::Approve)]),
    ]);
    let answer = |history: &History, round| history.last().unwrap().answer_event(&thread(), round);
    assert_eq!(answer(&history, 1), None);
    assert_eq!(history.last().unwrap().open_intents().count(), 0);
    history.push(Entry::Intent(Intent {
        turn: 1,
        round: 1,
        index: 1,
        target: Target::new("schema", SchemaId::derive(&["s"])),
        expected: Expected::Absent,
        arguments: None,
        resolved: json!(null),
        at: None,
    }));
    assert_eq!(history.last().unwrap().open_intents().count(), 1);
    history.push(Entry::Outcome(Outcome { turn: 1, result: result(1, 1) }));
    assert_eq!(history.last().unwrap().open_intents().count(), 0);
    history.push(ended(1, End::Failed { error, retriable: true }, Vec::new(), state(1), 9));
    assert!(matches!(answer(&history, 1).unwrap().kind, EventKind::Failed { .. }));
    assert!(history.last().unwrap().is_retriable() && history.open().is_none());
    assert_eq!(history.last().unwrap().first_event_of_next_owner(), 1 << 32 | 1);
    history.push(resumed(1, ResumeCause::Retry));
    assert_eq!(history.last().unwrap().first_event_of_next_owner(), 2 << 32 | 1);
    assert_eq!(answer(&history, 1), None);
    assert_eq!(history.last().unwrap().next_event(), 1 << 32 | 1);
    history.push(round(1, 2, 1, Vec::new()));
    history.push(paused(1, 2, 1 << 32 | 7));
    let pause = answer(&history, 1).unwrap();
    assert_eq!(pause.number, 1 << 32 | 7);
    history.push(decisions(1, 2, vec![(1, Decision::Reject { reason: None })]));
    history.push(Entry::Outcome(Outcome { turn: 1, result: result(2, 1) }));
    history.push(ended(1, completed(1), Vec::new(), state(2), 1 << 32 | 12));
    assert_eq!(answer(&history, 1), Some(pause), "the answer stays");
    assert!(matches!(answer(&history, 2).unwrap().kind, EventKind::Completed { .. }));
}

#[test]
fn a_reload_of_a_waiting_turn_continues_its_events_and_is_no_takeover() {
    let mut history = History::fold([accepted(1, None, state(1)), round(1, 1, 1, Vec::new()), paused(1, 1, 4)]);
    history.push(resumed(1, ResumeCause::Reload));
    let record = history.last().unwrap();
    assert_eq!((record.takeovers, record.next_event(), record.pause().is_some()), (0, 5, true));
    assert_eq!(record.resumed.as_ref().map(|resumed| resumed.epoch), Some(2));
}

#[test]
fn a_pause_is_reported_as_expired_from_its_expiry_on() {
    let history = History::fold([accepted(1, None, state(1)), round(1, 1, 1, Vec::new()), paused(1, 1, 4)]);
    let record = history.last().unwrap();
    let end = record.pause().unwrap().expires_at;
    assert_eq!(record.view(&thread(), at()).status, TurnStatus::AwaitingApproval);
    assert_eq!(record.view(&thread(), end).status, TurnStatus::Expired);
    assert_eq!(record.view(&thread(), at()).pending.len(), 1);
}

#[test]
fn the_policy_of_the_turn_determines_the_calls_that_a_user_may_approve() {
    let Entry::Round(mut calls) = round(1, 1, 4, Vec::new()) else { panic!("a round") };
    let requires = |roles: &[Role], not_by_requester| {
        let approver = Approver { roles: roles.to_vec(), not_by_requester };
        Some(ApprovalRequirement { rule: "a rule".to_owned(), approver })
    };
    calls.calls[1].approval_requirement = requires(&[Role::Admin], false);
    calls.calls[2].approval_requirement = requires(&[], true);
    calls.calls[3].needs_approval = false;
    let mut history = History::fold([accepted(1, None, state(1)), Entry::Round(calls)]);
    let by = |user: &str, role| Principal::new(OrgId::derive(&["o"]), UserId::derive(&[user]), role);
    let approvable = |history: &History, by: &Principal| -> Vec<u32> {
        let record = history.last().unwrap();
        let ids = record.approvable(&thread(), by);
        (1..=4).filter(|index| ids.contains(&record.call_id(&thread(), 1, *index))).collect()
    };
    assert!(approvable(&history, &by("u", Role::Admin)).is_empty(), "the turn does not wait");
    history.push(paused(1, 1, 4));
    assert_eq!(approvable(&history, &by("u", Role::Member)), [1]);
    assert_eq!(approvable(&history, &by("u", Role::Admin)), [1, 2]);
    assert_eq!(approvable(&history, &by("other", Role::Member)), [1, 3]);
    assert!(approvable(&history, &by("other", Role::Viewer)).is_empty());
    let own_token = Principal { token_creator: Some(UserId::derive(&["u"])), ..by("other", Role::Admin) };
    assert_eq!(approvable(&history, &own_token), [1, 2], "the requester created the token");
    history.push(decisions(1, 1, vec![(1, Decision::Approve)]));
    assert_eq!(approvable(&history, &by("other", Role::Admin)), [2, 3], "a decided call");
}

#[test]
fn entries_of_missing_turns_change_nothing() {
    let mut history = History::fold(chat(1));
    let before = history.clone();
    for entry in [round(7, 1, 1, Vec::new()), paused(7, 1, 1), resumed(7, ResumeCause::Takeover)] {
        history.push(entry);
    }
    history.push(Entry::Outcome(Outcome { turn: 1, result: result(3, 3) }));
    assert_eq!(history.turns(), before.turns());
    assert_eq!(texts(&history), texts(&before));
}

#[test]
fn a_turn_is_found_by_its_number_and_its_request() {
    let mut history = History::fold(chat(2));
    assert!(history.open().is_none());
    history.push(accepted(3, None, state(3)));
    assert_eq!(history.open().unwrap().number(), 3);
    for turn in 1..=3 {
        let request = format!("request-{turn}").parse().unwrap();
        assert_eq!(history.turn(turn).unwrap().number(), turn);
        assert_eq!(history.by_request(&request).unwrap().number(), turn);
    }
    assert!(history.turn(4).is_none() && history.by_request(&"request-4".parse().unwrap()).is_none());
    let before: Vec<_> = history.groups_before(2).flatten().collect();
    assert_eq!(before, history.turn(1).unwrap().messages().into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn an_import_is_truncated_after_every_counted_message() {
    let messages: Vec<_> = ["a", "b", "c", "d"].map(Message::user).into();
    for keep in 0..=4 {
        let mut history = History::fold([Entry::Imported(Imported {
            messages: messages.clone(),
            working: state(1),
            position: None,
        })]);
        history.push(accepted(1, Some(keep), state(1)));
        assert_eq!(texts(&history)[..keep as usize], ["a", "b", "c", "d"][..keep as usize]);
        assert_eq!(history.count(), keep + 1);
    }
}

#[test]
fn a_round_without_all_results_has_only_its_text() {
    for (text, results, messages) in
        [("", 0, 1), ("", 1, 1), ("", 2, 4), ("text", 0, 2), ("text", 1, 2), ("text", 2, 4)]
    {
        let mut entry = round(1, 1, 2, (1..=results).map(|index| result(1, index)).collect());
        if let Entry::Round(round) = &mut entry {
            round.text = text.into();
        }
        let history = History::fold([accepted(1, None, state(1)), entry]);
        assert_eq!(history.messages().count(), messages, "{text:?} and {results} results");
        assert_eq!(history.position(None).messages as usize, messages, "{text:?} and {results} results");
    }
}

#[test]
fn a_pause_waits_for_its_decisions_entry_and_every_needed_decision() {
    let mut one_needed = round(1, 1, 2, Vec::new());
    let mut none_needed = one_needed.clone();
    for (entry, needed) in [(&mut one_needed, 1), (&mut none_needed, 0)] {
        let Entry::Round(round) = entry else { panic!() };
        round.calls.iter_mut().for_each(|call| call.needs_approval = call.index <= needed);
    }
    let approved = || vec![(1, Decision::Approve)];
    for (entry, decided, undecided, is_waiting) in [
        (&one_needed, None, 1, true),
        (&one_needed, Some(Vec::new()), 1, true),
        (&one_needed, Some(approved()), 0, false),
        (&none_needed, None, 0, true),
        (&none_needed, Some(Vec::new()), 0, false),
    ] {
        let mut history = History::fold([accepted(1, None, state(1)), entry.clone()]);
        assert!(!history.last().unwrap().newest_round().unwrap().is_waiting(), "the round is not paused");
        history.push(paused(1, 1, 4));
        decided.into_iter().for_each(|decided| history.push(decisions(1, 1, decided)));
        let record = history.last().unwrap();
        let newest = record.newest_round().unwrap();
        assert_eq!((newest.undecided().count(), newest.is_waiting()), (undecided, is_waiting));
        assert_eq!((record.pause().is_some(), newest.is_decided()), (is_waiting, !is_waiting));
        let closing = record.closing_event(&thread());
        assert_eq!(closing.map(|event| (event.number, event.kind.is_closing())), is_waiting.then_some((4, true)));
        let cause = ClosingCause::Cancelled;
        for end in [Entry::Closing(Closing { turn: 1, cause, at: at() }), ended(1, completed(1), vec![], state(1), 5)] {
            let mut history = history.clone();
            history.push(end);
            assert_eq!(history.last().unwrap().pause(), None, "the turn is being ended or has ended");
        }
    }
}

#[test]
fn the_view_and_the_closing_event_of_a_turn_state_its_end() {
    let failed = |retriable| End::Failed { error: Error::unavailable(Reason::ModelFailed, "down"), retriable };
    for (end, status, retriable) in [
        (completed(1), TurnStatus::Completed, false),
        (failed(true), TurnStatus::Failed, true),
        (failed(false), TurnStatus::Failed, false),
        (End::Cancelled, TurnStatus::Cancelled, false),
        (End::Expired, TurnStatus::Expired, false),
        (End::Superseded, TurnStatus::Superseded, false),
    ] {
        let mut history = History::fold([accepted(1, None, state(1))]);
        assert_eq!(history.last().unwrap().closing_event(&thread()), None);
        history.push(ended(1, end, Vec::new(), state(1), 5));
        let record = history.last().unwrap();
        let view = record.view(&thread(), at());
        assert_eq!((view.status, view.retriable, record.is_retriable()), (status, retriable, retriable));
        let event = record.closing_event(&thread()).unwrap();
        assert!(event.number == 5 && event.kind.is_closing(), "{event:?}");
    }
    assert!(!EventKind::TextDelta { text: String::new() }.is_closing());
}

#[test]
fn a_record_returns_its_round_and_the_state_of_its_turn() {
    let later = Timestamp::from_second(at().as_second() + 60).unwrap();
    let Entry::Round(written) = round(1, 1, 2, vec![result(1, 1)]) else { unreachable!("a round") };
    let mut history = History::fold([accepted(1, None, state(7)), Entry::Round(written.clone())]);
    let record = history.last().unwrap();
    assert_eq!((record.rounds[0].entry(1), record.taken_at()), (*written, at()));
    let Entry::Resumed(taken) = resumed(1, ResumeCause::Takeover) else { unreachable!("a takeover") };
    history.push(Entry::Resumed(Resumed { at: later, ..taken }));
    let record = history.last().unwrap();
    assert_eq!(record.taken_at(), later);
    let view = record.view(&thread(), later);
    assert_eq!((view.working, view.usage), (state(7), record.usage));
    assert_eq!((view.next_event, record.usage.model_calls), (record.next_event(), 1));
    assert!(view.next_event > 1, "{}", view.next_event);
}

#[test]
fn the_usage_of_a_turn_includes_its_model_calls_and_tools() {
    let used = |index, input_tokens| {
        let usage = Usage { input_tokens, model_calls: 1, reported: true, credits: 3, ..Usage::default() };
        CallResult { usage, ..result(1, index) }
    };
    let mut history = History::fold([accepted(1, None, state(1)), round(1, 1, 2, vec![used(1, 10)])]);
    history.push(Entry::Outcome(Outcome { turn: 1, result: used(2, 100) }));
    let usage = history.last().unwrap().usage;
    assert_eq!((usage.input_tokens, usage.model_calls, usage.credits), (111, 3, 6));
}

#[test]
fn the_thinking_of_a_round_is_joined_by_empty_lines() {
    let blocks = |texts: &[&str]| -> Vec<_> {
        texts.iter().map(|&text| ThinkingBlock { text: text.into(), ..ThinkingBlock::default() }).collect()
    };
    assert_eq!(thinking_text(&blocks(&["one", "", "two"])), "one\n\ntwo");
}

#[test]
fn a_call_status_has_its_stored_name() {
    use CallStatus::{Cancelled, Conflict, Expired, Failed, NotRun, Ok, Rejected, Superseded};
    for status in [Ok, Failed, Rejected, Cancelled, Expired, Superseded, Conflict, NotRun] {
        assert_eq!(json!(status), status.as_str());
    }
}

#[test]
fn a_working_state_loses_exactly_the_deleted_resources() {
    let prompt = PromptRevId::new(PromptId::derive(&["own"]), 1);
    let extraction = WorkingExtraction {
        id: ExtractionId::derive(&["e"]),
        document: DocumentId::derive(&["own"]),
        prompt: prompt.clone(),
        data: json!({}),
    };
    let schema = SchemaRevId::new(SchemaId::derive(&["own"]), 1);
    let created = WorkingChange {
        schema_revid: Some(schema),
        prompt_revid: Some(prompt),
        extraction: Some(extraction),
        ..WorkingChange::default()
    };
    let deleted = |name| WorkingChange {
        deleted_schema: Some(SchemaId::derive(&[name])),
        deleted_prompt: Some(PromptId::derive(&[name])),
        deleted_document: Some(DocumentId::derive(&[name])),
        ..WorkingChange::default()
    };
    let mut working = WorkingState::default();
    working.apply(&created);
    let full = working.clone();
    working.apply(&deleted("other"));
    assert_eq!(working, full);
    assert!(full.schema_revid.is_some() && full.prompt_revid.is_some() && full.extraction.is_some());
    working.apply(&deleted("own"));
    assert_eq!(working, WorkingState::default());
    // A stored result contains a change unless the change is empty.
    for (change, is_stored) in [(created, true), (deleted("own"), true), (WorkingChange::default(), false)] {
        let stored = json!(CallResult { change: change.clone(), ..result(1, 1) });
        assert_eq!(stored.get("change").is_some(), is_stored);
        assert_eq!(serde_json::from_value::<CallResult>(stored).unwrap().change, change);
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c")];
    let call = id.clone().prop_map(|id| ToolCall { id: id.into(), name: "t".into(), arguments: json!({}) });
    prop_oneof![
        Just(Message::user("u")),
        (prop_oneof![Just(""), Just("t")], proptest::collection::vec(call, 0..3))
            .prop_map(|(text, calls)| { Message::Assistant { text: text.into(), thinking: Vec::new(), calls } }),
        id.prop_map(|id| Message::Tool { call: id.into(), content: "r".into() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sanitized_history_is_sendable_invariant_4(messages in proptest::collection::vec(any_message(), 0..24)) {
        let clean = sanitize(messages);
        let mut rest = clean.iter().peekable();
        while let Some(message) = rest.next() {
            match message {
                Message::User { .. } => {}
                Message::Tool { .. } => prop_assert!(false, "a result without its call"),
                Message::Assistant { text, calls, .. } => {
                    prop_assert!(!text.is_empty() || !calls.is_empty());
                    for wanted in calls {
                        let answered = matches!(rest.next(), Some(Message::Tool { call, .. }) if *call == wanted.id);
                        prop_assert!(answered);
                    }
                }
            }
        }
        prop_assert_eq!(sanitize(clean.clone()), clean);
    }

    #[test]
    fn a_truncation_keeps_the_stated_number_of_messages(turns in 0u32..6, keep in 0u32..16, again in 0u32..8) {
        let mut history = History::fold(chat(turns));
        let before = texts(&history);
        history.push(accepted(turns + 1, Some(keep), WorkingState::default()));
        let kept = (keep as usize).min(before.len());
        prop_assert_eq!(&texts(&history)[..kept], &before[..kept]);
        prop_assert_eq!(history.count() as usize, kept + 1);
        let fork = History::fold(history.fork(Some(again)).unwrap());
        prop_assert_eq!(fork.count(), again.min(history.count()));
        prop_assert_eq!(texts(&fork), texts(&history)[..fork.count() as usize].to_vec());
    }
}
