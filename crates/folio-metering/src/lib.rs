//! Metering: the port that sees every model call before and after it is made.
//!
//! A call that has no permit is not made. Here a permit is always given and usage is recorded; credit escrow (blocks,
//! ledger rows) is to come behind the same port.

mod record;

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::message::Usage;
use folio_types::{OrgId, Result, UserId};

pub use record::UsageRecorder;

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

/// The port. Every model call asks for a permit first and settles it after.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Asks for a permit; an error means that the call must not be made.
    async fn permit(&self, call: MeteredCall) -> Result<Permit>;

    /// Settles a permit. Called once for each, also when the caller left.
    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<()>;
}

/// The right to make one call.
#[derive(Debug)]
#[must_use = "a permit is settled"]
pub struct Permit {
    /// The call that it permits.
    pub call: MeteredCall,
}

/// A meter as the rest holds it.
pub type SharedMeter = Arc<dyn Meter>;
