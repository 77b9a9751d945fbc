//! The row of one model call: reserved before it, settled after.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{DocumentId, UserId};
use crate::message::Usage;

/// What a settlement is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The provider's own count.
    Reported,
    /// Tokens counted here, because the provider told none.
    Counted,
    /// Nothing is known of the call: it costs what was reserved.
    Reserved,
    /// The call was not made.
    NotSent,
}

impl Basis {
    /// Of a call whose usage is known: who counted it.
    pub fn of(usage: &Usage) -> Self {
        if usage.reported { Self::Reported } else { Self::Counted }
    }
}

/// The end of a reservation. The first one stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// What the call costs: never more than was reserved.
    pub credits: u64,
    /// What it used.
    pub usage: Usage,
    /// Its cost in micro-dollars, where the model's prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
    /// What that is based on.
    pub basis: Basis,
    /// What it would have cost beyond its reservation.
    #[serde(default)]
    pub written_off: u64,
    /// Whether it was answered whole.
    pub completed: bool,
    /// When.
    pub at: Timestamp,
}

/// One model call in the ledger of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// One of its kind for each call: (turn, round, call, epoch, attempt), or (job, item, epoch, attempt).
    pub key: String,
    /// Who reserved, so that an answer that was lost can be told from somebody else's row.
    pub permit: String,
    /// On whose behalf.
    pub user: UserId,
    /// What for: `chat`, `extraction`, …
    pub operation: String,
    /// The model.
    pub model: String,
    /// The document that it is about, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    /// What it may cost at worst.
    pub credits: u64,
    /// Tokens of the prompt, counted here.
    pub input_tokens: u64,
    /// When.
    pub at: Timestamp,
    /// From when on somebody else may settle it.
    pub deadline: Timestamp,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

impl LedgerRow {
    /// What it takes of its block: what it cost, or may cost.
    pub fn takes(&self) -> u64 {
        self.settled.as_ref().map_or(self.credits, |settled| settled.credits)
    }

    /// The row settled as one of whose call nothing is known: it counts as used.
    #[must_use]
    pub fn lost(&self, at: Timestamp) -> Self {
        let usage = Usage { input_tokens: self.input_tokens, model_calls: 1, ..Usage::default() };
        let settled = Settled {
            credits: self.credits,
            usage,
            cost_microdollars: None,
            basis: Basis::Reserved,
            written_off: 0,
            completed: false,
            at,
        };
        Self { settled: Some(settled), ..self.clone() }
    }

    /// The row given up: its call was not made, and is not.
    #[must_use]
    pub fn given_up(&self, at: Timestamp) -> Self {
        let settled = Settled {
            credits: 0,
            usage: Usage::default(),
            cost_microdollars: None,
            basis: Basis::NotSent,
            written_off: 0,
            completed: false,
            at,
        };
        Self { settled: Some(settled), ..self.clone() }
    }
}
