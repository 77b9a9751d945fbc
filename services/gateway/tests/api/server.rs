//! Health, bounds and shutdown of the server.

use std::time::Duration;

use folio_gateway::Options;
use folio_proto::v1;
use folio_types::{Code, Reason};
use serde_json::json;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use v1::upload_document_request::Part;

use crate::harness::{Client, Server, refused};

async fn health(server: &Server, service: &str) -> Result<ServingStatus, tonic::Status> {
    check(server.channel.clone(), service).await
}

async fn check(channel: Channel, service: &str) -> Result<ServingStatus, tonic::Status> {
    let response = HealthClient::new(channel).check(HealthCheckRequest { service: service.into() }).await?;
    Ok(response.into_inner().status())
}

/// Starts an upload that waits for more bytes until the returned sender is dropped.
async fn open_upload(
    client: &Client,
) -> (tokio::sync::mpsc::Sender<v1::UploadDocumentRequest>, tokio::task::JoinHandle<Result<(), tonic::Status>>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let description = v1::DocumentDescription { name: "slow.txt".into(), ..Default::default() };
    sender.send(v1::UploadDocumentRequest { part: Some(Part::Description(description)) }).await.unwrap();
    let mut documents = client.documents();
    let upload = tokio::spawn(async move {
        documents.upload_document(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.map(drop)
    });
    (sender, upload)
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = Server::start().await;
    assert_eq!(health(&server, "").await.unwrap(), ServingStatus::Serving);
    assert_eq!(health(&server, "folio.v1.TagService").await.unwrap(), ServingStatus::Serving);
    assert_eq!(health(&server, "folio.v1.Nothing").await.unwrap_err().code(), tonic::Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn invariant_10_calls_beyond_the_bound_are_refused_at_once() {
    let server = Server::with(Options { long_calls: 1, ..Options::default() }).await;
    let client = server.member().await;
    let (sender, upload) = open_upload(&client).await;
    let other = client.clone();
    let error = folio_testkit::wait_for("the second long call is refused", Duration::from_secs(30), || async {
        let missing = folio_types::DocumentId::derive(&["x"]).to_string();
        let answer =
            other.documents().download_document(v1::DownloadDocumentRequest { document_id: missing, form: 0 }).await;
        let error = refused(answer, "download");
        (error.code == Code::ResourceExhausted).then_some(error)
    })
    .await;
    assert_eq!(error.reason, Reason::Overloaded);
    assert!(error.retry_after.is_some());
    client.tag("short calls have a separate limit").await;
    drop(sender);
    assert_eq!(refused(upload.await.unwrap(), "an empty file").reason, Reason::InvalidField);
    client.upload("a.txt", "hello", "").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_silent_upload_ends() {
    let server = Server::with(Options { transfer_idle: Duration::from_millis(500), ..Options::default() }).await;
    let client = server.member().await;
    let (_sender, upload) = open_upload(&client).await;
    assert_eq!(refused(upload.await.unwrap(), "silent").code, Code::DeadlineExceeded);
    server.stop().await;
}

#[tokio::test]
async fn calls_that_remain_when_the_drain_ends_receive_draining() {
    let mut server = Server::start().await;
    let client = server.member().await;
    let (_sender, upload) = open_upload(&client).await;
    client.tag("the upload was admitted before this").await;
    server.shutdown.begin.cancel();
    server.shutdown.abort.cancel();
    let error = refused(upload.await.unwrap(), "an upload that the drain aborted");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Draining));
    server.serving.take().unwrap().await.unwrap().unwrap();
}

#[tokio::test]
async fn invariant_10_calls_beyond_the_bound_of_connections_are_refused_until_a_permit_is_free() {
    let server = Server::with(Options { connections: 2, ..Options::default() }).await;
    // The harness uses one connection, from its first call on.
    let client = server.member().await;
    client.tag("first").await;
    let second = client.on(server.connect().await);
    second.tag("second").await;
    let third = client.on(server.connect().await);
    let error = third.refusal("ListTags", json!({})).await;
    assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::Overloaded));
    assert!(error.retry_after.is_some() && error.message.contains("connections"), "{error}");
    assert_eq!(check(third.channel.clone(), "").await.unwrap(), ServingStatus::Serving, "health is never refused");
    client.tag("third").await;
    drop(second);
    folio_testkit::wait_for("the third connection gets the free permit", Duration::from_secs(30), || async {
        third.call("ListTags", json!({})).await.ok()
    })
    .await;
    let fourth = client.on(server.connect().await);
    assert_eq!(fourth.refusal("ListTags", json!({})).await.reason, Reason::Overloaded);
    server.stop().await;
}

#[tokio::test]
async fn an_organization_cannot_take_all_connections() {
    let server = Server::with(Options { connections: 3, connections_per_organization: 1, ..Options::default() }).await;
    let (client, other) = (server.member().await, server.member().await);
    client.tag("first").await;
    let second = client.on(server.connect().await);
    assert!(second.refusal("ListTags", json!({})).await.message.contains("the organization"));
    other.on(server.connect().await).tag("other").await;
    server.stop().await;
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    use tokio::io::AsyncReadExt as _;
    let keepalive = Duration::from_millis(500);
    let options = Options { keepalive_interval: keepalive, keepalive_timeout: keepalive, ..Options::default() };
    let server = Server::with(options).await;
    let mut silent = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let closed = async {
        let mut bytes = Vec::new();
        silent.read_to_end(&mut bytes).await
    };
    let _ = tokio::time::timeout(Duration::from_secs(30), closed).await.expect("the connection is closed");
    // A connection that answers pings stays open.
    assert_eq!(health(&server, "").await.unwrap(), ServingStatus::Serving);
    server.stop().await;
}

#[tokio::test]
async fn an_unread_response_releases_its_permit() {
    let options = Options { long_calls: 1, unread: Duration::from_secs(5), ..Options::default() };
    let server = Server::with(options).await;
    let client = server.member().await;
    let document = client.upload("a.txt", &"text ".repeat(200_000), "").await.unwrap();
    // The flow-control window is smaller than the response.
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let small = endpoint.initial_stream_window_size(65_535).initial_connection_window_size(1 << 20);
    let mut client = client;
    client.channel = small.connect().await.unwrap();
    let download = async || {
        let request = v1::DownloadDocumentRequest { document_id: document.document_id.clone(), form: 0 };
        client.documents().download_document(request).await.map(tonic::Response::into_inner)
    };
    let mut unread = download().await.unwrap();
    assert_eq!(refused(download().await, "the only permit is in use").code, Code::ResourceExhausted);
    let read = async || download().await.ok();
    let mut other = folio_testkit::wait_for("the permit is free", Duration::from_secs(20), read).await;
    let mut bytes = 0;
    while let Some(part) = other.message().await.unwrap() {
        bytes += if let Some(v1::download_document_response::Part::Chunk(chunk)) = part.part { chunk.len() } else { 0 };
    }
    assert_eq!(bytes, 1_000_000, "a client that reads receives all bytes");
    // A late reader receives the buffered bytes and then the error that ended the response.
    let error = loop {
        match unread.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a truncated response ended without an error"),
            Err(status) => break refused::<()>(Err(status), "unread"),
        }
    };
    assert_eq!((error.code, error.reason), (Code::DeadlineExceeded, Reason::DeadlineExceeded));
    assert!(error.message.contains("unread"), "{error}");
    server.stop().await;
}
