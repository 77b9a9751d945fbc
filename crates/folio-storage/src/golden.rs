//! Golden files: `golden/v<VERSION>/<KIND>.<CASE>.json` contains the payload of a stored value.
//!
//! A released file is never changed. A new version of a format adds a folder; files of older versions must stay
//! readable. `FOLIO_WRITE_GOLDEN=1` writes missing files.

mod access;
mod credit;
mod entries;
mod images;
mod knowledge;
mod links;
mod passages;
mod structure;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use folio_credit::Basis;
use folio_history::job::{
    ItemOutcome, ItemState, JobHeader, JobItem, JobPage, JobPages, JobQueue, JobRecord, JobState, NewJob, OpenJobRow,
    WaitReason,
};
use folio_history::journal::*;
use folio_history::task::{TaskOrigin, ThreadTask};
use folio_history::thread::{Fence, OpenTurn, OpenTurnRow, Phase, RequestRow, ThreadHeader, ThreadRecord};
use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget, Ground, RedactedArguments};
use folio_resources::policy::{ApprovalRequirement, Approver, Policy};
use folio_resources::{
    BoundingBox, CellPosition, ListRow, Member, PageArea, Resource as _, RevisionName, RevisionNames, Tag, TextRecord,
    TextState, WordBoxes, term,
};
use folio_testkit::unknown_fields::add_unknown_fields;
use folio_types::access::Role;
use folio_types::message::{FinishReason, Message, ThinkingBlock, ToolCall, Usage};
use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpResult, OpRow, OpState, Target};
use folio_types::profile::{AnswerCheck, NodeKind, Subject};
use folio_types::*;
use serde_json::{Value, json};

use crate::traits::{Charged, HourSums, UsageRecord, UsageSum};
use crate::value::*;

/// A stored value as bytes, with the functions that parse the JSON of its kind, and that decode and re-encode it.
struct Sample {
    kind: &'static str,
    case: &'static str,
    bytes: Vec<u8>,
    parse: fn(&Value) -> Result<(), String>,
    reencode: fn(&[u8]) -> Result<Vec<u8>>,
}

