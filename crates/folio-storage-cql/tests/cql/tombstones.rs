//! Deleted rows that lists and searches read after many renames, and that updates of a prompt read after many removals of
//! revisions, by the traces of the server.

use std::cell::Cell;
use std::time::Duration;

use folio_resources::{
    Document, DocumentChange, DocumentFilter, DocumentPatch, NewDocument, NewName, NewPrompt, Prompt, PromptChange,
    PromptUpdate, RevisionName,
};
use folio_testkit::wait_for;
use folio_types::op::{Expected, OpKey, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{BlobId, Digest, DocumentId, OrgId, PromptId, Result, Timestamp, UserId, limits};

use crate::{SharedStores, nonce, open_shared_stores};

const ITEMS: usize = 4;
/// Renames before the first measurement. The second measurement follows after as many further renames.
/// `FOLIO_TEST_RENAMES` changes it.
const RENAMES: usize = 120;
/// Maximum number of deleted rows that one page may read. The servers warn from this number on.
const TOMBSTONES_MAX: u64 = 1_000;
/// Maximum number of deleted rows that one page may read some seconds after the last rename, however many renames
/// precede it.
const SETTLED_MAX: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    opened: SharedStores,
    org: OrgId,
}

/// Returns a name of 200 characters, which differs from that of any other version.
fn name(item: usize, version: usize) -> String {
    (0..4).map(|part| Digest::of(format!("{item} {version} {part}").as_bytes()).as_str()[..50].to_owned()).collect()
}

impl Fixture {
    async fn decide(&self, item: usize, version: usize, change: DocumentChange) {
        let at = Timestamp::constant(1_790_000_000, 0);
        let expected = if version == 0 { Expected::Absent } else { Expected::Version(version as u64) };
        let key = format!("rename-{item}-{version}").parse().unwrap();
        let write = Write::by_platform(self.org.clone(), key, at, expected, change);
        let id = DocumentId::derive(&[self.org.as_str(), &item.to_string()]);
        let decided = self.opened.stores.of::<Document>().decide(&id, write).await.unwrap();
        assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
    }

    async fn create(&self, item: usize) {
        let new = NewDocument::file(name(item, 0), "application/pdf", b"x", BlobId::derive(&["x"]));
        self.decide(item, 0, DocumentChange::Create(new)).await;
    }

    /// Renames the items concurrently. The first version of an item has number 1.
    async fn rename(&self, versions: std::ops::Range<usize>) {
        let item = |item: usize| {
            let versions = versions.clone();
            async move {
                for version in versions {
                    let patch = DocumentPatch { name: Some(name(item, version)), ..DocumentPatch::default() };
                    self.decide(item, version, DocumentChange::Update(patch)).await;
                }
            }
        };
        futures::future::join_all((0..ITEMS).map(item)).await;
    }

    /// Returns the number of deleted rows that a page of the newest items, a page by name and a search for three
    /// characters of a name read.
    async fn measure(&self, version: usize) -> Vec<u64> {
        let search =
            DocumentFilter { name_search: Some(name(0, version)[..3].to_owned()), ..DocumentFilter::default() };
        let by_name = PageRequest { order: Order::Name, ..PageRequest::default() };
        let mut measured = Vec::new();
        for (filter, request) in [
            (DocumentFilter::default(), PageRequest::default()),
            (DocumentFilter::default(), by_name),
            (search, PageRequest::default()),
        ] {
            let documents = self.opened.stores.of::<Document>();
            // A loaded server loses traces.
            let reads = wait_for("complete traces", PATIENCE, async || {
                self.opened.cql.tombstones(documents.list(&self.org, &filter, &request)).await.unwrap()
            });
            measured.push(reads.await.into_iter().sum());
        }
        measured
    }

    async fn check(&self, version: usize) {
        let search = DocumentFilter { name_search: Some(name(0, version)), ..DocumentFilter::default() };
        let by_name = PageRequest { order: Order::Name, ..PageRequest::default() };
        for (filter, request, expected) in [
            (DocumentFilter::default(), PageRequest::default(), ITEMS),
            (DocumentFilter::default(), by_name, ITEMS),
            (search, PageRequest::default(), 1),
        ] {
            let page = self.opened.stores.of::<Document>().list(&self.org, &filter, &request).await.unwrap();
            assert_eq!((page.items.len(), page.total), (expected, expected as u64));
        }
    }
}

