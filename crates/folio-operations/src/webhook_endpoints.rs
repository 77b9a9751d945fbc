//! Operations on webhook endpoints.

use folio_llm::options::check_http_url;
use folio_resources::audit::AuditTarget;
use folio_resources::{
    Resource as _, SealedKey, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter, WebhookEndpointId,
    check_endpoint_secret, check_endpoint_url, check_event_types,
};
use folio_types::access::Scope;
use folio_types::{Error, Etag, Result, Role, Secret, limits};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::operation::{Operation, as_digest, get_operation, list_operation, outcome_as_json};

service! {
    "WebhookEndpointService", Some(Scope::Administration) =>
    CreateWebhookEndpoint, GetWebhookEndpoint, ListWebhookEndpoints, UpdateWebhookEndpoint, DeleteWebhookEndpoint
}

const URL: &str = "webhook_endpoint.url";
const EVENT_TYPES: &str = "webhook_endpoint.event_types";

/// Creates a webhook endpoint. Errors: `NAME_TAKEN` if another endpoint has the same URL; `SECRETS_UNAVAILABLE` if a
/// secret is set and the process has no master key.
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
        let create = WebhookEndpointChange::Create {
            url: url(self.url)?,
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
            url: self.url.map(url).transpose()?,
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

/// Checks a URL. The resolved addresses are not checked, because nothing is delivered yet.
fn url(text: String) -> Result<String> {
    check_endpoint_url(URL, &text)?;
    check_http_url(&text).map_err(|problem| Error::invalid_field(URL, problem))?;
    Ok(text)
}

/// Encrypts the secret of an endpoint. None: the secret is empty.
fn seal(context: &Context, id: &WebhookEndpointId, secret: &Secret) -> Result<Option<SealedKey>> {
    if secret.is_empty() {
        return Ok(None);
    }
    check_endpoint_secret("webhook_endpoint.secret", secret)?;
    context.providers().vault().seal(&context.principal().org, id.as_str(), secret).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_absolute_and_has_no_password() {
        assert_eq!(url("https://example.com/hooks?tenant=1".into()).unwrap(), "https://example.com/hooks?tenant=1");
        for bad in ["", "hooks", "ftp://example.com", "https://", "https://u:p@example.com"] {
            let error = url(bad.to_owned()).unwrap_err();
            assert!(!error.message.contains("u:p"), "{bad}: {error}");
        }
    }
}
