//! Builds the index of an organization from the stored passages.
//!
//! | step | after a crash |
//! |---|---|
//! | the index is emptied; its state is `Rebuilding` | the job is repeated from here |
//! | each stored generation is written to it | |
//! | the state becomes `Ready` | the repeated job finds a ready index and ends |
//!
//! Ingestions write to the index meanwhile. A generation is stored before it is written to the index, so that a rebuild that
//! began earlier or later contains it.

use async_trait::async_trait;
use folio_history::job::{INDEX_REBUILD_KIND, JobQueue, NewJob};
use folio_index::{IndexState, IndexedDocument};
use folio_jobs::{ItemTask, JobKind};
use folio_resources::Document;
use folio_storage::value::PassageHead;
use folio_storage::{create_job, hint_job};
use folio_types::{DocumentId, Error, JobId, OrgId, Principal, Reason, Result, Role, Timestamp, UserId};
use serde_json::{Value, json};

use crate::index::{indexed, read_all, remove_deleted, upsert};
use crate::knowledge::Knowledge;

/// Number of heads of one read.
const HEADS_AT_ONCE: usize = 100;
/// Maximum passages of several documents that are written to the index at a time. A larger document is written alone.
const PASSAGES_AT_ONCE: usize = 2_000;
/// Seconds within which the same job serves all requests to rebuild an index.
const REQUEST_SECONDS: i64 = 10;

/// Builds the index of an organization unless it is ready. Returns the number of documents that were written.
///
/// # Errors
/// Those of the stores and of the index. The state remains `Rebuilding`, so that the next call begins again.
pub async fn rebuild(knowledge: &Knowledge, org: &OrgId) -> Result<usize> {
    let _only = knowledge.rebuilding.lock().await;
    if knowledge.index.state(org).await? == IndexState::Ready {
        return Ok(0);
    }
    tracing::info!(%org, "the index of passages is rebuilt");
    knowledge.index.begin_rebuild(org).await?;
    let (store, mut written, mut after) = (knowledge.passages(), 0, None::<DocumentId>);
    loop {
        let heads = store.heads(org, after.as_ref(), HEADS_AT_ONCE).await?;
        let Some(last) = heads.last() else { break };
        after = Some(last.document.clone());
        written += index_stored(knowledge, org, &heads).await?;
    }
    knowledge.index.finish_rebuild(org).await?;
    tracing::info!(%org, documents = written, "the index of passages is complete");
    Ok(written)
}

/// Writes stored generations to the index. Generations of deleted documents, and those that were replaced meanwhile, are
/// skipped. Returns the number of written documents.
pub(crate) async fn index_stored(knowledge: &Knowledge, org: &OrgId, heads: &[PassageHead]) -> Result<usize> {
    let (mut written, mut passages) = (0, 0_usize);
    let (mut batch, mut documents): (Vec<&PassageHead>, Vec<IndexedDocument>) = (Vec::new(), Vec::new());
    for head in heads {
        let Some(document) = read_document(knowledge, org, head).await? else { continue };
        if passages.saturating_add(document.passages.len()) > PASSAGES_AT_ONCE && !batch.is_empty() {
            written += write(knowledge, org, &batch, std::mem::take(&mut documents)).await?;
            batch.clear();
            passages = 0;
        }
        passages = passages.saturating_add(document.passages.len());
        batch.push(head);
        documents.push(document);
    }
    if batch.is_empty() {
        return Ok(written);
    }
    Ok(written + write(knowledge, org, &batch, documents).await?)
}

/// Returns a stored generation as input of the index. None: the generation was replaced, or the document was deleted. Its passages
/// are removed then: a process may have stored them after the clean-up of the deletion, and died.
async fn read_document(knowledge: &Knowledge, org: &OrgId, head: &PassageHead) -> Result<Option<IndexedDocument>> {
    let Some(document) = knowledge.stores.of::<Document>().get(org, &head.document).await? else {
        return remove_deleted(knowledge, org, &head.document).await.map(|()| None);
    };
    let found = read_all(knowledge, org, head).await?;
    let is_complete = found.len() == usize::try_from(head.passages).unwrap_or(usize::MAX);
    Ok(is_complete.then(|| indexed(&document, head, found)))
}

