//! Settings of the conversations of a node.

use std::time::Duration;

use folio_types::limits::{self, DAY};
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Maximum conversations in memory. If all are busy, a request for another one is refused with `OVERLOADED`.
    pub live_max: usize,
    /// Maximum bytes of the journals whose histories are in memory. A history uses about twice the memory of its
    /// journal. Before the bound is reached, the least recently used idle conversations are evicted; if that does not
    /// suffice, loading a conversation is refused with `OVERLOADED`.
    pub history_bytes_max: u64,
    /// Maximum number of requests in flight per conversation; further requests are refused with `OVERLOADED`.
    pub in_flight_per_conversation: usize,
    /// Time after which an idle conversation is evicted.
    #[serde(rename = "idle_timeout_seconds", with = "folio_types::seconds")]
    pub idle_timeout: Duration,
    /// Time after which an idle conversation drops its history and the events of its newest turn. The next request
    /// loads the history again.
    #[serde(rename = "history_timeout_seconds", with = "folio_types::seconds")]
    pub history_timeout: Duration,
    /// Default time for which a pause waits for approvals.
    #[serde(rename = "approval_ttl_seconds", with = "folio_types::seconds")]
    pub approval_ttl: Duration,
    /// Maximum bytes of a turn's events that are buffered for watchers.
    pub event_buffer_bytes: usize,
    /// Maximum number of a turn's events that are buffered for watchers.
    pub event_buffer_count: usize,
    /// Maximum number of streams per conversation.
    pub watchers_per_conversation: usize,
    /// Maximum number of concurrent read-only calls of a round.
    pub read_calls_at_once: usize,
    /// Time limit of a call of a tool that calls models. Must exceed the timeouts of the two model calls of an
    /// extraction.
    #[serde(rename = "model_tool_timeout_seconds", with = "folio_types::seconds")]
    pub model_tool_timeout: Duration,
    /// Time limit of a call of any other tool.
    #[serde(rename = "tool_timeout_seconds", with = "folio_types::seconds")]
    pub tool_timeout: Duration,
    /// Minimum time for which an approved write is retried while the store does not answer. Afterwards its op is closed
    /// and the call fails. A new owner of the thread starts with the full time.
    #[serde(rename = "effect_patience_seconds", with = "folio_types::seconds")]
    pub effect_patience: Duration,
    /// Time limit of one store operation, after which its outcome is unknown.
    #[serde(rename = "store_timeout_seconds", with = "folio_types::seconds")]
    pub store_timeout: Duration,
    /// Interval between two sweeps for expired pauses and turns without an owner.
    #[serde(rename = "sweep_interval_seconds", with = "folio_types::seconds")]
    pub sweep_interval: Duration,
    /// If true, models that support thinking use it.
    pub thinking: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            live_max: 20_000,
            history_bytes_max: 256 * 1024 * 1024,
            in_flight_per_conversation: 32,
            idle_timeout: Duration::from_secs(120),
            history_timeout: Duration::from_secs(20),
            approval_ttl: limits::APPROVAL_TTL_DEFAULT,
            event_buffer_bytes: 512 * 1024,
            event_buffer_count: 4_096,
            watchers_per_conversation: 32,
            read_calls_at_once: 8,
            model_tool_timeout: Duration::from_secs(900),
            tool_timeout: Duration::from_secs(60),
            effect_patience: Duration::from_secs(900),
            store_timeout: Duration::from_secs(10),
            sweep_interval: Duration::from_secs(5),
            thinking: true,
        }
    }
}

/// Minimum of every time limit.
const DURATION_MIN: Duration = Duration::from_millis(10);
/// Maximum of the store time limit and of the sweep interval.
const HOUR: Duration = Duration::from_secs(60 * 60);

impl Options {
    /// # Errors
    /// Lists every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("conversation");
        for (path, value, max) in [
            ("live_max", self.live_max, 10_000_000),
            ("in_flight_per_conversation", self.in_flight_per_conversation, 100_000),
            ("event_buffer_count", self.event_buffer_count, 10_000_000),
            ("watchers_per_conversation", self.watchers_per_conversation, 100_000),
            ("read_calls_at_once", self.read_calls_at_once, 1_024),
        ] {
            problems.number(path, value, 1, max);
        }
        problems.number("history_bytes_max", self.history_bytes_max, 1, 1 << 50);
        problems.number("event_buffer_bytes", self.event_buffer_bytes, 4 * 1024, 1024 * 1024 * 1024);
        for (path, value, min, max) in [
            ("idle_timeout_seconds", self.idle_timeout, DURATION_MIN, 30 * DAY),
            ("approval_ttl_seconds", self.approval_ttl, Duration::from_secs(1), limits::APPROVAL_TTL_MAX),
            ("model_tool_timeout_seconds", self.model_tool_timeout, DURATION_MIN, DAY),
            ("tool_timeout_seconds", self.tool_timeout, DURATION_MIN, DAY),
            ("effect_patience_seconds", self.effect_patience, DURATION_MIN, DAY),
            ("store_timeout_seconds", self.store_timeout, DURATION_MIN, HOUR),
            ("sweep_interval_seconds", self.sweep_interval, DURATION_MIN, HOUR),
        ] {
            problems.seconds(path, value, min, max);
        }
        problems.into_result()
    }
}
