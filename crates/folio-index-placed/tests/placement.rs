//! Organizations on the nodes of a cluster: the conformance suite over calls between processes, and changes of the
//! placement.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_cluster::IndexCalls as _;
use folio_index::{
    Answer, EmbeddedIndex, EmbeddedOptions, Filter, Gap, IndexState, IndexedDocument, ListedDocument, Passage,
    PassageIndex, Search, Statistics, Written,
};
use folio_index_conformance::{Fixture, suite};
use folio_index_placed::{IndexServer, NodeIndex, Nodes, PlacedIndex, Placement};
use folio_storage::{ConditionalRow, IndexHolderStore, RowStore};
use folio_types::{DocumentId, Error, OrgId, Reason, Result, System};
use tempfile::TempDir;

/// Small, so that upserts are sent in parts.
const REQUEST_BYTES: usize = 4_096;

/// Rows in memory.
#[derive(Default)]
struct Rows(Mutex<BTreeMap<(OrgId, String, String), Vec<u8>>>);

fn row(org: &OrgId, group: &str, key: &str) -> (OrgId, String, String) {
    (org.clone(), group.to_owned(), key.to_owned())
}

#[async_trait]
impl RowStore for Rows {
    async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        let rows = self.0.lock().unwrap();
        Ok(keys.iter().map(|key| rows.get(&row(org, group, key)).cloned()).collect())
    }

    async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>> {
        let rows = self.0.lock().unwrap();
        Ok(rows.iter().filter(|((of, name, _), _)| of == org && name == group).map(|(_, row)| row.clone()).collect())
    }

    async fn list_after(&self, org: &OrgId, group: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let rows = self.0.lock().unwrap();
        let of_group = rows.iter().filter(|((of, name, key), _)| of == org && name == group && key.as_str() > after);
        Ok(of_group.take(limit).map(|((_, _, key), row)| (key.clone(), row.clone())).collect())
    }

    async fn compare_and_set(&self, org: &OrgId, write: ConditionalRow) -> Result<bool> {
        let mut rows = self.0.lock().unwrap();
        let key = row(org, &write.group, &write.key);
        if rows.get(&key) != write.before.as_ref() {
            return Ok(false);
        }
        rows.insert(key, write.after);
        Ok(true)
    }

    async fn compare_and_remove(&self, org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> Result<bool> {
        let (mut rows, key) = (self.0.lock().unwrap(), row(org, group, key));
        Ok(rows.get(&key) == Some(&before) && rows.remove(&key).is_some())
    }

    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()> {
        self.0.lock().unwrap().insert(row(org, group, key), value);
        Ok(())
    }

    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()> {
        self.0.lock().unwrap().remove(&row(org, group, key));
        Ok(())
    }

    async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()> {
        self.0.lock().unwrap().retain(|(of, name, _), _| of != org || name != group);
        Ok(())
    }
}

/// The live nodes, of which the first one has every index.
struct Live(Mutex<Vec<&'static str>>);

impl Live {
    fn set(&self, nodes: &[&'static str]) {
        *self.0.lock().unwrap() = nodes.to_vec();
    }
}

impl Placement for Live {
    fn node_of(&self, _: &OrgId) -> Option<String> {
        self.0.lock().unwrap().first().map(|address| (*address).to_owned())
    }

    fn nodes(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|address| (*address).to_owned()).collect()
    }
}

struct TestNode {
    index: Arc<NodeIndex>,
    server: IndexServer,
    _folder: TempDir,
}

/// Two nodes, which are called as from another process.
struct TestCluster {
    nodes: BTreeMap<&'static str, TestNode>,
    live: Arc<Live>,
}

impl TestCluster {
    fn start() -> Arc<Self> {
        let (live, rows) = (Arc::new(Live(Mutex::new(vec!["a:1", "b:1"]))), Arc::new(Rows::default()));
        let node = |address: &'static str| {
            let folder = tempfile::tempdir().unwrap();
            let local = EmbeddedIndex::open(folder.path().to_owned(), EmbeddedOptions::default()).unwrap();
            let holders = IndexHolderStore::new(Arc::clone(&rows) as Arc<dyn RowStore>);
            let placement = Arc::clone(&live) as Arc<dyn Placement>;
            let index = Arc::new(NodeIndex::new(Arc::new(local), holders, placement, address));
            (address, TestNode { server: IndexServer::new(Arc::clone(&index)), index, _folder: folder })
        };
        Arc::new(Self { nodes: ["a:1", "b:1"].map(node).into(), live })
    }

    /// Returns the adapter of a process. `own`: the address of the process, if it is a node.
    fn adapter(self: &Arc<Self>, own: Option<&str>) -> PlacedIndex {
        let own = own.map(|own| Arc::clone(&self.nodes[own].index));
        let placement = Arc::clone(&self.live) as Arc<dyn Placement>;
        PlacedIndex::new(placement, Arc::clone(self) as Arc<dyn Nodes>, Arc::new(System), own, REQUEST_BYTES)
    }
}

