//! Bounds the stored revisions of a resource. A new revision beyond [`limits::REVISIONS_MAX`] removes the oldest one that
//! nothing names.
//!
//! Each revision is stored with a row of its names. An object is entered there before it names the revision, and never
//! removed: an entry counts while its object exists and names the revision. A row has at most [`NAMES_MAX`] entries; a
//! revision with more is kept as long as its resource.

use std::collections::BTreeSet;

use folio_types::op::OpKey;
use folio_types::{Error, Reason, Result, TurnId, UnknownFields, limits};
use serde::{Deserialize, Serialize};

/// Maximum entries in the row of names of a revision.
// proto: none "bounds a stored row"
pub const NAMES_MAX: usize = 16;

/// An object that names a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionName {
    /// The thread of a turn: in its working state, or in a call of an open turn. A later turn replaces the entry, so that
    /// the row differs from the one that an evaluation read before the turn.
    Thread(TurnId),
    /// A resource, or a revision of it, that the op writes.
    Resource { id: String, revision: Option<u32>, op: OpKey },
}

impl RevisionName {
    /// Returns true if both entries are of the same object.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Resource { id, revision, .. }, Self::Resource { id: other, revision: other_revision, .. }) => {
                (id, revision) == (other, other_revision)
            }
            (Self::Thread(turn), Self::Thread(other)) => turn.thread == other.thread,
            _ => false,
        }
    }
}

/// The row of names of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionNames {
    pub names: Vec<RevisionName>,
    /// True if more than [`NAMES_MAX`] objects were entered. The row then has no entries and counts as named.
    pub is_full: bool,
    /// Ids to which the revision refers, so that a clean-up reads no content. None: written by v0.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<BTreeSet<String>>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl RevisionNames {
    /// Returns the row of a new revision.
    pub fn of(name: Option<RevisionName>, references: BTreeSet<String>) -> Self {
        Self { names: name.into_iter().collect(), references: Some(references), ..Self::default() }
    }

    /// Returns true if an object was entered.
    pub fn is_named(&self) -> bool {
        self.is_full || !self.names.is_empty()
    }

    /// Adds an entry, or replaces the entry of the same object. Returns true if the row changed.
    pub fn add(&mut self, name: RevisionName) -> bool {
        if self.is_full || self.names.contains(&name) {
            return false;
        }
        self.names.retain(|other| !other.is_same(&name));
        if self.names.len() < NAMES_MAX {
            self.names.push(name);
        } else {
            self.names.clear();
            self.is_full = true;
        }
        true
    }
}

/// An entry in the row of names of revision `number` of the resource `of`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    pub of: String,
    pub number: u32,
    pub name: RevisionName,
}

/// A stored revision of the resource that a write changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRevision {
    pub number: u32,
    /// True if an object names the revision. A store may return true without evaluating the entries for the newest
    /// revision, and if an older revision is not named.
    pub is_named: bool,
}

/// Returns the revision that a new one removes, given the stored ones in the order of their numbers. None: fewer
/// than the maximum are stored. The newest revision is never removed.
///
/// # Errors
/// `LIMIT_REACHED` if all revisions are named.
pub(crate) fn removed_by_new(kind: &str, stored: &[StoredRevision]) -> Result<Option<u32>> {
    if stored.len() < limits::REVISIONS_MAX {
        return Ok(None);
    }
    let older = stored.split_last().map_or(stored, |(_, older)| older);
    let unnamed = older.iter().find(|revision| !revision.is_named).map(|revision| revision.number);
    unnamed.map(Some).ok_or_else(|| {
        let message = format!(
            "the {kind} has {} revisions, the maximum, and each is named by another object: create a new {kind}",
            limits::REVISIONS_MAX
        );
        Error::precondition(Reason::LimitReached, message)
    })
}

#[cfg(test)]
mod tests {
    use folio_types::{CallId, ThreadId};

    use super::*;

    fn in_turn(number: usize, turn: u32) -> RevisionName {
        RevisionName::Thread(TurnId::new(ThreadId::derive(&[&number.to_string()]), turn))
    }

    fn thread(number: usize) -> RevisionName {
        in_turn(number, 1)
    }

    fn resource(call: u32) -> RevisionName {
        let op = OpKey::Call(CallId::new(TurnId::new(ThreadId::derive(&["t"]), 1), 1, call));
        RevisionName::Resource { id: "prm_1".to_owned(), revision: Some(3), op }
    }

    fn stored(count: usize, unnamed: &[u32]) -> Vec<StoredRevision> {
        let numbers = (1..).take(count);
        numbers.map(|number| StoredRevision { number, is_named: !unnamed.contains(&number) }).collect()
    }

    #[test]
    fn a_new_revision_removes_the_oldest_that_nothing_names() {
        let max = limits::REVISIONS_MAX;
        let newest = u32::try_from(max).unwrap();
        for (count, unnamed, removed) in [
            (0, vec![], Ok(None)),
            (max - 1, vec![1, 2], Ok(None)),
            (max, vec![1, 2], Ok(Some(1))),
            (max, vec![7, 3], Ok(Some(3))),
            (max, vec![newest - 1], Ok(Some(newest - 1))),
            (max, vec![newest], Err(Reason::LimitReached)),
            (max, vec![], Err(Reason::LimitReached)),
        ] {
            let found = removed_by_new("prompt", &stored(count, &unnamed)).map_err(|error| error.reason);
            assert_eq!(found, removed, "{count} {unnamed:?}");
        }
    }

    #[test]
    fn a_row_of_names_is_bounded_and_has_one_entry_for_each_object() {
        let mut row = RevisionNames::of(Some(thread(0)), BTreeSet::new());
        assert!(!row.add(thread(0)) && row.add(resource(1)) && !row.add(resource(1)));
        assert!(row.add(resource(2)), "a later op of the same object");
        assert!(row.add(in_turn(0, 2)), "a later turn of the same thread");
        assert_eq!(row.names, [resource(2), in_turn(0, 2)]);
        for number in 2..NAMES_MAX {
            assert!(row.add(thread(number)));
        }
        assert_eq!((row.names.len(), row.is_full), (NAMES_MAX, false));
        assert!(row.add(thread(NAMES_MAX)) && !row.add(thread(NAMES_MAX + 1)));
        assert_eq!(row, RevisionNames { is_full: true, ..RevisionNames::of(None, BTreeSet::new()) });
    }
}
