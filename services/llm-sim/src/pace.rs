//! Timing of a response: latency before the first token, pacing between tokens.

use std::time::Duration;

use rand::Rng;

/// Bytes per token when text is split.
pub(crate) const TOKEN_BYTES: usize = 4;

/// Size and rate of chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pacing {
    /// Tokens per second. 0: unlimited.
    pub tokens_per_second: f64,
    /// Tokens per chunk (four bytes each), at least one.
    pub chunk_tokens: usize,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { tokens_per_second: 0.0, chunk_tokens: 4 }
    }
}

impl Pacing {
    /// Returns the approximate size of a chunk in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_tokens.clamp(1, 1 << 20) * TOKEN_BYTES
    }

    pub fn pause(&self) -> Duration {
        if self.tokens_per_second > 0.0 && self.tokens_per_second.is_finite() {
            let seconds = self.chunk_tokens.max(1) as f64 / self.tokens_per_second;
            Duration::try_from_secs_f64(seconds.min(3_600.0)).unwrap_or_default()
        } else {
            Duration::ZERO
        }
    }
}

/// A distribution of delays in milliseconds. The endpoint's seed determines the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Latency {
    /// No delay.
    #[default]
    None,
    /// Log-normal delays: most are near the median, with a long tail.
    Lognormal {
        /// Half of the delays are shorter.
        median_ms: f64,
        /// Standard deviation of the logarithm; 0.5 gives a p99 of about 3.2 medians.
        sigma: f64,
    },
}

impl Latency {
    /// Draws a delay, at most one hour.
    pub fn sample(&self, rng: &mut impl Rng) -> Duration {
        let ms = match *self {
            Self::None => return Duration::ZERO,
            Self::Lognormal { median_ms, sigma } => median_ms * (sigma * normal(rng)).exp(),
        };
        Duration::try_from_secs_f64((ms / 1_000.0).clamp(0.0, 3_600.0)).unwrap_or_default()
    }
}

/// Draws from the standard normal distribution (Box–Muller).
fn normal(rng: &mut impl Rng) -> f64 {
    let first: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
    let second: f64 = rng.random();
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn a_lognormal_latency_has_its_median_and_a_long_tail_and_repeats_with_its_seed() {
        let sorted = || {
            let (mut rng, latency) = (StdRng::seed_from_u64(7), Latency::Lognormal { median_ms: 100.0, sigma: 0.5 });
            let mut samples: Vec<_> = (0..2_001).map(|_| latency.sample(&mut rng).as_micros()).collect();
            samples.sort_unstable();
            samples
        };
        let samples = sorted();
        assert!((90_000..110_000).contains(&samples[1_000]), "median {}", samples[1_000]);
        assert!((240_000..450_000).contains(&samples[1_980]), "p99 {}", samples[1_980]);
        assert_eq!(samples, sorted());
    }

    #[test]
    fn pacing_gives_the_pause_between_chunks() {
        assert_eq!(Pacing { tokens_per_second: 50.0, chunk_tokens: 5 }.pause(), Duration::from_millis(100));
        assert_eq!(Pacing::default().pause(), Duration::ZERO);
    }
}
