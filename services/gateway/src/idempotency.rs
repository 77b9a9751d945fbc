//! The header `Idempotency-Key`: the `request_id` of a change.

use folio_types::{Error, RequestId, Result};
use http::{HeaderMap, HeaderName};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Returns the key of a request. The quotes of a structured header are not part of the key. None: the request has none.
///
/// # Errors
/// `INVALID_FIELD` if the key is no request id, or if there are several.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<RequestId>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let invalid = |problem: &str| Error::invalid_field("Idempotency-Key", problem);
    if values.next().is_some() {
        return Err(invalid("appears twice"));
    }
    let text = value.to_str().map_err(|_| invalid("must be visible ASCII characters"))?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    text.parse().map(Some).map_err(|error: Error| invalid(&error.message))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_one_request_id_with_or_without_quotes() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static(value));
            }
            idempotency_key(&headers).map(|key| key.map(|key| key.to_string()))
        };
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["abc"]).unwrap().as_deref(), Some("abc"));
        assert_eq!(read(&["\"a-b\""]).unwrap().as_deref(), Some("a-b"));
        for refused in [&["a", "b"][..], &[""], &["a b"]] {
            assert_eq!(read(refused).unwrap_err().violations[0].field, "Idempotency-Key", "{refused:?}");
        }
    }
}
