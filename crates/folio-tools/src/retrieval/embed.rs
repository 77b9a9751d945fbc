//! Vectors of texts.
//!
//! | step | bound, cost |
//! |---|---|
//! | cut each text to the tokens of an input of the model, after the prefix of queries or passages | the answer states the positions of cut texts |
//! | read the vectors of known texts from the cache | one read for each text; equal texts are one text |
//! | request the others in batches | each batch is one model call, reserved and settled as `embedding` |
//! | write new vectors to the cache after each batch | a call that fails later does not lose the paid vectors |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use folio_llm::{
    EmbeddingRequest, Embeddings, ModelError, ModelInfo, Progress, batches, count_tokens, prefix_within_tokens,
};
use folio_metering::MeteredCall;
use folio_resources::Document;
use folio_storage::VectorKey;
use folio_types::message::Usage;
use folio_types::models::ModelOptions;
use folio_types::{Digest, DocumentId, Error, OrgId, Reason, Result, UserId};

use crate::extraction::{Answer, metered};
use crate::tool::ToolResources;

/// The operation of embeddings in the usage of an organization.
pub const EMBEDDING_OPERATION: &str = "embedding";
/// Maximum number of texts of an [`EmbeddingCall`].
pub const EMBED_TEXTS_MAX: usize = 4_096;
/// Maximum bytes of the texts of an [`EmbeddingCall`].
pub const EMBED_BYTES_MAX: usize = 4 << 20;
/// Characters of the digest of a batch in the key of its model call.
const BATCH_DIGEST_CHARS: usize = 16;

/// The purpose of the vectors of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbeddingPurpose {
    /// Passages of a document. Their cached vectors are removed with the document.
    Passages(DocumentId),
    /// The query of a search.
    Query,
}

impl EmbeddingPurpose {
    fn document(&self) -> Option<&DocumentId> {
        match self {
            Self::Passages(document) => Some(document),
            Self::Query => None,
        }
    }

    /// Returns the text that the model expects before each text.
    fn prefix<'a>(&self, options: &'a ModelOptions) -> &'a str {
        match self {
            Self::Passages(_) => &options.passage_prefix,
            Self::Query => &options.query_prefix,
        }
    }
}

/// The origin of a request for vectors.
#[derive(Debug, Clone)]
pub struct EmbeddingCall {
    pub org: OrgId,
    pub user: UserId,
    /// The first part of the keys of the model calls in the ledger, followed by a digest of the texts of the call. Unique for
    /// each attempt: (job, item, epoch, attempt), or random. A repetition with the same key and texts makes no second call.
    pub key: String,
    /// None: the embedding model that the organization has chosen.
    pub model: Option<String>,
    pub purpose: EmbeddingPurpose,
}

/// The vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// The name of the model.
    pub model: String,
    /// The identity of the vectors, as [`ModelInfo::vector_space`] returns it.
    pub space: String,
    /// One vector of length 1 per text, in order. All have the same number of dimensions.
    pub vectors: Vec<Arc<[f32]>>,
    /// Positions of the texts of which the model read only the beginning.
    pub cut: Vec<usize>,
    /// The usage of the model calls with the charged credits. Empty: all vectors were cached.
    pub usage: Usage,
}

impl Answer for Embeddings {
    fn usage(&mut self) -> &mut Usage {
        &mut self.usage
    }
}

/// Makes one model call for embeddings, as [`crate::extraction::complete_metered`] does.
pub async fn embed_metered(
    resources: &ToolResources,
    call: MeteredCall,
    mut request: EmbeddingRequest,
) -> Result<Result<Embeddings, ModelError>> {
    request.call_id.clone_from(&call.key);
    let (models, progress) = (Arc::clone(&resources.models), request.progress.clone());
    metered(resources, call, progress, async move { models.embed(request).await }).await
}

