//! Passwords: their permitted lengths and their normal form.

use std::fmt;
use std::sync::Arc;

use folio_types::{Error, Result};
use unicode_normalization::UnicodeNormalization as _;

/// Minimum length of a password, in characters.
// proto: *.password "{} to"
// proto: ChangePasswordRequest.current_password "{} to"
// proto: ChangePasswordRequest.new_password "{} to"
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Maximum length of a password, in characters.
// proto: *.password "{} characters"
// proto: ChangePasswordRequest.current_password "{} characters"
// proto: ChangePasswordRequest.new_password "{} characters"
pub const PASSWORD_CHARS: usize = 256;
/// Maximum length of a text that is normalized, in bytes. The normal form of a longer text has more than
/// [`PASSWORD_CHARS`] characters, because no character of it replaces more than 12 bytes.
const BYTES_MAX: usize = 12 * PASSWORD_CHARS;

/// A password in Unicode normal form C, so that the keyboards of all systems enter the same text. `Debug` does not
/// reveal the password. The type does not implement `Serialize`, so that the stored digest of a request cannot cover a
/// password: a fast digest would help to guess it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Arc<str>);

impl Password {
    /// Parses a password of [`PASSWORD_CHARS_MIN`] to [`PASSWORD_CHARS`] characters. Any character is permitted.
    ///
    /// # Errors
    /// `INVALID_FIELD` of `field` for any other length. The message does not contain the text.
    pub fn parse(field: &str, text: &str) -> Result<Self> {
        if text.len() <= BYTES_MAX {
            let normal: String = text.nfc().collect();
            if (PASSWORD_CHARS_MIN..=PASSWORD_CHARS).contains(&normal.chars().count()) {
                return Ok(Self(normal.into()));
            }
        }
        let problem = format!("must have {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS} characters");
        Err(Error::invalid_field(field, problem))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_12_to_256_characters() {
        for (chars, is_accepted) in [(0, false), (11, false), (12, true), (256, true), (257, false), (100_000, false)] {
            for letter in ["x", "ä", "🔑", " "] {
                let parsed = Password::parse("password", &letter.repeat(chars));
                assert_eq!(parsed.is_ok(), is_accepted, "{chars} times {letter:?}");
            }
        }
        let refused = Password::parse("new_password", "short").unwrap_err();
        assert_eq!(refused.violations[0].field, "new_password");
        assert!(!refused.message.contains("short"));
    }

    #[test]
    fn composed_and_decomposed_letters_are_the_same_password() {
        let [composed, decomposed] = ["ä".repeat(256), "a\u{308}".repeat(256)];
        assert_eq!(Password::parse("p", &composed).unwrap(), Password::parse("p", &decomposed).unwrap());
        assert!(Password::parse("p", &"a\u{308}".repeat(11)).is_err(), "the normal form has 11 characters");
        let different = [" correct horse", "correct horse "].map(|text| Password::parse("p", text).unwrap());
        assert_ne!(different[0], different[1], "surrounding whitespace is a part of a password");
    }

    #[test]
    fn a_password_is_not_shown() {
        let password = Password::parse("p", "correct horse battery").unwrap();
        assert!(!format!("{password:?}").contains("horse"));
    }
}
