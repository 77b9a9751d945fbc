//! Histograms of span durations. Only the spans in [`DURATIONS`] are measured.
//!
//! The labels are fields of the span with low cardinality; none identifies a tenant, a thread or a user. Each metric
//! keeps a bounded number of label combinations and counts further ones under `other`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::metrics::{Distribution, Family, Kind, Point, Value};

/// Upper bounds of the histogram buckets in seconds.
const BOUNDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Maximum number of label combinations per metric.
const SERIES_MAX: usize = 400;
/// Label value that replaces all labels of a combination beyond the maximum.
const OTHER: &str = "other";

struct DurationMetric {
    span: &'static str,
    metric: &'static str,
    help: &'static str,
    /// Pairs of a span field and the label that it becomes.
    labels: &'static [(&'static str, &'static str)],
}

/// A metric of a numeric field of a measured span.
struct FieldMetric {
    span: &'static str,
    field: &'static str,
    metric: &'static str,
    help: &'static str,
    kind: Kind,
}

const RPC: &[(&str, &str)] = &[("rpc.method", "method"), ("rpc.response.status_code", "status")];
const MODEL: &[(&str, &str)] = &[
    ("gen_ai.operation.name", "operation"),
    ("gen_ai.provider.name", "provider"),
    ("gen_ai.request.model", "model"),
    ("error.type", "error"),
];

const TURN: &[(&str, &str)] = &[("folio.turn.outcome", "outcome"), ("error.type", "error")];
const TOOL: &[(&str, &str)] = &[("gen_ai.tool.name", "tool"), ("error.type", "error")];
const STORE: &[(&str, &str)] =
    &[("db.system.name", "system"), ("db.operation.name", "operation"), ("error.type", "error")];
const PURCHASE: &[(&str, &str)] = &[("http.response.status_code", "status")];
const JOB_ITEM: &[(&str, &str)] =
    &[("folio.job.kind", "kind"), ("folio.item.outcome", "outcome"), ("error.type", "error")];
const WEBHOOK: &[(&str, &str)] = &[("error.type", "error")];
const AUTO_CREATE: &[(&str, &str)] = &[("folio.proposal.state", "outcome"), ("error.type", "error")];
const INGESTION: &[(&str, &str)] = &[("error.type", "error")];

impl DurationMetric {
    const fn of(
        span: &'static str,
        metric: &'static str,
        labels: &'static [(&'static str, &'static str)],
        help: &'static str,
    ) -> Self {
        Self { span, metric, help, labels }
    }
}

const DURATIONS: &[DurationMetric] = &[
    DurationMetric::of("rpc", "rpc_seconds", RPC, "Calls of the public API, until the last byte of the response."),
    DurationMetric::of("peer", "peer_seconds", RPC, "Calls of other Folio processes to this node."),
    DurationMetric::of("turn", "turn_seconds", TURN, "Turns, from start or resumption until the end or a pause."),
    DurationMetric::of("round", "round_seconds", &[], "Rounds: a model call and the tool calls that it requested."),
    DurationMetric::of("model", "model_call_seconds", MODEL, "Model calls, including retries and the whole response."),
    DurationMetric::of("execute_tool", "tool_seconds", TOOL, "Tool executions."),
    DurationMetric::of("store", "store_seconds", STORE, "Store operations."),
    DurationMetric::of("purchase", "purchase_seconds", PURCHASE, "Events of the payment system."),
    DurationMetric::of("job_item", "job_item_seconds", JOB_ITEM, "Attempts of items of jobs."),
    DurationMetric::of("webhook", "webhook_seconds", WEBHOOK, "Attempts to deliver an event to a webhook endpoint."),
    DurationMetric::of(
        "auto_create",
        "auto_create_seconds",
        AUTO_CREATE,
        "Attempts to make a proposal for a document.",
    ),
    DurationMetric::of("ingest", "ingestion_seconds", INGESTION, "Ingestions of documents, without the queue time."),
    DurationMetric::of("cite", "citation_seconds", &[], "Searches for the values of an extraction in its document."),
];

const FIELDS: &[FieldMetric] = &[
    FieldMetric {
        span: "model",
        field: "gen_ai.response.time_to_first_chunk",
        metric: "model_first_token_seconds",
        help: "Streamed model calls, until the first token.",
        kind: Kind::Histogram,
    },
    FieldMetric {
        span: "model",
        field: "gen_ai.usage.input_tokens",
        metric: "model_input_tokens_total",
        help: "Input tokens of model calls.",
        kind: Kind::Counter,
    },
    FieldMetric {
        span: "model",
        field: "gen_ai.usage.output_tokens",
        metric: "model_output_tokens_total",
        help: "Output tokens of model calls.",
        kind: Kind::Counter,
    },
    FieldMetric {
        span: "job_item",
        field: "folio.job.waited_seconds",
        metric: "job_wait_seconds",
        help: "Times that jobs waited although they could start, reported by the first item after the start.",
        kind: Kind::Histogram,
    },
    FieldMetric {
        span: "cite",
        field: "folio.values.cited",
        metric: "values_cited_total",
        help: "Extracted values with a valid quote of the model.",
        kind: Kind::Counter,
    },
    FieldMetric {
        span: "cite",
        field: "folio.values.located",
        metric: "values_located_total",
        help: "Extracted values that are in the text, without a valid quote of the model.",
        kind: Kind::Counter,
    },
    FieldMetric {
        span: "cite",
        field: "folio.values.inferred",
        metric: "values_inferred_total",
        help: "Extracted values that are not in the text.",
        kind: Kind::Counter,
    },
];

