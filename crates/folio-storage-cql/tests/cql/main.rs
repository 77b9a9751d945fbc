//! Tests of the CQL adapter on a real server: that of the test run (`cargo xtask test`, `FOLIO_TEST_CQL`), else one
//! that this process starts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
#[path = "../../../folio-storage-client/tests/certificates/identity.rs"]
mod identity;
mod lists;
mod migrations;
mod protocol;
mod suites;

use std::sync::atomic::{AtomicU64, Ordering};

use folio_storage::Stores;
use folio_storage_cql::{CqlStore, Options};
use folio_storage_embedded::EmbeddedStore;

/// Returns settings for a keyspace on the server of this test run. One replica, because there may be only one server.
async fn options(keyspace: &str) -> Options {
    let servers = tokio::task::spawn_blocking(folio_test_servers::cql).await.unwrap().unwrap();
    let contact_points = servers.split(',').map(str::to_owned).collect();
    Options { keyspace: keyspace.to_owned(), replication_factor: 1, ..Options::at(contact_points) }
}

/// The stores of one keyspace that all tests share, because creating tables is slow, with blobs in a folder.
struct Opened {
    stores: Stores,
    cql: CqlStore,
    /// Keeps the folder of the blobs.
    _folder: tempfile::TempDir,
    _embedded: EmbeddedStore,
}

async fn opened() -> Opened {
    let cql = CqlStore::open(options("folio_suites").await).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
    let stores = cql.stores(embedded.stores().blobs);
    Opened { stores, cql, _folder: folder, _embedded: embedded }
}

/// Returns a name that separates the rows of this test from all others in the keyspace, also from earlier runs.
fn nonce() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", folio_types::Timestamp::now().as_nanosecond())
}
