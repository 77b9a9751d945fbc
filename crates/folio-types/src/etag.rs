//! Entity tags: opaque versions of resources, for conditional changes.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Reason, Result};

/// The version of a resource in the API: an opaque text that changes with every change of the resource.
///
/// An update or a deletion that carries the etag of an older version is refused with `VERSION_CONFLICT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Etag(u64);

impl Etag {
    pub const fn new(version: u64) -> Self {
        Self(version)
    }

    pub const fn version(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl FromStr for Etag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.strip_prefix('v').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let version = digits.and_then(|digits| digits.parse().ok());
        version.map(Self).ok_or_else(|| Error::invalid(Reason::InvalidField, "is not an etag of this API"))
    }
}

impl Serialize for Etag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_survives_formatting_and_other_texts_are_refused() {
        for version in [0, 1, u64::MAX] {
            assert_eq!(Etag::new(version).to_string().parse::<Etag>().unwrap().version(), version);
        }
        for bad in ["", "v", "7", "v-1", "v+1", "v18446744073709551616", "W/\"1\""] {
            assert!(bad.parse::<Etag>().is_err(), "{bad}");
        }
    }
}
