use std::collections::BTreeSet;
use std::time::Duration;

use folio_resources::Member;
use folio_types::limits::{
    DELIVERY_RETENTION, JOB_BLOCKED_MAX, JOB_FAILURES_MAX, JOB_INPUT_BYTES, JOB_ITEMS_MAX, JOB_MESSAGE_CHARS,
    JOB_OPEN_MAX, JOB_PAGE_ITEMS, JOB_RETENTION, JOB_SUBJECT_BYTES, NAME_CHARS,
};
use folio_types::{
    Code, Error, Incarnation, JobId, Liveness, OrgId, Principal, Reason, Result, Role, ThreadId, Timestamp, TurnId,
    UserId,
};
use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn principal() -> Principal {
    Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member)
}

fn new(items: usize) -> NewJob {
    NewJob {
        id: JobId::derive(&["j"]),
        principal: principal(),
        kind: "extraction".to_owned(),
        input: json!({"prompt": "p"}),
        items: (0..items).map(|number| format!("item {number}")).collect(),
        running_max: Duration::from_secs(100),
        at: at(0),
    }
}

fn queued(items: usize) -> JobHeader {
    new(items).header().unwrap()
}

fn start() -> JobCommand {
    JobCommand::Start { owner: Incarnation::derive(&["n"]), access: Ok(principal()) }
}

fn exhausted() -> Error {
    Error::exhausted(Reason::CreditExhausted, "no credit")
}

fn wait(reason: WaitReason, seconds: i64) -> JobCommand {
    JobCommand::Wait { reason, error: Some(exhausted()), retry_at: at(seconds) }
}

fn finish(result: Result<()>) -> JobCommand {
    JobCommand::Finish { item: 0, result }
}

/// Returns the header after commands, each at its second.
fn after(mut header: JobHeader, commands: impl IntoIterator<Item = (i64, JobCommand)>) -> JobHeader {
    for (seconds, command) in commands {
        let next = header.after(command.clone(), at(seconds));
        header = next.unwrap_or_else(|error| panic!("{command:?}: {error}")).unwrap_or(header);
    }
    header
}

fn failed_with(header: &JobHeader) -> Option<Reason> {
    match &header.state {
        JobState::Failed(error) => Some(error.reason),
        _ => None,
    }
}

#[test]
fn a_new_job_has_bounded_items_and_input() {
    for items in [JOB_PAGE_ITEMS, JOB_PAGE_ITEMS + 1, JOB_ITEMS_MAX] {
        assert_eq!(queued(items).progress(), Progress { items, done: 0, failed: 0 });
    }
    let with = |items: Vec<String>| NewJob { items, ..new(1) }.header();
    with(vec!["x".repeat(JOB_SUBJECT_BYTES)]).unwrap();
    let many = (0..=JOB_ITEMS_MAX).map(|number| number.to_string()).collect();
    let twice = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
    for wrong in [vec![], many, twice, vec![String::new()], vec!["x".repeat(JOB_SUBJECT_BYTES + 1)]] {
        assert_eq!(with(wrong).unwrap_err().reason, Reason::InvalidField);
    }
    let input = |bytes: usize| NewJob { input: json!("x".repeat(bytes - 2)), ..new(1) }.header();
    assert!(input(JOB_INPUT_BYTES).is_ok());
    assert_eq!(input(JOB_INPUT_BYTES + 1).unwrap_err().reason, Reason::TooLarge);
}

