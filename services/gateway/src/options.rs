//! Settings of the gateway.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// Calls on one connection at once.
    pub streams_per_connection: u32,
    /// How often a silent connection is asked whether it lives.
    #[serde(rename = "keepalive_interval_seconds", with = "folio_types::seconds")]
    pub keepalive_interval: Duration,
    /// How long its answer may take.
    #[serde(rename = "keepalive_timeout_seconds", with = "folio_types::seconds")]
    pub keepalive_timeout: Duration,
    /// How long calls may go on once the server is told to stop; what is left then is cut.
    #[serde(rename = "drain_timeout_seconds", with = "folio_types::seconds")]
    pub drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            short_calls: 1_024,
            long_calls: 8_192,
            public_calls: 64,
            short_timeout: Duration::from_secs(30),
            token_cache: Duration::from_secs(2),
            message_bytes: 4 * 1024 * 1024,
            stream_first: Duration::from_secs(60),
            stream_idle: Duration::from_secs(15 * 60),
            stream_lifetime: Duration::from_secs(6 * 60 * 60),
            transfer_idle: Duration::from_secs(60),
            transfer_lifetime: Duration::from_secs(30 * 60),
            streams_per_connection: 1_024,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(20),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
