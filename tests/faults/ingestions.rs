//! An ingestion under random faults: jobs make the passages of many documents with links among them, while processes and stores
//! fail and documents are deleted; then an organization is deleted. Each document must have one live generation of passages, which
//! is complete and in the index, each model call one charge, and nothing of a deleted document or organization may remain.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use folio_index::{EmbeddedIndex, EmbeddedOptions, IndexState, ListedDocument, PassageIndex as _};
use folio_proto::v1;
use folio_storage::Stores;
use folio_types::{DocumentId, OrgId};
use llm_sim::{Fault, FaultPlan};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::batch::{ENDED_WITHIN, ENDED_WITHIN_PER_DOCUMENT, MODEL_TIME, model_millis, upload, wrong_end};
use super::checker::check;
use super::incidents::Incidents;
use super::injection::{JOB_STEPS, PAGE_STEPS};
use super::leftovers::leftovers;
use super::log::Log;
use super::passages;
use super::refusals::Refusals;
use super::run::{create_granter, create_job_user, setup};
use super::servers::Servers;
use super::settle::{TimeLimits, gather};
use super::simulated_user::SimulatedUser;
use super::tables::Tables;
use crate::harness::cluster::{Cluster, Setup};
use crate::harness::ingestion::AGENT_RULES;
use crate::harness::tenant::Tenant;

/// The embedding model of both organizations, and the one that the first organization may choose after its ingestion.
const EMBEDDING_MODEL: &str = "vectors";
const NEXT_MODEL: &str = "successor";
/// Failpoints of an ingestion for `NodeKilledAtStep`, the last two of the groups of agents.
const INGESTION_STEPS: &[&str] = &["passages:before", "passages:after", "index:after", "group:after", "child:after"];
/// Model calls of a document one after another: two sections, the document, and the vectors.
const CALLS_PER_DOCUMENT: u64 = 4;
/// Credit for each document, several times the price of its model calls: the job does not wait for credit.
const CREDITS_PER_DOCUMENT: u64 = 200;
/// One of this number of documents is deleted, half of them during the job.
const DELETED_EVERY: usize = 5;
/// One of this number of documents is ingested by agents. None of them is deleted.
const AGENTIC_EVERY: usize = 10;
/// Number of documents of which agents ingest one at least. Faults of the stores may end the runs of all of a few documents.
const AGENTIC_MIN: usize = 10;
/// Documents of the second organization, which is deleted.
const NEIGHBOUR_DOCUMENTS: usize = 4;
/// Time until nothing of the deleted data remains, and until the index is complete.
const CLEAN_WITHIN: Duration = Duration::from_secs(180);
/// Maximum time for which faults continue while passages receive vectors of another model.
const EMBEDDED_WITHIN: Duration = Duration::from_secs(120);
/// Time in which several sweeps compare the index with the stores.
const SWEEPS: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Documents of one read of an index.
const LISTED: usize = 1_000;

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub documents: usize,
    /// Minimum number of faults. Faults continue until the jobs have ended.
    pub faults: usize,
    /// Number of CQL servers: 1 or 3.
    pub cql_nodes: usize,
    /// True: the organization chooses another embedding model after the ingestion, so that all passages are embedded again.
    pub changes_model: bool,
}

#[derive(Debug)]
pub struct IngestionReport {
    pub documents: usize,
    pub faults: usize,
    /// Violations of invariants, passages or index entries other than one live generation, and data of deleted documents.
    pub violations: Vec<String>,
    /// Other failures: failed items, processes that died unexpectedly.
    pub failures: Vec<String>,
}

/// The documents of the first organization, in the order of their links: each refers to the next one.
struct Documents {
    all: Vec<String>,
    deleted: BTreeSet<String>,
    /// Documents that agents ingest.
    agentic: Vec<String>,
}

impl Documents {
    fn new(all: Vec<String>) -> Self {
        let deleted = all.iter().skip(DELETED_EVERY - 1).step_by(DELETED_EVERY).cloned().collect();
        let agentic = all.iter().step_by(AGENTIC_EVERY).cloned().collect();
        Self { all, deleted, agentic }
    }

    /// Returns the documents that code ingests, with summaries by a model.
    fn fast(&self) -> Vec<String> {
        self.all.iter().filter(|id| !self.agentic.contains(*id)).cloned().collect()
    }

    fn live(&self) -> Vec<String> {
        self.all.iter().filter(|id| !self.deleted.contains(*id)).cloned().collect()
    }

