//! The trait of all kinds of resources.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use folio_types::op::{OpResult, Target, Write};
use folio_types::{Error, Result, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Condition, ListRow, TextRecord};

#[derive(Debug, Clone, PartialEq)]
pub struct Plan<R> {
    /// The resource after the change. None: it is replaced by a tombstone.
    pub after: Option<R>,
    /// Result that the op row records.
    pub result: OpResult,
}

impl<R: Resource> Plan<R> {
    /// Returns the plan that stores a resource and records its id and its label.
    pub(crate) fn stored(after: R) -> Self {
        let result = OpResult::Resource { id: after.id().to_string(), name: after.label().to_owned() };
        Self { after: Some(after), result }
    }

    /// Returns the plan that leaves a tombstone.
    pub(crate) fn deleted() -> Self {
        Self { after: None, result: OpResult::Deleted }
    }
}

/// Rows that remain after a deletion. The clean-up removes them in pages; an index keeps the deletion until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleanup {
    /// Only the tombstone remains.
    Nothing,
    /// Revisions remain, and the references of older ones.
    Revisions,
    /// Dependents, text or bytes remain. The clean-up also reduces the op rows of the resource and its dependents to ids
    /// and times, a day after the deletion.
    Dependents,
}

/// A kind of resource. Each change is one deciding write to the record of one resource.
///
/// The writes around a deciding write (name, references, dependents, list rows) are derived from the results of these
/// functions for the resource before and after the write.
pub trait Resource: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    type Id: Clone + Debug + PartialEq + Display + FromStr<Err = Error> + Send + Sync + 'static;
    type Change: Clone + Debug + PartialEq + Send + Sync + 'static;
    type Filter: Clone + Debug + Send + Sync + 'static;

    /// One lowercase word, used in errors, stored keys and targets.
    const KIND: &'static str;
    /// Prefix of the ids, before the underscore.
    const ID_PREFIX: &'static str;
    /// Version of the stored format that this program writes. Older versions stay readable.
    const FORMAT: u8 = 1;
    /// The change that leaves a tombstone.
    const DELETE: Self::Change;
    /// If true, other resources may reference this kind. A deletion is refused with `IN_USE` while a reference exists.
    const IS_REFERENCED: bool = false;
    /// If true, up to [`folio_types::limits::REVISIONS_MAX`] revisions are kept. The references of all revisions count
    /// until the deletion of the resource.
    const KEEPS_REVISIONS: bool = false;
    /// If true, each resource has a parent and is deleted together with it.
    const HAS_PARENT: bool = false;
    /// If true, pages of text belong to each resource, stored separately.
    const HAS_TEXT: bool = false;
    const CLEANUP: Cleanup = Cleanup::Nothing;

    /// Derives an id deterministically.
    fn derive_id(parts: &[&str]) -> Self::Id;

    fn id(&self) -> &Self::Id;

    /// Returns the version, which every change increments.
    fn version(&self) -> u64;

    fn created_at(&self) -> Timestamp;

    /// Returns the display name for error messages. Empty if the kind has no names. Default: the unique name.
    fn label(&self) -> &str {
        self.unique_name().unwrap_or_default()
    }

    /// Returns the effect of a change. A change without effect returns the resource with an unchanged version.
    /// `before`: the stored resource. None: it never existed.
    ///
    /// # Errors
    /// `NOT_FOUND` if the change requires an existing resource, such as an update.
    fn apply(id: &Self::Id, write: &Write<Self::Change>, before: Option<Self>) -> Result<Plan<Self>>;

    /// Returns the row by which lists find and order the resource. Default: the display name, without terms.
    fn list_row(&self) -> ListRow {
        ListRow { id: self.id().to_string(), name: self.label().to_owned(), ..ListRow::default() }
    }

    fn conditions(filter: &Self::Filter) -> Vec<Condition>;

    /// Returns the parent to which a filter restricts the list. None: no restriction, or the kind has no parents.
    fn parent_in(_filter: &Self::Filter) -> Option<String> {
        None
    }

    /// Returns a name that is unique among the live resources of the kind in the organization, case-insensitive.
    fn unique_name(&self) -> Option<&str> {
        None
    }

    /// Returns the ids that the newest revision references. Each referenced resource must be live when the reference is
    /// added.
    fn references(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Returns the ids and numbers of the revisions that this resource, or its newest revision, names. A named revision
    /// must exist when the name is added, and is not removed while the name exists.
    fn named_revisions(&self) -> BTreeSet<(String, u32)> {
        BTreeSet::new()
    }

    /// Returns the id of the parent, which must be live when the resource is created.
    fn parent(&self) -> Option<String> {
        None
    }

    /// Returns the number and the encoding of the newest revision. None: the kind keeps no revisions.
    fn newest_revision(&self) -> Result<Option<(u32, Vec<u8>)>> {
        Ok(None)
    }

    /// Returns the ids that a stored revision references.
    ///
    /// # Errors
    /// `STORED_FORMAT` if the revision is unreadable or of a newer format.
    fn revision_references(_stored: &[u8]) -> Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }

    /// Sets the state of the text, which is stored separately.
    #[must_use]
    fn with_text(self, _text: &TextRecord) -> Self {
        self
    }

    /// Decodes a payload of a stored format, which is at most [`Self::FORMAT`].
    fn read_format(_format: u8, payload: &[u8]) -> serde_json::Result<crate::Record<Self>> {
        serde_json::from_slice(payload)
    }

    /// Returns the resource with this id if each organization has it without storing it. No write changes such a resource.
    fn built_in(_id: &Self::Id) -> Option<Self> {
        None
    }

    fn target(id: &Self::Id) -> Target {
        Target::new(Self::KIND, id)
    }

    /// Returns the id in a target. None: the target is of another kind.
    fn id_in(target: &Target) -> Option<Self::Id> {
        (target.kind() == Self::KIND).then(|| target.id().parse().ok()).flatten()
    }

    /// Returns the error for a resource that does not exist or was deleted.
    fn not_found(id: &Self::Id) -> Error {
        Error::not_found(Self::KIND, id)
    }
}

