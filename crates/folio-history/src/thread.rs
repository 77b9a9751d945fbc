//! Threads: the header as a kind of resource, with its changes, list row and filter; fence and append.
//!
//! A thread is no [`folio_resources::Resource`]: its deciding write is an append under a fence. [`crate::thread_write`]
//! decides it.

use std::collections::BTreeSet;

use folio_resources::{Condition, ListEntry, ListRow, term};
use folio_types::access::Principal;
use folio_types::op::OpKey;
use folio_types::{
    Digest, DocumentId, Error, Incarnation, OrgId, RequestId, Result, ThreadId, Timestamp, TurnId, UserId,
};
use serde::{Deserialize, Serialize};

use crate::journal::{Entry, WorkingState};

/// Returns the id of the thread that a chat without a thread starts. It is derived from the request, so every gateway
/// and node derives the same id. The order of documents does not matter.
pub fn chat_thread_id(principal: &Principal, profile: &str, documents: &[DocumentId], request: &RequestId) -> ThreadId {
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
    /// The title of the thread; empty until the first message.
    pub title: String,
    /// The model of the last turn. None: the thread had no turn.
    pub model: Option<String>,
    /// Whether the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// Time at which the thread is removed. None: the thread is kept.
    pub expires_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Epoch, which each new owner increments. 0: the thread never had an owner.
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
    /// Returns the fence that the next append needs.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, version: self.version }
    }

    /// Returns true if the header is unchanged since this fence and no turn is open.
    pub fn is_unused_at(&self, fence: Fence) -> bool {
        self.fence() == fence && self.open_turn.is_none()
    }

    /// Returns true if the thread does not expire at this time or before it.
    pub fn is_kept_at(&self, at: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > at)
    }

    /// Returns the header after an append whose encoded entries have this number and size.
    ///
    /// # Errors
    /// `INTERNAL` if a takeover does not raise the epoch.
    pub fn after(&self, append: &Append, added: JournalSize) -> Result<Self> {
        let mut header = self.clone();
        if let Some((epoch, owner)) = &append.new_owner {
            if *epoch <= self.epoch {
                return Err(Error::internal(format!("epoch {epoch} is not above {}: epochs only grow", self.epoch)));
            }
            header.epoch = *epoch;
            header.owner = Some(owner.clone());
        }
        header.version += 1;
        header.updated_at = append.at;
        header.entries += added.entries;
        header.bytes += added.bytes;
        append.change.apply(&mut header);
        Ok(header)
    }

    /// Returns the record that replaces the header when the thread is removed; `by`: the request that removed it.
    pub fn tombstone(&self, by: Option<OpKey>) -> ThreadRecord {
        ThreadRecord::Tombstone { epoch: self.epoch, version: self.version, by }
    }

    /// Returns the list row of the thread.
    pub fn list_row(&self) -> ListRow {
        let mut terms: BTreeSet<String> = self.references().map(|id| term("of", id)).collect();
        terms.insert(term("user", &self.user));
        terms.insert(term("profile", &self.profile));
        ListRow { id: self.id.to_string(), name: self.title.clone(), terms, ..ListRow::default() }
    }

    /// Returns the list entry of the thread. None: lists leave it out.
    pub fn listed(&self) -> Option<ListEntry> {
        let (created_at, version) = (self.created_at, self.version.saturating_add(1));
        (!self.ephemeral).then(|| ListEntry { row: self.list_row(), created_at, version })
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

/// A thread, or the tombstone of a removed one: its id is never reused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadRecord {
    /// The thread exists.
    Live(Box<ThreadHeader>),
    /// The thread was removed.
    Tombstone {
        /// The last epoch.
        epoch: u64,
        /// The last version.
        version: u64,
        /// The request that removed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<OpKey>,
    },
}

impl ThreadRecord {
    /// Returns the header of a live thread.
    pub fn live(self) -> Option<ThreadHeader> {
        match self {
            Self::Live(header) => Some(*header),
            Self::Tombstone { .. } => None,
        }
    }
}

