//! Tests of a Redis that is killed, paused, restarted with and without its data, or that lost its scripts, on one
//! server and on a cluster of three.

use std::time::{Duration, Instant};

use folio_history::event::{Event, EventKind};
use folio_storage::{EventsAppended, EventsRead, HeartbeatStatus, Job, NodeRecord, SharedOptions, SharedStores};
use folio_storage_redis::{RedisOptions, shared_stores};
use folio_test_servers::{Redis, RedisCluster};
use folio_testkit::wait_for;
use folio_types::{Incarnation, OrgId, Reason, ThreadId, TurnId};

const PATIENCE: Duration = Duration::from_secs(20);

enum Deployment {
    One(Redis),
    Cluster(RedisCluster),
}

impl Deployment {
    fn servers(&mut self) -> &mut [Redis] {
        match self {
            Self::One(redis) => std::slice::from_mut(redis),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn url(&mut self) -> String {
        self.servers().iter().map(|server| server.url()).collect::<Vec<_>>().join(",")
    }

    fn kill(&mut self) {
        self.servers().iter_mut().for_each(Redis::kill);
    }

    fn run(&mut self) {
        self.servers().iter_mut().for_each(|server| server.run().unwrap());
    }

    /// Restarts the servers without their data. A cluster keeps its assignment of hash slots.
    fn run_emptied(&mut self) {
        match self {
            Self::One(redis) => redis.run_emptied().unwrap(),
            Self::Cluster(_) => {
                self.kill();
                self.run();
                self.command("FLUSHALL");
            }
        }
    }

    fn command(&mut self, command: &str) {
        self.servers().iter().for_each(|server| assert_eq!(server.command(command).unwrap(), "+OK"));
    }

    fn pause(&mut self) {
        self.servers().iter().for_each(|server| server.pause().unwrap());
    }

    fn resume(&mut self) {
        self.servers().iter().for_each(|server| server.resume().unwrap());
    }
}

macro_rules! on_each_deployment {
    ($($test:ident,)+) => {
        mod one {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::Deployment::One(folio_test_servers::Redis::start().unwrap())).await;
                }
            )+
        }

        mod cluster {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::Deployment::Cluster(folio_test_servers::RedisCluster::start().unwrap())).await;
                }
            )+
        }
    };
}

on_each_deployment! {
    calls_fail_in_time_while_redis_is_down_and_succeed_after_its_restart,
    lost_data_is_published_again,
    restart_of_redis_kills_no_node,
    lost_scripts_are_loaded_again,
    late_application_of_a_timed_out_call_is_harmless,
}

/// Opens stores in which a silent node is soon dead, and events outlast a fault.
fn opened(url: &str, prefix: &str) -> SharedStores {
    let shared = SharedOptions { events_ttl: PATIENCE * 3, ..folio_storage_conformance::shared::options() };
    shared_stores(RedisOptions { prefix: prefix.to_owned(), shared, ..RedisOptions::at(url) }).unwrap()
}

fn node(name: &str) -> NodeRecord {
    NodeRecord::new(Incarnation::derive(&[name]), "http://127.0.0.1:1", 1)
}

fn event(number: u64) -> Event {
    let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
    Event::new(turn, number, EventKind::TextDelta { text: number.to_string() })
}

async fn append(stores: &SharedStores, numbers: std::ops::RangeInclusive<u64>) -> folio_types::Result<EventsAppended> {
    let (org, owner) = (OrgId::derive(&["o"]), Incarnation::derive(&["one"]));
    let events: Vec<_> = numbers.map(event).collect();
    stores.events.append(&org, &event(1).turn, &owner, 1, &events).await
}

async fn read(stores: &SharedStores) -> Option<usize> {
    match stores.events.read(&OrgId::derive(&["o"]), &event(1).turn, 1, 100).await.unwrap() {
        EventsRead::Events(found) => Some(found.len()),
        EventsRead::Expired => None,
    }
}

async fn answers(stores: &SharedStores) {
    wait_for("redis answers again", PATIENCE, async || stores.health.check().await.ok()).await;
}

