//! In-memory reference model of the credit and usage stores.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use folio_credit::{
    Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome, SettleDecision,
};
use folio_storage::{CreditStore, HourSums, UsageHour, UsageRecord, UsageStore};
use folio_types::{BlockId, OrgId, Result, Timestamp};

#[derive(Default)]
struct Rows {
    account: Account,
    entries: BTreeMap<String, AccountEntry>,
    blocks: BTreeMap<BlockId, (bool, BTreeMap<String, LedgerRow>)>,
}

/// The credit rows of one organization.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Rows>);

impl Memory {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl CreditStore for Memory {
    async fn account(&self, _org: &OrgId) -> Result<Account> {
        Ok(self.rows().account.clone())
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChangeOutcome> {
        let mut rows = self.rows();
        if let Some(answer) = change.outcome(rows.entries.get(&change.entry.key()).cloned(), rows.account.version) {
            return Ok(answer);
        }
        rows.account = change.account;
        rows.entries.insert(change.entry.key(), change.entry);
        Ok(AccountChangeOutcome::Done)
    }

    async fn entries(&self, _: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<AccountEntry>> {
        let rows = self.rows();
        let wanted = |key: &str| key.starts_with(prefix) && after.is_none_or(|after| key > after);
        let found = rows.entries.iter().filter(|(key, _)| wanted(key.as_str()));
        Ok(found.map(|(_, entry)| entry.clone()).take(limit).collect())
    }

    async fn reserve(&self, _org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<ReserveOutcome> {
        let mut rows = self.rows();
        let (sealed, ledger) = rows.blocks.entry(block.clone()).or_default();
        if let Some(answer) = row.reserve(ledger.get(&row.key).cloned(), *sealed) {
            return Ok(answer);
        }
        ledger.insert(row.key.clone(), row);
        Ok(ReserveOutcome::Done)
    }

    async fn settle(&self, _org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let mut rows = self.rows();
        let (_, ledger) = rows.blocks.entry(block.clone()).or_default();
        let settled_row = match row.settle(ledger.get(&row.key).cloned())? {
            SettleDecision::Stored(stored) => return Ok(stored),
            SettleDecision::End(row) | SettleDecision::Abandon(row) => row,
        };
        ledger.insert(settled_row.key.clone(), settled_row.clone());
        Ok(settled_row)
    }

    async fn seal(&self, _org: &OrgId, block: &BlockId) -> Result<()> {
        self.rows().blocks.entry(block.clone()).or_default().0 = true;
        Ok(())
    }

    async fn ledger(&self, _org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let found = self.rows().blocks.get(block).cloned().unwrap_or_default();
        Ok(Ledger { sealed: found.0, rows: found.1.into_values().collect() })
    }
}

/// Usage records by key.
#[derive(Default)]
pub(crate) struct Records(Mutex<BTreeMap<String, UsageRecord>>);

#[async_trait]
impl UsageStore for Records {
    async fn record(&self, record: UsageRecord, _now: Timestamp) -> Result<()> {
        self.0.lock().unwrap().entry(record.key.clone()).or_insert(record);
        Ok(())
    }

    async fn list(&self, _org: &OrgId, _from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        Ok(self.0.lock().unwrap().values().take(limit).cloned().collect())
    }

    async fn hours(&self, _org: &OrgId, _from: Timestamp, _limit: usize) -> Result<Vec<UsageHour>> {
        Ok(Vec::new())
    }

    async fn put_sums(&self, _org: &OrgId, _start: Timestamp, _sums: HourSums) -> Result<()> {
        Ok(())
    }
}
