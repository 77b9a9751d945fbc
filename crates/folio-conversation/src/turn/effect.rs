//! The output of the turn machine.

use folio_history::event::{CallView, Event, RoundView, TurnView};
use folio_history::journal::Intent;
use folio_history::thread::{Append, OpenTurnRow, ThreadHeader};
use folio_types::{CallId, Digest, Error, Timestamp, TurnId};
use serde_json::Value;

use super::Ticket;

/// An effect that the shell performs; effects are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append. Answered with `Appended`, `Refused`, or `Unknown` (also where the row that it opens could not be inserted
    /// before). One at a time.
    Append(Box<Append>),
    /// Reads whether an append is committed: its own row, then the header. Answered with `LookedUp`. The shell repeats
    /// the read with growing pauses until the store answers, or stops the conversation. It answers "not committed" only
    /// after a pause, and stops the conversation if the append was sent too often.
    LookUp {
        /// Batch id of the append.
        batch: u128,
        /// How often the append was sent.
        sends: u32,
    },
    /// Call the model with the turn as it is now. Answered with `ModelReplied` or `ModelFailed`, deltas before.
    CallModel(ModelCall),
    /// Stops model calls, reads and writes in progress; their later results are dropped.
    StopWork,
    /// Run a call that only reads. Answered with `ToolFinished`. Those of one answer of the machine may run concurrently.
    RunRead(ToolRun),
    /// Resolve what a write call will change. Answered with `Planned` within a bounded time: requests on the thread may
    /// wait for it.
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
    /// Answer a request.
    Answer(Ticket, Result<Answer, Box<Error>>),
    /// Remove a row of the index of open turns: its turn ended.
    RemoveOpenTurn(OpenTurnRow),
    /// The machine does not own the thread: the shell drops it, loads the thread, and gives the unanswered requests to
    /// the new machine. The shell bounds the number of consecutive reloads.
    Reload,
}

/// A model call that is to be made.
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

/// A call that is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// The call: the op key of its effect.
    pub call: CallId,
    /// Name of the tool.
    pub name: String,
    /// The arguments that it runs with (edited ones, where a decision edited them).
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
        /// The first event that belongs to this stream.
        from: u64,
        /// Whether the turn was there already.
        joined: bool,
    },
    /// To `Decide`: the round was carried out, and this closing event is what came of it. The same decisions again get
    /// the same.
    Decided {
        /// The closing event: a pause of a later round, or the end.
        closing: Box<Event>,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
    /// To `Decide`: these calls still wait.
    StillAwaiting {
        /// Number of the round, from 1.
        round: u32,
        /// The calls that need a decision and have none.
        missing: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// Answer to `Cancel`: the ended turn.
    Ended(Box<TurnView>),
    /// To `Rename`: the header with the title.
    Renamed(Box<ThreadHeader>),
}
