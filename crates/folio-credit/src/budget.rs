//! The credit budget of a root, which is a turn or a job: a bound of the credits of the model calls of the root and of its
//! children.
//!
//! ```text
//!   credits ──grant──▶ part of a child ──reserve──▶ reserved ──settle──▶ used
//!      ▲                      │
//!      └──── rest ◀─take_back─┘             The root itself reserves without a part.
//! ```
//!
//! A child may be a group: it grants parts of its own part to its children. A path names a part by the names of the children
//! from the root ([`BudgetPart`](folio_types::BudgetPart)); the empty path is the root.
//!
//! A budget is one row. Every change replaces the row under the condition that it is unchanged since it was read, so that
//! a change may be repeated, lost or late. Only a stored reservation permits a call. A reservation that is never settled
//! counts as used: its owner died, or the settlement was lost. A change that cannot be repeated safely only adds to the
//! used credits, so the calls of a root never cost more than its budget.

use std::collections::BTreeMap;

use folio_types::budget::PATH_SEPARATOR;
use folio_types::{BudgetUse, Error, Reason, Result, UnknownFields};
use serde::{Deserialize, Serialize};

/// Maximum number of parts of one parent at a time. A further child receives no part until another part returns.
const PARTS_MAX: usize = 100;
/// Maximum number of parts of a budget at a time. It exceeds [`PARTS_MAX`], so that the children of the root cannot prevent
/// their own children from receiving parts.
const PARTS_IN_ALL_MAX: usize = 200;
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

/// The share of the rest of a parent that a child receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The rest divided by the number of open children without a part. `open`: the number of children that have not ended, with
    /// and without parts.
    Equal { open: u64 },
    /// Half of the rest, rounded down, because the parent makes calls as well.
    Half,
    /// The rest divided by this number, at least 1: by the number of children that start from now on, and one for the parent.
    Divided { by: u64 },
}

