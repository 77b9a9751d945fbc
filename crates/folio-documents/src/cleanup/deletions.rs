//! Sweeps of the deletions of one kind of resources.
//!
//! A pass reads the index of deletions page by page and cleans up each deletion that the store confirms. It skips deletions
//! that are in the memory of earlier passes before it confirms them, so that these cost no read. A pass reaches every row
//! of its times: a sweep that reaches its maximum number of rows, or a page with a failure, leaves the pass to the next
//! sweep, which continues after the last page.
//!
//! | pass | deletions | row of a clean deletion |
//! |---|---|---|
//! | first | since the start of the previous first pass, less [`LATE_MAX`] | stays; the memory contains the deletion |
//! | final | older than the retention; without a retention: all | is removed |
//!
//! A failed clean-up delays no other deletion. The index keeps its row, and the next passes read it again.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use folio_resources::Kind;
use folio_storage::page_token;
use folio_storage::value::DeletionRow;
use folio_types::{Error, Result, Timestamp};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};

use super::Removal;

/// Maximum rows of a page of the index.
const PAGE_ROWS: usize = 100;
/// Maximum concurrent clean-ups of deletions with a retention, most of which delete files. Others run one after another,
/// because their rows delay writes to an embedded store.
const CLEANUPS_AT_ONCE: usize = 4;
/// Maximum time from the time of a deletion to the entry of its row in the index, by the clock of the sweep: the duration
/// of the request, and the difference between the clocks of two processes, which is at most 4 s. A row that is entered
/// later, such as one of a suspended process, is cleaned up by the final pass only.
const LATE_MAX: Duration = Duration::from_secs(15 * 60);

/// The passes over the deletions of one kind. Losing the state only repeats idempotent work.
pub(super) struct Deletions {
    cleaner: PassCleaner,
    /// Time between the first and the final clean-up. None: the first clean-up is final.
    retention: Option<Duration>,
    first_pass: Option<Pass>,
    final_pass: Option<Pass>,
    cleaned: CleanedDeletions,
}

impl Deletions {
    /// Creates the passes of a kind. `batch`: maximum number of rows that a sweep reads in each pass, rounded up to whole
    /// pages.
    pub(super) fn new(removal: Removal, kind: &'static Kind, retention: Option<Duration>, batch: usize) -> Self {
        let at_once = if retention.is_some() { CLEANUPS_AT_ONCE } else { 1 };
        Self {
            cleaner: PassCleaner { removal, kind, page_rows: PAGE_ROWS, batch, at_once },
            retention,
            first_pass: None,
            final_pass: None,
            cleaned: CleanedDeletions { until: Timestamp::MIN, later: BTreeSet::new() },
        }
    }

    /// Continues the passes, or begins new ones. Returns true if a pass reached the maximum of a sweep, so that the next
    /// sweep is due at once.
    ///
    /// Errors: those of reading the index; the next sweep continues the pass. Failed clean-ups are logged.
    pub(super) async fn sweep(&mut self, now: Timestamp) -> Result<bool> {
        let (mut has_more, mut final_until) = (false, Timestamp::MAX);
        if let Some(retention) = self.retention {
            final_until = before(now, retention);
            let from = self.cleaned.until.min(before(now, LATE_MAX)).max(final_until);
            let pass = self.first_pass.get_or_insert_with(|| Pass::new(now, from..=Timestamp::MAX));
            match self.cleaner.run(pass, Some(&mut self.cleaned)).await? {
                PassState::Complete => {
                    self.cleaned.advance(pass.complete_until());
                    self.first_pass = None;
                }
                PassState::Failing => {}
                PassState::Bounded => has_more = true,
            }
        }
        let pass = self.final_pass.get_or_insert_with(|| Pass::new(now, Timestamp::MIN..=final_until));
        match self.cleaner.run(pass, None).await? {
            PassState::Complete => self.final_pass = None,
            PassState::Failing => {}
            PassState::Bounded => has_more = true,
        }
        Ok(has_more)
    }
}

/// Returns the earlier time. Saturates at the first time.
fn before(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

/// A pass over the rows of the index within some times.
struct Pass {
    began: Timestamp,
    times: RangeInclusive<Timestamp>,
    /// The last row of the last page. None: the pass has read no page.
    after: Option<DeletionRow>,
    /// Time of the earliest deletion whose clean-up failed.
    earliest_failed: Option<Timestamp>,
}

impl Pass {
    fn new(began: Timestamp, times: RangeInclusive<Timestamp>) -> Self {
        Self { began, times, after: None, earliest_failed: None }
    }

    /// Returns the time before which the complete pass leaves no deletion to a later pass.
    fn complete_until(&self) -> Timestamp {
        let entered = before(self.began, LATE_MAX);
        self.earliest_failed.map_or(entered, |failed| failed.min(entered))
    }

    fn fail(&mut self, at: Timestamp) {
        self.earliest_failed = Some(self.earliest_failed.map_or(at, |earliest| earliest.min(at)));
    }
}

/// The state of a pass after a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PassState {
    Complete,
    /// A clean-up on the last page failed. The pass continues with the next sweep, because the store may be unavailable.
    Failing,
    /// The sweep reached its maximum number of rows.
    Bounded,
}

