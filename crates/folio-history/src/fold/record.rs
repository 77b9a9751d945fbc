//! Everything that a journal says of one turn.

use crate::journal::{
    Accepted, Call, CallResult, Closing, Decision, Decisions, End, Ended, Entry, Intent, Paused, ResumeCause, Resumed,
    Round, WorkingState,
};
use folio_types::message::{ThinkingBlock, Usage};
use folio_types::{CallId, Digest, TurnId};

/// One turn: accepted, rounds with their calls, pauses, decisions, end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// The entry that accepted the turn.
    pub accepted: Accepted,
    /// Its rounds that asked for calls, in order. (The round that answers is its end.)
    pub rounds: Vec<RoundRecord>,
    /// That it is being ended, and how.
    pub closing: Option<Closing>,
    /// Number of resumptions: new owners and new attempts.
    pub takeovers: u32,
    /// The newest of these.
    pub resumed: Option<Resumed>,
    /// The end. None: the turn is open, or was resumed after a failed end.
    pub ended: Option<Ended>,
    /// The working state now.
    pub working: WorkingState,
    /// Usage of the turn's model calls so far.
    pub usage: Usage,
    /// The number of the newest closing event, 0: none yet.
    pub last_closing_event: u64,
}

/// One round of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundRecord {
    /// Its number, from 1.
    pub round: u32,
    /// The model that answered.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Its thinking.
    pub thinking: Vec<ThinkingBlock>,
    /// Its calls, in order.
    pub calls: Vec<CallRecord>,
    /// Usage of the round's model call.
    pub usage: Usage,
    /// The pause before its calls ran.
    pub paused: Option<Paused>,
    /// Whether the round was approved: it has a decisions entry, possibly an empty one.
    pub decided: bool,
    /// Whether the newest decisions let the turn continue through rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

/// One call of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The call as the model asked for it.
    pub call: Call,
    /// The decision on it.
    pub decision: Option<Decision>,
    /// That it was about to run.
    pub intent: Option<Intent>,
    /// The result. Final, except for a call that a failed turn did not start ([`Ended::runs_again`]).
    pub result: Option<CallResult>,
}

impl CallRecord {
    fn new(call: Call) -> Self {
        Self { call, decision: None, intent: None, result: None }
    }

    /// The arguments that it runs with: the edited ones once a decision edited them.
    pub fn arguments(&self) -> &serde_json::Value {
        match &self.decision {
            Some(Decision::ApproveEdited { arguments }) => arguments,
            _ => &self.call.arguments,
        }
    }

    /// Digest of the arguments that it runs with.
    pub fn digest(&self) -> Digest {
        Digest::of_json(self.arguments())
    }

    /// Whether the call was rejected.
    pub fn is_rejected(&self) -> bool {
        matches!(self.decision, Some(Decision::Reject { .. }))
    }

    /// Whether it waits for a decision that has not come.
    pub fn is_undecided(&self) -> bool {
        self.call.needs_approval && self.decision.is_none()
    }

    /// Whether the call has an intent and no result.
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

    /// The round as the journal's entry, with the results so far.
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

    /// The call at this place, from 1.
    pub fn call(&self, index: u32) -> Option<&CallRecord> {
        self.calls.iter().find(|record| record.call.index == index)
    }

    fn call_mut(&mut self, index: u32) -> Option<&mut CallRecord> {
        self.calls.iter_mut().find(|record| record.call.index == index)
    }

    /// Whether the round waits: it is paused, and a needed decision or the approval of the round is missing.
    pub fn is_waiting(&self) -> bool {
        self.paused.is_some() && !self.is_decided()
    }

    /// Whether every decision that it needs is there.
    pub fn is_decided(&self) -> bool {
        self.decided && self.undecided().next().is_none()
    }

    /// The calls that wait for a decision.
    pub fn undecided(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter().filter(|record| record.is_undecided())
    }

    /// The calls without a result.
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
    /// A turn that was just accepted.
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

    /// Its number in its thread.
    pub fn number(&self) -> u32 {
        self.accepted.turn
    }

    /// The round of this number.
    pub fn round(&self, round: u32) -> Option<&RoundRecord> {
        self.rounds.iter().find(|record| record.round == round)
    }

    /// The newest round that asked for calls.
    pub fn newest_round(&self) -> Option<&RoundRecord> {
        self.rounds.last()
    }

    /// A call by its round and place.
    pub fn call(&self, round: u32, index: u32) -> Option<&CallRecord> {
        self.round(round)?.call(index)
    }

    /// The id of a call.
    pub fn call_id(&self, thread: &folio_types::ThreadId, round: u32, index: u32) -> CallId {
        CallId::new(TurnId::new(thread.clone(), self.number()), round, index)
    }

    /// The pause that it is in.
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

    /// Whether the turn failed retriably. Time and later turns are not considered.
    pub fn is_retriable(&self) -> bool {
        matches!(&self.ended, Some(Ended { how: End::Failed { retriable: true, .. }, .. }))
    }

    /// The number that the next event of a new owner has.
    pub fn first_event_of_next_owner(&self) -> u64 {
        (u64::from(self.takeovers) + 1) << 32 | 1
    }

    /// Adds the turn's next entry. A round or result that is there already stays as it is, so that an owner may add
    /// what it holds in memory first and the appended entry later.
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
            Some(there) => round.results.into_iter().for_each(|result| there.set_result(result)),
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

    /// Adds what came of a call, unless something is there already.
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

    /// The end does not count any more; calls that it gave up before they began are to run.
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
