//! Tests of the index of deletions, and tests that the clean-up of a deleted resource removes a bounded number of rows at
//! once.

use folio_history::thread::NewThread;
use folio_resources::{Document, DocumentChange, NewDocument, NewPrompt, Prompt, PromptChange, PromptUpdate};
use folio_storage::Stores;
use folio_storage::value::DeletionRow;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{BlobId, DocumentId, ExtractionId, OrgId, Principal, PromptId, Role, ThreadId, Timestamp, UserId};

use crate::protocol::fixture;
use crate::{nonce, open_shared_stores};

/// Number of revisions. The clean-up reads and removes at most 50 at once.
const REVISIONS: u64 = 101;
/// Number of extractions and of threads. The clean-up reads at most 100 at once.
const ENTRIES: u32 = 205;

async fn decide(stores: &Stores, org: &OrgId, id: &PromptId, version: u64, change: PromptChange) {
    let expected = if version == 0 { Expected::Absent } else { Expected::Version(version) };
    let key = format!("{id}:{version}").parse().unwrap();
    let write = Write::by_platform(org.clone(), key, Timestamp::constant(1_790_000_000, 0), expected, change);
    let decided = stores.of::<Prompt>().decide(id, write).await.unwrap();
    assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
}

#[tokio::test]
async fn the_revisions_of_a_deleted_prompt_are_removed_in_pages() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let (stores, id) = (&opened.stores, PromptId::derive(&[org.as_str(), "a prompt"]));
    let (name, content) = ("a prompt".to_owned(), "revision 0".to_owned());
    let create = PromptChange::Create(NewPrompt { name, content, ..NewPrompt::default() });
    decide(stores, &org, &id, 0, create).await;
    for version in 1..REVISIONS {
        let content = Some(format!("revision {version}"));
        let update = PromptChange::Update(PromptUpdate { content, ..PromptUpdate::default() });
        decide(stores, &org, &id, version, update).await;
    }
    decide(stores, &org, &id, REVISIONS, PromptChange::Delete).await;
    let conditional_writes = || {
        let calls = stores.health.call_counters().unwrap().calls;
        calls.into_iter().filter(|(kind, _)| *kind == "conditional_write").map(|(_, calls)| calls).sum::<u64>()
    };
    let before = conditional_writes();
    stores.of::<Prompt>().clean_deleted(&org, &id, false).await.unwrap();
    let batches = conditional_writes() - before;
    assert!(batches >= 3, "{batches} batches removed {REVISIONS} revisions");
    let left = stores.resources.revision_numbers(&org, &id.to_string()).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    stores.of::<Prompt>().clean_deleted(&org, &id, true).await.unwrap();
}

#[tokio::test]
async fn the_references_of_a_revision_that_v0_1_0_wrote_are_removed() {
    let fixture = fixture().await;
    fixture.create("used", "used").await.unwrap();
    let (org, tag) = (&fixture.org, fixture.id("used"));
    let id = PromptId::derive(&[org.as_str(), "a prompt"]);
    let new = NewPrompt { name: "a prompt".to_owned(), tags: vec![tag.clone()], ..NewPrompt::default() };
    decide(&fixture.stores, org, &id, 0, PromptChange::Create(new)).await;
    fixture.forget_references(id.as_str(), 1).await;
    assert_eq!(fixture.references(&tag).await, 1);

    decide(&fixture.stores, org, &id, 1, PromptChange::Delete).await;
    fixture.stores.of::<Prompt>().clean_deleted(org, &id, true).await.unwrap();
    assert_eq!(fixture.references(&tag).await, 0);
}

