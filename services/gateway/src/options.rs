//! Settings of the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use folio_permits::Amount;
use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Reason, Result};
use ipnet::IpNet;
use tokio::task::JoinSet;

use crate::call_shares::ShareBounds;
use crate::faces::is_origin;
use crate::jwt::{self, IssuerOptions, Issuers};
use crate::tls::{Certificates, TlsOptions};

folio_types::settings! {
    pub struct Options {
        /// Maximum number of concurrent calls that read or change one resource. Further calls are refused with
        /// `OVERLOADED`.
        pub short_calls: usize = 1_024,
        /// The same for each organization.
        pub short_calls_per_organization: usize = 256,
        /// The same for each user.
        pub short_calls_per_user: usize = 128,
        /// Maximum number of concurrent streams, approvals, extractions and transfers. Further calls are refused with
        /// `OVERLOADED`.
        pub long_calls: usize = 8_192,
        /// The same for each organization.
        pub long_calls_per_organization: usize = 2_048,
        /// The same for each user.
        pub long_calls_per_user: usize = 1_024,
        /// Maximum number of concurrent health checks, and of concurrent streams without a token (health, reflection). A
        /// further one ends the oldest one.
        pub public_calls: usize = 256,
        /// The same for each address.
        pub public_calls_per_address: usize = 32,
        /// Maximum lifetime of a call without a token.
        pub public_lifetime: Duration as "public_lifetime_seconds" = Duration::from_secs(10 * 60),
        /// Deadline of a short call.
        pub short_timeout: Duration as "short_timeout_seconds" = Duration::from_secs(30),
        /// Time for which tokens, members and organizations are cached: at most 2 s, which is the maximum delay of a
        /// revocation.
        pub token_cache: Duration as "token_cache_seconds" = Duration::from_secs(2),
        /// Number of failed authentication attempts per address and minute after which further failed attempts are answered
        /// with `TOO_MANY_ATTEMPTS`. A valid token is accepted nevertheless. 0: unbounded.
        pub failed_attempts_per_minute: u32 = 60,
        /// Networks of proxies that announce the address of a caller: with `X-Forwarded-For`, or with the PROXY protocol if
        /// `proxy_protocol` is true.
        #[serde(with = "crate::client_address::networks")]
        pub trusted_proxies: Vec<IpNet> = Vec::new(),
        /// True if connections of trusted proxies begin with a header of the PROXY protocol (version 1 or 2).
        pub proxy_protocol: bool = false,
        /// The issuers whose JWTs are accepted as access tokens, by a name that the operator chooses.
        pub jwt: BTreeMap<String, IssuerOptions> = BTreeMap::new(),
        /// Maximum size of an incoming message in bytes.
        pub message_bytes: usize = 4 * MIB,
        /// Maximum time until the end of a request is received, or the next message of a stream of requests. The messages of an
        /// upload have the limit `transfer_idle`.
        pub message_timeout: Duration as "message_timeout_seconds" = Duration::from_secs(30),
        /// Maximum memory of request messages that are not complete. Further messages are refused with `OVERLOADED`.
        pub incomplete_message_bytes: usize = 256 * MIB,
        /// The same for each organization.
        pub incomplete_message_bytes_per_organization: usize = 64 * MIB,
        /// The same for each user.
        pub incomplete_message_bytes_per_user: usize = 32 * MIB,
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
        /// Maximum bytes on disk of the files that REST routes receive and that are not stored yet. Further uploads are
        /// refused with `OVERLOADED`.
        pub upload_spool_bytes: u64 = 4 * 1024 * MIB as u64,
        /// The same for each organization.
        pub upload_spool_bytes_per_organization: u64 = 1024 * MIB as u64,
        /// Maximum time for which a response may remain unread before its stream is ended.
        pub unread: Duration as "unread_seconds" = Duration::from_secs(60),
        /// Maximum number of connections with an authenticated call. Calls on further connections are refused with
        /// `OVERLOADED`.
        pub connections: usize = 1_024,
        /// The same for each organization. A connection counts for the organization of its first authenticated call.
        pub connections_per_organization: usize = 256,
        /// Maximum number of connections without an authenticated call. A further connection closes the oldest one.
        pub unauthenticated_connections: usize = 256,
        /// The same for each address.
        pub unauthenticated_connections_per_address: usize = 64,
        /// Time after which a connection without an authenticated call is closed, unless a call is in progress.
        pub authentication_timeout: Duration as "authentication_timeout_seconds" = Duration::from_secs(30),
        /// Interval of the health checks of the stores, which determine the health of the server.
        pub health_interval: Duration as "health_interval_seconds" = Duration::from_secs(5),
        /// Maximum number of concurrent calls of a connection.
        pub streams_per_connection: u32 = 1_024,
        /// Time without traffic after which a connection is pinged.
        pub keepalive_interval: Duration as "keepalive_interval_seconds" = Duration::from_secs(20),
        /// Time-out of the answer to a ping.
        pub keepalive_timeout: Duration as "keepalive_timeout_seconds" = Duration::from_secs(20),
        /// Origins whose pages may call the API: `https://HOST[:PORT]`, or `*` for every origin.
        pub cors_origins: Vec<String> = Vec::new(),
        /// Path prefix under which the REST routes are also served. Empty: none.
        pub path_prefix: String = "/fastapi".to_owned(),
        pub tls: TlsOptions = TlsOptions::default(),
        /// Permits plain text on an address that is not loopback, because a proxy terminates TLS or the network is trusted.
        pub insecure: bool = false,
    }
}

const MIB: usize = 1024 * 1024;

/// Maximum number of origins.
const ORIGINS_MAX: usize = 100;

