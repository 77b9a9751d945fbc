//! A store whose operations wait until a scheduler chooses their fate.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_credit::{Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome};
use folio_storage::CreditStore;
use folio_types::{BlockId, Error, OrgId, Reason, Result};
use futures::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    AnswerLost,
    Later,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issuer {
    Node(usize),
    /// An operation of any node that is executed late.
    Late,
}

pub(crate) struct Waiting {
    pub(crate) issuer: Issuer,
    pub(crate) writes: bool,
    pub(crate) fate_sender: oneshot::Sender<Fate>,
}

#[derive(Default)]
pub(crate) struct Steps {
    waiting: Mutex<Vec<Waiting>>,
    /// Number of tasks that wait or will wait. Each task has at most one operation.
    live: AtomicUsize,
    changed: Notify,
}

/// Counts a task as live until it is dropped.
pub(crate) struct Live(Arc<Steps>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

impl Steps {
    pub(crate) fn live(self: &Arc<Self>) -> Live {
        self.live.fetch_add(1, Ordering::SeqCst);
        Live(Arc::clone(self))
    }

    async fn wait(&self, issuer: Issuer, writes: bool) -> Fate {
        let (fate_sender, fate) = oneshot::channel();
        self.waiting.lock().unwrap().push(Waiting { issuer, writes, fate_sender });
        self.changed.notify_one();
        fate.await.unwrap_or(Fate::Never)
    }

    /// Waits until every live task waits, then removes and returns their operations. [`Self::put_back`] restores them.
    pub(crate) async fn all_wait(&self) -> Vec<Waiting> {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap();
                if waiting.len() == self.live.load(Ordering::SeqCst) {
                    return std::mem::take(&mut *waiting);
                }
            }
            self.changed.notified().await;
        }
    }

    pub(crate) fn drop_dead_tasks(&self) {
        self.waiting.lock().unwrap().retain(|waiting| waiting.issuer == Issuer::Late);
    }

    pub(crate) fn put_back(&self, waiting: Vec<Waiting>) {
        self.waiting.lock().unwrap().extend(waiting);
    }
}

#[derive(Clone)]
pub(crate) struct ScheduledStore {
    pub(crate) inner: Arc<dyn CreditStore>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) node: usize,
}

impl ScheduledStore {
    async fn step<T: Send + 'static>(&self, writes: bool, operation: BoxFuture<'static, Result<T>>) -> Result<T> {
        let unknown = || Err(Error::unavailable(Reason::StoreUnavailable, "no answer"));
        match self.steps.wait(Issuer::Node(self.node), writes).await {
            Fate::Done => operation.await,
            Fate::Never => unknown(),
            Fate::AnswerLost => {
                let _ = operation.await;
                unknown()
            }
            Fate::Later => {
                let (steps, live) = (Arc::clone(&self.steps), self.steps.live());
                tokio::spawn(async move {
                    let _live = live;
                    if steps.wait(Issuer::Late, true).await == Fate::Done {
                        let _ = operation.await;
                    }
                });
                unknown()
            }
        }
    }
}

#[async_trait]
impl CreditStore for ScheduledStore {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        let (inner, org) = (Arc::clone(&self.inner), org.clone());
        self.step(false, Box::pin(async move { inner.account(&org).await })).await
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChangeOutcome> {
        let inner = Arc::clone(&self.inner);
        self.step(true, Box::pin(async move { inner.change_account(change).await })).await
    }

    async fn entries(&self, org: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<AccountEntry>> {
        let (inner, org, prefix) = (Arc::clone(&self.inner), org.clone(), prefix.to_owned());
        let after = after.map(str::to_owned);
        let read = async move { inner.entries(&org, &prefix, after.as_deref(), limit).await };
        self.step(false, Box::pin(read)).await
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<ReserveOutcome> {
        let (inner, org, block) = (Arc::clone(&self.inner), org.clone(), block.clone());
        self.step(true, Box::pin(async move { inner.reserve(&org, &block, row).await })).await
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let (inner, org, block) = (Arc::clone(&self.inner), org.clone(), block.clone());
        self.step(true, Box::pin(async move { inner.settle(&org, &block, row).await })).await
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        let (inner, org, block) = (Arc::clone(&self.inner), org.clone(), block.clone());
        self.step(true, Box::pin(async move { inner.seal(&org, &block).await })).await
    }

    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let (inner, org, block) = (Arc::clone(&self.inner), org.clone(), block.clone());
        self.step(false, Box::pin(async move { inner.ledger(&org, &block).await })).await
    }
}
