//! Threads: the header with its list row and filter, new threads, views and open turns.
//!
//! A thread is not a [`folio_resources::Resource`]: it changes by appends under a fence, which [`crate::thread_write`]
//! evaluates.

use std::collections::BTreeSet;

use folio_resources::{Condition, ListEntry, ListRow, term};
use folio_types::access::Principal;
use folio_types::op::OpKey;
use folio_types::profile::Subject;
use folio_types::{
    BudgetPart, Digest, DocumentId, Error, Incarnation, JobId, OrgId, RequestId, Result, StackId, ThreadId, Timestamp,
    TurnId, UnknownFields, UserId,
};
use serde::{Deserialize, Serialize};

use crate::command::ChatCommand;
use crate::journal::{Entry, WorkingState};
use crate::task::{TaskOrigin, ThreadTask};
pub use crate::thread_append::{Append, Appended, Fence, HeaderChange, JournalSize};

/// Returns the id of the thread that a chat without a thread starts. The id is derived from the request, so that every
/// gateway and node derives the same id. The order of documents does not matter.
pub fn chat_thread_id(principal: &Principal, profile: &str, documents: &[DocumentId], request: &RequestId) -> ThreadId {
    let mut documents: Vec<&str> = documents.iter().map(DocumentId::as_str).collect();
    documents.sort_unstable();
    let documents = documents.join(",");
    ThreadId::derive(&[principal.org.as_str(), principal.user.as_str(), profile, &documents, request.as_str()])
}

/// Returns the id of the thread of a chat that names no thread: a new one, or the one in which direct calls about these
/// documents run.
pub fn thread_of_chat(principal: &Principal, profile: &str, command: &ChatCommand, request: &RequestId) -> ThreadId {
    let Some(call) = &command.direct_call else {
        return chat_thread_id(principal, profile, &command.documents, request);
    };
    let mut documents: Vec<&str> = command.documents.iter().map(DocumentId::as_str).collect();
    documents.sort_unstable();
    let (documents, number) = (documents.join(","), call.thread_number.to_string());
    let parts = ["direct calls", principal.org.as_str(), principal.user.as_str(), profile, &documents, &number];
    ThreadId::derive(&parts)
}

