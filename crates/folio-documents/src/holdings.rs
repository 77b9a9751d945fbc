//! What organizations have of documents, against what they may have.
//!
//! What the store says is believed for a while: at least [`BELIEVED`], and so much longer where there is much to read that
//! reading stays a [`SHARE`]th of the time. What is uploaded here meanwhile is added to it, and what is under way counts. So
//! of one process an organization gets no more than it may; of several, no more than what the others take in meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_storage::{DocumentStore, Holdings};
use folio_types::quota::{Quotas, exceeded};
use folio_types::{Error, OrgId, Result};
use moka::future::Cache;
use tokio::time::Instant;

use crate::under_way::Load;

/// Organizations that are kept in mind: those that uploaded last.
const KEPT: u64 = 10_000;
/// How long what the store says is believed at least.
const BELIEVED: Duration = Duration::from_secs(5);
/// The part of the time that goes into reading at most.
const SHARE: u32 = 20;
/// How soon it is worth asking again, at least.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// What organizations have, as far as this process knows. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct Known {
    store: Arc<dyn DocumentStore>,
    organizations: Cache<OrgId, Arc<Said>>,
}

/// What the store said of one organization.
struct Said {
    held: Mutex<Holdings>,
    until: Instant,
}

impl Said {
    fn held(&self) -> Holdings {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    pub(crate) fn new(store: Arc<dyn DocumentStore>) -> Self {
        Self { store, organizations: Cache::builder().max_capacity(KEPT).time_to_idle(10 * BELIEVED).build() }
    }

    /// How many bytes an upload of an organization may have, where all that it has under way (this one included) is `load`.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`, with the time after which the store is asked again.
    pub(crate) async fn room(&self, org: &OrgId, quotas: Quotas, load: Load, bytes: u64) -> Result<u64> {
        if quotas.documents == 0 && quotas.storage_bytes == 0 {
            return Ok(u64::MAX);
        }
        let said = self.said(org).await?;
        let again = said.until.saturating_duration_since(Instant::now()).max(SOON);
        let (held, uploads) = (said.held(), load.uploads as u64);
        if quotas.documents > 0 && held.documents.saturating_add(uploads) > quotas.documents.into() {
            return Err(exceeded("documents", quotas.documents.into(), again));
        }
        if quotas.storage_bytes == 0 {
            return Ok(u64::MAX);
        }
        let others = load.bytes.saturating_sub(bytes);
        let room = quotas.storage_bytes.saturating_sub(held.bytes).saturating_sub(others);
        if room == 0 {
            return Err(no_room(quotas, again));
        }
        Ok(room)
    }

    /// A document of so many bytes is there since.
    pub(crate) async fn add(&self, org: &OrgId, bytes: u64) {
        if let Some(said) = self.organizations.get(org).await {
            let mut held = said.held.lock().unwrap_or_else(PoisonError::into_inner);
            *held = held.and(Holdings { documents: 1, bytes });
        }
    }

    async fn said(&self, org: &OrgId) -> Result<Arc<Said>> {
        if let Some(said) = self.organizations.get(org).await {
            if Instant::now() < said.until {
                return Ok(said);
            }
            self.organizations.invalidate(org).await;
        }
        let read = async {
            let began = Instant::now();
            let held = Mutex::new(self.store.holdings(org).await?);
            Ok(Arc::new(Said { held, until: Instant::now() + BELIEVED.max(began.elapsed() * SHARE) }))
        };
        let said = self.organizations.try_get_with_by_ref(org, read).await;
        said.map_err(|error: Arc<Error>| (*error).clone())
    }
}

/// An upload has more bytes than there is room for.
pub(crate) fn no_room(quotas: Quotas, again: Duration) -> Error {
    exceeded("storage_bytes", quotas.storage_bytes, again)
}