fn sample<T: Stored>(case: &'static str, value: T) -> Sample {
    Sample {
        kind: T::KIND,
        case,
        bytes: encode(&value).unwrap(),
        parse: |json| T::read(T::VERSION, json.to_string().as_bytes()).map(drop).map_err(|error| error.to_string()),
        reencode: |bytes| encode(&decode::<T>(bytes)?),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

#[test]
fn the_written_format_is_that_of_the_golden_files() {
    for Sample { kind, case, bytes, .. } in samples() {
        let (version, payload) = bytes.split_first().unwrap();
        let path = folder().join(format!("v{version}/{kind}.{case}.json"));
        if !path.exists() && std::env::var_os("FOLIO_WRITE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [payload, b"\n"].concat()).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let written = String::from_utf8(payload.to_vec()).unwrap();
        assert_eq!(written, golden.trim_end(), "the format of {kind} changed in {case}: give it a new version");
    }
}

#[test]
fn every_golden_file_is_readable_and_every_kind_has_one() {
    let readers: BTreeMap<_, _> = samples().iter().map(|sample| (sample.kind, sample.reencode)).collect();
    let mut kinds = BTreeSet::new();
    for version in std::fs::read_dir(folder()).unwrap() {
        let version = version.unwrap().path();
        let number: u8 = version.file_name().unwrap().to_str().unwrap().trim_start_matches('v').parse().unwrap();
        for file in std::fs::read_dir(version).unwrap() {
            let path = file.unwrap().path();
            let kind = path.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned();
            let read = readers.get(kind.as_str()).unwrap_or_else(|| panic!("no kind reads {}", path.display()));
            let payload = std::fs::read(&path).unwrap();
            let reencode = read(&[&[number], payload.trim_ascii_end()].concat());
            let reencode = reencode.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if reencode.first() == Some(&number) {
                assert_eq!(reencode.get(1..).unwrap(), payload.trim_ascii_end(), "{}", path.display());
            }
            kinds.insert(kind);
        }
    }
    let missing: Vec<_> = KINDS.iter().filter(|(kind, _)| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "no golden file for {missing:?}");
}

#[test]
fn fields_that_a_newer_build_wrote_are_tolerated_and_survive_a_change() {
    let mut changed = BTreeSet::new();
    for Sample { kind, case, bytes, parse, reencode } in samples() {
        let mut value: Value = serde_json::from_slice(&bytes[1..]).unwrap();
        let has_fields =
            value.as_object().is_some_and(|fields| fields.values().any(Value::is_object) || fields.len() > 1);
        let added = add_unknown_fields(&mut value, parse);
        assert!(added > 0 || !has_fields, "{kind}.{case}");
        let after = reencode(&[&bytes[..1], value.to_string().as_bytes()].concat()).unwrap();
        let is_kept = serde_json::from_slice::<Value>(&after[1..]).unwrap() == value;
        if KINDS.contains(&(kind, true)) && value.get("tombstone").is_none() {
            assert!(is_kept, "{kind}.{case}: {}", String::from_utf8_lossy(&after));
            changed.insert(kind);
        }
    }
    assert_eq!(changed, KINDS.iter().filter(|(_, is_changed)| *is_changed).map(|(kind, _)| *kind).collect());
}

#[test]
fn a_newer_or_damaged_format_is_refused_with_an_error_that_names_the_kind() {
    for Sample { kind, bytes, reencode, .. } in samples() {
        let payload = bytes.get(1..).unwrap();
        let newer = [&[200], payload].concat();
        let unversioned = [&[0], payload].concat();
        let cut = bytes.get(..bytes.len() - 1).unwrap().to_vec();
        for bad in [vec![], newer, unversioned, cut] {
            let error = reencode(&bad).unwrap_err();
            assert_eq!((error.code, error.reason), (Code::DataLoss, Reason::StoredFormat), "{kind}: {error}");
            assert!(error.message.contains(kind), "{error}");
        }
    }
}

fn at() -> Timestamp {
    Timestamp::constant(1_790_000_000, 123_456_789)
}

macro_rules! ids {
    ($($name:ident: $id:ident,)+) => { $(fn $name() -> $id { $id::derive(&["golden"]) })+ };
}

ids! { org: OrgId, user: UserId, document_id: DocumentId, extraction_id: ExtractionId, tag_id: TagId, thread_id: ThreadId, job_id: JobId, }

fn schema_revid() -> SchemaRevId {
    SchemaRevId::new(SchemaId::derive(&["golden"]), 2)
}

fn prompt_revid() -> PromptRevId {
    PromptRevId::new(PromptId::derive(&["golden"]), 3)
}

fn data() -> Value {
    json!({"zeta": 1.5, "alpha": ["ü", null, {"deep": true}], "large": 9_007_199_254_740_993_u64})
}

fn usage() -> Usage {
    Usage { input_tokens: 100, cached_input_tokens: 60, output_tokens: 20, reported: true, model_calls: 2, credits: 0 }
}

fn working() -> WorkingState {
    let extraction =
        WorkingExtraction { id: extraction_id(), document: document_id(), prompt: prompt_revid(), data: data() };
    WorkingState {
        schema_revid: Some(schema_revid()),
        prompt_revid: Some(prompt_revid()),
        extraction: Some(extraction),
        profile_state: None,
    }
}

fn samples() -> Vec<Sample> {
    let mut samples: Vec<Sample> = access::access()
        .into_iter()
        .chain(links::links())
        .chain(passages::passages())
        .chain(vectors::vectors())
        .chain(images::images())
        .collect();
    for (case, gap) in [("plain", None), ("cut", Some(TextGap::Cut)), ("missing", Some(TextGap::Missing))] {
        samples.push(sample(case, PageText { number: 3, text: "Invoice № 7\n\tTotal".into(), gap, first_cell: None }));
    }
    let (text, first_cell) = ("## Invoices\n\n| Total |".into(), Some(CellPosition { row: 6, column: 1 }));
    samples.push(sample("sheet", PageText { number: 1, text, gap: None, first_cell }));
    let word = BoundingBox { left: 10.0, top: 20.0, right: 60.0, bottom: 32.0 };
    let area = Some(PageArea::new(word, 595.0, 842.0));
    samples.push(sample("plain", PageBoxes { number: 3, boxes: WordBoxes::new(595.0, 842.0, [word]) }));
    samples.extend(structure::structure(area));
    samples.push(sample("plain", PendingTextRow { org: org(), id: document_id().to_string(), attempts: 2 }));
    samples.push(sample("plain", DeletionRow { org: org(), id: document_id().to_string(), at: at() }));
    samples.extend(ops());
    samples.extend(threads());
    samples.extend(jobs());
    samples.extend(entries::entries());
    samples.extend(knowledge::summaries());
    samples.extend(rows());
    samples.extend(credit::credit());
    samples
}

fn ops() -> Vec<Sample> {
    let call = CallId::new(TurnId::new(thread_id(), 4), 2, 1);
    let row = |state| OpRow { op: OpKey::Call(call.clone()), digest: Digest::of(b"golden"), state, at: at() };
    let request = OpKey::Request { user: user(), request: "client/7:x".parse().unwrap() };
    let schema = OpResult::Schema { revid: schema_revid(), name: "Invoice".into(), revised: true };
    let prompt =
        OpResult::Prompt { revid: prompt_revid(), name: "Read".into(), schema: Some(schema_revid()), revised: false };
    let extraction = OpResult::Extraction {
        id: extraction_id(),
        document: document_id(),
        prompt: prompt_revid(),
        version: 4,
        data: Value::Null,
        coverage: None,
    };
    let indexed_data = OpDataIndexRow {
        org: org(),
        id: extraction_id().to_string(),
        version: 4,
        op: OpKey::Call(call.clone()),
        at: at(),
        has_ended: true,
    };
    let by_prompt =
        RevisionName::Resource { id: prompt_revid().of.to_string(), revision: Some(3), op: OpKey::Call(call.clone()) };
    let names = RevisionNames {
        names: vec![RevisionName::Thread(TurnId::new(thread_id(), 4)), by_prompt],
        ..RevisionNames::default()
    };
    let references = RevisionNames::of(None, [schema_revid().of.to_string()].into());
    vec![
        sample("schema", row(OpState::Done(schema))),
        sample("prompt", row(OpState::Done(prompt))),
        sample("tag", row(OpState::Done(OpResult::Resource { id: tag_id().to_string(), name: "invoice".into() }))),
        sample(
            "document",
            row(OpState::Done(OpResult::Resource { id: document_id().to_string(), name: "a.txt".into() })),
        ),
        sample("extraction", row(OpState::Done(extraction))),
        sample("plain", OpData(data())),
        sample("plain", indexed_data),
        sample("plain", names),
        sample("references", references),
        sample("plain", RevisionNumbers { numbers: vec![1, 7, 8] }),
        sample("full", RevisionNames { is_full: true, ..RevisionNames::default() }),
        sample("deleted", OpRow { op: request, ..row(OpState::Done(OpResult::Deleted)) }),
        sample("conflict", row(OpState::Conflict)),
        sample("aborted", row(OpState::Aborted)),
    ]
}

fn threads() -> Vec<Sample> {
    let header = ThreadHeader {
        id: thread_id(),
        org: org(),
        user: user(),
        profile: "document".into(),
        documents: vec![document_id()],
        subject: None,
        budget_part: None,
        job: None,
        task: None,
        title: "What is the total?".into(),
        model: Some("model".into()),
        ephemeral: false,
        expires_at: Some(at()),
        created_at: at(),
        updated_at: at(),
        epoch: 3,
        owner: Some(Incarnation::derive(&["golden"])),
        version: 17,
        entries: 40,
        bytes: 65_000,
        turns: 5,
        working: working(),
        open_turn: Some(OpenTurn { number: 5, phase: Phase::Paused, expires_at: Some(at()) }),
        unknown: UnknownFields::default(),
    };
    let subject = Some(Subject::Extraction(extraction_id()));
    let budget_part = Some(BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["golden"])), 5_000).child(2));
    let request = RequestRow { request: "client-7".parse().unwrap(), turn: 5, digest: Digest::of(b"golden") };
    let removed_by = OpKey::Request { user: user(), request: "client-8".parse().unwrap() };
    let open = OpenTurnRow { org: org(), turn: TurnId::new(thread_id(), 5), epoch: 3, at: at(), until: at() };
    vec![
        sample("subject", ThreadRecord::Live(Box::new(ThreadHeader { subject, ..header.clone() }))),
        sample("paid_by_job", ThreadRecord::Live(Box::new(ThreadHeader { budget_part, ..header.clone() }))),
        sample("of_job", ThreadRecord::Live(Box::new(ThreadHeader { job: Some(job_id()), ..header.clone() }))),
        sample("task", ThreadRecord::Live(Box::new(of_task(&header)))),
        sample("parent", ThreadRecord::Live(Box::new(parent(&header)))),
        sample("live", ThreadRecord::Live(Box::new(header))),
        sample("tombstone", ThreadRecord::Tombstone { epoch: 3, version: 18, by: None }),
        sample(
            "plain",
            IdempotencyRecord {
                target: Tag::target(&TagId::derive(&["golden"])),
                digest: Digest::of(b"golden"),
                at: at(),
            },
        ),
        sample("plain", RequestIndexRow { org: org(), op: removed_by.clone(), at: at() }),
        sample("removed", ThreadRecord::Tombstone { epoch: 3, version: 18, by: Some(removed_by) }),
        sample("plain", request),
        sample("plain", open),
        sample("plain", ThreadExpiryRow { org: org(), thread: thread_id(), at: at() }),
    ]
}

