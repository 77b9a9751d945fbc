//! Spans as OpenTelemetry has them.

use std::time::Duration;

use opentelemetry::trace::{Link, SpanKind, TraceId, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider,
    ShouldSample,
};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use super::export::Exporting;
use super::{Options, SEMANTIC_CONVENTIONS};

/// Spans that are told at once.
const BATCH_SPANS: usize = 512;
/// How long a span waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// What makes spans, and tells them where somebody is to be told.
pub(super) struct Spans(SdkTracerProvider);

impl Spans {
    pub(super) fn start(options: &Options, exporting: Option<&Exporting>) -> anyhow::Result<Self> {
        let Some(exporting) = exporting else {
            // Spans have ids, for the log, and are told to nobody.
            return Ok(Self(SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOff).build()));
        };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(exporting.channel())
            .with_timeout(options.timeout)
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(options.queue_spans)
            .with_max_export_batch_size(BATCH_SPANS.min(options.queue_spans))
            .with_scheduled_delay(BATCH_WAIT)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Roots(Sampler::TraceIdRatioBased(options.sample_ratio)))))
            .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
            .with_resource(exporting.resource());
        Ok(Self(provider.build()))
    }

    pub(super) fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let schema = format!("https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}");
        let scope =
            InstrumentationScope::builder("folio").with_version(env!("CARGO_PKG_VERSION")).with_schema_url(schema);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer_with_scope(scope.build()))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
    }

    /// It blocks, and the exporter needs the runtime meanwhile.
    pub(super) async fn stop(self, within: Duration) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(within));
        if !matches!(tokio::time::timeout(within, stopped).await, Ok(Ok(Ok(())))) {
            tracing::info!("the collector was not told the last spans");
        }
    }
}

/// Which traces are told of those that begin here. An operation of a store that nobody asked for (a heartbeat, a look into a
/// queue) is none: it would be a trace of one span, and there are many. Its duration is measured all the same.
#[derive(Debug, Clone)]
struct Roots(Sampler);

impl ShouldSample for Roots {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let sampled = self.0.should_sample(parent, trace, name, kind, attributes, links);
        if attributes.iter().any(|attribute| attribute.key.as_str() == "db.system.name") {
            return SamplingResult { decision: SamplingDecision::Drop, ..sampled };
        }
        sampled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_of_a_store_begins_no_trace() {
        let begun = |attributes: &[KeyValue]| {
            let roots = Roots(Sampler::AlwaysOn);
            roots.should_sample(None, TraceId::from(1_u128), "read", &SpanKind::Client, attributes, &[]).decision
        };
        assert_eq!(begun(&[KeyValue::new("db.system.name", "redis")]), SamplingDecision::Drop);
        assert_eq!(begun(&[KeyValue::new("rpc.method", "Chat")]), SamplingDecision::RecordAndSample);
    }
}
