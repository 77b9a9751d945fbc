//! The embedded index: a folder for each organization, in the file system of the process.
//!
//! One organization never affects the ranking of another, because each has an index of its own. Every operation runs on
//! a thread for blocking work, with a permit; organizations with waiting operations take turns.

mod background;
mod disk;
mod failure;
mod fields;
mod manifest;
mod options;
mod query;
mod tenant;
mod vectors;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use folio_permits::Permits;
use folio_types::{DocumentId, Error, OrgId, Reason, Result};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

pub use self::options::EmbeddedOptions;

use self::disk::DiskUse;
use self::failure::Failure;
use self::tenant::{Tenant, folder_bytes};
use self::vectors::VectorCache;
use crate::adapter::LISTED_MAX;
use crate::answer::{Answer, IndexState, ListedDocument, Statistics, Written};
use crate::passage::{DOCUMENTS_MAX, IndexedDocument, at_most, validate_upsert};
use crate::port::PassageIndex;
use crate::search::Search;

const RETRY_AFTER: Duration = Duration::from_secs(1);
/// File that a process locks while it uses the folder.
const LOCK_FILE: &str = "lock";

/// Everything that the operations share.
struct Shared {
    root: PathBuf,
    options: EmbeddedOptions,
    /// Known organizations. An organization with a writer, with an operation in progress, or with deleted passages on the disk is not
    /// evicted.
    tenants: Mutex<Tenants>,
    vectors: VectorCache,
    disk: DiskUse,
    /// Number of open writers.
    writers: Arc<AtomicUsize>,
    /// Excludes other processes from the folder.
    _lock: File,
}

#[derive(Default)]
struct Tenants {
    by_org: HashMap<OrgId, Arc<Tenant>>,
    clock: u64,
}

/// Kinds of operations.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Read,
    /// Runs on a thread with a low priority, so that it does not delay searches of other organizations.
    Write,
}

/// Returns `OVERLOADED` while a disk has too little free space for new content.
pub type SpaceCheck = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The index of passages in a folder of this process.
pub struct EmbeddedIndex {
    shared: Arc<Shared>,
    searches: Permits<OrgId>,
    writes: Permits<OrgId>,
    maintenance: JoinHandle<()>,
    /// Checks that the disk has space for further passages.
    space_check: SpaceCheck,
}

fn unavailable(path: &Path, error: impl std::fmt::Display) -> Error {
    let path = path.display();
    Error::unavailable(Reason::StoreUnavailable, format!("the folder of the index {path} cannot be used: {error}"))
}

/// Returns the organizations with a folder.
fn organizations_of(root: &Path) -> Result<Vec<OrgId>> {
    let entries = std::fs::read_dir(root).map_err(|error| unavailable(root, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unavailable(root, error))?;
        found.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()));
    }
    found.sort();
    Ok(found)
}

impl EmbeddedIndex {
    /// Opens the index, and creates its folder if it does not exist. Starts the task that closes idle writers; the task
    /// ends with this value.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a setting is out of bounds. `STORE_UNAVAILABLE` if the folder cannot be created, or another
    /// process uses it.
    pub fn open(root: PathBuf, options: EmbeddedOptions) -> Result<Self> {
        options.validate()?;
        std::fs::create_dir_all(&root).map_err(|error| unavailable(&root, error))?;
        let lock = File::create(root.join(LOCK_FILE)).map_err(|error| unavailable(&root, error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => unavailable(&root, "another process uses it"),
            TryLockError::Error(error) => unavailable(&root, error),
        })?;
        let organizations = organizations_of(&root)?.into_iter();
        // An index that cannot be read is damaged, and its rebuild removes it.
        let sizes = organizations.filter_map(|org| {
            let bytes = folder_bytes(&root.join(org.as_str())).ok()?;
            Some((org, bytes))
        });
        let disk = DiskUse::new(options.disk_bytes, sizes);
        let shared = Arc::new(Shared {
            root,
            options,
            disk,
            tenants: Mutex::default(),
            vectors: VectorCache::new(options.memory_bytes),
            writers: Arc::default(),
            _lock: lock,
        });
        let period = (options.writer_idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        let maintenance = tokio::spawn(maintain(Arc::downgrade(&shared), period));
        let searches = Permits::leaving_one(options.searches_max, options.waiting_max);
        let writes = Permits::leaving_one(options.writes_max, options.waiting_max);
        Ok(Self { shared, searches, writes, maintenance, space_check: Arc::new(|| Ok(())) })
    }

    /// Checks the space of the disk before each write that adds passages, and before a rebuild, which writes them again. Deletions are
    /// not checked. Default: every write is accepted.
    #[must_use]
    pub fn with_space_check(mut self, check: SpaceCheck) -> Self {
        self.space_check = check;
        self
    }

    /// Returns true if a folder contains an index that no process uses, and that no process opened within this age: a process that
    /// opens the folder at this moment must not meet the lock of this function. Blocks.
    pub fn is_abandoned(root: &Path, age: Duration) -> bool {
        let Ok(lock) = File::open(root.join(LOCK_FILE)) else { return false };
        let opened = lock.metadata().and_then(|metadata| metadata.modified());
        let is_old = opened.is_ok_and(|opened| opened.elapsed().is_ok_and(|elapsed| elapsed >= age));
        is_old && lock.try_lock().is_ok()
    }

    /// Runs work on a thread for blocking work. The inner error is the state of an index that cannot be used. Work
    /// continues if the caller is cancelled. A panic is caused by damaged files, so the index is marked as damaged.
    async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        org: &OrgId,
        work: impl FnOnce(&Shared, &Tenant) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Result<T, IndexState>> {
        let permits = match kind {
            Kind::Read => &self.searches,
            Kind::Write => &self.writes,
        };
        let deadline = Instant::now() + self.shared.options.wait_max;
        let permit = permits.acquire(org, 1, deadline).await.map_err(|_| {
            let message = "too many operations of the index of passages wait; repeat the request later";
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER)
        })?;
        let (shared, org) = (Arc::clone(&self.shared), org.clone());
        let work = move || {
            let _permit = permit;
            let tenant = shared.tenant(&org);
            let damaged = |tenant: &Tenant| -> Result<Result<T, IndexState>> {
                tenant.mark_torn();
                shared.vectors.retain(&tenant.org, &[]);
                Ok(Err(IndexState::Torn))
            };
            match catch_unwind(AssertUnwindSafe(|| work(&shared, &tenant))) {
                Ok(Ok(value)) => Ok(Ok(value)),
                Ok(Err(Failure::Error(error))) => Err(error),
                Ok(Err(Failure::State(IndexState::Torn))) if tenant.is_marked_usable() => damaged(&tenant),
                Ok(Err(Failure::State(state))) => Ok(Err(state)),
                Err(_) => damaged(&tenant),
            }
        };
        let done = match kind {
            Kind::Read => spawn_blocking(work),
            Kind::Write => background::spawn(work)?,
        };
        done.await.map_err(|error| Error::internal(format!("an operation of the index of passages failed: {error}")))?
    }

