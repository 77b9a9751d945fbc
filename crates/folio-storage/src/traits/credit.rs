//! Credit: accounts, and blocks with their ledgers.
//!
//! The account of an organization is changed by compare-and-set on its version, and every change inserts an entry under
//! a unique key. A block is independent of the account: rows are reserved in it until it is sealed, and the first end
//! of a row is final. `folio_credit` and the meter define the changes.

use async_trait::async_trait;
use folio_credit::{Account, AccountChange, AccountChanged, AccountEntry, Ledger, LedgerRow, Reserved};
use folio_types::{BlockId, OrgId, Result};

/// Accounts, and blocks with their ledgers.
///
/// `STORE_UNAVAILABLE` from a write means that its outcome is unknown: it may be committed, now or later.
#[async_trait]
pub trait CreditStore: Send + Sync {
    /// Returns the account, read linearizably. Version 0: there is no account.
    async fn account(&self, org: &OrgId) -> Result<Account>;

    /// Changes the account if its version is the expected one and no entry with this key exists.
    async fn change_account(&self, change: AccountChange) -> Result<AccountChanged>;

    /// Returns entries of the account whose keys begin with `prefix`, by key, after `after`, at most `limit`.
    async fn account_entries(
        &self,
        org: &OrgId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AccountEntry>>;

    /// Inserts a row in a block that is not sealed. Inserting the same row again before it has ended returns
    /// [`Reserved::Done`].
    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved>;

    /// Ends a row, also in a sealed block; `row` holds the end. The first end is final and is returned; a row that
    /// another permit reserved is returned unchanged. A missing row is inserted as abandoned, so that a late
    /// reservation finds it.
    ///
    /// Errors: `INTERNAL` if the row has no end.
    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow>;

    /// Seals a block: it accepts no further reservation.
    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()>;

    /// Returns a block's ledger, read linearizably.
    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger>;
}
