//! The address of a caller behind a proxy, by which failed attempts are counted.

use folio_gateway::Options;
use folio_types::{OrgId, Reason, System, token::Token};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use folio_proto::v1::ListTagsRequest;
use folio_proto::v1::tag_service_client::TagServiceClient;

use crate::harness::{Server, refused};

/// Returns options of a gateway behind a proxy on this machine. One failed attempt exhausts an address.
fn options() -> Options {
    Options {
        failed_attempts_per_minute: 1,
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..Options::default()
    }
}

/// Makes an attempt with an unknown token and returns the reason of its refusal.
async fn attempt(channel: &Channel, forwarded: Option<&str>) -> Reason {
    let mut request = Request::new(ListTagsRequest::default());
    let token = Token::generate(&OrgId::generate(&System), &System).reveal();
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    if let Some(forwarded) = forwarded {
        request.metadata_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
    }
    refused(TagServiceClient::new(channel.clone()).list_tags(request).await, "an unknown token").reason
}

#[tokio::test]
async fn a_trusted_proxy_announces_the_address_in_x_forwarded_for() {
    let server = Server::with(options()).await;
    for _ in 0..2 {
        attempt(&server.channel, Some("192.0.2.1")).await;
    }
    assert_eq!(attempt(&server.channel, Some("198.51.100.1, 192.0.2.1")).await, Reason::TooManyAttempts);
    assert_eq!(attempt(&server.channel, Some("192.0.2.2, 127.0.0.9")).await, Reason::InvalidToken);
    server.stop().await;
    let server = Server::with(Options { trusted_proxies: Vec::new(), ..options() }).await;
    attempt(&server.channel, Some("192.0.2.1")).await;
    assert_eq!(attempt(&server.channel, Some("192.0.2.2")).await, Reason::TooManyAttempts, "a stranger's header");
    server.stop().await;
}

/// Starts a proxy that sends a header before the bytes of each connection.
async fn proxy(server: &Server, header: &'static [u8]) -> Channel {
    let (listener, target) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), server.address);
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut inbound, _)) = listener.accept().await {
            let mut outbound = TcpStream::connect(target).await.unwrap();
            outbound.write_all(header).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await });
        }
    });
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

#[tokio::test]
async fn a_trusted_proxy_announces_the_address_in_the_proxy_protocol() {
    let server = Server::with(Options { proxy_protocol: true, ..options() }).await;
    let first = proxy(&server, b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 443\r\n").await;
    assert_eq!(attempt(&first, None).await, Reason::InvalidToken);
    assert_eq!(attempt(&first, None).await, Reason::TooManyAttempts);
    assert_eq!(attempt(&first, Some("192.0.2.9")).await, Reason::TooManyAttempts, "a header of the caller");
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x02\x7f\0\0\x01\x12\x67\x01\xbb";
    assert_eq!(attempt(&proxy(&server, binary).await, None).await, Reason::InvalidToken);
    let without = proxy(&server, b"").await;
    let answer = TagServiceClient::new(without).list_tags(ListTagsRequest::default()).await;
    assert_ne!(answer.unwrap_err().code(), tonic::Code::Unauthenticated, "a connection without the header is closed");
    server.stop().await;
}
