//! Threads: header, fence and append.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::{Entry, WorkingState};
use folio_types::access::Principal;
use folio_types::{Digest, DocumentId, Incarnation, OrgId, RequestId, ThreadId, TurnId, UserId};

/// Returns the id of the thread that a chat without a thread starts. It is derived from the request, so every gateway
/// and node derives the same id. The order of documents does not matter.
pub fn begun_by(principal: &Principal, profile: &str, documents: &[DocumentId], request: &RequestId) -> ThreadId {
    let mut documents: Vec<&str> = documents.iter().map(DocumentId::as_str).collect();
    documents.sort_unstable();
    let documents = documents.join(",");
    ThreadId::derive(&[principal.org.as_str(), principal.user.as_str(), profile, &documents, request.as_str()])
}

/// The header of a thread: one row, stored with the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHeader {
    /// Id of the thread.
    pub id: ThreadId,
    /// Id of the organization.
    pub org: OrgId,
    /// The user that started the thread.
    pub user: UserId,
    /// Name of the profile.
    pub profile: String,
    /// Ids of the documents.
    pub documents: Vec<DocumentId>,
    /// Its title; empty until the first message.
    pub title: String,
    /// The model of its last turn.
    pub model: Option<String>,
    /// Hidden from lists, removed at `expires_at`.
    pub ephemeral: bool,
    /// Time at which the thread is removed. None: it is kept.
    pub expires_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Epoch, which each new owner increments. 0: never owned.
    pub epoch: u64,
    /// The owner. None: the thread never had one.
    pub owner: Option<Incarnation>,
    /// Version, which each append increments.
    pub version: u64,
    /// Number of journal entries. The next entry gets this sequence number.
    pub entries: u64,
    /// Size of the journal in bytes.
    pub bytes: u64,
    /// Number of turns.
    pub turns: u32,
    /// The working state after the last ended turn.
    pub working: WorkingState,
    /// The open turn. None: no turn is open.
    pub open_turn: Option<OpenTurn>,
}

impl ThreadHeader {
    /// Returns true if the header is unchanged since this fence and no turn is open.
    pub fn is_unused_at(&self, fence: Fence) -> bool {
        (self.epoch, self.version) == (fence.epoch, fence.version) && self.open_turn.is_none()
    }

    /// Returns the ids of the resources that the thread refers to. Each must be live when the thread is created.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().map(DocumentId::as_str)
    }

    /// Returns the approximate size of the stored header in bytes.
    pub fn size_bytes(&self) -> usize {
        let extraction = self.working.extraction.as_ref();
        extraction.map_or(0, |extraction| extraction.data.to_string().len()) + 1024
    }
}

/// A thread as clients see it, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadView {
    /// The thread.
    pub id: ThreadId,
    /// The user that started the thread.
    pub user: UserId,
    /// Its profile.
    pub profile: String,
    /// Its documents.
    pub documents: Vec<DocumentId>,
    /// Its title; empty until the first message.
    pub title: String,
    /// The model of its last turn. None: it had no turn.
    pub model: Option<String>,
    /// Whether lists leave it out; it is removed at `expires_at`.
    pub ephemeral: bool,
    /// Time at which the thread is removed. None: it is kept.
    pub expires_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// The working state after the last ended turn.
    pub working: WorkingState,
    /// Number of turns.
    pub turns: u32,
    /// The turn that runs or waits.
    pub open_turn: Option<TurnId>,
}

impl From<ThreadHeader> for ThreadView {
    fn from(header: ThreadHeader) -> Self {
        let open_turn = header.open_turn.map(|open| TurnId::new(header.id.clone(), open.number));
        Self {
            id: header.id,
            user: header.user,
            profile: header.profile,
            documents: header.documents,
            title: header.title,
            model: header.model,
            ephemeral: header.ephemeral,
            expires_at: header.expires_at,
            created_at: header.created_at,
            updated_at: header.updated_at,
            working: header.working,
            turns: header.turns,
            open_turn,
        }
    }
}

/// The turn of a thread that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// Number of the turn in its thread.
    pub number: u32,
    /// Phase of the turn.
    pub phase: Phase,
    /// Expiry of the pause. None: the turn does not wait.
    pub expires_at: Option<Timestamp>,
}

/// The phase of an open turn, as stored in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The turn runs. Without a live owner it must be ended or resumed.
    Running,
    /// The turn waits for decisions.
    Paused,
    /// The turn executes decided calls.
    Executing,
    /// The turn is being ended.
    Closing,
}

/// The fencing condition of an append: it is refused unless the header has exactly this epoch and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The epoch that the header must have.
    pub epoch: u64,
    /// The version that the header must have.
    pub version: u64,
}

/// A conditional append: entries and a header change, committed atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Identifies this append, so that an unknown outcome can be looked up.
    pub batch: u128,
    /// The condition on the header.
    pub fence: Fence,
    /// The entries, in order; each at most [`folio_types::limits::ENTRY_BYTES`].
    pub entries: Vec<Entry>,
    /// A new owner with its epoch (a takeover). None: the owner does not change.
    pub take: Option<(u64, Incarnation)>,
    /// Changed fields of the header.
    pub change: HeaderChange,
    /// Row (request id → turn) of an accepted turn or a rename, inserted if it does not exist.
    pub request: Option<RequestRow>,
    /// The row of the open-turn index, if the append opens, resumes or takes over a turn. It is stored before the
    /// append.
    pub opens: Option<OpenTurnRow>,
    /// Time of the append.
    pub at: Timestamp,
}

/// Changed fields of the header. None: unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderChange {
    /// The new open turn.
    pub open_turn: Option<Option<OpenTurn>>,
    /// The new working state.
    pub working: Option<WorkingState>,
    /// The new title.
    pub title: Option<String>,
    /// The new model.
    pub model: Option<String>,
    /// The new number of turns.
    pub turns: Option<u32>,
}

/// The record of a request on a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    /// The client's id.
    pub request: RequestId,
    /// Number of the turn. 0: the request created or renamed the thread.
    pub turn: u32,
    /// Digest of the request's content.
    pub digest: Digest,
}

/// The store's answer to an append. An unknown outcome is an `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The append is committed. Contains the new header.
    Done(Box<ThreadHeader>),
    /// The header differed from the condition, or the request id exists. Nothing was written.
    Refused {
        /// The current header.
        header: Box<ThreadHeader>,
        /// The row of the request id, if the append inserts one and it exists.
        request: Option<RequestRow>,
    },
}

/// A row of the index of open turns. It is stored before the append that opens, resumes or takes over a turn. A process
/// may remove it only after it has read in the thread that the turn ended and that the header's epoch is not below the
/// row's epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenTurnRow {
    /// The organization (a column of a system index, which no request reads).
    pub org: OrgId,
    /// Id of the turn.
    pub turn: TurnId,
    /// The epoch of the append.
    pub epoch: u64,
    /// Time at which the row expires, later than the longest approval.
    pub until: Timestamp,
}