#[async_trait]
impl Nodes for TestCluster {
    async fn call_index(&self, address: &str, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        let is_live = self.live.nodes().iter().any(|live| live == address);
        let lost = || Error::unavailable(Reason::NodeLost, "the node is unreachable");
        let node = self.nodes.get(address).filter(|_| is_live).ok_or_else(lost)?;
        assert!(call.len() <= REQUEST_BYTES, "a request of {} bytes", call.len());
        node.server.call(org, call).await
    }
}

/// The adapter of a process without an index. Organizations are listed by the node.
struct Remote {
    adapter: PlacedIndex,
    node: Arc<NodeIndex>,
}

#[async_trait]
impl PassageIndex for Remote {
    async fn state(&self, org: &OrgId) -> Result<IndexState> {
        self.adapter.state(org).await
    }
    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()> {
        self.adapter.begin_rebuild(org, rebuild).await
    }
    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written> {
        self.adapter.finish_rebuild(org, rebuild).await
    }
    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written> {
        self.adapter.upsert(org, documents).await
    }
    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written> {
        self.adapter.delete_documents(org, documents).await
    }
    async fn delete_organization(&self, org: &OrgId) -> Result<()> {
        self.adapter.delete_organization(org).await
    }
    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer> {
        // A search of 4,000 characters exceeds the small requests of the other calls.
        if search.text.len() > REQUEST_BYTES / 2 {
            self.node.search(org, search).await
        } else {
            self.adapter.search(org, search).await
        }
    }
    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>> {
        self.adapter.documents(org, after, limit).await
    }
    async fn statistics(&self, org: &OrgId) -> Result<Statistics> {
        self.adapter.statistics(org).await
    }
    async fn organizations(&self) -> Result<Vec<OrgId>> {
        self.node.organizations().await
    }
}

/// Opens the adapter of a node, or of another process.
struct Process {
    cluster: Arc<TestCluster>,
    is_node: bool,
}

