//! One endpoint: its connections, its places, its breaker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use folio_types::settings::InvalidSettings;
use folio_types::{Environment, Secret};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Response, Url};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::attempt::Attempt;
use super::failure::Failure;
use crate::model::ModelError;
use crate::options::{Options, OutputLimitField, ProviderOptions, Timeouts};
use crate::retry::{RetryOptions, parse_retry_after};
use folio_types::breaker::{Breaker, BreakerState};

/// Bytes that are read of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;
/// How long the body of a refusal is waited for.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// After which time it is worth asking again where too many wait.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// How an endpoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// The provider's name in the settings.
    pub name: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Calls that are under way.
    pub calls: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
}

pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) key: Secret,
    pub(super) timeouts: Timeouts,
    pub(super) retries: RetryOptions,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) output_limit_field: OutputLimitField,
    pub(super) stream_usage: bool,
    pub(super) chat_url: Url,
    pub(super) embeddings_url: Url,
    http: reqwest::Client,
    breaker: Mutex<Breaker>,
    /// Calls under way and waiting.
    admitted: Arc<Semaphore>,
    admitted_max: usize,
    /// Calls under way.
    places: Arc<Semaphore>,
    places_max: usize,
}

/// A place among the calls of an endpoint; free again when dropped.
pub(super) struct Place {
    _admitted: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Endpoint {
    pub(super) fn new(
        name: &str,
        provider: &ProviderOptions,
        options: &Options,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, InvalidSettings> {
        let problem = |what: &str| InvalidSettings { problems: vec![format!("models.providers.{name}.{what}")] };
        let base = provider.base_url.trim_end_matches('/');
        let url = |path: &str| Url::parse(&format!("{base}/{path}")).map_err(|_| problem("base_url: is no URL"));
        let chat_url = url("chat/completions")?;
        let http = http_client(&chat_url, provider, &options.timeouts).map_err(|what| problem(&what))?;
        let admitted_max = provider.max_concurrent_calls.saturating_add(provider.max_waiting_calls);
        Ok(Self {
            name: name.to_owned(),
            key: provider.api_key.clone(),
            timeouts: options.timeouts,
            retries: options.retries,
            environment,
            output_limit_field: provider.output_limit_field,
            stream_usage: provider.stream_usage,
            embeddings_url: url("embeddings")?,
            chat_url,
            http,
            breaker: Mutex::new(Breaker::new(options.breaker)),
            admitted: Arc::new(Semaphore::new(admitted_max)),
            admitted_max,
            places: Arc::new(Semaphore::new(provider.max_concurrent_calls)),
            places_max: provider.max_concurrent_calls,
        })
    }

    pub(super) fn status(&self) -> EndpointStatus {
        let calls = self.places_max.saturating_sub(self.places.available_permits());
        let admitted = self.admitted_max.saturating_sub(self.admitted.available_permits());
        EndpointStatus {
            name: self.name.clone(),
            breaker: self.breaker().state(),
            calls,
            waiting: admitted.saturating_sub(calls),
        }
    }

    /// A place among the calls, waited for until `end`; at once an error where too many wait already.
    pub(super) async fn place(&self, end: Instant) -> Result<Place, ModelError> {
        let busy = || ModelError::Busy { retry_after: BUSY_RETRY };
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| busy())?;
        match timeout_at(end, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Place { _admitted: admitted, _place: place }),
            Ok(Err(_)) => Err(busy()),
            Err(_) => Err(ModelError::Timeout("whole call")),
        }
    }

    /// Asks the breaker for an attempt.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Attempt, ModelError> {
        let admission = self.breaker().admit(self.environment.now());
        match admission {
            Ok(admission) => Ok(Attempt::new(Arc::clone(self), admission)),
            Err(retry_after) => Err(ModelError::Unavailable { retry_after }),
        }
    }

    /// The lock is held for a few instructions, never over an await.
    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request and gives its answer once its head is there and says success.
    pub(super) async fn send(
        &self,
        url: &Url,
        body: &Bytes,
        answer_type: &'static str,
        end: (Instant, &'static str),
    ) -> Result<Response, Failure> {
        let request = self
            .http
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, answer_type)
            .body(body.clone());
        let response = timeout_at(end.0, request.send())
            .await
            .map_err(|_| {
                if end.1 == "whole call" { Failure::out_of_time() } else { Failure::sick(ModelError::Timeout(end.1)) }
            })?
            .map_err(|error| Failure::connection(&self.name, error, &self.key))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response, end.0).await) }
    }

    /// Reads what a refusal says, as far as it is worth waiting for.
    async fn refused(&self, response: Response, end: Instant) -> Failure {
        let status = response.status();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let asked = header.and_then(|value| parse_retry_after(value, self.environment.now()));
        let mut body = Vec::new();
        let end = end.min(Instant::now() + REFUSAL_TIME);
        // What was read until then is enough.
        let _ = timeout_at(end, read_bounded(response, REFUSAL_BYTES, &mut body)).await;
        Failure::status(&self.name, status, asked, &body, &self.key)
    }
}

/// Reads a body into `into`. `false`: there is more than `bytes`.
pub(super) async fn read_bounded(
    mut response: Response,
    bytes: usize,
    into: &mut Vec<u8>,
) -> Result<bool, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let room = bytes.saturating_sub(into.len());
        into.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
        if chunk.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}

fn http_client(url: &Url, provider: &ProviderOptions, timeouts: &Timeouts) -> Result<reqwest::Client, String> {
    let mut headers = HeaderMap::new();
    if !provider.api_key.is_empty() {
        let value = HeaderValue::from_str(&format!("Bearer {}", provider.api_key.reveal()));
        let mut value = value.map_err(|_| "api_key: holds characters that no header has".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect_seconds)
        .pool_max_idle_per_host(provider.max_concurrent_calls)
        .tcp_nodelay(true)
        // A redirect would take the conversation, and the key, to where nobody said that it may go.
        .redirect(reqwest::redirect::Policy::none());
    let host = url.host_str().unwrap_or_default();
    let is_local = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_local {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| format!("base_url: no client can be made for it ({error})"))
}
