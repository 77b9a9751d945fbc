//! Faults of [`CreditStore`].

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use folio_credit::{AccountChange, AccountChangeOutcome, Ledger, LedgerRow, ReserveOutcome};
use folio_storage::CreditStore;
use folio_types::{BlockId, OrgId, Result};

use crate::layer::CreditLayer;

#[derive(Default)]
pub(super) struct AccountVersionIgnored;

#[async_trait]
impl CreditLayer for AccountVersionIgnored {
    async fn change_account(&self, below: &dyn CreditStore, mut change: AccountChange) -> Result<AccountChangeOutcome> {
        match below.change_account(change.clone()).await? {
            AccountChangeOutcome::VersionMismatch => {
                change.expected = below.account(&change.org).await?.version;
                change.account.version = change.expected + 1;
                below.change_account(change).await
            }
            changed => Ok(changed),
        }
    }
}

#[derive(Default)]
pub(super) struct ReservationMissing;

#[async_trait]
impl CreditLayer for ReservationMissing {
    async fn reserve(
        &self,
        _below: &dyn CreditStore,
        _org: &OrgId,
        _block: &BlockId,
        _row: LedgerRow,
    ) -> Result<ReserveOutcome> {
        Ok(ReserveOutcome::Done)
    }
}

/// A store whose reservations ignore seals: the store does not store a seal, but returns the block as sealed to the process that
/// sealed it.
#[derive(Default)]
pub(super) struct SealIgnored(Mutex<HashSet<BlockId>>);

#[async_trait]
impl CreditLayer for SealIgnored {
    async fn seal(&self, _below: &dyn CreditStore, _org: &OrgId, block: &BlockId) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(block.clone());
        Ok(())
    }

    async fn ledger(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let mut ledger = below.ledger(org, block).await?;
        ledger.sealed |= self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(block);
        Ok(ledger)
    }
}

/// A store that keeps the second settlement of a row: the first settlement is not stored, but the store returns it to the process
/// that sent it.
#[derive(Default)]
pub(super) struct SettlementRepeated(Mutex<HashMap<(BlockId, String), LedgerRow>>);

#[async_trait]
impl CreditLayer for SettlementRepeated {
    async fn settle(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let key = (block.clone(), row.key.clone());
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, row.clone());
        if first.is_some() { below.settle(org, block, row).await } else { Ok(row) }
    }

    async fn ledger(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let mut ledger = below.ledger(org, block).await?;
        let settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for row in ledger.rows.iter_mut().filter(|row| row.settled.is_none()) {
            if let Some(first) = settled.get(&(block.clone(), row.key.clone())) {
                row.clone_from(first);
            }
        }
        Ok(ledger)
    }
}
