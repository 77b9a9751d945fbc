//! Makes the passages of a document.
//!
//! | step | effect |
//! |---|---|
//! | read | sections with paragraphs and tables of the current text |
//! | links | the keys and the links of the document are stored, and missing links to it are resolved |
//! | chunk | passages with context: dictionary entries that occur in the text, and what the caller adds, and cross-references |
//! | vectors | reused for equal texts, else metered calls of the embedding model |
//! | store | the generation becomes live in one conditional write |
//! | index | the index replaces the former generation |
//! | check | everything of a document that was deleted meanwhile is removed; if it was changed, the caller repeats the call |
//!
//! A repeated call makes a new generation from the current text, and pays for no vector that is stored or cached.

use std::time::Duration;

use folio_passages::{Chunk, ChunkOptions, Chunking, Context, Document as Source, chunk_document};
use folio_resources::{Document, TextState};
use folio_storage::PassagesWritten;
use folio_storage::value::{PassageHead, ServingSpace, StoredPassage, StoredSegment};
use folio_tools::dictionary_entries;
use folio_tools::ingestion::{ChunkOverrides, GeneratedChunks};
use folio_types::{DocumentId, Environment, Error, OrgId, Reason, Result, Timestamp, UserId};
use tokio::task::JoinError;

use crate::dictionary::relevant_terms;
use crate::index::{indexed, read_all, remove_deleted, remove_passages, size_name, stored_bytes, upsert};
use crate::knowledge::Knowledge;
use crate::language::Languages;
use crate::links::{add_references, cross_references, resolve_links};
use crate::memory::needed_bytes;
use crate::source;
use crate::vectors::{Payer, StoredVectors, Target, add_missing, common_space, targets};

/// Smallest accepted window of a passage, and the smallest share of an input that its context keeps.
const TOKENS_MIN: u32 = 32;
/// Maximum time for which an ingestion waits for memory: a job continues later, the call of an agent would fail.
pub(crate) const JOB_WAIT: Duration = Duration::from_secs(2);
const AGENT_WAIT: Duration = Duration::from_secs(60);
/// Number of random bits of a generation.
const RANDOM_BITS: u32 = 16;
/// Maximum distance of the number of a copy from that of the generation before it.
const COPY_STEP: u64 = 1 << 10;

/// A document to ingest, with its payer.
#[derive(Debug, Clone)]
pub struct IngestRequest {
    pub org: OrgId,
    /// The user in whose name vectors are computed. The platform: the user who uploaded the document.
    pub user: UserId,
    pub document: DocumentId,
    /// First part of the keys of model calls in the ledger. Unique for each attempt.
    pub key: String,
    /// Summaries and image summaries. Entries of the dictionary are added to its own.
    pub context: Context,
}

/// The result of an ingestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// The generation is live, and the index contains it, is being rebuilt, or has too little disk space for it.
    Live(PassageHead),
    /// Nothing was stored, for this reason.
    Skipped(String),
}

/// Makes the passages of the current text of a document. Passages of a document without text are removed, and links find it by its
/// name. Everything that ingestions stored of a deleted document is removed.
///
/// # Errors
/// `TOO_LARGE` beyond the bounds of chunks; `VERSION_CONFLICT` if the document was changed meanwhile; `OVERLOADED` if other
/// ingestions use the capacity of the process; those of model calls: the passages are then stored without vectors, unless the
/// document has passages of this text.
pub async fn ingest(knowledge: &Knowledge, request: IngestRequest) -> Result<Ingested> {
    ingest_chunks(knowledge, request, None).await
}

