//! Credit: accounts, and blocks with their ledgers.
//!
//! The account of an organization is changed by compare-and-set on its version, and every change inserts an entry under
//! a unique key. A block is independent of the account: rows are reserved in it until it is sealed, and the first end
//! of a row is final. `folio_credit` and the meter define the changes.

use async_trait::async_trait;
use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_types::{BlockId, OrgId, Result};

/// A change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChange {
    /// The tenant.
    pub org: OrgId,
    /// The expected version.
    pub expected: u64,
    /// The account after the change, with its new version.
    pub account: Account,
    /// The entry that records the change.
    pub entry: AccountEntry,
}

/// The result of a change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChanged {
    /// The change is committed.
    Done,
    /// An entry with this key exists, of this change or of another one. If it existed before, nothing was changed.
    EntryExists(Box<AccountEntry>),
    /// The account has another version; nothing was changed.
    VersionMismatch,
}

/// The result of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// The reservation is committed: the call may be made.
    Done,
    /// The block is sealed without the row; the row will never be inserted.
    Sealed,
    /// A row with this key exists that another permit reserved or that has ended.
    Exists(Box<LedgerRow>),
}

/// A block's ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Whether the block accepts no further reservation.
    pub sealed: bool,
    /// Its rows by key.
    pub rows: Vec<LedgerRow>,
}

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
