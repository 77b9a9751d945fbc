//! JWTs as access tokens. The settings name the accepted issuers. Each JWT is signed with a key that its issuer
//! publishes.
//!
//! - [`options`] contains the settings of an issuer.
//! - [`keys`] reads and caches the keys of an issuer.
//! - [`claims`] interprets the claims.
//!
//! The error of an invalid token does not depend on the reason; the reason is logged at level `debug`.

mod claims;
mod keys;
mod options;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use folio_types::token::Token;
use folio_types::{Result, Timestamp};
use jsonwebtoken::{Header, Validation, dangerous};
use tokio::task::JoinSet;

pub(crate) use claims::VerifiedClaims;
pub(crate) use options::check;
pub use options::{IssuerOptions, RoleNames};

use claims::{Claims, RejectionReason};
use keys::Keys;

const TOKEN_BYTES: usize = 8 * 1024;
/// Accepted values of `typ`, in lower case.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// The accepted issuers, by `iss`.
#[derive(Clone, Default)]
pub(crate) struct Issuers {
    issuers: Arc<HashMap<String, Issuer>>,
}

struct Issuer {
    options: IssuerOptions,
    keys: Keys,
}

/// Returns true if a bearer token has the form of a JWT: three parts.
pub(crate) fn is_jwt(text: &str) -> bool {
    text.split('.').count() == 3
}

impl Issuers {
    /// Starts reading the keys of all issuers, in tasks of `tasks`.
    ///
    /// # Errors
    /// A file of keys is unusable, or no HTTP client can be built for a URL.
    pub(crate) async fn start(options: &BTreeMap<String, IssuerOptions>, tasks: &mut JoinSet<()>) -> Result<Self> {
        let mut issuers = HashMap::new();
        for (name, options) in options {
            let keys = Keys::start(name, options, tasks).await?;
            issuers.insert(options.issuer.clone(), Issuer { options: options.clone(), keys });
        }
        Ok(Self { issuers: Arc::new(issuers) })
    }

    /// Verifies a token and returns its claims.
    ///
    /// # Errors
    /// `INVALID_TOKEN`, or `UNAVAILABLE` if the keys of the issuer are unknown.
    pub(crate) async fn read(&self, token: &str, now: Timestamp) -> Result<VerifiedClaims> {
        let refused = |why: RejectionReason| {
            tracing::debug!(why, "a JWT was refused");
            Token::refused()
        };
        let (issuer, header) = self.issuer(token).map_err(refused)?;
        let key = issuer.keys.find(&header).await?;
        let claims = verified(token, &header, &key).map_err(refused)?;
        claims::read(&issuer.options, &claims, now).map_err(refused)
    }

    /// Returns the issuer that an unverified token names, and the header of the token.
    fn issuer(&self, token: &str) -> Result<(&Issuer, Header), RejectionReason> {
        if token.len() > TOKEN_BYTES {
            return Err("the token exceeds 8 KiB");
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| "the header cannot be read")?;
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return Err("the header has an unsupported type or critical field");
        }
        if header.typ.as_ref().is_some_and(|typ| !TYPES.contains(&typ.to_ascii_lowercase().as_str())) {
            return Err("typ is not an access token type");
        }
        let claims: Claims = dangerous::insecure_decode_claims(token).map_err(|_| "the claims cannot be read")?;
        let named = claims.get("iss").and_then(|issuer| issuer.as_str()).ok_or("iss is missing")?;
        let issuer = self.issuers.get(named).ok_or("the issuer is not configured")?;
        if !issuer.options.algorithms.contains(&header.alg) {
            return Err("the algorithm is not permitted");
        }
        Ok((issuer, header))
    }
}

/// Returns the claims of a token if this key signed it.
fn verified(token: &str, header: &Header, key: &keys::Key) -> Result<Claims, RejectionReason> {
    // The library checks the signature only. The gateway checks the claims with its own clock.
    let mut validation = Validation::new(header.alg);
    (validation.validate_exp, validation.validate_aud) = (false, false);
    validation.required_spec_claims.clear();
    let data = jsonwebtoken::decode::<Claims>(token, &key.decoding, &validation);
    data.map(|data| data.claims).map_err(|_| "the signature is invalid")
}
