//! Test utilities: simulated time and randomness, waiting for conditions, seeds, PDF files, scans, office documents, values with unknown fields,
//! and a proxy that cuts connections. A dev-dependency only.

pub mod invoice;
pub mod office;
pub mod pdf;
pub mod pdf_words;
pub mod proxy;
pub mod scan;
pub mod structured_pdf;
pub mod unknown_fields;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_types::{Environment, Error, Reason, Result, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// A clock that the test controls, and random numbers from a seed.
#[derive(Debug)]
pub struct Simulated {
    state: Mutex<(Timestamp, StdRng)>,
    /// Seconds by which the clock is wrong.
    wrong_by: AtomicU64,
}

impl Simulated {
    /// The clock starts at a fixed time.
    pub fn new(seed: u64) -> Self {
        let start = Timestamp::constant(1_790_000_000, 0);
        Self { state: Mutex::new((start, StdRng::seed_from_u64(seed))), wrong_by: AtomicU64::new(0) }
    }

    /// Makes the clock wrong by a duration in whole seconds: it is ahead, and [`Environment::checked_now`] fails. Zero: the clock
    /// is right.
    pub fn jump(&self, ahead: Duration) {
        self.wrong_by.store(ahead.as_secs(), Ordering::SeqCst);
    }

    #[expect(clippy::unwrap_used, reason = "a test's clock")]
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock().unwrap();
        state.0 += by;
    }
}

impl Environment for Simulated {
    #[expect(clippy::unwrap_used, reason = "a test's clock")]
    fn now(&self) -> Timestamp {
        self.state.lock().unwrap().0 + Duration::from_secs(self.wrong_by.load(Ordering::SeqCst))
    }

    fn checked_now(&self) -> Result<Timestamp> {
        match self.wrong_by.load(Ordering::SeqCst) {
            0 => Ok(self.now()),
            seconds => Err(Error::unavailable(Reason::StoreUnavailable, format!("the clock is wrong by {seconds} s"))),
        }
    }

    #[expect(clippy::unwrap_used, reason = "a test's randomness")]
    fn random(&self) -> u128 {
        self.state.lock().unwrap().1.random()
    }
}

/// Returns the seed of a test run from `FOLIO_SEED`, otherwise a random seed. Prints the seed, so that a failure can be
/// reproduced.
#[expect(clippy::print_stderr, reason = "a failing test is repeated by its seed")]
pub fn seed() -> u64 {
    let seed = std::env::var("FOLIO_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    eprintln!("FOLIO_SEED={seed}");
    seed
}

/// Polls until the condition returns a value. Panics with `what` after `limit`.
pub async fn wait_for<T, F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let end = tokio::time::Instant::now() + limit;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "timed out after {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
