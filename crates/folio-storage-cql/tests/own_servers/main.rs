//! Tests of CQL servers that die, stop responding and recover, of several servers, and of encrypted connections. Each
//! test starts servers of its own. The tests run one after another, because several Java servers that start at once slow
//! a small machine down to the time limits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../../folio-storage-client/tests/certificates/identity.rs"]
mod identity;
mod warnings;

use std::time::{Duration, Instant};

use folio_resources::{Tag, TagChange, TagFilter};
use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_storage_embedded::EmbeddedStore;
use folio_test_servers::Cassandra;
use folio_testkit::wait_for;
use folio_types::op::{Expected, OpKey, OpState, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{Digest, OrgId, Reason, TagId, Timestamp, UserId};
use scylla::client::session_builder::SessionBuilder;
use tokio::sync::{Mutex, MutexGuard};

use self::identity::{client_files, identity};
use self::warnings::Warnings;

/// Beginning of the warning about servers that use Paxos v1.
const PAXOS_V1: &str = "the CQL servers use Paxos v1";
/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(90);
/// Maximum time of 300 calls at once while no server answers, on a busy machine. One after another they would take ten minutes.
const ROUND_MAX: Duration = Duration::from_secs(20);
/// Maximum time of most reads while reads of another organization time out, on a busy machine: less than the time limit of a read.
const READ_MAX: Duration = Duration::from_secs(2);

/// The test that owns this lock may run servers.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Starts servers after the servers of the previous test have stopped. A test drops its servers before the guard of the lock.
async fn start(
    servers: impl FnOnce() -> anyhow::Result<Cassandra> + Send + 'static,
) -> (MutexGuard<'static, ()>, Cassandra) {
    let machine = MACHINE.lock().await;
    (machine, tokio::task::spawn_blocking(servers).await.unwrap().unwrap())
}

/// CQL stores, with a blob store in a folder that the tests do not use.
struct TestStores {
    stores: Stores,
    cql: CqlStore,
    org: OrgId,
    _folder: tempfile::TempDir,
    _embedded: EmbeddedStore,
}

impl TestStores {
    async fn open(options: Options) -> folio_types::Result<Self> {
        let cql = CqlStore::open(options).await?;
        let folder = tempfile::tempdir().unwrap();
        let embedded = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
        let stores = cql.stores(embedded.stores().blobs);
        Ok(Self { stores, cql, org: OrgId::derive(&["an organization"]), _folder: folder, _embedded: embedded })
    }

    async fn create(&self, name: &str) -> folio_types::Result<WriteOutcome> {
        self.create_as(name, "user").await
    }

    async fn create_as(&self, name: &str, user: &str) -> folio_types::Result<WriteOutcome> {
        let user = UserId::derive(&[user]);
        let write = Write {
            org: self.org.clone(),
            op: OpKey::Request { user: user.clone(), request: name.parse().unwrap() },
            digest: Digest::of(name.as_bytes()),
            by: user,
            at: Timestamp::constant(1_790_000_000, 0),
            expected: Expected::Absent,
            change: TagChange::Create { name: name.to_owned(), color: None, description: None },
        };
        self.stores.of::<Tag>().decide(&TagId::derive(&[self.org.as_str(), name]), write).await
    }

    async fn count(&self) -> folio_types::Result<u64> {
        Ok(self.stores.of::<Tag>().list(&self.org, &TagFilter::default(), &PageRequest::default()).await?.total)
    }

    /// Returns the number of tags. Retries until the store answers.
    async fn counted(&self) -> u64 {
        wait_for("a list", PATIENCE, async || self.count().await.ok()).await
    }

    /// Creates a tag. Retries until the creation is acknowledged.
    async fn created(&self, name: &str) {
        let done = wait_for("a write", PATIENCE, async || match self.create(name).await {
            Ok(WriteOutcome::Row(row)) => Some(row),
            Ok(other) => panic!("{other:?}"),
            Err(error) if error.reason == Reason::StoreUnavailable => None,
            Err(error) => panic!("{error}"),
        });
        assert!(matches!(done.await.state, OpState::Done(_)), "{name}");
    }
}

fn options(cassandra: &Cassandra, copies: u8) -> Options {
    let contact_points = cassandra.addresses().split(',').map(str::to_owned).collect();
    let [connect_timeout, read_timeout, write_timeout] = [Duration::from_secs(2); 3];
    Options { replication_factor: copies, connect_timeout, read_timeout, write_timeout, ..Options::at(contact_points) }
}

#[tokio::test]
async fn calls_fail_fast_while_the_server_is_down_or_unresponsive_and_succeed_after_its_return() {
    let (_machine, mut cassandra) = start(|| Cassandra::start(1)).await;
    let warnings = Warnings::default();
    let fixture = warnings.collect(Box::pin(TestStores::open(options(&cassandra, 1)))).await.unwrap();
    assert!(!warnings.text().contains("axos"), "the server uses Paxos v2: {}", warnings.text());
    fixture.created("first").await;
    for silent in [true, false] {
        match silent {
            true => cassandra.node(0).unwrap().pause().unwrap(),
            false => cassandra.node(0).unwrap().kill(),
        }
        // Sends many calls in rounds: no call is acknowledged, and no round exceeds the time limit.
        for round in 0..3 {
            let round_started_at = Instant::now();
            let writes = (0..300).map(|number| {
                let name = format!("lost-{silent}-{round}-{number}");
                let fixture = &fixture;
                async move { fixture.create(&name).await.map(drop) }
            });
            for outcome in futures::future::join_all(writes).await {
                let refused = outcome.unwrap_err();
                assert_eq!(refused.reason, Reason::StoreUnavailable, "{refused}");
            }
            assert!(round_started_at.elapsed() < ROUND_MAX, "{:?}", round_started_at.elapsed());
            if round > 0 {
                let started_at = Instant::now();
                let refused = fixture.count().await.unwrap_err();
                assert!(refused.retry_after.is_some() || started_at.elapsed() < Duration::from_secs(3), "{refused:?}");
            }
        }
        let call_counters = fixture.stores.health.call_counters().unwrap();
        assert!(call_counters.is_open, "{call_counters:?}");
        match silent {
            true => cassandra.node(0).unwrap().resume().unwrap(),
            false => {
                cassandra = tokio::task::spawn_blocking(move || {
                    cassandra.node(0).unwrap().run().unwrap();
                    cassandra
                })
                .await
                .unwrap();
            }
        }
        fixture.created(&format!("after-{silent}")).await;
        assert!(!fixture.stores.health.call_counters().unwrap().is_open);
    }
    // Writes with an unknown outcome may be committed; acknowledged writes are committed.
    assert!(fixture.count().await.unwrap() >= 3);
}

#[tokio::test]
async fn calls_succeed_after_the_loss_of_one_of_three_servers() {
    let (_machine, mut cassandra) = start(|| Cassandra::start(3)).await;
    // Servers that have just started need time to discover each other and to agree on tables.
    let fixture =
        wait_for("an open keyspace", PATIENCE, async || TestStores::open(options(&cassandra, 3)).await.ok()).await;
    for number in 0..10 {
        fixture.created(&format!("before-{number}")).await;
    }
    // A process compares its clock with the clock of each server, and uses the median of the offsets.
    assert_eq!(fixture.stores.health.clock_offsets(&folio_types::System).await.len(), 3);
    timed_out_reads_affect_one_organization(&mut cassandra).await;
    // A stopped server costs latency, not failures: each call is answered within a time limit, without a retry.
    cassandra.node(2).unwrap().pause().unwrap();
    let stopped_at = Instant::now();
    for number in 0..20 {
        let started_at = Instant::now();
        let outcome = fixture.create(&format!("paused-{number}")).await;
        assert!(matches!(&outcome, Ok(WriteOutcome::Row(row)) if matches!(row.state, OpState::Done(_))), "{outcome:?}");
        println!("{:?} after the stop: {:?}", stopped_at.elapsed(), started_at.elapsed());
    }
    cassandra.node(2).unwrap().resume().unwrap();
    cassandra.node(1).unwrap().kill();
    for number in 0..10 {
        fixture.created(&format!("without-{number}")).await;
    }
    assert_eq!(fixture.counted().await, 40);
    cassandra = tokio::task::spawn_blocking(move || {
        cassandra.node(1).unwrap().run().unwrap();
        cassandra
    })
    .await
    .unwrap();
    fixture.created("again").await;
    assert_eq!(fixture.counted().await, 41);
    drop(cassandra);
}

/// Number of concurrent reads that time out. Each occupies a thread of two coordinators, of which Cassandra has 128.
const FLOOD: usize = 60;

/// Checks that reads of one organization that time out leave the calls of another organization unaffected. Each partition
/// has one copy, so that a stopped server makes the reads of some organizations time out, and no others.
async fn timed_out_reads_affect_one_organization(cassandra: &mut Cassandra) {
    // With the default limits, the servers answer a read before the time limit of the client.
    let contact_points = options(cassandra, 1).contact_points;
    let options =
        Options { keyspace: "folio_one_copy".to_owned(), replication_factor: 1, ..Options::at(contact_points) };
    let mut fixture =
        wait_for("an open keyspace", PATIENCE, async || TestStores::open(options.clone()).await.ok()).await;
    let mut orgs = Vec::new();
    for number in 0..24 {
        fixture.org = OrgId::derive(&["one copy", &number.to_string()]);
        fixture.created("tag").await;
        orgs.push(fixture.org.clone());
    }
    reads_are_sent_to_a_replica(&fixture, &orgs).await;
    let tags = fixture.stores.of::<Tag>();
    let read = async |org: &OrgId| {
        let tag = tags.get(org, &TagId::derive(&[org.as_str(), "tag"])).await?;
        assert!(tag.is_some(), "an acknowledged tag");
        Ok::<_, folio_types::Error>(())
    };
    cassandra.node(2).unwrap().pause().unwrap();
    let outcomes = futures::future::join_all(orgs.iter().map(&read)).await;
    let (unaffected, failing): (Vec<_>, Vec<_>) = orgs.iter().zip(outcomes).partition(|(_, outcome)| outcome.is_ok());
    assert!(!unaffected.is_empty() && !failing.is_empty(), "{} of {}", failing.len(), orgs.len());
    let busy = failing[0].0;
    let flood = futures::future::join_all((0..FLOOD).map(|_| async {
        let outcomes = [read(busy).await, read(busy).await];
        outcomes.map(|outcome| outcome.expect_err("the server is stopped").reason)
    }));
    let mut flood = std::pin::pin!(flood);
    let mut times = Vec::new();
    let reasons = loop {
        tokio::select! {
            reasons = &mut flood => break reasons,
            () = async {
                for (org, _) in &unaffected {
                    let started_at = Instant::now();
                    read(org).await.unwrap();
                    times.push(started_at.elapsed());
                }
            } => {}
        }
    };
    assert!(reasons.into_iter().flatten().all(|reason| reason == Reason::StoreUnavailable));
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100];
    println!("{} reads of other organizations: p99 {p99:?}, longest {:?}", times.len(), times.last());
    assert!(times.len() > 100 && p99 < READ_MAX, "{} reads, p99 {p99:?}", times.len());
    assert!(!fixture.stores.health.call_counters().unwrap().is_open);
    cassandra.node(2).unwrap().resume().unwrap();
    wait_for("reads of every organization", PATIENCE, async || {
        let outcomes = futures::future::join_all(orgs.iter().map(&read)).await;
        outcomes.iter().all(Result::is_ok).then_some(())
    })
    .await;
}

