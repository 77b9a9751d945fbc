//! A batch under random faults: a job extracts the data of many documents, or jobs fill their rows in a stack, while processes and
//! stores fail. Each document must have exactly one result: an extraction, or a row whose cells were set once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use llm_sim::{Fault, FaultPlan};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::task::JoinSet;

use super::checker::{Evidence, ObservedAggregate, Violation, check};
use super::incidents::Incidents;
use super::injection::{JOB_STEPS, PAGE_STEPS};
use super::log::Log;
use super::refusals::Refusals;
use super::run::{create_granter, create_job_user, setup};
use super::servers::Servers;
use super::settle::{TimeLimits, gather};
use super::stack_user::{COLUMNS, Table};
use super::tables::Tables;
use crate::harness::cluster::Cluster;
use crate::harness::settings::INVOICE;
use crate::harness::tenant::Tenant;

/// Clients that upload concurrently.
const UPLOADERS: usize = 8;
/// Name of the batch, which starts with the marker of its tenant.
const NAME: &str = "alpha batch";
/// Credit for each document, several times the price of its model calls: the batch does not wait for credit.
const CREDITS_PER_DOCUMENT: u64 = 100;
/// Minimum time that the model calls of the batch take, so that faults occur meanwhile. A job runs this number of items at a time.
pub(super) const MODEL_TIME: Duration = Duration::from_secs(10);
const ITEMS_AT_ONCE: usize = 4;
/// Model calls of the turn that fills a row.
const CALLS_PER_ROW: usize = 3;
/// One of this number of documents is added to the stack when the rows of the others are filled.
const ADDED_SHARE: usize = 10;
/// Maximum time of the batch, and the time for each document in addition.
pub(super) const ENDED_WITHIN: Duration = Duration::from_secs(10 * 60);
pub(super) const ENDED_WITHIN_PER_DOCUMENT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub documents: usize,
    /// Minimum number of faults. Faults continue until the batch has ended.
    pub faults: usize,
    /// Number of CQL servers: 1 or 3.
    pub cql_nodes: usize,
    /// True: jobs fill the rows of a stack. False: a job runs a prompt.
    pub is_stack: bool,
}

/// The results of a batch.
enum Results {
    /// Extractions by this prompt revision.
    Extractions(String),
    /// Rows of this stack.
    Rows(String),
}

impl Results {
    /// Returns the number of model calls that a result needs.
    fn model_calls(&self) -> usize {
        match self {
            Self::Extractions(_) => 1,
            Self::Rows(_) => CALLS_PER_ROW,
        }
    }
}

#[derive(Debug)]
pub struct BatchReport {
    pub is_stack: bool,
    pub documents: usize,
    /// Number of documents that have exactly one result.
    pub results: usize,
    pub faults: usize,
    /// Time from the start of the job to its end.
    pub time: Duration,
    pub violations: Vec<Violation>,
    /// Other failures: failed items, processes that died unexpectedly.
    pub failures: Vec<String>,
}

