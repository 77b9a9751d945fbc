//! The web page: the files of `web/dist`, which `build.rs` embeds with their compressed forms.
//!
//! | path | response |
//! |---|---|
//! | `/` | `index.html`, or instructions if the build contains no page |
//! | a file of the page | the file; a file below `/assets/` has a name with its digest and never changes |
//! | another path, for a browser that opens it (`Accept: text/html`) | `index.html`, whose scripts show the view of the path |
//! | another path | none: the caller answers that the path is not served |
//!
//! The page contains no secret and needs no token. The content security policy permits no inline script and no request to
//! a third party.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use folio_types::Digest;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// A file of the page.
struct File {
    /// Path from the root, such as `/index.html`.
    path: &'static str,
    content_type: &'static str,
    whole: &'static [u8],
    /// None: the file is not stored in this form.
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

const INDEX: &str = "/index.html";
/// The folder of the files with a digest in their name.
const ASSETS: &str = "/assets/";

/// Styles of elements are set by the components of the page; images of pages of documents are object URLs.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

static MISSING: File = File {
    path: INDEX,
    content_type: "text/html; charset=utf-8",
    whole: b"<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Folio</title>\n\
        <h1>This build of Folio contains no web page</h1>\n\
        <p>To get the page, build it before the binary, from the root of the repository:</p>\n\
        <pre>npm --prefix clients/typescript ci\nnpm --prefix web ci\nnpm --prefix web run build\ncargo build --release -p folio</pre>\n\
        <p>The API works without the page: <a href=\"/docs\">/docs</a> lists its paths.</p>\n\
        </html>\n",
    gzip: None,
    brotli: None,
};

static PAGE: LazyLock<Page> = LazyLock::new(|| Page::new(FILES));

/// Returns true if this build contains the web page. Without it, `/` explains how to build it.
pub fn has_web_page() -> bool {
    FILES.iter().any(|file| file.path == INDEX)
}

/// Returns the response to a request for a path that no other face serves. None: the path is not served.
pub(crate) fn respond(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    PAGE.respond(method, path, headers)
}

/// Files by their path, each with its etag.
struct Page {
    files: BTreeMap<&'static str, (&'static File, String)>,
    index: (&'static File, String),
}

impl Page {
    fn new(files: &'static [File]) -> Self {
        let with_etag = |file: &'static File| (file, Digest::of(file.whole).to_string());
        let index = files.iter().find(|file| file.path == INDEX).unwrap_or(&MISSING);
        Self { files: files.iter().map(|file| (file.path, with_etag(file))).collect(), index: with_etag(index) }
    }

    fn respond(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
        if *method != Method::GET && *method != Method::HEAD {
            return None;
        }
        let is_navigation = || !path.starts_with(ASSETS) && accepts(headers, ACCEPT, "text/html");
        let found = self.files.get(path);
        let found = found.or_else(|| (path == "/" || is_navigation()).then_some(&self.index));
        found.map(|(file, digest)| file.response(digest, headers))
    }
}

impl File {
    fn response(&self, digest: &str, headers: &HeaderMap) -> Response {
        let forms = [("br", self.brotli), ("gzip", self.gzip)];
        let mut accepted = forms.into_iter().filter(|(name, _)| accepts(headers, ACCEPT_ENCODING, name));
        let form = accepted.find_map(|(name, body)| Some((name, body?)));
        let (suffix, body) = form.unwrap_or(("", self.whole));
        let cache = if self.path.starts_with(ASSETS) { "public, max-age=31536000, immutable" } else { "no-cache" };
        let fixed = [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, cache),
            (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (VARY, "accept-encoding"),
        ];
        let mut response = (StatusCode::OK, fixed, Bytes::from_static(body)).into_response();
        if let Ok(etag) = HeaderValue::from_str(&format!("\"{digest}{suffix}\"")) {
            response.headers_mut().insert(ETAG, etag);
        }
        if let Some((name, _)) = form {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(name));
        }
        response
    }
}

