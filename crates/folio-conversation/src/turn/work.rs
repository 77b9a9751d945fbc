//! Execution of the calls of a round.

use std::collections::BTreeSet;

use folio_history::event::EventKind;
use folio_history::journal::{Access, CallResult, CallStatus, Decision, Entry, Intent};
use folio_history::reference::Resolution;
use folio_history::{CallRecord, RoundRecord, TurnRecord, json_bytes};
use folio_tools::policy;
use folio_types::{Digest, Timestamp};
use serde_json::json;

use super::append::AfterAppend;
use super::cancel::synthetic;
use super::machine::State;
use super::model::round_finished_event;
use super::progress::{self, CallIdentity};
use super::{CallPlan, Effect, Machine, Patience, PlanFailure, ToolOutcome, ToolResult, ToolRun, bounds, references};

/// Next step of a round.
enum Next {
    /// These calls get results without running.
    Record(Vec<CallResult>),
    /// These read-only calls run concurrently.
    Read(Vec<ToolRun>),
    /// The intent of this call is committed, and its outcome is unknown.
    Recover(ToolRun, Box<Intent>),
    /// This write call must be planned first.
    Plan(ToolRun),
    /// These calls need an approval with the ids in place of their references. Every other call has its result.
    Repeat(BTreeSet<u32>),
    /// Every call has its result.
    Nothing,
}

impl Machine {
    /// Continues the calls of the newest round. Must be called only if none of them is in progress.
    pub(super) fn work(&mut self, now: Timestamp) {
        match self.next() {
            Next::Record(results) => {
                results.into_iter().for_each(|result| self.record_result(now, result));
                self.advance(now);
            }
            Next::Read(_)
                if self.buffered.decisions.is_some() || self.buffered.bytes > super::append::BUFFERED_BYTES =>
            {
                self.flush(now)
            }
            Next::Read(runs) => {
                self.state = State::Working(runs.iter().map(|run| run.call.index).collect());
                for run in runs {
                    self.emit_started(&run);
                    self.effects.push(Effect::RunRead(run));
                }
            }
            Next::Recover(run, intent) => {
                self.state = State::Working(BTreeSet::from([run.call.index]));
                self.emit_started(&run);
                self.effects.push(Effect::Recover(run, *intent));
            }
            Next::Plan(run) => {
                self.state = State::Working(BTreeSet::from([run.call.index]));
                // Requests wait for the commit of buffered decisions.
                let is_urgent = self.buffered.decisions.is_some();
                let patience = if is_urgent { Patience::Once } else { Patience::Retry };
                self.effects.push(Effect::PlanTool(run, patience));
            }
            Next::Repeat(repeated) => self.repeat_calls(now, &repeated),
            Next::Nothing => {}
        }
    }

    fn next(&self) -> Next {
        let Some(record) = self.history.open() else { return Next::Nothing };
        let Some(round) = record.newest_round() else { return Next::Nothing };
        let results: Vec<_> = round.unanswered().filter_map(|call| without_running(record, round, call)).collect();
        if !results.is_empty() {
            return Next::Record(results);
        }
        let repeated = references::repeated(record, round);
        let runnable = round.unanswered().filter(|call| !repeated.contains(&call.call.index));
        let runnable: Vec<&CallRecord> = runnable.collect();
        let mut reads: Vec<&CallRecord> = Vec::new();
        for call in runnable.iter().copied().take(self.reads_max) {
            let may_run = progress::may_run_with(record, round, &reads, &CallIdentity::of(round, call));
            if call.call.access != Access::ReadOnly || !may_run {
                break;
            }
            if round.resolve(call) != Resolution::Waiting {
                reads.push(call);
            }
        }
        if !reads.is_empty() {
            return Next::Read(reads.into_iter().map(|call| self.tool_run(record, round, call)).collect());
        }
        // Every earlier call has a result, unless it is repeated. So the references of the call have ids.
        let Some(call) = runnable.first() else {
            return if repeated.is_empty() { Next::Nothing } else { Next::Repeat(repeated) };
        };
        let run = self.tool_run(record, round, call);
        match &call.intent {
            Some(intent) => Next::Recover(run, Box::new(intent.clone())),
            None => Next::Plan(run),
        }
    }

    /// Returns a call to run, with edited arguments, with ids in place of references, and with the current epoch.
    pub(super) fn tool_run(&self, record: &TurnRecord, round: &RoundRecord, call: &CallRecord) -> ToolRun {
        let arguments = references::arguments_to_run(round, call).into_owned();
        ToolRun {
            call: record.call_id(&self.header.id, round.round, call.call.index),
            name: call.call.name.clone(),
            digest: Digest::of_json(&arguments),
            arguments,
            epoch: self.header.epoch,
        }
    }