    /// Returns each live document with the one to which it refers.
    fn links(&self) -> impl Iterator<Item = (&String, &String)> {
        let next = self.all.iter().cycle().skip(1);
        self.all.iter().zip(next).filter(|(id, _)| !self.deleted.contains(*id))
    }
}

/// Runs the ingestion on three nodes until it has ended, and checks the result.
pub async fn run(plan: Plan) -> Result<IngestionReport> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let mut cluster = with_index(setup(servers.redis.port(), servers.cql.addresses(), nodes)).start().await;
    cluster.sim.set_script(&format!("rules:{AGENT_RULES}")).await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let (log, refusals) = (Log::default(), Refusals::default());
    let platform = Tenant::platform(cluster.stores()).await;
    let mut granter = create_granter(&cluster, platform, &log, &refusals, &mut random);
    let mut users = Vec::new();
    for (number, tenant) in cluster.tenants.iter().enumerate() {
        granter.grant_permanently(&tenant.org, CREDITS_PER_DOCUMENT * u64::try_from(plan.documents)?).await?;
        let mut user = create_job_user(&cluster, number, &log, &refusals, &mut random);
        user.choose_embedding_model(EMBEDDING_MODEL).await?;
        users.push(user);
    }
    let mut uploaded = Vec::new();
    for (number, count) in [plan.documents, NEIGHBOUR_DOCUMENTS].into_iter().enumerate() {
        let files = files(&cluster.tenants[number].marker, count);
        uploaded.push(upload(&cluster, number, files, (&log, &refusals), &mut random).await?);
    }
    let [mut user, mut neighbour] = <[SimulatedUser; 2]>::try_from(users).ok().context("two users")?;
    let [all, others] = <[Vec<String>; 2]>::try_from(uploaded).ok().context("the documents of two users")?;
    let documents = Documents::new(all);
    let slow = Fault::SlowStart { ms: model_millis(plan.documents) / CALLS_PER_DOCUMENT };
    cluster.sim.set_faults(&FaultPlan::always(slow)).await;

    let begun = Instant::now();
    let name = |tenant: &Tenant| format!("{} ingestion", tenant.marker);
    let fast = documents.fast();
    let job = user.start_ingestion(&fast, v1::IngestionMode::Fast, &name(&cluster.tenants[0])).await?;
    let other_job = neighbour.start_ingestion(&others, v1::IngestionMode::Fast, &name(&cluster.tenants[1])).await?;
    let mut agents = create_job_user(&cluster, 0, &log, &refusals, &mut random);
    let agentic = documents.agentic.clone();
    let agentic_job = agents.start_ingestion(&agentic, v1::IngestionMode::Agentic, "agentic ingestion").await?;
    let mut deleter = create_job_user(&cluster, 0, &log, &refusals, &mut random);
    let mut deleted: Vec<String> = documents.deleted.iter().cloned().collect();
    let late = deleted.split_off(deleted.len().div_ceil(2));
    let model = if plan.changes_model { NEXT_MODEL } else { EMBEDDING_MODEL };
    let (stores, org) = (cluster.stores().clone(), cluster.tenants[0].org.clone());
    let work = tokio::spawn(async move {
        let early = async {
            let pause = MODEL_TIME / u32::try_from(deleted.len() + 1).expect("a small number");
            for document in &deleted {
                // The deletions occur at different times of the job.
                tokio::time::sleep(pause).await;
                deleter.delete_document(document).await;
            }
        };
        let by_agents = async {
            let ended = agents.wait_for_job(&agentic_job).await;
            // A run that a fault has ended is not repeated, except by another ingestion.
            let repeated = match ended.failed_items {
                0 => None,
                _ => {
                    let started = agents.start_ingestion(&agentic, v1::IngestionMode::Fast, "repeated ingestion").await;
                    Some(agents.wait_for_job(&started.expect("the ingestion is accepted")).await)
                }
            };
            (ended, repeated)
        };
        let ended = tokio::join!(user.wait_for_job(&job), neighbour.wait_for_job(&other_job), by_agents, early);
        let time = begun.elapsed();
        for document in &late {
            deleter.delete_document(document).await;
        }
        if model != EMBEDDING_MODEL {
            user.choose_embedding_model(model).await.expect("the model is accepted");
            wait_for_model(&stores, &org, model).await;
        }
        (ended.0, ended.1, ended.2, time, user)
    });
    let time_limit = ENDED_WITHIN + ENDED_WITHIN_PER_DOCUMENT * u32::try_from(plan.documents)?;
    let failpoints = [JOB_STEPS, PAGE_STEPS, INGESTION_STEPS].concat();
    let mut incidents = Incidents::new(StdRng::seed_from_u64(random.random()), cluster.nodes.len(), failpoints);
    while incidents.faults < plan.faults || !work.is_finished() {
        ensure!(incidents.elapsed() < time_limit, "the ingestion did not end within {time_limit:?}");
        incidents.inject_next(&mut cluster, &mut servers, &refusals).await?;
    }
    let (ended, other_ended, (by_agents, repeated), time, mut user) = work.await?;
    println!(
        "the ingestion ended after {:.1} s: {} done, {} failed; {} documents are deleted",
        time.as_secs_f64(),
        ended.done_items,
        ended.failed_items,
        documents.deleted.len()
    );
    println!("by agents: {} done, {} failed", by_agents.done_items, by_agents.failed_items);
    let evidence = gather(&cluster, &tables, &log, TimeLimits::AFTER_FAULTS).await?;
    println!("idle; errors: {:?}", refusals.all());
    let mut failures: Vec<String> = incidents.failure().into_iter().collect();
    failures.extend(wrong_end(&ended, fast.len()));
    failures.extend(wrong_end(&other_ended, others.len()));
    failures.extend(repeated.and_then(|repeated| wrong_end(&repeated, documents.agentic.len())));
    failures.extend(wrong_runs(&by_agents, documents.agentic.len()));
    let mut violations: Vec<String> = check(&evidence).iter().map(ToString::to_string).collect();
    granter.delete_organization(&cluster.tenants[1]).await?;
    violations.extend(remaining(&cluster, &tables, &documents).await?);
    violations.extend(wrong_links(&cluster, &documents).await?);
    violations.extend(wrong_passages(&mut cluster, &tables, (&documents, model), &mut user).await?);
    failures.extend(refusals.faults());
    Ok(IngestionReport { documents: documents.all.len(), faults: incidents.faults, violations, failures })
}