/// A resource that keeps its revisions, numbered from 1. A revision beyond the maximum removes an older one.
pub trait Revisioned: Resource {
    type Revision: Clone + Debug + PartialEq + Serialize + Send + Sync + 'static;
    type RevId: Clone + Display + Send + Sync + 'static;

    /// Splits the id of a revision into the id of the resource and the number of the revision.
    fn parts(revid: &Self::RevId) -> (&Self::Id, u32);

    /// Returns the number of the newest revision and the revision.
    fn newest(&self) -> (u32, &Self::Revision);

    /// Decodes a stored revision and replaces its name by the current name of the resource.
    ///
    /// # Errors
    /// `STORED_FORMAT` if the revision is unreadable or of a newer format.
    fn revision_under_name(&self, stored: &[u8]) -> Result<Self::Revision>;
}

/// Implements the functions of [`Resource`] about the id, the version and the time of creation.
macro_rules! common_functions {
    ($Id:ty) => {
        crate::resource::id_functions!($Id);

        fn version(&self) -> u64 {
            self.version
        }
    };
}
pub(crate) use common_functions;

/// Implements the functions of [`Resource`] about the id and the time of creation.
macro_rules! id_functions {
    ($Id:ty) => {
        type Id = $Id;
        const ID_PREFIX: &'static str = <$Id>::PREFIX;

        fn derive_id(parts: &[&str]) -> $Id {
            <$Id>::derive(parts)
        }

        fn id(&self) -> &$Id {
            &self.id
        }

        fn created_at(&self) -> folio_types::Timestamp {
            self.created_at
        }
    };
}
pub(crate) use id_functions;

/// Implements `changed`, the end of each change of a resource, for a type with the fields `version` and `updated_at`.
macro_rules! changed_function {
    () => {
        /// Sets the version and the time of the change, unless the resource is equal to the stored one.
        fn changed(self, before: &Self, at: folio_types::Timestamp) -> Self {
            match self == *before {
                true => self,
                false => Self { version: before.version + 1, updated_at: at, ..self },
            }
        }
    };
}
pub(crate) use changed_function;

/// Implements `decided`, the decision of a person, for a kind with the fields `state`, `decided_by` and `decided_at`. `open`: the
/// state that waits for a decision. `noun`: the kind in errors. `reason`: the reason of the error.
macro_rules! decided_function {
    ($Change:ty, $State:ty, open: $open:pat, noun: $noun:literal, reason: $reason:expr) => {
        /// Returns the resource after the decision of a person.
        ///
        /// # Errors
        /// The resource is in another state than the open one and `to`.
        fn decided(self, write: &folio_types::op::Write<$Change>, to: $State) -> folio_types::Result<Self> {
            match self.state {
                state if state == to => Ok(self),
                $open => Ok(Self {
                    state: to,
                    decided_by: Some(write.by.clone()),
                    decided_at: Some(write.at),
                    updated_at: write.at,
                    version: self.version + 1,
                    ..self
                }),
                state => {
                    let (from, to) = (state.as_str(), to.as_str());
                    let message = format!(concat!("the ", $noun, " is {} and cannot become {}"), from, to);
                    Err(folio_types::Error::precondition($reason, message))
                }
            }
        }
    };
}
pub(crate) use decided_function;

/// Implements the revision functions of [`Resource`] for a type with its newest revision in the field `latest`. `kind`
/// names a revision in errors.
macro_rules! revision_functions {
    ($kind:expr) => {
        const KEEPS_REVISIONS: bool = true;
        const CLEANUP: crate::Cleanup = crate::Cleanup::Revisions;

        fn newest_revision(&self) -> folio_types::Result<Option<(u32, Vec<u8>)>> {
            Ok(Some((self.latest.revid.version, crate::encode_value($kind, 1, &self.latest)?)))
        }
    };
}
pub(crate) use revision_functions;

/// Implements [`Revisioned`] for a type with its newest revision in the field `latest`. `kind` names a revision in
/// errors.
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
