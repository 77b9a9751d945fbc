//! Tests of the rows that an interrupted deciding write leaves, and of writes with an unknown outcome.

use std::time::Duration;

use folio_history::thread::{Append, Appended, HeaderChange, NewThread, ThreadHeader};
use folio_resources::{Prompt, Resource as _, Tag, TagChange, TagFilter};
use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_types::op::{ClosedAs, Expected, OpKey, OpRow, OpState, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{Digest, OrgId, Principal, Reason, Role, TagId, ThreadId, Timestamp, UserId};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::{nonce, open_shared_stores, options};

pub(crate) struct TestStores {
    pub(crate) stores: Stores,
    cql: CqlStore,
    session: Session,
    pub(crate) org: OrgId,
    _opened: crate::SharedStores,
}

pub(crate) async fn fixture() -> TestStores {
    let opened = open_shared_stores().await;
    let contact_points = options("folio_suites").await.contact_points;
    let session = SessionBuilder::new().known_nodes(contact_points).build().await.unwrap();
    session.use_keyspace("folio_suites", false).await.unwrap();
    let org = OrgId::derive(&[&nonce()]);
    TestStores { stores: opened.stores.clone(), cql: opened.cql.clone(), session, org, _opened: opened }
}

fn op(name: &str) -> OpKey {
    OpKey::Request { user: UserId::derive(&["user"]), request: name.parse().unwrap() }
}

impl TestStores {
    pub(crate) fn write<C>(&self, name: &str, expected: Expected, change: C) -> Write<C> {
        Write {
            org: self.org.clone(),
            op: op(name),
            digest: Digest::of(name.as_bytes()),
            by: UserId::derive(&["user"]),
            at: Timestamp::constant(1_790_000_000, 0),
            expected,
            change,
        }
    }

    pub(crate) fn id(&self, name: &str) -> TagId {
        TagId::derive(&[self.org.as_str(), name])
    }

    pub(crate) async fn create(&self, id: &str, name: &str) -> folio_types::Result<WriteOutcome> {
        let change = TagChange::Create { name: name.to_owned(), color: None, description: None };
        self.stores.of::<Tag>().decide(&self.id(id), self.write(id, Expected::Absent, change)).await
    }

    /// Writes the row of names of a revision as v0.1.0 did, without references.
    pub(crate) async fn forget_references(&self, id: &str, revision: u32) {
        let update =
            "UPDATE aggregates SET value = textAsBlob(?) WHERE org = ? AND id = ? AND part = 'names' AND key = ?";
        // The first byte is the version of the format.
        let value = "\u{1}{\"names\":[],\"is_full\":false}";
        let values = (value, self.org.as_str(), id, format!("{revision:010}"));
        self.session.query_unpaged(update, values).await.unwrap();
    }

    /// Returns the number of entries of references to a tag.
    pub(crate) async fn references(&self, tag: &TagId) -> usize {
        self.entries(tag.as_str(), "reference").await
    }

    /// Returns the number of entries of a part of a resource.
    pub(crate) async fn entries(&self, id: &str, part: &str) -> usize {
        let select = "SELECT key FROM aggregates WHERE org = ? AND id = ? AND part = ?";
        let rows = self.session.query_unpaged(select, (self.org.as_str(), id, part)).await.unwrap();
        rows.into_rows_result().unwrap().rows_num()
    }

    /// Enters a dependent or a thread of a resource, as an interrupted creation does.
    pub(crate) async fn enter(&self, id: &str, part: &str, key: &str) {
        let insert = "INSERT INTO aggregates (org, id, part, key) VALUES (?, ?, ?, ?) IF NOT EXISTS";
        self.session.query_unpaged(insert, (self.org.as_str(), id, part, key)).await.unwrap();
    }

    /// Reserves a name as an interrupted write does.
    async fn reserve(&self, id: &str, name: &str, at: Timestamp) {
        let insert = "INSERT INTO names (org, kind, name, id, op, at) VALUES (?, 'tag', ?, ?, ?, ?) IF NOT EXISTS";
        let (id, op) = (self.id(id).to_string(), op(id).to_string());
        self.session.query_unpaged(insert, (self.org.as_str(), name, id, op, at.as_microsecond())).await.unwrap();
    }

    async fn close(&self, id: &str) {
        let (target, digest) = (Tag::target(&self.id(id)), Digest::of(id.as_bytes()));
        let at = Timestamp::constant(1_790_000_000, 0);
        let closed = OpRow::closed(op(id), digest, ClosedAs::Aborted, at);
        self.stores.ops.close(&self.org, &target, closed).await.unwrap();
    }

    /// Returns bucket, time and id of the rows of all tags.
    async fn list_rows(&self) -> Vec<(i64, i64, String)> {
        let buckets = "SELECT bucket FROM list_buckets WHERE org = ? AND list = 'tag' AND term = 'all'";
        let select = "SELECT bucket, at, id FROM list_rows \
                      WHERE org = ? AND list = 'tag' AND term = 'all' AND bucket = ?";
        let buckets = self.session.query_unpaged(buckets, (self.org.as_str(),)).await.unwrap();
        let buckets = buckets.into_rows_result().unwrap();
        let mut found = Vec::new();
        for (bucket,) in buckets.rows::<(i64,)>().unwrap().map(Result::unwrap) {
            let rows = self.session.query_unpaged(select, (self.org.as_str(), bucket)).await.unwrap();
            let rows = rows.into_rows_result().unwrap();
            found.extend(rows.rows::<(i64, i64, String)>().unwrap().map(Result::unwrap));
        }
        found
    }

    /// Writes the list row of a tag with its current and its next name, and with a timestamp.
    async fn put_list_row(&self, (bucket, at, id): (i64, i64, &str), (current, next): (&str, &str), stamp: i64) {
        let insert = "INSERT INTO list_rows (org, list, term, bucket, at, id, value, next) \
                      VALUES (?, 'tag', 'all', ?, ?, ?, textAsBlob(?), textAsBlob(?)) USING TIMESTAMP ?";
        // The first byte is the version of the format.
        let value = |name: &str| format!("\u{1}{{\"id\":\"{id}\",\"name\":\"{name}\"}}");
        let values = (self.org.as_str(), bucket, at, id, value(current), value(next), stamp);
        self.session.query_unpaged(insert, values).await.unwrap();
    }

    /// Returns the total of a search for a part of a name, and the number of items on its page.
    async fn found(&self, part: &str) -> (u64, usize) {
        let search = TagFilter { name_search: Some(part.to_owned()), ..TagFilter::default() };
        let page = self.stores.of::<Tag>().list(&self.org, &search, &PageRequest::default()).await.unwrap();
        (page.total, page.items.len())
    }

    async fn names(&self) -> Vec<String> {
        let request = PageRequest { size: 1000, ..PageRequest::default() };
        let page = self.stores.of::<Tag>().list(&self.org, &TagFilter::default(), &request).await.unwrap();
        page.items.into_iter().map(|tag| tag.name).collect()
    }
}

fn state(decided: WriteOutcome) -> OpState {
    let WriteOutcome::Row(row) = decided else { panic!("{decided:?}") };
    row.state
}

#[tokio::test]
async fn a_name_whose_write_was_closed_is_free() {
    let fixture = fixture().await;
    fixture.reserve("stopped", "wanted", Timestamp::now()).await;
    let refused = fixture.create("early", "Wanted").await.unwrap_err();
    assert!(refused.is_contended(), "an approved write waits: {refused}");
    fixture.close("stopped").await;
    assert!(matches!(state(fixture.create("late", "Wanted").await.unwrap()), OpState::Done(_)));
    assert!(matches!(state(fixture.create("stopped", "Other").await.unwrap()), OpState::Aborted));
    let found = fixture.stores.of::<Tag>().by_name(&fixture.org, "WANTED").await.unwrap().unwrap();
    assert_eq!(found.id, fixture.id("late"));
}

#[tokio::test]
async fn a_name_that_a_stale_request_reserved_is_replaced_and_its_write_never_executed() {
    let fixture = fixture().await;
    fixture.reserve("stopped", "wanted", Timestamp::now() - Duration::from_secs(600)).await;
    assert!(matches!(state(fixture.create("late", "wanted").await.unwrap()), OpState::Done(_)));
    assert!(matches!(state(fixture.create("stopped", "wanted").await.unwrap()), OpState::Aborted));
    assert_eq!(fixture.names().await, ["wanted"]);
}

#[tokio::test]
async fn a_reference_of_a_stale_request_does_not_block_the_deletion_of_a_tag() {
    let fixture = fixture().await;
    fixture.create("used", "used").await.unwrap();
    let id = fixture.id("used");
    let user = folio_types::PromptId::derive(&[fixture.org.as_str()]);
    let key = format!("{user}/{}", op("prompt"));
    let batch = format!(
        "BEGIN UNLOGGED BATCH \
         UPDATE aggregates SET uses = 1 WHERE org = '{org}' AND id = '{id}' IF uses = 0; \
         INSERT INTO aggregates (org, id, part, key, value) \
         VALUES ('{org}', '{id}', 'reference', '{key}', textAsBlob('?{{\"at\":\"2026-01-01T00:00:00Z\"}}')) \
         IF NOT EXISTS; APPLY BATCH",
        org = fixture.org
    );
    // The first byte is the version of the format.
    let batch = batch.replace("'?{", "'\u{1}{");
    fixture.session.query_unpaged(batch, ()).await.unwrap();
    let delete = fixture.write("delete", Expected::Version(1), TagChange::Delete);
    let decided = fixture.stores.of::<Tag>().decide(&id, delete).await.unwrap();
    assert!(matches!(state(decided), OpState::Done(_)));
    let target = Prompt::target(&user);
    let closed = fixture.stores.ops.row(&fixture.org, &target, &op("prompt")).await.unwrap().unwrap();
    assert_eq!(closed.state, OpState::Aborted, "the op of the reference is still open");
}

#[tokio::test]
async fn list_rows_are_repaired_by_readers_and_rebuilt_from_the_resources() {
    let fixture = fixture().await;
    for name in ["one", "two", "three"] {
        fixture.create(name, name).await.unwrap();
    }
    let rows = fixture.list_rows().await;
    assert_eq!(rows.len(), 3);
    // Inserts a row of a resource that never existed, and deletes the rows of a group.
    let stray = fixture.id("stray").to_string();
    fixture.put_list_row((rows[0].0, rows[0].1, &stray), ("stray", "stray"), 0).await;
    for shard in 0..8 {
        let delete = "DELETE FROM list_groups USING TIMESTAMP 4 \
                      WHERE org = ? AND list = 'tag' AND chars = 'name/hre' AND shard = ?";
        fixture.session.query_unpaged(delete, (fixture.org.as_str(), shard)).await.unwrap();
    }
    let mut names = fixture.names().await;
    names.sort();
    assert_eq!(names, ["one", "three", "two"]);
    assert_eq!(fixture.found("hre").await, (0, 0), "the rows exist");
    assert_eq!(fixture.cql.repair_lists(&fixture.org).await.unwrap(), 3);
    assert_eq!(fixture.found("hre").await, (1, 1));
    assert_eq!(fixture.found("T").await, (2, 2));
}

/// Between its deciding write and its last step, the list row of a renamed resource contains both names.
#[tokio::test]
async fn a_resource_whose_rename_was_interrupted_is_found_by_its_name() {
    let fixture = fixture().await;
    fixture.create("renamed", "current").await.unwrap();
    let [(bucket, at, id)] = fixture.list_rows().await.try_into().unwrap();
    fixture.put_list_row((bucket, at, &id), ("previous", "current"), 5).await;
    assert_eq!(fixture.found("curr").await, (1, 1));
    assert_eq!(fixture.found("prev").await, (0, 0));
}

#[tokio::test]
async fn a_search_removes_the_rows_of_a_previous_name() {
    let fixture = fixture().await;
    fixture.create("renamed", "current").await.unwrap();
    let [(_, at, id)] = fixture.list_rows().await.try_into().unwrap();
    let select = "SELECT shard FROM list_groups WHERE org = ? AND list = 'tag' AND chars = 'name/old' AND shard IN \
                  (0, 1, 2, 3, 4, 5, 6, 7)";
    let insert = "INSERT INTO list_groups (org, list, chars, shard, at, id) VALUES (?, 'tag', 'name/old', ?, ?, ?) \
                  USING TIMESTAMP 4";
    let shard = i32::from(folio_storage::page_token::digest(&[id.as_bytes()])[0]) % 8;
    fixture.session.query_unpaged(insert, (fixture.org.as_str(), shard, at, &id)).await.unwrap();
    let rows = async || {
        let rows = fixture.session.query_unpaged(select, (fixture.org.as_str(),)).await.unwrap();
        rows.into_rows_result().unwrap().rows_num()
    };
    assert_eq!(rows().await, 1);
    assert_eq!(fixture.found("old").await, (0, 0));
    assert_eq!(rows().await, 0);
}

/// The time limits are far below the latency of the server, so that nearly every outcome is unknown to the caller.
#[tokio::test]
async fn invariant_3_a_write_with_an_unknown_outcome_is_executed_once() {
    let fixture = fixture().await;
    let short = Duration::from_millis(3);
    let impatient = Options { write_timeout: short, conditional_timeout: short, ..options("folio_suites").await };
    let impatient = CqlStore::open(impatient).await.unwrap().stores(fixture.stores.blobs.clone());
    let mut unknown = 0;
    for number in 0..20 {
        let name = format!("tag {number}");
        let id = fixture.id(&name);
        let create = TagChange::Create { name: name.clone(), color: None, description: None };
        let describe = TagChange::Update { name: None, color: None, description: Some(Some("described".to_owned())) };
        for (request, expected, change) in
            [("create", Expected::Absent, create), ("describe", Expected::Version(1), describe)]
        {
            let write = fixture.write(&format!("{request}-{number}"), expected, change);
            let mut attempts = 0;
            let decided = loop {
                match impatient.of::<Tag>().decide(&id, write.clone()).await {
                    Ok(decided) => break decided,
                    Err(error) if error.reason == Reason::StoreUnavailable && attempts < 200 => unknown += 1,
                    Err(error) => panic!("{error:?}"),
                }
                attempts += 1;
                if attempts % 5 == 0 {
                    // A call without the short limit returns the result.
                    break fixture.stores.of::<Tag>().decide(&id, write.clone()).await.unwrap();
                }
            };
            assert!(matches!(state(decided), OpState::Done(_)), "{request} {number}");
        }
        let tag = fixture.stores.of::<Tag>().get(&fixture.org, &id).await.unwrap().unwrap();
        assert_eq!((tag.version, tag.description.as_deref()), (2, Some("described")), "{name}");
    }
    assert_eq!(fixture.names().await.len(), 20);
    println!("{unknown} outcomes were unknown");
}

fn thread(org: &OrgId) -> NewThread {
    let principal = Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member);
    let (id, at) = (ThreadId::derive(&[org.as_str(), "thread"]), Timestamp::constant(1_790_000_000, 0));
    let new = NewThread::new(id, &principal, "document", Vec::new(), at);
    NewThread { title: "Before".to_owned(), model: Some("model".to_owned()), ..new }
}