#[test]
fn a_job_runs_its_items_and_completes() {
    let header = after(queued(2), [(1, start()), (2, JobCommand::Begin { item: 0 })]);
    assert_eq!((header.epoch, header.version, header.owner.clone()), (1, 2, Some(Incarnation::derive(&["n"]))));
    assert_eq!(header.next_item(), Some(1));
    let open = header.after(JobCommand::Complete, at(3)).unwrap_err();
    assert_eq!(open.code, Code::Internal);
    let refused = Err(Error::invalid(Reason::NoText, "no text"));
    let rest = [
        (3, finish(Ok(()))),
        (4, JobCommand::Begin { item: 1 }),
        (5, JobCommand::Finish { item: 1, result: refused }),
        (6, JobCommand::Complete),
    ];
    let header = after(header, rest);
    assert_eq!(header.progress(), Progress { items: 2, done: 1, failed: 1 });
    assert_eq!((&header.state, header.ended_at, header.running_millis), (&JobState::Completed, Some(at(6)), 5_000));
    assert_eq!(header.expires_at(), Some(at(6).checked_add(JOB_RETENTION).unwrap()));
}

#[test]
fn each_state_accepts_its_commands_only() {
    let running = after(queued(1), [(1, start()), (1, JobCommand::Begin { item: 0 })]);
    let states = [
        ("queued", queued(1)),
        ("running", running.clone()),
        ("waiting", after(running.clone(), [(2, wait(WaitReason::Credit, 50))])),
        ("paused", after(running.clone(), [(2, JobCommand::Pause)])),
        ("ended", after(running, [(2, JobCommand::Cancel)])),
    ];
    let commands = [
        ("start", start(), "changed changed conflict conflict ended"),
        ("begin", JobCommand::Begin { item: 0 }, "conflict conflict conflict conflict ended"),
        ("finish", finish(Ok(())), "conflict changed conflict conflict ended"),
        ("postpone", JobCommand::Postpone { item: 0 }, "conflict changed conflict conflict ended"),
        ("checkpoint", JobCommand::Checkpoint { steps: Vec::new() }, "conflict changed conflict conflict ended"),
        ("wait", wait(WaitReason::Store, 9), "conflict changed conflict conflict ended"),
        ("release", JobCommand::Release, "conflict changed conflict conflict ended"),
        ("fail", JobCommand::Fail { error: exhausted() }, "conflict changed conflict conflict ended"),
        ("cancel", JobCommand::Cancel, "changed changed changed changed same"),
        ("pause", JobCommand::Pause, "changed changed changed same ended"),
        ("resume", JobCommand::Resume, "same same changed changed ended"),
        ("expire", JobCommand::Expire, "same same same same ended"),
    ];
    for (name, command, expected) in commands {
        let answers = states.iter().map(|(_, header)| match header.after(command.clone(), at(3)) {
            Ok(Some(_)) => "changed",
            Ok(None) => "same",
            Err(error) if error.reason == Reason::JobEnded => "ended",
            Err(error) if error.reason == Reason::VersionConflict => "conflict",
            Err(error) => panic!("{name}: {error}"),
        });
        assert_eq!(answers.collect::<Vec<_>>().join(" "), expected, "{name}");
    }
}

