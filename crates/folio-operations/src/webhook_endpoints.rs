//! Operations on webhook endpoints and the deliveries to them.

use folio_history::job::{DELIVERY_KIND, JobFilter, JobHeader, JobQueue};
use folio_llm::AddressPolicy;
use folio_llm::options::check_http_url;
use folio_resources::audit::AuditTarget;
use folio_resources::{
    ENDPOINTS_MAX, Resource as _, SealedKey, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter,
    WebhookEndpointId, check_endpoint_secret, check_endpoint_url, check_event_types,
};
use folio_storage::quota_exceeded;
use folio_types::access::Scope;
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Error, Etag, JobId, Result, Role, Secret, limits};
use folio_webhooks::{Event, admit, create_delivery, open_deliveries, signing_key};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, as_digest, get_operation, list_operation, outcome_as_job_id, outcome_as_json};

service! {
    "WebhookEndpointService", Some(Scope::Administration) =>
    CreateWebhookEndpoint, GetWebhookEndpoint, ListWebhookEndpoints, UpdateWebhookEndpoint, DeleteWebhookEndpoint,
    TestWebhookEndpoint, ListWebhookDeliveries, GetWebhookDelivery, RedeliverWebhook
}

pub use folio_webhooks::{Delivery, DeliveryState};

const URL: &str = "webhook_endpoint.url";
const SECRET: &str = "webhook_endpoint.secret";
const EVENT_TYPES: &str = "webhook_endpoint.event_types";

/// Creates a webhook endpoint. Errors: `QUOTA_EXCEEDED` over [`ENDPOINTS_MAX`]; `NAME_TAKEN` if another endpoint has the
/// same URL; `SECRETS_UNAVAILABLE` if a secret is set and the process has no master key.
#[derive(Debug, Clone, Serialize)]
pub struct CreateWebhookEndpoint {
    /// Absolute HTTP or HTTPS URL.
    pub url: String,
    pub event_types: Vec<String>,
    /// Secret for signing events. None or empty: events are not signed.
    #[serde(serialize_with = "as_digest")]
    pub secret: Option<Secret>,
    /// True if events are to be sent to the endpoint.
    pub enabled: bool,
}

impl Operation for CreateWebhookEndpoint {
    const DECLARATION: Declaration = SERVICE.administer("CreateWebhookEndpoint");
    type Output = WebhookEndpoint;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<WebhookEndpoint>> {
        let Self { url, event_types, secret, enabled } = self;
        let has_secret = secret.as_ref().is_some_and(|secret| !secret.is_empty());
        let arguments = json!({"url": url, "event_types": event_types, "has_secret": has_secret, "enabled": enabled});
        Ok(AuditRecord::new(arguments)
            .target_of(|created: &WebhookEndpoint| AuditTarget::new(WebhookEndpoint::KIND, &created.id)))
    }

    async fn run(self, context: &Context) -> Result<WebhookEndpoint> {
        let id = WebhookEndpoint::derive_id(&context.request.id_parts());
        let (org, endpoints) = (&context.principal().org, context.stores().of::<WebhookEndpoint>());
        if endpoints.get(org, &id).await?.is_none() {
            let first = PageRequest { size: 1, ..PageRequest::default() };
            if endpoints.list(org, &WebhookEndpointFilter::default(), &first).await?.total >= ENDPOINTS_MAX {
                return Err(quota_exceeded("webhook endpoints", ENDPOINTS_MAX));
            }
        }
        let create = WebhookEndpointChange::Create {
            url: url(context.providers().address_policy(), self.url)?,
            event_types: check_event_types(EVENT_TYPES, self.event_types)?,
            secret: seal(context, &id, &self.secret.unwrap_or_default())?,
            enabled: self.enabled,
        };
        context.create(create).await
    }
}

get_operation! {
    GetWebhookEndpoint { webhook_endpoint_id: WebhookEndpointId } -> WebhookEndpoint, Role::Admin
}

list_operation! {
    /// Lists webhook endpoints. Filter: `url:` a part of the URL, `event_type:` an event type.
    ListWebhookEndpoints -> WebhookEndpoint, Role::Admin; limits::PAGE_SIZE_MAX; |text| endpoint_filter(text)?
}

fn endpoint_filter(text: &str) -> Result<WebhookEndpointFilter> {
    let mut filter = WebhookEndpointFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "url" => filter::set_once(&mut filter.url_search, &condition, condition.search()?)?,
            "event_type" => filter::set_once(&mut filter.event_type, &condition, condition.search()?)?,
            _ => return Err(filter::unknown_field(&condition, "url and event_type")),
        }
    }
    Ok(filter)
}

