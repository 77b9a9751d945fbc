//! The credit budget of a root, which is a turn or a job: a bound of the credits of the model calls of the root and of its
//! children.
//!
//! ```text
//!   credits ──grant──▶ part of a child ──reserve──▶ reserved ──settle──▶ used
//!      ▲                      │
//!      └──── rest ◀─take_back─┘             The root itself reserves without a part.
//! ```
//!
//! A budget is one row. Every change replaces the row under the condition that it is unchanged since it was read, so that
//! a change may be repeated, lost or late. Only a stored reservation permits a call. A reservation that is never settled
//! counts as used: its owner died, or the settlement was lost. A change that cannot be repeated safely only adds to the
//! used credits, so the calls of a root never cost more than its budget.

use std::collections::BTreeMap;

use folio_types::{Code, Error, Reason, Result, UnknownFields};
use serde::{Deserialize, Serialize};

/// Maximum number of parts at a time. A further child receives no part until another part returns.
const PARTS_MAX: usize = 100;
/// Maximum number of reservations of a part. Beyond it, an older reservation counts as used.
const RESERVED_MAX: usize = 64;

/// Credits for the calls of one child, or of the root itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allotment {
    pub credits: u64,
    /// Credits of settled calls, and of reservations that are never settled.
    pub used: u64,
    /// Maximum costs of calls in flight, by ledger key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<String, u64>,
}

impl Allotment {
    fn new(credits: u64) -> Self {
        Self { credits, ..Self::default() }
    }

    /// Returns the used and the reserved credits.
    pub fn spent(&self) -> u64 {
        self.reserved.values().fold(self.used, |sum, credits| sum.saturating_add(*credits))
    }

    fn reserve(&mut self, key: &str, credits: u64) {
        if self.reserved.len() >= RESERVED_MAX
            && let Some((_, oldest)) = self.reserved.pop_first()
        {
            self.used = self.used.saturating_add(oldest);
        }
        self.reserved.insert(key.to_owned(), credits);
    }

    fn settle(&mut self, key: &str, charge: u64) {
        if let Some(reserved) = self.reserved.remove(key) {
            self.used = self.used.saturating_add(charge.min(reserved));
        }
    }
}

/// The budget of a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Number of the turn in its thread, whose next turn replaces the budget. 1 for a job.
    pub number: u32,
    /// The calls of the root itself and of returned parts. Its credits are those of the whole budget.
    pub own: Allotment,
    /// Parts of children, by the name of the child.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Allotment>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl Budget {
    /// Returns the stored budget, or a new one if none with this number is stored.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if a later turn has replaced the budget.
    pub fn open(stored: Option<Self>, number: u32, credits: u64) -> Result<Self> {
        match stored {
            Some(stored) if stored.number == number => Ok(stored),
            Some(stored) if stored.number > number => {
                let message = format!("turn {} of the thread has replaced the budget of turn {number}", stored.number);
                Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
            }
            _ => Ok(Self { number, own: Allotment::new(credits), ..Self::default() }),
        }
    }

    /// Returns the credits that are neither used nor reserved nor in a part.
    pub fn rest(&self) -> u64 {
        let in_parts = self.parts.values().fold(0_u64, |sum, part| sum.saturating_add(part.credits));
        self.own.credits.saturating_sub(self.own.spent()).saturating_sub(in_parts)
    }

    /// Gives a child its part: the rest divided by the number of open children without a part. A child that has a part keeps it.
    /// `open`: the number of children that have not ended, with and without parts.
    ///
    /// # Errors
    /// `OVERLOADED` if too many children have parts.
    pub fn grant(&mut self, child: &str, open: u64) -> Result<()> {
        if self.parts.contains_key(child) {
            return Ok(());
        }
        if self.parts.len() >= PARTS_MAX {
            let message = format!("{PARTS_MAX} children of the budget have parts, the maximum; retry later");
            return Err(Error::unavailable(Reason::Overloaded, message));
        }
        let with_parts = u64::try_from(self.parts.len()).unwrap_or(u64::MAX);
        let credits = self.rest() / open.saturating_sub(with_parts).max(1);
        self.parts.insert(child.to_owned(), Allotment::new(credits));
        Ok(())
    }

    /// Reserves the maximum cost of a call. `child`: the call is paid from this part; None: the call of the root itself.
    /// A repeated reservation changes nothing.
    ///
    /// # Errors
    /// `BUDGET_EXHAUSTED`: the rest does not cover the call, or the child has no part.
    pub fn reserve(&mut self, child: Option<&str>, key: &str, credits: u64) -> Result<()> {
        let rest = self.rest();
        let (allotment, rest) = match child {
            None => (&mut self.own, rest),
            Some(child) => {
                let part = self.parts.get_mut(child).ok_or_else(|| exhausted(credits, 0, 0))?;
                let rest = part.credits.saturating_sub(part.spent());
                (part, rest)
            }
        };
        if allotment.reserved.contains_key(key) {
            return Ok(());
        }
        if credits > rest {
            return Err(exhausted(credits, rest, allotment.credits));
        }
        allotment.reserve(key, credits);
        Ok(())
    }

    /// Replaces a reservation by the cost of the call. Does nothing if the call has no reservation.
    pub fn settle(&mut self, child: Option<&str>, key: &str, charge: u64) {
        let allotment = match child {
            None => Some(&mut self.own),
            Some(child) => self.parts.get_mut(child),
        };
        if let Some(allotment) = allotment {
            allotment.settle(key, charge);
        }
    }

    /// Returns the rest of a child's part to the budget. Reservations of the part count as used.
    pub fn take_back(&mut self, child: &str) {
        if let Some(part) = self.parts.remove(child) {
            self.own.used = self.own.used.saturating_add(part.spent());
        }
    }
}

fn exhausted(need: u64, rest: u64, credits: u64) -> Error {
    let message =
        format!("the model call may cost {need} credits, and {rest} of the credit budget of {credits} are left");
    Error::precondition(Reason::BudgetExhausted, message)
}

#[cfg(test)]
mod model_check;
#[cfg(test)]
mod tests;
