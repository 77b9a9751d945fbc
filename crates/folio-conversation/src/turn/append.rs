//! Appending: what goes into a batch, how it is sent, and what the store says of it.

use folio_history::TurnRecord;
use folio_history::event::EventKind;
use folio_history::journal::{Entry, Outcome, ResumeCause, Resumed, Round};
use folio_history::thread::{Append, Fence, HeaderChange, OpenTurn, OpenTurnRow, Phase, RequestRow, ThreadHeader};
use folio_types::Timestamp;
use folio_types::limits;

use super::machine::{Held, State};
use super::start::request_taken;
use super::{Answer, Effect, Machine, Ticket, bounds};

/// Held bytes from which they are appended before the turn goes on.
pub(super) const HELD_BYTES: usize = limits::APPEND_BYTES / 2;
/// How long a row of the index of open turns lives: past the longest approval (30 days).
pub(crate) const OPEN_TURN_ROW_HOURS: i64 = 40 * 24;

/// An append that is under way, and what follows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flight {
    append: Append,
    /// How often it was sent: from the second time on a refusal may be its own doing.
    sends: u32,
    /// The number of the snapshot that a new owner tells first.
    snapshot: Option<u64>,
    /// What is appended after it.
    rest: Vec<Draft>,
    landed: Landed,
}

/// An append that is to be made.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Draft {
    pub entries: Vec<Entry>,
    pub change: HeaderChange,
    pub request: Option<RequestRow>,
}

/// What follows once an append stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Landed {
    /// The turn is accepted: who asked is answered, the model is called.
    Accepted(Ticket),
    /// It is gone on with: who asked is answered, the turn goes on.
    Resumed(Option<Ticket>),
    /// Some decisions are there, more are needed.
    Partly(Ticket, u32),
    /// The intent of the call at this place stands: it runs.
    Run(u32),
    /// It waits.
    Paused,
    /// It has ended.
    Ended,
    /// What was held is written: the turn goes on.
    Written,
    /// The thread has its title.
    Renamed(Ticket),
}

impl Machine {
    /// Appends what is held and then `entries`. An owner that is new takes the thread over with it.
    pub(super) fn append(&mut self, now: Timestamp, entries: Vec<Entry>, change: HeaderChange, landed: Landed) {
        self.append_as(now, entries, change, None, landed);
    }

    /// The same with the row of a request, for the turn that it becomes.
    pub(super) fn append_as(
        &mut self,
        now: Timestamp,
        entries: Vec<Entry>,
        change: HeaderChange,
        request: Option<RequestRow>,
        landed: Landed,
    ) {
        let mut all = self.write_held();
        all.extend(entries);
        let drafts = bounds::split(all, change, request);
        let retries = matches!(landed, Landed::Resumed(_)) && self.history.open().is_none();
        self.send(now, drafts, retries, landed);
    }

    /// Appends what is held and goes on.
    pub(super) fn flush(&mut self, now: Timestamp) {
        let change = self.phase_change(if self.is_executing() { Phase::Executing } else { Phase::Running });
        self.append(now, Vec::new(), change, Landed::Written);
    }

    fn is_executing(&self) -> bool {
        self.history.open().and_then(TurnRecord::newest_round).is_some_and(|round| round.decided)
    }

    /// The change of the header that gives the open turn a phase; none where it has it.
    pub(super) fn phase_change(&self, phase: Phase) -> HeaderChange {
        let number = self.history.open().map(TurnRecord::number);
        let open = number.map(|number| OpenTurn { number, phase, expires_at: None });
        let open_turn = (open.is_some() && open != self.header.open_turn).then_some(open);
        HeaderChange { open_turn, ..HeaderChange::default() }
    }

    /// Sends the first of some drafts, the others after it. `retries`: a turn that has ended is gone on with.
    fn send(&mut self, now: Timestamp, mut drafts: Vec<Draft>, retries: bool, landed: Landed) {
        if drafts.is_empty() {
            drafts.push(Draft::default());
        }
        let mut first = drafts.remove(0);
        let takes = !self.owner || retries;
        let epoch = if takes { self.header.epoch.saturating_add(1) } else { self.header.epoch };
        let accepts = first.entries.iter().find_map(|entry| match entry {
            Entry::Accepted(accepted) => Some(accepted.turn),
            _ => None,
        });
        let mut snapshot = None;
        let mut opens = accepts;
        if takes && accepts.is_none() {
            opens = self.take_turn(now, epoch, retries, &mut first);
            snapshot = opens.map(|_| self.first_number());
        }
        let append = Append {
            batch: self.batch(),
            fence: Fence { epoch: self.header.epoch, version: self.header.version },
            entries: first.entries,
            take: takes.then(|| (epoch, self.me.clone())),
            change: first.change,
            request: first.request,
            opens: opens.map(|turn| self.open_row(now, turn, epoch)),
            at: now,
        };
        self.fly(Flight { append, sends: 1, snapshot, rest: drafts, landed });
    }

