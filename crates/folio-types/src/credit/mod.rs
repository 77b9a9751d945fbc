//! Credit: what an organization has been given, what its processes hold of it, and what its model calls cost.
//!
//! Amounts are whole credits (SPU), costs whole micro-dollars. What is here is data and the changes of it, without a
//! store: who makes a change writes it under the account's version.

mod account;
mod grant;
mod ledger;
#[cfg(test)]
mod tests;

pub use account::{Account, OpenBlock, Part, Short};
pub use grant::{Grant, GrantKind};
pub use ledger::{Basis, LedgerRow, Settled};

use serde::{Deserialize, Serialize};

use crate::ids::{BlockId, GrantId, UserId};
use jiff::Timestamp;

/// The largest amount of one grant or adjustment.
pub const AMOUNT_MAX: u64 = 1_000_000_000_000;
/// Grants that are not used up, at most. Allowances, one a month which ends with it, are not bound by it.
pub const GRANTS_MAX: usize = 500;
/// Blocks that are open at once, at most.
pub const BLOCKS_MAX: usize = 1_000;

/// What a model costs: micro-dollars (10⁻⁶ USD) for a million tokens, where that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrices {
    /// Of the prompt.
    pub input: Option<u64>,
    /// Of what the provider had in its cache; unknown: as the rest of the prompt.
    pub cached_input: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
}

/// One change of an account, as it is kept for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountEntry {
    /// Credit was given.
    Granted(Grant),
    /// Credit was taken back by an administrator.
    Withdrawn {
        /// The adjustment's own id.
        id: GrantId,
        /// How much.
        amount: u64,
        /// Why.
        note: String,
        /// By whom.
        by: Option<UserId>,
        /// When.
        at: Timestamp,
    },
    /// A process drew a block.
    Drawn(OpenBlock),
    /// A block was closed; what was not settled went back.
    Closed {
        /// The block.
        block: BlockId,
        /// What it had held.
        amount: u64,
        /// What its calls cost.
        settled: u64,
        /// When.
        at: Timestamp,
    },
}

impl AccountEntry {
    /// Its key in the account: whatever happens, it stands there once.
    pub fn key(&self) -> String {
        match self {
            Self::Granted(grant) => format!("grant/{}", grant.id),
            Self::Withdrawn { id, .. } => format!("grant/{id}"),
            Self::Drawn(block) => format!("drawn/{}", block.id),
            Self::Closed { block, .. } => format!("closed/{block}"),
        }
    }

    /// When it was made.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Granted(grant) => grant.at,
            Self::Drawn(block) => block.at,
            Self::Withdrawn { at, .. } | Self::Closed { at, .. } => *at,
        }
    }
}
