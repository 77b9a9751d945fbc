//! Values of statements.

use folio_types::Timestamp;
use scylla::value::CqlValue;

/// The values of one statement, in the order of its markers.
pub(crate) type Values = Vec<Option<CqlValue>>;

pub(crate) trait Bind {
    fn bind(self) -> Option<CqlValue>;
}

impl Bind for &str {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Text(self.to_owned()))
    }
}

impl Bind for String {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Text(self))
    }
}

impl Bind for &String {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Text(self.clone()))
    }
}

impl Bind for i64 {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::BigInt(self))
    }
}

/// Versions, epochs and counts are far below the maximum of the column.
impl Bind for u64 {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::BigInt(self.cast_signed()))
    }
}

impl Bind for i32 {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Int(self))
    }
}

impl Bind for bool {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Boolean(self))
    }
}

impl Bind for Vec<u8> {
    fn bind(self) -> Option<CqlValue> {
        Some(CqlValue::Blob(self))
    }
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
