//! Chunks, the embedded index of passages, and searches while another organization writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use folio_index::{
    EmbeddedIndex, EmbeddedOptions, Embedding, Filter, IndexedDocument, Passage, PassageIndex as _, Search, Written,
};
use folio_passages::{Block, ChunkOptions, Context, Document, Estimate, Section, chunk_document};
use folio_tests::harness::process::resident_bytes;
use folio_types::{DocumentId, OrgId, TagId};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::format::{Aims, Percentiles};

/// Default number of passages.
pub(crate) const PASSAGES: u32 = 100_000;
/// Dimension of the vectors.
const DIMENSIONS: usize = 384;
/// Words of a passage.
const WORDS: usize = 100;
/// Different words of all passages. The probability of a word decreases with its number.
const VOCABULARY: f64 = 50_000.0;
/// Passages of a document, and documents of a write.
const PASSAGES_PER_DOCUMENT: u32 = 20;
const DOCUMENTS_PER_WRITE: u32 = 50;
/// Searches of each kind.
const SEARCHES: usize = 300;
/// Documents that are chunked.
const CHUNKED: usize = 20;
const SPACE: &str = "bench";

/// Texts and vectors with a seed.
struct Source {
    random: StdRng,
}

impl Source {
    fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed) }
    }

    fn words(&mut self, count: usize) -> String {
        let word = |_| {
            let share: f64 = self.random.random();
            format!("word{}", (share.powi(4) * VOCABULARY) as u32)
        };
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self) -> Embedding {
        let values = (0..DIMENSIONS).map(|_| self.random.random::<f32>() - 0.5).collect();
        Embedding { space: SPACE.to_owned(), values }
    }

    fn document(&mut self, number: u32, generation: u64) -> IndexedDocument {
        let passage = |number| Passage {
            number,
            text: self.words(WORDS),
            context: String::new(),
            language: Some("en".to_owned()),
            vectors: vec![self.vector()],
        };
        IndexedDocument {
            document: DocumentId::derive(&["bench", &number.to_string()]),
            generation,
            tags: vec![tag(number % 10)],
            metadata: BTreeMap::new(),
            date: None,
            passages: (0..PASSAGES_PER_DOCUMENT).map(passage).collect(),
        }
    }
}

fn tag(number: u32) -> TagId {
    TagId::derive(&["bench", &number.to_string()])
}

