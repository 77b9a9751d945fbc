//! Page tokens: a position in a list, bound to the list, its filter and its order.
//!
//! A token is no secret, because it contains only a position in the caller's own list. The digests detect accidents.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use folio_types::{Error, Reason, Result, hash_parts};

const VERSION: u8 = 1;

/// Returns a token. `text`: the text by which the list is ordered (empty: by creation). `suffix`: unique among equal
/// texts.
pub fn encode(scope: [u8; 8], text: &str, suffix: &[u8]) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&scope);
    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(suffix);
    bytes.extend_from_slice(&digest(&[&bytes]));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the text and the suffix of a token. `INVALID_PAGE_TOKEN` if it is malformed or belongs to a list with
/// another scope.
pub fn decode(scope: [u8; 8], token: &str) -> Result<(String, Vec<u8>)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    let (bytes, check) = bytes.split_last_chunk::<8>().ok_or_else(invalid)?;
    let (version, rest) = bytes.split_first().ok_or_else(invalid)?;
    let (of, rest) = rest.split_first_chunk::<8>().ok_or_else(invalid)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(invalid)?;
    if *check != digest(&[bytes]) || *version != VERSION || *of != scope {
        return Err(invalid());
    }
    let (text, suffix) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(invalid)?;
    Ok((String::from_utf8(text.to_vec()).map_err(|_| invalid())?, suffix.to_vec()))
}

/// Returns the error for a token that is malformed or belongs to another list.
pub fn invalid() -> Error {
    Error::invalid(Reason::InvalidPageToken, "the page_token is malformed or belongs to another list")
}

/// Returns the first 8 bytes of the SHA-256 of the parts, each preceded by its length.
pub fn digest(parts: &[&[u8]]) -> [u8; 8] {
    let mut short = [0; 8];
    for (to, from) in short.iter_mut().zip(hash_parts(parts)) {
        *to = from;
    }
    short
}