/// Writes documents to the index. A batch that exceeds a bound of the index is written document by document, and a document that
/// exceeds it alone is skipped, so that it does not prevent the others. `heads`: the generations of the documents.
async fn write(
    knowledge: &Knowledge,
    org: &OrgId,
    heads: &[&PassageHead],
    documents: Vec<IndexedDocument>,
) -> Result<usize> {
    match upsert(knowledge, org, documents).await {
        Ok(()) => return Ok(heads.len()),
        Err(error) if !is_of_input(&error) => return Err(error),
        Err(_) => {}
    }
    let mut written = 0;
    for head in heads {
        let Some(document) = read_document(knowledge, org, head).await? else { continue };
        match upsert(knowledge, org, vec![document]).await {
            Ok(()) => written += 1,
            Err(error) if is_of_input(&error) => {
                let document = &head.document;
                tracing::warn!(%org, %document, %error, "a document exceeds a bound of the index and is not found");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

fn is_of_input(error: &Error) -> bool {
    matches!(error.reason, Reason::TooLarge | Reason::InvalidField)
}

/// Creates the job that rebuilds the index of an organization, and returns its id. Requests within some seconds share a job.
pub(crate) async fn request_rebuild(knowledge: &Knowledge, org: &OrgId) -> Result<JobId> {
    let job = rebuild_job(org, knowledge.resources.environment.now());
    let kind = (INDEX_REBUILD_KIND, job.clone());
    create_maintenance_job(knowledge, kind, json!({}), org, vec!["index".to_owned()]).await?;
    Ok(job)
}

/// Returns the id of the job that serves a request to rebuild an index at this time.
fn rebuild_job(org: &OrgId, at: Timestamp) -> JobId {
    let period = at.as_second().div_euclid(REQUEST_SECONDS).to_string();
    JobId::derive(&[org.as_str(), INDEX_REBUILD_KIND, &period])
}

/// Creates a job of the platform for an organization. A full queue is no error, because the next sweep creates the job.
pub(crate) async fn create_maintenance_job(
    knowledge: &Knowledge,
    (kind, id): (&str, JobId),
    input: Value,
    org: &OrgId,
    items: Vec<String>,
) -> Result<()> {
    let (stores, resources) = (&knowledge.stores, &knowledge.resources);
    let new = NewJob {
        id,
        principal: Principal::new(org.clone(), UserId::platform(), Role::Admin),
        kind: kind.to_owned(),
        input,
        items,
        running_max: resources.job_limits.running_time,
        at: resources.environment.now(),
    };
    match create_job(&*stores.jobs, &stores.job_pages(), &resources.job_limits, new).await {
        Ok(header) => hint_job(&*resources.job_hints, JobQueue::Ingestions, org, &header.id).await,
        Err(error) if error.reason == Reason::QueueFull => {
            tracing::warn!(%org, kind, %error, "the maintenance of the index of passages waits");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The jobs that rebuild indexes.
#[derive(Debug)]
pub struct IndexRebuilds(pub Knowledge);

#[async_trait]
impl JobKind for IndexRebuilds {
    fn name(&self) -> &'static str {
        INDEX_REBUILD_KIND
    }

    fn role_min(&self) -> Role {
        Role::Admin
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let documents = rebuild(&self.0, &task.principal.org).await?;
        Ok(json!({ "documents": documents }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_within_seconds_share_a_job() {
        let (org, at) = (OrgId::derive(&["o"]), |second| Timestamp::constant(second, 0));
        assert_eq!(rebuild_job(&org, at(20)), rebuild_job(&org, at(29)));
        assert_ne!(rebuild_job(&org, at(20)), rebuild_job(&org, at(30)));
        assert_ne!(rebuild_job(&org, at(20)), rebuild_job(&OrgId::derive(&["p"]), at(20)));
    }
}
