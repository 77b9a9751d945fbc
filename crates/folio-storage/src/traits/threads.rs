//! Threads: headers and journals.

use std::collections::BTreeSet;

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, RequestRow, ThreadHeader};
use folio_resources::{Condition, ListRow, term};
use folio_types::op::OpKey;
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, OrgId, RequestId, Result, ThreadId, Timestamp, UserId};

/// A thread that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThread {
    /// Its id: generated, or derived from a request.
    pub id: ThreadId,
    /// Its organization.
    pub org: OrgId,
    /// Who starts it.
    pub user: UserId,
    /// Its profile.
    pub profile: String,
    /// Its documents; they must live, else `NOT_FOUND`.
    pub documents: Vec<DocumentId>,
    /// Its title; may be empty.
    pub title: String,
    /// Its model.
    pub model: Option<String>,
    /// Hidden, and removed at `expires_at`.
    pub ephemeral: bool,
    /// When it goes by itself.
    pub expires_at: Option<Timestamp>,
    /// What was there before it: `Imported` entries.
    pub imported: Vec<Entry>,
    /// The row of the request that makes it, where a repetition of it must say the same again.
    pub request: Option<RequestRow>,
    /// When.
    pub at: Timestamp,
}

impl NewThread {
    /// Its header before anything of it is written: what its first append expects.
    pub fn header(&self) -> ThreadHeader {
        let working = self.imported.iter().rev().find_map(|entry| match entry {
            Entry::Imported(imported) => Some(imported.working.clone()),
            _ => None,
        });
        ThreadHeader {
            id: self.id.clone(),
            org: self.org.clone(),
            user: self.user.clone(),
            profile: self.profile.clone(),
            documents: self.documents.clone(),
            title: self.title.clone(),
            model: self.model.clone(),
            ephemeral: self.ephemeral,
            expires_at: self.expires_at,
            created_at: self.at,
            updated_at: self.at,
            epoch: 0,
            owner: None,
            version: 0,
            entries: 0,
            bytes: 0,
            turns: 0,
            working: working.unwrap_or_default(),
            open_turn: None,
        }
    }
}

/// Which threads: all that is named must hold. Ephemeral ones are never listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// Started by this user.
    pub user: Option<UserId>,
    /// About this document (among others).
    pub document: Option<DocumentId>,
    /// Of this profile.
    pub profile: Option<String>,
    /// A piece of the title, without regard to case.
    pub title_search: Option<String>,
}

impl ThreadFilter {
    /// Returns its conditions.
    pub fn conditions(&self) -> Vec<Condition> {
        let Self { user, document, profile, title_search } = self;
        let user = user.iter().map(|user| term("user", user));
        let document = document.iter().map(|document| term("of", document));
        let profile = profile.iter().map(|profile| term("profile", profile));
        let terms = user.chain(document).chain(profile).map(|term| Condition::AnyTerm(vec![term]));
        terms.chain(Condition::name_search(title_search.as_ref())).collect()
    }
}

/// Returns the list row of a thread.
pub fn thread_row(header: &ThreadHeader) -> ListRow {
    let mut terms: BTreeSet<String> = header.documents.iter().map(|document| term("of", document)).collect();
    terms.insert(term("user", &header.user));
    terms.insert(term("profile", &header.profile));
    ListRow { id: header.id.to_string(), name: header.title.clone(), terms, ..ListRow::default() }
}

/// Threads.
#[async_trait]
pub trait ThreadStore: Send + Sync {
    /// Makes a thread unless one of that id is there; gives the one that is there then, or refuses with
    /// `REQUEST_ID_CONFLICT` where the row of its request is there with another digest. An id is given once: a thread
    /// that was removed is `NOT_FOUND`, for the op rows of its calls outlive it, and turns numbered anew would find them.
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader>;

    /// Makes a thread together with the first append to it, whose fence is epoch 0 and version 0: all or nothing, so that
    /// no thread is seen that nothing was said in. Refused where the thread is there, unless this very batch made it;
    /// errors as of [`ThreadStore::create`], and any other leaves the outcome unknown: see [`ThreadStore::has_batch`].
    /// On CQL one conditional batch in the thread's partition, conditional on its absence.
    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended>;

    /// The header, or none.
    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>>;

    /// Appends to the journal under the fence, all or nothing. `NOT_FOUND` where the thread is gone; any other error
    /// leaves the outcome unknown: see [`ThreadStore::has_batch`].
    ///
    /// The row that the append `opens` stands before it can. Where both share a transaction they are written in it;
    /// where not, the row is inserted first, and only when that is answered the append is sent. A row whose append was
    /// refused or never arrived harms nothing: the sweep finds out.
    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended>;

    /// Whether the append with this batch id stands (its own row is there).
    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool>;

    /// Entries from sequence number `from` on, in order, at most `limit`.
    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>>;

    /// The row of a request id, or none.
    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>>;

    /// Headers of threads that are not ephemeral.
    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>>;

    /// Removes a thread with its journal; one that is not there is no error. The tombstone keeps `by`, the request that
    /// removed it.
    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()>;

    /// The request that removed a thread; none where nobody's did, or where the thread lives or never was.
    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>>;

    /// Threads whose `expires_at` has passed, of all organizations, at most `limit`: a system index, read by no request.
    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>>;

    /// Sets `expires_at` of every thread of a document (it was deleted) that has none or a later one.
    async fn expire_with_document(&self, org: &OrgId, document: &DocumentId, at: Timestamp) -> Result<()>;

    /// Sets `expires_at` of a thread that has none or a later one, if its header is still here and no turn is open: whoever
    /// uses it meanwhile keeps it. Whether it was set.
    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool>;
}
