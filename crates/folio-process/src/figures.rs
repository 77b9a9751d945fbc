//! Figures of a process: what is counted and measured, in the one form that Prometheus reads and a collector is told.

use std::fmt::Write as _;

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What holds now.
    Gauge,
    /// What only grows while the process lives.
    Counter,
    /// How often something took how long.
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

/// A figure with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name, `folio_…`; the unit is last, before `_total` of a counter.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// One value for each combination of labels.
    pub points: Vec<Point>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What it is the value of. Few: no label has the name of a tenant, a thread or a person.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A distribution.
    Distribution(Distribution),
}

/// How often something took how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bounds, in seconds, ascending.
    pub bounds: &'static [f64],
    /// How often, for each bound, and beyond the last.
    pub counts: Vec<u64>,
    /// Seconds in all.
    pub sum: f64,
}

impl Family {
    /// A figure of the name `folio_{name}`.
    pub fn new(name: &str, kind: Kind, help: &'static str) -> Self {
        Self { name: format!("folio_{name}"), kind, help, points: Vec::new() }
    }

    /// With a number.
    #[must_use]
    pub fn with(mut self, labels: Vec<(&'static str, String)>, number: u64) -> Self {
        self.points.push(Point { labels, value: Value::Number(number) });
        self
    }

    /// Its unit, as UCUM writes it.
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        match name.rsplit('_').next() {
            Some("seconds") => "s",
            Some("bytes") => "By",
            _ => "1",
        }
    }
}

/// The figures as Prometheus reads them.
pub fn page(families: &[Family]) -> String {
    let mut page = String::new();
    for family in families {
        let (name, kind) = (&family.name, family.kind.name());
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for Point { labels, value } in &family.points {
            match value {
                Value::Number(number) => {
                    let _ = writeln!(page, "{name}{} {number}", written(labels, None));
                }
                Value::Distribution(distribution) => distribute(&mut page, name, labels, distribution),
            }
        }
    }
    page
}

fn distribute(page: &mut String, name: &str, labels: &[(&'static str, String)], distribution: &Distribution) {
    let mut below = 0;
    let bounds = distribution.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(&distribution.counts) {
        below += count;
        let _ = writeln!(page, "{name}_bucket{} {below}", written(labels, Some(&bound)));
    }
    let labels = written(labels, None);
    let _ = writeln!(page, "{name}_sum{labels} {}\n{name}_count{labels} {below}", distribution.sum);
}

fn written(labels: &[(&'static str, String)], bound: Option<&str>) -> String {
    let value = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", value(text)));
    let all: Vec<_> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_prometheus_reads_them() {
        let plain = Family::new("connections", Kind::Gauge, "Open.").with(Vec::new(), 3);
        let labelled =
            Family::new("calls_total", Kind::Counter, "Calls.").with(vec![("kind", "a\"b\\\n".to_owned())], 1);
        let mut long = Family::new("turn_seconds", Kind::Histogram, "Turns.");
        let value = Value::Distribution(Distribution { bounds: &[0.5, 1.0], counts: vec![2, 0, 1], sum: 9.5 });
        long.points.push(Point { labels: vec![("outcome", "completed".to_owned())], value });
        assert_eq!((plain.unit(), long.unit()), ("1", "s"));
        let page = page(&[plain, labelled, long]);
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
