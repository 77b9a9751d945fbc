//! Authenticates the bearer token of a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_operations::Caller;
use folio_resources::quota::Quotas;
use folio_storage::{AccessStore, ResourceExecutor};
use folio_types::token::Token;
use folio_types::{Digest, Environment, OrgId, Principal, Reason, Result, Role, Timestamp, TokenId, UserId};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use moka::future::Cache;

use crate::access_cache::AccessCache;
use crate::attempts::Attempts;
use crate::call_shares::Owner;
use crate::counters::Counters;
use crate::jwt::{Issuers, VerifiedClaims, is_jwt};
use crate::options::Options;
use crate::rates::{RateLimit, Rates};

/// A use of a token that is to be stored.
struct TokenUse {
    org: OrgId,
    token: TokenId,
    at: Timestamp,
}

enum Credential<'a> {
    /// An access token of Folio.
    Token(Token),
    /// A text in the form of a JWT.
    Jwt(&'a str),
    Malformed,
}

impl<'a> Credential<'a> {
    fn of(text: &'a str) -> Self {
        match text.parse() {
            Ok(token) => Self::Token(token),
            Err(_) if is_jwt(text) => Self::Jwt(text),
            Err(_) => Self::Malformed,
        }
    }
}

/// Authenticates bearer tokens. Tokens, members and organizations are cached for at most 2 s, so that a revocation
/// takes effect within that time.
#[derive(Clone)]
pub(crate) struct Authenticator {
    store: AccessStore,
    environment: Arc<dyn Environment>,
    cache: AccessCache,
    issuers: Issuers,
    /// Tokens whose use was recorded within the last minute.
    recorded: Cache<TokenId, ()>,
    /// Uses to be written.
    uses: Arc<Mutex<Vec<TokenUse>>>,
    attempts: Attempts,
    quotas: Quotas,
    /// None: calls are not limited.
    rates: Option<Rates>,
    counters: Counters,
}

/// Maximum number of tokens in `recorded`.
const RECORDED_MAX: u64 = 10_000;
/// Maximum number of uses to be written; further uses are dropped.
const USES_MAX: usize = 10_000;
/// Minimum time between two recorded uses of a token.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// Interval at which uses are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);

impl Authenticator {
    pub(crate) fn new(
        store: AccessStore,
        resources: &Arc<dyn ResourceExecutor>,
        environment: Arc<dyn Environment>,
        issuers: Issuers,
        options: &Options,
    ) -> Self {
        let cache = AccessCache::new(store.clone(), resources, options.token_cache);
        let recorded = Cache::builder().max_capacity(RECORDED_MAX).time_to_live(RECORD_INTERVAL).build();
        let attempts = Attempts::new(options.failed_attempts_per_minute, options.token_cache);
        let (quotas, rates) = (Quotas::default(), None);
        let (uses, counters) = (Arc::default(), Counters::default());
        Self { store, environment, cache, issuers, recorded, uses, attempts, quotas, rates, counters }
    }

    /// Counts failed authentications in `counters`.
    pub(crate) fn with_counters(self, counters: Counters) -> Self {
        Self { counters, ..self }
    }

    /// Limits the calls per second. `quotas` apply to organizations without quotas of their own.
    pub(crate) fn with_quotas(self, quotas: Quotas, rates: Rates) -> Self {
        Self { quotas, rates: Some(rates), ..self }
    }

    /// Counts a call against the organization's calls per second. Returns the state of the limit. None: the calls are not
    /// limited. Error: `QUOTA_EXCEEDED`.
    pub(crate) async fn count_call(&self, org: &OrgId) -> Result<Option<RateLimit>> {
        let Some(rates) = &self.rates else { return Ok(None) };
        let organization = self.cache.organization(org).await?;
        let own = organization.map(|organization| organization.quotas).unwrap_or_default();
        rates.allow(org, own.with_defaults(self.quotas)).await
    }

    /// Returns the caller of a request, with the permit that `admit` grants to the owner of its token. The error of an
    /// invalid token does not depend on the reason.
    ///
    /// The owner of a recently valid token is admitted before the token is verified again, so that the permits bound
    /// the verifications. Unknown tokens have bounds of their own (`attempts`).
    ///
    /// # Errors
    /// `INVALID_TOKEN`; `TOO_MANY_ATTEMPTS` instead, after too many failures from the address; `OVERLOADED`; the errors
    /// of `admit`.
    pub(crate) async fn caller<P>(
        &self,
        headers: &HeaderMap,
        source: Option<IpAddr>,
        admit: impl Fn(&Owner) -> Result<P>,
    ) -> Result<(Caller, P)> {
        let text = presented_token(headers).ok_or_else(Token::refused)?;
        let (digest, credential) = (Digest::of(text.as_bytes()), Credential::of(text));
        let owner = self.attempts.owner(&digest).await;
        let is_refused =
            owner.is_none() && (matches!(credential, Credential::Malformed) || self.attempts.is_refused(&digest));
        let (verified, permit) = match owner {
            Some(owner) => {
                let permit = admit(&owner)?;
                (self.verify(&credential, Some(&owner)).await, Some(permit))
            }
            None if is_refused => (Err(Token::refused()), None),
            None => {
                let _verification = self.attempts.verification(source).await?;
                (self.verify(&credential, None).await, None)
            }
        };
        match verified {
            Ok(caller) => {
                let permit = match permit {
                    Some(permit) => permit,
                    None => {
                        let owner = Owner::of(&caller);
                        self.attempts.record_valid(digest, owner.clone()).await;
                        admit(&owner)?
                    }
                };
                if !caller.is_jwt {
                    self.record_use(&caller).await;
                }
                Ok((caller, permit))
            }
            Err(error) => {
                if error.reason == Reason::InvalidToken {
                    self.counters.count_failed_authentication();
                    self.attempts.record_failed(source, (!is_refused).then_some(digest)).await?;
                }
                Err(error)
            }
        }
    }

