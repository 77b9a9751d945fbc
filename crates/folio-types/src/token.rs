//! Access tokens: `folio_<organization>_<id>_<secret>`, where organization and id are the digits of their ids. Both
//! select the record, which contains only a hash of the secret. A token of the pseudo organization
//! [`OrgId::platform`] is an account token: it names a user, and the request selects the organization.
//!
//! The secret has 256 random bits, so SHA-256 is sufficient: a slow hash protects only secrets that can be guessed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::environment::Environment;
use crate::error::{Code, Error, Reason, Result};
use crate::ids::{OrgId, TokenId, is_hex};

const ID_DIGITS: usize = 32;
const SECRET_DIGITS: usize = 64;

/// Returns the hexadecimal digits of an id: the part after its prefix.
pub(crate) fn digits(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, digits)| digits)
}

/// Returns the digits of the owner, the digits of the id, and the secret of a token with this prefix. None: the text is
/// no such token.
pub(crate) fn parts<'a>(prefix: &str, text: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let (owner, rest) = text.strip_prefix(prefix)?.split_once('_')?;
    let (id, secret) = rest.split_once('_')?;
    let is_well_formed = is_hex(owner, ID_DIGITS) && is_hex(id, ID_DIGITS) && is_hex(secret, SECRET_DIGITS);
    is_well_formed.then_some((owner, id, secret))
}

/// Returns a random secret.
pub(crate) fn new_secret(environment: &dyn Environment) -> Arc<str> {
    format!("{:032x}{:032x}", environment.random(), environment.random()).into()
}

/// A complete token. It is shown once, at its creation. `Debug` does not reveal the secret.
#[derive(Clone)]
pub struct Token {
    org: OrgId,
    id: TokenId,
    secret: Arc<str>,
}

impl Token {
    pub fn generate(org: &OrgId, environment: &dyn Environment) -> Self {
        Self::with_id(org, TokenId::generate(environment), environment)
    }

    /// Creates a token with this id and a random secret. If several processes do so, the store keeps one token.
    pub fn with_id(org: &OrgId, id: TokenId, environment: &dyn Environment) -> Self {
        Self { org: org.clone(), id, secret: new_secret(environment) }
    }

    pub fn org(&self) -> &OrgId {
        &self.org
    }

    /// Returns true if the token names a user and no organization.
    pub fn is_of_account(&self) -> bool {
        self.org == OrgId::platform()
    }

    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// Returns the complete token in plain text.
    pub fn reveal(&self) -> String {
        format!("folio_{}_{}_{}", digits(self.org.as_str()), digits(self.id.as_str()), self.secret)
    }

    /// Returns the hash of the secret. Only the hash is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "folio_{}_{}_…", digits(self.org.as_str()), digits(self.id.as_str()))
    }
}

impl FromStr for Token {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let (org, id, secret) = parts("folio_", text).ok_or_else(Self::refused)?;
        let org = format!("{}_{org}", OrgId::PREFIX).parse()?;
        let id = format!("{}_{id}", TokenId::PREFIX).parse()?;
        Ok(Self { org, id, secret: secret.into() })
    }
}

impl Token {
    /// Detail of the error of an expired token that was presented with its secret. It does not leave the gateway.
    pub const EXPIRED: &str = "token_expired";

    /// Returns the error of an invalid token. It does not depend on the reason, so that a caller cannot probe for
    /// tokens.
    pub fn refused() -> Error {
        let message = "the token is missing, malformed, unknown, expired or revoked";
        Error::new(Code::Unauthenticated, Reason::InvalidToken, message)
    }
}

/// Hash of a token's secret. Comparison takes constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(String);

impl TokenHash {
    pub(crate) fn of(secret: &str) -> Self {
        Self(STANDARD_NO_PAD.encode(Sha256::digest(secret.as_bytes())))
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::System;

    #[test]
    fn a_token_is_read_back_from_its_text_with_organization_and_id() {
        let org = OrgId::generate(&System);
        let token = Token::generate(&org, &System);
        let read: Token = token.reveal().parse().unwrap();
        assert_eq!((read.org(), read.id(), read.hash()), (&org, token.id(), token.hash()));
        assert_eq!(token.reveal().len(), "folio_".len() + 32 + 1 + 32 + 1 + 64);
        assert!(!format!("{token:?}").contains(&*token.secret));
        let (text, upper) = (token.reveal(), token.reveal().to_uppercase());
        for wrong in [&text[1..], &text[..text.len() - 1], &upper, &format!("{text}_"), ""] {
            assert_eq!(wrong.parse::<Token>().unwrap_err().reason, Reason::InvalidToken, "{wrong}");
        }
    }

    #[test]
    fn tokens_have_different_secrets_and_debug_hides_them() {
        let (org, id) = (OrgId::generate(&System), TokenId::generate(&System));
        let [one, two] = [0, 1].map(|_| Token::with_id(&org, id.clone(), &System));
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.id(), &id);
        assert_eq!(format!("{one:?}"), format!("folio_{}_{}_…", &org.as_str()[4..], &id.as_str()[4..]));
        assert_eq!(format!("{:?}", one.hash()), "TokenHash(…)");
        assert!(one.reveal().parse::<Token>().is_ok());
        let short_id = format!("folio_{}_{}_{}", digits(org.as_str()), &digits(id.as_str())[1..], one.secret);
        assert_eq!(short_id.parse::<Token>().unwrap_err(), Token::refused());
    }
}