#[test]
fn every_sequence_of_commands_keeps_the_rules_of_a_job() {
    const DEPTH: usize = 5;
    let commands = [
        start(),
        JobCommand::Start { owner: Incarnation::derive(&["m"]), access: Err(exhausted()) },
        JobCommand::Begin { item: 0 },
        finish(Ok(())),
        finish(Err(Error::unavailable(Reason::ModelFailed, "failed"))),
        finish(Err(Error::invalid(Reason::NoText, "no text"))),
        JobCommand::Checkpoint { steps: Vec::new() },
        JobCommand::Postpone { item: 0 },
        JobCommand::Release,
        wait(WaitReason::Credit, 0),
        wait(WaitReason::Approval, 0),
        JobCommand::Complete,
        JobCommand::Cancel,
        JobCommand::Pause,
        JobCommand::Resume,
    ];
    fn explore(header: &JobHeader, commands: &[JobCommand], runs: &BTreeSet<ItemRun>, depth: usize) -> usize {
        let mut count = 1;
        if depth == 0 {
            return count;
        }
        let now = header.updated_at.checked_add(Duration::from_secs(1)).unwrap();
        for command in commands {
            let Ok(Some(next)) = header.after(command.clone(), now) else { continue };
            assert!(!header.is_ended(), "{command:?} changed an ended job");
            assert_eq!(next.version, header.version + 1);
            let starts = matches!(command, JobCommand::Start { .. });
            assert_eq!(next.epoch, header.epoch + u64::from(starts), "{command:?}");
            assert!(next.running_millis >= header.running_millis);
            assert_eq!(next.running_millis > header.running_millis, header.state == JobState::Running && !starts);
            let is_terminal = matches!(next.state, JobState::Completed | JobState::Failed(_) | JobState::Cancelled);
            assert_eq!(next.is_ended(), is_terminal, "{:?}", next.state);
            for (before, item) in header.items.iter().zip(&next.items) {
                assert!(!before.has_ended() || before == item, "{command:?} changed an ended item");
                assert!(item.state != ItemState::Running || next.state == JobState::Running, "{command:?}");
                assert!(item.failures <= item.attempt && item.failures <= JOB_FAILURES_MAX);
            }
            let mut runs = runs.clone();
            if matches!(command, JobCommand::Begin { .. })
                && let Some(run) = next.run_of(0)
            {
                assert!(runs.insert(run.clone()), "two attempts are {run}");
            }
            count += explore(&next, commands, &runs, depth - 1);
        }
        count
    }
    assert!(explore(&queued(1), &commands, &BTreeSet::new(), DEPTH) > 1_000);
}

#[test]
fn a_start_after_the_death_of_the_owner_counts_a_failure_of_the_running_item() {
    let mut header = after(queued(1), [(1, start()), (2, JobCommand::Begin { item: 0 })]);
    for failures in 1..JOB_FAILURES_MAX {
        header = after(header, [(1_000, start())]);
        assert_eq!((header.items[0].failures, &header.items[0].state), (failures, &ItemState::Pending));
        header = after(header, [(1_000, JobCommand::Begin { item: 0 })]);
    }
    let running_millis = header.running_millis;
    header = after(header, [(2_000, start())]);
    assert!(matches!(&header.items[0].state, ItemState::Failed(error) if error.reason == Reason::NodeLost));
    assert_eq!(header.running_millis, running_millis, "the time without an owner does not count");
}

#[test]
fn a_retriable_error_repeats_an_item_a_bounded_number_of_times() {
    let mut header = after(queued(1), [(1, start())]);
    let error = Error { message: "x".repeat(10_000), ..Error::unavailable(Reason::ModelFailed, "") };
    for attempt in 1..=JOB_FAILURES_MAX {
        header = after(header, [(1, JobCommand::Begin { item: 0 }), (1, finish(Err(error.clone())))]);
        assert_eq!((header.items[0].attempt, header.items[0].failures), (attempt, attempt));
        assert_eq!(header.items[0].has_ended(), attempt == JOB_FAILURES_MAX);
    }
    assert!(matches!(&header.items[0].state, ItemState::Failed(error) if error.message.len() == JOB_MESSAGE_CHARS));
}

#[test]
fn waiting_does_not_count_as_running_time_and_interrupts_items_without_a_failure() {
    for reason in [WaitReason::Approval, WaitReason::Credit, WaitReason::Limit, WaitReason::Store] {
        let header = after(
            queued(1),
            [(0, start()), (0, JobCommand::Begin { item: 0 }), (10, wait(reason, 5_000)), (5_000, start())],
        );
        assert_eq!((header.running_millis, &header.state), (10_000, &JobState::Running), "{reason:?}");
        assert_eq!((header.items[0].attempt, header.items[0].failures), (1, 0));
        let early = after(queued(1), [(0, start()), (10, wait(reason, 50))]).after(start(), at(49)).unwrap_err();
        assert_eq!(early.reason, Reason::VersionConflict);
    }
}