/// The budget of a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Number of the turn in its thread. 1 for a job.
    pub number: u32,
    /// The calls of the root itself and of returned parts. Its credits are those of the whole budget.
    pub own: Allotment,
    /// Parts of children, by path. The credits of a part include those of its own parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Allotment>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl Budget {
    /// Returns a budget from which nothing was paid.
    pub fn new(number: u32, credits: u64) -> Self {
        Self { number, own: Allotment::new(credits), ..Self::default() }
    }

    /// Returns the credits of the root that are neither used nor reserved nor in a part.
    pub fn rest(&self) -> u64 {
        self.rest_of("")
    }

    /// Returns the credits of a part that are neither used nor reserved nor in one of its own parts. 0: there is no such part.
    fn rest_of(&self, path: &str) -> u64 {
        let in_parts = self.children(path).fold(0_u64, |sum, (_, part)| sum.saturating_add(part.credits));
        self.allotment(path).map_or(0, |of| of.credits.saturating_sub(of.spent()).saturating_sub(in_parts))
    }

    /// Returns the use of a part. None: there is no such part.
    pub fn use_of(&self, path: &str) -> Option<BudgetUse> {
        let of = self.allotment(path)?;
        let within = self.parts.iter().filter(|(other, _)| other.as_str() != path && is_within(other, path));
        let used = within.fold(of.spent(), |sum, (_, part)| sum.saturating_add(part.spent()));
        Some(BudgetUse { credits: of.credits, used, rest: self.rest_of(path) })
    }

    fn children<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a str, &'a Allotment)> {
        let parts = self.parts.iter().map(|(path, part)| (path.as_str(), part));
        parts.filter(move |(child, _)| parent_of(child) == path)
    }

    fn allotment(&self, path: &str) -> Option<&Allotment> {
        if path.is_empty() { Some(&self.own) } else { self.parts.get(path) }
    }

    fn allotment_mut(&mut self, path: &str) -> Option<&mut Allotment> {
        if path.is_empty() { Some(&mut self.own) } else { self.parts.get_mut(path) }
    }

    /// Gives a child its part of the rest of its parent. A child that has a part keeps it.
    ///
    /// # Errors
    /// `BUDGET_EXHAUSTED` if the parent has no part; `OVERLOADED` if too many children have parts.
    pub fn grant(&mut self, path: &str, share: Share) -> Result<()> {
        if self.allotment(path).is_some() {
            return Ok(());
        }
        let parent = parent_of(path);
        if self.allotment(parent).is_none() {
            return Err(returned());
        }
        let siblings = self.children(parent).count();
        if siblings >= PARTS_MAX || self.parts.len() >= PARTS_IN_ALL_MAX {
            let message = "the credit budget has the maximum number of parts; retry later";
            return Err(Error::unavailable(Reason::Overloaded, message));
        }
        let divisor = match share {
            Share::Equal { open } => open.saturating_sub(u64::try_from(siblings).unwrap_or(u64::MAX)).max(1),
            Share::Half => 2,
            Share::Divided { by } => by.max(1),
        };
        self.parts.insert(path.to_owned(), Allotment::new(self.rest_of(parent) / divisor));
        Ok(())
    }

    /// Reserves the maximum cost of a call, which is paid from a part. A repeated reservation changes nothing.
    ///
    /// # Errors
    /// `BUDGET_EXHAUSTED`: the rest does not cover the call, or there is no such part.
    pub fn reserve(&mut self, path: &str, key: &str, credits: u64) -> Result<()> {
        let rest = self.rest_of(path);
        let of = self.allotment_mut(path).ok_or_else(returned)?;
        if of.reserved.contains_key(key) {
            return Ok(());
        }
        if credits > rest {
            return Err(exhausted(credits, rest, of.credits));
        }
        of.reserve(key, credits);
        Ok(())
    }

    /// Replaces a reservation by the cost of the call. Does nothing if the call has no reservation.
    pub fn settle(&mut self, path: &str, key: &str, charge: u64) {
        if let Some(of) = self.allotment_mut(path) {
            of.settle(key, charge);
        }
    }

    /// Takes back the parts of the ended siblings of a child. `has_ended` receives the name of a sibling.
    pub fn take_back_ended(&mut self, path: &str, has_ended: impl Fn(&str) -> bool) {
        let siblings = self.children(parent_of(path)).map(|(sibling, _)| sibling);
        let ended: Vec<String> = siblings.filter(|sibling| has_ended(name_of(sibling))).map(str::to_owned).collect();
        ended.iter().for_each(|sibling| self.take_back(sibling));
    }

    /// Returns the rest of a part, and of its own parts, to its parent. Their reservations count as used. The root keeps its
    /// credits, and only its parts return.
    pub fn take_back(&mut self, path: &str) {
        let ended = self.parts.extract_if(.., |part, _| is_within(part, path));
        let used = ended.fold(0_u64, |sum, (_, part)| sum.saturating_add(part.spent()));
        if let Some(parent) = self.allotment_mut(parent_of(path)) {
            parent.used = parent.used.saturating_add(used);
        }
    }
}

/// Returns the path of the parent of a part.
fn parent_of(path: &str) -> &str {
    path.rsplit_once(PATH_SEPARATOR).map_or("", |(parent, _)| parent)
}

/// Returns the name of a part among its siblings.
fn name_of(path: &str) -> &str {
    path.rsplit_once(PATH_SEPARATOR).map_or(path, |(_, name)| name)
}

/// Returns true if a part is another part or is in it. Every part is in the root.
fn is_within(part: &str, of: &str) -> bool {
    let rest = part.strip_prefix(of);
    of.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(PATH_SEPARATOR))
}

fn returned() -> Error {
    let message = "the part of the credit budget has returned, because its work ended or its thread was deleted";
    Error::precondition(Reason::BudgetExhausted, message)
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
