//! The router's reaction to lost nodes.

use folio_history::thread::NewThread;
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};

use super::*;

#[tokio::test]
async fn an_owner_that_died_is_evicted_and_another_node_takes_over() {
    let mut cluster = Cluster::start(3);
    let turn = cluster.turn_of(1);
    cluster.router.get_turn(&principal(), &turn).await.unwrap();
    cluster.nodes[1].server.kill();
    let answer = with_timeout(cluster.router.get_turn(&principal(), &turn)).await.unwrap();
    let next = cluster.node_of(&answer.turn.thread);
    assert_ne!(next, 1);
    // The new owner is cached.
    let answer = cluster.router.get_turn(&principal(), &turn).await.unwrap();
    assert_eq!(cluster.node_of(&answer.turn.thread), next);
    assert_eq!(cluster.call_counts().iter().sum::<usize>(), 3);
}

#[tokio::test]
async fn while_a_dead_owner_counts_as_live_the_error_is_retriable() {
    let mut cluster = Cluster::start(2);
    let turn = cluster.turn_of(0);
    cluster.nodes[0].server.kill();
    let dead = Behavior::Refuse(Error::moved(&cluster.nodes[0].scripted.incarnation));
    cluster.nodes[1].scripted.script([dead]);
    let error = with_timeout(cluster.router.get_turn(&principal(), &turn)).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NodeLost));
    assert!(error.retry_after.is_some());
    assert_eq!(cluster.call_counts(), [0, 1]);
    // Once the node counts as dead, the other node takes over, and the dead node is not called.
    cluster.change(|members| drop(members.remove(0)));
    with_timeout(cluster.router.get_turn(&principal(), &turn)).await.unwrap();
}

#[tokio::test]
async fn a_redirect_to_a_dead_owner_is_retried_at_another_node_once() {
    for redirects in [1, 2] {
        let mut cluster = Cluster::start(3);
        let turn = cluster.turn_of(0);
        cluster.nodes[2].server.kill();
        let dead = Behavior::Refuse(Error::moved(&cluster.nodes[2].scripted.incarnation));
        for node in &cluster.nodes[..redirects] {
            node.scripted.script([dead.clone()]);
        }
        match with_timeout(cluster.router.get_turn(&principal(), &turn)).await {
            Ok(answer) => assert_eq!((redirects, cluster.node_of(&answer.turn.thread)), (1, 1)),
            Err(error) => assert_eq!((redirects, error.code, error.reason), (2, Code::Unavailable, Reason::NodeLost)),
        }
        assert_eq!(cluster.call_counts(), [1, 1, 0]);
    }
}

/// Makes `call`, which hangs at the node with the index `node`, removes that node from the membership, and returns the
/// result of the call.
async fn remove_node_during<T: Send + 'static>(
    node: usize,
    cluster: Cluster,
    call: impl Future<Output = T> + Send + 'static,
) -> (T, Cluster) {
    cluster.nodes[node].scripted.script([Behavior::Hang]);
    let call = tokio::spawn(call);
    with_timeout(cluster.nodes[node].scripted.wait_for_calls(1)).await;
    let dead = cluster.nodes[node].scripted.incarnation.clone();
    cluster.change(|members| members.retain(|member| member.node.incarnation != dead));
    (with_timeout(call).await.unwrap(), cluster)
}

#[tokio::test]
async fn an_rpc_does_not_wait_for_a_dead_node() {
    let cluster = Cluster::start(2);
    let (router, turn) = (cluster.router.clone(), cluster.turn_of(0));
    let approve = approve(&turn);
    let call = async move { router.approve(&principal(), approve).await };
    let (answer, cluster) = remove_node_during(0, cluster, call).await;
    let ApproveAnswer::Reached { closing, .. } = answer.unwrap() else { panic!("more decisions are missing") };
    assert_eq!((cluster.node_of(&closing.turn.thread), cluster.call_counts()), (1, vec![1, 1]));
}

#[tokio::test]
async fn an_rpc_that_is_not_repeatable_is_not_sent_twice() {
    for request_id in [None, Some("request-1")] {
        let cluster = Cluster::start(2);
        let (router, thread) = (cluster.router.clone(), cluster.thread_of(0));
        let fork = fork(&thread, request_id);
        let call = async move { router.fork_thread(&principal(), fork).await };
        let (answer, cluster) = remove_node_during(0, cluster, call).await;
        if request_id.is_none() {
            assert_eq!(answer.unwrap_err().reason, Reason::NodeLost);
            assert_eq!(cluster.call_counts(), [1, 0]);
        } else {
            assert_eq!((cluster.node_of(&answer.unwrap().id), cluster.call_counts()), (1, vec![1, 1]));
        }
    }
}

#[tokio::test]
async fn an_unsent_request_is_sent_to_another_node() {
    let mut cluster = Cluster::start(2);
    let thread = cluster.thread_of(0);
    cluster.nodes[0].server.kill();
    let fork = fork(&thread, None);
    let made = with_timeout(cluster.router.fork_thread(&principal(), fork)).await.unwrap();
    assert_eq!(cluster.node_of(&made.id), 1);
}