async fn upsert(index: &EmbeddedIndex, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<()> {
    let written = index.upsert(org, documents).await?;
    ensure!(written == Written::Applied { stale: 0 }, "{written:?}");
    Ok(())
}

async fn create(index: &EmbeddedIndex, org: &OrgId) -> Result<()> {
    index.begin_rebuild(org).await?;
    index.finish_rebuild(org).await?;
    Ok(())
}

/// Measures an index of `passages` passages of one organization.
pub(crate) async fn measure(passages: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = EmbeddedOptions { memory_bytes: 8 << 30, ..EmbeddedOptions::default() };
    let index = Arc::new(EmbeddedIndex::open(folder.path().to_owned(), options)?);
    let (org, other) = (OrgId::derive(&["bench"]), OrgId::derive(&["other"]));
    let mut aims = Aims::default();
    let chunks = chunks_per_second()?;
    eprintln!("{chunks:>10.0} chunks/s of text");

    let mut source = Source::new(1);
    let documents = passages.div_ceil(PASSAGES_PER_DOCUMENT);
    create(&index, &org).await?;
    let before = memory()?;
    let mut writing = Duration::ZERO;
    for first in (0..documents).step_by(DOCUMENTS_PER_WRITE as usize) {
        let last = documents.min(first + DOCUMENTS_PER_WRITE);
        let write = (first..last).map(|number| source.document(number, 1)).collect();
        let begun = Instant::now();
        upsert(&index, &org, write).await?;
        writing += begun.elapsed();
    }
    let count = documents * PASSAGES_PER_DOCUMENT;
    let rate = f64::from(count) / writing.as_secs_f64();
    eprintln!("{rate:>10.0} passages/s into the index, of {WORDS} words and {DIMENSIONS} dimensions");

    let begun = Instant::now();
    let kinds = [Kind::Dense, Kind::Lexical, Kind::Hybrid, Kind::Filtered];
    search(&index, &org, &mut source, Kind::Dense).await?;
    let loading = begun.elapsed();
    let mut searches = serde_json::Map::new();
    let aim = Duration::from_millis(if count > 100_000 { 250 } else { 50 });
    for kind in kinds {
        let times = times(&index, &org, &mut source, kind).await?;
        let is_met = !matches!(kind, Kind::Hybrid) || times.p99 <= aim;
        let missed = aims.check("p99 of hybrid searches", is_met);
        eprintln!("{:<10} p50 {:>10.1?}  p99 {:>10.1?}{missed}", kind.name(), times.p50, times.p99);
        searches.insert(kind.name().to_owned(), milliseconds(&times));
    }
    let statistics = index.statistics(&org).await?;
    let per_million = |bytes: u64| bytes as f64 / f64::from(count) * 1e6 / f64::from(1 << 20);
    let vectors = per_million(statistics.memory_bytes);
    let resident = per_million(memory()?.saturating_sub(before));
    let disk = per_million(statistics.disk_bytes.unwrap_or_default());
    eprintln!("per million: {vectors:.0} MiB of vectors, {resident:.0} MiB resident, {disk:.0} MiB on disk");

    create(&index, &other).await?;
    let alone = times(&index, &org, &mut source, Kind::Hybrid).await?;
    let busy = while_writing(&index, &org, &other, &mut source).await?;
    let added = busy.p99.as_secs_f64() / alone.p99.as_secs_f64() - 1.0;
    let missed = aims.check("p99 during writes of another organization", added < 0.1);
    eprintln!(
        "p99 {:.1?} alone, {:.1?} while another organization writes: {:+.1} %{missed}",
        alone.p99,
        busy.p99,
        added * 100.0
    );
    let report = json!({
        "passages": count, "dimensions": DIMENSIONS, "chunks_per_second": chunks, "passages_per_second": rate,
        "first_dense_search_milliseconds": loading.as_secs_f64() * 1e3, "searches": searches,
        "mib_per_million": { "vectors": vectors, "resident": resident, "disk": disk },
        "during_writes": { "alone": milliseconds(&alone), "busy": milliseconds(&busy), "added_p99": added },
        "missed": aims.missed(),
    });
    println!("{report}");
    aims.finish()
}

fn milliseconds(times: &Percentiles) -> Value {
    json!({ "p50": times.p50.as_secs_f64() * 1e3, "p99": times.p99.as_secs_f64() * 1e3 })
}

fn memory() -> Result<u64> {
    resident_bytes(std::process::id())
}

fn chunks_per_second() -> Result<f64> {
    let mut source = Source::new(2);
    let mut text = |words| source.words(words) + ". ";
    let section = |number: usize, text: &mut dyn FnMut(usize) -> String| Section {
        id: number.to_string(),
        title_path: vec![format!("Section {number}")],
        blocks: vec![Block::Paragraph { page: 1, start: 0, text: (0..40).map(|_| text(25)).collect() }],
    };
    let document = Document {
        id: DocumentId::derive(&["bench"]),
        file_name: "bench.pdf".to_owned(),
        metadata: BTreeMap::new(),
        sections: (0..50).map(|number| section(number, &mut text)).collect(),
        context: Context { document_summary: Some("A summary of the document.".to_owned()), ..Context::default() },
    };
    let begun = Instant::now();
    let mut chunks = 0;
    for _ in 0..CHUNKED {
        chunks += chunk_document(&document, &ChunkOptions::default(), &Estimate(folio_llm::count_tokens))?.chunks.len();
    }
    Ok(chunks as f64 / begun.elapsed().as_secs_f64())
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Lexical,
    Dense,
    Hybrid,
    /// A hybrid search of a tenth of the documents.
    Filtered,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
            Self::Filtered => "filtered",
        }
    }
}

async fn search(index: &EmbeddedIndex, org: &OrgId, source: &mut Source, kind: Kind) -> Result<Duration> {
    let text = if matches!(kind, Kind::Dense) { String::new() } else { source.words(5) };
    let vector = (!matches!(kind, Kind::Lexical)).then(|| source.vector());
    let tags = if matches!(kind, Kind::Filtered) { vec![tag(3)] } else { vec![] };
    let search = Search { text, vector, filter: Filter { tags, ..Filter::default() }, limit: 10 };
    let begun = Instant::now();
    let answer = index.search(org, &search).await?;
    let took = begun.elapsed();
    ensure!(!answer.hits.is_empty(), "a search found nothing: {answer:?}");
    Ok(took)
}

async fn times(index: &EmbeddedIndex, org: &OrgId, source: &mut Source, kind: Kind) -> Result<Percentiles> {
    let mut times = Vec::with_capacity(SEARCHES);
    for _ in 0..SEARCHES {
        times.push(search(index, org, source, kind).await?);
    }
    Ok(Percentiles::of(times))
}

/// Measures hybrid searches while another organization writes documents continuously.
async fn while_writing(
    index: &Arc<EmbeddedIndex>,
    org: &OrgId,
    other: &OrgId,
    source: &mut Source,
) -> Result<Percentiles> {
    let is_done = Arc::new(AtomicBool::new(false));
    let (writer, done, other) = (Arc::clone(index), Arc::clone(&is_done), other.clone());
    let writes = tokio::spawn(async move {
        let mut source = Source::new(3);
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            let documents = (number..number + DOCUMENTS_PER_WRITE).map(|number| source.document(number, 1)).collect();
            upsert(&writer, &other, documents).await?;
            number += DOCUMENTS_PER_WRITE;
        }
        anyhow::Ok(())
    });
    let times = times(index, org, source, Kind::Hybrid).await;
    is_done.store(true, Ordering::Relaxed);
    writes.await??;
    times
}
