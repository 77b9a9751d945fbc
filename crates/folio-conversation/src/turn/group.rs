//! Groups of child turns: a call of `run_tasks` appends its group, and the turn waits until the children have ended.
//!
//! ```text
//!            ┌──────────────── a notice, the sweep ────────────────┐
//!            ▼                                                     │
//!   ReadChildren ──▶ some may start: StartChild ──▶ AwaitingChildren
//!            │                                                     ▲
//!            ├──▶ none may start ─────────────────────────────────┘
//!            └──▶ all have ended: result of the call, appended before the turn continues
//! ```
//!
//! A machine that waits has no work in progress, so it can be dropped. A machine that has not taken the thread over only reads;
//! it takes the thread over before it starts a child or records the result. The work of the previous owner is not lost, so the
//! turn continues instead of failing.

use std::collections::{BTreeMap, BTreeSet};

use folio_history::event::EventKind;
use folio_history::journal::{CallResult, CallStatus, Entry, Group, GroupTask};
use folio_history::task::{ChildEnd, ChildState, GroupStep, children_of_each};
use folio_history::thread::{HeaderChange, OpenTurn, Phase};
use folio_history::{CallRecord, RoundRecord, TurnRecord};
use folio_types::{Error, GroupId, Reason, ThreadId, Timestamp, TurnId, limits};
use jiff::SignedDuration;

use super::append::AfterAppend;
use super::cancel::status_of;
use super::machine::State;
use super::{Effect, GroupRun, Machine, PlanFailure, PlannedTask, StartFailure, bounds, references};

/// The states of the children of the open group, as a machine has read them. They are lost with the machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReadChildren {
    /// Ends by number, also of children that cannot start.
    ended: BTreeMap<u32, ChildEnd>,
    /// Children that cannot start. A child whose thread exists is read again.
    refused: BTreeSet<u32>,
    /// True if a child may have ended after the current read began.
    must_repeat: bool,
}

impl Machine {
    /// Handles the checked tasks of a call: appends the group, unless the turn may not start so many child turns.
    pub(super) fn tasks_planned(
        &mut self,
        now: Timestamp,
        (round, index): (u32, u32),
        tasks: Result<Vec<PlannedTask>, PlanFailure>,
        running_max: u32,
    ) {
        let Some((record, newest, call)) = self.running_call(round, index) else { return };
        if call.group.is_some() {
            return;
        }
        let tasks = match tasks {
            Ok(tasks) => self.group_tasks(record, newest, call, &tasks),
            Err(PlanFailure::Failed(problem)) => Err(problem),
            Err(PlanFailure::StoreUnavailable) => {
                self.store_awaited(round, index);
                return self.flush(now);
            }
        };
        match tasks {
            Ok(tasks) => {
                let group = Group {
                    turn: record.number(),
                    round,
                    index,
                    id: self.group_id(record, round, index),
                    tasks,
                    running_max,
                    arguments: references::resolved(newest, call),
                    expires_at: expires_at(record, now),
                    event: self.group_event_number(),
                    at: now,
                };
                self.append_group(now, group);
            }
            Err(problem) => {
                self.record_result(now, bounds::not_run(round, index, CallStatus::Failed, problem));
                self.advance(now);
            }
        }
    }

    /// Returns the tasks with their threads, budgets and maximum numbers of child turns. The error is the result of the call.
    fn group_tasks(
        &self,
        record: &TurnRecord,
        round: &RoundRecord,
        call: &CallRecord,
        tasks: &[PlannedTask],
    ) -> Result<Vec<GroupTask>, String> {
        let task = self.header.task.as_deref();
        if tasks.is_empty() || tasks.len() > limits::TASKS_PER_GROUP_MAX {
            return Err(format!("pass 1 to {} tasks, got {}", limits::TASKS_PER_GROUP_MAX, tasks.len()));
        }
        let depth = task.map_or(0, |task| task.origin.depth);
        if depth >= limits::TASK_DEPTH_MAX {
            let max = limits::TASK_DEPTH_MAX;
            return Err(format!("an agent that is {max} delegations below the first one cannot delegate: do the work"));
        }
        let children_max = task.map_or(limits::TASKS_PER_TURN_MAX, |task| task.children_max);
        let left = children_max.saturating_sub(record.children());
        let each = children_of_each(left, tasks.len()).ok_or_else(|| {
            format!("this conversation may run {left} more tasks, got {}: run fewer, or do the work", tasks.len())
        })?;
        let call_id = record.call_id(&self.header.id, round.round, call.call.index);
        let turn = TurnId::new(self.header.id.clone(), record.number());
        let parts = record.accepted.options.budget_parts(self.header.budget_parts(), &turn);
        let numbered = (1u32..).zip(tasks).map(|(number, task)| {
            let name = format!("{}.{}.{number}", round.round, call.call.index);
            GroupTask {
                thread: ThreadId::derive(&[
                    "task",
                    self.header.org.as_str(),
                    &call_id.to_string(),
                    &number.to_string(),
                ]),
                profile: task.profile.clone(),
                tool: task.tool.clone(),
                children_max: if task.may_delegate { each } else { 0 },
                budget_parts: parts.iter().map(|part| part.child(&name)).collect(),
            }
        });
        Ok(numbered.collect())
    }

