//! Writes of threads: maps the rows that a store read to an answer or a plan of writes. The first matching row applies:
//!
//! | # | condition | decision |
//! |---|---|---|
//! | 1 | the thread was removed | `NOT_FOUND` |
//! | 2 | [`ThreadWrite::Create`]: the thread exists, created by a request with another digest | `REQUEST_ID_CONFLICT` |
//! | 3 | [`ThreadWrite::Create`]: the thread exists | [`Appended::Done`] |
//! | 4 | the row of the append's batch exists | [`Appended::Done`] |
//! | 5 | [`ThreadWrite::Begin`]: the thread exists | [`Appended::Refused`] |
//! | 6 | the fence differs, or the row of the request exists | [`Appended::Refused`] |
//! | 7 | [`ThreadWrite::Append`]: the thread does not exist | `NOT_FOUND` |
//! | 8 | a takeover does not increase the epoch | `INTERNAL` |
//! | 9 | the first append has another fence than epoch 0 and version 0 | `INTERNAL` |
//! | 10 | an entry of the import is not [`Entry::Imported`] | `INTERNAL` |
//! | 11 | – | [`WriteDecision::Write`] |

use folio_resources::ListEntry;
use folio_types::{Error, OrgId, Result, ThreadId};

use crate::journal::Entry;
use crate::thread::{
    Append, Appended, Fence, JournalSize, NewThread, OpenTurnRow, RequestRow, ThreadHeader, ThreadRecord,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadWrite {
    /// Creates a thread unless it exists.
    Create(Box<NewThread>),
    /// Creates a thread together with its first append. Refused if the thread exists.
    Begin(Box<NewThread>, Append),
    Append(OrgId, ThreadId, Append),
}

impl ThreadWrite {
    pub fn thread(&self) -> (&OrgId, &ThreadId) {
        match self {
            Self::Create(new) | Self::Begin(new, _) => (&new.org, &new.id),
            Self::Append(org, id, _) => (org, id),
        }
    }

    /// None: the write creates no thread.
    pub fn new_thread(&self) -> Option<&NewThread> {
        match self {
            Self::Create(new) | Self::Begin(new, _) => Some(new),
            Self::Append(..) => None,
        }
    }

    /// None: the write only creates a thread.
    pub fn append(&self) -> Option<&Append> {
        match self {
            Self::Create(_) => None,
            Self::Begin(_, append) | Self::Append(_, _, append) => Some(append),
        }
    }

    /// Returns the request row of the write, whose request id must be unused or used for the same request.
    pub fn request(&self) -> Option<&RequestRow> {
        match self {
            Self::Create(new) => new.request.as_ref(),
            Self::Begin(_, append) | Self::Append(_, _, append) => append.request.as_ref(),
        }
    }
}

/// Sizes of the encoded entries of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    pub imported: JournalSize,
    pub appended: JournalSize,
}

/// The rows that a store read to evaluate a write.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoredState {
    /// None: the thread never existed.
    pub record: Option<ThreadRecord>,
    /// True if the row of the append's batch exists. The store must not read `record` before this row.
    pub is_committed: bool,
    /// Stored row of [`ThreadWrite::request`].
    pub request: Option<RequestRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WriteDecision {
    /// The answer of a write for which nothing is written.
    Answer(Appended),
    Write(Box<ThreadPlan>),
}

/// Writes that execute one [`ThreadWrite`].
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadPlan {
    /// Row to add to the index of open turns. Written before the header.
    pub open_turn_row: Option<OpenTurnRow>,
    /// Rows to remove from the index of open turns, in the write that adds `open_turn_row`.
    pub removed_open_turn_rows: Vec<OpenTurnRow>,
    /// New or changed list row. Written before the header.
    pub list_after: Option<ListEntry>,

    /// Header to replace, on the condition that its epoch and version are stored. None: the thread is created if it
    /// never existed.
    pub before: Option<ThreadHeader>,
    /// Header after the write.
    pub after: ThreadHeader,
    /// Id of the append's batch, whose row is inserted together with the header unless the row exists.
    pub batch: Option<u128>,
    /// Rows of requests, each inserted together with the header unless the row exists.
    pub requests: Vec<RequestRow>,
    /// Sequence number of the first appended entry. Entries are written together with the header. Imported entries
    /// start at 0.
    pub appends_at: u64,

    /// List row to replace. Removed after the header is written.
    pub list_before: Option<ListEntry>,
}

