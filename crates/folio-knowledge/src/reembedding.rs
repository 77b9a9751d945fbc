//! Vectors of the stored passages for another embedding model.
//!
//! A passage has vectors of at most two models. While passages are embedded with the chosen model, searches use the vectors of
//! the former one. When every passage has a vector of the chosen model, searches use it.

use async_trait::async_trait;
use folio_history::job::{JobFilter, JobHeader, JobQueue, REEMBEDDING_KIND, Steps};
use folio_jobs::{ItemTask, JobKind, wait_reason};
use folio_resources::Document;
use folio_storage::LISTED_HEADS_MAX;
use folio_storage::value::{PassageHead, ServingSpace};
use folio_types::page::PageRequest;
use folio_types::{DocumentId, Error, JobId, OrgId, Reason, Result, Role};
use serde_json::{Value, json};

use crate::index::{read_all, remove_deleted};
use crate::ingest::{JOB_WAIT, copied_generation, publish};
use crate::knowledge::Knowledge;
use crate::memory::needed_bytes;
use crate::rebuild::create_maintenance_job;
use crate::vectors::{Payer, Target, add_missing, common_space, targets};

/// Seconds within which a job with the same vector space is created once, so that not each sweep calls a failing model.
const REQUEST_SECONDS: i64 = 60 * 60;

/// Bytes of the text and the padding of a passage, before it was read.
const PASSAGE_BYTES: usize = 2 * 1024;
/// Number of documents of an item whose model calls fail, after which the item fails: the model is broken.
const FAILURES_MAX: usize = 10;

/// Returns the models whose vectors the passages of an organization receive.
async fn targets_of(knowledge: &Knowledge, org: &OrgId) -> Result<Vec<Target>> {
    let catalogue = knowledge.resources.models.catalogue(org).await?;
    Ok(targets(&catalogue, knowledge.serving_space(org).await?.as_ref()))
}

/// Computes the vectors that the passages of a document lack, as a new generation. A document that was changed meanwhile is
/// skipped.
async fn embed_document(
    knowledge: &Knowledge,
    live: &PassageHead,
    targets: &[Target],
    (org, key): (&OrgId, String),
) -> Result<()> {
    let Some(document) = knowledge.stores.of::<Document>().get(org, &live.document).await? else {
        return remove_deleted(knowledge, org, &live.document).await;
    };
    let texts = std::iter::repeat_n(PASSAGE_BYTES, usize::try_from(live.passages).unwrap_or(usize::MAX));
    let _memory = knowledge.memory.reserve(org, needed_bytes(texts, targets), JOB_WAIT).await?;
    let mut passages = read_all(knowledge, org, live).await?;
    if passages.len() != usize::try_from(live.passages).unwrap_or(usize::MAX) {
        return Ok(());
    }
    for passage in &mut passages {
        passage.vectors.retain(|vector| targets.iter().any(|target| target.space == vector.space));
    }
    let (user, id) = (document.created_by.clone(), document.id.clone());
    let payer = Payer { org: org.clone(), user, key, document: id };
    add_missing(&knowledge.resources, &payer, targets, &mut passages).await?;
    let environment = &*knowledge.resources.environment;
    let newest = knowledge.passages().newest_generation(org, &live.document).await?;
    let head = PassageHead {
        generation: copied_generation(environment, live.generation, newest),
        space: common_space(targets, &passages),
        created_at: environment.now(),
        ..live.clone()
    };
    match publish(knowledge, &document, head, passages, targets).await {
        // The change causes an ingestion, which computes the vectors.
        Err(error) if error.reason == Reason::VersionConflict => Ok(()),
        published => published.map(drop),
    }
}

/// Makes searches use the chosen embedding model if every passage has a vector of it. Returns true if searches use it, or if
/// there is none.
///
/// # Errors
/// Those of the stores and of the catalogue.
pub async fn update_serving_space(knowledge: &Knowledge, org: &OrgId) -> Result<bool> {
    let store = knowledge.passages();
    let Some(chosen) = chosen_model(knowledge, org).await? else { return Ok(true) };
    let serving = store.serving_space(org).await?;
    if serving.as_ref().is_some_and(|serving| serving.space == chosen.space) {
        return Ok(true);
    }
    let mut after: Option<DocumentId> = None;
    loop {
        let heads = store.heads(org, after.as_ref(), LISTED_HEADS_MAX).await?;
        if heads.iter().any(|head| lacks(head, &chosen)) {
            return Ok(false);
        }
        let Some(last) = heads.last() else { break };
        after = Some(last.document.clone());
    }
    let chosen = ServingSpace { model: chosen.model, space: chosen.space };
    let is_changed = store.set_serving_space(org, serving.as_ref(), &chosen).await?;
    if is_changed {
        tracing::info!(%org, model = %chosen.model, "searches use the chosen embedding model");
    }
    Ok(is_changed)
}

