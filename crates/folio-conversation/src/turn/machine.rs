//! State of the turn machine, and dispatch of commands.

use std::collections::{BTreeSet, VecDeque};

use folio_history::event::{Event, EventKind, RoundView, TurnView};
use folio_history::journal::{CallResult, Decisions, SUMMARY_ROUND};
use folio_history::thread::{Phase, ThreadHeader};
use folio_history::{History, TurnRecord};
use folio_types::{Error, Incarnation, Reason, Timestamp, TurnId, limits};

use super::append::SentAppend;
use super::group::ReadChildren;
use super::{Answer, Command, Effect, Ticket, progress};

/// Maximum number of requests that wait for an append or the end of a turn.
pub const DEFERRED_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub(super) incarnation: Incarnation,
    /// Maximum number of concurrent read-only calls.
    pub(super) reads_max: usize,
    pub(super) header: ThreadHeader,
    pub(super) history: History,
    pub(super) next_batch: u128,
    /// True if this machine has taken the header's epoch.
    pub(super) owner: bool,
    /// True if the loaded turn waits for decisions and this incarnation owns it. The first append then continues the event
    /// numbers, because the owner lost neither work nor events.
    pub(super) is_reload: bool,
    pub(super) state: State,
    /// Error with which the turn fails once its open work is done: the turn was taken over without a waiting request,
    /// or the store refuses its entries.
    pub(super) pending_failure: Option<Error>,
    pub(super) buffered: Buffered,
    pub(super) in_flight: Option<SentAppend>,
    pub(super) deferred: VecDeque<Command>,
    pub(super) waiters: Waiters,
    /// The children of the open group.
    pub(super) children: ReadChildren,
    /// Turn for which this machine has called the model for a summary. A failed call is not repeated.
    pub(super) summary_turn: Option<u32>,
    /// Number of the open turn's next event.
    pub(super) next_event: u64,
    /// Events that depend on buffered decisions. They are sent after the commit of the decisions, so that their numbers
    /// are not used again if the decisions are lost and the owner reloads the turn.
    pub(super) uncommitted_events: Vec<EventKind>,
    pub(super) effects: Vec<Effect>,
}

/// State of the thread's newest turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// The open turn has no owner and must be taken over.
    Orphaned,
    /// The open turn waits for decisions.
    Waiting,
    Calling(ActiveModelCall),
    /// The calls of the newest round with these indices are in progress.
    Working(BTreeSet<u32>),
    /// The open turn waits for child turns.
    AwaitingChildren,
    /// The states of the children of the open group are being read.
    ReadingChildren,
    /// The children with these numbers are being started.
    StartingChildren(BTreeSet<u32>),
    /// The op rows of these calls (round, index) are being closed, and their children ended.
    Closing(BTreeSet<(u32, u32)>),
    /// Another node owns the thread.
    NotOwner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveModelCall {
    pub round: u32,
    pub attempt: u32,
    pub text: String,
    pub thinking: String,
}

/// Entries that are not appended yet. The history already contains them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Buffered {
    /// Newest appended round. Later rounds are buffered in the history.
    pub written_round: u32,
    /// Decisions for the next append. No call runs before its commit.
    pub decisions: Option<Decisions>,
    /// Results of calls of appended rounds.
    pub results: Vec<CallResult>,
    /// Approximate bytes of the buffered rounds and results.
    pub bytes: usize,
}

/// Requests that wait for an outcome of the open turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Waiters {
    /// Requests that wait for the outcome of a round.
    pub decisions: Vec<(Ticket, u32)>,
    /// Requests that wait for the end of the turn.
    pub end: Vec<Ticket>,
}

impl Machine {
    /// Creates the machine of a stored thread, which it does not own yet. `reads_max`: maximum number of concurrent
    /// read-only calls. `seed`: random bits, unique per machine, from which batch ids are derived.
    pub fn load(
        incarnation: Incarnation,
        reads_max: usize,
        header: ThreadHeader,
        history: History,
        seed: u128,
    ) -> Self {
        let open = history.open();
        let state = match open {
            None => State::Idle,
            Some(record) if record.pause().is_some() => State::Waiting,
            Some(record) if record.closing.is_none() && record.open_group().is_some() => State::AwaitingChildren,
            Some(_) => State::Orphaned,
        };
        let written_round = open.and_then(TurnRecord::newest_round).map_or(0, |round| round.round);
        let next_event = open.map_or(1, TurnRecord::next_event);
        let is_reload = state == State::Waiting && header.owner.as_ref() == Some(&incarnation);
        Self {
            incarnation,
            reads_max,
            header,
            history,
            next_batch: seed,
            owner: false,
            is_reload,
            state,
            pending_failure: None,
            buffered: Buffered { written_round, ..Buffered::default() },
            in_flight: None,
            deferred: VecDeque::new(),
            waiters: Waiters::default(),
            children: ReadChildren::default(),
            summary_turn: None,
            next_event,
            uncommitted_events: Vec::new(),
            effects: Vec::new(),
        }
    }

