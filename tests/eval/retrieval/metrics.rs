//! Measures of rankings: recall, and normalized discounted cumulative gain (nDCG). Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A ranking in terms of the relevant results of its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gains {
    /// The gain of each position, best first: the grade of a relevant result at its first position, otherwise 0.
    positions: Vec<u32>,
    /// The grades of all relevant results of the question, the highest first.
    grades: Vec<u32>,
}

impl Gains {
    /// Returns the gains of a ranking. `ranking`: for each position the index of the relevant result, if it is one. `grades`: the
    /// grades of the relevant results, each at least 1.
    pub fn of(ranking: &[Option<usize>], grades: &[u32]) -> Self {
        let mut found = BTreeSet::new();
        let gain = |result: &Option<usize>| match result {
            Some(index) if found.insert(*index) => grades.get(*index).copied().unwrap_or_default(),
            _ => 0,
        };
        let positions = ranking.iter().map(gain).collect();
        let mut grades = grades.to_vec();
        grades.sort_unstable_by(|left, right| right.cmp(left));
        Self { positions, grades }
    }

    /// Returns the share of the relevant results that are among the first `k` positions. 0 if the question has none.
    pub fn recall(&self, k: usize) -> f64 {
        let found = self.positions.iter().take(k).filter(|gain| **gain > 0).count();
        if self.grades.is_empty() { 0.0 } else { found as f64 / self.grades.len() as f64 }
    }

    /// Returns the discounted gain of the first `k` positions relative to that of the best ranking, with linear gains and the discount
    /// `1 / log2(position + 1)`, as `trec_eval` does. 0 if the question has no relevant result.
    pub fn ndcg(&self, k: usize) -> f64 {
        let best = discounted(&self.grades, k);
        if best > 0.0 { discounted(&self.positions, k) / best } else { 0.0 }
    }
}

fn discounted(gains: &[u32], k: usize) -> f64 {
    let discount = |position: usize| 1.0 / (position as f64 + 2.0).log2();
    gains.iter().take(k).enumerate().map(|(position, gain)| f64::from(*gain) * discount(position)).sum()
}

/// The means over the questions of a set, or over those of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Means {
    pub questions: usize,
    pub recall_at_5: f64,
    pub recall_at_10: f64,
    pub ndcg_at_10: f64,
}

impl Means {
    /// Returns the means of rankings. All are 0 without a ranking.
    pub fn of<'a>(rankings: impl IntoIterator<Item = &'a Gains>) -> Self {
        let mut sum = Self::default();
        for gains in rankings {
            sum.questions += 1;
            sum.recall_at_5 += gains.recall(5);
            sum.recall_at_10 += gains.recall(10);
            sum.ndcg_at_10 += gains.ndcg(10);
        }
        let count = sum.questions.max(1) as f64;
        let Self { questions, recall_at_5, recall_at_10, ndcg_at_10 } = sum;
        Self {
            questions,
            recall_at_5: recall_at_5 / count,
            recall_at_10: recall_at_10 / count,
            ndcg_at_10: ndcg_at_10 / count,
        }
    }
}

/// Percentiles of the latency of searches, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
}

impl Latency {
    /// Returns the percentiles by the nearest rank. None: there is no time.
    pub fn of(mut times: Vec<Duration>) -> Option<Self> {
        if times.is_empty() {
            return None;
        }
        times.sort_unstable();
        let percentile = |share: f64| {
            let rank = (times.len() as f64 * share).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        Some(Self { p50: percentile(0.50), p99: percentile(0.99) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn recall_is_the_share_of_relevant_results_that_were_found() {
        let gains = Gains::of(&[None, Some(1), None, None, None, Some(0)], &[1, 1, 1]);
        assert!(is_near(gains.recall(5), 1.0 / 3.0) && is_near(gains.recall(10), 2.0 / 3.0));
        assert!(is_near(gains.recall(1), 0.0) && is_near(gains.recall(2), 1.0 / 3.0));
        assert!(is_near(Gains::of(&[], &[1]).recall(5), 0.0) && is_near(Gains::of(&[None], &[]).recall(5), 0.0));
    }

    #[test]
    fn a_result_counts_at_its_first_position_only() {
        let gains = Gains::of(&[Some(0), Some(0), Some(7)], &[1, 1]);
        assert!(is_near(gains.recall(10), 0.5));
        assert_eq!(gains.positions, [1, 0, 0]);
    }

    #[test]
    fn gains_are_discounted_by_the_logarithm_of_the_position() {
        // One relevant result at position 3: 1 / log2(4) = 0.5 of the best ranking.
        assert!(is_near(Gains::of(&[None, None, Some(0)], &[1]).ndcg(10), 0.5));
        assert!(is_near(Gains::of(&[None, None, Some(0)], &[1]).ndcg(2), 0.0));
        // Grades 1 and 3 at positions 1 and 2: (1 + 3 / log2(3)) / (3 + 1 / log2(3)).
        let log2_of_3 = 1.584_962_500_721_156;
        let expected = (1.0 + 3.0 / log2_of_3) / (3.0 + 1.0 / log2_of_3);
        assert!(is_near(Gains::of(&[Some(0), Some(1)], &[1, 3]).ndcg(10), expected));
        assert!(is_near(Gains::of(&[Some(1), Some(0)], &[1, 3]).ndcg(10), 1.0));
        // The best ranking has at most k results, too.
        assert!(is_near(Gains::of(&[Some(0)], &[1, 1, 1]).ndcg(1), 1.0));
        assert!(is_near(Gains::of(&[None], &[]).ndcg(10), 0.0));
    }

    #[test]
    fn means_are_those_of_the_questions() {
        let best = Gains::of(&[Some(0)], &[1]);
        let none = Gains::of(&[None], &[1]);
        let late = Gains::of(&[None, None, None, None, None, None, Some(0)], &[1]);
        let means = Means::of([&best, &none, &late, &best]);
        assert_eq!(means.questions, 4);
        assert!(is_near(means.recall_at_5, 0.5) && is_near(means.recall_at_10, 0.75));
        // 1 / log2(8) = 1 / 3.
        assert!(is_near(means.ndcg_at_10, (1.0 + 1.0 + 1.0 / 3.0) / 4.0));
        assert_eq!(Means::of([]), Means::default());
    }

    #[test]
    fn latencies_are_percentiles_by_the_nearest_rank() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(Latency::of(times), Some(Latency { p50: 50.0, p99: 99.0 }));
        assert_eq!(Latency::of(vec![Duration::from_millis(7)]), Some(Latency { p50: 7.0, p99: 7.0 }));
        assert_eq!(Latency::of(vec![]), None);
    }
}