/// Returns true if the passages of a document lack vectors of a model.
pub(crate) fn lacks(head: &PassageHead, target: &Target) -> bool {
    head.passages > 0 && head.space.as_ref() != Some(&target.space)
}

/// Returns the embedding model that an organization has chosen.
pub(crate) async fn chosen_model(knowledge: &Knowledge, org: &OrgId) -> Result<Option<Target>> {
    Ok(targets_of(knowledge, org).await?.into_iter().next())
}

/// Creates the job that computes vectors of the chosen embedding model, unless one is open. An hour has one job for each model.
pub(crate) async fn request_reembedding(knowledge: &Knowledge, org: &OrgId, chosen: &Target) -> Result<()> {
    let kind = Some(REEMBEDDING_KIND.to_owned());
    let open = JobFilter { queue: JobQueue::Ingestions, is_open: Some(true), kind, ..JobFilter::default() };
    // An open job computes vectors of the model that is chosen when an item begins.
    if !knowledge.stores.jobs.list(org, &open, &PageRequest::default()).await?.items.is_empty() {
        return Ok(());
    }
    let items: Vec<String> =
        knowledge.passages().buckets(org).await?.into_iter().map(|bucket| format!("{bucket:02x}")).collect();
    let period = knowledge.resources.environment.now().as_second().div_euclid(REQUEST_SECONDS).to_string();
    let job = JobId::derive(&[org.as_str(), REEMBEDDING_KIND, &chosen.space, &period]);
    let input = json!({ "model": chosen.model });
    create_maintenance_job(knowledge, (REEMBEDDING_KIND, job), input, org, items).await
}

/// The jobs that compute vectors of another embedding model. An item is a bucket of heads.
#[derive(Debug)]
pub struct Reembeddings(pub Knowledge);

#[async_trait]
impl JobKind for Reembeddings {
    fn name(&self) -> &'static str {
        REEMBEDDING_KIND
    }

    fn role_min(&self) -> Role {
        Role::Admin
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let (knowledge, org) = (&self.0, &task.principal.org);
        let bucket = u8::from_str_radix(task.subject()?, 16)
            .map_err(|_| Error::internal("the item of a job is not the number of a bucket of passages"))?;
        let targets = targets_of(knowledge, org).await?;
        let Some(chosen) = targets.first() else {
            return Ok(json!({ "skipped": "the organization has no embedding model" }));
        };
        let heads = knowledge.passages().heads_in(org, bucket).await?;
        let total = u32::try_from(heads.len()).unwrap_or(u32::MAX);
        let (mut documents, mut failed) = (0_u32, Vec::new());
        for (done, live) in (1..).zip(&heads) {
            if lacks(live, chosen) {
                match embed_document(knowledge, live, &targets, (org, task.run.ledger_key(done))).await {
                    Ok(()) => documents = documents.saturating_add(1),
                    // The next ingestion of the document reports the error.
                    Err(error) if error.reason == Reason::TooLarge => {
                        tracing::warn!(%org, document = %live.document, %error, "a document is not embedded again");
                    }
                    Err(error) if wait_reason(&error).is_some() => return Err(error),
                    Err(error) if failed.len() >= FAILURES_MAX => return Err(error),
                    // A document whose vectors cannot be computed does not prevent those of the others in each attempt.
                    Err(error) => failed.push(error),
                }
            } else if task.run.attempt > 1 {
                // An earlier attempt may have ended between the new generation and the removal of the former one.
                knowledge.passages().remove_former(org, &live.document).await?;
            }
            task.steps.send_replace(Some(Steps { done, total }));
        }
        match failed.pop() {
            Some(error) => Err(error),
            None => Ok(json!({ "documents": documents })),
        }
    }

    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        if job.is_ended() {
            update_serving_space(&self.0, job.org()).await?;
        }
        Ok(())
    }
}
