//! The state of one turn, folded from its journal entries.

use crate::journal::{
    Accepted, Call, CallResult, Closing, Decision, Decisions, End, Ended, Entry, Intent, Paused, ResumeCause, Resumed,
    Round, WorkingState,
};
use folio_types::message::{ThinkingBlock, Usage};
use folio_types::{CallId, Digest, TurnId};

/// One turn: acceptance, rounds with their calls, pauses, decisions, end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// The entry that accepted the turn.
    pub accepted: Accepted,
    /// Rounds with calls, in order. (The round without calls is the end.)
    pub rounds: Vec<RoundRecord>,
    /// The `closing` entry. None: the turn is not being ended.
    pub closing: Option<Closing>,
    /// Number of resumptions: new owners and new attempts.
    pub takeovers: u32,
    /// The newest resumption.
    pub resumed: Option<Resumed>,
    /// The end. None: the turn is open, or was resumed after a failed end.
    pub ended: Option<Ended>,
    /// The current working state.
    pub working: WorkingState,
    /// Usage of the turn's model calls so far.
    pub usage: Usage,
    /// Number of the newest closing event. 0: none.
    pub last_closing_event: u64,
}

/// One round of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundRecord {
    /// Number of the round, from 1.
    pub round: u32,
    /// Name of the model that answered.
    pub model: String,
    /// Text of the answer.
    pub text: String,
    /// Thinking of the answer.
    pub thinking: Vec<ThinkingBlock>,
    /// Calls in order.
    pub calls: Vec<CallRecord>,
    /// Usage of the round's model call.
    pub usage: Usage,
    /// The pause before its calls ran.
    pub paused: Option<Paused>,
    /// True if the round was approved: it has a decisions entry, possibly an empty one.
    pub decided: bool,
    /// True if the newest decisions let the turn continue through rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

/// One call of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The call as the model requested it.
    pub call: Call,
    /// The decision on the call.
    pub decision: Option<Decision>,
    /// The intent of the call.
    pub intent: Option<Intent>,
    /// The result. Final, except for a call that a failed turn did not start ([`Ended::runs_again`]).
    pub result: Option<CallResult>,
}

impl CallRecord {
    fn new(call: Call) -> Self {
        Self { call, decision: None, intent: None, result: None }
    }

    /// Returns the arguments of the call, after an edit by a decision.
    pub fn arguments(&self) -> &serde_json::Value {
        match &self.decision {
            Some(Decision::ApproveEdited { arguments }) => arguments,
            _ => &self.call.arguments,
        }
    }

