//! Weighted reciprocal rank fusion: joins rankings whose scores cannot be compared.

use std::collections::BTreeMap;

use folio_types::DocumentId;

use crate::answer::{Answer, Gap, Hit, IndexState, PartScore, PartUse};

/// The constant of the fusion. A larger constant reduces the weight of the first ranks.
pub const RRF_K: u32 = 60;
/// Minimum candidates of each part.
pub const CANDIDATES_MIN: u32 = 50;

/// The identity of a candidate, in the order of ties.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassageKey {
    pub document: DocumentId,
    pub number: u32,
    pub generation: u64,
}

/// Candidates of a part with their scores, best first.
pub type Ranking = Vec<(PassageKey, f32)>;

/// A candidate with its ranks and its fused score.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked<K> {
    pub key: K,
    /// `weight / (60 + rank)` of the lexical part and `1 / (60 + rank)` of the dense part. The weight is the lexical score relative to
    /// the best one.
    pub score: f64,
    pub lexical: Option<PartScore>,
    pub dense: Option<PartScore>,
}

/// Joins two rankings, best first, each a list of different keys with scores. Returns the best `limit` keys. Equal
/// fused scores are in the order of the keys.
///
/// A question usually shares some frequent words with many passages. Their lexical ranks follow each other, but their BM25 scores are
/// far below that of a passage with a rare word such as a code, so a lexical rank counts with the score relative to the best one.
/// Cosines of an embedding model are all similar, so that dense ranks have no weight.
pub fn fuse<K: Ord + Clone>(lexical: &[(K, f32)], dense: &[(K, f32)], limit: usize) -> Vec<Ranked<K>> {
    let mut parts: BTreeMap<K, [Option<PartScore>; 2]> = BTreeMap::new();
    for (part, ranking) in [lexical, dense].into_iter().enumerate() {
        for (rank, (key, score)) in (1u32..).zip(ranking) {
            let scores = parts.entry(key.clone()).or_default();
            if let Some(entry) = scores.get_mut(part) {
                *entry = Some(PartScore { rank, score: *score });
            }
        }
    }
    let best = lexical.first().map_or(0.0, |(_, score)| f64::from(*score));
    let weight = |part: &PartScore| if best > 0.0 { (f64::from(part.score) / best).clamp(0.0, 1.0) } else { 1.0 };
    let contribution = |part: PartScore, weight: f64| weight / f64::from(RRF_K.saturating_add(part.rank));
    let ranked = parts.into_iter().map(|(key, [lexical, dense])| {
        let score = lexical.map_or(0.0, |part| contribution(part, weight(&part)))
            + dense.map_or(0.0, |part| contribution(part, 1.0));
        Ranked { key, score, lexical, dense }
    });
    let mut ranked: Vec<_> = ranked.collect();
    // The sort is stable, so equal scores remain in the order of the keys.
    ranked.sort_by(|left, right| right.score.total_cmp(&left.score));
    ranked.truncate(limit);
    ranked
}

/// Sorts candidates. Equal scores are in the order of the identities, because the order of entries in an index changes.
pub fn sort(ranking: &mut Ranking) {
    ranking.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
}

/// Returns a part that ranks nothing for this reason.
pub fn skipped(gap: Gap) -> (Ranking, PartUse) {
    (Vec::new(), PartUse { is_used: false, gaps: vec![gap] })
}

/// Joins the parts of a search in a usable index. Each part names a state other than `Ready`.
pub fn join(state: IndexState, lexical: (Ranking, PartUse), dense: (Ranking, PartUse), limit: u32) -> Answer {
    let ((lexical, mut lexical_use), (dense, mut dense_use)) = (lexical, dense);
    if state != IndexState::Ready {
        lexical_use.gaps.push(Gap::State(state));
        dense_use.gaps.push(Gap::State(state));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let hit = |Ranked { key, score, lexical, dense }| {
        let PassageKey { document, number, generation } = key;
        Hit { document, generation, number, score, lexical, dense }
    };
    let hits = fuse(&lexical, &dense, limit).into_iter().map(hit).collect();
    Answer { hits, lexical: lexical_use, dense: dense_use }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(ranked: &[Ranked<u32>]) -> Vec<u32> {
        ranked.iter().map(|ranked| ranked.key).collect()
    }

    #[test]
    fn a_key_in_both_rankings_precedes_first_ranks_in_one() {
        let lexical = [(1, 9.0), (2, 8.0), (3, 7.0)];
        let dense = [(4, 0.9), (3, 0.8), (5, 0.1)];
        let fused = fuse(&lexical, &dense, 10);
        assert_eq!(keys(&fused), [3, 1, 4, 5, 2]);
        assert_eq!(fused[0].lexical, Some(PartScore { rank: 3, score: 7.0 }));
        assert_eq!(fused[0].dense, Some(PartScore { rank: 2, score: 0.8 }));
        assert!((fused[0].score - (7.0 / 9.0 / 63.0 + 1.0 / 62.0)).abs() < 1e-12);
        assert_eq!(fused[1].dense, None);
    }

    #[test]
    fn a_passage_with_a_rare_word_precedes_passages_with_frequent_words() {
        // Passage 1 contains the code of the question; the vectors prefer others, which share its frequent words.
        let lexical = [(1, 6.0), (2, 1.2), (3, 1.1)];
        let dense = [(2, 0.91), (3, 0.9), (4, 0.9), (5, 0.89), (1, 0.88)];
        assert_eq!(keys(&fuse(&lexical, &dense, 2)), [1, 2]);
        // Without a rare word all passages have similar scores, which keep their ranks.
        let lexical = [(1, 1.3), (2, 1.29), (3, 1.2)];
        assert_eq!(keys(&fuse(&lexical, &dense, 1)), [2]);
    }

    #[test]
    fn equal_scores_are_in_the_order_of_the_keys() {
        assert_eq!(keys(&fuse(&[(7, 1.0)], &[(3, 1.0)], 10)), [3, 7]);
        assert_eq!(keys(&fuse(&[(7, 1.0)], &[(3, 1.0)], 1)), [3]);
    }

    #[test]
    fn one_ranking_keeps_its_order() {
        assert_eq!(keys(&fuse(&[(9, 1.0), (1, 0.5), (5, 0.1)], &[], 2)), [9, 1]);
        assert!(fuse::<u32>(&[], &[], 5).is_empty());
    }

    proptest! {
        #[test]
        fn scores_descend_and_keys_are_unique(lexical in proptest::collection::btree_set(0u32..40, 0..30),
                                              dense in proptest::collection::btree_set(0u32..40, 0..30)) {
            let lexical: Vec<_> = lexical.into_iter().rev().map(|key| (key, 1.0)).collect();
            let dense: Vec<_> = dense.into_iter().map(|key| (key, 1.0)).collect();
            let fused = fuse(&lexical, &dense, 100);
            prop_assert!(fused.windows(2).all(|pair| pair[0].score >= pair[1].score));
            let unique: std::collections::BTreeSet<_> = keys(&fused).into_iter().collect();
            prop_assert_eq!(unique.len(), fused.len());
            for key in lexical.iter().chain(&dense) {
                prop_assert!(unique.contains(&key.0));
            }
        }
    }
}
