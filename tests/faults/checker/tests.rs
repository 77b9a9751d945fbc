//! Tests of the checker: each violation, and a history without violations.

use folio_history::journal::*;
use folio_history::thread::{NewThread, OpenTurn, Phase, RequestRow, ThreadHeader};
use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome as ApproveOutcome;
use folio_resources::{McpServer, McpServerId, Resource as _, Schema, Tag};
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState};
use folio_types::{
    CallId, Digest, Error, OrgId, Principal, Reason, RequestId, Role, SchemaId, SchemaRevId, TagId, ThreadId,
    Timestamp, TurnId, UserId,
};
use serde_json::{Value, json};

use super::Invariant::{
    Audit, Busy, EffectsOnce, Idempotent, OneWriter, Permission, Sendable, Stored, Streams, Tenants, VisibleEnd,
};
use super::*;
use crate::faults::log::{ClientDecision, ClientEvent, Decisions as ClientDecisions, Logged};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn org() -> OrgId {
    OrgId::derive(&["org"])
}

fn thread() -> ThreadId {
    ThreadId::derive(&["thread"])
}

fn turn() -> TurnId {
    TurnId::new(thread(), 1)
}

fn call() -> CallId {
    CallId::new(turn(), 1, 1)
}

fn tag() -> TagId {
    TagId::derive(&["tag"])
}

fn arguments() -> Value {
    json!({"name": "alpha 1"})
}

fn accepted(number: u32, request: &str) -> Entry {
    let user = UserId::derive(&["user"]);
    Entry::Accepted(Box::new(Accepted::new(number, request.parse().unwrap(), user, "alpha work", at(0))))
}

fn round(number: u32) -> Entry {
    Entry::Round(Box::new(Round {
        turn: 1,
        round: number,
        calls: vec![Call {
            index: 1,
            provider_id: "call_0".to_owned(),
            name: "create_tag".to_owned(),
            arguments: arguments(),
            access: Access::ReadWrite,
            needs_approval: true,
            approval_requirement: None,
            problem: None,
            repairs: Vec::new(),
        }],
        ..Round::default()
    }))
}

fn paused(round: u32, event: u64) -> Entry {
    Entry::Paused(Paused { turn: 1, round, expires_at: at(300), working: WorkingState::default(), event, at: at(1) })
}

fn decisions(decision: Decision) -> Entry {
    Entry::Decisions(Decisions {
        turn: 1,
        round: 1,
        decided: vec![(1, decision)],
        by: UserId::derive(&["user"]),
        role: None,
        token_creator: None,
        decided_at: at(2),
        continue_auto_approved: false,
    })
}

fn intent() -> Entry {
    let target = Tag::target(&tag());
    Entry::Intent(Intent {
        turn: 1,
        round: 1,
        index: 1,
        target,
        expected: Expected::Absent,
        arguments: None,
        resolved: Value::Null,
        at: None,
    })
}

fn result(status: CallStatus) -> CallResult {
    let content = format!("{status:?}");
    CallResult { round: 1, index: 1, status, content, change: Default::default(), usage: Default::default(), at: None }
}

fn outcome(status: CallStatus) -> Entry {
    Entry::Outcome(Outcome { turn: 1, result: result(status) })
}

fn ended(end: End, results: Vec<CallResult>, event: u64) -> Entry {
    Entry::Ended(Box::new(Ended { results, ..Ended::new(1, end, event, at(3)) }))
}

fn completed() -> End {
    End::Completed { text: "Done.".to_owned(), thinking: Vec::new(), finish: folio_types::message::FinishReason::Stop }
}

fn failed() -> End {
    End::Failed { error: Error::unavailable(Reason::NodeLost, "lost"), retriable: true }
}

fn resumed(epoch: u64, cause: ResumeCause) -> Entry {
    let owner = "inc_00000000000000000000000000000001".parse().unwrap();
    Entry::Resumed(Resumed { turn: 1, owner, epoch, cause, at: at(3) })
}

fn op(state: OpState) -> OpRow {
    OpRow { op: OpKey::Call(call()), digest: Digest::of_json(&arguments()), state, at: at(2) }
}

