//! Tests of connections that break or stop responding, of failovers to a replica, and of encrypted connections. The
//! process recovers from all of them without a restart.

use std::time::Duration;

use folio_storage::{Job, SharedStores};
use folio_storage_client::Tls;
use folio_storage_redis::{RedisOptions, shared_stores};
use folio_test_servers::{Redis, RedisCluster};
use folio_testkit::proxy::{Mode, Proxy};
use folio_testkit::wait_for;
use folio_types::Reason;

use crate::identity::{client_files, identity};

const PATIENCE: Duration = Duration::from_secs(30);

fn opened(url: &str) -> SharedStores {
    shared_stores(RedisOptions { shared: folio_storage_conformance::shared::options(), ..RedisOptions::at(url) })
        .unwrap()
}

async fn before(redis: &Redis) -> Proxy {
    Proxy::start_for(1, Some(redis.port())).await
}

fn behind(proxy: &Proxy) -> SharedStores {
    opened(&format!("redis://{}", proxy.address()))
}

/// Returns the number that follows the first `name` in a text.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(name)?.1;
    rest.get(..rest.find(|char: char| !char.is_ascii_digit())?)?.parse().ok()
}

async fn push(stores: &SharedStores, key: &str) -> folio_types::Result<bool> {
    stores.jobs.push(key, &Job { key: key.to_owned(), group: String::new(), payload: String::new() }).await
}

async fn works_again(stores: &SharedStores) {
    wait_for("redis to serve writes", PATIENCE, async || push(stores, "again").await.ok()).await;
}

#[tokio::test]
async fn cut_connections_are_reopened() {
    let redis = Redis::start().unwrap();
    let proxy = before(&redis).await;
    let stores = behind(&proxy);
    for number in 0..5 {
        push(&stores, &format!("before-{number}")).await.unwrap();
        proxy.cut();
        works_again(&stores).await;
    }
    proxy.set(Mode::Cut);
    assert_eq!(push(&stores, "refused").await.unwrap_err().reason, Reason::StoreUnavailable);
    proxy.set(Mode::Pass);
    works_again(&stores).await;
}

#[tokio::test]
async fn unresponsive_connection_is_replaced() {
    let redis = Redis::start().unwrap();
    let proxy = before(&redis).await;
    let stores = behind(&proxy);
    push(&stores, "before").await.unwrap();
    proxy.blackhole();
    assert_eq!(push(&stores, "silent").await.unwrap_err().reason, Reason::StoreUnavailable);
    push(&stores, "after").await.expect("the next call opens a new connection");
}

#[tokio::test]
async fn a_wait_for_jobs_ends_with_its_connection_and_the_next_one_reconnects() {
    let redis = Redis::start().unwrap();
    let proxy = before(&redis).await;
    let stores = behind(&proxy);
    let wait = async || stores.jobs.wait_for_push("jobs", Duration::from_millis(100)).await;
    assert!(!wait().await.unwrap());
    proxy.blackhole();
    assert_eq!(wait().await.unwrap_err().reason, Reason::StoreUnavailable);
    push(&stores, "jobs").await.expect("the call opens a connection");
    assert!(wait().await.expect("the next wait opens a new connection"), "the job was added before the wait");
}

#[tokio::test]
async fn promoted_replica_behind_the_same_address_is_used() {
    let mut redis = Redis::start().unwrap();
    let mut replica = redis.start_replica().unwrap();
    let proxy = before(&redis).await;
    let stores = behind(&proxy);
    push(&stores, "kept").await.unwrap();
    wait_for("the replica to have the job", PATIENCE, async || {
        (replica.command("EXISTS folio:{queue:kept}:jobs").unwrap() == ":1").then_some(())
    })
    .await;
    redis.kill();
    replica.promote().unwrap();
    proxy.set_target(replica.port());
    proxy.cut();
    works_again(&stores).await;
    assert!(!push(&stores, "kept").await.unwrap(), "the job is stored");
    // A demoted server keeps its connections and refuses writes.
    let successor = replica.start_replica().unwrap();
    successor.promote().unwrap();
    proxy.set_target(successor.port());
    replica.demote(&successor).unwrap();
    works_again(&stores).await;
    assert_eq!(successor.command("EXISTS folio:{queue:again}:jobs").unwrap(), ":1");
    replica.kill();
}

#[tokio::test]
async fn cluster_serves_calls_after_a_replica_replaces_a_dead_server() {
    let mut cluster = RedisCluster::start_replicated().unwrap();
    let stores = opened(&cluster.urls().join(","));
    let queues: Vec<_> = (0..12).map(|number| format!("queue-{number}")).collect();
    for queue in &queues {
        push(&stores, queue).await.unwrap();
    }
    let dead = &mut cluster.nodes()[0];
    assert!(dead.command("INFO replication").unwrap().contains("role:master"));
    // A replica receives acknowledged data with a delay.
    wait_for("the replica to have all jobs", PATIENCE, async || {
        let info = dead.command("INFO replication").unwrap();
        let sent = number_after(&info, "master_repl_offset:")?;
        (number_after(&info, "offset=")? >= sent).then_some(())
    })
    .await;
    dead.kill();
    for queue in &queues {
        let pushed = wait_for("its slots to be served", PATIENCE, async || push(&stores, queue).await.ok()).await;
        assert!(!pushed, "{queue} is lost");
    }
    // The killed server restarts as a replica.
    cluster.nodes()[0].run().unwrap();
    wait_for("all servers to agree", PATIENCE, async || cluster.is_converged().then_some(())).await;
    for queue in &queues {
        assert!(!push(&stores, queue).await.unwrap());
    }
}

#[tokio::test]
async fn connections_use_tls_a_password_and_a_client_certificate() {
    let identity = identity();
    let client = client_files(&identity);
    let redis = Redis::start_secured(&identity, "the-password").unwrap();
    let options = |url: String, tls: Option<Tls>| RedisOptions { tls, ..RedisOptions::at(url) };
    let stores = shared_stores(options(redis.url(), Some(client.clone()))).unwrap();
    stores.health.check().await.unwrap();
    assert!(push(&stores, "encrypted").await.unwrap());

    let stranger = Tls { authorities: client_files(&crate::identity::identity()).authorities, ..client.clone() };
    let anonymous = Tls { client: None, ..client.clone() };
    let wrong = redis.url().replace("the-password", "another");
    for (what, options) in [
        ("an authority that did not sign it", options(redis.url(), Some(stranger))),
        ("the public authorities", options(redis.url(), None)),
        ("no client certificate", options(redis.url(), Some(anonymous))),
        ("another password", options(wrong, Some(client.clone()))),
    ] {
        let refused = shared_stores(options).unwrap().health.check().await;
        assert_eq!(refused.unwrap_err().reason, Reason::StoreUnavailable, "{what}");
    }
    let plain = shared_stores(options("redis://127.0.0.1:1".to_owned(), Some(client)));
    assert_eq!(plain.err().map(|error| error.reason), Some(Reason::InvalidField), "certificates without encryption");
}
