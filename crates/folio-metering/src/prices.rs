//! Price of a model call in credits (SPU).

use folio_types::message::Usage;
use folio_types::models::ModelPrices;
use folio_types::settings::{InvalidSettings, Problems};

/// Number of tokens that a model price refers to.
const PRICED_TOKENS: u128 = 1_000_000;

folio_types::settings! {
    /// Conversion of costs to credits: `max(minimum, ceil(markup × cost ÷ price of a credit))`, bounded by the maximum.
    #[derive(Copy)]
    pub struct PriceOptions {
        /// Price of a credit in micro-dollars (10⁻⁶ USD). Default: 10,000, one cent.
        pub credit_microdollars: u64 = 10_000,
        /// Price of a call relative to the provider's price, in percent.
        pub markup_percent: u32 = 200,
        /// Minimum credits of a call. A call of a model without known prices costs the minimum.
        pub minimum_credits: u64 = 1,
        /// Maximum credits of a call.
        pub call_credits_max: u64 = 50,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub credits: u64,
    /// The provider's price in micro-dollars. None: the prices of the model are unknown, and the call costs the
    /// minimum.
    pub cost_microdollars: Option<u64>,
}

impl PriceOptions {
    /// Returns every invalid setting, with paths below `credit.price`.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("credit.price");
        problems.number("credit_microdollars", self.credit_microdollars, 1, 1_000_000_000);
        problems.number("markup_percent", self.markup_percent, 0, 100_000);
        problems.number("minimum_credits", self.minimum_credits, 0, self.call_credits_max);
        problems.number("call_credits_max", self.call_credits_max, 1, 1_000_000_000);
        problems.into_result()
    }

    pub fn price(&self, prices: &ModelPrices, usage: &Usage) -> Price {
        let cost_microdollars = cost(prices, usage);
        let credits = cost_microdollars.map_or(0, |cost| {
            let marked_up = u128::from(cost) * u128::from(self.markup_percent);
            let credits = marked_up.div_ceil(100 * u128::from(self.credit_microdollars.max(1)));
            u64::try_from(credits).unwrap_or(u64::MAX)
        });
        let credits = credits.max(self.minimum_credits).min(self.call_credits_max);
        Price { credits, cost_microdollars }
    }

    /// Returns the maximum price of a call: no cached prompt tokens and a response of maximum length.
    pub fn max_price(&self, prices: &ModelPrices, input_tokens: u64, max_output_tokens: u64) -> u64 {
        let usage = Usage { input_tokens, output_tokens: max_output_tokens, ..Usage::default() };
        let uncached = ModelPrices { cached_input: None, ..*prices };
        self.price(&uncached, &usage).credits
    }
}

/// Returns the provider's price in micro-dollars, rounded up. None: the prices are unknown.
pub(crate) fn cost(prices: &ModelPrices, usage: &Usage) -> Option<u64> {
    let (input, output) = (prices.input?, prices.output?);
    let cached = usage.cached_input_tokens.min(usage.input_tokens);
    let sum = [
        (usage.input_tokens - cached, input),
        (cached, prices.cached_input.unwrap_or(input)),
        (usage.output_tokens, output),
    ];
    let sum = sum
        .into_iter()
        .fold(0_u128, |sum, (tokens, price)| sum.saturating_add(u128::from(tokens).saturating_mul(u128::from(price))));
    Some(u64::try_from(sum.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 1 USD per million prompt tokens, 0.1 USD if cached, 4 USD per million output tokens.
    const PRICES: ModelPrices =
        ModelPrices { input: Some(1_000_000), cached_input: Some(100_000), output: Some(4_000_000) };

    fn usage(input_tokens: u64, cached_input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, cached_input_tokens, output_tokens, ..Usage::default() }
    }

    #[test]
    fn a_call_costs_twice_the_providers_price_rounded_up() {
        let options = PriceOptions::default();
        for (usage, cost, credits) in [
            (usage(0, 0, 0), 0, 1),
            (usage(1, 0, 0), 1, 1),
            (usage(5_000, 0, 0), 5_000, 1),
            (usage(5_001, 0, 0), 5_001, 2),
            (usage(10_000, 10_000, 0), 1_000, 1),
            (usage(10_000, 20_000, 10_000), 41_000, 9),
            (usage(1_000_000, 0, 0), 1_000_000, 50),
        ] {
            let expected = Price { credits, cost_microdollars: Some(cost) };
            assert_eq!(options.price(&PRICES, &usage), expected, "{usage:?}");
        }
    }

    #[test]
    fn without_a_known_price_a_call_costs_the_minimum_and_is_flagged() {
        let options = PriceOptions { minimum_credits: 3, ..PriceOptions::default() };
        for prices in [ModelPrices::default(), ModelPrices { input: Some(1), ..ModelPrices::default() }] {
            let expected = Price { credits: 3, cost_microdollars: None };
            assert_eq!(options.price(&prices, &usage(1_000_000, 0, 1_000_000)), expected);
        }
        let no_cache = ModelPrices { cached_input: None, ..PRICES };
        assert_eq!(options.price(&no_cache, &usage(10_000, 10_000, 0)).cost_microdollars, Some(10_000));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        assert_eq!(PriceOptions::default().check(), Ok(()));
        let wrong = PriceOptions { credit_microdollars: 0, minimum_credits: 51, ..PriceOptions::default() };
        let problems = wrong.check().unwrap_err().problems;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.starts_with("credit.price.")), "{problems:?}");
    }

    proptest! {
        #[test]
        fn a_reservation_covers_every_usage_within_its_limits(
            (input, cached, output) in any::<(u64, u64, u64)>(),
            (price, dearer, answer) in any::<(u64, u64, u64)>(),
        ) {
            let options = PriceOptions::default();
            let prices = ModelPrices { input: Some(dearer.max(price)), cached_input: Some(price), output: Some(answer) };
            let max_price = options.max_price(&prices, input, output);
            let price = options.price(&prices, &usage(input, cached, output));
            prop_assert!(price.credits <= max_price);
            prop_assert!((1..=50).contains(&price.credits));
        }
    }
}