/// Makes the passages of a document from chunks that were generated before, with the generation of their text. None: the chunks are
/// generated with the context of the request.
pub(crate) async fn ingest_chunks(
    knowledge: &Knowledge,
    request: IngestRequest,
    generated: Option<(GeneratedChunks, Timestamp)>,
) -> Result<Ingested> {
    let IngestRequest { org, user, document: id, key, context } = request;
    let stores = &knowledge.stores;
    // Before the text is read, so that a later generation is one of the same text or of a later one.
    let live = knowledge.passages().head(&org, &id).await?;
    let stored = knowledge.passages().newest_generation(&org, &id).await?;
    // A removal may have removed the row of the live generation.
    let newest = stored.max(live.as_ref().map(|live| live.generation));
    let generation = new_generation(&*knowledge.resources.environment, newest);
    let Some(document) = stores.of::<Document>().get(&org, &id).await? else {
        return skip_deleted(knowledge, &org, &id).await;
    };
    match &document.state {
        TextState::Ready => {}
        // The write that settles the text causes another ingestion.
        TextState::Uploaded | TextState::Processing => {
            return Ok(Ingested::Skipped("the text of the document is extracted".to_owned()));
        }
        TextState::NoText(reason) | TextState::Failed(reason) => {
            return skip_without_text(knowledge, &org, &id, reason).await;
        }
    }
    store_links(knowledge, &org, &id).await?;
    let text_generation =
        document.text_generation.ok_or_else(|| Error::internal("a text that is ready has no time"))?;

    let catalogue = knowledge.resources.models.catalogue(&org).await?;
    let targets = targets(&catalogue, knowledge.serving_space(&org).await?.as_ref());
    let memory_wait = if generated.is_some() { AGENT_WAIT } else { JOB_WAIT };
    let (generated, division) = match generated {
        Some((_, generation)) if generation != text_generation => return Err(changed(&id)),
        Some((generated, _)) => (generated, None),
        None => {
            let permit = knowledge.permits.division(&org).await?;
            let divided = divide(knowledge, &document, context, ChunkOverrides::default(), &targets).await?;
            (divided, Some(permit))
        }
    };
    let texts = generated.chunking.chunks.iter().map(|chunk| chunk.text.len().saturating_add(chunk.padding.len()));
    let _memory = knowledge.memory.reserve(&org, needed_bytes(texts, &targets), memory_wait).await?;
    // The memory of the chunks is reserved.
    drop(division);
    let references = cross_references(&knowledge.resources, &org, &id).await?;
    let earlier = match live.as_ref().filter(|live| live.space.is_some() && !targets.is_empty()) {
        Some(live) => read_all(knowledge, &org, live).await?,
        None => Vec::new(),
    };
    let spaces = targets.clone();
    // The languages, references and digests of a long document would block the other tasks of the thread.
    let made = tokio::task::spawn_blocking(move || {
        let mut passages = passages(generated.chunking);
        add_references(&references, &mut passages);
        let mut stored = StoredVectors::default();
        earlier.into_iter().for_each(|passage| stored.add(passage));
        stored.fill(&spaces, &mut passages);
        passages
    });
    let mut passages = made.await.map_err(|error| failed_division(&error))?;
    let user = if user == UserId::platform() { document.created_by.clone() } else { user };
    let payer = Payer { org: org.clone(), user, key, document: id };
    let embedded = add_missing(&knowledge.resources, &payer, &targets, &mut passages).await;
    if let Err(error) = &embedded
        && live.is_some_and(|live| live.text_generation == text_generation)
    {
        return Err(error.clone());
    }
    let head = PassageHead {
        document: payer.document,
        generation,
        passages: u32::try_from(passages.len()).unwrap_or(u32::MAX),
        space: common_space(&targets, &passages),
        text_generation,
        created_at: knowledge.resources.environment.now(),
    };
    let published = publish(knowledge, &document, head, passages, &targets).await?;
    // Without vectors, the passages are found by their words until the next attempt.
    embedded.map(|()| published)
}

/// Removes everything that ingestions stored of a deleted document, and returns the result of an attempt that finds it deleted.
pub(crate) async fn skip_deleted(knowledge: &Knowledge, org: &OrgId, document: &DocumentId) -> Result<Ingested> {
    remove_deleted(knowledge, org, document).await?;
    Ok(Ingested::Skipped("the document was deleted".to_owned()))
}