    async fn write<T: Send + 'static>(
        &self,
        org: &OrgId,
        work: impl FnOnce(&Shared, &Tenant) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Result<T, IndexState>> {
        self.run(Kind::Write, org, |shared, tenant| {
            shared.limit_writers(tenant);
            work(shared, tenant)
        })
        .await
    }
}

impl Drop for EmbeddedIndex {
    fn drop(&mut self) {
        self.maintenance.abort();
    }
}

/// Closes idle writers periodically until the index is dropped.
async fn maintain(shared: Weak<Shared>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(shared) = shared.upgrade() else { return };
        let done = match background::spawn(move || shared.maintain()) {
            Ok(done) => done.await.map_err(|error| Error::internal(error.to_string())),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!(%error, "the maintenance of the index of passages failed");
        }
    }
}

impl Shared {
    fn tenants(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of an organization. Closes the indexes that were not used for the longest time if there are
    /// too many.
    fn tenant(&self, org: &OrgId) -> Arc<Tenant> {
        let mut tenants = self.tenants();
        tenants.clock += 1;
        let now = tenants.clock;
        let new = || Arc::new(Tenant::new(org.clone(), &self.root, Arc::clone(&self.writers)));
        let tenant = Arc::clone(tenants.by_org.entry(org.clone()).or_insert_with(new));
        tenant.last_used.store(now, Ordering::Relaxed);
        while tenants.by_org.len() > self.options.readers_max {
            let idle = tenants.by_org.values().filter(|tenant| Arc::strong_count(tenant) == 1 && tenant.is_closable());
            let oldest = idle.min_by_key(|tenant| tenant.last_used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|tenant| tenant.org.clone()) else { break };
            tenants.by_org.remove(&oldest);
            self.vectors.retain(&oldest, &[]);
        }
        tenant
    }

    fn all_tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants().by_org.values().cloned().collect()
    }

    /// Closes the writers that were not used for the longest time, so that an organization can open its writer.
    fn limit_writers(&self, tenant: &Tenant) {
        if tenant.writer_idle().is_some() {
            return;
        }
        while self.writers.load(Ordering::Relaxed) >= self.options.writers_max {
            let others = self.all_tenants().into_iter().filter(|other| other.org != tenant.org);
            let idle = others.filter_map(|tenant| tenant.writer_idle().map(|idle| (idle, tenant)));
            let Some((_, tenant)) = idle.max_by_key(|(idle, _)| *idle) else { return };
            report(&tenant, || tenant.close_writer(Duration::ZERO, &self.vectors));
            self.measure(&tenant);
        }
    }

    fn maintain(&self) {
        for tenant in self.all_tenants() {
            let is_changed = !tenant.is_closable();
            report(&tenant, || tenant.maintain(self.options.writer_idle, &self.vectors));
            if is_changed {
                self.measure(&tenant);
            }
        }
    }

