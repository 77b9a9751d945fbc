//! The router's choice of a node.

use folio_history::thread::chat_thread_id;

use super::scripted::ScriptedPeer;
use super::*;

fn moved_to(cluster: &Cluster, node: usize) -> Behavior {
    Behavior::Refuse(Error::moved(&cluster.nodes[node].scripted.incarnation))
}

#[tokio::test]
async fn requests_for_a_thread_without_an_owner_are_routed_by_placement() {
    let cluster = Cluster::start(3);
    for node in 0..3 {
        let turn = cluster.turn_of(node);
        let answer = cluster.router.get_turn(&principal(), &turn).await.unwrap();
        assert_eq!(cluster.node_of(&answer.turn.thread), node);
    }
    assert_eq!(cluster.call_counts(), [1, 1, 1]);
}

#[tokio::test]
async fn a_redirect_to_the_owner_is_followed_once_and_cached() {
    let cluster = Cluster::start(3);
    let turn = cluster.turn_of(0);
    cluster.nodes[0].scripted.script([moved_to(&cluster, 2)]);
    let answer = cluster.router.get_turn(&principal(), &turn).await.unwrap();
    assert_eq!((cluster.node_of(&answer.turn.thread), cluster.call_counts()), (2, vec![1, 0, 1]));
    // Every later RPC calls the owner directly.
    let events = all(cluster.router.watch(&principal(), &turn, 0).await.unwrap()).await;
    assert_eq!((cluster.node_of(&events[0].as_ref().unwrap().turn.thread), cluster.call_counts()), (2, vec![1, 0, 2]));
    // The cached owner applies only to this thread.
    let other = (0..).map(thread).find(|thread| *thread != turn.thread).unwrap();
    cluster.router.open_turn(&principal(), &other).await.unwrap();
    cluster.nodes[2].scripted.script([moved_to(&cluster, 1)]);
    let answer = cluster.router.cancel(&principal(), &turn).await.unwrap();
    assert_eq!(cluster.node_of(&answer.turn.thread), 1);
}

#[tokio::test]
async fn a_redirect_back_or_to_the_same_or_an_unknown_node_is_not_followed() {
    let cluster = Cluster::start(2);
    let turn = cluster.turn_of(0);
    let unknown = Behavior::Refuse(Error::moved(&Incarnation::derive(&["an unknown node"])));
    cluster.nodes[0].scripted.script([moved_to(&cluster, 0), unknown, moved_to(&cluster, 1)]);
    cluster.nodes[1].scripted.script([moved_to(&cluster, 0)]);
    for calls in [[1, 0], [2, 0], [3, 1]] {
        let error = cluster.router.get_turn(&principal(), &turn).await.unwrap_err();
        assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Moved));
        assert!(error.retry_after.is_some());
        assert_eq!(cluster.call_counts(), calls);
    }
}

#[tokio::test]
async fn a_refusal_of_a_node_is_returned_to_the_caller() {
    let cluster = Cluster::start(3);
    let turn = cluster.turn_of(1);
    for reason in [Reason::TurnBusy, Reason::StoreUnavailable, Reason::Overloaded] {
        let error = Error::unavailable(reason, "no");
        cluster.nodes[1].scripted.script([Behavior::Refuse(error.clone())]);
        assert_eq!(cluster.router.get_turn(&principal(), &turn).await.unwrap_err(), error);
    }
    assert_eq!(cluster.call_counts(), [0, 3, 0]);
}

