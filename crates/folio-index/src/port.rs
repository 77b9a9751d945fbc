//! The port: everything that an index of passages does.

use async_trait::async_trait;
use folio_types::{DocumentId, OrgId, Result};

use crate::answer::{Answer, IndexState, ListedDocument, Statistics, Written};
use crate::passage::IndexedDocument;
use crate::search::Search;

/// An index of the passages of all organizations. The organization is the first argument of every call, and no call
/// reads or writes data of another organization. Rankings of an organization do not depend on other organizations.
///
/// A write is visible to each search that begins after its end. Each write is idempotent.
///
/// A caller builds an index from the stores: [`PassageIndex::begin_rebuild`], [`PassageIndex::upsert`] of every
/// document, [`PassageIndex::finish_rebuild`]. Other writes are permitted meanwhile.
#[async_trait]
pub trait PassageIndex: Send + Sync {
    /// Returns the state of the index of an organization. An organization that was never indexed is
    /// [`IndexState::Missing`].
    async fn state(&self, org: &OrgId) -> Result<IndexState>;

    /// Replaces the index of an organization by an empty one in the state [`IndexState::Rebuilding`]. `rebuild`: a random number that
    /// the caller chooses for each rebuild.
    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()>;

    /// Changes the state from [`IndexState::Rebuilding`] to [`IndexState::Ready`], unless another rebuild has begun since the one with
    /// this number: a caller whose rebuild was replaced must not end the other one. No effect in the state `Ready`.
    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written>;

    /// Replaces all passages of each document by those of its new generation, in one step for each document. A document
    /// of which the index has a later generation is not changed. A document without passages is removed.
    ///
    /// # Errors
    /// `INVALID_FIELD` or `TOO_LARGE` if a document exceeds a bound. Nothing is written then.
    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written>;

    /// Removes the passages of documents. Unknown documents have no effect.
    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written>;

    /// Removes everything of an organization. The state becomes [`IndexState::Missing`].
    async fn delete_organization(&self, org: &OrgId) -> Result<()>;

    /// Returns the passages that match a search best. An index in another state than `Ready` is named in the answer; it
    /// is no error.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the search exceeds a bound, or has neither text nor vector. `OVERLOADED` if too many searches
    /// wait.
    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer>;

    /// Returns the indexed documents with ids after `after`, in the order of their ids, at most `limit`. A sweep finds
    /// documents that no longer exist, and missing or old ones, by it.
    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>>;

    /// Returns the sizes of the index of an organization.
    async fn statistics(&self, org: &OrgId) -> Result<Statistics>;

    /// Returns all organizations of which the index has data.
    async fn organizations(&self) -> Result<Vec<OrgId>>;
}