/// Stores the keys and the links of a document without text, and removes its passages.
///
/// # Errors
/// `VERSION_CONFLICT` if the document has a text meanwhile.
async fn skip_without_text(
    knowledge: &Knowledge,
    org: &OrgId,
    document: &DocumentId,
    reason: &str,
) -> Result<Ingested> {
    store_links(knowledge, org, document).await?;
    remove_passages(knowledge, org, document).await?;
    match knowledge.stores.of::<Document>().get(org, document).await?.map(|current| current.state) {
        None => skip_deleted(knowledge, org, document).await,
        // The removal may have met the ingestion of a new text, whose passages it removed.
        Some(TextState::Ready) => Err(changed(document)),
        Some(_) => Ok(Ingested::Skipped(format!("the document has no text: {reason}"))),
    }
}

/// Stores the keys and the links of a document. No effect on a document that was deleted meanwhile, of which the caller removes
/// everything.
async fn store_links(knowledge: &Knowledge, org: &OrgId, document: &DocumentId) -> Result<()> {
    match resolve_links(&knowledge.resources, org, document).await {
        Err(error) if error.reason != Reason::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the number of a new generation, which is larger than each stored one and than each copy of the newest one with other
/// vectors ([`copied_generation`]). Later attempts have larger numbers, and concurrent ones have different numbers. `newest`: the
/// largest number of the stored generations, of which each smaller one is removed when the new one is live.
fn new_generation(environment: &dyn Environment, newest: Option<u64>) -> u64 {
    let milliseconds = u64::try_from(environment.now().as_millisecond()).unwrap_or(0);
    let random = random_part(environment);
    let by_time = (milliseconds << RANDOM_BITS) | random;
    // The clock of another node may be ahead, or may have been when a write was interrupted.
    let after = |newest: u64| newest.saturating_add(1 << RANDOM_BITS).saturating_add(random);
    by_time.max(newest.map_or(0, after))
}

/// Returns the number of a generation with the passages of a live one and other vectors. It is smaller than that of each ingestion
/// that read the same live generation, which may read another text and must not be superseded by a copy. It is larger than that of an
/// interrupted copy, or equal if no number is left: the write then overwrites the interrupted copy. `newest`: as of
/// [`new_generation`].
pub(crate) fn copied_generation(environment: &dyn Environment, live: u64, newest: Option<u64>) -> u64 {
    let last = live.saturating_add((1 << RANDOM_BITS) - 1);
    // A number beyond the last one is that of an ingestion.
    let before = newest.filter(|newest| (live..=last).contains(newest)).unwrap_or(live);
    before.saturating_add(1).saturating_add(random_part(environment) % COPY_STEP).min(last)
}

/// Returns a random number of [`RANDOM_BITS`] bits.
fn random_part(environment: &dyn Environment) -> u64 {
    u64::try_from(environment.random() % (1 << RANDOM_BITS)).unwrap_or(0)
}

/// Returns the error for a document that was changed while it was ingested.
fn changed(document: &DocumentId) -> Error {
    let message = format!("{document} was changed while its passages were made; retry");
    Error::version_conflict(message)
}

/// Returns true if passages of the one version of a document are also those of the other.
fn has_same_passages(one: &Document, other: &Document) -> bool {
    (one.text_generation, &one.name, &one.tags, &one.metadata)
        == (other.text_generation, &other.name, &other.tags, &other.metadata)
}

fn superseded() -> Ingested {
    Ingested::Skipped("a later ingestion of the document has ended".to_owned())
}

/// Makes a generation live, in the stores and in the index. `document`: as it was read before the passages were made.
///
/// # Errors
/// `VERSION_CONFLICT` if the document was changed meanwhile: the next attempt makes another generation.
pub(crate) async fn publish(
    knowledge: &Knowledge,
    document: &Document,
    head: PassageHead,
    passages: Vec<StoredPassage>,
    targets: &[Target],
) -> Result<Ingested> {
    let (org, id) = (&document.org, &document.id);
    let (store, documents) = (knowledge.passages(), knowledge.stores.of::<Document>());
    if store.head(org, id).await?.is_some_and(|live| live.generation > head.generation) {
        return Ok(superseded());
    }
    knowledge.hit("passages:before").await;
    // The size is stored first, so that no passage is missing in the sum.
    let bytes = stored_bytes(&passages);
    documents.set_blob_bytes(org, id, &size_name(id), bytes, head.created_at).await?;
    if store.write(org, &head, &passages).await? == PassagesWritten::Superseded {
        return Ok(superseded());
    }
    knowledge.hit("passages:after").await;
    if let Some(target) = targets.iter().find(|target| head.space.as_ref() == Some(&target.space)) {
        let serving = ServingSpace { model: target.model.clone(), space: target.space.clone() };
        // The first vectors of an organization serve searches at once.
        if store.serving_space(org).await?.is_none() {
            store.set_serving_space(org, None, &serving).await?;
        }
    }
    match upsert(knowledge, org, vec![indexed(document, &head, passages)]).await {
        // A repetition would be refused, too. Searches name the gap until a rebuild finds the disk space.
        Err(error) if error.reason == Reason::QuotaExceeded => {
            tracing::warn!(%org, document = %id, %error, "a document is stored, and the index of passages lacks it");
        }
        written => written?,
    }
    knowledge.hit("index:after").await;
    match documents.get(org, id).await? {
        // The clean-up of the deletion may have been earlier than the writes.
        None => {
            store.remove_written(org, &head).await?;
            skip_deleted(knowledge, org, id).await
        }
        Some(current) if has_same_passages(document, &current) => Ok(Ingested::Live(head)),
        // The ingestion that the change causes may have ended before this one, on a node whose clock is behind.
        Some(_) => Err(changed(id)),
    }
}

/// Returns the sizes of passages that fit into an input of each embedding model.
fn fitting(options: ChunkOptions, targets: &[Target]) -> ChunkOptions {
    let Some(most) = targets.iter().map(|target| target.input_tokens).filter(|tokens| *tokens > 0).min() else {
        return options;
    };
    let ChunkOptions { window, overlap, padding, .. } = options;
    if window.saturating_add(padding) <= most {
        return options;
    }
    let padding = padding.min(most / 3);
    let window = window.min(most.saturating_sub(padding)).max(TOKENS_MIN);
    ChunkOptions { window, padding, overlap: overlap.min(window / 4), ..options }
}

fn failed_division(error: &JoinError) -> Error {
    Error::internal(format!("the division of a document failed: {error}"))
}

/// Divides the current text of a document into chunks. The caller has a permit
/// ([`WorkPermits::division`](crate::work_permits::WorkPermits::division)). `sizes`: those that replace the sizes of the process.
///
/// # Errors
/// `INVALID_FIELD` for sizes out of their bounds. `TOO_LARGE` beyond the bounds of chunks; `VERSION_CONFLICT` if the text was extracted
/// again meanwhile.
pub(crate) async fn divide(
    knowledge: &Knowledge,
    document: &Document,
    context: Context,
    sizes: ChunkOverrides,
    targets: &[Target],
) -> Result<GeneratedChunks> {
    let options = sizes.apply(knowledge.chunks);
    options.validate()?;
    let options = fitting(options, targets);
    let stores = &knowledge.stores;
    let sections = source::read(stores, &knowledge.resources.outlines, document).await?;
    let entries = dictionary_entries(stores, &document.org).await?;
    let mut source = Source {
        id: document.id.clone(),
        file_name: document.name.clone(),
        metadata: document.metadata.clone(),
        sections,
        context,
    };
    let counter = knowledge.tokenizers.of(targets.first().map(|target| target.model.as_str()));
    // Dividing a long document would block the other tasks of the thread.
    let chunked = tokio::task::spawn_blocking(move || {
        source.context.dictionary.extend(relevant_terms(entries, &source.sections)?);
        chunk_document(&source, &options, counter.as_ref())
    });
    let chunking = chunked.await.map_err(|error| failed_division(&error))??;
    Ok(GeneratedChunks { options, chunking })
}

/// Returns the passages of chunks, without vectors.
fn passages(chunking: Chunking) -> Vec<StoredPassage> {
    let languages = Languages::of(chunking.chunks.iter().map(|chunk| chunk.text.as_str()));
    let passage = |chunk: Chunk| StoredPassage {
        number: chunk.number,
        language: languages.of_passage(&chunk.text),
        text: chunk.text,
        padding: chunk.padding,
        section_id: chunk.section_id,
        section_titles: chunk.title_path,
        source_page: chunk.source_page,
        segments: chunk
            .segments
            .into_iter()
            .map(|segment| StoredSegment {
                text_start: segment.text_start,
                page: segment.span.page,
                start: segment.span.start,
                end: segment.span.end,
                is_verbatim: segment.is_verbatim,
            })
            .collect(),
        tokens: chunk.tokens,
        metadata_pairs: chunk.metadata_pairs,
        vectors: Vec::new(),
    };
    chunking.chunks.into_iter().map(passage).collect()
}

/// Returns true if the stored passages are those of the current text of a document.
pub(crate) fn is_current(head: &PassageHead, text_generation: Option<Timestamp>) -> bool {
    text_generation == Some(head.text_generation)
}

#[cfg(test)]
mod tests {
    use folio_testkit::Simulated;

    use super::*;

    #[test]
    fn passages_fit_into_the_input_of_each_model() {
        let options = ChunkOptions::default();
        let target =
            |input_tokens| Target { model: "m".to_owned(), space: "s".to_owned(), input_tokens, dimensions: 0 };
        for (inputs, window, padding) in
            [(vec![], 200, 120), (vec![0, 512], 200, 120), (vec![8_192, 256], 171, 85), (vec![16], 32, 5)]
        {
            let targets: Vec<Target> = inputs.iter().copied().map(target).collect();
            let found = fitting(options, &targets);
            assert_eq!((found.window, found.padding), (window, padding), "{inputs:?}");
            assert!(found.validate().is_ok(), "{found:?}");
        }
    }

    #[test]
    fn a_later_attempt_has_a_later_generation_and_concurrent_ones_differ() {
        let environment = Simulated::new(7);
        let first = new_generation(&environment, None);
        assert_ne!(first, new_generation(&environment, None));
        environment.advance(std::time::Duration::from_millis(1));
        assert!(new_generation(&environment, None) > first);
        assert_eq!(new_generation(&environment, Some(u64::MAX - 1)), u64::MAX, "the clock of another node is ahead");
    }

    #[test]
    fn a_copy_of_a_generation_is_before_each_ingestion_that_read_it() {
        let environment = Simulated::new(7);
        for live in [1, u64::MAX / 2, new_generation(&environment, None)] {
            for _ in 0..100 {
                let copy = copied_generation(&environment, live, Some(live));
                assert!(copy > live, "{copy} replaces {live}");
                assert!(new_generation(&environment, Some(live)) > copy, "{copy} replaces no ingestion");
                let next = copied_generation(&environment, live, Some(copy));
                assert!(next > copy, "{next} replaces the interrupted copy {copy}");
                let ingestion = new_generation(&environment, Some(next));
                assert!(
                    copied_generation(&environment, live, Some(ingestion)) < ingestion,
                    "{ingestion} is in progress"
                );
            }
            let last = live + (1 << RANDOM_BITS) - 1;
            assert_eq!(copied_generation(&environment, live, Some(last)), last, "the interrupted copy is overwritten");
        }
    }
}
