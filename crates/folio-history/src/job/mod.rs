//! Jobs: unattended work as a pure state machine. Commands map a header to the next header; no I/O, no clock.
//!
//! ```text
//!  Queued ──Start──► Running ──Complete──► Completed
//!    ▲                │    ▲                     Fail, limits ──► Failed
//!    │              Wait  Start (retry_at)       Cancel (any open state) ──► Cancelled
//!  Resume             ▼    │
//!    └── Paused ◄─ Waiting ┘        Pause: any open state but Paused
//!                                   Release: Running ──► Queued
//! ```
//!
//! - **One writer.** A job has one partition with its header and the outcomes of its items. Every write is conditional on
//!   the header's epoch and version ([`JobWrite`]), as for a thread. [`JobCommand::Start`] is the takeover: it increments
//!   the epoch. `Cancel`, `Pause` and `Resume` are writes of any process under the current epoch; the owner finds its next
//!   write refused, reads the header and stops.
//! - **Running time** is counted at each write of a running job, from the write before it. Neither waiting nor the time
//!   after the owner died counts. A job without progress ends nevertheless: each start after a death counts as a failure
//!   of the items that ran.
//! - **Attempts.** [`ItemRun`] identifies an attempt of an item by (job, item, epoch, attempt). Ledger keys and turns
//!   derive from it, so that two attempts never share one. The effect of an item derives from (job, item) only, so that it
//!   happens once.
//! - **Pages.** The header contains one page of at most [`JOB_PAGE_ITEMS`] items. A job with more items has the others in
//!   rows of their own ([`JobPage`]). When all items of a page have ended, the owner stores the page and replaces it by the
//!   next one ([`JobCommand::Advance`]). The items of an ended page are final, so each owner stores the same page.
//! - **Pick-up.** The row of the index of open jobs is stored before the header ([`OpenJobRow`]). One row serves the job
//!   until it ends, because an ended job never reopens. [`row_action`] decides what the sweep does with a row.

mod admission;
mod auto_create;
mod budget;
mod command;
mod extraction;
mod ingestion;
mod item_run;
mod page;
mod pick_up;
mod queue;
mod stack;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeSet;
use std::time::Duration;

use folio_resources::{Condition, ListEntry, ListRow, term};
use folio_types::limits::{
    JOB_BLOCKED_MAX, JOB_INPUT_BYTES, JOB_ITEMS_MAX, JOB_OPEN_MAX, JOB_PAGE_ITEMS, JOB_SUBJECT_BYTES, NAME_CHARS,
};
use folio_types::{
    Digest, Error, Incarnation, JobId, OrgId, Principal, Reason, Result, Timestamp, UnknownFields, UserId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::thread::Fence;

pub use admission::{JobLimits, current_principal};
pub use auto_create::{AUTO_CREATE_KIND, AutoCreateInput};
pub use command::{JobCommand, retry_at};
pub use extraction::{ExtractionInput, TagRun, TagRunWrite};
pub use ingestion::{IngestionCause, IngestionInput};
pub use item_run::ItemRun;
pub use page::{JobPage, JobPages};
pub use pick_up::{OpenJobRow, RowAction, row_action};
pub use queue::{
    DELIVERY_KIND, EXTRACTION_KIND, INDEX_REBUILD_KIND, INGESTION_KIND, JobQueue, REEMBEDDING_KIND, TEXT_INGESTION_KIND,
};
pub use stack::{STACK_FILL_KIND, STACK_PLAN_KIND, StackFillInput, StackPlanInput};
pub use write::{ItemOutcome, JobDecision, JobRecord, JobWrite, JobWritten, decide};

/// The name of jobs in lists and errors.
pub const KIND: &str = "job";

const SUBJECT: &str = "subject";
/// The term of an open delivery, so that a store counts the open deliveries of an endpoint by one term.
const OPEN_SUBJECT: &str = "open_subject";

/// The header of a job: the row on which every write is conditional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHeader {
    pub id: JobId,
    /// The caller that caused the job, with its role at that time. The job belongs to its organization.
    pub principal: Principal,
    /// Name of the work, such as `extraction`.
    pub kind: String,
    /// Arguments of the kind.
    pub input: Value,
    /// The items of the current page.
    pub items: Vec<JobItem>,
    /// None: the job has one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<JobPages>,
    pub state: JobState,
    /// Incremented by each start. 0: the job never started.
    pub epoch: u64,
    /// Owner of the newest start.
    pub owner: Option<Incarnation>,
    /// Incremented by each write.
    pub version: u64,
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Running time until the last write, in milliseconds.
    pub running_millis: u64,
    /// Maximum running time, in milliseconds.
    pub running_max_millis: u64,
    /// Since when the job waits for credit or limits without a completed item. None: it does not.
    pub blocked_since: Option<Timestamp>,
    /// None: the job is open.
    pub ended_at: Option<Timestamp>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job waits for a node with capacity.
    Queued,
    /// The owner works on items. Without a live owner, another node starts the job.
    Running,
    Waiting {
        reason: WaitReason,
        /// Error that caused the wait. None: the job waits for a decision.
        error: Option<Error>,
        /// Time of the next start.
        retry_at: Timestamp,
    },
    /// A user paused the job. Only a user resumes it.
    Paused,
    Completed,
    Failed(Error),
    Cancelled,
}