#[tokio::test]
async fn lists_and_searches_read_no_rows_of_previous_names() {
    let renames = std::env::var("FOLIO_TEST_RENAMES").map_or(RENAMES, |renames| renames.parse().unwrap()) / ITEMS;
    let fixture = Fixture { opened: open_shared_stores().await, org: OrgId::derive(&[&nonce()]) };
    futures::future::join_all((0..ITEMS).map(|item| fixture.create(item))).await;
    for round in 0..2 {
        let first = 1 + round * renames;
        fixture.rename(first..first + renames).await;
        let version = first + renames - 1;
        let at_once = fixture.measure(version).await;
        println!("after {} renames: {at_once:?} deleted rows", version * ITEMS);
        assert!(at_once.iter().all(|read| *read < TOMBSTONES_MAX), "{at_once:?}");
        // The servers do not read rows that were deleted more than a second ago.
        let settled = async || {
            let measured = fixture.measure(version).await;
            measured.iter().all(|read| *read <= SETTLED_MAX).then_some(measured)
        };
        println!("some seconds later: {:?}", wait_for("lists without deleted rows", PATIENCE, settled).await);
        fixture.check(version).await;
    }
}

/// Updates of a prompt with the maximum of revisions before each measurement. Each of them removes a revision.
const UPDATES: usize = 150;

/// A prompt whose versions and revisions have equal numbers.
struct RevisedPrompt {
    opened: SharedStores,
    org: OrgId,
    id: PromptId,
    version: Cell<u64>,
}

impl RevisedPrompt {
    async fn decide(&self, expected: Expected, change: PromptChange) -> Result<()> {
        let version = self.version.get() + 1;
        self.version.set(version);
        let key = format!("{}:{version}", self.id).parse().unwrap();
        let write = Write::by_platform(self.org.clone(), key, Timestamp::constant(1_790_000_000, 0), expected, change);
        let decided = self.opened.stores.of::<Prompt>().decide(&self.id, write).await?;
        assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
        Ok(())
    }

    async fn revise(&self) -> Result<()> {
        let version = self.version.get();
        let content = Some(format!("revision {}", version + 1));
        let update = PromptChange::Update(PromptUpdate { content, ..PromptUpdate::default() });
        self.decide(Expected::Version(version), update).await
    }

    /// Enters an op that has not ended as a name of a revision, so that the revision is not removed.
    async fn name(&self, number: u32) {
        let op = OpKey::Request { user: UserId::derive(&["user"]), request: "open".parse().unwrap() };
        let id = PromptId::derive(&[self.id.as_str(), "open"]).to_string();
        let name = RevisionName::Resource { id, revision: None, op };
        let name = NewName { of: self.id.to_string(), number, name };
        self.opened.stores.resources.name_revision(&self.org, name).await.unwrap();
    }

    /// Returns the number of deleted rows that an update and a list of the revisions read.
    async fn measure(&self) -> [u64; 2] {
        let (cql, prompts, page) = (&self.opened.cql, self.opened.stores.of::<Prompt>(), PageRequest::default());
        // A loaded server loses traces.
        let update = async || cql.tombstones(self.revise()).await.unwrap();
        let list = async || cql.tombstones(prompts.list_revisions(&self.org, &self.id, &page)).await.unwrap();
        let update: Vec<u64> = wait_for("complete traces of an update", PATIENCE, update).await;
        let list: Vec<u64> = wait_for("complete traces of a list", PATIENCE, list).await;
        [update.into_iter().sum(), list.into_iter().sum()]
    }
}

#[tokio::test]
async fn updates_at_the_maximum_read_no_rows_of_removed_revisions() {
    let (opened, org) = (open_shared_stores().await, OrgId::derive(&[&nonce()]));
    let id = PromptId::derive(&[org.as_str(), "a prompt"]);
    let prompt = RevisedPrompt { opened, org, id, version: Cell::new(0) };
    let new = NewPrompt { name: "a prompt".to_owned(), content: "revision 1".to_owned(), ..NewPrompt::default() };
    prompt.decide(Expected::Absent, PromptChange::Create(new)).await.unwrap();
    for _ in 1..limits::REVISIONS_MAX {
        prompt.revise().await.unwrap();
    }
    // The revisions between these and the newest ones are removed.
    prompt.name(1).await;
    prompt.name(40).await;
    for round in 1..=2 {
        for _ in 0..UPDATES {
            prompt.revise().await.unwrap();
        }
        let read = prompt.measure().await;
        println!("after {} removed revisions: {read:?} deleted rows", round * UPDATES);
        assert!(read.iter().all(|read| *read <= SETTLED_MAX), "{read:?}");
    }
    let numbers = prompt.opened.stores.resources.revision_numbers(&prompt.org, prompt.id.as_str()).await.unwrap();
    let newest = u32::try_from(prompt.version.get()).unwrap();
    let contiguous = newest + 3 - u32::try_from(limits::REVISIONS_MAX).unwrap()..=newest;
    assert_eq!(numbers, [1, 40].into_iter().chain(contiguous).collect::<Vec<_>>());
}
