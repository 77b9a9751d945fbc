//! Groups of child turns.

use folio_history::journal::{ClosingCause, Entry, Group, ResumeCause, TurnProfile};
use folio_history::task::{ChildStatus, TaskOrigin, ThreadTask};
use folio_history::thread::Phase;
use folio_types::{BudgetPart, BudgetRoot, CallId, GroupId, ThreadId, TurnId};

use super::children::{Child, TASKS, planned};
use super::*;
use crate::turn::{PlannedTask, StartFailure};

/// Returns a turn whose model requested a group of children, up to the first wait.
fn waiting(children: usize) -> Rig {
    waiting_as(children, |_| {})
}

fn waiting_as(children: usize, change: impl FnOnce(&mut Start)) -> Rig {
    let mut rig = Rig::new();
    rig.children.planned = Ok(planned(children));
    rig.start_as("hello", |start| {
        start.options.auto_approve = true;
        change(start);
    });
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    rig
}

fn set(rig: &mut Rig, number: usize, child: Child) {
    rig.children.all[number - 1] = child;
}

fn complete(rig: &mut Rig, number: usize) {
    set(rig, number, Child::Completed);
    check(rig);
}

/// Sends a notice to the machine, and answers all work.
fn check(rig: &mut Rig) {
    rig.send(Command::TakeOver);
    rig.run();
}

fn group(rig: &Rig) -> Group {
    let group = rig.store.entries.iter().find_map(|entry| match entry {
        Entry::Group(group) => Some((**group).clone()),
        _ => None,
    });
    group.expect("the journal has a group")
}

fn result_of(rig: &Rig) -> serde_json::Value {
    let result = rig.record().call(1, 1).unwrap().result.clone().unwrap();
    serde_json::from_str(&result.content).unwrap()
}