async fn calls_fail_in_time_while_redis_is_down_and_succeed_after_its_restart(mut redis: Deployment) {
    let stores = opened(&redis.url(), "f");
    assert_eq!(append(&stores, 1..=3).await.unwrap(), EventsAppended::Done);
    let job = Job { key: "k".to_owned(), group: String::new(), payload: String::new() };
    stores.jobs.push("q", &job).await.unwrap();
    redis.kill();
    let mut times = Vec::new();
    for _ in 0..8 {
        let begun = Instant::now();
        let error = append(&stores, 4..=4).await.unwrap_err();
        assert_eq!(error.reason, Reason::StoreUnavailable);
        assert!(error.retry_after.is_some() && begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
        times.push(begun.elapsed());
    }
    // A busy machine may delay one of the calls.
    let shortest = times.iter().skip(5).min().unwrap();
    assert!(*shortest < Duration::from_secs(1), "the breaker is open: {times:?}");
    let call_counters = stores.health.call_counters().unwrap();
    assert!(call_counters.is_open && call_counters.failed >= 4 && call_counters.rejected > 0, "{call_counters:?}");
    redis.run();
    answers(&stores).await;
    assert_eq!(read(&stores).await, Some(3), "acknowledged events are stored");
    assert_eq!(append(&stores, 3..=5).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(5));
    let worker = Incarnation::derive(&["one"]);
    assert_eq!(stores.jobs.claim("q", &worker, 5, PATIENCE).await.unwrap().len(), 1);
}

async fn lost_data_is_published_again(mut redis: Deployment) {
    let stores = opened(&redis.url(), "f");
    let (old, young) = (node("old"), node("young"));
    assert_eq!(stores.nodes.heartbeat(&old, true).await.unwrap(), HeartbeatStatus::Live);
    append(&stores, 1..=3).await.unwrap();
    redis.run_emptied();
    answers(&stores).await;
    let nodes = stores.nodes.nodes().await.unwrap();
    assert!(
        nodes.members.is_empty() && !nodes.is_dead(&old.incarnation),
        "a node is dead although the data was lost: {nodes:?}"
    );
    assert_eq!(stores.nodes.heartbeat(&old, false).await.unwrap(), HeartbeatStatus::Live, "the node registers again");
    assert_eq!(stores.nodes.heartbeat(&young, true).await.unwrap(), HeartbeatStatus::Live);
    assert_eq!(append(&stores, 4..=4).await.unwrap(), EventsAppended::NeedsSnapshot);
    assert_eq!(read(&stores).await, None);
    // The data is lost without a restart.
    redis.command("FLUSHALL");
    assert_eq!(stores.nodes.heartbeat(&old, false).await.unwrap(), HeartbeatStatus::Live);
    assert_eq!(append(&stores, 5..=5).await.unwrap(), EventsAppended::NeedsSnapshot);
    // A node that died when the data was lost is dead once a live node would have sent a heartbeat.
    wait_for("a node without heartbeats to be dead", PATIENCE, async || {
        assert_eq!(stores.nodes.heartbeat(&old, false).await.unwrap(), HeartbeatStatus::Live);
        stores.nodes.nodes().await.unwrap().is_dead(&young.incarnation).then_some(())
    })
    .await;
}

async fn restart_of_redis_kills_no_node(mut redis: Deployment) {
    let stores = opened(&redis.url(), "f");
    let living = node("living");
    stores.nodes.heartbeat(&living, true).await.unwrap();
    redis.kill();
    // Sleeps longer than a node may miss heartbeats: the test depends on real time.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    redis.run();
    answers(&stores).await;
    assert!(!stores.nodes.nodes().await.unwrap().is_dead(&living.incarnation), "redis was down, not the node");
    assert_eq!(stores.nodes.heartbeat(&living, false).await.unwrap(), HeartbeatStatus::Live);
}

async fn lost_scripts_are_loaded_again(mut redis: Deployment) {
    let stores = opened(&redis.url(), "f");
    append(&stores, 1..=2).await.unwrap();
    redis.command("SCRIPT FLUSH");
    assert_eq!(append(&stores, 3..=3).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(3));
}

async fn late_application_of_a_timed_out_call_is_harmless(mut redis: Deployment) {
    let stores = opened(&redis.url(), "f");
    let leaver = node("leaver");
    stores.nodes.heartbeat(&leaver, true).await.unwrap();
    append(&stores, 1..=1).await.unwrap();
    redis.pause();
    // The client abandons both calls; the server reads them from its buffer when it resumes.
    assert_eq!(stores.nodes.heartbeat(&leaver, true).await.unwrap_err().reason, Reason::StoreUnavailable);
    assert_eq!(append(&stores, 2..=3).await.unwrap_err().reason, Reason::StoreUnavailable);
    redis.resume();
    answers(&stores).await;
    // After the retry each event is stored once, whether or not the late call was applied.
    assert_eq!(append(&stores, 2..=4).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(4));
    stores.nodes.leave(&leaver).await.unwrap();
    assert!(stores.nodes.nodes().await.unwrap().is_dead(&leaver.incarnation));
}
