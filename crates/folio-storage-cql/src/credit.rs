//! Credit: each write is one conditional batch in one partition. After an unknown outcome, the row of the write is
//! read. The write is repeated only if that row is missing and the condition is still fulfilled.

use std::sync::Arc;

use async_trait::async_trait;
use folio_credit::{
    Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome, SettleDecision,
};
use folio_types::{BlockId, OrgId, Result};

use super::keyspace::Keyspace;
use super::retry;
use super::session::ConditionalResult;
use super::table::ENDED;
use folio_storage::CreditStore;
use folio_storage::value::{decode, encode};

/// Time to live of the entry of a drawn or closed block, in seconds: far longer than a batch can be late. All entries of an
/// organization are in one partition. A node adds two for each block, thus about two in a minute.
const BLOCK_ENTRY_SECONDS: i32 = 24 * 60 * 60;

pub(crate) struct Credits(pub(crate) Arc<Keyspace>);

impl Credits {
    async fn row(&self, org: &OrgId, block: &BlockId, key: &str) -> Result<Option<LedgerRow>> {
        self.0.tables.credit.row(org, block, key).await?.map(|bytes| decode(&bytes)).transpose()
    }

    async fn pause(&self, attempt: u32) {
        retry::pause(attempt, self.0.random()).await;
    }
}

#[async_trait]
impl CreditStore for Credits {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        let account = self.0.tables.credit.account(org).await?;
        Ok(account.map(|bytes| decode(&bytes)).transpose()?.unwrap_or_default())
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChangeOutcome> {
        let AccountChange { org, expected, account, entry } = &change;
        let (key, ttl_seconds) = (entry.key(), if entry.is_permanent() { 0 } else { BLOCK_ENTRY_SECONDS });
        let (value, entry) = (encode(account)?, encode(entry)?);
        for attempt in 0..retry::ATTEMPTS {
            let batch = vec![
                self.0.tables.credit.change(org, *expected, account.version, value.clone()),
                self.0.tables.credit.enter(org, &key, entry.clone(), ttl_seconds),
            ];
            if matches!(self.0.commit(batch).await?, ConditionalResult::Applied) {
                return Ok(AccountChangeOutcome::Done);
            }
            // The version is read first: if it has changed, no batch that was sent under the old version can be applied
            // later.
            let version = self.account(org).await?.version;
            let stored = self.0.tables.credit.entry(org, &key).await?.map(|bytes| decode(&bytes)).transpose()?;
            match change.outcome(stored, version) {
                Some(answer) => return Ok(answer),
                None => self.pause(attempt).await,
            }
        }
        Err(retry::contended("the credit account"))
    }

    async fn entries(&self, org: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<AccountEntry>> {
        // Keys are ASCII, so no key with this prefix comes after the last ASCII character.
        let before = format!("{prefix}\u{7f}");
        // No key comes between a key and that key with the lowest character appended.
        let next = after.map(|after| format!("{after}\0"));
        let from = next.as_deref().map_or(prefix, |next| next.max(prefix));
        let found = self.0.tables.credit.entries(org, (from, &before), limit).await?;
        found.iter().map(|bytes| decode(bytes)).collect()
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<ReserveOutcome> {
        let value = encode(&row)?;
        for attempt in 0..retry::ATTEMPTS {
            let batch = vec![
                self.0.tables.credit.unsealed(org, block),
                self.0.tables.credit.reserve(org, block, &row.key, (&row.permit, value.clone())),
            ];
            if matches!(self.0.commit(batch).await?, ConditionalResult::Applied) {
                return Ok(ReserveOutcome::Done);
            }
            // The seal is read first: in a sealed block, a row that is missing afterwards is never inserted.
            let sealed = self.0.tables.credit.is_sealed(org, block).await?;
            match row.reserve(self.row(org, block, &row.key).await?, sealed) {
                Some(answer) => return Ok(answer),
                None => self.pause(attempt).await,
            }
        }
        Err(retry::contended("a block of credit"))
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        for attempt in 0..retry::ATTEMPTS {
            let stored = match attempt {
                // Nearly every row is reserved, so the first attempt assumes a reserved row without reading it.
                0 => Some(LedgerRow { settled: None, ..row.clone() }),
                _ => self.row(org, block, &row.key).await?,
            };
            let (sent, answer) = match row.settle(stored)? {
                SettleDecision::Stored(stored) => return Ok(stored),
                SettleDecision::End(end) => {
                    let value = (row.permit.as_str(), encode(&end)?);
                    (self.0.tables.credit.settle((org, block), &row.key, value).await?, end)
                }
                SettleDecision::Abandon(end) => {
                    let insert = self.0.tables.credit.reserve(org, block, &row.key, (ENDED, encode(&end)?));
                    (self.0.commit(vec![insert]).await?, end)
                }
            };
            if matches!(sent, ConditionalResult::Applied) {
                return Ok(answer);
            }
            self.pause(attempt).await;
        }
        Err(retry::contended("a block of credit"))
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        for attempt in 0..retry::ATTEMPTS {
            let sent = self.0.tables.credit.seal(org, block).await?;
            if matches!(sent, ConditionalResult::Applied) || self.0.tables.credit.is_sealed(org, block).await? {
                return Ok(());
            }
            self.pause(attempt).await;
        }
        Err(retry::contended("a block of credit"))
    }

    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let (sealed, rows) = self.0.tables.credit.rows(org, block).await?;
        let rows = rows.iter().map(|bytes| decode(bytes)).collect::<Result<_>>()?;
        Ok(Ledger { sealed, rows })
    }
}