/// The header of a thread: one row, stored with the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHeader {
    pub id: ThreadId,
    pub org: OrgId,
    pub user: UserId,
    pub profile: String,
    pub documents: Vec<DocumentId>,
    /// Never changed. None: the first document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// The part of a credit budget that a job has for the turns. Never changed. None: no job pays for their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_part: Option<BudgetPart>,
    /// The job that drives the turns. Never changed. None: no job drives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The task of a call of `run_tasks`, which is the only turn. Never changed. None: the thread is not that of a child turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<ThreadTask>>,
    /// If the creator set no title: empty until the first message.
    pub title: String,
    /// Model of the newest turn. None: the thread had no turn, and its creator chose no model.
    pub model: Option<String>,
    /// If true, the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// None: the thread does not expire.
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Time of the last append.
    pub updated_at: Timestamp,
    /// Incremented by each new owner. 0: the thread never had an owner.
    pub epoch: u64,
    /// None: the thread never had an owner.
    pub owner: Option<Incarnation>,
    /// Incremented by each append.
    pub version: u64,
    /// Number of journal entries, which is the sequence number of the next entry.
    pub entries: u64,
    /// Size of the journal in bytes.
    pub bytes: u64,
    pub turns: u32,
    /// Working state after the last ended turn.
    pub working: WorkingState,
    /// None: no turn is open.
    pub open_turn: Option<OpenTurn>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl ThreadHeader {
    /// Returns the fence of the next append.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, version: self.version }
    }

    /// Returns true if nothing was appended since this fence and no turn is open.
    pub fn is_unused_at(&self, fence: Fence) -> bool {
        self.fence() == fence && self.open_turn.is_none()
    }

    /// Returns true if the thread expires later than `at` or never.
    pub fn is_kept_at(&self, at: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > at)
    }

    /// Returns the header after an append whose encoded entries have the size `added`.
    ///
    /// # Errors
    /// `INTERNAL` if a takeover does not increase the epoch.
    pub fn after(&self, append: &Append, added: JournalSize) -> Result<Self> {
        let mut header = self.clone();
        if let Some((epoch, owner)) = &append.new_owner {
            if *epoch <= self.epoch {
                return Err(Error::internal(format!("epoch {epoch} must be above {}", self.epoch)));
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

    /// Returns the record that replaces the header of a removed thread. `by`: the request that removed it.
    pub fn tombstone(&self, by: Option<OpKey>) -> ThreadRecord {
        ThreadRecord::Tombstone { epoch: self.epoch, version: self.version, by }
    }

    pub fn list_row(&self) -> ListRow {
        let mut terms: BTreeSet<String> = self.references().map(|id| term("of", id)).collect();
        terms.insert(term("user", &self.user));
        terms.insert(term("profile", &self.profile));
        if let Some(Subject::Stack(stack)) = &self.subject {
            terms.insert(term("stack", stack));
        }
        ListRow { id: self.id.to_string(), name: self.title.clone(), terms, ..ListRow::default() }
    }

    /// Returns the list entry of the thread. None: the thread is ephemeral, so lists omit it.
    pub fn listed(&self) -> Option<ListEntry> {
        let (created_at, version) = (self.created_at, self.version.saturating_add(1));
        (!self.ephemeral).then(|| ListEntry { row: self.list_row(), created_at, version })
    }

    /// Returns the ids of the resources that the thread references. Each must be live when the thread is created.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().map(DocumentId::as_str)
    }

    /// Returns true if the working state names a revision of the resource `id`, or if a call of an open turn may name it.
    pub fn may_name_revision(&self, id: &str, number: u32) -> bool {
        let WorkingState { schema_revid, prompt_revid, extraction, .. } = &self.working;
        let prompts = prompt_revid.iter().chain(extraction.iter().map(|extraction| &extraction.prompt));
        self.open_turn.is_some()
            || schema_revid.iter().any(|schema| schema.version == number && schema.of.as_str() == id)
            || prompts.into_iter().any(|prompt| prompt.version == number && prompt.of.as_str() == id)
    }

    /// Returns the parts of credit budgets that other turns or a job have for the turns of the thread. Each of them must cover
    /// a call.
    pub fn budget_parts(&self) -> impl Iterator<Item = &BudgetPart> {
        self.budget_part.iter().chain(self.task.iter().flat_map(|task| &task.budget_parts))
    }

    /// Returns the approximate bytes of the stored header.
    pub fn size_bytes(&self) -> usize {
        let extraction = self.working.extraction.as_ref().map(|extraction| &extraction.data);
        extraction
            .into_iter()
            .chain(self.working.profile_state.as_deref())
            .map(|data| data.to_string().len())
            .sum::<usize>()
            + 1024
    }
}

/// A thread, or the tombstone of a removed thread, whose id is never reused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadRecord {
    Live(Box<ThreadHeader>),
    Tombstone {
        epoch: u64,
        version: u64,
        /// Request that removed the thread. None: the thread expired or was removed without a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<OpKey>,
    },
}

impl ThreadRecord {
    /// Returns the tombstone of a thread that must not be created.
    pub fn never_created() -> Self {
        Self::Tombstone { epoch: 0, version: 0, by: None }
    }