/// A thread to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThread {
    /// Its id: generated, or derived from a request.
    pub id: ThreadId,
    /// Its organization.
    pub org: OrgId,
    /// The user that creates the thread.
    pub user: UserId,
    /// Its profile.
    pub profile: String,
    /// The documents of the thread. Each must be live, else `NOT_FOUND`.
    pub documents: Vec<DocumentId>,
    /// Its title; may be empty.
    pub title: String,
    /// Its model.
    pub model: Option<String>,
    /// Whether the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// The time at which the thread expires. None: never.
    pub expires_at: Option<Timestamp>,
    /// The `Imported` entries that the thread starts with.
    pub imported: Vec<Entry>,
    /// The row of the creating request, if a repetition of the request must have the same digest.
    pub request: Option<RequestRow>,
    /// The time of creation.
    pub at: Timestamp,
}

impl NewThread {
    /// Returns the header that the first append expects: nothing is written yet.
    pub fn header(&self) -> ThreadHeader {
        let working = self.imported.iter().rev().find_map(|entry| match entry {
            Entry::Imported(imported) => Some(imported.working.clone()),
            _ => None,
        });
        ThreadHeader {
            id: self.id.clone(),
            org: self.org.clone(),
            user: self.user.clone(),
            profile: self.profile.clone(),
            documents: self.documents.clone(),
            title: self.title.clone(),
            model: self.model.clone(),
            ephemeral: self.ephemeral,
            expires_at: self.expires_at,
            created_at: self.at,
            updated_at: self.at,
            epoch: 0,
            owner: None,
            version: 0,
            entries: 0,
            bytes: 0,
            turns: 0,
            working: working.unwrap_or_default(),
            open_turn: None,
        }
    }
}

/// A filter of threads. All conditions that are set must hold. Ephemeral threads are never listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// The user that created the thread.
    pub user: Option<UserId>,
    /// A document of the thread.
    pub document: Option<DocumentId>,
    /// The profile of the thread.
    pub profile: Option<String>,
    /// A substring of the title, compared without regard to case.
    pub title_search: Option<String>,
}

impl ThreadFilter {
    /// Returns its conditions.
    pub fn conditions(&self) -> Vec<Condition> {
        let Self { user, document, profile, title_search } = self;
        let user = user.iter().map(|user| term("user", user));
        let document = document.iter().map(|document| term("of", document));
        let profile = profile.iter().map(|profile| term("profile", profile));
        let terms = user.chain(document).chain(profile).map(|term| Condition::AnyTerm(vec![term]));
        terms.chain(Condition::name_search(title_search.as_ref())).collect()
    }
}

/// A thread as clients see it, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadView {
    /// The thread.
    pub id: ThreadId,
    /// The user that started the thread.
    pub user: UserId,
    /// The profile of the thread.
    pub profile: String,
    /// The documents of the thread.
    pub documents: Vec<DocumentId>,
    /// The title of the thread; empty until the first message.
    pub title: String,
    /// The model of the last turn. None: the thread had no turn.
    pub model: Option<String>,
    /// Whether the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// Time at which the thread is removed. None: the thread is kept.
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
    pub new_owner: Option<(u64, Incarnation)>,
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

impl HeaderChange {
    fn apply(&self, header: &mut ThreadHeader) {
        let Self { open_turn, working, title, model, turns } = self.clone();
        if let Some(open_turn) = open_turn {
            header.open_turn = open_turn;
        }
        if let Some(working) = working {
            header.working = working;
        }
        if let Some(title) = title {
            header.title = title;
        }
        if model.is_some() {
            header.model = model;
        }
        if let Some(turns) = turns {
            header.turns = turns;
        }
    }
}

/// The number and total size of encoded journal entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalSize {
    /// The number of entries.
    pub entries: u64,
    /// Their size in bytes.
    pub bytes: u64,
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

impl Appended {
    /// Returns the stored header.
    pub fn header(self) -> ThreadHeader {
        match self {
            Self::Done(header) | Self::Refused { header, .. } => *header,
        }
    }
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
