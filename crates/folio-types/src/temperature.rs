//! The sampling temperature of a model call.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Maximum temperature.
// proto: Prompt.temperature "0 to {}."
// proto: CompletionParameters.temperature "0 to {}."
const TEMPERATURE_MAX: u16 = 2;

/// A sampling temperature from 0 to 2, with three decimals. The default is 0: the model selects the most probable token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Temperature {
    thousandths: u16,
}

impl Temperature {
    /// Returns the temperature, rounded to three decimals. The error names `field`.
    pub fn new(field: &str, number: f64) -> Result<Self> {
        if !(0.0..=f64::from(TEMPERATURE_MAX)).contains(&number) {
            return Err(Error::invalid_field(field, format!("must be from 0 to {TEMPERATURE_MAX}")));
        }
        Ok(Self { thousandths: (number * 1_000.0).round() as u16 })
    }

    pub fn get(self) -> f64 {
        f64::from(self.thousandths) / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_is_bounded_and_keeps_three_decimals() {
        for (number, kept) in [(0.0, 0.0), (-0.0, 0.0), (0.7, 0.7), (0.12345, 0.123), (1.9999, 2.0), (2.0, 2.0)] {
            assert_eq!(Temperature::new("t", number).unwrap().get(), kept);
        }
        for bad in [-0.001, 2.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Temperature::new("t", bad).unwrap_err().violations[0].field, "t", "{bad}");
        }
        assert_eq!(Temperature::default().get(), 0.0);
    }
}
