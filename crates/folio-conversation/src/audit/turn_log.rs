//! Folds the journal entries of a turn into audit entries.

use std::collections::BTreeMap;

use folio_history::journal::{
    Accepted, Access, Call, CallResult, Decision, Decisions, End, Entry, Group, Intent, Round, TurnOptions,
};
use folio_resources::audit::{AuditEntry, AuditKind, Ground, RedactedArguments, word as rule_label};
use folio_resources::policy::{Rule, Ruling};
use folio_tools::policy;
use folio_types::{CallId, ThreadId, Timestamp, TurnId, UserId};

/// Converts the committed journal entries of a thread, in order, to audit entries. Contains the state of the newest
/// turn.
#[derive(Debug, Clone)]
pub(super) struct TurnLog {
    thread: ThreadId,
    turn: Option<Box<Turn>>,
}

#[derive(Debug, Clone)]
struct Turn {
    id: TurnId,
    requester: UserId,
    options: TurnOptions,
    /// Approvers by round. Contains every round with a decisions entry.
    approvers: BTreeMap<u32, UserId>,
    /// Audited calls by round and index.
    calls: BTreeMap<(u32, u32), AuditedCall>,
    /// Newest time in the journal, used for entries without a time.
    clock: Timestamp,
}

/// A call that writes, needs a decision, matches a rule, or is denied.
#[derive(Debug, Clone)]
struct AuditedCall {
    name: String,
    access: Access,
    /// Arguments with which the call runs, redacted.
    arguments: RedactedArguments,
    ground: Option<Ground>,
    target: Option<folio_resources::audit::AuditTarget>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The call has neither a decision nor a start.
    Undecided,
    /// A rule denies the call.
    Denied,
    /// The call may run.
    Permitted,
    /// The call has its result or was rejected.
    Finished,
}

impl TurnLog {
    pub(super) fn new(thread: ThreadId) -> Self {
        Self { thread, turn: None }
    }

    /// Reads the next journal entry and appends the resulting audit entries to `entries`.
    pub(super) fn push(&mut self, entry: &Entry, entries: &mut Vec<AuditEntry>) {
        if let Entry::Accepted(accepted) = entry {
            self.turn = Some(Box::new(Turn::new(self.thread.clone(), accepted)));
            return;
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| entry.turn() == Some(turn.id.number)) else { return };
        match entry {
            Entry::Round(round) => turn.round(round, entries),
            Entry::Decisions(decisions) => turn.decisions(decisions, entries),
            Entry::Intent(intent) => turn.started(intent, entries),
            Entry::Group(group) => turn.group_started(group, entries),
            Entry::Outcome(outcome) => turn.result(&outcome.result, entries),
            Entry::Paused(paused) => turn.advance_clock(paused.at),
            Entry::Resumed(resumed) => turn.advance_clock(resumed.at),
            Entry::Closing(closing) => turn.advance_clock(closing.at),
            Entry::Ended(ended) => {
                turn.advance_clock(ended.at);
                // A call that runs again when the turn is resumed has no outcome yet.
                if !ended.runs_again {
                    ended.results.iter().for_each(|result| turn.result(result, entries));
                }
                if !matches!(ended.end, End::Failed { retriable: true, .. }) {
                    self.turn = None;
                }
            }
            Entry::Accepted(_) | Entry::Imported(_) | Entry::Summary(_) => {}
        }
    }
}

impl Turn {
    fn new(thread: ThreadId, accepted: &Accepted) -> Self {
        Self {
            id: TurnId::new(thread, accepted.turn),
            requester: accepted.user.clone(),
            options: accepted.options.clone(),
            approvers: BTreeMap::new(),
            calls: BTreeMap::new(),
            clock: accepted.at,
        }
    }

    fn advance_clock(&mut self, at: Timestamp) {
        self.clock = self.clock.max(at);
    }

    fn round(&mut self, round: &Round, entries: &mut Vec<AuditEntry>) {
        for call in &round.calls {
            if let Some(audited) = audited_call(&self.options, call) {
                self.calls.entry((round.round, call.index)).or_insert(audited);
            }
        }
        round.results.iter().for_each(|result| self.result(result, entries));
    }

    fn decisions(&mut self, decisions: &Decisions, entries: &mut Vec<AuditEntry>) {
        self.advance_clock(decisions.decided_at);
        self.approvers.entry(decisions.round).or_insert_with(|| decisions.by.clone());
        for (index, decision) in &decisions.decided {
            let Some(audited) = self.calls.get_mut(&(decisions.round, *index)) else { continue };
            if audited.stage != Stage::Undecided {
                continue;
            }
            let kind = match decision {
                Decision::Approve => AuditKind::CallApproved,
                Decision::ApproveEdited { arguments } => {
                    audited.arguments = RedactedArguments::call(arguments);
                    let rule = policy::rule(&self.options.policy, &audited.name, audited.access, arguments);
                    audited.ground = ground_of(&self.options, rule.as_deref(), &audited.name, audited.access);
                    AuditKind::CallEdited
                }
                Decision::Reject { .. } => AuditKind::CallRejected,
            };
            audited.stage = if kind == AuditKind::CallRejected { Stage::Finished } else { Stage::Permitted };
            let call = CallId::new(self.id.clone(), decisions.round, *index);
            entries.push(AuditEntry {
                token_creator: decisions.token_creator.clone(),
                ..audited.entry(call, kind, decisions.decided_at, decisions.by.clone())
            });
        }
    }

