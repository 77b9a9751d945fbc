//! An independent interpretation of a journal: each turn with its entries in order.

use std::collections::BTreeMap;

use folio_history::journal::{Accepted, Call, CallResult, Decision, Ended, Entry, Intent, Paused};
use folio_types::TurnId;

use super::Invariant::OneWriter;
use super::{Findings, ObservedThread};

/// Index of an entry in the journal.
pub(super) type Position = usize;

/// A turn with its entries in order.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) id: TurnId,
    pub(super) accepted: &'a Accepted,
    pub(super) entries: Vec<(Position, &'a Entry)>,
}

/// A call with all journal entries about it.
#[derive(Debug)]
pub(super) struct ObservedCall<'a> {
    pub(super) round: u32,
    pub(super) call: &'a Call,
    /// Position of the message that requested the call.
    pub(super) at: Position,
    pub(super) intents: Vec<(Position, &'a Intent)>,
    /// Position of the group of child turns that the call started.
    pub(super) group: Option<Position>,
    pub(super) decisions: Vec<(Position, &'a folio_history::journal::Decisions, &'a Decision)>,
    pub(super) results: Vec<(Position, &'a CallResult)>,
    /// True if the turn failed before the call started, so that resuming the turn runs it.
    pub(super) runs_again: bool,
}

/// Returns the turns of a thread. Reports entries of a turn that was never accepted, and entries after a later turn.
pub(super) fn turns<'a>(thread: &'a ObservedThread, findings: &mut Findings) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for (position, (_, entry)) in thread.entries.iter().enumerate() {
        let number = match entry {
            Entry::Imported(_) | Entry::Summary(_) => continue,
            Entry::Accepted(accepted) => {
                let id = TurnId::new(thread.id.clone(), accepted.turn);
                let next = turns.last().map_or(1, |turn| turn.id.number + 1);
                findings.add_unless(
                    accepted.turn == next,
                    OneWriter,
                    &id,
                    "the number of the turn is not the next number",
                );
                turns.push(Turn { id, accepted, entries: vec![(position, entry)] });
                continue;
            }
            other => other.turn().unwrap_or_default(),
        };
        match turns.last_mut().filter(|turn| turn.id.number == number) {
            Some(turn) => turn.entries.push((position, entry)),
            None => findings.add(OneWriter, &thread.id, format!("an entry of turn {number} is not within its turn")),
        }
    }
    turns
}

impl ObservedCall<'_> {
    /// Returns true if the journal records the start of a call that writes or starts child turns.
    pub(super) fn has_started(&self) -> bool {
        !self.intents.is_empty() || self.group.is_some()
    }
}

impl<'a> Turn<'a> {
    /// Returns every requested call by round and index.
    pub(super) fn calls(&self) -> BTreeMap<(u32, u32), ObservedCall<'a>> {
        let mut calls = BTreeMap::new();
        for (at, entry) in &self.entries {
            if let Entry::Round(round) = entry {
                for call in &round.calls {
                    calls.entry((round.round, call.index)).or_insert_with(|| ObservedCall {
                        round: round.round,
                        call,
                        at: *at,
                        intents: Vec::new(),
                        group: None,
                        decisions: Vec::new(),
                        results: Vec::new(),
                        runs_again: false,
                    });
                }
            }
        }
        for (at, entry) in &self.entries {
            match entry {
                Entry::Intent(intent) => {
                    if let Some(call) = calls.get_mut(&(intent.round, intent.index)) {
                        call.intents.push((*at, intent));
                    }
                }
                Entry::Group(group) => {
                    if let Some(call) = calls.get_mut(&(group.round, group.index)) {
                        call.group = Some(*at);
                    }
                }
                Entry::Decisions(decisions) => {
                    for (index, decision) in &decisions.decided {
                        if let Some(call) = calls.get_mut(&(decisions.round, *index)) {
                            call.decisions.push((*at, decisions, decision));
                        }
                    }
                }
                _ => {}
            }
            for result in results(entry) {
                if let Some(call) = calls.get_mut(&(result.round, result.index)) {
                    call.results.push((*at, result));
                }
            }
            match entry {
                Entry::Ended(ended) if ended.runs_again => {
                    for result in &ended.results {
                        if let Some(call) = calls.get_mut(&(result.round, result.index)) {
                            call.intents.clear();
                            call.runs_again = true;
                        }
                    }
                }
                Entry::Resumed(_) => {
                    for call in calls.values_mut().filter(|call| call.runs_again) {
                        call.runs_again = false;
                        call.results.clear();
                    }
                }
                _ => {}
            }
        }
        calls
    }

    pub(super) fn pause(&self, round: u32) -> Option<(Position, &'a Paused)> {
        self.entries.iter().find_map(|(at, entry)| match entry {
            Entry::Paused(paused) if paused.round == round => Some((*at, paused)),
            _ => None,
        })
    }

    /// Returns the final end, after which the turn has no entry.
    pub(super) fn end(&self) -> Option<&'a Ended> {
        match self.entries.last() {
            Some((_, Entry::Ended(ended))) => Some(ended),
            _ => None,
        }
    }

    /// Returns the position at which the closing of the turn started.
    pub(super) fn closing(&self) -> Option<Position> {
        self.entries.iter().find_map(|(at, entry)| matches!(entry, Entry::Closing(_)).then_some(*at))
    }

    /// Returns the waiting round.
    pub(super) fn waits(&self) -> Option<&'a Paused> {
        match self.entries.iter().rev().find(|(_, entry)| !matches!(entry, Entry::Decisions(_) | Entry::Resumed(_))) {
            Some((_, Entry::Paused(paused))) => Some(paused),
            _ => None,
        }
    }
}

pub(super) fn results(entry: &Entry) -> &[CallResult] {
    match entry {
        Entry::Round(round) => &round.results,
        Entry::Outcome(outcome) => std::slice::from_ref(&outcome.result),
        Entry::Ended(ended) => &ended.results,
        _ => &[],
    }
}
