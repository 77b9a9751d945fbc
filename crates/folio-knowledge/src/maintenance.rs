//! The task that compares the indexes of a process with the stored passages.
//!
//! | finding | remedy |
//! |---|---|
//! | the index is missing, torn, of another version, or its rebuild has stopped | a job rebuilds it, otherwise the task |
//! | the index contains a document without a live generation | removed from the index |
//! | the index lacks a live generation, or contains an earlier one | added from the stores |
//! | the stores contain a live generation of a deleted document | removed from the stores |
//! | passages lack vectors of the chosen embedding model | a job computes them |
//! | the organization was deleted | its index is removed |

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use folio_index::{IndexState, ListedDocument};
use folio_resources::{Kind, Organization, OrganizationFilter};
use folio_storage::value::PassageHead;
use folio_storage::{LISTED_HEADS_MAX, ListSweep};
use folio_types::limits::PAGE_SIZE_MAX;
use folio_types::{DocumentId, JobId, OrgId, Reason, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::knowledge::Knowledge;
use crate::rebuild::{index_stored, rebuild, request_rebuild};
use crate::reembedding::{chosen_model, lacks, request_reembedding, update_serving_space};

/// Maximum time between two searches for indexes of deleted organizations.
const DELETED_INTERVAL: Duration = Duration::from_secs(30);
/// Documents of one read of the index.
const LISTED_DOCUMENTS: usize = 1_000;
/// Organizations of one read of the stores.
const READ_ORGANIZATIONS: usize = 100;

/// Returns true if this process keeps the index of an organization.
pub type IsResponsible = Arc<dyn Fn(&OrgId) -> bool + Send + Sync>;

/// Owns the task. Dropping it aborts a running sweep; the next one repeats the work.
#[derive(Debug)]
pub struct Maintenance {
    stop: CancellationToken,
    changed: Arc<Notify>,
    task: AbortOnDropHandle<()>,
}

impl Maintenance {
    /// Starts the task, which sweeps at once, and then after each interval.
    pub fn start(knowledge: Knowledge, interval: Duration, is_responsible: IsResponsible) -> Self {
        let stop = CancellationToken::new();
        let changed = Arc::new(Notify::new());
        let (requested, kept) = (HashMap::new(), HashSet::new());
        let sweeper = Sweeper { knowledge, is_responsible, requested, kept, is_pending: false };
        let task = tokio::spawn(run(sweeper, interval, Arc::clone(&changed), stop.clone()));
        Self { stop, changed, task: AbortOnDropHandle::new(task) }
    }

    /// Returns the notification that this process may keep other indexes than before. The task then compares those that it did
    /// not keep before.
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Stops the task. A running sweep is cancelled.
    pub async fn stop(self, limit: Duration) {
        self.stop.cancel();
        let _ = tokio::time::timeout(limit, self.task).await;
    }
}

async fn run(mut sweeper: Sweeper, interval: Duration, changed: Arc<Notify>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(interval.min(DELETED_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Instant::now();
    loop {
        let is_changed = tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => false,
            () = changed.notified() => true,
        };
        let is_due = Instant::now() >= next;
        if is_due {
            next = Instant::now() + interval;
        }
        if stop.run_until_cancelled(sweeper.run(is_due, is_changed)).await.is_none() {
            return;
        }
    }
}

struct Sweeper {
    knowledge: Knowledge,
    is_responsible: IsResponsible,
    /// The newest job that this process requested for each index that is not usable.
    requested: HashMap<OrgId, JobId>,
    /// The organizations whose indexes this process kept, and that were equal to the stores.
    kept: HashSet<OrgId>,
    /// True if a comparison failed, or an index is being rebuilt. The next run compares these indexes.
    is_pending: bool,
}

impl Sweeper {
    /// `is_due`: true if the indexes of all organizations are compared. `is_changed`: true if this process may keep other
    /// indexes than before.
    async fn run(&mut self, is_due: bool, is_changed: bool) {
        if let Err(error) = self.remove_deleted().await {
            tracing::warn!(%error, "indexes of deleted organizations are removed later");
        }
        if !(is_due || is_changed || self.is_pending) {
            return;
        }
        self.is_pending = false;
        if let Err(error) = self.sweep(is_due).await {
            self.is_pending = true;
            tracing::warn!(%error, "a sweep of the indexes failed; the next one continues it");
        }
    }

    /// Removes the indexes of deleted organizations. A failure affects only its organization.
    async fn remove_deleted(&self) -> Result<()> {
        let (stores, index) = (&self.knowledge.stores, &self.knowledge.index);
        let mut indexed = index.organizations().await?;
        indexed.retain(|org| (self.is_responsible)(org));
        for orgs in indexed.chunks(READ_ORGANIZATIONS) {
            let ids: Vec<String> = orgs.iter().map(ToString::to_string).collect();
            // The records are not read, so that an unreadable one does not delay the removal of the indexes of others.
            let versions = stores.resources.versions(&OrgId::platform(), Kind::get::<Organization>(), &ids).await?;
            for (org, _) in orgs.iter().zip(versions).filter(|(_, version)| version.is_none()) {
                if let Err(error) = index.delete_organization(org).await {
                    tracing::warn!(%org, %error, "the index of a deleted organization is removed later");
                }
            }
        }
        Ok(())
    }

    /// Compares the index of each organization with the stores. `is_due`: false if only those are compared that this process did
    /// not keep before, or that were not equal to the stores.
    async fn sweep(&mut self, is_due: bool) -> Result<()> {
        let organizations = self.knowledge.stores.of::<Organization>();
        let mut kept = HashSet::new();
        let (platform, filter) = (OrgId::platform(), OrganizationFilter::default());
        let mut list = ListSweep::new(&self.knowledge.stores.unreadable, "organizations", PAGE_SIZE_MAX);
        while let Some(request) = list.request() {
            for organization in list.items(organizations.list(&platform, &filter, &request).await)? {
                let org = organization.id;
                if !(self.is_responsible)(&org) {
                    continue;
                }
                if !is_due && self.kept.contains(&org) {
                    kept.insert(org);
                    continue;
                }
                let is_equal = self.check(&org).await.unwrap_or_else(|error| {
                    tracing::warn!(%org, %error, "an index of passages is compared with the stores later");
                    false
                });
                if is_equal {
                    kept.insert(org);
                } else {
                    self.is_pending = true;
                }
            }
        }
        self.kept = kept;
        Ok(())
    }

    /// Makes an index equal to the stores, or begins to rebuild it. Returns true if it is equal.
    async fn check(&mut self, org: &OrgId) -> Result<bool> {
        let state = self.knowledge.index.state(org).await?;
        if state == IndexState::Ready {
            self.requested.remove(org);
            return compare(&self.knowledge, org).await.map(|()| true);
        }
        if state == IndexState::Missing && self.knowledge.passages().buckets(org).await?.is_empty() {
            return Ok(true);
        }
        self.repair(org).await.map(|()| false)
    }

    /// Requests a rebuild. If the requested job has ended and the index is still not usable, the job ran in a process with another
    /// index, and this process rebuilds its own.
    async fn repair(&mut self, org: &OrgId) -> Result<()> {
        let Some(job) = self.requested.get(org) else {
            let job = request_rebuild(&self.knowledge, org).await?;
            self.requested.insert(org.clone(), job);
            return Ok(());
        };
        let header = self.knowledge.stores.jobs.header(org, job).await?;
        if header.is_some_and(|header| !header.is_ended()) {
            return Ok(());
        }
        self.requested.remove(org);
        rebuild(&self.knowledge, org).await.map(drop)
    }
}

/// Returns a number that identifies a generation of a document. A collision hides a missing document until its next
/// generation.
fn fingerprint(head: &PassageHead) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&head.document, head.generation).hash(&mut hasher);
    hasher.finish()
}