/// Maximum number of organizations whose read has another coordinator: a read that is not answered within 300 ms is also
/// sent to a second server.
const OTHER_COORDINATORS_MAX: usize = 6;

/// Checks that a read is sent to the server that has the only copy of the row. Without token-aware routing another server
/// would coordinate two of three reads.
async fn reads_are_sent_to_a_replica(fixture: &TestStores, orgs: &[OrgId]) {
    let tags = fixture.stores.of::<Tag>();
    let mut others = 0;
    for org in orgs {
        let id = TagId::derive(&[org.as_str(), "tag"]);
        // A loaded server loses traces.
        let reads = wait_for("complete traces", PATIENCE, async || {
            fixture.cql.coordinated_by_replica(tags.get(org, &id)).await.unwrap()
        });
        let reads = reads.await;
        assert!(!reads.is_empty(), "a read of a tag");
        others += usize::from(reads.contains(&false));
    }
    assert!(others <= OTHER_COORDINATORS_MAX, "{others} of {} reads were sent to another server", orgs.len());
}

/// Two processes in different data centers create the same tag. Conditions that each data center checks alone would let both succeed.
#[tokio::test]
async fn invariant_1_conditions_of_two_data_centers_exclude_each_other() {
    let (_machine, mut cassandra) = start(|| Cassandra::start_in(&["datacenter1", "datacenter2"])).await;
    let own = |number: usize, cassandra: &mut Cassandra| Options {
        contact_points: vec![cassandra.node(number).unwrap().address()],
        datacenter: Some(format!("datacenter{}", number + 1)),
        ..options(cassandra, 1)
    };
    let (first, second) = (own(0, &mut cassandra), own(1, &mut cassandra));
    let fixture = wait_for("an open keyspace", PATIENCE, async || TestStores::open(first.clone()).await.ok()).await;
    let refused = CqlStore::open(second.clone()).await.err().unwrap();
    assert!(refused.message.contains("datacenter1") && refused.message.contains("datacenter2"), "{refused}");
    let session = SessionBuilder::new().known_node(&first.contact_points[0]).build().await.unwrap();
    let both = "ALTER KEYSPACE folio WITH replication = \
                {'class': 'NetworkTopologyStrategy', 'datacenter1': 1, 'datacenter2': 1}";
    // The simple strategy chooses the replicas among the servers of both data centers.
    let simple = "ALTER KEYSPACE folio WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}";
    for replication in [simple, both] {
        session.query_unpaged(replication, ()).await.unwrap();
        let refused = CqlStore::open(Options { single_datacenter: true, ..first.clone() }).await.err().unwrap();
        assert!(refused.message.contains("single_datacenter"), "{replication}: {refused}");
    }
    drop(fixture);
    let first = TestStores::open(first).await.unwrap();
    let second = TestStores { org: first.org.clone(), ..TestStores::open(second).await.unwrap() };
    let done = |outcome: &folio_types::Result<WriteOutcome>| matches!(outcome, Ok(WriteOutcome::Row(row)) if matches!(row.state, OpState::Done(_)));
    let mut created = Vec::new();
    let mut failed = Vec::new();
    for number in 0..20 {
        let tag = format!("tag-{number}");
        let (one, other) = tokio::join!(first.create_as(&tag, "one"), second.create_as(&tag, "other"));
        assert!(!(done(&one) && done(&other)), "both created {tag}: {one:?}, {other:?}");
        match done(&one) || done(&other) {
            true => created.push(tag),
            false => failed.push((tag, one, other)),
        }
    }
    // On a busy machine, both writes of a tag may exceed their time limits.
    assert!(created.len() >= 10, "{} tags were created; {failed:?}", created.len());
}

