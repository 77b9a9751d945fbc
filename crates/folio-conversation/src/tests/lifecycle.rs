//! Loading, eviction, draining and expiry of conversations, and their bounds.

use super::flaky::{Loss, Unreadable};
use super::*;
use folio_history::peer::EventStream;
use folio_metering::AbandonedCalls;

use crate::ActorPhase;

fn short_intervals(idle: u64) -> Options {
    Options {
        sweep_interval: Duration::from_millis(20),
        idle_timeout: Duration::from_millis(idle),
        ..Options::default()
    }
}

impl Sandbox {
    async fn has_live(&self, count: usize) {
        self.until("passivation", |now| now.live == count).await;
    }
}

#[tokio::test]
async fn an_idle_conversation_or_its_history_leaves_memory_and_is_reloaded_completely() {
    let history_only = Options { history_timeout: Duration::from_millis(30), ..short_intervals(600_000) };
    for (options, live) in [(short_intervals(30), 0), (history_only, 1)] {
        let sandbox = Sandbox::start_with(options).await;
        sandbox.models.then([say("One."), say("Two.")]);
        let first = sandbox.run(sandbox.chat("first")).await;
        // The supervisor counts a conversation after it left the table.
        let passivated = 1 - live as u64;
        sandbox.until("memory", |now| (now.live, now.passivated, now.history_bytes) == (live, passivated, 0)).await;
        assert_eq!(sandbox.turn(&first[0].turn).await.text, "One.");
        sandbox.run(sandbox.chat_in(&first[0].turn.thread, "second")).await;
        assert_eq!(sandbox.models.requests()[1].messages.len(), 3);
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn a_waiting_turn_uses_no_memory_and_a_running_turn_stays_loaded() {
    let sandbox = Sandbox::start_with(short_intervals(30)).await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.has_live(0).await;
    sandbox.models.then([gated(say("Made."))]);
    let command = approve_all(&turn, &pending);
    let mut approve = Box::pin(sandbox.approve_with(command));
    tokio::select! {
        answer = approve.as_mut() => panic!("{answer:?}"),
        () = sandbox.wait_for_model_calls(2) => {}
    }
    let running = sandbox.conversations.snapshot().busy;
    assert_eq!(running.iter().map(|view| view.phase).collect::<Vec<_>>(), [ActorPhase::Model]);
    assert_eq!(sandbox.conversations.snapshot().live, 1, "a running turn stays loaded");
    sandbox.models.release();
    reached(approve.await.unwrap());
    sandbox.finish().await;
}

#[tokio::test]
async fn a_decision_after_an_eviction_is_no_attempt_and_continues_the_events() {
    let history_only = Options { history_timeout: Duration::from_millis(30), ..short_intervals(600_000) };
    for (options, live) in [(short_intervals(30), 0), (history_only, 1)] {
        let sandbox = Sandbox::start_with(options).await;
        let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
        let next = sandbox.turn(&turn).await.next_event;
        sandbox.until("memory", |now| now.live == live && now.history_bytes == 0).await;
        sandbox.models.then([gated(say("Made."))]);
        let approve = sandbox.spawn_approve(approve_all(&turn, &pending));
        sandbox.wait_for_model_calls(2).await;
        let watched = sandbox.conversations.watch(&sandbox.principal, &turn, next).await.unwrap();
        sandbox.models.release();
        let events = all(watched).await;
        reached(approve.await.unwrap().unwrap());
        let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (next..next + numbers.len() as u64).collect::<Vec<_>>(), "invariant 9: {events:?}");
        let attempts = events.iter().filter_map(|event| match &event.kind {
            EventKind::RoundStarted { round, attempt } => Some((*round, *attempt)),
            EventKind::Snapshot(_) => panic!("the turn is repeated: {events:?}"),
            _ => None,
        });
        assert_eq!(attempts.collect::<Vec<_>>(), [(2, 1)]);
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn requests_concurrent_with_an_eviction_reach_their_conversation() {
    let sandbox = Sandbox::start_with(short_intervals(0)).await;
    sandbox.models.then([say("Here.")]);
    let first = sandbox.run(sandbox.chat("first")).await;
    for _ in 0..200 {
        let view = sandbox.turn(&first[0].turn).await;
        assert_eq!(view.text, "Here.");
    }
    sandbox.finish().await;
}

#[tokio::test]
async fn conversations_in_memory_are_bounded_and_idle_ones_are_evicted() {
    let options = Options { live_max: 2, sweep_interval: Duration::from_secs(60), ..Options::default() };
    let sandbox = Sandbox::start_with(options).await;
    sandbox.models.then([Step::Hang, Step::Hang]);
    let one = sandbox.begin(sandbox.chat("1")).await;
    let two = sandbox.begin(sandbox.chat("2")).await;
    let error = sandbox.chat_error(sandbox.chat("3")).await;
    assert_eq!(error.reason, Reason::Overloaded, "invariant 10");
    assert!(error.retry_after.is_some());
    sandbox.wait_for_model_calls(2).await;
    for view in sandbox.conversations.snapshot().busy {
        let turn = TurnId::new(view.thread, 1);
        sandbox.conversations.cancel(&sandbox.principal, &turn).await.unwrap();
    }
    drop((one, two));
    sandbox.models.then([say("There is memory.")]);
    let events = wait_for("memory", SOON, || async {
        sandbox.conversations.chat(&sandbox.principal, sandbox.chat("4")).await.ok()
    })
    .await;
    assert!(matches!(closing(&all(events).await), EventKind::Completed { .. }));
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_10_histories_in_memory_are_bounded_and_the_least_recently_used_are_evicted() {
    let bytes_max = 64 * 1024;
    let sandbox = Sandbox::start_with(Options { history_bytes_max: bytes_max, ..short_intervals(600_000) }).await;
    let text = "x".repeat(6_000);
    sandbox.models.then((0..20).map(|_| say("Noted.")));
    let mut keys = Vec::new();
    for _ in 0..20 {
        let events = sandbox.run(sandbox.chat(&text)).await;
        keys.push((sandbox.principal.org.clone(), events[0].turn.thread.clone()));
        sandbox.until("memory", |now| now.history_bytes <= bytes_max).await;
    }
    let live: Vec<bool> = keys.iter().map(|key| sandbox.conversations.is_live(key)).collect();
    assert!(live.is_sorted() && !live[0] && live[19], "the oldest are evicted: {live:?}");
    assert!(live.iter().filter(|live| **live).count() > 3, "no more are evicted than needed: {live:?}");
    sandbox.models.then([say("Again.")]);
    sandbox.run(sandbox.chat_in(&keys[0].1, "again")).await;
    assert_eq!(sandbox.models.requests()[20].messages.len(), 3, "the history is reloaded completely");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_history_beyond_the_memory_budget_is_refused_until_memory_is_free() {
    let sandbox = Sandbox::start_with(Options { history_bytes_max: 10_000, ..short_intervals(600_000) }).await;
    sandbox.models.then([say("Noted."), Step::Hang]);
    let first = sandbox.run(sandbox.chat(&"x".repeat(6_000))).await;
    let running = sandbox.begin(sandbox.chat(&"y".repeat(9_000))).await;
    sandbox.wait_for_model_calls(2).await;
    sandbox.has_live(1).await;
    let again = sandbox.chat_in(&first[0].turn.thread, "again");
    let error = sandbox.chat_error(again.clone()).await;
    assert_eq!(error.reason, Reason::Overloaded, "invariant 10");
    assert!(error.retry_after.is_some());
    let busy = sandbox.conversations.snapshot().busy;
    let turn = TurnId::new(busy[0].thread.clone(), 1);
    sandbox.conversations.cancel(&sandbox.principal, &turn).await.unwrap();
    drop(running);
    sandbox.models.then([say("There is memory.")]);
    let events = sandbox.run(again).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }));
    sandbox.finish().await;
}

#[tokio::test]
async fn requests_in_flight_to_one_conversation_are_bounded() {
    let options = Options { in_flight_per_conversation: 2, ..short_intervals(60_000) };
    let sandbox = Sandbox::start_with(options).await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.models.then([gated(say("Made."))]);
    let command = approve_all(&turn, &pending);
    let (one, two) = (sandbox.approve_with(command.clone()), sandbox.approve_with(command.clone()));
    let mut both = Box::pin(async { tokio::join!(one, two) });
    tokio::select! {
        answers = both.as_mut() => panic!("{answers:?}"),
        () = sandbox.until("requests in flight", |now| now.busy.iter().any(|view| view.in_flight == 2)) => {}
    }
    let error = sandbox.approve_with(command).await.unwrap_err();
    assert_eq!(error.reason, Reason::Overloaded, "invariant 10");
    sandbox.models.release();
    let (one, two) = both.await;
    assert_eq!(one.unwrap(), two.unwrap());
    sandbox.finish().await;
}

#[tokio::test]
async fn draining_lets_running_turns_end_and_refuses_queued_and_new_chats() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([gated(say("To the end."))]);
    let stream = sandbox.begin(sandbox.chat("x")).await;
    let queued = sandbox.enqueue(sandbox.chat_in(&sandbox.newest_thread().await, "later"), 1).await;
    let conversations = sandbox.conversations.clone();
    let drained = tokio::spawn(async move { conversations.drain(SOON).await });
    assert_eq!(queued.await.unwrap().err().unwrap().reason, Reason::Draining);
    assert_eq!(sandbox.chat_error(sandbox.chat("y")).await.reason, Reason::Draining);
    sandbox.models.release();
    assert!(matches!(closing(&all(stream).await), EventKind::Completed { .. }));
    drained.await.unwrap();
    sandbox.finish().await;
}

async fn expire(sandbox: &Sandbox) {
    let now = sandbox.environment.now();
    sandbox.stores.threads.expire_referrers(&sandbox.principal.org, sandbox.document.as_str(), now).await.unwrap();
}

#[tokio::test]
async fn an_expired_unloaded_thread_is_removed_only_after_its_open_turn_is_cancelled() {
    let (sandbox, flaky) = Sandbox::start_flaky(short_intervals(30), Loss::Request, usize::MAX).await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.has_live(0).await;
    let before = flaky.appends();
    expire(&sandbox).await;
    sandbox.wait_for_removal(&turn.thread).await;
    assert!(flaky.appends() > before, "the end of its turn is appended first");
    // The open-turn row of a first turn may remain. The sweep removes it only after a delay, because the append that
    // creates the thread may be in flight.
    sandbox.environment.advance(Duration::from_secs(3_600));
    sandbox.wait_for_empty_index().await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_sweep_with_a_wrong_clock_removes_no_thread() {
    let sandbox = Sandbox::start_with(short_intervals(30)).await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.has_live(0).await;
    let (org, expires) = (&sandbox.principal.org, sandbox.environment.now() + limits::DAY);
    sandbox.stores.threads.expire_referrers(org, sandbox.document.as_str(), expires).await.unwrap();
    sandbox.environment.jump(30 * limits::DAY);
    let swept = sandbox.conversations.snapshot().sweeps + 3;
    wait_for("three sweeps", SOON, || async { (sandbox.conversations.snapshot().sweeps >= swept).then_some(()) }).await;
    sandbox.environment.jump(Duration::ZERO);
    sandbox.conversations.get_turn(&sandbox.principal, &turn).await.expect("the thread has not expired");
    sandbox.finish().await;
}

/// Checks that an ephemeral thread with an open turn is removed after a day, not before.
async fn expires_after_a_day(sandbox: &Sandbox, turn: &TurnId, follows: Option<EventStream>) {
    sandbox.environment.advance(limits::DAY - Duration::from_secs(60));
    sandbox.conversations.get_turn(&sandbox.principal, turn).await.expect("not yet");
    sandbox.environment.advance(Duration::from_secs(120));
    sandbox.wait_for_removal(&turn.thread).await;
    let error = sandbox.conversations.get_turn(&sandbox.principal, turn).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    if let Some(stream) = follows {
        assert_eq!(closing(&all(stream).await), &EventKind::Cancelled, "the watcher receives the end");
    }
    sandbox.wait_for_empty_index().await;
    assert!(sandbox.tag_names().await.is_empty(), "invariant 2");
}

#[tokio::test]
async fn an_ephemeral_thread_with_a_running_turn_expires_after_a_day() {
    let sandbox = Sandbox::start_with(short_intervals(60_000)).await;
    sandbox.models.then([Step::Hang]);
    let stream = sandbox.begin(ChatCommand { ephemeral: true, ..sandbox.chat("x") }).await;
    sandbox.wait_for_model_calls(1).await;
    let row = sandbox.open_rows().await.remove(0);
    expires_after_a_day(&sandbox, &row.turn, Some(stream)).await;
    sandbox.wait_for_idle_model().await;
    sandbox.finish().await;
}

#[tokio::test]
async fn an_ephemeral_thread_with_a_waiting_turn_expires_after_a_day_loaded_or_not() {
    for idle in [30, 60_000] {
        let options = Options { approval_ttl: 30 * limits::DAY, ..short_intervals(idle) };
        let sandbox = Sandbox::start_with(options).await;
        sandbox.models.then([call("create_tag", json!({"name": "a"}))]);
        let events = sandbox.run(ChatCommand { ephemeral: true, ..sandbox.chat("x") }).await;
        if idle == 30 {
            sandbox.has_live(0).await;
        }
        expires_after_a_day(&sandbox, &events[0].turn, None).await;
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn expired_threads_without_an_open_turn_are_removed_loaded_or_not() {
    for idle in [30, 60_000] {
        let sandbox = Sandbox::start_with(short_intervals(idle)).await;
        sandbox.models.then([say("One.")]);
        let events = sandbox.run(sandbox.chat("first")).await;
        if idle == 30 {
            sandbox.has_live(0).await;
        }
        expire(&sandbox).await;
        sandbox.wait_for_removal(&events[0].turn.thread).await;
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn an_unreadable_expired_thread_does_not_stop_the_removal_of_the_others() {
    let unreadable = Arc::new(Unreadable::default());
    let wrap = |stores: &mut Stores| stores.threads = Layered::over(unreadable.clone(), &stores.threads);
    let sandbox = Sandbox::start_as(short_intervals(30), None, Some(Box::new(wrap)), AbandonedCalls::Abort).await;
    let mut threads = Vec::new();
    for text in ["first", "second", "third"] {
        sandbox.models.then([say("Done.")]);
        threads.push(sandbox.run(sandbox.chat(text)).await[0].turn.thread.clone());
    }
    sandbox.has_live(0).await;
    *unreadable.0.lock().unwrap() = Some(threads[0].clone());
    expire(&sandbox).await;
    for thread in &threads[1..] {
        sandbox.wait_for_removal(thread).await;
    }
    wait_for("the unreadable thread is counted", SOON, || async {
        (sandbox.stores.unreadable.count() == 1).then_some(())
    })
    .await;
    *unreadable.0.lock().unwrap() = None;
    sandbox.wait_for_removal(&threads[0]).await;
    sandbox.finish().await;
}
