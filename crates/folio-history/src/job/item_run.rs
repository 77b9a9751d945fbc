//! Attempts of items, and the keys that derive from them.

use std::fmt;

use folio_types::{JobId, RequestId, Result, ThreadId, TurnId};

/// One attempt of an item. No two attempts are equal: a start increments the epoch, and each attempt under an epoch
/// increments the number of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRun {
    pub job: JobId,
    /// Number of the item in its job, from 1.
    pub item: u32,
    pub epoch: u64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

impl ItemRun {
    /// Returns the key of a model call in the ledger. `call`: the number of the call in the attempt, from 1.
    pub fn ledger_key(&self, call: u32) -> String {
        format!("{self}.{call}")
    }

    /// Returns the turn in which the attempt runs tools. It is the only turn of a thread of its own.
    pub fn turn(&self) -> TurnId {
        let (item, epoch, attempt) = (self.item.to_string(), self.epoch.to_string(), self.attempt.to_string());
        TurnId::new(ThreadId::derive(&[self.job.as_str(), &item, &epoch, &attempt]), 1)
    }

    /// Returns the id under which the item writes its effect. It is the same for all attempts, so that a later attempt
    /// finds the effect of an earlier one instead of a second effect.
    ///
    /// # Errors
    /// None for a parsed or generated id of a job.
    pub fn effect(&self) -> Result<RequestId> {
        format!("{}.{}", self.job, self.item).parse()
    }
}

impl fmt::Display for ItemRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.job, self.item, self.epoch, self.attempt)
    }
}
