//! Permits of exports whose file is written before its download.
//!
//! An export has a permit while its file is written, and then reserves the bytes of the file until the download ends. So slow
//! callers of some organizations do not take the permits that the exports of others need.

use folio_permits::{Amount, Bounds, Permit, Permits, RefusalReason};
use folio_types::{Error, OrgId, Reason, Result};

use crate::context::RETRY_SOON;

/// Maximum size of the file of an export, in bytes, and of all files that an organization downloads at a time.
// proto: ExportTableRequest.format "at most {} MiB"
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum size of all files that callers download at a time, in bytes: the share of eight organizations.
// proto: none "a bound of the process"
const DOWNLOAD_BYTES_MAX: u64 = 8 * FILE_BYTES_MAX;
/// Bounds of the files that are written at a time, because each one needs up to 512 MiB of the temporary folder with the rows that are
/// collected for it.
const WRITTEN: Bounds = Bounds { total: Amount::permits(4), per_key: Amount::permits(1), waiters: 256 };

/// The exports of this process. Clones share the permits.
#[derive(Debug, Clone)]
pub struct RunningExports {
    pub(crate) written: Permits<OrgId>,
    downloads: Permits<OrgId>,
}

impl Default for RunningExports {
    fn default() -> Self {
        let bytes = |bytes| Amount { permits: usize::MAX, bytes };
        let downloads = Permits::without_queue(bytes(DOWNLOAD_BYTES_MAX), bytes(FILE_BYTES_MAX));
        Self { written: Permits::new(WRITTEN), downloads }
    }
}

impl RunningExports {
    /// Returns the number of files that are written now.
    pub fn count(&self) -> usize {
        self.written.load().permits
    }

    /// Returns the right to write a file. `written`: a permit of [`Self::written`] for the organization.
    pub(crate) fn begin(&self, org: &OrgId, written: Permit<OrgId>) -> ExportPermit {
        ExportPermit { org: org.clone(), written, downloads: self.downloads.clone() }
    }
}

/// The right to write the file of an export.
#[derive(Debug)]
pub(crate) struct ExportPermit {
    org: OrgId,
    written: Permit<OrgId>,
    downloads: Permits<OrgId>,
}

impl ExportPermit {
    /// Exchanges the permit of a complete file for one of its bytes, which the caller keeps until the download ends.
    ///
    /// # Errors
    /// `TOO_LARGE`; `OVERLOADED` if the organization, or all of them, download too many bytes.
    pub(crate) fn finish(self, bytes: u64) -> Result<Permit<OrgId>> {
        let Self { org, written, downloads } = self;
        check_size(bytes)?;
        let reserved = downloads.try_acquire(&org, bytes).map_err(|reason| {
            let whose =
                if reason == RefusalReason::KeyBound { "the organization has" } else { "all organizations have" };
            let message = format!("{whose} too many bytes in exports whose downloads have not ended; retry later");
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
        });
        drop(written);
        reserved
    }
}

/// Checks the size of a file, in bytes.
///
/// # Errors
/// `TOO_LARGE`.
pub(crate) fn check_size(bytes: u64) -> Result<()> {
    if bytes <= FILE_BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("the file of the export has more than {} MiB; export fewer items or less detail", FILE_BYTES_MAX >> 20);
    Err(Error::invalid(Reason::TooLarge, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(exports: &RunningExports, org: &OrgId) -> ExportPermit {
        exports.begin(org, exports.written.try_acquire(org, 0).unwrap())
    }

    #[test]
    fn a_finished_file_takes_bytes_of_its_organization_instead_of_a_permit() {
        let (exports, org, other) = (RunningExports::default(), OrgId::derive(&["org"]), OrgId::derive(&["other"]));
        let written = begin(&exports, &org);
        assert_eq!(exports.clone().count(), 1);
        let download = written.finish(FILE_BYTES_MAX).unwrap();
        assert_eq!(exports.count(), 0);

        let refused = begin(&exports, &org).finish(1).unwrap_err();
        assert!(refused.reason == Reason::Overloaded && refused.is_retriable(), "{refused}");
        assert!(refused.message.starts_with("the organization"), "{refused}");
        assert_eq!(exports.count(), 0, "a refused file has no permit");
        drop(begin(&exports, &other).finish(FILE_BYTES_MAX).unwrap());
        drop(download);
        drop(begin(&exports, &org).finish(1).unwrap());

        let large = begin(&exports, &org).finish(FILE_BYTES_MAX + 1).unwrap_err();
        assert_eq!(large.reason, Reason::TooLarge);
    }
}