/// The server also uses Paxos v1, because each further server costs the tests several seconds.
#[tokio::test]
async fn connections_use_tls_a_password_and_a_client_certificate_and_paxos_v1_is_reported() {
    let identity = identity();
    let secured = identity.clone();
    let (_machine, cassandra) = start(move || Cassandra::start_secured(&secured)).await;
    let credentials = |password: &str| Some(("cassandra".to_owned(), password.to_owned()));
    let client = client_files(&identity);
    let secured =
        Options { credentials: credentials("cassandra"), tls: Some(client.clone()), ..options(&cassandra, 1) };
    let warnings = Warnings::default();
    // The server creates the user some time after it accepts connections.
    let fixture = wait_for("the user", PATIENCE, async || {
        warnings.collect(Box::pin(TestStores::open(secured.clone()))).await.ok()
    })
    .await;
    assert!(warnings.text().contains(PAXOS_V1), "{}", warnings.text());
    fixture.created("encrypted").await;
    assert_eq!(fixture.count().await.unwrap(), 1);

    let stranger = client_files(&self::identity::identity());
    let stranger = folio_storage_client::Tls { authorities: stranger.authorities, ..client.clone() };
    let anonymous = folio_storage_client::Tls { client: None, ..client };
    for (what, options) in [
        ("no encryption", Options { tls: None, ..secured.clone() }),
        ("an authority that did not sign it", Options { tls: Some(stranger), ..secured.clone() }),
        ("no client certificate", Options { tls: Some(anonymous), ..secured.clone() }),
        ("another password", Options { credentials: credentials("another"), ..secured.clone() }),
        ("no password", Options { credentials: None, ..secured.clone() }),
    ] {
        let refused = tokio::time::timeout(PATIENCE, CqlStore::open(options)).await.unwrap();
        assert_eq!(refused.err().map(|error| error.reason), Some(Reason::StoreUnavailable), "{what}");
    }
}
