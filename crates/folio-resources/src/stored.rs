//! Stored values: one byte with the format version, then JSON.
//!
//! Older formats stay readable, which golden files test. A format newer than this build is refused with
//! `STORED_FORMAT`.

use folio_types::{Error, Result, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bytes that an encoded value starts with. Most values fit, so that their encoding does not move them.
const INITIAL_CAPACITY: usize = 1024;

/// Encodes a value for storage. `kind` names the value in errors.
///
/// # Errors
/// `INTERNAL` if the value cannot be serialized.
pub fn encode_value(kind: &str, format: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
    bytes.push(format);
    serde_json::to_writer(&mut bytes, value)
        .map_err(|error| Error::internal(format!("a {kind} cannot be encoded: {error}")))?;
    Ok(bytes)
}

/// Decodes a stored value whose format is at most `newest`. `read` decodes the payload of one format.
///
/// # Errors
/// `STORED_FORMAT` if the bytes are empty, of a newer format, or unreadable.
pub fn decode_value<T>(
    kind: &str,
    newest: u8,
    bytes: &[u8],
    read: impl FnOnce(u8, &[u8]) -> serde_json::Result<T>,
) -> Result<T> {
    let unreadable = |problem: String| Error::stored_format(format!("a stored {kind} {problem}"));
    match bytes.split_first() {
        None => Err(unreadable("is empty".to_owned())),
        Some((0, _)) => Err(unreadable("has no format version".to_owned())),
        Some((format, _)) if *format > newest => Err(unreadable(format!(
            "has format version {format}, this build reads up to {newest}: a newer build wrote it"
        ))),
        Some((format, payload)) => read(*format, payload).map_err(|error| {
            tracing::error!(kind, line = error.line(), column = error.column(), "a stored value is unreadable");
            unreadable(format!("of format version {format} is unreadable"))
        }),
    }
}

/// Decodes a stored value of format 1.
pub(crate) fn decode_plain<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T> {
    decode_value(kind, 1, bytes, |_, payload| serde_json::from_slice(payload))
}

/// A resource, or the tombstone of a deleted resource. The tombstone keeps the version, so that versions only grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record<T> {
    /// The resource.
    Live(T),
    /// Version after the deletion, and its time.
    Tombstone { version: u64, at: Timestamp },
}

impl<T> Record<T> {
    /// None: the resource was deleted.
    pub fn live(self) -> Option<T> {
        match self {
            Self::Live(value) => Some(value),
            Self::Tombstone { .. } => None,
        }
    }
}
