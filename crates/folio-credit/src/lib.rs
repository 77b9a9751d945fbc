//! Credit of an organization: its account, its grants, the blocks that processes draw, the ledger of model calls, and the
//! budgets of turns and jobs.
//!
//! Every item is data with pure changes; the crate must not know a store. A caller that changes an account stores it
//! with a compare-and-set on [`Account::version`]. Amounts are whole credits (SPU), costs are whole micro-dollars.
//!
//! ```text
//!   grant ──▶ Account.grants ──draw──▶ OpenBlock ──reserve──▶ LedgerRow ──settle──▶ SettlementRecord
//!                   ▲                      │
//!                   └── unused ◀─ close ───┘
//! ```

mod account;
mod budget;
mod decide;
mod grant;
mod ledger;
#[cfg(test)]
mod tests;

pub use account::{Account, BlockPart, InsufficientCredit, OpenBlock};
pub use budget::{Allotment, Budget, Share};
pub use decide::{AccountChange, AccountChangeOutcome, Ledger, ReserveOutcome, SettleDecision};
pub use grant::{Grant, GrantKind};
pub use ledger::{Basis, LedgerRow, SettlementRecord};

use folio_types::{BlockId, GrantId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Maximum credits of one grant or adjustment.
// proto: GrantCreditRequest.credits "1 to {} credits"
pub const AMOUNT_MAX: u64 = 1_000_000_000_000;
/// Maximum number of grants with unused credit. Monthly allowances are exempt; each expires with its month.
// proto: CreditService.GrantCredit "at most {} grants"
pub const GRANTS_MAX: usize = 500;
pub const BLOCKS_MAX: usize = 1_000;

/// Entry of an account's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountEntry {
    Granted(Grant),
    /// An administrator withdrew credit.
    Withdrawn {
        /// Id of the adjustment, which makes it idempotent.
        id: GrantId,
        amount: u64,
        note: String,
        /// None: the platform token made the change.
        by: Option<UserId>,
        at: Timestamp,
    },
    /// A process drew the block.
    Drawn(OpenBlock),
    /// A block was closed, and its unused credit returned to its grants.
    Closed {
        block: BlockId,
        /// Credits that the block contained.
        amount: u64,
        /// Credits that the calls of the block cost.
        settled: u64,
        at: Timestamp,
    },
}

impl AccountEntry {
    /// Returns a key that is unique in the account, so that repeating a change adds no second entry.
    pub fn key(&self) -> String {
        match self {
            Self::Granted(grant) => format!("grant/{}", grant.id),
            Self::Withdrawn { id, .. } => format!("grant/{id}"),
            Self::Drawn(block) => format!("drawn/{}", block.id),
            Self::Closed { block, .. } => format!("closed/{block}"),
        }
    }

    /// Returns true if the entry is never removed. A store may remove the other entries, which only answer repeated
    /// changes, as soon as no repeated change can arrive.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Withdrawn { .. })
    }

    pub fn at(&self) -> Timestamp {
        match self {
            Self::Granted(grant) => grant.at,
            Self::Drawn(block) => block.at,
            Self::Withdrawn { at, .. } | Self::Closed { at, .. } => *at,
        }
    }
}