fn statuses(rig: &Rig) -> Vec<String> {
    let tasks = result_of(rig)["tasks"].as_array().unwrap().clone();
    tasks.iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

fn phase(rig: &Rig) -> Option<Phase> {
    rig.store.header.open_turn.as_ref().map(|open| open.phase)
}

fn resumes(rig: &Rig) -> Vec<ResumeCause> {
    let cause = |entry: &Entry| match entry {
        Entry::Resumed(resumed) => Some(resumed.cause),
        _ => None,
    };
    rig.store.entries.iter().filter_map(cause).collect()
}

#[test]
fn a_group_is_appended_before_its_first_children_start_and_the_turn_then_waits_without_work() {
    let rig = waiting(5);
    assert_eq!(rig.journal(), ["accepted", "round", "group"]);
    assert_eq!(rig.children.open(), [1, 2, 3], "at most three at a time");
    assert_eq!(phase(&rig), Some(Phase::AwaitingChildren));
    assert!(rig.work.is_empty() && rig.machine.is_idle() && rig.machine.has_open_group());
    let open = rig.store.header.open_turn.clone().unwrap();
    let longest = jiff::SignedDuration::try_from(limits::GROUP_OPEN_MAX).unwrap();
    assert_eq!(open.expires_at, Some(rig.now.checked_add(longest).unwrap()));
    let events: Vec<_> =
        rig.events.iter().filter(|event| matches!(event.kind, EventKind::TasksStarted { .. })).collect();
    assert_eq!((events.len(), events[0].number), (1, group(&rig).event));
    assert!(!rig.events.iter().any(|event| event.kind.is_closing()), "the stream stays open");
    assert_eq!(rig.machine.view(rig.now, 1).unwrap().status, TurnStatus::Running);
}

#[test]
fn each_end_starts_the_next_child_and_the_last_one_resumes_the_turn_with_the_results_in_order() {
    let mut rig = waiting(5);
    complete(&mut rig, 2);
    assert_eq!(rig.children.open(), [1, 3, 4]);
    set(&mut rig, 1, Child::Failed);
    set(&mut rig, 3, Child::Completed);
    check(&mut rig);
    assert_eq!(rig.children.open(), [4, 5]);
    complete(&mut rig, 5);
    assert!(rig.calling().is_none());
    complete(&mut rig, 4);
    assert_eq!(statuses(&rig), ["failed", "completed", "completed", "completed", "completed"]);
    assert_eq!(result_of(&rig)["group_id"], json!(group(&rig).id));
    assert_eq!(rig.status(1), Some(CallStatus::Ok), "a failed child does not fail the others");
    assert_eq!(rig.record().usage.model_calls, 1 + 5);
    assert_eq!((rig.journal().last().unwrap().as_str(), phase(&rig)), ("outcome", Some(Phase::Running)));
    let ended = rig.events.iter().filter(|event| matches!(event.kind, EventKind::TaskEnded { .. })).count();
    assert_eq!(ended, 5, "one event for each task");
    rig.finish();
    assert!(matches!(rig.end(), Some(End::Completed { .. })));
    assert_eq!(resumes(&rig), [], "the owner never changed");
}

#[test]
fn a_group_of_which_no_child_completes_is_a_failed_call() {
    let mut rig = waiting(1);
    set(&mut rig, 1, Child::Failed);
    check(&mut rig);
    assert_eq!((rig.status(1), statuses(&rig)), (Some(CallStatus::Failed), vec!["failed".to_owned()]));
}

#[test]
fn another_owner_only_reads_until_it_must_act_and_then_takes_the_thread_over() {
    let mut rig = waiting(4);
    rig.crash();
    assert!(rig.machine.is_idle() && !rig.machine.is_orphaned());
    check(&mut rig);
    assert_eq!((resumes(&rig), rig.children.open()), (vec![], vec![1, 2, 3]), "nothing to do");
    complete(&mut rig, 1);
    assert_eq!((resumes(&rig), rig.children.open()), (vec![ResumeCause::Takeover], vec![2, 3, 4]));
    for number in 2..=4 {
        complete(&mut rig, number);
    }
    assert_eq!(rig.status(1), Some(CallStatus::Ok));
    rig.finish();
    assert!(matches!(rig.end(), Some(End::Completed { .. })), "no work was lost, so the turn does not fail");
    let numbers: Vec<u64> = rig.events.iter().map(|event| event.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "invariant 9: {numbers:?}");
}

#[test]
fn the_same_incarnation_continues_event_numbers_after_an_eviction() {
    let mut rig = waiting(2);
    complete(&mut rig, 1);
    rig.reload();
    complete(&mut rig, 2);
    rig.finish();
    let numbers: Vec<u64> = rig.events.iter().map(|event| event.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "invariant 9: {numbers:?}");
    assert!(matches!(rig.end(), Some(End::Completed { .. })));
}

/// A crash at every point between the request of the group and its result.
#[test]
fn a_crash_at_any_point_starts_no_child_twice_and_loses_no_result() {
    for steps in 0.. {
        let mut rig = Rig::new();
        rig.children.planned = Ok(planned(3));
        rig.start_as("hello", |start| start.options.auto_approve = true);
        rig.reply(calls_reply(&[TASKS]));
        let mut left = steps;
        let mut has_crashed = false;
        for number in 0..=3 {
            if number > 0 {
                set(&mut rig, number, Child::Completed);
                rig.send(Command::TakeOver);
            }
            while !rig.work.is_empty() && rig.calling().is_none() {
                if left == 0 && !has_crashed {
                    has_crashed = true;
                    rig.crash();
                    rig.send(Command::TakeOver);
                    // Without a group, the turn failed retriably, and a request resumes it.
                    if matches!(rig.end(), Some(End::Failed { .. })) {
                        rig.resume();
                    }
                    if rig.calling().is_some() && rig.record().newest_round().is_none() {
                        rig.reply(calls_reply(&[TASKS]));
                    }
                    continue;
                }
                left -= usize::from(!has_crashed);
                rig.step();
            }
        }
        rig.run();
        if rig.calling().is_some() {
            rig.reply(text_reply("done"));
        }
        let groups = rig.store.entries.iter().filter(|entry| matches!(entry, Entry::Group(_))).count();
        assert_eq!(groups, 1, "after {steps} steps");
        assert!(rig.children.all.iter().all(|child| *child == Child::Completed), "{steps}: {:?}", rig.children.all);
        assert!(matches!(rig.end(), Some(End::Completed { .. })), "after {steps} steps: {:?}", rig.end());
        assert_eq!(statuses(&rig), ["completed"; 3]);
        if !has_crashed {
            assert!(steps > 6, "{steps}");
            return;
        }
    }
}

#[test]
fn a_result_that_is_not_appended_is_read_again_by_the_next_owner() {
    let mut rig = waiting(1);
    rig.mishaps.push_back(Mishap::Overtaken);
    complete(&mut rig, 1);
    assert!(rig.is_lost);
    rig.crash();
    check(&mut rig);
    assert_eq!(rig.status(1), Some(CallStatus::Ok));
    assert!(rig.calling().is_some());
}

#[test]
fn a_notice_during_a_read_or_a_start_is_not_lost() {
    let mut rig = waiting(2);
    rig.send(Command::TakeOver);
    assert!(matches!(rig.work[0], Effect::ReadChildren(_)));
    // The read in progress does not see this end.
    let Some(Effect::ReadChildren(run)) = rig.work.pop_front() else { panic!() };
    let states = rig.children.states(&run);
    set(&mut rig, 1, Child::Completed);
    set(&mut rig, 2, Child::Completed);
    rig.send(Command::TakeOver);
    rig.send(Command::ChildrenRead { round: 1, index: 1, states });
    rig.run();
    assert_eq!(rig.status(1), Some(CallStatus::Ok));
}

#[test]
fn a_child_that_is_refused_has_a_result_and_the_next_one_starts() {
    let mut rig = Rig::new();
    rig.children.planned = Ok(planned(4));
    rig.children.failure = Some(StartFailure::Refused("no such model".into()));
    rig.start_as("hello", |start| start.options.auto_approve = true);
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    assert_eq!(rig.children.open(), [2, 3, 4]);
    for number in 2..=4 {
        complete(&mut rig, number);
    }
    assert_eq!(statuses(&rig), ["not_started", "completed", "completed", "completed"]);
    assert_eq!(result_of(&rig)["tasks"][0]["summary"], "no such model");
}

#[test]
fn a_start_that_is_not_possible_now_is_repeated_by_the_next_check() {
    let mut rig = Rig::new();
    rig.children.planned = Ok(planned(1));
    rig.children.failure = Some(StartFailure::Later);
    rig.start_as("hello", |start| start.options.auto_approve = true);
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    assert!(rig.children.open().is_empty() && rig.machine.is_idle(), "no task waits");
    check(&mut rig);
    assert_eq!(rig.children.open(), [1]);
}

#[test]
fn an_interrupted_child_is_continued() {
    let mut rig = waiting(2);
    set(&mut rig, 2, Child::Interrupted);
    check(&mut rig);
    assert_eq!(rig.children.open(), [1, 2]);
}

#[test]
fn a_cancel_is_recorded_before_the_children_end_and_the_turn_ends_after_them() {
    let mut rig = waiting(4);
    complete(&mut rig, 1);
    let ticket = rig.cancel();
    assert_eq!(rig.journal().last().map(String::as_str), Some("closing"));
    assert_eq!((phase(&rig), rig.answer(ticket)), (Some(Phase::Closing), None));
    rig.run();
    assert_eq!(rig.children.open(), [0; 0]);
    assert_eq!(statuses(&rig), ["completed", "cancelled", "cancelled", "cancelled"]);
    assert_eq!((rig.status(1), rig.end()), (Some(CallStatus::Cancelled), Some(&End::Cancelled)));
    assert!(matches!(rig.answer(ticket), Some(Ok(Answer::Ended(_)))));
    assert_eq!(rig.journal()[rig.journal().len() - 3..], ["closing", "outcome", "ended"]);
}

#[test]
fn a_child_that_did_not_start_is_prevented_and_a_late_start_is_refused() {
    let mut rig = waiting(5);
    let late = rig.machine.group_run().unwrap();
    rig.cancel();
    rig.run();
    assert_eq!(rig.children.all[3..], [Child::Prevented, Child::Prevented]);
    assert!(matches!(rig.children.start(&late, 4), Err(StartFailure::Refused(_))));
    assert_eq!(statuses(&rig)[3..], ["not_started", "not_started"]);
}

#[test]
fn the_next_owner_completes_an_end_that_died_half_way() {
    let mut rig = waiting(3);
    rig.cancel();
    assert!(matches!(rig.work[0], Effect::EndChildren(_)));
    // One child has been cancelled when the node dies.
    set(&mut rig, 1, Child::Cancelled);
    rig.crash();
    check(&mut rig);
    assert_eq!((rig.children.open(), rig.end()), (vec![], Some(&End::Cancelled)));
    assert!(rig.calling().is_none(), "nothing runs any more");
}

#[test]
fn a_chat_interrupts_or_supersedes_a_turn_with_children_and_is_refused_otherwise() {
    for (if_busy, if_pending, cause, end) in [
        (IfBusy::Interrupt, IfPending::Reject, ClosingCause::Cancelled, End::Cancelled),
        (IfBusy::Reject, IfPending::Supersede, ClosingCause::Superseded, End::Superseded),
    ] {
        let mut rig = waiting(2);
        let refused = rig.start("busy");
        assert_eq!(rig.refusal(refused), Some(Reason::TurnBusy));
        rig.start_as("next", |start| (start.if_busy, start.if_pending) = (if_busy, if_pending));
        rig.run();
        assert!(rig.children.open().is_empty());
        let closed =
            rig.store.entries.iter().any(|entry| matches!(entry, Entry::Closing(closing) if closing.cause == cause));
        assert!(closed);
        let first = rig.machine.history().turn(1).unwrap().ended.clone().unwrap();
        assert_eq!((first.end, rig.turn()), (end, 2));
    }
}

#[test]
fn a_group_ends_with_the_running_time_of_its_turn_or_after_its_longest_wait() {
    let profile = |seconds| TurnProfile { running_seconds: seconds, ..rig::profile() };
    for (seconds, before, end) in
        [(Some(100), 99, Reason::RunningTimeExceeded), (None, 30 * 86_400 - 1, Reason::TurnExpired)]
    {
        let mut rig = waiting_as(2, |start| {
            let tools = [TASKS.to_owned()].into();
            start.options.profile = Some(TurnProfile { tools, ..profile(seconds) });
        });
        rig.wait(before);
        check(&mut rig);
        assert!(rig.machine.has_open_group());
        rig.wait(1);
        check(&mut rig);
        assert!(rig.children.open().is_empty());
        match rig.end() {
            Some(End::Failed { error, retriable: false }) => assert_eq!(error.reason, end),
            Some(End::Expired) => assert_eq!(end, Reason::TurnExpired),
            other => panic!("{other:?}"),
        }
        assert_eq!(rig.status(1), Some(CallStatus::Expired));
    }
}

#[test]
fn decisions_whose_outcome_depends_on_children_are_recorded_and_answered_at_once() {
    let mut rig = Rig::new();
    rig.start("hello");
    rig.reply(calls_reply(&[TASKS]));
    let ticket = rig.decide(1, &[approve(1)]);
    rig.run();
    assert_eq!(rig.refusal(ticket), Some(Reason::TurnBusy));
    assert_eq!(rig.children.open(), [1, 2]);
    let repeated = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.refusal(repeated), Some(Reason::TurnBusy));
    complete(&mut rig, 1);
    complete(&mut rig, 2);
    rig.reply(text_reply("done"));
    let later = rig.decide(1, &[approve(1)]);
    assert!(matches!(rig.decided(later).kind, EventKind::Completed { .. }));
}

