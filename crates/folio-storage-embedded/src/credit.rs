//! Credit: each operation is one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_types::{BlockId, Error, OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use super::value::Mark;
use folio_storage::{AccountChange, AccountChanged, CreditStore, Ledger, Reserved};

pub(crate) struct Credits(pub(crate) Arc<Engine>);

#[async_trait]
impl CreditStore for Credits {
    async fn account(&self, org: &OrgId) -> Result<Account> {
        let key = keys::account(org);
        let account = self.0.scan(move |view| view.read(Space::Records, &key)).await?;
        Ok(account.unwrap_or_default())
    }

    async fn change_account(&self, change: AccountChange) -> Result<AccountChanged> {
        let AccountChange { org, expected, account, entry } = change;
        let (account_key, entry_key) = (keys::account(&org), keys::account_entry(&org, &entry.key()));
        self.0
            .write(move |transaction| {
                if let Some(stored) = transaction.read::<AccountEntry>(Space::Records, &entry_key)? {
                    return Ok(AccountChanged::EntryExists(Box::new(stored)));
                }
                let version = transaction.read::<Account>(Space::Records, &account_key)?.map_or(0, |now| now.version);
                if version != expected {
                    return Ok(AccountChanged::VersionMismatch);
                }
                transaction.put(Space::Records, account_key, &account)?;
                transaction.put(Space::Records, entry_key, &entry)?;
                Ok(AccountChanged::Done)
            })
            .await
    }

    async fn account_entries(
        &self,
        org: &OrgId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AccountEntry>> {
        let mut range = Range::prefix(Space::Records, keys::account_entry(org, prefix));
        if let Some(after) = after {
            let mut from = keys::account_entry(org, after);
            from.push(0);
            range = range.from(from);
        }
        self.0.scan(move |view| view.values(range, limit)).await
    }

    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved> {
        let (sealed, key) = (keys::sealed_block(org, block), keys::ledger_row(org, block, &row.key));
        self.0
            .write(move |transaction| {
                if let Some(stored) = transaction.read::<LedgerRow>(Space::Records, &key)? {
                    let mine = stored.settled.is_none() && stored.permit == row.permit;
                    return Ok(if mine { Reserved::Done } else { Reserved::Exists(Box::new(stored)) });
                }
                if transaction.contains(Space::Records, &sealed)? {
                    return Ok(Reserved::Sealed);
                }
                transaction.put(Space::Records, key, &row)?;
                Ok(Reserved::Done)
            })
            .await
    }

    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow> {
        let Some(settled) = &row.settled else { return Err(Error::internal("a settled row needs an end")) };
        let (key, at) = (keys::ledger_row(org, block, &row.key), settled.at);
        self.0
            .write(move |transaction| {
                let ends = match transaction.read::<LedgerRow>(Space::Records, &key)? {
                    Some(stored) if stored.settled.is_some() || stored.permit != row.permit => return Ok(stored),
                    Some(_) => row,
                    None => row.settled_as_not_sent(at),
                };
                transaction.put(Space::Records, key, &ends)?;
                Ok(ends)
            })
            .await
    }

    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()> {
        let key = keys::sealed_block(org, block);
        self.0.write(move |transaction| transaction.put(Space::Records, key, &Mark)).await
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