fn done() -> OpState {
    OpState::Done(OpResult::Resource { id: tag().to_string(), name: "alpha 1".to_owned() })
}

fn header() -> ThreadHeader {
    let principal = Principal::new(org(), UserId::derive(&["user"]), Role::Member);
    let new = NewThread::new(thread(), &principal, "document", Vec::new(), at(0));
    ThreadHeader { title: "alpha work".to_owned(), updated_at: at(3), epoch: 3, version: 5, turns: 1, ..new.header() }
}

fn decided() -> ClientDecisions {
    ClientDecisions { turn: turn(), round: 1, on: [(call(), ClientDecision::Approve)].into() }
}

fn answer(event: u64) -> v1::ApproveResponse {
    v1::ApproveResponse {
        turn_id: turn().to_string(),
        outcome: Some(ApproveOutcome::Completed(v1::Completed { text: "Done.".to_owned(), ..Default::default() })),
        event_number: event,
        ..Default::default()
    }
}

fn logged(event: ClientEvent) -> Logged {
    Logged { org: org(), event }
}

/// Returns evidence: a thread with these entries, a tag with one op row, and the log of a client.
fn evidence(entries: Vec<Entry>, state: Option<OpState>) -> Evidence {
    let entries: Vec<_> = (0..).zip(entries).collect();
    let header = ThreadHeader { entries: entries.len() as u64, ..header() };
    let thread = ObservedThread {
        org: org(),
        id: thread(),
        epoch: 3,
        version: 5,
        header,
        entries,
        batches: 5,
        requests: vec![],
    };
    let made = matches!(state, Some(OpState::Done(_)));
    let aggregate = ObservedAggregate {
        org: org().to_string(),
        id: tag().to_string(),
        version: made.then_some(1),
        is_live: made,
        name: made.then(|| "alpha 1".to_owned()),
        live: Value::Null,
        ops: state.map(op).into_iter().collect(),
        revisions: 0,
    };
    let request: RequestId = "r-1".parse().unwrap();
    let log = vec![
        logged(ClientEvent::Accepted { request, turn: turn() }),
        logged(ClientEvent::Streamed {
            turn: turn(),
            events: vec![(1, "turn_started"), (4, "awaiting_approval")],
            complete: true,
        }),
        logged(ClientEvent::Deciding(decided())),
    ];
    let markers = [(org(), "alpha".to_owned()), (OrgId::derive(&["other"]), "beta".to_owned())].into();
    let (threads, aggregates) = (vec![thread], vec![aggregate]);
    Evidence { threads, aggregates, log, markers, taken_at: at(10), ..Evidence::default() }
}

fn usual() -> Vec<Entry> {
    vec![
        accepted(1, "r-1"),
        round(1),
        paused(1, 4),
        decisions(Decision::Approve),
        intent(),
        outcome(CallStatus::Ok),
        ended(completed(), vec![], 9),
    ]
}

fn good() -> Evidence {
    let mut evidence = evidence(usual(), Some(done()));
    let answered = logged(ClientEvent::Answered(decided(), Box::new(answer(9))));
    evidence.log.extend([answered.clone(), answered]);
    evidence
}

/// Returns the good evidence with a change.
fn with(change: impl FnOnce(&mut Evidence)) -> Evidence {
    let mut evidence = good();
    change(&mut evidence);
    evidence
}

#[track_caller]
fn finds(evidence: &Evidence, invariant: Invariant, reason: &str) {
    let found = check(evidence);
    assert!(
        found.iter().any(|violation| violation.invariant == invariant && violation.reason.contains(reason)),
        "{found:#?}"
    );
}

/// Checks that a change of the usual journal is reported.
#[track_caller]
fn changed(change: impl FnOnce(&mut Vec<Entry>), invariant: Invariant, reason: &str) {
    changed_with(change, Some(done()), invariant, reason);
}

#[track_caller]
fn changed_with(change: impl FnOnce(&mut Vec<Entry>), state: Option<OpState>, invariant: Invariant, reason: &str) {
    let mut entries = usual();
    change(&mut entries);
    finds(&evidence(entries, state), invariant, reason);
}

