//! Metering: reserves credit before every model call and charges it afterwards.
//!
//! A call is made only with a permit. A permit is a row in the ledger of a block of credit that this process drew; the
//! settlement completes the row. [`PriceOptions`] define the price of a call, [`Escrow`] the operations on accounts and
//! blocks, and [`Wallet`] decides when a process draws and closes blocks. The actor of an organization executes the
//! wallet's effects, and [`CreditMeter`] is its handle.
//!
//! The crate must not know models or conversations: the caller passes the reservation and the usage of a call.

mod actor;
mod counters;
mod escrow;
mod meter;
mod options;
mod prices;
mod quota;
mod record;
mod reservation;
mod wallet;

use std::sync::Arc;

use async_trait::async_trait;
use folio_quotas::Slot;
use folio_types::message::Usage;
use folio_types::models::ModelPrices;
use folio_types::{DocumentId, OrgId, Result, UserId};
use serde::{Deserialize, Serialize};

pub use counters::Counters;
use counters::ReservedGuard;
pub use escrow::{Closing, Draw, Escrow};
pub use meter::{Balance, CreditMeter};
pub use options::Options;
pub use prices::{Price, PriceOptions};
pub use quota::QuotaMeter;
pub use record::UsageRecorder;
use reservation::Reservation;
pub use wallet::{Effect, Ticket, Wallet};

/// A model call that needs a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeteredCall {
    /// Organization that pays.
    pub org: OrgId,
    /// User on whose behalf the call is made.
    pub user: UserId,
    /// Unique key of the call: (turn, round, call, epoch, attempt), or (job, item, epoch, attempt).
    pub key: String,
    /// Kind of operation: `chat`, `extraction`, …
    pub operation: &'static str,
    /// Name of the model.
    pub model: String,
    /// Prices of the model.
    pub prices: ModelPrices,
    /// Document that the call is about. None if there is none.
    pub document: Option<DocumentId>,
    /// Tokens of the prompt, counted by Folio.
    pub input_tokens: u64,
    /// Maximum tokens of the answer.
    pub max_output_tokens: u64,
}

/// Outcome of a call that had a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The model answered completely. `usage.reported` is true if the provider counted the tokens.
    Completed(Usage),
    /// The call was cut, failed or was cancelled after it was sent. Contains the usage until then.
    Partial(Usage),
    /// The call did not reach a provider.
    NotSent,
}

/// Handling of abandoned calls, whose turn was cancelled or whose caller left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbandonedCalls {
    /// Cuts the call. It costs its prompt and the received part of the answer, as counted by Folio.
    #[default]
    Cut,
    /// Reads the answer to its end. The call costs what the provider reports.
    Drain,
}

/// The metering port. Every model call requests a permit before it starts and settles the permit after it ended.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Requests a permit. After an error the call must not be made.
    ///
    /// # Errors
    /// `SPU_EXHAUSTED`, `OVERLOADED`, `STORE_UNAVAILABLE`.
    async fn permit(&self, call: MeteredCall) -> Result<Permit>;

    /// Settles a permit. Called exactly once per permit, also if the caller left.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: after the deadline, the call is charged as reserved.
    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<()>;

    /// Returns the handling of abandoned calls.
    fn abandoned_calls(&self) -> AbandonedCalls;
}

/// The right to make one call.
#[derive(Debug)]
#[must_use = "a permit is settled"]
pub struct Permit {
    /// The permitted call.
    pub call: MeteredCall,
    /// Reserved credit. None if the meter only records.
    reservation: Option<Reservation>,
    /// Counts as a concurrent call of the organization until dropped.
    slot: Option<Slot>,
    /// Counts as reserved credit until dropped.
    _reserved: Option<ReservedGuard>,
}

/// A shared meter.
pub type SharedMeter = Arc<dyn Meter>;