/// The deletions whose first clean-up is complete: those before a time, and some later ones.
///
/// A later deletion takes 16 bytes, and some more in the set. The set contains the deletions of [`LATE_MAX`] and of the time
/// between two passes. During a pass that takes several sweeps, and while the clean-up of a deletion fails, it grows to
/// the deletions of the retention: 16 MB for a million.
struct CleanedDeletions {
    until: Timestamp,
    /// The time in microseconds and a digest of each deletion.
    later: BTreeSet<(i64, u64)>,
}

impl CleanedDeletions {
    fn entry(row: &DeletionRow) -> (i64, u64) {
        let digest = page_token::digest(&[row.org.as_str().as_bytes(), row.id.as_bytes()]);
        (row.at.as_microsecond(), u64::from_be_bytes(digest))
    }

    fn contains(&self, row: &DeletionRow) -> bool {
        self.later.contains(&Self::entry(row))
    }

    fn insert(&mut self, row: &DeletionRow) {
        self.later.insert(Self::entry(row));
    }

    /// Replaces the entries before a time by the time.
    fn advance(&mut self, until: Timestamp) {
        self.until = until;
        self.later = self.later.split_off(&(until.as_microsecond(), 0));
    }
}

/// The clean-up of the deletions of a pass.
struct PassCleaner {
    removal: Removal,
    kind: &'static Kind,
    page_rows: usize,
    /// Maximum rows of a sweep, rounded up to whole pages.
    batch: usize,
    /// Maximum concurrent clean-ups.
    at_once: usize,
}

impl PassCleaner {
    /// Reads pages until the end of the pass, the maximum of a sweep, or a failure. `cleaned`: the deletions that the pass
    /// skips, and those that it cleaned up. None: the pass is final.
    async fn run(&self, pass: &mut Pass, mut cleaned: Option<&mut CleanedDeletions>) -> Result<PassState> {
        let (resources, is_final) = (&self.removal.stores.resources, cleaned.is_none());
        let mut read = 0;
        loop {
            let mut rows =
                resources.indexed_deletions(self.kind, &pass.times, pass.after.as_ref(), self.page_rows).await?;
            let is_last = rows.len() < self.page_rows;
            let last = rows.last().cloned();
            read += rows.len();
            if let Some(cleaned) = cleaned.as_deref() {
                rows.retain(|row| !cleaned.contains(row));
            }
            let mut failures = Vec::new();
            for (row, result) in self.clean_page(rows, is_final).await {
                match result {
                    Ok(true) => {
                        if let Some(cleaned) = cleaned.as_deref_mut() {
                            cleaned.insert(&row);
                        }
                    }
                    // A later pass reads the row again unless the store removed it.
                    Ok(false) => {}
                    Err(error) => {
                        pass.fail(row.at);
                        failures.push((row, error));
                    }
                }
            }
            self.report(&failures);
            pass.after = last.or(pass.after.take());
            if is_last {
                return Ok(PassState::Complete);
            }
            if !failures.is_empty() {
                return Ok(PassState::Failing);
            }
            if read >= self.batch {
                return Ok(PassState::Bounded);
            }
        }
    }

    /// Cleans up the deletions of a page, in any order. Returns for each whether it was confirmed.
    async fn clean_page(&self, rows: Vec<DeletionRow>, is_final: bool) -> Vec<(DeletionRow, Result<bool>)> {
        let mut cleanups: Vec<BoxFuture<'_, (DeletionRow, Result<bool>)>> = Vec::with_capacity(rows.len());
        for row in rows {
            cleanups.push(self.clean(row, is_final).boxed());
        }
        stream::iter(cleanups).buffer_unordered(self.at_once).collect().await
    }

    async fn clean(&self, row: DeletionRow, is_final: bool) -> (DeletionRow, Result<bool>) {
        let result = self.confirm_and_remove(&row, is_final).await;
        (row, result)
    }

    async fn confirm_and_remove(&self, row: &DeletionRow, is_final: bool) -> Result<bool> {
        let is_confirmed = self.removal.stores.resources.confirm_deletion(self.kind, row).await?;
        if is_confirmed {
            self.removal.run(self.kind, row, is_final).await?;
        }
        Ok(is_confirmed)
    }

    /// Logs the first failure of a page.
    fn report(&self, failures: &[(DeletionRow, Error)]) {
        if let Some((row, error)) = failures.first() {
            let (kind, failed) = (self.kind.name, failures.len());
            tracing::warn!(kind, failed, org = %row.org, id = row.id, %error, "cannot clean up deletions; a later sweep retries");
        }
    }
}

#[cfg(test)]
mod tests;
