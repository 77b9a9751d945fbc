//! The servers of a test run.

use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow};

use crate::{Cassandra, Redis, S3, Scylla, docker};

/// Environment variable with the Redis server: `redis://HOST:PORT`.
pub const REDIS: &str = "FOLIO_TEST_REDIS_URL";
/// Environment variable with the CQL server: `HOST:PORT[,HOST:PORT…]`.
pub const CQL: &str = "FOLIO_TEST_CQL";
/// Environment variable with the S3 server, its keys and its bucket: `http://KEY:SECRET@HOST:PORT/BUCKET`.
pub const S3_SERVER: &str = "FOLIO_TEST_S3";

pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty())
}

#[derive(Debug)]
enum CqlServer {
    Scylla(Scylla),
    Cassandra(Cassandra),
}

impl CqlServer {
    fn start() -> Result<Self> {
        if docker::is_available() {
            match Scylla::start() {
                Ok(scylla) => return Ok(Self::Scylla(scylla)),
                Err(error) => eprintln!("{:#}", error.context("ScyllaDB is not available; using Cassandra")),
            }
        }
        Cassandra::start_shared().map(Self::Cassandra)
    }

    fn address(&self) -> String {
        match self {
            Self::Scylla(scylla) => scylla.address(),
            Self::Cassandra(cassandra) => cassandra.addresses(),
        }
    }
}

/// One server of each kind, except the servers in environment variables. Dropping the value kills them.
#[derive(Debug)]
pub struct Servers {
    redis: Option<Redis>,
    cql: Option<CqlServer>,
    s3: Option<S3>,
}

impl Servers {
    /// Starts the servers concurrently and waits until they are ready. If a server does not start, the others are
    /// stopped.
    pub fn start() -> Result<Self> {
        std::thread::scope(|scope| {
            let cql = scope.spawn(|| start_unless_set(CQL, CqlServer::start));
            let s3 = scope.spawn(|| start_unless_set(S3_SERVER, S3::start));
            let redis = start_unless_set(REDIS, Redis::start).context("Redis");
            let cql = cql.join().map_err(|_| anyhow!("the start panicked")).flatten().context("the CQL server");
            let s3 = s3.join().map_err(|_| anyhow!("the start panicked")).flatten().context("the S3 server");
            Ok(Self { redis: redis?, cql: cql?, s3: s3? })
        })
    }

    /// Returns the variables of the servers that were started.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let redis = self.redis.as_ref().map(|redis| (REDIS, redis.url()));
        let cql = self.cql.as_ref().map(|cql| (CQL, cql.address()));
        let s3 = self.s3.as_ref().map(|s3| (S3_SERVER, s3.url()));
        [redis, cql, s3].into_iter().flatten().collect()
    }
}

fn start_unless_set<T>(variable: &str, start: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if is_set(variable) { Ok(None) } else { start().map(Some) }
}

/// Returns the value of the variable, otherwise the address of a server that this process starts. The server's watcher
/// ends it, because statics are never dropped.
fn shared<T>(
    variable: &str,
    server: &'static OnceLock<Result<(T, String), String>>,
    start: impl FnOnce() -> Result<T>,
    address: impl FnOnce(&T) -> String,
) -> Result<String> {
    if let Ok(value) = std::env::var(variable)
        && !value.is_empty()
    {
        return Ok(value);
    }
    let started = server.get_or_init(|| {
        let server = start().map_err(|error| format!("{error:#}"))?;
        let address = address(&server);
        Ok((server, address))
    });
    match started {
        Ok((_, address)) => Ok(address.clone()),
        Err(error) => Err(anyhow!("{error} (set {variable} to use an existing server)")),
    }
}

/// Returns the server of this test run as `redis://HOST:PORT`.
pub fn redis_url() -> Result<String> {
    static SERVER: OnceLock<Result<(Redis, String), String>> = OnceLock::new();
    shared(REDIS, &SERVER, Redis::start, Redis::url)
}

/// Returns the addresses of the CQL server of this test run, separated by commas.
pub fn cql() -> Result<String> {
    static SERVER: OnceLock<Result<(CqlServer, String), String>> = OnceLock::new();
    shared(CQL, &SERVER, CqlServer::start, CqlServer::address)
}

/// Returns the URL of the S3 server of this test run, with its keys and bucket.
pub fn s3() -> Result<String> {
    static SERVER: OnceLock<Result<(S3, String), String>> = OnceLock::new();
    shared(S3_SERVER, &SERVER, S3::start, S3::url)
}
