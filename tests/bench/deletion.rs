//! Effect of a deletion on the writes of another tenant on the embedded store: latency of these writes alone, while a
//! prompt with the maximum of revisions is deleted, and while the clean-up removes the revisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use folio_resources::{NewPrompt, Prompt, PromptChange, PromptUpdate, Tag, TagChange};
use folio_storage::Stores;
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::op::{Expected, Write};
use folio_types::{OrgId, PromptId, TagId, Timestamp, limits};
use serde_json::json;

use crate::format::{Aims, Percentiles, micros, row};

/// Number of prompts that are deleted one after another, so that enough writes happen meanwhile.
const PROMPTS: usize = 20;
/// Number of writes that are measured without a deletion.
const WRITES: usize = 3_000;
/// Minimum number of writes during the deletions for a 99th percentile.
const WRITES_MIN: usize = 100;
/// Maximum of the 99th percentile during deletions, as a multiple of that without.
const AIM: f64 = 2.0;

/// Measures with this number of revisions of each prompt.
pub(crate) async fn measure(revisions: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = EmbeddedStore::open(Options::at(folder.path()))?;
    let (stores, large, other) = (store.stores(), OrgId::derive(&["large"]), OrgId::derive(&["other"]));
    let versions = u64::try_from(revisions)?;
    let mut prompts = Vec::new();
    for number in 0..PROMPTS {
        prompts.push(fill(&stores, &large, number, versions).await.context("cannot create a prompt")?);
    }
    let alone = write(&stores, &other, 0, |written| written < WRITES).await?;
    let deleting = Arc::new(AtomicBool::new(true));
    let during = {
        let (stores, other, deleting) = (stores.clone(), other.clone(), Arc::clone(&deleting));
        tokio::spawn(async move { write(&stores, &other, WRITES, |_| deleting.load(Ordering::Acquire)).await })
    };
    let started = Instant::now();
    let mut deletion = Duration::ZERO;
    for prompt in &prompts {
        let began = Instant::now();
        decide_prompt(&stores, &large, prompt, Expected::Version(versions), PromptChange::Delete).await?;
        deletion = deletion.max(began.elapsed());
        stores.of::<Prompt>().clean_deleted(&large, prompt, true).await?;
    }
    let cleaned = started.elapsed() / u32::try_from(PROMPTS)?;
    deleting.store(false, Ordering::Release);
    let during = during.await??;
    for prompt in &prompts {
        let left = stores.resources.revision_numbers(&large, &prompt.to_string()).await?;
        ensure!(left.is_empty(), "{} revisions of a deleted prompt remain", left.len());
    }
    store.close().await;

    let writes = during.len();
    ensure!(writes >= WRITES_MIN, "only {writes} writes during the deletions: a percentile needs {WRITES_MIN}");
    let (alone, during) = (Percentiles::of(alone), Percentiles::of(during));
    let ratio = during.p99.as_secs_f64() / alone.p99.as_secs_f64();
    row("writes of another tenant", "alone", "deletion");
    row("  p50", &micros(alone.p50), &micros(during.p50));
    let (mut aims, ratio_text) = (Aims::default(), format!("{} ({ratio:.2}×)", micros(during.p99)));
    aims.row(&format!("  p99 (aim below {AIM}×)"), &micros(alone.p99), &ratio_text, ratio < AIM);
    row("  writes", &WRITES.to_string(), &writes.to_string());
    row(&format!("deletion of {revisions} revisions of 64 KiB, longest"), "", &micros(deletion));
    row("  until all rows are removed, mean", "", &micros(cleaned));
    println!(
        "{}",
        json!({
            "revisions": revisions,
            "p99_alone_us": alone.p99.as_micros(),
            "p99_deletion_us": during.p99.as_micros(),
            "ratio": ratio,
            "missed": aims.missed(),
            "delete_us": deletion.as_micros(),
            "clean_us": cleaned.as_micros(),
        })
    );
    aims.finish()
}

/// Creates a prompt with revisions of 64 KiB.
async fn fill(stores: &Stores, org: &OrgId, prompt: usize, revisions: u64) -> Result<PromptId> {
    let id = PromptId::derive(&[&prompt.to_string()]);
    for revision in 0..revisions {
        let number = revision.to_string();
        let content = "0".repeat(limits::PROMPT_BYTES - number.len()) + &number;
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
