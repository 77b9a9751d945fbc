//! Threads: header, fence and append.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::{Entry, WorkingState};
use folio_types::access::Principal;
use folio_types::{Digest, DocumentId, Incarnation, OrgId, RequestId, ThreadId, TurnId, UserId};

/// The id of the thread that a chat without one begins: it follows from the request, so that every gateway and every
/// node knows it alike. The same documents in another order begin the same thread.
pub fn begun_by(principal: &Principal, profile: &str, documents: &[DocumentId], request: &RequestId) -> ThreadId {
    let mut documents: Vec<&str> = documents.iter().map(DocumentId::as_str).collect();
    documents.sort_unstable();
    let documents = documents.join(",");
    ThreadId::derive(&[principal.org.as_str(), principal.user.as_str(), profile, &documents, request.as_str()])
}

/// The header of a thread: one row, stored with the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHeader {
    /// The thread.
    pub id: ThreadId,
    /// Its organization.
    pub org: OrgId,
    /// The user that started the thread.
    pub user: UserId,
    /// Its profile.
    pub profile: String,
    /// Its documents.
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
    /// Grows by one at each new owner; 0: never owned.
    pub epoch: u64,
    /// The owner. None: the thread never had one.
    pub owner: Option<Incarnation>,
    /// Grows by one at each append.
    pub version: u64,
    /// Entries of the journal so far; the next entry gets this sequence number.
    pub entries: u64,
    /// Bytes of the journal so far.
    pub bytes: u64,
    /// Turns so far.
    pub turns: u32,
    /// The working state after the last ended turn.
    pub working: WorkingState,
    /// The turn that is open.
    pub open_turn: Option<OpenTurn>,
}

impl ThreadHeader {
    /// Whether the header is unchanged since this fence and no turn is open.
    pub fn is_unused_at(&self, fence: Fence) -> bool {
        (self.epoch, self.version) == (fence.epoch, fence.version) && self.open_turn.is_none()
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
    /// Its number.
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
    /// It runs: without a live owner it is to be ended or resumed.
    Running,
    /// It waits for decisions: nothing runs.
    Paused,
    /// It carries out decided calls.
    Executing,
    /// It is being ended.
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

/// One conditional append: entries and what becomes of the header, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Identifies this append, so that an unknown outcome can be looked up.
    pub batch: u128,
    /// The condition on the header.
    pub fence: Fence,
    /// The entries, in order; each at most [`folio_types::limits::ENTRY_BYTES`].
    pub entries: Vec<Entry>,
    /// A new owner with the epoch that it takes (a takeover); none: the owner stays.
    pub take: Option<(u64, Incarnation)>,
    /// The header's fields that change.
    pub change: HeaderChange,
    /// The row (request id → turn) of an accepted turn, or of a rename, inserted if not there.
    pub request: Option<RequestRow>,
    /// The row of the open-turn index, if the append opens, resumes or takes over a turn. It is stored before the
    /// append.
    pub opens: Option<OpenTurnRow>,
    /// Time of the append.
    pub at: Timestamp,
}

/// The header's fields that an append changes; what is none stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderChange {
    /// The open turn from now on.
    pub open_turn: Option<Option<OpenTurn>>,
    /// The working state from now on.
    pub working: Option<WorkingState>,
    /// The title from now on.
    pub title: Option<String>,
    /// The model from now on.
    pub model: Option<String>,
    /// The count of turns from now on.
    pub turns: Option<u32>,
}

/// The record of a request on a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    /// The client's id.
    pub request: RequestId,
    /// The turn; 0: none, the request made or renamed the thread.
    pub turn: u32,
    /// Digest of the request's content.
    pub digest: Digest,
}

/// The store's answer to an append. An unknown outcome is an `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The append is committed; the header after it.
    Done(Box<ThreadHeader>),
    /// The header was not as expected, or the request id is taken; nothing was written. What is there now.
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
    /// The tenant (a column of a system index, read by no request).
    pub org: OrgId,
    /// The turn.
    pub turn: TurnId,
    /// The epoch under which it is opened, resumed or taken over.
    pub epoch: u64,
    /// Time at which the row expires; after the longest approval.
    pub until: Timestamp,
}