/// Adds two embedding models and indexes that survive a restart of their node, and makes the sweeps of deletions and indexes frequent.
fn with_index(setup: Setup) -> Setup {
    let setup = setup
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__VECTORS__KIND", "embedding")
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__VECTORS__INPUT_PRICE", "1000000")
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SUCCESSOR__KIND", "embedding")
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SUCCESSOR__INPUT_PRICE", "1000000")
        .with("FOLIO_INDEX__SWEEP_INTERVAL_SECONDS", 1)
        .with("FOLIO_CLEANUP__INTERVAL_SECONDS", 1);
    Setup { keeps_indexes: true, ..setup }
}

fn file_name(marker: &str, number: usize) -> String {
    format!("{marker}-report-{number}.md")
}

/// Returns files with different texts of two long sections, each with a link to the next one.
fn files(marker: &str, count: usize) -> Vec<(String, String)> {
    let file = |number: usize| {
        let sentence = |word: &str| format!("The {word} {number} of {marker} is described here with many words. ");
        let next = file_name(marker, (number + 1) % count);
        let text = format!(
            "# Pumps\n\n{}\n\n# Valves\n\n{}\n\n# Links\n\nSee the [next report]({next}).\n",
            sentence("pump").repeat(15),
            sentence("valve").repeat(15)
        );
        (file_name(marker, number), text)
    };
    (0..count).map(file).collect()
}

/// Returns the problem of a job that ingests documents by agents. An item fails if a fault ends the run of its agents.
fn wrong_runs(ended: &v1::Job, items: usize) -> Option<String> {
    let (state, done, failed) = (ended.state().as_str_name(), ended.done_items, ended.failed_items);
    let is_ended = ended.state() == v1::JobState::Completed && usize::try_from(done + failed) == Ok(items);
    let has_result = items < AGENTIC_MIN || done > 0;
    let problem = || format!("the job of {items} runs of agents ended as {state}: {done} done, {failed} failed");
    (!(is_ended && has_result)).then(problem)
}

