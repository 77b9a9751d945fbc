//! Appends: building a batch, sending it, and handling the store's response.

use folio_history::TurnRecord;
use folio_history::event::EventKind;
use folio_history::journal::{Entry, Outcome, ResumeCause, Resumed, Round};
use folio_history::thread::{Append, HeaderChange, OpenTurn, OpenTurnRow, Phase, RequestRow, ThreadHeader};
use folio_types::{Error, Timestamp, limits};

use super::machine::{Buffered, State};
use super::{Answer, Effect, Machine, Ticket, bounds};

/// Bytes of buffered entries above which they are appended before the turn continues.
pub(super) const BUFFERED_BYTES: usize = limits::APPEND_BYTES / 2;
/// Hours until an open-turn row expires.
pub(crate) const OPEN_TURN_ROW_HOURS: i64 = 40 * 24;
const _: () = assert!(OPEN_TURN_ROW_HOURS as u64 * 3600 > limits::APPROVAL_TTL_MAX.as_secs());

/// The append in flight and its continuation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SentAppend {
    append: Append,
    /// Number of times that the append was sent. If sent again, it may be refused because it is already committed.
    sends: u32,
    /// Event number of the snapshot that a new owner sends first.
    snapshot: Option<u64>,
    /// Appends that follow this one.
    rest: Vec<Draft>,
    after: AfterAppend,
}

/// An append that has not been sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Draft {
    pub entries: Vec<Entry>,
    pub change: HeaderChange,
    pub request: Option<RequestRow>,
}

/// Continuation after the commit of an append.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AfterAppend {
    /// The turn is accepted: answer the request and call the model.
    Accepted(Ticket),
    /// The turn is resumed: answer the request, if any, and continue the turn.
    Resumed(Option<Ticket>),
    /// Decisions on some calls of this round are committed; further decisions are needed.
    PartlyDecided(Ticket, u32),
    /// The intent of the call with this index is committed: run the call.
    Run(u32),
    Paused,
    /// A group is committed: start its children.
    Grouped,
    Ended,
    /// The buffered entries are committed: continue the turn.
    Written,
    /// The end of a node is committed: publish its answer and continue the turn.
    NodeEnded,
    Renamed(Ticket),
}

impl Machine {
    /// Appends the buffered entries and then `entries`. The first append of a new owner takes over the thread.
    pub(super) fn append(&mut self, now: Timestamp, entries: Vec<Entry>, change: HeaderChange, after: AfterAppend) {
        let mut all = self.take_buffered();
        all.extend(entries);
        let drafts = bounds::split(all, change);
        let retries = matches!(after, AfterAppend::Resumed(_)) && self.history.open().is_none();
        self.send_drafts(now, drafts, retries, after);
    }

    /// Appends the buffered entries, and then continues the turn.
    pub(super) fn flush(&mut self, now: Timestamp) {
        let change = self.phase_change(self.working_phase());
        self.append(now, Vec::new(), change, AfterAppend::Written);
    }

    /// Returns the header change that sets the phase of the open turn, or an empty change if it has this phase.
    pub(super) fn phase_change(&self, phase: Phase) -> HeaderChange {
        let number = self.history.open().map(TurnRecord::number);
        let open = number.map(|number| OpenTurn { number, phase, expires_at: None });
        let open_turn = (open.is_some() && open != self.header.open_turn).then_some(open);
        HeaderChange { open_turn, ..HeaderChange::default() }
    }

    /// Sends the first draft; each other draft follows after a commit. `retries`: an ended turn is being resumed.
    pub(super) fn send_drafts(&mut self, now: Timestamp, mut drafts: Vec<Draft>, retries: bool, after: AfterAppend) {
        let mut first = drafts.remove(0);
        let takes_over = !self.owner || retries;
        let epoch = if takes_over { self.header.epoch.saturating_add(1) } else { self.header.epoch };
        let accepts = first.entries.iter().find_map(|entry| match entry {
            Entry::Accepted(accepted) => Some(accepted.turn),
            _ => None,
        });
        let mut snapshot = None;
        let mut opened_turn = accepts;
        if takes_over && accepts.is_none() {
            let cause = match (retries, self.is_reload) {
                (true, _) => ResumeCause::Retry,
                (false, true) => ResumeCause::Reload,
                (false, false) => ResumeCause::Takeover,
            };
            opened_turn = self.insert_resumed(now, epoch, cause, &mut first);
            snapshot = opened_turn.filter(|_| cause != ResumeCause::Reload).map(|_| self.first_number());
        }
        let new_owner = takes_over.then(|| (epoch, self.incarnation.clone()));
        let opens = opened_turn.map(|turn| self.open_row(now, turn, epoch));
        let append = Append { new_owner, opens, ..self.append_of(now, first) };
        self.send(SentAppend { append, sends: 1, snapshot, rest: drafts, after });
    }

