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
//! | check | the passages of a document that was deleted meanwhile are removed |
//!
//! A repeated call makes a new generation from the current text, and pays for no vector that is stored or cached.

use folio_passages::{Chunk, ChunkOptions, Chunking, Context, Document as Source, chunk_document};
use folio_resources::{Document, TextState};
use folio_storage::PassagesWritten;
use folio_storage::value::{PassageHead, ServingSpace, StoredPassage, StoredSegment};
use folio_tools::dictionary_entries;
use folio_tools::ingestion::{ChunkOverrides, GeneratedChunks};
use folio_types::{Code, DocumentId, Environment, Error, OrgId, Reason, Result, Timestamp, UserId};
use tokio::task::JoinError;

use crate::dictionary::relevant_terms;
use crate::index::{indexed, read_all, remove_deleted, remove_document, size_name, stored_bytes, upsert};
use crate::knowledge::Knowledge;
use crate::language::Languages;
use crate::links::{add_references, cross_references, resolve_links};
use crate::source;
use crate::vectors::{Payer, StoredVectors, Target, add_missing, common_space, targets};

/// Smallest accepted window of a passage, and the smallest share of an input that its context keeps.
const TOKENS_MIN: u32 = 32;
/// Number of random bits of a generation.
const RANDOM_BITS: u32 = 16;

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
    /// The generation is live, and the index contains it or is being rebuilt.
    Live(PassageHead),
    /// Nothing was stored, for this reason.
    Skipped(String),
}

/// Makes the passages of the current text of a document. Passages of a document without text, or of a deleted one, are removed.
///
/// # Errors
/// `TOO_LARGE` beyond the bounds of chunks; `VERSION_CONFLICT` if the text was extracted again meanwhile; those of model calls: the
/// passages are then stored without vectors, unless the document has passages of this text.
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
    let newest = knowledge.passages().newest_generation(&org, &id).await?;
    let generation = new_generation(&*knowledge.resources.environment, newest);
    let found = stores.of::<Document>().get(&org, &id).await?;
    let reason = match &found {
        None => Some("the document was deleted".to_owned()),
        Some(document) => match &document.state {
            TextState::Ready => None,
            // The write that settles the text causes another ingestion.
            TextState::Uploaded | TextState::Processing => {
                return Ok(Ingested::Skipped("the text of the document is extracted".to_owned()));
            }
            TextState::NoText(reason) | TextState::Failed(reason) => {
                Some(format!("the document has no text: {reason}"))
            }
        },
    };
    let document = match (found, reason) {
        (Some(document), None) => document,
        (found, reason) => {
            match found {
                Some(_) => remove_document(knowledge, &org, &id).await?,
                None => remove_deleted(knowledge, &org, &id).await?,
            }
            return Ok(Ingested::Skipped(reason.unwrap_or_default()));
        }
    };
    match resolve_links(&knowledge.resources, &org, &id).await {
        Ok(_) => {}
        // The check at the end removes everything of a document that was deleted meanwhile.
        Err(error) if error.reason == Reason::NotFound => {}
        Err(error) => return Err(error),
    }
    let text_generation =
        document.text_generation.ok_or_else(|| Error::internal("a text that is ready has no time"))?;

    let catalogue = knowledge.resources.models.catalogue(&org).await?;
    let targets = targets(&catalogue, knowledge.serving_space(&org).await?.as_ref());
    let generated = match generated {
        Some((_, generation)) if generation != text_generation => {
            let message = format!("the text of {id} was extracted again since its chunks were generated");
            return Err(Error::new(Code::Aborted, Reason::VersionConflict, message));
        }
        Some((generated, _)) => generated,
        None => divide(knowledge, &document, context, ChunkOverrides::default(), &targets).await?,
    };
    // The languages of a long document would block the other tasks of the thread.
    let made = tokio::task::spawn_blocking(move || passages(generated.chunking));
    let mut passages = made.await.map_err(|error| failed_division(&error))?;
    add_references(&cross_references(&knowledge.resources, &org, &id).await?, &mut passages);

    if let Some(live) = live.as_ref().filter(|live| live.space.is_some() && !targets.is_empty()) {
        let mut stored = StoredVectors::default();
        read_all(knowledge, &org, live).await?.into_iter().for_each(|passage| stored.add(passage));
        stored.fill(&targets, &mut passages);
    }
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

/// Returns the number of a new generation. Later attempts have larger numbers, and concurrent ones have different numbers.
/// `newest`: the largest number of the stored generations, of which each smaller one is removed when the new one is live.
pub(crate) fn new_generation(environment: &dyn Environment, newest: Option<u64>) -> u64 {
    let milliseconds = u64::try_from(environment.now().as_millisecond()).unwrap_or(0);
    let random = environment.random() % (1 << RANDOM_BITS);
    let by_time = (milliseconds << RANDOM_BITS) | u64::try_from(random).unwrap_or(0);
    // The clock of another node may be ahead, or may have been when a write was interrupted.
    by_time.max(newest.map_or(0, |newest| newest.saturating_add(1)))
}

/// Makes a generation live, in the stores and in the index.
pub(crate) async fn publish(
    knowledge: &Knowledge,
    document: &Document,
    head: PassageHead,
    passages: Vec<StoredPassage>,
    targets: &[Target],
) -> Result<Ingested> {
    let (org, id) = (&document.org, &document.id);
    let (store, documents) = (knowledge.passages(), knowledge.stores.of::<Document>());
    knowledge.hit("passages:before").await;
    // The size is stored first, so that no passage is missing in the sum.
    let bytes = stored_bytes(&passages);
    documents.set_blob_bytes(org, id, &size_name(id), bytes, head.created_at).await?;
    if store.write(org, &head, &passages).await? == PassagesWritten::Superseded {
        return Ok(Ingested::Skipped("a later ingestion of the document has ended".to_owned()));
    }
    knowledge.hit("passages:after").await;
    if let Some(target) = targets.iter().find(|target| head.space.as_ref() == Some(&target.space)) {
        let serving = ServingSpace { model: target.model.clone(), space: target.space.clone() };
        // The first vectors of an organization serve searches at once.
        if store.serving_space(org).await?.is_none() {
            store.set_serving_space(org, None, &serving).await?;
        }
    }
    upsert(knowledge, org, vec![indexed(document, &head, passages)]).await?;
    knowledge.hit("index:after").await;
    // The clean-up of a deletion may have been earlier than the writes.
    let current = documents.get(org, id).await?;
    match current {
        None => {
            remove_deleted(knowledge, org, id).await?;
            Ok(Ingested::Skipped("the document was deleted".to_owned()))
        }
        Some(_) => Ok(Ingested::Live(head)),
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

/// Divides the current text of a document into chunks. `sizes`: those that replace the sizes of the process.
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
        source.context.dictionary.extend(relevant_terms(&entries, &source.sections)?);
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
        let target = |input_tokens| Target { model: "m".to_owned(), space: "s".to_owned(), input_tokens };
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
}
