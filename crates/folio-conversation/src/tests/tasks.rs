//! Turns with child turns, through the actors: start, approval, budget, crash, cancel and deletion.

use folio_history::event::TurnView;
use folio_history::journal::Group;
use folio_history::task::GroupView;
use folio_history::thread::{Fence, Phase};
use folio_types::profile::{COORDINATOR_PROFILE, DOCUMENT_PROFILE};
use serde_json::Value;

use super::crash::wait_for_end;
use super::*;

fn delegate(task: &str) -> Value {
    json!({ "delegate_agent": { "profile": DOCUMENT_PROFILE, "task": task, "context": "A fact." } })
}

fn run_tasks(tasks: &[Value]) -> Step {
    call("run_tasks", json!({ "tasks": tasks }))
}

fn coordinator(sandbox: &Sandbox, text: &str) -> ChatCommand {
    ChatCommand { profile: Some(COORDINATOR_PROFILE.to_owned()), ..sandbox.chat(text) }
}

async fn group(sandbox: &Sandbox, parent: &ThreadId) -> Group {
    let found = || async {
        sandbox.journal(parent).await.into_iter().find_map(|entry| match entry {
            Entry::Group(group) => Some(*group),
            _ => None,
        })
    };
    wait_for("the group of the turn", SOON, found).await
}

async fn wait_for_phase(sandbox: &Sandbox, thread: &ThreadId, phase: Phase) {
    wait_for("the phase of the turn", SOON, || async {
        let open = sandbox.header(thread).await.open_turn;
        open.is_some_and(|open| open.phase == phase).then_some(())
    })
    .await;
}

fn result_of(view: &TurnView) -> Value {
    serde_json::from_str(&view.rounds[0].results[0].content).unwrap()
}

