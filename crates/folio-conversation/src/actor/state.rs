//! State of a conversation actor. An idle actor is small: [`LoadedConversation`] can be dropped, and the state of a running turn is
//! dropped with the turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use folio_history::TurnRecord;
use folio_history::event::TurnView;
use folio_history::thread::{NewThread, Phase, ThreadHeader};
use folio_quotas::Slot;
use folio_storage::Stores;
use folio_tools::ProfileTools;
use folio_types::op::OpKey;
use folio_types::{CallId, Error, OrgId, Principal, Reason, ThreadId};
use ractor::ActorRef;
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Span;

use super::Start;
use super::message::{Msg, PreparedChat, Reply};
use super::publication::Publication;
use super::spans::{Traces, TurnSpans};
use crate::audit::Auditor;
use crate::context::ContextLoader;
use crate::current_access::CurrentAccess;
use crate::events::{StreamStart, TurnBuffer};
use crate::shared::Shared;
use crate::snapshot::ActorPhase;
use crate::supervisor::{Activity, BudgetReservation, Key, StopReason};
use crate::turn::{Command, Machine, Ticket};
use crate::work::{TaskContext, UsageRecorder};
use folio_history::command::ApproveAnswer;

pub(crate) struct State {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
    pub(super) myself: ActorRef<Msg>,
    pub(super) activity: Arc<Activity>,
    /// Stops every task of this actor. Cancelled when the actor is dropped.
    pub(super) token: CancellationToken,
    _stop: DropGuard,
    pub(super) loaded: Option<Box<LoadedConversation>>,
    /// Incremented whenever the machine is replaced or dropped.
    pub(super) generation: u64,
    pub(super) next_ticket: u64,
    /// Consecutive reloads without a committed append.
    pub(super) reloads: u32,
    /// Turn for which the store permanently refused an append. A second refusal stops the conversation.
    pub(super) unwritable: Option<u32>,
    /// Callers that wait for the deletion of the thread. None: the thread is not being deleted.
    pub(super) deletion_waiters: Option<Vec<Reply<()>>>,
    /// Key of the deleting request if it has an id.
    pub(super) deleted_by: Option<OpKey>,
    /// Number of the running turn, and its slot among the organization's concurrent turns.
    pub(super) turn_slot: Option<(u32, Slot)>,
    /// Error that stops the conversation.
    pub(super) stop_error: Option<Error>,
    /// Time before which a sweep does not read the states of child turns again.
    pub(super) next_children_check: Option<Instant>,
    pub(super) traces: Traces,
}

pub(super) struct LoadedConversation {
    pub(super) machine: Machine,
    /// Reservation in the memory budget of histories.
    pub(super) reservation: BudgetReservation,
    pub(super) profile: Arc<ProfileTools>,
    /// Thread to create. None once its first append is committed.
    pub(super) new: Option<Arc<NewThread>>,
    /// Stops all tasks of this machine.
    pub(super) token: CancellationToken,
    /// Stops the model call and the tool calls in progress.
    pub(super) work: CancellationToken,
    /// Unanswered requests.
    pub(super) pending: BTreeMap<Ticket, Pending>,
    /// Chats that wait behind the running turn.
    pub(super) queue: VecDeque<Queued>,
    /// Events of the newest turn.
    pub(super) buffer: Option<CloseOnDrop>,
    /// Shared state of the open turn's work.
    pub(super) turn: Option<TurnWork>,
    /// The usage of the tool calls of the newest round. A call that is recovered or closed continues that of its first attempt.
    pub(super) spent: BTreeMap<CallId, Arc<UsageRecorder>>,
    pub(super) publication: Publication,
    pub(super) audit: Auditor,
    /// Policy and memberships that the newest approval read.
    pub(super) current_access: Option<CurrentAccess>,
}

impl LoadedConversation {
    /// Returns true if the work of this turn has its shared state.
    pub(super) fn has_turn(&self, number: u32) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.turn == number)
    }
}

/// A request that the machine has not answered.
pub(super) struct Pending {
    /// Passed again to a machine that replaces the current one.
    pub(super) command: Command,
    pub(super) recipient: Recipient,
    /// Counts the request as in flight.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Recipient of the machine's answer to a request.
pub(super) enum Recipient {
    /// Receives the stream of a new turn. If the thread is busy, a chat with `IfBusy::Enqueue` is queued.
    Chat { prepared: Option<Box<PreparedChat>>, principal: Principal, reply: Reply<StreamStart> },
    /// Receives the stream of a resumed turn.
    Stream(Reply<StreamStart>),
    /// Receives the outcome of the decisions.
    Approve { turn: u32, reply: Reply<ApproveAnswer> },
    /// Receives the ended turn.
    Cancel(Reply<TurnView>),
    /// Receives the renamed thread.
    Rename(Reply<ThreadHeader>),
    /// The answer lets the deletion of the thread continue.
    Delete,
}

impl Recipient {
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Chat { reply, .. } | Self::Stream(reply) => drop(reply.send(Err(error))),
            Self::Approve { reply, .. } => drop(reply.send(Err(error))),
            Self::Cancel(reply) => drop(reply.send(Err(error))),
            Self::Rename(reply) => drop(reply.send(Err(error))),
            Self::Delete => {}
        }
    }
}

