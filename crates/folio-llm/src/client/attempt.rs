//! Attempts of one call: what the breaker learns from each, and when the next is made.

use std::sync::Arc;

use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::failure::Failure;
use crate::model::ModelError;
use crate::progress::Progress;
use folio_breaker::{Admission, Outcome};

/// One attempt that the breaker let through. Dropped without an outcome it was given up by its caller.
pub(super) struct Attempt {
    endpoint: Arc<Endpoint>,
    admission: Admission,
    noted: bool,
}

impl Attempt {
    pub(super) fn new(endpoint: Arc<Endpoint>, admission: Admission) -> Self {
        Self { endpoint, admission, noted: false }
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The first token came.
    pub(super) fn answering(&self) {
        self.tell(Outcome::Answering);
    }

    /// Notes a failure, if this is one.
    pub(super) fn check<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        outcome.inspect_err(|failure| self.note(failure.outcome))
    }

    /// Notes what this was, as the whole of the attempt.
    pub(super) fn conclude<T>(&mut self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        self.check(outcome).inspect(|_| self.note(Outcome::Success))
    }

    /// How it went; the first word counts.
    pub(super) fn note(&mut self, outcome: Outcome) {
        if !std::mem::replace(&mut self.noted, true) {
            self.tell(outcome);
        }
    }

    fn tell(&self, outcome: Outcome) {
        let now = self.endpoint.environment.now();
        self.endpoint.breaker().record(self.admission, outcome, now);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.note(Outcome::Abandoned);
    }
}

/// The attempts of one call, in a row: `next` begins one; `failed` waits until the next is to be made, or ends the call.
pub(super) struct Attempts {
    endpoint: Arc<Endpoint>,
    call_end: Instant,
    retry: u32,
    last: Option<ModelError>,
    progress: Progress,
    /// Whether the provider may ask for money for one that failed.
    may_cost: bool,
}

impl Attempts {
    pub(super) fn new(endpoint: &Arc<Endpoint>, call_end: Instant, progress: Progress) -> Self {
        Self { endpoint: Arc::clone(endpoint), call_end, retry: 0, last: None, progress, may_cost: false }
    }

    /// The next attempt, if the breaker lets it through: it is to be sent now.
    pub(super) fn next(&mut self) -> Result<Attempt, ModelError> {
        // Where the breaker opened between two attempts, the error of the first says more.
        let attempt = self.endpoint.admit().map_err(|retry_after| match self.last.take() {
            Some(last) => last.held_back(retry_after),
            None => ModelError::Unavailable { retry_after },
        })?;
        self.progress.set_sent(true);
        Ok(attempt)
    }

    /// Waits for as long as it takes before the next attempt, or gives the error that ends the call: the failure is none
    /// that another attempt helps against, they are used up, or there is no time left.
    pub(super) async fn failed(&mut self, failure: Failure) -> Result<(), ModelError> {
        self.may_cost |= failure.error.may_cost();
        self.progress.set_sent(self.may_cost);
        let endpoint = &self.endpoint;
        // The error's own text is for the caller: it may repeat a prompt.
        let Failure { error, again, asked, status, cause, .. } = failure;
        let kind = error.kind();
        let wait = if again { endpoint.retries.wait(self.retry, asked, endpoint.environment.as_ref()) } else { None };
        let left = self.call_end.saturating_duration_since(Instant::now());
        let Some(wait) = wait.filter(|wait| *wait < left) else {
            let attempts = self.retry.saturating_add(1);
            tracing::warn!(provider = endpoint.name, attempts, error = kind, status, cause, "model call failed");
            return Err(error);
        };
        let retry = self.retry;
        tracing::info!(
            provider = endpoint.name,
            retry,
            ?wait,
            error = kind,
            status,
            cause,
            "model call is tried again"
        );
        self.last = Some(error);
        self.retry = self.retry.saturating_add(1);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
