//! The OpenAPI document of the HTTP faces, and the pages that show it.
//!
//! | path | content |
//! |---|---|
//! | `/openapi.json` | OpenAPI 3.1 |
//! | `/docs` | the same as a page, without scripts and without requests to third parties |
//!
//! [`messages`] describes the messages of the API by their descriptors, [`document`] the routes by the declarations of the
//! operations and by the types of the handlers.

mod docs;
mod document;
mod messages;

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use folio_types::Digest;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use http::{HeaderName, Method, StatusCode};
use serde_json::Value;

/// A page that does not change while the process runs.
struct Page {
    content_type: &'static str,
    body: Bytes,
    etag: String,
}

impl Page {
    fn new(content_type: &'static str, body: String) -> Self {
        let etag = format!("\"{}\"", Digest::of(body.as_bytes()));
        Self { content_type, body: body.into(), etag }
    }

    fn response(&self) -> Response {
        let nosniff = (HeaderName::from_static("x-content-type-options"), "nosniff");
        let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";
        let headers = [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, "public, max-age=60"),
            (CONTENT_SECURITY_POLICY, policy),
            (ETAG, self.etag.as_str()),
            nosniff,
        ];
        (StatusCode::OK, headers, self.body.clone()).into_response()
    }
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(document::document);
static JSON: LazyLock<Page> = LazyLock::new(|| Page::new("application/json", DOCUMENT.to_string()));
static DOCS: LazyLock<Page> = LazyLock::new(|| Page::new("text/html; charset=utf-8", docs::page(&DOCUMENT)));

/// Returns the OpenAPI document.
pub fn openapi() -> &'static Value {
    &DOCUMENT
}

/// Returns the response to a request of a page. None: the path is not served.
pub(crate) fn page(method: &Method, path: &str) -> Option<Response> {
    let page = match path {
        "/openapi.json" => &JSON,
        "/docs" | "/docs/" => &DOCS,
        _ => return None,
    };
    if *method == Method::GET || *method == Method::HEAD {
        return Some(page.response());
    }
    Some(StatusCode::METHOD_NOT_ALLOWED.into_response())
}