/// Runs the batch on three nodes until it has ended, and checks the result.
pub async fn run(plan: Plan) -> Result<BatchReport> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let mut cluster = setup(servers.redis.port(), servers.cql.addresses(), nodes).start().await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let (log, refusals) = (Log::default(), Refusals::default());
    let platform = Tenant::platform(cluster.stores()).await;
    let mut granter = create_granter(&cluster, platform, &log, &refusals, &mut random);
    let credits = CREDITS_PER_DOCUMENT * u64::try_from(plan.documents)?;
    granter.grant_permanently(&cluster.tenants[0].org, credits).await?;
    let file = |number| (format!("{NAME} {number}.txt"), INVOICE.to_owned());
    let files = (0..plan.documents).map(file).collect();
    let documents = upload(&cluster, 0, files, (&log, &refusals), &mut random).await?;
    let mut user = create_job_user(&cluster, 0, &log, &refusals, &mut random);
    let added = if plan.is_stack { documents.len().div_ceil(ADDED_SHARE) } else { 0 };
    let (first, added) = documents.split_at(documents.len() - added);
    let expected = match plan.is_stack {
        true => Results::Rows(user.create_stack(NAME, first).await.context("the stack was refused")?),
        false => {
            let prompts = user.create_prompts(NAME).await.context("a prompt was refused")?;
            Results::Extractions(prompts.plain.prompt_revid)
        }
    };
    let slow = Fault::SlowStart { ms: model_millis(documents.len() * expected.model_calls()) };
    cluster.sim.set_faults(&FaultPlan::always(slow)).await;
    let begun = Instant::now();
    let work: BoxFuture<'static, Option<v1::Job>> = match &expected {
        Results::Extractions(prompt) => {
            let job = user.run_batch(prompt, &documents, NAME).await.context("the batch was refused")?;
            async move { Some(user.wait_for_job(&job).await) }.boxed()
        }
        Results::Rows(stack) => {
            let (stack, name) = (stack.clone(), NAME.to_owned());
            let table = Table { stack, name, credits_per_row: CREDITS_PER_DOCUMENT };
            let (rows, added) = (u64::try_from(first.len())?, added.to_vec());
            async move { user.fill_table(&table, rows, &added).await }.boxed()
        }
    };
    let batch = tokio::spawn(async move { (work.await, begun.elapsed()) });
    let time_limit = ENDED_WITHIN + ENDED_WITHIN_PER_DOCUMENT * u32::try_from(plan.documents)?;
    let failpoints = [JOB_STEPS, PAGE_STEPS].concat();
    let mut incidents = Incidents::new(StdRng::seed_from_u64(random.random()), cluster.nodes.len(), failpoints);
    while incidents.faults < plan.faults || !batch.is_finished() {
        ensure!(incidents.elapsed() < time_limit, "the batch did not end within {time_limit:?}");
        incidents.inject_next(&mut cluster, &mut servers, &refusals).await?;
    }
    let (ended, time) = batch.await?;
    let ended = ended.context("the first job was refused")?;
    println!(
        "the batch ended after {:.1} s: {} done, {} failed",
        time.as_secs_f64(),
        ended.done_items,
        ended.failed_items
    );
    let evidence = gather(&cluster, &tables, &log, TimeLimits::AFTER_FAULTS).await?;
    println!("idle; errors: {:?}", refusals.all());
    let mut failures = refusals.faults();
    failures.extend(incidents.failure());
    // The last job of a stack has the rows that the job before has left.
    let items = if plan.is_stack { usize::try_from(ended.total_items)? } else { documents.len() };
    failures.extend(wrong_end(&ended, items));
    let wrong = without_one_result(&documents, &expected, &evidence);
    let results = documents.len() - wrong.len();
    failures.extend(wrong.iter().map(|(id, count)| format!("{id} has {count} results of the batch")));
    let violations = check(&evidence);
    let (is_stack, documents, faults) = (plan.is_stack, documents.len(), incidents.faults);
    Ok(BatchReport { is_stack, documents, results, faults, time, violations, failures })
}

/// Returns the difference between the end of a job and one in which the item of each document is done. None: no difference.
pub(super) fn wrong_end(ended: &v1::Job, items: usize) -> Option<String> {
    let is_done = ended.state() == v1::JobState::Completed && usize::try_from(ended.done_items) == Ok(items);
    let (state, done) = (ended.state().as_str_name(), ended.done_items);
    (!is_done).then(|| format!("the job of {items} items ended as {state} with {done} done items"))
}

/// Returns the latency of a model call in milliseconds.
pub(super) fn model_millis(calls: usize) -> u64 {
    let rounds = u64::try_from(calls.div_ceil(ITEMS_AT_ONCE).max(1)).expect("a small number");
    u64::try_from(MODEL_TIME.as_millis()).expect("a few seconds") / rounds
}

/// Uploads files, each with a name and a text, with several clients of a tenant. Returns the ids of their documents in order.
pub(super) async fn upload(
    cluster: &Cluster,
    tenant: usize,
    files: Vec<(String, String)>,
    (log, refusals): (&Log, &Refusals),
    random: &mut StdRng,
) -> Result<Vec<String>> {
    let (files, mut uploaders) = (Arc::new(files), JoinSet::new());
    for first in 0..UPLOADERS {
        let mut user = create_job_user(cluster, tenant, log, refusals, random);
        let files = Arc::clone(&files);
        uploaders.spawn(async move {
            let mut uploaded = Vec::new();
            for (number, (name, text)) in files.iter().enumerate().skip(first).step_by(UPLOADERS) {
                let id = user.upload(name, text, false).await;
                uploaded.push((number, id.with_context(|| format!("document {number} cannot be read"))?));
            }
            anyhow::Ok(uploaded)
        });
    }
    let uploaded: Result<Vec<_>> = uploaders.join_all().await.into_iter().collect();
    Ok(uploaded?.into_iter().flatten().collect::<BTreeMap<usize, String>>().into_values().collect())
}

