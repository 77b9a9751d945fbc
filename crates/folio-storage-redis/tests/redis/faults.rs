//! A Redis that is lost, stopped, restarted with and without its data, or that forgets the scripts: one server, and a cluster of
//! three.

use std::time::{Duration, Instant};

use folio_history::event::{Event, EventKind};
use folio_storage::{Beat, EventsAppended, EventsRead, Job, NodeRecord, SharedOptions, SharedStores};
use folio_storage_redis::{RedisOptions, shared_stores};
use folio_test_servers::{Redis, RedisCluster};
use folio_testkit::wait_for;
use folio_types::{Incarnation, OrgId, Reason, ThreadId, Timestamp, TurnId};

const PATIENCE: Duration = Duration::from_secs(20);

/// One server, or a cluster.
enum Ground {
    One(Redis),
    Cluster(RedisCluster),
}

impl Ground {
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

    /// Restarts it with nothing in it. A cluster keeps its slots.
    fn run_emptied(&mut self) {
        match self {
            Self::One(redis) => redis.run_emptied().unwrap(),
            Self::Cluster(_) => {
                self.kill();
                self.run();
                self.tell("FLUSHALL");
            }
        }
    }

    fn tell(&mut self, command: &str) {
        self.servers().iter().for_each(|server| assert_eq!(server.ask(command).unwrap(), "+OK"));
    }

    fn pause(&mut self) {
        self.servers().iter().for_each(|server| server.pause().unwrap());
    }

    fn resume(&mut self) {
        self.servers().iter().for_each(|server| server.resume().unwrap());
    }
}

macro_rules! grounds {
    ($($test:ident,)+) => {
        mod one {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::Ground::One(folio_test_servers::Redis::start().unwrap())).await;
                }
            )+
        }

        mod cluster {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::Ground::Cluster(folio_test_servers::RedisCluster::start().unwrap())).await;
                }
            )+
        }
    };
}

grounds! {
    calls_fail_in_time_while_redis_is_away_and_work_when_it_is_back_with_its_data,
    what_was_lost_is_told_again,
    restart_makes_no_node_gone,
    scripts_that_the_server_forgot_are_loaded_again,
    call_that_timed_out_may_be_applied_later_and_harms_nothing,
}

/// With a short time until a node is gone, and events that outlast a fault.
fn opened(url: &str, prefix: &str) -> SharedStores {
    let shared = SharedOptions { events_stay: PATIENCE * 3, ..folio_storage_conformance::shared::options() };
    shared_stores(RedisOptions { prefix: prefix.to_owned(), shared, ..RedisOptions::at(url) }).unwrap()
}

fn node(name: &str) -> NodeRecord {
    NodeRecord {
        incarnation: Incarnation::derive(&[name]),
        address: "http://127.0.0.1:1".to_owned(),
        draining: false,
        conversations: 0,
        turns_running: 0,
        capacity: 1,
        started_at: Timestamp::UNIX_EPOCH,
        version: "1".to_owned(),
    }
}

fn event(number: u64) -> Event {
    let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
    Event { turn, number, kind: EventKind::TextDelta { text: number.to_string() } }
}

async fn append(stores: &SharedStores, numbers: std::ops::RangeInclusive<u64>) -> folio_types::Result<EventsAppended> {
    let (org, owner) = (OrgId::derive(&["o"]), Incarnation::derive(&["one"]));
    let events: Vec<_> = numbers.map(event).collect();
    stores.events.append(&org, &event(1).turn, &owner, 1, &events).await
}

async fn read(stores: &SharedStores) -> Option<usize> {
    match stores.events.read(&OrgId::derive(&["o"]), &event(1).turn, 1, 100).await.unwrap() {
        EventsRead::Events(found) => Some(found.len()),
        EventsRead::Gone => None,
    }
}

async fn answers(stores: &SharedStores) {
    wait_for("redis answers again", PATIENCE, async || stores.health.check().await.ok()).await;
}