impl ThreadPlan {
    /// Returns the ids that a new thread references. Before the header is written, each of these resources must be live
    /// and gets a reference entry for the thread.
    pub fn new_references(&self) -> impl Iterator<Item = &str> {
        self.after.references().filter(|_| self.before.is_none())
    }
}

/// Decides how to execute a write, given the rows that were read for it.
///
/// # Errors
/// `NOT_FOUND`, `REQUEST_ID_CONFLICT` or `INTERNAL`: see the table in the module documentation.
pub fn decide(write: &ThreadWrite, sizes: Sizes, read: StoredState) -> Result<WriteDecision> {
    let not_found = || Error::not_found("thread", write.thread().1);
    let stored = match read.record {
        Some(ThreadRecord::Live(header)) => Some(header),
        Some(ThreadRecord::Tombstone { .. }) => return Err(not_found()),
        None => None,
    };
    let answer = |answer| Ok(WriteDecision::Answer(answer));
    match (write, stored) {
        (ThreadWrite::Create(new), Some(header)) => {
            let digests = new.request.as_ref().zip(read.request.as_ref());
            match digests.is_some_and(|(new, stored)| new.digest != stored.digest) {
                true => Err(Error::request_id_conflict()),
                false => answer(Appended::Done(header)),
            }
        }
        (_, Some(header)) if read.is_committed => answer(Appended::Done(header)),
        (ThreadWrite::Append(_, _, append), Some(before))
            if append.fence == before.fence() && read.request.is_none() =>
        {
            let after = before.after(append, sizes.appended)?;
            Ok(plan(write, Some(*before), after, sizes))
        }
        (_, Some(header)) => answer(Appended::Refused { header, request: read.request }),
        (ThreadWrite::Append(..), None) => Err(not_found()),
        (ThreadWrite::Create(new), None) => Ok(plan(write, None, created(new, sizes)?, sizes)),
        (ThreadWrite::Begin(new, first), None) => {
            if first.fence != (Fence { epoch: 0, version: 0 }) {
                return Err(Error::internal("the first append to a thread needs epoch 0 and version 0"));
            }
            let after = created(new, sizes)?.after(first, sizes.appended)?;
            Ok(plan(write, None, after, sizes))
        }
    }
}

fn created(new: &NewThread, sizes: Sizes) -> Result<ThreadHeader> {
    if new.imported.iter().any(|entry| !matches!(entry, Entry::Imported(_) | Entry::Summary(_))) {
        return Err(Error::internal(
            "the import of a new thread contains an entry that is neither imported nor a summary",
        ));
    }
    let JournalSize { entries, bytes } = sizes.imported;
    Ok(ThreadHeader { entries, bytes, ..new.header() })
}

fn plan(write: &ThreadWrite, before: Option<ThreadHeader>, after: ThreadHeader, sizes: Sizes) -> WriteDecision {
    let mut requests: Vec<RequestRow> = write.new_thread().and_then(|new| new.request.clone()).into_iter().collect();
    let request = write.append().and_then(|append| append.request.as_ref());
    requests.extend(request.filter(|row| requests.iter().all(|other| other.request != row.request)).cloned());
    let has_new_title = before.as_ref().is_none_or(|before| before.title != after.title);
    // A list row takes a text for each of its terms, so an append that keeps the title builds none.
    let listed = |header: &ThreadHeader| if has_new_title { header.listed() } else { None };
    let list_after = listed(&after);
    WriteDecision::Write(Box::new(ThreadPlan {
        open_turn_row: write.append().and_then(|append| append.opens.clone()),
        removed_open_turn_rows: write.append().map(|append| append.removes.clone()).unwrap_or_default(),
        list_before: before.as_ref().and_then(listed),
        list_after,
        batch: write.append().map(|append| append.batch),
        requests,
        appends_at: after.entries - sizes.appended.entries,
        before,
        after,
    }))
}

#[cfg(test)]
mod tests;
