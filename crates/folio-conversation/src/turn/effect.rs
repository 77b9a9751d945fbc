//! What comes out of the machine.

use folio_history::event::{CallView, Event, RoundView, TurnView};
use folio_history::journal::Intent;
use folio_history::thread::{Append, OpenTurnRow, ThreadHeader};
use folio_types::{CallId, Digest, Error, Timestamp, TurnId};
use serde_json::Value;

use super::Ticket;

/// What the shell is to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append. Answered with `Appended`, `Refused`, or `Unknown` (also where the row that it opens could not be inserted
    /// before). One at a time.
    Append(Box<Append>),
    /// Find out whether an append stands: its own row, then the header. Answered with `LookedUp`; the shell repeats it,
    /// with growing pauses, until the store answers, or gives up and stops. It answers that the append does not stand only
    /// after a pause too, and gives up where it was sent often enough.
    LookUp {
        /// The append.
        batch: u128,
        /// How often it was sent.
        sends: u32,
    },
    /// Call the model with the turn as it is now. Answered with `ModelReplied` or `ModelFailed`, deltas before.
    CallModel(ModelCall),
    /// Stop the model call, reads and writes that are under way; what they still say is dropped.
    StopWork,
    /// Run a call that only reads. Answered with `ToolFinished`. Those of one answer of the machine may run concurrently.
    RunRead(ToolRun),
    /// Resolve what a write call will change. Answered with `Planned` within a bounded time: requests on the thread may
    /// wait for it.
    PlanTool(ToolRun),
    /// Make the deciding write of a call whose intent stands. Answered with `ToolFinished`.
    RunTool(ToolRun, Intent),
    /// Find out what became of a call whose intent stands: its op row, else the deciding write with what the intent
    /// expects, else close it as `conflict`. Answered with `ToolFinished` (`Done`); repeated until the store answers.
    Recover(ToolRun, Intent),
    /// Close the op row of a call whose intent stands as `aborted` unless one is there. Answered with `Closed`; repeated
    /// until the store answers.
    Close(ToolRun, Intent),
    /// Tell who watches the turn.
    Emit(Event),
    /// Answer a request.
    Answer(Ticket, Result<Answer, Box<Error>>),
    /// Remove a row of the index of open turns: its turn ended.
    RemoveOpenTurn(OpenTurnRow),
    /// This machine owns the thread no more, or never did: drop it, load the thread, and ask the new machine what has no
    /// answer yet. The shell bounds how often it does so in a row.
    Reload,
}

/// A model call that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// The turn.
    pub turn: TurnId,
    /// The round, from 1.
    pub round: u32,
    /// The attempt at this round, from 1.
    pub attempt: u32,
    /// The epoch under which it is made.
    pub epoch: u64,
    /// The model.
    pub model: String,
}

/// A call that is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// The call: the op key of its effect.
    pub call: CallId,
    /// The tool.
    pub name: String,
    /// The arguments that it runs with (edited ones, where a decision edited them).
    pub arguments: Value,
    /// Their digest: the op's.
    pub digest: Digest,
    /// The epoch under which it runs.
    pub epoch: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To `Start` and `Resume`: the turn is accepted, or was before (a repeated request); follow its events from this
    /// number on. Where they are gone, or the turn waits or has ended, that is a snapshot and the closing event.
    Streaming {
        /// The turn.
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
        /// The round.
        round: u32,
        /// The calls without a decision.
        missing: Vec<CallView>,
        /// From when no decision counts.
        expires_at: Timestamp,
    },
    /// To `Cancel`: the turn has ended so (cancelled now, or before in whatever way).
    Ended(Box<TurnView>),
    /// To `Rename`: the header with the title.
    Renamed(Box<ThreadHeader>),
}