    /// Puts `resumed` before what a new owner appends to a turn, and gives the turn.
    fn take_turn(&mut self, now: Timestamp, epoch: u64, retries: bool, draft: &mut Draft) -> Option<u32> {
        let record = self.history.last()?;
        let resumed = Resumed {
            turn: record.number(),
            owner: self.me.clone(),
            epoch,
            why: if retries { ResumeCause::Retry } else { ResumeCause::Takeover },
            at: now,
        };
        draft.entries.insert(0, Entry::Resumed(resumed));
        Some(record.number())
    }

    /// The number of a new owner's snapshot. Its later events are numbered from there: see [`Machine::closing_number`].
    fn first_number(&mut self) -> u64 {
        let number = self.history.last().map_or(1, TurnRecord::first_event_of_next_owner);
        self.next_event = number.saturating_add(1);
        number
    }

    /// The number that a closing event has which is appended now.
    pub(super) fn closing_number(&self) -> u64 {
        if self.owner {
            return self.next_event;
        }
        self.history.last().map_or(1, |record| record.first_event_of_next_owner().saturating_add(1))
    }

    /// Gives the thread another title, whatever its turn does. A title is nobody's: it takes no thread over, and what is
    /// held stays held.
    pub(super) fn rename(&mut self, now: Timestamp, ticket: Ticket, title: String, request: Option<RequestRow>) {
        if let Some(row) = &request
            && self.history.by_request(&row.request).is_some()
        {
            return self.refuse(ticket, request_taken());
        }
        if self.state == State::Orphaned {
            self.found(now);
            return self.defer(super::Command::Rename { ticket, title, request });
        }
        let append = Append {
            batch: self.batch(),
            fence: Fence { epoch: self.header.epoch, version: self.header.version },
            entries: Vec::new(),
            take: None,
            change: HeaderChange { title: Some(title), ..HeaderChange::default() },
            request,
            opens: None,
            at: now,
        };
        let landed = Landed::Renamed(ticket);
        self.fly(Flight { append, sends: 1, snapshot: None, rest: Vec::new(), landed });
    }

    /// Sends an append, for the first time or again.
    fn fly(&mut self, flight: Flight) {
        self.out.push(Effect::Append(Box::new(flight.append.clone())));
        self.flight = Some(flight);
    }

    fn batch(&mut self) -> u128 {
        self.next_batch = self.next_batch.wrapping_add(1);
        self.next_batch
    }

    fn open_row(&self, now: Timestamp, turn: u32, epoch: u64) -> OpenTurnRow {
        let life = jiff::SignedDuration::from_hours(OPEN_TURN_ROW_HOURS);
        let until = now.checked_add(life).unwrap_or(Timestamp::MAX);
        OpenTurnRow { org: self.header.org.clone(), turn: self.turn_id(turn), epoch, until }
    }

    /// What is held as entries: decisions, results of appended rounds, rounds that are not appended.
    fn write_held(&mut self) -> Vec<Entry> {
        let Some(record) = self.history.open() else {
            self.held = Held::default();
            return Vec::new();
        };
        let turn = record.number();
        let newest = record.newest_round().map_or(0, |round| round.round);
        let rounds: Vec<Round> = record
            .rounds
            .iter()
            .filter(|round| round.round > self.held.written_round)
            .map(|round| round.entry(turn))
            .collect();
        let held = std::mem::replace(&mut self.held, Held { written_round: newest, ..Held::default() });
        let mut entries: Vec<Entry> = held.claim.map(Entry::Decisions).into_iter().collect();
        entries.extend(held.results.into_iter().map(|result| Entry::Outcome(Outcome { turn, result })));
        entries.extend(rounds.into_iter().flat_map(bounds::round_entries));
        entries
    }

