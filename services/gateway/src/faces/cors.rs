//! Cross-origin requests of browsers (CORS). The settings name the origins.

use http::header::{self, HeaderName};
use http::{HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::options::Options;

/// The setting that permits every origin.
pub(crate) const ANY_ORIGIN: &str = "*";

/// Time for which a browser caches the answer to a preflight request.
const MAX_AGE: std::time::Duration = std::time::Duration::from_secs(600);

/// Response headers that pages may read.
const EXPOSED: [HeaderName; 12] = [
    header::CONTENT_DISPOSITION,
    header::ETAG,
    header::RETRY_AFTER,
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("x-request-id"),
    header::ALLOW,
    header::LOCATION,
];

/// Returns the layer that answers preflight requests and adds the headers to every response, also to refusals. Callers
/// present their token in a header, so that no page can use the credentials of another one.
pub(crate) fn cors(options: &Options) -> CorsLayer {
    let is_any = options.cors_origins.iter().any(|origin| origin == ANY_ORIGIN);
    let origins = options.cors_origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let origin = if is_any { AllowOrigin::any() } else { AllowOrigin::list(origins) };
    CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(MAX_AGE)
}

/// Returns true if a text is an origin: `https://HOST[:PORT]`, `http://HOST[:PORT]`, or [`ANY_ORIGIN`].
pub(crate) fn is_origin(text: &str) -> bool {
    if text == ANY_ORIGIN {
        return true;
    }
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    !host.is_empty() && host.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_without_a_path() {
        for good in ["*", "https://app.example.com", "http://localhost:3000", "http://[::1]:8080"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["", "example.com", "https://", "https://a/", "https://a b", "null", "ftp://a", "https://*"] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
