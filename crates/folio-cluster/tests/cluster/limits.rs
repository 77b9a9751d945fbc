//! Limits of RPCs and streams, and the shutdown of a server.

use super::*;

async fn until_answered(peer: &RemotePeer) {
    with_timeout(async {
        while peer.get_turn(&principal(), &turn(1)).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn is_overloaded(refused: &Error) -> bool {
    (refused.code, refused.reason) == (Code::ResourceExhausted, Reason::Overloaded)
}

#[tokio::test]
async fn calls_to_one_node_are_bounded_and_one_more_is_refused_at_once() {
    let few = Options { calls_per_peer: 1, ..options() };
    let node = Node::start("a", &options());
    let peer = peer(&node.server, &few);
    node.scripted.script([Behavior::Open]);
    let watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    let refused = peer.get_turn(&principal(), &turn(1)).await.unwrap_err();
    assert!(is_overloaded(&refused) && refused.retry_after.is_some());
    assert_eq!(node.scripted.call_count(), 1, "the refused RPC was not sent");
    drop(watched);
    peer.get_turn(&principal(), &turn(1)).await.unwrap();
}

#[tokio::test]
async fn calls_at_one_node_are_bounded_and_a_stream_keeps_its_permit() {
    let few = Options { calls: 1, ..options() };
    let node = Node::start("a", &few);
    let peer = peer(&node.server, &options());
    node.scripted.script([Behavior::Open]);
    let watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    let refused = peer.get_turn(&principal(), &turn(1)).await.unwrap_err();
    assert!(is_overloaded(&refused));
    drop(watched);
    with_timeout(node.scripted.wait_until_idle()).await;
    until_answered(&peer).await;
}

#[tokio::test]
async fn a_silent_stream_ends() {
    let hasty = Options { stream_idle: Duration::from_millis(30), ..options() };
    let node = Node::start("a", &hasty);
    node.scripted.script([Behavior::Open]);
    let mut watched = peer(&node.server, &options()).watch(&principal(), &turn(1), 0).await.unwrap();
    assert_eq!(with_timeout(watched.next()).await.unwrap().unwrap().number, 1);
    assert_eq!(with_timeout(watched.next()).await.unwrap().unwrap_err().reason, Reason::DeadlineExceeded);
    assert!(with_timeout(watched.next()).await.is_none());
    with_timeout(node.scripted.wait_until_idle()).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_on_both_sides() {
    let hasty = Options { call_timeout: Duration::from_millis(50), ..options() };
    let node = Node::start("a", &options());
    node.scripted.script([Behavior::Hang]);
    let late = peer(&node.server, &hasty).get_turn(&principal(), &turn(1)).await.unwrap_err();
    assert_eq!((late.code, late.reason), (Code::DeadlineExceeded, Reason::DeadlineExceeded));
    with_timeout(node.scripted.wait_until_idle()).await;
}

#[tokio::test]
async fn a_stopping_server_waits_for_calls_and_then_cuts_them() {
    let (node, peer) = Node::with_peer();
    node.scripted.script([Behavior::Open, Behavior::Hang]);
    let mut watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    assert!(watched.next().await.unwrap().is_ok());
    let hangs = tokio::spawn({
        let peer = peer.clone();
        async move { peer.get_turn(&principal(), &turn(1)).await }
    });
    with_timeout(node.scripted.wait_for_calls(2)).await;
    node.server.shutdown.begin.cancel();
    assert!(futures::poll!(watched.next()).is_pending(), "a stream in progress continues");
    node.server.shutdown.abort.cancel();
    assert_eq!(with_timeout(watched.next()).await.unwrap().unwrap_err().reason, Reason::Draining);
    assert_eq!(with_timeout(hangs).await.unwrap().unwrap_err().reason, Reason::Draining);
}

#[tokio::test]
async fn a_restarted_node_is_reached_again() {
    let (mut node, peer) = Node::with_peer();
    peer.get_turn(&principal(), &turn(1)).await.unwrap();
    node.scripted.script([Behavior::Open, Behavior::Hang]);
    let mut watched = peer.watch(&principal(), &turn(1), 0).await.unwrap();
    assert!(watched.next().await.unwrap().is_ok());
    let hangs = tokio::spawn({
        let peer = peer.clone();
        async move { peer.get_turn(&principal(), &turn(1)).await }
    });
    with_timeout(node.scripted.wait_for_calls(3)).await;

    node.server.kill();
    for lost in
        [with_timeout(watched.next()).await.unwrap().unwrap_err(), with_timeout(hangs).await.unwrap().unwrap_err()]
    {
        assert_eq!((lost.code, lost.reason), (Code::Unavailable, Reason::NodeLost), "{lost:?}");
        assert!(lost.retry_after.is_some());
    }
    let lost = with_timeout(peer.get_turn(&principal(), &turn(1))).await.unwrap_err();
    assert_eq!((lost.code, lost.reason), (Code::Unavailable, Reason::NodeLost), "{lost:?}");

    let scripted = node.scripted.clone();
    let _back = Server::start_at(&node.server.address, scripted, &options());
    until_answered(&peer).await;
}

#[tokio::test]
async fn an_address_beyond_loopback_needs_certificates() {
    let peers = Peers::new(&options(), Arc::new(System)).unwrap();
    assert!(peers.at("10.0.0.1:7400").unwrap_err().message.contains("loopback"));
    assert!(peers.at("nonsense").is_err());
    let insecure = Options { insecure: true, ..options() };
    let peers = Peers::new(&insecure, Arc::new(System)).unwrap();
    assert!(peers.at("10.0.0.1:7400").is_ok());
}
