//! A circuit breaker, a bound on the calls in flight, and counters for the calls to a server.
//!
//! Calls to an unavailable server fail fast, and one probe at a time tests the server. The number of waiting calls and
//! their waiting time are bounded, so that neither an unavailable nor a slow store makes a process grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_breaker::{Admission, Breaker, BreakerOptions, BreakerState, Outcome};
use folio_types::{Error, Reason, Result, Timestamp};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::Instrument as _;

use folio_storage::CallCounters;
use folio_storage::spans;

const IN_FLIGHT_MAX: usize = 1_024;

/// Maximum number of calls that wait for a permit or are in flight.
const ADMITTED_MAX: usize = 16 * IN_FLIGHT_MAX;

pub struct Guard {
    server: &'static str,
    /// The value of `db.system.name` in spans.
    system: &'static str,
    kinds: &'static [&'static str],
    breaker: Mutex<Breaker>,
    started_at: Instant,
    /// Permits for calls that wait or are in flight.
    admitted: Semaphore,
    in_flight: Semaphore,
    sent: Vec<AtomicU64>,
    failed: AtomicU64,
    rejected: AtomicU64,
}

impl Guard {
    /// Returns a guard for the calls to `server`. `kinds`: the names of the kinds of calls, for metrics and spans.
    pub fn new(server: &'static str, kinds: &'static [&'static str], options: BreakerOptions) -> Self {
        Self {
            server,
            system: if server == "cql" { "cassandra" } else { server },
            kinds,
            breaker: Mutex::new(Breaker::new(options)),
            started_at: Instant::now(),
            admitted: Semaphore::new(ADMITTED_MAX),
            in_flight: Semaphore::new(IN_FLIGHT_MAX),
            sent: kinds.iter().map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }

    /// Makes a call. `kind`: an index into the kinds. `table`: the table that the call accesses, if any. `limit`: the
    /// maximum time to wait for a permit; `call` must enforce its own time limit. `classify` maps an error to the health
    /// of the server.
    ///
    /// Errors: `STORE_UNAVAILABLE` if the call was not sent. The reason is the same as for an unknown outcome, because
    /// an earlier attempt of the same write may have been sent.
    pub async fn call<T, E>(
        &self,
        kind: usize,
        table: Option<&str>,
        limit: Duration,
        call: impl Future<Output = Result<T, E>>,
        classify: impl FnOnce(&E) -> Outcome,
    ) -> Result<Result<T, E>> {
        let _permits = self.permits(limit).await.inspect_err(|_| self.count_rejection())?;
        let mut attempt = self.attempt().inspect_err(|_| self.count_rejection())?;
        if let Some(sent) = self.sent.get(kind) {
            sent.fetch_add(1, Ordering::Relaxed);
        }
        let span = spans::operation_span(self.system, self.kinds.get(kind).copied().unwrap_or_default(), table);
        let answer = call.instrument(span.clone()).await;
        attempt.outcome = answer.as_ref().err().map_or(Outcome::Success, classify);
        if attempt.outcome == Outcome::Failure {
            folio_trace::record_error(&span, "unavailable");
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }

    async fn permits(&self, limit: Duration) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>)> {
        let full = || {
            let message = format!("too many calls to {} are in flight", self.server);
            Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
        };
        let admitted = self.admitted.try_acquire().map_err(|_| full())?;
        let permit = tokio::time::timeout(limit, self.in_flight.acquire()).await;
        let permit = permit.map_err(|_| full())?.map_err(|_| full())?;
        Ok((admitted, permit))
    }

    fn attempt(&self) -> Result<Attempt<'_>> {
        match self.breaker().admit(self.now()) {
            Ok(admission) => Ok(Attempt { guard: self, admission, outcome: Outcome::Abandoned }),
            Err(left) => {
                let message = format!("{} is unavailable; the circuit breaker is open", self.server);
                Err(Error::unavailable(Reason::StoreUnavailable, message).retry_after(left))
            }
        }
    }

    /// Returns the time of a monotonic clock.
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(self.started_at.elapsed()).unwrap_or(Timestamp::MAX)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_rejection(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters since the guard was created.
    pub fn call_counters(&self) -> CallCounters {
        let sent = self.sent.iter().map(|sent| sent.load(Ordering::Relaxed));
        CallCounters {
            server: self.server,
            calls: self.kinds.iter().copied().zip(sent).collect(),
            failed: self.failed.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            is_open: !matches!(self.breaker().state(), BreakerState::Closed { .. }),
        }
    }
}

/// A call that the breaker admitted. Dropping it without an outcome records the call as abandoned by its caller.
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
    /// Time for which the breaker is open. Long enough for the next call on a busy machine.
    const OPEN: Duration = Duration::from_secs(2);

    fn guard(failures: u32) -> Guard {
        Guard::new("store", &["read", "write"], BreakerOptions { failures, open_seconds: OPEN })
    }

    async fn fails(guard: &Guard) -> Result<Result<(), ()>> {
        guard.call(1, None, LIMIT, std::future::ready(Err(())), |()| Outcome::Failure).await
    }

    async fn works(guard: &Guard) -> Result<Result<(), ()>> {
        guard.call(0, None, LIMIT, std::future::ready(Ok(())), |()| Outcome::Failure).await
    }

    #[tokio::test]
    async fn calls_are_rejected_while_the_server_fails_and_pass_when_it_recovers() {
        let guard = guard(2);
        assert_eq!(fails(&guard).await.unwrap(), Err(()));
        assert_eq!(fails(&guard).await.unwrap(), Err(()));
        let refused = works(&guard).await.unwrap_err();
        assert_eq!(refused.reason, Reason::StoreUnavailable);
        assert!(refused.retry_after.is_some_and(|after| after <= OPEN), "{refused:?}");
        let call_counters = guard.call_counters();
        assert_eq!(
            (call_counters.calls, call_counters.failed, call_counters.rejected),
            (vec![("read", 0), ("write", 2)], 2, 1)
        );
        assert!(call_counters.is_open);
        folio_testkit::wait_for("a probe", 10 * OPEN, async || works(&guard).await.ok()).await.unwrap();
        assert!(!guard.call_counters().is_open);
    }

    #[tokio::test]
    async fn calls_in_flight_and_waiting_calls_are_bounded() {
        let guard = guard(0);
        let hang = || {
            guard
                .call(0, None, Duration::from_secs(60), std::future::pending::<Result<(), ()>>(), |()| Outcome::Success)
        };
        let mut calls: Vec<_> = (0..ADMITTED_MAX).map(|_| Box::pin(hang())).collect();
        for call in &mut calls {
            assert!(futures::poll!(tokio::task::unconstrained(call)).is_pending());
        }
        assert_eq!(guard.call_counters().calls[0].1, IN_FLIGHT_MAX as u64, "the others wait");
        assert_eq!(works(&guard).await.unwrap_err().reason, Reason::StoreUnavailable);
        drop(calls);
        works(&guard).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_call_waits_for_a_permit_no_longer_than_its_time_limit() {
        let guard = guard(0);
        let hang = || {
            guard
                .call(0, None, Duration::from_secs(60), std::future::pending::<Result<(), ()>>(), |()| Outcome::Success)
        };
        let mut calls: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| Box::pin(hang())).collect();
        for call in &mut calls {
            assert!(futures::poll!(tokio::task::unconstrained(call)).is_pending());
        }
        assert_eq!(works(&guard).await.unwrap_err().reason, Reason::StoreUnavailable);
        assert_eq!(guard.call_counters().rejected, 1);
    }
}
