//! Telemetry: spans become traces and durations, records become lines of the log, figures are told.
//!
//! A span is the one thing that the rest of Folio makes. Three layers take it, each with a filter of its own: [`measure`]
//! its duration, for the histograms of `/metrics`; `traces` the span itself, for a collector; `logs` its name and fields,
//! for the lines that are written in it. Only this crate knows OpenTelemetry.
//!
//! What people and documents say goes another way: events of the target [`CONTENT`], which only the traces take, and only
//! where `telemetry.capture_content` says so.

mod export;
mod logs;
pub mod measure;
mod traces;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_trace::CONTENT;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub use export::Exporting;
pub use logs::Format;
use measure::Measured;
use traces::Spans;

/// The version of the semantic conventions of OpenTelemetry that spans keep to.
pub const SEMANTIC_CONVENTIONS: &str = "1.41.0";

/// How a process logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogOptions {
    /// Which records, as directives of `tracing-subscriber` (`info`, `folio_node=debug,info`, …).
    pub filter: String,
    /// How a record is written.
    pub format: Format,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { filter: "info,fjall=warn,lsm_tree=warn".to_owned(), format: Format::Text }
    }
}

/// What a process tells a collector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Where a collector takes OTLP over gRPC: `http://HOST:4317` or `https://…`. Empty: nothing leaves the process.
    pub endpoint: String,
    /// The authorities (a PEM file) that the certificate of an `https` collector is believed by. Needed for such.
    pub ca: Option<PathBuf>,
    /// The share of traces that are told, 0 to 1, of those that begin here; a caller's own decision is kept. (1)
    pub sample_ratio: f64,
    /// Spans that wait for the collector at most; more are dropped. 1 to 1,000,000 (4,096).
    pub queue_spans: usize,
    /// How often figures are told, 1 s to 1 h (15 s).
    #[serde(rename = "metrics_interval_seconds", with = "folio_types::seconds")]
    pub metrics_interval: Duration,
    /// How long the collector may take to answer, 0.1 to 60 s (5 s). At the end of the process it is given no longer.
    #[serde(rename = "timeout_seconds", with = "folio_types::seconds")]
    pub timeout: Duration,
    /// Whether prompts, answers, arguments and results of tools go to the collector with the traces. (false)
    pub capture_content: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            ca: None,
            sample_ratio: 1.0,
            queue_spans: 4_096,
            metrics_interval: Duration::from_secs(15),
            timeout: Duration::from_secs(5),
            capture_content: false,
        }
    }
}

impl Options {
    /// Whether anything is told.
    pub fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }

    /// Checks the section.
    ///
    /// # Errors
    /// Every problem.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("telemetry");
        let (plain, sealed) = (self.endpoint.starts_with("http://"), self.endpoint.starts_with("https://"));
        let address = "must be http://HOST:PORT or https://HOST:PORT";
        problems.check(!self.is_on() || ((plain || sealed) && export::address(self).is_ok()), "endpoint", address);
        problems.check(!sealed || self.ca.is_some(), "ca", "is needed for an https collector");
        problems.number("sample_ratio", self.sample_ratio, 0.0, 1.0);
        problems.number("queue_spans", self.queue_spans, 1, 1_000_000);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
        problems.seconds("metrics_interval_seconds", self.metrics_interval, second, hour);
        problems.seconds("timeout_seconds", self.timeout, Duration::from_millis(100), Duration::from_secs(60));
        problems.verdict()
    }
}

/// Running telemetry.
pub struct Telemetry {
    measured: Arc<Measured>,
    exporting: Option<Exporting>,
    spans: Spans,
    timeout: Duration,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

impl Telemetry {
    /// The durations of what was done so far.
    pub fn measured(&self) -> Arc<Measured> {
        Arc::clone(&self.measured)
    }

    /// How figures are told; none where nothing leaves the process.
    pub fn exporting(&self) -> Option<Exporting> {
        self.exporting.clone()
    }

    /// Tells what waits, for no longer than the collector may take to answer.
    pub async fn stop(self) {
        self.spans.stop(self.timeout).await;
    }
}

/// Starts logging and tracing. Called once, within a runtime, before anything is logged. `role` is what the process does,
/// as a collector is told.
///
/// # Errors
/// A filter that is none; an authority that cannot be read; a second call.
pub fn start(log: &LogOptions, options: &Options, role: &str) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_new(&log.filter)
        .map_err(|error| anyhow::anyhow!("log.filter {:?} is not a filter: {error}", log.filter))?;
    let exporting = if options.is_on() { Some(Exporting::new(options, role)?) } else { None };
    let spans = Spans::start(options, exporting.as_ref())?;
    let measured = Arc::new(Measured::default());
    let content = options.capture_content;
    // Where nothing is told, traces only number the lines of the log: the many small spans are left out.
    let finest = if options.is_on() { Level::DEBUG } else { Level::INFO };
    let traced = own(move |data| (data.is_span() && *data.level() <= finest) || (content && data.target() == CONTENT));
    let logged = filter.and(filter_fn(|data| data.target() != CONTENT));
    tracing_subscriber::registry()
        .with(spans.layer().with_filter(traced))
        .with(measure::layer(&measured).with_filter(own(|data| data.is_span() && measure::is_measured(data.name()))))
        .with(logs::layer(log.format).with_filter(logged))
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))?;
    Ok(Telemetry { measured, exporting, spans, timeout: options.timeout })
}

/// Of what Folio's own crates say. Nothing finer than `debug` is looked at.
fn own(takes: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    filter_fn(move |data| data.target().starts_with("folio") && takes(data)).with_max_level_hint(LevelFilter::DEBUG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_setting_is_named() {
        assert_eq!(Options::default().check(), Ok(()));
        let bad = Options {
            endpoint: "collector:4317".to_owned(),
            sample_ratio: 1.5,
            queue_spans: 0,
            timeout: Duration::ZERO,
            ..Options::default()
        };
        let told = bad.check().unwrap_err().to_string();
        for path in ["telemetry.endpoint", "sample_ratio", "queue_spans", "timeout_seconds"] {
            assert!(told.contains(path), "{path} in {told}");
        }
        let sealed = Options { endpoint: "https://collector:4317".to_owned(), ..Options::default() };
        assert!(sealed.check().unwrap_err().to_string().contains("telemetry.ca"));
        assert!(!Options::default().is_on() && !Options::default().capture_content);
    }
}
