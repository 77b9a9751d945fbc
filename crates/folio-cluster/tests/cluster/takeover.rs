//! What the router does about nodes that are lost.

use std::time::Duration;

use folio_cluster::ConversationPeer as _;
use folio_proto::v1;
use folio_types::{Code, Error, Reason};
use futures::StreamExt as _;

use crate::played::Play;
use crate::sandbox::{Cluster, in_time, principal};

#[tokio::test]
async fn an_owner_that_died_is_forgotten_and_another_node_takes_over() {
    let mut cluster = Cluster::start(3);
    let turn = cluster.turn_of(1);
    cluster.router.get_turn(&principal(), &turn).await.unwrap();
    cluster.nodes[1].server.kill();
    let answer = in_time(cluster.router.get_turn(&principal(), &turn)).await.unwrap();
    let next = cluster.which(&answer.turn_id);
    assert_ne!(next, 1);
    // The new owner is remembered.
    let answer = cluster.router.get_turn(&principal(), &turn).await.unwrap();
    assert_eq!(cluster.which(&answer.turn_id), next);
    assert_eq!(cluster.asked().iter().sum::<usize>(), 3);
}

#[tokio::test]
async fn while_a_dead_owner_still_counts_as_live_the_answer_is_to_try_again() {
    let mut cluster = Cluster::start(2);
    let turn = cluster.turn_of(0);
    cluster.nodes[0].server.kill();
    let dead = Play::Refuse(Error::moved(&cluster.nodes[0].played.incarnation));
    cluster.nodes[1].played.then([dead]);
    let error = in_time(cluster.router.get_turn(&principal(), &turn)).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NodeLost));
    assert!(error.retry_after.is_some());
    assert_eq!(cluster.asked(), [0, 1]);
    // Once it counts as gone, the other takes over, and nobody asks the dead one.
    cluster.change(|members| drop(members.remove(0)));
    in_time(cluster.router.get_turn(&principal(), &turn)).await.unwrap();
}

#[tokio::test]
async fn an_owner_that_was_named_and_is_dead_is_not_the_end() {
    let mut cluster = Cluster::start(3);
    let turn = cluster.turn_of(0);
    cluster.nodes[2].server.kill();
    cluster.nodes[0].played.then([Play::Refuse(Error::moved(&cluster.nodes[2].played.incarnation))]);
    let answer = in_time(cluster.router.get_turn(&principal(), &turn)).await.unwrap();
    assert_eq!((cluster.which(&answer.turn_id), cluster.asked()), (1, vec![1, 1, 0]));
}

/// A call that hangs at its node, and what comes of it once the node is gone.
async fn while_it_hangs<T: Send + 'static>(
    node: usize,
    cluster: Cluster,
    call: impl Future<Output = T> + Send + 'static,
) -> (T, Cluster) {
    cluster.nodes[node].played.then([Play::Hang]);
    let call = tokio::spawn(call);
    in_time(cluster.nodes[node].played.was_asked(1)).await;
    let gone = cluster.nodes[node].played.incarnation.clone();
    cluster.change(|members| members.retain(|member| member.node.incarnation != gone));
    (in_time(call).await.unwrap(), cluster)
}

#[tokio::test]
async fn a_call_does_not_wait_for_a_node_that_is_gone() {
    let cluster = Cluster::start(2);
    let (router, turn) = (cluster.router.clone(), cluster.turn_of(0));
    let approve = v1::ApproveRequest { turn_id: turn.to_string(), ..Default::default() };
    let call = async move { router.approve(&principal(), approve).await };
    let (answer, cluster) = while_it_hangs(0, cluster, call).await;
    assert_eq!((cluster.which(&answer.unwrap().turn_id), cluster.asked()), (1, vec![1, 1]));
}

#[tokio::test]
async fn what_cannot_be_told_from_a_repetition_is_not_sent_twice() {
    for request_id in ["", "request-1"] {
        let cluster = Cluster::start(2);
        let (router, thread) = (cluster.router.clone(), cluster.thread_of(0));
        let fork = v1::ForkThreadRequest {
            thread_id: thread.to_string(),
            request_id: request_id.into(),
            ..Default::default()
        };
        let call = async move { router.fork_thread(&principal(), fork).await };
        let (answer, cluster) = while_it_hangs(0, cluster, call).await;
        if request_id.is_empty() {
            assert_eq!(answer.unwrap_err().reason, Reason::NodeLost);
            assert_eq!(cluster.asked(), [1, 0]);
        } else {
            assert_eq!((cluster.which(&answer.unwrap().thread_id), cluster.asked()), (1, vec![1, 1]));
        }
    }
}

#[tokio::test]
async fn what_was_never_sent_is_sent_elsewhere() {
    let mut cluster = Cluster::start(2);
    let thread = cluster.thread_of(0);
    cluster.nodes[0].server.kill();
    let fork = v1::ForkThreadRequest { thread_id: thread.to_string(), ..Default::default() };
    let made = in_time(cluster.router.fork_thread(&principal(), fork)).await.unwrap();
    assert_eq!(cluster.which(&made.thread_id), 1);
}

#[tokio::test]
async fn a_stream_ends_when_its_node_is_gone_and_is_watched_elsewhere() {
    let cluster = Cluster::start(2);
    let turn = cluster.turn_of(0);
    cluster.nodes[0].played.then([Play::Open]);
    let mut watched = cluster.router.watch(&principal(), &turn, 0).await.unwrap();
    assert_eq!(in_time(watched.next()).await.unwrap().unwrap().number, 1);
    // Heartbeats of others change nothing.
    cluster.change(|members| members[1].node.conversations = 5);
    assert!(futures::poll!(watched.next()).is_pending());
    cluster.change(|members| drop(members.remove(0)));
    let lost = in_time(watched.next()).await.unwrap().unwrap_err();
    assert_eq!((lost.code, lost.reason), (Code::Unavailable, Reason::NodeLost));
    assert!(in_time(watched.next()).await.is_none());
    in_time(cluster.nodes[0].played.is_left_alone()).await;
    let mut again = cluster.router.watch(&principal(), &turn, 2).await.unwrap();
    let event = in_time(again.next()).await.unwrap().unwrap();
    assert_eq!(cluster.which(&event.turn_id), 1);
}

#[tokio::test]
async fn a_node_that_was_not_reached_is_asked_last_for_a_while() {
    let mut cluster = Cluster::start(2);
    let lost = cluster.turn_of(0);
    cluster.nodes[0].server.kill();
    in_time(cluster.router.get_turn(&principal(), &lost)).await.unwrap();
    assert_eq!(cluster.asked(), [0, 1]);
    let began = std::time::Instant::now();
    for _ in 0..50 {
        in_time(cluster.router.get_turn(&principal(), &lost)).await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(cluster.asked(), [0, 51]);
}
