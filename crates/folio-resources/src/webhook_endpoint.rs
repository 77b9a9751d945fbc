//! Webhook endpoints: URLs to which an organization's events are sent. The crate `folio-webhooks` delivers the events.

use std::collections::BTreeSet;
use std::time::Duration;

use folio_types::op::Write;
use folio_types::{Error, OrgId, Result, Secret, Timestamp, UserId, plain_id};
use serde::{Deserialize, Serialize};

use crate::resource::{changed_function, common_functions};
use crate::{Condition, ListRow, Plan, Resource, SealedKey, fields, term};

const EVENT_TYPE: &str = "event_type";
// proto: WebhookEndpoint.url "at most {} characters"
const URL_CHARS: usize = 2_000;
// proto: WebhookEndpoint.event_types "1 to {} names"
const EVENT_TYPES_MAX: usize = 20;
// proto: WebhookEndpoint.event_types "each at most {} characters"
const EVENT_TYPE_CHARS: usize = 100;
// proto: WebhookEndpoint.secret "at most {} characters"
const SECRET_CHARS: usize = 1_000;
/// Maximum number of endpoints of an organization. Concurrent creations may exceed it slightly.
// proto: WebhookEndpointService.CreateWebhookEndpoint "at most {} endpoints"
pub const ENDPOINTS_MAX: u64 = 20;
/// Time without a successful delivery after which a failing endpoint is disabled.
// proto: WebhookEndpoint.disabled_reason "for {} days"
const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// Maximum length of the error in the reason for which an endpoint was disabled, in characters.
// proto: none "the part of a message that the server writes"
const ERROR_CHARS: usize = 500;

plain_id!(WebhookEndpointId, "whe", "webhook endpoint");

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
    /// Time of the first failed delivery since the last successful one. None: the last delivery succeeded, or there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The reason for which the server disabled the endpoint. None: the server did not disable it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
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
    /// Changes fields. A field that is None is unchanged.
    Update {
        url: Option<String>,
        /// Replaces all event types.
        event_types: Option<BTreeSet<String>>,
        /// Inner None: removes the secret.
        secret: Option<Option<SealedKey>>,
        enabled: Option<bool>,
    },
    /// Records the result of a delivery. `error`: the reason for which the delivery failed. None: the delivery succeeded.
    Report {
        error: Option<String>,
    },
    Delete,
}

impl WebhookEndpoint {
    changed_function!();

    /// Returns the endpoint after a delivery. An endpoint whose deliveries have failed for [`FAILING_MAX`] is disabled.
    #[must_use]
    pub fn reported(self, error: Option<&str>, at: Timestamp) -> Self {
        let Some(error) = error else { return Self { failing_since: None, ..self } };
        let since = self.failing_since.unwrap_or(at);
        let failing = Self { failing_since: Some(since), ..self };
        let is_over = Duration::try_from(at.duration_since(since)).is_ok_and(|failed| failed >= FAILING_MAX);
        if !failing.enabled || !is_over {
            return failing;
        }
        let days = FAILING_MAX.as_secs() / (24 * 60 * 60);
        let error: String = error.chars().take(ERROR_CHARS).collect();
        let reason = format!("every delivery failed for {days} days; the last error: {error}");
        Self { enabled: false, disabled_reason: Some(reason), ..failing }
    }
}

/// A filter of webhook endpoints. An endpoint matches if every condition that is set is true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookEndpointFilter {
    /// Substring of the URL, case-insensitive.
    pub url_search: Option<String>,
    /// The endpoint receives events of this type.
    pub event_type: Option<String>,
}

/// Validates the length of a URL. `folio-operations` validates its syntax.
pub fn check_endpoint_url(field: &str, url: &str) -> Result<()> {
    fields::at_most(field, url, URL_CHARS)
}

/// Validates the length of a secret.
pub fn check_endpoint_secret(field: &str, secret: &Secret) -> Result<()> {
    fields::at_most(field, secret.reveal(), SECRET_CHARS)
}