/// The reason for which a job waits. No reason counts as running time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// A tool call of an item waits for decisions.
    Approval,
    /// The organization lacks credit. After [`JOB_BLOCKED_MAX`] the job fails.
    Credit,
    /// A quota or rate limit is exhausted, or a webhook endpoint fails. After [`JOB_BLOCKED_MAX`] the job fails.
    Limit,
    /// A store or a model endpoint is unavailable.
    Store,
}

/// A part of a job that is done as a whole: a document, a window of pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobItem {
    /// Subject of the item, unique in the job: the id of a document, the pages of a window.
    pub id: String,
    pub state: ItemState,
    /// Number of attempts.
    pub attempt: u32,
    /// Number of attempts that failed retriably or whose owner died. Attempts that were interrupted by a wait or a pause
    /// do not count.
    pub failures: u32,
    /// None: the newest attempt has reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Steps>,
}

/// Progress of the newest attempt of an item, such as the windows of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    pub done: u32,
    pub total: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    Pending,
    Running,
    Done,
    Failed(Error),
}

/// Numbers of a job's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub items: usize,
    pub done: usize,
    pub failed: usize,
}

impl Progress {
    /// Returns the number of items that have not ended.
    pub fn open(&self) -> usize {
        self.items.saturating_sub(self.done).saturating_sub(self.failed)
    }
}

/// A job before its first write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    pub principal: Principal,
    pub kind: String,
    pub input: Value,
    /// Subjects of the items, in order.
    pub items: Vec<String>,
    /// Maximum running time per page of items.
    pub running_max: Duration,
    pub at: Timestamp,
}

impl NewJob {
    /// Returns the header of the queued job.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the items are empty, too many, equal or too long; `TOO_LARGE` for the input.
    pub fn header(self) -> Result<JobHeader> {
        self.with_pages().map(|(header, _)| header)
    }

