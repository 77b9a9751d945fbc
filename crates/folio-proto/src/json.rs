//! Fields that contain JSON text. Their size is bounded, and numbers keep every digit.

use folio_types::{Error, Reason, Result, json};
use serde_json::Value;

/// Parses JSON text. Errors: `TOO_LARGE` for more than `bytes` bytes; `INVALID_FIELD` if [`json::read`] refuses the
/// text (too deep nesting, or a number that would lose digits).
pub fn parse(field: &str, text: &str, bytes: usize) -> Result<Value> {
    if text.len() > bytes {
        return Err(too_large(field, bytes));
    }
    json::read(text).map_err(|refused| Error::invalid_field(field, refused.to_string()))
}

/// Like [`parse`], but for a JSON object.
pub fn parse_object(field: &str, text: &str, bytes: usize) -> Result<Value> {
    let value = parse(field, text, bytes)?;
    if value.is_object() { Ok(value) } else { Err(Error::invalid_field(field, "must be a JSON object")) }
}

/// Returns the compact JSON text of a value.
pub fn text(value: &Value) -> String {
    value.to_string()
}

pub(crate) fn too_large(field: &str, bytes: usize) -> Error {
    Error::invalid_field(field, format!("has more than {bytes} bytes")).with_reason(Reason::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::limits;

    fn read(text: &str) -> Result<Value> {
        parse("value_json", text, 1_000_000)
    }

    #[test]
    fn a_number_that_would_lose_digits_is_an_error_of_its_field() {
        for refused in ["18446744073709551616", r#"{"a": [0.12345678901234567890]}"#] {
            let error = read(refused).unwrap_err();
            assert_eq!(error.reason, Reason::InvalidField, "{refused}");
            assert!(error.message.contains("64 bits"), "{error}");
            assert_eq!(error.violations[0].field, "value_json");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(limits::JSON_DEPTH)).is_ok());
        assert!(read(&nested(limits::JSON_DEPTH + 1)).is_err());
        assert!(read(&nested(200_000)).is_err());
        assert_eq!(parse("value_json", "[1,2]", 4).unwrap_err().reason, Reason::TooLarge);
    }

    #[test]
    fn members_keep_their_order() {
        let source = r#"{"z":1,"a":"[[[[\"","m":[]}"#;
        assert_eq!(text(&read(source).unwrap()), source);
    }
}
