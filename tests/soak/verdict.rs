//! Evaluates values over time: a robust slope, a growth between two medians, a bound. Pure.

use std::fmt;
use std::time::Duration;

/// Minimum number of points after the warm-up. With fewer points a slope or growth cannot be evaluated, which is a
/// violation.
const POINTS_MIN: usize = 6;
/// Maximum number of points of a slope. More points are replaced by medians of consecutive groups, because the slope
/// needs the square of their number.
const SLOPE_POINTS_MAX: usize = 600;

const SECONDS_PER_HOUR: f64 = 3600.0;

/// Time since the start, and the value.
pub type Point = (Duration, f64);

/// The condition that the values of a series must meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The robust slope per hour is below this value.
    SlopePerHour(f64),
    /// The median of the last quarter exceeds the median of the first quarter by at most this share of it, plus a constant.
    Growth { share: f64, constant: f64 },
    /// No value exceeds this one, including those of the warm-up.
    Bound(f64),
    /// The values are only printed: they grow for longer than a run, or are part of another series.
    Printed,
}

#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub rule: Rule,
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub is_ok: bool,
    /// The slope, growth or largest value. None: the rule needs none, or there are too few points.
    pub measured: Option<f64>,
    /// The limit of the measured value. None: the rule has no limit.
    pub limit: Option<f64>,
    /// The first and the last value after the warm-up, and the largest value.
    ends: [f64; 3],
    /// The medians of the values in each quarter of the time after the warm-up. None: a quarter without values. Steady
    /// growth adds about the same in each quarter; the heap of a process that fills its caches adds less from quarter to
    /// quarter.
    pub quarters: [Option<f64>; 4],
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for value in self.ends {
            write!(f, "{value:>12.1}")?;
        }
        for value in [self.measured, self.limit] {
            write!(f, "{:>12}", value.map_or("-".to_owned(), |value| format!("{value:.2}")))?;
        }
        for value in self.quarters {
            write!(f, "{:>12}", value.map_or("-".to_owned(), |value| format!("{value:.1}")))?;
        }
        if self.is_ok { Ok(()) } else { write!(f, "  VIOLATION") }
    }
}

/// Evaluates a series without the points of its warm-up.
pub fn verdict(series: &Series, warm_up: Duration) -> Verdict {
    let points: Vec<Point> = series.points.iter().copied().filter(|(at, _)| *at >= warm_up).collect();
    let largest = series.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let is_enough = points.len() >= POINTS_MIN;
    let (measured, limit) = match series.rule {
        Rule::SlopePerHour(limit) => (is_enough.then(|| slope_per_hour(&points)), Some(limit)),
        Rule::Growth { share, constant } => {
            let (first, last) = quarters(&points);
            (is_enough.then_some(last - first), Some(first * share + constant))
        }
        Rule::Bound(limit) => (Some(largest), Some(limit)),
        Rule::Printed => (None, None),
    };
    let is_ok = match (series.rule, measured, limit) {
        (Rule::SlopePerHour(_), Some(measured), Some(limit)) => measured < limit,
        (Rule::Printed, ..) => true,
        (_, Some(measured), Some(limit)) => measured <= limit,
        _ => false,
    };
    let end = |point: Option<&Point>| point.map_or(0.0, |(_, value)| *value);
    let ends = [end(points.first()), end(points.last()), largest];
    Verdict { is_ok, measured, limit, ends, quarters: medians_by_quarter(&points) }
}

/// Returns the medians of the values in each quarter of the time from the first to the last point.
fn medians_by_quarter(points: &[Point]) -> [Option<f64>; 4] {
    let (Some((start, _)), Some((end, _))) = (points.first(), points.last()) else { return [None; 4] };
    let length = end.saturating_sub(*start).as_nanos() + 1;
    let mut quarters: [Vec<f64>; 4] = Default::default();
    for (at, value) in points {
        let quarter = at.saturating_sub(*start).as_nanos() * 4 / length;
        quarters[usize::try_from(quarter).unwrap_or_default()].push(*value);
    }
    quarters.map(|values| (!values.is_empty()).then(|| median(values)))
}

/// Returns the medians of the first and of the last quarter of the points.
fn quarters(points: &[Point]) -> (f64, f64) {
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let count = values.len().div_ceil(4);
    (median(values[..count].to_vec()), median(values[values.len() - count..].to_vec()))
}

/// Returns the Theil-Sen slope per hour: the median of the slopes of all pairs of points. Single outliers, such as the
/// peak of one request, do not change it.
pub fn slope_per_hour(points: &[Point]) -> f64 {
    let points = thinned(points);
    let mut slopes = Vec::new();
    for (at, (first, from)) in points.iter().enumerate() {
        for (second, to) in &points[at + 1..] {
            if second > first {
                slopes.push((to - from) / (second - first) * SECONDS_PER_HOUR);
            }
        }
    }
    median(slopes)
}

/// Returns at most [`SLOPE_POINTS_MAX`] points: the medians of times in seconds and of values of consecutive groups.
fn thinned(points: &[Point]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(SLOPE_POINTS_MAX).max(1);
    let of_group = |group: &[Point]| {
        let (times, values) = group.iter().map(|(at, value)| (at.as_secs_f64(), *value)).unzip();
        (median(times), median(values))
    };
    points.chunks(group).map(of_group).collect()
}

