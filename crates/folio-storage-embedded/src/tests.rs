//! Tests of the stored rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use folio_credit::{Account, AccountChange, AccountChangeOutcome, Grant, GrantKind, LedgerRow};
use folio_history::job::JobRecord;
use folio_history::journal::{End, Ended, Entry};
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter};
use folio_resources::{
    Document, DocumentChange, KINDS, Kind, Member, MemberWrite, NewDocument, NewPrompt, Prompt, PromptChange,
    RevisionName, RevisionNames, Tag, TagChange, TextState,
};
use folio_storage::value::{Count, decode};
use folio_storage::{IngestUpdate, TextWait};
use folio_types::message::FinishReason;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{
    BlobId, BlockId, Code, Digest, DocumentId, GrantId, OrgId, Principal, PromptId, Role, TagId, ThreadId, Timestamp,
    TurnId, UserId,
};
use serde_json::Value;

use super::keys::Space;
use super::reads::{Range, Reads as _};
use super::revisions::EvaluatedRevisions;
use super::*;

/// Returns all rows of a keyspace.
fn rows(engine: &Engine, space: Space) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let all = Range { space, start: Vec::new(), end: vec![u8::MAX], reverse: false };
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(String::from_utf8(key.to_vec()).unwrap(), value.to_vec());
        Ok(ControlFlow::Continue(()))
    };
    engine.read(|view| view.walk(all, &mut visit)).unwrap();
    found
}

/// Returns the parts before the first slash of all keys in a keyspace.
fn first_key_parts(engine: &Engine, space: Space) -> BTreeSet<String> {
    rows(engine, space).into_keys().map(|key| key.split('/').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn invariant_6_every_key_that_a_request_can_reach_begins_with_its_organization() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    for name in folio_storage_conformance::names() {
        folio_storage_conformance::run(name, store.stores(), "keys").await.unwrap();
    }
    // The suites leave no text in the store. The scenario contains text before its last steps.
    for step in 0..folio_storage_conformance::STEPS - 8 {
        folio_storage_conformance::step(&store.stores(), step).await.unwrap();
    }
    for space in [Space::Records, Space::Threads, Space::Text] {
        let found = first_key_parts(&store.engine, space);
        assert!(!found.is_empty(), "nothing in {space:?}");
        for beginning in found {
            assert!(beginning.parse::<folio_types::OrgId>().is_ok(), "{beginning} in {space:?}");
        }
    }
    let expected = [
        "deleted",
        "job_expiry",
        "missing_program",
        "op_data",
        "open_job",
        "open_turn",
        "pending_text",
        "probe",
        "request",
        "thread_expiry",
    ];
    let system = first_key_parts(&store.engine, Space::System);
    assert!(system.iter().all(|beginning| expected.contains(&beginning.as_str())), "{system:?}");
    store.close().await;
}

/// Returns the version of each live resource and the fence of each live job, by the key of the record; and those in the small rows
/// that polls read.
fn versions(found: &BTreeMap<String, Vec<u8>>) -> [BTreeMap<String, String>; 2] {
    let (mut of_records, mut of_rows) = (BTreeMap::new(), BTreeMap::new());
    for (key, bytes) in found {
        let live = match key.split('/').collect::<Vec<_>>()[..] {
            [_, "version", _] => {
                of_rows.insert(key.replacen("/version/", "/", 1), format!("{}", decode::<Count>(bytes).unwrap().0));
                continue;
            }
            [_, "job", _, "fence"] => {
                of_rows.insert(key.clone(), format!("{:?}", decode::<Fence>(bytes).unwrap()));
                continue;
            }
            [org, kind, id] => {
                let kind = KINDS.iter().find(|of| of.name == kind);
                let fields = kind.and_then(|kind| kind.read(bytes).unwrap().live());
                fields.map(|fields| (format!("{org}/{id}"), fields.version.to_string()))
            }
            [org, "job", id, "header"] => {
                let header = decode::<JobRecord>(bytes).unwrap().live();
                header.map(|header| (format!("{org}/job/{id}/fence"), format!("{:?}", header.fence())))
            }
            _ => None,
        };
        of_records.extend(live);
    }
    [of_records, of_rows]
}

#[tokio::test]
async fn polls_read_versions_and_fences_instead_of_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    for suite in ["resources", "jobs"] {
        folio_storage_conformance::run(suite, store.stores(), "polls").await.unwrap();
    }
    let found = rows(&store.engine, Space::Records);
    let [of_records, of_rows] = versions(&found);
    assert_eq!(of_records, of_rows);
    let has = |part: &str| of_rows.keys().any(|key| key.contains(part));
    assert!(has("/ext_") && has("/job/"), "{of_rows:?}");

    let (row, version) = of_rows.iter().find(|(key, _)| key.contains("/tag_")).unwrap();
    let (org, id) = row.split_once('/').unwrap();
    let key = format!("{org}/tag/{id}");
    let (org, id, version): (OrgId, String, u64) = (org.parse().unwrap(), id.to_owned(), version.parse().unwrap());
    let kind = Kind::of_id(&id).unwrap();
    let write = async |bytes: Vec<u8>, has_row: bool| {
        let (key, row) = (key.clone().into_bytes(), keys::version(&org, &id));
        let write = move |transaction: &mut transaction::Transaction<'_>| {
            if !has_row {
                transaction.remove(Space::Records, row);
            }
            transaction.put_bytes(Space::Records, key, bytes)
        };
        store.engine.write(write).await.unwrap();
        store.stores().resources.versions(&org, kind, std::slice::from_ref(&id)).await
    };
    assert_eq!(write(b"unreadable".to_vec(), true).await, Ok(vec![Some(version)]), "the record is not decoded");
    assert!(write(b"unreadable".to_vec(), false).await.is_err());
    assert_eq!(write(found[&key].clone(), false).await, Ok(vec![Some(version)]), "an older version wrote no row");
    store.close().await;
}

