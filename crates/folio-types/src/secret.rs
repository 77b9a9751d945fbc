//! A secret of the settings. Neither `Debug` nor `Serialize` reveals it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Replacement of a secret in output.
const MASK: &str = "********";

/// A key, a password or another secret. Only [`Secret::reveal`] returns it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret without surrounding white space.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// Returns the secret in plain text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the secret is the mask itself, which happens if printed settings are copied into a file.
    pub fn is_mask(&self) -> bool {
        &*self.0 == MASK
    }

    fn masked(&self) -> &'static str {
        if self.is_empty() { "" } else { MASK }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.masked())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.masked())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&std::borrow::Cow::<str>::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret: Secret = serde_json::from_str("\"sk-very-secret\"").unwrap();
        assert_eq!(secret.reveal(), "sk-very-secret");
        let masked = format!("{secret:?} {:#?} {}", Some(&secret), serde_json::to_string(&secret).unwrap());
        assert!(!masked.contains("very"), "{masked}");
        assert!(Secret::new(secret.masked()).is_mask());
        assert_eq!(serde_json::to_string(&Secret::default()).unwrap(), "\"\"");
    }

    #[test]
    fn only_the_mask_is_the_mask() {
        assert!(Secret::new(" ").is_empty() && !Secret::new("x").is_empty());
        assert!(!Secret::new("x").is_mask());
        assert_eq!(format!("{:?}", Secret::new("x")), format!("Secret({MASK})"));
    }
}