    /// Returns the digest of the arguments, after an edit by a decision.
    pub fn digest(&self) -> Digest {
        Digest::of_json(self.arguments())
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
            decided: false,
            continue_auto_approved: false,
        };
        round.results.into_iter().for_each(|result| record.set_result(result));
        record
    }

    /// Returns the journal entry of the round, with the results so far.
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
        }
    }

    /// Returns the usage of the round's model call and of its tools.
    pub fn usage_with_calls(&self) -> Usage {
        let results = self.calls.iter().filter_map(|record| record.result.as_ref());
        results.fold(self.usage, |sum, result| sum.plus(result.usage))
    }

    /// Returns the call with this index, from 1.
    pub fn call(&self, index: u32) -> Option<&CallRecord> {
        self.calls.iter().find(|record| record.call.index == index)
    }

    fn call_mut(&mut self, index: u32) -> Option<&mut CallRecord> {
        self.calls.iter_mut().find(|record| record.call.index == index)
    }

    /// Returns true if the round waits: it is paused, and a needed decision or the approval of the round is missing.
    pub fn is_waiting(&self) -> bool {
        self.paused.is_some() && !self.is_decided()
    }

    /// Returns true if no needed decision is missing.
    pub fn is_decided(&self) -> bool {
        self.decided && self.undecided().next().is_none()
    }

    /// Returns the calls that wait for a decision.
    pub fn undecided(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter().filter(|record| record.is_undecided())
    }

    /// Returns the calls without a result.
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
    /// Creates the record of a turn that was just accepted.
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
            last_closing_event: 0,
        }
    }

    /// Returns the number of the turn in its thread.
    pub fn number(&self) -> u32 {
        self.accepted.turn
    }

    /// Returns the round with this number.
    pub fn round(&self, round: u32) -> Option<&RoundRecord> {
        self.rounds.iter().find(|record| record.round == round)
    }

    /// Returns the newest round with calls.
    pub fn newest_round(&self) -> Option<&RoundRecord> {
        self.rounds.last()
    }

    /// Returns a call by its round and index.
    pub fn call(&self, round: u32, index: u32) -> Option<&CallRecord> {
        self.round(round)?.call(index)
    }

    /// Returns the id of a call.
    pub fn call_id(&self, thread: &folio_types::ThreadId, round: u32, index: u32) -> CallId {
        CallId::new(TurnId::new(thread.clone(), self.number()), round, index)
    }

    /// Returns the current pause. None: the turn does not wait.
    pub fn pause(&self) -> Option<&Paused> {
        let newest = self.rounds.last()?;
        let open = self.ended.is_none() && self.closing.is_none();
        newest.paused.as_ref().filter(|_| open && newest.is_waiting())
    }

    /// Returns the calls with an intent and no result, in order.
    pub fn open_intents(&self) -> impl Iterator<Item = (&RoundRecord, &CallRecord)> {
        self.rounds
            .iter()
            .flat_map(|round| round.calls.iter().map(move |call| (round, call)))
            .filter(|(_, call)| call.is_open())
    }

    /// Returns true if the turn failed retriably. Time and later turns are not considered.
    pub fn is_retriable(&self) -> bool {
        matches!(&self.ended, Some(Ended { how: End::Failed { retriable: true, .. }, .. }))
    }

    /// Returns the number of a new owner's next event.
    pub fn first_event_of_next_owner(&self) -> u64 {
        (u64::from(self.takeovers) + 1) << 32 | 1
    }

    /// Adds the turn's next entry. An existing round or result stays unchanged, so an owner may add buffered entries
    /// first and the appended entry later.
    pub fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Round(round) => self.push_round(*round),
            Entry::Paused(paused) => {
                self.last_closing_event = paused.event;
                self.working = paused.working.clone();
                let number = paused.round;
                self.with_round(number, |round| round.paused = Some(paused));
            }
            Entry::Decisions(decisions) => self.push_decisions(decisions),
            Entry::Intent(intent) => self.with_call(intent.round, intent.index, |call| call.intent = Some(intent)),
            Entry::Outcome(outcome) => self.push_result(outcome.result),
            Entry::Resumed(resumed) => {
                self.takeovers = self.takeovers.saturating_add(1);
                if resumed.why == ResumeCause::Retry {
                    self.go_on();
                }
                self.resumed = Some(resumed);
            }
            Entry::Closing(closing) => self.closing = Some(closing),
            Entry::Ended(ended) => self.push_ended(*ended),
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
                let record = RoundRecord::new(round);
                self.usage = self.usage.plus(record.usage_with_calls());
                self.rounds.push(record);
            }
        }
    }

    /// Adds the result of a call unless it has one.
    pub fn push_result(&mut self, result: CallResult) {
        if self.call(result.round, result.index).is_some_and(|call| call.result.is_none()) {
            self.working.apply(&result.change);
            self.usage = self.usage.plus(result.usage);
            self.with_round(result.round, |round| round.set_result(result));
        }
    }

    fn push_decisions(&mut self, decisions: Decisions) {
        self.with_round(decisions.round, |round| {
            round.decided = true;
            round.continue_auto_approved = decisions.continue_auto_approved;
            for (index, decision) in decisions.decided {
                if let Some(call) = round.call_mut(index) {
                    call.decision.get_or_insert(decision);
                }
            }
        });
    }

    fn push_ended(&mut self, ended: Ended) {
        for result in &ended.results {
            self.push_result(result.clone());
        }
        self.last_closing_event = ended.event;
        self.working = ended.working.clone();
        self.usage = ended.usage;
        self.ended = Some(ended);
    }

    /// Removes the end, and the results of calls that never started, which run again.
    fn go_on(&mut self) {
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