    /// Returns the header of the queued job, and its pages after the first one, which must be stored before the header.
    ///
    /// # Errors
    /// Those of [`Self::header`].
    pub fn with_pages(self) -> Result<(JobHeader, Vec<JobPage>)> {
        let count = self.items.len();
        if count == 0 || count > JOB_ITEMS_MAX {
            let problem = format!("a job needs 1 to {JOB_ITEMS_MAX} items, and this one has {count}");
            return Err(Error::invalid_field("items", problem));
        }
        if let Some(long) = self.items.iter().find(|id| id.is_empty() || id.len() > JOB_SUBJECT_BYTES) {
            let problem = format!("the subject of an item has {} bytes: expected 1 to {JOB_SUBJECT_BYTES}", long.len());
            return Err(Error::invalid_field("items", problem));
        }
        let mut seen = BTreeSet::new();
        if let Some(repeated) = self.items.iter().find(|id| !seen.insert(id.as_str())) {
            return Err(Error::invalid_field("items", format!("{repeated} is listed twice")));
        }
        let bytes = self.input.to_string().len();
        if bytes > JOB_INPUT_BYTES {
            let message = format!("the input of a job has {bytes} bytes, at most {JOB_INPUT_BYTES} are allowed");
            return Err(Error::invalid(Reason::TooLarge, message));
        }
        if self.kind.is_empty() || self.kind.chars().count() > NAME_CHARS {
            return Err(Error::internal("the kind of a job has no name or a long one"));
        }
        let set =
            (count > JOB_PAGE_ITEMS).then(|| Digest::of_json(&Value::from(self.items.clone())).as_str().to_owned());
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let page_count = number(count.div_ceil(JOB_PAGE_ITEMS));
        let mut pages = page::divide(self.items).into_iter();
        let first = pages.next().unwrap_or_default();
        let pages: Vec<JobPage> = pages.collect();
        let header = JobHeader {
            id: self.id,
            principal: self.principal,
            kind: self.kind,
            input: self.input,
            items: first.items,
            pages: set.map(|set| JobPages {
                set,
                items: u32::try_from(count).unwrap_or(u32::MAX),
                ..JobPages::default()
            }),
            state: JobState::Queued,
            epoch: 0,
            owner: None,
            version: 0,
            created_at: self.at,
            updated_at: self.at,
            running_millis: 0,
            running_max_millis: u64::try_from(self.running_max.as_millis())
                .unwrap_or(u64::MAX)
                .saturating_mul(page_count),
            blocked_since: None,
            ended_at: None,
            unknown: UnknownFields::default(),
        };
        Ok((header, pages))
    }
}

impl JobHeader {
    pub fn org(&self) -> &OrgId {
        &self.principal.org
    }

    pub fn queue(&self) -> JobQueue {
        JobQueue::of(&self.kind)
    }

    /// Reads the input, whose format the kind of the job defines.
    ///
    /// # Errors
    /// `INTERNAL` if the input is malformed.
    pub fn read_input<T: DeserializeOwned>(&self) -> Result<T> {
        let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", self.id));
        T::deserialize(&self.input).map_err(malformed)
    }

