//! Durations in settings: a number of seconds, fractions allowed, with the unit in the name of the key. Used with
//! `#[serde(with = "folio_types::seconds")]`.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serializes whole seconds as an integer, other durations as a fraction.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().serialize(serializer)
    } else {
        duration.as_secs_f64().serialize(serializer)
    }
}

/// Deserializes a number of seconds that is not negative and fits a [`Duration`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Options {
        #[serde(with = "super")]
        wait_seconds: Duration,
    }

    #[test]
    fn a_duration_is_a_number_of_seconds() {
        for (text, milliseconds) in [("5", 5_000), ("0.25", 250), ("0", 0)] {
            let options: Options = serde_json::from_str(&format!("{{\"wait_seconds\":{text}}}")).unwrap();
            assert_eq!(options.wait_seconds, Duration::from_millis(milliseconds));
            assert_eq!(serde_json::to_string(&options).unwrap(), format!("{{\"wait_seconds\":{text}}}"));
        }
        for wrong in ["-1", "1e300", "\"5\""] {
            assert!(serde_json::from_str::<Options>(&format!("{{\"wait_seconds\":{wrong}}}")).is_err(), "{wrong}");
        }
    }
}
