//! Performs the effects of the turn machine in order.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use folio_history::TurnRecord;
use folio_history::event::Event;
use folio_history::journal::{Entry, Intent, Mention, SUMMARY_ROUND};
use folio_history::thread::Append;
use folio_metering::{BudgetMeter, BudgetScope, OperationMeter, SharedMeter};
use folio_tools::{CallContext, DocumentScope, ToolResources};
use folio_types::{BudgetPart, CallId, DocumentId, Principal, Role, TurnId};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::{LoadedConversation, State, TurnWork};
use crate::context::ContextLoader;
use crate::current_access::{Requester, WaitedCall};
use crate::request_parts::RequestParts;
use crate::supervisor::StopReason;
use crate::turn::{Command, Effect, ModelCall, ToolRun};
use crate::work::{ModelWork, TaskContext, ToolWork, UsageRecorder};

impl State {
    /// Passes a command to the machine and performs the resulting effects. Then starts queued chats and performs their
    /// effects. Returns the reason if the conversation must stop.
    pub(super) async fn execute(&mut self, command: Command) -> Option<StopReason> {
        let effects = self.step(command);
        self.perform_all(effects).await
    }

    /// Performs effects and the effects that result from them, until there are none. Returns the reason if the
    /// conversation must stop.
    pub(super) async fn perform_all(&mut self, mut effects: Vec<Effect>) -> Option<StopReason> {
        loop {
            effects = match self.perform(effects) {
                true => match self.reload().await {
                    Ok(effects) => effects,
                    Err(reason) => return Some(reason),
                },
                false => self.next_in_queue().await?,
            };
        }
    }

    /// Passes a command to the machine and returns its effects.
    pub(super) fn step(&mut self, command: Command) -> Vec<Effect> {
        let now = self.shared.dependencies.environment.now();
        if matches!(command, Command::Appended { .. }) {
            self.reloads = 0;
        }
        let Some(loaded) = self.loaded.as_mut() else { return Vec::new() };
        if matches!(command, Command::Appended { .. } | Command::LookedUp { is_committed: true, .. }) {
            loaded.audit.commit();
        }
        let was_foreign = loaded.machine.header().owner.is_some() && !self.shared.owns(loaded.machine.header());
        let effects = loaded.machine.handle(now, command);
        if was_foreign && self.shared.owns(loaded.machine.header()) {
            self.shared.counters.taken_over.fetch_add(1, Ordering::Relaxed);
        }
        loaded.new.take_if(|_| loaded.machine.header().version > 0);
        self.publish();
        effects
    }

    /// Performs effects in order. Returns true at the first effect that requires a reload of the thread; later effects
    /// are dropped.
    fn perform(&mut self, effects: Vec<Effect>) -> bool {
        for effect in effects {
            match effect {
                Effect::Reload => return true,
                Effect::Emit(event) => self.emit(event),
                Effect::Answer(ticket, answer) => self.answer(ticket, answer.map_err(|error| *error)),
                Effect::StopWork => self.stop_work(),
                Effect::Append(append) => {
                    self.prefetch(&append);
                    let audit = self.loaded.as_mut().map(|loaded| &mut loaded.audit);
                    let audit_writes = audit.map(|audit| audit.writes_for(&append.entries)).unwrap_or_default();
                    self.spawn_for_machine(|work, loaded| {
                        work.spawn(work.clone().append(*append, loaded.new.clone(), audit_writes))
                    });
                }
                Effect::LookUp { batch, sends } => {
                    // The prefetched context may be outdated.
                    self.invalidate_context();
                    self.spawn_for_machine(|work, loaded| {
                        let audit_writes = loaded.audit.in_flight_writes();
                        work.spawn(work.clone().look_up((batch, sends), loaded.new.clone(), audit_writes));
                    });
                }
                Effect::RemoveOpenTurn(row) => self.spawn_for_machine(|work, _| work.remove_open_turn(row)),
                Effect::CallModel(call) => self.call_model(call),
                Effect::PlanTool(run, patience) => self.run_tool(run, |tool| tool.plan(patience)),
                Effect::RunTool(run, intent) => {
                    self.invalidate_context();
                    self.run_tool(run, |tool| tool.write(intent));
                }
                Effect::Recover(run, intent) => {
                    self.invalidate_context();
                    self.run_tool(run, |tool| tool.recover(intent));
                }
                Effect::RunRead(run) => {
                    self.prepare_turn(run.call.turn.number);
                    self.run_tool(run, |tool| tool.read());
                }
                Effect::Close(run, intent) => self.close(run, intent),
                Effect::ReadChildren(run) => self.read_children(*run),
                Effect::StartChild(run, number) => self.start_child(*run, number),
                Effect::EndChildren(run) => self.end_children(*run),
                Effect::NotifyParent(turn) => self.notify_parent(turn),
            }
        }
        false
    }