#[test]
fn a_correct_history_has_no_violation() {
    assert_eq!(check(&good()), []);
    let failed_first = [
        usual()[..6].to_vec(),
        vec![ended(failed(), vec![], 7), resumed(3, ResumeCause::Retry), ended(completed(), vec![], 9)],
    ];
    assert_eq!(check(&evidence(failed_first.concat(), Some(done()))), []);
    let mut waits = evidence(usual()[..3].to_vec(), None);
    waits.threads[0].header.open_turn = Some(OpenTurn { number: 1, phase: Phase::Paused, expires_at: Some(at(300)) });
    assert_eq!(check(&waits), []);
}

#[test]
fn a_cancelled_call_runs_only_after_its_turn_is_resumed() {
    let cancelled = |runs_again| {
        let mut end = ended(failed(), vec![result(CallStatus::NotRun)], 7);
        if let Entry::Ended(ended) = &mut end {
            ended.runs_again = runs_again;
        }
        [usual()[..5].to_vec(), vec![end]].concat()
    };
    let then = vec![resumed(3, ResumeCause::Retry), intent(), outcome(CallStatus::Ok), ended(completed(), vec![], 9)];
    let approved = ObservedAuditEntry {
        call: Some(call()),
        kind: "call_approved".to_owned(),
        user: Some(UserId::derive(&["user"])),
        ok: false,
    };
    let unrun = Evidence { audit: Some(vec![approved]), ..evidence(cancelled(true), None) };
    assert_eq!(check(&unrun), []);
    assert_eq!(check(&evidence([cancelled(true), then.clone()].concat(), Some(done()))), []);
    finds(&evidence(cancelled(true), Some(done())), EffectsOnce, "without an intent");
    finds(&evidence(cancelled(false), None), EffectsOnce, "but the call has no op row");
    finds(&evidence([cancelled(false), then].concat(), Some(done())), EffectsOnce, "more than one intent");
}

#[test]
fn missing_duplicate_and_unexpected_audit_entries_are_found() {
    let entry = |kind: &str| ObservedAuditEntry {
        call: Some(call()),
        kind: kind.to_owned(),
        user: Some(UserId::derive(&["user"])),
        ok: kind == "call_effect",
    };
    let complete = [entry("call_approved"), entry("call_effect")];
    let with = |log: &[ObservedAuditEntry]| Evidence { audit: Some(log.to_vec()), ..good() };
    assert_eq!(check(&with(&complete)), []);
    finds(&with(&complete[..1]), Audit, "lacks call_effect");
    finds(&with(&complete[1..]), Audit, "lacks call_approved");
    finds(&with(&[&complete[..], &complete[..1]].concat()), Audit, "has 2 of call_approved");
    finds(&with(&[&complete[..], &[entry("call_rejected")]].concat()), Audit, "has no call_rejected");
    let another = ObservedAuditEntry { user: Some(UserId::derive(&["another"])), ..entry("call_approved") };
    finds(&with(&[another, entry("call_effect")]), Audit, "another user");
    let failed = ObservedAuditEntry { ok: false, ..entry("call_effect") };
    finds(&with(&[entry("call_approved"), failed]), Audit, "no successful run");
}

#[test]
fn invariant_1_a_lost_append_and_a_second_writer_are_found() {
    let with = |change: fn(&mut ObservedThread)| with(|evidence| change(&mut evidence.threads[0]));
    finds(&with(|thread| thread.batches = 6), OneWriter, "6 appends are committed, but the version is 5");
    finds(&with(|thread| thread.header.version = 4), OneWriter, "the header has epoch");
    finds(&with(|thread| drop(thread.entries.remove(5))), OneWriter, "is missing");
    finds(&with(|thread| drop(thread.entries.pop())), OneWriter, "the header states 7");
    finds(&with(|thread| thread.header.turns = 2), OneWriter, "turns were accepted");
    let twice = |entries: &mut Vec<Entry>| {
        entries.insert(5, resumed(3, ResumeCause::Takeover));
        entries.insert(6, resumed(3, ResumeCause::Takeover));
    };
    changed(twice, OneWriter, "has epoch 3 after 3");
    changed(|entries| entries.push(accepted(3, "r-2")), OneWriter, "not the next number");
    let late = |entries: &mut Vec<Entry>| entries.extend([accepted(2, "r-2"), outcome(CallStatus::Ok)]);
    changed(late, OneWriter, "not within its turn");
}

