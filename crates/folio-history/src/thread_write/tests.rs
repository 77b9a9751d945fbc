//! Checks every combination of writes and stored rows against the table, and the rows of plans.

use std::collections::BTreeMap;

use folio_types::op::OpKey;
use folio_types::profile::Subject;
use folio_types::{Digest, DocumentId, ExtractionId, Incarnation, Principal, PromptId, PromptRevId, Reason, Role};
use folio_types::{SchemaId, SchemaRevId, StackId, Timestamp, UserId};

use super::*;
use crate::journal::{Closing, ClosingCause, Imported, WorkingExtraction, WorkingState};
use crate::thread::{HeaderChange, OpenTurn, Phase, ThreadFilter};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn row(request: &str, content: &str) -> RequestRow {
    RequestRow { request: request.parse().unwrap(), turn: 0, digest: Digest::of(content.as_bytes()) }
}

fn new(request: Option<RequestRow>) -> Box<NewThread> {
    let principal = Principal::new(OrgId::derive(&["acme"]), UserId::derive(&["ann"]), Role::Member);
    let (id, documents) = (ThreadId::derive(&["thread"]), vec![DocumentId::derive(&["a"])]);
    let new = NewThread::new(id, &principal, "document", documents, at(1));
    Box::new(NewThread { title: "title".into(), request, ..new })
}

fn append(fence: (u64, u64), request: Option<RequestRow>) -> Append {
    Append { request, ..Append::new(7, Fence { epoch: fence.0, version: fence.1 }, at(2)) }
}

fn take(epoch: u64, append: Append) -> Append {
    Append { new_owner: Some((epoch, Incarnation::derive(&["node"]))), ..append }
}

fn appends(append: Append) -> ThreadWrite {
    ThreadWrite::Append(new(None).org, new(None).id, append)
}

/// A stored header at epoch 2 and version 5, with three entries.
fn stored() -> ThreadHeader {
    ThreadHeader { epoch: 2, version: 5, entries: 3, bytes: 30, ..new(None).header() }
}

fn sizes() -> Sizes {
    let size = |entries, bytes| JournalSize { entries, bytes };
    Sizes { imported: size(4, 40), appended: size(2, 20) }
}

fn outcome(decision: &Result<WriteDecision>) -> &'static str {
    match decision {
        Ok(WriteDecision::Write(_)) => "write",
        Ok(WriteDecision::Answer(Appended::Done(_))) => "done",
        Ok(WriteDecision::Answer(Appended::Refused { .. })) => "refused",
        Err(error) => match error.reason {
            Reason::NotFound => "not found",
            Reason::RequestIdConflict => "conflict",
            Reason::Internal => "internal",
            _ => "another error",
        },
    }
}

#[test]
fn every_combination_of_rows_and_writes_has_the_decision_of_the_table() {
    let ours = || row("ours", "content");
    let begin = |fence, request| ThreadWrite::Begin(new(None), append(fence, request));
    // Decisions: without a thread; with one; with one and the row of the batch; with one and an equal request row; with
    // one and another request row.
    let cases = [
        (ThreadWrite::Create(new(None)), ["write", "done", "done", "done", "done"]),
        (ThreadWrite::Create(new(Some(ours()))), ["write", "done", "done", "done", "conflict"]),
        (begin((0, 0), None), ["write", "refused", "done", "refused", "refused"]),
        (begin((0, 0), Some(ours())), ["write", "refused", "done", "refused", "refused"]),
        (begin((0, 1), None), ["internal", "refused", "done", "refused", "refused"]),
        (
            ThreadWrite::Begin(new(None), take(0, append((0, 0), None))),
            ["internal", "refused", "done", "refused", "refused"],
        ),
        (appends(append((2, 5), None)), ["not found", "write", "done", "refused", "refused"]),
        (appends(append((2, 5), Some(ours()))), ["not found", "write", "done", "refused", "refused"]),
        (appends(append((1, 5), None)), ["not found", "refused", "done", "refused", "refused"]),
        (appends(append((2, 4), None)), ["not found", "refused", "done", "refused", "refused"]),
        (appends(append((2, 6), None)), ["not found", "refused", "done", "refused", "refused"]),
        (appends(take(3, append((2, 5), None))), ["not found", "write", "done", "refused", "refused"]),
        (appends(take(2, append((2, 5), None))), ["not found", "internal", "done", "refused", "refused"]),
    ];
    let live = || Some(ThreadRecord::Live(Box::new(stored())));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (write, decisions) in cases {
        let states = [
            StoredState::default(),
            StoredState { record: live(), ..StoredState::default() },
            StoredState { record: live(), is_committed: true, request: Some(ours()) },
            StoredState { record: live(), is_committed: false, request: Some(ours()) },
            StoredState { record: live(), is_committed: false, request: Some(row("ours", "other")) },
        ];
        for (read, expected) in states.into_iter().zip(decisions) {
            let decision = decide(&write, sizes(), read.clone());
            // A store does not read a request row for a write without one.
            let expected = match write.request() {
                None if read.request.is_some() && !read.is_committed => continue,
                _ => expected,
            };
            assert_eq!(outcome(&decision), expected, "{write:?} {read:?}");
            *seen.entry(expected).or_default() += 1;
            if let Ok(WriteDecision::Answer(answer)) = decision {
                if let Appended::Refused { request, .. } = &answer {
                    assert_eq!(*request, read.request);
                }
                assert_eq!(answer.header(), stored());
            }
        }
        let removed = StoredState { record: Some(stored().tombstone(None)), ..StoredState::default() };
        assert_eq!(outcome(&decide(&write, sizes(), removed)), "not found", "{write:?}");
    }
    let all = ["conflict", "done", "internal", "not found", "refused", "write"];
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), all);
}