    fn group_id(&self, record: &TurnRecord, round: u32, index: u32) -> GroupId {
        let call = record.call_id(&self.header.id, round, index);
        GroupId::derive(&[self.header.org.as_str(), &call.to_string()])
    }

    /// Returns the number of the event that announces a group. Events that wait for the append precede it, unless a snapshot of
    /// a new owner replaces them.
    fn group_event_number(&self) -> u64 {
        let waiting = if self.owner || self.is_reload { self.uncommitted_events.len() } else { 0 };
        self.closing_number().saturating_add(u64::try_from(waiting).unwrap_or(u64::MAX))
    }

    fn append_group(&mut self, now: Timestamp, group: Group) {
        let (turn, expires_at) = (group.turn, Some(group.expires_at));
        let open = OpenTurn { number: turn, phase: Phase::AwaitingChildren, expires_at };
        let change = HeaderChange { open_turn: Some(Some(open)), ..HeaderChange::default() };
        self.children = ReadChildren::default();
        self.append(now, vec![Entry::Group(Box::new(group))], change, AfterAppend::Grouped);
    }

    /// Handles a committed group: announces it and starts the first children.
    pub(super) fn grouped(&mut self, now: Timestamp) {
        self.pending_failure = None;
        let id = self.header.id.clone();
        let announced = self.history.open().and_then(|record| {
            let (round, call, group) = record.open_group()?;
            Some((group.event, group.view(record.call_id(&id, round.round, call.call.index))))
        });
        if let Some((number, group)) = announced {
            self.next_event = number;
            self.emit(EventKind::TasksStarted { group });
        }
        for (ticket, _) in std::mem::take(&mut self.waiters.decisions) {
            self.refuse(ticket, awaits_tasks());
        }
        self.advance(now);
    }

    /// Reads the states of the children of the open group.
    pub(super) fn read_children(&mut self) {
        let Some(run) = self.group_run() else { return };
        self.children.must_repeat = false;
        self.state = State::ReadingChildren;
        self.effects.push(Effect::ReadChildren(Box::new(run)));
    }

    /// Handles a notice that a child may have ended.
    pub(super) fn check_children(&mut self, now: Timestamp) {
        if self.state == State::AwaitingChildren {
            if !self.expire_if_due(now) {
                self.read_children();
            }
        } else if matches!(self.state, State::ReadingChildren | State::StartingChildren(_)) {
            self.children.must_repeat = true;
        }
    }

    pub(super) fn children_read(&mut self, now: Timestamp, at: (u32, u32), states: Vec<ChildState>) {
        if self.state != State::ReadingChildren || self.open_group_position() != Some(at) {
            return;
        }
        let Some(run) = self.group_run() else { return };
        let states = self.with_refused(states);
        if self.owner {
            self.report_ended(&run, &states);
        }
        let step = run.group.step(&states);
        match step {
            GroupStep::Wait => self.wait_for_children(),
            // The takeover precedes every start and every result.
            GroupStep::Start(_) | GroupStep::Finished if !self.owner => self.take_over_group(now),
            GroupStep::Start(numbers) => {
                self.state = State::StartingChildren(numbers.iter().copied().collect());
                for number in numbers {
                    self.effects.push(Effect::StartChild(Box::new(run.clone()), number));
                }
            }
            GroupStep::Finished => {
                let ends: Vec<ChildEnd> = states.into_iter().filter_map(ended).collect();
                let (status, content, usage) = run.group.result(&ends);
                let result = bounds::not_run(at.0, at.1, status, content);
                self.record_result(now, CallResult { usage, ..result });
                self.children = ReadChildren::default();
                // The phase must be stored before the turn continues: another owner would wait for the group again.
                self.flush(now);
            }
        }
    }

    /// Adds the ends of children that cannot start.
    fn with_refused(&self, states: Vec<ChildState>) -> Vec<ChildState> {
        let ReadChildren { ended, refused, .. } = &self.children;
        (1..)
            .zip(states)
            .map(|(number, state)| match state {
                ChildState::Absent => match ended.get(&number).filter(|_| refused.contains(&number)) {
                    Some(end) => ChildState::Ended(end.clone()),
                    None => state,
                },
                state => state,
            })
            .collect()
    }

