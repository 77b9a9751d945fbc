//! Settings of the CQL adapter.

use std::sync::Arc;
use std::time::Duration;

use folio_types::environment::{Environment, System};
use folio_types::{Error, Reason, Result};
use scylla::client::session::TlsContext;

use folio_storage_client::Tls;

#[derive(Clone)]
pub struct Options {
    /// `host` or `host:port`. The driver discovers the other servers.
    pub contact_points: Vec<String>,
    /// Created if it does not exist. Lower-case letters, digits and underscores, a letter first. Default: `folio`.
    pub keyspace: String,
    /// Number of replicas of each row in the data center (default: 3). Used only when the keyspace is created.
    pub replication_factor: u8,
    /// The data center that serves this process. Default: that of the first server that answers.
    pub datacenter: Option<String>,
    /// Refuse a keyspace with replicas in several data centers. Default: false; each write then waits for a majority of
    /// all replicas.
    pub single_datacenter: bool,
    /// User and password. None: the servers require no authentication.
    pub credentials: Option<(String, String)>,
    /// A server's certificate must contain its IP address, because servers are discovered by address. Default: no
    /// encryption.
    pub tls: Option<Tls>,
    /// Time limit for connecting to one server (default: 5 s).
    pub connect_timeout: Duration,
    /// Time limit of a read, repetitions included (default: 6 s). Longer than a server waits for replicas (5 s by default):
    /// the driver closes a connection with many reads that it abandoned, which fails the reads of other organizations.
    pub read_timeout: Duration,
    /// Time limit of an unconditional write, repetitions included (default: 5 s).
    pub write_timeout: Duration,
    /// Time limit of one attempt of a conditional write, whose outcome is unknown after the limit (default: 2.25 s, a little
    /// longer than a server waits for replicas by default).
    pub conditional_timeout: Duration,
    /// Time for which opening waits for the migration lock of another process (default: 120 s).
    pub migration_timeout: Duration,
    /// The source of time and randomness. Default: the system.
    pub environment: Arc<dyn Environment>,
}

impl Options {
    pub fn at(contact_points: Vec<String>) -> Self {
        Self {
            contact_points,
            keyspace: "folio".to_owned(),
            replication_factor: 3,
            datacenter: None,
            single_datacenter: false,
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(6),
            write_timeout: Duration::from_secs(5),
            conditional_timeout: Duration::from_millis(2_250),
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

pub(crate) async fn tls_context(tls: &Tls) -> Result<TlsContext> {
    let config = tls.read().await.and_then(|material| material.client_config());
    config.map(TlsContext::Rustls023).map_err(|error| {
        Error::invalid(Reason::InvalidField, format!("the certificates for the CQL servers cannot be used: {error}"))
    })
}
