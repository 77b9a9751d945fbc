//! The account of an organization, and every change of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AMOUNT_MAX, AccountEntry, BLOCKS_MAX, GRANTS_MAX, Grant, GrantKind};
use crate::error::{Error, Reason, Result};
use crate::ids::{BlockId, GrantId, Incarnation};

/// Of what is left, the part that one block takes at most where no call needs more.
const SHARE: u64 = 4;

/// What a block took of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The grant.
    pub grant: GrantId,
    /// How much.
    pub amount: u64,
}

/// Credit that one process holds, to reserve calls from without asking the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBlock {
    /// Its id, and that of the partition with its ledger.
    pub id: BlockId,
    /// Who drew it.
    pub holder: Incarnation,
    /// Of which grants, in the order in which they are used.
    pub parts: Vec<Part>,
    /// When it was drawn.
    pub at: Timestamp,
    /// Until when its holder reserves from it; later anybody closes it.
    pub until: Timestamp,
}

impl OpenBlock {
    /// What it held when it was drawn.
    pub fn amount(&self) -> u64 {
        self.parts.iter().map(|part| part.amount).sum()
    }
}

/// The account has too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// What can be drawn.
    pub available: u64,
    /// What blocks hold beside that.
    pub in_blocks: u64,
}

/// An account. `granted` − `expired` = available + in open blocks + `settled`, at any moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Grows by one with each change; 0: there was none.
    pub version: u64,
    /// All that was ever granted, less what was taken back.
    pub granted: u64,
    /// All that ever expired unused.
    pub expired: u64,
    /// All that calls of closed blocks have cost.
    pub settled: u64,
    /// Grants of which something is left, in the order in which they are used.
    pub grants: Vec<Grant>,
    /// Blocks that are open.
    pub blocks: Vec<OpenBlock>,
}

impl Account {
    /// What can be drawn.
    pub fn available(&self) -> u64 {
        self.grants.iter().map(|grant| grant.available).sum()
    }

    /// What can be drawn at a time: grants that are due by then do not count.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.grants.iter().filter(|grant| !grant.is_due(now)).map(|grant| grant.available).sum()
    }

    /// What open blocks hold.
    pub fn in_blocks(&self) -> u64 {
        self.blocks.iter().map(OpenBlock::amount).sum()
    }

    /// The open block of an id.
    pub fn block(&self, id: &BlockId) -> Option<&OpenBlock> {
        self.blocks.iter().find(|block| block.id == *id)
    }

    /// Gives credit. Whether it was given before is its entry's to say.
    ///
    /// Errors: `INVALID_FIELD` of an amount that is 0 or too large; `TOO_LARGE` with too many grants, where it is no allowance:
    /// the month's comes whatever was bought.
    pub fn grant(&mut self, grant: Grant, now: Timestamp) -> Result<AccountEntry> {
        if grant.amount == 0 || grant.amount > AMOUNT_MAX {
            return Err(Error::invalid_field("credits", format!("must be from 1 to {AMOUNT_MAX}")));
        }
        self.begin(now);
        if self.grants.len() >= GRANTS_MAX && grant.kind != GrantKind::Allowance {
            let message = format!("an organization has at most {GRANTS_MAX} grants that are not used up");
            return Err(Error::exhausted(Reason::TooLarge, message));
        }
        self.granted = self.granted.saturating_add(grant.amount);
        self.grants.push(grant.clone());
        self.grants.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(AccountEntry::Granted(grant))
    }

    /// Takes back what nobody has drawn, beginning with what would be used last.
    ///
    /// Errors: `INVALID_FIELD` where less than `amount` is available.
    pub fn withdraw(&mut self, amount: u64, now: Timestamp) -> Result<()> {
        self.begin(now);
        let available = self.available();
        if amount == 0 || amount > available {
            let what = format!("{available} credits can be taken back; blocks hold {}", self.in_blocks());
            return Err(Error::invalid_field("credits", what));
        }
        let mut left = amount;
        for grant in self.grants.iter_mut().rev() {
            let taken = grant.available.min(left);
            grant.available -= taken;
            grant.amount -= taken;
            left -= taken;
        }
        self.granted -= amount;
        self.forget();
        Ok(())
    }

    /// Draws a block that covers `need`: as much as is wanted where there is plenty, no more than needed where little is
    /// left.
    ///
    /// # Errors
    /// The account has less than is needed, or too many open blocks (then too it says what it has).
    pub fn draw(&mut self, mut block: OpenBlock, (need, want): (u64, u64), now: Timestamp) -> Result<OpenBlock, Short> {
        self.begin(now);
        let available = self.available();
        if available < need || self.blocks.len() >= BLOCKS_MAX {
            return Err(Short { available, in_blocks: self.in_blocks() });
        }
        let mut left = need.max(want.min(available / SHARE));
        for grant in &mut self.grants {
            let taken = grant.available.min(left);
            if taken > 0 {
                grant.available -= taken;
                left -= taken;
                block.parts.push(Part { grant: grant.id.clone(), amount: taken });
            }
        }
        self.blocks.push(block.clone());
        Ok(block)
    }

    /// Closes a block whose calls have cost `settled`: the rest goes back to where it came from, or is lost where that has
    /// expired. None: no such block is open.
    pub fn close(&mut self, id: &BlockId, settled: u64, now: Timestamp) -> Option<AccountEntry> {
        let at = self.blocks.iter().position(|block| block.id == *id)?;
        self.begin(now);
        let block = self.blocks.remove(at);
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
        self.forget();
        Some(AccountEntry::Closed { block: id.clone(), amount, settled, at: now })
    }

    /// What every change begins with: a new version, in which what is due is marked as expired.
    fn begin(&mut self, now: Timestamp) {
        self.version += 1;
        for grant in &mut self.grants {
            self.expired += grant.expire(now);
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.grants.retain(|grant| !grant.is_used_up());
    }

    /// Whether its sums are right.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        let held = self.available() + self.in_blocks() + self.settled;
        if self.granted < self.expired || self.granted - self.expired != held {
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
                return Err(format!("the parts of grant {} are not the whole: {grant:?}", grant.id));
            }
        }
        Ok(())
    }
}
