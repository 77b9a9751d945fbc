//! A model endpoint: connections, permits, circuit breaker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use folio_breaker::{Breaker, BreakerState};
use folio_permits::{Permit, Permits, RefusalReason};
use folio_types::settings::InvalidSettings;
use folio_types::{Environment, OrgId, Secret};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Request, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::attempt::Attempt;
use super::failure::Failure;
use super::refused_parameters::RefusedParameters;
use crate::model::{ModelError, TimeLimit};
use crate::network::AddressPolicy;
use crate::options::{Options, OutputLimitField, ProviderOptions, Timeouts};
use crate::retry::{RetryOptions, parse_retry_after};

pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// Retry hint when too many calls wait for a permit.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Maximum length of the body of a refusal that is read, in bytes.
const REFUSAL_BYTES: usize = 64 * 1024;
/// Time limit for reading the body of a refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// The provider's name in the settings; [`TENANTS`] for a tenant's account.
    pub name: String,
    pub breaker: BreakerState,
    /// Calls in flight.
    pub calls: usize,
    /// Calls that wait for a permit.
    pub waiting: usize,
}

/// Label of tenants' accounts in metrics and spans. The names that tenants choose for providers and models are
/// unbounded.
pub const TENANTS: &str = "(tenants)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccountOwner {
    #[default]
    Platform,
    /// A tenant, with its own key. The URL is the platform's.
    ByKey,
    /// A tenant, with its own URL. [`AddressPolicy`] restricts the addresses.
    ByUrl,
}

pub(super) struct Endpoint {
    pub(super) name: String,
    owner: AccountOwner,
    pub(super) key: Secret,
    pub(super) timeouts: Timeouts,
    pub(super) retries: RetryOptions,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) output_limit_field: OutputLimitField,
    pub(super) stream_usage: bool,
    pub(super) refused_parameters: RefusedParameters,
    /// URL of the API, without a slash at its end.
    pub(super) base_url: String,
    chat_url: Url,
    pub(super) http: reqwest::Client,
    breaker: Mutex<Breaker>,
    permits: Permits<OrgId>,
    /// Weights of organizations in the queue for permits. Absent: 1.
    weights: BTreeMap<OrgId, u32>,
}

impl Endpoint {
    pub(super) fn new(
        name: &str,
        provider: &ProviderOptions,
        options: &Options,
        environment: Arc<dyn Environment>,
        owner: AccountOwner,
        policy: &AddressPolicy,
    ) -> Result<Self, InvalidSettings> {
        let problem = |text: &str| InvalidSettings { problems: vec![format!("models.providers.{name}.{text}")] };
        let base_url = provider.base_url.trim_end_matches('/').to_owned();
        let chat_url = Url::parse(&format!("{base_url}/chat/completions"));
        let chat_url = chat_url.map_err(|_| problem("base_url: is not a URL"))?;
        let policy = (owner == AccountOwner::ByUrl).then_some(policy);
        let http = http_client(&chat_url, provider, &options.timeouts, policy).map_err(|text| problem(&text))?;
        Ok(Self {
            name: name.to_owned(),
            owner,
            key: provider.api_key.clone(),
            timeouts: options.timeouts,
            retries: options.retries,
            environment,
            output_limit_field: provider.output_limit_field,
            stream_usage: provider.stream_usage,
            refused_parameters: RefusedParameters::default(),
            base_url,
            chat_url,
            http,
            breaker: Mutex::new(Breaker::new(options.breaker)),
            permits: Permits::with_queue(provider.max_concurrent_calls, provider.max_waiting_calls),
            weights: options.weights.clone(),
        })
    }

    pub(super) fn status(&self) -> EndpointStatus {
        let (calls, waiting) = (self.permits.load().permits, self.permits.waiting());
        EndpointStatus { name: self.label(&self.name).to_owned(), breaker: self.breaker().state(), calls, waiting }
    }

