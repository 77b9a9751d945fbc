//! Deleted rows that lists and searches read after many renames, by the traces of the server.

use std::time::Duration;

use folio_resources::{Document, DocumentChange, DocumentFilter, DocumentPatch, NewDocument};
use folio_storage::Stores;
use folio_testkit::wait_for;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{BlobId, Digest, DocumentId, OrgId, Timestamp};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::unprepared::Statement;

use crate::{nonce, open_shared_stores, options};

const ITEMS: usize = 4;
/// Renames before the first measurement. The second measurement follows after as many further renames.
/// `FOLIO_TEST_RENAMES` changes it.
const RENAMES: usize = 120;
/// Maximum number of deleted rows that one page may read. The servers warn from this number on.
const TOMBSTONES_MAX: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    stores: Stores,
    session: Session,
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
        let decided = self.stores.of::<Document>().decide(&id, write).await.unwrap();
        assert!(matches!(decided, WriteOutcome::Row(_)), "{decided:?}");
    }

    async fn create(&self, item: usize) {
        let new = NewDocument {
            name: name(item, 0),
            media_type: "application/pdf".to_owned(),
            size: 1,
            sha256: Digest::of(b"x").as_str().to_owned(),
            blob: BlobId::derive(&["x"]),
            is_protected: false,
            tags: vec![],
            metadata: Default::default(),
        };
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

    /// Returns the deleted rows that a statement reads. Repeats a statement whose trace the server dropped.
    async fn tombstones(&self, statement: &str) -> u64 {
        let read = async || {
            let mut statement = Statement::new(statement);
            statement.set_tracing(true);
            let id = self.session.query_unpaged(statement, (self.org.as_str(),)).await.unwrap().tracing_id()?;
            let trace = self.session.get_tracing_info(&id).await.ok()?;
            let events = trace.events.iter().filter_map(|event| event.activity.as_deref());
            events.filter_map(tombstones_in).reduce(|one, other| one + other)
        };
        wait_for("a complete trace", PATIENCE, read).await
    }

    /// Returns the deleted rows that the list of all items, the list by name and a search read. Reading all rows, a
    /// repair of the lists reads those of the first two.
    async fn measure(&self, version: usize) -> [u64; 3] {
        let buckets = "SELECT bucket FROM list_buckets WHERE org = ? AND list = 'document' AND term = 'all'";
        let buckets = self.session.query_unpaged(buckets, (self.org.as_str(),)).await.unwrap();
        let bucket = buckets.into_rows_result().unwrap().single_row::<(i64,)>().unwrap().0;
        let all = "SELECT id FROM list_rows WHERE org = ? AND list = 'document' AND term = 'all'";
        let list = self.tombstones(&format!("{all} AND bucket = {bucket}")).await;
        let (mut by_name, mut search) = (0, 0);
        for shard in 0..8 {
            let names = "SELECT id FROM list_names WHERE org = ? AND list = 'document'";
            by_name += self.tombstones(&format!("{names} AND shard = {shard}")).await;
            let (groups, chars) = ("SELECT id FROM list_groups WHERE org = ? AND list = 'document'", name(0, version));
            let chars = &chars[..3];
            search += self.tombstones(&format!("{groups} AND chars = 'name/{chars}' AND shard = {shard}")).await;
        }
        [list, by_name, search]
    }

    async fn check(&self, version: usize) {
        let search = DocumentFilter { name_search: Some(name(0, version)), ..DocumentFilter::default() };
        let by_name = PageRequest { order: Order::Name, ..PageRequest::default() };
        for (filter, request, expected) in [
            (DocumentFilter::default(), PageRequest::default(), ITEMS),
            (DocumentFilter::default(), by_name, ITEMS),
            (search, PageRequest::default(), 1),
        ] {
            let page = self.stores.of::<Document>().list(&self.org, &filter, &request).await.unwrap();
            assert_eq!((page.items.len(), page.total), (expected, expected as u64));
        }
    }
}

/// Returns the number in the event "Read 1 live rows and 2 tombstone cells".
fn tombstones_in(activity: &str) -> Option<u64> {
    let (before, _) = activity.split_once(" tombstone cells")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn lists_and_searches_read_no_rows_of_previous_names() {
    let renames = std::env::var("FOLIO_TEST_RENAMES").map_or(RENAMES, |renames| renames.parse().unwrap()) / ITEMS;
    let opened = open_shared_stores().await;
    let options = options("folio_suites").await;
    let session = SessionBuilder::new().known_nodes(options.contact_points).use_keyspace(options.keyspace, false);
    let session = session.build().await.unwrap();
    let fixture = Fixture { stores: opened.stores.clone(), session, org: OrgId::derive(&[&nonce()]) };
    futures::future::join_all((0..ITEMS).map(|item| fixture.create(item))).await;
    for round in 0..2 {
        let first = 1 + round * renames;
        fixture.rename(first..first + renames).await;
        let version = first + renames - 1;
        let at_once = fixture.measure(version).await;
        eprintln!("after {} renames: {at_once:?} deleted rows", version * ITEMS);
        assert!(at_once.iter().all(|read| *read < TOMBSTONES_MAX), "{at_once:?}");
        // The servers do not read rows that were deleted more than a second ago.
        let none = async || (fixture.measure(version).await == [0; 3]).then_some(());
        wait_for("lists without deleted rows", PATIENCE, none).await;
        fixture.check(version).await;
    }
}