#[tokio::test]
async fn the_references_of_a_revision_that_v0_1_0_wrote_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let (stores, org) = (store.stores(), OrgId::derive(&["an organization"]));
    let (tag, id) = (TagId::derive(&["used"]), PromptId::derive(&["a prompt"]));
    let at = Timestamp::constant(1_790_000_000, 0);
    let create = TagChange::Create { name: "used".to_owned(), color: None, description: None };
    let write = Write::by_platform(org.clone(), "tag".parse().unwrap(), at, Expected::Absent, create);
    stores.of::<Tag>().decide(&tag, write).await.unwrap();
    let change = async |op: &str, expected, change| {
        let write = Write::by_platform(org.clone(), op.parse().unwrap(), at, expected, change);
        let decided = stores.of::<Prompt>().decide(&id, write).await.unwrap();
        assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
    };
    let new = NewPrompt { name: "a prompt".to_owned(), tags: vec![tag.clone()], ..NewPrompt::default() };
    change("create", Expected::Absent, PromptChange::Create(new)).await;
    let key = keys::names_of_revision(&org, id.as_str(), 1);
    let forget = move |transaction: &mut transaction::Transaction<'_>| {
        transaction.put(Space::Records, key, &RevisionNames::default())
    };
    store.engine.write(forget).await.unwrap();
    let referrers = || {
        let prefix = String::from_utf8(keys::references(&org, tag.as_str())).unwrap();
        rows(&store.engine, Space::Records).keys().filter(|key| key.starts_with(&prefix)).count()
    };
    assert_eq!(referrers(), 1);

    change("delete", Expected::Version(1), PromptChange::Delete).await;
    stores.of::<Prompt>().clean_deleted(&org, &id, true).await.unwrap();
    assert_eq!(referrers(), 0);
    store.close().await;
}