#[tokio::test]
async fn a_chat_without_a_thread_is_routed_by_the_placement_of_its_new_thread() {
    let cluster = Cluster::start(3);
    let chat_command = |request_id: Option<&str>, thread: Option<&ThreadId>| ChatCommand {
        request_id: request_id.map(|id| id.parse().unwrap()),
        thread: thread.cloned(),
        ..ChatCommand::new("hello")
    };
    for number in 0..20 {
        let request_id = format!("request-{number}");
        let begun = chat_thread_id(&principal(), "document", &[], &request_id.parse().unwrap());
        let chat = all(cluster.router.chat(&principal(), chat_command(Some(&request_id), None)).await.unwrap()).await;
        let again = all(cluster.router.chat(&principal(), chat_command(None, Some(&begun))).await.unwrap()).await;
        assert_eq!(chat[0].as_ref().unwrap().turn.thread, again[0].as_ref().unwrap().turn.thread);
    }
    // The router generates a missing request id, and the next node receives the same id.
    let before = cluster.call_counts();
    let draining = Behavior::Refuse(folio_cluster::draining());
    for node in &cluster.nodes {
        node.scripted.script([draining.clone()]);
    }
    assert!(cluster.router.chat(&principal(), chat_command(None, None)).await.is_err());
    assert!(cluster.call_counts().iter().zip(&before).all(|(after, before)| *after == before + 1));
    let ids: Vec<String> = cluster.nodes.iter().map(|node| node.scripted.calls().pop().unwrap().subject).collect();
    assert!(ids[0].starts_with("folio-") && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn the_node_of_this_process_is_called_directly() {
    let cluster = Cluster::start(2);
    let local = Arc::new(ScriptedPeer::new("here"));
    let address = cluster.nodes[0].member().node.address;
    let router = cluster.router.clone().with_node(&address, local.clone());
    router.get_turn(&principal(), &cluster.turn_of(0)).await.unwrap();
    router.get_turn(&principal(), &cluster.turn_of(1)).await.unwrap();
    assert_eq!((local.call_count(), cluster.call_counts()), (1, vec![0, 1]));
    assert_eq!(local.calls()[0].context.hops, 0);
}

#[tokio::test]
async fn a_draining_node_gets_requests_only_for_threads_that_it_owns() {
    let cluster = Cluster::start(2);
    let owned = cluster.turn_of(0);
    cluster.router.get_turn(&principal(), &owned).await.unwrap();
    cluster.change(|members| members[0].node.draining = true);
    cluster.router.get_turn(&principal(), &owned).await.unwrap();
    assert_eq!(cluster.call_counts(), [2, 0]);
    let other = (0..).map(turn).find(|turn| *turn != owned).unwrap();
    cluster.router.get_turn(&principal(), &other).await.unwrap();
    assert_eq!(cluster.call_counts(), [2, 1]);
    // A request that the draining node refuses is sent to the other node, which becomes the cached owner.
    cluster.nodes[0].scripted.script([Behavior::Refuse(folio_cluster::draining())]);
    cluster.router.cancel(&principal(), &owned).await.unwrap();
    cluster.router.get_turn(&principal(), &owned).await.unwrap();
    assert_eq!(cluster.call_counts(), [3, 3]);
    // If the other node redirects to the draining owner, the owner's refusal is returned.
    cluster.nodes[1].scripted.script([moved_to(&cluster, 0)]);
    cluster.nodes[0].scripted.script([Behavior::Refuse(folio_cluster::draining())]);
    let error = cluster.router.cancel(&principal(), &owned).await.unwrap_err();
    assert_eq!((error.reason, cluster.call_counts()), (Reason::Draining, vec![4, 4]));
    // The last node is called even if it drains.
    cluster.change(|members| members.truncate(1));
    cluster.router.get_turn(&principal(), &turn(77)).await.unwrap();
}

#[tokio::test]
async fn without_a_node_the_error_is_retriable() {
    let no_members = || tokio::sync::watch::Sender::default().subscribe();
    let peers = Peers::new(&options(), Arc::new(System)).unwrap();
    let router = Router::new(no_members(), peers, &options(), Arc::new(System));
    let error = router.get_turn(&principal(), &turn(1)).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NodeLost));
    assert!(error.retry_after.is_some());
    assert!(Peers::new(&Default::default(), Arc::new(System)).is_err(), "a cluster without a secret");
}
