//! Several nodes: a live owner keeps its threads, a dead owner's threads are taken over, and a replaced owner changes
//! nothing.

use folio_types::Liveness;

use super::several::MultiNode;
use super::*;

#[tokio::test]
async fn a_live_owner_keeps_its_thread_and_other_nodes_name_the_owner() {
    let several = MultiNode::start(2).await;
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "kept"}))).await;
    let (thread, before) = (turn.thread.clone(), several.header(&turn.thread).await);
    let (other, principal) = (several.node(1), &several.principal);
    let refused = [
        other.approve(principal, approve_all(&turn, &pending)).await.map(drop),
        other.chat(principal, several.chat_in(&thread, "more")).await.map(drop),
        other.cancel(principal, &turn).await.map(drop),
        other.resume(principal, &turn).await.map(drop),
        other.rename_thread(principal, &thread, "Another".to_owned(), None).await.map(drop),
        other.delete_thread(principal, &thread, None).await,
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!((error.reason, several.moved_to(&error)), (Reason::Moved, Some(0)));
    }
    // Every node can read the thread. A read takes nothing over.
    assert_eq!(other.get_turn(principal, &turn).await.unwrap().pending, pending);
    assert_eq!(other.open_turn(principal, &thread).await.unwrap().unwrap().turn, turn);
    let watched = all(other.watch(principal, &turn, 0).await.unwrap()).await;
    assert!(matches!(closing(&watched), EventKind::AwaitingApproval { .. }));
    assert_eq!(several.header(&thread).await, before, "nothing was written");
    several.models.then([say("Made.")]);
    reached(several.node(0).approve(principal, approve_all(&turn, &pending)).await.unwrap());
    assert_eq!(several.header(&thread).await.epoch, before.epoch);
    let view = other.get_turn(principal, &turn).await.unwrap();
    assert_eq!(view.status, TurnStatus::Completed, "a copy is reloaded");
    several.finish().await;
}

#[tokio::test]
async fn a_running_turn_is_watched_at_its_owner() {
    let several = MultiNode::start(2).await;
    several.models.then([gated(say("Slowly."))]);
    let mut stream = several.begin(0, several.chat("x")).await;
    let turn = stream.next().await.unwrap().unwrap().turn;
    let error = several.node(1).watch(&several.principal, &turn, 0).await.err().unwrap();
    assert_eq!(several.moved_to(&error), Some(0));
    let view = several.node(1).get_turn(&several.principal, &turn).await.unwrap();
    assert_eq!(view.status, TurnStatus::Running);
    assert!(several.node(1).snapshot().busy.is_empty(), "a copy causes no work");
    several.models.release();
    while stream.next().await.is_some() {}
    several.finish().await;
}

#[tokio::test]
async fn a_paused_turn_is_approved_elsewhere_once_its_owner_is_dead() {
    let several = MultiNode::start(2).await;
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "once"}))).await;
    several.kill(0).await;
    several.models.then([say("Made.")]);
    let answer = several.approve(1, approve_all(&turn, &pending)).await.unwrap();
    assert!(matches!(reached(answer), EventKind::Completed { .. }));
    assert_eq!(several.tag_names().await, ["once"], "invariant 3");
    let header = several.header(&turn.thread).await;
    assert_eq!((header.epoch, header.owner.as_ref()), (2, Some(&several.nodes[1].incarnation)));
    let events = all(several.node(1).watch(&several.principal, &turn, 0).await.unwrap()).await;
    assert!(events.last().unwrap().number > 1 << 32, "a new owner's numbers start higher: {events:?}");
    several.finish().await;
}

#[tokio::test]
async fn a_running_turn_is_found_by_the_sweep_of_one_node_and_its_effects_are_kept() {
    let several = MultiNode::start(3).await;
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "kept"}))).await;
    several.models.then([gated(say("Never."))]);
    let approval = several.spawn_approve(0, approve_all(&turn, &pending));
    several.wait_for_model_calls(2).await;
    assert!(several.header(&turn.thread).await.open_turn.is_some());
    several.kill(0).await;
    assert!(approval.await.unwrap().is_err());
    several.ended(&turn.thread).await;
    let owner = several.header(&turn.thread).await.owner;
    assert_eq!(owner.as_ref(), Some(&several.nodes[1].incarnation), "only one node takes over the turn");
    // The stores contain the end before the owner knows that they do.
    let view = wait_for("the end of the turn", SOON, || async {
        let view = several.node(2).get_turn(&several.principal, &turn).await.unwrap();
        (view.status != TurnStatus::Running).then_some(view)
    })
    .await;
    assert_eq!((view.status, view.retriable), (TurnStatus::Failed, true), "invariant 8");
    assert_eq!(view.rounds[0].results[0].status, CallStatus::Ok);
    assert_eq!(several.tag_names().await, ["kept"]);
    // Repeated decisions at the new owner continue the turn.
    several.models.then([say("Made.")]);
    let answer = several.approve(1, approve_all(&turn, &pending)).await.unwrap();
    assert!(matches!(reached(answer), EventKind::Completed { .. }));
    assert_eq!(several.tag_names().await, ["kept"], "invariant 3");
    several.finish().await;
}

