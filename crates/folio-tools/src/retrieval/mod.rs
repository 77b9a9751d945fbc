//! Retrieval: the port to passages with its tool, and metered calls of the models that an organization has chosen for
//! embeddings and reranking.

mod embed;
mod passages;
mod rerank;
mod retrieve;

pub use embed::{
    EMBED_BYTES_MAX, EMBED_TEXTS_MAX, EMBEDDING_OPERATION, Embedded, EmbeddingCall, EmbeddingPurpose, embed,
    embed_metered,
};
pub use passages::{
    FILTER_COLLECTIONS_MAX, FILTER_DOCUMENTS_MAX, FILTER_LANGUAGES_MAX, FoundPassage, FoundPassages, Highlight,
    NoRetriever, PASSAGES_DEFAULT, PASSAGES_MAX, PassageArea, PassageFilter, PassageQuery, PassageRank, QUERY_CHARS,
    Retriever, SearchGap, SearchPart,
};
pub use rerank::{RERANK_BYTES_MAX, RERANK_OPERATION, RerankCall, Reranked, rerank, rerank_metered};

pub(crate) fn tools() -> Vec<crate::tool::Tool> {
    vec![retrieve::tool()]
}
