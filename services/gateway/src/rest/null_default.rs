//! In a body, null for an optional member counts as absent.

use serde::{Deserialize, Deserializer};

/// Reads a member whose null is the default value: `#[serde(default, deserialize_with = "null_default")]`.
pub(crate) fn null_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
