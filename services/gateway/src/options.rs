//! Settings of the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::jwt::{self, IssuerOptions};
use crate::tls::TlsOptions;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Maximum number of concurrent calls that read or change one resource. Further calls are refused with
    /// `OVERLOADED`.
    pub short_calls: usize,
    /// Maximum number of concurrent streams, approvals, extractions and transfers. Further calls are refused with
    /// `OVERLOADED`.
    pub long_calls: usize,
    /// Maximum number of concurrent calls without a token (health, reflection). Further calls are refused with
    /// `OVERLOADED`.
    pub public_calls: usize,
    /// Deadline of a short call.
    #[serde(rename = "short_timeout_seconds", with = "folio_types::seconds")]
    pub short_timeout: Duration,
    /// Time for which tokens, members and organizations are cached: at most 2 s, which is the maximum delay of a
    /// revocation.
    #[serde(rename = "token_cache_seconds", with = "folio_types::seconds")]
    pub token_cache: Duration,
    /// Maximum number of failed authentication attempts per address and minute; further attempts are refused with
    /// `TOO_MANY_ATTEMPTS`, unless the token was valid within the last 15 minutes. 0: unbounded. Behind a proxy, all
    /// callers have the address of the proxy.
    pub failed_attempts_per_minute: u32,
    /// The issuers whose JWTs are accepted as access tokens, by a name that the operator chooses.
    pub jwt: BTreeMap<String, IssuerOptions>,
    /// Maximum size of an incoming message in bytes.
    pub message_bytes: usize,
    /// Maximum time until the first item of an accepted stream.
    #[serde(rename = "stream_first_seconds", with = "folio_types::seconds")]
    pub stream_first: Duration,
    /// Maximum time between two items of a stream.
    #[serde(rename = "stream_idle_seconds", with = "folio_types::seconds")]
    pub stream_idle: Duration,
    /// Maximum lifetime of a stream. A caller that still follows the stream reconnects.
    #[serde(rename = "stream_lifetime_seconds", with = "folio_types::seconds")]
    pub stream_lifetime: Duration,
    /// Maximum time between two parts of an upload or download.
    #[serde(rename = "transfer_idle_seconds", with = "folio_types::seconds")]
    pub transfer_idle: Duration,
    /// Maximum duration of an upload or download.
    #[serde(rename = "transfer_lifetime_seconds", with = "folio_types::seconds")]
    pub transfer_lifetime: Duration,
    /// Maximum time for which a response may remain unread before its stream is ended.
    #[serde(rename = "unread_seconds", with = "folio_types::seconds")]
    pub unread: Duration,
    /// Maximum number of connections; calls on further connections are refused with `OVERLOADED`.
    pub connections: usize,
    /// Interval of the health checks of the stores, which determine the health of the server.
    #[serde(rename = "health_interval_seconds", with = "folio_types::seconds")]
    pub health_interval: Duration,
    /// Maximum number of concurrent calls of a connection.
    pub streams_per_connection: u32,
    /// Time without traffic after which a connection is pinged.
    #[serde(rename = "keepalive_interval_seconds", with = "folio_types::seconds")]
    pub keepalive_interval: Duration,
    /// Time-out of the answer to a ping.
    #[serde(rename = "keepalive_timeout_seconds", with = "folio_types::seconds")]
    pub keepalive_timeout: Duration,
    pub tls: TlsOptions,
    /// Permits plain text on an address that is not loopback, because a proxy terminates TLS or the network is trusted.
    pub insecure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            short_calls: 1_024,
            long_calls: 8_192,
            public_calls: 64,
            short_timeout: Duration::from_secs(30),
            token_cache: Duration::from_secs(2),
            failed_attempts_per_minute: 60,
            jwt: BTreeMap::new(),
            message_bytes: 4 * 1024 * 1024,
            stream_first: Duration::from_secs(60),
            stream_idle: Duration::from_secs(15 * 60),
            stream_lifetime: Duration::from_secs(6 * 60 * 60),
            transfer_idle: Duration::from_secs(60),
            transfer_lifetime: Duration::from_secs(30 * 60),
            unread: Duration::from_secs(60),
            connections: 1_024,
            health_interval: Duration::from_secs(5),
            streams_per_connection: 1_024,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(20),
            tls: TlsOptions::default(),
            insecure: false,
        }
    }
}

/// Lower bound of every time-out and interval.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Upper bound of the deadline of short calls, and of intervals.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Upper bound of the time for which tokens are cached, because the cache delays a revocation.
const TOKEN_CACHE_MAX: Duration = Duration::from_secs(2);

impl Options {
    /// Error: every setting that is out of bounds, with the bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("gateway");
        for (path, value) in
            [("short_calls", self.short_calls), ("long_calls", self.long_calls), ("public_calls", self.public_calls)]
        {
            problems.number(path, value, 1, 1_000_000);
        }
        problems.number("message_bytes", self.message_bytes, 64 * 1024, 64 * 1024 * 1024);
        problems.number("connections", self.connections, 1, 1_000_000);
        problems.number("streams_per_connection", self.streams_per_connection, 1, 1_000_000);
        for (path, value, min, max) in [
            ("short_timeout_seconds", self.short_timeout, TIMEOUT_MIN, HOUR),
            ("token_cache_seconds", self.token_cache, Duration::ZERO, TOKEN_CACHE_MAX),
            ("stream_first_seconds", self.stream_first, TIMEOUT_MIN, DAY),
            ("stream_idle_seconds", self.stream_idle, TIMEOUT_MIN, 30 * DAY),
            ("stream_lifetime_seconds", self.stream_lifetime, TIMEOUT_MIN, 30 * DAY),
            ("transfer_idle_seconds", self.transfer_idle, TIMEOUT_MIN, DAY),
            ("transfer_lifetime_seconds", self.transfer_lifetime, TIMEOUT_MIN, 30 * DAY),
            ("unread_seconds", self.unread, TIMEOUT_MIN, DAY),
            ("health_interval_seconds", self.health_interval, TIMEOUT_MIN, HOUR),
            ("keepalive_interval_seconds", self.keepalive_interval, TIMEOUT_MIN, HOUR),
            ("keepalive_timeout_seconds", self.keepalive_timeout, TIMEOUT_MIN, HOUR),
        ] {
            problems.seconds(path, value, min, max);
        }
        self.tls.check(&mut problems);
        jwt::check(&self.jwt, &mut problems);
        problems.into_result()
    }

    /// Checks that the public API may be served at an address: with TLS, on loopback, or because `insecure` permits it.
    /// Otherwise tokens and documents would be sent in plain text.
    pub fn allows(&self, address: SocketAddr) -> Result<()> {
        if self.tls.is_enabled() || self.insecure || address.ip().is_loopback() {
            return Ok(());
        }
        Err(Error::internal(format!(
            "{address} is not a loopback address: configure a certificate (--tls-cert, --tls-key), or permit plain text (--insecure)"
        )))
    }
}
