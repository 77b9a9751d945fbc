//! The port to the chunks and passages of documents.

use async_trait::async_trait;
use folio_passages::{ChunkOptions, Chunking};
use folio_resources::Document;
use folio_types::{Digest, Error, Principal, Result};

use crate::tool::ToolResources;

/// Sizes that replace those of the organization, in tokens. None: that of the organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkOverrides {
    pub window: Option<u32>,
    pub overlap: Option<u32>,
    pub padding: Option<u32>,
}

impl ChunkOverrides {
    /// Returns options with the sizes that are set.
    #[must_use]
    pub fn apply(self, options: ChunkOptions) -> ChunkOptions {
        ChunkOptions {
            window: self.window.unwrap_or(options.window),
            overlap: self.overlap.unwrap_or(options.overlap),
            padding: self.padding.unwrap_or(options.padding),
            ..options
        }
    }
}

/// The chunks of the current text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedChunks {
    pub options: ChunkOptions,
    pub chunking: Chunking,
}

impl GeneratedChunks {
    /// Returns the chunks with the digest of their texts and of their context.
    pub(super) async fn with_digest(self) -> Result<(Self, Digest)> {
        // The digest of a long document would block the other tasks of the thread.
        let computed = tokio::task::spawn_blocking(move || {
            let digest = self.digest();
            (self, digest)
        });
        computed.await.map_err(|error| Error::internal(format!("the digest of chunks failed: {error}")))
    }

    fn digest(&self) -> Digest {
        let digests = self.chunking.chunks.iter().map(|chunk| Digest::of(chunk.embedded_text().as_bytes()));
        Digest::of(digests.map(|digest| digest.as_str().to_owned()).collect::<String>().as_bytes())
    }
}

/// The origin of a request to index chunks.
#[derive(Debug, Clone)]
pub struct IndexCall {
    /// The user that pays.
    pub principal: Principal,
    /// First part of the keys of the model calls in the ledger. Unique for each attempt.
    pub key: String,
}

/// Makes passages of documents. `resources`: those of the caller, whose meter pays.
#[async_trait]
pub trait PassageIngester: Send + Sync {
    /// Returns the chunks of the current text of a document. Their context contains the stored summaries, the entries of the
    /// dictionary and the annotations of images. Stores nothing and calls no model: equal stored values give equal chunks.
    ///
    /// # Errors
    /// `NO_TEXT` if the document has no text; `INVALID_FIELD` or `TOO_LARGE` if sizes or chunks exceed a bound.
    async fn chunks(
        &self,
        resources: &ToolResources,
        document: &Document,
        overrides: ChunkOverrides,
    ) -> Result<GeneratedChunks>;

    /// Makes chunks the passages of a document, with vectors if the organization has an embedding model, and adds them to the index.
    /// Replaces all earlier passages of the document. Idempotent. Returns the number of passages.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if the text was extracted again meanwhile; those of the stores, of metering and of the model.
    async fn index(
        &self,
        resources: &ToolResources,
        call: &IndexCall,
        document: &Document,
        chunks: GeneratedChunks,
    ) -> Result<u32>;
}

/// The process has no index.
#[derive(Debug)]
pub struct NoPassages;

#[async_trait]
impl PassageIngester for NoPassages {
    async fn chunks(&self, _: &ToolResources, _: &Document, _: ChunkOverrides) -> Result<GeneratedChunks> {
        Err(no_index())
    }

    async fn index(&self, _: &ToolResources, _: &IndexCall, _: &Document, _: GeneratedChunks) -> Result<u32> {
        Err(no_index())
    }
}

fn no_index() -> Error {
    Error::internal("this process makes no passages")
}