fn titled(batch: u128, header: &ThreadHeader, title: &str) -> Append {
    let change = HeaderChange { title: Some(title.to_owned()), ..HeaderChange::default() };
    Append { change, ..Append::new(batch, header.fence(), Timestamp::constant(1_790_000_000, 0)) }
}

fn done(appended: Appended) -> ThreadHeader {
    let Appended::Done(header) = appended else { panic!("{appended:?}") };
    *header
}

#[tokio::test]
async fn a_cached_header_never_overwrites_the_header_of_another_process() {
    let (local, remote) = (fixture().await, open_shared_stores().await);
    let (org, new) = (&local.org, thread(&local.org));
    let (local, remote, id) = (&local.stores.threads, &remote.stores.threads, &new.id.clone());
    let made = local.create(new).await.unwrap();
    let first = done(local.append(org, id, titled(1, &made, "Here")).await.unwrap());
    let second = done(remote.append(org, id, titled(2, &first, "There")).await.unwrap());
    // The process has cached the first header, and this append has its fence.
    let refused = local.append(org, id, titled(3, &first, "Late")).await.unwrap();
    let Appended::Refused { header, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(*header, second, "invariant 1");
    // The process never wrote the header whose fence this append has.
    let third = done(local.append(org, id, titled(4, &second, "Here again")).await.unwrap());
    assert_eq!(local.header(org, id).await.unwrap().as_ref(), Some(&third));
    assert_eq!((third.title.as_str(), third.version), ("Here again", second.version + 1));
    // The cache does not revive a removed thread.
    remote.delete(org, id, None).await.unwrap();
    let refused = local.append(org, id, titled(5, &third, "Gone")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::NotFound);
}
