//! Grants of credit: their amounts, expiry and order of use.

use folio_types::{GrantId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Origin of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantKind {
    /// The monthly allowance, from the settings.
    Allowance,
    /// A purchase, confirmed by the shop.
    Purchase,
    /// An adjustment by an administrator.
    Admin,
}

/// Credit that was granted to an organization. `amount` = `available` + `settled` + `expired` + its parts in open
/// blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Idempotency key: a grant with the same id is added once.
    pub id: GrantId,
    pub kind: GrantKind,
    /// Granted credits minus withdrawn credits.
    pub amount: u64,
    /// Credits that can be drawn.
    pub available: u64,
    /// Credits that calls of closed blocks cost.
    #[serde(default)]
    pub settled: u64,
    /// Credits that expired unused.
    #[serde(default)]
    pub expired: u64,
    /// Order of use: the lowest priority first; among equal priorities the grant that expires first.
    #[serde(default)]
    pub priority: u8,
    /// Expiry time. None: the grant does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Time at which the grant was marked as expired. Once set, it is never cleared, even if another clock is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The administrator who made the grant. None for allowances and purchases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<UserId>,
    pub at: Timestamp,
}

impl Grant {
    /// Creates an unused grant with priority 0 and without expiry.
    pub fn new(id: GrantId, kind: GrantKind, amount: u64, at: Timestamp) -> Self {
        Self {
            id,
            kind,
            amount,
            available: amount,
            settled: 0,
            expired: 0,
            priority: 0,
            expires_at: None,
            expired_at: None,
            note: String::new(),
            by: None,
            at,
        }
    }

    /// Returns true if the expiry time has passed or the grant is marked as expired.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.expired_at.is_some() || self.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the sort key that defines the order of use.
    pub(crate) fn order(&self) -> (u8, bool, Option<Timestamp>, Timestamp, &GrantId) {
        (self.priority, self.expires_at.is_none(), self.expires_at, self.at, &self.id)
    }

    /// Marks the grant as expired if it is due. Returns the credits that expired by this call.
    pub(crate) fn expire(&mut self, now: Timestamp) -> u64 {
        if !self.is_due(now) {
            return 0;
        }
        self.expired_at.get_or_insert(now);
        let unused = std::mem::take(&mut self.available);
        self.expired += unused;
        unused
    }

    /// Returns true if no credit is available or in open blocks, so that the account can drop the grant.
    pub(crate) fn is_used_up(&self) -> bool {
        self.settled + self.expired == self.amount
    }
}
