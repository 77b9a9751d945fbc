//! Budget of the model calls of a turn, a job or a request, checked before credit is reserved.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use folio_credit::{Budget, Share};
use folio_storage::BudgetStore;
use folio_types::{BudgetPart, Error, OrgId, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::{Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// The part of a budget that pays for calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BudgetScope(Source);

#[derive(Debug, Clone)]
enum Source {
    Stored {
        store: BudgetStore,
        org: OrgId,
        part: BudgetPart,
    },
    /// Only this process makes calls.
    InMemory(Arc<Mutex<Budget>>),
}

impl BudgetScope {
    pub fn new(store: BudgetStore, org: OrgId, part: BudgetPart) -> Self {
        Self(Source::Stored { store, org, part })
    }

    /// Creates the budget of one attempt of a request whose calls this process makes. It ends with the process.
    pub fn of_request(credits: u64) -> Self {
        Self(Source::InMemory(Arc::new(Mutex::new(Budget::new(1, credits)))))
    }

    fn path(&self) -> &str {
        match &self.0 {
            Source::Stored { part, .. } => &part.path,
            Source::InMemory(_) => "",
        }
    }

    async fn change(&self, change: impl Fn(&mut Budget) -> Result<()> + Send + Sync) -> Result<()> {
        match &self.0 {
            Source::Stored { store, org, part } => store.change(org, part, change).await,
            Source::InMemory(budget) => change(&mut budget.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Gives the part its credits, as [`Budget::grant`] does. Before this, returns the unused credits of the siblings for whose
    /// names `has_ended` is true.
    ///
    /// # Errors
    /// Those of [`Budget::grant`]. After `STORE_UNAVAILABLE` the part may have its credits; the call can be repeated.
    pub async fn grant(&self, share: Share, has_ended: impl Fn(&str) -> bool + Send + Sync) -> Result<()> {
        let path = self.path();
        let grant = |budget: &mut Budget| {
            budget.take_back_ended(path, &has_ended);
            budget.grant(path, share)
        };
        self.change(grant).await
    }

    /// Returns the rest of the part, and of its own parts, to its parent. Idempotent. Calls that are not settled count as used.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` the call can be repeated.
    pub async fn take_back(&self) -> Result<()> {
        let path = self.path();
        let take_back = |budget: &mut Budget| {
            budget.take_back(path);
            Ok(())
        };
        self.change(take_back).await
    }

    async fn reserve(&self, key: &str, credits: u64) -> Result<()> {
        let path = self.path();
        self.change(|budget: &mut Budget| budget.reserve(path, key, credits)).await
    }

    /// A failure is harmless: the call counts with its maximum price.
    async fn settle(&self, key: &str, charge: u64) {
        let path = self.path();
        let settle = |budget: &mut Budget| {
            budget.settle(path, key, charge);
            Ok(())
        };
        if let Err(error) = self.change(settle).await {
            tracing::warn!(key, %error, "a model call counts with its maximum price in its credit budget");
        }
    }
}

/// Reserves the maximum price of a call in a budget before it requests a permit from the inner meter.
#[derive(Clone)]
pub struct BudgetMeter {
    inner: SharedMeter,
    scope: BudgetScope,
    /// Owner of the tasks that write reservations, and of those that return the reservations of dropped requests.
    tasks: TaskTracker,
}

impl std::fmt::Debug for BudgetMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BudgetMeter").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl BudgetMeter {
    pub fn new(inner: SharedMeter, scope: BudgetScope, tasks: TaskTracker) -> Self {
        Self { inner, scope, tasks }
    }

    /// Starts the write of the reservation of a call.
    fn reserve(&self, call: &MeteredCall) -> UnpermittedCall {
        let (scope, key, credits) = (self.scope.clone(), call.key.clone(), self.max_price(call));
        let write = async move { scope.reserve(&key, credits).await };
        UnpermittedCall {
            scope: self.scope.clone(),
            key: call.key.clone(),
            tasks: self.tasks.clone(),
            write: Some(self.tasks.spawn(write.in_current_span())),
            is_open: true,
        }
    }
}

/// The reservation of a call that has no permit yet. Dropping it returns the reservation in a background task.
struct UnpermittedCall {
    scope: BudgetScope,
    key: String,
    tasks: TaskTracker,
    /// The write of the reservation, in a task of its own: a write that a dropped caller interrupts may be stored after the
    /// reservation was returned. None: it has ended.
    write: Option<JoinHandle<Result<()>>>,
    /// If false, a permit was issued, or nothing is reserved.
    is_open: bool,
}

impl UnpermittedCall {
    /// Waits until the reservation is stored.
    async fn stored(&mut self) -> Result<()> {
        let Some(write) = &mut self.write else { return Ok(()) };
        let result = write.await;
        self.write = None;
        result.unwrap_or_else(|error| Err(Error::internal(format!("the task of a reservation failed: {error}"))))
    }

    async fn settle_as_not_sent(&self) {
        self.scope.settle(&self.key, 0).await;
    }
}

impl Drop for UnpermittedCall {
    fn drop(&mut self) {
        let Some(runtime) = Handle::try_current().ok().filter(|_| self.is_open) else { return };
        let (scope, key, write) = (self.scope.clone(), std::mem::take(&mut self.key), self.write.take());
        let settle = async move {
            if let Some(write) = write {
                // The settlement finds nothing if the write failed.
                let _ = write.await;
            }
            scope.settle(&key, 0).await;
        };
        self.tasks.spawn_on(settle, &runtime);
    }
}

#[async_trait]
impl Meter for BudgetMeter {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.inner.max_price(call)
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        self.inner.charge(call, settlement)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        let mut unpermitted = self.reserve(&call);
        unpermitted.stored().await?;
        let permit = self.inner.request_permit(call).await;
        if permit.is_err() {
            unpermitted.settle_as_not_sent().await;
        }
        unpermitted.is_open = false;
        permit
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        let key = permit.call.key.clone();
        let charge = self.inner.settle(permit, settlement).await?;
        self.scope.settle(&key, charge).await;
        Ok(charge)
    }
}
