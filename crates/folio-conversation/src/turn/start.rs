//! `Start`: a chat starts a turn, or joins, resumes or repeats the turn of its request id.

use folio_history::command::{IfBusy, IfPending};
use folio_history::event::EventKind;
use folio_history::journal::{Accepted, ClosingCause, Entry};
use folio_history::json_bytes;
use folio_history::thread::{HeaderChange, OpenTurn, Phase, RequestRow};
use folio_types::{Error, Reason, Timestamp, limits};

use super::append::{AfterAppend, Draft};
use super::machine::{Buffered, State};
use super::{Answer, Command, Machine, Start, Ticket, bounds};

impl Machine {
    pub(super) fn start(&mut self, now: Timestamp, start: Start) {
        if let Some(record) = self.history.by_request(&start.request) {
            let (turn, same) = (record.number(), record.accepted.digest == start.digest);
            return if same {
                self.repeat(now, start, turn)
            } else {
                self.refuse(start.ticket, Error::request_id_conflict())
            };
        }
        if self.expire_if_due(now) {
            return self.defer(Command::Start(Box::new(start)));
        }
        match &self.state {
            State::Idle | State::NotOwner => self.accept(now, start),
            State::Waiting => match start.if_pending {
                IfPending::Reject => self.refuse(start.ticket, pending()),
                IfPending::Supersede => self.replace_turn(now, start, ClosingCause::Superseded),
            },
            State::Orphaned => {
                self.advance_unowned(now);
                self.defer(Command::Start(Box::new(start)));
            }
            State::Closing(_) => self.defer(Command::Start(Box::new(start))),
            State::AwaitingChildren | State::ReadingChildren | State::StartingChildren(_) => {
                match (start.if_busy, start.if_pending) {
                    (IfBusy::Interrupt, _) => self.replace_turn(now, start, ClosingCause::Cancelled),
                    (_, IfPending::Supersede) => self.replace_turn(now, start, ClosingCause::Superseded),
                    _ => self.refuse(start.ticket, busy()),
                }
            }
            _ if self.pending_failure.is_some() => self.defer(Command::Start(Box::new(start))),
            State::Calling(_) | State::Working(_) => match start.if_busy {
                IfBusy::Reject | IfBusy::Enqueue => self.refuse(start.ticket, busy()),
                IfBusy::Interrupt => self.replace_turn(now, start, ClosingCause::Cancelled),
            },
        }
    }

    /// Ends the open turn in favour of the chat, unless the chat would be refused afterwards. The end of a turn adds at
    /// most one message.
    fn replace_turn(&mut self, now: Timestamp, start: Start, cause: ClosingCause) {
        let bytes = json_bytes(&self.entry(now, start.clone()));
        if let Some(error) = self.acceptance_error(start.truncate_to, bytes, 1) {
            return self.refuse(start.ticket, error);
        }
        self.close(now, cause);
        self.defer(Command::Start(Box::new(start)));
    }

    /// Handles a repeated request: joins its running turn, resumes its failed turn, or streams the recorded outcome.
    fn repeat(&mut self, now: Timestamp, start: Start, turn: u32) {
        if self.expire_if_due(now) {
            return self.defer(Command::Start(Box::new(start)));
        }
        let resumable = self.is_resumable(now, turn);
        match &self.state {
            _ if resumable => self.resume_newest(now, Some(start.ticket)),
            State::Orphaned if self.is_open(turn) => {
                self.take_over_for_request(now);
                self.defer(Command::Start(Box::new(start)));
            }
            _ => {
                if self.is_open(turn) {
                    self.cancel_pending_failure();
                }
                self.answer(start.ticket, Answer::Streaming { turn, from: 1, joined: true });
            }
        }
    }

    fn accept(&mut self, now: Timestamp, start: Start) {
        let turn = self.header.turns.saturating_add(1);
        let change = HeaderChange {
            open_turn: Some(Some(OpenTurn { number: turn, phase: Phase::Running, expires_at: None })),
            working: None,
            title: self.header.title.is_empty().then(|| title(&start.text)),
            model: Some(start.options.model.clone()),
            turns: Some(turn),
        };
        let request = RequestRow { request: start.request.clone(), turn, digest: start.digest.clone() };
        let (ticket, truncate_to) = (start.ticket, start.truncate_to);
        let entry = self.entry(now, start);
        if let Some(error) = self.acceptance_error(truncate_to, json_bytes(&entry), 0) {
            return self.refuse(ticket, error);
        }
        self.buffered = Buffered::default();
        let draft = Draft { entries: vec![entry], change, request: Some(request) };
        self.send_drafts(now, vec![draft], false, AfterAppend::Accepted(ticket));
    }

    fn entry(&self, now: Timestamp, start: Start) -> Entry {
        let working = start.truncate_to.map_or_else(|| self.history.working(), |count| self.history.working_at(count));
        let position = Some(self.history.position(start.truncate_to));
        Entry::Accepted(Box::new(Accepted {
            turn: self.header.turns.saturating_add(1),
            request: start.request,
            digest: start.digest,
            user: start.user,
            role: Some(start.role),
            text: start.text,
            images: start.images,
            mentions: start.mentions,
            options: start.options,
            truncate_to: start.truncate_to,
            working,
            position,
            at: now,
        }))
    }

    /// Returns the reason why a turn of this size cannot be accepted. None: it can be accepted. `added`: the messages that the
    /// end of the open turn adds before.
    fn acceptance_error(&self, truncate_to: Option<u32>, bytes: usize, added: u32) -> Option<Error> {
        if let Some(keep) = truncate_to {
            let count = self.history.count().saturating_add(added);
            if keep > count {
                let message = format!("the thread has {count} messages");
                return Some(Error::invalid_field("truncate_to_message_count", message));
            }
        }
        if bytes > bounds::ENTRY_CONTENT_BYTES {
            let limit = limits::ENTRY_BYTES;
            let message = format!("the message and the working state have {bytes} bytes; the maximum is {limit}");
            return Some(Error::invalid(Reason::TooLarge, message));
        }
        let full = self.header.turns >= limits::TURNS_PER_THREAD || self.header.bytes >= limits::THREAD_BYTES;
        full.then(|| Error::precondition(Reason::ThreadFull, "the thread is full: fork it or start another"))
    }

    /// Handles a committed acceptance: starts the events, answers the request and calls the model.
    pub(super) fn accepted(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(record) = self.history.open() else { return };
        let (turn, model) = (record.number(), record.accepted.options.model.clone());
        self.next_event = 1;
        self.pending_failure = None;
        self.emit(EventKind::TurnStarted { model });
        self.answer(ticket, Answer::Streaming { turn, from: 1, joined: false });
        self.advance(now);
    }

    pub(super) fn is_open(&self, turn: u32) -> bool {
        self.history.open().is_some_and(|record| record.number() == turn)
    }
}

/// Returns the start of the message as a single line.
fn title(text: &str) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.chars().take(limits::TITLE_CHARS).collect::<String>().trim_end().to_owned()
}

fn pending() -> Error {
    Error::precondition(Reason::TurnPending, "a turn of the thread waits for approval")
}

fn busy() -> Error {
    Error::precondition(Reason::TurnBusy, "a turn of the thread is running")
}
