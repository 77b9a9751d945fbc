//! Vectors of passages: the models of an organization, reuse of stored vectors, and calls for the others.

use std::collections::{BTreeMap, HashMap};

use folio_llm::{Catalogue, ModelInfo};
use folio_storage::value::{ServingSpace, StoredPassage, StoredVector};
use folio_tools::ToolResources;
use folio_tools::retrieval::{EMBED_BYTES_MAX, EMBED_TEXTS_MAX, EmbeddingCall, EmbeddingPurpose, embed};
use folio_types::{Digest, DocumentId, OrgId, Result, UserId};

/// An embedding model whose vectors passages receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) model: String,
    pub(crate) space: String,
    /// Maximum tokens of a passage with its padding in an input.
    pub(crate) input_tokens: u32,
    /// Numbers of a vector. 0: the model states none.
    pub(crate) dimensions: u32,
}

impl From<&ModelInfo> for Target {
    fn from(model: &ModelInfo) -> Self {
        Self {
            model: model.name.clone(),
            space: model.vector_space(),
            input_tokens: model.tokens_after(&model.options.passage_prefix),
            dimensions: model.options.dimensions,
        }
    }
}

/// Returns the models whose vectors passages receive: the chosen one first, then the one that serves searches until all
/// passages have vectors of the chosen one. Empty: the organization has no embedding model.
pub(crate) fn targets(catalogue: &Catalogue, serving: Option<&ServingSpace>) -> Vec<Target> {
    let Some(chosen) = catalogue.embedding_model().map(Target::from) else { return Vec::new() };
    let former = serving.filter(|serving| serving.space != chosen.space);
    // The model that served may be disabled, or have another meaning now.
    let former = former.and_then(|serving| {
        let model = catalogue.for_embeddings(Some(serving.model.as_str())).ok().map(Target::from)?;
        (model.space == serving.space).then_some(model)
    });
    [chosen].into_iter().chain(former).collect()
}

/// Returns the text of a passage for an embedding model: the padding and the text.
pub(crate) fn embedded_text(passage: &StoredPassage) -> String {
    match passage.padding.is_empty() {
        true => passage.text.clone(),
        false => format!("{}\n{}", passage.padding, passage.text),
    }
}

/// The vectors of the live generation of a document, by the digests of their texts.
#[derive(Debug, Default)]
pub(crate) struct StoredVectors(HashMap<Digest, Vec<StoredVector>>);

impl StoredVectors {
    pub(crate) fn add(&mut self, passage: StoredPassage) {
        let digest = Digest::of(embedded_text(&passage).as_bytes());
        self.0.insert(digest, passage.vectors);
    }

    /// Copies the vectors in the spaces of the targets into passages with equal texts.
    pub(crate) fn fill(&self, targets: &[Target], passages: &mut [StoredPassage]) {
        for passage in passages {
            let digest = Digest::of(embedded_text(passage).as_bytes());
            let Some(stored) = self.0.get(&digest) else { continue };
            let wanted = stored.iter().filter(|vector| targets.iter().any(|target| target.space == vector.space));
            passage.vectors = wanted.cloned().collect();
        }
    }
}

/// The payer and the key of the model calls for a document.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
    /// First part of the keys of the calls in the ledger. Unique for each attempt.
    pub(crate) key: String,
    pub(crate) document: DocumentId,
}

/// Adds the vectors that passages lack in the spaces of the targets, with metered calls. Vectors of calls before an error
/// are cached, so that a repetition does not pay for them again.
///
/// # Errors
/// Those of [`embed`].
pub(crate) async fn add_missing(
    resources: &ToolResources,
    payer: &Payer,
    targets: &[Target],
    passages: &mut [StoredPassage],
) -> Result<()> {
    for (number, target) in targets.iter().enumerate() {
        let lacks = |passage: &StoredPassage| passage.vectors.iter().all(|vector| vector.space != target.space);
        let missing: Vec<usize> =
            passages.iter().enumerate().filter(|(_, passage)| lacks(passage)).map(|(at, _)| at).collect();
        let texts: Vec<String> = missing.iter().filter_map(|at| passages.get(*at)).map(embedded_text).collect();
        let mut computed: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        for (first, batch) in batches(&texts) {
            let call = EmbeddingCall {
                org: payer.org.clone(),
                user: payer.user.clone(),
                key: format!("{}.{number}", payer.key),
                model: Some(target.model.clone()),
                purpose: EmbeddingPurpose::Passages(payer.document.clone()),
            };
            let embedded = embed(resources, &call, batch).await?;
            let positions = missing.iter().skip(first).copied();
            computed.extend(positions.zip(embedded.vectors.iter().map(|vector| vector.to_vec())));
        }
        for (at, values) in computed {
            if let Some(passage) = passages.get_mut(at) {
                passage.vectors.push(StoredVector { space: target.space.clone(), values });
            }
        }
    }
    Ok(())
}