/// Validates event types and removes duplicates.
pub fn check_event_types(field: &str, names: Vec<String>) -> Result<BTreeSet<String>> {
    if names.is_empty() || names.len() > EVENT_TYPES_MAX {
        return Err(Error::invalid_field(field, format!("must have 1 to {EVENT_TYPES_MAX} names")));
    }
    let is_name = |name: &String| {
        let mut parts = name.split('.');
        let is_word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        name.len() <= EVENT_TYPE_CHARS && name.contains('.') && parts.all(is_word)
    };
    if !names.iter().all(is_name) {
        let problem = format!(
            "must have names of lowercase words and dots, such as document.ready, each with at most \
             {EVENT_TYPE_CHARS} characters"
        );
        return Err(Error::invalid_field(field, problem));
    }
    Ok(names.into_iter().collect())
}

impl Resource for WebhookEndpoint {
    type Change = WebhookEndpointChange;
    type Filter = WebhookEndpointFilter;
    const KIND: &'static str = "webhook_endpoint";
    const DELETE: WebhookEndpointChange = WebhookEndpointChange::Delete;

    common_functions!(WebhookEndpointId);

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
        let done = |endpoint: Self| Ok(Plan::stored(endpoint));
        match (&write.change, before) {
            (WebhookEndpointChange::Create { url, event_types, secret, enabled }, None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                url: url.clone(),
                event_types: event_types.clone(),
                secret: secret.clone(),
                enabled: *enabled,
                failing_since: None,
                disabled_reason: None,
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
                if endpoint.url != before.url || *enabled == Some(true) {
                    (endpoint.failing_since, endpoint.disabled_reason) = (None, None);
                }
                done(endpoint.changed(&before, write.at))
            }
            (WebhookEndpointChange::Report { error }, Some(before)) => {
                done(before.clone().reported(error.as_deref(), write.at).changed(&before, write.at))
            }
            (WebhookEndpointChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::{Expected, OpResult};

    use super::*;
    use crate::golden::{assert_golden, org, user};

    fn webhook_endpoint() -> WebhookEndpoint {
        let at = Timestamp::constant(1_790_000_000, 0);
        WebhookEndpoint {
            id: WebhookEndpointId::derive(&["golden"]),
            org: org(),
            url: "https://example.com/hooks".into(),
            event_types: BTreeSet::from(["document.ready".into(), "turn.failed".into()]),
            secret: Some(SealedKey { master: "0011223344556677".into(), sealed: "c2VhbGVk".into() }),
            enabled: true,
            failing_since: None,
            disabled_reason: None,
            created_by: user(),
            created_at: at,
            updated_at: at,
            version: 2,
        }
    }

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", webhook_endpoint());
        let failing = WebhookEndpoint {
            enabled: false,
            failing_since: Some(Timestamp::constant(1_790_000_000, 0)),
            disabled_reason: Some("every delivery failed".into()),
            ..webhook_endpoint()
        };
        assert_golden("disabled", failing);
    }

    #[test]
    fn an_endpoint_that_fails_for_five_days_is_disabled_and_enabled_by_an_update() {
        let start = webhook_endpoint().created_at;
        let change = |before: &WebhookEndpoint, after: Duration, change| {
            let (key, at) = ("report".parse().unwrap(), start + after);
            let write = Write::by_platform(before.org.clone(), key, at, Expected::Version(before.version), change);
            WebhookEndpoint::apply(&before.id, &write, Some(before.clone())).unwrap().after.unwrap()
        };
        let report = |before: &WebhookEndpoint, after: Duration, error: Option<&str>| {
            change(before, after, WebhookEndpointChange::Report { error: error.map(str::to_owned) })
        };
        let new = webhook_endpoint();
        assert_eq!(report(&new, Duration::ZERO, None), new, "a success without a failure before it");
        let failing = report(&new, Duration::ZERO, Some("503"));
        assert_eq!((failing.failing_since, failing.enabled, failing.version), (Some(start), true, 3));
        let second = Duration::from_secs(1);
        assert_eq!(report(&failing, FAILING_MAX - second, Some("503")), failing, "not long enough");
        assert_eq!(report(&failing, FAILING_MAX, None).failing_since, None, "a success");
        let disabled = report(&failing, FAILING_MAX, Some(&"x".repeat(ERROR_CHARS + 1)));
        let reason = disabled.disabled_reason.clone().unwrap();
        assert!(!disabled.enabled && reason.contains("for 5 days; the last error: x"));
        assert_eq!(reason.matches('x').count(), ERROR_CHARS);
        assert_eq!(report(&disabled, FAILING_MAX + second, Some("503")), disabled, "disabled once");
        let update = |enabled, url: Option<&str>| WebhookEndpointChange::Update {
            url: url.map(str::to_owned),
            event_types: None,
            secret: None,
            enabled,
        };
        let enabled = change(&disabled, FAILING_MAX + second, update(Some(true), None));
        assert_eq!((enabled.enabled, enabled.failing_since, enabled.disabled_reason), (true, None, None));
        let moved = change(&failing, second, update(None, Some("https://example.com/other")));
        assert_eq!(moved.failing_since, None, "another URL");
    }

    #[test]
    fn the_url_is_a_unique_name_and_lists_are_filtered_by_url_and_event_type() {
        let endpoint = webhook_endpoint();
        let row = endpoint.list_row();
        assert_eq!(row.id, endpoint.id.to_string());
        assert_eq!((endpoint.unique_name(), endpoint.label()), (Some("https://example.com/hooks"), row.name.as_str()));
        for (url, event, expected) in [
            (None, None, true),
            (Some("HOOKS"), Some("turn.failed"), true),
            (Some("other"), None, false),
            (None, Some("turn.started"), false),
        ] {
            let (url_search, event_type) = (url.map(str::to_owned), event.map(str::to_owned));
            let filter = WebhookEndpointFilter { url_search, event_type };
            assert_eq!(row.matches(&WebhookEndpoint::conditions(&filter)), expected, "{filter:?}");
        }
    }

    #[test]
    fn an_endpoint_is_deleted_once() {
        let endpoint = webhook_endpoint();
        let (key, expected) = ("delete".parse().unwrap(), Expected::Version(2));
        let write = Write::by_platform(org(), key, endpoint.updated_at, expected, WebhookEndpoint::DELETE);
        let plan = |before| WebhookEndpoint::apply(&endpoint.id, &write, before);
        assert_eq!(plan(Some(endpoint.clone())).unwrap(), Plan::deleted());
        assert_eq!(plan(None).unwrap_err().reason, folio_types::Reason::NotFound);
    }

    #[test]
    fn event_types_are_dotted_words_without_duplicates() {
        let types = |names: &[&str]| check_event_types("f", names.iter().map(|name| (*name).to_owned()).collect());
        let longest = format!("a.{}", "b".repeat(EVENT_TYPE_CHARS - 2));
        assert_eq!(types(&["turn.failed", "document.ready", "turn.failed", &longest]).unwrap().len(), 3);
        assert!(types(&["a_b.c"; EVENT_TYPES_MAX]).is_ok());
        let long = format!("{longest}b");
        for bad in
            [&[][..], &["document"], &["document."], &["Document.ready"], &[&long], &["a.b"; EVENT_TYPES_MAX + 1]]
        {
            assert!(types(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn urls_and_secrets_are_bounded() {
        let url = |chars: usize| check_endpoint_url("f", &"a".repeat(chars)).is_ok();
        let secret = |chars: usize| check_endpoint_secret("f", &Secret::new(&"ä".repeat(chars))).is_ok();
        assert_eq!((url(URL_CHARS), url(URL_CHARS + 1)), (true, false));
        assert_eq!((secret(SECRET_CHARS), secret(SECRET_CHARS + 1)), (true, false));
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