pub(super) fn is_measured(span: &str) -> bool {
    DURATIONS.iter().any(|duration_metric| duration_metric.span == span)
}

#[derive(Debug, Default)]
pub struct SpanMetrics {
    series: RwLock<BTreeMap<&'static str, SeriesByLabels>>,
}

type SeriesByLabels = BTreeMap<Vec<String>, Arc<Series>>;

#[derive(Debug, Default)]
struct Series {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// Sum of a histogram in microseconds, or the value of a counter.
    sum: AtomicU64,
}

impl Series {
    fn add(&self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_micros();
        self.add_to_sum(u64::try_from(micros).unwrap_or(u64::MAX));
    }

    fn add_to_sum(&self, number: u64) {
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    fn value(&self, kind: Kind) -> Value {
        let sum = self.sum.load(Ordering::Relaxed);
        if kind != Kind::Histogram {
            return Value::Number(sum);
        }
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Value::Distribution(Distribution { bounds: BOUNDS, counts, sum: Duration::from_micros(sum).as_secs_f64() })
    }
}

impl SpanMetrics {
    /// Returns all metrics, including metrics without a value.
    pub fn families(&self) -> Vec<Family> {
        let own = DURATIONS.iter().map(|duration_metric| {
            self.family(duration_metric.metric, Kind::Histogram, duration_metric.help, duration_metric)
        });
        let field_metric = FIELDS.iter().filter_map(|field_metric| {
            let duration_metric = DURATIONS.iter().find(|duration_metric| duration_metric.span == field_metric.span)?;
            Some(self.family(field_metric.metric, field_metric.kind, field_metric.help, duration_metric))
        });
        own.chain(field_metric).collect()
    }

    fn family(&self, metric: &'static str, kind: Kind, help: &'static str, duration_metric: &DurationMetric) -> Family {
        let mut family = Family::new(metric, kind, help);
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        for (values, series) in series.get(metric).into_iter().flatten() {
            let labels =
                duration_metric.labels.iter().zip(values).map(|((_, label), value)| (*label, value.clone())).collect();
            family.points.push(Point { labels, value: series.value(kind) });
        }
        family
    }

    fn series(&self, metric: &'static str, labels: &[String]) -> Arc<Series> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = series.get(metric).and_then(|metric| metric.get(labels)) {
            return Arc::clone(found);
        }
        drop(series);
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let metric = series.entry(metric).or_default();
        let labels = if metric.len() < SERIES_MAX { labels.to_vec() } else { vec![OTHER.to_owned(); labels.len()] };
        Arc::clone(metric.entry(labels).or_default())
    }

    fn observe(&self, open: &OpenSpan, took: Duration) {
        let OpenSpan { duration_metric, labels, numbers, .. } = open;
        self.series(duration_metric.metric, labels).add(took.as_secs_f64());
        for (field_metric, number) in FIELDS.iter().zip(numbers) {
            match (number, field_metric.kind) {
                (None, _) => {}
                (Some(seconds), Kind::Histogram) => self.series(field_metric.metric, labels).add(*seconds),
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
                (Some(count), _) => self.series(field_metric.metric, labels).add_to_sum(*count as u64),
            }
        }
    }
}

struct OpenSpan {
    duration_metric: &'static DurationMetric,
    started_at: Instant,
    labels: Vec<String>,
    numbers: [Option<f64>; FIELDS.len()],
}

impl OpenSpan {
    fn label(&mut self, field: &Field, value: impl FnOnce() -> String) {
        let position = self.duration_metric.labels.iter().position(|(name, _)| *name == field.name());
        if let Some(label) = position.and_then(|position| self.labels.get_mut(position)) {
            *label = value();
        }
    }

    fn number(&mut self, field: &Field, number: f64) {
        let of_this = |field_metric: &FieldMetric| {
            field_metric.span == self.duration_metric.span && field_metric.field == field.name()
        };
        if let Some(position) = FIELDS.iter().position(of_this).and_then(|position| self.numbers.get_mut(position)) {
            *position = Some(number);
        }
    }
}

impl Visit for OpenSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.label(field, || value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, value);
    }

    #[expect(clippy::cast_precision_loss, reason = "a count")]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.label(field, || value.to_string());
        self.number(field, value as f64);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.label(field, || format!("{value:?}"));
    }
}