    /// The store has the append.
    pub(super) fn appended(&mut self, now: Timestamp, batch: u128, header: ThreadHeader) {
        let Some(flight) = self.flight.take_if(|flight| flight.append.batch == batch) else { return };
        let append = flight.append;
        if header.version != append.fence.version.saturating_add(1) {
            return self.lost();
        }
        self.owner |= append.take.is_some();
        self.header = header;
        append.entries.into_iter().for_each(|entry| self.history.push(entry));
        if let Some(number) = flight.snapshot {
            self.tell_snapshot(now, number);
        }
        if flight.rest.is_empty() {
            self.landed(now, flight.landed);
        } else {
            self.send(now, flight.rest, false, flight.landed);
        }
    }

    /// A new owner's first event. The numbers after it may be given already to a closing event of the same append.
    fn tell_snapshot(&mut self, now: Timestamp, number: u64) {
        self.next_event = number.saturating_add(1);
        let Some(view) = self.history.last().map(TurnRecord::number).and_then(|turn| self.view(now, turn)) else {
            return;
        };
        let snapshot = folio_history::event::TurnView { next_event: self.next_event, ..view };
        self.next_event = number;
        self.emit(EventKind::Snapshot(Box::new(snapshot)));
    }

    fn landed(&mut self, now: Timestamp, landed: Landed) {
        match landed {
            Landed::Accepted(ticket) => self.accepted(now, ticket),
            Landed::Resumed(ticket) => self.resumed(now, ticket),
            Landed::Partly(ticket, round) => self.partly(ticket, round),
            Landed::Run(index) => self.run_write(index),
            Landed::Paused => self.paused(),
            Landed::Ended => self.ended(),
            Landed::Written => self.go_on(now),
            Landed::Renamed(ticket) => self.answer(ticket, Answer::Renamed(Box::new(self.header.clone()))),
        }
    }

    /// The store refused the append. One that was sent before may have stood in its own way; so may the row of its request
    /// id: the append of another one, or of the same one before.
    pub(super) fn refused(&mut self, batch: u128, header: ThreadHeader, stands: Option<&RequestRow>) {
        let flight = self.flight.as_ref().filter(|flight| flight.append.batch == batch);
        if let (Some(flight), Some(stands)) = (flight, stands) {
            let same = flight.append.request.as_ref().is_some_and(|asked| asked.digest == stands.digest);
            let fence = flight.append.fence;
            let in_place = header.epoch == fence.epoch && header.version == fence.version;
            match &flight.landed {
                Landed::Renamed(ticket) if in_place => {
                    let ticket = *ticket;
                    self.flight = None;
                    return match same {
                        true => self.answer(ticket, Answer::Renamed(Box::new(header))),
                        false => self.refuse(ticket, request_taken()),
                    };
                }
                // No turn's, so that the history does not know it.
                Landed::Accepted(ticket) if stands.turn == 0 => {
                    let ticket = *ticket;
                    self.refuse(ticket, request_taken());
                    return self.lost();
                }
                _ => {}
            }
        }
        match &self.flight {
            Some(flight) if flight.append.batch == batch && flight.sends > 1 => self.unknown(batch),
            Some(flight) if flight.append.batch == batch => self.lost(),
            _ => {}
        }
    }

    /// Nobody knows.
    pub(super) fn unknown(&mut self, batch: u128) {
        if let Some(flight) = self.flight.as_ref().filter(|flight| flight.append.batch == batch) {
            self.out.push(Effect::LookUp { batch, sends: flight.sends });
        }
    }

    /// Somebody looked: it stands, or its condition still holds and it is sent again, or it is lost.
    pub(super) fn looked_up(&mut self, now: Timestamp, batch: u128, stands: bool, header: ThreadHeader) {
        if stands {
            return self.appended(now, batch, header);
        }
        let Some(flight) = self.flight.take_if(|flight| flight.append.batch == batch) else { return };
        let fence = flight.append.fence;
        if header.epoch != fence.epoch || header.version != fence.version {
            return self.lost();
        }
        self.fly(Flight { sends: flight.sends.saturating_add(1), ..flight });
    }

    /// Somebody else owns the thread.
    fn lost(&mut self) {
        self.state = State::Lost;
        self.flight = None;
        self.deferred.clear();
        self.out.push(Effect::StopWork);
        self.out.push(Effect::Reload);
    }
}
