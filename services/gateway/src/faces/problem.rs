//! Errors as `application/problem+json` (RFC 9457), outside the REST routes that clients of DocRouter call.

use axum::response::{IntoResponse as _, Response};
use folio_types::Error;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

use crate::http_status::{http_status, public};

pub(crate) fn problem(error: Error) -> Response {
    let status = http_status(&error);
    let error = public(error);
    respond(status, error.reason.as_str(), &error.message)
}

/// Returns the problem of a path that no face serves.
pub(super) fn not_found() -> Response {
    respond(StatusCode::NOT_FOUND, "NOT_FOUND", "this path is not served; /docs lists the served paths")
}

pub(super) fn method_not_allowed() -> Response {
    respond(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "the path does not have this method")
}

fn respond(status: StatusCode, code: &str, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    (status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