/// Returns the vectors of texts, from the cache or from the model.
///
/// # Errors
/// `MODEL_NOT_AVAILABLE` if the organization has no such embedding model; `INVALID_FIELD` for texts beyond the bounds or
/// without content; those of metering and of the model; `OVERLOADED` for passages while the disk of the store has too little free
/// space. The vectors of answered calls are cached also after an error.
pub async fn embed(resources: &ToolResources, call: &EmbeddingCall, texts: &[String]) -> Result<Embedded> {
    check(texts)?;
    let catalogue = resources.models.catalogue(&call.org).await?;
    let model = catalogue.for_embeddings(call.model.as_deref())?;
    let space = model.vector_space();
    let prefix = call.purpose.prefix(&model.options);
    let (fitting, cut) = fit(texts, model.tokens_after(prefix));
    let sent: Vec<Cow<'_, str>> = fitting.into_iter().map(|text| prefixed(prefix, text)).collect();
    let keys: Vec<VectorKey> = sent.iter().map(|text| VectorKey::new(&space, text)).collect();
    let unique: BTreeMap<&VectorKey, &str> = keys.iter().zip(sent.iter().map(AsRef::as_ref)).collect();
    let mut run = Run { resources, call, model, usage: Usage::default() };
    let mut vectors = run.cached(unique.keys().copied()).await;
    // The endpoint may have another model behind the same name than at the time of a cached vector. If the lengths of the
    // vectors show that, the second pass replaces the cached ones.
    for _ in 0..2 {
        let missing: Vec<_> = unique.iter().filter(|(key, _)| !vectors.contains_key(**key)).collect();
        if missing.is_empty() {
            break;
        }
        if call.purpose.document().is_some() {
            // Neither the vectors nor the passages could be stored, so that each attempt would pay the model.
            resources.stores.rows.check_space().await?;
        }
        let missing: Vec<(&VectorKey, &str)> = missing.into_iter().map(|(key, text)| (*key, *text)).collect();
        let computed = run.compute(&missing).await?;
        let length = computed.first().map(|(_, vector)| vector.len());
        vectors.retain(|_, vector| Some(vector.len()) == length);
        vectors.extend(computed);
    }
    let found: Vec<_> = keys.iter().filter_map(|key| vectors.get(key).cloned()).collect();
    let length = found.first().map(|vector| vector.len());
    if found.len() != texts.len() || found.iter().any(|vector| Some(vector.len()) != length) {
        let message = format!("the embedding model {} returned vectors of different lengths", model.name);
        return Err(Error::unavailable(Reason::ModelFailed, message));
    }
    Ok(Embedded { model: model.name.clone(), vectors: found, cut, usage: run.usage, space })
}

fn check(texts: &[String]) -> Result<()> {
    if texts.len() > EMBED_TEXTS_MAX {
        return Err(Error::invalid_field("texts", format!("has more than {EMBED_TEXTS_MAX} texts")));
    }
    let bytes = texts.iter().map(String::len).fold(0, usize::saturating_add);
    if bytes > EMBED_BYTES_MAX {
        let problem = format!("has {bytes} bytes; the maximum is {EMBED_BYTES_MAX}");
        return Err(Error::invalid_field("texts", problem).with_reason(Reason::TooLarge));
    }
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(at) => Err(Error::invalid_field(format!("texts[{at}]"), "has no content")),
        None => Ok(()),
    }
}

fn prefixed<'a>(prefix: &str, text: &'a str) -> Cow<'a, str> {
    if prefix.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(format!("{prefix}{text}")) }
}

/// Returns the texts within the tokens of an input, and the positions of those that were cut.
fn fit(texts: &[String], tokens: u32) -> (Vec<&str>, Vec<usize>) {
    let sent: Vec<&str> = texts.iter().map(|text| prefix_within_tokens(text, tokens.into())).collect();
    let is_cut = |(at, text): (usize, &String)| sent.get(at).is_some_and(|sent| sent.len() < text.len()).then_some(at);
    let cut = texts.iter().enumerate().filter_map(is_cut).collect();
    (sent, cut)
}

/// The model calls of one [`embed`].
struct Run<'a> {
    resources: &'a ToolResources,
    call: &'a EmbeddingCall,
    model: &'a ModelInfo,
    usage: Usage,
}

