//! Calls to the server: the API key, time limits, repetitions and the circuit breaker.

use std::time::Duration;

use folio_breaker::Outcome;
use folio_storage::CallCounters;
use folio_storage_client::Guard;
use folio_types::{Error, Reason, Result};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::options::QdrantOptions;
use crate::wire::HealthCheckRequest;
use crate::wire::collections_client::CollectionsClient;
use crate::wire::points_client::PointsClient;
use crate::wire::qdrant_client::QdrantClient;

/// Maximum size of a response, in bytes.
const RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// Attempts of a call. Every call may be repeated without a further effect.
const ATTEMPTS_MAX: u32 = 3;
/// Time before the second attempt. It doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time limit of the health check after a failed call.
const HEALTH_LIMIT: Duration = Duration::from_secs(1);

/// Names of the kinds of calls, for metrics and spans.
const KINDS: &[&str] = &["read", "write"];

/// The kind of a call: a position in [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read = 0,
    Write = 1,
}

/// A failed call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server has no collection with the name of the settings.
    NoCollection,
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Error(error) => error,
            Failure::NoCollection => unavailable("the collection of the index of passages was removed"),
        }
    }
}

fn unavailable(message: &str) -> Error {
    Error::unavailable(Reason::StoreUnavailable, message).retry_after(RETRY_AFTER)
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let detail = status.message();
        match status.code() {
            Code::NotFound => Self::NoCollection,
            Code::Unauthenticated | Code::PermissionDenied => {
                tracing::error!(detail, "the Qdrant server refuses the API key");
                unavailable("the Qdrant server refuses the API key: check index.qdrant_api_key").into()
            }
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::Unimplemented => {
                Error::internal(format!("the Qdrant server refused a request: {detail}")).into()
            }
            code => {
                tracing::warn!(?code, detail, "a call to the Qdrant server failed");
                unavailable("the index of passages cannot be reached").into()
            }
        }
    }
}

/// Returns true if the server, or only the request, may be the reason for the status of a call.
fn is_ambiguous(code: Code) -> bool {
    matches!(code, Code::DeadlineExceeded | Code::Unknown | Code::Internal | Code::DataLoss)
}

fn is_repeatable(status: &Status) -> bool {
    let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Unknown, Code::Aborted, Code::ResourceExhausted];
    codes.contains(&status.code())
}

/// Adds the API key to each call.
#[derive(Clone)]
pub(crate) struct ApiKey(Option<MetadataValue<Ascii>>);

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("api-key", key.clone());
        }
        Ok(request)
    }
}

type Service = InterceptedService<Channel, ApiKey>;

/// The generated clients. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stubs {
    pub(crate) health: QdrantClient<Service>,
    pub(crate) collections: CollectionsClient<Service>,
    pub(crate) points: PointsClient<Service>,
}

/// The connection to a server. The first call connects.
pub(crate) struct Client {
    stubs: Stubs,
    guard: Guard,
    timeout: Duration,
}

impl Client {
    /// # Errors
    /// `INVALID_FIELD` if a setting is out of bounds.
    pub(crate) async fn new(options: &QdrantOptions) -> Result<Self> {
        let channel = options.endpoint().await?.connect_lazy();
        let key = Some(options.api_key.reveal()).filter(|key| !key.is_empty());
        let key = key.map(MetadataValue::<Ascii>::try_from).transpose();
        let mut key =
            key.map_err(|_| Error::invalid_field("qdrant_api_key", "contains a character that is not ASCII"))?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        let key = ApiKey(key);
        let stubs = Stubs {
            health: QdrantClient::with_interceptor(channel.clone(), key.clone()),
            collections: CollectionsClient::with_interceptor(channel.clone(), key.clone()),
            points: PointsClient::with_interceptor(channel, key).max_decoding_message_size(RESPONSE_BYTES),
        };
        Ok(Self { stubs, guard: Guard::new("qdrant", KINDS, options.breaker), timeout: options.timeout })
    }

    pub(crate) fn counters(&self) -> CallCounters {
        self.guard.call_counters()
    }

    /// Makes a call, and repeats it if the server was not reached or did not answer in time.
    pub(crate) async fn call<T, F>(&self, kind: Kind, make: impl Fn(Stubs) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let (mut attempt, mut wait) = (1, FIRST_WAIT);
        loop {
            let limited = tokio::time::timeout(self.timeout, make(self.stubs.clone()));
            let call = async {
                let late = || Status::deadline_exceeded("the server did not answer within the time limit");
                match limited.await.unwrap_or_else(|_| Err(late())) {
                    Ok(response) => Ok(response),
                    Err(status) => Err((self.health_after(status.code()).await, status)),
                }
            };
            let answer = self.guard.call(kind as usize, None, self.timeout, call, |(health, _)| *health).await?;
            let status = match answer {
                Ok(response) => return Ok(response.into_inner()),
                Err((_, status)) => status,
            };
            if attempt >= ATTEMPTS_MAX || !is_repeatable(&status) {
                return Err(status.into());
            }
            tracing::debug!(code = ?status.code(), attempt, "a call to the Qdrant server is repeated");
            tokio::time::sleep(wait).await;
            (attempt, wait) = (attempt.saturating_add(1), wait.saturating_mul(2));
        }
    }

    /// Returns the health of the server after a call that failed with this code. All organizations share the circuit breaker, and the
    /// calls of one may be slow or fail on a healthy server: they count as failures only if a health check fails, too. A passed
    /// check of a probe closes the breaker.
    async fn health_after(&self, code: Code) -> Outcome {
        let is_failing = |code| code == Code::Unavailable || is_ambiguous(code);
        let has_failed = if is_ambiguous(code) {
            let mut health = self.stubs.health.clone();
            match tokio::time::timeout(HEALTH_LIMIT, health.health_check(HealthCheckRequest {})).await {
                Ok(checked) => checked.is_err_and(|status| is_failing(status.code())),
                Err(_) => true,
            }
        } else {
            is_failing(code)
        };
        if has_failed { Outcome::Failure } else { Outcome::Success }
    }
}
