//! Messages to a conversation actor.

use std::sync::Arc;

use folio_history::event::TurnView;
use folio_history::thread::{NewThread, RequestRow, ThreadHeader};
use folio_llm::Catalogue;
use folio_trace::TraceContext;
use folio_types::op::OpKey;
use folio_types::policy::Policy;
use folio_types::{Digest, Error, Principal, RequestId, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::events::StreamStart;
use crate::turn::{Command, Delta};
use folio_history::command::ApproveAnswer;
use folio_history::command::{ApproveCommand, ChatCommand, ForkThreadCommand};

/// A message to an actor.
pub(crate) enum Msg {
    /// A request of a caller. `permit` counts it as in flight; `trace` is the trace context of the caller.
    Request { principal: Principal, request: Request, permit: OwnedSemaphorePermit, trace: Option<TraceContext> },
    /// A task of this generation's machine finished with this command.
    TaskDone { generation: u64, command: Command },
    /// Deltas of a model's answer.
    Deltas { generation: u64, deltas: Deltas },
    /// A task of this generation's machine cannot continue.
    Stop { generation: u64, error: Error },
    /// The store permanently refuses an append of this generation's machine.
    Unwritable { generation: u64, error: Error },
    /// The thread was deleted, or cannot be created.
    ThreadDeleted { generation: u64, error: Error },
    /// Opens the stream of a turn's events from this number on.
    Follow { turn: u32, from: u64, reply: Reply<StreamStart> },
    /// Another owner published events of the thread under this epoch.
    Replaced { epoch: u64 },
    /// Checks whether the open turn expired or has no owner.
    Sweep,
    /// Publishes the state of the open turn again, because Redis lost it.
    Republish,
    /// The thread expired.
    RemoveThread,
    /// The removal of the thread succeeded or failed.
    Removed(Result<()>),
    /// Leaves memory if the conversation is idle.
    LeaveIfIdle,
    /// Drops the history if the conversation is idle.
    Forget,
    /// The node drains: the actor starts no new work.
    Drain,
    /// Panics, for tests.
    #[cfg(test)]
    Break,
}

/// Channel for an answer. The receiver may be closed.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// A request of a caller.
pub(crate) enum Request {
    Chat(Box<PreparedChat>, Reply<StreamStart>),
    Approve(Box<ApproveCommand>, Reply<ApproveAnswer>),
    Resume(u32, Reply<StreamStart>),
    Cancel(u32, Reply<TurnView>),
    GetTurn(u32, Reply<TurnView>),
    OpenTurn(Reply<Option<TurnView>>),
    Watch(u32, u64, Reply<StreamStart>),
    /// New title, and the request row if the request has an id.
    Rename(String, Option<RequestRow>, Reply<ThreadHeader>),
    /// The removing request, if it has an id.
    Delete(Option<OpKey>, Reply<()>),
    Fork(Box<ForkThreadCommand>, Reply<ThreadHeader>),
}

/// A chat whose thread is known, with everything that is read before the actor handles it.
#[derive(Debug, Clone)]
pub(crate) struct PreparedChat {
    pub(crate) command: ChatCommand,
    /// The client's request id, or a generated one.
    pub(crate) request: RequestId,
    /// Digest of the request's content.
    pub(crate) digest: Digest,
    /// The new thread of the chat. None: the chat names a thread.
    pub(crate) new: Option<Arc<NewThread>>,
    /// Trace context of the caller.
    pub(crate) trace: Option<TraceContext>,
    /// The organization's policy.
    pub(crate) policy: Arc<Policy>,
    /// The models of the organization.
    pub(crate) models: Arc<Catalogue>,
    /// The organization's approval time to live. None: the default.
    pub(crate) approval_ttl_seconds: Option<u32>,
}

/// Deltas of a model's answer that were ready together.
pub(crate) struct Deltas {
    pub(crate) round: u32,
    pub(crate) attempt: u32,
    pub(crate) deltas: Vec<Delta>,
    /// Permit of this message. Dropping it allows the next one.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// Returns the thread that the request creates if it does not exist.
    pub(crate) fn begins(&self) -> Option<&Arc<NewThread>> {
        match self {
            Self::Chat(ask, _) => ask.new.as_ref(),
            _ => None,
        }
    }

    /// Answers with an error.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Chat(_, reply) | Self::Resume(_, reply) | Self::Watch(_, _, reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Approve(_, reply) => drop(reply.send(Err(error))),
            Self::Cancel(_, reply) | Self::GetTurn(_, reply) => drop(reply.send(Err(error))),
            Self::OpenTurn(reply) => drop(reply.send(Err(error))),
            Self::Rename(_, _, reply) | Self::Fork(_, reply) => drop(reply.send(Err(error))),
            Self::Delete(_, reply) => drop(reply.send(Err(error))),
        }
    }
}
