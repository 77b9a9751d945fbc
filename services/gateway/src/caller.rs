//! Who calls: the bearer token becomes a principal, and what the token is limited to.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_storage::AccessStore;
use folio_types::access::{Member, Scope};
use folio_types::token::{Token, TokenId, TokenRecord};
use folio_types::{Environment, OrgId, Principal, Reason, Result, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::future::Cache;

use crate::attempts::Attempts;
use crate::options::Options;

/// Who calls, and with what.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Who it is, and the most that may be done.
    pub(crate) principal: Principal,
    /// The token that was shown.
    pub(crate) token: TokenId,
    /// What the token is limited to; none: nothing.
    pub(crate) scopes: Vec<Scope>,
    /// Whether the token opens what concerns the whole installation.
    pub(crate) platform: bool,
}

impl Caller {
    /// Whether the token opens a part of the API.
    pub(crate) fn covers(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }
}

/// What is known of a token: its record, and the member that it stands for.
struct Known {
    record: TokenRecord,
    member: Option<Member>,
}

/// That a token was used.
struct Use {
    org: OrgId,
    token: TokenId,
    at: Timestamp,
}

/// Turns bearer tokens into callers. Records are believed for a moment, so that a stream of calls is not a stream of
/// reads; a revoked token is refused within that moment.
#[derive(Clone)]
pub(crate) struct Authenticator {
    store: Arc<dyn AccessStore>,
    environment: Arc<dyn Environment>,
    known: Cache<TokenId, Arc<Known>>,
    /// Tokens whose use was noted a short while ago.
    noted: Cache<TokenId, ()>,
    /// Uses that are to be written: at most as many as there are tokens in `noted`.
    uses: Arc<Mutex<Vec<Use>>>,
    attempts: Attempts,
}

const KNOWN_TOKENS: u64 = 10_000;
const BELIEVED_AT_MOST: Duration = Duration::from_secs(2);
/// Uses that wait to be written.
const USES_MAX: usize = 10_000;
/// How often the use of a token is noted.
const NOTED_EVERY: Duration = Duration::from_secs(60);

impl Authenticator {
    /// Reads tokens from this store.
    pub(crate) fn new(store: Arc<dyn AccessStore>, environment: Arc<dyn Environment>, options: &Options) -> Self {
        let lasting = |time| Cache::builder().max_capacity(KNOWN_TOKENS).time_to_live(time).build();
        let known =
            Cache::builder().max_capacity(KNOWN_TOKENS).time_to_live(options.token_cache.min(BELIEVED_AT_MOST)).build();
        let attempts = Attempts::new(options.failed_attempts_per_minute);
        Self { store, environment, known, noted: lasting(NOTED_EVERY), uses: Arc::default(), attempts }
    }

    /// Who makes a request. Every token that is not good gets the same answer; too many of them from one address, and no
    /// token of that address is looked at that was not good a while ago.
    pub(crate) async fn caller(&self, headers: &HeaderMap, source: Option<IpAddr>) -> Result<Caller> {
        let shown = bearer(headers).ok_or_else(Token::refused)?;
        let token = shown.parse::<Token>();
        self.attempts.allow(source, token.as_ref().ok().map(Token::id)).await?;
        let admitted = match &token {
            Ok(token) => self.admit(token).await,
            Err(refused) => Err(refused.clone()),
        };
        match &admitted {
            Ok(caller) => {
                self.attempts.was_good(&caller.token).await;
                self.note(caller).await;
            }
            Err(error) if error.reason == Reason::InvalidToken => self.attempts.failed(source).await,
            Err(_) => {}
        }
        admitted
    }

    /// Whether a token that was good still is. Errors: the store does not answer.
    pub(crate) async fn is_good(&self, id: &TokenId) -> Result<bool> {
        let now = self.environment.now();
        Ok(self.known(id).await?.is_some_and(|known| {
            known.record.revoked_at.is_none()
                && known.record.expires_at.is_none_or(|end| now < end)
                && known.member.as_ref().is_none_or(|member| member.removed_at.is_none())
        }))
    }

    async fn admit(&self, token: &Token) -> Result<Caller> {
        let known = self.known(token.id()).await?.ok_or_else(Token::refused)?;
        let principal = known.record.admit(token, known.member.as_ref(), self.environment.now())?;
        let Known { record, .. } = &*known;
        let (scopes, platform) = (record.scopes.clone(), record.platform);
        Ok(Caller { principal, token: record.id.clone(), scopes, platform })
    }

    async fn known(&self, id: &TokenId) -> Result<Option<Arc<Known>>> {
        if let Some(known) = self.known.get(id).await {
            return Ok(Some(known));
        }
        let Some(record) = self.store.token(id).await? else { return Ok(None) };
        let member = self.store.member(&record.org, &record.user).await?;
        let known = Arc::new(Known { record, member });
        self.known.insert(id.clone(), Arc::clone(&known)).await;
        Ok(Some(known))
    }

    /// Notes that a token is used, without making its call wait.
    async fn note(&self, caller: &Caller) {
        if self.noted.contains_key(&caller.token) {
            return;
        }
        self.noted.insert(caller.token.clone(), ()).await;
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() < USES_MAX {
            let (org, token) = (caller.principal.org.clone(), caller.token.clone());
            uses.push(Use { org, token, at: self.environment.now() });
        }
    }

    /// Writes the uses that were noted: for people who tidy up, so that a store that does not take one changes nothing.
    pub(crate) async fn write_uses(&self) {
        let uses = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        for Use { org, token, at } in uses {
            if let Err(error) = self.store.note_use(&org, &token, at).await {
                tracing::debug!(%error, "the use of a token was not noted");
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
