//! Settings of the CQL adapter.

use std::sync::Arc;
use std::time::Duration;

use folio_breaker::BreakerOptions;
use folio_types::environment::{Environment, System};
use folio_types::{Error, Reason, Result};
use scylla::client::session::TlsContext;

use folio_storage_client::Tls;

/// Settings of the CQL adapter.
#[derive(Clone)]
pub struct Options {
    /// Contact points, `host` or `host:port`; the other servers are found through them.
    pub contact_points: Vec<String>,
    /// The keyspace; made where it is not there. Letters, digits and underscores, a letter first. Default `folio`.
    pub keyspace: String,
    /// Copies of each row in the data center. Used where the keyspace is made, never changed later. Default 3.
    pub replication_factor: u8,
    /// The data center that serves this process. Default: the one of the first server that answers.
    pub datacenter: Option<String>,
    /// User and password, where the servers ask for them.
    pub credentials: Option<(String, String)>,
    /// Encrypts connections. A server's certificate must name its IP address: servers are found by it. Default: none.
    pub tls: Option<Tls>,
    /// How long connecting to one server may take. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a read may take, with its repetitions. Default 5 s.
    pub read_timeout: Duration,
    /// How long a write may take. One without a condition is repeated within it; one with a condition never is, and its
    /// outcome is unknown after it. Default 5 s.
    pub write_timeout: Duration,
    /// When calls to servers that do not answer are held back, and for how long. Default: after 8 failures in a row, 1 s.
    pub breaker: BreakerOptions,
    /// How long another process may hold the lock of the migrations before opening gives up. Default 120 s.
    pub migration_timeout: Duration,
    /// Where the time and fresh numbers come from. Default: the machine's.
    pub environment: Arc<dyn Environment>,
}

impl Options {
    /// The defaults for some contact points.
    pub fn at(contact_points: Vec<String>) -> Self {
        Self {
            contact_points,
            keyspace: "folio".to_owned(),
            replication_factor: 3,
            datacenter: None,
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(5),
            breaker: BreakerOptions { failures: 8, open_seconds: Duration::from_secs(1) },
            migration_timeout: Duration::from_secs(120),
            environment: Arc::new(System),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("contact_points", &self.contact_points)
            .field("keyspace", &self.keyspace)
            .field("replication_factor", &self.replication_factor)
            .field("datacenter", &self.datacenter)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// As the driver takes it.
pub(crate) async fn tls_context(tls: &Tls) -> Result<TlsContext> {
    let config = tls.read().await.and_then(|material| material.client_config());
    config.map(TlsContext::Rustls023).map_err(|error| {
        Error::invalid(Reason::InvalidField, format!("the certificates for the CQL servers cannot be used: {error}"))
    })
}
