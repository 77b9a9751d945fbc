//! Webhook endpoints: URLs to which an organization's events are to be sent. The delivery is not implemented.

use std::collections::BTreeSet;

use folio_types::op::{OpResult, Write};
use folio_types::{OrgId, Result, Timestamp, UserId, WebhookEndpointId};
use serde::{Deserialize, Serialize};

use crate::resource::common_functions;
use crate::{Condition, ListRow, Plan, Resource, SealedKey, term};

const EVENT_TYPE: &str = "event_type";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    /// Derived from the organization, the user and the request id.
    pub id: WebhookEndpointId,
    pub org: OrgId,
    /// Absolute HTTP or HTTPS URL, unique in the organization.
    pub url: String,
    /// Types of the events to send, such as `document.ready`.
    pub event_types: BTreeSet<String>,
    /// Encrypted secret that signs events. None: events are not signed.
    pub secret: Option<SealedKey>,
    pub enabled: bool,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// From 1. Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEndpointChange {
    Create {
        /// Unique among the live endpoints of the organization.
        url: String,
        /// Types of the events to send, such as `document.ready`.
        event_types: BTreeSet<String>,
        /// Encrypted secret that signs events. None: events are not signed.
        secret: Option<SealedKey>,
        enabled: bool,
    },
    /// None: unchanged.
    Update {
        url: Option<String>,
        /// Replaces all event types.
        event_types: Option<BTreeSet<String>>,
        /// Inner None: removes the secret.
        secret: Option<Option<SealedKey>>,
        enabled: Option<bool>,
    },
    Delete,
}

/// All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookEndpointFilter {
    /// Substring of the URL, case-insensitive.
    pub url_search: Option<String>,
    /// The endpoint receives events of this type.
    pub event_type: Option<String>,
}

impl Resource for WebhookEndpoint {
    type Change = WebhookEndpointChange;
    type Filter = WebhookEndpointFilter;
    const KIND: &'static str = "webhook_endpoint";
    const DELETE: WebhookEndpointChange = WebhookEndpointChange::Delete;

    common_functions!(WebhookEndpointId);

    fn label(&self) -> &str {
        &self.url
    }

    fn unique_name(&self) -> Option<&str> {
        Some(&self.url)
    }

    fn list_row(&self) -> ListRow {
        let terms = self.event_types.iter().map(|event| term(EVENT_TYPE, event)).collect();
        ListRow { id: self.id.to_string(), name: self.url.clone(), terms, ..ListRow::default() }
    }

    fn conditions(filter: &WebhookEndpointFilter) -> Vec<Condition> {
        let types = filter.event_type.iter().map(|event| Condition::AnyTerm(vec![term(EVENT_TYPE, event)]));
        types.chain(Condition::name_search(filter.url_search.as_ref())).collect()
    }

    fn apply(id: &WebhookEndpointId, write: &Write<WebhookEndpointChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |endpoint: Self| {
            let result = OpResult::Resource { id: endpoint.id.to_string(), name: endpoint.url.clone() };
            Ok(Plan { after: Some(endpoint), result })
        };
        match (&write.change, before) {
            (WebhookEndpointChange::Create { url, event_types, secret, enabled }, None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                url: url.clone(),
                event_types: event_types.clone(),
                secret: secret.clone(),
                enabled: *enabled,
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (WebhookEndpointChange::Update { url, event_types, secret, enabled }, Some(before)) => {
                let mut endpoint = before.clone();
                endpoint.url.clone_from(url.as_ref().unwrap_or(&before.url));
                endpoint.event_types.clone_from(event_types.as_ref().unwrap_or(&before.event_types));
                endpoint.secret.clone_from(secret.as_ref().unwrap_or(&before.secret));
                endpoint.enabled = enabled.unwrap_or(before.enabled);
                if endpoint != before {
                    endpoint.version += 1;
                    endpoint.updated_at = write.at;
                }
                done(endpoint)
            }
            (WebhookEndpointChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;

    use super::*;
    use crate::golden::{assert_golden, webhook_endpoint};

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", webhook_endpoint());
    }

    #[test]
    fn an_update_keeps_the_fields_that_it_does_not_name() {
        let before = webhook_endpoint();
        let apply = |change| {
            let (key, at) = ("update".parse().unwrap(), before.updated_at + std::time::Duration::from_secs(1));
            let write = Write::by_platform(before.org.clone(), key, at, Expected::Version(before.version), change);
            WebhookEndpoint::apply(&before.id, &write, Some(before.clone())).unwrap().after.unwrap()
        };
        let update = |secret, enabled| WebhookEndpointChange::Update { url: None, event_types: None, secret, enabled };
        assert_eq!(apply(update(None, Some(true))), before, "a change without effect keeps the version");
        let disabled = apply(update(None, Some(false)));
        let expected =
            WebhookEndpoint { enabled: false, version: 3, updated_at: disabled.updated_at, ..before.clone() };
        assert_eq!(disabled, expected);
        assert_eq!(apply(update(Some(None), None)).secret, None);
    }

    #[test]
    fn a_creation_stores_its_fields_as_version_1() {
        let WebhookEndpoint { id, org, url, event_types, secret, enabled, created_at, .. } = webhook_endpoint();
        let create = WebhookEndpointChange::Create {
            url: url.clone(),
            event_types: event_types.clone(),
            secret: secret.clone(),
            enabled,
        };
        let write = Write::by_platform(org, "create".parse().unwrap(), created_at, Expected::Absent, create);
        let plan = WebhookEndpoint::apply(&id, &write, None).unwrap();
        assert_eq!(plan.result, OpResult::Resource { id: id.to_string(), name: url });
        assert_eq!(
            plan.after,
            Some(WebhookEndpoint { created_by: write.by.clone(), version: 1, ..webhook_endpoint() })
        );
        let again = WebhookEndpoint::apply(&id, &write, plan.after).unwrap_err();
        assert_eq!(again.reason, folio_types::Reason::NotFound, "a creation of an existing endpoint");
    }
}
