//! The connection, and running scripts on it.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Error, Reason, Result};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{Cmd, ConnectionInfo, FromRedisValue, IntoConnectionInfo as _, RedisError, Script, ScriptInvocation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::RedisOptions;
use crate::traits::{SharedOptions, StoreHealth};

/// How long the making of a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_millis(1_000);

/// One connection that all calls share; made with the first call.
pub(super) struct Connection {
    servers: Vec<ConnectionInfo>,
    options: RedisOptions,
    link: OnceCell<Link>,
}

/// A link that reconnects by itself.
#[derive(Clone)]
enum Link {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) fn new(options: RedisOptions) -> Result<Self> {
        let servers = options.url.split(',').map(|url| {
            let server = url.trim().into_connection_info()?;
            Ok(server.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        });
        let servers = servers.collect::<Result<Vec<_>, RedisError>>().map_err(|error| {
            Error::invalid(Reason::InvalidField, format!("the address of Redis cannot be read: {:?}", error.kind()))
        })?;
        Ok(Self { servers, options, link: OnceCell::new() })
    }

    pub(super) fn shared(&self) -> &SharedOptions {
        &self.options.shared
    }

    /// The key of that name under a hash tag.
    pub(super) fn key(&self, tag: &str, name: &str) -> String {
        let prefix = &self.options.prefix;
        if name.is_empty() { format!("{prefix}:{{{tag}}}") } else { format!("{prefix}:{{{tag}}}:{name}") }
    }

    async fn connect(&self) -> Result<Link, RedisError> {
        if let [server] = self.servers.as_slice() {
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(CONNECT_LIMIT))
                .set_response_timeout(Some(self.options.timeout))
                .set_min_delay(Duration::from_millis(50))
                .set_max_delay(Duration::from_millis(200))
                .set_number_of_retries(2);
            let client = redis::Client::open(server.clone())?;
            return Ok(Link::One(ConnectionManager::new_lazy_with_config(client, config)?));
        }
        let client = ClusterClient::builder(self.servers.clone())
            .connection_timeout(CONNECT_LIMIT)
            .response_timeout(self.options.timeout)
            .retries(3)
            .min_retry_wait(50)
            .max_retry_wait(300)
            .tcp_settings(TcpSettings::default().set_nodelay(true))
            .build()?;
        client.get_async_connection().await.map(Link::Cluster)
    }

    async fn link(&self) -> Result<Link, RedisError> {
        self.link.get_or_try_init(|| self.connect()).await.cloned()
    }

    /// Runs a script; one that the server does not know (any more) is loaded.
    pub(super) async fn run<T: FromRedisValue>(&self, invocation: &ScriptInvocation<'_>) -> Result<T> {
        self.within(async {
            match self.link().await? {
                Link::One(mut link) => invocation.invoke_async(&mut link).await,
                Link::Cluster(mut link) => invocation.invoke_async(&mut link).await,
            }
        })
        .await
    }

    /// Runs one command.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        async fn query<T: FromRedisValue>(command: &Cmd, link: &mut impl ConnectionLike) -> Result<T, RedisError> {
            command.query_async(link).await
        }
        self.within(async {
            match self.link().await? {
                Link::One(mut link) => query(command, &mut link).await,
                Link::Cluster(mut link) => query(command, &mut link).await,
            }
        })
        .await
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Result<T> {
        match tokio::time::timeout(self.options.timeout, call).await {
            Ok(answer) => answer.map_err(|error| unavailable(&error)),
            Err(_) => Err(away("Redis did not answer in time")),
        }
    }
}

#[async_trait]
impl StoreHealth for Connection {
    async fn check(&self) -> Result<()> {
        let mut command = redis::cmd("SET");
        command.arg(self.key("health", "")).arg(1).arg("PX").arg(60_000);
        self.ask::<()>(&command).await
    }
}

fn unavailable(error: &RedisError) -> Error {
    tracing::warn!(%error, "a call to redis failed");
    away("Redis cannot be reached, or refused")
}

fn away(message: &'static str) -> Error {
    Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
}

/// A script from its file.
pub(super) fn script(text: &str) -> Script {
    Script::new(text)
}

/// A value as it is stored.
pub(super) fn written(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal(format!("a shared value cannot be written: {error}")))
}

/// A stored value. One of another build may not be readable.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(folio_types::Code::DataLoss, Reason::StoredFormat, format!("a shared value cannot be read: {error}"))
    })
}