#[test]
fn a_postponed_item_is_attempted_again_without_a_failure() {
    let running =
        after(queued(2), [(0, start()), (0, JobCommand::Begin { item: 0 }), (0, JobCommand::Begin { item: 1 })]);
    let postponed = after(running, [(1, JobCommand::Postpone { item: 1 })]);
    assert_eq!((&postponed.items[0].state, &postponed.state), (&ItemState::Running, &JobState::Running));
    assert_eq!((postponed.next_item(), postponed.items[1].attempt, postponed.items[1].failures), (Some(1), 1, 0));
}

#[test]
fn a_job_that_is_handed_over_starts_again_without_a_failure() {
    let released =
        after(queued(1), [(0, start()), (0, JobCommand::Begin { item: 0 }), (10, JobCommand::Release), (20, start())]);
    assert_eq!((released.epoch, released.running_millis), (2, 10_000));
    assert_eq!((released.items[0].attempt, released.items[0].failures, released.next_item()), (1, 0, Some(0)));
}

#[test]
fn the_running_item_states_its_progress_until_it_is_done_or_attempted_again() {
    let steps = Steps { done: 3, total: 12 };
    let begin = || JobCommand::Begin { item: 0 };
    let checkpoint = JobCommand::Checkpoint { steps: vec![(0, steps)] };
    let running = after(queued(2), [(0, start()), (0, begin()), (1, checkpoint)]);
    assert_eq!((running.items[0].steps, running.items[1].steps), (Some(steps), None));
    assert_eq!(after(running.clone(), [(2, finish(Ok(())))]).items[0].steps, None);
    let released = after(running, [(2, JobCommand::Release), (3, start())]);
    assert_eq!(released.items[0].steps, Some(steps));
    assert_eq!(after(released, [(3, begin())]).items[0].steps, None);
}

#[test]
fn a_job_fails_once_its_running_time_is_exceeded() {
    let started = || after(queued(2), [(0, start())]);
    let stopped = after(started(), [(100, JobCommand::Checkpoint { steps: Vec::new() })]);
    assert!(matches!(&stopped.state, JobState::Failed(error) if error.message.contains("of 100 s")), "{stopped:?}");
    let begun = after(started(), [(0, JobCommand::Begin { item: 0 })]);
    assert_eq!(after(begun.clone(), [(99, JobCommand::Checkpoint { steps: Vec::new() })]).state, JobState::Running);
    for header in [
        after(begun.clone(), [(100, JobCommand::Checkpoint { steps: Vec::new() })]),
        after(begun.clone(), [(100, finish(Ok(())))]),
        after(started(), [(100, JobCommand::Begin { item: 0 })]),
        after(begun.clone(), [(100, JobCommand::Pause), (200, JobCommand::Resume), (300, start())]),
    ] {
        assert_eq!(failed_with(&header), Some(Reason::JobExpired));
    }
    let last = after(queued(1), [(0, start()), (0, JobCommand::Begin { item: 0 }), (100, finish(Ok(())))]);
    assert_eq!(last.state, JobState::Running, "the last item was done in time to complete");
}

#[test]
fn a_job_waits_a_day_for_credit_or_limits_unless_an_item_completes() {
    let day = i64::try_from(JOB_BLOCKED_MAX.as_secs()).unwrap();
    for reason in [WaitReason::Credit, WaitReason::Limit] {
        let blocked = after(queued(2), [(0, start()), (0, wait(reason, 60)), (60, start())]);
        assert_eq!(blocked.blocked_since, Some(at(0)));
        let waits = after(blocked.clone(), [(61, wait(reason, day - 1)), (day - 1, start())]);
        assert!(matches!(after(waits.clone(), [(day - 1, wait(reason, day))]).state, JobState::Waiting { .. }));
        assert_eq!(failed_with(&after(waits, [(day, wait(reason, day))])), Some(Reason::CreditExhausted));
        let item = [(61, JobCommand::Begin { item: 0 }), (62, finish(Ok(())))];
        assert_eq!(after(blocked.clone(), item).blocked_since, None);
        let paused = after(blocked, [(61, JobCommand::Pause), (62, JobCommand::Resume)]);
        assert_eq!((paused.blocked_since, paused.state), (None, JobState::Queued));
    }
    let later = after(queued(1), [(0, start()), (0, wait(WaitReason::Store, 2 * day)), (2 * day, start())]);
    let stored = after(later, [(2 * day, wait(WaitReason::Store, 3 * day))]);
    assert!(matches!(stored.state, JobState::Waiting { .. }), "the store may be unavailable for longer");
}