/// Returns the documents that do not have exactly one result, with the number of their results. A row that was written more than
/// once, so that a cell may have been set twice, and a row without a cell of each column are no results.
fn without_one_result(documents: &[String], expected: &Results, evidence: &Evidence) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = documents.iter().map(|id| (id.clone(), 0)).collect();
    let is_result = |one: &ObservedAggregate| match expected {
        Results::Extractions(prompt) => one.id.starts_with("ext_") && one.live["prompt"] == **prompt,
        Results::Rows(stack) => {
            let cells = one.live["cells"].as_object().map_or(0, serde_json::Map::len);
            let is_filled = one.live["version"] == 1 && cells == COLUMNS.len();
            one.id.starts_with("srw_") && one.live["stack"] == **stack && is_filled
        }
    };
    for one in evidence.aggregates.iter().filter(|one| is_result(one)) {
        if let Some(count) = one.live["document"].as_str().and_then(|id| counts.get_mut(id)) {
            *count += 1;
        }
    }
    counts.retain(|_, count| *count != 1);
    counts
}

impl BatchReport {
    pub fn is_clean(&self) -> bool {
        self.results == self.documents && self.violations.is_empty() && self.failures.is_empty()
    }
}

impl fmt::Display for BatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        let Self { documents, results, faults, .. } = self;
        let name = if self.is_stack { "rows" } else { "results" };
        let violations = self.violations.len() + self.failures.len();
        write!(f, "documents {documents}, {name} {results}, faults {faults}, violations {violations}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_document_without_a_result_and_one_with_two_are_found() {
        let extraction = |number: usize, document: &str, prompt: &str| ObservedAggregate {
            id: format!("ext_{number}"),
            live: json!({ "document": document, "prompt": prompt }),
            ..ObservedAggregate::default()
        };
        let deleted = ObservedAggregate { live: Value::Null, ..extraction(4, "", "") };
        let aggregates = vec![
            extraction(1, "one", "prompt"),
            extraction(2, "two", "prompt"),
            extraction(3, "two", "prompt"),
            extraction(5, "none", "other"),
            deleted,
        ];
        let evidence = Evidence { aggregates, ..Evidence::default() };
        let documents = ["none", "one", "two"].map(str::to_owned);
        let wrong = without_one_result(&documents, &Results::Extractions("prompt".to_owned()), &evidence);
        assert_eq!(wrong, BTreeMap::from([("none".to_owned(), 0), ("two".to_owned(), 2)]));
    }

    #[test]
    fn a_document_without_a_row_and_a_row_that_was_written_twice_or_lacks_a_cell_are_found() {
        let row = |document: &str, version: u64, cells: Value| ObservedAggregate {
            id: format!("srw_{document}"),
            live: json!({ "document": document, "stack": "stack", "version": version, "cells": cells }),
            ..ObservedAggregate::default()
        };
        let all = json!({ "1": { "value": 957 }, "2": { "value": "An invoice" } });
        let aggregates = vec![row("one", 1, all.clone()), row("twice", 2, all), row("part", 1, json!({ "1": {} }))];
        let evidence = Evidence { aggregates, ..Evidence::default() };
        let documents = ["none", "one", "twice", "part"].map(str::to_owned);
        let wrong = without_one_result(&documents, &Results::Rows("stack".to_owned()), &evidence);
        let expected = ["none", "part", "twice"].map(|document| (document.to_owned(), 0));
        assert_eq!(wrong, BTreeMap::from(expected));
    }

    #[test]
    fn a_job_without_a_result_for_each_item_is_found() {
        let ended = |state: v1::JobState, done_items| v1::Job { state: state.into(), done_items, ..Default::default() };
        assert_eq!(wrong_end(&ended(v1::JobState::Completed, 3), 3), None);
        for wrong in [ended(v1::JobState::Completed, 2), ended(v1::JobState::Failed, 3)] {
            assert!(wrong_end(&wrong, 3).is_some_and(|text| text.contains("3 items")), "{wrong:?}");
        }
    }

    #[test]
    fn few_model_calls_take_as_long_as_many() {
        assert_eq!([5, 20, 1_000].map(model_millis), [5_000, 2_000, 40]);
    }

    #[test]
    fn a_report_is_clean_only_if_each_document_has_a_result() {
        let report = |results| BatchReport {
            is_stack: false,
            documents: 2,
            results,
            faults: 1,
            time: Duration::ZERO,
            violations: Vec::new(),
            failures: Vec::new(),
        };
        assert_eq!([report(2).is_clean(), report(1).is_clean()], [true, false]);
        assert_eq!(report(1).to_string(), "documents 2, results 1, faults 1, violations 0");
        let of_stack = BatchReport { is_stack: true, ..report(2) };
        assert_eq!(of_stack.to_string(), "documents 2, rows 2, faults 1, violations 0");
    }
}
