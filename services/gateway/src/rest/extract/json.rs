//! JSON bodies.

use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::Bytes;
use folio_proto::status;
use folio_types::json::{self, ParseError};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tonic::Status;
use utoipa::ToSchema;

use super::problem::problem;
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::failure::{Failure, InvalidValue};
use crate::services::Api;

/// A JSON body. The layers bound its size and the time until it is complete.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Api) -> Result<Self, Failure> {
        parse(&read_body(request).await?).map(Self)
    }
}

/// A body that may be absent: an empty one and `null` are None.
impl<T: DeserializeOwned> OptionalFromRequest<Api> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Api) -> Result<Option<Self>, Failure> {
        let body = read_body(request).await?;
        let is_absent = [b"".as_slice(), b"null"].contains(&body.trim_ascii());
        if is_absent { Ok(None) } else { parse(&body).map(|body| Some(Self(body))) }
    }
}

impl<T: ToSchema> DocumentInput for Json<T> {
    fn document(document: &mut Document) {
        document.request_body = Some(body_of::<T>(document, true));
    }
}

impl<T: ToSchema> DocumentInput for Option<Json<T>> {
    fn document(document: &mut Document) {
        document.request_body = Some(body_of::<T>(document, false));
    }
}

fn body_of<T: ToSchema>(document: &mut Document, is_required: bool) -> Value {
    let schema = document.reference::<T>();
    json!({ "required": is_required, "content": { "application/json": { "schema": schema } } })
}

/// Checks that the content type is JSON, or absent.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.get(CONTENT_TYPE).is_none_or(|value| is_json(value.as_bytes())) {
        return Ok(());
    }
    let detail = "The content type of the body must be application/json";
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = String::from_utf8_lossy(essence).trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns the error that ended a body: the status of the layers, or the loss of the connection.
pub(crate) fn body_error(error: axum::Error) -> Failure {
    status::of_transport(&Status::from_error(error.into_inner())).into()
}

/// Reads a JSON body. The layers bound its size and the time until it is complete.
pub(super) async fn read_body(request: Request) -> Result<Bytes, Failure> {
    check_json(request.headers())?;
    Ok(request.into_body().collect().await.map_err(body_error)?.to_bytes())
}

pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let text = std::str::from_utf8(body)
        .map_err(|error| syntax_error(error.valid_up_to(), "the body is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(Failure::unprocessable(&[missing_body()]));
    }
    let value = json::read(text).map_err(|error| match error {
        ParseError::Syntax(error) => syntax_error(offset(text, error.line(), error.column()), error.to_string()),
        error @ (ParseError::TooDeep | ParseError::Number(_)) => syntax_error(0, error.to_string()),
    })?;
    if value.is_null() {
        return Err(Failure::unprocessable(&[missing_body()]));
    }
    if !value.is_object() {
        // The deserializer would read an array as the members of an object, in their order.
        let (location, message) = (vec![json!("body")], "the body is not a JSON object".to_owned());
        return Err(Failure::unprocessable(&[InvalidValue { kind: "model_attributes_type", location, message }]));
    }
    serde_path_to_error::deserialize(value)
        .map_err(|error| Failure::unprocessable(&[problem("body", error.path(), &error.inner().to_string())]))
}

fn missing_body() -> InvalidValue {
    InvalidValue { kind: "missing", location: vec![json!("body")], message: "Field required".to_owned() }
}

fn syntax_error(offset: usize, message: String) -> Failure {
    let location = vec![json!("body"), json!(offset)];
    let message = format!("JSON decode error: {message}");
    Failure::unprocessable(&[InvalidValue { kind: "json_invalid", location, message }])
}

/// Returns the offset of a position in a text. Lines and columns count from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before.saturating_add(column.saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[expect(dead_code, reason = "only its type is tested")]
        name: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type is tested")]
        tags: Vec<u32>,
    }

    async fn refused(body: &str) -> (u16, Value) {
        let response = parse::<Sample>(body.as_bytes()).unwrap_err().into_response();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_malformed_body_is_answered_with_the_kind_and_the_location() {
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        for (body, kind, location) in [
            ("", "missing", json!(["body"])),
            ("null", "missing", json!(["body"])),
            ("{}", "missing", json!(["body", "name"])),
            ("[\"a\"]", "model_attributes_type", json!(["body"])),
            ("\"a\"", "model_attributes_type", json!(["body"])),
            ("{\"name\": 1}", "string_type", json!(["body", "name"])),
            ("{\"name\": \"a\", \"tags\": [1, \"x\"]}", "int_type", json!(["body", "tags", 1])),
            ("{\"name\": \"a\", \"tags\": {}}", "list_type", json!(["body", "tags"])),
            ("{\n\"name\" 1}", "json_invalid", json!(["body", 9])),
            (deep.as_str(), "json_invalid", json!(["body", 0])),
        ] {
            let (status, answer) = refused(body).await;
            assert_eq!(status, 422, "{body}");
            assert_eq!(answer["detail"][0]["type"], kind, "{body}: {answer}");
            assert_eq!(answer["detail"][0]["loc"], location, "{body}: {answer}");
        }
        assert!(parse::<Sample>(br#"{"name": "a", "unknown": 1}"#).is_ok(), "unknown members are ignored");
    }

    #[test]
    fn other_content_types_are_no_json() {
        for json in
            ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json"]
        {
            assert!(is_json(json.as_bytes()), "{json}");
        }
        for other in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
            assert!(!is_json(other.as_bytes()), "{other}");
        }
    }
}