pub(super) struct Queued {
    pub(super) prepared: Box<PreparedChat>,
    pub(super) principal: Principal,
    pub(super) reply: Reply<StreamStart>,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// State that the model calls and tool calls of one turn share.
pub(super) struct TurnWork {
    pub(super) turn: u32,
    pub(super) spans: TurnSpans,
    pub(super) context: Arc<Mutex<ContextLoader>>,
    /// Number of writes. A context that was read before a write is outdated.
    pub(super) write_counter: Arc<AtomicU64>,
}

/// An event buffer that stops its readers with an error when the actor stops.
pub(super) struct CloseOnDrop(pub(super) Arc<TurnBuffer>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(crate::events::stopped());
    }
}

impl State {
    pub(super) fn new(myself: ActorRef<Msg>, start: Start) -> Self {
        let token = start.shared.token.child_token();
        Self {
            shared: start.shared,
            key: start.key,
            myself,
            activity: start.activity,
            _stop: token.clone().drop_guard(),
            token,
            loaded: None,
            generation: 0,
            next_ticket: 0,
            reloads: 0,
            unwritable: None,
            deletion_waiters: None,
            deleted_by: None,
            turn_slot: None,
            stop_error: None,
            next_children_check: None,
            traces: Traces::default(),
        }
    }

    pub(super) fn org(&self) -> &OrgId {
        &self.key.0
    }

    pub(super) fn thread(&self) -> &ThreadId {
        &self.key.1
    }

    pub(super) fn stores(&self) -> &Stores {
        &self.shared.dependencies.stores
    }

    /// Returns the span of the running turn, or an empty span.
    pub(super) fn span(&self) -> Span {
        let turn = self.loaded.as_ref().and_then(|loaded| loaded.turn.as_ref());
        turn.map_or_else(Span::none, |turn| turn.spans.current().clone())
    }

    /// Returns the context of a task that `token` stops.
    pub(super) fn task_context(&self, token: CancellationToken) -> TaskContext {
        TaskContext {
            shared: self.shared.clone(),
            org: self.org().clone(),
            thread: self.thread().clone(),
            actor: self.myself.clone(),
            generation: self.generation,
            token,
            span: self.span(),
        }
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// Updates the actor's activity in snapshots, its memory reservation and its slot.
    pub(super) fn update_activity(&mut self) {
        let Some(loaded) = &mut self.loaded else {
            return self.activity.update(ActorPhase::Idle, false, 0, 0, 0);
        };
        let events = loaded.buffer.as_ref().map_or(0, |buffer| buffer.0.bytes());
        loaded.reservation.resize(loaded.machine.header().bytes.saturating_add(events));
        let is_idle = loaded.machine.can_be_dropped();
        let phase = match loaded.machine.phase() {
            _ if is_idle => ActorPhase::Idle,
            Some(Phase::Executing | Phase::AwaitingChildren) => ActorPhase::Tools,
            Some(Phase::Running) => ActorPhase::Model,
            Some(Phase::Paused | Phase::Closing) | None => ActorPhase::Storing,
        };
        let busy =
            !is_idle || !loaded.pending.is_empty() || !loaded.queue.is_empty() || self.deletion_waiters.is_some();
        let watchers = loaded.buffer.as_ref().map_or(0, |buffer| buffer.0.followers());
        let was_busy = self.activity.is_busy();
        self.activity.update(phase, busy, loaded.queue.len(), watchers, loaded.reservation.bytes());
        // A turn that no chat started (an approval, a takeover) was admitted earlier and takes a slot regardless of the
        // quota. A turn with child turns leaves its slot to them.
        if !busy || loaded.machine.has_open_group() {
            self.turn_slot = None;
        } else if !is_idle {
            let turn = loaded.machine.history().last().map_or(0, TurnRecord::number);
            // The slot of a turn that was queued behind another turn replaces the slot of that turn.
            if self.turn_slot.as_ref().is_none_or(|(number, _)| *number < turn) {
                let slot = self.shared.dependencies.turn_slots.join(&self.key.0, &self.slot_name(turn));
                self.turn_slot = Some((turn, slot));
            }
        }
        if was_busy && !busy {
            self.shared.idled.notify_waiters();
        }
    }

    /// Stops the actor and refuses its waiting requests. New requests start another actor.
    pub(super) fn stop(&mut self, reason: StopReason) {
        self.shared.table.remove(&self.key, self.myself.get_id());
        self.token.cancel();
        let stop_error = self.stop_error.take();
        let error = match reason {
            StopReason::ThreadDeleted => self.not_found(),
            StopReason::Stopped => crate::shared::draining(),
            StopReason::Idle | StopReason::OwnedElsewhere | StopReason::StoreFailed | StopReason::Failed => {
                stop_error.clone().unwrap_or_else(|| {
                    Error::unavailable(Reason::StoreUnavailable, "the conversation was stopped; retry")
                        .retry_after(std::time::Duration::from_secs(1))
                })
            }
        };
        match (self.loaded.as_ref().and_then(|loaded| loaded.buffer.as_ref()), stop_error) {
            // Watchers of the turn reconnect to the new owner.
            (Some(buffer), Some(_)) if reason == StopReason::OwnedElsewhere => buffer.0.redirect_readers(),
            (Some(buffer), Some(error)) => buffer.0.close(error),
            _ => {}
        }
        self.refuse_all(&error);
        self.loaded = None;
    }

    pub(super) fn refuse_all(&mut self, error: &Error) {
        let Some(loaded) = &mut self.loaded else { return };
        std::mem::take(&mut loaded.pending).into_values().for_each(|pending| pending.recipient.refuse(error.clone()));
        loaded.queue.drain(..).for_each(|queued| drop(queued.reply.send(Err(error.clone()))));
    }
}
