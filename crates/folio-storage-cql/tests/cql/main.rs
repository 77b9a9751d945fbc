//! Tests of the CQL adapter on a real server: the server of the test run (`cargo xtask test`, `FOLIO_TEST_CQL`),
//! otherwise a server that this process starts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod deletions;
mod late_batch;
mod lists;
mod migrations;
mod open_turns;
mod protocol;
mod references;
mod suites;
mod tombstones;
mod unreadable;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_storage_embedded::EmbeddedStore;

/// Returns settings for a keyspace on the server of this test run. One replica, because there may be only one server. The
/// time limits are longer than in production, because many tests share the server and the machine.
async fn options(keyspace: &str) -> Options {
    let servers = tokio::task::spawn_blocking(folio_test_servers::cql).await.unwrap().unwrap();
    let contact_points = servers.split(',').map(str::to_owned).collect();
    let [read_timeout, write_timeout, conditional_timeout] = [Duration::from_secs(30); 3];
    Options {
        keyspace: keyspace.to_owned(),
        replication_factor: 1,
        read_timeout,
        write_timeout,
        conditional_timeout,
        ..Options::at(contact_points)
    }
}

/// The stores of the keyspace that most tests share, because creating tables is slow. The blobs are in a temporary
/// folder.
struct SharedStores {
    stores: Stores,
    cql: CqlStore,
    _folder: tempfile::TempDir,
    _embedded: EmbeddedStore,
}

async fn open_shared_stores() -> SharedStores {
    let cql = CqlStore::open(options("folio_suites").await).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
    let stores = cql.stores(embedded.stores().blobs);
    SharedStores { stores, cql, _folder: folder, _embedded: embedded }
}

/// Returns a name that no other test uses in the keyspace, not even in an earlier run.
fn nonce() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", folio_types::Timestamp::now().as_nanosecond())
}
