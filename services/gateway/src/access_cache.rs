//! Caches tokens, sessions, users, members and organizations of the store, so that a sequence of calls with one token does
//! not read the store for each call.
//!
//! Gateways do not notify each other: a change takes effect on every gateway within the time to live of an entry (at
//! most 2 s).

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Member, Organization, Session, TokenRecord, User};
use folio_storage::{AccessStore, AccountStore, ResourceExecutor, ResourceStore};
use folio_types::{OrgId, Result, TokenId, UserId};
use moka::future::Cache;

/// Maximum number of entries of each of the caches.
const ENTRIES_MAX: u64 = 10_000;
/// Upper bound of the time to live of an entry.
const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(2);

/// Clones share the entries.
#[derive(Clone)]
pub(crate) struct AccessCache {
    access: AccessStore,
    accounts: AccountStore,
    user_store: ResourceStore<User>,
    organization_store: ResourceStore<Organization>,
    token_store: ResourceStore<TokenRecord>,
    /// Contains only existing tokens, so that forged tokens use no memory.
    tokens: Cache<(OrgId, TokenId), Arc<TokenRecord>>,
    /// Contains only existing sessions, for the same reason.
    sessions: Cache<(UserId, TokenId), Arc<Session>>,
    users: Cache<UserId, Option<Arc<User>>>,
    members: Cache<(OrgId, UserId), Option<Arc<Member>>>,
    organizations: Cache<OrgId, Option<Arc<Organization>>>,
}

fn cache<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static>(time: Duration) -> Cache<K, V> {
    Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(time.min(TIME_TO_LIVE_MAX)).build()
}

impl AccessCache {
    /// Creates an empty cache. `time_to_live` is reduced to 2 s.
    pub(crate) fn new(
        access: AccessStore,
        accounts: AccountStore,
        resources: &Arc<dyn ResourceExecutor>,
        time_to_live: Duration,
    ) -> Self {
        Self {
            access,
            accounts,
            user_store: ResourceStore::new(Arc::clone(resources)),
            organization_store: ResourceStore::new(Arc::clone(resources)),
            token_store: ResourceStore::new(Arc::clone(resources)),
            tokens: cache(time_to_live),
            sessions: cache(time_to_live),
            users: cache(time_to_live),
            members: cache(time_to_live),
            organizations: cache(time_to_live),
        }
    }

    /// None: the token does not exist or is revoked.
    pub(crate) async fn token(&self, org: &OrgId, id: &TokenId) -> Result<Option<Arc<TokenRecord>>> {
        let key = (org.clone(), id.clone());
        if let Some(cached) = self.tokens.get(&key).await {
            return Ok(Some(cached));
        }
        let Some(record) = self.token_store.get(org, id).await?.map(Arc::new) else { return Ok(None) };
        self.tokens.insert(key, Arc::clone(&record)).await;
        Ok(Some(record))
    }

    /// None: the session does not exist or has ended.
    pub(crate) async fn session(&self, user: &UserId, id: &TokenId) -> Result<Option<Arc<Session>>> {
        let key = (user.clone(), id.clone());
        if let Some(cached) = self.sessions.get(&key).await {
            return Ok(Some(cached));
        }
        let Some(session) = self.accounts.session(user, id).await?.map(Arc::new) else { return Ok(None) };
        self.sessions.insert(key, Arc::clone(&session)).await;
        Ok(Some(session))
    }

    /// None: the user does not sign in, or is deleted.
    pub(crate) async fn user(&self, id: &UserId) -> Result<Option<Arc<User>>> {
        let read = async { Ok(self.user_store.get(&OrgId::platform(), id).await?.map(Arc::new)) };
        self.users.try_get_with(id.clone(), read).await.map_err(Arc::unwrap_or_clone)
    }

    /// Returns the member row of a user, including that of a removed member. None: the user never was a member.
    pub(crate) async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Arc<Member>>> {
        let read = async { Ok(self.access.member(org, user).await?.map(Arc::new)) };
        self.members.try_get_with((org.clone(), user.clone()), read).await.map_err(Arc::unwrap_or_clone)
    }

    /// None: the organization does not exist or is deleted.
    pub(crate) async fn organization(&self, org: &OrgId) -> Result<Option<Arc<Organization>>> {
        let read = async { Ok(self.organization_store.get(&OrgId::platform(), org).await?.map(Arc::new)) };
        self.organizations.try_get_with(org.clone(), read).await.map_err(Arc::unwrap_or_clone)
    }
}
