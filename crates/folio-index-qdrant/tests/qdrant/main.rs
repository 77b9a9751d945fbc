//! The adapter on the engine of Qdrant, and on the server that `QDRANT_URL` names: the conformance suite, faults of the
//! server, encryption, and writes that are interrupted or run at the same time.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../folio-storage-client/tests/certificates/identity.rs"]
mod identity;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_breaker::BreakerOptions;
use folio_index::{Embedding, Filter, IndexState, IndexedDocument, Passage, PassageIndex, Search, Written};
use folio_index_conformance::{Fixture, suite};
use folio_index_qdrant::{QdrantIndex, QdrantOptions};
use folio_storage_client::Tls;
use folio_test_servers::Qdrant;
use folio_testkit::wait_for;
use folio_types::{DocumentId, OrgId, Reason, Result, Secret, System};

use crate::identity::{client_files, identity};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server of its own.
fn server(api_key: &str) -> Qdrant {
    Qdrant::start(&proto(), api_key).unwrap()
}

fn proto() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("proto")
}

async fn open(options: &QdrantOptions) -> QdrantIndex {
    QdrantIndex::new(options, Arc::new(System)).await.unwrap()
}

struct Server(QdrantOptions);

#[async_trait]
impl Fixture for Server {
    async fn open(&self) -> Result<Arc<dyn PassageIndex>> {
        Ok(Arc::new(QdrantIndex::new(&self.0, Arc::new(System)).await?))
    }
}

fn org(name: &str) -> OrgId {
    OrgId::derive(&["qdrant", name])
}

fn document(name: &str, generation: u64, passages: u32) -> IndexedDocument {
    let passage = |number: u32| Passage {
        number,
        text: format!("common words of passage {number}"),
        vectors: vec![Embedding { space: "test/space".to_owned(), values: vec![1.0, number as f32] }],
        ..Passage::default()
    };
    IndexedDocument {
        document: DocumentId::derive(&[name]),
        generation,
        tags: vec![],
        metadata: BTreeMap::new(),
        date: None,
        passages: (0..passages).map(passage).collect(),
    }
}

fn search(text: &str) -> Search {
    let vector = Some(Embedding { space: "test/space".to_owned(), values: vec![1.0, 0.5] });
    Search { text: text.to_owned(), vector, filter: Filter::default(), limit: 100 }
}

async fn ready(index: &dyn PassageIndex, org: &OrgId) {
    index.begin_rebuild(org, 1).await.unwrap();
    assert_eq!(index.finish_rebuild(org, 1).await.unwrap(), Written::Applied { stale: 0 });
}

