//! Attempts of a call: the outcome that the circuit breaker records for each, and the retries.

use std::sync::Arc;

use folio_breaker::{Admission, Outcome};
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::failure::Failure;
use crate::model::ModelError;
use crate::progress::Progress;
use crate::retry::Retries;

/// An attempt that the circuit breaker admitted. Dropping it without an outcome records `Abandoned`.
pub(super) struct Attempt {
    endpoint: Arc<Endpoint>,
    admission: Admission,
    is_recorded: bool,
}

impl Attempt {
    pub(super) fn new(endpoint: Arc<Endpoint>, admission: Admission) -> Self {
        Self { endpoint, admission, is_recorded: false }
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Records that the first token arrived.
    pub(super) fn record_first_token(&self) {
        self.record_now(Outcome::FirstToken);
    }

    /// Records the outcome if it is a failure.
    pub(super) fn check<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.inspect_err(|failure| self.record(failure.outcome))
    }

    /// Records the outcome of the whole attempt, success or failure.
    pub(super) fn conclude<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        self.check(outcome).inspect(|_| self.record(Outcome::Success))
    }

    /// Records the outcome. Only the first call has an effect.
    pub(super) fn record(&mut self, outcome: Outcome) {
        if !std::mem::replace(&mut self.is_recorded, true) {
            self.record_now(outcome);
        }
    }

    fn record_now(&self, outcome: Outcome) {
        let now = self.endpoint.environment.now();
        self.endpoint.breaker().record(self.admission, outcome, now);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.record(Outcome::Abandoned);
    }
}

/// The attempts of one call.
pub(super) struct Attempts {
    endpoint: Arc<Endpoint>,
    call_end: Instant,
    attempts: u32,
    retries: Retries,
    last: Option<ModelError>,
    progress: Progress,
    /// True if the provider may charge for a failed attempt.
    is_possibly_charged: bool,
}

impl Attempts {
    pub(super) fn new(endpoint: &Arc<Endpoint>, call_end: Instant, progress: Progress) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            call_end,
            attempts: 0,
            retries: Retries::default(),
            last: None,
            progress,
            is_possibly_charged: false,
        }
    }

    /// Makes attempts until one succeeds, or the call fails.
    pub(super) async fn run<T, F>(&mut self, mut make: impl FnMut(Attempt) -> F) -> Result<T, ModelError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        loop {
            match make(self.next()?).await {
                Ok(value) => return Ok(value),
                Err(failure) => self.wait_for_retry(failure).await?,
            }
        }
    }

    /// Starts the next attempt, which must be sent immediately. Fails if the circuit breaker is open.
    fn next(&mut self) -> Result<Attempt, ModelError> {
        // If the breaker opened between two attempts, the error of the previous attempt is more useful.
        let attempt = self.endpoint.admit().map_err(|retry_after| match self.last.take() {
            Some(last) => last.retries_stopped(retry_after),
            None => ModelError::Unavailable { retry_after },
        })?;
        self.attempts = self.attempts.saturating_add(1);
        self.progress.set_sent(true);
        Ok(attempt)
    }

    /// Waits before the next attempt. Returns the error that ends the call if a retry does not help, all retries are
    /// used, or the call has no time left.
    pub(super) async fn wait_for_retry(&mut self, failure: Failure) -> Result<(), ModelError> {
        // An attempt that delivered a part of an answer was not refused, also if its stream ended with the error of a refusal.
        self.is_possibly_charged |= failure.error.is_possibly_charged() || self.progress.call_bytes() > 0;
        self.progress.set_sent(self.is_possibly_charged);
        let endpoint = &self.endpoint;
        // The text of the error is only for the caller, because it may repeat a prompt.
        let Failure { error, retry, retry_after, status, cause, .. } = failure;
        let (kind, attempts) = (error.kind(), self.attempts);
        let wait = self.retries.next_wait(retry, retry_after, &endpoint.retries, endpoint.environment.as_ref());
        let left = self.call_end.saturating_duration_since(Instant::now());
        let Some(wait) = wait.filter(|wait| *wait < left) else {
            tracing::warn!(provider = endpoint.name, attempts, error = kind, status, cause, "model call failed");
            return Err(error);
        };
        tracing::info!(
            provider = endpoint.name,
            attempts,
            ?wait,
            error = kind,
            status,
            cause,
            "model call failed; retrying"
        );
        self.last = Some(error);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
