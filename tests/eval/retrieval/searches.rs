//! Searches of a set over the chunker and the embedded index, without a server: each mode is a search of its own, which is timed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use folio_index::{
    EmbeddedIndex, EmbeddedOptions, Embedding, Filter, IndexedDocument, Passage, PassageIndex as _, Search, Written,
};
use folio_passages::{Block, ChunkOptions, Context, Document, Estimate, Section, chunk_document};
use folio_types::{DocumentId, OrgId};

use super::SetDocument;
use super::embeddings::Embedder;

/// Passages of a ranking: enough for ten different documents.
pub(super) const LIMIT: u32 = 50;
/// Passages of a write to the index, and thus at most as many documents as it accepts.
const PASSAGES_PER_WRITE: usize = 1_000;
/// Memory for vectors: a million vectors of 384 numbers.
const MEMORY_BYTES: u64 = 2 << 30;
/// Maximum length of a title, in characters, which the chunker accepts.
const TITLE_CHARS: usize = 500;
/// Name of the vector space. A set is evaluated with one model.
const SPACE: &str = "evaluated";

/// A passage at a position of a ranking. The default is a passage of no document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundPassage {
    /// Id of the document in its set.
    pub document: String,
    pub text: String,
}

/// The answer to a question in one mode.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// The best passages, best first.
    pub passages: Vec<FoundPassage>,
    /// Latency of the search. None: the mode was not searched by itself.
    pub took: Option<Duration>,
}

/// The answers to a question.
#[derive(Debug, Clone)]
pub struct Rankings {
    pub lexical: Ranking,
    pub dense: Ranking,
    pub hybrid: Ranking,
    /// Latency of the vector of the question. None: it is a part of the latency of the search.
    pub embedding: Option<Duration>,
}

/// A chunk of a document of the set.
#[derive(Debug, Clone)]
pub struct SetChunk {
    pub found: FoundPassage,
    number: u32,
    context: String,
    language: Option<&'static str>,
    /// The text for the embedding model.
    embedded_text: String,
}

/// An index with the passages of a set.
pub struct Searches {
    index: EmbeddedIndex,
    org: OrgId,
    passages: BTreeMap<(DocumentId, u32), FoundPassage>,
    _folder: tempfile::TempDir,
}

impl Searches {
    /// Indexes the documents.
    ///
    /// # Errors
    /// The endpoint refuses a text, or the index cannot be written.
    pub async fn prepare(documents: &[SetDocument], embedder: &Embedder) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = EmbeddedOptions { memory_bytes: MEMORY_BYTES, ..EmbeddedOptions::default() };
        let index = EmbeddedIndex::open(folder.path().to_owned(), options)?;
        let org = OrgId::derive(&["evaluation"]);
        index.begin_rebuild(&org, 1).await?;
        let mut passages = BTreeMap::new();
        let chunks = chunks(documents)?;
        let of_documents: Vec<&[SetChunk]> =
            chunks.chunk_by(|left, right| left.found.document == right.found.document).collect();
        for write in writes(&of_documents) {
            let mut indexed = Vec::with_capacity(write.len());
            for of_document in write {
                indexed.push(indexed_document(of_document, embedder).await?);
            }
            let written = index.upsert(&org, indexed).await?;
            ensure!(written == Written::Applied { stale: 0 }, "the index refused a write: {written:?}");
        }
        for chunk in chunks {
            passages.insert((id_of(&chunk.found.document), chunk.number), chunk.found);
        }
        index.finish_rebuild(&org, 1).await?;
        Ok(Self { index, org, passages, _folder: folder })
    }

    /// Returns the number of passages.
    pub fn passages(&self) -> usize {
        self.passages.len()
    }

    /// Answers a question in each mode.
    ///
    /// # Errors
    /// The endpoint refuses the question, or a part of the index is not complete.
    pub async fn rank(&self, question: &str, embedder: &Embedder) -> Result<Rankings> {
        let begun = Instant::now();
        let vector = Embedding { space: SPACE.to_owned(), values: embedder.question(question).await? };
        let embedding = Some(begun.elapsed());
        let lexical = self.search(question, None).await?;
        let dense = self.search("", Some(vector.clone())).await?;
        let hybrid = self.search(question, Some(vector)).await?;
        Ok(Rankings { lexical, dense, hybrid, embedding })
    }

    async fn search(&self, text: &str, vector: Option<Embedding>) -> Result<Ranking> {
        let has_vector = vector.is_some();
        let search = Search { text: text.to_owned(), vector, filter: Filter::default(), limit: LIMIT };
        let begun = Instant::now();
        let answer = self.index.search(&self.org, &search).await?;
        let took = Some(begun.elapsed());
        ensure!(!has_vector || answer.dense.gaps.is_empty(), "the dense part is not complete: {:?}", answer.dense);
        let passage = |hit: folio_index::Hit| self.passages.get(&(hit.document, hit.number)).cloned();
        let passages: Option<Vec<_>> = answer.hits.into_iter().map(passage).collect();
        Ok(Ranking { passages: passages.context("the index returned an unknown passage")?, took })
    }
}