#[tokio::test]
async fn the_entries_of_a_deleted_document_are_read_in_pages() {
    let fixture = fixture().await;
    let (stores, org, at) = (&fixture.stores, &fixture.org, Timestamp::constant(1_790_000_000, 0));
    let document = DocumentId::derive(&[org.as_str()]);
    let decide = async |op: &str, expected: Expected, change: DocumentChange| {
        let write = Write::by_platform(org.clone(), op.parse().unwrap(), at, expected, change);
        let decided = stores.of::<Document>().decide(&document, write).await.unwrap();
        assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
    };
    let new = NewDocument::file("a.txt", "text/plain", b"text", BlobId::derive(&["b"]));
    decide("create", Expected::Absent, DocumentChange::Create(new)).await;
    let mut threads: Vec<_> = (0..ENTRIES).map(|number| ThreadId::derive(&[&number.to_string()])).collect();
    threads.sort();
    let last = threads.pop().unwrap();
    for thread in &threads {
        fixture.enter(document.as_str(), "thread", thread.as_str()).await;
    }
    let principal = Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member);
    let thread = NewThread::new(last.clone(), &principal, "document", vec![document.clone()], at);
    stores.threads.create(thread).await.unwrap();
    for number in 0..ENTRIES {
        let extraction = ExtractionId::derive(&[&number.to_string()]);
        fixture.enter(document.as_str(), "dependent", extraction.as_str()).await;
    }

    stores.threads.expire_referrers(org, document.as_str(), at).await.unwrap();
    let header = stores.threads.header(org, &last).await.unwrap().unwrap();
    assert_eq!(header.expires_at, Some(at), "the thread of the last page");
    decide("delete", Expected::Version(1), DocumentChange::Delete).await;
    stores.of::<Document>().clean_deleted(org, &document, true).await.unwrap();
    assert_eq!(fixture.entries(document.as_str(), "dependent").await, 0);
    stores.threads.delete(org, &last, None).await.unwrap();
}

/// Returns the rows of an organization in the index of deletions.
async fn indexed(stores: &Stores, org: &OrgId) -> Vec<DeletionRow> {
    let mut found: Vec<DeletionRow> = Vec::new();
    loop {
        let times = Timestamp::MIN..=Timestamp::MAX;
        let rows = stores.of::<Prompt>().indexed_deletions(&times, found.last(), 100).await.unwrap();
        let is_last = rows.len() < 100;
        found.extend(rows);
        if is_last {
            found.retain(|row| row.org == *org);
            return found;
        }
    }
}

#[tokio::test]
async fn the_row_of_a_refused_deletion_is_removed_from_the_index_only_when_it_is_stale() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let (stores, id) = (&opened.stores, PromptId::derive(&[org.as_str(), "a prompt"]));
    let create = PromptChange::Create(NewPrompt { name: "a prompt".to_owned(), ..NewPrompt::default() });
    decide(stores, &org, &id, 0, create).await;
    let hour = std::time::Duration::from_secs(60 * 60);
    for (number, (at, is_stale)) in
        [(Timestamp::now() - hour, true), (Timestamp::now() + hour, false)].into_iter().enumerate()
    {
        let (key, expected) = (format!("refused-{number}").parse().unwrap(), Expected::Version(7));
        let write = Write::by_platform(org.clone(), key, at, expected, PromptChange::Delete);
        let decided = stores.of::<Prompt>().decide(&id, write).await.unwrap();
        assert_eq!(decided, WriteOutcome::VersionMismatch);
        let row = DeletionRow { org: org.clone(), id: id.to_string(), at };
        assert!(indexed(stores, &org).await.contains(&row), "entered before the deciding write");
        assert!(!stores.of::<Prompt>().confirm_deletion(&row).await.unwrap());
        assert_eq!(indexed(stores, &org).await.contains(&row), !is_stale);
    }

    decide(stores, &org, &id, 1, PromptChange::Delete).await;
    for row in indexed(stores, &org).await {
        let is_deletion = row.at == Timestamp::constant(1_790_000_000, 0);
        assert_eq!(stores.of::<Prompt>().confirm_deletion(&row).await.unwrap(), is_deletion, "{row:?}");
    }
    assert_eq!(indexed(stores, &org).await.len(), 1, "the resource was deleted at another time");
    stores.of::<Prompt>().clean_deleted(&org, &id, true).await.unwrap();
    assert!(indexed(stores, &org).await.is_empty());
}

#[tokio::test]
async fn the_index_of_deletions_is_read_without_a_serial_read() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let (stores, id) = (&opened.stores, PromptId::derive(&[org.as_str(), "a prompt"]));
    let create = PromptChange::Create(NewPrompt { name: "a prompt".to_owned(), ..NewPrompt::default() });
    decide(stores, &org, &id, 0, create).await;
    decide(stores, &org, &id, 1, PromptChange::Delete).await;
    let serial_reads = || {
        let calls = stores.health.call_counters().unwrap().calls;
        calls.into_iter().filter(|(kind, _)| *kind == "serial_read").map(|(_, calls)| calls).sum::<u64>()
    };
    let before = serial_reads();
    let rows = indexed(stores, &org).await;
    assert_eq!((rows.len(), serial_reads()), (1, before));
    assert!(stores.of::<Prompt>().confirm_deletion(&rows[0]).await.unwrap());
    assert!(serial_reads() > before, "a confirmation reads the resource");
    stores.of::<Prompt>().clean_deleted(&org, &id, true).await.unwrap();
}
