//! The connection to Redis, and the execution of scripts and commands on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use folio_breaker::Outcome;
use folio_types::{Environment, Error, Reason, Result, Timestamp};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    ClientTlsConfig, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo as _, RedisError,
    ScriptInvocation, ServerErrorKind, TlsCertificates,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::RedisOptions;
use folio_storage::{CallCounters, SharedOptions, StoreHealth, clock_offset};
use folio_storage_client::{Guard, Material, Tls};

const CONNECT_LIMIT: Duration = Duration::from_millis(1_000);

/// Names of the kinds of calls in metrics.
pub(super) const KINDS: &[&str; 2] = &["script", "command"];
/// Names of the kinds of calls of a connection whose commands wait in the server.
pub(super) const WAIT_KINDS: &[&str; 2] = &["script", "wait"];
const SCRIPT: usize = 0;
const COMMAND: usize = 1;

/// A connection that all calls share. The first call opens the connection; the call after a failure of the server
/// reopens it.
pub(super) struct Connection {
    servers: Vec<ConnectionInfo>,
    options: RedisOptions,
    link: Mutex<Arc<OnceCell<Link>>>,
    guard: Guard,
}

/// A link reconnects by itself.
#[derive(Clone)]
enum Link {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Connection {
    /// `kinds`: the names of scripts and commands in metrics.
    pub(super) fn new(options: RedisOptions, kinds: &'static [&'static str; 2]) -> Result<Self> {
        let servers = options.url.split(',').map(|url| {
            let server = url.trim().into_connection_info()?;
            Ok(server.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        });
        let servers = servers.collect::<Result<Vec<_>, RedisError>>().map_err(|_| {
            let message = "invalid Redis URL: expected redis://[USER:PASSWORD@]HOST[:PORT][/DB]";
            Error::invalid(Reason::InvalidField, message)
        })?;
        if options.tls.is_some() && !options.url.split(',').all(|url| url.trim().starts_with("rediss://")) {
            let message = "certificates for Redis are set, but an address does not begin with rediss://";
            return Err(Error::invalid(Reason::InvalidField, message));
        }
        let guard = Guard::new("redis", kinds, options.breaker);
        Ok(Self { servers, options, link: Mutex::default(), guard })
    }

    pub(super) fn shared(&self) -> &SharedOptions {
        &self.options.shared
    }

    /// Returns the key with this name under a hash tag. An empty name: the key of the tag itself.
    pub(super) fn key(&self, tag: &str, name: &str) -> String {
        let prefix = &self.options.prefix;
        if name.is_empty() { format!("{prefix}:{{{tag}}}") } else { format!("{prefix}:{{{tag}}}:{name}") }
    }

    async fn connect(&self) -> Result<Link, RedisError> {
        let certificates = match &self.options.tls {
            Some(tls) => Some(certificates(tls).await?),
            None => None,
        };
        if let [server] = self.servers.as_slice() {
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(CONNECT_LIMIT))
                .set_response_timeout(Some(self.options.timeout))
                .set_min_delay(Duration::from_millis(50))
                .set_max_delay(Duration::from_millis(200))
                .set_number_of_retries(2);
            let client = match certificates {
                Some(certificates) => redis::Client::build_with_tls(server.clone(), certificates)?,
                None => redis::Client::open(server.clone())?,
            };
            return Ok(Link::One(ConnectionManager::new_lazy_with_config(client, config)?));
        }
        let mut builder = ClusterClient::builder(self.servers.clone())
            .connection_timeout(CONNECT_LIMIT)
            .response_timeout(self.options.timeout)
            .retries(3)
            .min_retry_wait(50)
            .max_retry_wait(300)
            .tcp_settings(TcpSettings::default().set_nodelay(true));
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        builder.build()?.get_async_connection().await.map(Link::Cluster)
    }