#[test]
fn invariant_2_an_effect_without_its_approval_is_found() {
    let p = Permission;
    changed(|entries| drop(entries.remove(3)), p, "before an approval was recorded");
    changed(|entries| entries.swap(3, 4), p, "before an approval was recorded");
    changed(|entries| entries[3] = decisions(Decision::Reject { reason: None }), p, "before an approval");
    changed(|entries| drop(entries.remove(2)), p, "without a pause");
    let edited = Decision::ApproveEdited { arguments: json!({"name": "alpha 2"}) };
    changed(|entries| entries[3] = decisions(edited), EffectsOnce, "other arguments");
    changed(|entries| entries.insert(4, decisions(Decision::Reject { reason: None })), p, "two different decisions");
    let unsent = with(|evidence| evidence.log.retain(|line| !matches!(line.event, ClientEvent::Deciding(_))));
    finds(&unsent, p, "no client sent");
    let late = |entries: &mut Vec<Entry>| {
        if let Entry::Decisions(decisions) = &mut entries[3] {
            decisions.decided_at = at(300);
        }
    };
    changed(late, p, "after the expiry");
}

#[test]
fn invariant_3_history_op_row_and_change_must_agree() {
    let e = EffectsOnce;
    changed_with(|_| {}, None, e, "the history reports success, but its op row is None");
    changed_with(|_| {}, Some(OpState::Aborted), e, "the history reports success");
    changed(|entries| entries[5] = outcome(CallStatus::Conflict), e, "the effect happened, but the history reports");
    changed_with(|entries| entries[5] = outcome(CallStatus::Conflict), None, e, "the history reports a conflict");
    changed(|entries| entries[5] = outcome(CallStatus::Cancelled), e, "the effect happened, but the history reports");
    for status in [CallStatus::Cancelled, CallStatus::Failed] {
        changed_with(|entries| entries[5] = outcome(status), None, e, "but the call has no op row");
    }
    changed_with(
        |entries| entries[5] = outcome(CallStatus::Cancelled),
        Some(OpState::Aborted),
        e,
        "but the turn completed",
    );
    changed(|entries| drop(entries.remove(4)), e, "without an intent");
    changed(|entries| entries.insert(5, intent()), e, "more than one intent");
    changed(|entries| entries.swap(1, 4), e, "precedes the message with the call");
    let closing = Entry::Closing(Closing { turn: 1, cause: ClosingCause::Cancelled, at: at(2) });
    changed(|entries| entries.insert(4, closing), e, "after the closing of the turn");
    finds(&with(|evidence| evidence.aggregates[0].version = Some(2)), e, "has version 2, but 1 op rows");
    finds(&with(|evidence| evidence.aggregates[0].version = None), e, "was never created");
    let another = |evidence: &mut Evidence| {
        let other = ObservedAggregate { id: TagId::derive(&["2"]).to_string(), ..evidence.aggregates[0].clone() };
        evidence.aggregates.push(other);
    };
    finds(&with(another), e, "which its intent does not name");
    finds(&with(another), e, "the call changed");
    finds(&with(another), e, "both aggregates are live");
    finds(&with(|evidence| evidence.threads.clear()), e, "its thread is missing");
}

#[test]
fn invariant_3_an_effect_of_a_call_that_failed_without_an_op_row_is_found() {
    for status in [CallStatus::Failed, CallStatus::Cancelled, CallStatus::Conflict] {
        // The batch of the call was late: the resource exists, and the history reports a failure.
        let evidence = with(|evidence| {
            evidence.threads[0].entries[5].1 = outcome(status);
            evidence.aggregates[0].ops.clear();
        });
        finds(&evidence, EffectsOnce, "has version 1, but 0 op rows of changes");
        let reason = if status == CallStatus::Conflict { "its op row is None" } else { "but the call has no op row" };
        finds(&evidence, EffectsOnce, reason);
    }
}

