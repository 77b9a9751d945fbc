//! Credit of an organization: its account, its grants, the blocks that processes draw, and the ledger of model calls.
//!
//! Every item is data with its pure changes; the crate knows no store. A caller that changes an account stores it with
//! a compare-and-set on [`Account::version`]. Amounts are whole credits (SPU), costs are whole micro-dollars.
//!
//! ```text
//!   grant ──▶ Account.grants ──draw──▶ OpenBlock ──reserve──▶ LedgerRow ──settle──▶ Settled
//!                   ▲                      │
//!                   └──── rest ◀── close ──┘
//! ```

mod account;
mod decide;
mod grant;
mod ledger;
#[cfg(test)]
mod tests;

pub use account::{Account, InsufficientCredit, OpenBlock, Part};
pub use decide::{AccountChange, AccountChanged, Ledger, Reserved, Settlement};
pub use grant::{Grant, GrantKind};
pub use ledger::{Basis, LedgerRow, Settled};

use folio_types::{BlockId, GrantId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Maximum amount of one grant or adjustment.
// proto: GrantCreditRequest.credits "1 to {} credits"
pub const AMOUNT_MAX: u64 = 1_000_000_000_000;
/// Maximum number of grants with unused credit. The bound does not apply to allowances: there is one per month, and it
/// expires with the month.
pub const GRANTS_MAX: usize = 500;
/// Maximum number of open blocks.
pub const BLOCKS_MAX: usize = 1_000;

/// The record of a change of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountEntry {
    /// A grant was added.
    Granted(Grant),
    /// An administrator withdrew credit.
    Withdrawn {
        /// Id of the adjustment, which makes it idempotent.
        id: GrantId,
        /// Credits that were withdrawn.
        amount: u64,
        /// Reason that the administrator gave.
        note: String,
        /// The administrator. None if the platform token made the change.
        by: Option<UserId>,
        /// Time of the change.
        at: Timestamp,
    },
    /// A process drew the block.
    Drawn(OpenBlock),
    /// A block was closed and its unsettled credit returned to its grants.
    Closed {
        /// Id of the block.
        block: BlockId,
        /// Credits that were drawn with the block.
        amount: u64,
        /// Credits that its settled calls cost.
        settled: u64,
        /// Time of the change.
        at: Timestamp,
    },
}

impl AccountEntry {
    /// Returns the key of the entry, which is unique in the account: a repeated change does not add a second entry.
    pub fn key(&self) -> String {
        match self {
            Self::Granted(grant) => format!("grant/{}", grant.id),
            Self::Withdrawn { id, .. } => format!("grant/{id}"),
            Self::Drawn(block) => format!("drawn/{}", block.id),
            Self::Closed { block, .. } => format!("closed/{block}"),
        }
    }

    /// Returns true if the entry is never removed. Entries of blocks only answer repeated changes, so a store may remove them
    /// once no such change can arrive.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Withdrawn { .. })
    }

    /// Returns the time of the change.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Granted(grant) => grant.at,
            Self::Drawn(block) => block.at,
            Self::Withdrawn { at, .. } | Self::Closed { at, .. } => *at,
        }
    }
}
