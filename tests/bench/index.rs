//! Chunks, the indexes of passages, and searches while another organization writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use folio_index::{
    EmbeddedIndex, EmbeddedOptions, Embedding, Filter, IndexedDocument, Passage, PassageIndex, Search, Written,
};
use folio_index_qdrant::{QdrantIndex, QdrantOptions};
use folio_passages::{Block, ChunkOptions, Context, Document, Estimate, Section, chunk_document};
use folio_test_servers::Qdrant;
use folio_tests::harness::process::anonymous_bytes;
use folio_types::{DocumentId, OrgId, Secret, System, TagId};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::format::{Aims, Percentiles};

/// Default numbers of passages in the embedded index, and in an index on a Qdrant server.
pub(crate) const PASSAGES: u32 = 100_000;
pub(crate) const QDRANT_PASSAGES: u32 = 10_000;
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
/// Writes of the other organization that are prepared, and repeated with other ids.
const PREPARED_WRITES: u32 = 10;
/// The merges have ended if the size on the disk is equal this many times, with this interval.
const EQUAL_SIZES: u32 = 5;
const SIZE_INTERVAL: Duration = Duration::from_secs(1);
const MERGED_WITHIN: Duration = Duration::from_secs(300);
/// Folder of the messages of Qdrant.
const QDRANT_PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/folio-index-qdrant/proto");
const QDRANT_TIMEOUT: Duration = Duration::from_secs(300);

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

async fn upsert(index: &dyn PassageIndex, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<()> {
    let written = index.upsert(org, documents).await?;
    ensure!(written == Written::Applied { stale: 0 }, "{written:?}");
    Ok(())
}

async fn create(index: &dyn PassageIndex, org: &OrgId) -> Result<()> {
    index.begin_rebuild(org, 1).await?;
    index.finish_rebuild(org, 1).await?;
    Ok(())
}

/// Creates an index of this number of documents. Returns the passages that were written per second.
async fn fill(index: &dyn PassageIndex, org: &OrgId, source: &mut Source, documents: u32) -> Result<f64> {
    create(index, org).await?;
    let mut writing = Duration::ZERO;
    for first in (0..documents).step_by(DOCUMENTS_PER_WRITE as usize) {
        let last = documents.min(first + DOCUMENTS_PER_WRITE);
        let write = (first..last).map(|number| source.document(number, 1)).collect();
        let begun = Instant::now();
        upsert(index, org, write).await?;
        writing += begun.elapsed();
    }
    let rate = f64::from(documents * PASSAGES_PER_DOCUMENT) / writing.as_secs_f64();
    eprintln!("{rate:>10.0} passages/s into the index, of {WORDS} words and {DIMENSIONS} dimensions");
    Ok(rate)
}

/// Measures searches of each kind. `aim`: the maximum 99th percentile of hybrid searches. None: there is no aim.
async fn searches(
    index: &dyn PassageIndex,
    org: &OrgId,
    source: &mut Source,
    (aim, aims): (Option<Duration>, &mut Aims),
) -> Result<Value> {
    let mut found = serde_json::Map::new();
    for kind in [Kind::Dense, Kind::Lexical, Kind::Hybrid, Kind::Filtered] {
        let times = times(index, org, source, kind).await?;
        let is_met = !matches!(kind, Kind::Hybrid) || aim.is_none_or(|aim| times.p99 <= aim);
        let missed = aims.check("p99 of hybrid searches", is_met);
        eprintln!("{:<10} p50 {:>10.1?}  p99 {:>10.1?}{missed}", kind.name(), times.p50, times.p99);
        found.insert(kind.name().to_owned(), milliseconds(&times));
    }
    Ok(Value::Object(found))
}

/// Returns the aim of the 99th percentile of hybrid searches.
fn aim(passages: u32) -> Duration {
    Duration::from_millis(if passages > 100_000 { 250 } else { 50 })
}

/// Measures the embedded index with `passages` passages of one organization.
pub(crate) async fn measure(passages: u32) -> Result<()> {
    let begun = Instant::now();
    let folder = tempfile::tempdir()?;
    let options =
        EmbeddedOptions { memory_bytes: 8 << 30, writer_idle: Duration::from_secs(1), ..EmbeddedOptions::default() };
    let index = Arc::new(EmbeddedIndex::open(folder.path().to_owned(), options)?);
    let (org, other) = (OrgId::derive(&["bench"]), OrgId::derive(&["other"]));
    let mut aims = Aims::default();
    let chunks = chunks_per_second()?;
    eprintln!("{chunks:>10.0} chunks/s of text");

    let mut source = Source::new(1);
    let documents = passages.div_ceil(PASSAGES_PER_DOCUMENT);
    let before = memory()?;
    let rate = fill(&*index, &org, &mut source, documents).await?;
    let count = documents * PASSAGES_PER_DOCUMENT;
    wait_for_merges(&index, &org).await?;

    let loading = search(&*index, &org, &mut source, Kind::Dense).await?;
    let searches = searches(&*index, &org, &mut source, (Some(aim(count)), &mut aims)).await?;
    let statistics = index.statistics(&org).await?;
    let per_million = |bytes: u64| bytes as f64 / f64::from(count) * 1e6 / f64::from(1 << 20);
    let vectors = per_million(statistics.memory_bytes);
    let resident = per_million(memory()?.saturating_sub(before));
    let disk = per_million(statistics.disk_bytes.unwrap_or_default());
    eprintln!("per million: {vectors:.0} MiB of vectors, {resident:.0} MiB resident, {disk:.0} MiB on disk");

    create(&*index, &other).await?;
    let alone = times(&*index, &org, &mut source, Kind::Hybrid).await?;
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
        "seconds": begun.elapsed().as_secs_f64(), "missed": aims.missed(),
    });
    println!("{report}");
    aims.finish()
}

