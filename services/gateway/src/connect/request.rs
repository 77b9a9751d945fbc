//! Translates a request with JSON to a request of gRPC.

use bytes::{BufMut as _, Bytes, BytesMut};
use folio_operations::Declaration;
use folio_proto::status;
use folio_types::{Code, Error, Reason, RequestId, Result, json};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value as Field};
use serde::de::DeserializeSeed as _;
use serde_json::Value;
use tonic::body::Body;

use super::prefix;
use crate::descriptors;
use crate::idempotency::idempotency_key;

/// Maximum number of characters of a problem that an error quotes.
const PROBLEM_CHARS: usize = 200;

/// Reads the message and returns the request of gRPC. The layers bound the size and the time of the body.
pub(super) async fn translate(operation: &Declaration, request: Request<Body>) -> Result<Request<Body>> {
    let unknown = || Error::internal(format!("{} is not described", operation.name));
    let method = descriptors::method(operation).ok_or_else(unknown)?;
    if method.is_client_streaming() {
        let message = format!("{} is a client stream: use gRPC, or upload with multipart over REST", operation.name);
        return Err(Error::new(Code::Unimplemented, Reason::UnsupportedType, message));
    }
    check_headers(request.headers())?;
    let key = idempotency_key(request.headers())?;
    let (mut head, body) = request.into_parts();
    let body = body.collect().await.map_err(|status| status::of_transport(&status))?.to_bytes();
    let message = message(method.input(), &body, key.as_ref())?;
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, ACCEPT_ENCODING] {
        head.headers.remove(name);
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head.headers.insert(TE, HeaderValue::from_static("trailers"));
    Ok(Request::from_parts(head, Body::new(Full::new(message))))
}

/// Checks that the body is JSON. A browser sends other types across origins without a preflight request.
fn check_headers(headers: &HeaderMap) -> Result<()> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = format!("the content type must be application/json, not {:?}", excerpt(content_type));
    Err(Error::invalid(Reason::UnsupportedType, message))
}

/// Returns the encoded message with its prefix. An empty body is an empty message.
fn message(descriptor: MessageDescriptor, body: &[u8], key: Option<&RequestId>) -> Result<Bytes> {
    let text = std::str::from_utf8(body).map_err(|_| invalid("", "the body is not UTF-8"))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value = json::read(text).map_err(|error| invalid("", &error.to_string()))?;
    let mut message = parse(descriptor, value)?;
    if let Some(key) = key {
        set_request_id(&mut message, key)?;
    }
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(length.saturating_add(5));
    bytes.put_slice(&prefix(length));
    message.encode(&mut bytes).map_err(|error| Error::internal(format!("a message cannot be encoded: {error}")))?;
    Ok(bytes.freeze())
}

/// Parses a message. An error names the path of the field.
fn parse(descriptor: MessageDescriptor, value: Value) -> Result<DynamicMessage> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let parsed = descriptor.deserialize(tracked);
    parsed.map_err(|error| {
        let path = track.path().to_string();
        invalid(if path == "." { "" } else { &path }, &error.to_string())
    })
}

/// Sets the id of a request that names none, or checks that both are the same.
fn set_request_id(message: &mut DynamicMessage, key: &RequestId) -> Result<()> {
    let field = message.descriptor().get_field_by_name("request_id");
    let Some(field) = field.filter(|field| matches!(field.kind(), Kind::String)) else { return Ok(()) };
    let sent = message.get_field(&field).as_str().unwrap_or_default().to_owned();
    if sent.is_empty() {
        message.set_field(&field, Field::String(key.to_string()));
    } else if sent != key.as_str() {
        return Err(Error::invalid_field("request_id", "differs from the header Idempotency-Key"));
    }
    Ok(())
}

fn invalid(field: &str, problem: &str) -> Error {
    let problem = excerpt(problem);
    if field.is_empty() {
        return Error::invalid(Reason::InvalidField, format!("the message cannot be read: {problem}"));
    }
    Error::invalid_field(field, problem)
}

fn excerpt(text: &str) -> String {
    text.chars().take(PROBLEM_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use folio_proto::v1::{CreateTagRequest, Tag};

    use super::*;

    fn read(body: &str, key: Option<&str>) -> Result<CreateTagRequest> {
        let descriptor = descriptors::POOL.get_message_by_name("folio.v1.CreateTagRequest").unwrap();
        let key = key.map(|key| key.parse().unwrap());
        let bytes = message(descriptor, body.as_bytes(), key.as_ref())?;
        let (head, encoded) = bytes.split_at(5);
        assert_eq!(head, prefix(encoded.len()));
        Ok(CreateTagRequest::decode(encoded).unwrap())
    }

    #[test]
    fn names_of_fields_are_read_in_both_spellings() {
        let tag = Tag { name: "a".into(), created_by: "b".into(), ..Tag::default() };
        let expected = CreateTagRequest { tag: Some(tag), request_id: "1".into() };
        assert_eq!(read(r#"{"tag": {"name": "a", "created_by": "b"}, "request_id": "1"}"#, None).unwrap(), expected);
        assert_eq!(read(r#"{"tag": {"name": "a", "createdBy": "b"}, "requestId": "1"}"#, None).unwrap(), expected);
        assert_eq!(read("", None).unwrap(), CreateTagRequest::default());
    }

    #[test]
    fn the_idempotency_key_is_the_request_id() {
        assert_eq!(read("{}", Some("k")).unwrap().request_id, "k");
        assert_eq!(read(r#"{"request_id": "k"}"#, Some("k")).unwrap().request_id, "k");
        let error = read(r#"{"request_id": "other"}"#, Some("k")).unwrap_err();
        assert_eq!(error.violations[0].field, "request_id");
    }

    #[test]
    fn malformed_json_is_refused_by_its_field() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (body, field) in [
            ("{", ""),
            ("[]", ""),
            ("null x", ""),
            (deep.as_str(), ""),
            (r#"{"tag": 1}"#, "tag"),
            (r#"{"tag": {"name": 1}}"#, "tag.name"),
            (r#"{"tag": {"name": "a", "update_time": "yesterday"}}"#, "tag.update_time"),
        ] {
            let error = read(body, None).unwrap_err();
            assert_eq!((error.code, error.reason), (Code::InvalidArgument, Reason::InvalidField), "{body}");
            let named = error.violations.first().map_or("", |violation| violation.field.as_str());
            assert_eq!(named, field, "{body}: {error}");
        }
        assert!(read(r#"{"colour": "red"}"#, None).unwrap_err().message.contains("colour"));
    }

    #[test]
    fn only_json_is_read() {
        let check = |value: &'static str| {
            check_headers(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]))
        };
        assert!(check("application/json").is_ok() && check("application/JSON; charset=utf-8").is_ok());
        for refused in
            ["text/plain", "application/proto", "application/connect+json", "application/x-www-form-urlencoded"]
        {
            assert_eq!(check(refused).unwrap_err().reason, Reason::UnsupportedType, "{refused}");
        }
        assert!(check_headers(&HeaderMap::new()).is_err());
    }
}
