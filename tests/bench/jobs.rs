//! Jobs with a model that answers at once: documents per second of batches, and the time that a job of one document adds to its
//! model call. Measured in one process on the embedded store, and on three nodes with Redis and a CQL server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use folio_tests::harness::client::Client;
use serde_json::{Value, json};

use crate::client::{together, upload};
use crate::cluster::processes::{Cluster, Stores};
use crate::cluster::turns;
use crate::format::{Percentiles, micros, row};
use crate::process::{Folio, start_model};

/// Documents of the batches.
pub(crate) const DOCUMENTS: usize = 1_000;
const NODES: usize = 3;
/// Batches that run at the same time, which is the default of `jobs.running_max`. One node runs a batch.
const BATCHES: usize = 8;
/// Jobs of one document, which run one after another, and calls of the model alone.
const SINGLE_JOBS: usize = 200;
/// Concurrent uploads.
const UPLOADS: usize = 16;
/// Interval at which a job is read until it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time of a job.
const LIMIT: Duration = Duration::from_secs(30 * 60);

const SCRIPT: &str = "rules:\n  - answer: {text: '{\"total\": 957}'}\n";
/// One organization makes the whole load.
pub(crate) const LIMITS: [(&str, &str); 4] = [
    ("FOLIO_LIMITS__CONCURRENT_TURNS", "0"),
    ("FOLIO_LIMITS__CONCURRENT_MODEL_CALLS", "0"),
    ("FOLIO_LIMITS__DOCUMENTS", "0"),
    ("FOLIO_LIMITS__STORAGE_BYTES", "0"),
];

/// Measurements of one composition.
struct Measurements {
    /// Documents per second of one batch.
    one_batch: f64,
    /// Documents per second of [`BATCHES`] batches at the same time.
    batches: f64,
    /// Times of jobs of one document, from the creation to the end.
    single: Percentiles,
}

/// Runs batches over this number of documents, at least one for each batch.
pub(crate) async fn measure(documents: usize) -> Result<()> {
    ensure!(documents >= BATCHES, "at least {BATCHES} documents are needed");
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), SCRIPT)?;
    let sim = endpoint.url();
    let model = turns::of_the_model(&sim, SINGLE_JOBS).await?.whole;
    let folio = Folio::start(&sim, &LIMITS)?;
    let embedded = Measurements::of(&folio.client().await, documents).await.context("one process")?;
    drop(folio);
    let stores = Stores::start()?;
    let cluster = Cluster::start(&stores, "jobs", &sim, NODES).await?;
    let three = Measurements::of(&cluster.client(0).await, documents).await.context("three nodes")?;

    let title = format!("jobs over {documents} documents; a model call alone takes {} (p50)", micros(model.p50));
    eprintln!("\n{title:<60}{:>14}{:>14}", "embedded", "three nodes");
    let both = |what: &str, shown: fn(&Measurements) -> String| row(what, &shown(&embedded), &shown(&three));
    both("documents per second, one batch", |found| format!("{:.0}", found.one_batch));
    both(&format!("documents per second, {BATCHES} batches"), |found| format!("{:.0}", found.batches));
    both("job of one document, p50", |found| micros(found.single.p50));
    both("job of one document, p99", |found| micros(found.single.p99));
    let added = |found: &Measurements| found.single.p50.saturating_sub(model.p50);
    row("  added to the model call, p50", &micros(added(&embedded)), &micros(added(&three)));
    let report = |found: &Measurements| {
        json!({
            "documents_per_second_one_batch": found.one_batch,
            "documents_per_second": found.batches,
            "job_p50_microseconds": found.single.p50.as_micros() as u64,
            "job_p99_microseconds": found.single.p99.as_micros() as u64,
            "added_p50_microseconds": added(found).as_micros() as u64,
        })
    };
    let output: Value = json!({
        "documents": documents,
        "batches": BATCHES,
        "model_p50_microseconds": model.p50.as_micros() as u64,
        "embedded": report(&embedded),
        "three_nodes": report(&three),
    });
    println!("{output}");
    Ok(())
}