fn statuses(view: &TurnView) -> Vec<String> {
    let tasks = result_of(view)["tasks"].as_array().unwrap().clone();
    tasks.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

async fn child_turn(sandbox: &Sandbox, group: &Group, number: usize) -> TurnView {
    sandbox.turn(&TurnId::new(group.tasks[number - 1].thread.clone(), 1)).await
}

#[tokio::test]
async fn two_agents_work_in_threads_of_their_own_and_their_answers_are_results_in_order() {
    let sandbox = Sandbox::start().await;
    let tasks = [delegate("Find the total."), delegate("Find the total.")];
    sandbox.models.then([run_tasks(&tasks), say("It is 12.50."), say("It is 12.50."), say("The total is 12.50.")]);
    let events = sandbox.run(coordinator(&sandbox, "Check the invoice.")).await;
    assert!(
        matches!(closing(&events), EventKind::Completed { text, .. } if text == "The total is 12.50."),
        "{events:?}"
    );
    let names = names(&events);
    for name in ["tasks_started", "task_ended", "tool_result"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let turn = events[0].turn.clone();
    let group = group(&sandbox, &turn.thread).await;
    let view = sandbox.turn(&turn).await;
    assert_eq!(statuses(&view), ["completed", "completed"]);
    assert_eq!(result_of(&view)["tasks"][1]["summary"], "It is 12.50.");
    let GroupView { id, tasks, .. } = view.rounds[0].calls[0].group.clone().unwrap();
    assert_eq!((&id, &tasks[1].thread, tasks[1].agent.as_str()), (&group.id, &group.tasks[1].thread, DOCUMENT_PROFILE));
    let child = child_turn(&sandbox, &group, 1).await;
    let origin = child.task.unwrap();
    assert_eq!((origin.call, origin.group, origin.depth), (view.rounds[0].calls[0].id.clone(), group.id.clone(), 1));
    assert!(child.user_text.contains("A fact.") && child.user_text.ends_with("Check the invoice."));
    let watched = sandbox.conversations.watch(&sandbox.principal, &child.turn, 0).await.unwrap();
    assert!(all(watched).await.iter().all(|event| event.task.as_ref().is_some_and(|task| task.number == 1)));
    assert_eq!(sandbox.threads().await.len(), 1, "the threads of tasks are hidden");
    assert_eq!(view.usage.model_calls, 4);
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.wait_for_empty_index().await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_tool_of_a_task_runs_once_without_a_model() {
    let sandbox = Sandbox::start().await;
    let task = json!({ "use_tool": { "tool": "create_tag", "arguments": { "name": "once" } } });
    sandbox.models.then([run_tasks(&[task]), say("Made.")]);
    let chat = ChatCommand { auto_approve: true, ..coordinator(&sandbox, "Make a tag.") };
    let events = sandbox.run(chat).await;
    let view = sandbox.turn(&events[0].turn).await;
    assert_eq!((statuses(&view), sandbox.tag_names().await), (vec!["completed".to_owned()], vec!["once".to_owned()]));
    assert!(result_of(&view)["tasks"][0]["summary"].as_str().unwrap().contains("tag_"), "{view:?}");
    assert_eq!(sandbox.models.requests().len(), 2);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_failed_task_is_a_failed_result_and_the_others_continue() {
    let sandbox = Sandbox::start_with(Options { tasks_at_once: 1, ..options() }).await;
    let failure = ModelError::Failed("no answer".to_owned());
    sandbox.models.set_fallbacks(&[]);
    let tasks = [delegate("a"), delegate("b")];
    sandbox.models.then([run_tasks(&tasks), Step::Fail(failure), say("Done."), say("One of two.")]);
    let events = sandbox.run(coordinator(&sandbox, "Try both.")).await;
    let view = sandbox.turn(&events[0].turn).await;
    assert_eq!(statuses(&view), ["failed", "completed"]);
    sandbox.finish().await;
}

fn options() -> Options {
    Options { sweep_interval: Duration::from_millis(50), ..Options::default() }
}

#[tokio::test]
async fn a_child_that_waits_for_approval_is_decided_in_its_own_thread_while_nothing_waits_in_memory() {
    let sandbox = Sandbox::start().await;
    let tasks = [delegate("Make a tag.")];
    sandbox.models.then([run_tasks(&tasks), call("create_tag", json!({ "name": "waits" }))]);
    let stream = sandbox.begin(coordinator(&sandbox, "Make a tag.")).await;
    let parent = sandbox.newest_thread().await;
    let group = group(&sandbox, &parent).await;
    let child = group.tasks[0].thread.clone();
    wait_for("the child", SOON, || async {
        let header = sandbox.stores.threads.header(&sandbox.principal.org, &child).await.unwrap();
        header.and_then(|header| header.open_turn).filter(|open| open.phase == Phase::Paused)
    })
    .await;
    wait_for_phase(&sandbox, &parent, Phase::AwaitingChildren).await;
    drop(stream);
    sandbox.until("no busy conversation", |now| now.busy.is_empty() && now.working == 0).await;
    let view = child_turn(&sandbox, &group, 1).await;
    sandbox.models.then([say("Tagged."), say("All done.")]);
    let answer = sandbox.approve_with(approve_all(&view.turn, &view.pending)).await.unwrap();
    assert!(matches!(reached(answer), EventKind::Completed { .. }));
    let turn = TurnId::new(parent, 1);
    wait_for_end(&sandbox, &turn).await;
    let view = sandbox.turn(&turn).await;
    assert_eq!((view.status, statuses(&view)), (TurnStatus::Completed, vec!["completed".to_owned()]));
    assert_eq!(sandbox.tag_names().await, ["waits"]);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_task_cannot_spend_more_than_its_part_of_the_budget_of_its_parent() {
    let sandbox = Sandbox::start_with(Options { tasks_at_once: 1, ..options() }).await;
    sandbox.models.set_price(4);
    let tasks = [delegate("a"), delegate("b")];
    sandbox.models.then([run_tasks(&tasks), call("list_tags", json!({})), say("Done."), say("One of two.")]);
    // After the first call 13 are left: 4 for the first child, which pays for one call, and 4 for the second.
    let chat = ChatCommand { credit_budget: Some(17), ..coordinator(&sandbox, "Spend.") };
    let events = sandbox.run(chat).await;
    let view = sandbox.turn(&events[0].turn).await;
    assert_eq!(statuses(&view), ["failed", "completed"], "{events:?}");
    let budget = view.budget.unwrap();
    assert_eq!((budget.used, budget.rest), (16, 1), "the parts have returned");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_ends_its_children_and_prevents_those_that_have_not_started() {
    let sandbox = Sandbox::start_with(Options { tasks_at_once: 1, ..options() }).await;
    sandbox.models.then([run_tasks(&[delegate("a"), delegate("b")]), Step::Hang]);
    let stream = sandbox.begin(coordinator(&sandbox, "Never ends.")).await;
    let parent = sandbox.newest_thread().await;
    let group = group(&sandbox, &parent).await;
    sandbox.wait_for_model_calls(2).await;
    let turn = TurnId::new(parent.clone(), 1);
    let view = sandbox.conversations.cancel(&sandbox.principal, &turn).await.unwrap();
    assert_eq!((view.status, statuses(&view)), (TurnStatus::Cancelled, vec!["cancelled".into(), "not_started".into()]));
    assert!(matches!(closing(&all(stream).await), EventKind::Cancelled));
    assert_eq!(child_turn(&sandbox, &group, 1).await.status, TurnStatus::Cancelled);
    let threads = &sandbox.stores.threads;
    assert!(threads.header(&sandbox.principal.org, &group.tasks[1].thread).await.unwrap().is_none());
    let late = sandbox.chat_error(sandbox.chat_in(&group.tasks[1].thread, "late")).await;
    assert_eq!(late.code, Code::NotFound, "a tombstone prevents a late start");
    let journal = sandbox.journal(&parent).await;
    let position = |found: fn(&Entry) -> bool| journal.iter().position(found).unwrap();
    assert!(position(|entry| matches!(entry, Entry::Closing(_))) < position(|entry| matches!(entry, Entry::Ended(_))));
    sandbox.wait_for_idle_model().await;
    sandbox.wait_for_empty_index().await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_group_finishes_after_a_crash_at_any_step_and_each_write_happens_once() {
    for point in ["group:before", "group:after", "child:before", "child:created", "child:after", "notice:before"] {
        let mut sandbox = Sandbox::start_with(Options { tasks_at_once: 1, ..options() }).await;
        let task = |name: &str| json!({ "use_tool": { "tool": "create_tag", "arguments": { "name": name } } });
        let tasks = run_tasks(&[task("a"), task("b")]);
        sandbox.models.then([tasks, run_tasks(&[task("a"), task("b")]), say("Made."), say("Made."), say("Made.")]);
        let chat = ChatCommand { auto_approve: true, request_id: request("r"), ..coordinator(&sandbox, "Make tags.") };
        sandbox.crash_at(point, |sandbox| sandbox.spawn_chat(chat.clone())).await;
        // A repeated chat joins, or resumes the turn if its group was not recorded.
        let events = sandbox.run(chat).await;
        assert!(matches!(closing(&events), EventKind::Completed { .. }), "{point}: {events:?}");
        let view = sandbox.turn(&events[0].turn).await;
        if point != "group:before" {
            assert_eq!(statuses(&view), ["completed", "completed"], "{point}");
        }
        assert_eq!(sandbox.tag_names().await, ["a", "b"], "invariant 3 at {point}");
        sandbox.assert_sendable(&events[0].turn.thread).await;
        sandbox.models.drain();
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn an_end_that_dies_half_way_is_completed_by_the_sweep() {
    for point in ["closing:after", "children:before", "children:after"] {
        let mut sandbox = Sandbox::start_with(Options { tasks_at_once: 1, ..options() }).await;
        sandbox.models.then([run_tasks(&[delegate("a"), delegate("b")]), Step::Hang]);
        let stream = sandbox.begin(coordinator(&sandbox, "Never ends.")).await;
        let parent = sandbox.newest_thread().await;
        sandbox.wait_for_model_calls(2).await;
        let turn = TurnId::new(parent.clone(), 1);
        sandbox
            .crash_at(point, |sandbox| {
                let (conversations, principal) = (sandbox.conversations.clone(), sandbox.principal.clone());
                let turn = turn.clone();
                tokio::spawn(async move { conversations.cancel(&principal, &turn).await })
            })
            .await;
        drop(stream);
        // The actor applies the end after the append.
        let is_cancelled = || async { (sandbox.turn(&turn).await.status == TurnStatus::Cancelled).then_some(()) };
        wait_for("the turn to be cancelled", SOON, is_cancelled).await;
        let group = group(&sandbox, &parent).await;
        assert_ne!(child_turn(&sandbox, &group, 1).await.status, TurnStatus::Running, "{point}");
        sandbox.wait_for_empty_index().await;
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn the_sweep_finds_a_group_whose_notice_was_lost() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([run_tasks(&[delegate("a")]), say("Sub."), say("Done.")]);
    sandbox.hang_at(Some("notice:before"));
    let events = sandbox.run(coordinator(&sandbox, "Go.")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    sandbox.hang_at(None);
    sandbox.conversations.stop().await;
}

#[tokio::test]
async fn the_log_of_a_task_takes_no_message_can_be_forked_and_is_deleted_with_its_parent() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([run_tasks(&[delegate("a")]), say("Sub."), say("Done.")]);
    let events = sandbox.run(coordinator(&sandbox, "Go.")).await;
    let parent = events[0].turn.thread.clone();
    let child = group(&sandbox, &parent).await.tasks[0].thread.clone();
    let refused = sandbox.chat_error(sandbox.chat_in(&child, "more")).await;
    assert_eq!((refused.code, refused.violations[0].field.as_str()), (Code::InvalidArgument, "thread_id"));
    let forked = sandbox.conversations.fork_thread(&sandbox.principal, fork(&child, None)).await.unwrap();
    assert!(forked.task.is_none());
    sandbox.conversations.delete_thread(&sandbox.principal, &parent, None).await.unwrap();
    sandbox.wait_for_removal(&child).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn the_log_of_a_task_is_deleted_with_its_expired_parent() {
    let idle_timeout = Duration::from_millis(30);
    let sandbox = Sandbox::start_with(Options { idle_timeout, ..options() }).await;
    sandbox.models.then([run_tasks(&[delegate("a")]), say("Sub."), say("Done.")]);
    let events = sandbox.run(coordinator(&sandbox, "Go.")).await;
    let parent = events[0].turn.thread.clone();
    let child = group(&sandbox, &parent).await.tasks[0].thread.clone();
    sandbox.until("no conversation in memory", |now| now.live == 0).await;
    // The retention of an organization expires a thread that is not used.
    let (header, now) = (sandbox.header(&parent).await, sandbox.environment.now());
    let fence = Fence { epoch: header.epoch, version: header.version };
    assert!(sandbox.stores.threads.expire_unused(&sandbox.principal.org, &parent, fence, now).await.unwrap());
    sandbox.wait_for_removal(&parent).await;
    sandbox.wait_for_removal(&child).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn another_user_reads_neither_a_task_nor_its_parent() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([run_tasks(&[delegate("a")]), say("Sub."), say("Done.")]);
    let events = sandbox.run(coordinator(&sandbox, "Go.")).await;
    let child = group(&sandbox, &events[0].turn.thread).await.tasks[0].thread.clone();
    let other = UserId::generate(&*sandbox.environment);
    let stranger = Principal::new(sandbox.principal.org.clone(), other.clone(), Role::Member);
    let tenant = Principal::new(OrgId::generate(&*sandbox.environment), other, Role::Admin);
    for principal in [stranger, tenant] {
        let read = sandbox.conversations.get_turn(&principal, &TurnId::new(child.clone(), 1)).await;
        assert_eq!(read.unwrap_err().code, Code::NotFound, "invariant 6");
    }
    sandbox.finish().await;
}
