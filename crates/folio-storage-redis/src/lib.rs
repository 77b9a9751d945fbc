//! What nodes share, in Redis: one server, or a cluster (keys that a script touches share a hash tag).
//!
//! Every change of more than one step is a script in `lua/`; the shape and the life of each key are written at the top of the
//! script that makes it. In short, behind a prefix (`folio`):
//!
//! | key | what | lives |
//! |---|---|---|
//! | `{nodes}` | hash: incarnations, heartbeats, since when the data is there | an hour after the last call |
//! | `{ORG}:turn:TURN` | hash: the state of a turn with its (epoch, version) | until its expiry, and 10 min |
//! | `{ORG}:waiting`, `{ORG}:waiting:USER` | sorted set: turns that wait for decisions, by expiry | as the longest state |
//! | `{ORG TURN}:events`, `{ORG TURN}:events:meta` | list and hash: the newest events of a turn | 10 min after the last |
//! | `{queue:NAME}:jobs`, `{queue:NAME}:keys` | stream with a group, hash: jobs | a week after the last |
//! | `{ORG}:rate:NAME` | hash: a bucket | until it is full |
//! | `{ORG}:slots:KIND` | sorted set: slots that are held, by the end of their lease | until the last lease ends |
//!
//! A connection that was lost is made again by the next call, also one that leads nowhere (silence, a server that is a
//! replica by now); scripts that the server forgot are loaded again. A call that does not answer within its time is
//! `STORE_UNAVAILABLE`, and may still be applied: see each script. While the server does not answer, calls fail at once.

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

/// How to reach Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS; some of the nodes of a cluster, with commas between.
    pub url: String,
    /// Whom a `rediss://` connection trusts. Default: the public authorities.
    pub tls: Option<Tls>,
    /// What every key begins with (`folio`).
    pub prefix: String,
    /// How long a call may take, its reconnecting included (2 s).
    pub timeout: Duration,
    /// When calls to a server that does not answer are held back, and for how long. Default: after 4 failures in a row, 1 s.
    pub breaker: BreakerOptions,
    /// Times and bounds of what is shared.
    pub shared: SharedOptions,
}

impl RedisOptions {
    /// Defaults for this server.
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

/// The shared stores in Redis. It connects with the first call, so that a Redis that is away now is no error.
///
/// # Errors
/// `INVALID_FIELD`: the URL is none.
pub fn shared_stores(options: RedisOptions) -> Result<SharedStores> {
    let connection = Arc::new(Connection::new(options)?);
    Ok(SharedStores {
        nodes: Arc::new(nodes::RedisNodes::new(Arc::clone(&connection))),
        turns: Arc::new(turns::RedisTurns::new(Arc::clone(&connection))),
        events: Arc::new(events::RedisEvents::new(Arc::clone(&connection))),
        jobs: Arc::new(jobs::RedisJobs::new(Arc::clone(&connection))),
        rates: Arc::new(rates::RedisRates::new(Arc::clone(&connection))),
        slots: Arc::new(slots::RedisSlots::new(Arc::clone(&connection))),
        health: connection,
    })
}

/// Milliseconds, as scripts take them.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