    /// `owner`: the owner of the credential when it was last valid. None: the credential is unknown.
    async fn verify(&self, credential: &Credential<'_>, owner: Option<&Owner>) -> Result<Caller> {
        match credential {
            Credential::Token(token) => self.verify_token(token, owner).await,
            Credential::Jwt(token) => self.verify_jwt(token).await,
            Credential::Malformed => Err(Token::refused()),
        }
    }

    /// Returns true if the token of a caller is still valid and the role of its user is not lower than before. Error:
    /// the store is unavailable.
    pub(crate) async fn is_valid(&self, caller: &Caller) -> Result<bool> {
        let now = self.environment.now();
        let Principal { org, user, role, .. } = &caller.principal;
        let ended = caller.expires_at.is_some_and(|end| end <= now);
        let revoked = !caller.is_jwt && self.cache.token(org, &caller.token).await?.is_none();
        if ended || revoked || self.cache.organization(org).await?.is_none() {
            return Ok(false);
        }
        let member = self.cache.member(org, user).await?;
        Ok(member.is_none_or(|member| member.removed_at.is_none() && member.role >= *role))
    }

    async fn verify_token(&self, token: &Token, owner: Option<&Owner>) -> Result<Caller> {
        let read = self.cache.token(token.org(), token.id());
        let record = match owner {
            // The entries that the checks below need are read concurrently. An unknown token causes one read only.
            Some(Owner { org, user }) => {
                let (record, ..) = tokio::try_join!(read, self.cache.organization(org), self.cache.member(org, user))?;
                record
            }
            None => read.await?,
        };
        let record = record.ok_or_else(Token::refused)?;
        self.cache.organization(&record.org).await?.ok_or_else(Token::refused)?;
        let role_max = self.role_bound(&record.org, &record.user).await?;
        let principal = record.authenticate(token, role_max, self.environment.now())?;
        let (scopes, has_platform_right, expires_at) = (record.scopes.clone(), record.platform, record.expires_at);
        Ok(Caller { principal, token: record.id.clone(), scopes, has_platform_right, expires_at, is_jwt: false })
    }

    /// Verifies a JWT. A JWT never permits operations on the whole installation.
    async fn verify_jwt(&self, token: &str) -> Result<Caller> {
        let VerifiedClaims { org, user, role, scopes, expires_at } =
            self.issuers.read(token, self.environment.now()).await?;
        self.cache.organization(&org).await?.ok_or_else(Token::refused)?;
        let role = self.role_bound(&org, &user).await?.map_or(role, |role_max| role_max.min(role));
        let principal = Principal::new(org, user, role);
        let token = TokenId::derive(&[token]);
        Ok(Caller { principal, token, scopes, has_platform_right: false, expires_at: Some(expires_at), is_jwt: true })
    }

    /// Returns the role of a member, which bounds the roles of its tokens. None: the user never was a member.
    ///
    /// # Errors
    /// `INVALID_TOKEN` if the member was removed.
    async fn role_bound(&self, org: &OrgId, user: &UserId) -> Result<Option<Role>> {
        match self.cache.member(org, user).await? {
            Some(member) if member.removed_at.is_some() => Err(Token::refused()),
            member => Ok(member.map(|member| member.role)),
        }
    }

    /// Records the use of a token for [`Authenticator::write_uses`], without I/O.
    async fn record_use(&self, caller: &Caller) {
        if self.recorded.contains_key(&caller.token) {
            return;
        }
        self.recorded.insert(caller.token.clone(), ()).await;
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() < USES_MAX {
            let (org, token) = (caller.principal.org.clone(), caller.token.clone());
            uses.push(TokenUse { org, token, at: self.environment.now() });
        }
    }

    /// Writes the recorded uses periodically. A failed write is ignored, because the times only help people to find
    /// unused tokens. Never returns.
    pub(crate) async fn write_uses(self) {
        loop {
            tokio::time::sleep(WRITE_INTERVAL).await;
            let uses = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
            for TokenUse { org, token, at } in uses {
                if let Err(error) = self.store.record_use(&org, &token, at).await {
                    tracing::debug!(%error, "the use of a token was not stored");
                }
            }
        }
    }
}

/// The header with the token of callers that send no `Authorization`.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the token that a request presents: the bearer token, otherwise the API key.
pub(crate) fn presented_token(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).or_else(|| headers.get(API_KEY)?.to_str().ok().map(str::trim).filter(|key| !key.is_empty()))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_counts() {
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(bearer(&with("Bearer abc")), Some("abc"));
        assert_eq!(bearer(&with("bearer  abc ")), Some("abc"));
        for none in ["abc", "Basic abc", ""] {
            assert_eq!(bearer(&with(none)), None, "{none}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn an_api_key_counts_without_a_bearer_token() {
        let with = |values: &[(HeaderName, &str)]| {
            let values = values.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            presented_token(&values.collect()).map(str::to_owned)
        };
        assert_eq!(with(&[(API_KEY, " abc ")]).as_deref(), Some("abc"));
        assert_eq!(with(&[(API_KEY, "abc"), (AUTHORIZATION, "Bearer bad")]).as_deref(), Some("bad"));
        assert_eq!(with(&[(API_KEY, "abc"), (AUTHORIZATION, "Basic x")]).as_deref(), Some("abc"));
        assert_eq!(with(&[(API_KEY, "")]), None);
    }
}
