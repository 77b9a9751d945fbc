//! The ledger row of a model call: reserved before the call, settled after it.

use folio_types::message::Usage;
use folio_types::{DocumentId, Timestamp, UnknownFields, UserId};
use serde::{Deserialize, Serialize};

/// Source of the usage in a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The provider reported the tokens.
    Reported,
    /// Folio counted the tokens, because the provider reported none.
    Counted,
    /// The usage is unknown: the call costs the whole reservation.
    Reserved,
    /// The call was not sent and costs nothing.
    NotSent,
}

impl Basis {
    /// Returns `Reported` or `Counted`, depending on the source of `usage`.
    pub fn of(usage: &Usage) -> Self {
        if usage.reported { Self::Reported } else { Self::Counted }
    }
}

/// Settlement of a reservation. The first settlement of a row wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlementRecord {
    /// Credits charged, at most the reservation.
    pub credits: u64,
    pub usage: Usage,
    /// Cost in micro-dollars. None if the prices of the model are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
    pub basis: Basis,
    /// Credits beyond the reservation, which are not charged.
    #[serde(default)]
    pub written_off: u64,
    /// True if the model answered completely.
    pub completed: bool,
    pub at: Timestamp,
}

/// A model call in the ledger of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// Unique key of the call: (turn, round, call, epoch, attempt), or (job, item, epoch, attempt).
    pub key: String,
    /// Random id of the reservation. It distinguishes a repeated reservation (after a lost reply) from a conflicting
    /// one.
    pub permit: String,
    pub user: UserId,
    /// Kind of operation: `chat`, `extraction`, …
    pub operation: String,
    pub model: String,
    /// None: the call is not about one document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    /// Reserved credits: the maximum cost of the call.
    pub credits: u64,
    /// Tokens of the prompt, counted by Folio.
    pub input_tokens: u64,
    pub at: Timestamp,
    /// Time after which a process other than the block's holder may settle the row.
    pub deadline: Timestamp,
    /// None while the call is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettlementRecord>,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

impl LedgerRow {
    /// Returns the reservation of a chat call. The key is also the permit, and `at` is also the deadline.
    pub fn new(key: &str, user: UserId, credits: u64, at: Timestamp) -> Self {
        Self {
            key: key.to_owned(),
            permit: key.to_owned(),
            user,
            operation: "chat".to_owned(),
            model: String::new(),
            document: None,
            credits,
            input_tokens: 0,
            at,
            deadline: at,
            settled: None,
            unknown: UnknownFields::default(),
        }
    }

    /// Returns the credits that the row uses: the charge if settled, otherwise the reservation.
    pub fn charge(&self) -> u64 {
        self.settled.as_ref().map_or(self.credits, |settled| settled.credits)
    }

    /// Returns the row settled with basis `Reserved`: the outcome of the call is unknown, so the whole reservation is
    /// charged.
    #[must_use]
    pub fn settled_as_reserved(&self, at: Timestamp) -> Self {
        let usage = Usage { input_tokens: self.input_tokens, model_calls: 1, ..Usage::default() };
        self.settled_without_report(Basis::Reserved, self.credits, usage, at)
    }

    /// Returns the row settled with basis `NotSent`: the call was not sent and will not be sent.
    #[must_use]
    pub fn settled_as_not_sent(&self, at: Timestamp) -> Self {
        self.settled_without_report(Basis::NotSent, 0, Usage::default(), at)
    }

    fn settled_without_report(&self, basis: Basis, credits: u64, usage: Usage, at: Timestamp) -> Self {
        let settled =
            SettlementRecord { credits, usage, cost_microdollars: None, basis, written_off: 0, completed: false, at };
        Self { settled: Some(settled), ..self.clone() }
    }
}
