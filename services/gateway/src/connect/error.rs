//! Errors of the face Connect: the JSON of the Connect protocol.

use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use folio_proto::status;
use folio_types::Reason;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prost::Message as _;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::descriptors;
use crate::faces::Refused;
use crate::http_status::http_status;

/// Returns the error response of a call that failed before its first message.
pub(crate) fn failure(status: &Status) -> Response {
    let error = status::to_error(status);
    let code = match error.reason {
        Reason::UnsupportedType if status.code() == Code::InvalidArgument => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => http_status(&error),
    };
    let body = body(status).to_string();
    let mut response = (code, [(CONTENT_TYPE, "application/json")], body).into_response();
    response.extensions_mut().insert(Refused(error.reason));
    response
}

/// Returns the error as JSON: the code, the message, and the details, each as bytes and as JSON.
pub(super) fn body(status: &Status) -> Value {
    let details = tonic_types::pb::Status::decode(status.details()).unwrap_or_default().details;
    let details: Vec<Value> = details.iter().map(|detail| detail_of(&detail.type_url, &detail.value)).collect();
    json!({ "code": name(status.code()), "message": status.message(), "details": details })
}

fn detail_of(type_url: &str, bytes: &[u8]) -> Value {
    let name = type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = descriptors::POOL.get_message_by_name(name);
    let message = descriptor.and_then(|descriptor| DynamicMessage::decode(descriptor, bytes).ok());
    let options = SerializeOptions::new();
    let debug =
        message.and_then(|message| message.serialize_with_options(serde_json::value::Serializer, &options).ok());
    json!({ "type": name, "value": STANDARD_NO_PAD.encode(bytes), "debug": debug })
}

/// Returns the name of a code in the Connect protocol.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_types::Error;

    use super::*;

    #[test]
    fn an_error_has_its_code_its_message_and_readable_details() {
        let error = Error::invalid_field("tag.name", "is missing").retry_after(Duration::from_secs(2));
        let body = body(&status::from_error(error));
        assert_eq!(
            (body["code"].as_str(), body["message"].as_str()),
            (Some("invalid_argument"), Some("tag.name: is missing"))
        );
        let details = body["details"].as_array().unwrap();
        let detail = |kind: &str| details.iter().find(|detail| detail["type"] == format!("google.rpc.{kind}")).unwrap();
        assert_eq!(detail("ErrorInfo")["debug"]["reason"], "INVALID_FIELD");
        assert_eq!(detail("BadRequest")["debug"]["fieldViolations"][0]["field"], "tag.name");
        assert_eq!(detail("RetryInfo")["debug"]["retryDelay"], "2s");
        let bytes = STANDARD_NO_PAD.decode(detail("ErrorInfo")["value"].as_str().unwrap()).unwrap();
        assert_eq!(tonic_types::pb::ErrorInfo::decode(bytes.as_slice()).unwrap().domain, status::DOMAIN);
    }
}
