//! Access tokens: `folio_<id>_<secret>`. The id selects the record, which contains only a hash of the secret.
//!
//! The secret has 256 random bits, so SHA-256 is sufficient: a slow hash protects only secrets that can be guessed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::access::{Principal, Role, Scope};
use crate::environment::Environment;
use crate::error::{Code, Error, Reason, Result};
use crate::ids::{OrgId, UserId};

const ID_DIGITS: usize = 24;
const SECRET_DIGITS: usize = 64;

/// Public part of a token: 24 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(Arc<str>);

impl TokenId {
    /// Derives the id from a name: 96 bits of its SHA-256.
    pub fn derive(name: &str) -> Self {
        let digest = Sha256::digest(name.as_bytes());
        let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let id: String = digits.take(ID_DIGITS).filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        Self(id.into())
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if is_hex(text, ID_DIGITS) {
            return Ok(Self(text.into()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::invalid(Reason::InvalidId, format!("{shown:?} is not a token id")))
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A complete token. It is shown once, at its creation. `Debug` does not reveal the secret.
#[derive(Clone)]
pub struct Token {
    id: TokenId,
    secret: Arc<str>,
}

impl Token {
    /// Creates a random token.
    pub fn generate(environment: &dyn Environment) -> Self {
        let id: String = format!("{:032x}", environment.random()).chars().take(ID_DIGITS).collect();
        let secret = format!("{:032x}{:032x}", environment.random(), environment.random());
        Self { id: TokenId(id.into()), secret: secret.into() }
    }

    /// Creates a random secret under an id that is derived from a name. If several processes do so, the store keeps
    /// one.
    pub fn generate_as(name: &str, environment: &dyn Environment) -> Self {
        Self { id: TokenId::derive(name), ..Self::generate(environment) }
    }

    /// Returns the public part.
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// Returns the complete token, for its holder only.
    pub fn reveal(&self) -> String {
        format!("folio_{}_{}", self.id, self.secret)
    }

    /// Returns the hash of the secret, which is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash(STANDARD_NO_PAD.encode(Sha256::digest(self.secret.as_bytes())))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "folio_{}_…", self.id)
    }
}

impl FromStr for Token {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix("folio_").and_then(|rest| rest.split_once('_')) {
            Some((id, secret)) if is_hex(id, ID_DIGITS) && is_hex(secret, SECRET_DIGITS) => {
                Ok(Self { id: TokenId(id.into()), secret: secret.into() })
            }
            _ => Err(Self::refused()),
        }
    }
}

impl Token {
    /// Returns the error of every invalid token, which does not depend on the reason.
    pub fn refused() -> Error {
        Error::new(
            Code::Unauthenticated,
            Reason::InvalidToken,
            "the token is missing, malformed, unknown, expired or revoked",
        )
    }
}

/// Hash of a token's secret. Comparison takes constant time.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(String);

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

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Public part.
    pub id: TokenId,
    /// Hash of the secret.
    pub hash: TokenHash,
    /// Organization that the token gives access to.
    pub org: OrgId,
    /// User whose calls the token authenticates.
    pub user: UserId,
    /// Role that the token grants.
    pub role: Role,
    /// Description for users.
    pub name: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Expiry time. None: the token does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation. None: the token is not revoked.
    pub revoked_at: Option<Timestamp>,
    /// Scopes of the token. Empty: everything that its role permits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// True if the token also permits operations on the whole installation, such as organizations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub platform: bool,
}

/// A token in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedToken {
    /// The stored token.
    pub record: TokenRecord,
    /// Time of the last use, accurate to about a minute. None: never used.
    pub used_at: Option<Timestamp>,
}

impl TokenRecord {
    /// Creates a token without expiry and with every scope of its role in the organization.
    pub fn new(token: &Token, holder: Principal, name: &str, now: Timestamp) -> Self {
        Self {
            id: token.id.clone(),
            hash: token.hash(),
            org: holder.org,
            user: holder.user,
            role: holder.role,
            name: name.to_owned(),
            created_at: now,
            expires_at: None,
            revoked_at: None,
            scopes: Vec::new(),
            platform: false,
        }
    }

    /// Returns the principal of a presented token. `most` bounds the role. None: the role of the token applies.
    ///
    /// # Errors
    /// `INVALID_TOKEN`.
    pub fn admit(&self, shown: &Token, most: Option<Role>, now: Timestamp) -> Result<Principal> {
        let good =
            self.hash == shown.hash() && self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end);
        if !good {
            return Err(Token::refused());
        }
        let role = most.map_or(self.role, |most| most.min(self.role));
        Ok(Principal { org: self.org.clone(), user: self.user.clone(), role })
    }

    /// Returns true if the token permits this scope.
    pub fn covers(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }
}
