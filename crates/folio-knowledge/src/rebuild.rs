//! Builds the index of an organization from the stored passages.
//!
//! | step | after a crash |
//! |---|---|
//! | the index is emptied; its state is `Rebuilding` | the job is repeated from here |
//! | each stored generation is written to it, in parts; organizations take turns | |
//! | the state becomes `Ready` | the repeated job finds a ready index and ends |
//!
//! Ingestions write to the index meanwhile. A generation is stored before it is written to the index, so that a rebuild that
//! began earlier or later contains it.

use std::collections::HashMap;

use async_trait::async_trait;
use folio_history::job::{INDEX_REBUILD_KIND, JobHeader, JobQueue, NewJob};
use folio_index::{IndexState, IndexedDocument, Written};
use folio_jobs::{ItemTask, JobKind};
use folio_resources::Document;
use folio_storage::value::PassageHead;
use folio_storage::{create_job, hint_job};
use folio_types::{DocumentId, Error, JobId, OrgId, Principal, Reason, Result, Role, Timestamp, UserId};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::index::{indexed, read_all, remove_deleted, upsert};
use crate::knowledge::Knowledge;

/// Number of heads of one read.
const HEADS_AT_ONCE: usize = 100;
/// Number of documents of a part of a rebuild, after which other organizations have their turns.
const PART_DOCUMENTS: usize = 25;
/// Maximum passages of several documents that are written to the index at a time. A larger document is written alone.
const PASSAGES_AT_ONCE: u32 = 2_000;
/// Maximum number of documents whose passages are read at a time.
const READS_AT_ONCE: usize = 16;
/// Seconds after the creation of a job within which no further one is created, so that an index that cannot be built causes no
/// job for each write to it.
const REQUEST_SECONDS: i64 = 10;
/// Number of jobs of a day that follow each other at once.
const IMMEDIATE_REBUILDS: u32 = 10;
/// Maximum number of jobs of a day that rebuild an index. Then a sweep rebuilds it without a job.
const REBUILDS_PER_DAY: u32 = 100;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Builds the index of an organization unless it is ready. Returns the number of documents that were written.
///
/// # Errors
/// Those of the stores and of the index; `OVERLOADED` while the process rebuilds the same index, or too many others;
/// `VERSION_CONFLICT` if another process changed the index meanwhile. The state remains `Rebuilding`, so that the next call begins again.
pub async fn rebuild(knowledge: &Knowledge, org: &OrgId) -> Result<usize> {
    let _only = knowledge.permits.rebuild(org).await?;
    if knowledge.index.state(org).await? == IndexState::Ready {
        return Ok(0);
    }
    tracing::info!(%org, "the index of passages is rebuilt");
    let number = u64::try_from(knowledge.resources.environment.random() >> u64::BITS).unwrap_or_default();
    knowledge.index.begin_rebuild(org, number).await?;
    let (store, mut written, mut after) = (knowledge.passages(), 0, None::<DocumentId>);
    loop {
        let heads = store.heads(org, after.as_ref(), HEADS_AT_ONCE).await?;
        let Some(last) = heads.last() else { break };
        after = Some(last.document.clone());
        for part in heads.chunks(PART_DOCUMENTS) {
            let _permit = knowledge.permits.rebuild_part(org).await?;
            written += index_stored(knowledge, org, part).await?;
        }
    }
    if let Written::NotUsable(state) = knowledge.index.finish_rebuild(org, number).await? {
        let message = format!("another process changed the index of passages ({state:?}) while it was rebuilt; retry");
        return Err(Error::version_conflict(message));
    }
    tracing::info!(%org, documents = written, "the index of passages is complete");
    Ok(written)
}

/// Writes stored generations to the index. Generations of deleted documents, and those that were replaced meanwhile, are
/// skipped. Returns the number of written documents.
pub(crate) async fn index_stored(knowledge: &Knowledge, org: &OrgId, heads: &[PassageHead]) -> Result<usize> {
    let mut written = 0;
    for part in parts(heads) {
        let (found, documents) = read_documents(knowledge, org, part).await?;
        if !found.is_empty() {
            written += write(knowledge, org, &found, documents).await?;
        }
    }
    Ok(written)
}

/// Divides heads into parts with at most [`PASSAGES_AT_ONCE`] passages. A larger document is a part of its own.
fn parts(heads: &[PassageHead]) -> Vec<&[PassageHead]> {
    let mut found = Vec::new();
    let (mut first, mut passages) = (0, 0_u32);
    for (at, head) in heads.iter().enumerate() {
        passages = passages.saturating_add(head.passages);
        if passages > PASSAGES_AT_ONCE && at > first {
            found.extend(heads.get(first..at));
            (first, passages) = (at, head.passages);
        }
    }
    found.extend(heads.get(first..).filter(|last| !last.is_empty()));
    found
}

