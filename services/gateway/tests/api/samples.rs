//! Sample requests of every operation, and the creations of an organization's resources.
//!
//! The files `scenarios/*.yaml` contain the samples. The tests of tenants, malformed requests and audit entries use them.

use std::collections::BTreeMap;

use folio_resources::KINDS;
use folio_types::{JobId, MessageImageId, Reason, ThreadId, UserId};
use serde::Deserialize;
use serde_json::Value;

use crate::scenarios::SCENARIOS;
use crate::template::fill;

/// Ids and names of one organization's resources, by kind.
pub(crate) type Ids = BTreeMap<&'static str, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Samples {
    /// The resources of an organization that the operation creates, by kind.
    #[serde(default)]
    creates: BTreeMap<String, Creation>,
    /// Requests that are valid if the named resources exist. The request of a client stream is an array of messages.
    pub(crate) valid: Vec<Value>,
    /// Requests that are refused with `INVALID_ARGUMENT`: the reason, the field, the request.
    pub(crate) malformed: Vec<(Reason, String, Value)>,
}

/// The creation of one resource, under a name that another organization uses as well. Secrets contain the word SECRET,
/// which no response contains.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Creation {
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

    /// Returns true if the request names the resource of this kind.
    fn names(&self, kind: &str) -> bool {
        self.request.to_string().contains(&format!("${{{kind}}}"))
    }
}

/// Returns the operation, the kind and the creation of each resource of an organization. A resource follows those that
/// its request names.
pub(crate) fn creations() -> Vec<(&'static str, &'static str, &'static Creation)> {
    let mut waiting = Vec::new();
    for (operation, samples) in &SCENARIOS.samples {
        waiting.extend(samples.creates.iter().map(|(kind, creation)| (operation.as_str(), kind.as_str(), creation)));
    }
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let is_next = |creation: &Creation| !waiting.iter().any(|(_, kind, _)| creation.names(kind));
        let next = waiting.iter().position(|(_, _, creation)| is_next(creation)).expect("no cycle of creations");
        ordered.push(waiting.remove(next));
    }
    ordered
}

/// Returns well-formed ids of missing resources.
pub(crate) fn missing() -> Ids {
    let prefixes = KINDS.iter().map(|kind| (kind.name, kind.id_prefix));
    let prefixes = prefixes.chain([("thread", ThreadId::PREFIX), ("member", UserId::PREFIX), ("job", JobId::PREFIX)]);
    let prefixes = prefixes.chain([("image", MessageImageId::PREFIX)]);
    let prefixes = prefixes.chain([("webhook_delivery", JobId::PREFIX)]);
    let ids = prefixes.map(|(kind, prefix)| (kind, format!("{prefix}_{}", "0".repeat(32))));
    ids.chain([("provider", "of-no-such-model".to_owned()), ("model", "no-such-model".to_owned())]).collect()
}

/// Returns the samples of an operation. They name resources of `named`, and otherwise resources of the caller, `own`.
pub(crate) fn samples(operation: &str, own: &Ids, named: &Ids) -> Samples {
    let samples =
        SCENARIOS.samples.get(operation).unwrap_or_else(|| panic!("add samples of {operation} to scenarios/*.yaml"));
    let filled = |request: &Value| {
        fill(request, &|name| {
            let id = name.strip_prefix("own.").map_or_else(|| named.get(name), |kind| own.get(kind));
            id.map(|id| id.as_str().into())
        })
    };
    let malformed = samples.malformed.iter();
    Samples {
        creates: samples.creates.clone(),
        valid: samples.valid.iter().map(filled).collect(),
        malformed: malformed.map(|(reason, field, request)| (*reason, field.clone(), filled(request))).collect(),
    }
}
