//! Writes of jobs: maps the rows that a store read to an answer or a write. The first matching row applies:
//!
//! | # | condition | decision |
//! |---|---|---|
//! | 1 | the job does not exist or was deleted | `NOT_FOUND` |
//! | 2 | the row of the write's batch exists | [`JobWritten::Done`] |
//! | 3 | the fence differs | [`JobWritten::Refused`] |
//! | 4 | – | [`JobDecision::Write`] |

use folio_types::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JobHeader, KIND};

/// The answer of an item, stored with the header in one write. The answer of an item that is done is final. An item that is
/// not done may have the record of its last failed attempt instead, which later attempts replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOutcome {
    /// Number of the item in its job, from 1.
    pub item: u32,
    /// Attempt that gave the answer.
    pub attempt: u32,
    pub value: Value,
    pub at: Timestamp,
}

/// A job, or the tombstone of a deleted job, whose id is never reused, because the ledger keys of its attempts outlive
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobRecord {
    Live(Box<JobHeader>),
    Tombstone { epoch: u64, version: u64 },
}

impl JobRecord {
    /// Returns the header. None: the job was deleted.
    pub fn live(self) -> Option<JobHeader> {
        match self {
            Self::Live(header) => Some(*header),
            Self::Tombstone { .. } => None,
        }
    }
}

impl JobHeader {
    /// Returns the record that replaces the header of a deleted job.
    pub fn tombstone(&self) -> JobRecord {
        JobRecord::Tombstone { epoch: self.epoch, version: self.version }
    }
}

/// A header change that is committed if `before` is still stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWrite {
    /// Identifies the write, so that a repetition after an unknown outcome finds it.
    pub batch: u128,
    /// The header that the writer read. Its fence is the condition of the write.
    pub before: JobHeader,
    /// The header after [`JobHeader::after`].
    pub after: JobHeader,
    /// Outcome of the item that the write ends, at most [`folio_types::limits::JOB_OUTCOME_BYTES`].
    pub outcome: Option<ItemOutcome>,
}

/// The store's answer to a write. An unknown outcome is an `Err`; the caller repeats the same write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWritten {
    /// The write is committed. Contains the current header, which is the written one or a later one.
    Done(Box<JobHeader>),
    /// The fence did not match, and nothing was written. Contains the current header.
    Refused(Box<JobHeader>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobDecision {
    Answer(JobWritten),
    Write,
}

/// Decides how to execute a write. `is_committed`: the row of its batch exists. The store must not read `stored` after
/// that row is found missing.
///
/// # Errors
/// `NOT_FOUND`.
pub fn decide(write: &JobWrite, stored: Option<JobRecord>, is_committed: bool) -> Result<JobDecision> {
    let Some(JobRecord::Live(stored)) = stored else {
        return Err(Error::not_found(KIND, &write.before.id));
    };
    Ok(match () {
        () if is_committed => JobDecision::Answer(JobWritten::Done(stored)),
        () if stored.fence() == write.before.fence() => JobDecision::Write,
        () => JobDecision::Answer(JobWritten::Refused(stored)),
    })
}
