//! One endpoint: its connections, its places, its breaker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use folio_types::settings::InvalidSettings;
use folio_types::{Environment, OrgId, Secret};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::attempt::Attempt;
use super::failure::Failure;
use super::places::{Place, Places};
use crate::model::ModelError;
use crate::network::{Reach, Resolver};
use crate::options::{Options, OutputLimitField, ProviderOptions, Timeouts};
use crate::retry::{RetryOptions, parse_retry_after};
use folio_breaker::{Breaker, BreakerState};

/// Bytes that are read of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;
/// How long the body of a refusal is waited for.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// How an endpoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// The provider's name in the settings; [`TENANTS`] for a tenant's account.
    pub name: String,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Calls that are under way.
    pub calls: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
}

/// What figures and spans call the accounts of tenants: the names that they choose, of their models too, are without bound.
pub const TENANTS: &str = "(tenants)";

/// Whose account a provider is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owned {
    /// The platform's.
    #[default]
    Platform,
    /// A tenant's, by its key: the URL is the platform's.
    ByKey,
    /// A tenant's, who chose the URL: it may not lead everywhere.
    ByUrl,
}

pub(super) struct Endpoint {
    pub(super) name: String,
    owned: Owned,
    pub(super) key: Secret,
    pub(super) timeouts: Timeouts,
    pub(super) retries: RetryOptions,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) output_limit_field: OutputLimitField,
    pub(super) stream_usage: bool,
    pub(super) chat_url: Url,
    pub(super) embeddings_url: Url,
    pub(super) models_url: Url,
    http: reqwest::Client,
    breaker: Mutex<Breaker>,
    /// Calls under way and waiting.
    places: Arc<Places>,
    weights: BTreeMap<OrgId, u32>,
}

impl Endpoint {
    pub(super) fn new(
        name: &str,
        provider: &ProviderOptions,
        options: &Options,
        environment: Arc<dyn Environment>,
        owned: Owned,
        reach: &Reach,
    ) -> Result<Self, InvalidSettings> {
        let problem = |what: &str| InvalidSettings { problems: vec![format!("models.providers.{name}.{what}")] };
        let base = provider.base_url.trim_end_matches('/');
        let url = |path: &str| Url::parse(&format!("{base}/{path}")).map_err(|_| problem("base_url: is no URL"));
        let chat_url = url("chat/completions")?;
        let reach = (owned == Owned::ByUrl).then_some(reach);
        let http = http_client(&chat_url, provider, &options.timeouts, reach).map_err(|what| problem(&what))?;
        Ok(Self {
            name: name.to_owned(),
            owned,
            key: provider.api_key.clone(),
            timeouts: options.timeouts,
            retries: options.retries,
            environment,
            output_limit_field: provider.output_limit_field,
            stream_usage: provider.stream_usage,
            embeddings_url: url("embeddings")?,
            models_url: url("models")?,
            chat_url,
            http,
            breaker: Mutex::new(Breaker::new(options.breaker)),
            places: Places::new(provider.max_concurrent_calls, provider.max_waiting_calls),
            weights: options.weights.clone(),
        })
    }

    pub(super) fn status(&self) -> EndpointStatus {
        let (calls, waiting) = self.places.counts();
        EndpointStatus { name: self.told(&self.name).to_owned(), breaker: self.breaker().state(), calls, waiting }
    }

    /// The name of this provider, or of a model of it, as figures and spans tell it.
    pub(super) fn told<'a>(&self, name: &'a str) -> &'a str {
        if self.owned == Owned::Platform { name } else { TENANTS }
    }

    /// A place among the calls for one of an organization, waited for until `end`; at once an error where too many wait already.
    pub(super) async fn place(&self, org: &OrgId, end: Instant) -> Result<Place, ModelError> {
        let weight = self.weights.get(org).copied().unwrap_or(1);
        self.places.take(org, weight, end).await
    }

    /// Asks the breaker for an attempt; where it lets none through, the error is when it will.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Attempt, Duration> {
        let admission = self.breaker().admit(self.environment.now());
        admission.map(|admission| Attempt::new(Arc::clone(self), admission))
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
        let request = self.http.post(url.clone()).header(CONTENT_TYPE, "application/json").body(body.clone());
        self.answered(request.header(ACCEPT, answer_type), end).await
    }

    /// Asks for something that is no call, and so needs no place and tells the breaker nothing.
    pub(super) async fn get(&self, url: &Url, end: (Instant, &'static str)) -> Result<Response, Failure> {
        self.answered(self.http.get(url.clone()).header(ACCEPT, "application/json"), end).await
    }

    async fn answered(&self, request: RequestBuilder, end: (Instant, &'static str)) -> Result<Response, Failure> {
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

/// `reach`: where the URL may lead; none: anywhere.
fn http_client(
    url: &Url,
    provider: &ProviderOptions,
    timeouts: &Timeouts,
    reach: Option<&Reach>,
) -> Result<reqwest::Client, String> {
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
    if let Some(reach) = reach {
        if !reach.allows_url(url) {
            return Err("base_url: leads into a network that is not public".to_owned());
        }
        // A proxy would resolve the name itself.
        builder = builder.no_proxy().dns_resolver(Arc::new(Resolver::new(reach.clone())));
    }
    builder.build().map_err(|error| format!("base_url: no client can be made for it ({error})"))
}
