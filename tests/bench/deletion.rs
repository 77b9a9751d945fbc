//! Effect of deletions on the writes of another tenant on the embedded store: latency of these writes alone, while prompts
//! with the maximum of revisions are deleted and the clean-up removes the revisions, while threads of the maximum size are
//! deleted, and while updates of a prompt with the maximum of named revisions are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use folio_history::journal::{End, Ended, Entry};
use folio_history::thread::{Append, Appended, NewThread};
use folio_resources::{NewPrompt, Prompt, PromptChange, PromptUpdate, Tag, TagChange};
use folio_storage::Stores;
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::message::FinishReason;
use folio_types::op::{Expected, Write};
use folio_types::{OrgId, Principal, PromptId, Role, TagId, ThreadId, Timestamp, UserId, limits};
use serde_json::{Value, json};

use crate::format::{Aims, Percentiles, micros, row};
use crate::named_revisions;

/// Number of prompts that are deleted one after another, so that enough writes happen meanwhile.
const PROMPTS: usize = 20;
/// Number of threads that are deleted one after another.
const THREADS: usize = 8;
/// Size of the text of an entry of a thread, in bytes.
const ENTRY_BYTES: usize = 16 * 1024;
/// Number of entries of an append.
const ENTRIES_AT_ONCE: usize = 32;
/// Number of writes that are measured without a deletion.
const WRITES: usize = 3_000;
/// Minimum number of writes during the operations for a 99th percentile.
const WRITES_MIN: usize = 100;
/// Maximum of the 99th percentile during the operations, as a multiple of that without.
const AIM: f64 = 2.0;

/// Measures with this number of revisions of each prompt.
pub(crate) async fn measure(revisions: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = EmbeddedStore::open(Options::at(folder.path()))?;
    let (stores, large, other) = (store.stores(), OrgId::derive(&["large"]), OrgId::derive(&["other"]));
    let versions = u64::try_from(revisions)?;
    let (mut prompts, mut threads) = (Vec::new(), Vec::new());
    for number in 0..PROMPTS {
        prompts.push(fill(&stores, &large, number, versions, large_content).await.context("cannot create a prompt")?);
    }
    for number in 0..THREADS {
        threads.push(fill_thread(&stores, &large, number).await.context("cannot create a thread")?);
    }
    let named = named_revisions::create(&stores, &large, PROMPTS).await.context("cannot create named revisions")?;
    let alone = Percentiles::of(write(&stores, &other, 0, |written| written < WRITES).await?);
    let of_prompts = during(&stores, &other, WRITES, delete_prompts(&stores, &large, &prompts, versions)).await?;
    let first = WRITES + of_prompts.writes.len();
    let of_threads = during(&stores, &other, first, delete_threads(&stores, &large, &threads)).await?;
    let first = first + of_threads.writes.len();
    let of_updates = during(&stores, &other, first, named_revisions::update(&stores, &large, &named)).await?;
    store.close().await;

    let mut aims = Aims::default();
    row("writes of another tenant", "alone", "deletion");
    row(&format!("prompts with {revisions} revisions of 64 KiB"), "", "");
    let of_prompts = of_prompts.report("deletions of prompts", PROMPTS, &alone, &mut aims)?;
    row(&format!("threads of {} MiB", limits::THREAD_BYTES / 1024 / 1024), "", "");
    let of_threads = of_threads.report("deletions of threads", THREADS, &alone, &mut aims)?;
    row(&format!("updates of a prompt with {} named revisions", limits::REVISIONS_MAX), "", "");
    let of_updates = of_updates.report("refused updates", named_revisions::UPDATES, &alone, &mut aims)?;
    println!(
        "{}",
        json!({
            "revisions": revisions,
            "p99_alone_us": alone.p99.as_micros(),
            "prompts": of_prompts,
            "threads": of_threads,
            "updates": of_updates,
            "missed": aims.missed(),
        })
    );
    aims.finish()
}

/// The writes of another tenant during deletions or updates.
struct Load {
    /// Time of each write.
    writes: Vec<Duration>,
    /// Time until all operations have ended, and all rows of deleted items are removed.
    time: Duration,
    /// The longest time until an operation returns.
    longest: Duration,
}

impl Load {
    /// Prints the effect of `count` operations on the writes, and returns it as JSON.
    fn report(self, operations: &str, count: usize, alone: &Percentiles, aims: &mut Aims) -> Result<Value> {
        let writes = self.writes.len();
        let problem = format!("only {writes} writes during {operations}: a percentile needs {WRITES_MIN}");
        ensure!(writes >= WRITES_MIN, "{problem}");
        let (during, mean) = (Percentiles::of(self.writes), self.time / u32::try_from(count)?);
        let ratio = during.p99.as_secs_f64() / alone.p99.as_secs_f64();
        row("  p50", &micros(alone.p50), &micros(during.p50));
        let ratio_text = format!("{} ({ratio:.2}×)", micros(during.p99));
        let p99 = format!("  p99 during {operations} (aim below {AIM}×)");
        aims.row(&p99, &micros(alone.p99), &ratio_text, ratio < AIM);
        row("  writes", &WRITES.to_string(), &writes.to_string());
        row("  longest operation", "", &micros(self.longest));
        row("  until an operation has ended, and removed all rows, mean", "", &micros(mean));
        Ok(json!({
            "p99_us": during.p99.as_micros(),
            "ratio": ratio,
            "delete_us": self.longest.as_micros(),
            "clean_us": mean.as_micros(),
        }))
    }
}