#[test]
fn the_delay_of_a_blocked_job_doubles_within_its_bounds() {
    assert_eq!(retry_at(None, at(0)), at(30));
    for (blocked, delay) in [(0, 30), (30, 30), (60, 60), (600, 600), (900, 900), (80_000, 900)] {
        assert_eq!(retry_at(Some(at(0)), at(blocked)), at(blocked + delay), "{blocked}");
    }
}

#[test]
fn an_open_job_fails_after_30_days_whatever_its_state() {
    let end = i64::try_from(JOB_OPEN_MAX.as_secs()).unwrap();
    for header in [queued(1), after(queued(1), [(0, JobCommand::Pause)])] {
        assert_eq!(header.after(JobCommand::Expire, at(end - 1)).unwrap(), None);
        assert_eq!(failed_with(&after(header, [(end, JobCommand::Expire)])), Some(Reason::JobExpired));
    }
    assert_eq!(failed_with(&after(queued(1), [(end, start())])), Some(Reason::JobExpired));
}

#[test]
fn a_job_starts_with_the_current_role_of_its_user_and_fails_if_the_user_was_removed() {
    let member = |role, removed_at| Member { removed_at, ..Member::new(principal().user, "u", role, at(0)) };
    let role = |member: Option<Member>| {
        current_principal(&principal(), member.as_ref(), Role::Member).map(|principal| principal.role)
    };
    assert_eq!(role(None), Ok(Role::Member));
    assert_eq!(role(Some(member(Role::Admin, None))), Ok(Role::Member), "the role at the cause bounds the job");
    let lowered = role(Some(member(Role::Viewer, None))).unwrap_err();
    let removed = role(Some(member(Role::Admin, Some(at(1))))).unwrap_err();
    let admin = Principal { role: Role::Admin, ..principal() };
    let bounded = current_principal(&admin, Some(&member(Role::Viewer, None)), Role::Viewer).unwrap();
    assert_eq!(bounded, Principal { role: Role::Viewer, ..admin }, "the current role bounds the job");
    assert!(lowered.message.contains("viewer") && removed.message.contains("removed"), "{lowered}, {removed}");
    for error in [lowered, removed] {
        let access = Err(error);
        let header = after(queued(1), [(1, JobCommand::Start { owner: Incarnation::derive(&["n"]), access })]);
        assert_eq!((failed_with(&header), header.ended_at), (Some(Reason::RoleNotAllowed), Some(at(1))));
    }
}

#[test]
fn an_organization_has_a_bounded_number_of_open_jobs() {
    let limits = JobLimits::default();
    assert_eq!((limits.waiting_max, limits.running_max), (10_000, 8));
    assert!(limits.admit(10_007).is_ok());
    assert_eq!(limits.admit(10_008).unwrap_err().reason, Reason::QueueFull);
}

#[test]
fn the_limits_of_jobs_have_bounds() {
    let limits = JobLimits::default();
    assert_eq!(limits.check(), Ok(()));
    let bad = JobLimits {
        waiting_max: 1_000_001,
        running_max: 0,
        items_running_max: 101,
        running_time: JOB_OPEN_MAX + Duration::from_secs(1),
    };
    let problems = bad.check().unwrap_err().problems;
    for key in ["jobs.waiting_max", "jobs.running_max", "jobs.items_running_max", "jobs.running_time_seconds"] {
        assert!(problems.iter().any(|problem| problem.starts_with(key)), "{key}: {problems:?}");
    }
}