    /// Returns the fence of the next write.
    pub fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, version: self.version }
    }

    pub fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns the name of the state of an ended job. None: the job is open.
    pub fn outcome(&self) -> Option<&'static str> {
        match &self.state {
            JobState::Completed => Some("completed"),
            JobState::Failed(_) => Some("failed"),
            JobState::Cancelled => Some("cancelled"),
            JobState::Queued | JobState::Running | JobState::Waiting { .. } | JobState::Paused => None,
        }
    }

    /// Returns the time since which an open job can start. None: it is paused, or its node may run it.
    pub fn ready_since(&self) -> Option<Timestamp> {
        match &self.state {
            JobState::Queued => Some(self.updated_at),
            JobState::Waiting { retry_at, .. } => Some(*retry_at),
            _ => None,
        }
    }

    /// Returns the time at which an open job fails.
    pub fn open_until(&self) -> Timestamp {
        self.created_at.saturating_add(JOB_OPEN_MAX).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time at which the job fails unless it gets credit and capacity. None: it does not wait for them.
    pub fn blocked_until(&self) -> Option<Timestamp> {
        self.blocked_since.map(|since| since.saturating_add(JOB_BLOCKED_MAX).unwrap_or(Timestamp::MAX))
    }

    /// Returns the time at which the record is deleted. None: the job is open.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.ended_at.map(|ended| ended.saturating_add(self.queue().retention()).unwrap_or(Timestamp::MAX))
    }

    pub fn progress(&self) -> Progress {
        let count = |wanted: fn(&ItemState) -> bool| self.items.iter().filter(|item| wanted(&item.state)).count();
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let (items, done, failed) = match &self.pages {
            None => (self.items.len(), 0, 0),
            Some(pages) => (number(pages.items), number(pages.done), number(pages.failed)),
        };
        Progress {
            items,
            done: done + count(|state| matches!(state, ItemState::Done)),
            failed: failed + count(|state| matches!(state, ItemState::Failed(_))),
        }
    }

    /// Returns the index of the first item that no attempt works on and that has not ended, in the current page.
    pub fn next_item(&self) -> Option<usize> {
        self.items.iter().position(|item| item.state == ItemState::Pending)
    }

    /// Returns the number of items before the current page.
    pub fn items_before(&self) -> u32 {
        self.pages.as_ref().map_or(0, JobPages::items_before)
    }

    /// Returns the index in the current page of the item with this number. None: the item is in another page.
    pub fn index_of(&self, item: u32) -> Option<usize> {
        let index = usize::try_from(item.checked_sub(self.items_before())?.checked_sub(1)?).ok()?;
        (index < self.items.len()).then_some(index)
    }

    /// Returns the number of the item with this index in the current page, from 1. None: no job has so many items.
    pub fn number_of(&self, index: usize) -> Option<u32> {
        u32::try_from(index).ok()?.checked_add(1)?.checked_add(self.items_before())
    }

    /// Returns the running attempt of the item with this index. None: no attempt of it runs.
    pub fn run_of(&self, index: usize) -> Option<ItemRun> {
        let item = self.items.get(index).filter(|item| item.state == ItemState::Running)?;
        Some(ItemRun { job: self.id.clone(), item: self.number_of(index)?, epoch: self.epoch, attempt: item.attempt })
    }

    /// Returns the list entry of the job. It changes only when the job ends.
    pub fn listed(&self) -> ListEntry {
        let status = if self.is_ended() { "ended" } else { "open" };
        let terms = [term("status", status), term("kind", &self.kind), term("user", &self.principal.user)];
        // A delivery is listed by its endpoint.
        let endpoint = self.items.first().filter(|_| self.queue() == JobQueue::Deliveries).map(|item| &item.id);
        let open = endpoint.filter(|_| !self.is_ended()).map(|id| term(OPEN_SUBJECT, id));
        let terms = terms.into_iter().chain(endpoint.map(|id| term(SUBJECT, id))).chain(open).collect();
        let row = ListRow { id: self.id.to_string(), terms, ..ListRow::default() };
        ListEntry { row, created_at: self.created_at, version: self.version.saturating_add(1) }
    }

    /// Returns the approximate bytes of the stored header.
    pub fn size_bytes(&self) -> usize {
        self.input.to_string().len() + self.items.len() * 100 + 1024
    }
}

/// All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// The jobs of other queues are not listed.
    pub queue: JobQueue,
    pub is_open: Option<bool>,
    pub kind: Option<String>,
    pub user: Option<UserId>,
    /// Subject of the item of a delivery: the id of the endpoint.
    pub subject: Option<String>,
}

impl JobFilter {
    pub fn conditions(&self) -> Vec<Condition> {
        let Self { queue: _, is_open, kind, user, subject } = self;
        let is_open_subject = *is_open == Some(true) && subject.is_some();
        let status = is_open.filter(|_| !is_open_subject);
        let status = status.map(|is_open| term("status", if is_open { "open" } else { "ended" }));
        let kind = kind.as_ref().map(|kind| term("kind", kind));
        let user = user.as_ref().map(|user| term("user", user));
        let field = if is_open_subject { OPEN_SUBJECT } else { SUBJECT };
        let subject = subject.as_ref().map(|subject| term(field, subject));
        let terms = status.into_iter().chain(kind).chain(user).chain(subject);
        terms.map(|term| Condition::AnyTerm(vec![term])).collect()
    }
}
