//! The signed principal of an RPC between processes: short-lived and verified by the node.
//!
//! The header `folio-principal` is `BODY.MAC`, both in base64url without padding. The body is JSON; the MAC is
//! HMAC-SHA-256 over a fixed prefix and the body under the cluster's secret. For rotation, several secrets may be
//! configured: the first one signs, all are accepted. A header is valid only for the RPC that it names and for the body
//! whose digest it contains ([`body`]). Unknown claims are ignored, so that processes of several versions understand each
//! other.

pub(crate) mod body;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use folio_types::{Code, Digest, Error, Principal, Reason, Result, Secret, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tonic::metadata::MetadataMap;

use body::UnsignedClaims;

const HEADER: &str = "folio-principal";
/// Prefix of the signed bytes, so that a MAC for another purpose is invalid.
const PURPOSE: &[u8] = b"folio-principal-3\n";
/// Validity of a header in seconds.
const VALIDITY_SECONDS: i64 = 30;
/// Tolerated clock difference between two processes in seconds.
const SKEW_SECONDS: i64 = 5;
/// Maximum size of a header in bytes.
const HEADER_BYTES: usize = 2_048;

/// Minimum size of a cluster secret in bytes.
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// Claims of the sending process about an RPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// None: the cluster itself makes the RPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<Principal>,
    /// Service and method.
    method: String,
    /// Seconds since the Unix epoch.
    issued: i64,
    /// Seconds since the Unix epoch.
    expires: i64,
    /// Number of times the RPC was forwarded, including this time.
    pub(crate) hop: u8,
    /// Digest of the encoded body.
    body: Digest,
}

#[derive(Clone)]
pub(crate) struct PrincipalSigner {
    keys: Vec<Hmac<Sha256>>,
}

impl PrincipalSigner {
    /// # Errors
    /// There is no secret, or a secret has fewer than [`SECRET_BYTES_MIN`] bytes.
    pub(crate) fn new(secrets: &[Secret]) -> Result<Self> {
        let keys = secrets.iter().map(|secret| {
            let bytes = secret.reveal().as_bytes();
            let key = Hmac::new_from_slice(bytes).ok().filter(|_| bytes.len() >= SECRET_BYTES_MIN);
            key.ok_or_else(|| Error::internal(format!("a cluster secret has fewer than {SECRET_BYTES_MIN} bytes")))
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if keys.is_empty() { Err(Error::internal("no cluster secret is configured")) } else { Ok(Self { keys }) }
    }

    /// Returns the signed header of an RPC.
    pub(crate) fn sign(&self, claims: UnsignedClaims, body: &Digest, now: Timestamp) -> Result<HeaderValue> {
        let UnsignedClaims { principal, method, hop } = claims;
        let issued = now.as_second();
        let (method, expires) = (method.to_owned(), issued + VALIDITY_SECONDS);
        let claims = Claims { principal, method, issued, expires, hop, body: body.clone() };
        let failed = |error: String| Error::internal(format!("cannot encode the signed principal: {error}"));
        let body = serde_json::to_vec(&claims).map_err(|error| failed(error.to_string()))?;
        let mac = self.keys.first().map(|key| mac(key, &body).finalize().into_bytes()).unwrap_or_default();
        let text = format!("{}.{}", BASE64.encode(&body), BASE64.encode(mac));
        HeaderValue::try_from(text).map_err(|error| failed(error.to_string()))
    }

    /// Verifies the header of an RPC and returns its claims. `body_digest`: the digest of the received body. Fails with
    /// `INVALID_PRINCIPAL`.
    pub(crate) fn verify(
        &self,
        metadata: &MetadataMap,
        method: &str,
        body_digest: Option<&Digest>,
        now: Timestamp,
    ) -> Result<Claims> {
        let mut values = metadata.get_all(HEADER).iter();
        let text = values.next().and_then(|value| value.to_str().ok()).ok_or_else(|| refused("missing"))?;
        if values.next().is_some() || text.len() > HEADER_BYTES {
            return Err(refused("malformed"));
        }
        let (body, tag) = text.split_once('.').ok_or_else(|| refused("malformed"))?;
        let decode = |text: &str| BASE64.decode(text).map_err(|_| refused("malformed"));
        let (body, tag) = (decode(body)?, decode(tag)?);
        // Constant-time comparison.
        if !self.keys.iter().any(|key| mac(key, &body).verify_slice(&tag).is_ok()) {
            return Err(refused("signed with another secret, or modified"));
        }
        let claims: Claims = serde_json::from_slice(&body).map_err(|_| refused("malformed"))?;
        if claims.method != method {
            return Err(refused("for another RPC"));
        }
        if body_digest != Some(&claims.body) {
            return Err(refused("for another body"));
        }
        let now = now.as_second();
        if now >= claims.expires.saturating_add(SKEW_SECONDS) {
            let seconds = now.saturating_sub(claims.issued);
            return Err(refused(&format!(
                "expired: it was signed {seconds} s ago, or the clocks of the processes differ"
            )));
        }
        if claims.issued > now.saturating_add(SKEW_SECONDS) {
            let seconds = claims.issued.saturating_sub(now);
            return Err(refused(&format!("not valid yet: the clocks of the processes differ by {seconds} s")));
        }
        if claims.expires.saturating_sub(claims.issued) > VALIDITY_SECONDS {
            return Err(refused("valid for longer than permitted"));
        }
        Ok(claims)
    }
}

impl std::fmt::Debug for PrincipalSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrincipalSigner").field("keys", &self.keys.len()).finish()
    }
}

fn mac(key: &Hmac<Sha256>, body: &[u8]) -> Hmac<Sha256> {
    key.clone().chain_update(PURPOSE).chain_update(body)
}

fn refused(why: &str) -> Error {
    let message = format!("the signed principal of an internal RPC is {why}");
    Error::new(Code::Unauthenticated, Reason::InvalidPrincipal, message)
}

/// Returns the error for a client if a node does not trust this process. The client's credentials are valid, so the
/// error is retriable.
pub(crate) fn untrusted(error: &Error) -> Error {
    tracing::error!(message = %error.message, "a node refused the signed principal of this process: compare cluster secrets and clocks");
    Error::unavailable(Reason::InvalidPrincipal, "a node refused the signed principal of the gateway")
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests;
