//! Summaries of the parts of documents, as rows of a [`RowStore`]. Each document has a group of rows.
//!
//! A summary names the generation of the text that it is about. A reader ignores those of earlier generations, and
//! [`SummaryStore::remove_earlier`] removes them.

use std::sync::Arc;

use folio_types::{Digest, DocumentId, OrgId, Result, Timestamp, named_enum};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::RowStore;
use crate::value::{Stored as _, decode, encode};

/// Maximum number of rows that are removed concurrently.
const REMOVALS_AT_ONCE: usize = 16;

named_enum! {
    /// The part of a document that a summary is about.
    pub enum SummaryScope {
        /// A section, with the sections in it that have no summary.
        Section = "section",
        /// A section that contains sections with summaries.
        Chapter = "chapter",
        Document = "document",
    }
}

/// The summary of a document or of one of its sections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSummary {
    /// Number of the section in its generation of the text. None: the summary is about the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<u32>,
    pub scope: SummaryScope,
    /// One line. Output of a model.
    pub text: String,
    /// Numbers of the sections whose texts or summaries the summary is made of, in the order of the text.
    pub sources: Vec<u32>,
    /// The generation of the text.
    pub text_generation: Timestamp,
    /// Digest of the input of the model call. None: an agent wrote the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Digest>,
    /// Name of the model that wrote the summary.
    pub model: String,
    pub created_at: Timestamp,
}

fn group_of(document: &DocumentId) -> String {
    format!("{}/{document}", StoredSummary::KIND)
}

fn key_of(section: Option<u32>) -> String {
    section.map_or_else(|| "document".to_owned(), |number| format!("s{number:010}"))
}

/// The summaries of documents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SummaryStore(Arc<dyn RowStore>);

impl SummaryStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the summaries of a document of all generations of its text: first that of the document, then those of the
    /// sections in their order.
    pub async fn list(&self, org: &OrgId, document: &DocumentId) -> Result<Vec<StoredSummary>> {
        let rows = self.0.list(org, &group_of(document)).await?;
        rows.iter().map(|row| decode(row)).collect()
    }

    /// Stores a summary, and replaces the one of the same part.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk of the store has too little free space.
    pub async fn put(&self, org: &OrgId, document: &DocumentId, summary: &StoredSummary) -> Result<()> {
        self.0.check_space().await?;
        self.0.put(org, &group_of(document), &key_of(summary.section), encode(summary)?).await
    }

    /// Removes the summaries of earlier generations of the text. Idempotent.
    pub async fn remove_earlier(&self, org: &OrgId, document: &DocumentId, current: Timestamp) -> Result<()> {
        let (found, group) = (self.list(org, document).await?, group_of(document));
        let earlier = found.into_iter().filter(|summary| summary.text_generation < current);
        let removals: Vec<_> = earlier
            .map(|summary| {
                let (group, key) = (&group, key_of(summary.section));
                async move { self.0.remove(org, group, &key).await }
            })
            .collect();
        futures::stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE).try_collect().await
    }

    /// Removes all summaries of a document. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.0.remove_group(org, &group_of(document)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_sections_sort_after_the_document_and_by_their_numbers() {
        let keys = [None, Some(0), Some(9), Some(10), Some(u32::MAX)].map(key_of);
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