/// Returns stored generations as input of the index, with their heads. A document is missing if it was deleted, if the generation was
/// replaced, or if the stores lack passages of it, which the log names. Passages of a deleted document are removed: a process may have
/// stored them after the clean-up of the deletion, and died.
async fn read_documents<'a>(
    knowledge: &Knowledge,
    org: &OrgId,
    heads: &'a [PassageHead],
) -> Result<(Vec<&'a PassageHead>, Vec<IndexedDocument>)> {
    let ids: Vec<DocumentId> = heads.iter().map(|head| head.document.clone()).collect();
    let documents = knowledge.stores.of::<Document>().get_many(org, &ids).await?;
    let mut documents: HashMap<DocumentId, Document> =
        documents.into_iter().map(|document| (document.id.clone(), document)).collect();
    // Collected, because a stream of borrowed heads is not general enough for the bounds of a task.
    let reads: Vec<_> =
        heads.iter().map(|head| read_passages(knowledge, org, head, documents.remove(&head.document))).collect();
    let found: Vec<Option<IndexedDocument>> =
        futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
    Ok(heads.iter().zip(found).filter_map(|(head, document)| Some((head, document?))).unzip())
}

async fn read_passages(
    knowledge: &Knowledge,
    org: &OrgId,
    head: &PassageHead,
    document: Option<Document>,
) -> Result<Option<IndexedDocument>> {
    let Some(document) = document else {
        return remove_deleted(knowledge, org, &head.document).await.map(|()| None);
    };
    let found = read_all(knowledge, org, head).await?;
    if found.len() == usize::try_from(head.passages).unwrap_or(usize::MAX) {
        return Ok(Some(indexed(&document, head, found)));
    }
    if knowledge.passages().head(org, &head.document).await?.as_ref() == Some(head) {
        let document = &head.document;
        tracing::error!(%org, %document, "the stores lack passages of a document; ingest the document again");
    }
    Ok(None)
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
        let (_, document) = read_documents(knowledge, org, std::slice::from_ref(*head)).await?;
        if document.is_empty() {
            continue;
        }
        match upsert(knowledge, org, document).await {
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

/// Returns the job that rebuilds the index of an organization: the open one, so that no two processes rebuild the same index, else a
/// new one, or, after many of them, that of the last seconds.
pub(crate) async fn request_rebuild(knowledge: &Knowledge, org: &OrgId) -> Result<JobId> {
    let now = knowledge.resources.environment.now();
    let day = now.as_second().div_euclid(DAY_SECONDS);
    // A rebuild may have begun before midnight.
    if let Some(open) = Rebuilds::read(knowledge, org, day.saturating_sub(1)).await?.open {
        return Ok(open);
    }
    let Rebuilds { count, open, last } = Rebuilds::read(knowledge, org, day).await?;
    if let Some(open) = open {
        return Ok(open);
    }
    let is_enough =
        |last: &JobHeader| count >= REBUILDS_PER_DAY || (count >= IMMEDIATE_REBUILDS && is_recent(last, now));
    if let Some(last) = last.filter(is_enough) {
        return Ok(last.id);
    }
    let job = rebuild_job(org, day, count);
    let kind = (INDEX_REBUILD_KIND, job.clone());
    create_maintenance_job(knowledge, kind, json!({}), org, vec!["index".to_owned()]).await?;
    Ok(job)
}

/// The jobs of a day that rebuild an index.
struct Rebuilds {
    /// Number of the jobs that have ended.
    count: u32,
    open: Option<JobId>,
    /// The last job that has ended.
    last: Option<JobHeader>,
}

impl Rebuilds {
    async fn read(knowledge: &Knowledge, org: &OrgId, day: i64) -> Result<Self> {
        let mut found = Self { count: 0, open: None, last: None };
        while found.count < REBUILDS_PER_DAY {
            let job = rebuild_job(org, day, found.count);
            match knowledge.stores.jobs.header(org, &job).await? {
                Some(header) if header.is_ended() => found.last = Some(header),
                header => {
                    found.open = header.map(|header| header.id);
                    break;
                }
            }
            found.count += 1;
        }
        Ok(found)
    }
}

/// Returns the id of the job with this number, from 0, among those of a day that rebuild an index.
fn rebuild_job(org: &OrgId, day: i64, number: u32) -> JobId {
    JobId::derive(&[org.as_str(), INDEX_REBUILD_KIND, &day.to_string(), &number.to_string()])
}

/// Returns true if a job was created so recently that it serves a further request, also if it has ended.
fn is_recent(job: &JobHeader, now: Timestamp) -> bool {
    now.duration_since(job.created_at).as_secs() < REQUEST_SECONDS
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
    fn documents_are_read_in_parts_and_large_ones_alone() {
        let head = |passages: u32| PassageHead {
            document: DocumentId::derive(&[&passages.to_string()]),
            generation: 1,
            passages,
            space: None,
            text_generation: Timestamp::UNIX_EPOCH,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let sizes = |passages: &[u32]| -> Vec<usize> {
            let heads: Vec<PassageHead> = passages.iter().copied().map(head).collect();
            assert_eq!(parts(&heads).concat(), heads);
            parts(&heads).iter().map(|part| part.len()).collect()
        };
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[0, 1_000, 1_000, 1]), [3, 1]);
        assert_eq!(sizes(&[20_000, 1, 2_000, 1]), [1, 1, 1, 1]);
    }

    #[test]
    fn the_jobs_of_a_day_have_numbers() {
        let org = OrgId::derive(&["o"]);
        let first = rebuild_job(&org, 20, 0);
        assert_eq!(first, rebuild_job(&org, 20, 0));
        let others = [(&org, 20, 1), (&org, 21, 0), (&OrgId::derive(&["p"]), 20, 0)];
        assert!(others.iter().all(|(org, day, number)| rebuild_job(org, *day, *number) != first));
    }
}
