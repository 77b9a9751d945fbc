//! Settings of metering.

use std::time::Duration;

use folio_credit::AMOUNT_MAX;
use folio_types::seconds;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

use crate::AbandonedCalls;
use crate::prices::PriceOptions;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings section `credit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// If true, calls are recorded but never refused. Default: false.
    pub unlimited: bool,
    /// Credits that each organization receives per calendar month (UTC) and that expire at its end. 0: none. Default:
    /// 1,000,000.
    pub monthly_allowance: u64,
    pub price: PriceOptions,
    /// Initial and minimum credits of a drawn block; doubled per draw under high load. Default: 100.
    pub block_credits: u64,
    /// Maximum credits of a drawn block. Default: 5,000.
    pub block_credits_max: u64,
    /// Lifetime of a block in seconds. A process reserves from an unexpired block; any process may close an expired
    /// one. Default: 60.
    #[serde(with = "seconds")]
    pub block_seconds: Duration,
    /// Seconds without a call after which a process closes a block. Default: 15.
    #[serde(with = "seconds")]
    pub idle_seconds: Duration,
    /// Deadline of a call in seconds. An unsettled call is charged as reserved after its deadline. Must exceed
    /// `models.timeouts.call_seconds`. Default: 900.
    #[serde(with = "seconds")]
    pub reservation_seconds: Duration,
    /// Handling of calls whose caller no longer waits: `cut` (default) or `drain`.
    pub abandoned_calls: AbandonedCalls,
    /// Maximum number of calls of an organization that wait for a draw. Further calls are refused. Default: 1,024.
    pub waiting_calls_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            unlimited: false,
            monthly_allowance: 1_000_000,
            price: PriceOptions::default(),
            block_credits: 100,
            block_credits_max: 5_000,
            block_seconds: Duration::from_secs(60),
            idle_seconds: Duration::from_secs(15),
            reservation_seconds: Duration::from_secs(900),
            abandoned_calls: AbandonedCalls::Abort,
            waiting_calls_max: 1_024,
        }
    }
}

impl Options {
    /// Returns every invalid setting.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("credit");
        problems.number("monthly_allowance", self.monthly_allowance, 0, AMOUNT_MAX);
        problems.number("block_credits", self.block_credits, 1, self.block_credits_max);
        problems.number("block_credits_max", self.block_credits_max, 1, AMOUNT_MAX);
        problems.seconds("block_seconds", self.block_seconds, SECOND, DAY);
        problems.seconds("idle_seconds", self.idle_seconds, SECOND / 10, self.block_seconds.max(SECOND));
        problems.seconds("reservation_seconds", self.reservation_seconds, SECOND, DAY);
        problems.number("waiting_calls_max", self.waiting_calls_max, 1, 1_000_000);
        problems.into_result()?;
        self.price.check()
    }
}
