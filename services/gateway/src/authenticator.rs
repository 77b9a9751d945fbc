//! Authenticates the bearer token of a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_operations::{Caller, CredentialKind};
use folio_resources::quota::Quotas;
use folio_storage::{AccessStore, AccountStore, ResourceExecutor};
use folio_types::token::Token;
use folio_types::{
    Code, Digest, Environment, Error, OrgId, Principal, Reason, Result, Role, SessionToken, Timestamp, TokenId, UserId,
};
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
    /// An access token of Folio: of an organization, or of an account.
    Token(Token),
    Session(SessionToken),
    /// A text in the form of a JWT.
    Jwt(&'a str),
    Malformed,
}

impl<'a> Credential<'a> {
    fn of(text: &'a str) -> Self {
        match (text.parse(), text.parse()) {
            (Ok(token), _) => Self::Token(token),
            (_, Ok(session)) => Self::Session(session),
            _ if is_jwt(text) => Self::Jwt(text),
            _ => Self::Malformed,
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
    /// True if sessions and account tokens are accepted.
    accepts_accounts: bool,
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
    /// Creates an authenticator that accepts no accounts.
    pub(crate) fn new(
        (store, accounts): (AccessStore, AccountStore),
        resources: &Arc<dyn ResourceExecutor>,
        environment: Arc<dyn Environment>,
        issuers: Issuers,
        options: &Options,
    ) -> Self {
        let cache = AccessCache::new(store.clone(), accounts, resources, options.token_cache);
        let recorded = Cache::builder().max_capacity(RECORDED_MAX).time_to_live(RECORD_INTERVAL).build();
        let attempts = Attempts::new(options.failed_attempts_per_minute, options.token_cache);
        let (quotas, rates) = (Quotas::default(), None);
        let (uses, counters, accepts_accounts) = (Arc::default(), Counters::default(), false);
        Self { store, environment, cache, issuers, accepts_accounts, recorded, uses, attempts, quotas, rates, counters }
    }

    /// Accepts sessions and account tokens.
    pub(crate) fn with_accounts(self, accepts_accounts: bool) -> Self {
        Self { accepts_accounts, ..self }
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
    /// invalid token does not depend on the reason, except for the detail [`Token::EXPIRED`]. `org`: the organization
    /// that the request selects. A credential of an account is valid in the organizations of its user, any other one only
    /// in its own.
    ///
    /// The owner of a recently valid token is admitted before the token is verified again, so that the permits bound
    /// the verifications. Unknown tokens have bounds of their own (`attempts`).
    ///
    /// # Errors
    /// `INVALID_TOKEN`; `TOO_MANY_ATTEMPTS` instead, after too many failures from the address; `NOT_A_MEMBER`;
    /// `OVERLOADED`; the errors of `admit`.
    pub(crate) async fn caller<P>(
        &self,
        headers: &HeaderMap,
        org: Option<&OrgId>,
        source: Option<IpAddr>,
        admit: impl Fn(&Owner) -> Result<P>,
    ) -> Result<(Caller, P)> {
        let text = presented_token(headers).ok_or_else(Token::refused)?;
        // A credential has another owner in each organization. A header contains no line feed.
        let selected = org.map(OrgId::as_str).unwrap_or_default();
        let (digest, credential) = (Digest::of(format!("{selected}\n{text}").as_bytes()), Credential::of(text));
        let owner = self.attempts.owner(&digest).await;
        let is_refused =
            owner.is_none() && (matches!(credential, Credential::Malformed) || self.attempts.is_refused(&digest));
        let (verified, permit) = match owner {
            Some(owner) => {
                let permit = admit(&owner)?;
                (self.verify(&credential, org, Some(&owner)).await, Some(permit))
            }
            None if is_refused => (Err(Token::refused()), None),
            None => {
                let _verification = self.attempts.verification(source).await?;
                (self.verify(&credential, org, None).await, None)
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
                if caller.credential.is_token() {
                    self.record_use(&caller).await;
                }
                Ok((caller, permit))
            }
            Err(error) => {
                if error.reason == Reason::NotAMember {
                    // The calls of the user no longer use shares of the organization.
                    self.attempts.forget(&digest).await;
                }
                if error.reason == Reason::InvalidToken {
                    self.counters.count_failed_authentication();
                    let is_expired = error.details.contains_key(Token::EXPIRED);
                    if is_expired {
                        // A refusal from memory would not state the reason.
                        self.attempts.forget(&digest).await;
                    }
                    self.attempts.record_failed(source, (!is_refused && !is_expired).then_some(digest)).await?;
                }
                Err(error)
            }
        }
    }

    /// Counts a failed sign-in from an address.
    ///
    /// # Errors
    /// `TOO_MANY_ATTEMPTS` after too many failures from the address.
    pub(crate) async fn record_failed_sign_in(&self, source: Option<IpAddr>) -> Result<()> {
        self.counters.count_failed_authentication();
        self.attempts.record_failed(source, None).await
    }

    /// `owner`: the owner of the credential when it was last valid. None: the credential is unknown.
    async fn verify(&self, credential: &Credential<'_>, org: Option<&OrgId>, owner: Option<&Owner>) -> Result<Caller> {
        let is_other = |own: &OrgId| org.is_some_and(|org| org != own);
        match credential {
            Credential::Token(token) if token.is_of_account() => self.verify_account_token(token, org).await,
            Credential::Token(token) if is_other(token.org()) => Err(Token::refused()),
            Credential::Token(token) => self.verify_token(token, owner).await,
            Credential::Session(token) => self.verify_session(token, org).await,
            Credential::Jwt(token) => match self.verify_jwt(token).await? {
                caller if is_other(&caller.principal.org) => Err(not_a_member()),
                caller => Ok(caller),
            },
            Credential::Malformed => Err(Token::refused()),
        }
    }

    /// Returns true if the credential of a caller is still valid and the role of its user is not lower than before.
    /// Error: the store is unavailable.
    pub(crate) async fn is_valid(&self, caller: &Caller) -> Result<bool> {
        let (now, cache) = (self.environment.now(), &self.cache);
        let Principal { org, user, role, .. } = &caller.principal;
        if caller.expires_at.is_some_and(|end| end <= now) {
            return Ok(false);
        }
        let is_stored = match caller.credential {
            CredentialKind::Token => cache.token(org, &caller.token).await?.is_some(),
            CredentialKind::AccountToken => {
                let token = cache.token(&OrgId::platform(), &caller.token).await?;
                token.is_some() && cache.user(user).await?.is_some()
            }
            CredentialKind::Session => match (cache.session(user, &caller.token).await?, cache.user(user).await?) {
                (Some(session), Some(user)) => session.is_open(&user, now),
                _ => false,
            },
            CredentialKind::Jwt | CredentialKind::Absent => true,
        };
        if !is_stored || !caller.has_organization() {
            return Ok(is_stored);
        }
        if cache.organization(org).await?.is_none() {
            return Ok(false);
        }
        Ok(match cache.member(org, user).await? {
            Some(member) => member.removed_at.is_none() && member.role >= *role,
            None => !caller.credential.is_of_account(),
        })
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
        let (token, credential) = (record.id.clone(), CredentialKind::Token);
        Ok(Caller { principal, token, credential, scopes, has_platform_right, expires_at })
    }

    /// Verifies a JWT. A JWT never permits operations on the whole installation.
    async fn verify_jwt(&self, token: &str) -> Result<Caller> {
        let VerifiedClaims { org, user, role, scopes, expires_at } =
            self.issuers.read(token, self.environment.now()).await?;
        self.cache.organization(&org).await?.ok_or_else(Token::refused)?;
        let role = self.role_bound(&org, &user).await?.map_or(role, |role_max| role_max.min(role));
        let principal = Principal::new(org, user, role);
        let (token, credential) = (TokenId::derive(&[token]), CredentialKind::Jwt);
        let (has_platform_right, expires_at) = (false, Some(expires_at));
        Ok(Caller { principal, token, credential, scopes, has_platform_right, expires_at })
    }

    async fn verify_account_token(&self, token: &Token, org: Option<&OrgId>) -> Result<Caller> {
        self.require_accounts()?;
        let record = self.cache.token(token.org(), token.id()).await?.ok_or_else(Token::refused)?;
        let user = self.cache.user(&record.user).await?.ok_or_else(Token::refused)?;
        let principal = record.authenticate(token, None, self.environment.now())?;
        let caller = Caller {
            principal,
            token: record.id.clone(),
            credential: CredentialKind::AccountToken,
            scopes: record.scopes.clone(),
            has_platform_right: record.platform && user.platform,
            expires_at: record.expires_at,
        };
        self.in_organization(caller, org).await
    }

    async fn verify_session(&self, token: &SessionToken, org: Option<&OrgId>) -> Result<Caller> {
        self.require_accounts()?;
        let session = self.cache.session(token.user(), token.id()).await?.ok_or_else(Token::refused)?;
        let user = self.cache.user(token.user()).await?.ok_or_else(Token::refused)?;
        session.authenticate(token, &user, self.environment.now())?;
        let caller = Caller {
            principal: Principal::new(OrgId::platform(), user.id.clone(), Role::Admin),
            token: session.id.clone(),
            credential: CredentialKind::Session,
            scopes: Vec::new(),
            has_platform_right: user.platform,
            expires_at: Some(session.expires_at),
        };
        self.in_organization(caller, org).await
    }

    fn require_accounts(&self) -> Result<()> {
        if self.accepts_accounts { Ok(()) } else { Err(Token::refused()) }
    }

    /// Returns the caller of an account in the organization that the request selects. The membership of the user is
    /// checked before anything else of the organization is read.
    ///
    /// # Errors
    /// `NOT_A_MEMBER`, also if the organization does not exist.
    async fn in_organization(&self, caller: Caller, org: Option<&OrgId>) -> Result<Caller> {
        let Some(org) = org else { return Ok(caller) };
        let user = caller.principal.user.clone();
        let member = self.cache.member(org, &user).await?;
        let member = member.filter(|member| member.removed_at.is_none()).ok_or_else(not_a_member)?;
        self.cache.organization(org).await?.ok_or_else(not_a_member)?;
        let role = member.role.min(caller.principal.role);
        Ok(Caller { principal: Principal::new(org.clone(), user, role), ..caller })
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
            let org = match caller.credential.is_of_account() {
                true => OrgId::platform(),
                false => caller.principal.org.clone(),
            };
            let token = caller.token.clone();
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

/// Returns the error of a user in an organization that is not one of its own. It does not depend on the existence of the
/// organization.
pub(crate) fn not_a_member() -> Error {
    let message = "the user is not a member of this organization";
    Error::new(Code::PermissionDenied, Reason::NotAMember, message)
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
