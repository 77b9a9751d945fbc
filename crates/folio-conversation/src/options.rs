//! Settings of the conversations of a node.

use std::time::Duration;

use folio_types::limits;
use serde::{Deserialize, Serialize};

/// Settings of the conversations of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Conversations that live in memory at once; further ones are refused with `OVERLOADED` unless an idle one can go.
    pub live_max: usize,
    /// Bytes of journals whose histories live in memory at once (which takes about as much memory again). Conversations
    /// without work that were used longest ago leave before it is reached; where that is not enough, waking one is refused
    /// with `OVERLOADED`.
    pub history_bytes_max: u64,
    /// Requests under way to one conversation at once; further ones are refused with `OVERLOADED`.
    pub in_flight_per_conversation: usize,
    /// How long a conversation without work stays in memory.
    #[serde(rename = "idle_timeout_seconds", with = "folio_types::seconds")]
    pub idle_timeout: Duration,
    /// How long a pause waits for its approvals.
    #[serde(rename = "approval_ttl_seconds", with = "folio_types::seconds")]
    pub approval_ttl: Duration,
    /// Bytes of events that are kept of one turn for those who rejoin it.
    pub event_buffer_bytes: usize,
    /// Events that are kept of one turn for those who rejoin it.
    pub event_buffer_count: usize,
    /// Streams that follow one conversation at once.
    pub watchers_per_conversation: usize,
    /// Read-only calls of one round that run at once.
    pub read_calls_at_once: usize,
    /// How long a call of a tool that calls models may take: longer than the time-outs of the two model calls of an
    /// extraction together.
    #[serde(rename = "model_tool_timeout_seconds", with = "folio_types::seconds")]
    pub model_tool_timeout: Duration,
    /// How long a call of any other tool may take.
    #[serde(rename = "tool_timeout_seconds", with = "folio_types::seconds")]
    pub tool_timeout: Duration,
    /// How long one store operation may take before its outcome counts as unknown.
    #[serde(rename = "store_timeout_seconds", with = "folio_types::seconds")]
    pub store_timeout: Duration,
    /// How often expired pauses and ownerless turns are looked for.
    #[serde(rename = "sweep_interval_seconds", with = "folio_types::seconds")]
    pub sweep_interval: Duration,
    /// Whether models that can think are asked to.
    pub thinking: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            live_max: 20_000,
            history_bytes_max: 256 * 1024 * 1024,
            in_flight_per_conversation: 32,
            idle_timeout: Duration::from_secs(120),
            approval_ttl: limits::APPROVAL_TTL_DEFAULT,
            event_buffer_bytes: 512 * 1024,
            event_buffer_count: 4_096,
            watchers_per_conversation: 32,
            read_calls_at_once: 8,
            model_tool_timeout: Duration::from_secs(900),
            tool_timeout: Duration::from_secs(60),
            store_timeout: Duration::from_secs(10),
            sweep_interval: Duration::from_secs(5),
            thinking: true,
        }
    }
}
