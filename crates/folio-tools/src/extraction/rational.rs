//! Exact arithmetic with the numbers of documents. Pure.

use serde_json::Number;

/// Maximum absolute value of the exponent of a decimal number (base 10).
const POWER_MAX: i32 = 30;

/// A fraction in lowest terms with a positive denominator. An operation returns None if its result exceeds 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rational {
    numerator: i128,
    denominator: i128,
}

impl Rational {
    pub(crate) const ZERO: Self = Self { numerator: 0, denominator: 1 };

    fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = i128::try_from(gcd(numerator.unsigned_abs(), denominator.unsigned_abs())).ok()?;
        let (numerator, denominator) = (numerator.checked_div(divisor)?, denominator.checked_div(divisor)?);
        match denominator {
            0 => None,
            1.. => Some(Self { numerator, denominator }),
            _ => Some(Self { numerator: numerator.checked_neg()?, denominator: denominator.checked_neg()? }),
        }
    }

    pub(crate) fn whole(number: usize) -> Option<Self> {
        Self::new(i128::try_from(number).ok()?, 1)
    }

    /// Returns the decimal value of a JSON number: `0.1` is exactly a tenth.
    pub(crate) fn of_number(number: &Number) -> Option<Self> {
        Self::of_decimal(&number.to_string())
    }

    /// Parses digits with an optional sign, fraction and exponent.
    pub(crate) fn of_decimal(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let power = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if power.abs() > POWER_MAX {
            return if digits == 0 { Some(Self::ZERO) } else { None };
        }
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        if power < 0 { Self::new(digits, factor) } else { Self::new(digits.checked_mul(factor)?, 1) }
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let left = self.numerator.checked_mul(other.denominator)?;
        let right = other.numerator.checked_mul(self.denominator)?;
        Self::new(left.checked_add(right)?, self.denominator.checked_mul(other.denominator)?)
    }

    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(Self { numerator: other.numerator.checked_neg()?, ..other })
    }

    pub(crate) fn times(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        Self::new(numerator, self.denominator.checked_mul(other.denominator)?)
    }

    /// Returns the quotient. None: the result exceeds 128 bits, or `other` is zero.
    pub(crate) fn divided_by(self, other: Self) -> Option<Self> {
        self.times(Self::new(other.denominator, other.numerator)?)
    }

    pub(crate) fn is_less(self, other: Self) -> Option<bool> {
        Some(self.minus(other)?.numerator < 0)
    }

    /// Returns true if the numbers differ by at most `tolerance`.
    pub(crate) fn is_near(self, other: Self, tolerance: Self) -> Option<bool> {
        let difference = self.minus(other)?;
        let difference = Self { numerator: difference.numerator.checked_abs()?, ..difference };
        tolerance.is_less(difference).map(|is_less| !is_less)
    }

    /// Returns the number in decimal notation, with at most `places` digits after the point, and whether the notation is exact.
    /// Otherwise it is rounded half away from zero. None: an intermediate result exceeds 128 bits.
    pub(crate) fn decimal(self, places: u32) -> Option<(String, bool)> {
        let scale = 10_i128.checked_pow(places)?;
        let (whole, rest) =
            (self.numerator.checked_div(self.denominator)?, self.numerator.checked_rem(self.denominator)?);
        let (whole, rest) = (whole.checked_abs()?, rest.checked_abs()?);
        let (mut fraction, mut digits, mut rest) = (0_i128, 0, rest);
        while rest != 0 && digits < places {
            let product = rest.checked_mul(10)?;
            fraction = fraction.checked_mul(10)?.checked_add(product.checked_div(self.denominator)?)?;
            rest = product.checked_rem(self.denominator)?;
            digits += 1;
        }
        let is_exact = rest == 0;
        let mut whole = whole;
        if !is_exact && rest.checked_mul(2)? >= self.denominator {
            // All places are in use, because the remainder is not zero.
            fraction = fraction.checked_add(1)?;
            if fraction == scale {
                (whole, fraction) = (whole.checked_add(1)?, 0);
            }
        }
        let mut text =
            if digits == 0 { String::new() } else { format!(".{fraction:0width$}", width = digits as usize) };
        if !is_exact {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        let sign = if self.numerator < 0 && (whole != 0 || fraction != 0) { "-" } else { "" };
        Some((format!("{sign}{whole}{text}"), is_exact))
    }

    /// Returns the number as an `f64`, rounded, for people.
    #[expect(clippy::cast_precision_loss, reason = "the result is rounded")]
    pub(crate) fn rounded(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// Returns the greatest common divisor, at least 1.
fn gcd(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn number(text: &str) -> Rational {
        Rational::of_decimal(text).unwrap_or_else(|| panic!("{text} does not fit"))
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(number("0.1").plus(number("0.2")), Some(number("0.3")));
        assert_eq!(number("1").divided_by(number("3")).and_then(|third| third.times(number("3"))), Some(number("1")));
        assert_eq!(number("-1.50").minus(number("-2.5e0")), Some(number("1")));
        assert_eq!((number("1.5e-7").rounded(), number("2e3").rounded()), (1.5e-7, 2000.0));
        for (value, text) in [(json!(0.1), "0.1"), (json!(-7), "-7"), (json!(u64::MAX), "18446744073709551615")] {
            assert_eq!(value.as_number().and_then(Rational::of_number), Rational::of_decimal(text));
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_none() {
        for text in ["", "-", "x", "1.2.3", "1e31", "1e-31", "1e99999999999", "170141183460469231731687303715884105728"]
        {
            assert_eq!(Rational::of_decimal(text), None, "{text}");
        }
        assert_eq!(Rational::of_decimal("0e99"), Some(Rational::ZERO));
        let large = number("99999999e30");
        assert_eq!(large.times(large), None);
        assert_eq!(number("1").divided_by(Rational::ZERO), None);
    }

    #[test]
    fn a_decimal_is_exact_or_rounded() {
        let third = number("1").divided_by(number("3")).unwrap();
        let decimal = |number: Rational, places| number.decimal(places).unwrap();
        let exact = |text: &str| (text.to_owned(), true);
        assert_eq!(decimal(number("1.50"), 4), exact("1.5"));
        assert_eq!(decimal(number("-0.125"), 4), exact("-0.125"));
        assert_eq!(decimal(number("100"), 4), exact("100"));
        assert_eq!(decimal(number("0"), 4), exact("0"));
        assert_eq!(decimal(number("1e-4"), 4), exact("0.0001"));
        assert_eq!(decimal(third, 4), ("0.3333".to_owned(), false));
        assert_eq!(decimal(third.plus(third).unwrap(), 2), ("0.67".to_owned(), false));
        assert_eq!(decimal(number("0.9999"), 2), ("1".to_owned(), false));
        assert_eq!(decimal(number("-0.5"), 0), ("-1".to_owned(), false));
        assert_eq!(decimal(number("-0.001"), 2), ("0".to_owned(), false));
    }

    #[test]
    fn a_difference_of_the_tolerance_is_near() {
        let near = |one: &str, other: &str, tolerance: &str| number(one).is_near(number(other), number(tolerance));
        assert_eq!(near("10.01", "10", "0.01"), Some(true));
        assert_eq!(near("9.99", "10", "0.01"), Some(true));
        assert_eq!(near("10.011", "10", "0.01"), Some(false));
        assert_eq!(near("10", "10", "0"), Some(true));
        assert_eq!((number("1").is_less(number("2")), number("2").is_less(number("2"))), (Some(true), Some(false)));
    }

    proptest! {
        #[test]
        fn arithmetic_never_panics(one in any::<(i128, i128)>(), other in any::<(i128, i128)>()) {
            if let (Some(one), Some(other)) = (Rational::new(one.0, one.1), Rational::new(other.0, other.1)) {
                for result in [one.plus(other), one.minus(other), one.times(other), one.divided_by(other)].into_iter().flatten() {
                    prop_assert!(result.denominator > 0);
                }
                one.is_near(other, Rational::ZERO);
            }
        }

        #[test]
        fn sums_of_cents_are_exact(cents in prop::collection::vec(-1_000_000..1_000_000_i64, 0..100)) {
            let sum = cents.iter().try_fold(Rational::ZERO, |sum, cents| {
                let sign = if *cents < 0 { "-" } else { "" };
                sum.plus(Rational::of_decimal(&format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100))?)
            });
            let expected = Rational::new(i128::from(cents.iter().sum::<i64>()), 100);
            prop_assert_eq!(sum, expected);
        }
    }
}