async fn calls_fail_in_time_while_redis_is_away_and_work_when_it_is_back_with_its_data(mut redis: Ground) {
    let stores = opened(&redis.url(), "f");
    assert_eq!(append(&stores, 1..=3).await.unwrap(), EventsAppended::Done);
    stores.jobs.push("q", &Job { key: "k".to_owned(), payload: String::new() }).await.unwrap();
    redis.kill();
    for call in 0..8 {
        let begun = Instant::now();
        let error = append(&stores, 4..=4).await.unwrap_err();
        assert_eq!(error.reason, Reason::StoreUnavailable);
        assert!(error.retry_after.is_some() && begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        if call > 4 {
            assert!(begun.elapsed() < Duration::from_secs(1), "it is not asked any more: {:?}", begun.elapsed());
        }
    }
    let told = stores.health.traffic().unwrap();
    assert!(told.held_back && told.failed >= 4 && told.refused > 0, "{told:?}");
    redis.run();
    answers(&stores).await;
    assert_eq!(read(&stores).await, Some(3), "what was answered for is there");
    assert_eq!(append(&stores, 3..=5).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(5));
    let worker = Incarnation::derive(&["one"]);
    assert_eq!(stores.jobs.take("q", &worker, 5, PATIENCE).await.unwrap().len(), 1);
}

async fn what_was_lost_is_told_again(mut redis: Ground) {
    let stores = opened(&redis.url(), "f");
    let (old, young) = (node("old"), node("young"));
    assert_eq!(stores.nodes.beat(&old, true).await.unwrap(), Beat::Kept);
    append(&stores, 1..=3).await.unwrap();
    redis.run_emptied();
    answers(&stores).await;
    let nodes = stores.nodes.nodes().await.unwrap();
    assert!(
        nodes.members.is_empty() && !nodes.is_gone(&old.incarnation),
        "lost data says that nobody is gone: {nodes:?}"
    );
    assert_eq!(stores.nodes.beat(&old, false).await.unwrap(), Beat::Kept, "it says so again");
    assert_eq!(stores.nodes.beat(&young, true).await.unwrap(), Beat::Kept);
    assert_eq!(append(&stores, 4..=4).await.unwrap(), EventsAppended::NeedsSnapshot);
    assert_eq!(read(&stores).await, None);
    // The same in a running server.
    redis.tell("FLUSHALL");
    assert_eq!(stores.nodes.beat(&old, false).await.unwrap(), Beat::Kept);
    assert_eq!(append(&stores, 5..=5).await.unwrap(), EventsAppended::NeedsSnapshot);
    // Who died with the data is gone once a live node would have said so.
    wait_for("a node that does not come back is gone", PATIENCE, async || {
        assert_eq!(stores.nodes.beat(&old, false).await.unwrap(), Beat::Kept);
        stores.nodes.nodes().await.unwrap().is_gone(&young.incarnation).then_some(())
    })
    .await;
}

async fn restart_makes_no_node_gone(mut redis: Ground) {
    let stores = opened(&redis.url(), "f");
    let living = node("living");
    stores.nodes.beat(&living, true).await.unwrap();
    redis.kill();
    // Longer than a silence may be: time itself is the matter.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    redis.run();
    answers(&stores).await;
    assert!(!stores.nodes.nodes().await.unwrap().is_gone(&living.incarnation), "redis was away, not the node");
    assert_eq!(stores.nodes.beat(&living, false).await.unwrap(), Beat::Kept);
}

async fn scripts_that_the_server_forgot_are_loaded_again(mut redis: Ground) {
    let stores = opened(&redis.url(), "f");
    append(&stores, 1..=2).await.unwrap();
    redis.tell("SCRIPT FLUSH");
    assert_eq!(append(&stores, 3..=3).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(3));
}

async fn call_that_timed_out_may_be_applied_later_and_harms_nothing(mut redis: Ground) {
    let stores = opened(&redis.url(), "f");
    let leaver = node("leaver");
    stores.nodes.beat(&leaver, true).await.unwrap();
    append(&stores, 1..=1).await.unwrap();
    redis.pause();
    // Both lie in the server's buffer when it goes on, and the client has given them up.
    assert_eq!(stores.nodes.beat(&leaver, true).await.unwrap_err().reason, Reason::StoreUnavailable);
    assert_eq!(append(&stores, 2..=3).await.unwrap_err().reason, Reason::StoreUnavailable);
    redis.resume();
    answers(&stores).await;
    // Sent again: whether the late one came or not, each event is there once.
    assert_eq!(append(&stores, 2..=4).await.unwrap(), EventsAppended::Done);
    assert_eq!(read(&stores).await, Some(4));
    stores.nodes.leave(&leaver).await.unwrap();
    assert!(stores.nodes.nodes().await.unwrap().is_gone(&leaver.incarnation));
}
