//! Jobs that fill the rows of a stack, with a model that answers at once: rows per second, the time and the CPU of a row, and the
//! memory of the process. Measured in one process on the embedded store.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use folio_resources::STACK_ROWS_MAX;
use folio_tests::harness::client::Client;
use serde_json::{Value, json};

use crate::cluster::turns;
use crate::format::{Percentiles, kib, micros, row};
use crate::jobs;
use crate::process::{Folio, cpu, memory, start_model};

/// Rows of the table.
pub(crate) const ROWS: usize = 1_000;
/// Rows that jobs of one item fill one after another, and calls of the model alone.
const SINGLE_ROWS: usize = 50;
/// Model calls of a row.
const CALLS: u32 = 3;
/// Items of a job that run at a time: the default of `jobs.items_running_max`, and many.
const ITEMS_RUNNING: [u32; 2] = [4, 50];

const SCRIPT: &str = "
rules:
  - when: {user: {contains: Fill the missing cells}}
    rounds:
      - calls: [{name: get_table_state}]
      - calls:
          - name: extract_row
            arguments:
              document_id: '{{last.get_table_state.rows.0.document_id}}'
              cells: [{column: Total, value: 2, confidence: 0.9, citation: {page: 1, quote: 'Total: 2.00 EUR'}}]
      - text: Filled.
  - answer: {text: Filled.}
";

/// Measurements with a number of items that run at a time.
struct Measurements {
    rows_per_second: f64,
    /// CPU time of the process for a row.
    cpu: Duration,
    /// Resident memory of the process before the job, and its maximum during the job.
    memory: (u64, u64),
    /// Times of jobs of one row, from the creation to the end.
    single: Percentiles,
}

/// Fills a table with this number of rows.
pub(crate) async fn measure(rows: usize) -> Result<()> {
    ensure!((1..=STACK_ROWS_MAX).contains(&rows), "1 to {STACK_ROWS_MAX} rows are possible");
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), SCRIPT)?;
    let sim = endpoint.url();
    let model = turns::of_the_model(&sim, SINGLE_ROWS).await?.whole;
    let [few, many] = ITEMS_RUNNING;
    let (one, other) = (Measurements::of(&sim, rows, few).await?, Measurements::of(&sim, rows, many).await?);

    let title = format!("{rows} rows; a model call alone takes {} (p50), a row has {CALLS}", micros(model.p50));
    row(&title, &format!("{few} items"), &format!("{many} items"));
    let both = |what: &str, shown: fn(&Measurements) -> String| row(what, &shown(&one), &shown(&other));
    both("rows per second", |found| format!("{:.0}", found.rows_per_second));
    both("CPU of a row", |found| micros(found.cpu));
    both("memory before the job", |found| kib(found.memory.0 as f64));
    both("memory added during the job, maximum", |found| kib(added_memory(found) as f64));
    both("job of one row, p50", |found| micros(found.single.p50));
    both("job of one row, p99", |found| micros(found.single.p99));
    let added = |found: &Measurements| found.single.p50.saturating_sub(model.p50 * CALLS);
    row("  added to the model calls, p50", &micros(added(&one)), &micros(added(&other)));
    let report = |found: &Measurements| {
        json!({
            "rows_per_second": found.rows_per_second,
            "cpu_microseconds": found.cpu.as_micros() as u64,
            "memory_bytes": found.memory.0,
            "added_memory_bytes": added_memory(found),
            "job_p50_microseconds": found.single.p50.as_micros() as u64,
            "job_p99_microseconds": found.single.p99.as_micros() as u64,
            "added_p50_microseconds": added(found).as_micros() as u64,
        })
    };
    let output: Value = json!({
        "rows": rows,
        "model_p50_microseconds": model.p50.as_micros() as u64,
        "four_items": report(&one),
        "fifty_items": report(&other),
    });
    println!("{output}");
    Ok(())
}

fn added_memory(found: &Measurements) -> u64 {
    found.memory.1.saturating_sub(found.memory.0)
}

impl Measurements {
    async fn of(sim: &str, rows: usize, items: u32) -> Result<Self> {
        let items = items.to_string();
        let settings = [&jobs::LIMITS[..], &[("FOLIO_JOBS__ITEMS_RUNNING_MAX", items.as_str())]].concat();
        let folio = Folio::start(sim, &settings)?;
        let client = folio.client().await;
        let documents = jobs::upload_all(&client, rows).await?;
        let mut single = Vec::new();
        // The first jobs fill caches, too.
        for (number, document) in documents.iter().cycle().take(SINGLE_ROWS).enumerate() {
            let stack = create_stack(&client, &format!("row {number}"), std::slice::from_ref(document)).await?;
            single.push(fill(&folio, &client, &stack).await?.0);
        }
        let stack = create_stack(&client, "all", &documents).await?;
        let (cpu_before, memory_before) = (cpu(&folio.process)?, memory(&folio.process)?);
        let (time, memory_max) = fill(&folio, &client, &stack).await?;
        Ok(Self {
            rows_per_second: (rows as f64 / time.as_secs_f64()).round(),
            cpu: cpu(&folio.process)?.saturating_sub(cpu_before) / u32::try_from(rows)?,
            memory: (memory_before, memory_max),
            single: Percentiles::of(single),
        })
    }
}

/// Creates a stack with one column. Returns its id.
async fn create_stack(client: &Client, name: &str, documents: &[String]) -> Result<String> {
    let stack = v1::Stack { name: name.to_owned(), document_ids: documents.to_vec(), ..Default::default() };
    let request = v1::CreateStackRequest { stack: Some(stack), ..Default::default() };
    let stack = client.stacks.clone().create_stack(request).await?.into_inner().stack.context("no stack")?;
    let total =
        v1::StackColumn { name: "Total".into(), r#type: v1::StackColumnType::Number.into(), ..Default::default() };
    let request =
        v1::DefineStackColumnsRequest { stack_id: stack.stack_id.clone(), columns: vec![total], ..Default::default() };
    client.stacks.clone().define_stack_columns(request).await?;
    Ok(stack.stack_id)
}

/// Fills a stack. Returns the time of the job and the maximum memory of the process during the job.
async fn fill(folio: &Folio, client: &Client, stack: &str) -> Result<(Duration, u64)> {
    let request = v1::FillStackRequest { stack_id: stack.to_owned(), ..Default::default() };
    let job = client.stacks.clone().fill_stack(request).await?.into_inner().job.context("no job")?;
    let mut memory_max = 0;
    let ended = jobs::ended(client, &job.job_id, || {
        memory_max = memory_max.max(memory(&folio.process)?);
        Ok(())
    });
    let ended = ended.await?;
    Ok((jobs::time_of(&ended)?, memory_max))
}
