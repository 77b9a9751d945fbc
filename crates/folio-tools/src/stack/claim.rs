//! The claim of a row by an attempt of an item: only one job runs a turn for a row at a time.
//!
//! Several jobs may have an item for the same row, such as those of two changes in quick succession. An attempt records itself before
//! it creates the thread of its turn, under the condition that no other attempt has recorded itself since it read the last one.
//!
//! | last recorded attempt | the attempt |
//! |---|---|
//! | none, or one of the same job | records itself |
//! | of a job whose item runs, or whose turn is open | waits, and is repeated |
//! | of another job, and over | records itself |
//!
//! Each attempt of an item records itself, also after an earlier one of its job. So a job that continues an item excludes a job that read
//! the earlier attempt as over.

use folio_history::job::{ItemRun, ItemState, JobState};
use folio_storage::Stores;
use folio_storage::value::RowFill;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, StackId};

use super::fill::thread_of;

/// Maximum number of records that meet other records.
const RECORDS_MAX: usize = 8;

/// Claims the row of a document for an attempt. Idempotent.
///
/// # Errors
/// `JOB_OPEN` while another job fills the row: the item waits. `STORE_UNAVAILABLE` if many attempts meet.
pub(super) async fn claim_row(
    stores: &Stores,
    org: &OrgId,
    (stack, document): (&StackId, &DocumentId),
    run: &ItemRun,
) -> Result<()> {
    let (fills, own) = (stores.row_fills(), RowFill { job: run.job.clone(), epoch: run.epoch, attempt: run.attempt });
    for _ in 0..RECORDS_MAX {
        let last = fills.last(org, stack, document).await?;
        if let Some(other) = last.as_ref().map(|last| &last.fill) {
            if *other == own {
                return Ok(());
            }
            if other.job != own.job && is_active(stores, org, document, other).await? {
                let message = format!("the job {} fills the row; the item waits for it", other.job);
                return Err(Error::precondition(Reason::JobOpen, message).detail("id", &other.job));
            }
        }
        if fills.record(org, (stack, document), last, &own).await? {
            return Ok(());
        }
    }
    Err(Error::unavailable(Reason::StoreUnavailable, "several jobs begin to fill a row at the same time"))
}

/// Returns true if an attempt may still run its turn. The job is read first: its item runs from before the start of the turn until
/// the turn is open or over.
async fn is_active(stores: &Stores, org: &OrgId, document: &DocumentId, attempt: &RowFill) -> Result<bool> {
    let job = stores.jobs.header(org, &attempt.job).await?;
    let runs_item = job.is_some_and(|job| {
        let is_running = job.items.iter().any(|item| item.id == document.as_str() && item.state == ItemState::Running);
        job.state == JobState::Running && is_running
    });
    if runs_item {
        return Ok(true);
    }
    let thread = stores.threads.header(org, &thread_of(org, &attempt.job, document)).await?;
    Ok(thread.is_some_and(|thread| thread.open_turn.is_some()))
}
