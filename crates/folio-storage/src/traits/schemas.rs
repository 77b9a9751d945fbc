//! Schemas.

use async_trait::async_trait;
use folio_types::op::{Decided, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::{OrgId, Result, SchemaId, SchemaRevId};
use serde_json::Value;

/// A change of one schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// The first revision, under a name that no live schema of the organization has (without regard to case).
    Create {
        /// The name.
        name: String,
        /// The whole response format.
        response_format: Value,
        /// Whether it holds the strict rules.
        strict: bool,
    },
    /// A new revision where the format differs from the newest one, a rename where only the name does.
    Update {
        /// The new name, where it changes.
        name: Option<String>,
        /// The new format and whether it is strict, where they change.
        response_format: Option<(Value, bool)>,
    },
    /// The tombstone. Refused with `IN_USE` while a live prompt refers to any revision.
    Delete,
}

/// Which schemas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaFilter {
    /// A piece of the name, without regard to case.
    pub name_search: Option<String>,
}

/// Schemas and their revisions.
#[async_trait]
pub trait SchemaStore: Send + Sync {
    /// The deciding write. The result is [`folio_types::op::OpResult::Schema`] or `Deleted`.
    ///
    /// Errors: `NAME_TAKEN`, `IN_USE`, `NOT_FOUND` (gone), `REQUEST_ID_CONFLICT`.
    async fn decide(&self, id: &SchemaId, write: Write<SchemaChange>) -> Result<Decided>;

    /// The live schema, or none.
    async fn get(&self, org: &OrgId, id: &SchemaId) -> Result<Option<Schema>>;

    /// A revision of a live schema, or none.
    async fn revision(&self, org: &OrgId, revid: &SchemaRevId) -> Result<Option<SchemaRevision>>;

    /// The revisions among these whose schema lives, in the order asked; all of them at once.
    async fn revisions(&self, org: &OrgId, revids: &[SchemaRevId]) -> Result<Vec<SchemaRevision>>;

    /// The live schema of a name (without regard to case), or none.
    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Schema>>;

    /// Live schemas.
    async fn list(&self, org: &OrgId, filter: &SchemaFilter, page: &PageRequest) -> Result<Page<Schema>>;

    /// The revisions of a live schema, newest first.
    async fn versions(&self, org: &OrgId, id: &SchemaId, page: &PageRequest) -> Result<Page<SchemaRevision>>;
}
