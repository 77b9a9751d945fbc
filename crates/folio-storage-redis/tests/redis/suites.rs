//! The conformance suites on one Redis server and on a Redis cluster of three.

use folio_storage::SharedStores;
use folio_storage_conformance::faults::SharedFault;
use folio_storage_redis::{RedisOptions, shared_stores};
use folio_test_servers::{Redis, RedisCluster};
use folio_types::{OrgId, Reason};

fn opened(url: &str, prefix: &str) -> SharedStores {
    let shared = folio_storage_conformance::shared::options();
    shared_stores(RedisOptions { prefix: prefix.to_owned(), shared, ..RedisOptions::at(url) }).unwrap()
}

async fn passes(url: &str) {
    folio_storage_conformance::shared::run_all(opened(url, &format!("suite-{}", std::process::id())), "once")
        .await
        .unwrap();
}

#[tokio::test]
async fn redis_passes_the_suites() {
    passes(&folio_test_servers::redis_url().unwrap()).await;
}

#[tokio::test]
async fn redis_cluster_passes_the_suites() {
    let cluster = RedisCluster::start().unwrap();
    passes(&cluster.urls().join(",")).await;
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let redis = Redis::start().unwrap();
    let runs = SharedFault::ALL.iter().enumerate().map(|(number, fault)| {
        let stores = fault.decorate(&opened(&redis.url(), &format!("faulty-{number}")));
        async move {
            let outcome = folio_storage_conformance::shared::run(fault.caught_by(), stores, "faulty").await;
            outcome.is_ok().then_some(fault)
        }
    });
    let missed: Vec<_> = futures::future::join_all(runs).await.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[tokio::test]
async fn every_key_has_a_time_to_live_and_the_prefix() {
    let redis = Redis::start().unwrap();
    let stores = opened(&redis.url(), "kept");
    let suites = tokio::time::timeout(
        std::time::Duration::from_secs(120),
        folio_storage_conformance::shared::run_all(stores, "keys"),
    );
    suites.await.unwrap().unwrap();
    let keys = redis.list_command("KEYS *").unwrap();
    assert!(keys.len() >= 6, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("kept:{"), "{key}");
        // Keys may contain spaces, so the command quotes the key.
        let ttl = redis.command(&format!("PTTL \"{key}\"")).unwrap();
        assert!(ttl.strip_prefix(':').unwrap().parse::<i64>().unwrap() > 0, "{key} has no time to live: {ttl}");
    }
}

#[tokio::test]
async fn malformed_address_is_refused() {
    let refused = shared_stores(RedisOptions::at("http://nowhere")).err().map(|error| error.reason);
    assert_eq!(refused, Some(Reason::InvalidField));
    let away = opened("redis://127.0.0.1:1", "away");
    let error =
        away.rates.take(&OrgId::derive(&["x"]), "b", folio_storage::Rate { burst: 1, per_second: 1.0 }, 1).await;
    assert_eq!(error.unwrap_err().reason, Reason::StoreUnavailable);
}
