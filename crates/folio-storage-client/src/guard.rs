//! What every call to a server passes: a breaker, a bound on the calls under way, and counts.
//!
//! A server that is away fails fast and is probed by one call at a time; who waits for a place is bounded in number and in
//! time. So neither a store that is away nor one that is slow makes a process grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_breaker::{Admission, Breaker, BreakerOptions, BreakerState, Outcome};
use folio_types::{Error, Reason, Result, Timestamp};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::Instrument as _;

use folio_storage::Traffic;
use folio_storage::spans;

/// Calls under way at once.
const PLACES: usize = 1_024;

/// Calls that wait for a place or are under way.
const ADMITTED: usize = 16 * PLACES;

/// The guard of one server.
pub struct Guard {
    server: &'static str,
    /// What traces call a server of its kind.
    system: &'static str,
    kinds: &'static [&'static str],
    breaker: Mutex<Breaker>,
    begun: Instant,
    /// Whoever has one is admitted: waits, or is under way.
    admitted: Semaphore,
    places: Semaphore,
    sent: Vec<AtomicU64>,
    failed: AtomicU64,
    refused: AtomicU64,
}

impl Guard {
    /// Before a server of that name, whose calls are of these kinds.
    pub fn new(server: &'static str, kinds: &'static [&'static str], options: BreakerOptions) -> Self {
        Self {
            server,
            system: if server == "cql" { "cassandra" } else { server },
            kinds,
            breaker: Mutex::new(Breaker::new(options)),
            begun: Instant::now(),
            admitted: Semaphore::new(ADMITTED),
            places: Semaphore::new(PLACES),
            sent: kinds.iter().map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Makes a call of a kind (its number among the kinds) about a table, where there is one. `judge` says what an error says of the server. It waits for a
    /// place as long as the call itself may take.
    ///
    /// Errors: `STORE_UNAVAILABLE` where the call was not sent. It is no other reason, since of a write whose earlier attempt
    /// was sent the outcome stays unknown.
    pub async fn call<T, E>(
        &self,
        kind: usize,
        table: Option<&str>,
        limit: Duration,
        call: impl Future<Output = Result<T, E>>,
        judge: impl FnOnce(&E) -> Outcome,
    ) -> Result<Result<T, E>> {
        let _place = self.place(limit).await.inspect_err(|_| self.note_refused())?;
        let mut attempt = self.attempt().inspect_err(|_| self.note_refused())?;
        if let Some(sent) = self.sent.get(kind) {
            sent.fetch_add(1, Ordering::Relaxed);
        }
        let span = spans::operation(self.system, self.kinds.get(kind).copied().unwrap_or_default(), table);
        let answer = call.instrument(span.clone()).await;
        attempt.outcome = answer.as_ref().err().map_or(Outcome::Success, judge);
        if attempt.outcome == Outcome::Failure {
            folio_trace::record_error(&span, "unavailable");
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }

    async fn place(&self, limit: Duration) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>)> {
        let full = || {
            let message = format!("too many calls to {} are under way", self.server);
            Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
        };
        let admitted = self.admitted.try_acquire().map_err(|_| full())?;
        let place = tokio::time::timeout(limit, self.places.acquire()).await;
        let place = place.map_err(|_| full())?.map_err(|_| full())?;
        Ok((admitted, place))
    }

    fn attempt(&self) -> Result<Attempt<'_>> {
        match self.breaker().admit(self.now()) {
            Ok(admission) => Ok(Attempt { guard: self, admission, outcome: Outcome::Abandoned }),
            Err(left) => {
                let message = format!("{} does not answer; calls are held back", self.server);
                Err(Error::unavailable(Reason::StoreUnavailable, message).retry_after(left))
            }
        }
    }

    /// By a clock that is never set.
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(self.begun.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What was asked so far.
    pub fn traffic(&self) -> Traffic {
        let sent = self.sent.iter().map(|sent| sent.load(Ordering::Relaxed));
        Traffic {
            server: self.server,
            calls: self.kinds.iter().copied().zip(sent).collect(),
            failed: self.failed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            held_back: !matches!(self.breaker().state(), BreakerState::Closed { .. }),
        }
    }
}

/// A call that the breaker let through. Dropped without an outcome it was given up by its caller.
struct Attempt<'a> {
    guard: &'a Guard,
    admission: Admission,
    outcome: Outcome,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let now = self.guard.now();
        self.guard.breaker().record(self.admission, self.outcome, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    fn guard(failures: u32) -> Guard {
        Guard::new("store", &["read", "write"], BreakerOptions { failures, open_seconds: LIMIT })
    }

    async fn fails(guard: &Guard) -> Result<Result<(), ()>> {
        guard.call(1, None, LIMIT, std::future::ready(Err(())), |()| Outcome::Failure).await
    }

    async fn works(guard: &Guard) -> Result<Result<(), ()>> {
        guard.call(0, None, LIMIT, std::future::ready(Ok(())), |()| Outcome::Failure).await
    }

    #[tokio::test]
    async fn calls_are_held_back_while_the_server_is_sick_and_pass_once_it_answers() {
        let guard = guard(2);
        assert_eq!(fails(&guard).await.unwrap(), Err(()));
        assert_eq!(fails(&guard).await.unwrap(), Err(()));
        let held = works(&guard).await.unwrap_err();
        assert_eq!(held.reason, Reason::StoreUnavailable);
        assert!(held.retry_after.is_some_and(|after| after <= LIMIT), "{held:?}");
        let told = guard.traffic();
        assert_eq!((told.calls, told.failed, told.refused), (vec![("read", 0), ("write", 2)], 2, 1));
        assert!(told.held_back);
        folio_testkit::wait_for("a probe", Duration::from_secs(5), async || works(&guard).await.ok()).await.unwrap();
        assert!(!guard.traffic().held_back);
    }

    #[tokio::test]
    async fn no_more_calls_than_there_are_places_are_under_way_and_no_more_wait_than_are_admitted() {
        let guard = guard(0);
        let hang = || {
            guard
                .call(0, None, Duration::from_secs(60), std::future::pending::<Result<(), ()>>(), |()| Outcome::Success)
        };
        let mut calls: Vec<_> = (0..ADMITTED).map(|_| Box::pin(hang())).collect();
        for call in &mut calls {
            assert!(futures::poll!(tokio::task::unconstrained(call)).is_pending());
        }
        assert_eq!(guard.traffic().calls[0].1, PLACES as u64, "the others wait");
        assert_eq!(works(&guard).await.unwrap_err().reason, Reason::StoreUnavailable);
        drop(calls);
        works(&guard).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_waits_for_a_place_waits_no_longer_than_a_call_may_take() {
        let guard = guard(0);
        let hang = || {
            guard
                .call(0, None, Duration::from_secs(60), std::future::pending::<Result<(), ()>>(), |()| Outcome::Success)
        };
        let mut calls: Vec<_> = (0..PLACES).map(|_| Box::pin(hang())).collect();
        for call in &mut calls {
            assert!(futures::poll!(tokio::task::unconstrained(call)).is_pending());
        }
        assert_eq!(works(&guard).await.unwrap_err().reason, Reason::StoreUnavailable);
        assert_eq!(guard.traffic().refused, 1);
    }
}
