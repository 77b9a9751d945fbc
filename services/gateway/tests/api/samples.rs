//! Sample requests of every operation, and the creations of an organization's resources.
//!
//! A new operation adds its samples to `samples.yaml`. The tests of tenants, malformed requests and audit entries use
//! them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use folio_types::{
    DocumentId, ExtractionId, OrgId, PromptId, Reason, SchemaId, TagId, ThreadId, TokenId, UserId, WebhookEndpointId,
};
use serde::Deserialize;
use serde_json::Value;

use crate::template::fill;

/// Ids and names of one organization's resources, by kind.
pub(crate) type Ids = BTreeMap<&'static str, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Samples {
    /// Requests that are valid if the named resources exist. The request of a client stream is an array of messages.
    pub(crate) valid: Vec<Value>,
    /// Requests that are refused with `INVALID_ARGUMENT`: the reason, the field, the request.
    pub(crate) malformed: Vec<(Reason, String, Value)>,
}

/// The creation of one resource.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Creation {
    pub(crate) kind: String,
    pub(crate) operation: String,
    request: Value,
    /// JSON pointer to the id in the response.
    pub(crate) id: String,
}

impl Creation {
    /// Returns the request of an organization with this name.
    pub(crate) fn request(&self, organization: &str, ids: &Ids) -> Value {
        fill(&self.request, &|name| match name {
            "name" => Some(organization.into()),
            "price" => Some(organization.len().into()),
            kind => ids.get(kind).map(|id| id.as_str().into()),
        })
    }
}

/// The creations of an organization's resources, in order.
pub(crate) static CREATIONS: LazyLock<Vec<Creation>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("creations.yaml")).unwrap());

/// Returns well-formed ids of missing resources.
pub(crate) fn missing() -> Ids {
    let prefixes = [
        ("organization", OrgId::PREFIX),
        ("document", DocumentId::PREFIX),
        ("tag", TagId::PREFIX),
        ("schema", SchemaId::PREFIX),
        ("prompt", PromptId::PREFIX),
        ("extraction", ExtractionId::PREFIX),
        ("thread", ThreadId::PREFIX),
        ("member", UserId::PREFIX),
        ("token", TokenId::PREFIX),
        ("webhook_endpoint", WebhookEndpointId::PREFIX),
    ];
    let ids = prefixes.into_iter().map(|(kind, prefix)| (kind, format!("{prefix}_{}", "0".repeat(32))));
    ids.chain([("provider", "of-no-such-model".to_owned()), ("model", "no-such-model".to_owned())]).collect()
}

/// Returns the samples of an operation. They name resources of `named`, and otherwise resources of the caller, `own`.
pub(crate) fn samples(operation: &str, own: &Ids, named: &Ids) -> Samples {
    static SAMPLES: LazyLock<BTreeMap<String, Samples>> =
        LazyLock::new(|| serde_saphyr::from_str(include_str!("samples.yaml")).unwrap());
    let samples = SAMPLES.get(operation).unwrap_or_else(|| panic!("add samples of {operation} to samples.yaml"));
    let filled = |request: &Value| {
        fill(request, &|name| {
            let id = name.strip_prefix("own.").map_or_else(|| named.get(name), |kind| own.get(kind));
            id.map(|id| id.as_str().into())
        })
    };
    let malformed = samples.malformed.iter();
    Samples {
        valid: samples.valid.iter().map(filled).collect(),
        malformed: malformed.map(|(reason, field, request)| (*reason, field.clone(), filled(request))).collect(),
    }
}
