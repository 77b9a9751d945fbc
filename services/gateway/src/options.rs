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

/// Settings of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Calls that read or change one thing, under way at once; further ones are refused with `OVERLOADED`.
    pub short_calls: usize,
    /// Streams, approvals, extractions and transfers under way at once; further ones are refused with `OVERLOADED`.
    pub long_calls: usize,
    /// Calls without a token (health, reflection) under way at once; further ones are refused with `OVERLOADED`.
    pub public_calls: usize,
    /// How long a short call may take.
    #[serde(rename = "short_timeout_seconds", with = "folio_types::seconds")]
    pub short_timeout: Duration,
    /// How long a token that was found good is believed without looking again. At most two seconds are taken.
    #[serde(rename = "token_cache_seconds", with = "folio_types::seconds")]
    pub token_cache: Duration,
    /// Attempts with tokens that are not good that an address may make in a minute; further ones are refused with
    /// `TOO_MANY_ATTEMPTS`, unless the token was good within a quarter of an hour. 0: any number. Behind a proxy all callers
    /// have its address.
    pub failed_attempts_per_minute: u32,
    /// The issuers whose JWTs are taken for access tokens, by a name of your choice.
    pub jwt: BTreeMap<String, IssuerOptions>,
    /// Bytes of one incoming message.
    pub message_bytes: usize,
    /// How long an accepted stream may take to its first item.
    #[serde(rename = "stream_first_seconds", with = "folio_types::seconds")]
    pub stream_first: Duration,
    /// How long a stream may be silent.
    #[serde(rename = "stream_idle_seconds", with = "folio_types::seconds")]
    pub stream_idle: Duration,
    /// How long a stream may last; whoever still follows joins again.
    #[serde(rename = "stream_lifetime_seconds", with = "folio_types::seconds")]
    pub stream_lifetime: Duration,
    /// How long an upload or download may be silent.
    #[serde(rename = "transfer_idle_seconds", with = "folio_types::seconds")]
    pub transfer_idle: Duration,
    /// How long an upload or download may last.
    #[serde(rename = "transfer_lifetime_seconds", with = "folio_types::seconds")]
    pub transfer_lifetime: Duration,
    /// How long a caller may leave what was sent to it unread, before its stream is ended.
    #[serde(rename = "unread_seconds", with = "folio_types::seconds")]
    pub unread: Duration,
    /// Connections at once; calls on further ones are refused with `OVERLOADED`.
    pub connections: usize,
    /// How often the stores are asked whether they work; health follows them.
    #[serde(rename = "health_interval_seconds", with = "folio_types::seconds")]
    pub health_interval: Duration,
    /// Calls on one connection at once.
    pub streams_per_connection: u32,
    /// How often a silent connection is asked whether it lives.
    #[serde(rename = "keepalive_interval_seconds", with = "folio_types::seconds")]
    pub keepalive_interval: Duration,
    /// How long its answer may take.
    #[serde(rename = "keepalive_timeout_seconds", with = "folio_types::seconds")]
    pub keepalive_timeout: Duration,
    /// Certificate and key of the listener.
    pub tls: TlsOptions,
    /// Allows plain text on an address that is not loopback: something in front ends TLS, or the network is trusted.
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

/// What nothing may be shorter than that is waited for.
const SHORTEST: Duration = Duration::from_millis(10);
/// What no short call may be longer than.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long a token may be believed: past this a revocation would come late.
const TOKEN_CACHE_MAX: Duration = Duration::from_secs(2);

impl Options {
    /// Checks every setting.
    ///
    /// # Errors
    /// All that is out of bounds, with the bounds.
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
        for (path, value, least, most) in [
            ("short_timeout_seconds", self.short_timeout, SHORTEST, HOUR),
            ("token_cache_seconds", self.token_cache, Duration::ZERO, TOKEN_CACHE_MAX),
            ("stream_first_seconds", self.stream_first, SHORTEST, DAY),
            ("stream_idle_seconds", self.stream_idle, SHORTEST, 30 * DAY),
            ("stream_lifetime_seconds", self.stream_lifetime, SHORTEST, 30 * DAY),
            ("transfer_idle_seconds", self.transfer_idle, SHORTEST, DAY),
            ("transfer_lifetime_seconds", self.transfer_lifetime, SHORTEST, 30 * DAY),
            ("unread_seconds", self.unread, SHORTEST, DAY),
            ("health_interval_seconds", self.health_interval, SHORTEST, HOUR),
            ("keepalive_interval_seconds", self.keepalive_interval, SHORTEST, HOUR),
            ("keepalive_timeout_seconds", self.keepalive_timeout, SHORTEST, HOUR),
        ] {
            problems.seconds(path, value, least, most);
        }
        self.tls.check(&mut problems);
        jwt::check(&self.jwt, &mut problems);
        problems.verdict()
    }

    /// Whether the public API may be served at an address: with TLS, on loopback, or because settings say so.
    ///
    /// # Errors
    /// Tokens and documents would cross a network in plain text.
    pub fn allows(&self, address: SocketAddr) -> Result<()> {
        if self.tls.is_on() || self.insecure || address.ip().is_loopback() {
            return Ok(());
        }
        Err(Error::internal(format!(
            "{address} is not loopback: name a certificate (--tls-cert, --tls-key), or allow plain text (--insecure)"
        )))
    }
}