    /// Returns the open turn, its newest round and a call of it. None: the call is not in progress.
    pub(super) fn running_call(&self, round: u32, index: u32) -> Option<(&TurnRecord, &RoundRecord, &CallRecord)> {
        let record = self.history.open()?;
        let newest = record.newest_round().filter(|newest| newest.round == round)?;
        match &self.state {
            State::Working(running) if running.contains(&index) => Some((record, newest, newest.call(index)?)),
            _ => None,
        }
    }

    /// Handles the plan of a write call: appends its intent after buffered decisions and results.
    /// While the store does not answer, the decisions are appended first, so that requests need not wait for the plan.
    pub(super) fn planned(&mut self, now: Timestamp, round: u32, index: u32, plan: Result<CallPlan, PlanFailure>) {
        let Some((record, newest, call)) = self.running_call(round, index) else { return };
        if call.intent.is_some() || call.call.access != Access::ReadWrite {
            return;
        }
        let plan = match plan {
            Ok(plan) => permitted(record, newest, call, plan),
            Err(PlanFailure::Failed(problem)) => Err(problem),
            Err(PlanFailure::StoreUnavailable) => {
                self.store_awaited(round, index);
                return self.flush(now);
            }
        };
        let (turn, arguments) = (record.number(), references::resolved(newest, call));
        let intent = plan.and_then(|CallPlan { target, expected, resolved }| {
            let at = Some(now);
            let entry = Entry::Intent(Intent { turn, round, index, target, expected, arguments, resolved, at });
            let max = bounds::ENTRY_CONTENT_BYTES;
            match json_bytes(&entry) > max {
                true => Err(format!("the change of this call is too large to record (at most {max} bytes)")),
                false => Ok(entry),
            }
        });
        match intent {
            Err(problem) => {
                self.record_result(now, bounds::not_run(round, index, CallStatus::Failed, problem));
                self.advance(now);
            }
            Ok(entry) => {
                let change = self.phase_change(self.working_phase());
                self.append(now, vec![entry], change, AfterAppend::Run(index));
            }
        }
    }

    /// Informs watchers that a call waits for the store.
    pub(super) fn store_awaited(&mut self, round: u32, index: u32) {
        let is_active = match &self.state {
            State::Working(running) => running.contains(&index),
            State::Closing(open) => open.contains(&(round, index)),
            _ => false,
        };
        let id = self.header.id.clone();
        let call =
            self.history.open().filter(|_| is_active).and_then(|record| {
                Some((record.call_id(&id, round, index), record.call(round, index)?.call.name.clone()))
            });
        if let Some((call, name)) = call {
            self.emit(EventKind::WaitingForStore { call, name });
        }
    }

    /// Runs a write call whose intent is committed.
    pub(super) fn run_write(&mut self, index: u32) {
        let Some(record) = self.history.open() else { return };
        let Some(round) = record.newest_round() else { return };
        let Some((call, intent)) = round.call(index).and_then(|call| Some((call, call.intent.clone()?))) else {
            return;
        };
        let run = self.tool_run(record, round, call);
        self.state = State::Working(BTreeSet::from([index]));
        self.emit_started(&run);
        self.effects.push(Effect::RunTool(run, intent));
    }

    pub(super) fn tool_finished(&mut self, now: Timestamp, round: u32, index: u32, outcome: ToolOutcome) {
        let Some((record, newest, call)) = self.running_call(round, index) else { return };
        let result = match (outcome, &call.intent) {
            (ToolOutcome::Done(result), _) => result.into_call_result(round, index),
            (ToolOutcome::Unknown, Some(intent)) => {
                let effect = Effect::Recover(self.tool_run(record, newest, call), intent.clone());
                return self.effects.push(effect);
            }
            (ToolOutcome::Refused(error), Some(_)) => return self.fail_unstarted(now, error),
            (ToolOutcome::Refused(error), None) => bounds::not_run(round, index, CallStatus::Failed, error.message),
            (ToolOutcome::Unknown, None) => bounds::not_run(round, index, CallStatus::Failed, "the tool failed"),
        };
        self.record_result(now, result);
        let State::Working(running) = &mut self.state else { return };
        running.remove(&index);
        if running.is_empty() {
            self.advance(now);
        }
    }

