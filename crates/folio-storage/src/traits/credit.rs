//! Credit accounts, and blocks with their ledgers.
//!
//! The account of an organization is changed by compare-and-set on its version, and every change inserts an entry under
//! a unique key. A block is independent of the account and accepts reservations until it is sealed. The first end of a
//! row is final. `folio_credit` and the meter define the changes.

use async_trait::async_trait;
use folio_credit::{Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome};
use folio_types::{BlockId, OrgId, Result};

/// `STORE_UNAVAILABLE` from a write means that its outcome is unknown: the write may be committed before or after the
/// error.
#[async_trait]
pub trait CreditStore: Send + Sync {
    /// Returns the account, read linearizably. Version 0: the account does not exist.
    async fn account(&self, org: &OrgId) -> Result<Account>;

    /// Changes the account if its version is the expected one and no entry with this key exists.
    async fn change_account(&self, change: AccountChange) -> Result<AccountChangeOutcome>;

    /// Returns at most `limit` entries of the account whose keys begin with `prefix` and are greater than `after`,
    /// ordered by key.
    async fn entries(&self, org: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<AccountEntry>>;

    /// Inserts a row in a block that is not sealed. Inserting the same row again before it has ended returns
    /// [`ReserveOutcome::Done`].
    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<ReserveOutcome>;

    /// Stores the end of a row, also in a sealed block. The first end is final and is returned. A row that another
    /// permit reserved is returned unchanged. A missing row is inserted as abandoned, so that a late reservation
    /// returns [`ReserveOutcome::Exists`].
    ///
    /// Errors: `INTERNAL` if the row has no end.
    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow>;

    /// A sealed block accepts no further reservation. Idempotent.
    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()>;

    /// Returns the ledger, read linearizably.
    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger>;
}
