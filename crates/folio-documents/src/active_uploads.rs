//! Active uploads of this process, bounded in number and in bytes on disk, in total and per organization. A guard also
//! excludes every other upload, and the clean-up, from the same document id.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_permits::{Amount, Permit, Permits, RefusalReason};
use folio_types::{DocumentId, Error, OrgId, Reason, Result};

use crate::options::Options;

/// Retry delay when a bound is reached. A transfer takes seconds.
const RETRY_FULL: Duration = Duration::from_secs(5);
/// Retry delay when an upload of the same document is in progress.
const RETRY_SAME: Duration = Duration::from_secs(1);

/// Active uploads of this process. Clones share the set.
#[derive(Debug, Clone)]
pub struct ActiveUploads {
    permits: Permits<OrgId>,
    ids: Arc<Mutex<HashSet<DocumentId>>>,
}

impl ActiveUploads {
    pub(crate) fn new(options: &Options) -> Self {
        let total = Amount { permits: options.uploads, bytes: options.upload_bytes };
        let per_organization =
            Amount { permits: options.uploads_per_organization, bytes: options.upload_bytes_per_organization };
        Self { permits: Permits::without_queue(total, per_organization), ids: Arc::default() }
    }

    /// Returns the number of active uploads and their maximum bytes on disk.
    pub fn load(&self) -> Amount {
        self.permits.load()
    }

    pub(crate) fn load_of(&self, org: &OrgId) -> Amount {
        self.permits.load_of(org)
    }

    /// Registers an upload of at most `bytes` until the guard is dropped.
    ///
    /// # Errors
    /// `OVERLOADED` with a retry delay: RESOURCE_EXHAUSTED if a bound is reached, UNAVAILABLE if an upload of the same
    /// document is in progress.
    pub(crate) fn start(&self, org: &OrgId, id: &DocumentId, bytes: u64) -> Result<UploadGuard> {
        let permit = self.permits.try_acquire(org, bytes).map_err(|refused| {
            let owner = if refused == RefusalReason::KeyBound { "the organization" } else { "the server" };
            let message = format!("{owner} has reached its maximum of active uploads; retry later");
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_FULL)
        })?;
        let same = || {
            let message = "an upload with this request_id is in progress; repeat it after that upload has ended";
            Error::unavailable(Reason::Overloaded, message).retry_after(RETRY_SAME)
        };
        let id = self.reserve(id).ok_or_else(same)?;
        Ok(UploadGuard { _permit: permit, _id: id })
    }

    /// Excludes uploads of a document id until the guard is dropped. None: an upload is active.
    pub(crate) fn reserve(&self, id: &DocumentId) -> Option<IdGuard> {
        let is_new = self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        is_new.then(|| IdGuard { ids: Arc::clone(&self.ids), id: id.clone() })
    }
}

#[derive(Debug)]
pub(crate) struct UploadGuard {
    _permit: Permit<OrgId>,
    _id: IdGuard,
}

/// Exclusive use of a document id until the guard is dropped.
#[derive(Debug)]
pub(crate) struct IdGuard {
    ids: Arc<Mutex<HashSet<DocumentId>>>,
    id: DocumentId,
}

impl Drop for IdGuard {
    fn drop(&mut self) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active_uploads() -> ActiveUploads {
        ActiveUploads::new(&Options {
            uploads: 3,
            uploads_per_organization: 2,
            upload_bytes: 100,
            upload_bytes_per_organization: 60,
            ..Options::default()
        })
    }

    fn assert_refused(started: Result<UploadGuard>, by: &str) {
        let error = started.unwrap_err();
        assert!(error.reason == Reason::Overloaded && error.is_retriable() && error.message.contains(by), "{error}");
    }

    #[test]
    fn invariant_10_uploads_are_bounded_by_number_and_bytes_in_total_and_per_organization() {
        let (one, two) = (OrgId::derive(&["one"]), OrgId::derive(&["two"]));
        let id = |number: u32| DocumentId::derive(&[&number.to_string()]);
        let all = active_uploads();
        let first = all.start(&one, &id(1), 50).unwrap();
        assert_refused(all.start(&one, &id(2), 11), "the organization");
        let second = all.start(&one, &id(2), 10).unwrap();
        assert_refused(all.start(&one, &id(3), 0), "the organization");
        assert_refused(all.start(&two, &id(4), 41), "the server");
        let third = all.start(&two, &id(4), 40).unwrap();
        assert_refused(all.start(&two, &id(5), 0), "the server");
        assert_eq!(all.load(), Amount { permits: 3, bytes: 100 });
        drop(first);
        assert_refused(all.start(&two, &id(2), 0), "this request_id");
        assert!(all.reserve(&id(2)).is_none());
        drop((second, third));
        assert_eq!(all.load(), Amount::default());
        assert!(all.ids.lock().unwrap().is_empty());
        let reserved = all.reserve(&id(2)).unwrap();
        assert_refused(all.start(&one, &id(2), 1), "this request_id");
        drop(reserved);
        assert!(all.start(&one, &id(2), 1).is_ok());
    }
}
