//! The work of jobs.

use async_trait::async_trait;
use folio_history::job::{ItemRun, JobHeader, JobItem, Steps, WaitReason};
use folio_types::limits::JOB_FAILURES_MAX;
use folio_types::{Error, Principal, Reason, Result, Role};
use serde_json::Value;
use tokio::sync::watch;

/// An attempt of an item.
#[derive(Debug, Clone)]
pub struct ItemTask {
    /// The job when the attempt began.
    pub job: JobHeader,
    /// The principal of the job with its role at the start.
    pub principal: Principal,
    pub run: ItemRun,
    /// Receives the progress of the attempt. The owner stores the newest value periodically.
    pub steps: watch::Sender<Option<Steps>>,
    /// Receives a record of the attempt. If the attempt fails, the newest record is stored as the outcome of the item,
    /// until a later attempt replaces it.
    pub record: watch::Sender<Option<Value>>,
}

impl ItemTask {
    /// Returns the item when the attempt began.
    pub fn item(&self) -> Option<&JobItem> {
        self.job.items.get(self.job.index_of(self.run.item)?)
    }

    /// Returns true if the job does not attempt the item again after an error.
    pub fn is_last_attempt(&self, error: &Error) -> bool {
        let failures = self.item().map_or(0, |item| item.failures).saturating_add(1);
        let is_last = !error.is_retriable() || failures >= JOB_FAILURES_MAX;
        // The write of the attempt's failure is refused if the job is paused.
        is_last && wait_reason(error).is_none() && error.reason != Reason::JobPaused
    }

    /// Returns the subject of the item.
    ///
    /// # Errors
    /// `INTERNAL` if the current page of the job has no item of this number.
    pub fn subject(&self) -> Result<&str> {
        let item = self.item().ok_or_else(|| Error::internal("an item of a job has no subject"))?;
        Ok(item.id.as_str())
    }
}

/// One kind of job.
#[async_trait]
pub trait JobKind: Send + Sync {
    /// Returns the name in [`JobHeader::kind`].
    fn name(&self) -> &'static str;

    /// Returns the role that the principal needs at each start.
    fn role_min(&self) -> Role;

    /// Runs an item and returns its outcome. An outcome with the member `skipped` states the reason for which the item had no
    /// effect. The future is dropped when the job is cancelled, paused or taken over, and the
    /// item is attempted again. An effect must therefore be written under [`ItemRun::effect`], which is the same for all
    /// attempts, and model calls under [`ItemRun::ledger_key`].
    ///
    /// # Errors
    /// A lack of credit or capacity makes the job wait. An item that waits for decisions or for another job (`JOB_OPEN`) delays no
    /// other item. Another retriable error repeats the item a few times.
    async fn run_item(&self, task: ItemTask) -> Result<Value>;

    /// Ends the work that the items of the current page left open. The sweep calls it for each ended job before the job leaves the
    /// index, whatever ended the job: its last item, a user, a limit, or a lost role. The owner calls it before the job leaves a
    /// page, all of whose items have ended. It is called again after an error or a crash, so it must be idempotent. Default: no
    /// work is left open.
    ///
    /// # Errors
    /// The next sweep, or the next start of the job, repeats the call.
    async fn end_job(&self, _job: &JobHeader) -> Result<()> {
        Ok(())
    }
}

/// Returns true if only the item waits, so that others of its job may run: for decisions, or for another job.
pub(crate) fn is_wait_of_item(error: &Error) -> bool {
    matches!(error.reason, Reason::TurnPending | Reason::JobOpen)
}

/// Returns the reason for which a job waits after an error of an item. None: the attempt failed.
pub fn wait_reason(error: &Error) -> Option<WaitReason> {
    match error.reason {
        Reason::CreditExhausted => Some(WaitReason::Credit),
        Reason::QuotaExceeded | Reason::Overloaded | Reason::QueueFull | Reason::ModelRateLimited => {
            Some(WaitReason::Limit)
        }
        // Another job does the work of the item.
        Reason::JobOpen => Some(WaitReason::Limit),
        // Without an attempt, the delivery ends.
        Reason::WebhookFailed if error.is_retriable() => Some(WaitReason::Limit),
        Reason::StoreUnavailable | Reason::ModelUnavailable => Some(WaitReason::Store),
        Reason::TurnPending => Some(WaitReason::Approval),
        _ => None,
    }
}
