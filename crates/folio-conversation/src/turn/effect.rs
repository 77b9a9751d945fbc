//! Output of the turn machine.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_history::event::{CallView, Event, RoundView, TurnView};
use folio_history::journal::{Group, Intent};
use folio_history::task::ChildEnd;
use folio_history::thread::{Append, OpenTurnRow, ThreadHeader};
use folio_types::{CallId, Digest, Error, Timestamp, TurnId};
use serde_json::Value;

use super::Ticket;

/// An effect, which the shell must perform. Effects are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append a batch. Answered with `Appended`, `AppendRefused` or `AppendUnknown`; also `AppendUnknown` if the preceding
    /// insertion of the open-turn row failed. At most one append is in flight.
    Append(Box<Append>),
    /// Read whether an append is committed: first its batch row, then the header. Answered with `LookedUp`. The shell
    /// repeats the read with growing pauses until the store answers, or stops the conversation. It answers "not
    /// committed" only after a pause, and stops the conversation if the append was sent too often. `sends`: number of
    /// times that the append was sent.
    LookUp { batch: u128, sends: u32 },
    /// Call the model with the current turn. Answered with deltas and then `ModelReplied` or `ModelFailed`.
    CallModel(ModelCall),
    /// Stop the model call, reads and writes in progress. Results that arrive later are dropped.
    StopWork,
    /// Run a read-only call. Answered with `ToolFinished`. Calls of one model answer may run concurrently.
    RunRead(ToolRun),
    /// Resolve the target of a write call. Answered with `Planned`, or, for a call of `run_tasks`, with `TasksPlanned`. With [`Patience::Once`], one attempt is made,
    /// because requests on the thread may wait for the plan.
    PlanTool(ToolRun, Patience),
    /// Make the deciding write of a call whose intent is committed. Answered with `ToolFinished`.
    RunTool(ToolRun, Intent),
    /// Recover a call whose intent is committed: read its op row; if there is none, make the deciding write that the
    /// intent describes, for as long as the store does not answer and patience lasts; if that fails, close the op as
    /// `conflict`. Answered with `ToolFinished` (`Done`). Repeated until the store answers.
    Recover(ToolRun, Intent),
    /// Close the op row of a call whose intent is committed as `aborted`, unless the row exists. Answered with
    /// `Closed`. Repeated until the store answers.
    Close(ToolRun, Intent),
    /// Read the states of the children of a group, except those that have ended, and return the parts of credit budgets of
    /// children that have ended. Answered with `ChildrenRead`. Repeated until the store answers.
    ReadChildren(Box<GroupRun>),
    /// Start the child turn with this number, or continue it. Idempotent. Answered with `ChildStarted`.
    StartChild(Box<GroupRun>, u32),
    /// End every child of a group of an ending turn: cancel its turn, or prevent that it starts. Answered with
    /// `ChildrenEnded`. Repeated until the stores and the nodes of the children answer.
    EndChildren(Box<GroupRun>),
    /// Notify the owner of the parent that a child turn has ended. A lost notice is harmless: the sweep finds the group.
    NotifyParent(TurnId),
    /// Send an event to the watchers of the turn.
    Emit(Event),
    /// Answer a request.
    Answer(Ticket, Result<Answer, Box<Error>>),
    /// Remove the row of an ended turn from the open-turn index.
    RemoveOpenTurn(OpenTurnRow),
    /// Drop the machine, because it does not own the thread. Load the thread, and pass the unanswered requests to the
    /// new machine. The shell bounds the number of consecutive reloads.
    Reload,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    pub turn: TurnId,
    /// Number of the round, from 1. 0: the summary before the first round.
    pub round: u32,
    /// Number of the attempt at this round, from 1.
    pub attempt: u32,
    /// Epoch of the owner.
    pub epoch: u64,
    pub model: String,
    /// Running time that the turn has left, or the time of a summary. At its end, the call fails with
    /// `RUNNING_TIME_EXCEEDED`. None: no limit.
    pub time_left: Option<Duration>,
}

/// Behaviour of a call while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Report that the store is unavailable.
    Once,
    /// Retry until the store answers, at least for the setting `effect_patience_seconds`. Report
    /// [`Command::StoreAwaited`](super::Command::StoreAwaited) at the first failure.
    Retry,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// Id of the call, which is also the op key of its write.
    pub call: CallId,
    pub name: String,
    /// The arguments after an edit by a decision, with ids instead of references.
    pub arguments: Value,
    /// Digest of the arguments, recorded in the op row.
    pub digest: Digest,
    /// Epoch of the owner.
    pub epoch: u64,
}

/// A group whose child turns have not all ended.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRun {
    /// The call of `run_tasks`, with ids instead of references.
    pub run: ToolRun,
    pub group: Group,
    /// Ends of children that this owner has read, by number.
    pub ended: BTreeMap<u32, ChildEnd>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Answer to `Start` and `Resume`: this or an earlier request was accepted, and the events follow from `from`. If
    /// these events are unavailable, the stream starts with a snapshot. If the turn waits or has ended, the closing
    /// event follows. `joined`: an earlier request started the turn.
    Streaming { turn: u32, from: u64, joined: bool },
    /// Answer to `Decide`: outcome of the executed round. Equal decisions get an equal answer. `closing`: a pause of a
    /// later round, or the end. `round`: the decided round with its results.
    Decided { closing: Box<Event>, round: Box<RoundView> },
    /// Answer to `Decide`: the calls in `missing` still need a decision. Decisions are refused from `expires_at` on.
    StillAwaiting { round: u32, missing: Vec<CallView>, expires_at: Timestamp },
    /// Answer to `Cancel`: the ended turn.
    Ended(Box<TurnView>),
    /// Answer to `Rename`: the header with the new title.
    Renamed(Box<ThreadHeader>),
}
