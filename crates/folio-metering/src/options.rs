//! Settings of metering.

use std::time::Duration;

use folio_credit::AMOUNT_MAX;
use folio_types::settings::{InvalidSettings, Problems};

use crate::AbandonedCalls;
use crate::prices::PriceOptions;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

folio_types::settings! {
    /// The settings section `credit`.
    pub struct Options {
        /// If true, calls are recorded but never refused.
        pub unlimited: bool = false,
        /// Credits that each organization receives per calendar month (UTC) and that expire at its end. 0: none.
        pub monthly_allowance: u64 = 1_000_000,
        pub price: PriceOptions = PriceOptions::default(),
        /// Initial and minimum credits of a drawn block; doubled per draw under high load.
        pub block_credits: u64 = 100,
        /// Maximum credits of a drawn block.
        pub block_credits_max: u64 = 5_000,
        /// Lifetime of a block in seconds. A process reserves from an unexpired block; any process may close an expired
        /// one.
        pub block_seconds: Duration as "block_seconds" = Duration::from_secs(60),
        /// Seconds without a call after which a process closes a block.
        pub idle_seconds: Duration as "idle_seconds" = Duration::from_secs(15),
        /// Deadline of a call in seconds. An unsettled call is charged as reserved after its deadline. Must exceed
        /// `models.timeouts.call_seconds`.
        pub reservation_seconds: Duration as "reservation_seconds" = Duration::from_secs(900),
        /// `abort` (default) or `drain`.
        pub abandoned_calls: AbandonedCalls = AbandonedCalls::Abort,
        /// Maximum number of calls of an organization that wait for a draw. Further calls are refused.
        pub waiting_calls_max: usize = 1_024,
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
