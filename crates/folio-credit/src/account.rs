//! The credit account of an organization and its changes.

use folio_types::{BlockId, Error, GrantId, Incarnation, Reason, Result, Timestamp, UnknownFields};
use serde::{Deserialize, Serialize};

use crate::{AMOUNT_MAX, AccountEntry, BLOCKS_MAX, GRANTS_MAX, Grant, GrantKind};

/// Divisor of the available credit: a block takes at most a quarter, unless the call needs more.
const DRAW_DIVISOR: u64 = 4;

/// Part of a block that was drawn from one grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPart {
    pub grant: GrantId,
    pub amount: u64,
}

/// Credit that one process drew. The process reserves calls from it without access to the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBlock {
    /// Id of the block and of the ledger partition with its rows.
    pub id: BlockId,
    pub holder: Incarnation,
    /// Parts by grant, in the order of use.
    pub parts: Vec<BlockPart>,
    pub at: Timestamp,
    /// Time until which the holder reserves from the block. Afterwards any process may close it.
    #[serde(rename = "until")]
    pub reserves_until: Timestamp,
}

impl OpenBlock {
    pub fn amount(&self) -> u64 {
        self.parts.iter().map(|part| part.amount).sum()
    }
}

/// Refusal of a draw: the account has less credit than the call needs, or too many open blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsufficientCredit {
    /// Credits that can be drawn.
    pub available: u64,
    pub in_blocks: u64,
}