#[tokio::test]
async fn an_evaluation_of_revisions_is_current_until_the_row_of_names_changes() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let (org, id) = (OrgId::derive(&["an organization"]), PromptId::derive(&["a prompt"]).to_string());
    let put = async |number: u32, names: RevisionNames| {
        let key = keys::names_of_revision(&org, &id, number);
        store.engine.write(move |transaction| transaction.put(Space::Records, key, &names)).await.unwrap();
    };
    let read = || store.engine.read(|view| EvaluatedRevisions::read(view, &org, &id)).unwrap();
    let is_current =
        |evaluated: &EvaluatedRevisions| store.engine.read(|view| evaluated.is_current(view, &org, &id)).unwrap();
    let full = || RevisionNames { is_full: true, ..RevisionNames::default() };
    put(1, full()).await;
    for number in [4, 7, 8] {
        put(number, RevisionNames::default()).await;
    }

    let evaluated = read();
    let found: Vec<_> = evaluated.stored.iter().map(|revision| (revision.number, revision.is_named)).collect();
    assert_eq!(found, [(1, true), (4, false), (7, true), (8, true)], "nothing after the oldest is evaluated");
    put(7, full()).await;
    assert!(is_current(&evaluated), "the names of another revision");
    let thread = TurnId::new(ThreadId::derive(&["missing"]), 1);
    let of_missing = RevisionNames::of(Some(RevisionName::Thread(thread)), BTreeSet::new());
    put(4, of_missing).await;
    assert!(!is_current(&evaluated), "another row of names");
    assert!(is_current(&read()), "the thread does not exist");

    put(4, full()).await;
    let evaluated = read();
    assert!(evaluated.stored.iter().all(|revision| revision.is_named), "the newest revision is not removed");
    put(4, RevisionNames::default()).await;
    assert!(is_current(&evaluated), "a refusal precedes the removal of the name");
    store.close().await;
}

const FIELD: &str = "written_by_a_newer_build";

/// Returns the fields of a value that processes change. None: the value is a tombstone or of another kind.
fn fields<'a>(key: &str, value: &'a mut Value) -> Option<&'a mut serde_json::Map<String, Value>> {
    let is_changed = |part: &str| ["text_state", "account", "row", "ledger"].contains(&part);
    match value.get("live") {
        Some(_) => value.get_mut("live").and_then(Value::as_object_mut),
        None => value.as_object_mut().filter(|_| key.split('/').nth(1).is_some_and(is_changed)),
    }
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + i64::try_from(second).unwrap()).unwrap()
}

/// Changes an account, a member, a ledger row and a text of the scenario's organization.
async fn change_other_kinds(stores: &Stores, number: u64) -> Result<()> {
    let org = OrgId::derive(&["scenario", ""]);
    let name = number.to_string();
    let state = TextState::Processing;
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: at(number) };
    stores.texts.ingest(&org, DocumentId::derive(&["scenario"]).as_str(), update).await?;

    let mut account: Account = stores.credit.account(&org).await?;
    let (expected, grant) = (account.version, Grant::new(GrantId::derive(&[&name]), GrantKind::Admin, 10, at(number)));
    let entry = account.grant(grant, at(number))?;
    let change = AccountChange { org: org.clone(), expected, account, entry };
    assert_eq!(stores.credit.change_account(change).await?, AccountChangeOutcome::Done);

    let (access, user) = (stores.access(), UserId::derive(&["user"]));
    let before = access.member(&org, &user).await?;
    let member = before.clone().unwrap_or_else(|| Member::new(user, "user", Role::Admin, at(0)));
    assert!(access.write_member(&org, MemberWrite::unguarded(before, Member { name: name.clone(), ..member })).await?);

    let block = BlockId::derive(&["block"]);
    for row in stores.credit.ledger(&org, &block).await?.rows.iter().filter(|row| row.settled.is_none()) {
        stores.credit.settle(&org, &block, row.settled_as_reserved(at(number))).await?;
    }
    stores.credit.reserve(&org, &block, LedgerRow::new(&name, UserId::derive(&["user"]), 1, at(number))).await?;
    Ok(())
}