    /// Stores the size of an index on the disk. An index that cannot be read keeps its size.
    fn measure(&self, tenant: &Tenant) {
        if let Ok(bytes) = tenant.disk_bytes() {
            self.disk.update(&tenant.org, bytes);
        }
    }

    /// Checks that the disk has space for a write. Otherwise the index becomes incomplete, which its searches name.
    fn check_disk(&self, tenant: &Tenant, documents: &[IndexedDocument]) -> Result<(), Failure> {
        tenant.usable()?;
        let added = documents.iter().map(IndexedDocument::bytes).fold(0, usize::saturating_add);
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        if let Err(error) = self.disk.check_write(&tenant.org, tenant.disk_bytes()?, added, Instant::now()) {
            tenant.mark_incomplete()?;
            return Err(error.into());
        }
        Ok(())
    }
}

/// Logs a failed step of the maintenance. A damaged index is marked.
fn report(tenant: &Tenant, step: impl FnOnce() -> Result<(), Failure>) {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(())) => {}
        Ok(Err(Failure::Error(error))) => {
            tracing::warn!(org = %tenant.org, %error, "a writer of the index of passages was not closed properly");
        }
        Ok(Err(Failure::State(_))) | Err(_) => tenant.mark_torn(),
    }
}

fn written(result: Result<usize, IndexState>) -> Written {
    match result {
        Ok(stale) => Written::Applied { stale },
        Err(state) => Written::NotUsable(state),
    }
}

#[async_trait]
impl PassageIndex for EmbeddedIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState> {
        let state = self.run(Kind::Read, org, |_, tenant| tenant.state()).await?;
        Ok(state.unwrap_or_else(|state| state))
    }

    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()> {
        (self.space_check)()?;
        let begun = self.write(org, move |shared, tenant| {
            shared.disk.check_rebuild(&tenant.org, Instant::now())?;
            tenant.begin_rebuild(&shared.vectors, rebuild)?;
            shared.disk.set(&tenant.org, 0);
            Ok(())
        });
        let begun = begun.await?;
        begun.map_err(|_| unavailable(&self.shared.root, "an index cannot be created"))
    }

    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written> {
        let finished = self.write(org, move |_, tenant| tenant.finish_rebuild(rebuild)).await?;
        Ok(written(finished.map(|()| 0)))
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written> {
        validate_upsert(&documents)?;
        let has_passages = documents.iter().any(|document| !document.passages.is_empty());
        if has_passages {
            (self.space_check)()?;
        }
        let applied = self.write(org, move |shared, tenant| {
            if has_passages {
                shared.check_disk(tenant, &documents)?;
            }
            let stale = tenant.upsert(&shared.vectors, &documents);
            shared.measure(tenant);
            stale
        });
        Ok(written(applied.await?))
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written> {
        at_most("documents", documents.len(), DOCUMENTS_MAX, "documents")?;
        let documents = documents.to_vec();
        let deleted =
            self.write(org, move |shared, tenant| tenant.delete_documents(&shared.vectors, &documents)).await?;
        Ok(written(deleted.map(|()| 0)))
    }

    async fn delete_organization(&self, org: &OrgId) -> Result<()> {
        let deleted = self.write(org, |shared, tenant| {
            tenant.delete(&shared.vectors)?;
            shared.disk.remove(&tenant.org);
            Ok(())
        });
        deleted.await?.map_err(|_| unavailable(&self.shared.root, "an index cannot be removed"))
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer> {
        search.validate()?;
        let search = search.clone();
        let answer = self.run(Kind::Read, org, move |shared, tenant| {
            query::search(tenant, &shared.vectors, shared.options.quantize_above, &search)
        });
        Ok(answer.await?.unwrap_or_else(Answer::unusable))
    }

    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>> {
        let after = after.cloned();
        let listed =
            self.run(Kind::Read, org, move |_, tenant| query::documents(tenant, after.as_ref(), limit.min(LISTED_MAX)));
        Ok(listed.await?.unwrap_or_default())
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics> {
        let statistics = self.run(Kind::Read, org, |shared, tenant| {
            let state = tenant.state()?;
            let (_, reader) = tenant.usable()?;
            let searcher = reader.searcher();
            let deleted = searcher.segment_readers().iter().map(|segment| u64::from(segment.num_deleted_docs())).sum();
            let memory_bytes = shared.vectors.bytes_of(&tenant.org);
            let disk_bytes = Some(tenant.disk_bytes()?);
            Ok(Statistics { state, passages: searcher.num_docs(), deleted_passages: deleted, disk_bytes, memory_bytes })
        });
        Ok(statistics.await?.unwrap_or_else(|state| Statistics {
            state,
            passages: 0,
            deleted_passages: 0,
            disk_bytes: None,
            memory_bytes: 0,
        }))
    }

    async fn organizations(&self) -> Result<Vec<OrgId>> {
        let shared = Arc::clone(&self.shared);
        let listed = spawn_blocking(move || organizations_of(&shared.root)).await;
        listed.map_err(|error| Error::internal(format!("the organizations of the index cannot be listed: {error}")))?
    }
}