    /// Emits an event for each child that has ended since the last read.
    fn report_ended(&mut self, run: &GroupRun, states: &[ChildState]) {
        let (call, group) = (run.run.call.clone(), run.group.id.clone());
        for ((number, task), state) in run.group.numbered().zip(states) {
            let ChildState::Ended(end) = state else { continue };
            if self.children.ended.insert(number, end.clone()).is_none() || self.children.refused.remove(&number) {
                let (task, status) = (task.view(number), end.status);
                self.emit(EventKind::TaskEnded { call: call.clone(), group: group.clone(), task, status });
            }
        }
    }

    fn take_over_group(&mut self, now: Timestamp) {
        let change = HeaderChange::default();
        self.append(now, Vec::new(), change, AfterAppend::Written);
    }

    fn wait_for_children(&mut self) {
        self.state = State::AwaitingChildren;
        if self.children.must_repeat {
            self.read_children();
        }
    }

    pub(super) fn child_started(&mut self, at: (u32, u32), number: u32, started: Result<(), StartFailure>) {
        if self.open_group_position() != Some(at) {
            return;
        }
        let State::StartingChildren(left) = &mut self.state else { return };
        if !left.remove(&number) {
            return;
        }
        let is_last = left.is_empty();
        if let Err(StartFailure::Refused(reason)) = started {
            self.children.ended.insert(number, ChildEnd::not_started(reason));
            self.children.refused.insert(number);
            // The child that follows may start.
            self.children.must_repeat = true;
        }
        if is_last {
            self.wait_for_children();
        }
    }

    /// Returns the open group as work of the shell. None: no group is open.
    pub(super) fn group_run(&self) -> Option<GroupRun> {
        let record = self.history.open()?;
        let (round, call, group) = record.open_group()?;
        let run = self.tool_run(record, round, call);
        let ReadChildren { ended, refused, .. } = &self.children;
        let ended = ended.iter().filter(|(number, _)| !refused.contains(number));
        Some(GroupRun { run, group: group.clone(), ended: ended.map(|(number, end)| (*number, end.clone())).collect() })
    }

    fn open_group_position(&self) -> Option<(u32, u32)> {
        let (_, _, group) = self.history.open()?.open_group()?;
        Some((group.round, group.index))
    }

    /// Handles the end of all children of an ending turn, and ends the turn.
    pub(super) fn children_ended(&mut self, now: Timestamp, at: (u32, u32), ends: &[ChildEnd]) {
        let State::Closing(left) = &mut self.state else { return };
        if !left.remove(&at) {
            return;
        }
        let is_last = left.is_empty();
        let Some(run) = self.group_run() else { return };
        let cause = self.history.open().and_then(|record| record.closing.as_ref()).map(|closing| closing.cause);
        let (_, content, usage) = run.group.result(ends);
        let result = bounds::not_run(at.0, at.1, status_of(cause), content);
        self.record_result(now, CallResult { usage, ..result });
        if is_last {
            self.advance(now);
        }
    }

    /// Returns true if the open turn waits for child turns, or reads or starts them.
    pub fn has_open_group(&self) -> bool {
        matches!(self.state, State::AwaitingChildren | State::ReadingChildren | State::StartingChildren(_))
    }

    /// Returns true if the turn ends with its open group at this time.
    pub(super) fn is_group_expired(&self, now: Timestamp) -> bool {
        let group = self.history.open().and_then(TurnRecord::open_group).map(|(_, _, group)| group);
        self.state == State::AwaitingChildren && group.is_some_and(|group| group.expires_at <= now)
    }
}

/// Returns the time at which a turn ends with a group that is appended now: the end of its running time, at most
/// [`limits::GROUP_OPEN_MAX`] later.
fn expires_at(record: &TurnRecord, now: Timestamp) -> Timestamp {
    let left = record.accepted.options.running_time().map(|limit| limit.saturating_sub(record.running_time(now)));
    let longest = left.map_or(limits::GROUP_OPEN_MAX, |left| left.min(limits::GROUP_OPEN_MAX));
    let longest = SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX);
    now.checked_add(longest).unwrap_or(Timestamp::MAX)
}

/// Returns the answer to decisions whose outcome depends on child turns, which may wait for a person.
pub(super) fn awaits_tasks() -> Error {
    let message = "the decisions are recorded, and the turn waits for its tasks: watch the turn for its outcome";
    Error::precondition(Reason::TurnBusy, message)
}

fn ended(state: ChildState) -> Option<ChildEnd> {
    match state {
        ChildState::Ended(end) => Some(end),
        ChildState::Absent | ChildState::Open | ChildState::Interrupted => None,
    }
}