/// Returns the generations of the passages that a search finds, each with their number.
async fn generations(index: &dyn PassageIndex, org: &OrgId) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    for hit in index.search(org, &search("common")).await.unwrap().hits {
        *found.entry(hit.generation).or_default() += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapter_conforms_to_the_port() {
    let server = server("");
    let fixture = Server(QdrantOptions::at(&server.url()));
    suite(&fixture, "first").await.unwrap();
    suite(&fixture, "second").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapter_conforms_to_the_port_on_the_named_server() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(url) = variable("QDRANT_URL") else {
        eprintln!("skipped: QDRANT_URL names no server");
        return;
    };
    let nonce = folio_testkit::seed();
    let options = QdrantOptions {
        api_key: Secret::new(&variable("QDRANT_API_KEY").unwrap_or_default()),
        collection: format!("folio-test-{nonce}"),
        insecure: true,
        ..QdrantOptions::at(&url)
    };
    suite(&Server(options), &nonce.to_string()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_a_kill_of_the_server() {
    let mut server = server("");
    let (index, org) = (open(&QdrantOptions::at(&server.url())).await, org("kill"));
    ready(&index, &org).await;
    index.upsert(&org, vec![document("a", 1, 3)]).await.unwrap();
    server.kill();
    let error = index.search(&org, &search("common")).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoreUnavailable);
    assert!(error.retry_after.is_some(), "{error:?}");
    server.run().unwrap();
    wait_for("the server to answer", PATIENCE, async || index.state(&org).await.ok()).await;
    assert_eq!(generations(&index, &org).await, [(1, 3)].into());
    assert!(index.call_counters().failed > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_respond_is_reported_within_the_time_limits() {
    let server = server("");
    let options = QdrantOptions { timeout: Duration::from_millis(300), ..QdrantOptions::at(&server.url()) };
    // The first calls create the collection and its indexes, which may take longer.
    let (patient, org) = (open(&QdrantOptions::at(&server.url())).await, org("pause"));
    ready(&patient, &org).await;
    let index = open(&options).await;
    wait_for("the server to answer in time", PATIENCE, async || index.state(&org).await.ok()).await;
    server.pause().unwrap();
    let started = std::time::Instant::now();
    let error = index.state(&org).await.unwrap_err();
    assert_eq!(error.reason, Reason::StoreUnavailable);
    // Three attempts, each with a health check of up to a second.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // The circuit breaker opens, so that calls fail at once.
    wait_for("the breaker to open", PATIENCE, async || {
        let _ = index.state(&org).await;
        index.call_counters().is_open.then_some(())
    })
    .await;
    // A call that the breaker admits again reaches its time limit.
    wait_for("a call that fails at once", PATIENCE, async || {
        let before = index.call_counters().rejected;
        assert!(index.state(&org).await.is_err());
        (index.call_counters().rejected > before).then_some(())
    })
    .await;
    server.resume().unwrap();
    wait_for("the server to answer", PATIENCE, async || index.state(&org).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_slow_searches_of_one_organization_do_not_open_the_breaker_for_others() {
    let server = server("");
    let (patient, slow, other) = (open(&QdrantOptions::at(&server.url())).await, org("slow"), org("other"));
    for org in [&slow, &other] {
        ready(&patient, org).await;
        patient.upsert(org, vec![document("a", 1, 3)]).await.unwrap();
    }
    // The three attempts of one search would open the breaker.
    let breaker = BreakerOptions { failures: 3, ..BreakerOptions::default() };
    let options = QdrantOptions { timeout: Duration::from_secs(1), breaker, ..QdrantOptions::at(&server.url()) };
    let (index, search) = (open(&options).await, search("common"));
    wait_for("the server to answer in time", PATIENCE, async || index.state(&other).await.ok()).await;
    server.delay(slow.as_str(), Duration::from_secs(600)).unwrap();
    let late = index.search(&slow, &search).await.unwrap_err();
    assert_eq!(late.reason, Reason::StoreUnavailable);
    let searches = async {
        for number in 0..20 {
            assert_eq!(index.search(&other, &search).await.unwrap().hits.len(), 3, "{number}");
        }
    };
    let (late, ()) = tokio::join!(index.search(&slow, &search), searches);
    assert_eq!(late.unwrap_err().reason, Reason::StoreUnavailable);
    let counters = index.call_counters();
    assert_eq!((counters.rejected, counters.is_open), (0, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_and_a_server_without_the_collection_are_reported() {
    let server = server("the-key");
    let with_key = |key: &str| QdrantOptions { api_key: Secret::new(key), ..QdrantOptions::at(&server.url()) };
    for key in ["", "another"] {
        let error = open(&with_key(key)).await.state(&org("key")).await.unwrap_err();
        assert!(error.message.contains("qdrant_api_key"), "{error}");
    }
    let index = open(&with_key("the-key")).await;
    assert_eq!(index.state(&org("key")).await.unwrap(), IndexState::Missing);
    let other = QdrantOptions { collection: "other".to_owned(), ..with_key("the-key") };
    ready(&index, &org("key")).await;
    assert_eq!(open(&other).await.state(&org("key")).await.unwrap(), IndexState::Missing, "another collection");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_use_tls() {
    let identity = identity();
    let server = Qdrant::start_secured(&proto(), "the-key", &identity).unwrap();
    let tls = Tls { client: None, ..client_files(&identity) };
    let stranger = Tls { client: None, ..client_files(&crate::identity::identity()) };
    let with = |tls: Tls| QdrantOptions { tls, api_key: Secret::new("the-key"), ..QdrantOptions::at(&server.url()) };
    assert_eq!(open(&with(tls)).await.state(&org("tls")).await.unwrap(), IndexState::Missing);
    for (what, tls) in [("another authority", stranger), ("the public authorities", Tls::default())] {
        let refused = open(&with(tls)).await.state(&org("tls")).await;
        assert_eq!(refused.unwrap_err().reason, Reason::StoreUnavailable, "{what}");
    }
    let missing = Tls { authorities: Some("/nowhere/ca.pem".into()), client: None };
    let refused = QdrantIndex::new(&with(missing), Arc::new(System)).await;
    assert_eq!(refused.err().map(|error| error.reason), Some(Reason::InvalidField));
}

/// Several processes write generations of the same documents, in different orders.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_of_processes_leave_one_generation() {
    let server = server("");
    let org = org("concurrent");
    let options = QdrantOptions::at(&server.url());
    ready(&open(&options).await, &org).await;
    let write = async |first: u64| {
        let index = open(&options).await;
        for step in 0..6u64 {
            let generation = 1 + (first + step * 5) % 6;
            let documents = vec![document("a", generation, 3), document("b", generation, 2)];
            // A write that loses against others several times is repeated by its caller.
            wait_for("a write", PATIENCE, async || index.upsert(&org, documents.clone()).await.ok()).await;
        }
    };
    tokio::join!(write(0), write(2), write(4));
    let index = open(&options).await;
    assert_eq!(generations(&index, &org).await, [(6, 5)].into());
    let listed = index.documents(&org, None, 10).await.unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|listed| listed.generation == 6), "{listed:?}");
    assert_eq!(index.statistics(&org).await.unwrap().passages, 5, "points of former writes");
}

/// A write is cancelled after a few milliseconds, as by the death of its process. Searches find a whole generation.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_write_leaves_a_whole_generation() {
    let server = server("");
    let (index, org) = (open(&QdrantOptions::at(&server.url())).await, org("interrupted"));
    ready(&index, &org).await;
    index.upsert(&org, vec![document("a", 1, 4)]).await.unwrap();
    for step in 0..30u64 {
        let changed = index.upsert(&org, vec![document("a", 2 + step, 4)]);
        let cancelled = tokio::time::timeout(Duration::from_millis(step), changed).await;
        let found = generations(&index, &org).await;
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [4], "{step} {cancelled:?}: {found:?}");
    }
    index.upsert(&org, vec![document("a", 100, 4)]).await.unwrap();
    assert_eq!(generations(&index, &org).await, [(100, 4)].into());
    index.delete_documents(&org, &[DocumentId::derive(&["a"])]).await.unwrap();
    assert!(generations(&index, &org).await.is_empty());
    index.delete_organization(&org).await.unwrap();
    assert!(!index.organizations().await.unwrap().contains(&org));
}

/// A write that meets the deletion of its organization leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_during_the_deletion_of_an_organization_leaves_nothing() {
    let server = server("");
    let options = QdrantOptions::at(&server.url());
    let (writer, deleter, org) = (open(&options).await, open(&options).await, org("deleted"));
    for step in 0..20u64 {
        ready(&deleter, &org).await;
        let write = writer.upsert(&org, vec![document("a", 1, 3), document("b", 1, 3)]);
        let delete = async {
            // Real time passes, so that the deletion meets each step of the write.
            tokio::time::sleep(Duration::from_millis(2 * step)).await;
            deleter.delete_organization(&org).await
        };
        let (written, deleted) = tokio::join!(write, delete);
        deleted.unwrap();
        let written = written.unwrap();
        assert!(matches!(written, Written::Applied { .. } | Written::NotUsable(IndexState::Missing)), "{written:?}");
        assert!(!deleter.organizations().await.unwrap().contains(&org), "{step}: data of a deleted organization");
    }
}
