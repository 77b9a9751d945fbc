//! Bounds the failed sign-ins of each account, over all processes together, by a sliding window in the shared store.
//! While the shared store is unavailable, each process counts the failed sign-ins that it receives.
//!
//! An attempt counts as failed when it begins, so that concurrent attempts cannot exceed the bound. A successful
//! attempt is removed from the window. Attempts for addresses without an account count in the same way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_resources::folded;
use folio_storage::{EventWindow, RateDecision, RateStore, WindowLimit};
use folio_types::{Digest, Environment, Error, OrgId, Reason, Result};
use moka::sync::Cache;

/// Maximum number of failed sign-ins of an account (`events`) in any period of the length `period`.
pub const FAILURES: WindowLimit = WindowLimit { events: 10, period: Duration::from_secs(15 * 60) };

/// Maximum number of accounts that a process counts while the shared store is unavailable.
const ACCOUNTS_MAX: u64 = 100_000;

/// Counts the failed sign-ins of each account. Clones share the counts.
#[derive(Clone)]
pub struct SignInAttempts {
    shared: Arc<dyn RateStore>,
    /// Used while the shared store is unavailable.
    local: Cache<String, Arc<Mutex<EventWindow>>>,
    environment: Arc<dyn Environment>,
}

impl std::fmt::Debug for SignInAttempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignInAttempts")
    }
}

/// A sign-in attempt, which counts as failed until [`SignInAttempts::pardon`] removes it.
#[derive(Debug)]
#[must_use = "a successful attempt must be removed from the failed attempts"]
pub struct Attempt {
    window: String,
    /// True if this process counted the attempt alone.
    is_local: bool,
}

impl SignInAttempts {
    pub fn new(shared: Arc<dyn RateStore>, environment: Arc<dyn Environment>) -> Self {
        let local = Cache::builder().max_capacity(ACCOUNTS_MAX).time_to_idle(FAILURES.period).build();
        Self { shared, local, environment }
    }

    /// Begins an attempt for an address, which need not have an account.
    ///
    /// # Errors
    /// `TOO_MANY_ATTEMPTS` with the time after which an attempt is permitted.
    pub async fn begin(&self, email: &str) -> Result<Attempt> {
        // The digest bounds the length of the window's name and keeps the address out of the store.
        let window = format!("sign_in:{}", Digest::of(folded(email).as_bytes()));
        let (decision, is_local) = match self.shared.count(&OrgId::platform(), &window, FAILURES).await {
            Ok(decision) => (decision, false),
            Err(error) => {
                tracing::debug!(%error, "the shared count of failed sign-ins is unavailable; counting locally");
                let now = self.environment.now();
                (self.with_local(&window, |events| events.count(FAILURES, now)), true)
            }
        };
        match decision {
            RateDecision::Allowed { .. } => Ok(Attempt { window, is_local }),
            RateDecision::Refused { retry_after } => {
                let message = "too many failed sign-ins to this account; try again later";
                Err(Error::exhausted(Reason::TooManyAttempts, message).retry_after(retry_after))
            }
        }
    }

    /// Removes an attempt that succeeded, or that could not be verified, from the failed attempts. If the shared store
    /// that counted the attempt is unavailable, the attempt counts as failed until its period ends.
    pub async fn pardon(&self, attempt: Attempt) {
        if attempt.is_local {
            self.with_local(&attempt.window, EventWindow::uncount);
        } else if let Err(error) = self.shared.uncount(&OrgId::platform(), &attempt.window).await {
            tracing::debug!(%error, "cannot remove a sign-in attempt, which still counts as failed");
        }
    }

    fn with_local<T>(&self, window: &str, change: impl FnOnce(&mut EventWindow) -> T) -> T {
        let events = self.local.get_with(window.to_owned(), Arc::default);
        change(&mut events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use folio_storage::SharedOptions;
    use folio_storage_conformance::faults::UnavailableRates;
    use folio_types::System;

    use super::*;

    fn memory() -> Arc<dyn RateStore> {
        folio_storage_memory::shared_stores(Arc::new(System), SharedOptions::default()).rates
    }

    /// Checks that all processes together permit ten failures of an account.
    async fn check(processes: &[SignInAttempts]) {
        let process = |number: usize| processes.get(number % processes.len()).unwrap();
        for number in 0..20 {
            let attempt = process(number).begin("ann@example.com").await.unwrap();
            process(number).pardon(attempt).await;
        }
        for number in 0..10 {
            let _failed = process(number).begin(["ann@example.com", "ANN@Example.com"][number % 2]).await.unwrap();
        }
        for number in 0..3 {
            let refused = process(number).begin("ann@example.com").await.unwrap_err();
            assert_eq!(refused.reason, Reason::TooManyAttempts);
            let wait = refused.retry_after.unwrap();
            assert!(wait <= FAILURES.period && wait > FAILURES.period - Duration::from_secs(60), "{wait:?}");
        }
        let _other = process(0).begin("bob@example.com").await.unwrap();
    }

    #[tokio::test]
    async fn processes_count_ten_failures_of_an_account_together() {
        let shared = memory();
        check(&[(); 3].map(|()| SignInAttempts::new(Arc::clone(&shared), Arc::new(System)))).await;
    }

    #[tokio::test]
    async fn a_process_counts_alone_while_the_shared_store_is_unavailable() {
        check(&[SignInAttempts::new(Arc::new(UnavailableRates), Arc::new(System))]).await;
    }
}