#[test]
fn the_keys_of_an_attempt_derive_from_job_item_epoch_and_attempt() {
    let job = JobId::derive(&["j"]);
    let run = |item, epoch, attempt| ItemRun { job: job.clone(), item, epoch, attempt };
    assert_eq!(run(2, 3, 4).ledger_key(5), format!("{job}.2.3.4.5"));
    let thread = ThreadId::derive(&[job.as_str(), "2", "3", "4"]);
    assert_eq!(run(2, 3, 4).turn(), TurnId::new(thread, 1));
    let runs = [run(1, 1, 1), run(2, 1, 1), run(1, 2, 1), run(1, 1, 2), run(1, 1, 11), run(1, 11, 1), run(11, 1, 1)];
    let turns: BTreeSet<_> = runs.iter().map(ItemRun::turn).collect();
    let keys: BTreeSet<_> = runs.iter().map(|run| run.ledger_key(1)).collect();
    assert_eq!((turns.len(), keys.len()), (runs.len(), runs.len()));
    assert_eq!(run(1, 1, 1).effect(), run(1, 2, 3).effect());
    assert_ne!(run(1, 1, 1).effect(), run(2, 1, 1).effect());
    let header = after(queued(2), [(1, start()), (1, JobCommand::Begin { item: 1 })]);
    assert_eq!((header.run_of(0), header.run_of(1), header.run_of(2)), (None, Some(run(2, 1, 1)), None));
}

#[test]
fn the_sweep_starts_jobs_without_a_live_owner_and_removes_rows_of_ended_jobs() {
    let row = OpenJobRow::of(&queued(1));
    let open_max = i64::try_from(JOB_OPEN_MAX.as_secs()).unwrap();
    assert_eq!(row.until, at(open_max + 10 * 24 * 3_600), "the row outlives the longest open job by ten days");
    let action = |header: &JobHeader, liveness, seconds| row_action(&row, Some(header), |_| liveness, at(seconds));
    assert_eq!(row_action(&row, None, |_| Liveness::Live, at(3_599)), RowAction::Skip, "its creation may arrive");
    assert_eq!(row_action(&row, None, |_| Liveness::Live, at(3_600)), RowAction::Remove);
    assert_eq!(action(&queued(1), Liveness::Live, 1), RowAction::Start);
    let running = after(queued(1), [(1, start())]);
    for liveness in [Liveness::Live, Liveness::Draining, Liveness::Unknown] {
        assert_eq!(action(&running, liveness, 2), RowAction::Skip, "{liveness:?}");
    }
    assert_eq!(action(&running, Liveness::Dead, 2), RowAction::Start);
    let waiting = after(running.clone(), [(2, wait(WaitReason::Limit, 50))]);
    assert_eq!(action(&waiting, Liveness::Live, 49), RowAction::CheckAt(at(50)));
    assert_eq!(action(&waiting, Liveness::Live, 50), RowAction::Start);
    let paused = after(running.clone(), [(2, JobCommand::Pause)]);
    assert_eq!(action(&paused, Liveness::Dead, 3), RowAction::CheckAt(paused.open_until()));
    let end = i64::try_from(JOB_OPEN_MAX.as_secs()).unwrap();
    for open in [&waiting, &paused, &running] {
        assert_eq!(action(open, Liveness::Live, end), RowAction::Expire);
    }
    assert_eq!(action(&after(running, [(2, JobCommand::Cancel)]), Liveness::Dead, 3), RowAction::Remove);
    assert!(row.until > queued(1).open_until());
}