#[tokio::test]
async fn invariant_8_a_published_waiting_turn_is_found_if_its_owner_dies_after_the_decision() {
    let several = MultiNode::start(2).await;
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "kept"}))).await;
    // The second sweep of node 1 from now starts after the pause, so that node 1 caches the expiry of the pause.
    let swept = several.node(1).snapshot().sweeps + 2;
    wait_for("two sweeps", SOON, || async { (several.node(1).snapshot().sweeps >= swept).then_some(()) }).await;
    several.models.then([gated(say("Never."))]);
    let approval = several.spawn_approve(0, approve_all(&turn, &pending));
    several.wait_for_model_calls(2).await;
    several.kill(0).await;
    assert!(approval.await.unwrap().is_err());
    several.ended(&turn.thread).await;
    several.finish().await;
}

#[tokio::test]
async fn an_owner_that_was_stopped_and_replaced_writes_nothing_to_the_thread() {
    let several = MultiNode::start(2).await;
    several.models.then([gated(say("From a former incarnation."))]);
    let mut stream = several.begin(0, several.chat("x")).await;
    let turn = stream.next().await.unwrap().unwrap().turn;
    several.wait_for_model_calls(1).await;
    several.set_liveness(0, Liveness::Dead);
    several.ended(&turn.thread).await;
    let before = several.header(&turn.thread).await;
    assert_eq!(before.owner.as_ref(), Some(&several.nodes[1].incarnation));
    several.models.release();
    // Its stream ends with the closing event of the journal.
    let rest: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(matches!(closing(&rest), EventKind::Failed { retriable: true, .. }));
    assert_eq!(several.header(&turn.thread).await, before, "invariant 1");
    let error = several.node(0).resume(&several.principal, &turn).await.err().unwrap();
    assert_eq!(several.moved_to(&error), Some(1));
    several.finish().await;
}

#[tokio::test]
async fn a_draining_node_releases_idle_threads_and_keeps_running_turns() {
    let several = MultiNode::start(2).await;
    let (waiting, pending) = several.pause_at(0, call("create_tag", json!({"name": "moved"}))).await;
    several.models.then([gated(say("Ended in order.")), say("Made."), say("Next.")]);
    let mut stream = several.begin(0, several.chat("x")).await;
    let running = stream.next().await.unwrap().unwrap().turn;
    several.wait_for_model_calls(2).await;
    several.set_liveness(0, Liveness::Draining);
    let draining = several.node(0).clone();
    let drain = tokio::spawn(async move { draining.drain(SOON).await });
    wait_for("the drain", SOON, || async { several.node(0).snapshot().draining.then_some(()) }).await;
    let refused = several.approve(0, approve_all(&waiting, &pending)).await.unwrap_err();
    assert_eq!((refused.reason, refused.is_retriable()), (Reason::Draining, true));
    let answer = several.approve(1, approve_all(&waiting, &pending)).await.unwrap();
    assert!(matches!(reached(answer), EventKind::Completed { .. }), "the takeover does not wait");
    let kept = several.node(1).chat(&several.principal, several.chat_in(&running.thread, "more")).await.err().unwrap();
    assert_eq!(several.moved_to(&kept), Some(0), "a running turn stays until it ends");
    several.models.release();
    let rest: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(matches!(closing(&rest), EventKind::Completed { .. }), "no turn is lost");
    drain.await.unwrap();
    let events = several.run(1, several.chat_in(&running.thread, "more")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }));
    several.finish().await;
}

#[tokio::test]
async fn while_liveness_is_unknown_own_threads_continue_and_takeovers_wait() {
    let several = MultiNode::start(2).await;
    let (own, own_pending) = several.pause_at(0, call("create_tag", json!({"name": "own"}))).await;
    let (other, pending) = several.pause_at(1, call("create_tag", json!({"name": "other"}))).await;
    for node in [0, 1] {
        several.set_liveness(node, Liveness::Unknown);
    }
    let error = several.approve(0, approve_all(&other, &pending)).await.unwrap_err();
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::StoreUnavailable));
    assert!(error.retry_after.is_some());
    assert_eq!(several.node(0).get_turn(&several.principal, &other).await.unwrap().pending, pending, "reads work");
    several.models.then([say("Made."), say("Fresh."), say("Made.")]);
    reached(several.approve(0, approve_all(&own, &own_pending)).await.unwrap());
    several.run(0, several.chat("a new thread")).await;
    several.set_liveness(1, Liveness::Dead);
    reached(several.approve(0, approve_all(&other, &pending)).await.unwrap());
    assert_eq!(several.tag_names().await, ["other", "own"]);
    several.finish().await;
}

#[tokio::test]
async fn a_conversation_that_was_taken_over_leaves_memory_and_names_its_owner() {
    let several = MultiNode::start(2).await;
    several.models.then([say("One."), say("Two.")]);
    let thread = several.run(0, several.chat("first")).await[0].turn.thread.clone();
    let key = (several.principal.org.clone(), thread.clone());
    assert!(several.node(0).is_live(&key));
    several.set_liveness(0, Liveness::Dead);
    several.run(1, several.chat_in(&thread, "second")).await;
    let error = several.node(0).chat(&several.principal, several.chat_in(&thread, "third")).await.err().unwrap();
    assert_eq!(several.moved_to(&error), Some(1));
    assert!(!several.node(0).is_live(&key));
    assert_eq!(several.header(&thread).await.turns, 2, "invariant 1");
    several.finish().await;
}
