//! Servers start, are killed, restart with their data, and end with the process that started them.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use folio_test_servers::{Cassandra, Redis, RedisCluster, S3};

fn accepts(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn within(limit: Duration, what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "timed out after {limit:?}: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn redis_keeps_acknowledged_data_when_it_is_killed_and_loses_it_when_emptied() {
    let mut redis = Redis::start().unwrap();
    assert_eq!(redis.command("SET key value").unwrap(), "+OK");
    redis.kill();
    assert!(redis.command("PING").is_err());
    redis.run().unwrap();
    assert_eq!(redis.command("GET key").unwrap(), "value");
    redis.run_emptied().unwrap();
    assert_eq!(redis.command("GET key").unwrap(), "$-1");
}

#[test]
fn redis_cluster_shares_the_slots() {
    let mut cluster = RedisCluster::start().unwrap();
    assert_eq!(cluster.urls().len(), 3);
    let answers: Vec<_> = cluster.nodes().iter().take(3).map(|node| node.command("SET key value").unwrap()).collect();
    assert_eq!(answers.iter().filter(|answer| *answer == "+OK").count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.starts_with("-MOVED")).count(), 2, "{answers:?}");
}

#[test]
fn s3_server_restarts_on_its_port() {
    let mut server = S3::start().unwrap();
    let url = server.url();
    server.kill();
    server.run().unwrap();
    assert_eq!(server.url(), url);
}

#[test]
fn cassandra_restarts_after_a_kill() {
    let mut cassandra = Cassandra::start(1).unwrap();
    let port = cassandra.port();
    cassandra.node(0).unwrap().kill();
    assert!(!accepts(port));
    cassandra.node(0).unwrap().run().unwrap();
    assert!(accepts(port));
    drop(cassandra);
    assert!(!accepts(port));
}

/// The test below runs this test in another process: this test starts a server, prints its port, and waits to be
/// killed.
#[test]
fn starts_a_server_and_waits() {
    if std::env::var_os("FOLIO_TEST_WAITS").is_some() {
        let redis = Redis::start().unwrap();
        println!("\nport {}", redis.port());
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

#[test]
fn a_server_stops_when_its_parent_is_killed() {
    use std::io::BufRead as _;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "starts_a_server_and_waits", "--nocapture"])
        .env("FOLIO_TEST_WAITS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = lines.find_map(|line| line.strip_prefix("port ").and_then(|port| port.parse().ok())).unwrap();
    assert!(accepts(port));
    child.kill().unwrap();
    child.wait().unwrap();
    within(Duration::from_secs(30), "the server's end", || !accepts(port));
}