/// Returns true if a text is empty or consists of segments such as `/api/v1`.
fn is_path_prefix(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(allowed);
    text.is_empty() || text.strip_prefix('/').is_some_and(|path| path.split('/').all(is_segment))
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
        for (path, value) in [
            ("short_calls", self.short_calls),
            ("short_calls_per_organization", self.short_calls_per_organization),
            ("short_calls_per_user", self.short_calls_per_user),
            ("long_calls", self.long_calls),
            ("long_calls_per_organization", self.long_calls_per_organization),
            ("long_calls_per_user", self.long_calls_per_user),
            ("public_calls", self.public_calls),
            ("public_calls_per_address", self.public_calls_per_address),
            ("connections", self.connections),
            ("connections_per_organization", self.connections_per_organization),
            ("unauthenticated_connections", self.unauthenticated_connections),
            ("unauthenticated_connections_per_address", self.unauthenticated_connections_per_address),
        ] {
            problems.number(path, value, 1, 1_000_000);
        }
        problems.number("message_bytes", self.message_bytes, 64 * 1024, 64 * MIB);
        // A smaller bound would refuse every message of the maximum size.
        let least = self.message_bytes;
        for (path, value) in [
            ("incomplete_message_bytes", self.incomplete_message_bytes),
            ("incomplete_message_bytes_per_organization", self.incomplete_message_bytes_per_organization),
            ("incomplete_message_bytes_per_user", self.incomplete_message_bytes_per_user),
        ] {
            problems.number(path, value, least, 1024 * 1024 * MIB);
        }
        for (path, value) in [
            ("upload_spool_bytes", self.upload_spool_bytes),
            ("upload_spool_bytes_per_organization", self.upload_spool_bytes_per_organization),
        ] {
            problems.number(path, value, MIB as u64, 1024 * 1024 * MIB as u64);
        }
        problems.number("streams_per_connection", self.streams_per_connection, 1, 1_000_000);
        let has_proxies = !self.proxy_protocol || !self.trusted_proxies.is_empty();
        problems.check(has_proxies, "proxy_protocol", "requires the networks of the proxies (trusted_proxies)");
        for (path, value, min, max) in [
            ("short_timeout_seconds", self.short_timeout, TIMEOUT_MIN, HOUR),
            ("public_lifetime_seconds", self.public_lifetime, TIMEOUT_MIN, DAY),
            ("message_timeout_seconds", self.message_timeout, TIMEOUT_MIN, HOUR),
            ("authentication_timeout_seconds", self.authentication_timeout, TIMEOUT_MIN, HOUR),
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
        problems.check(
            self.cors_origins.len() <= ORIGINS_MAX,
            "cors_origins",
            format_args!("are at most {ORIGINS_MAX}"),
        );
        for (at, origin) in self.cors_origins.iter().enumerate() {
            let expected = "must be https://HOST[:PORT], http://HOST[:PORT] or *";
            problems.check(is_origin(origin), format!("cors_origins[{at}]"), expected);
        }
        problems.check(is_path_prefix(&self.path_prefix), "path_prefix", "must be empty or a path such as /api");
        self.tls.check(&mut problems);
        jwt::check(&self.jwt, &mut problems);
        problems.into_result()
    }

    pub(crate) fn short_shares(&self) -> ShareBounds {
        let bounds = [self.short_calls, self.short_calls_per_organization, self.short_calls_per_user];
        ShareBounds::of(bounds.map(Amount::permits))
    }

    pub(crate) fn long_shares(&self) -> ShareBounds {
        let bounds = [self.long_calls, self.long_calls_per_organization, self.long_calls_per_user];
        ShareBounds::of(bounds.map(Amount::permits))
    }

    /// Returns the bounds of the memory of incomplete messages.
    pub(crate) fn message_shares(&self) -> ShareBounds {
        let bounds = [
            self.incomplete_message_bytes,
            self.incomplete_message_bytes_per_organization,
            self.incomplete_message_bytes_per_user,
        ];
        let bytes = |bytes: usize| Amount { permits: usize::MAX, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) };
        ShareBounds::of(bounds.map(bytes))
    }

    /// Reads the certificate, and the files with keys of JWT issuers.
    ///
    /// # Errors
    /// A file is missing or unusable.
    pub async fn check_files(&self) -> Result<()> {
        Certificates::load(&self.tls)?;
        // Dropping the set ends the tasks that refresh the keys.
        Issuers::start(&self.jwt, &mut JoinSet::new()).await?;
        Ok(())
    }

    /// Checks that the public API may be served at an address: with TLS, on loopback, or because `insecure` permits it.
    /// Otherwise tokens and documents would be sent in plain text.
    pub fn allows(&self, address: SocketAddr) -> Result<()> {
        if self.tls.is_enabled() || self.insecure || address.ip().is_loopback() {
            return Ok(());
        }
        let message = format!(
            "{address} is not a loopback address: configure a certificate (--tls-cert, --tls-key), or permit plain text (--insecure)"
        );
        Err(Error::invalid(Reason::InvalidField, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prefix_is_empty_or_a_path() {
        for good in ["", "/fastapi", "/a/b-c_1"] {
            assert!(is_path_prefix(good), "{good}");
        }
        for bad in ["/", "api", "/api/", "//api", "/a b", "/..", "/{id}"] {
            assert!(!is_path_prefix(bad), "{bad}");
        }
    }

    #[test]
    fn an_origin_that_is_no_origin_is_refused() {
        let options = |origin: &str| Options { cors_origins: vec![origin.to_owned()], ..Options::default() };
        assert!(options("https://app.example.com").check().is_ok());
        assert!(options("app.example.com").check().unwrap_err().to_string().contains("cors_origins[0]"));
    }
}
