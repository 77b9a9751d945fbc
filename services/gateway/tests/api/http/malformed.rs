//! Malformed requests over plain HTTP: each is answered with a client error, and the server continues.

use std::time::Duration;

use folio_gateway::{Options, rest_routes, rpc_path};
use folio_operations::operations;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Http, path};
use crate::harness::Server;

/// Sends bytes on a new connection and returns everything that the server answers until it closes the connection or is
/// silent.
async fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(count @ 1..)) = tokio::time::timeout(Duration::from_millis(500), stream.read(&mut buffer)).await {
        received.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&received).into_owned()
}

fn statuses(received: &str) -> Vec<&str> {
    received.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect()
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_by_every_operation_and_route() {
    let server = Server::start().await;
    let client = server.signed_in(&OrgId::generate(&System), Role::Admin, true).await;
    let http = Http::new(&server, &client);
    let deep = "[".repeat(100_000);
    let bodies = ["{", "[1]", "\"text\"", "1e999", "\u{0}", deep.as_str()];
    for operation in operations() {
        for body in bodies {
            let request = http.request(Method::POST, &rpc_path(operation)).header("content-type", "application/json");
            let answer = http.send(request.body(body.to_owned())).await;
            let expected = if operation.name == "UploadDocument" { 501 } else { 400 };
            assert_eq!(answer.status.as_u16(), expected, "{} {:.20}: {answer:?}", operation.name, body);
        }
        let request = http.request(Method::POST, &rpc_path(operation)).header("content-type", "text/plain");
        let answer = http.send(request.body("{}")).await;
        assert!([415, 501].contains(&answer.status.as_u16()), "{}: {answer:?}", operation.name);
    }
    for route in rest_routes().filter(|route| route.is_served && [Method::POST, Method::PUT].contains(&route.method)) {
        let path = path(&route, |name| if name == "organization_id" { client.org.to_string() } else { "x".to_owned() });
        for body in bodies {
            let request = http.request(route.method.clone(), &path).header("content-type", "application/json");
            let answer = http.send(request.body(body.to_owned())).await;
            let is_refused = [404, 415, 422].contains(&answer.status.as_u16());
            assert!(is_refused && !answer.detail().is_null(), "{} {path} {body:.20}: {answer:?}", route.method);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_or_too_slow_is_refused() {
    let options = Options { message_timeout: Duration::from_millis(200), ..Options::default() };
    let server = Server::with(options).await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let tags = format!("/v0/orgs/{}/tags", client.org);
    let large = json!({ "name": "x".repeat(5 * 1024 * 1024) });
    // The server reads a part of the excess, so that a client that first sends everything receives the answer.
    for (path, field) in [(tags.as_str(), "code"), ("/folio.v1.TagService/CreateTag", "code")] {
        let answer = http.json(Method::POST, path, &large).await;
        assert_eq!(answer.status, 413, "{path}");
        assert!(!answer.json()[field].is_null(), "{answer:?}");
    }
    let authorization = client.authorization().unwrap();
    for path in [tags.as_str(), "/folio.v1.TagService/CreateTag"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n{{"
        );
        let received = exchange(&server, head.as_bytes()).await;
        assert_eq!(statuses(&received), ["504"], "{received}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_cannot_contain_another_one() {
    let server = Server::start().await;
    let client = server.member().await;
    let authorization = client.authorization().unwrap();
    let tags = format!("/v0/orgs/{}/tags", client.org);
    let head = format!(
        "POST {tags} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n"
    );
    let hidden = format!(
        "POST {tags} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\nContent-Length: 18\r\n\r\n{{\"name\": \"hidden\"}}"
    );
    let chunked = "0\r\n\r\n";
    for headers in [
        "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 5, 6\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding\u{0}: chunked\r\n".to_owned(),
        "X: a\r\n Content-Length: 5\r\n".to_owned(),
    ] {
        let received = exchange(&server, format!("{head}{headers}\r\n{chunked}{hidden}").as_bytes()).await;
        assert!(statuses(&received).iter().all(|status| status.starts_with('4')), "{headers}: {received}");
        assert!(statuses(&received).len() <= 1, "{headers}: {received}");
    }
    // With both headers, the chunks count, and the connection reads the same bytes as a proxy that does likewise.
    let both = format!(
        "{head}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
        chunked.len() + hidden.len()
    );
    let received = exchange(&server, both.as_bytes()).await;
    assert!(statuses(&received).iter().all(|status| status.starts_with('4')), "{received}");
    let listed = client.call_ok("ListTags", json!({})).await;
    assert_eq!(listed, json!({}), "no hidden request was served");
    server.stop().await;
}

#[tokio::test]
async fn a_header_that_belongs_to_the_connection_is_refused_in_http2() {
    let server = Server::start().await;
    let client = server.member().await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{}/v0/orgs/{}/tags", server.address, client.org);
    let answer = http2.get(&url).header("authorization", client.authorization().unwrap()).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    // A path with an encoded separator or a line break stays one segment of one request.
    for id in ["..%2f..%2fschemas", "tag%0d%0aHost:%20b", "%00", "tag_%C3%BC"] {
        let answer = http2.get(format!("{url}/{id}")).header("authorization", client.authorization().unwrap());
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 404, "{id}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["detail"], "Tag not found", "{id}");
    }
    server.stop().await;
}
