//! Documents and their text by page. The bytes are in the [`super::BlobStore`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use folio_types::document::{Document, DocumentPatch, TextState};
use folio_types::op::{Decided, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, OrgId, Result, TagId, Timestamp};

/// A document whose bytes are stored already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// The file name.
    pub name: String,
    /// As sniffed.
    pub media_type: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the bytes in hexadecimal.
    pub sha256: String,
    /// Its tags.
    pub tags: Vec<TagId>,
    /// Its metadata.
    pub metadata: BTreeMap<String, String>,
}

/// A change of one document. Tags must live, else `NOT_FOUND`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// A new document in state `uploaded`.
    Create(NewDocument),
    /// What is none in the patch stays.
    Update(DocumentPatch),
    /// The tombstone. Its text and its extractions go with it; the bytes and the threads are removed by the clean-up
    /// that [`DocumentStore::deleted`] feeds.
    Delete,
}

/// Which documents: all that is named must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    /// A piece of the name, without regard to case.
    pub name_search: Option<String>,
    /// Has all of these tags.
    pub all_tags: Vec<TagId>,
    /// Has these metadata values; a value is a piece of the stored one, without regard to case.
    pub metadata: BTreeMap<String, String>,
}

/// The text of one page, 1 for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPage {
    /// The page.
    pub number: u32,
    /// Its text.
    pub text: String,
}

/// What ingestion found out. Not an edit: it leaves the document's `version` alone, and is ignored for a document that
/// is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestUpdate {
    /// The state from now on.
    pub state: TextState,
    /// All pages, where the text is there.
    pub pages: Vec<NewPage>,
    /// Whether a program that the server lacks would read more: the document stays in the index of
    /// [`Waits::ForProgram`], though its state is settled.
    pub lacks_program: bool,
    /// When.
    pub at: Timestamp,
}

/// What a document waits for, so that its text can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waits {
    /// Its turn: its state is `uploaded` or `processing`.
    ForItsTurn,
    /// A program that was not installed when its turn came: its state is settled, and what it had was stored.
    ForProgram,
}

/// A document that waits to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingText {
    /// The tenant.
    pub org: OrgId,
    /// The document.
    pub document: DocumentId,
    /// How often [`TextState::Processing`] was stored for it: attempts that began and did not end. Counted by the store, so
    /// that a file that takes the whole process down with it is not tried for ever. A settled state ends the count.
    pub attempts: u32,
}

/// What an organization has of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holdings {
    /// How many live ones.
    pub documents: u64,
    /// Bytes of their files together.
    pub bytes: u64,
}

impl Holdings {
    /// With what this has beside it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            documents: self.documents.saturating_add(other.documents),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Documents.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// The deciding write. The result is [`folio_types::op::OpResult::Document`] or `Deleted`.
    ///
    /// Errors: `NOT_FOUND` (gone, or a tag is), `REQUEST_ID_CONFLICT`.
    async fn decide(&self, id: &DocumentId, write: Write<DocumentChange>) -> Result<Decided>;

    /// The live document, or none.
    async fn get(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Document>>;

    /// Live documents. The name search is a case-insensitive substring.
    async fn list(&self, org: &OrgId, filter: &DocumentFilter, page: &PageRequest) -> Result<Page<Document>>;

    /// What an organization has. Reads the small row of every live document: for whoever remembers the answer, not for each
    /// request.
    async fn holdings(&self, org: &OrgId) -> Result<Holdings>;

    /// Stores what ingestion found out.
    async fn ingest(&self, org: &OrgId, id: &DocumentId, update: IngestUpdate) -> Result<()>;

    /// The text of the pages `from..from + count` (from 1) of a live document, in order.
    async fn text(&self, org: &OrgId, id: &DocumentId, from: u32, count: u32) -> Result<Vec<NewPage>>;

    /// Live documents that wait, of all organizations, at most `limit`: a system index, read by no request. A document is
    /// in one of the two at most.
    async fn pending_text(&self, waits: Waits, limit: usize) -> Result<Vec<PendingText>>;

    /// Documents that were deleted and whose bytes and threads may still be there, of all organizations, at most `limit`:
    /// a system index, read by no request.
    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, DocumentId, Timestamp)>>;

    /// Takes a document from that index: all that hung on it is gone.
    async fn forget_deleted(&self, org: &OrgId, id: &DocumentId) -> Result<()>;
}
