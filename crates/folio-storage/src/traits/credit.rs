//! Credit: accounts, and blocks with their ledgers.
//!
//! The account of an organization changes under its version only, and every change leaves an entry under a key of its own
//! that stands once. A block is apart from the account: rows are reserved in it until it is sealed, and the first end of a
//! row stands. What the changes are is `folio_credit`'s and the meter's business.

use async_trait::async_trait;
use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_types::{BlockId, OrgId, Result};

/// A change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChange {
    /// Whose.
    pub org: OrgId,
    /// The version that was read.
    pub expected: u64,
    /// The account as it is then, with its new version.
    pub account: Account,
    /// What is kept of the change.
    pub entry: AccountEntry,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChanged {
    /// It stands.
    Done,
    /// An entry of its key stands, this very change's or another's; if that was there before, nothing was changed.
    Stands(Box<AccountEntry>),
    /// The account has another version; nothing was changed.
    Moved,
}

/// What became of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It stands: the call may be made.
    Done,
    /// The block is sealed, and the row is not there, nor will it be.
    Sealed,
    /// A row of its key that somebody else reserved, or that has ended, is there.
    Stands(Box<LedgerRow>),
}

/// A block's ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Whether nothing is reserved in it any more.
    pub sealed: bool,
    /// Its rows by key.
    pub rows: Vec<LedgerRow>,
}

/// Accounts, and blocks with their ledgers.
///
/// `STORE_UNAVAILABLE` of a write leaves its outcome unknown: it may stand, and may come to stand later.
#[async_trait]
pub trait CreditStore: Send + Sync {
    /// The account as it is decided; version 0: there is none.
    async fn account(&self, org: &OrgId) -> Result<Account>;

    /// Changes the account where its version is the one that was read and no entry of this key stands.
    async fn change_account(&self, change: AccountChange) -> Result<AccountChanged>;

    /// Entries of the account whose keys begin with `prefix`, by key, after `after`, at most `limit`.
    async fn account_entries(
        &self,
        org: &OrgId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AccountEntry>>;

    /// Inserts a row in a block that is not sealed. The same row again, while it has not ended, is done.
    async fn reserve(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<Reserved>;

    /// Ends a row, sealed or not: `row` holds how. The first end stands, and is given; so is a row that another permit
    /// reserved. A row that is not there is inserted as given up, so that its reservation finds it.
    ///
    /// Errors: `INTERNAL` of a row without an end.
    async fn settle(&self, org: &OrgId, block: &BlockId, row: LedgerRow) -> Result<LedgerRow>;

    /// Seals a block: from now on nothing is reserved in it.
    async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<()>;

    /// A block's ledger as it is decided.
    async fn ledger(&self, org: &OrgId, block: &BlockId) -> Result<Ledger>;
}
