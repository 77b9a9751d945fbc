//! Faults of [`CreditStore`].

use async_trait::async_trait;
use folio_credit::LedgerRow;
use folio_storage::{AccountChange, AccountChanged, CreditStore, Reserved};
use folio_types::{BlockId, OrgId, Result};

use crate::layer::CreditLayer;

#[derive(Default)]
pub(super) struct AccountVersionIgnored;

#[async_trait]
impl CreditLayer for AccountVersionIgnored {
    async fn change_account(&self, below: &dyn CreditStore, mut change: AccountChange) -> Result<AccountChanged> {
        match below.change_account(change.clone()).await? {
            AccountChanged::Moved => {
                change.expected = below.account(&change.org).await?.version;
                change.account.version = change.expected + 1;
                below.change_account(change).await
            }
            changed => Ok(changed),
        }
    }
}

#[derive(Default)]
pub(super) struct SealIgnored;

#[async_trait]
impl CreditLayer for SealIgnored {
    async fn reserve(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved> {
        match below.reserve(org, block, row).await? {
            Reserved::Sealed => Ok(Reserved::Done),
            reserved => Ok(reserved),
        }
    }
}

#[derive(Default)]
pub(super) struct SettledAgain;

#[async_trait]
impl CreditLayer for SettledAgain {
    async fn settle(&self, below: &dyn CreditStore, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let first = below.settle(org, block, row.clone()).await?;
        Ok(if first.permit == row.permit { row } else { first })
    }
}