#[test]
fn the_event_of_a_group_follows_the_events_that_its_append_commits() {
    let mut rig = Rig::new();
    rig.start("hello");
    rig.reply(calls_reply(&["w1", TASKS]));
    rig.decide(1, &[reject(1), approve(2)]);
    rig.run();
    let announced = rig.events.iter().find(|event| matches!(event.kind, EventKind::TasksStarted { .. })).unwrap();
    assert_eq!(announced.number, group(&rig).event);
    let numbers: Vec<u64> = rig.events.iter().map(|event| event.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "invariant 9: {numbers:?}");
}

fn problem(rig: &Rig) -> String {
    rig.record().call(1, 1).unwrap().result.clone().unwrap().content
}

fn task(depth: u32, children_max: u32) -> ThreadTask {
    let turn = TurnId::new(ThreadId::derive(&["above"]), 1);
    ThreadTask {
        origin: TaskOrigin {
            call: CallId::new(turn, 1, 1),
            group: GroupId::derive(&["above"]),
            number: 1,
            agent: "test".into(),
            depth,
        },
        rounds_max: None,
        children_max,
        budget_parts: Vec::new(),
        parent_profiles: vec!["coordinator".into()],
        waiting_tools: Vec::new(),
        policy_tools: Vec::new(),
    }
}

