//! Sends the event of a delivery: the kind of job that runs it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::DELIVERY_KIND;
use folio_jobs::{ItemTask, JobKind};
use folio_llm::options::check_http_url;
use folio_providers::Providers;
use folio_resources::{
    DictionaryQuestion, Document, Extraction, Proposal, Resource as _, StackRow, WebhookEndpoint,
    WebhookEndpointChange, WebhookEndpointId,
};
use folio_storage::Stores;
use folio_types::op::{Expected, OpKey, OpState, Target, Write, WriteOutcome};
use folio_types::{Environment, Error, OrgId, Reason, RequestId, Result, Role};
use moka::sync::Cache;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Request, Response};
use serde_json::{Value, json};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::counters::Counters;
use crate::delivery::{Attempt, Delivery};
use crate::event::{Event, EventType, Source};
use crate::signature::sign;

/// Maximum time for a connection, and for an attempt with its connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
// proto: WebhookEndpointService "within {} seconds"
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time after an attempt without a response in which this process starts no other attempt for the endpoint, so that an
/// unreachable endpoint does not occupy the slots of its organization.
const UNREACHABLE_FOR: Duration = Duration::from_secs(10);
/// Time after the creation of a delivery in which the record of its event may be written.
const RECORD_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Maximum size of a head in the record of an attempt, in bytes.
// proto: WebhookDelivery.request_head "at most {} KiB"
// proto: WebhookDelivery.response_head "at most {} KiB"
const HEAD_BYTES: usize = 8 * 1024;
/// Maximum size of the start of a response's body in the record of an attempt, in bytes.
const BODY_START_BYTES: usize = 1024;
/// Maximum number of endpoints that are known to be unreachable.
const UNREACHABLE_MAX: u64 = 10_000;
/// Maximum idle connections to a host.
const IDLE_CONNECTIONS: usize = 2;

/// The kind of jobs that deliver events.
pub struct DeliveryJobs {
    stores: Stores,
    /// Decrypts the secrets of endpoints, and knows the permitted addresses.
    providers: Providers,
    environment: Arc<dyn Environment>,
    client: reqwest::Client,
    counters: Counters,
    unreachable: Cache<WebhookEndpointId, ()>,
}

impl std::fmt::Debug for DeliveryJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeliveryJobs")
    }
}

