//! Values of statements.

use folio_types::Timestamp;
use scylla::value::CqlValue;

/// The values of one statement, in the order of its markers.
pub(crate) type Values = Vec<Option<CqlValue>>;

pub(crate) trait Bind {
    fn bind(self) -> Option<CqlValue>;
}

macro_rules! bind {
    ($($type:ty: $value:ident => $bound:expr;)+) => {
        $(impl Bind for $type {
            fn bind(self) -> Option<CqlValue> {
                let $value = self;
                Some($bound)
            }
        })+
    };
}

bind! {
    &str: text => CqlValue::Text(text.to_owned());
    String: text => CqlValue::Text(text);
    &String: text => CqlValue::Text(text.clone());
    i64: number => CqlValue::BigInt(number);
    // Versions, epochs and counts are far below the maximum of the column.
    u64: number => CqlValue::BigInt(number.cast_signed());
    i32: number => CqlValue::Int(number);
    bool: value => CqlValue::Boolean(value);
    Vec<u8>: bytes => CqlValue::Blob(bytes);
}

impl<T: Bind> Bind for Option<T> {
    fn bind(self) -> Option<CqlValue> {
        self.and_then(Bind::bind)
    }
}

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::values::Bind::bind($value)),*] };
}

pub(crate) use values;

/// Saturates at `i32::MAX`, the maximum of a statement's limit.
pub(crate) fn limit(rows: usize) -> i32 {
    i32::try_from(rows).unwrap_or(i32::MAX)
}

/// Returns a time in microseconds, the unit by which rows are ordered.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// The longest time to live that the servers accept: 20 years.
const TTL_SECONDS: i64 = 630_720_000;

/// Returns the seconds until a row expires: at least one, because 0 means a row that does not expire.
pub(crate) fn time_to_live(now: Timestamp, until: Timestamp) -> i32 {
    let left = until.duration_since(now).as_secs().clamp(1, TTL_SECONDS);
    i32::try_from(left).unwrap_or(i32::MAX)
}
