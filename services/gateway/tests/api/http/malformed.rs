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

/// Time within which a server on a busy machine begins to answer.
const BEGINS_WITHIN: Duration = Duration::from_secs(20);
/// Time without a further byte after which an answer counts as complete.
const SILENCE: Duration = Duration::from_secs(3);

/// Sends bytes on a new connection and returns everything that the server answers until it closes the connection or is
/// silent.
async fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let limit = if received.is_empty() { BEGINS_WITHIN } else { SILENCE };
        match tokio::time::timeout(limit, stream.read(&mut buffer)).await {
            Ok(Ok(count @ 1..)) => received.extend_from_slice(&buffer[..count]),
            _ => return String::from_utf8_lossy(&received).into_owned(),
        }
    }
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
    let brief = Duration::from_secs(1);
    let options = Options { message_timeout: brief, transfer_idle: brief, ..Options::default() };
    let server = Server::with(options).await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let tags = format!("/v0/orgs/{}/tags", client.org);
    let large = json!({ "name": "x".repeat(5 * 1024 * 1024) });
    // The server reads a part of the excess, so that a client that first sends everything receives the answer.
    let paths = [tags.as_str(), "/folio.v1.TagService/CreateTag", "/mcp"];
    for path in paths {
        let answer = http.json(Method::POST, path, &large).await;
        assert_eq!(answer.status, 413, "{path}");
        assert!(!answer.json()["code"].is_null(), "{answer:?}");
    }
    let authorization = client.authorization().unwrap();
    for path in paths {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n{{"
        );
        let received = exchange(&server, head.as_bytes()).await;
        assert_eq!(statuses(&received), ["504"], "{received}");
    }
    // Uploads may take longer, but not be silent.
    let documents = format!("/v0/orgs/{}/documents", client.org);
    for (path, content_type, start) in [
        (documents.clone(), "application/json", "{\"documents\": ["),
        (
            format!("{documents}/multipart"),
            "multipart/form-data; boundary=B",
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\npart",
        ),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\nContent-Type: {content_type}\r\n\
             Content-Length: 1000\r\n\r\n{start}"
        );
        let received = exchange(&server, head.as_bytes()).await;
        assert_eq!(statuses(&received), ["504"], "{received}");
    }
    assert_eq!(client.call_ok("ListDocuments", json!({})).await, json!({}));
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

/// The answer of a server to a request over HTTP/2.
#[derive(Debug, PartialEq, Eq)]
enum Http2Answer {
    /// The server sent the headers of a response.
    Response,
    /// The server reset the stream, or ended the connection.
    Reset,
}

/// Returns a text of HPACK without compression.
fn hpack_text(text: &str) -> Vec<u8> {
    const PREFIX_MAX: usize = 127;
    let byte = |number: usize| u8::try_from(number).unwrap();
    let length = match text.len().checked_sub(PREFIX_MAX) {
        None => vec![byte(text.len())],
        Some(rest @ ..PREFIX_MAX) => vec![byte(PREFIX_MAX), byte(rest)],
        Some(_) => panic!("the text is too long for two bytes of length"),
    };
    [length.as_slice(), text.as_bytes()].concat()
}

/// Returns a frame of HTTP/2. Stream 0: the connection.
fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [length.as_slice(), &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the first answer in the bytes of a server. None: there is none yet.
fn http2_answer(mut received: &[u8]) -> Option<Http2Answer> {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    const GO_AWAY: u8 = 7;
    while let Some((head, rest)) = received.split_first_chunk::<9>() {
        match head[3] {
            HEADERS => return Some(Http2Answer::Response),
            RESET | GO_AWAY => return Some(Http2Answer::Reset),
            _ => {}
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        (_, received) = rest.split_at_checked(length)?;
    }
    None
}

/// Sends a request over HTTP/2 whose headers no client library sends, and returns the answer.
async fn exchange_http2(server: &Server, headers: &[(&str, &str)], body: &str) -> Http2Answer {
    let block = headers.iter().map(|(name, value)| [&[0][..], &hpack_text(name), &hpack_text(value)].concat());
    let block = block.collect::<Vec<_>>().concat();
    let (settings, end_of_headers, end_of_stream) = (4, 0x4, 0x1);
    let bytes = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        http2_frame(settings, 0, 0, &[]),
        http2_frame(1, end_of_headers, 1, &block),
        http2_frame(0, end_of_stream, 1, body.as_bytes()),
    ];
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&bytes.concat()).await.unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(answer) = http2_answer(&received) {
            return answer;
        }
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await;
        match read.expect("the server answers in time") {
            Ok(count @ 1..) => received.extend_from_slice(&buffer[..count]),
            Ok(0) | Err(_) => return Http2Answer::Reset,
        }
    }
}

#[tokio::test]
async fn a_request_over_http2_that_a_proxy_could_translate_to_two_is_reset() {
    let server = Server::start().await;
    let client = server.member().await;
    let (authorization, path) = (client.authorization().unwrap(), format!("/v0/orgs/{}/tags", client.org));
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path.as_str()),
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    let send = async |more: &[(&str, &str)], name: &str| {
        exchange_http2(&server, &[&usual[..], more].concat(), &json!({ "name": name }).to_string()).await
    };
    for more in [
        &[("transfer-encoding", "chunked")][..],
        &[("connection", "keep-alive")],
        &[("keep-alive", "timeout=5")],
        &[("proxy-connection", "keep-alive")],
        &[("upgrade", "h2c")],
        &[("te", "gzip")],
        &[("content-length", "5")],
        &[("content-length", "500")],
        &[("content-length", "17"), ("content-length", "5")],
        &[("content-length", "+17")],
        &[(":path", "/mcp")],
        &[("x", "a\r\ntransfer-encoding: chunked")],
        &[("x\r\ntransfer-encoding", "chunked")],
        &[("Transfer-Encoding", "chunked")],
        &[("transfer-encoding ", "chunked")],
    ] {
        assert_eq!(send(more, "hidden").await, Http2Answer::Reset, "{more:?}");
    }
    assert_eq!(client.call_ok("ListTags", json!({})).await, json!({}), "no such request was served");
    assert_eq!(send(&[("te", "trailers")], "plain").await, Http2Answer::Response);
    let listed = client.call_ok("ListTags", json!({})).await;
    assert_eq!(listed["tags"][0]["name"], "plain", "the same request without such a header is served");
    server.stop().await;
}

#[tokio::test]
async fn a_connection_is_not_upgraded_to_http2() {
    let server = Server::start().await;
    let client = server.member().await;
    let request = format!(
        "GET /v0/orgs/{}/tags HTTP/1.1\r\nHost: a\r\nAuthorization: {}\r\nConnection: Upgrade, HTTP2-Settings\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        client.org,
        client.authorization().unwrap()
    );
    let received = exchange(&server, request.as_bytes()).await;
    assert_eq!(statuses(&received), ["200"], "{received}");
    server.stop().await;
}

#[tokio::test]
async fn an_encoded_separator_in_a_path_over_http2_stays_in_its_segment() {
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
