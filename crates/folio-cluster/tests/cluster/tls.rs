//! Mutual TLS with the certificates of `folio dev-certs`.

use std::path::Path;

use folio_cluster::{ConversationPeer as _, Options, TlsOptions, dev_certs};
use folio_types::{Code, Environment as _, Reason, System};

use crate::sandbox::{Node, in_time, options, peer, principal, turn};

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
    assert_eq!(node.played.times(), 0);
}

#[tokio::test]
async fn gateways_and_nodes_of_one_authority_talk() {
    let own = authority();
    let node = Node::start("a", &with(own.path(), "node"));
    for name in ["gateway", "node"] {
        let options = with(own.path(), name);
        in_time(peer(&node.server, &options).get_turn(&principal(), &turn(1))).await.unwrap();
    }
    assert_eq!(node.played.times(), 2);
}

#[tokio::test]
async fn who_shows_no_certificate_or_a_foreign_one_is_refused() {
    let (own, foreign) = (authority(), authority());
    let node = Node::start("a", &with(own.path(), "node"));
    // In plain text.
    refused(&node, &options()).await;
    // Of another authority altogether.
    refused(&node, &with(foreign.path(), "gateway")).await;
    // Believes the node, but shows a certificate of another authority.
    let mut mixed = with(foreign.path(), "gateway");
    mixed.tls.ca = Some(own.path().join("ca.pem"));
    refused(&node, &mixed).await;
}

#[tokio::test]
async fn a_caller_who_shows_no_certificate_is_refused_in_the_handshake() {
    use folio_proto::cluster::v1::GetStatusRequest;
    use folio_proto::cluster::v1::conversation_node_service_client::ConversationNodeServiceClient;
    use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

    let own = authority();
    let node = Node::start("a", &with(own.path(), "node"));
    let ca = Certificate::from_pem(std::fs::read(own.path().join("ca.pem")).unwrap());
    let tls = ClientTlsConfig::new().ca_certificate(ca).domain_name("folio-node");
    let endpoint = Endpoint::from_shared(format!("https://{}", node.server.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
    let answer = in_time(ConversationNodeServiceClient::new(channel).get_status(GetStatusRequest {})).await;
    let refused = answer.unwrap_err();
    assert!(refused.details().is_empty(), "a node's own answer has details: {refused:?}");
    assert_ne!(refused.code(), tonic::Code::Unauthenticated, "{refused:?}");
}

#[tokio::test]
async fn a_gateway_cannot_pass_for_a_node() {
    let own = authority();
    let impostor = Node::start("impostor", &with(own.path(), "gateway"));
    refused(&impostor, &with(own.path(), "gateway")).await;
}
