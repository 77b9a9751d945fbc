//! Every row of the decision table, and the plan of each kind of change.

use folio_types::{
    BlobId, CallId, DocumentId, ExtractionId, PromptId, PromptRevId, Reason, SchemaId, SchemaRevId, TagId, ThreadId,
    TurnId, UserId,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Document, DocumentChange, DocumentPatch, Extraction, ExtractionChange, ExtractionReport, KINDS, NewDocument,
    NewExtraction, NewPrompt, Prompt, PromptChange, PromptRevision, PromptUpdate, Schema, SchemaChange, Tag, TagChange,
    golden,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn org() -> OrgId {
    OrgId::derive(&["decide"])
}

fn request(name: &str) -> OpKey {
    OpKey::Request { user: UserId::derive(&["user"]), request: name.parse().unwrap() }
}

fn call() -> OpKey {
    OpKey::Call(CallId::new(TurnId::new(ThreadId::derive(&["thread"]), 1), 1, 1))
}

fn write<C>(op: OpKey, expected: Expected, change: C) -> Write<C> {
    let digest = Digest::of(op.to_string().as_bytes());
    Write { org: org(), op, digest, by: UserId::derive(&["user"]), at: at(5), expected, change }
}

fn tag_write(op: OpKey, expected: Expected, change: TagChange) -> ResourceWrite {
    ResourceWrite::new::<Tag>(&TagId::derive(&["tag"]), write(op, expected, change))
}

fn create_tag(name: &str) -> TagChange {
    TagChange::Create { name: name.into(), color: None, description: None }
}

fn rename(name: &str) -> TagChange {
    TagChange::Update { name: Some(name.into()), color: None, description: None }
}

fn written(decision: Result<WriteDecision>) -> WritePlan {
    match decision.unwrap() {
        WriteDecision::Write(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

/// Returns the record that a plan stores.
fn record(plan: &WritePlan) -> Vec<u8> {
    match &plan.deciding_write {
        DecidingWrite::Create { record }
        | DecidingWrite::Update { record, .. }
        | DecidingWrite::Delete { record, .. } => record.clone(),
    }
}

/// Returns the revision that a plan stores, with its number.
fn revision(plan: &WritePlan) -> Option<(u32, Vec<u8>)> {
    plan.rows.iter().find_map(|row| match row {
        RowWrite::PutRevision { number, stored, .. } => Some((*number, stored.clone())),
        RowWrite::InsertOp(_) | RowWrite::PutData { .. } | RowWrite::RemoveRevision(_) => None,
    })
}

fn stored_tag(name: &str) -> StoredState {
    let created = decide(&tag_write(request("make"), Expected::Absent, create_tag(name)), &StoredState::default());
    StoredState { record: Some(record(&written(created))), ..StoredState::default() }
}

fn deleted_tag() -> StoredState {
    let delete = tag_write(request("delete"), Expected::Version(1), TagChange::Delete);
    StoredState { record: Some(record(&written(decide(&delete, &stored_tag("a"))))), ..StoredState::default() }
}

fn refused(decision: Result<WriteDecision>) -> Reason {
    decision.unwrap_err().reason
}

#[test]
fn a_stored_op_row_answers_regardless_of_the_other_rows() {
    let row = |digest: Digest, state| OpRow { op: request("a"), digest, state, at: at(1) };
    let write = tag_write(request("a"), Expected::Version(9), TagChange::Delete);
    let recorded = [
        row(write.digest.clone(), OpState::Done(OpResult::Deleted)),
        row(write.digest.clone(), OpState::Conflict),
        row(write.digest.clone(), OpState::Aborted),
        row(OpRow::unknown_digest(), OpState::Aborted),
    ];
    for (row, state) in recorded
        .iter()
        .flat_map(|row| [StoredState::default(), stored_tag("a"), deleted_tag()].map(|state| (row.clone(), state)))
    {
        let state = StoredState { op_row: Some(row.clone()), is_request_id_used: true, ..state };
        assert_eq!(decide(&write, &state).unwrap(), WriteDecision::Recorded(Box::new(row)));
    }
    for row in [
        row(Digest::of(b"other"), OpState::Done(OpResult::Deleted)),
        row(OpRow::unknown_digest(), OpState::Conflict),
        row(OpRow::unknown_digest(), OpState::Done(OpResult::Deleted)),
    ] {
        let state = StoredState { op_row: Some(row), ..stored_tag("a") };
        assert_eq!(refused(decide(&write, &state)), Reason::RequestIdConflict);
    }
}

#[test]
fn a_request_of_another_target_is_refused_before_the_version_is_evaluated() {
    let taken = StoredState { is_request_id_used: true, ..StoredState::default() };
    let of_request = tag_write(request("a"), Expected::Version(9), TagChange::Delete);
    assert_eq!(refused(decide(&of_request, &taken)), Reason::RequestIdConflict);
    let of_call = tag_write(call(), Expected::Absent, create_tag("a"));
    assert_eq!(written(decide(&of_call, &taken)).request, None, "a call has no idempotency record");
}

#[test]
fn the_expected_version_is_evaluated_before_the_deletion() {
    let update = |expected| tag_write(request("a"), expected, rename("b"));
    for (state, expected, answer) in [
        (StoredState::default(), Expected::Version(1), Err(Reason::NotFound)),
        (StoredState::default(), Expected::Absent, Err(Reason::NotFound)),
        (stored_tag("a"), Expected::Absent, Ok(WriteDecision::VersionMismatch)),
        (stored_tag("a"), Expected::Version(2), Ok(WriteDecision::VersionMismatch)),
        (deleted_tag(), Expected::Absent, Ok(WriteDecision::VersionMismatch)),
        (deleted_tag(), Expected::Version(1), Ok(WriteDecision::VersionMismatch)),
        (deleted_tag(), Expected::Version(2), Err(Reason::NotFound)),
    ] {
        let decision = decide(&update(expected), &state).map_err(|error| error.reason);
        assert_eq!(decision, answer, "{expected:?} of {state:?}");
    }
    let again = tag_write(request("a"), Expected::Version(1), create_tag("a"));
    assert_eq!(refused(decide(&again, &stored_tag("a"))), Reason::NotFound, "a creation of an existing resource");
}

#[test]
fn a_creation_reserves_its_name_and_adds_its_row_before_the_deciding_write() {
    let plan = written(decide(&tag_write(request("a"), Expected::Absent, create_tag("Red")), &StoredState::default()));
    assert_eq!(plan.request.as_ref().map(|row| row.target.kind()), Some("tag"));
    assert_eq!(plan.reserve_name.as_deref(), Some("Red"));
    assert_eq!((plan.free_name.as_ref(), plan.list_before.as_ref()), (None, None));
    assert_eq!(plan.list_after.as_ref().map(|listed| (listed.version, listed.created_at)), Some((1, at(5))));
    assert!(matches!(plan.deciding_write, DecidingWrite::Create { .. }));
    assert_eq!((plan.version(), plan.answer.op), (1, request("a")));
}

#[test]
fn a_rename_reserves_the_new_name_unless_only_its_case_changes() {
    for (name, reserved, freed, to) in
        [("blue", Some("blue"), Some("Red"), 2), ("RED", None, None, 2), ("Red", None, None, 1)]
    {
        let plan = written(decide(&tag_write(request("a"), Expected::Version(1), rename(name)), &stored_tag("Red")));
        assert_eq!((plan.reserve_name.as_deref(), plan.free_name.as_deref()), (reserved, freed), "{name}");
        assert_eq!(plan.version(), to, "{name}");
        let Some(Record::Live(fields)) = Some(plan.kind.read(&record(&plan)).unwrap()) else { panic!("{plan:?}") };
        assert_eq!((fields.label.as_str(), fields.version), (name, to));
    }
}

#[test]
fn a_deletion_leaves_a_tombstone_of_the_next_version_and_frees_the_name() {
    let plan = written(decide(&tag_write(request("a"), Expected::Version(1), TagChange::Delete), &stored_tag("Red")));
    let DecidingWrite::Delete { from: 1, to: 2, record, if_unreferenced: true } = &plan.deciding_write else {
        panic!("{plan:?}")
    };
    assert_eq!(plan.kind.read(record).unwrap(), Record::Tombstone { version: 2, at: at(5) });
    assert_eq!((plan.free_name.as_deref(), plan.list_after.as_ref()), (Some("Red"), None));
    assert!(plan.list_before.is_some());
    assert_eq!(plan.answer.state, OpState::Done(OpResult::Deleted));
}

fn prompt_write(expected: Expected, change: PromptChange) -> ResourceWrite {
    ResourceWrite::new::<Prompt>(&PromptId::derive(&["prompt"]), write(request("p"), expected, change))
}

fn tags(names: &[&str]) -> Vec<TagId> {
    names.iter().map(|name| TagId::derive(&[name])).collect()
}

fn ids(tags: &[TagId]) -> BTreeSet<String> {
    tags.iter().map(ToString::to_string).collect()
}

#[test]
fn a_retained_revision_keeps_its_references_until_the_deletion() {
    let schema = SchemaRevId::new(SchemaId::derive(&["schema"]), 3);
    let create = PromptChange::Create(NewPrompt {
        name: "p".into(),
        content: "x".into(),
        schema: Some(schema.clone()),
        tags: tags(&["one", "two", "one"]),
        ..NewPrompt::default()
    });
    let first = written(decide(&prompt_write(Expected::Absent, create), &StoredState::default()));
    let mut referenced = ids(&tags(&["one", "two"]));
    referenced.insert(schema.of.to_string());
    assert_eq!(first.add_references, referenced);
    let name =
        RevisionName::Resource { id: PromptId::derive(&["prompt"]).to_string(), revision: Some(1), op: request("p") };
    assert_eq!(first.name_revisions, [NewName { of: schema.of.to_string(), number: 3, name }]);
    assert!(matches!(revision(&first), Some((1, _))), "{first:?}");

    let tags_after = Some(tags(&["two", "three"]));
    let update = PromptChange::Update(PromptUpdate { schema: Some(None), tags: tags_after, ..PromptUpdate::default() });
    let state = StoredState { record: Some(record(&first)), ..StoredState::default() };
    let second = written(decide(&prompt_write(Expected::Version(1), update), &state));
    assert_eq!(second.add_references, ids(&tags(&["three"])));
    assert_eq!((&second.remove_references, second.name_revisions.as_slice()), (&BTreeSet::new(), &[][..]));
    assert!(matches!(revision(&second), Some((2, _))), "{second:?}");

    let state = StoredState { record: Some(record(&second)), ..StoredState::default() };
    let deletion = written(decide(&prompt_write(Expected::Version(2), PromptChange::Delete), &state));
    assert_eq!(deletion.remove_references, ids(&tags(&["two", "three"])), "the clean-up removes the older ones");
    assert_eq!((revision(&deletion), deletion.name_revisions.as_slice()), (None, &[][..]));
}

/// A write of a sample prompt with this number of its newest revision, and the state that it reads.
fn edit_of_revision(number: u32, op: OpKey, content: &str) -> (ResourceWrite, StoredState) {
    let mut sample = golden::prompt();
    sample.latest.revid.version = number;
    let edit = PromptChange::Update(PromptUpdate { content: Some(content.to_owned()), ..PromptUpdate::default() });
    let write = ResourceWrite::new::<Prompt>(&sample.id, write(op, Expected::Version(9), edit));
    let stored = encode_value(Prompt::KIND, Prompt::FORMAT, &Record::Live(sample)).unwrap();
    (write, StoredState { record: Some(stored), ..StoredState::default() })
}

#[test]
fn a_revision_beyond_the_maximum_replaces_one_that_nothing_names() {
    let max = u32::try_from(limits::REVISIONS_MAX).unwrap();
    for (newest, reads) in [(1, false), (max - 1, false), (max, true), (max + 7, true)] {
        let (edit, state) = edit_of_revision(newest, request("p"), "Read it again.");
        let stored = state.record.as_deref().map(|record| edit.kind.read(record).unwrap());
        assert_eq!(edit.reads_revisions(stored.as_ref()), reads, "{newest}");
    }
    let (edit, state) = edit_of_revision(max, request("p"), "Read it again.");
    let with = |unnamed: u32| {
        let revisions = (1..=max).map(|number| StoredRevision { number, is_named: number != unnamed }).collect();
        StoredState { revisions, ..state.clone() }
    };
    let plan = written(decide(&edit, &with(5)));
    assert!(plan.rows.contains(&RowWrite::RemoveRevision(5)), "{plan:?}");
    assert_eq!(revision(&plan).map(|(number, _)| number), Some(max + 1));
    assert_eq!(refused(decide(&edit, &with(0))), Reason::LimitReached);
    let (unchanged, _) = edit_of_revision(max, request("p"), &golden::prompt().latest.content);
    assert!(decide(&unchanged, &with(0)).is_ok(), "a write without a revision");
}

#[test]
fn the_thread_of_a_call_names_the_newest_revision() {
    let thread = RevisionName::Thread(TurnId::new(ThreadId::derive(&["thread"]), 1));
    let (edit, state) = edit_of_revision(3, call(), "Read it again.");
    let plan = written(decide(&edit, &state));
    let names = plan.rows.iter().find_map(|row| match row {
        RowWrite::PutRevision { names, .. } => Some(names.clone()),
        _ => None,
    });
    assert_eq!(names, Some(RevisionNames::of(Some(thread.clone()), golden::prompt().references())));
    let (unchanged, _) = edit_of_revision(3, call(), &golden::prompt().latest.content);
    let plan = written(decide(&unchanged, &state));
    assert_eq!(plan.name_revisions, [NewName { of: plan.id.clone(), number: 3, name: thread }]);
}

#[test]
fn a_rename_adds_no_revision() {
    let id = SchemaId::derive(&["schema"]);
    let schema_write = |expected, change| ResourceWrite::new::<Schema>(&id, write(request("s"), expected, change));
    let format = json!({"b": 1, "a": 2});
    let create = SchemaChange::Create { name: "s".into(), response_format: format.clone(), strict: true };
    let first = written(decide(&schema_write(Expected::Absent, create), &StoredState::default()));
    let state = StoredState { record: Some(record(&first)), ..StoredState::default() };
    let update = |name: Option<&str>, format: Option<(Value, bool)>| SchemaChange::Update {
        name: name.map(str::to_owned),
        response_format: format,
        review_rule: None,
    };
    for (change, version, revision) in [
        (update(Some("t"), None), 2, None),
        (update(None, Some((format.clone(), true))), 1, None),
        (update(Some("s"), None), 1, None),
        (update(None, Some((format.clone(), false))), 2, Some(2)),
        (update(None, Some((json!({"a": 2, "b": 1}), true))), 2, Some(2)),
    ] {
        let plan = written(decide(&schema_write(Expected::Version(1), change.clone()), &state));
        let number = super::tests::revision(&plan).map(|(number, _)| number);
        assert_eq!((plan.version(), number), (version, revision), "{change:?}");
    }
}

#[test]
fn a_rename_of_a_prompt_adds_no_revision() {
    let sample = golden::prompt();
    let rename = PromptChange::Update(PromptUpdate { name: Some("q".into()), ..PromptUpdate::default() });
    let write = ResourceWrite::new::<Prompt>(&sample.id, write(request("p"), Expected::Version(9), rename));
    let stored = encode_value(Prompt::KIND, Prompt::FORMAT, &Record::Live(sample.clone())).unwrap();
    let plan = written(decide(&write, &StoredState { record: Some(stored), ..StoredState::default() }));
    assert_eq!((plan.version(), revision(&plan)), (10, None));
    let latest = PromptRevision { name: "q".into(), ..sample.latest.clone() };
    let renamed = Prompt { version: 10, latest, ..sample };
    assert_eq!(read::<Prompt>(&record(&plan)).unwrap(), Record::Live(renamed));
}

#[test]
fn a_revision_keeps_the_fields_of_a_newer_build_that_its_predecessor_has() {
    let sample = golden::prompt();
    let mut stored = json!({ "live": sample });
    stored["live"]["owner"] = json!("a team");
    stored["live"]["latest"]["priority"] = json!(0.5);
    let content = Some("Read it again.".to_owned());
    let edit = PromptChange::Update(PromptUpdate { content, ..PromptUpdate::default() });
    let write = ResourceWrite::new::<Prompt>(&sample.id, write(request("p"), Expected::Version(9), edit));
    let bytes = [&[Prompt::FORMAT], stored.to_string().as_bytes()].concat();
    let plan = written(decide(&write, &StoredState { record: Some(bytes), ..StoredState::default() }));
    let (number, revision) = revision(&plan).unwrap();
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(&bytes[1..]).unwrap();
    let (after, revision) = (json(&record(&plan))["live"].clone(), json(&revision));
    assert_eq!((number, &after["owner"], &after["latest"]), (4, &json!("a team"), &revision));
    assert_eq!((&revision["content"], &revision["priority"]), (&json!("Read it again."), &json!(0.5)));
}

/// Deletes a sample, and a resource that never existed.
fn assert_deletion<R: Resource>(sample: &R) {
    let id = sample.id();
    let delete = |expected| ResourceWrite::new::<R>(id, write(request("delete"), expected, R::DELETE));
    let existing = delete(Expected::Version(sample.version()));
    assert!(existing.deletes);
    assert_eq!(
        format!("{existing:?}"),
        format!("ResourceWrite {{ id: {:?}, op: {:?}, .. }}", existing.id, existing.op)
    );
    let stored = encode_value(R::KIND, R::FORMAT, &Record::Live(sample.clone())).unwrap();
    let plan = written(decide(&existing, &StoredState { record: Some(stored), ..StoredState::default() }));
    assert_eq!(plan.answer.state, OpState::Done(OpResult::Deleted));
    let version = sample.version() + 1;
    assert_eq!(plan.kind.read(&record(&plan)).unwrap(), Record::Tombstone { version, at: at(5) });
    let missing = refused(decide(&delete(Expected::Absent), &StoredState::default()));
    assert_eq!(missing, Reason::NotFound, "{}", R::KIND);
}

#[test]
fn a_deletion_of_any_kind_leaves_a_tombstone_and_requires_the_resource() {
    assert_deletion(&golden::document());
    assert_deletion(&golden::schema());
    assert_deletion(&golden::prompt());
    assert_deletion(&golden::tag());
    assert_deletion(&golden::extraction());
    assert_deletion(&golden::proposal());
    assert_deletion(&golden::organization());
    assert_deletion(&golden::token());
}

#[test]
fn an_update_of_a_document_removes_the_references_of_its_old_tags() {
    let id = DocumentId::derive(&["document"]);
    let new = NewDocument {
        tags: tags(&["one", "two"]),
        ..NewDocument::file("a.txt", "text/plain", b"hello", BlobId::derive(&["blob"]))
    };
    let document_write = |expected, change| ResourceWrite::new::<Document>(&id, write(request("d"), expected, change));
    let first =
        written(decide(&document_write(Expected::Absent, DocumentChange::Create(new)), &StoredState::default()));
    assert_eq!(first.list_after.as_ref().map(|listed| listed.row.size_bytes), Some(5));
    let state = StoredState { record: Some(record(&first)), ..StoredState::default() };
    let patch = DocumentPatch { tags: Some(tags(&["two", "three"])), ..DocumentPatch::default() };
    let second = written(decide(&document_write(Expected::Version(1), DocumentChange::Update(patch)), &state));
    assert_eq!(second.add_references, ids(&tags(&["three"])));
    assert_eq!(second.remove_references, ids(&tags(&["one"])));
    let delete = written(decide(&document_write(Expected::Version(1), DocumentChange::Delete), &state));
    assert_eq!(delete.remove_references, ids(&tags(&["one", "two"])));
    assert_eq!(delete.reserve_name, None, "documents have no unique names");
}

#[test]
fn an_extraction_is_added_to_its_document_once_and_an_edit_resets_verified() {
    let (id, document) = (ExtractionId::derive(&["extraction"]), DocumentId::derive(&["document"]));
    let extraction_write =
        |expected, change| ResourceWrite::new::<Extraction>(&id, write(request("e"), expected, change));
    let new = NewExtraction {
        document: document.clone(),
        prompt: PromptRevId::new(PromptId::derive(&["prompt"]), 2),
        schema: None,
        model: "model".into(),
        data: json!({"a": 1}),
        report: ExtractionReport::default(),
        approvals: None,
    };
    let create = extraction_write(Expected::Absent, ExtractionChange::Create(Box::new(new)));
    let mut plan = written(decide(&create, &StoredState::default()));
    assert_eq!(plan.add_to_parent, Some(document.to_string()));
    let named: Vec<_> = plan.name_revisions.iter().map(|new| (new.of.clone(), new.number)).collect();
    assert_eq!(named, [(PromptId::derive(&["prompt"]).to_string(), 2)]);
    for (version, change, verified) in [
        (1, ExtractionChange::Verify { verified: true }, true),
        (2, ExtractionChange::Edit { data: json!(1) }, false),
        (3, ExtractionChange::Verify { verified: true }, true),
        (4, ExtractionChange::Verify { verified: false }, false),
    ] {
        let state = StoredState { record: Some(record(&plan)), ..StoredState::default() };
        plan = written(decide(&extraction_write(Expected::Version(version), change), &state));
        let [RowWrite::InsertOp(stored), RowWrite::PutData { version: of, data, .. }] = plan.rows.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!((*of, stored.data_version()), (version + 1, Some(version + 1)));
        assert_eq!(stored.clone().replace_data(data.clone()), Some(Value::Null), "the op row has no data");
        assert_eq!(plan.name_revisions, []);
        let Record::Live(found) = read::<Extraction>(&record(&plan)).unwrap() else { panic!("{plan:?}") };
        assert_eq!((found.version, found.verified, found.verified_by.is_some()), (version + 1, verified, verified));
        assert_eq!((plan.add_to_parent.as_ref(), &found.original), (None, &json!({"a": 1})));
    }
}

#[test]
fn only_an_aborted_op_without_a_digest_is_closed_by_another() {
    let row = OpRow { op: request("a"), digest: OpRow::unknown_digest(), state: OpState::Aborted, at: at(1) };
    assert!(row.is_closed_by_another());
    assert!(!OpRow { state: OpState::Conflict, ..row.clone() }.is_closed_by_another());
    assert!(!OpRow { digest: Digest::of(b"x"), ..row }.is_closed_by_another());
}

proptest! {
    /// Checks that a write increments the version or keeps it, and that deciding twice yields the same plan.
    #[test]
    fn versions_only_grow(changes in prop::collection::vec((0..4_u8, 0..3_u8), 1..30)) {
        let mut state = StoredState::default();
        let mut version = None;
        for (which, name) in changes {
            let name = ["a", "A", "b"][usize::from(name)];
            let change = match which {
                0 => create_tag(name),
                1 => rename(name),
                2 => TagChange::Update { name: None, color: Some(Some(name.into())), description: None },
                _ => TagChange::Delete,
            };
            let expected = version.map_or(Expected::Absent, Expected::Version);
            let write = tag_write(request("a"), expected, change);
            let decision = decide(&write, &state);
            prop_assert_eq!(&decision.clone().map_err(|error| error.reason),
                &decide(&write, &state).map_err(|error| error.reason));
            if let Ok(WriteDecision::Write(plan)) = decision {
                let now = plan.version();
                prop_assert!(version.is_none_or(|before| now == before || now == before + 1));
                let unchanged = version == Some(now);
                prop_assert!(!unchanged || state.record == Some(record(&plan)));
                (state.record, version) = (Some(record(&plan)), Some(now));
            }
        }
    }

    /// Arbitrary bytes are refused or read without a panic.
    #[test]
    fn arbitrary_records_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for kind in KINDS {
            let _ = kind.read(&bytes);
            let _ = kind.revision_references(&bytes);
        }
    }
}