#[test]
fn a_write_is_executed_once_under_its_fence() {
    let before = queued(1);
    let after = before.after(start(), at(1)).unwrap().unwrap();
    let write = JobWrite { batch: 1, before: before.clone(), after: after.clone(), outcome: None };
    let live = |header: &JobHeader| Some(JobRecord::Live(Box::new(header.clone())));
    assert_eq!(decide(&write, live(&before), false), Ok(JobDecision::Write));
    let answer = |written| Ok(JobDecision::Answer(written));
    assert_eq!(decide(&write, live(&after), true), answer(JobWritten::Done(Box::new(after.clone()))));
    assert_eq!(decide(&write, live(&after), false), answer(JobWritten::Refused(Box::new(after.clone()))));
    for missing in [None, Some(after.tombstone())] {
        assert_eq!(decide(&write, missing, false).unwrap_err().reason, Reason::NotFound);
    }
}

#[test]
fn a_list_entry_changes_only_when_the_job_ends() {
    let (created, running) = (queued(1), after(queued(1), [(1, start())]));
    assert_eq!(created.listed().row, running.listed().row);
    let ended = after(running.clone(), [(2, JobCommand::Cancel)]);
    let filter = |is_open| JobFilter { is_open: Some(is_open), ..JobFilter::default() }.conditions();
    assert!(running.listed().row.matches(&filter(true)) && !running.listed().row.matches(&filter(false)));
    assert!(ended.listed().row.matches(&filter(false)) && !ended.listed().row.matches(&filter(true)));
    let of = |kind: &str, user| {
        JobFilter { kind: Some(kind.to_owned()), user: Some(user), ..JobFilter::default() }.conditions()
    };
    assert!(running.listed().row.matches(&of("extraction", principal().user)));
    assert!(!running.listed().row.matches(&of("other", principal().user)));
    assert!(!running.listed().row.matches(&of("extraction", UserId::derive(&["other"]))));
}

#[test]
fn a_delivery_has_a_queue_of_its_own_and_is_listed_by_its_endpoint() {
    let new = NewJob { kind: DELIVERY_KIND.to_owned(), items: vec!["whe_1".to_owned()], ..new(1) };
    let delivery = new.header().unwrap();
    assert_eq!((delivery.queue(), queued(1).queue()), (JobQueue::Deliveries, JobQueue::Work));
    assert_eq!(OpenJobRow::of(&delivery).queue, JobQueue::Deliveries);
    assert_ne!(JobQueue::Deliveries.list(), JobQueue::Work.list());
    assert_ne!(JobQueue::Deliveries.slots(), JobQueue::Work.slots());
    let ended = after(delivery.clone(), [(1, JobCommand::Cancel)]);
    let of = |subject: &str, is_open| {
        JobFilter { subject: Some(subject.to_owned()), is_open, ..JobFilter::default() }.conditions()
    };
    for (is_open, of_delivery, of_ended) in [(None, true, true), (Some(true), true, false), (Some(false), false, true)]
    {
        assert_eq!(delivery.listed().row.matches(&of("whe_1", is_open)), of_delivery, "{is_open:?}");
        assert_eq!(ended.listed().row.matches(&of("whe_1", is_open)), of_ended, "{is_open:?}");
        assert!(!delivery.listed().row.matches(&of("whe_2", is_open)));
    }
    assert!(!queued(1).listed().row.matches(&of("item 0", None)), "the items of other jobs are no terms");
    assert_eq!(ended.expires_at(), Some(at(1).checked_add(DELIVERY_RETENTION).unwrap()));
}

#[test]
fn an_older_version_reads_the_row_of_an_ingestion_as_one_of_its_default_queue() {
    for (kind, stored) in [
        (EXTRACTION_KIND, json!({})),
        (DELIVERY_KIND, json!({ "queue": "deliveries" })),
        (TEXT_INGESTION_KIND, json!({ "is_ingestion": true })),
    ] {
        let row = OpenJobRow::of(&NewJob { kind: kind.to_owned(), ..new(1) }.header().unwrap());
        let mut value = serde_json::to_value(&row).unwrap();
        assert_eq!(serde_json::from_value::<OpenJobRow>(value.clone()).unwrap(), row);
        value.as_object_mut().unwrap().retain(|key, _| ["queue", "is_ingestion"].contains(&key.as_str()));
        assert_eq!(value, stored, "{kind}");
    }
}

