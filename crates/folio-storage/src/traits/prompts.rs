//! Prompts.

use async_trait::async_trait;
use folio_types::op::{Decided, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::{DocumentId, OrgId, PromptId, PromptRevId, Result, SchemaRevId, TagId};

/// A change of one prompt. Tags and the schema must live, else `NOT_FOUND`.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptChange {
    /// The first revision, under a name that no live prompt of the organization has (without regard to case).
    Create {
        /// The name.
        name: String,
        /// The instructions.
        content: String,
        /// The schema that answers must match.
        schema: Option<SchemaRevId>,
        /// The model that runs it.
        model: Option<String>,
        /// Its tags.
        tags: Vec<TagId>,
    },
    /// A new revision where anything but the name differs from the newest one, a rename where only the name does.
    Update {
        /// The new name, where it changes.
        name: Option<String>,
        /// The new instructions, where they change.
        content: Option<String>,
        /// The new schema, where it changes; the inner none takes it away.
        schema: Option<Option<SchemaRevId>>,
        /// The new model, where it changes; the inner none takes it away.
        model: Option<Option<String>>,
        /// The new tags, where they change.
        tags: Option<Vec<TagId>>,
    },
    /// The tombstone.
    Delete,
}

/// Which prompts: all that is named must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFilter {
    /// A piece of the name, without regard to case.
    pub name_search: Option<String>,
    /// Has at least one of these tags (none given: no condition).
    pub any_tag: Vec<TagId>,
    /// Has all of these tags.
    pub all_tags: Vec<TagId>,
    /// Shares at least one tag with this document.
    pub document: Option<DocumentId>,
}

/// Prompts and their revisions.
#[async_trait]
pub trait PromptStore: Send + Sync {
    /// The deciding write. The result is [`folio_types::op::OpResult::Prompt`] or `Deleted`.
    ///
    /// Errors: `NAME_TAKEN`, `NOT_FOUND` (gone, or its schema or a tag is), `REQUEST_ID_CONFLICT`.
    async fn decide(&self, id: &PromptId, write: Write<PromptChange>) -> Result<Decided>;

    /// The live prompt, or none.
    async fn get(&self, org: &OrgId, id: &PromptId) -> Result<Option<Prompt>>;

    /// A revision of a live prompt, or none.
    async fn revision(&self, org: &OrgId, revid: &PromptRevId) -> Result<Option<PromptRevision>>;

    /// The revisions among these whose prompt lives, in the order asked; all of them at once.
    async fn revisions(&self, org: &OrgId, revids: &[PromptRevId]) -> Result<Vec<PromptRevision>>;

    /// The live prompt of a name (without regard to case), or none.
    async fn by_name(&self, org: &OrgId, name: &str) -> Result<Option<Prompt>>;

    /// Live prompts.
    async fn list(&self, org: &OrgId, filter: &PromptFilter, page: &PageRequest) -> Result<Page<Prompt>>;

    /// The revisions of a live prompt, newest first.
    async fn versions(&self, org: &OrgId, id: &PromptId, page: &PageRequest) -> Result<Page<PromptRevision>>;
}