    pub fn handle(&mut self, now: Timestamp, command: Command) -> Vec<Effect> {
        if self.state != State::NotOwner {
            self.dispatch(now, command);
            self.retry_deferred(now);
        }
        std::mem::take(&mut self.effects)
    }

    /// Executes a command, or defers it while an append is in flight.
    fn dispatch(&mut self, now: Timestamp, command: Command) {
        let of_store = matches!(
            command,
            Command::Appended { .. }
                | Command::AppendRefused { .. }
                | Command::AppendUnknown { .. }
                | Command::LookedUp { .. }
        );
        if !of_store && self.must_defer(&command) {
            return self.defer(command);
        }
        match command {
            Command::Start(start) => self.start(now, *start),
            Command::Decide(decide) => self.decide(now, *decide),
            Command::Cancel { ticket, turn } => self.cancel(now, ticket, turn),
            Command::Resume { ticket, turn } => self.resume(now, ticket, turn),
            Command::Rename { ticket, title, request } => self.rename(now, ticket, title, request),
            Command::Expire { turn } => self.expire_turn(now, turn),
            Command::TakeOver => self.advance_unowned(now),
            Command::Unwritable { error } => self.fail_unwritable(now, error),
            Command::ModelDelta { round, attempt, delta } => self.model_delta(round, attempt, delta),
            Command::ModelReplied { round, attempt, reply } => self.model_replied(now, round, attempt, *reply),
            Command::ModelFailed { round, attempt, error, retriable, usage } => {
                self.model_failed(now, (round, attempt), error, retriable, usage);
            }
            Command::Planned { round, index, plan } => self.planned(now, round, index, plan),
            Command::TasksPlanned { round, index, tasks, running_max } => {
                self.tasks_planned(now, (round, index), tasks, running_max);
            }
            Command::ChildrenRead { round, index, states } => self.children_read(now, (round, index), states),
            Command::ChildStarted { round, index, number, started } => {
                self.child_started((round, index), number, started);
            }
            Command::ChildrenEnded { round, index, ends } => self.children_ended(now, (round, index), &ends),
            Command::StoreAwaited { round, index } => self.store_awaited(round, index),
            Command::ToolFinished { round, index, outcome } => self.tool_finished(now, round, index, outcome),
            Command::Closed { round, index, result, usage } => self.closed(now, (round, index), result, usage),
            Command::Appended { batch, header } => self.appended(now, batch, *header),
            Command::AppendRefused { batch, header, request } => self.refused(batch, *header, request.as_ref()),
            Command::AppendUnknown { batch } => self.unknown(batch),
            Command::LookedUp { batch, is_committed, header } => self.looked_up(now, batch, is_committed, *header),
        }
    }

    /// Returns true if a command must wait for the response of the store, or a request for the commit of decisions.
    fn must_defer(&self, command: &Command) -> bool {
        self.in_flight.is_some() || (self.buffered.decisions.is_some() && command.ticket().is_some())
    }

    /// Dispatches each deferred command once.
    fn retry_deferred(&mut self, now: Timestamp) {
        for _ in 0..self.deferred.len() {
            if self.in_flight.is_some() || self.state == State::NotOwner {
                return;
            }
            if let Some(command) = self.deferred.pop_front() {
                self.dispatch(now, command);
            }
        }
    }

    /// Defers a command until the turn has advanced. Requests beyond [`DEFERRED_MAX`] are refused. Results of the
    /// turn's own work are never refused; the number of calls per round bounds them.
    pub(super) fn defer(&mut self, command: Command) {
        match command.ticket() {
            Some(ticket) if self.deferred.len() >= DEFERRED_MAX => {
                let error = Error::exhausted(Reason::Overloaded, "too many requests on this thread");
                self.refuse(ticket, error.retry_after(std::time::Duration::from_secs(1)));
            }
            _ => self.deferred.push_back(command),
        }
    }

