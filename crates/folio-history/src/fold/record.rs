//! The state of one turn, folded from its journal entries.

use std::time::Duration;

use super::json_bytes;
use crate::journal::{
    Accepted, Call, CallResult, Closing, Decision, Decisions, End, Ended, Entry, Group, Intent, Paused, ResumeCause,
    Resumed, Round, RoundNode, WorkingState,
};
use folio_types::message::{ThinkingBlock, Usage};
use folio_types::{CallId, Role, Timestamp, TurnId, UserId};

/// One turn with its rounds, pauses, decisions and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    pub accepted: Accepted,
    /// Rounds in order: those with calls, those with a correction, and those that end a node. The final answer is in `ended`.
    pub rounds: Vec<RoundRecord>,
    /// None: the turn is not being ended.
    pub closing: Option<Closing>,
    /// Number of takeovers and retries. Reloads by the owner do not count.
    pub takeovers: u32,
    /// The newest takeover, retry or reload. None: the turn was never resumed.
    pub resumed: Option<Resumed>,
    /// None: the turn is open, or was resumed after a failure.
    pub ended: Option<Ended>,
    pub working: WorkingState,
    /// Usage of all model calls so far.
    pub usage: Usage,
    /// Number of the newest event that the journal records: of a pause, of a group or of the end. 0: none.
    pub last_recorded_event: u64,
    /// Approximate bytes of the rounds and their results.
    pub bytes: usize,
    /// Total time between failed ends and their retries.
    pub ended_time: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundRecord {
    /// Number of the round in the turn, from 1.
    pub round: u32,
    /// Model that answered.
    pub model: String,
    pub text: String,
    pub thinking: Vec<ThinkingBlock>,
    pub calls: Vec<CallRecord>,
    /// Usage of the round's model call, without its tools.
    pub usage: Usage,
    /// None: the calls ran without a pause.
    pub paused: Option<Paused>,
    /// True if the round has a decisions entry, possibly an empty one.
    pub has_decisions: bool,
    /// Time of the newest decisions. None: the round has no decisions entry.
    pub decided_at: Option<Timestamp>,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
    /// Message by which the model corrects an answer. None: the round has calls or ends a node.
    pub correction: Option<String>,
    /// The node of the turn's graph that made the round. None: the turn has no graph.
    pub node: Option<Box<RoundNode>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The call as the model requested it.
    pub call: Call,
    pub decision: Option<Decision>,
    /// The approver. None: the call has no decision.
    pub decided_by: Option<Decider>,
    pub intent: Option<Intent>,
    /// The child turns of a call of `run_tasks`.
    pub group: Option<Group>,
    /// The result. It is final, except for a call that a failed turn did not start ([`Ended::runs_again`]). None: the call has not
    /// ended.
    pub result: Option<CallResult>,
}

/// The approver of a call, as of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    pub user: UserId,
    /// None: unknown (an old entry).
    pub role: Option<Role>,
    /// User that created the approver's token for the approver. None: as for [`Principal`](folio_types::Principal).
    pub token_creator: Option<UserId>,
}

impl CallRecord {
    fn new(call: Call) -> Self {
        Self { call, decision: None, decided_by: None, intent: None, group: None, result: None }
    }

    /// Returns the arguments after an edit by a decision.
    pub fn arguments(&self) -> &serde_json::Value {
        match &self.decision {
            Some(Decision::ApproveEdited { arguments }) => arguments,
            _ => &self.call.arguments,
        }
    }

    /// Returns true if the call needs a decision and has none.
    pub fn is_undecided(&self) -> bool {
        self.call.needs_approval && self.decision.is_none()
    }

    /// Returns true if the call has an intent and no result.
    pub fn is_open(&self) -> bool {
        self.intent.is_some() && self.result.is_none()
    }
}

impl RoundRecord {
    fn new(round: Round) -> Self {
        let mut record = Self {
            round: round.round,
            model: round.model,
            text: round.text,
            thinking: round.thinking,
            calls: round.calls.into_iter().map(CallRecord::new).collect(),
            usage: round.usage,
            paused: None,
            has_decisions: false,
            decided_at: None,
            continue_auto_approved: false,
            correction: round.correction,
            node: round.node,
        };
        round.results.into_iter().for_each(|result| record.set_result(result));
        record
    }

    /// Returns the journal entry of the round with the results so far.
    pub fn entry(&self, turn: u32) -> Round {
        Round {
            turn,
            round: self.round,
            model: self.model.clone(),
            text: self.text.clone(),
            thinking: self.thinking.clone(),
            calls: self.calls.iter().map(|record| record.call.clone()).collect(),
            results: self.calls.iter().filter_map(|record| record.result.clone()).collect(),
            usage: self.usage,
            correction: self.correction.clone(),
            node: self.node.clone(),
        }
    }

