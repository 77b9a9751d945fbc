//! Exact parsing of JSON: a number that would lose digits is an error. The size of a value as JSON.

use serde_json::{Number, Value};

use crate::limits::JSON_DEPTH;

/// Maximum number of characters of a number that an error quotes.
const EXCERPT_CHARS: usize = 60;

/// Reason why a text is rejected, for a user or a model.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// More than [`JSON_DEPTH`] levels of arrays and objects.
    #[error("nested deeper than {JSON_DEPTH} levels")]
    TooDeep,
    /// A number that would lose digits, with its first digits.
    #[error(
        "the number {0} cannot be represented exactly (integers have 64 bits, fractions about 16 digits); use fewer \
         digits, or a string where one is allowed"
    )]
    Number(String),
    /// The text is not JSON.
    #[error("invalid JSON: {0}")]
    Syntax(serde_json::Error),
}

/// Parses JSON text. The caller bounds its size.
///
/// # Errors
/// [`ParseError`]: too deep nesting, a number that would lose digits (an integer beyond 64 bits, or a fraction or
/// exponent whose shortest form as a 64-bit float has another value), or a syntax error.
pub fn read(text: &str) -> Result<Value, ParseError> {
    scan(text)?;
    serde_json::from_str(text).map_err(ParseError::Syntax)
}

/// Returns the size of a value as JSON without serializing it into memory. None: it cannot be serialized.
pub fn size(value: &impl serde::Serialize) -> Option<usize> {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).ok()?;
    Some(counter.0)
}

/// Checks the nesting, before the parser uses stack, and that no number loses digits.
fn scan(text: &str) -> Result<(), ParseError> {
    let mut depth = 0usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let tail = rest.get(first.len_utf8()..).unwrap_or_default();
        rest = match first {
            '"' => after_string(tail),
            '-' | '0'..='9' => {
                let end = rest.find(|c| !matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-')).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                if !is_exact(number) {
                    return Err(ParseError::Number(number.chars().take(EXCERPT_CHARS).collect()));
                }
                after
            }
            '[' | '{' => {
                depth += 1;
                if depth > JSON_DEPTH {
                    return Err(ParseError::TooDeep);
                }
                tail
            }
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                tail
            }
            _ => tail,
        };
    }
    Ok(())
}

/// Returns the text after a string. `text` starts after the opening quote.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return text.get(at + 1..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

/// Returns true if a number survives a round trip. Also returns true for a malformed number, which the parser reports.
fn is_exact(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        let is_integer = number.strip_prefix('-').unwrap_or(number).bytes().all(|b| b.is_ascii_digit());
        return !is_integer || number == "-" || number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
    }
    let Ok(float) = number.parse::<f64>() else { return true };
    // Formatted by the serializer: another formatter may choose the other one of two shortest forms that are equally
    // close.
    Number::from_f64(float).is_some_and(|parsed| decimal(number) == decimal(&parsed.to_string()))
}

/// Returns the significant digits of a decimal number and their power of ten, which are equal for equal values. None if
/// the power exceeds all bounds.
fn decimal(number: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let fraction_digits = i64::try_from(fraction.len()).ok()?;
    let power = exponent.parse::<i64>().ok()?.checked_add(zeros)?.checked_sub(fraction_digits)?;
    Some((significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn integers_keep_their_digits_or_are_refused() {
        for parsed in ["9007199254740993", "18446744073709551615", "-9223372036854775808", "[9007199254740993]", "0"] {
            assert_eq!(read(parsed).unwrap().to_string(), parsed);
        }
        for refused in ["18446744073709551616", "-9223372036854775809", r#"{"a": [123456789012345678901234567890]}"#] {
            let problem = read(refused).unwrap_err();
            assert!(matches!(&problem, ParseError::Number(number) if refused.contains(number.as_str())), "{problem}");
            assert!(problem.to_string().contains("64 bits"), "{problem}");
        }
        assert_eq!(read(r#""123456789012345678901234567890""#).unwrap(), json!("123456789012345678901234567890"));
    }

    #[test]
    fn fractions_keep_their_value_or_are_refused() {
        let exact = "120.50 0.1 -0.0 1e3 1E+3 1.5e-7 33.333333333333336 5e-324 0.000 0e999 1e22 805191030015989.2 \
                     0.00001 5e-2";
        for parsed in exact.split(' ') {
            assert!(read(parsed).is_ok(), "{parsed}");
        }
        let inexact = "0.12345678901234567890 3.14159265358979323846 12345678901234567.5 1e400 -1e400 1e-400 \
                       1e99999999999999999999 [1,{\"total\":0.30000000000000000001}]";
        for refused in inexact.split(' ') {
            assert!(matches!(read(refused), Err(ParseError::Number(_))), "{refused}");
        }
    }

    #[test]
    fn depth_is_bounded_before_recursion() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(JSON_DEPTH)).is_ok());
        assert!(read(&format!("[{}1]", "[[]],".repeat(JSON_DEPTH))).is_ok(), "siblings are not nested");
        assert!(matches!(read(&nested(JSON_DEPTH + 1)), Err(ParseError::TooDeep)));
        assert!(matches!(read(&"[".repeat(200_000)), Err(ParseError::TooDeep)));
    }

    #[test]
    fn digits_and_brackets_in_a_string_are_ignored() {
        for source in [r#"{"z":1,"a":"[[[[\"1e999","m":[]}"#, r#"["\\",1]"#, r#"["ä","\\\"1e400"]"#] {
            assert_eq!(read(source).unwrap().to_string(), source);
        }
        for broken in ["", "-", "\"", "1-2", "1.2.3", "ä", "\"\\", "[1,", "--1", "1e"] {
            assert!(matches!(read(broken), Err(ParseError::Syntax(_))), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(source in "[\\[\\]{}\",:0-9eE.+\\- a\\\\ä]{0,80}") {
            let _ = read(&source);
        }

        #[test]
        fn integers_keep_all_digits(number in any::<i64>(), large in any::<u64>()) {
            let source = format!("[{number},{large}]");
            prop_assert_eq!(read(&source).unwrap().to_string(), source);
        }

        #[test]
        fn a_float_that_was_written_by_a_program_is_kept(number in proptest::num::f64::NORMAL) {
            let source = json!(number).to_string();
            prop_assert_eq!(read(&source).unwrap(), json!(number));
        }

        #[test]
        fn an_accepted_number_keeps_its_value(source in "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,20}(e-?[0-9]{1,2})?") {
            if let Ok(parsed) = read(&source) {
                prop_assert_eq!(decimal(&parsed.to_string()), decimal(&source), "{} -> {}", source, parsed);
            }
        }
    }
}
