//! Output of the turn machine.

use folio_history::event::{CallView, Event, RoundView, TurnView};
use folio_history::journal::Intent;
use folio_history::thread::{Append, OpenTurnRow, ThreadHeader};
use folio_types::{CallId, Digest, Error, Timestamp, TurnId};
use serde_json::Value;

use super::Ticket;

/// An effect that the shell performs; effects are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append a batch. Answered with `Appended`, `Refused`, or `Unknown` (also if the open-turn row could not be
    /// inserted before). Only one append is in flight.
    Append(Box<Append>),
    /// Reads whether an append is committed: its own row, then the header. Answered with `LookedUp`. The shell repeats
    /// the read with growing pauses until the store answers, or stops the conversation. It answers "not committed" only
    /// after a pause, and stops the conversation if the append was sent too often.
    LookUp {
        /// Batch id of the append.
        batch: u128,
        /// Number of times that the append was sent.
        sends: u32,
    },
    /// Call the model with the current turn. Answered with deltas and then `ModelReplied` or `ModelFailed`.
    CallModel(ModelCall),
    /// Stops model calls, reads and writes in progress; their later results are dropped.
    StopWork,
    /// Run a read-only call. Answered with `ToolFinished`. Calls of one model answer may run concurrently.
    RunRead(ToolRun),
    /// Resolve the target of a write call. Answered with `Planned` within a bounded time, because requests on the
    /// thread may wait for it.
    PlanTool(ToolRun),
    /// Makes the deciding write of a call whose intent is committed. Answered with `ToolFinished`.
    RunTool(ToolRun, Intent),
    /// Recovers a call whose intent is committed: reads its op row, otherwise makes the deciding write that the intent
    /// expects, otherwise closes the op as `conflict`. Answered with `ToolFinished` (`Done`); repeated until the store
    /// answers.
    Recover(ToolRun, Intent),
    /// Closes the op row of a call whose intent is committed as `aborted`, unless the row exists. Answered with
    /// `Closed`; repeated until the store answers.
    Close(ToolRun, Intent),
    /// Sends an event to the watchers of the turn.
    Emit(Event),
    /// Answers a request.
    Answer(Ticket, Result<Answer, Box<Error>>),
    /// Removes the row of an ended turn from the index of open turns.
    RemoveOpenTurn(OpenTurnRow),
    /// The machine does not own the thread: the shell drops it, loads the thread, and gives the unanswered requests to
    /// the new machine. The shell bounds the number of consecutive reloads.
    Reload,
}

/// A model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// Id of the turn.
    pub turn: TurnId,
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of the attempt at this round, from 1.
    pub attempt: u32,
    /// Epoch of the call.
    pub epoch: u64,
    /// Name of the model.
    pub model: String,
}

/// A call to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// Id of the call, which is the op key of its effect.
    pub call: CallId,
    /// Name of the tool.
    pub name: String,
    /// The arguments of the call, after an edit by a decision.
    pub arguments: Value,
    /// Digest of the arguments; the digest of the op.
    pub digest: Digest,
    /// Epoch of the call.
    pub epoch: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Answer to `Start` and `Resume`: the turn is accepted, now or by an earlier request; its events follow from this
    /// number. If they are unavailable, or the turn waits or has ended: a snapshot and the closing event.
    Streaming {
        /// Number of the turn in its thread.
        turn: u32,
        /// Number of the first event of this stream.
        from: u64,
        /// True if the turn existed before.
        joined: bool,
    },
    /// Answer to `Decide`: the round was executed and led to this closing event. Equal decisions get an equal answer.
    Decided {
        /// The closing event: a pause of a later round, or the end.
        closing: Box<Event>,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
    /// Answer to `Decide`: these calls still wait for decisions.
    StillAwaiting {
        /// Number of the round, from 1.
        round: u32,
        /// Calls that still need a decision.
        missing: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// Answer to `Cancel`: the ended turn.
    Ended(Box<TurnView>),
    /// Answer to `Rename`: the header with the new title.
    Renamed(Box<ThreadHeader>),
}