fn planned(write: &ThreadWrite, record: Option<ThreadHeader>) -> ThreadPlan {
    let record = record.map(|header| ThreadRecord::Live(Box::new(header)));
    match decide(write, sizes(), StoredState { record, ..StoredState::default() }).unwrap() {
        WriteDecision::Write(plan) => *plan,
        WriteDecision::Answer(answer) => panic!("{answer:?}"),
    }
}

#[test]
fn an_append_updates_the_header() {
    let change = HeaderChange { model: Some("m".into()), turns: Some(1), ..HeaderChange::default() };
    let first = Append { change, ..take(3, append((2, 5), Some(row("ours", "content")))) };
    let plan = planned(&appends(first.clone()), Some(stored()));
    let owner = Some(Incarnation::derive(&["node"]));
    let expected = ThreadHeader {
        epoch: 3,
        version: 6,
        entries: 5,
        bytes: 50,
        updated_at: at(2),
        model: Some("m".into()),
        turns: 1,
        owner,
        ..stored()
    };
    assert_eq!((plan.before.as_ref(), &plan.after, plan.appends_at), (Some(&stored()), &expected, 3));
    assert_eq!((plan.batch, plan.requests.as_slice()), (Some(7), &[row("ours", "content")][..]));
    assert_eq!(plan.new_references().count(), 0);
    assert_eq!((plan.list_before, plan.list_after), (None, None), "the title is the same");

    let change = HeaderChange { title: Some("other".into()), open_turn: Some(None), ..HeaderChange::default() };
    let second = Append { change, ..append((3, 6), None) };
    let plan = planned(&appends(second.clone()), Some(expected.clone()));
    let names =
        [plan.list_before, plan.list_after].map(|listed| listed.map(|listed| (listed.row.name, listed.version)));
    assert_eq!(names, [Some(("title".to_owned(), 7)), Some(("other".to_owned(), 8))]);
    let hidden = planned(&appends(second), Some(ThreadHeader { ephemeral: true, ..expected }));
    assert_eq!((hidden.list_before, hidden.list_after), (None, None), "an ephemeral thread has no list row");
}

#[test]
fn a_new_thread_contains_its_import_and_its_first_append() {
    let (one, other) = (row("one", "content"), row("other", "content"));
    let plan = planned(&ThreadWrite::Create(new(Some(one.clone()))), None);
    assert_eq!((plan.after.version, plan.after.entries, plan.after.bytes), (0, 4, 40));
    assert_eq!((plan.batch, plan.requests.as_slice()), (None, &[one.clone()][..]));
    assert_eq!(plan.new_references().collect::<Vec<_>>(), [DocumentId::derive(&["a"]).as_str()]);
    assert_eq!(plan.list_after.as_ref().map(|listed| listed.version), Some(1));
    for (request, requests) in [(one.clone(), vec![one.clone()]), (other.clone(), vec![one.clone(), other])] {
        let first = take(1, append((0, 0), Some(request)));
        let plan = planned(&ThreadWrite::Begin(new(Some(one.clone())), first), None);
        assert_eq!(plan.requests, requests, "each request id once");
        assert_eq!((plan.after.epoch, plan.after.version, plan.after.entries, plan.appends_at), (1, 1, 6, 4));
        assert_eq!((plan.before, plan.batch), (None, Some(7)));
    }
}

#[test]
fn an_import_contains_no_other_entries() {
    let imported = |entry| ThreadWrite::Create(Box::new(NewThread { imported: vec![entry], ..*new(None) }));
    let import = Entry::Imported(Imported { messages: vec![], working: WorkingState::default(), position: None });
    let closing = Entry::Closing(Closing { turn: 1, cause: ClosingCause::Cancelled, at: at(1) });
    let decision = |write| outcome(&decide(&write, sizes(), StoredState::default()));
    assert_eq!(decision(imported(import)), "write");
    assert_eq!(decision(imported(closing)), "internal");
}

