//! Maximum tokens of an input of common embedding and rerank models. Data of the vendors' model pages and model cards, as of
//! November 2025. A server may be started with a smaller limit: the settings take precedence.

use super::context_sizes::{Family, family, size_of};

const FAMILIES: &[Family] = &[
    // https://platform.openai.com/docs/guides/embeddings
    family("text-embedding3", 8_191),
    family("text-embedding-ada002", 8_191),
    // https://ai.google.dev/gemini-api/docs/embeddings
    family("gemini-embedding", 2_048),
    family("text-embedding004", 2_048),
    family("embeddinggemma", 2_048),
    // https://docs.mistral.ai/capabilities/embeddings
    family("mistral-embed", 8_192),
    family("codestral-embed", 8_192),
    // https://docs.voyageai.com/docs/embeddings, https://docs.voyageai.com/docs/reranker
    family("voyage", 32_000),
    family("rerank2", 8_000),
    family("rerank2.5", 32_000),
    // https://docs.cohere.com/docs/models
    family("embed-english-v3.0", 512),
    family("embed-multilingual-v3.0", 512),
    family("embed-v4.0", 128_000),
    family("rerank-english-v3.0", 4_096),
    family("rerank-multilingual-v3.0", 4_096),
    family("rerank-v3.5", 4_096),
    // https://jina.ai/models
    family("jina-embeddings-v2", 8_192),
    family("jina-embeddings-v3", 8_192),
    family("jina-embeddings-v4", 32_768),
    family("jina-reranker-v1", 8_192),
    family("jina-reranker-v2", 1_024),
    // https://huggingface.co/nomic-ai; Ollama's context of the model
    family("nomic-embed-text", 2_048),
    family("nomic-embed-text-v1.5", 8_192),
    family("nomic-embed-text-v2-moe", 512),
    // https://huggingface.co/BAAI
    family("bge-small", 512),
    family("bge-base", 512),
    family("bge-large", 512),
    family("bge-m3", 8_192),
    family("bge-reranker", 512),
    family("bge-reranker-v2-m3", 8_192),
    // https://huggingface.co/intfloat
    family("e5", 512),
    family("multilingual-e5", 512),
    // https://huggingface.co/sentence-transformers
    family("all-minilm", 256),
    family("all-mpnet-base", 384),
    // https://huggingface.co/mixedbread-ai, https://huggingface.co/Snowflake, https://huggingface.co/thenlper
    family("mxbai-embed-large", 512),
    family("mxbai-rerank", 512),
    family("snowflake-arctic-embed", 512),
    family("snowflake-arctic-embed2", 8_192),
    family("gte-small", 512),
    family("gte-base", 512),
    family("gte-large", 512),
    // https://huggingface.co/Qwen
    family("qwen3-embedding", 32_768),
    family("qwen3-reranker", 32_768),
];

/// Returns the maximum tokens of an input of an embedding or rerank model by its name at an endpoint, such as
/// `BAAI/bge-small-en-v1.5` or `text-embedding-3-small`. None: the model is unknown.
pub fn known_input_tokens(name: &str) -> Option<u32> {
    size_of(name, FAMILIES)
}

#[cfg(test)]
mod tests {
    use super::super::check::{CONTEXT_TOKENS_MAX, INPUT_TOKENS_MIN};
    use super::super::context_sizes::normalized;
    use super::*;

    #[test]
    fn names_of_all_forms_have_the_size_of_their_family() {
        for (name, tokens) in [
            ("text-embedding-3-small", 8_191),
            ("text-embedding-ada-002", 8_191),
            ("models/text-embedding-004", 2_048),
            ("nomic-embed-text:latest", 2_048),
            ("nomic-ai/nomic-embed-text-v1.5", 8_192),
            ("BAAI/bge-small-en-v1.5", 512),
            ("BAAI/bge-m3", 8_192),
            ("BAAI/bge-reranker-v2-m3", 8_192),
            ("bge-reranker-large", 512),
            ("intfloat/multilingual-e5-small", 512),
            ("intfloat/e5-large-v2", 512),
            ("sentence-transformers/all-MiniLM-L6-v2", 256),
            ("jinaai/jina-embeddings-v3", 8_192),
            ("snowflake-arctic-embed2", 8_192),
            ("Qwen/Qwen3-Embedding-0.6B", 32_768),
            ("rerank-v3.5", 4_096),
        ] {
            assert_eq!(known_input_tokens(name), Some(tokens), "{name}");
        }
        for unknown in ["", "vectors", "gpt-4o", "bge", "e6-small"] {
            assert_eq!(known_input_tokens(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_table_is_normalized_and_within_the_bounds() {
        for family in FAMILIES {
            assert_eq!(normalized(family.prefix), family.prefix);
            assert!((INPUT_TOKENS_MIN..=CONTEXT_TOKENS_MAX).contains(&family.tokens), "{}", family.prefix);
            assert_eq!(FAMILIES.iter().filter(|other| other.prefix == family.prefix).count(), 1, "{}", family.prefix);
        }
    }
}