    fn started(&mut self, intent: &Intent, entries: &mut Vec<AuditEntry>) {
        let position = (intent.round, intent.index);
        if let Some(audited) = self.calls.get_mut(&position) {
            audited.target = Some((&intent.target).into());
        }
        self.permitted(position, intent.at, intent.arguments.as_ref(), entries);
    }

    fn group_started(&mut self, group: &Group, entries: &mut Vec<AuditEntry>) {
        self.permitted((group.round, group.index), Some(group.at), group.arguments.as_ref(), entries);
    }

    /// Records that a call starts. `arguments`: those with ids in place of references. None: the call has no references.
    fn permitted(
        &mut self,
        (round, index): (u32, u32),
        at: Option<Timestamp>,
        arguments: Option<&serde_json::Value>,
        entries: &mut Vec<AuditEntry>,
    ) {
        let at = at.unwrap_or(self.clock);
        self.advance_clock(at);
        let by = self.approvers.get(&round).unwrap_or(&self.requester).clone();
        let Some(audited) = self.calls.get_mut(&(round, index)) else { return };
        if let Some(arguments) = arguments {
            audited.arguments = RedactedArguments::call(arguments);
            let rule = policy::rule(&self.options.policy, &audited.name, audited.access, arguments);
            audited.ground = ground_of(&self.options, rule.as_deref(), &audited.name, audited.access);
        }
        if audited.stage == Stage::Undecided {
            audited.stage = Stage::Permitted;
            let call = CallId::new(self.id.clone(), round, index);
            entries.push(audited.entry(call, AuditKind::CallAllowed, at, by));
        }
    }

    fn result(&mut self, result: &CallResult, entries: &mut Vec<AuditEntry>) {
        let at = result.at.unwrap_or(self.clock);
        let Some(audited) = self.calls.get_mut(&(result.round, result.index)) else { return };
        let kind = match audited.stage {
            Stage::Denied => Some(AuditKind::CallDenied),
            Stage::Permitted => Some(AuditKind::CallEffect),
            Stage::Undecided | Stage::Finished => None,
        };
        audited.stage = Stage::Finished;
        let Some(kind) = kind else { return };
        let call = CallId::new(self.id.clone(), result.round, result.index);
        let outcome = (kind == AuditKind::CallEffect).then(|| result.status.as_str().to_owned());
        entries.push(AuditEntry { outcome, ..audited.entry(call, kind, at, self.requester.clone()) });
    }
}

impl AuditedCall {
    fn entry(&self, call: CallId, kind: AuditKind, at: Timestamp, user: UserId) -> AuditEntry {
        AuditEntry {
            arguments: Some(self.arguments.clone()),
            ground: self.ground.clone(),
            target: self.target.clone(),
            call: Some(call.clone()),
            ..AuditEntry::new(&call.to_string(), kind, at, Some(user), &self.name)
        }
    }
}

/// Returns the initial audit state of a requested call. None: the call is not audited, because it cannot run, or only
/// reads and matches no rule.
fn audited_call(options: &TurnOptions, call: &Call) -> Option<AuditedCall> {
    let rule = policy::rule(&options.policy, &call.name, call.access, &call.arguments);
    let denied = call.problem.is_some() && rule.as_ref().is_some_and(|rule| rule.ruling == Ruling::Deny);
    let may_run = call.problem.is_none() && (call.access == Access::ReadWrite || call.needs_approval || rule.is_some());
    (denied || may_run).then(|| AuditedCall {
        name: call.name.clone(),
        access: call.access,
        arguments: RedactedArguments::call(&call.arguments),
        ground: ground_of(options, rule.as_deref(), &call.name, call.access),
        target: None,
        stage: if denied { Stage::Denied } else { Stage::Undecided },
    })
}

/// Returns the reason why a call waits, runs or is denied. None: the call only reads, and no rule matches.
fn ground_of(options: &TurnOptions, rule: Option<&Rule>, name: &str, access: Access) -> Option<Ground> {
    match rule {
        Some(rule) => Some(Ground::Rule(rule_label(&rule.name))),
        None if access == Access::ReadOnly => None,
        None if options.auto_approve && options.approves(name) => Some(Ground::AutoApprove),
        None if options.approves(name) => Some(Ground::AutoApprovedTool),
        None if !options.waits_by_default(name, access) => Some(Ground::Profile),
        None => Some(Ground::WritesWait),
    }
}

#[cfg(test)]
mod tests {
    use folio_history::journal::{
        AnswerType, CallStatus, Paused, ResumeCause, Resumed, TurnProfile, WorkingChange, WorkingState,
    };
    use folio_resources::policy::{Policy, Ruling};
    use folio_types::message::Usage;
    use folio_types::op::{Expected, Target};
    use folio_types::profile::Subject;
    use folio_types::{DocumentId, Incarnation};
    use serde_json::{Value, json};

