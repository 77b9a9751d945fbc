//! The caller of a REST route, through which a handler runs operations.

use axum::extract::FromRequestParts;
use folio_cluster::LimitedStream;
use folio_operations::accounts::AccountOrganization;
use folio_operations::{Call, Caller, Operation};
use folio_types::access::Scope;
use folio_types::{Digest, Error, Etag, OrgId, Principal, RequestId};
use futures::Stream;
use http::header::IF_MATCH;
use http::request::Parts;
use http::{Extensions, HeaderMap, StatusCode};
use serde_json::json;
use tracing::Instrument as _;

use crate::idempotency::idempotency_key;
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::failure::Failure;
use crate::services::Api;

/// The authenticated caller with the headers that apply to every change.
#[derive(Clone)]
pub(crate) struct Client {
    api: Api,
    caller: Caller,
    /// The header `Idempotency-Key`.
    request_id: Option<RequestId>,
    /// The header `If-Match`: the version that a change is based on.
    pub(crate) etag: Option<Etag>,
    /// The variant in `If-Match` ([`etag`](crate::rest::reply::etag)). None: the header names no variant.
    variant: Option<String>,
}

impl Client {
    /// Runs an operation. A change has the id of the request: a handler runs one change at most. For several changes see
    /// [`Client::run_part`].
    pub(crate) async fn run<O: Operation>(&self, operation: O) -> Result<O::Output, Failure> {
        Ok(self.call(operation).await?)
    }

    /// Runs an operation like [`Client::run`], and returns the error of the operation, for a response that has begun.
    pub(crate) async fn call<O: Operation>(&self, operation: O) -> Result<O::Output, Error> {
        let call = Call::with_request_id(self.request_id.clone(), operation);
        self.api.operations().run(&self.caller, call).await
    }

    /// Returns true if the token covers a scope. A route shows a name from another scope only if it does.
    pub(crate) fn covers(&self, scope: Scope) -> bool {
        self.caller.covers(scope)
    }

    /// Returns the organization of the caller.
    pub(crate) fn organization(&self) -> &OrgId {
        &self.caller.principal.org
    }

    /// Returns true if the caller acts in an organization, and false if it presents an account and selects none.
    pub(crate) fn has_organization(&self) -> bool {
        self.caller.has_organization()
    }

    /// Returns the caller in one of the organizations of its user, which an operation has just listed.
    pub(crate) fn in_organization(&self, found: &AccountOrganization) -> Self {
        Self { caller: self.caller.in_organization(found), ..self.clone() }
    }

    /// Returns the scopes that the credential is restricted to. Empty: unrestricted.
    pub(crate) fn scopes(&self) -> &[Scope] {
        &self.caller.scopes
    }

    /// Returns true if the credential permits operations on the whole installation.
    pub(crate) fn has_platform_right(&self) -> bool {
        self.caller.has_platform_right
    }

    pub(crate) fn is_platform_admin(&self) -> bool {
        self.caller.is_platform_admin()
    }

