//! Settings of the conversations of a node.

use std::time::Duration;

use folio_types::limits::{self, DAY};
use folio_types::settings::{InvalidSettings, Problems};

folio_types::settings! {
    pub struct Options {
        /// Maximum conversations in memory. If all are busy, a request for another one is refused with `OVERLOADED`.
        pub live_max: usize = 20_000,
        /// Maximum bytes of the journals whose histories are in memory. A history uses about twice the memory of its
        /// journal. Before the bound is reached, the least recently used idle conversations are evicted; if that does
        /// not suffice, loading a conversation is refused with `OVERLOADED`.
        pub history_bytes_max: u64 = 256 * 1024 * 1024,
        /// Maximum number of requests in flight per conversation; further requests are refused with `OVERLOADED`.
        pub in_flight_per_conversation: usize = 32,
        /// Time after which an idle conversation is evicted.
        pub idle_timeout: Duration as "idle_timeout_seconds" = Duration::from_secs(120),
        /// Time after which an idle conversation drops its history and the events of its newest turn. The next request
        /// loads the history again.
        pub history_timeout: Duration as "history_timeout_seconds" = Duration::from_secs(20),
        /// Default time for which a pause waits for approvals.
        pub approval_ttl: Duration as "approval_ttl_seconds" = limits::APPROVAL_TTL_DEFAULT,
        /// Maximum bytes of a turn's events that are buffered for watchers.
        pub event_buffer_bytes: usize = 512 * 1024,
        /// Maximum number of a turn's events that are buffered for watchers.
        pub event_buffer_count: usize = 4_096,
        /// Maximum number of streams per conversation.
        pub watchers_per_conversation: usize = 32,
        /// Maximum number of concurrent read-only calls of a round.
        pub read_calls_at_once: usize = 8,
        /// Maximum number of tasks of a group that run at the same time.
        pub tasks_at_once: usize = 3,
        /// Time limit of a call of a tool that calls models. Must exceed the timeouts of the model calls of an
        /// extraction, two for each window.
        pub model_tool_timeout: Duration as "model_tool_timeout_seconds" = Duration::from_secs(900),
        /// Time limit of a call of any other tool.
        pub tool_timeout: Duration as "tool_timeout_seconds" = Duration::from_secs(60),
        /// Minimum time for which an approved write is retried while the store does not answer. Afterwards its op is closed
        /// and the call fails. A new owner of the thread starts with the full time.
        pub effect_patience: Duration as "effect_patience_seconds" = Duration::from_secs(900),
        /// Time limit of one store operation, after which its outcome is unknown.
        pub store_timeout: Duration as "store_timeout_seconds" = Duration::from_secs(10),
        /// Interval between two sweeps for expired pauses and turns without an owner.
        pub sweep_interval: Duration as "sweep_interval_seconds" = Duration::from_secs(5),
        /// If true, models that support thinking use it.
        pub thinking: bool = true,
        /// If true, messages that left the window of the model are summarized by a model call, at most every ten messages.
        pub summaries: bool = true,
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
            ("tasks_at_once", self.tasks_at_once, limits::TASKS_PER_GROUP_MAX),
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
