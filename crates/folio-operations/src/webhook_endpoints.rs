//! Operations on webhook endpoints.

use std::collections::BTreeSet;

use folio_llm::options::check_http_url;
use folio_resources::audit::AuditTarget;
use folio_resources::{Resource as _, SealedKey, WebhookEndpoint, WebhookEndpointChange, WebhookEndpointFilter};
use folio_types::access::Scope;
use folio_types::{Error, Etag, Result, Role, Secret, WebhookEndpointId, limits};
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

// proto: WebhookEndpoint.url "at most {} characters"
const URL_CHARS: usize = 2_000;
// proto: WebhookEndpoint.event_types "1 to {} names"
const EVENT_TYPES_MAX: usize = 20;
// proto: WebhookEndpoint.event_types "each at most {} characters"
const EVENT_TYPE_CHARS: usize = 100;
// proto: WebhookEndpoint.secret "at most {} characters"
const SECRET_CHARS: usize = 1_000;

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
            event_types: event_types(self.event_types)?,
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
            event_types: self.event_types.map(event_types).transpose()?,
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

/// Checks the syntax of a URL. The resolved addresses are not checked, because nothing is delivered yet.
fn url(text: String) -> Result<String> {
    let invalid = |problem: &str| Error::invalid_field("webhook_endpoint.url", problem);
    if text.chars().count() > URL_CHARS {
        return Err(invalid(&format!("has more than {URL_CHARS} characters")));
    }
    check_http_url(&text).map_err(|problem| invalid(&problem))?;
    Ok(text)
}

fn event_types(names: Vec<String>) -> Result<BTreeSet<String>> {
    let invalid = |problem: String| Error::invalid_field("webhook_endpoint.event_types", problem);
    if names.is_empty() || names.len() > EVENT_TYPES_MAX {
        return Err(invalid(format!("must have 1 to {EVENT_TYPES_MAX} names")));
    }
    let is_name = |name: &String| {
        let mut parts = name.split('.');
        let is_word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        name.len() <= EVENT_TYPE_CHARS && name.contains('.') && parts.all(is_word)
    };
    if !names.iter().all(is_name) {
        return Err(invalid("each name consists of lowercase words and dots, such as document.ready".to_owned()));
    }
    Ok(names.into_iter().collect())
}

/// Encrypts the secret of an endpoint. None: the secret is empty.
fn seal(context: &Context, id: &WebhookEndpointId, secret: &Secret) -> Result<Option<SealedKey>> {
    if secret.is_empty() {
        return Ok(None);
    }
    if secret.reveal().chars().count() > SECRET_CHARS {
        let problem = format!("has more than {SECRET_CHARS} characters");
        return Err(Error::invalid_field("webhook_endpoint.secret", problem));
    }
    context.providers().vault().seal(&context.principal().org, id.as_str(), secret).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_absolute_and_has_no_password() {
        assert_eq!(url("https://example.com/hooks?tenant=1".into()).unwrap(), "https://example.com/hooks?tenant=1");
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS));
        for bad in ["", "hooks", "ftp://example.com", "https://", "https://u:p@example.com", &long] {
            let error = url(bad.to_owned()).unwrap_err();
            assert!(!error.message.contains("u:p"), "{bad}: {error}");
        }
    }

    #[test]
    fn event_types_are_dotted_words_without_duplicates() {
        let types = |names: &[&str]| event_types(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(types(&["turn.failed", "document.ready", "turn.failed"]).unwrap().len(), 2);
        for bad in [&[][..], &["document"], &["document."], &["Document.ready"], &["a.b"; EVENT_TYPES_MAX + 1]] {
            assert!(types(bad).is_err(), "{bad:?}");
        }
    }
}
