//! What an actor is told.

use std::sync::Arc;

use folio_history::event::TurnView;
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_llm::Catalogue;
use folio_storage::NewThread;
use folio_trace::TraceContext;
use folio_types::op::OpKey;
use folio_types::policy::Policy;
use folio_types::{Digest, Error, Principal, RequestId, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::command::ApproveAnswer;
use crate::events::Following;
use crate::turn::{Command, Delta};
use folio_history::command::{ApproveCommand, ChatCommand, ForkThreadCommand};

/// A message to an actor.
pub(crate) enum Msg {
    /// Somebody asks; the permit is the request's place among those under way, the trace where it was asked.
    Ask { principal: Principal, request: Request, permit: OwnedSemaphorePermit, trace: Option<TraceContext> },
    /// A task of the machine of this generation is done.
    Did { generation: u64, command: Command },
    /// Pieces of a model's answer.
    Pieces { generation: u64, pieces: Pieces },
    /// A task of the machine of this generation cannot go on.
    GiveUp { generation: u64, error: Error },
    /// The store never takes what the machine of this generation wants to append.
    Unwritable { generation: u64, error: Error },
    /// The store says that the thread is not there any more, or cannot begin.
    ThreadGone { generation: u64, error: Error },
    /// Where the events of a turn are, from this number on.
    Follow { turn: u32, from: u64, reply: Reply<Following> },
    /// The events of the thread's turn are told under this epoch.
    Replaced { epoch: u64 },
    /// Look whether the open turn has expired or has no owner.
    Sweep,
    /// The store where nodes tell each other has lost what waits here.
    TellAgain,
    /// The thread's time is over.
    RemoveThread,
    /// The thread was removed, or could not be.
    Removed(Result<()>),
    /// Leave memory if there is nothing to do.
    LeaveIfIdle,
    /// Let go of the history if there is nothing to do.
    Forget,
    /// The node shuts down: nothing new begins.
    Drain,
    /// An invariant breaks.
    #[cfg(test)]
    Break,
}

/// Where an answer goes. Nobody may be there any more.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// What is asked.
pub(crate) enum Request {
    Chat(Box<ChatAsk>, Reply<Following>),
    Approve(Box<ApproveCommand>, Reply<ApproveAnswer>),
    Resume(u32, Reply<Following>),
    Cancel(u32, Reply<TurnView>),
    GetTurn(u32, Reply<TurnView>),
    OpenTurn(Reply<Option<TurnView>>),
    Watch(u32, u64, Reply<Following>),
    /// The title, and the row of the request where it has an id.
    Rename(String, Option<RequestRow>, Reply<ThreadHeader>),
    /// The request that removes the thread, where it has an id.
    Delete(Option<OpKey>, Reply<()>),
    Fork(Box<ForkThreadCommand>, Reply<ThreadHeader>),
}

/// A chat whose thread is known.
#[derive(Debug, Clone)]
pub(crate) struct ChatAsk {
    pub(crate) command: ChatCommand,
    /// The client's id, or one that was made for it.
    pub(crate) request: RequestId,
    /// Digest of the request's content.
    pub(crate) digest: Digest,
    /// The thread that begins with it, unless it is there already.
    pub(crate) new: Option<Arc<NewThread>>,
    /// Where it was asked.
    pub(crate) trace: Option<TraceContext>,
    /// The organization's policy.
    pub(crate) policy: Arc<Policy>,
    /// What the organization may call.
    pub(crate) models: Arc<Catalogue>,
    /// How long a pause waits, where the organization says it.
    pub(crate) approval_ttl_seconds: Option<u32>,
}

/// Pieces of a model's answer that were ready together.
pub(crate) struct Pieces {
    pub(crate) round: u32,
    pub(crate) attempt: u32,
    pub(crate) pieces: Vec<Delta>,
    /// Dropped when they are taken: then the next may come.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// The thread that it begins where there is none.
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
