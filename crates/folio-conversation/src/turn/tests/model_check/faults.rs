//! Faults between the machine and the stores: a wrapper that alters what the machine's effects do.
//!
//! The machine itself is never altered. Each fault omits one step of the protocol; the model check must then find the
//! violation that the step prevents. `cargo xtask mutants` covers the rules inside the machine.

use folio_history::History;
use folio_history::journal::{CallStatus, End, Entry};
use folio_history::thread::{Append, Appended, ThreadHeader};
use folio_types::message::Usage;

use super::super::rig::result;
use super::scopes::Ask;
use super::world::{AskState, Received, World};
use crate::turn::{Command, Effect, ToolOutcome, ToolResult};

/// The steps of the machine and the rules of the store that are left out. Default: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Faults {
    /// The `closing` entry is not written.
    pub closing_entry_dropped: bool,
    /// An ending turn does not prevent the start of children that have not started.
    pub prevention_dropped: bool,
    /// Groups are not written.
    pub group_dropped: bool,
    /// Op rows of an ending turn are not closed, although the machine receives `Closed`.
    pub close_dropped: bool,
    /// `TURN_EXPIRED` is returned when the expired end is sent, not when it is committed.
    pub expired_returned_early: bool,
    /// Expiry is evaluated before recorded decisions are looked up.
    pub expiry_before_recorded: bool,
    /// Open intents are not recovered; their calls are reported as not run.
    pub recovery_dropped: bool,
    /// A takeover with nothing else to write sends no append, although the machine receives `Appended`.
    pub takeover_dropped: bool,
    /// The first owner writes an intent without the round that requested its call.
    pub round_dropped: bool,
    /// Decisions are not written.
    pub decisions_dropped: bool,
    /// Intents are written without the ids that replace references.
    pub ids_dropped: bool,
    /// A pause is written without the outcomes before it.
    pub outcome_dropped: bool,
    /// Pauses and ends are written without the number of their closing event.
    pub closing_number_dropped: bool,
    /// A reloaded thread does not show which requests it accepted.
    pub requests_hidden: bool,
    /// Appends are not conditional on epoch and version.
    pub fence_off: bool,
    /// The deciding write is not conditional on the absence of its op row.
    pub op_row_ignored: bool,
    /// A conflict is reported before its op row is stored.
    pub conflict_unclosed: bool,
    /// The deciding write has the version that was read last, not that of its intent.
    pub expected_ignored: bool,
    /// The row that lists an open turn is written after the append that opens the turn.
    pub row_late: bool,
    /// The key of the row that lists an open turn lacks the epoch.
    pub epoch_dropped: bool,
    /// The sweep removes the row of an open turn without a comparison with the header's epoch.
    pub removal_unguarded: bool,
}

impl Faults {
    /// Alters the entries of an append before it is sent.
    fn alter(self, append: &mut Append) {
        let has = |wanted: fn(&Entry) -> bool| append.entries.iter().any(wanted);
        let is_first_owner = append.fence.epoch == 1 && append.new_owner.is_none();
        let has_intent = is_first_owner && has(|entry| matches!(entry, Entry::Intent(_)));
        let has_pause = has(|entry| matches!(entry, Entry::Paused(_)));
        append.entries.retain(|entry| match entry {
            Entry::Closing(_) => !self.closing_entry_dropped,
            Entry::Group(_) => !self.group_dropped,
            Entry::Decisions(_) => !self.decisions_dropped,
            Entry::Round(_) => !(self.round_dropped && has_intent),
            Entry::Outcome(_) => !(self.outcome_dropped && has_pause),
            _ => true,
        });
        if self.ids_dropped {
            for entry in &mut append.entries {
                if let Entry::Intent(intent) = entry {
                    intent.arguments = None;
                }
            }
        }
        if self.closing_number_dropped {
            for entry in &mut append.entries {
                match entry {
                    Entry::Paused(paused) => paused.event = 0,
                    Entry::Ended(ended) => ended.event = 0,
                    _ => {}
                }
            }
        }
    }

    /// Returns the history of a thread that a node loads again.
    pub(in super::super) fn reloaded(self, entries: &[Entry], history: &History) -> History {
        if !self.requests_hidden {
            return history.clone();
        }
        History::fold(entries.iter().cloned().map(|mut entry| {
            if let Entry::Accepted(accepted) = &mut entry {
                accepted.request = format!("hidden-{}", accepted.turn).parse().unwrap();
            }
            entry
        }))
    }
}

impl World {
    /// Returns an effect of a node's machine as the fault alters it. Err: the answer that the machine receives in place
    /// of the omitted effect.
    pub(in super::super) fn altered(&mut self, node: usize, mut effect: Effect) -> Result<Effect, Box<Command>> {
        let faults = self.scope.faults;
        match &mut effect {
            Effect::Append(append) => {
                let is_end = |entry: &Entry| matches!(entry, Entry::Ended(ended) if ended.end == End::Expired);
                if faults.expired_returned_early && append.entries.iter().any(is_end) {
                    self.return_expired(node);
                }
                let is_takeover = matches!(append.entries.as_slice(), [Entry::Resumed(_)]);
                if faults.takeover_dropped && is_takeover {
                    return Err(Box::new(self.unsent(append)));
                }
                faults.alter(append);
            }
            Effect::Close(run, _) if faults.close_dropped => {
                let (round, index) = (run.call.round, run.call.index);
                return Err(Box::new(Command::Closed { round, index, result: None, usage: Usage::default() }));
            }
            Effect::Recover(run, _) if faults.recovery_dropped => {
                let (round, index) = (run.call.round, run.call.index);
                let outcome = ToolOutcome::Done(ToolResult { status: CallStatus::NotRun, ..result("not run") });
                return Err(Box::new(Command::ToolFinished { round, index, outcome }));
            }
            _ => {}
        }
        Ok(effect)
    }

    /// If the fault is set, answers a decision on an expired pause instead of the machine. Returns true if it answered.
    pub(in super::super) fn answer_if_expired(&mut self, node: usize, command: &Command) -> bool {
        let Command::Decide(decide) = command else { return false };
        let pause = self.node(node).and_then(|live| {
            let round = live.machine.history().turn(decide.turn)?.round(decide.round?)?;
            round.paused.as_ref().map(|pause| pause.expires_at)
        });
        let expired = self.scope.faults.expiry_before_recorded && pause.is_some_and(|at| at <= self.now(node));
        if expired {
            let ask = decide.ticket.0 as usize;
            self.asks[ask] = AskState::Answered;
            self.received.insert(Received::Expired(ask));
        }
        expired
    }

    /// Returns `TURN_EXPIRED` to the decisions at a node.
    fn return_expired(&mut self, node: usize) {
        for (ask, state) in self.asks.iter().enumerate() {
            if *state == AskState::At(node) && matches!(self.scope.asks[ask].0, Ask::Decide(..)) {
                self.received.insert(Received::Expired(ask));
            }
        }
    }

    /// Returns the answer that the machine receives for an append that is never sent.
    fn unsent(&self, append: &Append) -> Command {
        let mut row = self.thread.row.clone();
        let header: Box<ThreadHeader> = match row.append(append) {
            Appended::Done(header) | Appended::Refused { header, .. } => header,
        };
        Command::Appended { batch: append.batch, header }
    }

    /// Returns the thread's history as a node loads it. `is_reload`: the node loaded the thread before.
    pub(in super::super) fn loaded_history(&self, is_reload: bool) -> History {
        match is_reload {
            true => self.scope.faults.reloaded(&self.thread.row.entries, &self.thread.history),
            false => self.thread.history.clone(),
        }
    }
}
