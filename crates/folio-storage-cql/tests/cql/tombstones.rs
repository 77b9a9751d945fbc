//! Deleted rows that lists and searches read after many renames, by the traces of the server.

use std::time::Duration;

use folio_resources::{Document, DocumentChange, DocumentFilter, DocumentPatch, NewDocument};
use folio_testkit::wait_for;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{BlobId, Digest, DocumentId, OrgId, Timestamp};

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
