//! Messages of a conversation actor.

use std::sync::Arc;

use folio_history::event::TurnView;
use folio_history::thread::{NewThread, RequestRow, ThreadHeader};
use folio_llm::Catalogue;
use folio_resources::policy::Policy;
use folio_trace::TraceContext;
use folio_types::op::OpKey;
use folio_types::{BudgetPart, Digest, Error, Principal, RequestId, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::events::StreamStart;
use crate::turn::{Command, Delta};
use folio_history::command::{ApproveAnswer, ApproveCommand, ChatCommand, ForkThreadCommand};

pub(crate) enum Msg {
    /// `permit` counts the request as in flight. `trace` is the caller's trace context.
    Request { principal: Principal, request: Request, permit: OwnedSemaphorePermit, trace: Option<TraceContext> },
    /// A message of a task. Ignored unless the actor's machine has this generation.
    FromTask { generation: u64, message: TaskMsg },
    /// Opens a stream of the turn's events with numbers from `from`.
    Follow { turn: u32, from: u64, reply: Reply<StreamStart> },
    /// Another owner published events of the thread with this epoch.
    Replaced { epoch: u64 },
    /// Check whether the open turn has expired or has no owner.
    Sweep,
    /// Publish the state of the pending turn again, because Redis lost it.
    Republish,
    /// The thread expired.
    DeleteThread,
    /// Result of the deletion of the thread.
    Deleted(Result<()>),
    /// Stop the actor if the conversation is idle.
    StopIfIdle,
    /// Drop the history if the conversation is idle.
    DropHistory,
    /// The node drains: refuse queued chats and start no new work.
    Drain,
    /// Panics in tests.
    #[cfg(test)]
    Break,
}

#[expect(
    clippy::large_enum_variant,
    reason = "most messages of tasks are commands; a box would cost an allocation each"
)]
pub(crate) enum TaskMsg {
    /// The task finished with this command for the machine.
    Done(Command),
    Deltas(Deltas),
    /// The task failed, so the conversation must stop.
    Stop(Error),
    /// The store permanently refuses an append.
    Unwritable(Error),
    /// The thread was deleted or cannot be created.
    ThreadDeleted(Error),
}

/// The receiver may be dropped.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

pub(crate) enum Request {
    Chat(Box<PreparedChat>, Reply<StreamStart>),
    Approve(Box<ApproveCommand>, Reply<ApproveAnswer>),
    Resume(u32, Reply<StreamStart>),
    Cancel(u32, Reply<TurnView>),
    /// The answer contains the part of a credit budget whose use the caller reads. None: the turn has no budget.
    GetTurn(u32, Reply<(TurnView, Option<BudgetPart>)>),
    OpenTurn(Reply<Option<TurnView>>),
    Watch(u32, u64, Reply<StreamStart>),
    /// The title, and the row of the request if it has an id.
    Rename(String, Option<RequestRow>, Reply<ThreadHeader>),
    /// Key of the request if it has an id.
    Delete(Option<OpKey>, Reply<()>),
    Fork(Box<ForkThreadCommand>, Reply<ThreadHeader>),
}

/// A chat whose thread id is known, with everything that is read before the actor handles it.
#[derive(Debug, Clone)]
pub(crate) struct PreparedChat {
    pub(crate) command: ChatCommand,
    /// The client's request id or a generated one.
    pub(crate) request: RequestId,
    /// Digest of the request's content.
    pub(crate) digest: Digest,
    /// Thread to create. None: the chat names an existing thread.
    pub(crate) new: Option<Arc<NewThread>>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) policy: Arc<Policy>,
    /// Models that the organization can use.
    pub(crate) models: Arc<Catalogue>,
    /// Organization's approval time to live in seconds. None: the default.
    pub(crate) approval_ttl_seconds: Option<u32>,
}

/// Deltas of a model's answer that were received within one interval.
pub(crate) struct Deltas {
    pub(crate) round: u32,
    pub(crate) attempt: u32,
    pub(crate) deltas: Vec<Delta>,
    /// Permit of this message. Dropping it permits the next message.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// Returns the thread that the request creates unless it exists.
    pub(crate) fn new_thread(&self) -> Option<&Arc<NewThread>> {
        match self {
            Self::Chat(prepared, _) => prepared.new.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Chat(_, reply) | Self::Resume(_, reply) | Self::Watch(_, _, reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Approve(_, reply) => drop(reply.send(Err(error))),
            Self::Cancel(_, reply) => drop(reply.send(Err(error))),
            Self::GetTurn(_, reply) => drop(reply.send(Err(error))),
            Self::OpenTurn(reply) => drop(reply.send(Err(error))),
            Self::Rename(_, _, reply) | Self::Fork(_, reply) => drop(reply.send(Err(error))),
            Self::Delete(_, reply) => drop(reply.send(Err(error))),
        }
    }
}
