//! RPCs between processes: commands, answers, errors, the signed principal, and refused forgeries.

use folio_proto::cluster::v1::node_service_client::NodeServiceClient;
use folio_proto::cluster::v1::{GetStatusRequest, GetThreadActivityRequest};
use folio_proto::status;
use folio_resources::{ImageFormat, PageImage, Rendition};
use folio_trace::TraceContext;
use folio_types::DocumentId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn trace() -> TraceContext {
    TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some("vendor=1")).unwrap()
}

#[tokio::test]
async fn every_call_carries_its_principal_and_its_trace() {
    let (node, peer) = Node::with_peer();
    let (who, turn, thread) = (principal(), turn(1), thread(1));
    let context = CallContext { hops: 0, trace: Some(trace()) };
    let document = DocumentId::derive(&["d"]);
    let page = Rendition::Page(PageImage::new(7, 150, ImageFormat::WebP).unwrap());
    let renditions = [page, Rendition::Pdf, Rendition::Embedded { page: 3, number: 2 }];
    context
        .scope(async {
            let chat = ChatCommand { request_id: Some("r".parse().unwrap()), ..ChatCommand::new("t") };
            assert_eq!(all(peer.chat(&who, chat).await.unwrap()).await.len(), 2);
            peer.approve(&who, approve(&turn)).await.unwrap();
            assert_eq!(all(peer.resume(&who, &turn).await.unwrap()).await.len(), 2);
            peer.cancel(&who, &turn).await.unwrap();
            peer.get_turn(&who, &turn).await.unwrap();
            assert!(peer.open_turn(&who, &thread).await.unwrap().is_some());
            let watched = all(peer.watch(&who, &turn, 9).await.unwrap()).await;
            assert_eq!(watched.iter().map(|event| event.as_ref().unwrap().number).collect::<Vec<_>>(), [1, 2]);
            let create =
                CreateThreadCommand { request_id: Some("c".parse().unwrap()), ..CreateThreadCommand::default() };
            peer.create_thread(&who, create).await.unwrap();
            let rename = RenameThreadCommand { thread: thread.clone(), title: "new".into(), request_id: None };
            peer.rename_thread(&who, rename).await.unwrap();
            let delete = DeleteThreadCommand { thread: thread.clone(), request_id: None };
            peer.delete_thread(&who, delete).await.unwrap();
            peer.fork_thread(&who, fork(&thread, None)).await.unwrap();
            for rendition in &renditions {
                peer.render(&who, &document, rendition).await.unwrap();
            }
            assert!(peer.is_thread_active(&who.org, &thread).await.unwrap());
            assert_eq!(peer.call_index(&who.org, vec![1, 2]).await.unwrap(), [7, 7, 7]);
            let status = peer.status().await.unwrap();
            assert_eq!((status.incarnation, status.draining), (node.scripted.incarnation.clone(), true));
            assert_eq!((status.conversations, status.busy_conversations), (7, 3));
        })
        .await;
    let calls = node.scripted.calls();
    let subject: Vec<(&str, String)> = calls.iter().map(|call| (call.rpc, call.subject.clone())).collect();
    let expected = [
        ("chat", "r".to_owned()),
        ("approve", turn.to_string()),
        ("resume", turn.to_string()),
        ("cancel", turn.to_string()),
        ("get_turn", turn.to_string()),
        ("open_turn", thread.to_string()),
        ("watch", format!("{turn} from 9")),
        ("create_thread", "c".to_owned()),
        ("rename_thread", "new".to_owned()),
        ("delete_thread", thread.to_string()),
        ("fork_thread", thread.to_string()),
        ("render", format!("{document} {:?}", renditions[0])),
        ("render", format!("{document} {:?}", renditions[1])),
        ("render", format!("{document} {:?}", renditions[2])),
        ("is_thread_active", format!("{} {thread}", who.org)),
        ("call_index", format!("{} [1, 2]", who.org)),
        ("status", String::new()),
    ];
    assert_eq!(subject, expected);
    for call in calls {
        assert_eq!(call.context, CallContext { hops: 1, trace: Some(trace()) }, "{}", call.rpc);
        let for_the_cluster = ["is_thread_active", "call_index", "status"].contains(&call.rpc);
        assert_eq!(call.principal, (!for_the_cluster).then(principal), "{}", call.rpc);
    }
}

#[tokio::test]
async fn an_error_is_transferred_with_all_details() {
    let (node, peer) = Node::with_peer();
    let mut detailed = Error::exhausted(Reason::QueueFull, "eight wait").retry_after(Duration::from_millis(1_500));
    detailed.violations.push(FieldViolation { field: "if_busy".into(), description: "is busy".into() });
    let owner = Incarnation::derive(&["another"]);
    for error in [detailed.detail("turn", "t"), Error::moved(&owner), Error::not_found("turn", "x")] {
        node.scripted.script([Behavior::Refuse(error.clone()), Behavior::Refuse(error.clone())]);
        assert_eq!(peer.get_turn(&principal(), &turn(1)).await.unwrap_err(), error);
        assert_eq!(peer.watch(&principal(), &turn(1), 0).await.err().unwrap(), error);
    }
    node.scripted.script([Behavior::Refuse(Error::internal("a secret of the node"))]);
    let fault = peer.get_turn(&principal(), &turn(1)).await.unwrap_err();
    assert_eq!((fault.code, fault.reason), (Code::Internal, Reason::Internal));
    assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
}

