//! Failure of an attempt: the error, whether a retry may succeed, and the outcome for the circuit breaker.

use std::time::Duration;

use folio_breaker::Outcome;
use folio_types::Secret;
use folio_types::limits::DAY;
use reqwest::StatusCode;

use crate::error_message;
use crate::model::{ModelError, TimeLimit};
use crate::retry::RetryKind;
use crate::stream::StreamError;

#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(super) struct Failure {
    pub(super) error: ModelError,
    /// The kind of retry that the failure permits. No effect after the first delta of text.
    pub(super) retry: RetryKind,
    /// Wait that the endpoint requested (`Retry-After`).
    pub(super) retry_after: Option<Duration>,
    pub(super) outcome: Outcome,
    /// HTTP status. None if the endpoint did not answer.
    pub(super) status: Option<u16>,
    /// Network error, without secrets.
    pub(super) cause: Option<String>,
}

impl Failure {
    /// The endpoint is unhealthy; a retry may succeed.
    pub(super) fn retriable(error: ModelError) -> Self {
        let retry = RetryKind::Counted;
        Self { error, retry, retry_after: None, outcome: Outcome::Failure, status: None, cause: None }
    }

    /// The endpoint is unhealthy; a retry does not help.
    pub(super) fn unhealthy(error: ModelError) -> Self {
        Self { retry: RetryKind::Never, ..Self::retriable(error) }
    }

    /// The endpoint is healthy and refuses this request.
    pub(super) fn refusal(error: ModelError) -> Self {
        Self { outcome: Outcome::Success, ..Self::unhealthy(error) }
    }

    /// Returns the failure as not retriable, because the answer had started and the provider charges for it.
    pub(super) fn not_retriable(self) -> Self {
        Self { retry: RetryKind::Never, ..self }
    }

    /// A time limit passed. The time limit of the whole call shows nothing about the health of the endpoint.
    pub(super) fn timeout(limit: TimeLimit) -> Self {
        let failure = Self::unhealthy(ModelError::Timeout(limit));
        if limit == TimeLimit::WholeCall { Self { outcome: Outcome::Abandoned, ..failure } } else { failure }
    }

    /// The connection was not made or broke.
    pub(super) fn connection(provider: &str, error: reqwest::Error, key: &Secret) -> Self {
        if error.is_timeout() && error.is_connect() {
            return Self::retriable(ModelError::Unreachable(format!("connecting to {provider} timed out")));
        }
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let cause = error_message::without_key(&error_message::one_line(&cause.to_string()), key);
        let error = if error.is_connect() {
            ModelError::Unreachable(format!("cannot connect to {provider} ({cause})"))
        } else {
            ModelError::Failed(format!("the connection to {provider} broke ({cause})"))
        };
        Self { cause: Some(cause), ..Self::retriable(error) }
    }

    /// The endpoint answered with an error status.
    pub(super) fn status(
        provider: &str,
        status: StatusCode,
        retry_after: Option<Duration>,
        body: &[u8],
        key: &Secret,
    ) -> Self {
        let message = error_message::without_key(&error_message::message_of_body(body), key);
        let retry_after = retry_after.map(|wait| wait.min(DAY));
        let failure = match status.as_u16() {
            // A retry does not help if the account has no credit.
            429 if body_contains(body, "insufficient_quota") => {
                Self::refusal(ModelError::Refused { status: 429, message })
            }
            429 => {
                let error = ModelError::RateLimited { retry_after };
                Self { retry_after, outcome: Outcome::Success, ..Self::retriable(error) }
            }
            // A server that loads a model is healthy.
            503 if is_loading(&message) => {
                let failure = Self::retriable(ModelError::Loading(format!("{provider} answered: {message}")));
                Self { retry: RetryKind::Loading, retry_after, outcome: Outcome::Success, ..failure }
            }
            408 | 500..=599 => Self {
                retry_after,
                ..Self::retriable(ModelError::Failed(format!("{provider} answered {status}: {message}")))
            },
            // The endpoint's message may contain a part of the key.
            401 => {
                let message = format!("{provider} refused the API key");
                Self::refusal(ModelError::Refused { status: 401, message })
            }
            403 => {
                let message = format!("{provider} refused the API key for this request: {message}");
                Self::refusal(ModelError::Refused { status: 403, message })
            }
            status => Self::refusal(ModelError::Refused { status, message }),
        };
        Self { status: Some(status.as_u16()), ..failure }
    }

    /// The answer cannot be parsed.
    pub(super) fn invalid_answer(error: StreamError, key: &Secret) -> Self {
        let error = match error {
            StreamError::Reported { status, message } => {
                StreamError::Reported { status, message: error_message::without_key(&message, key) }
            }
            other => other,
        };
        let make = match &error {
            StreamError::Incomplete => Self::retriable,
            StreamError::Reported { status: Some(408 | 500..=599), .. } => Self::retriable,
            StreamError::Reported { status: Some(429), .. } => {
                |error| Self { outcome: Outcome::Success, ..Self::retriable(error) }
            }
            StreamError::Malformed(_) | StreamError::Reported { status: None, .. } => Self::unhealthy,
            StreamError::Reported { .. } | StreamError::TooLarge(_) => Self::refusal,
        };
        let status = if let StreamError::Reported { status, .. } = &error { *status } else { None };
        Self { status, ..make(error.into()) }
    }
}

/// Returns true for the messages of servers that load a model, such as `Loading model` (llama.cpp).
fn is_loading(message: &str) -> bool {
    message.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("loading"))
}

fn body_contains(body: &[u8], word: &str) -> bool {
    body.windows(word.len()).any(|window| window == word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_503_that_names_the_loading_of_a_model_is_a_loading_model() {
        for (status, body, kind) in [
            (
                503,
                r#"{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}"#,
                RetryKind::Loading,
            ),
            (503, r#"{"error": "Model org/m is currently loading"}"#, RetryKind::Loading),
            (503, r#"{"error": "the server is overloading"}"#, RetryKind::Counted),
            (503, "", RetryKind::Counted),
            (500, "loading model", RetryKind::Counted),
            (400, "loading model", RetryKind::Never),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = Failure::status("own", status, None, body.as_bytes(), &Secret::default());
            assert_eq!(failure.retry, kind, "{status} {body}");
            assert_eq!(failure.outcome == Outcome::Failure, kind == RetryKind::Counted, "{status} {body}");
        }
    }
}
