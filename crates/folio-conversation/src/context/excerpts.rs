//! A cache of the first pages of documents. Every turn of a thread reads the first pages of the thread's documents.

use std::sync::Arc;
use std::time::Duration;

use folio_resources::TextRecord;
use folio_types::{DocumentId, OrgId, Timestamp};
use moka::sync::Cache;

/// Maximum bytes of cached text in a process.
const CACHE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Time without use after which an excerpt is evicted.
const EXCERPT_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Bytes of a cached page in addition to its text.
const PAGE_OVERHEAD: usize = 64;

/// The first pages of a text with their numbers, from 1.
pub(crate) type Excerpt = Arc<[(u32, String)]>;

/// Identifies a text and an excerpt length. Two texts of one document differ in generation or time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExcerptKey {
    org: OrgId,
    document: DocumentId,
    generation: Option<String>,
    at: Timestamp,
    chars: usize,
}

impl ExcerptKey {
    /// Returns the key of the excerpt that covers the first `chars` characters.
    pub(crate) fn new(org: &OrgId, document: &DocumentId, text: &TextRecord, chars: usize) -> Self {
        let (org, document, generation) = (org.clone(), document.clone(), text.generation.clone());
        Self { org, document, generation, at: text.at, chars }
    }
}

/// The excerpts of a process. Cloning is cheap; all clones share the cache.
///
/// A turn reads the document before this cache, so the excerpts of a deleted document cannot be reached.
#[derive(Clone)]
pub(crate) struct Excerpts(Cache<ExcerptKey, Excerpt>);

impl Default for Excerpts {
    fn default() -> Self {
        let bytes = |_: &ExcerptKey, pages: &Excerpt| {
            let bytes: usize = pages.iter().map(|(_, text)| text.len() + PAGE_OVERHEAD).sum();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(bytes).max_capacity(CACHE_BYTES_MAX).time_to_idle(EXCERPT_IDLE_TIMEOUT).build())
    }
}

impl Excerpts {
    pub(crate) fn get(&self, key: &ExcerptKey) -> Option<Excerpt> {
        self.0.get(key)
    }

    pub(crate) fn insert(&self, key: ExcerptKey, pages: Excerpt) {
        self.0.insert(key, pages);
    }
}