/// Returns the chunks of the documents, in order. A title is shortened to the length that the chunker accepts.
///
/// # Errors
/// A document exceeds a bound of the chunker.
pub fn chunks(documents: &[SetDocument]) -> Result<Vec<SetChunk>> {
    let mut all = Vec::new();
    for document in documents {
        let chunking = chunk_document(&input(document), &ChunkOptions::default(), &Estimate(folio_llm::count_tokens))
            .with_context(|| format!("the document {:?} has no chunks", document.id))?;
        all.extend(chunking.chunks.into_iter().map(|chunk| SetChunk {
            number: chunk.number,
            embedded_text: chunk.embedded_text(),
            context: chunk.padding,
            language: document.language,
            found: FoundPassage { document: document.id.clone(), text: chunk.text },
        }));
    }
    Ok(all)
}

/// Returns the sections of a document as the input of the chunker. All are on the first page, one after another.
fn input(document: &SetDocument) -> Document {
    let mut start = 0;
    let mut paragraph = |text: &String| {
        let block = Block::Paragraph { page: 1, start, text: text.clone() };
        start += u32::try_from(text.chars().count()).unwrap_or(u32::MAX) + 1;
        block
    };
    let mut sections = Vec::with_capacity(document.sections.len());
    for (number, section) in document.sections.iter().enumerate() {
        sections.push(Section {
            id: number.to_string(),
            title_path: section.titles.iter().map(|title| title.chars().take(TITLE_CHARS).collect()).collect(),
            blocks: section.paragraphs.iter().map(&mut paragraph).collect(),
        });
    }
    Document {
        id: id_of(&document.id),
        file_name: document.id.chars().take(TITLE_CHARS).collect(),
        metadata: BTreeMap::new(),
        sections,
        context: Context::default(),
    }
}

fn id_of(document: &str) -> DocumentId {
    DocumentId::derive(&["evaluation", document])
}

/// Groups the chunks of documents into writes with about the same number of passages.
fn writes<'a, 'b>(of_documents: &'b [&'a [SetChunk]]) -> Vec<&'b [&'a [SetChunk]]> {
    let (mut writes, mut first, mut passages) = (Vec::new(), 0, 0);
    for (at, chunks) in of_documents.iter().enumerate() {
        if passages + chunks.len() > PASSAGES_PER_WRITE && at > first {
            writes.push(&of_documents[first..at]);
            (first, passages) = (at, 0);
        }
        passages += chunks.len();
    }
    writes.push(&of_documents[first..]);
    writes.retain(|write| !write.is_empty());
    writes
}

/// Returns the passages of a document with their vectors. `chunks`: all chunks of one document, at least one.
async fn indexed_document(chunks: &[SetChunk], embedder: &Embedder) -> Result<IndexedDocument> {
    let document = chunks.first().map(|chunk| id_of(&chunk.found.document)).context("a document has no chunks")?;
    let texts: Vec<String> = chunks.iter().map(|chunk| chunk.embedded_text.clone()).collect();
    let vectors = embedder.passages(&texts).await?;
    let passage = |(chunk, values): (&SetChunk, Vec<f32>)| Passage {
        number: chunk.number,
        text: chunk.found.text.clone(),
        context: chunk.context.clone(),
        language: chunk.language.map(str::to_owned),
        vectors: vec![Embedding { space: SPACE.to_owned(), values }],
    };
    Ok(IndexedDocument {
        document,
        generation: 1,
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        date: None,
        passages: chunks.iter().zip(vectors).map(passage).collect(),
    })
}