/// Starts a chat at the first node. The stream of the chat stays open after its first event.
async fn open_chat(cluster: &Cluster) -> EventStream {
    cluster.nodes[0].scripted.script([Behavior::Open]);
    let chat = ChatCommand { thread: Some(cluster.thread_of(0)), ..ChatCommand::new("t") };
    let mut events = cluster.router.chat(&principal(), chat).await.unwrap();
    assert_eq!(with_timeout(events.next()).await.unwrap().unwrap().number, 1);
    events
}

#[tokio::test]
async fn a_chat_ends_when_its_node_dies() {
    let cluster = Cluster::start(2);
    let mut events = open_chat(&cluster).await;
    // A heartbeat of another node has no effect.
    cluster.change(|members| members[1].node.conversations = 5);
    assert!(futures::poll!(events.next()).is_pending());
    cluster.change(|members| drop(members.remove(0)));
    let lost = with_timeout(events.next()).await.unwrap().unwrap_err();
    assert_eq!((lost.code, lost.reason), (Code::Unavailable, Reason::NodeLost));
    assert!(with_timeout(events.next()).await.is_none());
    with_timeout(cluster.nodes[0].scripted.wait_until_idle()).await;
}

#[tokio::test]
async fn a_chat_is_not_affected_by_an_earlier_incarnation_at_the_same_address() {
    let cluster = Cluster::start(2);
    let mut events = open_chat(&cluster).await;
    // The gateway's membership view still contains the dead incarnation when the restarted process responds.
    cluster.change(|members| {
        let mut restarted = members[0].clone();
        restarted.node.incarnation = Incarnation::derive(&["restarted"]);
        members.push(restarted);
    });
    cluster.change(|members| drop(members.remove(0)));
    assert!(futures::poll!(events.next()).is_pending());
    cluster.change(|members| drop(members.pop()));
    assert_eq!(with_timeout(events.next()).await.unwrap().unwrap_err().reason, Reason::NodeLost);
}

#[tokio::test]
async fn a_watch_fails_over_to_another_node_without_duplicates() {
    let cluster = Cluster::start(2);
    let turn = cluster.turn_of(0);
    cluster.nodes[0].scripted.script([Behavior::Open]);
    let mut watched = cluster.router.watch(&principal(), &turn, 0).await.unwrap();
    let mut seen = vec![with_timeout(watched.next()).await.unwrap().unwrap()];
    cluster.change(|members| drop(members.remove(0)));
    seen.extend(all(watched).await.into_iter().map(Result::unwrap));
    // The watcher skips the new owner's first event, because the watcher already received an event with this number.
    let seen: Vec<_> = seen.iter().map(|event| (cluster.node_of(&event.turn.thread), event.number)).collect();
    assert_eq!(seen, [(0, 1), (1, 2)]);
    assert_eq!(cluster.nodes[1].scripted.calls()[0].subject, format!("{turn} from 2"));
}

#[tokio::test]
async fn while_the_owner_is_unreachable_a_watch_reads_the_published_events() {
    let mut cluster = Cluster::start(2);
    let (turn, owner) = (cluster.turn_of(0), cluster.nodes[0].scripted.incarnation.clone());
    let shared = folio_storage_memory::shared_stores(Arc::new(System), SharedOptions::default());
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(StoreOptions::at(directory.path())).unwrap();
    let threads = store.stores().threads;
    let router = cluster.router.clone().with_shared(threads.clone(), shared.events.clone());
    cluster.nodes[0].server.kill();
    let moved = std::iter::repeat_n(Behavior::Refuse(Error::moved(&owner)), 1_000);
    cluster.nodes[1].scripted.script(moved);
    let Err(unknown) = with_timeout(router.watch(&principal(), &turn, 1)).await else {
        panic!("the thread does not exist yet")
    };
    assert_eq!(unknown.reason, Reason::NodeLost);

    let org = principal().org;
    let thread = NewThread::new(turn.thread.clone(), &principal(), "document", Vec::new(), Timestamp::UNIX_EPOCH);
    threads.create(thread).await.unwrap();
    let event = |number, kind| Event::new(turn.clone(), number, kind);
    let text = |text: &str| EventKind::TextDelta { text: text.to_owned() };
    let publish = async |events: &[Event]| shared.events.append(&org, &turn, &owner, 1, events).await.unwrap();
    publish(&[event(1, text("one")), event(2, text("two"))]).await;
    let stranger = Principal { user: UserId::derive(&["stranger"]), role: Role::Member, ..principal() };
    assert!(with_timeout(router.watch(&stranger, &turn, 1)).await.is_err(), "invariant 6");
    let mut watched = with_timeout(router.watch(&principal(), &turn, 2)).await.unwrap();
    assert_eq!(with_timeout(watched.next()).await.unwrap().unwrap().number, 2);
    publish(&[event(3, text("three")), event(4, EventKind::Cancelled)]).await;
    let rest: Vec<_> = all(watched).await.into_iter().map(|event| event.unwrap().number).collect();
    assert_eq!(rest, [3, 4]);
}

#[tokio::test]
async fn a_node_that_was_not_reached_is_called_last_for_a_while() {
    let mut cluster = Cluster::start(2);
    let lost = cluster.turn_of(0);
    cluster.nodes[0].server.kill();
    with_timeout(cluster.router.get_turn(&principal(), &lost)).await.unwrap();
    assert_eq!(cluster.call_counts(), [0, 1]);
    let began = std::time::Instant::now();
    for _ in 0..50 {
        with_timeout(cluster.router.get_turn(&principal(), &lost)).await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(cluster.call_counts(), [0, 51]);
}