    /// Determines the next step of the open turn from its entries. Must be called only if no work is in progress.
    pub(super) fn advance(&mut self, now: Timestamp) {
        let Some(record) = self.history.open() else {
            self.state = State::Idle;
            return;
        };
        if record.closing.is_some() {
            return self.close_intents(now);
        }
        if record.open_group().is_some() {
            return self.read_children();
        }
        if record.is_graph_over() {
            return self.complete_graph(now);
        }
        match record.newest_round() {
            Some(round) if round.is_waiting() => self.state = State::Waiting,
            Some(round) if round.round >= self.rounds_max(record) => self.end_at_max_rounds(now),
            Some(round) if round.paused.is_none() && self.must_pause(record, round) => self.pause(now),
            Some(round) if round.unanswered().next().is_some() => self.work(now),
            _ if self.buffered.decisions.is_some() || self.buffered.bytes > super::append::BUFFERED_BYTES => {
                self.flush(now)
            }
            Some(_) if progress::is_stuck(record) => self.end_without_progress(now),
            Some(_) if record.bytes >= limits::TURN_BYTES => {
                self.end_at_limit(now, "(The maximum size of a turn was reached.)")
            }
            _ => match self.pending_failure.take() {
                Some(error) => {
                    let retriable = error.is_retriable();
                    self.fail(now, error, retriable);
                }
                None => self.call_model(now),
            },
        }
    }

    /// Returns the header, which includes the committed appends of this machine.
    pub fn header(&self) -> &ThreadHeader {
        &self.header
    }

    /// Returns the history, which includes rounds that are not appended. Model messages are built from it.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the phase of the open turn. None: no turn is open.
    pub fn phase(&self) -> Option<Phase> {
        match &self.state {
            State::Idle | State::NotOwner => None,
            State::Waiting => Some(Phase::Paused),
            State::Closing(_) => Some(Phase::Closing),
            State::Orphaned | State::Calling(_) => Some(Phase::Running),
            State::Working(_) => Some(self.working_phase()),
            State::AwaitingChildren | State::ReadingChildren | State::StartingChildren(_) => {
                Some(Phase::AwaitingChildren)
            }
        }
    }

    /// Returns the phase of the open turn while the calls of its newest round run.
    pub(super) fn working_phase(&self) -> Phase {
        let decided = self.history.open().and_then(TurnRecord::newest_round).is_some_and(|round| round.has_decisions);
        if decided { Phase::Executing } else { Phase::Running }
    }

    /// Returns the current state of a turn for clients. None: the turn does not exist.
    pub fn view(&self, now: Timestamp, turn: u32) -> Option<TurnView> {
        let record = self.history.turn(turn)?;
        let mut view = record.view(&self.header.id, now);
        if record.ended.is_none() {
            view.next_event = self.next_event;
            if let State::Calling(calling) = &self.state
                && calling.round != SUMMARY_ROUND
            {
                view.rounds.push(RoundView {
                    text: calling.text.clone(),
                    thinking: calling.thinking.clone(),
                    node: record.round_node(),
                    ..RoundView::new(calling.round)
                });
            }
        }
        Some(view)
    }

    /// Returns true if the open turn has no owner. `TakeOver` or any request advances it.
    pub fn is_orphaned(&self) -> bool {
        self.state == State::Orphaned
    }

    /// Returns true if this machine has not taken over the thread and has no work, so that another owner may have
    /// changed the stored thread.
    pub fn is_copy(&self) -> bool {
        !self.owner && self.in_flight.is_none() && self.buffered.decisions.is_none()
    }

    /// Returns true if the machine is unusable, because another node owns the thread.
    #[cfg(test)]
    pub fn is_lost(&self) -> bool {
        self.state == State::NotOwner
    }

    /// Returns true if no append, model call, tool call or request is in progress, so that the machine can be dropped.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Waiting | State::AwaitingChildren | State::NotOwner)
            && self.in_flight.is_none()
            && self.buffered.decisions.is_none()
            && self.deferred.is_empty()
    }

    /// Returns true if the machine can be dropped and reloaded: it has no work, or does not run the open turn.
    pub fn can_be_dropped(&self) -> bool {
        let found = self.state == State::Orphaned && self.in_flight.is_none() && self.deferred.is_empty();
        found || self.is_idle()
    }

    pub(super) fn turn_id(&self, turn: u32) -> TurnId {
        TurnId::new(self.header.id.clone(), turn)
    }

    /// Returns the record of the open turn, to change it before the append.
    pub(super) fn open_mut(&mut self) -> Option<&mut TurnRecord> {
        let number = self.history.open()?.number();
        self.history.turn_mut(number)
    }

    /// Sends an event with the next number to the watchers of the open turn, once buffered decisions are committed.
    pub(super) fn emit(&mut self, kind: EventKind) {
        if self.buffered.decisions.is_some() {
            self.uncommitted_events.push(kind);
        } else if let Some(turn) = self.history.last().map(TurnRecord::number) {
            let number = self.next_event;
            self.next_event = number.saturating_add(1);
            self.effects.push(Effect::Emit(Event::new(self.turn_id(turn), number, kind)));
        }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.effects.push(Effect::Answer(ticket, Ok(answer)));
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, error: Error) {
        self.effects.push(Effect::Answer(ticket, Err(Box::new(error))));
    }
}