fn is_equal(listed: &ListedDocument, head: &PassageHead) -> bool {
    listed.generation == head.generation && listed.passages == head.passages
}

/// Returns the live generations of documents, without those that are unreadable. None: a document has no generation.
async fn readable_heads(
    knowledge: &Knowledge,
    org: &OrgId,
    documents: &[DocumentId],
) -> Result<HashMap<DocumentId, Option<PassageHead>>> {
    let store = knowledge.passages();
    match store.heads_of(org, documents).await {
        Ok(heads) => return Ok(documents.iter().cloned().zip(heads).collect()),
        Err(error) if error.reason == Reason::StoredFormat => {}
        Err(error) => return Err(error),
    }
    let mut heads = HashMap::new();
    for document in documents {
        let head = store.head(org, document).await;
        let head = knowledge.stores.unreadable.skip(format_args!("passages of {document} of {org}"), head)?;
        heads.extend(head.map(|head| (document.clone(), head)));
    }
    Ok(heads)
}

/// Makes a ready index contain exactly the live generations.
async fn compare(knowledge: &Knowledge, org: &OrgId) -> Result<()> {
    let store = knowledge.passages();
    let mut indexed = HashSet::new();
    let mut after: Option<DocumentId> = None;
    loop {
        let listed = knowledge.index.documents(org, after.as_ref(), LISTED_DOCUMENTS).await?;
        let Some(last) = listed.last() else { break };
        after = Some(last.document.clone());
        let ids: Vec<DocumentId> = listed.iter().map(|listed| listed.document.clone()).collect();
        let mut heads = readable_heads(knowledge, org, &ids).await?;
        let (mut removed, mut outdated) = (Vec::new(), Vec::new());
        for listed in &listed {
            // The passages of an unreadable generation remain in the index.
            let Some(head) = heads.remove(&listed.document) else { continue };
            match head {
                Some(head) if is_equal(listed, &head) => {
                    indexed.insert(fingerprint(&head));
                }
                Some(head) => {
                    // The stores may have been restored: the index ignores a generation earlier than its own.
                    if listed.generation >= head.generation {
                        removed.push(listed.document.clone());
                    }
                    outdated.push(head);
                }
                None => removed.push(listed.document.clone()),
            }
        }
        if !removed.is_empty() {
            knowledge.index.delete_documents(org, &removed).await?;
        }
        index_stored(knowledge, org, &outdated).await?;
        indexed.extend(outdated.iter().map(fingerprint));
    }
    let chosen = chosen_model(knowledge, org).await?;
    let (mut is_lacking, mut after) = (false, None::<DocumentId>);
    loop {
        let heads = store.heads(org, after.as_ref(), LISTED_HEADS_MAX).await?;
        let Some(last) = heads.last() else { break };
        after = Some(last.document.clone());
        is_lacking |= chosen.as_ref().is_some_and(|chosen| heads.iter().any(|head| lacks(head, chosen)));
        let is_missing = |head: &PassageHead| head.passages > 0 && !indexed.contains(&fingerprint(head));
        let missing: Vec<PassageHead> = heads.into_iter().filter(is_missing).collect();
        index_stored(knowledge, org, &missing).await?;
    }
    match chosen {
        Some(chosen) if is_lacking => request_reembedding(knowledge, org, &chosen).await,
        Some(_) => update_serving_space(knowledge, org).await.map(drop),
        None => Ok(()),
    }
}