/// Measures the index on the Qdrant server that `QDRANT_URL` names, in a collection of its own. Without the variable, on the engine
/// of Qdrant behind a test server, whose network layer is a program in Python: its numbers say nothing about a real server, and
/// have no aims.
pub(crate) async fn measure_qdrant(passages: u32) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = variable("QDRANT_URL");
    let server = match &named {
        Some(_) => None,
        None => Some(tokio::task::spawn_blocking(|| Qdrant::start(Path::new(QDRANT_PROTO), "")).await??),
    };
    let is_real = named.is_some();
    let url = named.or_else(|| server.as_ref().map(Qdrant::url)).context("a Qdrant server")?;
    let options = QdrantOptions {
        api_key: Secret::new(&variable("QDRANT_API_KEY").unwrap_or_default()),
        collection: format!("folio-bench-{:x}", rand::random::<u64>()),
        insecure: true,
        timeout: QDRANT_TIMEOUT,
        ..QdrantOptions::at(&url)
    };
    let index = QdrantIndex::new(&options, Arc::new(System)).await?;
    let (org, mut aims, mut source) = (OrgId::derive(&["bench"]), Aims::default(), Source::new(1));
    let documents = passages.div_ceil(PASSAGES_PER_DOCUMENT);
    let count = documents * PASSAGES_PER_DOCUMENT;
    eprintln!("{}", if is_real { "the server of QDRANT_URL" } else { "the engine of Qdrant behind a test server" });
    let rate = fill(&index, &org, &mut source, documents).await?;
    let aim = is_real.then(|| aim(count));
    let searches = searches(&index, &org, &mut source, (aim, &mut aims)).await?;
    index.delete_organization(&org).await?;
    let report = json!({
        "passages": count, "dimensions": DIMENSIONS, "is_real_server": is_real, "passages_per_second": rate,
        "searches": searches, "missed": aims.missed(),
    });
    println!("{report}");
    aims.finish()
}

/// Waits until the merges of the segments have ended, which would disturb the searches and change the size on the disk.
async fn wait_for_merges(index: &EmbeddedIndex, org: &OrgId) -> Result<()> {
    let end = Instant::now() + MERGED_WITHIN;
    let (mut before, mut equal) = (None, 0);
    while equal < EQUAL_SIZES {
        ensure!(Instant::now() < end, "the merges did not end within {MERGED_WITHIN:?}");
        // No event signals that the merges have ended.
        tokio::time::sleep(SIZE_INTERVAL).await;
        let bytes = index.statistics(org).await?.disk_bytes;
        equal = if bytes == before { equal + 1 } else { 0 };
        before = bytes;
    }
    Ok(())
}

fn milliseconds(times: &Percentiles) -> Value {
    json!({ "p50": times.p50.as_secs_f64() * 1e3, "p99": times.p99.as_secs_f64() * 1e3 })
}

/// Returns the resident memory without the mapped parts of files, which the kernel loads and drops as it needs.
fn memory() -> Result<u64> {
    anonymous_bytes(std::process::id())
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

async fn search(index: &dyn PassageIndex, org: &OrgId, source: &mut Source, kind: Kind) -> Result<Duration> {
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

async fn times(index: &dyn PassageIndex, org: &OrgId, source: &mut Source, kind: Kind) -> Result<Percentiles> {
    let mut times = Vec::with_capacity(SEARCHES);
    for _ in 0..SEARCHES {
        times.push(search(index, org, source, kind).await?);
    }
    Ok(Percentiles::of(times))
}

/// Measures hybrid searches while another organization writes documents continuously. The documents are made before, so that only
/// the index uses the processor.
async fn while_writing(
    index: &Arc<EmbeddedIndex>,
    org: &OrgId,
    other: &OrgId,
    source: &mut Source,
) -> Result<Percentiles> {
    let mut of_other = Source::new(3);
    let prepared: Vec<IndexedDocument> =
        (0..PREPARED_WRITES * DOCUMENTS_PER_WRITE).map(|number| of_other.document(number, 1)).collect();
    let is_done = Arc::new(AtomicBool::new(false));
    let (writer, done, other) = (Arc::clone(index), Arc::clone(&is_done), other.clone());
    let writes = tokio::spawn(async move {
        for round in 0.. {
            for documents in prepared.chunks(DOCUMENTS_PER_WRITE as usize) {
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let new = |document: &IndexedDocument| {
                    let id = DocumentId::derive(&["other", document.document.as_str(), &round.to_string()]);
                    IndexedDocument { document: id, ..document.clone() }
                };
                upsert(&*writer, &other, documents.iter().map(new).collect()).await?;
            }
        }
        anyhow::Ok(())
    });
    let times = times(&**index, org, source, Kind::Hybrid).await;
    is_done.store(true, Ordering::Relaxed);
    writes.await??;
    times
}
