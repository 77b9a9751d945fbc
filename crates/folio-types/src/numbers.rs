//! Lists of numbers as Base64 of their bytes, little-endian: about half of their decimal notation. Used with
//! `#[serde(with = "folio_types::numbers")]`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

pub fn serialize<S: Serializer>(numbers: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    serializer.serialize_str(&STANDARD_NO_PAD.encode(bytes))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let bytes = STANDARD_NO_PAD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(D::Error::custom("the bytes of numbers are incomplete"));
    }
    Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Vector(#[serde(with = "super")] Vec<f32>);

    #[test]
    fn numbers_are_exact_and_damaged_ones_are_refused() {
        for numbers in [vec![], vec![0.1, -0.0, f32::MAX, f32::MIN_POSITIVE]] {
            let text = serde_json::to_string(&Vector(numbers.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Vector>(&text).unwrap(), Vector(numbers));
        }
        for damaged in ["\"AAA\"", "\"?\"", "[1.0]"] {
            assert!(serde_json::from_str::<Vector>(damaged).is_err(), "{damaged}");
        }
    }
}