    /// Returns the usage of the round's model call and of its tools.
    pub fn usage_with_calls(&self) -> Usage {
        let results = self.calls.iter().filter_map(|record| record.result.as_ref());
        results.fold(self.usage, |sum, result| sum.plus(result.usage))
    }

    /// Returns the call with an index, counted from 1.
    pub fn call(&self, index: u32) -> Option<&CallRecord> {
        self.calls.iter().find(|record| record.call.index == index)
    }

    fn call_mut(&mut self, index: u32) -> Option<&mut CallRecord> {
        self.calls.iter_mut().find(|record| record.call.index == index)
    }

    /// Returns true if the round is paused and lacks its decisions entry or a needed decision.
    pub fn is_waiting(&self) -> bool {
        self.paused.is_some() && !self.is_decided()
    }

    /// Returns true if the round has a decisions entry and no needed decision is missing.
    pub fn is_decided(&self) -> bool {
        self.has_decisions && self.undecided().next().is_none()
    }

    pub fn undecided(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter().filter(|record| record.is_undecided())
    }

    pub fn unanswered(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter().filter(|record| record.result.is_none())
    }

    fn set_result(&mut self, result: CallResult) {
        if let Some(record) = self.call_mut(result.index)
            && record.result.is_none()
        {
            record.result = Some(result);
        }
    }
}

impl TurnRecord {
    pub fn new(accepted: Accepted) -> Self {
        Self {
            working: accepted.working.clone(),
            accepted,
            rounds: Vec::new(),
            closing: None,
            takeovers: 0,
            resumed: None,
            ended: None,
            usage: Usage::default(),
            last_recorded_event: 0,
            bytes: 0,
            ended_time: Duration::ZERO,
        }
    }

    pub fn number(&self) -> u32 {
        self.accepted.turn
    }

    /// Returns the time of the acceptance, or of the newest takeover, retry or reload.
    pub fn taken_at(&self) -> Timestamp {
        self.resumed.as_ref().map_or(self.accepted.at, |resumed| resumed.at)
    }

    /// Returns the time that the turn has run: since its acceptance, without its pauses and the time between failed ends and
    /// their retries. The turn must not wait for decisions, because the time after incomplete decisions would count.
    pub fn running_time(&self, now: Timestamp) -> Duration {
        let pauses = self.rounds.iter().filter_map(|round| {
            let paused = round.paused.as_ref()?;
            Some(time_between(paused.at, round.decided_at.unwrap_or(now)))
        });
        let idle = pauses.fold(self.ended_time, Duration::saturating_add);
        time_between(self.accepted.at, now).saturating_sub(idle)
    }

    pub fn round(&self, round: u32) -> Option<&RoundRecord> {
        self.rounds.iter().find(|record| record.round == round)
    }

    pub fn newest_round(&self) -> Option<&RoundRecord> {
        self.rounds.last()
    }

    pub fn call(&self, round: u32, index: u32) -> Option<&CallRecord> {
        self.round(round)?.call(index)
    }

    pub fn call_id(&self, thread: &folio_types::ThreadId, round: u32, index: u32) -> CallId {
        CallId::new(TurnId::new(thread.clone(), self.number()), round, index)
    }

    /// Returns the pause in which the turn waits for decisions. None: the turn does not wait for decisions.
    pub fn pause(&self) -> Option<&Paused> {
        let newest = self.rounds.last()?;
        let open = self.ended.is_none() && self.closing.is_none();
        newest.paused.as_ref().filter(|_| open && newest.is_waiting())
    }

    /// Returns the calls that have an intent and no result, with their rounds, ordered by round and index.
    pub fn open_intents(&self) -> impl Iterator<Item = (&RoundRecord, &CallRecord)> {
        self.rounds
            .iter()
            .flat_map(|round| round.calls.iter().map(move |call| (round, call)))
            .filter(|(_, call)| call.is_open())
    }

    /// Returns the call whose child turns have not all ended, and its group. None: the turn waits for no child turn.
    pub fn open_group(&self) -> Option<(&RoundRecord, &CallRecord, &Group)> {
        let calls = self.rounds.iter().flat_map(|round| round.calls.iter().map(move |call| (round, call)));
        let mut open = calls.filter(|(_, call)| call.result.is_none());
        open.find_map(|(round, call)| Some((round, call, call.group.as_ref()?)))
    }

    /// Returns the number of child turns that the turn has started, with those that its child turns may start.
    pub fn children(&self) -> u32 {
        let calls = self.rounds.iter().flat_map(|round| &round.calls);
        calls.filter_map(|call| call.group.as_ref()).fold(0, |sum, group| sum.saturating_add(group.children()))
    }

    /// Returns true if the turn failed retriably. Elapsed time and later turns are not considered.
    pub fn is_retriable(&self) -> bool {
        matches!(&self.ended, Some(Ended { end: End::Failed { retriable: true, .. }, .. }))
    }

