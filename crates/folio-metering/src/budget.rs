//! Budget of the model calls of a turn or a job, checked before credit is reserved.

use async_trait::async_trait;
use folio_credit::Budget;
use folio_storage::{BudgetRoot, BudgetStore};
use folio_types::{OrgId, Result};

use crate::{Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// The budget that pays for calls: that of a root, or the part of one child of the root. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BudgetScope {
    store: BudgetStore,
    org: OrgId,
    root: BudgetRoot,
    /// Credits of the root.
    credits: u64,
    /// None: the calls are those of the root itself.
    child: Option<String>,
}

impl BudgetScope {
    pub fn new(store: BudgetStore, org: OrgId, root: BudgetRoot, credits: u64) -> Self {
        Self { store, org, root, credits, child: None }
    }

    /// Gives a child its part, as [`Budget::grant`] does, and returns the scope of the child. Before this, returns the unused
    /// credits of the parts of the children for which `has_ended` is true to the root.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` the child may have its part; the call can be repeated.
    pub async fn grant(
        &self,
        child: String,
        open: u64,
        has_ended: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<Self> {
        let grant = |budget: &mut Budget| {
            let ended: Vec<String> = budget.parts.keys().filter(|name| has_ended(name)).cloned().collect();
            ended.iter().for_each(|name| budget.take_back(name));
            budget.grant(&child, open)
        };
        self.store.change(&self.org, &self.root, self.credits, grant).await?;
        Ok(Self { child: Some(child), ..self.clone() })
    }

    /// Returns the rest of the child's part to the root. Idempotent. Calls of the child that are not settled count as used.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` the call can be repeated.
    pub async fn take_back(&self) -> Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        let take_back = |budget: &mut Budget| {
            budget.take_back(child);
            Ok(())
        };
        self.store.change(&self.org, &self.root, self.credits, take_back).await
    }

    async fn reserve(&self, key: &str, credits: u64) -> Result<()> {
        let reserve = |budget: &mut Budget| budget.reserve(self.child.as_deref(), key, credits);
        self.store.change(&self.org, &self.root, self.credits, reserve).await
    }

    /// A failure is harmless: the call counts with its maximum price.
    async fn settle(&self, key: &str, charge: u64) {
        let settle = |budget: &mut Budget| {
            budget.settle(self.child.as_deref(), key, charge);
            Ok(())
        };
        if let Err(error) = self.store.change(&self.org, &self.root, self.credits, settle).await {
            tracing::warn!(org = %self.org, key, %error, "a model call counts with its maximum price in its credit budget");
        }
    }
}

/// Reserves the maximum price of a call in a budget before it requests a permit from the inner meter. If a request for a
/// permit is dropped, its reservation counts as used.
#[derive(Clone)]
pub struct BudgetMeter {
    inner: SharedMeter,
    scope: BudgetScope,
}

impl std::fmt::Debug for BudgetMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BudgetMeter").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl BudgetMeter {
    pub fn new(inner: SharedMeter, scope: BudgetScope) -> Self {
        Self { inner, scope }
    }
}

#[async_trait]
impl Meter for BudgetMeter {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.inner.max_price(call)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        let key = call.key.clone();
        self.scope.reserve(&key, self.max_price(&call)).await?;
        let permit = self.inner.request_permit(call).await;
        if permit.is_err() {
            self.scope.settle(&key, 0).await;
        }
        permit
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        let key = permit.call.key.clone();
        let charge = self.inner.settle(permit, settlement).await?;
        self.scope.settle(&key, charge).await;
        Ok(charge)
    }
}
