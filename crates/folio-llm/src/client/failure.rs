//! Why one attempt failed: the error, whether to try again, and what it says of the endpoint.

use std::time::Duration;

use folio_types::Secret;
use folio_types::limits::DAY;
use reqwest::StatusCode;

use crate::model::ModelError;
use crate::refusal;
use crate::stream::StreamError;
use folio_breaker::Outcome;

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ModelError,
    /// Worth trying again, as long as no token has come.
    pub(super) again: bool,
    /// What the endpoint asked to wait.
    pub(super) asked: Option<Duration>,
    /// What it says of the endpoint's health.
    pub(super) outcome: Outcome,
    /// The HTTP status that said so.
    pub(super) status: Option<u16>,
    /// What the network said.
    pub(super) cause: Option<String>,
}

impl Failure {
    /// The endpoint is sick, and another attempt may find it well.
    pub(super) fn again(error: ModelError) -> Self {
        Self { error, again: true, asked: None, outcome: Outcome::Failure, status: None, cause: None }
    }

    /// The endpoint is sick; trying again is not worth it.
    pub(super) fn sick(error: ModelError) -> Self {
        Self { again: false, ..Self::again(error) }
    }

    /// The endpoint is well; this call is not for it.
    pub(super) fn well(error: ModelError) -> Self {
        Self { outcome: Outcome::Success, ..Self::sick(error) }
    }

    /// The same where an answer had begun that comes as a whole: the model was at work and is paid, so it is not tried
    /// again.
    pub(super) fn paid(self) -> Self {
        Self { again: false, ..self }
    }

    /// The call's own time is over: this says nothing of the endpoint.
    pub(super) fn out_of_time() -> Self {
        Self { outcome: Outcome::Abandoned, ..Self::sick(ModelError::Timeout("whole call")) }
    }

    /// The connection: not made, or broken.
    pub(super) fn connection(provider: &str, error: reqwest::Error, key: &Secret) -> Self {
        if error.is_timeout() && error.is_connect() {
            return Self::again(ModelError::NotReached(format!("no connection to {provider} in time")));
        }
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let cause = refusal::scrubbed(&refusal::bounded(&cause.to_string()), key);
        let error = if error.is_connect() {
            ModelError::NotReached(format!("no connection to {provider} ({cause})"))
        } else {
            ModelError::Failed(format!("the connection broke to {provider} ({cause})"))
        };
        Self { cause: Some(cause), ..Self::again(error) }
    }

    /// An answer with a status that is no success.
    pub(super) fn status(
        provider: &str,
        status: StatusCode,
        asked: Option<Duration>,
        body: &[u8],
        key: &Secret,
    ) -> Self {
        let message = refusal::scrubbed(&refusal::message_of_body(body), key);
        let asked = asked.map(|wait| wait.min(DAY));
        let failure = match status.as_u16() {
            // Waiting does not fill an empty account.
            429 if body_says(body, "insufficient_quota") => Self::well(ModelError::Refused { status: 429, message }),
            429 => {
                Self { asked, outcome: Outcome::Success, ..Self::again(ModelError::RateLimited { retry_after: asked }) }
            }
            408 | 500..=599 => {
                Self { asked, ..Self::again(ModelError::Failed(format!("{provider} answered {status}: {message}"))) }
            }
            // The endpoint's own words may hold a part of the key.
            401 => {
                let message = format!("{provider} refused the API key");
                Self::well(ModelError::Refused { status: 401, message })
            }
            403 => {
                let message = format!("{provider} refused the API key for this request: {message}");
                Self::well(ModelError::Refused { status: 403, message })
            }
            status => Self::well(ModelError::Refused { status, message }),
        };
        Self { status: Some(status.as_u16()), ..failure }
    }

    /// An answer that cannot be read.
    pub(super) fn answer(error: StreamError, key: &Secret) -> Self {
        let error = match error {
            StreamError::Reported { status, message } => {
                StreamError::Reported { status, message: refusal::scrubbed(&message, key) }
            }
            other => other,
        };
        let make = match &error {
            StreamError::Cut => Self::again,
            StreamError::Reported { status: Some(408 | 500..=599), .. } => Self::again,
            StreamError::Reported { status: Some(429), .. } => {
                |error| Self { outcome: Outcome::Success, ..Self::again(error) }
            }
            StreamError::Malformed(_) | StreamError::Reported { status: None, .. } => Self::sick,
            StreamError::Reported { .. } | StreamError::TooLarge(_) => Self::well,
        };
        let status = if let StreamError::Reported { status, .. } = &error { *status } else { None };
        Self { status, ..make(error.into()) }
    }
}

fn body_says(body: &[u8], word: &str) -> bool {
    body.windows(word.len()).any(|window| window == word.as_bytes())
}