#[test]
fn invariant_3_a_call_of_an_mcp_server_may_have_an_unknown_outcome_after_its_op_row() {
    let server = McpServerId::derive(&["server"]);
    let of_server = |status, state| {
        let mut entries = usual();
        if let Entry::Intent(intent) = &mut entries[4] {
            (intent.target, intent.expected) = (McpServer::target(&server), Expected::Version(1));
        }
        entries[5] = outcome(status);
        let mut evidence = evidence(entries, state);
        (evidence.aggregates[0].id, evidence.aggregates[0].version) = (server.to_string(), Some(1));
        evidence
    };
    for status in [CallStatus::Ok, CallStatus::Failed, CallStatus::Unknown] {
        assert_eq!(check(&of_server(status, Some(done()))), [], "{status:?}");
    }
    finds(&of_server(CallStatus::Unknown, None), EffectsOnce, "but the call has no op row");
    finds(&of_server(CallStatus::Cancelled, Some(done())), EffectsOnce, "the effect happened");
    changed(|entries| entries[5] = outcome(CallStatus::Unknown), EffectsOnce, "the effect happened");
}

#[test]
fn invariant_3_a_concurrent_edit_must_not_be_overwritten() {
    let id = SchemaId::derive(&["schema"]);
    let intent = |expected| {
        let target = Schema::target(&SchemaId::derive(&["schema"]));
        let (arguments, resolved) = (None, Value::Null);
        Entry::Intent(Intent { turn: 1, round: 1, index: 1, target, expected, arguments, resolved, at: None })
    };
    let revised = OpResult::Schema { revid: SchemaRevId::new(id.clone(), 3), name: "alpha".into(), revised: true };
    let mut entries = usual();
    entries[4] = intent(Expected::Version(1));
    let mut evidence = evidence(entries, Some(OpState::Done(revised)));
    evidence.aggregates[0].id = id.to_string();
    finds(&evidence, EffectsOnce, "was overwritten");
}

#[test]
fn invariant_4_a_call_without_a_result_or_with_two_is_found() {
    let s = Sendable;
    changed(|entries| drop(entries.remove(5)), s, "no result, but entries follow");
    changed(|entries| entries.insert(6, outcome(CallStatus::Failed)), s, "the results differ");
    changed(|entries| entries.insert(5, paused(2, 6)), s, "follows a later pause");
    let stray = |entries: &mut Vec<Entry>| drop(entries.remove(1));
    changed(stray, s, "the result has no call");
}

#[test]
fn invariant_6_data_of_another_tenant_is_found() {
    let t = Tenants;
    finds(&with(|evidence| evidence.threads[0].header.title = "beta work".into()), t, "beta");
    finds(&with(|evidence| evidence.aggregates[0].name = Some("beta 1".into())), t, "beta");
    finds(&with(|evidence| evidence.log.push(logged(ClientEvent::Listed(vec!["beta 1".into()])))), t, "beta");
    finds(&with(|evidence| evidence.aggregates[0].org = OrgId::derive(&["other"]).to_string()), t, "another tenant");
    finds(
        &with(|evidence| evidence.threads[0].header.org = OrgId::derive(&["other"])),
        t,
        "name different organizations",
    );
}

#[test]
fn invariant_7_answers_that_differ_from_each_other_or_from_the_journal_are_found() {
    let with = |event: ClientEvent| with(|evidence| evidence.log.push(logged(event)));
    let mut other = answer(9);
    other.outcome = Some(ApproveOutcome::Completed(v1::Completed { text: "Other.".into(), ..Default::default() }));
    finds(&with(ClientEvent::Answered(decided(), Box::new(other))), Idempotent, "two answers");
    finds(&with(ClientEvent::Answered(decided(), Box::new(answer(8)))), Idempotent, "the journal contains");
    finds(&with(ClientEvent::Refused(decided(), Reason::TurnExpired)), Idempotent, "received an expiry");
    let twice = |entries: &mut Vec<Entry>| entries.extend([accepted(2, "r-1")]);
    changed(twice, Idempotent, "request r-1 also became");
}

