//! The actions of the model and their results.

use std::sync::Arc;

use folio_history::event::EventKind;
use folio_history::journal::Intent;
use folio_history::thread::{Appended, Phase};
use folio_resources::{Resource as _, Schema};
use folio_types::message::Usage;
use folio_types::op::{Expected, Target};
use folio_types::{CallId, Error, Reason, SchemaId};

use super::super::children::{Child, TASKS, planned};
use super::super::rig::{call_position, node as incarnation, result};
use super::super::store::{OpOutcome, expected, tool_result};
use super::world::{Action, AskState, Late, Node, Received, Stage, Todo, World};
use crate::turn::{
    Answer, CallPlan, Command, Effect, Machine, StartFailure, Ticket, ToolOutcome, ToolRun, is_open_row_over,
};

impl World {
    pub(in super::super) fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.violation.is_some() {
            return actions;
        }
        for node in 0..self.nodes.len() {
            self.enabled_at(node, &mut actions);
        }
        actions.extend((0..self.late.len()).map(|late| Action::Arrive { late }));
        self.enabled_of_children(&mut actions);
        if self.left.edits > 0 {
            actions.push(Action::Edit);
        }
        if self.sweep.is_some() {
            actions.push(Action::SweepRemoves);
        } else if self.left.sweeps > 0 {
            let rows = self.thread.row.open_rows.iter();
            actions.extend(rows.filter(|row| self.may_sweep(**row)).map(|row| Action::SweepChecks { row: *row }));
        }
        actions
    }

    fn enabled_at(&self, node: usize, actions: &mut Vec<Action>) {
        let live = self.node(node);
        let elsewhere = self.is_owned_elsewhere(node);
        if live.is_some_and(|live| live.machine.is_lost()) {
            if elsewhere {
                actions.push(Action::Moved { node });
            }
            if !elsewhere || self.left.takeovers > 0 {
                actions.push(Action::Reload { node });
            }
        } else if !elsewhere || self.left.takeovers > 0 {
            let open = self.thread.row.header.open_turn.as_ref().is_some_and(|open| open.phase != Phase::Paused);
            if live.is_none() && open && self.left.takeovers > 0 {
                actions.push(Action::TakeOver { node });
            }
            for (ask, state) in self.asks.iter().enumerate() {
                if *state == AskState::Unsent && self.scope.may_send(ask, &self.asks) {
                    actions.push(Action::Send { ask, node });
                }
            }
        }
        if let Some(todo) = live.and_then(|live| live.todo.front()) {
            actions.push(Action::Step { node });
            if self.left.mishaps > 0 && sends_batch(todo) {
                actions.extend([Action::AnswerLost { node }, Action::Delayed { node }]);
            }
            if self.left.mishaps > 0 && matches!((&todo.effect, todo.stage), (Effect::RunTool(..), Stage::Second(_))) {
                actions.push(Action::AnswerLost { node });
            }
            let next = (&todo.effect, todo.stage);
            let calls_model = matches!(next, (Effect::CallModel(_), _) | (Effect::RunTool(..), Stage::First));
            if self.left.model_fails > 0 && calls_model {
                actions.push(Action::ModelFails { node });
            }
        }
        if self.left.notices > 0 && self.may_notify(node) {
            actions.push(Action::Notice { node });
        }
        if self.left.watches > 0 && live.is_none_or(|live| live.machine.is_idle() && !live.machine.is_lost()) {
            actions.push(Action::Watch { node });
        }
        if self.left.crashes > 0 && live.is_some() {
            actions.push(Action::Crash { node });
        }
        if self.scope.clocks && self.nodes.get(node).is_some_and(|node| !node.late) {
            actions.push(Action::Clock { node });
        }
    }

    pub(in super::super) fn after(&self, action: Action) -> Self {
        let mut next = self.clone();
        next.act(action);
        next.check();
        next
    }

    pub(in super::super) fn act(&mut self, action: Action) {
        match action {
            Action::Send { ask, node } => {
                self.count_takeover(node);
                self.asks[ask] = AskState::At(node);
                self.load(node, false);
                self.handle(node, self.scope.command(ask, &self.thread.history));
            }
            Action::Step { node } => self.step(node),
            Action::AnswerLost { node } => self.answer_lost(node),
            Action::Delayed { node } => self.delayed(node),
            Action::Arrive { late } => self.arrive(late),
            Action::Crash { node } => {
                self.left.crashes -= 1;
                self.keep_sent_writes(node);
                self.forget(node);
            }
            Action::Moved { node } => self.forget(node),
            Action::TakeOver { node } => {
                self.left.takeovers -= 1;
                self.load(node, false);
                self.handle(node, Command::TakeOver);
            }
            Action::Reload { node } => {
                self.count_takeover(node);
                self.nodes[node].live = None;
                self.load(node, true);
                for ask in 0..self.asks.len() {
                    if self.asks[ask] == AskState::At(node) {
                        self.handle(node, self.scope.command(ask, &self.thread.history));
                    }
                }
            }
            Action::Clock { node } => self.nodes[node].late = true,
            Action::ModelFails { node } => self.model_fails(node),
            Action::Watch { node } => {
                self.left.watches -= 1;
                self.load(node, false);
                self.watch(node);
            }
            Action::Edit => {
                self.left.edits -= 1;
                let target = target("w1").to_string();
                *Arc::make_mut(&mut self.aggregates).versions.entry(target).or_default() += 1;
            }
            Action::SweepChecks { row } => {
                self.left.sweeps -= 1;
                self.sweep = Some(row);
            }
            Action::SweepRemoves => {
                if let Some(row) = self.sweep.take() {
                    self.remove_row(row);
                }
            }
            Action::ChildEnds { child } => self.set_child(child, Child::Completed),
            Action::ChildLost { child } => {
                self.left.lost_children -= 1;
                self.set_child(child, Child::Interrupted);
            }
            Action::Notice { node } => {
                self.left.notices -= 1;
                self.count_takeover(node);
                self.load(node, false);
                self.handle(node, Command::TakeOver);
            }
        }
    }

    /// Returns true if another live node runs the open turn. A node that sees it as live sends requests there.
    pub(super) fn is_owned_elsewhere(&self, node: usize) -> bool {
        let header = &self.thread.row.header;
        let runs = header.open_turn.as_ref().is_some_and(|open| open.phase != Phase::Paused);
        runs && (0..self.nodes.len()).any(|other| {
            let live = self.node(other).is_some_and(|live| !live.machine.is_lost());
            other != node && live && header.owner == Some(incarnation(other as u32))
        })
    }

    /// Counts an action on another node's turn as a takeover.
    fn count_takeover(&mut self, node: usize) {
        if self.is_owned_elsewhere(node) {
            self.left.takeovers = self.left.takeovers.saturating_sub(1);
        }
    }

    /// Clears the memory of a node: its clients repeat their requests.
    fn forget(&mut self, node: usize) {
        self.nodes[node].live = None;
        for ask in &mut self.asks {
            if *ask == AskState::At(node) {
                *ask = AskState::Unsent;
            }
        }
    }

    /// Returns true if the sweep may remove a row, given its current reads.
    fn may_sweep(&self, row: (u32, u64)) -> bool {
        let header = &self.thread.row.header;
        if !self.scope.faults.removal_unguarded {
            is_open_row_over(header, &self.row(row))
        } else {
            header.open_turn.as_ref().is_none_or(|open| open.number != row.0)
        }
    }

    fn remove_row(&mut self, row: (u32, u64)) {
        let by_epoch = !self.scope.faults.epoch_dropped;
        let rows = &mut Arc::make_mut(&mut self.thread).row.open_rows;
        rows.retain(|stored| if by_epoch { *stored != row } else { stored.0 != row.0 });
    }

    fn load(&mut self, node: usize, is_reload: bool) {
        if self.nodes[node].live.is_some() {
            return;
        }
        self.nodes[node].loads += 1;
        let seed = (node as u128 + 1) << 64 | u128::from(self.nodes[node].loads) << 32;
        let (header, history) = (self.thread.row.header.clone(), self.loaded_history(is_reload));
        let machine = Machine::load(incarnation(node as u32), 8, header, history, seed);
        self.nodes[node].live = Some(Arc::new(Node::new(machine)));
    }

    /// Passes a command to a node's machine and queues the resulting effects.
    pub(super) fn handle(&mut self, node: usize, command: Command) {
        if self.answer_if_expired(node, &command) {
            return;
        }
        let now = self.now(node);
        let Some(effects) = self.live(node).map(|live| live.machine.handle(now, command)) else { return };
        let mut answers = Vec::new();
        for effect in effects {
            match self.altered(node, effect) {
                Ok(effect) => self.absorb(node, effect),
                Err(answer) => answers.push(*answer),
            }
        }
        for answer in answers {
            self.handle(node, answer);
        }
        if let Some(live) = self.live(node) {
            live.update_fingerprint();
        }
    }

    fn live(&mut self, node: usize) -> Option<&mut Node> {
        self.nodes[node].live.as_mut().map(Arc::make_mut)
    }

    fn absorb(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Emit(event) => {
                if event.kind.is_closing() {
                    self.record_closing(node, event.turn.number, &event.kind, event.number);
                }
            }
            Effect::Answer(Ticket(ask), answer) => self.answered(ask as usize, answer),
            Effect::StopWork => {
                self.keep_sent_writes(node);
                if let Some(live) = self.live(node) {
                    let is_kept = |effect: &Effect| {
                        matches!(effect, Effect::Append(_) | Effect::RemoveOpenTurn(_) | Effect::EndChildren(_))
                    };
                    live.todo.retain(|todo| is_kept(&todo.effect));
                }
            }
            Effect::Reload => {}
            work => {
                if let Effect::CallModel(call) = &work
                    && !self.model_calls.insert((call.turn.number, call.round, call.epoch, call.attempt))
                {
                    self.violation = Some("two model calls have the same ledger key");
                }
                if let Some(live) = self.live(node) {
                    live.todo.push_back(Todo { effect: work, stage: Stage::First });
                }
            }
        }
    }

    /// A watcher without events receives the closing event of the journal.
    fn watch(&mut self, node: usize) {
        let Some(record) = self.node(node).and_then(|live| live.machine.history.last()) else { return };
        let Some(closing) = record.closing_event(&self.thread.row.header.id) else { return };
        self.record_closing(node, record.number(), &closing.kind, closing.number);
    }

    fn record_closing(&mut self, node: usize, turn: u32, kind: &EventKind, number: u64) {
        let Some(record) = self.node(node).and_then(|live| live.machine.history.turn(turn)) else { return };
        let what = match kind {
            EventKind::AwaitingApproval { round, .. } => format!("pause {round}"),
            _ => format!("end {}", record.takeovers),
        };
        self.received.insert(Received::Stream(turn, what, number));
    }

    fn answered(&mut self, ask: usize, answer: Result<Answer, Box<Error>>) {
        self.asks[ask] = AskState::Answered;
        match answer {
            Err(error) if error.reason == Reason::TurnExpired => drop(self.received.insert(Received::Expired(ask))),
            Ok(Answer::Decided { closing, .. }) => {
                let (kind, replaced) = match &closing.kind {
                    EventKind::AwaitingApproval { .. } => ("paused", false),
                    EventKind::Completed { .. } => ("completed", false),
                    EventKind::Failed { retriable, .. } => ("failed", *retriable),
                    EventKind::Cancelled => ("cancelled", false),
                    EventKind::Expired => ("expired", false),
                    _ => ("superseded", false),
                };
                self.received.insert(Received::Closing(ask, closing.number, kind, replaced));
            }
            _ => {}
        }
    }

    /// A write that a node had sent already may still arrive when the node has stopped.
    fn keep_sent_writes(&mut self, node: usize) {
        let Some(live) = self.node(node) else { return };
        let sent = live.todo.iter().filter_map(|todo| match (&todo.effect, todo.stage) {
            (Effect::RunTool(run, intent) | Effect::Recover(run, intent), Stage::Second(version)) => {
                let name = run.name.clone();
                Some(Late::Write(run.call.clone(), name, Box::new(intent.clone()), version))
            }
            (Effect::StartChild(_, number), _) => Some(Late::Start(*number as usize - 1)),
            _ => None,
        });
        let sent: Vec<_> = sent.filter(|late| !self.late.contains(late)).collect();
        self.late.extend(sent);
    }

    fn pop(&mut self, node: usize) -> Option<Todo> {
        let live = self.live(node)?;
        let todo = live.todo.pop_front();
        live.update_fingerprint();
        todo
    }

    pub(super) fn push_front(&mut self, node: usize, todo: Todo) {
        if let Some(live) = self.live(node) {
            live.todo.push_front(todo);
            live.update_fingerprint();
        }
    }

    fn step(&mut self, node: usize) {
        let Some(Todo { effect, stage }) = self.pop(node) else { return };
        match effect {
            Effect::Append(append) => {
                // In a store of several partitions the row and the append are two writes.
                if let Some(row) = &append.opens
                    && stage != Stage::Second(0)
                {
                    let effect = Effect::Append(append.clone());
                    if !self.scope.faults.row_late {
                        Arc::make_mut(&mut self.thread).row.open(row);
                        return self.push_front(node, Todo { effect, stage: Stage::Second(0) });
                    }
                    if stage == Stage::Second(u64::MAX) {
                        return Arc::make_mut(&mut self.thread).row.open(row);
                    }
                    self.push_front(node, Todo { effect, stage: Stage::Second(u64::MAX) });
                }
                let batch = append.batch;
                let command = match Arc::make_mut(&mut self.thread).append(&append) {
                    Appended::Done(header) => Command::Appended { batch, header },
                    Appended::Refused { header, request } => Command::AppendRefused { batch, header, request },
                };
                self.handle(node, command);
            }
            Effect::LookUp { batch, .. } => {
                let is_committed = self.thread.row.batches.contains(&batch);
                let header = Box::new(self.thread.row.header.clone());
                self.handle(node, Command::LookedUp { batch, is_committed, header });
            }
            Effect::CallModel(call) => {
                let reply = Box::new((self.scope.script)(call.turn.number, call.round, call.attempt));
                self.handle(node, Command::ModelReplied { round: call.round, attempt: call.attempt, reply });
            }
            Effect::RemoveOpenTurn(row) => self.remove_row((row.turn.number, row.epoch)),
            work => self.work(node, work, stage),
        }
    }

    /// Performs one step of a call's work.
    fn work(&mut self, node: usize, work: Effect, stage: Stage) {
        let (round, index) = call_position(&work);
        match (work, stage) {
            (Effect::RunRead(_), _) => {
                let outcome = ToolOutcome::Done(result("read"));
                self.handle(node, Command::ToolFinished { round, index, outcome });
            }
            (Effect::PlanTool(run, _), _) if run.name == TASKS => {
                let (tasks, running_max) = (Ok(planned(self.children.len())), 1);
                self.handle(node, Command::TasksPlanned { round, index, tasks, running_max });
            }
            (Effect::PlanTool(run, _), _) => {
                let target = target(&run.name);
                let version = self.version(&target);
                let expected = if version == 0 { Expected::Absent } else { Expected::Version(version) };
                let plan = CallPlan { target, expected, resolved: serde_json::Value::Null };
                self.handle(node, Command::Planned { round, index, plan: Ok(plan) });
            }
            (Effect::Close(run, intent), _) => {
                let row = Arc::make_mut(&mut self.aggregates).close(&run.call, &intent, OpOutcome::Aborted);
                let result = (row != OpOutcome::Aborted).then(|| tool_result(row));
                self.handle(node, Command::Closed { round, index, result, usage: Usage::default() });
            }
            (Effect::ReadChildren(run), _) => self.read_children(node, &run),
            (Effect::StartChild(run, number), _) => self.start_child(node, &run, number),
            (Effect::EndChildren(run), stage) => self.end_children(node, run, stage),
            (Effect::RunTool(run, intent), Stage::First) => self.read_row(node, run, intent, Effect::RunTool),
            (Effect::Recover(run, intent), Stage::First) => self.read_row(node, run, intent, Effect::Recover),
            (Effect::RunTool(run, intent), Stage::Second(version)) => {
                let op = self.write(&run.call, &run.name, &intent, version);
                let outcome = op.map_or(ToolOutcome::Unknown, |op| ToolOutcome::Done(tool_result(op)));
                self.handle(node, Command::ToolFinished { round, index, outcome });
            }
            (Effect::Recover(run, intent), Stage::Second(version)) => {
                let moved = self.version(&intent.target) != expected(&intent);
                let op = if moved && self.scope.faults.conflict_unclosed {
                    OpOutcome::Conflict
                } else {
                    let op = self.write(&run.call, &run.name, &intent, version);
                    let aggregates = Arc::make_mut(&mut self.aggregates);
                    op.unwrap_or_else(|| aggregates.close(&run.call, &intent, OpOutcome::Conflict))
                };
                let outcome = ToolOutcome::Done(tool_result(op));
                self.handle(node, Command::ToolFinished { round, index, outcome });
            }
            _ => {}
        }
    }

    /// Running and recovery read the op row first.
    fn read_row(&mut self, node: usize, run: ToolRun, intent: Intent, effect: fn(ToolRun, Intent) -> Effect) {
        let (round, index) = (run.call.round, run.call.index);
        match self.aggregates.row(&run.call, &intent) {
            Some(op) => {
                let outcome = ToolOutcome::Done(tool_result(op));
                self.handle(node, Command::ToolFinished { round, index, outcome });
            }
            None => {
                let stage = Stage::Second(self.version(&intent.target));
                self.push_front(node, Todo { effect: effect(run, intent), stage });
            }
        }
    }

    /// Makes the deciding write with the version that the intent names.
    fn write(&mut self, call: &CallId, name: &str, intent: &Intent, read: u64) -> Option<OpOutcome> {
        let mut intent = intent.clone();
        if self.scope.faults.expected_ignored {
            intent.expected = if read == 0 { Expected::Absent } else { Expected::Version(read) };
        }
        let is_conditional = !self.scope.faults.op_row_ignored;
        let aggregates = Arc::make_mut(&mut self.aggregates);
        match is_conditional {
            true => aggregates.write(call, name, &intent),
            false => aggregates.write_unconditionally(call, name, &intent),
        }
    }

    fn version(&self, target: &Target) -> u64 {
        self.aggregates.versions.get(&target.to_string()).copied().unwrap_or_default()
    }

    /// A node's batch or write is applied, and the node does not receive the answer.
    fn answer_lost(&mut self, node: usize) {
        self.left.mishaps -= 1;
        let Some(Todo { effect, stage }) = self.pop(node) else { return };
        match (effect, stage) {
            (Effect::Append(append), _) => {
                Arc::make_mut(&mut self.thread).append(&append);
                self.handle(node, Command::AppendUnknown { batch: append.batch });
            }
            (Effect::RunTool(run, intent), Stage::Second(version)) => {
                self.write(&run.call, &run.name, &intent, version);
                let (round, index) = (run.call.round, run.call.index);
                self.handle(node, Command::ToolFinished { round, index, outcome: ToolOutcome::Unknown });
            }
            (Effect::StartChild(run, number), _) => {
                let _ = self.try_start(number as usize - 1);
                let (round, index) = (run.group.round, run.group.index);
                let started = Err(StartFailure::Later);
                self.handle(node, Command::ChildStarted { round, index, number, started });
            }
            _ => {}
        }
    }

    /// A batch is in flight for longer than its node waits.
    fn delayed(&mut self, node: usize) {
        self.left.mishaps -= 1;
        match self.pop(node).map(|todo| todo.effect) {
            Some(Effect::Append(append)) => {
                let batch = append.batch;
                self.late.push(Late::Batch(Arc::new(*append)));
                self.handle(node, Command::AppendUnknown { batch });
            }
            Some(Effect::StartChild(run, number)) => {
                self.late.push(Late::Start(number as usize - 1));
                let (round, index) = (run.group.round, run.group.index);
                let started = Err(StartFailure::Later);
                self.handle(node, Command::ChildStarted { round, index, number, started });
            }
            _ => {}
        }
    }

    fn arrive(&mut self, late: usize) {
        match self.late.remove(late) {
            Late::Batch(append) => drop(Arc::make_mut(&mut self.thread).append(&append)),
            Late::Write(call, name, intent, version) => drop(self.write(&call, &name, &intent, version)),
            Late::Start(child) => drop(self.try_start(child)),
        }
    }

    /// A model call fails, or a tool that was to make one is refused it.
    fn model_fails(&mut self, node: usize) {
        self.left.model_fails -= 1;
        let error = Error::unavailable(Reason::ModelFailed, "the model call failed");
        match self.pop(node).map(|todo| todo.effect) {
            Some(Effect::CallModel(call)) => {
                let (round, attempt) = (call.round, call.attempt);
                let usage = Usage::default();
                self.handle(node, Command::ModelFailed { round, attempt, error, retriable: true, usage });
            }
            Some(Effect::RunTool(run, _)) => {
                let (round, index) = (run.call.round, run.call.index);
                self.handle(node, Command::ToolFinished { round, index, outcome: ToolOutcome::Refused(error) });
            }
            _ => {}
        }
    }
}

/// Returns true if a node's next step sends a batch to the thread, or the start of a child.
fn sends_batch(todo: &Todo) -> bool {
    match &todo.effect {
        Effect::Append(append) => {
            (append.opens.is_none() || todo.stage != Stage::First) && todo.stage != Stage::Second(u64::MAX)
        }
        Effect::StartChild(..) => true,
        _ => false,
    }
}

/// Returns the target of a tool: `wy` has its own, the other tools share one.
pub(super) fn target(tool: &str) -> Target {
    Schema::target(&SchemaId::derive(&[if tool == "wy" { "y" } else { "x" }]))
}
