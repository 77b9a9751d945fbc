//! Health, bounds and the end of the server.

use std::time::Duration;

use folio_gateway::Options;
use folio_proto::v1;
use folio_types::{Code, Reason};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use v1::upload_document_request::Part;

use crate::harness::{Client, Server, refused};

async fn health(server: &Server, service: &str) -> Result<ServingStatus, tonic::Status> {
    let mut client = HealthClient::new(server.channel.clone());
    let answer = client.check(HealthCheckRequest { service: service.into() }).await?;
    Ok(answer.into_inner().status())
}

/// An upload that has begun and waits for more bytes until its sender goes.
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
async fn invariant_10_over_the_bound_of_calls_the_answer_comes_at_once() {
    let server = Server::with(Options { long_calls: 1, ..Options::default() }).await;
    let client = server.member().await;
    let (sender, upload) = open_upload(&client).await;
    let other = client.clone();
    let error = folio_testkit::wait_for("the second long call is refused", Duration::from_secs(10), || async {
        let missing = folio_types::DocumentId::derive(&["x"]).to_string();
        let answer = other.documents().download_document(v1::DownloadDocumentRequest { document_id: missing }).await;
        let error = refused(answer, "download");
        (error.code == Code::ResourceExhausted).then_some(error)
    })
    .await;
    assert_eq!(error.reason, Reason::Overloaded);
    assert!(error.retry_after.is_some());
    client.tag("short calls have places of their own").await;
    drop(sender);
    assert_eq!(refused(upload.await.unwrap(), "an empty file").reason, Reason::InvalidField);
    client.upload("a.txt", "hello", "").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_silent_upload_ends() {
    let server = Server::with(Options { transfer_idle: Duration::from_millis(100), ..Options::default() }).await;
    let client = server.member().await;
    let (_sender, upload) = open_upload(&client).await;
    assert_eq!(refused(upload.await.unwrap(), "silent").code, Code::DeadlineExceeded);
    server.stop().await;
}

#[tokio::test]
async fn what_is_left_when_the_drain_ends_is_told_so() {
    let mut server = Server::start().await;
    let client = server.member().await;
    let (_sender, upload) = open_upload(&client).await;
    client.tag("the upload was admitted before this").await;
    server.shutdown.begin.cancel();
    server.shutdown.cut.cancel();
    let error = refused(upload.await.unwrap(), "cut");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Draining));
    server.serving.take().unwrap().await.unwrap().unwrap();
}