#[test]
fn acknowledged_data_that_is_not_stored_is_found() {
    let with = |event: ClientEvent| with(|evidence| evidence.log.push(logged(event)));
    let s = Stored;
    let missing_turn = TurnId::new(ThreadId::derive(&["gone"]), 1);
    let request: RequestId = "r-2".parse().unwrap();
    finds(&with(ClientEvent::Accepted { request: request.clone(), turn: missing_turn.clone() }), s, "is missing");
    finds(&with(ClientEvent::Accepted { request, turn: turn() }), s, "received the turn for r-2");
    finds(
        &with(ClientEvent::Answered(ClientDecisions { turn: missing_turn, ..decided() }, Box::new(answer(9)))),
        s,
        "is missing",
    );
    let rejected = ClientDecisions { on: [(call(), ClientDecision::Reject)].into(), ..decided() };
    finds(&with(ClientEvent::Answered(rejected, Box::new(answer(9)))), s, "is not recorded");
    finds(&with(ClientEvent::Created { id: TagId::derive(&["made"]).to_string() }), s, "is missing");
    let row = RequestRow { request: "r-9".parse().unwrap(), turn: 1, digest: Digest::of(b"") };
    finds(&super::tests::with(|evidence| evidence.threads[0].requests.push(row)), s, "refers to another turn");
}

#[test]
fn invariant_8_a_turn_without_its_end_is_found() {
    let v = VisibleEnd;
    changed(|entries| drop(entries.pop()), v, "the turn has no end");
    changed(|entries| entries.push(ended(completed(), vec![], 12)), v, "an entry follows the end");
    let closing = Entry::Closing(Closing { turn: 1, cause: ClosingCause::Cancelled, at: at(2) });
    changed(|entries| entries.insert(6, closing), v, "has another end");
    let open = |phase, entries: usize| {
        let mut evidence = evidence(usual()[..entries].to_vec(), None);
        evidence.threads[0].header.open_turn = Some(OpenTurn { number: 1, phase, expires_at: None });
        evidence
    };
    finds(&open(Phase::Running, 2), v, "neither ended nor waits");
    finds(&open(Phase::Executing, 4), v, "although its pause has expired");
    let mut over = open(Phase::Paused, 3);
    over.taken_at = at(299);
    assert!(!check(&over).iter().any(|found| found.invariant == v), "the pause expires after the evidence");
    over.taken_at = at(301);
    finds(&over, v, "pause has expired");
    let mut both = good();
    both.threads[0].header.open_turn = Some(OpenTurn { number: 1, phase: Phase::Running, expires_at: None });
    finds(&both, v, "the header markers it as open");
}

#[test]
fn invariant_9_streams_that_cannot_be_resumed_are_found() {
    let received = |events: Vec<(u64, &'static str)>| {
        with(|evidence| evidence.log.push(logged(ClientEvent::Streamed { turn: turn(), events, complete: true })))
    };
    let s = Streams;
    finds(&received(vec![(2, "text_delta"), (2, "text_delta")]), s, "event (2");
    finds(&received(vec![(4, "awaiting_approval"), (9, "completed")]), s, "follow a closing event");
    finds(&received(vec![(1, "turn_started")]), s, "without a closing event");
    finds(&received(vec![(8, "completed")]), s, "not in the journal");
    changed(|entries| entries[2] = paused(1, 0), s, "closing event 0");
    changed(|entries| entries[6] = ended(completed(), vec![], 4), s, "closing event 4 after 4");
}

#[test]
fn a_busy_thread_that_no_node_runs_is_found() {
    let stuck = StuckThread {
        thread: thread(),
        since: std::time::Duration::from_secs(9),
        reason: "turn 1 is Running".to_owned(),
    };
    finds(&with(|evidence| evidence.busy.push(stuck)), Busy, "9s after the end of all work: turn 1 is Running");
}
