//! Words as sparse vectors, whose product is a BM25 score.
//!
//! A weight of a passage contains the number of occurrences of a word and the length of the text. The server multiplies
//! it by the inverse document frequency among the passages of the organization. The mean length of a text is a constant,
//! because the mean of an organization would change with each write.
//!
//! The number of a word is a digest of the organization and the word, so that the lists of passages with a word, and
//! their lengths, are those of one organization. Two words of an organization have the same number with a probability of
//! 2^-32.

use std::collections::{BTreeMap, BTreeSet};

use folio_index::Passage;
use folio_index::adapter::{CONTEXT_WEIGHT, terms};
use folio_types::OrgId;
use sha2::{Digest as _, Sha256};

/// Saturation of repeated words.
const K1: f32 = 1.2;
/// Influence of the length of a text.
const B: f32 = 0.75;
/// Length of a text that neither raises nor lowers its score, in words and stems. A chunk has about this length.
const MEAN_TERMS: f32 = 200.0;

/// Returns the number of a word of an organization.
fn number(org: &OrgId, term: &str) -> u32 {
    let digest = Sha256::new().chain_update(org.as_str()).chain_update([0u8]).chain_update(term).finalize();
    digest.iter().take(size_of::<u32>()).fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

/// Returns the weights of the words of a text.
fn weights(text: &str, language: Option<&str>) -> BTreeMap<String, f32> {
    let terms = terms(text, language);
    let norm = K1 * (1.0 - B + B * terms.len() as f32 / MEAN_TERMS);
    let mut counts: BTreeMap<String, f32> = BTreeMap::new();
    for term in terms {
        *counts.entry(term).or_default() += 1.0;
    }
    counts.values_mut().for_each(|count| *count = *count * (K1 + 1.0) / (*count + norm));
    counts
}

/// Returns the sparse vector of a passage. Of a word in both the text and the context, the larger weight counts.
pub(crate) fn of_passage(org: &OrgId, passage: &Passage) -> BTreeMap<u32, f32> {
    let language = passage.language.as_deref();
    let mut joined = weights(&passage.text, language);
    for (term, weight) in weights(&passage.context, language) {
        let entry = joined.entry(term).or_default();
        *entry = entry.max(CONTEXT_WEIGHT * weight);
    }
    joined.into_iter().map(|(term, weight)| (number(org, &term), weight)).collect()
}

/// Returns the sparse vector of the words of a search. A word with stems has half of its weight in each form: a passage
/// in the language of a stem contains the word and that stem.
pub(crate) fn of_search(org: &OrgId, words: &[BTreeSet<String>]) -> BTreeMap<u32, f32> {
    let mut joined: BTreeMap<u32, f32> = BTreeMap::new();
    for forms in words {
        let weight = if forms.len() > 1 { 0.5 } else { 1.0 };
        for form in forms {
            *joined.entry(number(org, form)).or_default() += weight;
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use folio_index::adapter::search_words;

    use super::*;

    fn org(name: &str) -> OrgId {
        OrgId::derive(&[name])
    }

    fn passage(text: &str, context: &str) -> Passage {
        Passage { text: text.to_owned(), context: context.to_owned(), ..Passage::default() }
    }

    /// Returns the product of the vectors of a search and a passage.
    fn score(search: &str, passage: &Passage) -> f32 {
        let org = org("a");
        let languages = passage.language.as_deref().into_iter();
        let wanted = of_search(&org, &search_words(search, languages));
        let found = of_passage(&org, passage);
        wanted.iter().map(|(number, weight)| weight * found.get(number).copied().unwrap_or_default()).sum()
    }

    #[test]
    fn frequent_words_and_short_texts_have_larger_weights() {
        let once = score("order", &passage("order of goods", ""));
        assert!(score("order", &passage("order order goods", "")) > once);
        assert!(score("order", &passage(&format!("order {}", "other ".repeat(500)), "")) < once);
        assert!(score("order", &passage("goods", "order")) < once);
        assert!((score("order", &passage("order of goods", "order")) - once).abs() < 1e-6, "the larger weight counts");
        assert!(score("absent", &passage("order", "")).abs() < 1e-6);
    }

    #[test]
    fn stems_match_and_the_word_itself_counts_more() {
        let german = |text: &str| Passage { language: Some("de".to_owned()), ..passage(text, "") };
        let (same, inflected) = (score("Rechnungen", &german("Rechnungen")), score("Rechnungen", &german("Rechnung")));
        assert!(same > inflected && inflected > 0.0, "{same} {inflected}");
    }

    #[test]
    fn numbers_of_words_differ_between_organizations() {
        assert_ne!(number(&org("a"), "order"), number(&org("b"), "order"));
        assert_eq!(number(&org("a"), "order"), number(&org("a"), "order"));
        assert!(of_passage(&org("a"), &passage("?!", "")).is_empty());
    }
}
