//! JSON bodies with a signature.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::json;
use utoipa::ToSchema;

use super::json::{Json, parse, read_body};
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::failure::Failure;
use crate::services::Api;

/// The header with the HMAC-SHA256 of the body in hexadecimal digits.
const SIGNATURE: &str = "x-request-signature";

/// A JSON body with the bytes that its signature covers. The signature is not verified yet.
pub(crate) struct Signed<T> {
    pub(crate) value: T,
    pub(crate) body: Bytes,
    /// None: the header is missing.
    pub(crate) signature: Option<String>,
}

impl<T: DeserializeOwned> FromRequest<Api> for Signed<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Api) -> Result<Self, Failure> {
        let signature = request.headers().get(SIGNATURE);
        let signature = signature.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let body = read_body(request).await?;
        Ok(Self { value: parse(&body)?, body, signature })
    }
}

impl<T: ToSchema> DocumentInput for Signed<T> {
    fn document(document: &mut Document) {
        Json::<T>::document(document);
        document.parameters.push(json!({
            "name": "X-Request-Signature",
            "in": "header",
            "required": false,
            "description": "The HMAC-SHA256 of the body, in hexadecimal digits, with the secret of the setting `users.page_secret`.",
            "schema": { "type": "string", "maxLength": 64 },
        }));
    }
}
