//! Values of a process's metrics, and their encoding for Prometheus. `telemetry::export` encodes the same values for a
//! collector.

use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// A value that only increases until the process ends.
    Counter,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric with all its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Starts with `folio_`. The unit is the last word, before `_total` of a counter.
    pub name: String,
    pub kind: Kind,
    pub help: &'static str,
    /// One value per combination of labels.
    pub points: Vec<Point>,
}

/// The value of one combination of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Names and values. Their cardinality is bounded: no label identifies a tenant, a thread or a user.
    pub labels: Vec<(&'static str, String)>,
    /// A number for a gauge or counter, a distribution for a histogram.
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(u64),
    Distribution(Distribution),
}

/// The distribution of a duration.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bounds of the buckets in seconds, ascending.
    pub bounds: &'static [f64],
    /// Observations per bucket. The last bucket is beyond all bounds.
    pub counts: Vec<u64>,
    /// Sum of all observations in seconds.
    pub sum: f64,
}

impl Family {
    /// Returns the metric `folio_{name}` without values.
    pub fn new(name: &str, kind: Kind, help: &'static str) -> Self {
        Self { name: format!("folio_{name}"), kind, help, points: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, labels: Vec<(&'static str, String)>, number: u64) -> Self {
        self.points.push(Point { labels, value: Value::Number(number) });
        self
    }

    /// Returns the unit in UCUM notation, derived from the last word of the name.
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        match name.rsplit('_').next() {
            Some("seconds") => "s",
            Some("bytes") => "By",
            _ => "1",
        }
    }
}

/// Encodes the metrics in Prometheus' text format 0.0.4.
pub fn encode_prometheus(families: &[Family]) -> String {
    let mut page = String::new();
    for family in families {
        let (name, kind) = (&family.name, family.kind.name());
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for Point { labels, value } in &family.points {
            match value {
                Value::Number(number) => {
                    let _ = writeln!(page, "{name}{} {number}", label_set(labels, None));
                }
                Value::Distribution(distribution) => encode_histogram(&mut page, name, labels, distribution),
            }
        }
    }
    page
}

fn encode_histogram(page: &mut String, name: &str, labels: &[(&'static str, String)], distribution: &Distribution) {
    let mut cumulative = 0;
    let bounds = distribution.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(&distribution.counts) {
        cumulative += count;
        let _ = writeln!(page, "{name}_bucket{} {cumulative}", label_set(labels, Some(&bound)));
    }
    let labels = label_set(labels, None);
    let _ = writeln!(page, "{name}_sum{labels} {}\n{name}_count{labels} {cumulative}", distribution.sum);
}

fn label_set(labels: &[(&'static str, String)], bound: Option<&str>) -> String {
    let value = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", value(text)));
    let all: Vec<_> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_encoded_in_the_text_format_of_prometheus() {
        let plain = Family::new("connections", Kind::Gauge, "Open.").with(Vec::new(), 3);
        let labelled =
            Family::new("calls_total", Kind::Counter, "Calls.").with(vec![("kind", "a\"b\\\n".to_owned())], 1);
        let mut long = Family::new("turn_seconds", Kind::Histogram, "Turns.");
        let value = Value::Distribution(Distribution { bounds: &[0.5, 1.0], counts: vec![2, 0, 1], sum: 9.5 });
        long.points.push(Point { labels: vec![("outcome", "completed".to_owned())], value });
        assert_eq!((plain.unit(), long.unit()), ("1", "s"));
        let page = encode_prometheus(&[plain, labelled, long]);
        let expected = r#"# HELP folio_connections Open.
# TYPE folio_connections gauge
folio_connections 3
# HELP folio_calls_total Calls.
# TYPE folio_calls_total counter
folio_calls_total{kind="a\"b\\\n"} 1
# HELP folio_turn_seconds Turns.
# TYPE folio_turn_seconds histogram
folio_turn_seconds_bucket{outcome="completed",le="0.5"} 2
folio_turn_seconds_bucket{outcome="completed",le="1"} 2
folio_turn_seconds_bucket{outcome="completed",le="+Inf"} 3
folio_turn_seconds_sum{outcome="completed"} 9.5
folio_turn_seconds_count{outcome="completed"} 3
"#;
        assert_eq!(page, expected);
    }
}
