//! Credit: each write is one conditional batch in one partition. A write with an unknown outcome is looked up under its
//! own row, and repeated only if that row is missing and the condition still holds.

use std::sync::Arc;

use async_trait::async_trait;
use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_types::{BlockId, Error, OrgId, Result};

use super::keyspace::Keyspace;
use super::retry;
use super::session::Sent;
use super::table::ENDED;
use folio_storage::value::{decode, encode};
use folio_storage::{AccountChange, AccountChanged, CreditStore, Ledger, Reserved};

/// Time to live of the entry of a drawn or closed block, in seconds: far longer than a batch can be late.
const BLOCK_ENTRY_SECONDS: i32 = 30 * 24 * 60 * 60;

pub(crate) struct Credits(pub(crate) Arc<Keyspace>);

impl Credits {
    async fn row(&self, org: &OrgId, block: &BlockId, key: &str) -> Result<Option<LedgerRow>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        tables.credit.row(cql, org, block, key).await?.map(|bytes| decode(&bytes)).transpose()
    }

    async fn pause(&self, attempt: u32) {
        retry::pause(attempt, self.0.random()).await;
    }
}

#[async_trait]
impl CreditStore for Credits {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let account = tables.credit.account(cql, org).await?;
        Ok(account.map(|bytes| decode(&bytes)).transpose()?.unwrap_or_default())
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChanged> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let AccountChange { org, expected, account, entry } = change;
        let key = entry.key();
        let ttl_seconds = match entry {
            AccountEntry::Granted(_) | AccountEntry::Withdrawn { .. } => 0,
            AccountEntry::Drawn(_) | AccountEntry::Closed { .. } => BLOCK_ENTRY_SECONDS,
        };
        let (value, entry) = (encode(&account)?, encode(&entry)?);
        for attempt in 0..retry::ATTEMPTS {
            let batch = vec![
                tables.credit.change(&org, expected, account.version, value.clone()),
                tables.credit.enter(&org, &key, entry.clone(), ttl_seconds),
            ];
            if matches!(self.0.commit(batch).await?, Sent::Applied) {
                return Ok(AccountChanged::Done);
            }
            // Reads the version first: if it has changed, no batch that was sent under the old version is applied any
            // more.
            let version = self.account(&org).await?.version;
            if let Some(stored) = tables.credit.entry(cql, &org, &key).await? {
                return Ok(AccountChanged::EntryExists(Box::new(decode(&stored)?)));
            }
            if version != expected {
                return Ok(AccountChanged::VersionMismatch);
            }
            self.pause(attempt).await;
        }
        Err(retry::contended("an account of credit"))
    }

    async fn account_entries(
        &self,
        org: &OrgId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AccountEntry>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        // Keys are ASCII, so no key with this prefix comes after the last ASCII character.
        let before = format!("{prefix}\u{7f}");
        // No key comes between a key and that key with the lowest character appended.
        let next = after.map(|after| format!("{after}\0"));
        let from = next.as_deref().map_or(prefix, |next| next.max(prefix));
        let found = tables.credit.entries(cql, org, (from, &before), limit).await?;
        found.iter().map(|bytes| decode(bytes)).collect()
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let value = encode(&row)?;
        for attempt in 0..retry::ATTEMPTS {
            let batch = vec![
                tables.credit.unsealed(org, block),
                tables.credit.reserve(org, block, &row.key, (&row.permit, value.clone())),
            ];
            if matches!(self.0.commit(batch).await?, Sent::Applied) {
                return Ok(Reserved::Done);
            }
            // Reads the seal first: in a sealed block, a row that is missing now is never inserted.
            let sealed = tables.credit.is_sealed(cql, org, block).await?;
            match self.row(org, block, &row.key).await? {
                Some(stored) if stored.settled.is_none() && stored.permit == row.permit => return Ok(Reserved::Done),
                Some(stored) => return Ok(Reserved::Exists(Box::new(stored))),
                None if sealed => return Ok(Reserved::Sealed),
                None => self.pause(attempt).await,
            }
        }
        Err(retry::contended("a block of credit"))
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let Some(settled) = &row.settled else { return Err(Error::internal("a settled row needs an end")) };
        let abandoned = row.settled_as_not_sent(settled.at);
        let (value, nothing) = (encode(&row)?, encode(&abandoned)?);
        for attempt in 0..retry::ATTEMPTS {
            let sent = tables.credit.settle(cql, (org, block), &row.key, (&row.permit, value.clone())).await?;
            if matches!(sent, Sent::Applied) {
                return Ok(row);
            }
            match self.row(org, block, &row.key).await? {
                Some(stored) if stored.settled.is_some() || stored.permit != row.permit => return Ok(stored),
                Some(_) => {}
                None => {
                    let insert = tables.credit.reserve(org, block, &row.key, (ENDED, nothing.clone()));
                    if matches!(self.0.commit(vec![insert]).await?, Sent::Applied) {
                        return Ok(abandoned);
                    }
                }
            }
            self.pause(attempt).await;
        }
        Err(retry::contended("a block of credit"))
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        for attempt in 0..retry::ATTEMPTS {
            let sent = tables.credit.seal(cql, org, block).await?;
            if matches!(sent, Sent::Applied) || tables.credit.is_sealed(cql, org, block).await? {
                return Ok(());
            }
            self.pause(attempt).await;
        }
        Err(retry::contended("a block of credit"))
    }

    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let (sealed, rows) = tables.credit.rows(cql, org, block).await?;
        let rows = rows.iter().map(|bytes| decode(bytes)).collect::<Result<_>>()?;
        Ok(Ledger { sealed, rows })
    }
}
