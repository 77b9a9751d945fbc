//! Metering: reserves credit before every model call and charges it afterwards.
//!
//! A process draws credit from the account of an organization in blocks. Each block has a ledger of its calls. A call
//! requires a permit: a row in the ledger, which the settlement completes. [`PriceOptions`] define the price of a
//! call, [`Escrow`] implements the operations on accounts and blocks, and [`Wallet`] decides when a process draws and
//! closes blocks. The actor of an organization executes the wallet's effects, and [`CreditMeter`] is its handle.
//!
//! The crate must not know models or conversations: the caller passes the reservation and the usage of a call.

mod actor;
mod budget;
mod counters;
mod escrow;
mod meter;
mod operation_meter;
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

pub use budget::{BudgetMeter, BudgetScope};
pub use counters::Counters;
use counters::ReservedGuard;
pub use escrow::{Closing, Draw, Escrow};
pub use folio_credit::Share;
pub use folio_resources::quota::AbandonedCalls;
pub use meter::{Balance, CreditMeter};
pub use operation_meter::OperationMeter;
pub use options::Options;
pub use prices::{Price, PriceOptions};
pub use quota::QuotaMeter;
pub use record::UsageRecorder;
use reservation::Reservation;
pub use wallet::{Effect, Ticket, Wallet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeteredCall {
    /// The paying organization.
    pub org: OrgId,
    pub user: UserId,
    /// Unique: (turn, round, call, epoch, attempt), or (job, item, epoch, attempt).
    pub key: String,
    /// `chat`, `extraction`, `batch`, `auto_create`, …
    pub operation: &'static str,
    pub model: String,
    pub prices: ModelPrices,
    /// None if the call concerns no document.
    pub document: Option<DocumentId>,
    /// Estimated by Folio.
    pub input_tokens: u64,
    pub max_output_tokens: u64,
}

/// Outcome of a permitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The response is complete. `usage.reported` is true if the provider reported the tokens.
    Completed(Usage),
    /// The call was aborted, failed or was cancelled after it was sent. Contains the usage until then.
    Partial(Usage),
    /// The call did not reach a provider.
    NotSent,
}

/// Meter of model calls. Every model call requests a permit before it starts and settles the permit after it ends.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Returns the maximum price of a call in credits. 0 if the meter only records usage.
    fn max_price(&self, call: &MeteredCall) -> u64;

    /// Returns the credits that [`Self::settle`] charges for a permitted call. 0 if the meter only records usage.
    ///
    /// A settlement that fails charges the reservation instead, and a row that another process settled before keeps its
    /// charge.
    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64;

    /// Requests a permit. After an error the caller must not make the call.
    ///
    /// # Errors
    /// `SPU_EXHAUSTED`; `BUDGET_EXHAUSTED`; `OVERLOADED` if too many calls wait for credit.
    async fn request_permit(&self, call: MeteredCall) -> Result<Permit>;

    /// Settles a permit, and returns the charged credits. The caller must call it exactly once per permit, also if the call
    /// was cancelled.
    ///
    /// # Errors
    /// After `STORE_UNAVAILABLE` the call is charged as reserved once its deadline has passed.
    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64>;
}

/// A permit for one model call. The caller settles it with [`Meter::settle`].
#[derive(Debug)]
#[must_use = "a permit must be settled"]
pub struct Permit {
    pub call: MeteredCall,
    pub abandoned_calls: AbandonedCalls,
    /// None if the meter only records usage.
    reservation: Option<Reservation>,
    /// Counts as a concurrent call of the organization until it is dropped.
    slot: Option<Slot>,
    /// Counts as reserved credit until it is dropped.
    _reserved: Option<ReservedGuard>,
}

pub type SharedMeter = Arc<dyn Meter>;