    /// Returns the header. None: the thread was removed.
    pub fn live(self) -> Option<ThreadHeader> {
        match self {
            Self::Live(header) => Some(*header),
            Self::Tombstone { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThread {
    /// Generated, or derived from a request.
    pub id: ThreadId,
    pub org: OrgId,
    pub user: UserId,
    pub profile: String,
    /// Each must be live; otherwise `NOT_FOUND`.
    pub documents: Vec<DocumentId>,
    /// None: the first document.
    pub subject: Option<Subject>,
    /// The part of a credit budget that a job has for the turns. None: no job pays for their calls.
    pub budget_part: Option<BudgetPart>,
    /// The job that drives the turns. None: no job drives them.
    pub job: Option<JobId>,
    /// The task that is the only turn. None: the thread is not that of a child turn.
    pub task: Option<Box<ThreadTask>>,
    /// May be empty.
    pub title: String,
    /// None: the default model.
    pub model: Option<String>,
    /// If true, the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// None: the thread does not expire.
    pub expires_at: Option<Timestamp>,
    /// `Imported` entries at the start of the thread, and the summary of their first messages, if a fork has copied one.
    pub imported: Vec<Entry>,
    /// Row of the request that creates the thread. A repeated request must have the same digest.
    pub request: Option<RequestRow>,
    pub at: Timestamp,
}

impl NewThread {
    /// Returns a thread of the principal without title, model, expiry and messages.
    pub fn new(id: ThreadId, principal: &Principal, profile: &str, documents: Vec<DocumentId>, at: Timestamp) -> Self {
        Self {
            id,
            org: principal.org.clone(),
            user: principal.user.clone(),
            profile: profile.to_owned(),
            documents,
            subject: None,
            budget_part: None,
            job: None,
            task: None,
            title: String::new(),
            model: None,
            ephemeral: false,
            expires_at: None,
            imported: Vec::new(),
            request: None,
            at,
        }
    }

    /// Returns the header before the first append, which has no entries.
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
            subject: self.subject.clone(),
            budget_part: self.budget_part.clone(),
            job: self.job.clone(),
            task: self.task.clone(),
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
            unknown: UnknownFields::default(),
        }
    }
}

/// All conditions that are set must hold. Ephemeral threads are never listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    pub user: Option<UserId>,
    pub document: Option<DocumentId>,
    pub profile: Option<String>,
    /// The stack that is the subject.
    pub stack: Option<StackId>,
    /// Substring of the title, case-insensitive.
    pub title_search: Option<String>,
}

impl ThreadFilter {
    pub fn conditions(&self) -> Vec<Condition> {
        let Self { user, document, profile, stack, title_search } = self;
        let user = user.iter().map(|user| term("user", user));
        let document = document.iter().map(|document| term("of", document));
        let profile = profile.iter().map(|profile| term("profile", profile));
        let stack = stack.iter().map(|stack| term("stack", stack));
        let terms = user.chain(document).chain(profile).chain(stack).map(|term| Condition::AnyTerm(vec![term]));
        terms.chain(Condition::name_search(title_search.as_ref())).collect()
    }
}

/// A thread for clients, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadView {
    pub id: ThreadId,
    pub user: UserId,
    pub profile: String,
    pub documents: Vec<DocumentId>,
    /// If the creator set no title: empty until the first message.
    pub title: String,
    /// Model of the newest turn. None: the thread had no turn, and its creator chose no model.
    pub model: Option<String>,
    /// If true, the thread is hidden from lists and removed at `expires_at`.
    pub ephemeral: bool,
    /// None: the thread does not expire.
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Time of the last append.
    pub updated_at: Timestamp,
    /// Working state after the last ended turn.
    pub working: WorkingState,
    pub turns: u32,
    /// Running or waiting turn.
    pub open_turn: Option<TurnId>,
    /// The task of the thread. None: the thread is not that of a child turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskOrigin>>,
}

impl From<ThreadHeader> for ThreadView {
    fn from(header: ThreadHeader) -> Self {
        let open_turn = header.open_turn.map(|open| TurnId::new(header.id.clone(), open.number));
        let task = header.task.map(|task| Box::new(task.origin));
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
            task,
        }
    }
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// Number in the thread, from 1.
    pub number: u32,
    pub phase: Phase,
    /// Time at which the pause, or the wait for a group, expires. None: the turn does not wait.
    pub expires_at: Option<Timestamp>,
}

/// Phase of an open turn, as stored in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The turn runs. Without a live owner, a new owner must resume or end it.
    Running,
    /// The turn waits for decisions.
    Paused,
    /// The turn executes decided calls.
    Executing,
    /// The turn waits for the child turns of a group.
    AwaitingChildren,
    /// The turn is ending.
    Closing,
}

/// Idempotency record of a request on a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    pub request: RequestId,
    /// Number of the turn, from 1. 0: the request created or renamed the thread.
    pub turn: u32,
    /// Digest of the request's content.
    pub digest: Digest,
}

/// A row of the index of open turns. It is stored before the append that opens, resumes or takes over a turn. A process
/// may remove the row only after it read from the thread that the turn ended and that the header's epoch is not below
/// the row's epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenTurnRow {
    /// Organization of the turn. The index spans all organizations, and no request reads it.
    pub org: OrgId,
    pub turn: TurnId,
    pub epoch: u64,
    /// Time of the append that the row precedes. A store that orders the index by time may replace it by a later time.
    pub at: Timestamp,
    /// Time at which the row expires, which is later than the end of the longest approval.
    pub until: Timestamp,
}
