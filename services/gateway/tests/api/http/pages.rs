//! The OpenAPI document, its page, the web page, and paths that are not served.

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;

#[tokio::test]
async fn the_document_and_its_page_need_no_token() {
    let server = Server::start().await;
    let http = Http::new(&server, &server.stranger(None));
    let document = http.get("/openapi.json").await;
    assert_eq!((document.status.as_u16(), document.header("content-type")), (200, "application/json"));
    assert_eq!(&document.json(), folio_gateway::openapi());
    let etag = document.header("etag").to_owned();
    let known = http.send(http.request(Method::GET, "/openapi.json").header("if-none-match", etag)).await;
    assert_eq!(known.status, 304);
    let docs = http.get("/docs").await;
    assert_eq!((docs.status.as_u16(), docs.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(docs.header("content-security-policy").starts_with("default-src 'none'"));
    server.stop().await;
}

#[tokio::test]
async fn paths_and_methods_that_are_not_served_are_answered_in_the_form_of_their_face() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let tags = format!("/v0/orgs/{}/tags", client.org);
    for (method, path, status, body) in [
        (Method::GET, "/v0/nothing".to_owned(), 404, json!({ "detail": "Not Found" })),
        (Method::PATCH, tags.clone(), 405, json!({ "detail": "Method Not Allowed" })),
        (
            Method::GET,
            format!("/v0/orgs/{}/forms", client.org),
            501,
            json!({ "detail": "Not supported by this server: GET /v0/orgs/{organization_id}/forms" }),
        ),
    ] {
        let answer = http.json(method, &path, &Value::Null).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (status, body), "{path}");
    }
    let allowed = http.json(Method::PATCH, &tags, &Value::Null).await;
    let mut methods: Vec<&str> = allowed.header("allow").split(", ").collect();
    methods.sort_unstable();
    assert_eq!(methods, ["GET", "POST"]);
    assert_eq!(http.json(Method::HEAD, &tags, &Value::Null).await.status, 405);
    for (method, path, status) in [
        (Method::GET, "/nothing", 404),
        (Method::POST, "/folio.v1.TagService/Nothing", 404),
        (Method::GET, "/folio.v1.TagService/GetTag", 405),
        (Method::POST, "/grpc.health.v1.Health/Check", 404),
    ] {
        let answer = http.json(method, path, &Value::Null).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (status, "application/problem+json"),
            "{path}"
        );
        assert_eq!(answer.json()["status"], status);
    }
    for path in [format!("//v0/orgs/{}/tags", client.org), format!("{tags}/"), format!("/fastapi{tags}")] {
        assert_eq!(http.get(&path).await.status, 200, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_web_page_and_its_views_are_served_to_browsers_without_a_token() {
    let server = Server::start().await;
    let http = Http::new(&server, &server.stranger(None));
    let index = http.get("/").await;
    assert_eq!((index.status.as_u16(), index.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!((index.header("cache-control"), index.header("x-content-type-options")), ("no-cache", "nosniff"));
    let policy = index.header("content-security-policy");
    assert!(policy.contains("; script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(index.text.contains("contains no web page"), !folio_gateway::has_web_page());
    let known = http.request(Method::GET, "/").header("if-none-match", index.header("etag"));
    assert_eq!(http.send(known).await.status, 304);
    let opened = async |path: &str| http.send(http.request(Method::GET, path).header("accept", "text/html")).await;
    for path in ["/documents/doc_1", "/inbox", "/turns/thr_1.2"] {
        let view = opened(path).await;
        assert_eq!((view.status.as_u16(), &view.text), (200, &index.text), "{path}");
        assert_eq!(http.get(path).await.status, 404, "{path}: a program receives no page");
    }
    for path in ["/assets/none.js", "/v0/nothing", "/folio.v1.TagService/Nothing"] {
        assert!(opened(path).await.status.is_client_error(), "{path}");
    }
    server.stop().await;
}