    /// Runs a script. Loads the script first if the server does not have it.
    pub(super) async fn run<T: FromRedisValue>(&self, invocation: &ScriptInvocation<'_>) -> Result<T> {
        self.call(SCRIPT, async |link| match link {
            Link::One(mut link) => invocation.invoke_async(&mut link).await,
            Link::Cluster(mut link) => invocation.invoke_async(&mut link).await,
        })
        .await
    }

    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        async fn query<T: FromRedisValue>(command: &Cmd, link: &mut impl ConnectionLike) -> Result<T, RedisError> {
            command.query_async(link).await
        }
        self.call(COMMAND, async |link| match link {
            Link::One(mut link) => query(command, &mut link).await,
            Link::Cluster(mut link) => query(command, &mut link).await,
        })
        .await
    }

    async fn call<T>(&self, kind: usize, call: impl AsyncFnOnce(Link) -> Result<T, RedisError>) -> Result<T> {
        let cell = Arc::clone(&self.link());
        let limited = async {
            let answer = async { call(cell.get_or_try_init(|| self.connect()).await.cloned()?).await };
            match tokio::time::timeout(self.options.timeout, answer).await {
                Ok(answer) => answer.map_err(CallFailure::Redis),
                Err(_) => Err(CallFailure::Timeout),
            }
        };
        match self.guard.call(kind, None, self.options.timeout, limited, CallFailure::health).await? {
            Ok(answer) => Ok(answer),
            Err(failed) => {
                if failed.must_reconnect() {
                    self.drop_link(&cell);
                }
                Err(failed.into_error())
            }
        }
    }

    fn link(&self) -> MutexGuard<'_, Arc<OnceCell<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the connection unless another call has already replaced it. The next call reconnects.
    fn drop_link(&self, used: &Arc<OnceCell<Link>>) {
        let mut link = self.link();
        if Arc::ptr_eq(&link, used) {
            *link = Arc::default();
        }
    }
}

enum CallFailure {
    Timeout,
    Redis(RedisError),
}

impl CallFailure {
    fn health(&self) -> Outcome {
        match self {
            Self::Timeout => Outcome::Failure,
            Self::Redis(error) => match error.kind() {
                ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::TryAgain,
                )
                | ErrorKind::Io
                | ErrorKind::Parse
                | ErrorKind::AuthenticationFailed
                | ErrorKind::ClusterConnectionNotFound => Outcome::Failure,
                _ => Outcome::Success,
            },
        }
    }

    /// Returns whether the next call must reconnect: the server of a silent connection may be dead, and a server that
    /// refuses writes may have become a replica. The driver itself reopens a broken connection.
    fn must_reconnect(&self) -> bool {
        match self {
            Self::Timeout => true,
            Self::Redis(error) => error.is_timeout() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly),
        }
    }

    fn into_error(self) -> Error {
        match &self {
            Self::Timeout => store_unavailable("the call to Redis timed out"),
            Self::Redis(error) => {
                let is_refused = self.health() == Outcome::Success;
                tracing::warn!(%error, "a call to Redis failed");
                store_unavailable(if is_refused { "Redis refused the call" } else { "Redis is unreachable" })
            }
        }
    }
}

async fn certificates(tls: &Tls) -> Result<TlsCertificates, RedisError> {
    let Material { authorities, client } = tls.read().await.map_err(|error| {
        RedisError::from((ErrorKind::InvalidClientConfig, "the certificates for Redis cannot be read", error))
    })?;
    let client_tls = client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Ok(TlsCertificates { client_tls, root_cert: authorities })
}

#[async_trait]
impl StoreHealth for Connection {
    async fn check(&self) -> Result<()> {
        let mut command = redis::cmd("SET");
        command.arg(self.key("health", "")).arg(1).arg("PX").arg(60_000);
        self.query::<()>(&command).await
    }

    async fn clock_offsets(&self, environment: &dyn Environment) -> Vec<i64> {
        let read = async {
            let (seconds, microseconds): (i64, i32) = self.query(&redis::cmd("TIME")).await?;
            Timestamp::new(seconds, microseconds.saturating_mul(1_000))
                .map_err(|_| store_unavailable("Redis returned an invalid time"))
        };
        clock_offset(environment, read).await.into_iter().collect()
    }

    fn call_counters(&self) -> Option<CallCounters> {
        Some(self.guard.call_counters())
    }
}

fn store_unavailable(message: &'static str) -> Error {
    Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
}

pub(super) fn encode(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal(format!("a shared value cannot be encoded: {error}")))
}

/// Fails with `STORED_FORMAT` for a value that another build wrote in an unknown format.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::stored_format(format!("a shared value is unreadable: {error}")))
}