fn of_task(header: &ThreadHeader) -> ThreadHeader {
    let root = TurnId::new(ThreadId::derive(&["parent"]), 2);
    let task = ThreadTask {
        origin: TaskOrigin {
            call: CallId::new(root.clone(), 1, 3),
            group: GroupId::derive(&["golden"]),
            number: 2,
            agent: "document".into(),
            depth: 1,
        },
        rounds_max: Some(4),
        children_max: 3,
        budget_parts: vec![BudgetPart::whole(BudgetRoot::Turn(root), 5_000).child("1.3.2")],
        parent_profiles: vec!["coordinator".into()],
        waiting_tools: vec!["create_tag".into()],
        policy_tools: vec!["write_to_server".into()],
    };
    ThreadHeader { task: Some(Box::new(task)), ..header.clone() }
}

fn parent(header: &ThreadHeader) -> ThreadHeader {
    let open = OpenTurn { number: 5, phase: Phase::AwaitingChildren, expires_at: Some(at()) };
    ThreadHeader { open_turn: Some(open), ..header.clone() }
}

fn jobs() -> Vec<Sample> {
    let new = NewJob {
        id: job_id(),
        principal: Principal::new(org(), user(), Role::Member),
        kind: "extraction".into(),
        input: json!({"prompt": "p"}),
        items: vec!["first".into()],
        running_max: std::time::Duration::from_secs(3_600),
        at: at(),
    };
    let queued = new.header().unwrap();
    let item = |id: &str, state| JobItem { id: id.to_owned(), state, attempt: 2, failures: 1, steps: None };
    let error = Error::exhausted(Reason::CreditExhausted, "no credit");
    let items = vec![
        item("first", ItemState::Done),
        item("second", ItemState::Failed(Error::invalid(Reason::NoText, "no text"))),
        item("third", ItemState::Pending),
        item("fourth", ItemState::Running),
    ];
    let page = JobPage { items: items.clone() };
    let pages = JobPages { set: "0123456789abcdef".into(), items: 250, current: 1, done: 90, failed: 10 };
    let paged = JobHeader { pages: Some(pages), ..queued.clone() };
    let waiting = JobHeader {
        items,
        state: JobState::Waiting { reason: WaitReason::Credit, error: Some(error), retry_at: at() },
        epoch: 2,
        owner: Some(Incarnation::derive(&["golden"])),
        version: 7,
        running_millis: 1_500,
        blocked_since: Some(at()),
        ..queued.clone()
    };
    let failed = JobState::Failed(Error::precondition(Reason::NoText, "no text"));
    let failed = JobHeader { state: failed, ended_at: Some(at()), ..queued.clone() };
    let row = OpenJobRow { org: org(), job: job_id(), at: at(), until: at(), queue: JobQueue::Work };
    let outcome = ItemOutcome { item: 1, attempt: 2, value: data(), at: at() };
    vec![
        sample("tombstone", queued.tombstone()),
        sample("queued", JobRecord::Live(Box::new(queued))),
        sample("waiting", JobRecord::Live(Box::new(waiting))),
        sample("failed", JobRecord::Live(Box::new(failed))),
        sample("paged", JobRecord::Live(Box::new(paged))),
        sample("plain", page),
        sample("plain", Fence { epoch: 2, version: 7 }),
        sample("plain", row),
        sample("plain", JobExpiryRow { org: org(), job: job_id(), at: at() }),
        sample("plain", outcome),
    ]
}