impl Run<'_> {
    /// Returns the cached vectors of the expected length. A failure of the store costs model calls only.
    async fn cached<'k>(&self, keys: impl Iterator<Item = &'k VectorKey>) -> BTreeMap<VectorKey, Arc<[f32]>> {
        let keys: Vec<VectorKey> = keys.cloned().collect();
        let found = self.resources.stores.vector_cache().get(&self.call.org, &keys).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(org = %self.call.org, %error, "cached vectors cannot be read");
            BTreeMap::new()
        });
        let dimensions = usize::try_from(self.model.options.dimensions).unwrap_or_default();
        let is_expected = |vector: &Vec<f32>| !vector.is_empty() && (dimensions == 0 || vector.len() == dimensions);
        found.into_iter().filter(|(_, vector)| is_expected(vector)).map(|(key, vector)| (key, vector.into())).collect()
    }

    /// Returns the vectors of texts with one model call per batch.
    async fn compute(&mut self, texts: &[(&VectorKey, &str)]) -> Result<Vec<(VectorKey, Arc<[f32]>)>> {
        let sent: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
        let mut computed = Vec::with_capacity(texts.len());
        for batch in batches(&sent) {
            let Some(texts) = texts.get(batch) else { continue };
            let answer = self.request(texts).await?;
            self.usage = self.usage.plus(answer.usage);
            let keys = texts.iter().map(|(key, _)| (*key).clone());
            let vectors: Vec<(VectorKey, Vec<f32>)> = keys.zip(answer.vectors).collect();
            self.store(&vectors).await;
            computed.extend(vectors.into_iter().map(|(key, vector)| (key, Arc::from(vector))));
        }
        Ok(computed)
    }

    async fn request(&self, texts: &[(&VectorKey, &str)]) -> Result<Embeddings> {
        let keys: String = texts.iter().map(|(key, _)| key.as_str()).collect();
        let digest = Digest::of(keys.as_bytes());
        let digest = digest.as_str().get(..BATCH_DIGEST_CHARS).unwrap_or_default();
        let metered = MeteredCall {
            org: self.call.org.clone(),
            user: self.call.user.clone(),
            key: format!("{}.{digest}", self.call.key),
            operation: EMBEDDING_OPERATION,
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: self.call.purpose.document().cloned(),
            input_tokens: texts.iter().map(|(_, text)| count_tokens(text)).fold(0, u64::saturating_add),
            max_output_tokens: 0,
        };
        let request = EmbeddingRequest {
            call_id: String::new(),
            org: self.call.org.clone(),
            model: self.model.name.clone(),
            texts: texts.iter().map(|(_, text)| (*text).to_owned()).collect(),
            progress: Progress::default(),
        };
        Ok(embed_metered(self.resources, metered, request).await??)
    }

    /// Writes vectors to the cache. A failure costs later model calls only.
    async fn store(&self, vectors: &[(VectorKey, Vec<f32>)]) {
        let (org, document) = (&self.call.org, self.call.purpose.document());
        if let Err(error) = self.write(org, document, vectors).await {
            tracing::warn!(%org, %error, "vectors cannot be cached");
        }
    }

    async fn write(&self, org: &OrgId, document: Option<&DocumentId>, vectors: &[(VectorKey, Vec<f32>)]) -> Result<()> {
        let stores = &self.resources.stores;
        stores.vector_cache().put(org, document, vectors).await?;
        // The clean-up of a deletion may have been earlier than the write.
        match document {
            Some(document) if stores.of::<Document>().get(org, document).await?.is_none() => {
                stores.vector_cache().remove_written(org, document, vectors).await
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_have_content() {
        let field = |texts: &[String]| check(texts).unwrap_err().violations[0].field.clone();
        assert!(check(&[]).is_ok() && check(&["a".to_owned()]).is_ok());
        assert_eq!(field(&["a".to_owned(), " \n".to_owned()]), "texts[1]");
        assert_eq!(field(&vec!["a".to_owned(); EMBED_TEXTS_MAX + 1]), "texts");
        assert_eq!(field(&["a".repeat(EMBED_BYTES_MAX / 2), "a".repeat(EMBED_BYTES_MAX / 2 + 1)]), "texts");
        assert!(check(&["a".repeat(EMBED_BYTES_MAX)]).is_ok());
    }

    #[test]
    fn a_text_beyond_the_input_of_the_model_is_cut_and_reported() {
        let texts = ["short".to_owned(), "many words ".repeat(100), "short".to_owned()];
        let (sent, cut) = fit(&texts, 64);
        assert_eq!((sent[0], sent[2], cut), ("short", "short", vec![1]));
        assert!(texts[1].starts_with(sent[1]) && count_tokens(sent[1]) <= 64, "{:?}", sent[1]);
    }
}
