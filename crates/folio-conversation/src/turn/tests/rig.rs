//! One machine on a store in memory. Store effects are performed at once; the test answers the other work.

use std::collections::VecDeque;

use folio_history::event::{Event, EventKind};
use folio_history::journal::{Access, AnswerType, CallStatus, Decision, End, Entry, TurnOptions, TurnProfile};
use folio_history::thread::Appended;
use folio_history::{History, TurnRecord};
use folio_resources::policy::Policy;
use folio_resources::{Resource as _, Schema};
use folio_tools::policy::CurrentRules;
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::op::Expected;
use folio_types::profile::Subject;
use folio_types::{
    Digest, DocumentId, Error, Incarnation, OrgId, Principal, Reason, Role, SchemaId, Timestamp, UserId,
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::children::{Children, TASKS};
use super::store::{Aggregates, OpOutcome, ThreadRow, start_time, tool_result};
use crate::turn::{
    Answer, CallPlan, CheckedCall, Command, Decide, Effect, Machine, ModelCall, Reply, RequestedDecision, Start,
    Ticket, ToolOutcome, ToolResult, ToolRun,
};
use folio_history::command::{IfBusy, IfPending};

/// Fault of the store at the next append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    /// The append is applied, but its answer is lost.
    AnswerLost,
    /// The append never reaches the store.
    NeverArrived,
    /// Another node takes over the thread before the append.
    Overtaken,
}

pub(super) struct Rig {
    pub(super) store: ThreadRow,
    pub(super) aggregates: Aggregates,
    pub(super) machine: Machine,
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
    pub(super) answers: Vec<(Ticket, Result<Answer, Box<Error>>)>,
    /// Work that waits for its answer.
    pub(super) work: VecDeque<Effect>,
    /// Every effect, in order, by its kind.
    pub(super) log: Vec<&'static str>,
    pub(super) mishaps: VecDeque<Mishap>,
    /// The children of the group of the turn.
    pub(super) children: Children,
    /// Numbers of the notices to the parent.
    pub(super) notices: usize,
    pub(super) is_lost: bool,
    pub(super) appends: usize,
    tickets: u64,
    machines: u128,
}

impl Rig {
    pub(super) fn new() -> Self {
        let store = ThreadRow::new();
        let machine = Machine::load(node(1), 8, store.header.clone(), History::new(), 1 << 64);
        Self {
            store,
            aggregates: Aggregates::default(),
            machine,
            now: start_time(),
            events: Vec::new(),
            answers: Vec::new(),
            work: VecDeque::new(),
            log: Vec::new(),
            mishaps: VecDeque::new(),
            children: Children::default(),
            notices: 0,
            is_lost: false,
            appends: 0,
            tickets: 0,
            machines: 1,
        }
    }

    /// Returns a turn that called the model.
    pub(super) fn started() -> Self {
        let mut rig = Self::new();
        rig.start("hello");
        rig
    }

    /// Returns a turn whose first model answer requests these calls.
    pub(super) fn with_calls(calls: &[&str]) -> Self {
        let mut rig = Self::started();
        rig.reply(calls_reply(calls));
        rig
    }

    /// Like [`Self::with_calls`], but writes need no approval.
    pub(super) fn auto_approved(calls: &[&str]) -> Self {
        let mut rig = Self::new();
        rig.start_as("hello", |start| start.options.auto_approve = true);
        rig.reply(calls_reply(calls));
        rig
    }

    /// Answers all work; the model answers without calls.
    pub(super) fn finish(&mut self) {
        self.run();
        self.reply(text_reply("done"));
    }

    /// Replaces the machine by one that another incarnation loads from the store, as after a crash.
    pub(super) fn crash(&mut self) {
        self.load_as(node(self.machines as u32 + 1));
    }

    /// Replaces the machine by one that the same incarnation loads from the store, as after an eviction from memory.
    pub(super) fn reload(&mut self) {
        self.load_as(self.machine.incarnation.clone());
    }

    /// Replaces the machine by one of the same incarnation, with this header of its thread.
    pub(super) fn with_header(mut self, change: impl FnOnce(&mut folio_history::thread::ThreadHeader)) -> Self {
        change(&mut self.store.header);
        self.reload();
        self
    }

    fn load_as(&mut self, incarnation: Incarnation) {
        self.machines += 1;
        let history = self.stored();
        self.machine = Machine::load(incarnation, 8, self.store.header.clone(), history, self.machines << 64);
        self.work.clear();
        self.is_lost = false;
    }

    pub(super) fn send(&mut self, command: Command) {
        let mut commands = VecDeque::from([command]);
        while let Some(command) = commands.pop_front() {
            for effect in self.machine.handle(self.now, command) {
                commands.extend(self.perform(effect));
            }
            self.check_history();
        }
    }

