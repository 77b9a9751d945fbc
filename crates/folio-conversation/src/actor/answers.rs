//! Delivers the answers of the turn machine to the waiting requests.

use std::sync::Arc;

use folio_history::event::{Event, EventKind, TurnStatus, TurnView};
use folio_types::{Error, Principal, Reason, Result, TurnId};

use super::state::{CloseOnDrop, Pending, Queued, Recipient, State};
use crate::events::{StreamStart, TurnBuffer};
use crate::turn::{Answer, Ticket};
use folio_history::command::{ApproveAnswer, IfBusy};

impl State {
    pub(super) fn answer(&mut self, ticket: Ticket, answer: Result<Answer>) {
        let Some(pending) = self.loaded.as_mut().and_then(|loaded| loaded.pending.remove(&ticket)) else { return };
        let Pending { recipient, permit, .. } = pending;
        match (recipient, answer) {
            (Recipient::Chat { prepared: Some(prepared), principal, reply }, Err(error))
                if error.reason == Reason::TurnBusy && prepared.command.if_busy == IfBusy::Enqueue =>
            {
                self.enqueue(Queued { prepared, principal, reply, permit });
            }
            (Recipient::Chat { reply, .. } | Recipient::Stream(reply), answer) => {
                let _ = reply.send(answer.and_then(|answer| self.streaming(answer)));
            }
            (Recipient::Approve { turn, reply }, answer) => {
                let _ = reply.send(answer.and_then(|answer| self.approved(turn, answer)));
            }
            (Recipient::Cancel(reply), answer) => {
                let _ = reply.send(answer.and_then(|answer| match answer {
                    Answer::Ended(view) => Ok(*view),
                    _ => Err(unexpected()),
                }));
            }
            (Recipient::Rename(reply), answer) => {
                let _ = reply.send(answer.and_then(|answer| match answer {
                    Answer::Renamed(header) => Ok(*header),
                    _ => Err(unexpected()),
                }));
            }
            (Recipient::Delete, answer) => {
                if let Err(error) = &answer {
                    tracing::debug!(thread = %self.thread(), %error, "cannot cancel the open turn before the deletion");
                }
                self.delete_thread();
            }
        }
    }

    fn streaming(&mut self, answer: Answer) -> Result<StreamStart> {
        match answer {
            Answer::Streaming { turn, from, .. } => self.follow(turn, from),
            _ => Err(unexpected()),
        }
    }

    fn approved(&self, turn: u32, answer: Answer) -> Result<ApproveAnswer> {
        match answer {
            Answer::StillAwaiting { round, missing, expires_at } => {
                let turn = TurnId::new(self.thread().clone(), turn);
                Ok(ApproveAnswer::StillAwaiting { turn, round, missing, expires_at })
            }
            Answer::Decided { closing, round } => {
                Ok(ApproveAnswer::Reached { closing: self.with_task(*closing), round })
            }
            _ => Err(unexpected()),
        }
    }

    /// Returns the closing event of the turn's newest stream from the journal. None: the turn is running.
    fn closing_event(&self, turn: u32) -> Option<Event> {
        let closing = self.loaded.as_ref()?.machine.history().turn(turn)?.closing_event(self.thread())?;
        Some(self.with_task(closing))
    }

    /// Returns an event with the task of a child turn.
    pub(super) fn with_task(&self, event: Event) -> Event {
        let task = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().task.as_ref());
        Event { task: task.map(|task| Box::new(task.origin.clone())), ..event }
    }

    fn snapshot(&self, view: TurnView) -> Event {
        self.with_task(snapshot(view))
    }

    pub(super) fn view(&self, turn: u32) -> Result<TurnView> {
        let now = self.shared.dependencies.environment.now();
        let view = self.loaded.as_ref().and_then(|loaded| loaded.machine.view(now, turn));
        view.ok_or_else(|| Error::not_found("turn", TurnId::new(self.thread().clone(), turn)))
    }

    /// Returns the view of a turn with the calls that the caller may approve.
    pub(super) fn view_for(&self, caller: &Principal, turn: u32) -> Result<TurnView> {
        let view = self.view(turn)?;
        let record = self.loaded.as_ref().and_then(|loaded| loaded.machine.history().turn(turn));
        let is_waiting = view.status == TurnStatus::AwaitingApproval;
        let approvable = record.filter(|_| is_waiting).map(|record| record.approvable(self.thread(), caller));
        let task = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().task.as_ref());
        let task = task.map(|task| Box::new(task.origin.clone()));
        Ok(TurnView { approvable: approvable.unwrap_or_default(), task, ..view })
    }

    /// Returns the start of a stream of the turn's events with numbers from `from`.
    pub(super) fn follow(&mut self, turn: u32, from: u64) -> Result<StreamStart> {
        let from = from.max(1);
        let closing = self.closing_event(turn);
        if let Some(buffer) = self.buffer(turn).filter(|buffer| buffer.covers(from)) {
            // If the caller has received all events including the closing event, the closing event is sent again, so
            // that the stream ends.
            let received = closing.filter(|closing| closing.number < from);
            return Ok(match received {
                Some(closing) => StreamStart { turn, initial_events: vec![closing], continuation: None },
                None => StreamStart { turn, initial_events: Vec::new(), continuation: Some((buffer, from)) },
            });
        }
        let mut view = self.view(turn)?;
        match closing {
            Some(closing) if closing.number <= from => {
                Ok(StreamStart { turn, initial_events: vec![closing], continuation: None })
            }
            Some(closing) => {
                view.next_event = closing.number;
                Ok(StreamStart { turn, initial_events: vec![self.snapshot(view), closing], continuation: None })
            }
            None => {
                let next = view.next_event;
                let continuation = Some((self.buffer_from(turn, next), next));
                Ok(StreamStart { turn, initial_events: vec![self.snapshot(view)], continuation })
            }
        }
    }

    /// Returns the event buffer if it belongs to this turn.
    fn buffer(&self, turn: u32) -> Option<Arc<TurnBuffer>> {
        let CloseOnDrop(buffer) = self.loaded.as_ref()?.buffer.as_ref()?;
        (buffer.turn() == turn).then(|| buffer.clone())
    }

    /// Returns the event buffer of a turn. If there is no buffer of this turn in memory, creates one that starts at
    /// event `next`.
    pub(super) fn buffer_from(&mut self, turn: u32, next: u64) -> Arc<TurnBuffer> {
        let existing = self.buffer(turn);
        existing.unwrap_or_else(|| {
            let options = &self.shared.options;
            let (bytes, count) = (options.event_buffer_bytes, options.event_buffer_count);
            let buffer = Arc::new(TurnBuffer::new(turn, next, bytes, count));
            if let Some(loaded) = &mut self.loaded {
                loaded.buffer = Some(CloseOnDrop(buffer.clone()));
            }
            buffer
        })
    }
}

/// Returns a snapshot event, which replaces all events before `view.next_event`.
fn snapshot(view: TurnView) -> Event {
    Event::new(view.turn.clone(), view.next_event.saturating_sub(1), EventKind::Snapshot(Box::new(view)))
}

fn unexpected() -> Error {
    Error::internal("the turn machine returned an unexpected kind of answer")
}
