//! Mutual TLS with the certificates of `folio dev-certs`.

use std::path::Path;

use folio_cluster::{TlsOptions, dev_certs};

use super::*;

fn with(folder: &Path, name: &str) -> Options {
    let file = |name: String| Some(folder.join(name));
    let tls = TlsOptions {
        ca: file("ca.pem".into()),
        certificate: file(format!("{name}.pem")),
        key: file(format!("{name}-key.pem")),
        ..TlsOptions::default()
    };
    Options { tls, ..options() }
}

fn authority() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    dev_certs::write(folder.path(), &[], System.now()).unwrap();
    folder
}

async fn refused(node: &Node, options: &Options) {
    let error = in_time(peer(&node.server, options).get_turn(&principal(), &turn(1))).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NodeLost), "{error:?}");
    assert_eq!(node.scripted.times(), 0);
}

#[tokio::test]
async fn gateways_and_nodes_of_one_authority_talk() {
    let own = authority();
    let node = Node::start("a", &with(own.path(), "node"));
    for name in ["gateway", "node"] {
        let options = with(own.path(), name);
        in_time(peer(&node.server, &options).get_turn(&principal(), &turn(1))).await.unwrap();
    }
    assert_eq!(node.scripted.times(), 2);
}

#[tokio::test]
async fn a_client_with_a_missing_or_untrusted_certificate_is_refused() {
    let (own, foreign) = (authority(), authority());
    let node = Node::start("a", &with(own.path(), "node"));
    // Plain text.
    refused(&node, &options()).await;
    // Client and trust of another authority.
    refused(&node, &with(foreign.path(), "gateway")).await;
    // The client trusts the node but presents a certificate of another authority.
    let mut mixed = with(foreign.path(), "gateway");
    mixed.tls.ca = Some(own.path().join("ca.pem"));
    refused(&node, &mixed).await;
}

#[tokio::test]
async fn a_caller_without_a_certificate_is_refused_in_the_handshake() {
    use folio_proto::cluster::v1::GetStatusRequest;
    use folio_proto::cluster::v1::node_service_client::NodeServiceClient;
    use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

    let own = authority();
    let node = Node::start("a", &with(own.path(), "node"));
    let ca = Certificate::from_pem(std::fs::read(own.path().join("ca.pem")).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(ca).domain_name("folio-node");
    let endpoint = Endpoint::from_shared(format!("https://{}", node.server.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
    let answer = in_time(NodeServiceClient::new(channel).get_status(GetStatusRequest {})).await;
    let refused = answer.unwrap_err();
    assert!(refused.details().is_empty(), "a node's own answer has details: {refused:?}");
    assert_ne!(refused.code(), tonic::Code::Unauthenticated, "{refused:?}");
}

/// Replaces the certificates in a folder with those of another authority.
fn exchange(folder: &Path, from: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn changed_certificates_apply_to_new_connections_and_cut_no_call() {
    let (own, other) = (authority(), authority());
    let soon = |name| {
        let mut options = with(own.path(), name);
        options.tls.reload_interval = Duration::from_millis(20);
        options
    };
    let node = Node::start("a", &soon("node"));
    let peers = Peers::new(&soon("gateway"), Arc::new(System)).unwrap();
    let (followed, address) = (peers.clone(), node.server.address.clone());
    let following = tokio::spawn(async move { followed.follow().await });
    node.scripted.then([Behavior::Open]);
    let mut stream = in_time(peers.at(&address).unwrap().watch(&principal(), &turn(1), 0)).await.unwrap();
    assert!(in_time(stream.next()).await.unwrap().is_ok());

    exchange(own.path(), other.path());
    let new = with(other.path(), "gateway");
    folio_testkit::wait_for("the node shows the new certificate", LIMIT, || async {
        peer(&node.server, &new).get_turn(&principal(), &turn(1)).await.ok()
    })
    .await;
    folio_testkit::wait_for("the gateway shows the new certificate", LIMIT, || async {
        peers.at(&address).unwrap().get_turn(&principal(), &turn(1)).await.ok()
    })
    .await;
    assert!(futures::poll!(stream.next()).is_pending(), "a stream in progress continues");
    following.abort();
}

#[tokio::test]
async fn the_certificate_of_a_gateway_is_not_accepted_for_a_node() {
    let own = authority();
    let impostor = Node::start("impostor", &with(own.path(), "gateway"));
    refused(&impostor, &with(own.path(), "gateway")).await;
}