/// Returns the links of live documents that do not lead to exactly the document that they name, or that lead to a deleted one.
async fn wrong_links(cluster: &Cluster, documents: &Documents) -> Result<Vec<String>> {
    let (links, org) = (cluster.stores().links(), &cluster.tenants[0].org);
    let mut wrong = Vec::new();
    for (from, to) in documents.links() {
        let mut found = BTreeSet::new();
        for link in links.links(org, &from.parse()?).await? {
            let matched = links.find(org, &link.keys).await?;
            found.extend(matched.into_iter().flat_map(|matched| matched.documents));
        }
        let expected: BTreeSet<DocumentId> = match documents.deleted.contains(to) {
            true => BTreeSet::new(),
            false => BTreeSet::from([to.parse()?]),
        };
        if found != expected {
            wrong.push(format!("the links of {from} lead to {found:?}; expected {expected:?}"));
        }
    }
    Ok(wrong)
}

/// Returns what remains of the deleted documents and of the deleted organization after [`CLEAN_WITHIN`], or as soon as nothing
/// remains.
async fn remaining(cluster: &Cluster, tables: &Tables, documents: &Documents) -> Result<Vec<String>> {
    let deleted: Vec<String> = documents.deleted.iter().cloned().collect();
    let (begun, blobs) = (Instant::now(), cluster.folder().join("blobs"));
    loop {
        let found = leftovers(tables, &cluster.keyspace, &blobs, (&deleted, &cluster.tenants[1].org)).await;
        // A busy server may exceed its time limit for the read of a whole table.
        let left = found.unwrap_or_else(|error| vec![format!("unknown, because a read failed: {error:#}")]);
        if left.is_empty() || begun.elapsed() > CLEAN_WITHIN {
            println!("the clean-up was observed for {:.1} s", begun.elapsed().as_secs_f64());
            return Ok(left.into_iter().map(|left| format!("remains after a deletion: {left}")).collect());
        }
        // No event signals that the clean-up has ended.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until searches use a model, or until [`EMBEDDED_WITHIN`] has passed. The checks after the faults find a model that no search
/// uses.
async fn wait_for_model(stores: &Stores, org: &OrgId, model: &str) {
    let begun = Instant::now();
    while begun.elapsed() < EMBEDDED_WITHIN && !is_serving(stores, org, model).await.unwrap_or(false) {
        // No event signals that all passages have vectors of the model.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns true if searches of an organization use a model.
async fn is_serving(stores: &Stores, org: &OrgId, model: &str) -> Result<bool> {
    let serving = stores.passages().serving_space(org).await?;
    Ok(serving.is_some_and(|serving| serving.model == model))
}

/// Waits until the index is complete, kills all nodes, and compares the stores with the index of each node.
async fn wrong_passages(
    cluster: &mut Cluster,
    tables: &Tables,
    (documents, model): (&Documents, &str),
    user: &mut SimulatedUser,
) -> Result<Vec<String>> {
    let (org, erased) = (cluster.tenants[0].org.clone(), cluster.tenants[1].org.clone());
    let (begun, mut before) = (Instant::now(), None);
    // On a busy machine a node may count as dead for a while, so that its index moves during the sweeps.
    let holder = loop {
        match complete_index(cluster, (&org, &erased), model, user).await {
            Ok(holder) if before == Some(holder) => break holder,
            Ok(holder) => {
                before = Some(holder);
                // The sweeps work during the sleep.
                tokio::time::sleep(SWEEPS).await;
            }
            Err(problem) if begun.elapsed() > CLEAN_WITHIN => return Ok(vec![format!("{problem:#}")]),
            Err(_) => {
                before = None;
                // No event signals that an index is complete.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    };
    println!("the index is complete after {:.1} s", begun.elapsed().as_secs_f64());
    // The nodes end at once, so that no index moves to another node.
    cluster.nodes.iter_mut().for_each(|node| node.kill());
    let mut wrong = Vec::new();
    let mut indexed = None;
    for number in 0..cluster.nodes.len() {
        let (organizations, listed) = read_index(cluster.index_folder(number), &org).await?;
        if number == holder {
            indexed = listed;
        }
        let expected: &[OrgId] = if number == holder { std::slice::from_ref(&org) } else { &[] };
        if organizations != expected {
            wrong.push(format!("the node {number} has indexes of {organizations:?}; expected {expected:?}"));
        }
    }
    let stored = passages::observed(&tables.org_rows().await?, &org)?;
    match indexed {
        Some(indexed) => wrong.extend(passages::check(&documents.live(), &stored, &indexed, model)),
        None => wrong.push("no node has a complete index".to_owned()),
    }
    Ok(wrong)
}

/// Returns the number of the node that has the complete index. Error: the index is not complete, a node has the index of another
/// organization, or a store did not answer.
async fn complete_index(
    cluster: &Cluster,
    (org, erased): (&OrgId, &OrgId),
    model: &str,
    user: &mut SimulatedUser,
) -> Result<usize> {
    let is_serving = is_serving(cluster.stores(), org, model).await?;
    ensure!(is_serving, "searches do not use the embedding model {model}");
    let holder = holder(cluster, org).await?;
    let holder = holder.with_context(|| format!("no node is recorded with a complete index of {org}"))?;
    for number in 0..cluster.nodes.len() {
        let folder = cluster.index_folder(number);
        for other in [org, erased] {
            let is_foreign = other == erased || number != holder;
            ensure!(!is_foreign || !folder.join(other.as_str()).exists(), "the node {number} has an index of {other}");
        }
    }
    let answer = user.search("pump").await?;
    let is_complete =
        |part: &Option<v1::SearchPart>| part.as_ref().is_some_and(|part| part.used && part.gaps.is_empty());
    let is_ready = is_complete(&answer.lexical) && is_complete(&answer.dense);
    if is_ready && answer.stale_passages == 0 && !answer.passages.is_empty() {
        return Ok(holder);
    }
    let v1::SearchResponse { lexical, dense, stale_passages, passages, .. } = answer;
    let found = passages.len();
    bail!("a search found {found} passages, {stale_passages} stale ones; gaps: {lexical:?} {dense:?}")
}

/// Returns the number of the node that has the complete index of an organization.
async fn holder(cluster: &Cluster, org: &OrgId) -> Result<Option<usize>> {
    let holder = cluster.stores().index_holders().holder(org).await?.filter(|holder| holder.is_complete);
    let number = |address: &str| cluster.nodes.iter().position(|node| node.listener_proxy.address() == address);
    Ok(holder.and_then(|holder| number(&holder.address)))
}

/// Returns the organizations in the folder of an index, and the indexed documents of one of them. None: its index is not ready.
async fn read_index(folder: PathBuf, org: &OrgId) -> Result<(Vec<OrgId>, Option<Vec<ListedDocument>>)> {
    let index = EmbeddedIndex::open(folder, EmbeddedOptions::default())?;
    let organizations = index.organizations().await?;
    if index.state(org).await? != IndexState::Ready {
        return Ok((organizations, None));
    }
    let mut listed: Vec<ListedDocument> = Vec::new();
    loop {
        let after = listed.last().map(|last| last.document.clone());
        let page = index.documents(org, after.as_ref(), LISTED).await?;
        if page.is_empty() {
            return Ok((organizations, Some(listed)));
        }
        listed.extend(page);
    }
}

impl IngestionReport {
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.failures.is_empty()
    }
}

impl fmt::Display for IngestionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { documents, faults, violations, failures } = self;
        for problem in violations.iter().chain(failures) {
            writeln!(f, "{problem}")?;
        }
        let count = violations.len() + failures.len();
        write!(f, "documents {documents}, faults {faults}, violations {count}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_live_document_refers_to_the_next_one() {
        let all: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        let documents = Documents::new(all);
        assert_eq!(documents.deleted, BTreeSet::from(["4".to_owned(), "9".to_owned()]));
        assert_eq!(documents.live().len(), 8);
        assert_eq!((documents.agentic.as_slice(), documents.fast().len()), (["0".to_owned()].as_slice(), 9));
        let links: Vec<_> = documents.links().map(|(from, to)| format!("{from}{to}")).collect();
        assert_eq!(links, ["01", "12", "23", "34", "56", "67", "78", "89"]);
        let files = files("alpha", 3);
        assert_eq!(files[2].0, "alpha-report-2.md");
        assert!(files[2].1.contains("](alpha-report-0.md)") && files[1].1.contains("](alpha-report-2.md)"));
    }

    #[test]
    fn a_report_counts_violations_and_failures() {
        let report = |violations: &[&str]| IngestionReport {
            documents: 20,
            faults: 3,
            violations: violations.iter().map(|text| (*text).to_owned()).collect(),
            failures: Vec::new(),
        };
        assert_eq!([report(&[]).is_clean(), report(&["a"]).is_clean()], [true, false]);
        assert_eq!(report(&[]).to_string(), "documents 20, faults 3, violations 0");
        assert_eq!(report(&["a"]).to_string(), "a\ndocuments 20, faults 3, violations 1");
    }
}