    /// Returns the number of the first event that the next owner sends.
    pub fn first_event_of_next_owner(&self) -> u64 {
        (u64::from(self.takeovers) + 1) << 32 | 1
    }

    /// Adds the turn's next entry. An existing round or result is not replaced, so an owner may push buffered entries
    /// before they are appended and again afterwards.
    pub fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Round(round) => self.push_round(*round),
            Entry::Paused(paused) => {
                self.last_recorded_event = paused.event;
                self.working = paused.working.clone();
                let number = paused.round;
                self.with_round(number, |round| round.paused = Some(paused));
            }
            Entry::Decisions(decisions) => self.push_decisions(decisions),
            Entry::Intent(intent) => self.with_call(intent.round, intent.index, |call| call.intent = Some(intent)),
            Entry::Group(group) => {
                self.last_recorded_event = group.event;
                self.with_call(group.round, group.index, |call| call.group = Some(*group));
            }
            Entry::Outcome(outcome) => self.push_result(outcome.result),
            Entry::Resumed(resumed) => {
                if resumed.cause != ResumeCause::Reload {
                    self.takeovers = self.takeovers.saturating_add(1);
                }
                if resumed.cause == ResumeCause::Retry {
                    let ended_time = self.ended.as_ref().map(|ended| time_between(ended.at, resumed.at));
                    self.ended_time = self.ended_time.saturating_add(ended_time.unwrap_or_default());
                    self.reopen();
                }
                self.resumed = Some(resumed);
            }
            Entry::Closing(closing) => self.closing = Some(closing),
            Entry::Ended(ended) => self.push_ended(*ended),
            Entry::Summary(summary) => self.usage = self.usage.plus(summary.usage),
            Entry::Accepted(_) | Entry::Imported(_) => {}
        }
    }

    fn push_round(&mut self, round: Round) {
        match self.rounds.iter_mut().find(|record| record.round == round.round) {
            Some(existing) => round.results.into_iter().for_each(|result| existing.set_result(result)),
            None => {
                for result in &round.results {
                    self.working.apply(&result.change);
                }
                let results: usize = round.results.iter().map(|result| result.content.len()).sum();
                let bytes = json_bytes(&(&round.text, &round.thinking, &round.calls, &round.correction, &round.node))
                    .saturating_add(results);
                self.bytes = self.bytes.saturating_add(bytes);
                let record = RoundRecord::new(round);
                self.usage = self.usage.plus(record.usage_with_calls());
                self.rounds.push(record);
            }
        }
    }

    /// Adds the result of a call. Has no effect if the call has a result.
    pub fn push_result(&mut self, result: CallResult) {
        if self.call(result.round, result.index).is_some_and(|call| call.result.is_none()) {
            self.working.apply(&result.change);
            self.usage = self.usage.plus(result.usage);
            self.bytes = self.bytes.saturating_add(result.content.len());
            self.with_round(result.round, |round| round.set_result(result));
        }
    }

    fn push_decisions(&mut self, decisions: Decisions) {
        self.with_round(decisions.round, |round| {
            round.has_decisions = true;
            round.decided_at = Some(decisions.decided_at);
            round.continue_auto_approved = decisions.continue_auto_approved;
            let Decisions { by: user, role, token_creator, decided, .. } = decisions;
            let decider = Decider { user, role, token_creator };
            for (index, decision) in decided {
                if let Some(call) = round.call_mut(index).filter(|call| call.decision.is_none()) {
                    (call.decision, call.decided_by) = (Some(decision), Some(decider.clone()));
                }
            }
        });
    }

    fn push_ended(&mut self, ended: Ended) {
        for result in &ended.results {
            self.push_result(result.clone());
        }
        self.last_recorded_event = ended.event;
        self.working = ended.working.clone();
        self.usage = ended.usage;
        self.ended = Some(ended);
    }

    /// Removes the end. If its results are not final ([`Ended::runs_again`]), also removes them and the intents of their calls, so
    /// that the calls run again.
    fn reopen(&mut self) {
        let Some(ended) = self.ended.take().filter(|ended| ended.runs_again) else { return };
        for result in ended.results {
            self.with_call(result.round, result.index, |call| (call.intent, call.result) = (None, None));
        }
    }

    fn with_round(&mut self, round: u32, change: impl FnOnce(&mut RoundRecord)) {
        if let Some(record) = self.rounds.iter_mut().find(|record| record.round == round) {
            change(record);
        }
    }

    fn with_call(&mut self, round: u32, index: u32, change: impl FnOnce(&mut CallRecord)) {
        self.with_round(round, |record| {
            if let Some(call) = record.call_mut(index) {
                change(call);
            }
        });
    }
}

/// Returns the time from `earlier` to `later`, or zero if the clocks of two nodes disagree about the order.
fn time_between(earlier: Timestamp, later: Timestamp) -> Duration {
    later.duration_since(earlier).try_into().unwrap_or_default()
}
