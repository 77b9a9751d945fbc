//! Requests that a page signs after it has authenticated a user.

use folio_types::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Number of bytes of an HMAC-SHA256.
const MAC_BYTES: usize = 32;

/// Verifies the signatures of the page that shares a secret with this installation. `Debug` does not reveal the secret.
#[derive(Clone)]
pub struct PageSignatures {
    /// None: no page signs users in.
    key: Option<Hmac<Sha256>>,
}

impl PageSignatures {
    pub(crate) fn new(secret: &Secret) -> Self {
        let key = Some(secret.reveal()).filter(|secret| !secret.is_empty());
        Self { key: key.and_then(|secret| Hmac::new_from_slice(secret.as_bytes()).ok()) }
    }

    /// Returns true if the signature is the HMAC-SHA256 of the body in hexadecimal digits. The comparison takes constant time.
    pub fn is_signed(&self, body: &[u8], signature: &str) -> bool {
        let (Some(key), Some(mac)) = (&self.key, mac_of(signature)) else { return false };
        key.clone().chain_update(body).verify_slice(&mac).is_ok()
    }
}

impl std::fmt::Debug for PageSignatures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageSignatures").field("has_key", &self.key.is_some()).finish()
    }
}

/// Returns the bytes of 64 hexadecimal digits.
fn mac_of(digits: &str) -> Option<[u8; MAC_BYTES]> {
    if digits.len() != 2 * MAC_BYTES || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut mac = [0; MAC_BYTES];
    for (position, byte) in mac.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * position..2 * position + 2)?, 16).ok()?;
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 4231, test case 2.
    const BODY: &[u8] = b"what do ya want for nothing?";
    const SIGNATURE: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

    #[test]
    fn a_signature_covers_every_byte_of_the_body() {
        let pages = PageSignatures::new(&Secret::new("Jefe"));
        assert!(pages.is_signed(BODY, SIGNATURE) && pages.is_signed(BODY, &SIGNATURE.to_uppercase()));
        assert!(!pages.is_signed(&BODY[1..], SIGNATURE));
        assert!(!PageSignatures::new(&Secret::new("other")).is_signed(BODY, SIGNATURE));
        for malformed in
            ["", &SIGNATURE[2..], &format!("{SIGNATURE}00"), &SIGNATURE.replace('5', "ü"), &"+1".repeat(32)]
        {
            assert!(!pages.is_signed(BODY, malformed), "{malformed}");
        }
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        let pages = PageSignatures::new(&Secret::default());
        assert!(!pages.is_signed(BODY, SIGNATURE) && !pages.is_signed(b"", &"0".repeat(64)));
        assert!(!format!("{:?}", PageSignatures::new(&Secret::new("Jefe"))).contains("Jefe"));
    }
}