/// Changes a webhook endpoint. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateWebhookEndpoint {
    pub webhook_endpoint_id: WebhookEndpointId,
    pub url: Option<String>,
    /// The new event types replace the stored ones.
    pub event_types: Option<Vec<String>>,
    /// Empty: the secret is removed.
    #[serde(serialize_with = "as_digest")]
    pub secret: Option<Secret>,
    pub enabled: Option<bool>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateWebhookEndpoint {
    const DECLARATION: Declaration = SERVICE.administer("UpdateWebhookEndpoint");
    type Output = WebhookEndpoint;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<WebhookEndpoint>> {
        let Self { webhook_endpoint_id, url, event_types, secret, enabled, .. } = self;
        let has_secret = secret.as_ref().map(|secret| !secret.is_empty());
        let arguments = json!({"url": url, "event_types": event_types, "has_secret": has_secret, "enabled": enabled});
        Ok(AuditRecord::new(arguments).target(WebhookEndpoint::KIND, webhook_endpoint_id))
    }

    async fn run(self, context: &Context) -> Result<WebhookEndpoint> {
        let id = &self.webhook_endpoint_id;
        let change = WebhookEndpointChange::Update {
            url: self.url.map(|text| url(context.providers().address_policy(), text)).transpose()?,
            event_types: self.event_types.map(|names| check_event_types(EVENT_TYPES, names)).transpose()?,
            secret: self.secret.as_ref().map(|secret| seal(context, id, secret)).transpose()?,
            enabled: self.enabled,
        };
        context.update(id, self.etag, change).await
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct DeleteWebhookEndpoint {
    pub webhook_endpoint_id: WebhookEndpointId,
    /// The version to delete. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DeleteWebhookEndpoint {
    const DECLARATION: Declaration = SERVICE.administer("DeleteWebhookEndpoint");
    type Output = ();

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<()>> {
        Ok(AuditRecord::new(json!({})).target(WebhookEndpoint::KIND, &self.webhook_endpoint_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        context.request.delete::<WebhookEndpoint>(context.stores(), &self.webhook_endpoint_id, self.etag).await
    }
}

/// Sends a test event to an endpoint, also to a disabled one. Errors: `QUEUE_FULL`.
#[derive(Debug, Clone, Serialize)]
pub struct TestWebhookEndpoint {
    pub webhook_endpoint_id: WebhookEndpointId,
}

impl Operation for TestWebhookEndpoint {
    const DECLARATION: Declaration = SERVICE.administer("TestWebhookEndpoint");
    type Output = Delivery;

    outcome_as_job_id!(find_delivery);

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<Delivery>> {
        Ok(AuditRecord::new(json!({})).target(WebhookEndpoint::KIND, &self.webhook_endpoint_id))
    }

    async fn run(self, context: &Context) -> Result<Delivery> {
        let endpoint: WebhookEndpoint = context.find(&self.webhook_endpoint_id).await?;
        let (request, at) = (context.request.id_parts(), context.request.received_at());
        deliver(context, &endpoint.id, &Event::test(&endpoint.org, &endpoint.id, &request, at)).await
    }
}

/// Lists the deliveries to an endpoint without their attempts. Filter: `open:` true or false.
#[derive(Debug, Clone, Serialize)]
pub struct ListWebhookDeliveries {
    pub webhook_endpoint_id: WebhookEndpointId,
    pub list: ListRequest,
}

impl Operation for ListWebhookDeliveries {
    const DECLARATION: Declaration = SERVICE.read("ListWebhookDeliveries").role(Role::Admin);
    type Output = ListPage<Delivery>;

    async fn run(self, context: &Context) -> Result<ListPage<Delivery>> {
        let filter = &delivery_filter(&self.list.filter, &self.webhook_endpoint_id)?;
        let org = &context.principal().org;
        let scope = [DELIVERY_KIND, org.as_str(), self.webhook_endpoint_id.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        context.find::<WebhookEndpoint>(&self.webhook_endpoint_id).await?;
        let jobs = &*context.stores().jobs;
        let read = |page: PageRequest| async move {
            let Page { items, next, total } = jobs.list(org, filter, &page).await?;
            let items = items.into_iter().map(Delivery::of).collect::<Result<_>>()?;
            Ok(Page { items, next, total })
        };
        listing.fetch(read).await
    }
}

fn delivery_filter(text: &str, endpoint: &WebhookEndpointId) -> Result<JobFilter> {
    let subject = Some(endpoint.to_string());
    let mut filter = JobFilter { queue: JobQueue::Deliveries, subject, ..JobFilter::default() };
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "open" => filter::set_once(&mut filter.is_open, &condition, condition.flag()?)?,
            _ => return Err(filter::unknown_field(&condition, "open")),
        }
    }
    Ok(filter)
}

/// Returns a delivery with its newest attempt.
#[derive(Debug, Clone, Serialize)]
pub struct GetWebhookDelivery {
    pub webhook_delivery_id: JobId,
}

impl Operation for GetWebhookDelivery {
    const DECLARATION: Declaration = SERVICE.read("GetWebhookDelivery").role(Role::Admin);
    type Output = Delivery;

    async fn run(self, context: &Context) -> Result<Delivery> {
        find_delivery(context, &self.webhook_delivery_id).await
    }
}

/// Delivers the event of a delivery again. Errors: `QUEUE_FULL`.
#[derive(Debug, Clone, Serialize)]
pub struct RedeliverWebhook {
    pub webhook_delivery_id: JobId,
}

impl Operation for RedeliverWebhook {
    const DECLARATION: Declaration = SERVICE.administer("RedeliverWebhook");
    type Output = Delivery;

    outcome_as_job_id!(find_delivery);

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<Delivery>> {
        Ok(AuditRecord::new(json!({})).target(DELIVERY_KIND, &self.webhook_delivery_id))
    }

    async fn run(self, context: &Context) -> Result<Delivery> {
        let delivery = find_delivery(context, &self.webhook_delivery_id).await?;
        let endpoint: WebhookEndpoint = context.find(&delivery.endpoint).await?;
        // An attempt was made only after the record of the event was found, which may be deleted since.
        let source = delivery.event.source.clone().filter(|_| delivery.attempt.is_none());
        deliver(context, &endpoint.id, &Event { source, ..delivery.event }).await
    }
}

/// Creates a delivery for this request.
async fn deliver(context: &Context, endpoint: &WebhookEndpointId, event: &Event) -> Result<Delivery> {
    let (org, jobs) = (&context.principal().org, &*context.stores().jobs);
    admit(open_deliveries(jobs, org, endpoint).await?)?;
    context.stores().rows.check_space().await?;
    let (attempt, at) = (context.request.id_parts(), context.request.received_at());
    let header = create_delivery(jobs, (org, endpoint), event, &attempt, at).await?;
    context.jobs().hints().push(JobQueue::Deliveries, org, &header.id).await;
    Delivery::of(header)
}

async fn find_delivery(context: &Context, id: &JobId) -> Result<Delivery> {
    let jobs = &*context.stores().jobs;
    let found = jobs.header(&context.principal().org, id).await?;
    let is_delivery = |found: &JobHeader| found.queue() == JobQueue::Deliveries;
    let header = found.filter(is_delivery).ok_or_else(|| Error::not_found(DELIVERY_KIND, id))?;
    Delivery::of(header)?.with_attempt(jobs).await
}

/// Checks a URL. A name is checked again at each delivery, when it is resolved.
fn url(policy: &AddressPolicy, text: String) -> Result<String> {
    check_endpoint_url(URL, &text)?;
    let url = check_http_url(&text).map_err(|problem| Error::invalid_field(URL, problem))?;
    if !policy.allows_url(&url) {
        return Err(Error::invalid_field(URL, AddressPolicy::REQUIREMENT));
    }
    Ok(text)
}

/// Encrypts the secret of an endpoint. None: the secret is empty.
fn seal(context: &Context, id: &WebhookEndpointId, secret: &Secret) -> Result<Option<SealedKey>> {
    if secret.is_empty() {
        return Ok(None);
    }
    check_endpoint_secret(SECRET, secret)?;
    signing_key(secret).map_err(|problem| Error::invalid_field(SECRET, problem))?;
    context.providers().vault().seal(&context.principal().org, id.as_str(), secret).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_deliveries_is_parsed_as_documented() {
        let endpoint = WebhookEndpointId::derive(&["e"]);
        let filter = delivery_filter("open:false", &endpoint).unwrap();
        assert_eq!((filter.queue, filter.is_open), (JobQueue::Deliveries, Some(false)));
        assert_eq!(delivery_filter("", &endpoint).unwrap().subject, Some(endpoint.to_string()));
        for bad in ["open:maybe", "kind:extraction"] {
            assert_eq!(delivery_filter(bad, &endpoint).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }

    #[test]
    fn a_url_is_absolute_and_has_no_password_and_no_private_address() {
        let url = |text: &str| url(&AddressPolicy::default(), text.to_owned());
        assert_eq!(url("https://example.com/hooks?tenant=1").unwrap(), "https://example.com/hooks?tenant=1");
        for bad in ["", "hooks", "ftp://example.com", "https://", "https://u:p@example.com", "http://10.0.0.1/hooks"] {
            let error = url(bad).unwrap_err();
            assert!(!error.message.contains("u:p"), "{bad}: {error}");
        }
    }
}
