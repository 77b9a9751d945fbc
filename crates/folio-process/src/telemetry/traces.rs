//! Export of spans with the OpenTelemetry SDK.

use std::time::Duration;

use opentelemetry::trace::{Link, SpanKind, TraceId, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision,
    SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample,
};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use super::export::Exporter;
use super::{Options, SEMANTIC_CONVENTIONS};

/// Spans per export request.
const BATCH_SPANS: usize = 512;
/// Maximum time between the end of a span and its export.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Creates spans and exports them to the collector, if one is configured.
pub(super) struct Spans(SdkTracerProvider);

impl Spans {
    pub(super) fn start(options: &Options, exporter: Option<&Exporter>) -> anyhow::Result<Self> {
        let Some(exporter) = exporter else {
            // The sampler drops every span, so spans only provide ids for the log.
            return Ok(Self(SdkTracerProvider::builder().with_sampler(Sampler::AlwaysOff).build()));
        };
        let spans = SpanExporter::builder()
            .with_tonic()
            .with_channel(exporter.channel())
            .with_timeout(options.timeout)
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(options.queue_spans)
            .with_max_export_batch_size(BATCH_SPANS.min(options.queue_spans))
            .with_scheduled_delay(BATCH_WAIT)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(TraceSampler::new(options.sample_ratio))
            .with_span_processor(BatchSpanProcessor::builder(spans).with_batch_config(batches).build())
            .with_resource(exporter.resource());
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

    /// Exports the buffered spans. Runs on a blocking thread, because the exporter needs the runtime meanwhile.
    pub(super) async fn stop(self, within: Duration) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(within));
        if !matches!(tokio::time::timeout(within, stopped).await, Ok(Ok(Ok(())))) {
            tracing::info!("cannot export the buffered spans at shutdown");
        }
    }
}

/// Samples a span whose parent is in the cluster like the parent, and every other span by the ratio. A caller outside of
/// the cluster decides neither by the sampled flag of its trace nor by its trace id.
#[derive(Debug, Clone)]
struct TraceSampler {
    roots: RootSampler,
    others: Sampler,
    ids: RandomIdGenerator,
}

impl TraceSampler {
    fn new(ratio: f64) -> Self {
        let roots = RootSampler(Sampler::TraceIdRatioBased(ratio));
        let others = Sampler::ParentBased(Box::new(roots.clone()));
        Self { roots, others, ids: RandomIdGenerator::default() }
    }
}

impl ShouldSample for TraceSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        match parent.is_some_and(folio_trace::is_foreign) {
            true => self.roots.should_sample(parent, self.ids.new_trace_id(), name, kind, attributes, links),
            false => self.others.should_sample(parent, trace, name, kind, attributes, links),
        }
    }
}

/// Samples traces that start in this process. Drops a store operation outside of every trace (a heartbeat, a queue
/// poll), which would otherwise be a trace with a single span. Its duration is still measured.
#[derive(Debug, Clone)]
struct RootSampler(Sampler);

impl ShouldSample for RootSampler {
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
    use folio_trace::TraceContext;

    #[test]
    fn a_caller_outside_of_the_cluster_decides_neither_by_its_flag_nor_by_its_trace_id() {
        use tracing_subscriber::layer::SubscriberExt as _;
        // The smallest trace id is below every ratio, the largest above.
        let ids = ["00000000000000000000000000000001", "ffffffffffffffffffffffffffffffff"];
        for (ratio, expected) in [(0.0, "00"), (1.0, "01")] {
            let provider = SdkTracerProvider::builder().with_sampler(TraceSampler::new(ratio)).build();
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                for (id, flag) in ids.into_iter().flat_map(|id| ["00", "01"].map(|flag| (id, flag))) {
                    let header = format!("00-{id}-00f067aa0ba902b7-{flag}");
                    let caller = TraceContext::parse(&header, None).unwrap();
                    let span = tracing::info_span!("call");
                    caller.set_foreign_parent_of(&span);
                    let child = tracing::info_span!(parent: &span, "child");
                    for span in [span, child] {
                        let header = TraceContext::of(&span).unwrap().traceparent();
                        assert_eq!((&header[3..35], &header[53..]), (id, expected), "ratio {ratio}, caller {flag}");
                    }
                    let inside = tracing::info_span!("call between processes");
                    caller.set_parent_of(&inside);
                    assert_eq!(&TraceContext::of(&inside).unwrap().traceparent()[53..], flag, "ratio {ratio}");
                }
            });
        }
    }

    #[test]
    fn a_store_operation_starts_no_trace() {
        let decision = |attributes: &[KeyValue]| {
            let roots = RootSampler(Sampler::AlwaysOn);
            roots.should_sample(None, TraceId::from(1_u128), "read", &SpanKind::Client, attributes, &[]).decision
        };
        assert_eq!(decision(&[KeyValue::new("db.system.name", "redis")]), SamplingDecision::Drop);
        assert_eq!(decision(&[KeyValue::new("rpc.method", "Chat")]), SamplingDecision::RecordAndSample);
    }
}