#[tokio::test]
async fn every_change_keeps_the_fields_that_a_newer_build_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let mut added: BTreeMap<(&str, String), Vec<u8>> = BTreeMap::new();
    let mut changed = BTreeSet::new();
    for step in 0..folio_storage_conformance::STEPS {
        folio_storage_conformance::step(&store.stores(), step).await.unwrap();
        change_other_kinds(&store.stores(), step as u64).await.unwrap();
        for (name, space) in [("records", Space::Records), ("threads", Space::Threads)] {
            for (key, stored) in rows(&store.engine, space) {
                let mut value: Value = serde_json::from_slice(&stored[1..]).unwrap();
                let Some(fields) = fields(&key, &mut value) else { continue };
                match added.get(&(name, key.clone())) {
                    Some(before) if *before == stored => continue,
                    Some(_) => {
                        assert!(fields.contains_key(FIELD), "step {step} dropped the field of {key}");
                        changed.insert(key.split('/').nth(1).unwrap_or_default().split('_').next().unwrap().to_owned());
                    }
                    None => drop(fields.insert(FIELD.to_owned(), FIELD.into())),
                }
                let bytes = [&stored[..1], value.to_string().as_bytes()].concat();
                added.insert((name, key.clone()), bytes.clone());
                let put = move |transaction: &mut transaction::Transaction<'_>| {
                    transaction.put_bytes(space, key.into_bytes(), bytes)
                };
                store.engine.write(put).await.unwrap();
            }
        }
    }
    for kind in ["account", "document", "ledger", "prompt", "row", "text", "thr"] {
        assert!(changed.contains(kind), "the scenario changes no {kind}: {changed:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn unreadable_rows_of_indexes_are_skipped_and_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let (stores, org, now) =
        (store.stores(), OrgId::derive(&["an organization"]), Timestamp::constant(1_790_000_000, 0));
    let (thread, document) = (ThreadId::derive(&["t"]), DocumentId::derive(&["d"]));
    let principal = Principal::new(org.clone(), UserId::derive(&["u"]), Role::Member);
    stores.threads.create(NewThread::new(thread.clone(), &principal, "document", Vec::new(), now)).await.unwrap();
    assert!(stores.threads.expire_unused(&org, &thread, Fence { epoch: 0, version: 0 }, now).await.unwrap());
    let new = NewDocument::file("a.txt", "text/plain", b"text", BlobId::derive(&["b"]));
    for (op, expected, change) in [
        ("create", Expected::Absent, DocumentChange::Create(new)),
        ("delete", Expected::Version(1), DocumentChange::Delete),
    ] {
        let write = Write::by_platform(org.clone(), op.parse().unwrap(), now, expected, change);
        stores.of::<Document>().decide(&document, write).await.unwrap();
    }
    // Each damaged row precedes the others of its index.
    let indexes = [
        "job_expiry/",
        "missing_program/",
        "op_data/",
        "open_job/",
        "open_turn/",
        "pending_text/",
        "request/",
        "thread_expiry/",
    ];
    let deletion = keys::deleted("document", Timestamp::UNIX_EPOCH, &org, "damaged");
    let damaged: Vec<Vec<u8>> = indexes.iter().map(|index| index.as_bytes().to_vec()).chain([deletion]).collect();
    let count = damaged.len();
    let write = move |transaction: &mut transaction::Transaction<'_>| {
        damaged.into_iter().try_for_each(|key| transaction.put_bytes(Space::System, key, b"damaged".to_vec()))
    };
    store.engine.write(write).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stores.threads.expired(now, 1).await.unwrap(), [(org.clone(), thread.clone())]);
        let times = Timestamp::MIN..=Timestamp::MAX;
        let deletions = stores.of::<Document>().indexed_deletions(&times, None, 1).await.unwrap();
        assert_eq!(deletions.len(), 1);
        assert!(stores.jobs.expired(now, 1).await.unwrap().is_empty());
        assert!(stores.jobs.open(None, 1).await.unwrap().is_empty());
        assert!(stores.open_turns.scan(None, 1).await.unwrap().is_empty());
        assert!(stores.ops.indexed_data(now, 1).await.unwrap().is_empty());
        for wait in [TextWait::Worker, TextWait::Program] {
            stores.texts.waiting_texts(wait, None, 1).await.unwrap();
        }
        stores.ops.forget_requests(now, 1).await.unwrap();
    }
    assert_eq!(stores.unreadable.count(), count);
    drop(stores);
    store.close().await;
}