    /// Checks invariant 4 for the stored history and for the messages that the machine would send.
    fn check_history(&self) {
        for history in [&self.stored(), self.machine.history()] {
            let messages: Vec<_> = history.messages().map(|shown| shown.message).collect();
            assert_eq!(folio_history::sanitize(messages.clone()), messages, "invariant 4");
            for record in history.turns().iter().filter(|record| record.ended.is_some()) {
                let unanswered = record.rounds.iter().any(|round| round.unanswered().next().is_some());
                assert!(!unanswered, "invariant 4: an ended turn has calls without results");
            }
        }
    }

    pub(super) fn stored(&self) -> History {
        History::fold(self.store.entries.iter().cloned())
    }

    /// Returns the messages that the machine would send.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.machine.history().messages().map(|shown| shown.message).collect()
    }

    pub(super) fn check_stored(&self) {
        if self.machine.is_idle() && !self.is_lost {
            assert_eq!(self.stored().turns(), self.machine.history().turns());
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Command> {
        self.log.push(match &effect {
            Effect::Append(_) => "append",
            Effect::RunRead(_) => "read",
            Effect::PlanTool(..) => "plan",
            Effect::RunTool(..) => "run",
            Effect::Answer(..) => "answer",
            _ => "other",
        });
        match effect {
            Effect::Append(append) => {
                self.appends += 1;
                if let Some(row) = &append.opens {
                    self.store.open(row);
                }
                let batch = append.batch;
                match self.mishaps.pop_front() {
                    Some(Mishap::NeverArrived) => return Some(Command::AppendUnknown { batch }),
                    Some(Mishap::AnswerLost) => {
                        self.store.append(&append);
                        return Some(Command::AppendUnknown { batch });
                    }
                    Some(Mishap::Overtaken) => {
                        self.store.header.epoch += 1;
                        self.store.header.version += 1;
                    }
                    None => {}
                }
                return Some(match self.store.append(&append) {
                    Appended::Done(header) => Command::Appended { batch, header },
                    Appended::Refused { header, request } => Command::AppendRefused { batch, header, request },
                });
            }
            Effect::LookUp { batch, .. } => {
                let is_committed = self.store.batches.contains(&batch);
                return Some(Command::LookedUp { batch, is_committed, header: Box::new(self.store.header.clone()) });
            }
            Effect::StopWork => self.work.clear(),
            Effect::Emit(event) => self.events.push(event),
            Effect::Answer(ticket, answer) => self.answers.push((ticket, answer)),
            Effect::RemoveOpenTurn(row) => drop(self.store.open_rows.remove(&(row.turn.number, row.epoch))),
            Effect::Reload => self.is_lost = true,
            Effect::NotifyParent(_) => self.notices += 1,
            work => self.work.push_back(work),
        }
        None
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn start(&mut self, text: &str) -> Ticket {
        self.start_as(text, |_| {})
    }

    pub(super) fn start_as(&mut self, text: &str, change: impl FnOnce(&mut Start)) -> Ticket {
        let ticket = self.ticket();
        let mut start = start(ticket, &format!("request-{}", ticket.0), text);
        change(&mut start);
        self.send(Command::Start(Box::new(start)));
        ticket
    }

    pub(super) fn calling(&self) -> Option<ModelCall> {
        self.work.iter().find_map(|work| if let Effect::CallModel(call) = work { Some(call.clone()) } else { None })
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        let call = self.calling().expect("a model call is in flight");
        self.work.retain(|work| !matches!(work, Effect::CallModel(_)));
        self.send(Command::ModelReplied { round: call.round, attempt: call.attempt, reply: Box::new(reply) });
    }

    pub(super) fn model_fails(&mut self, retriable: bool) {
        let call = self.calling().expect("a model call is in flight");
        self.work.retain(|work| !matches!(work, Effect::CallModel(_)));
        let error = Error::unavailable(Reason::ModelFailed, "it failed");
        let (round, attempt) = (call.round, call.attempt);
        self.send(Command::ModelFailed { round, attempt, error, retriable, usage: Usage::default() });
    }

    /// Answers one pending effect other than a model call. Returns false if no such effect is pending.
    pub(super) fn step(&mut self) -> bool {
        let Some(at) = self.work.iter().position(|work| !matches!(work, Effect::CallModel(_))) else { return false };
        let work = self.work.remove(at).unwrap();
        let (round, index) = call_position(&work);
        let command = match work {
            Effect::RunRead(run) => {
                let outcome = ToolOutcome::Done(result(&format!("read {}", run.name)));
                Command::ToolFinished { round, index, outcome }
            }
            Effect::PlanTool(run, _) if run.name == TASKS => {
                let (tasks, running_max) = (self.children.planned.clone(), 3);
                Command::TasksPlanned { round, index, tasks, running_max }
            }
            Effect::ReadChildren(run) => Command::ChildrenRead { round, index, states: self.children.states(&run) },
            Effect::StartChild(run, number) => {
                let started = self.children.start(&run, number);
                Command::ChildStarted { round, index, number, started }
            }
            Effect::EndChildren(run) => Command::ChildrenEnded { round, index, ends: self.children.end_all(&run) },
            Effect::PlanTool(run, _) => Command::Planned { round, index, plan: Ok(self.plan(&run)) },
            Effect::RunTool(run, intent) => {
                let row = self.aggregates.write(&run.call, &run.name, &intent);
                let outcome = row.map_or(ToolOutcome::Unknown, |row| ToolOutcome::Done(tool_result(row)));
                Command::ToolFinished { round, index, outcome }
            }
            Effect::Recover(run, intent) => {
                let outcome = ToolOutcome::Done(tool_result(self.aggregates.recover(&run.call, &run.name, &intent)));
                Command::ToolFinished { round, index, outcome }
            }
            Effect::Close(run, intent) => {
                let row = self.aggregates.close(&run.call, &intent, OpOutcome::Aborted);
                let result = (row != OpOutcome::Aborted).then(|| tool_result(row));
                Command::Closed { round, index, result, usage: Usage { model_calls: 1, ..Usage::default() } }
            }
            other => panic!("unexpected work: {other:?}"),
        };
        self.send(command);
        true
    }

    /// Answers all work but model calls.
    pub(super) fn run(&mut self) {
        while self.step() {}
    }

    pub(super) fn plan(&self, run: &ToolRun) -> CallPlan {
        let target = Schema::target(&SchemaId::derive(&[run.arguments["on"].as_str().unwrap_or("x")]));
        let version = self.aggregates.versions.get(&target.to_string()).copied().unwrap_or_default();
        let expected = if version == 0 { Expected::Absent } else { Expected::Version(version) };
        CallPlan { target, expected, resolved: Value::Null }
    }

    pub(super) fn turn(&self) -> u32 {
        self.machine.history().last().map_or(0, TurnRecord::number)
    }

    pub(super) fn record(&self) -> &TurnRecord {
        self.machine.history().last().unwrap()
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.record().ended.as_ref().map(|ended| &ended.end)
    }

    /// Returns the status of a call of the first round.
    pub(super) fn status(&self, index: u32) -> Option<CallStatus> {
        self.record().call(1, index).unwrap().status()
    }

    pub(super) fn decide(&mut self, round: u32, decisions: &[(u32, Decision)]) -> Ticket {
        self.decide_as(round, decisions, |_| {})
    }

    pub(super) fn decide_as(
        &mut self,
        round: u32,
        decisions: &[(u32, Decision)],
        change: impl FnOnce(&mut Decide),
    ) -> Ticket {
        let ticket = self.ticket();
        let mut decide = decide(ticket, self.turn(), round, decisions);
        change(&mut decide);
        self.send(Command::Decide(Box::new(decide)));
        ticket
    }

    pub(super) fn cancel(&mut self) -> Ticket {
        let (ticket, turn) = (self.ticket(), self.turn());
        self.send(Command::Cancel { ticket, turn });
        ticket
    }

    pub(super) fn resume(&mut self) -> Ticket {
        let (ticket, turn) = (self.ticket(), self.turn());
        self.send(Command::Resume { ticket, turn });
        ticket
    }

    pub(super) fn wait(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(super) fn answer(&self, ticket: Ticket) -> Option<&Result<Answer, Box<Error>>> {
        let mut answers = self.answers.iter().filter(|(to, _)| *to == ticket).map(|(_, answer)| answer);
        let first = answers.next();
        assert!(answers.next().is_none(), "{ticket:?} is answered twice");
        first
    }

    pub(super) fn refusal(&self, ticket: Ticket) -> Option<Reason> {
        self.answer(ticket).and_then(|answer| answer.as_ref().err()).map(|error| error.reason)
    }

    /// Returns the closing event with which decisions were answered.
    pub(super) fn decided(&self, ticket: Ticket) -> Event {
        match self.answer(ticket) {
            Some(Ok(Answer::Decided { closing, .. })) => (**closing).clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn journal(&self) -> Vec<String> {
        let kind = |entry: &Entry| match entry {
            Entry::Summary(_) => "summary".to_owned(),
            entry => serde_json::to_value(entry).unwrap()["entry"].as_str().unwrap().to_owned(),
        };
        self.store.entries.iter().map(kind).collect()
    }

    pub(super) fn last_event(&self) -> &EventKind {
        &self.events.last().unwrap().kind
    }
}

/// Returns a chat without auto-approval that is refused while another turn is open.
pub(super) fn start(ticket: Ticket, request: &str, text: &str) -> Start {
    Start {
        ticket,
        request: request.parse().unwrap(),
        digest: Digest::of(text.as_bytes()),
        user: UserId::derive(&["user"]),
        role: Role::Member,
        text: text.into(),
        images: Vec::new(),
        mentions: Vec::new(),
        options: TurnOptions {
            model: "m".into(),
            auto_approve: false,
            auto_approved_tools: Vec::new(),
            approval_ttl_seconds: 300,
            rounds_max: 10,
            policy: Policy::default(),
            profile: None,
            credit_budget: None,
            direct_call: None,
            summarizes: false,
        },
        truncate_to: None,
        if_busy: IfBusy::Reject,
        if_pending: IfPending::Reject,
    }
}

/// Returns a recorded profile with the tools `r1`, `w1` and `w2`, of which only the last waits.
pub(super) fn profile() -> TurnProfile {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    TurnProfile {
        name: "test".into(),
        version: 1,
        tools: names(&["r1", "w1", "w2"]),
        waiting_tools: names(&["w2"]),
        policy_tools: [].into(),
        subject: Subject::Document(DocumentId::derive(&["document"])),
        running_seconds: None,
        credit_budget: None,
        answer: AnswerType::Text,
        graph: folio_history::graph::no_graph(),
    }
}

/// Returns decisions on calls of a round by the user of the turn.
pub(super) fn decide(ticket: Ticket, turn: u32, round: u32, decisions: &[(u32, Decision)]) -> Decide {
    let requested = |(index, decision): &(u32, Decision)| RequestedDecision {
        round,
        index: *index,
        decision: decision.clone(),
        digest: None,
        problem: None,
    };
    Decide {
        ticket,
        turn,
        round: Some(round),
        decisions: decisions.iter().map(requested).collect(),
        reject_undecided: false,
        continue_auto_approved: false,
        by: Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member),
        current: CurrentRules { policy: Policy::default(), requester: Role::Member },
    }
}

pub(super) fn node(number: u32) -> Incarnation {
    Incarnation::derive(&[&number.to_string()])
}

pub(super) fn result(content: &str) -> ToolResult {
    let (change, usage) = Default::default();
    ToolResult { status: CallStatus::Ok, content: content.into(), change, usage }
}

/// Returns an answer without calls.
pub(super) fn text_reply(text: &str) -> Reply {
    Reply {
        model: "m".into(),
        text: text.into(),
        thinking: Vec::new(),
        calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: Usage { input_tokens: 10, output_tokens: 5, reported: true, model_calls: 1, ..Usage::default() },
        answer_problem: None,
    }
}

/// Returns an answer that violates the answer type of the turn.
pub(super) fn wrong_reply(text: &str) -> Reply {
    Reply { answer_problem: Some("#/total: is missing".into()), ..text_reply(text) }
}

/// Returns a recorded profile whose answer is JSON.
pub(super) fn json_profile() -> TurnProfile {
    TurnProfile { answer: AnswerType::Json { schema: json!({ "required": ["total"] }) }, ..profile() }
}

/// Returns an answer with calls. A tool whose name starts with `r` reads, with `w` writes (to the aggregate of that
/// name); other tools are unknown.
pub(super) fn calls_reply(calls: &[&str]) -> Reply {
    let call = |name: &&str| CheckedCall {
        provider_id: "call_0".into(),
        name: (*name).into(),
        arguments: json!({ "on": name }),
        access: if name.starts_with('w') { Access::ReadWrite } else { Access::ReadOnly },
        problem: (!name.starts_with(['r', 'w'])).then(|| format!("unknown tool {name}")),
        repairs: Vec::new(),
    };
    Reply { calls: calls.iter().map(call).collect(), finish: FinishReason::ToolCalls, ..text_reply("let me") }
}

pub(super) fn call_position(work: &Effect) -> (u32, u32) {
    match work {
        Effect::RunRead(run) | Effect::PlanTool(run, _) => (run.call.round, run.call.index),
        Effect::RunTool(run, _) | Effect::Recover(run, _) | Effect::Close(run, _) => (run.call.round, run.call.index),
        Effect::ReadChildren(run) | Effect::StartChild(run, _) | Effect::EndChildren(run) => {
            (run.group.round, run.group.index)
        }
        other => panic!("not the work of a call: {other:?}"),
    }
}

pub(super) fn approve(index: u32) -> (u32, Decision) {
    (index, Decision::Approve)
}

pub(super) fn reject(index: u32) -> (u32, Decision) {
    (index, Decision::Reject { reason: Some("no".into()) })
}