impl Measurements {
    async fn of(client: &Client, count: usize) -> Result<Self> {
        let prompt = create_prompt(client).await?;
        let documents = upload_all(client, count).await?;
        // The first jobs fill caches.
        run(client, &prompt, documents.chunks(1).take(BATCHES)).await?;
        let mut single = Vec::new();
        for document in documents.iter().cycle().take(SINGLE_JOBS) {
            single.push(run(client, &prompt, std::iter::once(std::slice::from_ref(document))).await?);
        }
        let per_second = |time: Duration| (count as f64 / time.as_secs_f64()).round();
        let one_batch = per_second(run(client, &prompt, documents.chunks(count)).await?);
        let batches = per_second(run(client, &prompt, documents.chunks(count.div_ceil(BATCHES))).await?);
        Ok(Self { one_batch, batches, single: Percentiles::of(single) })
    }
}

async fn create_prompt(client: &Client) -> Result<String> {
    let format = json!({
        "type": "json_schema",
        "json_schema": {"name": "bill", "strict": true, "schema": {
            "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
            "additionalProperties": false,
        }},
    });
    let schema = v1::Schema { name: "Bill".into(), response_format_json: format.to_string(), ..Default::default() };
    let request = v1::CreateSchemaRequest { schema: Some(schema), ..Default::default() };
    let schema = client.schemas.clone().create_schema(request).await?.into_inner().schema.context("no schema")?;
    let prompt = v1::Prompt {
        name: "Bill".into(),
        content: "Read the total.".into(),
        schema_revid: schema.schema_revid,
        ..Default::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    let prompt = client.prompts.clone().create_prompt(request).await?.into_inner().prompt.context("no prompt")?;
    Ok(prompt.prompt_revid)
}

/// Uploads documents, several at a time. Returns their ids.
pub(crate) async fn upload_all(client: &Client, count: usize) -> Result<Vec<String>> {
    let uploaders = (0..UPLOADS).map(|first| {
        let client = client.clone();
        async move {
            let mut uploaded = Vec::new();
            for _ in (first..count).step_by(UPLOADS) {
                uploaded.push(upload(&client).await);
            }
            Ok(uploaded)
        }
    });
    Ok(together(uploaders).await?.concat())
}

/// Runs a job for each of these sets of documents, all at the same time. Returns the time from the creation of the first one to
/// the end of the last one, as the jobs state them.
async fn run<'a>(client: &Client, prompt: &str, batches: impl Iterator<Item = &'a [String]>) -> Result<Duration> {
    let mut jobs = Vec::new();
    for documents in batches {
        let request = v1::RunExtractionsRequest {
            document_ids: documents.to_vec(),
            prompt_revid: prompt.to_owned(),
            ..Default::default()
        };
        let created = client.extractions.clone().run_extractions(request).await?.into_inner();
        jobs.push(created.job.context("no job")?.job_id);
    }
    let (mut first, mut last) = (i128::MAX, i128::MIN);
    for job in &jobs {
        let (created, ended) = times(&ended(client, job, || Ok(())).await?)?;
        (first, last) = (first.min(created), last.max(ended));
    }
    Ok(Duration::from_nanos(u64::try_from(last - first)?))
}

/// Waits for the end of a job, all of whose items must be done. Calls `observe` each time before it reads the job.
pub(crate) async fn ended(client: &Client, job: &str, mut observe: impl FnMut() -> Result<()>) -> Result<v1::Job> {
    let ended = async {
        loop {
            observe()?;
            let request = v1::GetJobRequest { job_id: job.to_owned() };
            let found = client.jobs.clone().get_job(request).await?.into_inner().job.context("no job")?;
            if found.end_time.is_some() {
                return anyhow::Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let ended = tokio::time::timeout(LIMIT, ended).await.context("the job did not end in time")??;
    ensure!(ended.done_items == ended.total_items, "items of the job failed: {:?} {:?}", ended.state(), ended.error);
    Ok(ended)
}

/// Returns the time from the creation of a job to its end.
pub(crate) fn time_of(job: &v1::Job) -> Result<Duration> {
    let (created, ended) = times(job)?;
    Ok(Duration::from_nanos(u64::try_from(ended - created)?))
}

/// Returns the times of the creation and of the end of a job.
fn times(job: &v1::Job) -> Result<(i128, i128)> {
    let created = nanoseconds(job.create_time.as_ref()).context("no time of creation")?;
    Ok((created, nanoseconds(job.end_time.as_ref()).context("no end")?))
}

/// Returns a time in nanoseconds since the epoch. None: the time is unset.
fn nanoseconds(time: Option<&prost_types::Timestamp>) -> Option<i128> {
    time.map(|time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos))
}