    /// Returns an append of the draft that changes neither the owner nor the index of open turns.
    fn append_of(&mut self, now: Timestamp, draft: Draft) -> Append {
        self.next_batch = self.next_batch.wrapping_add(1);
        let (batch, fence, Draft { entries, change, request }) = (self.next_batch, self.header.fence(), draft);
        Append { batch, fence, entries, new_owner: None, change, request, opens: None, removes: Vec::new(), at: now }
    }

    /// Inserts the `resumed` entry of a new owner before the entries of the draft. Returns the turn.
    fn insert_resumed(&self, now: Timestamp, epoch: u64, cause: ResumeCause, draft: &mut Draft) -> Option<u32> {
        let record = self.history.last()?;
        let owner = self.incarnation.clone();
        let resumed = Resumed { turn: record.number(), owner, epoch, cause, at: now };
        draft.entries.insert(0, Entry::Resumed(resumed));
        Some(record.number())
    }

    /// Returns the number of a new owner's snapshot event, and numbers later events from there. See
    /// [`Machine::closing_number`].
    fn first_number(&mut self) -> u64 {
        let number = self.history.last().map_or(1, TurnRecord::first_event_of_next_owner);
        self.next_event = number.saturating_add(1);
        number
    }

    /// Returns the number of a closing event in the next append.
    pub(super) fn closing_number(&self) -> u64 {
        if self.owner || self.is_reload {
            return self.next_event;
        }
        self.history.last().map_or(1, |record| record.first_event_of_next_owner().saturating_add(1))
    }

    /// Renames the thread in any state of its turn. A rename does not take over the thread, and buffered entries stay
    /// buffered.
    pub(super) fn rename(&mut self, now: Timestamp, ticket: Ticket, title: String, request: Option<RequestRow>) {
        if let Some(row) = &request
            && self.history.by_request(&row.request).is_some()
        {
            return self.refuse(ticket, Error::request_id_conflict());
        }
        if self.state == State::Orphaned {
            self.advance_unowned(now);
            return self.defer(super::Command::Rename { ticket, title, request });
        }
        let change = HeaderChange { title: Some(title), ..HeaderChange::default() };
        let append = self.append_of(now, Draft { change, request, ..Draft::default() });
        let after = AfterAppend::Renamed(ticket);
        self.send(SentAppend { append, sends: 1, snapshot: None, rest: Vec::new(), after });
    }

    fn send(&mut self, in_flight: SentAppend) {
        self.effects.push(Effect::Append(Box::new(in_flight.append.clone())));
        self.in_flight = Some(in_flight);
    }

    fn open_row(&self, now: Timestamp, turn: u32, epoch: u64) -> OpenTurnRow {
        let lifetime = jiff::SignedDuration::from_hours(OPEN_TURN_ROW_HOURS);
        let until = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        OpenTurnRow { org: self.header.org.clone(), turn: self.turn_id(turn), epoch, at: now, until }
    }

    /// Takes the buffered entries: decisions, results of appended rounds, and rounds that are not appended.
    fn take_buffered(&mut self) -> Vec<Entry> {
        let Some(record) = self.history.open() else {
            self.buffered = Buffered::default();
            return Vec::new();
        };
        let turn = record.number();
        let newest = record.newest_round().map_or(0, |round| round.round);
        let rounds: Vec<Round> = record
            .rounds
            .iter()
            .filter(|round| round.round > self.buffered.written_round)
            .map(|round| round.entry(turn))
            .collect();
        let buffered = std::mem::replace(&mut self.buffered, Buffered { written_round: newest, ..Buffered::default() });
        let mut entries: Vec<Entry> = buffered.decisions.map(Entry::Decisions).into_iter().collect();
        entries.extend(buffered.results.into_iter().map(|result| Entry::Outcome(Outcome { turn, result })));
        entries.extend(rounds.into_iter().flat_map(bounds::round_entries));
        entries
    }