    /// Starts a task that is stopped only together with this machine.
    fn spawn_for_machine(&self, task: impl FnOnce(TaskContext, &LoadedConversation)) {
        if let Some(loaded) = &self.loaded {
            task(self.task_context(loaded.token.clone()), loaded);
        }
    }

    /// Stops the model call and the tool calls in progress.
    fn stop_work(&mut self) {
        if let Some(loaded) = &mut self.loaded {
            loaded.work.cancel();
            loaded.work = loaded.token.child_token();
        }
    }

    fn emit(&mut self, event: Event) {
        let Some(loaded) = &mut self.loaded else { return };
        self.shared.counters.count(&event.kind);
        let turn = event.turn.number;
        if event.kind.is_closing()
            && let Some(work) = loaded.turn.take_if(|work| work.turn == turn)
        {
            work.spans.end(&event.kind);
        }
        let event = self.with_task(event);
        self.buffer_from(turn, event.number).push(event);
    }

    fn call_model(&mut self, call: ModelCall) {
        self.prepare_turn(call.turn.number);
        let number = call.turn.number;
        if let Some(loaded) = self.loaded.as_deref_mut()
            && let Some(turn) = loaded.turn.as_mut()
        {
            let record = loaded.machine.history().turn(number);
            let node = record.filter(|_| call.round != SUMMARY_ROUND).and_then(TurnRecord::node);
            turn.spans.round(call.round, node.map(|node| node.name.as_str()));
        }
        let Some(loaded) = &self.loaded else { return };
        let (Some(record), Some(turn)) = (loaded.machine.history().turn(number), &loaded.turn) else { return };
        let work = self.task_context(loaded.work.clone());
        let budget_parts = self.budget_parts(number);
        let RequestParts { profile, tools, window, prompt, answer, start, working } =
            RequestParts::of(&loaded.profile, loaded.machine.history(), record, call.round);
        let model = ModelWork {
            work: work.clone(),
            user: record.accepted.user.clone(),
            tools,
            profile,
            window,
            prompt,
            start,
            working,
            deadline: call.time_left.and_then(|left| Instant::now().checked_add(left)),
            answer,
            document: only_document(&loaded.machine.header().documents),
            context: turn.context.clone(),
            write_counter: turn.write_counter.load(Ordering::SeqCst),
            meter: self.meter_of(&budget_parts),
            has_budget: !budget_parts.is_empty(),
            job: loaded.machine.header().job.clone(),
            call,
        };
        work.spawn_uncancelled(model.run());
    }

    /// Prefetches the context for the first model call while the acceptance of the turn is being written.
    fn prefetch(&mut self, append: &Append) {
        let accepted = append.entries.iter().find_map(|entry| match entry {
            Entry::Accepted(accepted) => Some(accepted),
            _ => None,
        });
        let Some(accepted) = accepted else { return };
        self.set_turn(accepted.turn, accepted.mentions.clone());
        self.spawn_for_machine(|work, loaded| {
            let Some(turn) = &loaded.turn else { return };
            let (context, write_counter) = (turn.context.clone(), turn.write_counter.load(Ordering::SeqCst));
            work.spawn(work.clone().prefetch(context, write_counter));
        });
    }

    /// Creates the [`TurnWork`] of a running turn unless it exists.
    fn prepare_turn(&mut self, number: u32) {
        let Some(loaded) = self.loaded.as_ref().filter(|loaded| !loaded.has_turn(number)) else { return };
        let record = loaded.machine.history().turn(number);
        if let Some(mentions) = record.map(|record| record.accepted.mentions.clone()) {
            self.set_turn(number, mentions);
        }
    }

    /// Creates the [`TurnWork`] of a turn unless it exists.
    fn set_turn(&mut self, number: u32, mentions: Vec<Mention>) {
        if self.loaded.as_ref().is_some_and(|loaded| loaded.has_turn(number)) {
            return;
        }
        let (stores, org) = (self.stores().clone(), self.org().clone());
        let excerpts = self.shared.excerpts.clone();
        let Some(loaded) = &mut self.loaded else { return };
        let excerpts = loaded.profile.profile.has_excerpt.then_some(excerpts);
        let (thread, documents) = (self.key.1.clone(), loaded.machine.header().documents.clone());
        let spans = self.traces.turn(&TurnId { thread, number }, loaded.profile.profile.name);
        loaded.turn = Some(TurnWork {
            turn: number,
            spans,
            context: Arc::new(Mutex::new(ContextLoader::new(stores, excerpts, org, documents, mentions))),
            write_counter: Arc::default(),
        });
    }