/// Credit account. Invariant: `granted` − `expired` = available + in open blocks + `settled`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Version, incremented by each change. 0: the account is not stored yet.
    pub version: u64,
    /// Sum of all grants minus withdrawals.
    pub granted: u64,
    /// Sum of credits that expired unused.
    pub expired: u64,
    /// Sum of credits that calls of closed blocks cost.
    pub settled: u64,
    /// Grants with unused or drawn credit, in the order of use.
    pub grants: Vec<Grant>,
    pub blocks: Vec<OpenBlock>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl Account {
    /// Includes credit of grants that are due but not marked as expired yet.
    pub fn available(&self) -> u64 {
        self.grants.iter().map(|grant| grant.available).sum()
    }

    /// Returns the credits that can be drawn at `now`, without grants that have expired.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.grants.iter().filter(|grant| !grant.is_due(now)).map(|grant| grant.available).sum()
    }

    pub fn in_blocks(&self) -> u64 {
        self.blocks.iter().map(OpenBlock::amount).sum()
    }

    pub fn block(&self, id: &BlockId) -> Option<&OpenBlock> {
        self.blocks.iter().find(|block| block.id == *id)
    }

    /// Adds a grant. The caller detects a repeated grant by the key of the returned entry.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the amount is 0 or above [`AMOUNT_MAX`]. `TOO_LARGE` if the account has [`GRANTS_MAX`]
    /// grants; an allowance is added nevertheless.
    pub fn grant(&mut self, grant: Grant, now: Timestamp) -> Result<AccountEntry> {
        if grant.amount == 0 || grant.amount > AMOUNT_MAX {
            return Err(Error::invalid_field("credits", format!("must be from 1 to {AMOUNT_MAX}")));
        }
        self.begin_change(now);
        if self.grants.len() >= GRANTS_MAX && grant.kind != GrantKind::Allowance {
            let message =
                format!("the organization already has {GRANTS_MAX} grants with unused credit, which is the maximum");
            return Err(Error::exhausted(Reason::TooLarge, message));
        }
        self.granted = self.granted.saturating_add(grant.amount);
        self.grants.push(grant.clone());
        self.grants.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(AccountEntry::Granted(grant))
    }

    /// Withdraws available credit, starting with the grant that would be used last. Credit in open blocks stays.
    ///
    /// # Errors
    /// `INVALID_FIELD` if `amount` is 0 or exceeds the available credit.
    pub fn withdraw(&mut self, amount: u64, now: Timestamp) -> Result<()> {
        self.begin_change(now);
        let available = self.available();
        if amount == 0 || amount > available {
            let in_blocks = self.in_blocks();
            let message = format!("must be from 1 to the available {available} credits; {in_blocks} more are reserved");
            return Err(Error::invalid_field("credits", message));
        }
        let mut left = amount;
        for grant in self.grants.iter_mut().rev() {
            let taken = grant.available.min(left);
            grant.available -= taken;
            grant.amount -= taken;
            left -= taken;
        }
        self.granted -= amount;
        self.drop_used_up_grants();
        Ok(())
    }

    /// Draws a block of at least `need` credits: `want`, bounded by a quarter of the available credit.
    ///
    /// # Errors
    /// Refused if less than `need` is available, or if the account has [`BLOCKS_MAX`] open blocks.
    pub fn draw(
        &mut self,
        mut block: OpenBlock,
        (need, want): (u64, u64),
        now: Timestamp,
    ) -> Result<OpenBlock, InsufficientCredit> {
        self.begin_change(now);
        let available = self.available();
        if available < need || self.blocks.len() >= BLOCKS_MAX {
            return Err(InsufficientCredit { available, in_blocks: self.in_blocks() });
        }
        let mut left = need.max(want.min(available / DRAW_DIVISOR));
        for grant in &mut self.grants {
            let taken = grant.available.min(left);
            if taken > 0 {
                grant.available -= taken;
                left -= taken;
                block.parts.push(BlockPart { grant: grant.id.clone(), amount: taken });
            }
        }
        self.blocks.push(block.clone());
        Ok(block)
    }

    /// Closes a block whose calls cost `settled` credits. Unused credit returns to its grants; credit of expired grants
    /// expires. Returns None if no such block is open.
    pub fn close(&mut self, id: &BlockId, settled: u64, now: Timestamp) -> Option<AccountEntry> {
        let index = self.blocks.iter().position(|block| block.id == *id)?;
        self.begin_change(now);
        let block = self.blocks.remove(index);
        let amount = block.amount();
        let settled = settled.min(amount);
        let mut left = settled;
        for part in &block.parts {
            let used = part.amount.min(left);
            left -= used;
            let Some(grant) = self.grants.iter_mut().find(|grant| grant.id == part.grant) else { continue };
            grant.settled += used;
            grant.available += part.amount - used;
            self.expired += grant.expire(now);
        }
        self.settled += settled;
        self.drop_used_up_grants();
        Some(AccountEntry::Closed { block: id.clone(), amount, settled, at: now })
    }

    /// Starts a change: increments the version and marks due grants as expired.
    fn begin_change(&mut self, now: Timestamp) {
        self.version += 1;
        for grant in &mut self.grants {
            self.expired += grant.expire(now);
        }
        self.drop_used_up_grants();
    }

    fn drop_used_up_grants(&mut self) {
        self.grants.retain(|grant| !grant.is_used_up());
    }

    /// Verifies the invariants of the account and of each grant.
    ///
    /// # Errors
    /// A description of the first violated invariant.
    pub fn check(&self) -> Result<(), String> {
        let accounted = self.available() + self.in_blocks() + self.settled;
        if self.granted < self.expired || self.granted - self.expired != accounted {
            return Err(format!(
                "granted {} - expired {} is not available {} + in blocks {} + settled {}",
                self.granted,
                self.expired,
                self.available(),
                self.in_blocks(),
                self.settled
            ));
        }
        for grant in &self.grants {
            let parts = self.blocks.iter().flat_map(|block| &block.parts).filter(|part| part.grant == grant.id);
            let in_blocks: u64 = parts.map(|part| part.amount).sum();
            if grant.amount != grant.available + grant.settled + grant.expired + in_blocks {
                return Err(format!("the parts of grant {} do not add up to its amount: {grant:?}", grant.id));
            }
        }
        Ok(())
    }
}
