//! Records of the chunks that runs of the ingestion network generated, as rows of a [`RowStore`].
//!
//! A record contains the options and the digest of the chunks, and no text: chunks are a function of stored values, so that the
//! index step computes them again and compares the digest.

use std::sync::Arc;

use folio_types::{Digest, DocumentId, IngestionId, OrgId, Result, Timestamp, UnknownFields};
use serde::{Deserialize, Serialize};

use super::RowStore;
use crate::value::{Stored as _, decode, encode};

/// The chunks that a run generated from a generation of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkSet {
    /// Derived from the run, the options and the digest: equal chunks of a run have one id.
    pub id: String,
    pub run: IngestionId,
    pub text_generation: Timestamp,
    /// Sizes of the chunks, in tokens.
    pub window: u32,
    pub overlap: u32,
    pub padding: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Tokens of the texts of all chunks.
    pub tokens: u64,
    /// Digest of the texts and of the context of all chunks.
    pub digest: Digest,
    /// True if the run has made these chunks the passages of the document.
    pub is_indexed: bool,
    pub created_at: Timestamp,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

fn group_of(document: &DocumentId) -> String {
    format!("{}/{document}", ChunkSet::KIND)
}

/// The records of generated chunks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChunkSetStore(Arc<dyn RowStore>);

impl ChunkSetStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the records of all runs on a document, in the order of their ids.
    pub async fn list(&self, org: &OrgId, document: &DocumentId) -> Result<Vec<ChunkSet>> {
        let rows = self.0.list(org, &group_of(document)).await?;
        rows.iter().map(|row| decode(row)).collect()
    }

    /// Stores a record, and replaces the one with the same id.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk of the store has too little free space.
    pub async fn put(&self, org: &OrgId, document: &DocumentId, set: &ChunkSet) -> Result<()> {
        self.0.check_space().await?;
        self.0.put(org, &group_of(document), &set.id, encode(set)?).await
    }

    /// Removes the records of all runs except one. Idempotent.
    pub async fn remove_other_runs(&self, org: &OrgId, document: &DocumentId, run: &IngestionId) -> Result<()> {
        for set in self.list(org, document).await? {
            if set.run != *run {
                self.0.remove(org, &group_of(document), &set.id).await?;
            }
        }
        Ok(())
    }

    /// Removes all records of a document. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.0.remove_group(org, &group_of(document)).await
    }
}