    /// Returns the label of this provider, or of a model of it, in metrics and spans.
    pub(super) fn label<'a>(&self, name: &'a str) -> &'a str {
        if self.owner == AccountOwner::Platform { name } else { TENANTS }
    }

    /// Waits until `end` for a permit for a call of an organization.
    ///
    /// # Errors
    /// `Busy` if the queue is full, or if the call was evicted for an organization with fewer waiting calls.
    /// `Unreachable` if `end` passed.
    pub(super) async fn permit(&self, org: &OrgId, end: Instant) -> Result<Permit<OrgId>, ModelError> {
        let weight = self.weights.get(org).copied().unwrap_or(1);
        self.permits.acquire(org, weight, end).await.map_err(|refused| match refused {
            RefusalReason::DeadlinePassed => {
                ModelError::Unreachable("no permit became free within the call's time".to_owned())
            }
            RefusalReason::QueueFull | RefusalReason::KeyBound | RefusalReason::TotalBound => {
                ModelError::Busy { retry_after: BUSY_RETRY }
            }
        })
    }

    /// Admits an attempt. The error is the time after which the circuit breaker admits a call again.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Attempt, Duration> {
        let admission = self.breaker().admit(self.environment.now());
        admission.map(|admission| Attempt::new(Arc::clone(self), admission))
    }

    /// Locks for a few instructions, never over an await.
    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a streaming chat completion.
    pub(super) async fn send_streaming(
        &self,
        call_id: &str,
        body: &Bytes,
        end: (Instant, TimeLimit),
    ) -> Result<Response, Failure> {
        let request = self.http.post(self.chat_url.clone()).headers(call_headers(call_id)).body(body.clone());
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, EVENT_STREAM);
        let request = request.build().map_err(|error| Failure::connection(&self.name, error, &self.key))?;
        self.execute(request, end).await
    }

    /// Sends a request. Returns the response after its head arrived with a success status.
    pub(super) async fn execute(&self, request: Request, end: (Instant, TimeLimit)) -> Result<Response, Failure> {
        let response = timeout_at(end.0, self.http.execute(request))
            .await
            .map_err(|_| Failure::timeout(end.1))?
            .map_err(|error| Failure::connection(&self.name, error, &self.key))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response, end.0).await) }
    }

    /// Reads the body of a refusal, bounded in size and time.
    async fn refused(&self, response: Response, end: Instant) -> Failure {
        let status = response.status();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|value| parse_retry_after(value, self.environment.now()));
        let mut body = Vec::new();
        let end = end.min(Instant::now() + REFUSAL_TIME);
        // A partial body is sufficient.
        let _ = timeout_at(end, read_bounded(response, REFUSAL_BYTES, &mut body)).await;
        Failure::status(&self.name, status, retry_after, &body, &self.key)
    }
}

/// Returns the headers that identify a call in the log of the provider.
pub(super) fn call_headers(call_id: &str) -> HeaderMap {
    let value = HeaderValue::from_str(call_id).ok().filter(|value| !value.is_empty());
    value.map(|value| (HeaderName::from_static("x-client-request-id"), value)).into_iter().collect()
}

/// Reads a body into `into`. Returns false if it is longer than `bytes`.
pub(super) async fn read_bounded(
    mut response: Response,
    bytes: usize,
    into: &mut Vec<u8>,
) -> Result<bool, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let remaining = bytes.saturating_sub(into.len());
        into.extend_from_slice(chunk.get(..chunk.len().min(remaining)).unwrap_or_default());
        if chunk.len() > remaining {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the HTTP client of an endpoint. `policy` restricts its addresses; None: no restriction.
fn http_client(
    url: &Url,
    provider: &ProviderOptions,
    timeouts: &Timeouts,
    policy: Option<&AddressPolicy>,
) -> Result<reqwest::Client, String> {
    let mut headers = HeaderMap::new();
    if !provider.api_key.is_empty() {
        let value = HeaderValue::from_str(&format!("Bearer {}", provider.api_key.reveal()));
        let mut value =
            value.map_err(|_| "api_key: contains characters that are not allowed in a header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect_seconds)
        .pool_max_idle_per_host(provider.max_concurrent_calls)
        .tcp_nodelay(true)
        // A redirect would send the conversation and the key to a server that is not configured.
        .redirect(reqwest::redirect::Policy::none());
    let host = url.host_str().unwrap_or_default();
    let is_local = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_local {
        builder = builder.no_proxy();
    }
    if let Some(policy) = policy {
        if !policy.allows_url(url) {
            return Err("base_url: the address is not public; ask the operator to allow its network".to_owned());
        }
        builder = policy.restrict(builder);
    }
    builder.build().map_err(|error| format!("base_url: cannot create a client ({error})"))
}