impl DeliveryJobs {
    /// # Errors
    /// `INTERNAL` if the HTTP client cannot be created.
    pub fn new(
        stores: Stores,
        providers: Providers,
        environment: Arc<dyn Environment>,
        counters: Counters,
    ) -> Result<Self> {
        let builder = reqwest::Client::builder()
            .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ATTEMPT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS);
        let client = providers.address_policy().restrict(builder).build();
        let client =
            client.map_err(|error| Error::internal(format!("cannot create the client of webhooks: {error}")))?;
        let unreachable = Cache::builder().max_capacity(UNREACHABLE_MAX).time_to_live(UNREACHABLE_FOR).build();
        Ok(Self { stores, providers, environment, client, counters, unreachable })
    }

    /// Returns true if the record of an event is stored.
    async fn is_stored(&self, org: &OrgId, source: &Source) -> Result<bool> {
        Ok(match source {
            Source::Append { thread, batch } => {
                let batch = u128::from_str_radix(batch, 16);
                let batch = batch.map_err(|_| Error::internal("the batch of an event is malformed"))?;
                self.stores.threads.has_batch(org, thread, batch).await?
            }
            Source::Text { document, at } => {
                let found = self.stores.of::<Document>().get_with_text(org, document).await?;
                found.and_then(|(_, text)| text).is_some_and(|text| text.at == *at)
            }
            Source::Job { job, version, state } => {
                let found = self.stores.jobs.header(org, job).await?;
                found.is_some_and(|found| found.version == *version && found.outcome() == Some(state.as_str()))
            }
            Source::Extraction { extraction, op } => self.is_done(org, &Extraction::target(extraction), op).await?,
            Source::Proposal { proposal, op } => self.is_done(org, &Proposal::target(proposal), op).await?,
            Source::DictionaryQuestion { question, op } => {
                self.is_done(org, &DictionaryQuestion::target(question), op).await?
            }
            Source::StackRow { row, op } => self.is_done(org, &StackRow::target(row), op).await?,
        })
    }

    /// Returns true if the write of an op is stored.
    async fn is_done(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<bool> {
        let row = self.stores.ops.row(org, target, op).await?;
        Ok(row.is_some_and(|row| matches!(row.state, OpState::Done(_))))
    }

    /// Checks that an event may be sent now.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the record may be written later; `WEBHOOK_FAILED` if the endpoint did not respond just now;
    /// other errors end the delivery.
    async fn check(&self, task: &ItemTask, delivery: &Delivery, endpoint: &WebhookEndpoint) -> Result<()> {
        let is_test = delivery.event.name == EventType::Test.as_str();
        if is_test {
            return Ok(());
        }
        if !endpoint.enabled {
            return Err(not_sent("the endpoint is disabled"));
        }
        // A delivery is blocked only after an attempt, which found the record.
        let source = delivery.event.source.as_ref().filter(|_| task.job.blocked_since.is_none());
        if let Some(source) = source
            && !self.is_stored(&endpoint.org, source).await?
        {
            let age = self.environment.now().duration_since(task.job.created_at);
            return Err(match Duration::try_from(age).is_ok_and(|age| age > RECORD_WITHIN) {
                true => not_sent("the state of the event was not stored, or another state replaced it"),
                false => Error::unavailable(Reason::StoreUnavailable, "the state of the event is not stored yet"),
            });
        }
        if self.unreachable.contains_key(&endpoint.id) {
            return Err(failed("the endpoint did not respond to another delivery"));
        }
        Ok(())
    }

    /// Sends an event. A failure is part of the attempt.
    async fn send(&self, endpoint: &WebhookEndpoint, event: &Event) -> Attempt {
        let request = match self.request(endpoint, event) {
            Ok(request) => request,
            Err(error) => return Attempt { error: Some(error.message), ..Attempt::default() },
        };
        let request_head = head(&format!("{} {}", request.method(), request.url()), request.headers());
        let attempt = Attempt { request_head, ..Attempt::default() };
        match self.client.execute(request).await {
            Ok(response) => Self::answered(attempt, response).await,
            Err(error) => {
                self.unreachable.insert(endpoint.id.clone(), ());
                let problem = match (error.is_timeout(), error.is_connect()) {
                    (true, _) => format!("no response within {} s", ATTEMPT_TIMEOUT.as_secs()),
                    (_, true) => "cannot connect: the host is unreachable, or its address is not permitted".to_owned(),
                    _ => "the connection failed before the response".to_owned(),
                };
                Attempt { error: Some(problem), ..attempt }
            }
        }
    }

    fn request(&self, endpoint: &WebhookEndpoint, event: &Event) -> Result<Request> {
        let url = check_http_url(&endpoint.url).map_err(|problem| Error::invalid_field("url", problem))?;
        if !self.providers.address_policy().allows_url(&url) {
            return Err(failed("the address is not public; ask the operator to allow its network"));
        }
        let (body, seconds) = (event.body()?, self.environment.now().as_second());
        let mut request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(HEADER_WEBHOOK_ID, event.id.as_str())
            .header(HEADER_WEBHOOK_TIMESTAMP, seconds.to_string());
        if let Some(sealed) = &endpoint.secret {
            let secret = self.providers.vault().open(&endpoint.org, endpoint.id.as_str(), sealed)?;
            request = request.header(HEADER_WEBHOOK_SIGNATURE, sign(&secret, event.id.as_str(), seconds, &body)?);
        }
        request.body(body).build().map_err(|_| failed("the request cannot be created"))
    }

    async fn answered(attempt: Attempt, mut response: Response) -> Attempt {
        let status = response.status();
        let mut response_head = head(&status.to_string(), response.headers());
        let mut body = Vec::new();
        while body.len() < BODY_START_BYTES {
            // The event was accepted or refused already: a body that is cut is no failure.
            let Ok(Some(chunk)) = response.chunk().await else { break };
            let rest = BODY_START_BYTES.saturating_sub(body.len());
            body.extend(chunk.iter().take(rest));
        }
        if !body.is_empty() {
            response_head.push('\n');
            response_head.push_str(&String::from_utf8_lossy(&body));
        }
        let error = match (status.is_success(), status.is_redirection()) {
            (true, _) => None,
            (_, true) => Some(format!("the endpoint returned {status}, and redirects are not followed")),
            _ => Some(format!("the endpoint returned {status}")),
        };
        Attempt { status: Some(status.as_u16()), response_head: cut(response_head), error, ..attempt }
    }

    /// Stores the result of an attempt with the endpoint if it changes the endpoint. A failure is harmless: the next
    /// attempt reports again.
    async fn report(&self, endpoint: WebhookEndpoint, error: Option<&str>) {
        let at = self.environment.now();
        let after = endpoint.clone().reported(error, at);
        if after == endpoint {
            return;
        }
        let is_disabled = endpoint.enabled && !after.enabled;
        let (org, key) = (endpoint.org.clone(), RequestId::generate(self.environment.as_ref()));
        let change = WebhookEndpointChange::Report { error: error.map(str::to_owned) };
        let write = Write::by_platform(org, key, at, Expected::Version(endpoint.version), change);
        match self.stores.of::<WebhookEndpoint>().decide(&endpoint.id, write).await {
            // Another attempt may have changed the endpoint meanwhile, and have disabled it.
            Ok(WriteOutcome::Row(_)) if is_disabled => {
                self.counters.count_disabled_endpoint();
                let (org, endpoint) = (&endpoint.org, &endpoint.id);
                tracing::warn!(%org, %endpoint, "a webhook endpoint is disabled, because it failed for too long");
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, endpoint = %endpoint.id, "the state of an endpoint is not stored"),
        }
    }
}