fn child_rig(depth: u32, children_max: u32) -> Rig {
    Rig::new().with_header(|header| header.task = Some(Box::new(task(depth, children_max))))
}

#[test]
fn a_group_beyond_the_bounds_of_depth_width_or_number_is_a_failed_call() {
    for (mut rig, count, expected) in [
        (Rig::new(), 17, "pass 1 to 16 tasks"),
        (Rig::new(), 0, "pass 1 to 16 tasks"),
        (child_rig(3, 9), 1, "3 delegations below the first one"),
        (child_rig(1, 2), 3, "may run 2 more tasks"),
    ] {
        rig.children.planned = Ok(planned(count));
        rig.start_as("hello", |start| start.options.auto_approve = true);
        rig.reply(calls_reply(&[TASKS]));
        rig.run();
        assert_eq!(rig.status(1), Some(CallStatus::Failed));
        assert!(problem(&rig).contains(expected), "{}", problem(&rig));
        assert!(rig.calling().is_some(), "the model can correct the call");
    }
}

#[test]
fn a_problem_of_the_tasks_is_the_result_of_the_call() {
    let mut rig = Rig::new();
    rig.children.planned = Err(PlanFailure::Failed("unknown profile".into()));
    rig.start_as("hello", |start| start.options.auto_approve = true);
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    assert_eq!((rig.status(1), problem(&rig).as_str()), (Some(CallStatus::Failed), "unknown profile"));
    assert!(!rig.journal().contains(&"group".to_owned()));
}