    use super::*;

    fn call(name: &str, access: Access) -> Call {
        Call {
            index: 1,
            provider_id: String::new(),
            name: name.to_owned(),
            arguments: json!({}),
            access,
            needs_approval: false,
            approval_requirement: None,
            problem: None,
            repairs: Vec::new(),
        }
    }

    fn options(ruling: Ruling) -> TurnOptions {
        let (arguments, users, roles, profiles) = Default::default();
        let tools = vec!["ruled".to_owned()];
        let rule = Rule { name: "a rule".to_owned(), tools, arguments, users, roles, profiles, ruling };
        TurnOptions { policy: Policy { rules: vec![rule] }, ..TurnOptions::default() }
    }

    #[test]
    fn a_call_is_audited_if_it_writes_needs_a_decision_or_matches_a_rule() {
        let problem = || Some("unknown tool".to_owned());
        let (reads, writes, ruled) = ("reads", "writes", "ruled");
        let stage = |ruling, call: Call| audited_call(&options(ruling), &call).map(|audited| audited.stage);
        for (ruling, call, expected) in [
            (Ruling::Allow, call(reads, Access::ReadOnly), None),
            (Ruling::Allow, call(writes, Access::ReadWrite), Some(Stage::Undecided)),
            (Ruling::Allow, Call { needs_approval: true, ..call(reads, Access::ReadOnly) }, Some(Stage::Undecided)),
            (Ruling::Allow, call(ruled, Access::ReadOnly), Some(Stage::Undecided)),
            (Ruling::Allow, Call { problem: problem(), ..call(ruled, Access::ReadWrite) }, None),
            (Ruling::Deny, Call { problem: problem(), ..call(ruled, Access::ReadWrite) }, Some(Stage::Denied)),
            (Ruling::Deny, Call { problem: problem(), ..call(writes, Access::ReadWrite) }, None),
            (Ruling::Deny, call(ruled, Access::ReadWrite), Some(Stage::Undecided)),
        ] {
            assert_eq!(stage(ruling.clone(), call.clone()), expected, "{ruling:?} {call:?}");
        }
    }

    #[test]
    fn a_call_that_only_reads_has_no_ground_without_a_rule() {
        let options = TurnOptions { auto_approve: true, ..TurnOptions::default() };
        assert_eq!(ground_of(&options, None, "reads", Access::ReadOnly), None);
        assert_eq!(ground_of(&options, None, "writes", Access::ReadWrite), Some(Ground::AutoApprove));
        let profile = TurnProfile {
            name: "test".to_owned(),
            version: 1,
            tools: ["writes", "waits"].map(str::to_owned).into(),
            waiting_tools: ["waits".to_owned()].into(),
            policy_tools: [].into(),
            subject: Subject::Document(DocumentId::derive(&["document"])),
            running_seconds: None,
            credit_budget: None,
            answer: AnswerType::Text,
            graph: folio_history::graph::no_graph(),
        };
        let options = TurnOptions { profile: Some(profile), ..TurnOptions::default() };
        assert_eq!(ground_of(&options, None, "writes", Access::ReadWrite), Some(Ground::Profile));
        assert_eq!(ground_of(&options, None, "waits", Access::ReadWrite), Some(Ground::WritesWait));
    }

    #[test]
    fn an_entry_without_a_time_has_the_newest_time_of_the_journal() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let accepted = Accepted::new(1, "r".parse().unwrap(), UserId::derive(&["user"]), "", at(1));
        let round = Round { turn: 1, round: 1, calls: vec![call("writes", Access::ReadWrite)], ..Round::default() };
        let working = WorkingState::default();
        let paused = Paused { turn: 1, round: 1, expires_at: at(9), working, event: 1, at: at(5) };
        let owner = Incarnation::derive(&["node"]);
        let resumed = Resumed { turn: 1, owner, epoch: 1, cause: ResumeCause::Takeover, at: at(3) };
        let target = Target::new("tag", "t");
        let (expected, resolved) = (Expected::Absent, Value::Null);
        let intent = Intent { turn: 1, round: 1, index: 1, target, expected, arguments: None, resolved, at: None };
        let (content, change, usage) = (String::new(), WorkingChange::default(), Usage::default());
        let result = CallResult { round: 1, index: 1, status: CallStatus::Ok, content, change, usage, at: Some(at(7)) };
        let (mut log, mut entries) = (TurnLog::new(ThreadId::derive(&["a"])), Vec::new());
        for entry in [
            Entry::Accepted(Box::new(accepted)),
            Entry::Round(Box::new(round)),
            Entry::Paused(paused),
            Entry::Resumed(resumed),
            Entry::Intent(intent),
            Entry::Outcome(folio_history::journal::Outcome { turn: 1, result }),
        ] {
            log.push(&entry, &mut entries);
        }
        let written: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.at)).collect();
        assert_eq!(written, [(AuditKind::CallAllowed, at(5)), (AuditKind::CallEffect, at(7))]);
    }
}
