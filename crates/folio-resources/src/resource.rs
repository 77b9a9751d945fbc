//! The trait that every kind of resource implements.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use folio_types::op::{OpResult, Target, Write};
use folio_types::{Error, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Condition, ListRow, TextRecord};

/// The effect of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<R> {
    /// The resource after the change; none: its tombstone.
    pub after: Option<R>,
    /// The result that the op row records.
    pub result: OpResult,
}

/// The work that remains after a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleanup {
    /// Nothing: only the tombstone remains.
    Nothing,
    /// The op rows contain content. An index lists the deletion until the op rows are reduced to ids and times.
    OpRows,
    /// Dependents, text and bytes belong to the resource. An index lists the deletion until all of them are removed;
    /// then the op rows of the resource and of its dependents are reduced to ids and times.
    Dependents,
}

/// A kind of resource. Each change of a resource is one deciding write under the id of the resource.
///
/// The writes around a deciding write (name, references, dependents, list rows) are derived from the results of these
/// functions for the resource before and after the write.
pub trait Resource: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The ids of the resource.
    type Id: Clone + Debug + PartialEq + Display + FromStr<Err = Error> + Send + Sync + 'static;
    /// The changes of the resource.
    type Change: Clone + Debug + PartialEq + Send + Sync + 'static;
    /// The filter of lists of the resource.
    type Filter: Clone + Debug + Send + Sync + 'static;

    /// The kind in one lowercase word: in errors, stored keys and targets.
    const KIND: &'static str;
    /// The prefix of the ids, before the underscore.
    const ID_PREFIX: &'static str;
    /// The version of the stored format that is written.
    const FORMAT: u8 = 1;
    /// The change that leaves a tombstone.
    const DELETE: Self::Change;
    /// Whether other resources refer to this kind. A deletion is refused with `IN_USE` while one does.
    const IS_REFERENCED: bool = false;
    /// Whether each revision is kept with its references.
    const KEEPS_REVISIONS: bool = false;
    /// Whether each resource belongs to a parent, and is deleted with it.
    const HAS_PARENT: bool = false;
    /// Whether pages of text belong to the resource, stored apart from it.
    const HAS_TEXT: bool = false;
    /// The work that remains after a deletion.
    const CLEANUP: Cleanup = Cleanup::Nothing;

    /// Returns the id that follows from `parts`.
    fn derive_id(parts: &[&str]) -> Self::Id;

    /// Returns the id of the resource.
    fn id(&self) -> &Self::Id;

    /// Returns the version of the resource, which increases with every change.
    fn version(&self) -> u64;

    /// Returns the time of the resource's creation.
    fn created_at(&self) -> Timestamp;

    /// Returns the display name of the resource in error messages; empty if the kind has no names.
    fn label(&self) -> &str;

    /// Returns the effect of a change. `before`: the stored resource; none: it never existed.
    ///
    /// A change without effect returns the resource with an unchanged version.
    ///
    /// # Errors
    /// `NOT_FOUND` if the change requires a resource that does not exist, such as an update.
    fn apply(id: &Self::Id, write: &Write<Self::Change>, before: Option<Self>) -> Result<Plan<Self>>;

    /// Returns the list row of the resource.
    fn list_row(&self) -> ListRow;

    /// Returns the conditions of a filter.
    fn conditions(filter: &Self::Filter) -> Vec<Condition>;

    /// Returns the parent that a filter restricts the list to; none for kinds without parents.
    fn parent_in(_filter: &Self::Filter) -> Option<String> {
        None
    }

    /// Returns the name that no other live resource of the kind in the organization has, without regard to case.
    fn unique_name(&self) -> Option<&str> {
        None
    }

    /// Returns the ids that the newest revision refers to. Each referenced resource must be live when the reference is
    /// added.
    fn references(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns the revision of another resource that the resource refers to: the id and the revision number. The
    /// revision must exist when the reference is set.
    fn required_revision(&self) -> Option<(String, u32)> {
        None
    }

    /// Returns the id of the parent, which must be live when the resource is created.
    fn parent(&self) -> Option<String> {
        None
    }

    /// Returns the newest revision in its stored form, with its number.
    ///
    /// # Errors
    /// `INTERNAL` if the revision has no JSON form.
    fn newest_revision(&self) -> Result<Option<(u32, Vec<u8>)>> {
        Ok(None)
    }

    /// Returns the ids that a stored revision refers to.
    ///
    /// # Errors
    /// `STORED_FORMAT`.
    fn revision_references(_stored: &[u8]) -> Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }

    /// Returns the resource with the state of its text, which is stored apart from it.
    #[must_use]
    fn with_text(self, _text: &TextRecord) -> Self {
        self
    }

    /// Decodes the payload of a stored format up to [`Self::FORMAT`].
    ///
    /// # Errors
    /// The errors of `serde_json`.
    fn read_format(_format: u8, payload: &[u8]) -> serde_json::Result<crate::Record<Self>> {
        serde_json::from_slice(payload)
    }

    /// Returns the target of writes to the resource of this id.
    fn target(id: &Self::Id) -> Target {
        Target::new(Self::KIND, id)
    }

    /// Returns the id in a target; none if the target is of another kind.
    fn id_in(target: &Target) -> Option<Self::Id> {
        (target.kind() == Self::KIND).then(|| target.id().parse().ok()).flatten()
    }

    /// The error for a resource that does not exist or was deleted.
    fn not_found(id: &Self::Id) -> Error {
        Error::not_found(Self::KIND, id)
    }
}