    /// Closes the op of a call. [`Effect::StopWork`] does not stop the task.
    fn close(&mut self, run: ToolRun, intent: Intent) {
        self.invalidate_context();
        let Some(token) = self.loaded.as_ref().map(|loaded| loaded.token.clone()) else { return };
        if let Some(tool) = self.tool_work(run, token) {
            let work = tool.work.clone();
            work.spawn(tool.close(intent));
        }
    }

    /// Marks the prefetched context as outdated, because a write may change it.
    fn invalidate_context(&mut self) {
        if let Some(turn) = self.loaded.as_ref().and_then(|loaded| loaded.turn.as_ref()) {
            turn.write_counter.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn run_tool<F>(&mut self, run: ToolRun, task: impl FnOnce(ToolWork) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(token) = self.loaded.as_ref().map(|loaded| loaded.work.clone()) else { return };
        if let Some(tool) = self.tool_work(run, token) {
            let work = tool.work.clone();
            work.spawn(task(tool));
        }
    }

    /// Returns the parts of credit budgets that pay for the calls of a turn. Empty: the turn has no budget.
    pub(super) fn budget_parts(&self, number: u32) -> Vec<BudgetPart> {
        let Some(machine) = self.loaded.as_ref().map(|loaded| &loaded.machine) else { return Vec::new() };
        let turn = TurnId::new(self.thread().clone(), number);
        let options = machine.history().turn(number).map(|record| &record.accepted.options);
        options.map(|options| options.budget_parts(machine.header().budget_parts(), &turn)).unwrap_or_default()
    }

    /// Returns the meter of a turn's model calls: with the operation of the profile, if the profile has its own, and with the
    /// budgets that pay for the turn.
    fn meter_of(&self, budget_parts: &[BudgetPart]) -> SharedMeter {
        let mut meter = self.shared.dependencies.meter.clone();
        let profile = self.loaded.as_ref().map(|loaded| &loaded.profile.profile);
        if let Some(profile) = profile.filter(|profile| profile.has_own_usage) {
            meter = Arc::new(OperationMeter::new(meter, profile.name));
        }
        for part in budget_parts {
            let scope = BudgetScope::new(self.stores().budgets(), self.org().clone(), part.clone());
            meter = Arc::new(BudgetMeter::new(meter, scope, self.shared.tracker.clone()));
        }
        meter
    }

    /// Returns the recorder of the usage of a call, which all its attempts share.
    fn recorder_of(&mut self, call: &CallId, budget_parts: &[BudgetPart]) -> Option<Arc<UsageRecorder>> {
        let new = UsageRecorder::new(self.meter_of(budget_parts));
        let spent = &mut self.loaded.as_mut()?.spent;
        spent.retain(|known, _| (&known.turn, known.round) == (&call.turn, call.round));
        Some(Arc::clone(spent.entry(call.clone()).or_insert(new)))
    }

    fn tool_work(&mut self, run: ToolRun, token: CancellationToken) -> Option<ToolWork> {
        let budget_parts = self.budget_parts(run.call.turn.number);
        let spent = self.recorder_of(&run.call, &budget_parts)?;
        let loaded = self.loaded.as_ref()?;
        let record = loaded.machine.history().turn(run.call.turn.number)?;
        let subject = record.accepted.options.subject(&loaded.machine.header().documents);
        let context = CallContext {
            resources: ToolResources { meter: spent.clone(), ..self.shared.resources() },
            // A turn acts as its requester, at most with the role of a member.
            principal: Principal::new(self.org().clone(), record.accepted.user.clone(), Role::Member),
            call: run.call.clone(),
            epoch: run.epoch,
            documents: loaded.machine.header().documents.clone(),
            scope: DocumentScope::of_turn(subject.as_ref(), &record.accepted.mentions),
            subject,
            working: record.working.clone(),
            model: record.accepted.options.model.clone(),
            // A job that the call creates is paid from the budget that contains that of the turn.
            budget_part: budget_parts.into_iter().next(),
            is_preview: false,
        };
        let waited = record.round(run.call.round).filter(|round| round.paused.is_some()).and_then(|round| {
            let call = round.call(run.call.index)?;
            Some(WaitedCall {
                requester: Requester::of(&record.accepted, loaded.machine.header()),
                decided_by: call.decided_by.clone(),
                access: call.call.access,
                recent: loaded.current_access.clone(),
            })
        });
        let profile = loaded.profile.of_turn(record.accepted.options.tools());
        Some(ToolWork {
            work: self.task_context(token),
            waited,
            tool: profile.get(&run.name).cloned(),
            profile,
            context,
            spent,
            run,
        })
    }
}

/// Returns the only document of a thread. None: the thread has no document or several.
fn only_document(documents: &[DocumentId]) -> Option<DocumentId> {
    match documents {
        [one] => Some(one.clone()),
        _ => None,
    }
}
