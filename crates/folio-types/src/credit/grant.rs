//! A grant of credit.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{GrantId, UserId};

/// Where a grant comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantKind {
    /// Given each month by the settings.
    Allowance,
    /// Bought.
    Purchase,
    /// Given by an administrator.
    Admin,
}

/// Credit that an organization was given. `amount` = `available` + `settled` + `expired` + what blocks hold of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id: the same grant is given once.
    pub id: GrantId,
    /// Where it comes from.
    pub kind: GrantKind,
    /// How much it is, less what was taken back.
    pub amount: u64,
    /// What can be drawn of it.
    pub available: u64,
    /// What calls of closed blocks have cost of it.
    #[serde(default)]
    pub settled: u64,
    /// What expired unused.
    #[serde(default)]
    pub expired: u64,
    /// Lower ones are used first; among equal ones the one that expires first.
    #[serde(default)]
    pub priority: u8,
    /// When it expires; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// That it has expired: set once, under the account's version, and never unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    /// What for, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// By whom, where a person gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<UserId>,
    /// When it was given.
    pub at: Timestamp,
}

impl Grant {
    /// A grant of which nothing is used.
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

    /// Whether it has come to its end, marked or not.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.expired_at.is_some() || self.expires_at.is_some_and(|at| at <= now)
    }

    /// Which of two is used first.
    pub(crate) fn order(&self) -> (u8, bool, Option<Timestamp>, Timestamp, &GrantId) {
        (self.priority, self.expires_at.is_none(), self.expires_at, self.at, &self.id)
    }

    /// Marks it as expired where it is due; gives what is lost by that.
    pub(crate) fn expire(&mut self, now: Timestamp) -> u64 {
        if !self.is_due(now) {
            return 0;
        }
        self.expired_at.get_or_insert(now);
        let lost = std::mem::take(&mut self.available);
        self.expired += lost;
        lost
    }

    /// Whether nothing of it is left anywhere, so that the account may forget it.
    pub(crate) fn is_used_up(&self) -> bool {
        self.settled + self.expired == self.amount
    }
}