/// Returns the median. 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(lower), Some(upper)) if values.len().is_multiple_of(2) => f64::midpoint(*lower, *upper),
        (_, Some(value)) => *value,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const MEMORY: Rule = Rule::SlopePerHour(1.0);
    const FILES: Rule = Rule::Growth { share: 0.0, constant: 4.0 };
    const WARM_UP: Duration = Duration::from_secs(600);

    /// Returns a point every ten seconds for an hour.
    fn points(value: impl Fn(f64) -> f64) -> Vec<Point> {
        let at = |number| Duration::from_secs(number * 10);
        (0..HOUR / 10).map(|number| (at(number), value(at(number).as_secs_f64() / HOUR as f64))).collect()
    }

    fn evaluate(rule: Rule, value: impl Fn(f64) -> f64) -> Verdict {
        verdict(&Series { name: "a series".to_owned(), rule, points: points(value) }, WARM_UP)
    }

    /// Returns noise between -1 and 1 that depends only on the time.
    fn noise(hours: f64) -> f64 {
        (hours * 9_876.5).sin()
    }

    #[test]
    fn the_slope_is_exact_on_a_line_and_ignores_outliers() {
        let line = points(|hours| 100.0 + 3.0 * hours);
        assert!((slope_per_hour(&line) - 3.0).abs() < 1e-6);
        let with_peaks = line.iter().enumerate().map(|(at, (time, value))| {
            let peak = if at % 10 == 9 { 500.0 } else { 0.0 };
            (*time, value + peak)
        });
        let slope = slope_per_hour(&with_peaks.collect::<Vec<_>>());
        assert!((slope - 3.0).abs() < 0.5, "{slope}");
        assert_eq!(slope_per_hour(&[]), 0.0);
    }

    #[test]
    fn a_slope_of_many_points_is_computed_from_groups() {
        let day: Vec<Point> = (0..20_000).map(|at| (Duration::from_secs(at * 5), at as f64 * 5.0 / 3600.0)).collect();
        assert!(thinned(&day).len() <= SLOPE_POINTS_MAX);
        assert!((slope_per_hour(&day) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn memory_that_grows_after_the_warm_up_is_a_violation() {
        let steady = evaluate(MEMORY, |hours| 80.0 + 40.0 * (hours * 6.0).min(1.0) + 2.0 * noise(hours));
        assert!(steady.is_ok, "{steady:?}");
        let leak = evaluate(MEMORY, |hours| 80.0 + 1.5 * hours + 2.0 * noise(hours));
        assert!(!leak.is_ok && leak.measured.is_some_and(|slope| slope > 1.0), "{leak:?}");
    }

    #[test]
    fn files_and_rows_that_grow_are_a_violation() {
        assert!(evaluate(FILES, |hours| (60.0 + 3.0 * noise(hours)).round()).is_ok);
        assert!(!evaluate(FILES, |hours| (60.0 + 20.0 * hours).round()).is_ok);
        let rows = Rule::Growth { share: 0.25, constant: 50.0 };
        assert!(evaluate(rows, |hours| 1_000.0 + 200.0 * hours).is_ok);
        assert!(!evaluate(rows, |hours| 1_000.0 + 1_000.0 * hours).is_ok);
    }

    #[test]
    fn the_quarters_distinguish_steady_growth_from_a_heap_that_settles() {
        // Returns the growth from each quarter to the next one.
        let steps = |value: &dyn Fn(f64) -> f64| {
            let quarters = evaluate(MEMORY, value).quarters.map(Option::unwrap);
            [quarters[1] - quarters[0], quarters[2] - quarters[1], quarters[3] - quarters[2]]
        };
        let steady = steps(&|hours| 80.0 + 30.0 * hours);
        assert!(steady.iter().all(|step| (step - steady[0]).abs() < 0.1), "{steady:?}");
        let settling = steps(&|hours| 80.0 + 30.0 * (1.0 - (-6.0 * hours).exp()));
        assert!(settling[0] > 2.0 * settling[1] && settling[1] > 2.0 * settling[2], "{settling:?}");

        let at = Duration::from_secs;
        assert_eq!(medians_by_quarter(&[]), [None; 4]);
        assert_eq!(medians_by_quarter(&[(at(700), 1.0)]), [Some(1.0), None, None, None]);
        let some = [(at(700), 1.0), (at(701), 3.0), (at(702), 4.0), (at(750), 7.0), (at(800), 9.0)];
        assert_eq!(medians_by_quarter(&some), [Some(3.0), Some(7.0), None, Some(9.0)]);
        assert!(verdict(&Series { name: String::new(), rule: Rule::Printed, points: vec![] }, WARM_UP).is_ok);
    }

    #[test]
    fn a_bound_applies_to_every_value_and_too_few_points_are_a_violation() {
        assert!(evaluate(Rule::Bound(101.0), |hours| 100.0 + hours).is_ok);
        assert!(!evaluate(Rule::Bound(101.0), |hours| if hours == 0.0 { 102.0 } else { 1.0 }).is_ok);
        assert!(evaluate(Rule::Printed, |hours| 1e9 * hours).is_ok);
        let short = Series { name: String::new(), rule: MEMORY, points: points(|_| 1.0)[..61].to_vec() };
        assert!(!verdict(&short, WARM_UP).is_ok);
    }
}
