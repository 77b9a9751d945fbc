//! Durations of what spans stand for, as histograms: a span that is named here is measured, and nothing else is.
//!
//! Labels come from a span's fields, few of them and none about a tenant, a thread or a person. Each figure keeps a bounded
//! number of their combinations; what comes beyond them counts under `other`.

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

use crate::figures::{Distribution, Family, Kind, Point, Value};

/// Upper bounds of the histograms, in seconds.
const BOUNDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Combinations of labels that a figure keeps.
const SERIES_MAX: usize = 400;
/// What stands for the labels of the others.
const OTHER: &str = "other";

/// A span that is measured.
struct Measure {
    /// The span's name.
    span: &'static str,
    /// The figure of its duration.
    figure: &'static str,
    help: &'static str,
    /// Fields of the span, and the labels that they become.
    labels: &'static [(&'static str, &'static str)],
}

/// A number that a measured span has in a field.
struct Also {
    span: &'static str,
    field: &'static str,
    figure: &'static str,
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

const MEASURES: &[Measure] = &[
    Measure {
        span: "rpc",
        figure: "rpc_seconds",
        help: "Calls of the public API, to the last byte of the answer.",
        labels: RPC,
    },
    Measure {
        span: "peer",
        figure: "peer_seconds",
        help: "Calls that this node answered other processes.",
        labels: RPC,
    },
    Measure {
        span: "turn",
        figure: "turn_seconds",
        help: "Turns, each from its beginning or resumption to its end or to where it waits for approval.",
        labels: &[("folio.turn.outcome", "outcome"), ("error.type", "error")],
    },
    Measure {
        span: "round",
        figure: "round_seconds",
        help: "Rounds: a model call and the tools that it asked for.",
        labels: &[],
    },
    Measure {
        span: "model",
        figure: "model_call_seconds",
        help: "Model calls, retries and the whole answer included.",
        labels: MODEL,
    },
    Measure {
        span: "execute_tool",
        figure: "tool_seconds",
        help: "Executions of tools.",
        labels: &[("gen_ai.tool.name", "tool"), ("error.type", "error")],
    },
    Measure {
        span: "store",
        figure: "store_seconds",
        help: "Operations of stores.",
        labels: &[("db.system.name", "system"), ("db.operation.name", "operation"), ("error.type", "error")],
    },
    Measure {
        span: "purchase",
        figure: "purchase_seconds",
        help: "Messages of the payment system.",
        labels: &[("http.response.status_code", "status")],
    },
    Measure {
        span: "ingest",
        figure: "ingestion_seconds",
        help: "Readings of documents, waiting for their turn not included.",
        labels: &[("error.type", "error")],
    },
];

const ALSO: &[Also] = &[
    Also {
        span: "model",
        field: "gen_ai.response.time_to_first_chunk",
        figure: "model_first_token_seconds",
        help: "Streamed model calls, to their first token.",
        kind: Kind::Histogram,
    },
    Also {
        span: "model",
        field: "gen_ai.usage.input_tokens",
        figure: "model_input_tokens_total",
        help: "Tokens of prompts.",
        kind: Kind::Counter,
    },
    Also {
        span: "model",
        field: "gen_ai.usage.output_tokens",
        figure: "model_output_tokens_total",
        help: "Tokens of answers.",
        kind: Kind::Counter,
    },
];

/// Whether spans of a name are measured.
pub(super) fn is_measured(span: &str) -> bool {
    MEASURES.iter().any(|measure| measure.span == span)
}

/// What was measured so far.
#[derive(Debug, Default)]
pub struct Measured {
    series: RwLock<BTreeMap<&'static str, Figure>>,
}

/// A figure's values by its labels.
type Figure = BTreeMap<Vec<String>, Arc<Series>>;

#[derive(Debug, Default)]
struct Series {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// Microseconds of a histogram, or what was counted.
    sum: AtomicU64,
}

impl Series {
    fn add(&self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_micros();
        self.count(u64::try_from(micros).unwrap_or(u64::MAX));
    }