#[test]
fn a_tombstone_keeps_fence_and_request() {
    let by = OpKey::Request { user: UserId::derive(&["ann"]), request: "delete".parse().unwrap() };
    let tombstone = stored().tombstone(Some(by.clone()));
    assert_eq!(tombstone, ThreadRecord::Tombstone { epoch: 2, version: 5, by: Some(by) });
    assert_eq!((tombstone.live(), ThreadRecord::Live(Box::new(stored())).live()), (None, Some(stored())));
    let expiring = ThreadHeader { expires_at: Some(at(9)), ..stored() };
    assert_eq!(
        (expiring.is_kept_at(at(8)), expiring.is_kept_at(at(9)), stored().is_kept_at(at(9))),
        (true, false, true)
    );
}

#[test]
fn a_thread_is_unused_until_an_append_or_an_open_turn() {
    let fence = stored().fence();
    let open_turn = Some(OpenTurn { number: 1, phase: Phase::Running, expires_at: None });
    for (header, is_unused) in [
        (stored(), true),
        (ThreadHeader { version: 6, ..stored() }, false),
        (ThreadHeader { epoch: 3, ..stored() }, false),
        (ThreadHeader { open_turn, ..stored() }, false),
    ] {
        assert_eq!(header.is_unused_at(fence), is_unused, "{header:?}");
    }
}

#[test]
fn a_filter_lists_the_threads_that_meet_each_set_condition() {
    let row = stored().list_row();
    assert_eq!((row.id, row.name), (stored().id.to_string(), "title".to_owned()));
    for is_listed in [true, false] {
        let name = |same: &'static str| if is_listed { same } else { "other" };
        let user = ThreadFilter { user: Some(UserId::derive(&[name("ann")])), ..ThreadFilter::default() };
        let document = ThreadFilter { document: Some(DocumentId::derive(&[name("a")])), ..ThreadFilter::default() };
        let profile = ThreadFilter { profile: Some(name("document").into()), ..ThreadFilter::default() };
        let title = ThreadFilter { title_search: Some(name("ITL").into()), ..ThreadFilter::default() };
        for filter in [user, document, profile, title] {
            assert_eq!(stored().list_row().matches(&filter.conditions()), is_listed, "{filter:?}");
        }
    }
    assert!(stored().list_row().matches(&ThreadFilter::default().conditions()));
    let of_stack = |name: &str| ThreadFilter { stack: Some(StackId::derive(&[name])), ..ThreadFilter::default() };
    let subject = Some(Subject::Stack(StackId::derive(&["s"])));
    let about = ThreadHeader { subject, ..stored() }.list_row();
    assert!(about.matches(&of_stack("s").conditions()) && !about.matches(&of_stack("other").conditions()));
    assert!(!stored().list_row().matches(&of_stack("s").conditions()));
}

#[test]
fn a_header_counts_the_bytes_of_its_extraction_and_starts_with_the_last_imported_working_state() {
    let working = |data: &str| {
        let (id, document) = (ExtractionId::derive(&["e"]), DocumentId::derive(&["a"]));
        let prompt = PromptRevId::new(PromptId::derive(&["p"]), 1);
        let extraction = Some(WorkingExtraction { id, document, prompt, data: data.into() });
        WorkingState { extraction, ..WorkingState::default() }
    };
    let import = |data| Entry::Imported(Imported { messages: vec![], working: working(data), position: None });
    let header = NewThread { imported: vec![import("first"), import("last")], ..*new(None) }.header();
    assert_eq!(header.working, working("last"));
    assert_eq!(new(None).header().working, WorkingState::default());
    assert_eq!(header.size_bytes() - new(None).header().size_bytes(), "\"last\"".len());
}

#[test]
fn a_thread_may_name_the_revisions_of_its_working_state_and_any_while_a_turn_is_open() {
    let schema = SchemaRevId::new(SchemaId::derive(&["schema"]), 3);
    let (current, extracted) =
        (PromptRevId::new(PromptId::derive(&["prompt"]), 4), PromptRevId::new(PromptId::derive(&["other"]), 5));
    let extraction = WorkingExtraction {
        id: ExtractionId::derive(&["extraction"]),
        document: DocumentId::derive(&["a"]),
        prompt: extracted.clone(),
        data: serde_json::Value::Null,
    };
    let working = WorkingState {
        schema_revid: Some(schema.clone()),
        prompt_revid: Some(current.clone()),
        extraction: Some(extraction),
        profile_state: None,
    };
    let header = ThreadHeader { working, ..stored() };
    for (id, number) in [(schema.of.as_str(), 3), (current.of.as_str(), 4), (extracted.of.as_str(), 5)] {
        assert!(header.may_name_revision(id, number), "{id}");
        assert!(!header.may_name_revision(id, number + 1), "another revision of {id}");
        assert!(!header.may_name_revision("missing", number), "another resource");
    }
    let open = OpenTurn { number: 1, phase: Phase::Running, expires_at: None };
    assert!(ThreadHeader { open_turn: Some(open), ..header }.may_name_revision("missing", 9));
}
