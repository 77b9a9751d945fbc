//! Tags.

use async_trait::async_trait;
use folio_types::op::{Decided, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::tag::Tag;
use folio_types::{OrgId, Result, TagId};

/// A change of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// A tag under a name that no live tag of the organization has (without regard to case).
    Create {
        /// The name.
        name: String,
        /// `#rrggbb`.
        color: Option<String>,
        /// What it is for.
        description: Option<String>,
    },
    /// What is none stays; an inner none takes it away.
    Update {
        /// The new name.
        name: Option<String>,
        /// The new color.
        color: Option<Option<String>>,
        /// The new description.
        description: Option<Option<String>>,
    },
    /// The tombstone. Refused with `IN_USE` while a live document or prompt has the tag.
    Delete,
}

/// Which tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// A piece of the name, without regard to case.
    pub name_search: Option<String>,
}

/// Tags.
#[async_trait]
pub trait TagStore: Send + Sync {
    /// The deciding write. The result is [`folio_types::op::OpResult::Tag`] or `Deleted`.
    ///
    /// Errors: `NAME_TAKEN`, `IN_USE` (the message says who uses it), `NOT_FOUND` (gone), `REQUEST_ID_CONFLICT`.
    async fn decide(&self, id: &TagId, write: Write<TagChange>) -> Result<Decided>;

    /// The live tag, or none.
    async fn get(&self, org: &OrgId, id: &TagId) -> Result<Option<Tag>>;

    /// The live tags among these, in the order asked.
    async fn get_many(&self, org: &OrgId, ids: &[TagId]) -> Result<Vec<Tag>>;

    /// The live tag of a name (without regard to case), or none.
    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Tag>>;

    /// Live tags.
    async fn list(&self, org: &OrgId, filter: &TagFilter, page: &PageRequest) -> Result<Page<Tag>>;
}