#[async_trait]
impl JobKind for DeliveryJobs {
    fn name(&self) -> &'static str {
        DELIVERY_KIND
    }

    fn role_min(&self) -> Role {
        Role::Viewer
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        // A node of the newer version that wrote an unreadable event delivers it.
        let unreadable = |error: Error| Error::unavailable(Reason::StoreUnavailable, error.message);
        let delivery = Delivery::of(task.job.clone()).map_err(unreadable)?;
        let found = self.stores.of::<WebhookEndpoint>().get(task.job.org(), &delivery.endpoint).await?;
        let endpoint = found.ok_or_else(|| WebhookEndpoint::not_found(&delivery.endpoint))?;
        self.check(&task, &delivery, &endpoint).await?;
        let event = &delivery.event;
        let span = tracing::info_span!(
            "webhook",
            otel.name = "deliver event",
            otel.kind = "client",
            otel.status_code = Empty,
            "folio.event.type" = event.name.as_str(),
            "http.response.status_code" = Empty,
            "error.type" = Empty,
        );
        let attempt = self.send(&endpoint, event).instrument(span.clone()).await;
        if let Some(status) = attempt.status {
            span.record("http.response.status_code", status);
        }
        if attempt.error.is_some() {
            folio_trace::record_error(&span, Reason::WebhookFailed.as_str());
        }
        drop(span);
        let value = json!(attempt);
        task.record.send_replace(Some(value.clone()));
        self.report(endpoint, attempt.error.as_deref()).await;
        match attempt.error {
            None => Ok(value),
            Some(problem) => Err(failed(&problem)),
        }
    }
}

/// Returns the error of an attempt that is repeated.
fn failed(problem: &str) -> Error {
    Error::unavailable(Reason::WebhookFailed, problem)
}

/// Returns the error of a delivery that ends without an attempt.
fn not_sent(reason: &str) -> Error {
    Error::precondition(Reason::WebhookFailed, format!("not sent: {reason}"))
}

/// Returns the first line and the headers of a message.
fn head(first: &str, headers: &HeaderMap) -> String {
    let mut text = first.to_owned();
    for (name, value) in headers {
        text.push_str(&format!("\n{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    }
    cut(text)
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(HEAD_BYTES));
    text
}