#[test]
fn a_kind_has_a_short_name() {
    let long = "k".repeat(NAME_CHARS);
    let header = |kind: &str| NewJob { kind: kind.to_owned(), ..new(1) }.header();
    assert!(header(&long).is_ok());
    for kind in ["", &format!("{long}k")] {
        assert_eq!(header(kind).unwrap_err().code, Code::Internal, "{kind:?}");
    }
}

#[test]
fn a_header_is_listed_by_its_id_and_counted_by_its_input_and_items() {
    let header = queued(3);
    assert_eq!(header.listed().row.id, header.id.to_string());
    assert_eq!(header.size_bytes(), r#"{"prompt":"p"}"#.len() + 300 + 1024);
}

#[test]
fn the_record_of_a_deleted_job_has_no_header() {
    let header = queued(1);
    assert_eq!(header.tombstone().live(), None);
    assert_eq!(JobRecord::Live(Box::new(header.clone())).live(), Some(header));
}

/// Returns the next header of a running job after all items of its page ended. The first item failed.
fn ended_page(mut header: JobHeader, seconds: i64) -> JobHeader {
    for item in 0..header.items.len() {
        let refused = Err(Error::invalid(Reason::NoText, "no text"));
        let result = if item == 0 { refused } else { Ok(()) };
        header = after(header, [(seconds, JobCommand::Begin { item }), (seconds, JobCommand::Finish { item, result })]);
    }
    header
}

#[test]
fn a_job_with_several_pages_runs_them_one_after_the_other() {
    let (header, rest) = new(2 * JOB_PAGE_ITEMS + 1).with_pages().unwrap();
    assert_eq!((header.items.len(), rest.iter().map(|page| page.items.len()).sum::<usize>()), (100, 101));
    assert_eq!((header.page_count(), header.next_page(), header.running_max_millis), (3, Some(1), 300_000));
    let running = after(header, [(1, start())]);
    let advance = |page: &JobPage| JobCommand::Advance { page: page.clone() };
    assert_eq!(running.after(advance(&rest[0]), at(1)).unwrap_err().code, Code::Internal, "open items");
    let ended = ended_page(running, 1);
    assert_eq!(ended.after(JobCommand::Complete, at(1)).unwrap_err().code, Code::Internal, "a page follows");
    let second = after(ended, [(1, advance(&rest[0])), (1, JobCommand::Begin { item: 0 })]);
    assert_eq!(second.run_of(0).map(|run| run.item), Some(101));
    assert_eq!((second.index_of(101), second.index_of(100), second.index_of(201)), (Some(0), None, None));
    assert_eq!(second.progress(), Progress { items: 201, done: 99, failed: 1 });
    let second = after(second, [(1, JobCommand::Release), (1, start())]);
    let last = after(ended_page(second, 1), [(1, advance(&rest[1]))]);
    assert_eq!((last.items.len(), last.next_page(), last.progress().open()), (1, None, 1));
    let last = ended_page(last, 1);
    assert_eq!(last.after(advance(&rest[1]), at(1)).unwrap_err().code, Code::Internal, "the last page");
    let completed = after(last, [(1, JobCommand::Complete)]);
    assert_eq!(completed.progress(), Progress { items: 201, done: 198, failed: 3 });
}

#[test]
fn pages_are_identified_by_the_subjects_of_all_items() {
    let set = |items: usize| new(items).header().unwrap().pages.map(|pages| pages.set);
    assert_eq!((set(1), set(JOB_PAGE_ITEMS)), (None, None));
    assert_eq!(set(JOB_PAGE_ITEMS + 1), set(JOB_PAGE_ITEMS + 1));
    assert_ne!(set(JOB_PAGE_ITEMS + 1), set(JOB_PAGE_ITEMS + 2));
    assert_eq!((JobPages::page_of(1), JobPages::page_of(100), JobPages::page_of(101)), (0, 0, 1));
}
