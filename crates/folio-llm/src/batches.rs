//! Bounds of the requests of embeddings and reranking. Pure.

use std::ops::Range;

use crate::tokens::count_tokens;

/// Maximum number of texts of an embedding request.
pub const BATCH_TEXTS_MAX: usize = 64;
/// Maximum characters of the texts of an embedding request. A longer text is the only text of its request.
pub const BATCH_CHARS_MAX: usize = 128 * 1024;
/// Maximum number of documents of a rerank request.
pub const RERANK_DOCUMENTS_MAX: usize = 256;

/// Divides texts into the requests of their embeddings, in order.
pub fn batches<T: AsRef<str>>(texts: &[T]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut chars = 0_usize;
    for (at, text) in texts.iter().enumerate() {
        let added = text.as_ref().chars().count();
        chars = chars.saturating_add(added);
        match batches.last_mut() {
            Some(last) if last.len() < BATCH_TEXTS_MAX && chars <= BATCH_CHARS_MAX => last.end = at.saturating_add(1),
            _ => {
                batches.push(at..at.saturating_add(1));
                chars = added;
            }
        }
    }
    batches
}

/// Returns an upper estimate of the tokens that a rerank model reads: the query with each document.
pub fn rerank_tokens<T: AsRef<str>>(query: &str, documents: &[T]) -> u64 {
    let query = count_tokens(query);
    documents.iter().map(|text| query.saturating_add(count_tokens(text.as_ref()))).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_batch_is_bounded_by_its_texts_and_characters() {
        assert!(batches::<&str>(&[]).is_empty());
        assert_eq!(
            batches(&vec!["a"; BATCH_TEXTS_MAX + 1]),
            [0..BATCH_TEXTS_MAX, BATCH_TEXTS_MAX..BATCH_TEXTS_MAX + 1]
        );
        let half = "ä".repeat(BATCH_CHARS_MAX / 2);
        let long = "x".repeat(BATCH_CHARS_MAX + 1);
        assert_eq!(batches(&[half.as_str(), half.as_str(), "y", long.as_str(), "z"]), [0..2, 2..3, 3..4, 4..5]);
    }

    #[test]
    fn a_rerank_model_reads_the_query_with_each_document() {
        assert_eq!(rerank_tokens("one two", &["three", "four"]), 7);
        assert_eq!(rerank_tokens::<&str>("one", &[]), 0);
    }

    proptest! {
        #[test]
        fn batches_contain_each_text_once_in_order(lengths in prop::collection::vec(0..BATCH_CHARS_MAX, 0..300)) {
            let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length / 50)).collect();
            let found: Vec<usize> = batches(&texts).into_iter().flatten().collect();
            prop_assert_eq!(found, (0..texts.len()).collect::<Vec<_>>());
            for batch in batches(&texts) {
                let chars: usize = texts[batch.clone()].iter().map(String::len).sum();
                prop_assert!(batch.len() <= BATCH_TEXTS_MAX && (chars <= BATCH_CHARS_MAX || batch.len() == 1));
            }
        }
    }
}