    /// Checks that `If-Match` names this variant of the resource, or none. Error: status 412.
    pub(crate) fn check_variant(&self, variant: &str) -> Result<(), Failure> {
        if self.variant.as_deref().is_none_or(|expected| expected == variant) {
            return Ok(());
        }
        let detail = "The resource is another one than that of the etag; read it again";
        Err(Failure::new(StatusCode::PRECONDITION_FAILED, detail))
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Runs an operation that continues if the client disconnects.
    pub(crate) async fn run_detached<O: Operation>(&self, operation: O) -> Result<O::Output, Failure> {
        let (operations, caller) = (self.api.operations().clone(), self.caller.clone());
        let call = Call::with_request_id(self.request_id.clone(), operation);
        let run = async move { operations.run(&caller, call).await };
        let ended = tokio::spawn(run.in_current_span()).await;
        Ok(ended.map_err(|_| Error::internal("the task of a request panicked or was cancelled"))??)
    }

    /// Bounds a stream of events. The end of the stream does not end the work behind it.
    pub(crate) fn bounded<T: Send + 'static>(
        &self,
        events: impl Stream<Item = Result<T, Error>> + Send + 'static,
    ) -> LimitedStream<T> {
        self.api.bounded_events(events)
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    /// Returns the header `Idempotency-Key`, for commands that contain their id.
    pub(crate) fn request_id(&self) -> Option<&RequestId> {
        self.request_id.as_ref()
    }

    /// Runs one of several changes. Its id is derived from the id of the request and from the name of the part, so that a
    /// repeated request repeats each change under its own id.
    pub(crate) async fn run_part<O: Operation>(&self, part: &str, operation: O) -> Result<O::Output, Failure> {
        let id = self.request_id.as_ref().map(|id| part_id(id, part)).transpose()?;
        Ok(self.api.operations().run(&self.caller, Call::with_request_id(id, operation)).await?)
    }
}

fn part_id(request_id: &RequestId, part: &str) -> Result<RequestId, Error> {
    let parts = json!(["part", request_id.as_str(), part]);
    Digest::of(parts.to_string().as_bytes()).as_str().parse()
}

/// Returns the organization of the caller.
pub(crate) fn organization(extensions: &Extensions) -> Result<OrgId, Error> {
    let caller = extensions.get::<Caller>();
    let caller = caller.ok_or_else(|| Error::internal("a request reached its handler without a caller"))?;
    Ok(caller.principal.org.clone())
}

impl FromRequestParts<Api> for Client {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Error::internal("a request reached its handler without a caller"))?;
        let request_id = idempotency_key(&parts.headers)?;
        let (etag, variant) = if_match(&parts.headers)?.unzip();
        Ok(Self { api: api.clone(), caller, request_id, etag, variant: variant.flatten() })
    }
}

impl DocumentInput for Client {
    fn document(document: &mut Document) {
        for (name, description) in [
            ("Idempotency-Key", "The id of the request. The server makes a change once for each id."),
            ("If-Match", "The etag that a change is based on. Another stored version is answered with 412."),
        ] {
            let schema = json!({ "type": "string", "maxLength": 130 });
            document.parameters.push(json!({
                "name": name, "in": "header", "required": false, "description": description, "schema": schema,
            }));
        }
    }
}

/// Returns the version and the variant in `If-Match`. None: the header is missing, or permits every version with `*`.
fn if_match(headers: &HeaderMap) -> Result<Option<(Etag, Option<String>)>, Error> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let invalid = || Error::invalid_field("If-Match", "must be one etag of this API, in double quotes, or *");
    let text = value.to_str().map_err(|_| invalid())?.trim();
    if text == "*" {
        return Ok(None);
    }
    let text = text.strip_prefix("W/").unwrap_or(text);
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(invalid)?;
    let (version, variant) = text.split_once(';').map_or((text, None), |(version, variant)| (version, Some(variant)));
    let version = version.parse().map_err(|_: Error| invalid())?;
    Ok(Some((version, variant.map(str::to_owned))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_request_have_different_ids() {
        let id = |id: &str, part: &str| part_id(&id.parse().unwrap(), part).unwrap();
        assert_eq!(id("a", "1"), id("a", "1"));
        assert!(id("a", "1") != id("a", "2") && id("a", "1") != id("b", "1") && id("a", "b") != id("b", "a"));
    }

    #[test]
    fn if_match_is_one_etag() {
        let read = |value: &str| if_match(&HeaderMap::from_iter([(IF_MATCH, value.parse().unwrap())]));
        assert_eq!(if_match(&HeaderMap::new()).unwrap(), None);
        assert_eq!(read("*").unwrap(), None);
        assert_eq!(read("\"v3\"").unwrap(), Some((Etag::new(3), None)));
        assert_eq!(read("W/\"v3\"").unwrap(), Some((Etag::new(3), None)));
        assert_eq!(read("\"v3;ready\"").unwrap(), Some((Etag::new(3), Some("ready".to_owned()))));
        for refused in ["v3", "\"v3\", \"v4\"", "\"3\"", "\"\"", "\""] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
