//! Type-erased kinds of resources, for storage adapters.

use std::collections::BTreeSet;
use std::fmt;

use folio_types::{Code, Error, Reason, Result, Timestamp};
use serde::de::IgnoredAny;

use crate::stored::{Record, decode_value, encode_value};
use crate::{Cleanup, KINDS, ListRow, Resource};

/// Fields of a live resource from which a write plan derives names, references and list rows.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedFields {
    pub version: u64,
    pub created_at: Timestamp,
    /// Display name for error messages.
    pub label: String,
    /// Original spelling of the unique name. None: names of the kind are not unique.
    pub unique_name: Option<String>,
    /// Ids that the newest revision references.
    pub references: BTreeSet<String>,
    /// Ids and numbers of the revisions that the newest revision names.
    pub named_revisions: BTreeSet<(String, u32)>,
    pub parent: Option<String>,
    /// Number of the newest revision. None: the kind keeps no revisions.
    pub revision: Option<u32>,
    pub row: ListRow,
}

impl IndexedFields {
    pub(crate) fn of<R: Resource>(resource: &R) -> Result<Self> {
        Ok(Self {
            version: resource.version(),
            created_at: resource.created_at(),
            label: resource.label().to_owned(),
            unique_name: resource.unique_name().map(str::to_owned),
            references: resource.references(),
            named_revisions: resource.named_revisions(),
            parent: resource.parent(),
            revision: resource.newest_revision()?.map(|(number, _)| number),
            row: resource.list_row(),
        })
    }
}

/// Maximum number of resources that an `IN_USE` error names.
// proto: none "bounds an error message"
pub const NAMED_REFERRERS_MAX: usize = 5;

/// A kind of resource, type-erased. The fields are the constants of [`Resource`].
pub struct Kind {
    /// One lowercase word.
    pub name: &'static str,
    /// Prefix of the ids, before the underscore.
    pub id_prefix: &'static str,
    pub is_referenced: bool,
    pub keeps_revisions: bool,
    pub has_parent: bool,
    pub has_text: bool,
    pub cleanup: Cleanup,
    read: fn(&[u8]) -> Result<Record<IndexedFields>>,
    is_live: fn(&[u8]) -> Result<bool>,
    revision_references: fn(&[u8]) -> Result<BTreeSet<String>>,
    tombstone: fn(u64, Timestamp) -> Result<Vec<u8>>,
    #[cfg(test)]
    pub(crate) parse: fn(&[u8]) -> serde_json::Result<()>,
    #[cfg(test)]
    pub(crate) rewrite: fn(&[u8]) -> Result<Vec<u8>>,
}

impl Kind {
    pub const fn of<R: Resource>() -> Self {
        Self {
            name: R::KIND,
            id_prefix: R::ID_PREFIX,
            is_referenced: R::IS_REFERENCED,
            keeps_revisions: R::KEEPS_REVISIONS,
            has_parent: R::HAS_PARENT,
            has_text: R::HAS_TEXT,
            cleanup: R::CLEANUP,
            read: |bytes| match read::<R>(bytes)? {
                Record::Live(resource) => Ok(Record::Live(IndexedFields::of(&resource)?)),
                Record::Tombstone { version, at } => Ok(Record::Tombstone { version, at }),
            },
            is_live: is_live::<R>,
            revision_references: R::revision_references,
            tombstone: |version, at| encode_value(R::KIND, R::FORMAT, &Record::<R>::Tombstone { version, at }),
            #[cfg(test)]
            parse: |payload| R::read_format(R::FORMAT, payload).map(drop),
            #[cfg(test)]
            rewrite: crate::decide::rewrite::<R>,
        }
    }

    /// Returns the kind of `R`.
    pub const fn get<R: Resource>() -> &'static Self {
        const { &Self::of::<R>() }
    }

    /// Returns the kind whose ids have the prefix of `id`.
    ///
    /// # Errors
    /// `INTERNAL` if no kind has this prefix.
    pub fn of_id(id: &str) -> Result<&'static Self> {
        let prefix = id.split_once('_').map(|(prefix, _)| prefix);
        let found = KINDS.iter().find(|kind| Some(kind.id_prefix) == prefix);
        found.ok_or_else(|| Error::internal(format!("invalid id {id:?}: unknown prefix")))
    }

    pub fn by_name(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// # Errors
    /// `STORED_FORMAT` if the record is unreadable or of a newer format.
    pub fn read(&self, record: &[u8]) -> Result<Record<IndexedFields>> {
        (self.read)(record)
    }

    /// Returns true if a record is a live resource, and false if it is a tombstone. The fields of the resource are skipped: a
    /// resource may be large.
    ///
    /// # Errors
    /// `STORED_FORMAT` if the record is no JSON or of a newer format.
    pub fn is_live(&self, record: &[u8]) -> Result<bool> {
        (self.is_live)(record)
    }

    /// Returns the ids that a stored revision references.
    ///
    /// # Errors
    /// `STORED_FORMAT` if the revision is unreadable or of a newer format.
    pub fn revision_references(&self, stored: &[u8]) -> Result<BTreeSet<String>> {
        (self.revision_references)(stored)
    }

    pub fn tombstone(&self, version: u64, at: Timestamp) -> Result<Vec<u8>> {
        (self.tombstone)(version, at)
    }

    /// Returns the error for a resource that does not exist or was deleted.
    pub fn not_found(&self, id: &str) -> Error {
        Error::not_found(self.name, id)
    }

    /// Returns the error for a revision that does not exist or was removed.
    pub fn revision_not_found(of: &str, number: u32) -> Error {
        match Self::of_id(of) {
            Ok(kind) => Error::not_found(&format!("{} revision", kind.name), format!("{of}.{number}")),
            Err(error) => error,
        }
    }

    /// Returns the error for a name that another resource of the kind, `id`, has.
    pub fn name_taken(kind: &str, name: &str, id: &str) -> Error {
        let message = format!("the {} {name:?} already exists", kind.replace('_', " "));
        Error::new(Code::AlreadyExists, Reason::NameTaken, message).detail("id", id)
    }

    /// Returns the error for the deletion of a resource of the kind to which `count` resources refer. `referrers`: ids and
    /// descriptions of the first referring resources.
    pub fn in_use(kind: &str, referrers: &[(String, String)], count: u64) -> Error {
        let (ids, described): (Vec<_>, Vec<_>) = referrers.iter().cloned().unzip();
        let more = match count.saturating_sub(referrers.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Error::precondition(Reason::InUse, format!("the {kind} is in use by {}{more}", described.join(", ")))
            .detail("users", ids.join(","))
            .detail("count", count)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

pub(crate) fn read<R: Resource>(record: &[u8]) -> Result<Record<R>> {
    decode_value(R::KIND, R::FORMAT, record, R::read_format)
}

/// Returns true if a record is a live resource. The records of all formats are a [`Record`].
fn is_live<R: Resource>(record: &[u8]) -> Result<bool> {
    let skipped =
        decode_value(R::KIND, R::FORMAT, record, |_, payload| serde_json::from_slice::<Record<IgnoredAny>>(payload))?;
    Ok(matches!(skipped, Record::Live(_)))
}

#[cfg(test)]
mod tests;