fn rows() -> Vec<Sample> {
    let usage = UsageRecord {
        org: org(),
        user: user(),
        key: "turn.1.1".into(),
        operation: "chat".into(),
        model: "model".into(),
        usage: usage(),
        completed: true,
        document: None,
        charged: None,
        at: at(),
    };
    let charged = Charged { credits: 7, cost_microdollars: Some(31), basis: Basis::Reported, written_off: 0 };
    let billed = UsageRecord { document: Some(document_id()), charged: Some(charged.clone()), ..usage.clone() };
    let sums =
        HourSums { groups: vec![UsageSum::from(&billed), UsageSum::from(&usage)], has_documents: true, late_at: None };
    let full = ListRow {
        id: thread_id().to_string(),
        name: "Title".into(),
        terms: [term("tag", tag_id()), term("of", document_id())].into(),
        metadata: BTreeMap::from([("customer".into(), "Äcme".into())]),
        parent: Some(document_id().to_string()),
        created_at: None,
        size_bytes: 0,
    };
    let text = TextRecord {
        text: TextState::Ready,
        pages: 7,
        generation: Some("golden".into()),
        attempts: 1,
        lacks_program: false,
        at: at(),
        unknown: UnknownFields::default(),
    };
    vec![
        sample("call", audited()),
        sample("token_creator", AuditEntry { token_creator: Some(user()), ..audited() }),
        sample("change", AuditEntry { call: None, ground: None, ..audited() }),
        sample("profile", AuditEntry { ground: Some(Ground::Profile), ..audited() }),
        sample("bare", AuditEntry::new("request", AuditKind::ChangeRequested, at(), None, "TokenService.CreateToken")),
        sample("charged", billed),
        sample("late", HourSums { late_at: Some(at()), ..sums.clone() }),
        sample("plain", sums),
        sample("plain", LateUsage { at: at() }),
        sample("plain", usage),
        sample("document", ListRow { size_bytes: 7_000_000_000, ..full.clone() }),
        sample("created", ListRow { created_at: Some(at()), ..full.clone() }),
        sample("full", full),
        sample("bare", ListRow { id: tag_id().to_string(), ..ListRow::default() }),
        sample("plain", NameRow { id: tag_id().to_string() }),
        sample("plain", Reference { at: at() }),
        sample("plain", text),
        sample("plain", Count(7)),
        sample("plain", Empty),
    ]
}

fn audited() -> AuditEntry {
    let call = CallId::new(TurnId::new(thread_id(), 5), 1, 2);
    AuditEntry {
        call: Some(call.clone()),
        arguments: Some(RedactedArguments::call(&data())),
        ground: Some(Ground::Rule("Two eyes".into())),
        target: Some(AuditTarget::new("tag", tag_id())),
        outcome: Some("ok".into()),
        ..AuditEntry::new(&call.to_string(), AuditKind::CallEffect, at(), Some(user()), "create_tag")
    }
}
