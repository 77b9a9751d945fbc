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

/// Settings of metering (`credit`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether calls are only recorded and never refused. Default no.
    pub unlimited: bool,
    /// Credits that each organization is given for each calendar month (UTC), and loses at its end; 0: none. Default
    /// 1,000,000.
    pub monthly_allowance: u64,
    /// How costs become credits.
    pub price: PriceOptions,
    /// What a process draws at once where little is used. Default 100.
    pub block_credits: u64,
    /// What it draws at once at most, where much is used. Default 5,000.
    pub block_credits_max: u64,
    /// How long it reserves from what it drew; later anybody gives the rest back. Default 60.
    #[serde(with = "seconds")]
    pub block_seconds: Duration,
    /// After how long without a call it gives back what it holds. Default 15.
    #[serde(with = "seconds")]
    pub idle_seconds: Duration,
    /// How long a call may take: one that is not settled by then counts as used whole. Default 900; longer than
    /// `models.timeouts.call_seconds`.
    #[serde(with = "seconds")]
    pub reservation_seconds: Duration,
    /// What is done with a call that nobody waits for any more: `cut`, the default, or `drain`.
    pub abandoned_calls: AbandonedCalls,
    /// Calls of an organization that may wait for credit to be drawn; one more is refused. Default 1,024.
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
            abandoned_calls: AbandonedCalls::Cut,
            waiting_calls_max: 1_024,
        }
    }
}

impl Options {
    /// Checks every setting.
    ///
    /// # Errors
    /// Every one that cannot be used.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("credit");
        problems.number("monthly_allowance", self.monthly_allowance, 0, AMOUNT_MAX);
        problems.number("block_credits", self.block_credits, 1, self.block_credits_max);
        problems.number("block_credits_max", self.block_credits_max, 1, AMOUNT_MAX);
        problems.seconds("block_seconds", self.block_seconds, SECOND, DAY);
        problems.seconds("idle_seconds", self.idle_seconds, SECOND / 10, self.block_seconds.max(SECOND));
        problems.seconds("reservation_seconds", self.reservation_seconds, SECOND, DAY);
        problems.number("waiting_calls_max", self.waiting_calls_max, 1, 1_000_000);
        problems.verdict()?;
        self.price.verdict()
    }
}
