//! The way in.

use std::sync::Arc;
use std::time::Duration;

use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::Stores;
use folio_tools::ToolSpec;
use folio_types::event::TurnView;
use folio_types::thread::ThreadHeader;
use folio_types::{Code, Environment, Error, Incarnation, Principal, Reason, RequestId, Result, ThreadId, TurnId};

use crate::command::{ApproveAnswer, ApproveCommand, ChatCommand, ForkCommand, NewThreadCommand};
use crate::options::Options;
use crate::snapshot::Snapshot;
use crate::stream::EventStream;

/// What conversations are built on.
#[derive(Clone)]
pub struct Dependencies {
    /// The stores.
    pub stores: Stores,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The meter that sees every model call.
    pub meter: SharedMeter,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// This life of the node: what the headers of its threads name as their owner.
    pub incarnation: Incarnation,
}

/// The conversations of this node. Cheap to clone.
///
/// Every method takes the principal, and nothing of another organization, or of another user (unless the principal is an
/// admin), is seen or touched: it is `NOT_FOUND`. A viewer may only read.
#[derive(Clone)]
pub struct Conversations {
    #[expect(dead_code, reason = "replaced by the supervisor's handle")]
    inner: Arc<(Dependencies, Options)>,
}

fn later() -> Error {
    Error::new(Code::Unimplemented, Reason::Internal, "not there yet")
}

impl Conversations {
    /// Starts the supervisor and the first sweep, which ends what an earlier life of this process left running.
    pub async fn start(dependencies: Dependencies, options: Options) -> Result<Self> {
        Ok(Self { inner: Arc::new((dependencies, options)) })
    }

    /// Starts a turn (or joins, resumes or repeats the one of this request id) and follows it. Comes back once the turn
    /// is accepted: an error means that it was not.
    pub async fn chat(&self, _principal: &Principal, _command: ChatCommand) -> Result<EventStream> {
        Err(later())
    }

    /// Records decisions; where the round is decided then, carries it out, makes one model call and answers. Dropping the
    /// future does not stop that.
    pub async fn approve(&self, _principal: &Principal, _command: ApproveCommand) -> Result<ApproveAnswer> {
        Err(later())
    }

    /// Goes on with a turn that failed retriably, and follows it. One that runs is joined.
    pub async fn resume(&self, _principal: &Principal, _turn: &TurnId) -> Result<EventStream> {
        Err(later())
    }

    /// Ends a turn: its model request is stopped at once, calls that did not run never do. Gives the turn as it ended; one
    /// that had ended before is given as it is.
    pub async fn cancel(&self, _principal: &Principal, _turn: &TurnId) -> Result<TurnView> {
        Err(later())
    }

    /// The turn as it is now.
    pub async fn get_turn(&self, _principal: &Principal, _turn: &TurnId) -> Result<TurnView> {
        Err(later())
    }

    /// The open turn of a thread as it is now, or none.
    pub async fn open_turn(&self, _principal: &Principal, _thread: &ThreadId) -> Result<Option<TurnView>> {
        Err(later())
    }

    /// The events of a turn from this number on (0 and 1: from the first), or a snapshot and those after it where they
    /// are gone. Ends with the closing event.
    pub async fn watch(&self, _principal: &Principal, _turn: &TurnId, _from_event: u64) -> Result<EventStream> {
        Err(later())
    }

    /// The tools of a profile (none: `document`), read-only and read-write.
    pub fn list_tools(&self, _profile: Option<&str>) -> Result<Vec<ToolSpec>> {
        Err(later())
    }

    /// Makes a thread without a message. The same request id gives the same thread.
    pub async fn create_thread(&self, _principal: &Principal, _command: NewThreadCommand) -> Result<ThreadHeader> {
        Err(later())
    }

    /// Gives a thread another title (1 to [`folio_types::limits::NAME_CHARS`] characters).
    pub async fn rename_thread(
        &self,
        _principal: &Principal,
        _thread: &ThreadId,
        _title: String,
    ) -> Result<ThreadHeader> {
        Err(later())
    }

    /// Removes a thread with its history; a running turn is cancelled first. One that is not there is `NOT_FOUND`, also
    /// when the same request is repeated.
    pub async fn delete_thread(
        &self,
        _principal: &Principal,
        _thread: &ThreadId,
        _request: Option<&RequestId>,
    ) -> Result<()> {
        Err(later())
    }

    /// Copies a thread up to a message into a new one of the same user, with the working state that belonged there.
    pub async fn fork_thread(&self, _principal: &Principal, _command: ForkCommand) -> Result<ThreadHeader> {
        Err(later())
    }

    /// What can be seen of the conversations now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    /// Refuses new work (`DRAINING`), lets running turns end until the deadline, then stops what is left: those turns are
    /// found ownerless and end failed, retriable. Waiting turns lose nothing.
    pub async fn drain(&self, _deadline: Duration) {}
}