#[test]
fn only_agents_that_may_delegate_receive_a_share_of_the_permitted_children() {
    let mut rig = Rig::new();
    let agent = |may_delegate| PlannedTask { profile: "coordinator".into(), tool: None, may_delegate };
    rig.children.planned = Ok(vec![agent(true), agent(false)]);
    rig.start_as("hello", |start| start.options.auto_approve = true);
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    let shares: Vec<u32> = group(&rig).tasks.iter().map(|task| task.children_max).collect();
    assert_eq!(shares, [(limits::TASKS_PER_TURN_MAX - 2) / 3, 0]);
    assert_eq!(rig.record().children(), 2 + shares[0]);
}

#[test]
fn each_child_has_a_part_of_every_budget_of_its_parent_and_a_thread_of_its_own() {
    let job_part = BudgetPart::whole(BudgetRoot::Job(folio_types::JobId::derive(&["j"])), 90).child(1);
    let mut rig = Rig::new().with_header(|header| header.budget_part = Some(job_part.clone()));
    rig.start_as("hello", |start| (start.options.auto_approve, start.options.credit_budget) = (true, Some(50)));
    rig.reply(calls_reply(&[TASKS]));
    rig.run();
    let group = group(&rig);
    let turn = TurnId::new(rig.store.header.id.clone(), 1);
    let own = BudgetPart::whole(BudgetRoot::Turn(turn), 50);
    for (number, task) in group.numbered() {
        let name = format!("1.1.{number}");
        assert_eq!(task.budget_parts, [job_part.child(&name), own.child(&name)]);
    }
    assert_ne!(group.tasks[0].thread, group.tasks[1].thread);
    let again = waiting(2);
    assert_eq!(again.store.header.id, rig.store.header.id);
    assert_eq!(self::group(&again).tasks[0].thread, group.tasks[0].thread, "the id is derived from the call");
}

