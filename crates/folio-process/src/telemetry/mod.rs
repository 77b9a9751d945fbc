//! Telemetry: spans become traces and duration metrics, events become log lines, metrics are exported.
//!
//! The rest of Folio only creates `tracing` spans and events. Three layers with separate filters process them:
//! [`span_metrics`] measures durations for the histograms of `/metrics`, `traces` exports spans to a collector, and
//! `logs` writes events with the names and fields of their spans. Only this crate depends on OpenTelemetry.
//!
//! Text of users and documents is only in events with the target [`CONTENT`]. Only `traces` processes these events, and
//! only if `telemetry.capture_content` is true.

mod export;
mod logs;
pub mod span_metrics;
mod traces;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_trace::CONTENT;
use folio_types::settings::{InvalidSettings, Problems};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub use export::Exporter;
pub use logs::Format;
use span_metrics::SpanMetrics;
use traces::Spans;

/// Version of OpenTelemetry's semantic conventions that the names of spans and fields follow.
pub const SEMANTIC_CONVENTIONS: &str = "1.41.0";

folio_types::settings! {
    pub struct LogOptions {
        /// Directives of `tracing-subscriber` (`info`, `folio_node=debug,info`, …).
        pub filter: String = "info,fjall=warn,lsm_tree=warn".to_owned(),
        pub format: Format = Format::Text,
    }
}

folio_types::settings! {
    /// Settings of the export to a collector.
    pub struct Options {
        /// Address of an OTLP/gRPC receiver, `http://HOST:4317` or `https://HOST:4317`. Empty: nothing is exported.
        pub endpoint: String = String::new(),
        /// PEM file with the certificate authorities that verify an `https` collector. Required for `https`.
        pub ca: Option<PathBuf> = None,
        /// Fraction of exported traces, 0 to 1 (1). It applies to traces that start in this process, and to calls of the
        /// public API in the trace of a caller, whose sampled flag has no effect.
        pub sample_ratio: f64 = 1.0,
        /// Maximum number of spans in the export queue, 1 to 1,000,000 (4,096). Further spans are dropped.
        pub queue_spans: usize = 4_096,
        /// Interval between exports of metrics, 1 s to 1 h (15 s).
        pub metrics_interval: Duration as "metrics_interval_seconds" = Duration::from_secs(15),
        /// Timeout of an export, 0.1 to 60 s (5 s). It also bounds the final export at shutdown.
        pub timeout: Duration as "timeout_seconds" = Duration::from_secs(5),
        /// If true, traces contain prompts, answers, tool arguments and tool results (false).
        pub capture_content: bool = false,
    }
}

impl Options {
    pub fn is_enabled(&self) -> bool {
        !self.endpoint.is_empty()
    }

    /// Returns every invalid setting of the section `telemetry`.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("telemetry");
        let (plain, is_https) = (self.endpoint.starts_with("http://"), self.endpoint.starts_with("https://"));
        let address = "must be http://HOST:PORT or https://HOST:PORT";
        problems.check(
            !self.is_enabled() || ((plain || is_https) && export::address(self).is_ok()),
            "endpoint",
            address,
        );
        problems.check(!is_https || self.ca.is_some(), "ca", "is needed for an https collector");
        problems.number("sample_ratio", self.sample_ratio, 0.0, 1.0);
        problems.number("queue_spans", self.queue_spans, 1, 1_000_000);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
        problems.seconds("metrics_interval_seconds", self.metrics_interval, second, hour);
        problems.seconds("timeout_seconds", self.timeout, Duration::from_millis(100), Duration::from_secs(60));
        problems.into_result()
    }
}

pub struct Telemetry {
    span_metrics: Arc<SpanMetrics>,
    exporter: Option<Exporter>,
    spans: Spans,
    timeout: Duration,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

impl Telemetry {
    pub fn span_metrics(&self) -> Arc<SpanMetrics> {
        Arc::clone(&self.span_metrics)
    }

    /// None without a collector.
    pub fn exporter(&self) -> Option<Exporter> {
        self.exporter.clone()
    }

    /// Exports buffered spans, within `telemetry.timeout_seconds`.
    pub async fn stop(self) {
        self.spans.stop(self.timeout).await;
    }
}

/// Starts logging and tracing. Call it once, within a runtime, before the first log record. `role` is the resource
/// attribute `folio.role` of exported data.
///
/// # Errors
/// An invalid filter, an unreadable authority file, a second call.
pub fn start(log: &LogOptions, options: &Options, role: &str) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_new(&log.filter)
        .map_err(|error| anyhow::anyhow!("log.filter {:?} is invalid: {error}", log.filter))?;
    let exporter = if options.is_enabled() { Some(Exporter::new(options, role)?) } else { None };
    let spans = Spans::start(options, exporter.as_ref())?;
    let span_metrics = Arc::new(SpanMetrics::default());
    let content = options.capture_content;
    // Without a collector, spans only provide trace ids for the log, so detailed spans are not created.
    let finest = if options.is_enabled() { Level::DEBUG } else { Level::INFO };
    let traced =
        folio_only(move |data| (data.is_span() && *data.level() <= finest) || (content && data.target() == CONTENT));
    let logged = filter.and(filter_fn(|data| data.target() != CONTENT));
    tracing_subscriber::registry()
        .with(spans.layer().with_filter(traced))
        .with(
            span_metrics::layer(&span_metrics)
                .with_filter(folio_only(|data| data.is_span() && span_metrics::is_measured(data.name()))),
        )
        .with(logs::layer(log.format).with_filter(logged))
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    Ok(Telemetry { span_metrics, exporter, spans, timeout: options.timeout })
}

/// Selects spans and events of Folio's crates that satisfy `predicate`, at level `debug` or coarser.
fn folio_only(
    predicate: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static,
) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    filter_fn(move |data| data.target().starts_with("folio") && predicate(data)).with_max_level_hint(LevelFilter::DEBUG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invalid_setting_is_reported() {
        assert_eq!(Options::default().check(), Ok(()));
        let bad = Options {
            endpoint: "collector:4317".to_owned(),
            sample_ratio: 1.5,
            queue_spans: 0,
            timeout: Duration::ZERO,
            ..Options::default()
        };
        let result = bad.check().unwrap_err().to_string();
        for path in ["telemetry.endpoint", "sample_ratio", "queue_spans", "timeout_seconds"] {
            assert!(result.contains(path), "{path} in {result}");
        }
        let is_https = Options { endpoint: "https://collector:4317".to_owned(), ..Options::default() };
        assert!(is_https.check().unwrap_err().to_string().contains("telemetry.ca"));
        assert!(!Options::default().is_enabled() && !Options::default().capture_content);
    }
}