#[async_trait]
impl Fixture for Process {
    async fn open(&self) -> Result<Arc<dyn PassageIndex>> {
        let node = Arc::clone(&self.cluster.nodes["a:1"].index);
        let adapter: Arc<dyn PassageIndex> = match self.is_node {
            true => Arc::new(self.cluster.adapter(Some("a:1"))),
            false => Arc::new(Remote { adapter: self.cluster.adapter(None), node }),
        };
        Ok(adapter)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapter_of_a_node_conforms_to_the_port() {
    suite(&Process { cluster: TestCluster::start(), is_node: true }, "node").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapter_of_another_process_conforms_to_the_port() {
    suite(&Process { cluster: TestCluster::start(), is_node: false }, "remote").await.unwrap();
}

fn document(name: &str, generation: u64) -> IndexedDocument {
    let passage = Passage { text: format!("common {name}"), ..Passage::default() };
    let (document, tags, metadata) = (DocumentId::derive(&[name]), vec![], BTreeMap::new());
    IndexedDocument { document, generation, tags, metadata, date: None, passages: vec![passage] }
}

async fn search(index: &dyn PassageIndex, org: &OrgId) -> (usize, Vec<Gap>) {
    let search = Search { text: "common".to_owned(), vector: None, filter: Filter::default(), limit: 10 };
    let answer = index.search(org, &search).await.unwrap();
    (answer.hits.len(), answer.lexical.gaps)
}

/// Builds the index from documents, as its caller does from the stores.
async fn rebuild(index: &dyn PassageIndex, org: &OrgId, documents: &[IndexedDocument]) -> Written {
    index.begin_rebuild(org, 1).await.unwrap();
    index.upsert(org, documents.to_vec()).await.unwrap();
    index.finish_rebuild(org, 1).await.unwrap()
}

const DONE: Written = Written::Applied { stale: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_moves_is_rebuilt_and_its_gaps_are_named() {
    let (cluster, org) = (TestCluster::start(), OrgId::derive(&["moves"]));
    let index = cluster.adapter(None);
    let (first, second) = (document("first", 1), document("second", 1));
    assert_eq!(rebuild(&index, &org, std::slice::from_ref(&first)).await, DONE);
    assert_eq!(search(&index, &org).await, (1, vec![]));

    cluster.live.set(&["b:1"]);
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Missing);
    assert_eq!(search(&index, &org).await, (0, vec![Gap::State(IndexState::Missing)]));
    let missing = Written::NotUsable(IndexState::Missing);
    assert_eq!(index.upsert(&org, vec![second.clone()]).await.unwrap(), missing);
    // The former holder returns, and lacks the write that its successor refused.
    cluster.live.set(&["a:1", "b:1"]);
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Rebuilding);
    assert_eq!(search(&index, &org).await, (1, vec![Gap::State(IndexState::Rebuilding)]));
    assert_eq!(index.finish_rebuild(&org, 1).await.unwrap(), Written::NotUsable(IndexState::Rebuilding));
    assert_eq!(rebuild(&index, &org, &[first.clone(), second.clone()]).await, DONE);
    assert_eq!((index.state(&org).await.unwrap(), search(&index, &org).await), (IndexState::Ready, (2, vec![])));

    // A node that returns without a write meanwhile has a complete index.
    cluster.live.set(&["b:1"]);
    assert_eq!(search(&index, &org).await, (0, vec![Gap::State(IndexState::Missing)]));
    cluster.live.set(&["a:1", "b:1"]);
    assert_eq!((index.state(&org).await.unwrap(), search(&index, &org).await), (IndexState::Ready, (2, vec![])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_during_which_another_node_received_writes_is_not_complete() {
    let (cluster, org) = (TestCluster::start(), OrgId::derive(&["interrupted"]));
    let index = cluster.adapter(None);
    index.begin_rebuild(&org, 1).await.unwrap();
    cluster.live.set(&["b:1", "a:1"]);
    index.upsert(&org, vec![document("first", 1)]).await.unwrap();
    cluster.live.set(&["a:1", "b:1"]);
    index.upsert(&org, vec![document("second", 1)]).await.unwrap();
    assert_eq!(index.finish_rebuild(&org, 1).await.unwrap(), Written::NotUsable(IndexState::Rebuilding));
    assert_eq!(index.state(&org).await.unwrap(), IndexState::Rebuilding);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_does_not_end_the_rebuild_of_another_one() {
    let (cluster, org) = (TestCluster::start(), OrgId::derive(&["replaced"]));
    let (former, next) = (cluster.adapter(None), cluster.adapter(None));
    former.begin_rebuild(&org, 1).await.unwrap();
    next.begin_rebuild(&org, 2).await.unwrap();
    former.upsert(&org, vec![document("first", 1)]).await.unwrap();
    assert_eq!(former.finish_rebuild(&org, 1).await.unwrap(), Written::NotUsable(IndexState::Rebuilding));
    assert_eq!(next.state(&org).await.unwrap(), IndexState::Rebuilding);
    next.upsert(&org, vec![document("first", 1), document("second", 1)]).await.unwrap();
    assert_eq!(next.finish_rebuild(&org, 2).await.unwrap(), DONE);
    assert_eq!((next.state(&org).await.unwrap(), search(&next, &org).await), (IndexState::Ready, (2, vec![])));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_refuse_misplaced_organizations_and_remove_their_indexes() {
    let (cluster, org) = (TestCluster::start(), OrgId::derive(&["misplaced"]));
    let index = cluster.adapter(None);
    let [a, b] = ["a:1", "b:1"].map(|address| &cluster.nodes[address].index);
    assert_eq!(rebuild(&index, &org, &[document("first", 1)]).await, DONE);
    assert_eq!(b.state(&org).await.unwrap_err().reason, Reason::StoreUnavailable);
    cluster.live.set(&["b:1", "a:1"]);
    assert_eq!(a.remove_misplaced().await.unwrap(), 0, "the recorded holder keeps its index");
    assert_eq!(rebuild(&index, &org, &[document("first", 1)]).await, DONE);
    assert_eq!((a.remove_misplaced().await.unwrap(), b.remove_misplaced().await.unwrap()), (1, 0));
    assert!(a.organizations().await.unwrap().is_empty());

    // A deletion removes the indexes of all live nodes.
    cluster.live.set(&["a:1", "b:1"]);
    assert_eq!(rebuild(&index, &org, &[document("first", 1)]).await, DONE);
    assert_eq!((a.organizations().await.unwrap().len(), b.organizations().await.unwrap().len()), (1, 1));
    index.delete_organization(&org).await.unwrap();
    assert_eq!((a.organizations().await.unwrap().len(), b.organizations().await.unwrap().len()), (0, 0));
    cluster.live.set(&[]);
    assert_eq!(index.state(&org).await.unwrap_err().reason, Reason::StoreUnavailable, "no node is live");
}
