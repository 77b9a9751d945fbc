//! Credit: each operation is one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use folio_credit::{
    Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome, SettleDecision,
};
use folio_types::{BlockId, OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use super::value::Empty;
use folio_storage::CreditStore;

pub(crate) struct Credits(pub(crate) Arc<Engine>);

#[async_trait]
impl CreditStore for Credits {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        let key = keys::account(org);
        let account = self.0.scan(move |view| view.read(Space::Records, &key)).await?;
        Ok(account.unwrap_or_default())
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChangeOutcome> {
        let (account_key, entry_key) =
            (keys::account(&change.org), keys::account_entry(&change.org, &change.entry.key()));
        self.0
            .write(move |transaction| {
                let version = transaction.read::<Account>(Space::Records, &account_key)?.map_or(0, |now| now.version);
                if let Some(answer) = change.outcome(transaction.read(Space::Records, &entry_key)?, version) {
                    return Ok(answer);
                }
                transaction.put(Space::Records, account_key, &change.account)?;
                transaction.put(Space::Records, entry_key, &change.entry)?;
                Ok(AccountChangeOutcome::Done)
            })
            .await
    }

    async fn entries(&self, org: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<AccountEntry>> {
        let mut range = Range::prefix(Space::Records, keys::account_entry(org, prefix));
        if let Some(after) = after {
            range = range.after(keys::account_entry(org, after));
        }
        self.0.scan(move |view| view.values(range, limit)).await
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<ReserveOutcome> {
        let (sealed, key) = (keys::sealed_block(org, block), keys::ledger_row(org, block, &row.key));
        self.0
            .write(move |transaction| {
                let sealed = transaction.contains(Space::Records, &sealed)?;
                if let Some(answer) = row.reserve(transaction.read(Space::Records, &key)?, sealed) {
                    return Ok(answer);
                }
                transaction.put(Space::Records, key, &row)?;
                Ok(ReserveOutcome::Done)
            })
            .await
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let key = keys::ledger_row(org, block, &row.key);
        self.0
            .write(move |transaction| {
                let ends = match row.settle(transaction.read(Space::Records, &key)?)? {
                    SettleDecision::Stored(stored) => return Ok(stored),
                    SettleDecision::End(row) | SettleDecision::Abandon(row) => row,
                };
                transaction.put(Space::Records, key, &ends)?;
                Ok(ends)
            })
            .await
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        let key = keys::sealed_block(org, block);
        self.0.write(move |transaction| transaction.put(Space::Records, key, &Empty)).await
    }

    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let (sealed, rows) = (keys::sealed_block(org, block), keys::ledger(org, block));
        self.0
            .scan(move |view| {
                let sealed = view.contains(Space::Records, &sealed)?;
                let rows = view.values(Range::prefix(Space::Records, rows), usize::MAX)?;
                Ok(Ledger { sealed, rows })
            })
            .await
    }
}
