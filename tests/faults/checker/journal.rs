//! The checker's own reading of a journal: each turn with its entries in order.

use std::collections::BTreeMap;

use folio_history::journal::{Accepted, Call, CallResult, Decision, Ended, Entry, Intent, Paused};
use folio_types::TurnId;

use super::{Broken, Findings, ThreadSeen};

/// Where an entry stands in its journal.
pub(super) type Place = usize;

/// A turn, its entries in order.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) id: TurnId,
    pub(super) accepted: &'a Accepted,
    pub(super) entries: Vec<(Place, &'a Entry)>,
}

/// A call with all that the journal says of it.
#[derive(Debug)]
pub(super) struct CallSeen<'a> {
    pub(super) round: u32,
    pub(super) call: &'a Call,
    /// Where its round was appended.
    pub(super) at: Place,
    pub(super) intents: Vec<(Place, &'a Intent)>,
    pub(super) decisions: Vec<(Place, &'a folio_history::journal::Decisions, &'a Decision)>,
    pub(super) results: Vec<(Place, &'a CallResult)>,
    /// Whether the turn failed before it began, and runs it when it is gone on with.
    pub(super) runs_again: bool,
}

/// The turns of a thread. Entries of a turn that was never accepted, or that come after a later one, are found.
pub(super) fn turns<'a>(thread: &'a ThreadSeen, findings: &mut Findings) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for (place, (_, entry)) in thread.entries.iter().enumerate() {
        let number = match entry {
            Entry::Imported(_) => continue,
            Entry::Accepted(accepted) => {
                let id = TurnId::new(thread.id.clone(), accepted.turn);
                let next = turns.last().map_or(1, |turn| turn.id.number + 1);
                findings.add_unless(accepted.turn == next, Broken::OneWriter, &id, "its number is not the next one");
                turns.push(Turn { id, accepted, entries: vec![(place, entry)] });
                continue;
            }
            other => other.turn().unwrap_or_default(),
        };
        match turns.last_mut().filter(|turn| turn.id.number == number) {
            Some(turn) => turn.entries.push((place, entry)),
            None => {
                findings.add(Broken::OneWriter, &thread.id, format!("an entry of turn {number} is out of its turn"))
            }
        }
    }
    turns
}

impl<'a> Turn<'a> {
    /// Every call that the model asked for, by round and place.
    pub(super) fn calls(&self) -> BTreeMap<(u32, u32), CallSeen<'a>> {
        let mut calls = BTreeMap::new();
        for (at, entry) in &self.entries {
            if let Entry::Round(round) = entry {
                for call in &round.calls {
                    calls.entry((round.round, call.index)).or_insert_with(|| CallSeen {
                        round: round.round,
                        call,
                        at: *at,
                        intents: Vec::new(),
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

    /// The pause of a round.
    pub(super) fn pause(&self, round: u32) -> Option<(Place, &'a Paused)> {
        self.entries.iter().find_map(|(at, entry)| match entry {
            Entry::Paused(paused) if paused.round == round => Some((*at, paused)),
            _ => None,
        })
    }

    /// The end that counts: nothing of the turn comes after it.
    pub(super) fn end(&self) -> Option<&'a Ended> {
        match self.entries.last() {
            Some((_, Entry::Ended(ended))) => Some(ended),
            _ => None,
        }
    }

    /// Whether it is being ended.
    pub(super) fn closing(&self) -> Option<Place> {
        self.entries.iter().find_map(|(at, entry)| matches!(entry, Entry::Closing(_)).then_some(*at))
    }

    /// The round that waits.
    pub(super) fn waits(&self) -> Option<&'a Paused> {
        match self.entries.iter().rev().find(|(_, entry)| !matches!(entry, Entry::Decisions(_) | Entry::Resumed(_))) {
            Some((_, Entry::Paused(paused))) => Some(paused),
            _ => None,
        }
    }
}

/// The results that an entry holds.
pub(super) fn results(entry: &Entry) -> &[CallResult] {
    match entry {
        Entry::Round(round) => &round.results,
        Entry::Outcome(outcome) => std::slice::from_ref(&outcome.result),
        Entry::Ended(ended) => &ended.results,
        _ => &[],
    }
}
