//! Mutual TLS with the certificates of `folio dev-certs`.

use std::path::Path;

use folio_cluster::{TlsOptions, dev_certs};

use super::*;

fn options_with_certificates(folder: &Path, name: &str) -> Options {
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
    let error = with_timeout(peer(&node.server, options).get_turn(&principal(), &turn(1))).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NodeLost), "{error:?}");
    assert_eq!(node.scripted.call_count(), 0);
}

#[tokio::test]
async fn gateways_and_nodes_of_one_authority_communicate() {
    let own = authority();
    let node = Node::start("a", &options_with_certificates(own.path(), "node"));
    for name in ["gateway", "node"] {
        let options = options_with_certificates(own.path(), name);
        with_timeout(peer(&node.server, &options).get_turn(&principal(), &turn(1))).await.unwrap();
    }
    assert_eq!(node.scripted.call_count(), 2);
}

#[tokio::test]
async fn a_client_with_a_missing_or_untrusted_certificate_is_refused() {
    let (own, foreign) = (authority(), authority());
    let node = Node::start("a", &options_with_certificates(own.path(), "node"));
    // The client does not use TLS.
    refused(&node, &options()).await;
    // The client presents and trusts only certificates of another authority.
    refused(&node, &options_with_certificates(foreign.path(), "gateway")).await;
    // The client trusts the node but presents a certificate of another authority.
    let mut mixed = options_with_certificates(foreign.path(), "gateway");
    mixed.tls.ca = Some(own.path().join("ca.pem"));
    refused(&node, &mixed).await;
}

#[tokio::test]
async fn a_caller_without_a_certificate_is_refused_in_the_handshake() {
    use folio_proto::cluster::v1::GetStatusRequest;
    use folio_proto::cluster::v1::node_service_client::NodeServiceClient;
    use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

    let own = authority();
    let node = Node::start("a", &options_with_certificates(own.path(), "node"));
    let ca = Certificate::from_pem(std::fs::read(own.path().join("ca.pem")).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(ca).domain_name("folio-node");
    let endpoint = Endpoint::from_shared(format!("https://{}", node.server.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
    let answer = with_timeout(NodeServiceClient::new(channel).get_status(GetStatusRequest {})).await;
    let refused = answer.unwrap_err();
    assert!(refused.details().is_empty(), "a node's own answer has details: {refused:?}");
    assert_ne!(refused.code(), tonic::Code::Unauthenticated, "{refused:?}");
}

/// Replaces the certificates in a folder with those of another authority.
fn replace_files(folder: &Path, from: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn changed_certificates_apply_to_new_connections_and_do_not_end_streams() {
    let (own, other) = (authority(), authority());
    let soon = |name| {
        let mut options = options_with_certificates(own.path(), name);
        options.tls.reload_interval = Duration::from_millis(20);
        options
    };
    let node = Node::start("a", &soon("node"));
    let peers = Peers::new(&soon("gateway"), Arc::new(System)).unwrap();
    let (followed, address) = (peers.clone(), node.server.address.clone());
    let following = tokio::spawn(async move { followed.reload_certificates().await });
    node.scripted.script([Behavior::Open]);
    let mut stream = with_timeout(peers.at(&address).unwrap().watch(&principal(), &turn(1), 0)).await.unwrap();
    assert!(with_timeout(stream.next()).await.unwrap().is_ok());

    replace_files(own.path(), other.path());
    let new = options_with_certificates(other.path(), "gateway");
    folio_testkit::wait_for("the node presents the new certificate", LIMIT, || async {
        peer(&node.server, &new).get_turn(&principal(), &turn(1)).await.ok()
    })
    .await;
    folio_testkit::wait_for("the gateway uses the new certificates", LIMIT, || async {
        peers.at(&address).unwrap().get_turn(&principal(), &turn(1)).await.ok()
    })
    .await;
    assert!(futures::poll!(stream.next()).is_pending(), "a stream in progress continues");
    following.abort();
}

#[tokio::test]
async fn the_certificate_of_a_gateway_is_not_accepted_for_a_node() {
    let own = authority();
    let impostor = Node::start("impostor", &options_with_certificates(own.path(), "gateway"));
    refused(&impostor, &options_with_certificates(own.path(), "gateway")).await;
}
