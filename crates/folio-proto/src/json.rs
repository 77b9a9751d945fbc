//! Fields that hold JSON text: bounded, and exact.

use folio_types::{Error, FieldViolation, Reason, Result, limits};
use serde_json::Value;

/// Reads JSON text of at most `bytes` bytes, nested at most [`limits::JSON_DEPTH`] deep. An integer that does not fit 64
/// bits is refused: it would come back with other digits.
pub fn parse(field: &str, text: &str, bytes: usize) -> Result<Value> {
    if text.len() > bytes {
        return Err(too_large(field, bytes));
    }
    scan(text).map_err(|problem| Error::invalid_field(field, problem))?;
    serde_json::from_str(text).map_err(|error| Error::invalid_field(field, format!("no JSON: {error}")))
}

/// Reads a JSON object; see [`parse`].
pub fn parse_object(field: &str, text: &str, bytes: usize) -> Result<Value> {
    let value = parse(field, text, bytes)?;
    if value.is_object() { Ok(value) } else { Err(Error::invalid_field(field, "must be a JSON object")) }
}

/// The compact text of a value, as JSON fields hold it.
pub fn text(value: &Value) -> String {
    value.to_string()
}

/// The error of a field over its bound.
pub(crate) fn too_large(field: &str, bytes: usize) -> Error {
    let mut error = Error::invalid(Reason::TooLarge, format!("{field}: more than {bytes} bytes"));
    error.violations.push(FieldViolation { field: field.to_owned(), description: format!("more than {bytes} bytes") });
    error
}

/// Looks for what the parser would let through: too deep nesting (before it can cost stack) and integers that would lose
/// digits. Everything else is left to the parser.
fn scan(text: &str) -> Result<(), String> {
    let mut depth = 0usize;
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'"' => rest = after_string(tail),
            b'[' | b'{' => {
                depth += 1;
                if depth > limits::JSON_DEPTH {
                    return Err(format!("nested deeper than {}", limits::JSON_DEPTH));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let more = tail.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
                let (head, after) = tail.split_at(more.count());
                check_integer(byte, head)?;
                rest = after;
            }
            _ => {}
        }
    }
    Ok(())
}

fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'"' => return tail,
            b'\\' => rest = tail.get(1..).unwrap_or_default(),
            _ => rest = tail,
        }
    }
    rest
}

fn check_integer(first: u8, rest: &[u8]) -> Result<(), String> {
    if !rest.iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let digits: String = std::iter::once(first).chain(rest.iter().copied()).map(char::from).collect();
    let fits = digits.parse::<u64>().is_ok() || digits.parse::<i64>().is_ok() || digits == "-";
    if fits { Ok(()) } else { Err("an integer does not fit 64 bits; give it as a string".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value> {
        parse("value_json", text, 1_000_000)
    }

    #[test]
    fn large_integers_keep_their_digits_or_are_refused() {
        for kept in ["9007199254740993", "18446744073709551615", "-9223372036854775808", "[9007199254740993]"] {
            assert_eq!(text(&read(kept).unwrap()), kept);
        }
        for refused in ["18446744073709551616", "-9223372036854775809", r#"{"a": [123456789012345678901234567890]}"#] {
            let error = read(refused).unwrap_err();
            assert_eq!(error.reason, Reason::InvalidField, "{refused}");
            assert!(error.message.contains("64 bits"), "{error}");
        }
        assert_eq!(read(r#""123456789012345678901234567890""#).unwrap(), json!("123456789012345678901234567890"));
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(limits::JSON_DEPTH)).is_ok());
        assert!(read(&nested(limits::JSON_DEPTH + 1)).is_err());
        assert!(read(&nested(200_000)).is_err());
        assert!(read(&"[".repeat(200_000)).is_err());
        assert_eq!(parse("value_json", "[1,2]", 4).unwrap_err().reason, Reason::TooLarge);
    }

    #[test]
    fn members_keep_their_order_and_braces_in_strings_do_not_count() {
        let source = r#"{"z":1,"a":"[[[[\"","m":[]}"#;
        assert_eq!(text(&read(source).unwrap()), source);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(source in "[\\[\\]{}\",:0-9eE.+\\- a\\\\]{0,80}") {
            let _ = read(&source);
        }

        #[test]
        fn integers_come_back_digit_by_digit(number in any::<i64>(), large in any::<u64>()) {
            let source = format!("[{number},{large}]");
            prop_assert_eq!(text(&read(&source).unwrap()), source);
        }
    }
}
