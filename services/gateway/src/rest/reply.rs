//! Successful responses of REST routes.

use axum::response::{IntoResponse, Response};
use folio_resources::Resource;
use folio_types::Etag;
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::endpoint::{Document, DocumentOutput};
use super::extract::Json;
use super::failure::Failure;
use crate::message_json::{ApiMessage, describe, to_json};

/// The result of a handler.
pub(crate) type Reply<T> = Result<T, Failure>;

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                let message = format!("a response cannot be serialized: {error}");
                Failure::from(folio_types::Error::internal(message)).into_response()
            }
        }
    }
}

impl<T: ToSchema> DocumentOutput for Json<T> {
    fn document(document: &mut Document) {
        let schema = document.reference::<T>();
        document.respond(200, "The result.", json!({ "application/json": { "schema": schema } }));
    }
}

/// A resource as JSON, with its version in the header `ETag`.
pub(crate) struct Versioned<T> {
    pub(crate) version: u64,
    pub(crate) body: T,
}

impl<T> Versioned<T> {
    /// Returns the body of a resource with its version.
    pub(crate) fn of<'a, R: Resource>(resource: &'a R) -> Self
    where
        T: From<&'a R>,
    {
        Self { version: resource.version(), body: resource.into() }
    }
}

impl<T: Serialize> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.body).into_response();
        if let Ok(etag) = format!("\"{}\"", Etag::new(self.version)).parse() {
            response.headers_mut().insert(ETAG, etag);
        }
        response
    }
}

impl<T: ToSchema> DocumentOutput for Versioned<T> {
    fn document(document: &mut Document) {
        Json::<T>::document(document);
    }
}

/// Returns the value of `ETag` of a resource whose response depends on more than its version: the variant names the rest, so that
/// `If-None-Match` compares both.
pub(crate) fn etag(version: u64, variant: &str) -> String {
    format!("\"{};{variant}\"", Etag::new(version))
}

/// A resource as JSON, with its version and its variant in the header `ETag`.
pub(crate) struct Variant<T> {
    pub(crate) version: u64,
    pub(crate) variant: String,
    pub(crate) body: T,
}

impl<T: Serialize> IntoResponse for Variant<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.body).into_response();
        if let Ok(etag) = etag(self.version, &self.variant).parse() {
            response.headers_mut().insert(ETAG, etag);
        }
        response
    }
}

impl<T: ToSchema> DocumentOutput for Variant<T> {
    fn document(document: &mut Document) {
        Json::<T>::document(document);
    }
}

/// A message of the public API as JSON.
pub(crate) struct MessageReply<M>(pub(crate) M);

impl<M: ApiMessage> IntoResponse for MessageReply<M> {
    fn into_response(self) -> Response {
        match describe(&self.0).and_then(|message| to_json(&message)) {
            Ok(body) => (StatusCode::OK, [(CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Failure::from(error).into_response(),
        }
    }
}

impl<M: ApiMessage> DocumentOutput for MessageReply<M> {
    fn document(document: &mut Document) {
        // The routes of Connect declare the schemas of all messages.
        let schema = json!({ "$ref": format!("#/components/schemas/{}", M::NAME) });
        document.respond(200, "The result.", json!({ "application/json": { "schema": schema } }));
    }
}

/// The text that a change returns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    /// The outcome for a person.
    message: String,
}

impl Message {
    pub(crate) fn new(message: &str) -> Json<Self> {
        Json(Self { message: message.to_owned() })
    }
}
