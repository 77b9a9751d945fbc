//! TLS of the public listener.

use std::path::Path;
use std::time::Duration;

use folio_gateway::{Options, TlsOptions};
use folio_testkit::wait_for;
use http::Version;
use serde_json::json;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::Server;

const LIMIT: Duration = Duration::from_secs(20);

struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn write(&self, options: &TlsOptions) {
        std::fs::write(options.certificate.as_ref().unwrap(), &self.certificate).unwrap();
        std::fs::write(options.key.as_ref().unwrap(), &self.key).unwrap();
    }

    /// Connects, and trusts this certificate only.
    async fn connect(&self, server: &Server) -> Result<Channel, tonic::transport::Error> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.certificate));
        let endpoint = Endpoint::from_shared(format!("https://{}", server.address)).unwrap();
        endpoint.tls_config(tls.domain_name("localhost")).unwrap().connect().await
    }
}

fn options(folder: &Path) -> Options {
    let tls = TlsOptions {
        certificate: Some(folder.join("tls.crt")),
        key: Some(folder.join("tls.key")),
        reload_interval: Duration::from_millis(20),
    };
    Options { tls, ..Options::default() }
}

async fn answers(channel: &Channel) {
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.expect("the server answers");
}

#[tokio::test]
async fn a_certificate_is_replaced_when_its_files_change() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Pair::new(), Pair::new());
    let options = options(folder.path());
    first.write(&options.tls);
    let server = Server::with(options.clone()).await;
    let open = first.connect(&server).await.expect("the first certificate is served");
    answers(&open).await;
    second.connect(&server).await.expect_err("the second certificate is not served yet");

    // A key that does not belong to the certificate, and then a file without a key: the previous certificate stays in
    // use.
    for bad in [&second.key, "nothing"] {
        std::fs::write(options.tls.key.as_ref().unwrap(), bad).unwrap();
        let again = first.connect(&server).await.expect("the first certificate stays");
        answers(&again).await;
    }
    second.write(&options.tls);
    let new =
        wait_for("the second certificate is served", LIMIT, || async { second.connect(&server).await.ok() }).await;
    answers(&new).await;
    first.connect(&server).await.expect_err("the first certificate is no longer served");
    answers(&open).await;
}

#[tokio::test]
async fn plain_text_is_refused_if_a_certificate_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let pair = Pair::new();
    pair.write(&options.tls);
    let server = Server::with(options).await;
    let mut plain = HealthClient::new(server.channel.clone());
    plain.check(HealthCheckRequest::default()).await.expect_err("plain text is refused");
    answers(&pair.connect(&server).await.unwrap()).await;
}

#[tokio::test]
async fn every_face_over_http_is_served_over_tls_in_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let pair = Pair::new();
    pair.write(&options.tls);
    let server = Server::with(options).await;
    let client = server.member().await;
    let builder = || {
        let certificate = reqwest::Certificate::from_pem(pair.certificate.as_bytes()).unwrap();
        reqwest::Client::builder().tls_certs_only([certificate]).resolve("localhost", server.address)
    };
    let url = |path: &str| format!("https://localhost:{}{path}", server.address.port());
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (builder, version) in [(builder().http1_only(), Version::HTTP_11), (builder(), Version::HTTP_2)] {
        let http = builder.build().unwrap();
        for request in [
            http.get(url(&format!("/v0/orgs/{}/tags", client.org))),
            http.post(url("/folio.v1.TagService/ListTags")).json(&json!({})),
            http.post(url("/mcp")).json(&message),
            http.get(url("/openapi.json")),
        ] {
            let request = request.header("authorization", client.authorization().unwrap());
            let answer = request.send().await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.version()), (200, version), "{}", answer.url());
        }
    }
    server.stop().await;
}

#[test]
fn plain_text_stays_on_loopback_unless_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let allowed = |options: &Options, address: &str| options.allows(address.parse().unwrap()).is_ok();
    for (address, loopback) in [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("10.0.0.1:1", false)] {
        assert_eq!(allowed(&Options::default(), address), loopback, "{address}");
        assert!(allowed(&options(folder.path()), address));
        assert!(allowed(&Options { insecure: true, ..Options::default() }, address));
    }
    let refused = Options::default().allows("0.0.0.0:1".parse().unwrap()).unwrap_err();
    assert_eq!(refused.code, folio_types::Code::InvalidArgument, "{refused}");
    let half = TlsOptions { key: None, ..options(folder.path()).tls };
    let problems = Options { tls: half, ..Options::default() }.check().unwrap_err().to_string();
    assert!(problems.contains("gateway.tls"), "{problems}");
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_closed_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    Pair::new().write(&options.tls);
    let server = Server::with(Options { authentication_timeout: Duration::from_millis(200), ..options }).await;
    let mut silent = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    let closed = tokio::io::AsyncReadExt::read_to_end(&mut silent, &mut bytes);
    let _ = tokio::time::timeout(LIMIT, closed).await.expect("the connection is closed");
    server.stop().await;
}