#[tokio::test]
async fn an_unreadable_thread_keeps_no_other_thread_of_a_deleted_document() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let (stores, org, now) =
        (store.stores(), OrgId::derive(&["an organization"]), Timestamp::constant(1_790_000_000, 0));
    let document = DocumentId::derive(&["d"]);
    create_document(&stores, &org, &document, now).await;
    let mut threads = ["a", "b", "c"].map(|name| ThreadId::derive(&[name]));
    threads.sort();
    let principal = Principal::new(org.clone(), UserId::derive(&["u"]), Role::Member);
    for thread in &threads {
        let new = NewThread::new(thread.clone(), &principal, "document", vec![document.clone()], now);
        stores.threads.create(new).await.unwrap();
    }
    let [damaged, others @ ..] = &threads;
    let key = keys::thread(&org, damaged);
    let write = move |transaction: &mut transaction::Transaction<'_>| {
        transaction.put_bytes(Space::Threads, key, b"damaged".to_vec())
    };
    store.engine.write(write).await.unwrap();
    let error = stores.threads.expire_referrers(&org, document.as_str(), now).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoredFormat);
    let expired = stores.threads.expired(now, 10).await.unwrap();
    assert_eq!(expired.into_iter().map(|(_, thread)| thread).collect::<Vec<_>>(), others);
    drop(stores);
    store.close().await;
}

/// Number of entries of a long thread, which has the rows of a header, a batch and a request, too.
const ENTRIES: usize = 50;

async fn create_document(stores: &Stores, org: &OrgId, document: &DocumentId, at: Timestamp) {
    let create = DocumentChange::Create(NewDocument::file("a.txt", "text/plain", b"text", BlobId::derive(&["b"])));
    let write = Write::by_platform(org.clone(), "create".parse().unwrap(), at, Expected::Absent, create);
    stores.of::<Document>().decide(document, write).await.unwrap();
}

/// Creates a thread whose rows need several pages. Returns its only append.
async fn create_long(stores: &Stores, thread: NewThread) -> Append {
    let (org, id, at) = (thread.org.clone(), thread.id.clone(), thread.at);
    let end = End::Completed { text: "answer".to_owned(), thinking: Vec::new(), finish: FinishReason::Stop };
    let entries = vec![Entry::Ended(Box::new(Ended::new(1, end, 1, at))); ENTRIES];
    let request = RequestRow { request: "request".parse().unwrap(), turn: 1, digest: Digest::of(b"request") };
    let fence = stores.threads.create(thread).await.unwrap().fence();
    let append = Append { entries, request: Some(request), ..Append::new(1, fence, at) };
    let appended = stores.threads.append(&org, &id, append.clone()).await.unwrap();
    assert!(matches!(appended, Appended::Done(_)), "{appended:?}");
    append
}

/// Returns the keys that contain the id of a thread.
fn keys_of(engine: &Engine, thread: &ThreadId) -> Vec<String> {
    let spaces = [Space::Records, Space::Threads, Space::Text, Space::System];
    let keys = spaces.into_iter().flat_map(|space| rows(engine, space).into_keys());
    keys.filter(|key| key.contains(thread.as_str())).collect()
}

