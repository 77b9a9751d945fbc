//! Authenticates the bearer token of a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_operations::Caller;
use folio_resources::quota::Quotas;
use folio_storage::{AccessStore, ResourceExecutor};
use folio_types::token::Token;
use folio_types::{Digest, Environment, OrgId, Principal, Reason, Result, Role, Timestamp, TokenId, UserId};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::future::Cache;

use crate::access_cache::AccessCache;
use crate::attempts::Attempts;
use crate::jwt::{Issuers, VerifiedClaims, is_jwt};
use crate::options::Options;
use crate::rates::Rates;

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
        let attempts = Attempts::new(options.failed_attempts_per_minute);
        let (quotas, rates) = (Quotas::default(), None);
        Self { store, environment, cache, issuers, recorded, uses: Arc::default(), attempts, quotas, rates }
    }

    /// Limits the calls per second. `quotas` apply to organizations without quotas of their own.
    pub(crate) fn with_quotas(self, quotas: Quotas, rates: Rates) -> Self {
        Self { quotas, rates: Some(rates), ..self }
    }

    /// Counts a call against the organization's calls per second. Error: `QUOTA_EXCEEDED`.
    pub(crate) async fn count_call(&self, org: &OrgId) -> Result<()> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let organization = self.cache.organization(org).await?;
        let own = organization.map(|organization| organization.quotas).unwrap_or_default();
        rates.allow(org, own.with_defaults(self.quotas)).await
    }

    /// Returns the caller of a request. The error of an invalid token does not depend on the reason. After too many
    /// failed attempts from an address, only recently valid tokens from the address are accepted.
    pub(crate) async fn caller(&self, headers: &HeaderMap, source: Option<IpAddr>) -> Result<Caller> {
        let text = bearer(headers).ok_or_else(Token::refused)?;
        let digest = Digest::of(text.as_bytes());
        self.attempts.allow(source, &digest).await?;
        let admitted = match Credential::of(text) {
            Credential::Token(token) => self.admit(&token).await,
            Credential::Jwt(token) => self.admit_jwt(token).await,
            Credential::Malformed => Err(Token::refused()),
        };
        match &admitted {
            Ok(caller) => {
                self.attempts.record_valid(digest).await;
                if !caller.is_jwt {
                    self.record_use(caller).await;
                }
            }
            Err(error) if error.reason == Reason::InvalidToken => self.attempts.failed(source).await,
            Err(_) => {}
        }
        admitted
    }

    /// Returns true if the token of a caller is still valid and the role of its user is not lower than before. Error:
    /// the store is unavailable.
    pub(crate) async fn is_valid(&self, caller: &Caller) -> Result<bool> {
        let now = self.environment.now();
        let Principal { org, user, role } = &caller.principal;
        let ended = caller.expires_at.is_some_and(|end| end <= now);
        let revoked = !caller.is_jwt && self.cache.token(org, &caller.token).await?.is_none();
        if ended || revoked || self.cache.organization(org).await?.is_none() {
            return Ok(false);
        }
        let member = self.cache.member(org, user).await?;
        Ok(member.is_none_or(|member| member.removed_at.is_none() && member.role >= *role))
    }

    async fn admit(&self, token: &Token) -> Result<Caller> {
        let record = self.cache.token(token.org(), token.id()).await?.ok_or_else(Token::refused)?;
        self.cache.organization(&record.org).await?.ok_or_else(Token::refused)?;
        let role_max = self.role_bound(&record.org, &record.user).await?;
        let principal = record.authenticate(token, role_max, self.environment.now())?;
        let (scopes, has_platform_right, expires_at) = (record.scopes.clone(), record.platform, record.expires_at);
        Ok(Caller { principal, token: record.id.clone(), scopes, has_platform_right, expires_at, is_jwt: false })
    }

    /// Admits a JWT. A JWT never permits operations on the whole installation.
    async fn admit_jwt(&self, token: &str) -> Result<Caller> {
        let VerifiedClaims { org, user, role, scopes, expires_at } =
            self.issuers.read(token, self.environment.now()).await?;
        self.cache.organization(&org).await?.ok_or_else(Token::refused)?;
        let role = self.role_bound(&org, &user).await?.map_or(role, |role_max| role_max.min(role));
        let principal = Principal { org, user, role };
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
}
