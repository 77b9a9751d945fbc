//! The shared stores in Redis: one server, or a cluster (all keys of one script share a hash tag).
//!
//! Every change of more than one step is a script in `lua/`. The comment at the top of the script that creates a key
//! describes the structure and the time to live of the key. All keys have a prefix (`folio`):
//!
//! | key | content | time to live |
//! |---|---|---|
//! | `{nodes}` | hash: incarnations, heartbeats, start of the data | an hour after the last call |
//! | `{ORG}:turn:TURN` | hash: the state of a turn with its (epoch, version) | until its expiry plus 10 min |
//! | `{ORG}:waiting`, `{ORG}:waiting:USER` | sorted set: waiting turns by start of the pause | as its longest state |
//! | `{ORG TURN}:events`, `{ORG TURN}:events:meta` | list and hash: newest events | 10 min after the last event |
//! | `{queue:NAME}:jobs`, `:keys`, `:order`, `:groups`, `:pushed` | stream with a group, hash, sorted set, hash, list: jobs | a week after the last job |
//! | `{ORG}:rate:NAME` | hash: a bucket | until it is full |
//! | `{ORG}:window:NAME` | list: times of the events in a sliding window | a period after the last event |
//! | `{ORG}:slots:KIND` | sorted set: taken slots by the end of their lease | until the last lease ends |
//!
//! If a connection breaks or stops responding, or its server has become a replica, the next call reconnects. Scripts
//! that the server lost are loaded again. A call that times out fails with `STORE_UNAVAILABLE` and may still be
//! applied; each script states the effect. While the server is unavailable, calls fail immediately.

mod connection;
mod events;
mod jobs;
mod nodes;
mod rates;
mod slots;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use folio_breaker::BreakerOptions;
use folio_types::Result;

use self::connection::Connection;
use folio_storage::{SharedOptions, SharedStores};
use folio_storage_client::Tls;

#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS. For a cluster, the addresses of some of its
    /// nodes, separated by commas.
    pub url: String,
    /// TLS settings of `rediss://` connections. Default: trust the public authorities.
    pub tls: Option<Tls>,
    /// The prefix of every key (`folio`).
    pub prefix: String,
    /// Time limit of a call, reconnecting included (default: 2 s).
    pub timeout: Duration,
    /// Default: open for 1 s after 4 consecutive failures.
    pub breaker: BreakerOptions,
    pub shared: SharedOptions,
}

impl RedisOptions {
    pub fn at(url: impl Into<String>) -> Self {
        let (prefix, timeout) = ("folio".to_owned(), Duration::from_secs(2));
        let breaker = BreakerOptions { failures: 4, open_seconds: Duration::from_secs(1) };
        Self { url: url.into(), tls: None, prefix, timeout, breaker, shared: SharedOptions::default() }
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Returns the shared stores. The first call connects, so that an unavailable Redis is no error here. Fails with
/// `INVALID_FIELD` if the URL is malformed.
pub fn shared_stores(options: RedisOptions) -> Result<SharedStores> {
    let timeout = options.timeout.saturating_add(jobs::WAIT_MAX);
    // A process whose workers do not wait opens no connection for waits.
    let waits = Connection::new(RedisOptions { timeout, ..options.clone() }, connection::WAIT_KINDS)?;
    let connection = Arc::new(Connection::new(options, connection::KINDS)?);
    Ok(SharedStores {
        nodes: Arc::new(nodes::RedisNodes::new(Arc::clone(&connection))),
        turns: Arc::new(turns::RedisTurns::new(Arc::clone(&connection))),
        events: Arc::new(events::RedisEvents::new(Arc::clone(&connection))),
        jobs: Arc::new(jobs::RedisJobs::new(Arc::clone(&connection), Arc::new(waits))),
        rates: Arc::new(rates::RedisRates::new(Arc::clone(&connection))),
        slots: Arc::new(slots::RedisSlots::new(Arc::clone(&connection))),
        health: connection,
    })
}

/// Returns the duration in milliseconds, the unit of all scripts.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
