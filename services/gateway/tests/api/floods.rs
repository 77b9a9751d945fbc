//! Callers that occupy what others need: connections, calls and memory.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use folio_gateway::{Options, rpc_path};
use folio_proto::status;
use folio_testkit::wait_for;
use folio_types::{Code, Error, OrgId, Reason, Role, System};
use futures::{Stream, StreamExt as _};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::Service as _;

use crate::calls::{Encoded, operation};
use crate::harness::{Client, Server, refused};

const LIMIT: Duration = Duration::from_secs(20);
/// Time in which a busy machine refuses a call. A call that is admitted ends without an answer after this time.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

/// Sends a call whose request has these parts. Returns the error that ends the call. The server closes a connection with many
/// cancelled calls, so the call is repeated on another connection.
async fn ended<S>(client: &Client, name: &str, parts: impl Fn() -> S) -> Error
where
    S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
{
    loop {
        let parts = parts();
        let request = http::Request::post(rpc_path(operation(name)))
            .header("content-type", "application/grpc")
            .body(Body::new(axum::body::Body::from_stream(parts)))
            .unwrap();
        let mut service = client.authorized();
        std::future::poll_fn(|context| service.poll_ready(context)).await.unwrap();
        if let Ok(response) = service.call(request).await {
            return status::to_error(&Status::from_header_map(response.headers()).expect("the call is refused"));
        }
    }
}

/// Sends a call whose request has these bytes and does not end. Returns the error that ends the call.
async fn incomplete(client: &Client, name: &str, bytes: Vec<u8>) -> Error {
    let first = || futures::stream::iter([Ok::<_, Infallible>(Bytes::from(bytes.clone()))]);
    ended(client, name, || first().chain(futures::stream::pending())).await
}

/// Starts a call whose request does not end, as soon as it is admitted.
fn hold(client: &Client, name: &'static str, bytes: Vec<u8>) -> JoinHandle<Error> {
    let client = client.clone();
    tokio::spawn(async move {
        loop {
            let error = incomplete(&client, name, bytes.clone()).await;
            if error.reason != Reason::Overloaded {
                return error;
            }
        }
    })
}

/// The start of a message of this length.
fn start_of(length: u32) -> Vec<u8> {
    [&[0], length.to_be_bytes().as_slice(), &[0; 100]].concat()
}

async fn user(server: &Server, org: &OrgId) -> Client {
    server.user(org, Role::Member).await
}