    /// Handles a committed append: updates the header and the history, and continues the turn.
    pub(super) fn appended(&mut self, now: Timestamp, batch: u128, header: ThreadHeader) {
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.append.batch == batch) else { return };
        let append = in_flight.append;
        if header.version != append.fence.version.saturating_add(1) {
            return self.give_up_ownership();
        }
        self.owner |= append.new_owner.is_some();
        self.header = header;
        append.entries.into_iter().for_each(|entry| self.history.push(entry));
        let uncommitted = std::mem::take(&mut self.uncommitted_events);
        match in_flight.snapshot {
            // The snapshot contains the results of these events.
            Some(number) => self.emit_snapshot(now, number),
            None => uncommitted.into_iter().for_each(|kind| self.emit(kind)),
        }
        if in_flight.rest.is_empty() {
            self.continue_after(now, in_flight.after);
        } else {
            self.send_drafts(now, in_flight.rest, false, in_flight.after);
        }
    }

    /// Emits the first event of a new owner. The same append may contain a closing event with the next number.
    fn emit_snapshot(&mut self, now: Timestamp, number: u64) {
        self.next_event = number.saturating_add(1);
        let Some(view) = self.history.last().map(TurnRecord::number).and_then(|turn| self.view(now, turn)) else {
            return;
        };
        let snapshot = folio_history::event::TurnView { next_event: self.next_event, ..view };
        self.next_event = number;
        self.emit(EventKind::Snapshot(Box::new(snapshot)));
    }

    fn continue_after(&mut self, now: Timestamp, after: AfterAppend) {
        match after {
            AfterAppend::Accepted(ticket) => self.accepted(now, ticket),
            AfterAppend::Resumed(ticket) => self.resumed(now, ticket),
            AfterAppend::PartlyDecided(ticket, round) => self.answer_still_awaiting(ticket, round),
            AfterAppend::Run(index) => self.run_write(index),
            AfterAppend::Paused => self.paused(),
            AfterAppend::Grouped => self.grouped(now),
            AfterAppend::Ended => self.ended(),
            AfterAppend::Written => self.advance(now),
            AfterAppend::NodeEnded => self.node_ended(now),
            AfterAppend::Renamed(ticket) => self.answer(ticket, Answer::Renamed(Box::new(self.header.clone()))),
        }
    }

    /// Handles a refused append. An append that was sent several times may have been refused because it is committed.
    /// The row of its request id may exist, inserted by the same request or by another one.
    pub(super) fn refused(&mut self, batch: u128, header: ThreadHeader, existing: Option<&RequestRow>) {
        let in_flight = self.in_flight.as_ref().filter(|in_flight| in_flight.append.batch == batch);
        if let (Some(in_flight), Some(existing)) = (in_flight, existing) {
            let same = in_flight.append.request.as_ref().is_some_and(|requested| requested.digest == existing.digest);
            match &in_flight.after {
                AfterAppend::Renamed(ticket) if header.fence() == in_flight.append.fence => {
                    let ticket = *ticket;
                    self.in_flight = None;
                    return match same {
                        true => self.answer(ticket, Answer::Renamed(Box::new(header))),
                        false => self.refuse(ticket, Error::request_id_conflict()),
                    };
                }
                // The row belongs to a request without a turn, so the history does not contain it.
                AfterAppend::Accepted(ticket) if existing.turn == 0 => {
                    let ticket = *ticket;
                    self.refuse(ticket, Error::request_id_conflict());
                    return self.give_up_ownership();
                }
                _ => {}
            }
        }
        match &self.in_flight {
            Some(in_flight) if in_flight.append.batch == batch && in_flight.sends > 1 => self.unknown(batch),
            Some(in_flight) if in_flight.append.batch == batch => self.give_up_ownership(),
            _ => {}
        }
    }

    /// Looks up the append, whose outcome is unknown.
    pub(super) fn unknown(&mut self, batch: u128) {
        if let Some(in_flight) = self.in_flight.as_ref().filter(|in_flight| in_flight.append.batch == batch) {
            self.effects.push(Effect::LookUp { batch, sends: in_flight.sends });
        }
    }

    /// Handles the lookup of an append: it is committed, or its fence still matches and it is sent again, or another
    /// owner has appended.
    pub(super) fn looked_up(&mut self, now: Timestamp, batch: u128, is_committed: bool, header: ThreadHeader) {
        if is_committed {
            return self.appended(now, batch, header);
        }
        let Some(in_flight) = self.in_flight.take_if(|in_flight| in_flight.append.batch == batch) else { return };
        if header.fence() != in_flight.append.fence {
            return self.give_up_ownership();
        }
        self.send(SentAppend { sends: in_flight.sends.saturating_add(1), ..in_flight });
    }

    /// Stops the machine, because another node owns the thread.
    fn give_up_ownership(&mut self) {
        self.state = State::NotOwner;
        self.in_flight = None;
        self.deferred.clear();
        self.effects.push(Effect::StopWork);
        self.effects.push(Effect::Reload);
    }
}