/// Divides texts into the calls of [`embed`], each with the position of its first text.
fn batches(texts: &[String]) -> Vec<(usize, &[String])> {
    let mut found = Vec::new();
    let (mut first, mut bytes) = (0, 0_usize);
    for (at, text) in texts.iter().enumerate() {
        let is_full = at - first >= EMBED_TEXTS_MAX || bytes.saturating_add(text.len()) > EMBED_BYTES_MAX;
        if is_full && at > first {
            found.extend(texts.get(first..at).map(|batch| (first, batch)));
            (first, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(text.len());
    }
    let last = texts.get(first..).filter(|batch| !batch.is_empty());
    found.extend(last.map(|batch| (first, batch)));
    found
}

/// Returns the newest space in which every passage has a vector. None: there is none, or no passage.
pub(crate) fn common_space(targets: &[Target], passages: &[StoredPassage]) -> Option<String> {
    let has_all = |target: &&Target| {
        let has = |passage: &StoredPassage| passage.vectors.iter().any(|vector| vector.space == target.space);
        !passages.is_empty() && passages.iter().all(has)
    };
    targets.iter().find(has_all).map(|target| target.space.clone())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn passage(number: u32, text: &str, spaces: &[&str]) -> StoredPassage {
        let vector = |space: &&str| StoredVector { space: (*space).to_owned(), values: vec![1.0] };
        StoredPassage { vectors: spaces.iter().map(vector).collect(), ..StoredPassage::of_text(number, text) }
    }

    fn target(space: &str) -> Target {
        Target { model: format!("own/{space}"), space: space.to_owned(), input_tokens: 512, dimensions: 0 }
    }

    #[test]
    fn vectors_of_equal_texts_are_reused_in_the_wanted_spaces() {
        let mut stored = StoredVectors::default();
        stored.add(passage(0, "same", &["a", "b"]));
        stored.add(passage(1, "gone", &["a"]));
        let mut passages = [passage(0, "new", &[]), passage(1, "same", &[])];
        stored.fill(&[target("b"), target("c")], &mut passages);
        assert_eq!(passages, [passage(0, "new", &[]), passage(1, "same", &["b"])]);
    }

    #[test]
    fn the_space_of_a_generation_is_the_newest_one_of_all_passages() {
        let targets = [target("new"), target("old")];
        let of = |passages: &[StoredPassage]| common_space(&targets, passages);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[passage(0, "a", &["new", "old"])]).as_deref(), Some("new"));
        assert_eq!(of(&[passage(0, "a", &["new", "old"]), passage(1, "b", &["old"])]).as_deref(), Some("old"));
        assert_eq!(of(&[passage(0, "a", &["new"]), passage(1, "b", &["old"])]), None);
    }

    #[test]
    fn texts_are_divided_within_the_bounds_of_a_call() {
        assert!(batches(&[]).is_empty());
        let half = "a".repeat(EMBED_BYTES_MAX / 2);
        let texts = [half.clone(), half.clone(), "b".to_owned(), half];
        let found: Vec<_> = batches(&texts).into_iter().map(|(first, batch)| (first, batch.len())).collect();
        assert_eq!(found, [(0, 2), (2, 2)]);
        let many = vec!["a".to_owned(); EMBED_TEXTS_MAX + 1];
        let found: Vec<_> = batches(&many).into_iter().map(|(first, batch)| (first, batch.len())).collect();
        assert_eq!(found, [(0, EMBED_TEXTS_MAX), (EMBED_TEXTS_MAX, 1)]);
    }
}