#[test]
fn a_failed_child_turn_is_final_unless_its_node_was_lost() {
    let mut rig = child_rig(1, 0);
    rig.start("task");
    rig.model_fails(true);
    assert!(matches!(rig.end(), Some(End::Failed { retriable: false, .. })));
    assert_eq!(rig.notices, 1, "the parent is notified");
    let mut rig = child_rig(1, 0);
    rig.start("task");
    rig.crash();
    rig.send(Command::TakeOver);
    assert!(matches!(rig.end(), Some(End::Failed { retriable: true, error }) if error.reason == Reason::NodeLost));
    rig.resume();
    rig.reply(text_reply("done"));
    assert_eq!((matches!(rig.end(), Some(End::Completed { .. })), rig.notices), (true, 2));
}

#[test]
fn a_cancelled_child_turn_that_was_interrupted_is_not_continued_by_a_late_start() {
    let mut rig = child_rig(1, 0);
    rig.start("task");
    rig.crash();
    rig.send(Command::TakeOver);
    let ticket = rig.cancel();
    assert!(matches!(rig.answer(ticket), Some(Ok(Answer::Ended(_)))));
    assert!(matches!(rig.end(), Some(End::Failed { retriable: false, error }) if error.reason == Reason::TurnEnded));
    let late = rig.start_as("task", |start| start.request = "request-1".parse().unwrap());
    assert!(matches!(rig.answer(late), Some(Ok(Answer::Streaming { joined: true, .. }))));
    assert!(rig.calling().is_none(), "no model call follows");
}

#[test]
fn a_child_turn_continues_after_a_decision_without_a_further_request() {
    let mut rig = child_rig(1, 0);
    rig.start("task");
    rig.reply(calls_reply(&["w1"]));
    rig.decide(1, &[approve(1)]);
    rig.run();
    rig.reply(calls_reply(&["r1"]));
    rig.run();
    assert!(rig.calling().is_some(), "a later round without an approval does not pause");
    rig.reply(text_reply("done"));
    assert!(matches!(rig.end(), Some(End::Completed { .. })));
}

#[test]
fn truncation_and_forks_keep_the_result_of_a_group_and_no_children() {
    let mut rig = waiting(2);
    complete(&mut rig, 1);
    complete(&mut rig, 2);
    rig.reply(text_reply("done"));
    let fork = rig.stored().fork(None).unwrap();
    assert!(!fork.iter().any(|entry| matches!(entry, Entry::Group(_))));
    let copied = folio_history::History::fold(fork);
    let has_result =
        |message: &Message| matches!(message, Message::Tool { content, .. } if content.contains("answer 1"));
    assert!(copied.messages().any(|shown| has_result(&shown.message)), "the result is copied");
    rig.start_as("again", |start| start.truncate_to = Some(0));
    assert!(rig.machine.history().open().unwrap().open_group().is_none());
    assert_eq!(rig.children.open(), [0; 0]);
    assert!(matches!(rig.children.all[0], Child::Completed), "a truncation changes no child");
}

#[test]
fn a_child_status_is_named_as_in_results() {
    let all = [
        ChildStatus::Completed,
        ChildStatus::Failed,
        ChildStatus::Cancelled,
        ChildStatus::Expired,
        ChildStatus::Superseded,
        ChildStatus::NotStarted,
    ];
    for status in all {
        assert_eq!(serde_json::to_value(status).unwrap(), json!(status.as_str()));
    }
}