/// Returns true if a header names a value and does not refuse it with the weight 0.
fn accepts(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    let lists = headers.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|named| named.eq_ignore_ascii_case(value));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_named && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static SAMPLE: &[File] = &[
        File {
            path: "/assets/app-1a2b.js",
            content_type: "text/javascript; charset=utf-8",
            whole: b"whole",
            gzip: Some(b"gzip"),
            brotli: Some(b"brotli"),
        },
        File { path: "/icon.png", content_type: "image/png", whole: b"icon", gzip: None, brotli: None },
        File {
            path: INDEX,
            content_type: "text/html; charset=utf-8",
            whole: b"index",
            gzip: Some(b"zip"),
            brotli: None,
        },
    ];

    fn headers(entries: &[(HeaderName, &'static str)]) -> HeaderMap {
        entries.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn header(response: &Response, name: &HeaderName) -> String {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    async fn body(response: Response) -> Bytes {
        axum::body::to_bytes(response.into_body(), 4_096).await.unwrap()
    }

    #[tokio::test]
    async fn a_file_is_sent_in_the_best_form_that_the_client_accepts() {
        let page = Page::new(SAMPLE);
        let mut etags = std::collections::BTreeSet::new();
        for (accepted, encoding, expected) in [
            ("gzip, deflate, br", "br", "brotli"),
            ("gzip", "gzip", "gzip"),
            ("br;q=0, gzip;q=0.5", "gzip", "gzip"),
            ("br; q=0, gzip; q=0", "", "whole"),
            ("identity", "", "whole"),
        ] {
            let request = headers(&[(ACCEPT_ENCODING, accepted)]);
            let response = page.respond(&Method::GET, "/assets/app-1a2b.js", &request).unwrap();
            assert_eq!(header(&response, &CONTENT_ENCODING), encoding, "{accepted}");
            assert_eq!(header(&response, &VARY), "accept-encoding");
            assert_eq!(header(&response, &CACHE_CONTROL), "public, max-age=31536000, immutable");
            etags.insert(header(&response, &ETAG));
            assert_eq!(body(response).await, expected, "{accepted}");
        }
        assert_eq!(etags.len(), 3, "each form has its own etag");
        let plain = page.respond(&Method::GET, "/icon.png", &headers(&[(ACCEPT_ENCODING, "gzip, br")])).unwrap();
        assert_eq!(
            (header(&plain, &CONTENT_ENCODING), header(&plain, &CACHE_CONTROL)),
            (String::new(), "no-cache".into())
        );
    }

    #[tokio::test]
    async fn a_browser_that_opens_a_view_receives_the_index_and_other_clients_do_not() {
        let page = Page::new(SAMPLE);
        let browser = headers(&[(ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")]);
        let program = headers(&[(ACCEPT, "application/json")]);
        let found = |method: Method, path: &str, headers: &HeaderMap| page.respond(&method, path, headers);
        for (method, path, headers, expected) in [
            (Method::GET, "/", &program, true),
            (Method::HEAD, "/", &browser, true),
            (Method::POST, "/", &browser, false),
            (Method::GET, INDEX, &program, true),
            (Method::GET, "/documents/doc_1", &browser, true),
            (Method::GET, "/turns/thr_1.2", &browser, true),
            (Method::GET, "/documents/doc_1", &program, false),
            (Method::GET, "/assets/app-old.js", &browser, false),
            (Method::GET, "/assets/../../etc/passwd", &browser, false),
        ] {
            let response = found(method.clone(), path, headers);
            assert_eq!(response.is_some(), expected, "{method} {path}");
            let Some(response) = response else { continue };
            let policy = header(&response, &CONTENT_SECURITY_POLICY);
            let scripts = policy.split("; ").find(|part| part.starts_with("script-src"));
            assert_eq!(scripts, Some("script-src 'self'"), "no inline script");
            assert_eq!(header(&response, &CACHE_CONTROL), "no-cache");
            assert_eq!(body(response).await, "index", "{path}");
        }
    }

    #[tokio::test]
    async fn a_build_without_the_page_explains_how_to_get_it() {
        let page = Page::new(&[]);
        let response = page.respond(&Method::GET, "/", &HeaderMap::new()).unwrap();
        assert_eq!(header(&response, &CONTENT_TYPE), "text/html; charset=utf-8");
        let text = String::from_utf8(body(response).await.to_vec()).unwrap();
        // The page contains the client, whose installation builds it.
        let steps =
            ["npm --prefix clients/typescript ci", "npm --prefix web ci", "npm --prefix web run build", "cargo build"];
        let found: Vec<_> = steps.iter().map(|step| text.find(step)).collect();
        assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{text}");
        assert!(!text.contains("<script"), "{text}");
        assert!(page.respond(&Method::GET, "/assets/app.js", &HeaderMap::new()).is_none());
    }

    #[test]
    fn the_embedded_files_have_a_form_for_each_client() {
        for file in FILES {
            assert!(file.path.starts_with('/') && !file.content_type.is_empty(), "{}", file.path);
            let is_text = file.content_type.starts_with("text/");
            assert!(file.gzip.is_some() || !is_text, "{} has no compressed form", file.path);
        }
        assert_eq!(has_web_page(), PAGE.files.contains_key(INDEX));
    }
}