    /// Records the result of a call. The result is appended with the next step.
    pub(super) fn record_result(&mut self, now: Timestamp, mut result: CallResult) {
        if let Some(record) = self.history.open() {
            progress::advise(record, &mut result);
            if let Some(call) = record.call(result.round, result.index) {
                list_repairs(&mut result, call);
            }
        }
        bounds::fit_result(&mut result);
        result.at = Some(now);
        let (number, index) = (result.round, result.index);
        self.buffered.bytes = self.buffered.bytes.saturating_add(json_bytes(&result));
        if number <= self.buffered.written_round {
            self.buffered.results.push(result.clone());
        }
        let id = self.header.id.clone();
        let Some(record) = self.open_mut() else { return };
        let call = record.call_id(&id, number, index);
        let name = record.call(number, index).map(|call| call.call.name.clone()).unwrap_or_default();
        let (status, content) = (result.status, result.content.clone());
        record.push_result(result);
        let finished =
            record.round(number).filter(|round| round.unanswered().next().is_none()).map(round_finished_event);
        self.emit(EventKind::ToolResult { call, name, status, content });
        if let Some(finished) = finished {
            self.emit(finished);
        }
    }

    fn emit_started(&mut self, run: &ToolRun) {
        self.emit(EventKind::ToolStarted { call: run.call.clone(), name: run.name.clone() });
    }
}

/// Adds the repairs of a call's arguments to its result, so that the model learns them. A call that was rejected or cancelled,
/// and a call with an approver's arguments, lists none.
fn list_repairs(result: &mut CallResult, call: &CallRecord) {
    let repairs = &call.call.repairs;
    let is_answer =
        matches!(result.status, CallStatus::Ok | CallStatus::Failed | CallStatus::Conflict | CallStatus::Unknown);
    let is_edited = matches!(call.decision, Some(Decision::ApproveEdited { .. }));
    if repairs.is_empty() || !is_answer || is_edited {
        return;
    }
    let content = &mut result.content;
    match content.strip_prefix('{') {
        // The content is a JSON object, and stays one.
        Some(members) => {
            let comma = if members.starts_with('}') { "" } else { "," };
            *content = format!("{{\"repairs\":{}{comma}{members}", json!(repairs));
        }
        None => content.push_str(&format!("\nThe arguments were repaired: {}.", repairs.join("; "))),
    }
}

/// Returns the plan unless a rule of the policy forbids the revision that it describes; then the tool result.
fn permitted(record: &TurnRecord, round: &RoundRecord, call: &CallRecord, plan: CallPlan) -> Result<CallPlan, String> {
    let policy = &record.accepted.options.policy;
    let satisfied = call.call.needs_approval.then(|| {
        call.call.approval_requirement.as_ref().map(|requirement| requirement.approver.clone()).unwrap_or_default()
    });
    let arguments = references::arguments_to_run(round, call);
    let subject = (call.call.name.as_str(), call.call.access, &*arguments);
    match policy::denied_revision(policy, subject, plan.expected, satisfied.as_ref()) {
        Some(denial) => Err(denial),
        None => Ok(plan),
    }
}

/// Returns the result of a call that was rejected, cannot run, is denied or failed too often. None: the call must run.
fn without_running(record: &TurnRecord, round: &RoundRecord, call: &CallRecord) -> Option<CallResult> {
    let index = call.call.index;
    if let Some(Decision::Reject { reason }) = &call.decision {
        let mut content = synthetic(CallStatus::Rejected).to_owned();
        if let Some(reason) = reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) {
            content.push_str(" Reason: ");
            content.push_str(reason);
        }
        return Some(bounds::not_run(round.round, index, CallStatus::Rejected, content));
    }
    // The effect of a call with an intent is unknown, so the call must be recovered.
    if call.intent.is_some() {
        return None;
    }
    if call.call.problem.is_none()
        && let Resolution::Failed(reference, status) = round.resolve(call)
    {
        let content = references::no_id(&reference, status);
        return Some(bounds::not_run(round.round, index, CallStatus::NotRun, content));
    }
    let is_refused = || progress::is_refused(record, &CallIdentity::of(round, call));
    let problem = call.call.problem.clone().or_else(|| is_refused().then(|| progress::REFUSED.to_owned()));
    let problem = problem.or_else(|| references::denial(record, round, call))?;
    Some(bounds::not_run(round.round, index, CallStatus::Failed, problem))
}

impl ToolResult {
    pub(super) fn into_call_result(self, round: u32, index: u32) -> CallResult {
        let Self { status, content, change, usage } = self;
        CallResult { round, index, status, content, change, usage, at: None }
    }
}