/// Writes as another tenant while `operations` run, which return the longest time of one. `first`: number of the first write.
async fn during(
    stores: &Stores,
    other: &OrgId,
    first: usize,
    operations: impl Future<Output = Result<Duration>>,
) -> Result<Load> {
    let is_loaded = Arc::new(AtomicBool::new(true));
    let writing = {
        let (stores, other, is_loaded) = (stores.clone(), other.clone(), Arc::clone(&is_loaded));
        tokio::spawn(async move { write(&stores, &other, first, |_| is_loaded.load(Ordering::Acquire)).await })
    };
    let started = Instant::now();
    let ended = operations.await;
    let time = started.elapsed();
    is_loaded.store(false, Ordering::Release);
    let writes = writing.await??;
    Ok(Load { writes, time, longest: ended? })
}

async fn delete_prompts(stores: &Stores, org: &OrgId, prompts: &[PromptId], versions: u64) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for prompt in prompts {
        let started = Instant::now();
        decide_prompt(stores, org, prompt, Expected::Version(versions), PromptChange::Delete).await?;
        longest = longest.max(started.elapsed());
        stores.of::<Prompt>().clean_deleted(org, prompt, true).await?;
        let left = stores.resources.revision_numbers(org, &prompt.to_string()).await?;
        ensure!(left.is_empty(), "{} revisions of a deleted prompt remain", left.len());
    }
    Ok(longest)
}

async fn delete_threads(stores: &Stores, org: &OrgId, threads: &[ThreadId]) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for thread in threads {
        let started = Instant::now();
        stores.threads.delete(org, thread, None).await?;
        longest = longest.max(started.elapsed());
        ensure!(stores.threads.header(org, thread).await?.is_none(), "a thread remains after its deletion");
    }
    Ok(longest)
}

/// Creates a thread with a journal of almost the maximum size, in entries of [`ENTRY_BYTES`].
async fn fill_thread(stores: &Stores, org: &OrgId, number: usize) -> Result<ThreadId> {
    let (id, at) = (ThreadId::derive(&[&number.to_string()]), Timestamp::now());
    let principal = Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member);
    let new = NewThread::new(id.clone(), &principal, "document", Vec::new(), at);
    let mut header = stores.threads.create(new).await?;
    for batch in 1_u128.. {
        let end = End::Completed { text: "0".repeat(ENTRY_BYTES), thinking: Vec::new(), finish: FinishReason::Stop };
        let entries = vec![Entry::Ended(Box::new(Ended::new(1, end, 1, at))); ENTRIES_AT_ONCE];
        let append = Append { entries, ..Append::new(batch, header.fence(), at) };
        header = match stores.threads.append(org, &id, append).await? {
            Appended::Done(after) => *after,
            Appended::Refused { .. } => bail!("an append to a thread was refused"),
        };
        let batch_bytes = header.bytes / header.version.max(1);
        if header.bytes + batch_bytes > limits::THREAD_BYTES {
            break;
        }
    }
    Ok(id)
}

/// Returns a content of 64 KiB.
fn large_content(revision: u64) -> String {
    let number = revision.to_string();
    "0".repeat(limits::PROMPT_BYTES - number.len()) + &number
}

/// Creates a prompt with revisions. `content`: that of a revision by its number, from 0.
pub(crate) async fn fill(
    stores: &Stores,
    org: &OrgId,
    prompt: usize,
    revisions: u64,
    content: impl Fn(u64) -> String,
) -> Result<PromptId> {
    let id = PromptId::derive(&[&prompt.to_string()]);
    for revision in 0..revisions {
        let content = content(revision);
        let (expected, change) = match revision {
            0 => {
                let name = format!("prompt {prompt}");
                (Expected::Absent, PromptChange::Create(NewPrompt { name, content, ..NewPrompt::default() }))
            }
            version => {
                let update = PromptUpdate { content: Some(content), ..PromptUpdate::default() };
                (Expected::Version(version), PromptChange::Update(update))
            }
        };
        decide_prompt(stores, org, &id, expected, change).await?;
    }
    Ok(id)
}

async fn decide_prompt(
    stores: &Stores,
    org: &OrgId,
    id: &PromptId,
    expected: Expected,
    change: PromptChange,
) -> Result<()> {
    let version = match expected {
        Expected::Absent => 0,
        Expected::Version(version) => version,
    };
    let key = format!("{id}:{version}").parse()?;
    stores.of::<Prompt>().decide(id, Write::by_platform(org.clone(), key, Timestamp::now(), expected, change)).await?;
    Ok(())
}

/// Creates tags one after another while `continues`, and returns the time of each write. `first`: number of the first.
async fn write(stores: &Stores, org: &OrgId, first: usize, continues: impl Fn(usize) -> bool) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while continues(times.len()) {
        let name = format!("tag {}", first + times.len());
        let id = TagId::derive(&[&name]);
        let change = TagChange::Create { name: name.clone(), color: None, description: None };
        let write =
            Write::by_platform(org.clone(), id.to_string().parse()?, Timestamp::now(), Expected::Absent, change);
        let started = Instant::now();
        stores.of::<Tag>().decide(&id, write).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}