pub(super) fn layer(metrics: &Arc<SpanMetrics>) -> MetricsLayer {
    MetricsLayer(Arc::clone(metrics))
}

pub(super) struct MetricsLayer(Arc<SpanMetrics>);

impl<S> Layer<S> for MetricsLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(duration_metric) = DURATIONS.iter().find(|duration_metric| duration_metric.span == span.name()) else {
            return;
        };
        let labels = vec![String::new(); duration_metric.labels.len()];
        let mut open = OpenSpan { duration_metric, started_at: Instant::now(), labels, numbers: [None; FIELDS.len()] };
        attributes.record(&mut open);
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(open);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let open = context.span(&id).and_then(|span| span.extensions_mut().remove::<OpenSpan>());
        if let Some(open) = open {
            self.0.observe(&open, open.started_at.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    fn number(families: &[Family], name: &str, label: &str) -> Option<Value> {
        let family = families.iter().find(|family| family.name == name)?;
        let point = family.points.iter().find(|point| point.labels.iter().any(|(_, value)| value == label))?;
        Some(point.value.clone())
    }

    #[test]
    fn a_span_is_measured_with_labels_and_numbers_from_its_fields() {
        let metrics = Arc::new(SpanMetrics::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(&metrics)), || {
            let span = tracing::info_span!(
                "model",
                gen_ai.request.model = "small",
                gen_ai.usage.output_tokens = tracing::field::Empty,
                gen_ai.response.time_to_first_chunk = tracing::field::Empty,
                secret = "never a label"
            );
            span.record("gen_ai.usage.output_tokens", 7_i64).record("gen_ai.response.time_to_first_chunk", 0.3);
            drop(span);
            drop(tracing::info_span!("something else"));
        });
        let families = metrics.families();
        assert!(matches!(number(&families, "folio_model_call_seconds", "small"), Some(Value::Distribution(_))));
        assert_eq!(number(&families, "folio_model_output_tokens_total", "small"), Some(Value::Number(7)));
        let Some(Value::Distribution(first)) = number(&families, "folio_model_first_token_seconds", "small") else {
            panic!("{families:?}")
        };
        assert_eq!((first.counts.iter().sum::<u64>(), first.counts[8], first.sum), (1, 1, 0.3));
        assert!(!format!("{families:?}").contains("never a label"));
    }

    #[test]
    fn extracted_values_are_counted_by_their_evidence() {
        let metrics = Arc::new(SpanMetrics::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(&metrics)), || {
            for inferred in [1_i64, 4] {
                let (cited, located) = (2_i64, 3_i64);
                drop(tracing::info_span!(
                    "cite",
                    folio.values.cited = cited,
                    folio.values.located = located,
                    folio.values.inferred = inferred
                ));
            }
        });
        let families = metrics.families();
        for (name, expected) in [("cited", 4), ("located", 6), ("inferred", 5)] {
            let name = format!("folio_values_{name}_total");
            let family = families.iter().find(|family| family.name == name).unwrap();
            assert_eq!(family.points, [Point { labels: Vec::new(), value: Value::Number(expected) }], "{name}");
        }
    }

    #[test]
    fn failed_turns_are_labelled_with_their_reasons() {
        let metrics = Arc::new(SpanMetrics::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(&metrics)), || {
            for reason in ["SPU_EXHAUSTED", "STORE_UNAVAILABLE"] {
                let turn = tracing::info_span!(
                    "turn",
                    folio.turn.outcome = "failed",
                    otel.status_code = tracing::field::Empty,
                    "error.type" = tracing::field::Empty
                );
                folio_trace::record_error(&turn, reason);
            }
        });
        let families = metrics.families();
        let turns = families.iter().find(|family| family.name == "folio_turn_seconds").unwrap();
        let labels: Vec<_> = turns.points.iter().map(|point| point.labels.clone()).collect();
        let failed = |reason: &str| vec![("outcome", "failed".to_owned()), ("error", reason.to_owned())];
        assert_eq!(labels, [failed("SPU_EXHAUSTED"), failed("STORE_UNAVAILABLE")]);
    }

    #[test]
    fn a_metric_keeps_a_bounded_number_of_label_combinations() {
        let metrics = SpanMetrics::default();
        for number in 0..2 * SERIES_MAX {
            metrics.series("tool_seconds", &[format!("tool {number}"), String::new()]).add(0.1);
        }
        let families = metrics.families();
        let tools = families.iter().find(|family| family.name == "folio_tool_seconds").unwrap();
        assert_eq!(tools.points.len(), SERIES_MAX + 1);
        let counted = tools.points.iter().map(|point| match &point.value {
            Value::Distribution(distribution) => distribution.counts.iter().sum::<u64>(),
            Value::Number(_) => 0,
        });
        assert_eq!(counted.sum::<u64>(), 2 * SERIES_MAX as u64, "none is lost");
    }
}
