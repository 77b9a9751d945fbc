//! Active uploads of this process, bounded in number and in bytes on disk, in total and per organization.

use std::time::Duration;

use folio_permits::{Amount, Permit, Permits, RefusalReason};
use folio_types::{Error, OrgId, Reason, Result};

use crate::options::Options;

/// Retry delay when a bound is reached. A transfer takes seconds.
const RETRY_FULL: Duration = Duration::from_secs(5);

/// Active uploads of this process. Clones share the set.
#[derive(Debug, Clone)]
pub struct ActiveUploads {
    permits: Permits<OrgId>,
}

impl ActiveUploads {
    pub(crate) fn new(options: &Options) -> Self {
        let total = Amount { permits: options.uploads, bytes: options.upload_bytes };
        let per_organization =
            Amount { permits: options.uploads_per_organization, bytes: options.upload_bytes_per_organization };
        Self { permits: Permits::without_queue(total, per_organization) }
    }

    /// Returns the number of active uploads and their maximum bytes on disk.
    pub fn load(&self) -> Amount {
        self.permits.load()
    }

    pub(crate) fn load_of(&self, org: &OrgId) -> Amount {
        self.permits.load_of(org)
    }

    /// Registers an upload of at most `bytes` until the permit is dropped.
    ///
    /// # Errors
    /// `OVERLOADED` with a retry delay if a bound is reached.
    pub(crate) fn start(&self, org: &OrgId, bytes: u64) -> Result<Permit<OrgId>> {
        self.permits.try_acquire(org, bytes).map_err(|refused| {
            let owner = if refused == RefusalReason::KeyBound { "the organization" } else { "the server" };
            let message = format!("{owner} has reached its maximum of active uploads; retry later");
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_FULL)
        })
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

    fn assert_refused(started: Result<Permit<OrgId>>, by: &str) {
        let error = started.unwrap_err();
        assert!(error.reason == Reason::Overloaded && error.is_retriable() && error.message.contains(by), "{error}");
    }

    #[test]
    fn invariant_10_uploads_are_bounded_by_number_and_bytes_in_total_and_per_organization() {
        let (one, two) = (OrgId::derive(&["one"]), OrgId::derive(&["two"]));
        let all = active_uploads();
        let first = all.start(&one, 50).unwrap();
        assert_refused(all.start(&one, 11), "the organization");
        let second = all.start(&one, 10).unwrap();
        assert_refused(all.start(&one, 0), "the organization");
        assert_refused(all.start(&two, 41), "the server");
        let third = all.start(&two, 40).unwrap();
        assert_refused(all.start(&two, 0), "the server");
        assert_eq!(all.load(), Amount { permits: 3, bytes: 100 });
        drop((first, second, third));
        assert_eq!(all.load(), Amount::default());
        assert!(all.start(&one, 1).is_ok());
    }
}
