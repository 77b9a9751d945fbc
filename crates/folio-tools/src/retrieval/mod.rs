//! Embeddings and reranking: metered calls of the models that an organization has chosen for retrieval, for jobs and for
//! requests.

mod embed;
mod rerank;

pub use embed::{
    EMBED_BYTES_MAX, EMBED_TEXTS_MAX, EMBEDDING_OPERATION, Embedded, EmbeddingCall, EmbeddingPurpose, embed,
    embed_metered,
};
pub use rerank::{RERANK_BYTES_MAX, RERANK_OPERATION, RerankCall, Reranked, rerank, rerank_metered};