#[tokio::test]
async fn a_deletion_of_a_thread_that_is_interrupted_between_pages_leaves_nothing() {
    let (org, now) = (OrgId::derive(&["an organization"]), Timestamp::constant(1_790_000_000, 0));
    let principal = Principal::new(org.clone(), UserId::derive(&["u"]), Role::Member);
    let document = DocumentId::derive(&["d"]);
    // The keys that remain after each page: the tombstone, the row of the index, and the rows of further pages.
    for (pages, remaining) in [(0, 44), (1, 34), (5, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let stores = store.stores();
        create_document(&stores, &org, &document, now).await;
        let new = NewThread::new(ThreadId::derive(&["long"]), &principal, "document", vec![document.clone()], now);
        let new = NewThread { expires_at: Some(now), ..new };
        let (thread, append) = (new.id.clone(), create_long(&stores, new.clone()).await);
        let request = append.request.unwrap().request;
        assert_eq!(stores.threads.entries(&org, &thread, 0, ENTRIES + 1).await.unwrap().len(), ENTRIES);

        let (of_org, id) = (org.clone(), thread.clone());
        let delete =
            move |transaction: &mut transaction::Transaction<'_>| threads::delete(transaction, &of_org, &id, None);
        assert!(store.engine.write(delete).await.unwrap(), "the rows need several pages");
        for _ in 0..pages {
            let (range, header) = (keys::thread_rows(&org, &thread), keys::thread(&org, &thread));
            let remove = move |transaction: &mut transaction::Transaction<'_>| {
                deletions::remove_first_rows(transaction, Range::prefix(Space::Threads, range), &header)
            };
            store.engine.write_lazily(remove).await.unwrap();
        }
        let found = keys_of(&store.engine, &thread);
        assert_eq!(found.len(), remaining, "after {pages} further pages: {found:#?}");

        assert_eq!(stores.threads.header(&org, &thread).await.unwrap(), None);
        assert!(stores.threads.entries(&org, &thread, 0, ENTRIES).await.unwrap().is_empty());
        assert_eq!(stores.threads.request(&org, &thread, &request).await.unwrap(), None);
        assert!(!stores.threads.has_batch(&org, &thread, append.batch).await.unwrap());
        let listed = stores.threads.list(&org, &ThreadFilter::default(), &PageRequest::default()).await.unwrap();
        assert!(listed.items.is_empty(), "{:?}", listed.items);
        assert_eq!(stores.resources.content_bytes(&org).await.unwrap(), 0);
        drop(stores);
        store.close().await;

        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let stores = store.stores();
        assert_eq!(stores.threads.expired(now, 10).await.unwrap(), [(org.clone(), thread.clone())]);
        match pages {
            0 => stores.threads.delete(&org, &thread, None).await.unwrap(),
            _ => assert!(stores.threads.remove_unused(&org, &thread).await.unwrap()),
        }
        let tombstone = String::from_utf8(keys::thread(&org, &thread)).unwrap();
        assert_eq!(keys_of(&store.engine, &thread), [tombstone]);
        assert!(stores.threads.expired(now, 10).await.unwrap().is_empty());
        let refused = stores.threads.create(new).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
        drop(stores);
        store.close().await;
    }
}

#[tokio::test]
async fn a_deletion_of_a_long_thread_removes_all_pages() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    let (stores, org, now) =
        (store.stores(), OrgId::derive(&["an organization"]), Timestamp::constant(1_790_000_000, 0));
    let principal = Principal::new(org.clone(), UserId::derive(&["u"]), Role::Member);
    let [deleted, unused, other] = ["a", "b", "c"].map(|name| ThreadId::derive(&[name]));
    for thread in [&deleted, &unused, &other] {
        create_long(&stores, NewThread::new(thread.clone(), &principal, "document", Vec::new(), now)).await;
    }
    let before = keys_of(&store.engine, &other);
    stores.threads.delete(&org, &deleted, None).await.unwrap();
    assert!(stores.threads.remove_unused(&org, &unused).await.unwrap());
    for thread in [&deleted, &unused] {
        let tombstone = String::from_utf8(keys::thread(&org, thread)).unwrap();
        assert_eq!(keys_of(&store.engine, thread), [tombstone]);
    }
    assert_eq!(keys_of(&store.engine, &other), before);
    assert!(stores.threads.expired(now, 10).await.unwrap().is_empty());
    drop(stores);
    store.close().await;
}