    fn count(&self, number: u64) {
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

impl Measured {
    /// The figures, also those without a value yet.
    pub fn families(&self) -> Vec<Family> {
        let own = MEASURES.iter().map(|measure| self.family(measure.figure, Kind::Histogram, measure.help, measure));
        let also = ALSO.iter().filter_map(|also| {
            let measure = MEASURES.iter().find(|measure| measure.span == also.span)?;
            Some(self.family(also.figure, also.kind, also.help, measure))
        });
        own.chain(also).collect()
    }

    fn family(&self, figure: &'static str, kind: Kind, help: &'static str, measure: &Measure) -> Family {
        let mut family = Family::new(figure, kind, help);
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        for (values, series) in series.get(figure).into_iter().flatten() {
            let labels = measure.labels.iter().zip(values).map(|((_, label), value)| (*label, value.clone())).collect();
            family.points.push(Point { labels, value: series.value(kind) });
        }
        family
    }

    fn series(&self, figure: &'static str, labels: &[String]) -> Arc<Series> {
        let known = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(figure).and_then(|figure| figure.get(labels)) {
            return Arc::clone(found);
        }
        drop(known);
        let mut known = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let figure = known.entry(figure).or_default();
        let labels = if figure.len() < SERIES_MAX { labels.to_vec() } else { vec![OTHER.to_owned(); labels.len()] };
        Arc::clone(figure.entry(labels).or_default())
    }

    fn take(&self, timed: &Timed, took: Duration) {
        let Timed { measure, labels, also, .. } = timed;
        self.series(measure.figure, labels).add(took.as_secs_f64());
        for (also, number) in ALSO.iter().zip(also) {
            match (number, also.kind) {
                (None, _) => {}
                (Some(seconds), Kind::Histogram) => self.series(also.figure, labels).add(*seconds),
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of tokens")]
                (Some(count), _) => self.series(also.figure, labels).count(*count as u64),
            }
        }
    }
}

/// A span that is being measured.
struct Timed {
    measure: &'static Measure,
    began: Instant,
    labels: Vec<String>,
    also: [Option<f64>; ALSO.len()],
}

impl Timed {
    fn label(&mut self, field: &Field, value: impl FnOnce() -> String) {
        let place = self.measure.labels.iter().position(|(name, _)| *name == field.name());
        if let Some(label) = place.and_then(|place| self.labels.get_mut(place)) {
            *label = value();
        }
    }

    fn number(&mut self, field: &Field, number: f64) {
        let of_this = |also: &Also| also.span == self.measure.span && also.field == field.name();
        if let Some(place) = ALSO.iter().position(of_this).and_then(|place| self.also.get_mut(place)) {
            *place = Some(number);
        }
    }
}

impl Visit for Timed {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.label(field, || value.to_owned());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, value);
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of tokens")]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.label(field, || value.to_string());
        self.number(field, value as f64);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.label(field, || format!("{value:?}"));
    }
}

/// The layer that measures.
pub(super) fn layer(measured: &Arc<Measured>) -> Stopwatch {
    Stopwatch(Arc::clone(measured))
}

/// Measures spans.
pub(super) struct Stopwatch(Arc<Measured>);

impl<S> Layer<S> for Stopwatch
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(measure) = MEASURES.iter().find(|measure| measure.span == span.name()) else { return };
        let labels = vec![String::new(); measure.labels.len()];
        let mut timed = Timed { measure, began: Instant::now(), labels, also: [None; ALSO.len()] };
        attributes.record(&mut timed);
        span.extensions_mut().insert(timed);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(timed) = span.extensions_mut().get_mut::<Timed>() {
            values.record(timed);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let timed = context.span(&id).and_then(|span| span.extensions_mut().remove::<Timed>());
        if let Some(timed) = timed {
            self.0.take(&timed, timed.began.elapsed());
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
    fn a_span_is_measured_with_what_its_fields_say() {
        let measured = Arc::new(Measured::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(&measured)), || {
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
        let families = measured.families();
        assert!(matches!(number(&families, "folio_model_call_seconds", "small"), Some(Value::Distribution(_))));
        assert_eq!(number(&families, "folio_model_output_tokens_total", "small"), Some(Value::Number(7)));
        let Some(Value::Distribution(first)) = number(&families, "folio_model_first_token_seconds", "small") else {
            panic!("{families:?}")
        };
        assert_eq!((first.counts.iter().sum::<u64>(), first.counts[8], first.sum), (1, 1, 0.3));
        assert!(!format!("{families:?}").contains("never a label"));
    }

    #[test]
    fn turns_that_fail_are_told_apart_by_their_reasons() {
        let measured = Arc::new(Measured::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(&measured)), || {
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
        let families = measured.families();
        let turns = families.iter().find(|family| family.name == "folio_turn_seconds").unwrap();
        let labels: Vec<_> = turns.points.iter().map(|point| point.labels.clone()).collect();
        let failed = |reason: &str| vec![("outcome", "failed".to_owned()), ("error", reason.to_owned())];
        assert_eq!(labels, [failed("SPU_EXHAUSTED"), failed("STORE_UNAVAILABLE")]);
    }

    #[test]
    fn a_figure_keeps_a_bounded_number_of_labels() {
        let measured = Measured::default();
        for number in 0..2 * SERIES_MAX {
            measured.series("tool_seconds", &[format!("tool {number}"), String::new()]).add(0.1);
        }
        let families = measured.families();
        let tools = families.iter().find(|family| family.name == "folio_tool_seconds").unwrap();
        assert_eq!(tools.points.len(), SERIES_MAX + 1);
        let counted = tools.points.iter().map(|point| match &point.value {
            Value::Distribution(distribution) => distribution.counts.iter().sum::<u64>(),
            Value::Number(_) => 0,
        });
        assert_eq!(counted.sum::<u64>(), 2 * SERIES_MAX as u64, "none is lost");
    }
}