#[tokio::test]
async fn invariant_10_a_call_without_a_message_ends_and_frees_its_permit() {
    let timeout = Duration::from_millis(500);
    let server = Server::with(Options { long_calls: 1, message_timeout: timeout, ..Options::default() }).await;
    let client = server.member().await;
    for name in ["Chat", "WatchTurn"] {
        for bytes in [Vec::new(), start_of(1_000), vec![0, 0, 0, 0, 0]] {
            let error = tokio::time::timeout(LIMIT, incomplete(&client, name, bytes)).await;
            assert_eq!(error.expect("the call ends").reason, Reason::DeadlineExceeded, "{name}");
        }
        let messages = || {
            futures::stream::repeat(()).then(move |()| async move {
                // The next message arrives before the time of a message is over.
                tokio::time::sleep(timeout / 5).await;
                Ok::<_, Infallible>(Bytes::from_static(&[0; 5]))
            })
        };
        let error = tokio::time::timeout(LIMIT, ended(&client, name, messages)).await;
        assert_eq!(error.expect("the call ends").reason, Reason::DeadlineExceeded, "{name}");
    }
    client.upload("a.txt", "the permit is free", "").await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn invariant_10_users_and_organizations_have_shares_of_the_calls() {
    let (long_calls, long_calls_per_organization, long_calls_per_user) = (3, 2, 1);
    let server =
        Server::with(Options { long_calls, long_calls_per_organization, long_calls_per_user, ..Options::default() })
            .await;
    let org = OrgId::generate(&System);
    let (first, second, third) = (user(&server, &org).await, user(&server, &org).await, user(&server, &org).await);
    let other = server.member().await;
    let refused_with = async |client: &Client, text: &str| {
        wait_for("the call is refused", LIMIT, || async {
            let call = tokio::time::timeout(REFUSED_WITHIN, incomplete(client, "Chat", Vec::new())).await;
            call.ok().filter(|error| error.reason == Reason::Overloaded && error.message.contains(text))
        })
        .await;
    };
    let mut occupied = vec![hold(&first, "Chat", Vec::new())];
    refused_with(&first, "the user").await;
    occupied.push(hold(&second, "Chat", Vec::new()));
    refused_with(&third, "the organization").await;
    occupied.push(hold(&other, "Chat", Vec::new()));
    refused_with(&server.member().await, "the server").await;
    first.tag("short calls have shares of their own").await;
    occupied.iter().for_each(JoinHandle::abort);
    wait_for("the permits are free", LIMIT, || async { third.upload("a.txt", "text", "").await.ok() }).await;
    // Ends the requests that the client has abandoned.
    server.shutdown.abort.cancel();
    server.stop().await;
}

#[tokio::test]
async fn invariant_10_incomplete_messages_have_a_memory_budget() {
    const MIB: usize = 1024 * 1024;
    let options = Options {
        message_bytes: MIB,
        incomplete_message_bytes: 3 * MIB,
        incomplete_message_bytes_per_organization: 3 * MIB / 2,
        incomplete_message_bytes_per_user: MIB,
        ..Options::default()
    };
    let server = Server::with(options).await;
    let org = OrgId::generate(&System);
    let (first, second, third) = (user(&server, &org).await, user(&server, &org).await, user(&server, &org).await);
    let large = || start_of(600 * 1024);
    let occupied: Vec<_> = [&first, &second].map(|client| hold(client, "Chat", large())).into();
    for (client, text) in [(&first, "the user"), (&third, "the organization")] {
        wait_for("the message is refused", LIMIT, || async {
            let call = tokio::time::timeout(REFUSED_WITHIN, incomplete(client, "CreateTag", large())).await;
            call.ok().filter(|error| error.reason == Reason::Overloaded && error.message.contains(text))
        })
        .await;
    }
    // An upload counts as well, and a small message is not refused.
    let chunk = server.member().await.upload("a.txt", &"text ".repeat(100_000), "").await;
    chunk.expect("another organization has memory");
    third.tag("small").await;
    occupied.iter().for_each(JoinHandle::abort);
    let text = "text ".repeat(100_000);
    wait_for("the memory is free", LIMIT, || async { first.upload("a.txt", &text, "").await.ok() }).await;
    // Ends the requests that the client has abandoned.
    server.shutdown.abort.cancel();
    server.stop().await;
}

async fn watch(channel: Channel) -> Streaming<HealthCheckResponse> {
    let mut watch = HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    watch
}

#[tokio::test]
async fn invariant_10_health_checks_are_answered_during_a_flood_of_streams() {
    let server = Server::with(Options { public_calls: 4, public_calls_per_address: 4, ..Options::default() }).await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(watch(server.channel.clone()).await);
        let check = HealthClient::new(server.channel.clone()).check(HealthCheckRequest::default()).await;
        assert_eq!(check.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    let oldest = watches.first_mut().unwrap();
    let ended = refused(tokio::time::timeout(LIMIT, oldest.message()).await.expect("the stream ends"), "the oldest");
    assert_eq!(ended.reason, Reason::Overloaded);
    drop(watches);
    server.stop().await;
}

#[tokio::test]
async fn invariant_10_messages_of_callers_without_a_token_are_small() {
    let server = Server::with(Options::default()).await;
    let mut health = HealthClient::new(server.channel.clone());
    for (length, reason) in [(1_000, None), (200_000, Some(Reason::TooLarge)), (3_000_000, Some(Reason::TooLarge))] {
        let unknown = health.check(HealthCheckRequest { service: "x".repeat(length) }).await.unwrap_err();
        match reason {
            Some(reason) => assert_eq!(status::to_error(&unknown).reason, reason, "{length}"),
            None => assert_eq!(unknown.code(), tonic::Code::NotFound, "{unknown}"),
        }
    }
    server.stop().await;
}

/// Starts a reflection stream whose request does not end. Returns the error that ends the stream.
async fn reflection(channel: Channel) -> Error {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    let silent = tonic::Request::new(futures::stream::pending::<Vec<u8>>());
    status::to_error(&match grpc.streaming(silent, path, Encoded).await {
        Ok(responses) => responses.into_inner().message().await.expect_err("the stream ends with a status"),
        Err(status) => status,
    })
}

#[tokio::test]
async fn invariant_10_reflection_streams_displace_each_other_and_nothing_else() {
    let server = Server::with(Options { public_calls: 4, public_calls_per_address: 4, ..Options::default() }).await;
    let client = server.member().await;
    let mut flood: Vec<_> = (0..64).map(|_| tokio::spawn(reflection(server.channel.clone()))).collect();
    wait_for("newer streams end older ones", LIMIT, || async {
        (flood.iter().filter(|stream| stream.is_finished()).count() == 60).then_some(())
    })
    .await;
    for name in ["first", "second"] {
        client.tag(name).await;
        client.on(server.connect().await).tag(&format!("{name} on a new connection")).await;
        for channel in [server.channel.clone(), server.connect().await] {
            let check = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
            assert_eq!(check.unwrap().into_inner().status(), ServingStatus::Serving);
        }
        flood.push(tokio::spawn(reflection(server.channel.clone())));
    }
    let (ended, active): (Vec<_>, Vec<_>) = flood.into_iter().partition(JoinHandle::is_finished);
    for stream in ended {
        assert_eq!(stream.await.unwrap().reason, Reason::Overloaded);
    }
    active.iter().for_each(JoinHandle::abort);
    server.stop().await;
}

#[tokio::test]
async fn a_stream_without_a_token_has_a_lifetime() {
    let server = Server::with(Options { public_lifetime: Duration::from_secs(1), ..Options::default() }).await;
    let mut watch = watch(server.channel.clone()).await;
    let ended = refused(tokio::time::timeout(LIMIT, watch.message()).await.expect("the stream ends"), "health");
    assert_eq!(ended.code, Code::DeadlineExceeded);
    let ended = tokio::time::timeout(LIMIT, reflection(server.channel.clone())).await.expect("the stream ends");
    assert_eq!(ended.code, Code::DeadlineExceeded);
    server.stop().await;
}

/// Resolves when the server closes the connection.
async fn closed(mut connection: TcpStream) {
    let _ = connection.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn invariant_10_connections_without_a_token_do_not_exclude_callers_with_a_token() {
    let options = Options {
        connections: 4,
        unauthenticated_connections: 8,
        unauthenticated_connections_per_address: 4,
        ..Options::default()
    };
    let server = Server::with(options).await;
    let client = server.member().await;
    client.tag("an open connection").await;
    let flood = futures::future::join_all((0..100).map(|_| TcpStream::connect(server.address))).await;
    let mut flood: Vec<_> = flood.into_iter().map(|connection| tokio::spawn(closed(connection.unwrap()))).collect();
    client.on(server.connect().await).tag("a new connection").await;
    client.tag("the open connection").await;
    let last = flood.split_off(99);
    let ended = tokio::time::timeout(LIMIT, futures::future::join_all(flood.drain(..90)));
    ended.await.expect("newer connections close older ones");
    drop(last);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_without_an_authenticated_call_is_closed_in_time() {
    let server = Server::with(Options { authentication_timeout: Duration::from_secs(1), ..Options::default() }).await;
    let client = server.member().await;
    let mut watch = watch(client.channel.clone()).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    tokio::time::timeout(LIMIT, closed(silent)).await.expect("the connection is closed");
    // A call keeps its connection.
    let call = tokio::time::timeout(Duration::from_millis(10), watch.message()).await;
    assert!(call.is_err(), "the watch continues");
    client.call_ok("ListTags", json!({})).await;
    drop(watch);
    server.stop().await;
}
