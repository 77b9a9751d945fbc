//! Settings of the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Result};

use crate::jwt::{self, IssuerOptions};
use crate::tls::TlsOptions;

folio_types::settings! {
    pub struct Options {
        /// Maximum number of concurrent calls that read or change one resource. Further calls are refused with
        /// `OVERLOADED`.
        pub short_calls: usize = 1_024,
        /// Maximum number of concurrent streams, approvals, extractions and transfers. Further calls are refused with
        /// `OVERLOADED`.
        pub long_calls: usize = 8_192,
        /// Maximum number of concurrent calls without a token (health, reflection). Further calls are refused with
        /// `OVERLOADED`.
        pub public_calls: usize = 64,
        /// Deadline of a short call.
        pub short_timeout: Duration as "short_timeout_seconds" = Duration::from_secs(30),
        /// Time for which tokens, members and organizations are cached: at most 2 s, which is the maximum delay of a
        /// revocation.
        pub token_cache: Duration as "token_cache_seconds" = Duration::from_secs(2),
        /// Maximum number of failed authentication attempts per address and minute; further attempts are refused with
        /// `TOO_MANY_ATTEMPTS`, unless the token was valid within the last 15 minutes. 0: unbounded. Behind a proxy,
        /// all callers have the address of the proxy.
        pub failed_attempts_per_minute: u32 = 60,
        /// The issuers whose JWTs are accepted as access tokens, by a name that the operator chooses.
        pub jwt: BTreeMap<String, IssuerOptions> = BTreeMap::new(),
        /// Maximum size of an incoming message in bytes.
        pub message_bytes: usize = 4 * 1024 * 1024,
        /// Maximum time until the first item of an accepted stream.
        pub stream_first: Duration as "stream_first_seconds" = Duration::from_secs(60),
        /// Maximum time between two items of a stream.
        pub stream_idle: Duration as "stream_idle_seconds" = Duration::from_secs(15 * 60),
        /// Maximum lifetime of a stream. A caller that still follows the stream reconnects.
        pub stream_lifetime: Duration as "stream_lifetime_seconds" = Duration::from_secs(6 * 60 * 60),
        /// Maximum time between two parts of an upload or download.
        pub transfer_idle: Duration as "transfer_idle_seconds" = Duration::from_secs(60),
        /// Maximum duration of an upload or download.
        pub transfer_lifetime: Duration as "transfer_lifetime_seconds" = Duration::from_secs(30 * 60),
        /// Maximum time for which a response may remain unread before its stream is ended.
        pub unread: Duration as "unread_seconds" = Duration::from_secs(60),
        /// Maximum number of connections; calls on further connections are refused with `OVERLOADED`.
        pub connections: usize = 1_024,
        /// Interval of the health checks of the stores, which determine the health of the server.
        pub health_interval: Duration as "health_interval_seconds" = Duration::from_secs(5),
        /// Maximum number of concurrent calls of a connection.
        pub streams_per_connection: u32 = 1_024,
        /// Time without traffic after which a connection is pinged.
        pub keepalive_interval: Duration as "keepalive_interval_seconds" = Duration::from_secs(20),
        /// Time-out of the answer to a ping.
        pub keepalive_timeout: Duration as "keepalive_timeout_seconds" = Duration::from_secs(20),
        pub tls: TlsOptions = TlsOptions::default(),
        /// Permits plain text on an address that is not loopback, because a proxy terminates TLS or the network is
        /// trusted.
        pub insecure: bool = false,
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