/// A resource that keeps its revisions, numbered from 1 without a gap.
pub trait Revisioned: Resource {
    /// One revision.
    type Revision: Clone + Debug + PartialEq + Serialize + Send + Sync + 'static;
    /// The id of a revision.
    type RevId: Clone + Display + Send + Sync + 'static;

    /// Returns the resource and the number in the id of a revision.
    fn parts(revid: &Self::RevId) -> (&Self::Id, u32);

    /// Returns the newest revision and its number.
    fn newest(&self) -> (u32, &Self::Revision);

    /// Decodes a stored revision and gives it the name that the resource has now.
    ///
    /// # Errors
    /// `STORED_FORMAT`.
    fn revision_under_name(&self, stored: &[u8]) -> Result<Self::Revision>;
}

/// Implements the functions of [`Resource`] that return the id, version and creation time from the fields of the same
/// names.
macro_rules! common_functions {
    ($Id:ty) => {
        type Id = $Id;
        const ID_PREFIX: &'static str = <$Id>::PREFIX;

        fn derive_id(parts: &[&str]) -> $Id {
            <$Id>::derive(parts)
        }

        fn id(&self) -> &$Id {
            &self.id
        }

        fn version(&self) -> u64 {
            self.version
        }

        fn created_at(&self) -> folio_types::Timestamp {
            self.created_at
        }
    };
}
pub(crate) use common_functions;

/// Implements the functions of [`Resource`] for a resource that keeps its newest revision in the field `latest`. `kind`
/// names a revision in errors.
macro_rules! revision_functions {
    ($kind:expr) => {
        const KEEPS_REVISIONS: bool = true;

        fn newest_revision(&self) -> folio_types::Result<Option<(u32, Vec<u8>)>> {
            Ok(Some((self.latest.revid.version, crate::encode_value($kind, 1, &self.latest)?)))
        }
    };
}
pub(crate) use revision_functions;

/// Implements [`Revisioned`] for a resource that keeps its newest revision in the field `latest`. `kind` names a revision
/// in errors.
macro_rules! revisioned {
    ($Resource:ident, $Revision:ident, $RevId:ident, $kind:expr) => {
        impl crate::Revisioned for $Resource {
            type Revision = $Revision;
            type RevId = $RevId;

            fn parts(revid: &$RevId) -> (&Self::Id, u32) {
                (&revid.of, revid.version)
            }

            fn newest(&self) -> (u32, &$Revision) {
                (self.latest.revid.version, &self.latest)
            }

            fn revision_under_name(&self, stored: &[u8]) -> folio_types::Result<$Revision> {
                let revision: $Revision = crate::stored::decode_plain($kind, stored)?;
                Ok($Revision { name: self.latest.name.clone(), ..revision })
            }
        }
    };
}
pub(crate) use revisioned;
