//! Caches tokens, members and organizations of the store, so that a sequence of calls with one token does not read the
//! store for each call.
//!
//! Gateways do not notify each other: a change takes effect on every gateway within the time to live of an entry (at
//! most 2 s).

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Member, Organization, TokenRecord};
use folio_storage::{AccessStore, ResourceExecutor, ResourceStore};
use folio_types::{OrgId, Result, TokenId, UserId};
use moka::future::Cache;

/// Maximum number of entries of each of the three caches.
const ENTRIES_MAX: u64 = 10_000;
/// Upper bound of the time to live of an entry.
const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(2);

/// Clones share the entries.
#[derive(Clone)]
pub(crate) struct AccessCache {
    access: AccessStore,
    organization_store: ResourceStore<Organization>,
    token_store: ResourceStore<TokenRecord>,
    /// Contains only existing tokens, so that forged tokens use no memory.
    tokens: Cache<(OrgId, TokenId), Arc<TokenRecord>>,
    members: Cache<(OrgId, UserId), Option<Arc<Member>>>,
    organizations: Cache<OrgId, Option<Arc<Organization>>>,
}

fn cache<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static>(time: Duration) -> Cache<K, V> {
    Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(time.min(TIME_TO_LIVE_MAX)).build()
}

impl AccessCache {
    /// Creates an empty cache. `time_to_live` is reduced to 2 s.
    pub(crate) fn new(access: AccessStore, resources: &Arc<dyn ResourceExecutor>, time_to_live: Duration) -> Self {
        let (tokens, members, organizations) = (cache(time_to_live), cache(time_to_live), cache(time_to_live));
        let organization_store = ResourceStore::new(Arc::clone(resources));
        let token_store = ResourceStore::new(Arc::clone(resources));
        Self { access, organization_store, token_store, tokens, members, organizations }
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
