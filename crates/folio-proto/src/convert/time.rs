//! Times.

use folio_types::{Error, Result, Timestamp};

const NANOS: i128 = 1_000_000_000;

/// A time as messages hold it.
pub fn to_proto(time: Timestamp) -> prost_types::Timestamp {
    let nanoseconds = time.as_nanosecond();
    prost_types::Timestamp {
        seconds: i64::try_from(nanoseconds.div_euclid(NANOS)).unwrap_or(0),
        nanos: i32::try_from(nanoseconds.rem_euclid(NANOS)).unwrap_or(0),
    }
}

/// A time out of a message.
pub fn from_proto(field: &str, time: &prost_types::Timestamp) -> Result<Timestamp> {
    let nanoseconds = i128::from(time.seconds) * NANOS + i128::from(time.nanos);
    Timestamp::from_nanosecond(nanoseconds).map_err(|_| Error::invalid_field(field, "is no time"))
}