#[tokio::test]
async fn a_panic_fails_only_its_own_call() {
    let (node, peer) = Node::with_peer();
    node.scripted.script([Behavior::Open, Behavior::Panic]);
    let mut watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    assert!(watched.next().await.unwrap().is_ok());
    assert_eq!(peer.get_turn(&principal(), &turn(1)).await.unwrap_err().reason, Reason::Internal);
    peer.get_turn(&principal(), &turn(1)).await.unwrap();
    assert!(futures::poll!(watched.next()).is_pending(), "the stream on the same connection continues");
}

#[tokio::test]
async fn dropping_a_call_cancels_it_on_the_node() {
    let (node, peer) = Node::with_peer();
    node.scripted.script([Behavior::Open, Behavior::Hang, Behavior::Hang]);
    let watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    let who = principal();
    let chat = peer.chat(&who, ChatCommand { request_id: Some("r".parse().unwrap()), ..ChatCommand::new("t") });
    let turn = turn(1);
    let cancel = peer.cancel(&who, &turn);
    tokio::select! {
        _ = chat => panic!("the chat hangs"),
        _ = cancel => panic!("the call hangs"),
        () = with_timeout(node.scripted.wait_for_calls(3)) => {}
    }
    drop(watched);
    with_timeout(node.scripted.wait_until_idle()).await;
}

#[tokio::test]
async fn a_second_hop_is_refused() {
    let (node, peer) = Node::with_peer();
    let second = CallContext { hops: 1, trace: None };
    second
        .scope(async {
            let refused = peer.get_turn(&principal(), &turn(1)).await.unwrap_err();
            assert_eq!((refused.code, refused.reason), (Code::FailedPrecondition, Reason::ForwardedTwice));
            let refused = peer.watch(&principal(), &turn(1), 0).await.err().unwrap();
            assert_eq!(refused.reason, Reason::ForwardedTwice);
        })
        .await;
    assert_eq!(node.scripted.call_count(), 0);
    peer.get_turn(&principal(), &turn(1)).await.unwrap();
}

#[tokio::test]
async fn without_the_clusters_secret_every_rpc_is_refused() {
    let node = Node::start("a", &options());
    let other = Options { secrets: vec![Secret::new("the secret of another cluster, 0123456789")], ..options() };
    let stranger = peer(&node.server, &other);
    let refused = stranger.get_turn(&principal(), &turn(1)).await.unwrap_err();
    // The client's credentials are valid, so the error is retriable.
    assert_eq!((refused.code, refused.reason), (Code::Unavailable, Reason::InvalidPrincipal));
    assert_eq!(stranger.status().await.unwrap_err().reason, Reason::InvalidPrincipal);
    assert_eq!(stranger.watch(&principal(), &turn(1), 0).await.err().unwrap().reason, Reason::InvalidPrincipal);

    let mut bare = NodeServiceClient::connect(format!("http://{}", node.server.address)).await.unwrap();
    let unsigned = bare.get_status(GetStatusRequest {}).await.unwrap_err();
    let unsigned = status::to_error(&unsigned);
    assert_eq!((unsigned.code, unsigned.reason), (Code::Unauthenticated, Reason::InvalidPrincipal));
    let mut forged = tonic::Request::new(GetThreadActivityRequest::default());
    forged.metadata_mut().insert("folio-principal", "e30.AAAA".parse().unwrap());
    let forged = status::to_error(&bare.get_thread_activity(forged).await.unwrap_err());
    assert_eq!(forged.code, Code::Unauthenticated);
    assert_eq!(node.scripted.call_count(), 0);
}

#[tokio::test]
async fn a_secret_is_rotated_without_failed_calls() {
    let (old, new) = (options().secrets, vec![Secret::new("a new secret of the cluster, 0123456789")]);
    let both = |first: &[Secret], then: &[Secret]| [first, then].concat();
    let known = Options { secrets: both(&old, &new), ..options() };
    let node = Node::start("a", &known);
    for secrets in [old.clone(), both(&old, &new), both(&new, &old), new] {
        let calling = Options { secrets, ..options() };
        peer(&node.server, &calling).get_turn(&principal(), &turn(1)).await.unwrap();
    }
}

/// Forwards one connection to `target`, with a text in the requests replaced by another one of the same length.
async fn forward_modified(listener: tokio::net::TcpListener, target: String, from: &'static [u8], to: &'static [u8]) {
    let (client, _) = listener.accept().await.unwrap();
    let server = tokio::net::TcpStream::connect(target).await.unwrap();
    let ((mut requests, mut client), (mut answers, mut server)) = (client.into_split(), server.into_split());
    let modify = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = requests.read(&mut buffer).await {
            if let Some(position) = buffer[..read].windows(from.len()).position(|window| window == from) {
                buffer[position..position + to.len()].copy_from_slice(to);
            }
            server.write_all(&buffer[..read]).await.unwrap();
        }
    };
    tokio::join!(modify, async { drop(tokio::io::copy(&mut answers, &mut client).await) });
}

#[tokio::test]
async fn a_modified_request_body_is_refused() {
    let (node, peer) = Node::with_peer();
    let rename = |title: &str| RenameThreadCommand { thread: thread(1), title: title.into(), request_id: None };
    peer.rename_thread(&principal(), rename("the title")).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let forwarding = tokio::spawn(forward_modified(listener, node.server.address.clone(), b"the title", b"his title"));
    let peer = Peers::new(&options(), Arc::new(System)).unwrap().at(&address).unwrap();
    let refused = peer.rename_thread(&principal(), rename("the title")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::InvalidPrincipal, "{refused}");
    assert_eq!(node.scripted.call_count(), 1);
    forwarding.abort();
}
