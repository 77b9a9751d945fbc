//! Metering: what sees every model call before and after it is made, and holds it to an organization's credit.
//!
//! A call that has no permit is not made. A permit is a row in the ledger of a block of credit that this process drew; its
//! settlement is the end of that row. What a call costs is in [`prices`](PriceOptions), what is done with accounts and
//! blocks in [`Escrow`], when a process draws and gives back in [`Wallet`]; the actor of an organization only does what
//! its wallet says, and [`CreditMeter`] is its handle.
//!
//! It knows neither models nor conversations: who makes a call says what it may use, and what it used.

mod actor;
mod counts;
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
use folio_storage::Slot;
use folio_types::message::Usage;
use folio_types::models::ModelPrices;
use folio_types::{DocumentId, OrgId, Result, UserId};
use serde::{Deserialize, Serialize};

pub use counts::Counts;
use counts::Held;
pub use escrow::{Closing, Draw, Escrow};
pub use meter::{Balance, CreditMeter};
pub use options::Options;
pub use prices::{Price, PriceOptions};
pub use quota::QuotaMeter;
pub use record::UsageRecorder;
use reservation::Reservation;
pub use wallet::{Effect, Ticket, Wallet};

/// A model call that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeteredCall {
    /// Who pays.
    pub org: OrgId,
    /// On whose behalf.
    pub user: UserId,
    /// One of its kind for each call: (turn, round, call, epoch, attempt), or (job, item, epoch, attempt).
    pub key: String,
    /// What it is for: `chat`, `extraction`, …
    pub operation: &'static str,
    /// The model.
    pub model: String,
    /// What the model costs.
    pub prices: ModelPrices,
    /// The document that it is about, where it is about one.
    pub document: Option<DocumentId>,
    /// Tokens of the prompt, counted here.
    pub input_tokens: u64,
    /// Tokens of the answer at most.
    pub max_output_tokens: u64,
}

/// How a call that had a permit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Answered whole; `usage.reported` says whether the provider counted.
    Completed(Usage),
    /// Cut, failed or cancelled after it was sent; what was received until then.
    Partial(Usage),
    /// It never reached a provider.
    NotSent,
}

/// What is done with a call that nobody waits for any more: its turn was cancelled, or its caller left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbandonedCalls {
    /// It is cut, and costs its prompt and what was received, as counted here.
    #[default]
    Cut,
    /// Its answer is read to the end, and it costs what the provider says.
    Drain,
}

/// The port. Every model call asks for a permit first and settles it after.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Asks for a permit; an error means that the call must not be made.
    ///
    /// Errors: `SPU_EXHAUSTED`; `OVERLOADED`; `STORE_UNAVAILABLE`.
    async fn permit(&self, call: MeteredCall) -> Result<Permit>;

    /// Settles a permit. Called once for each, also when the caller left.
    ///
    /// Errors: `STORE_UNAVAILABLE`: the call counts as used whole when its time is over.
    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<()>;

    /// What is done with calls that nobody waits for any more.
    fn abandoned_calls(&self) -> AbandonedCalls;
}

/// The right to make one call.
#[derive(Debug)]
#[must_use = "a permit is settled"]
pub struct Permit {
    /// The call that it permits.
    pub call: MeteredCall,
    /// What is reserved for it.
    reservation: Option<Reservation>,
    /// Counts as a call of its organization that is under way.
    slot: Option<Slot>,
    /// Counts as reserved until it goes.
    _held: Option<Held>,
}

/// A meter as the rest holds it.
pub type SharedMeter = Arc<dyn Meter>;
