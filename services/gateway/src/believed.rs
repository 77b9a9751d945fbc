//! What the store said of tokens, members and organizations, believed for a moment, so that a stream of calls is not a stream of
//! reads. Nothing has to be told from gateway to gateway: what changes counts everywhere once the moment is over.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use folio_storage::AccessStore;
use folio_types::access::{Member, Organization};
use folio_types::token::{TokenId, TokenRecord};
use folio_types::{OrgId, Result, UserId};
use moka::future::Cache;

/// Of each kind, at most.
const KEPT: u64 = 10_000;
/// How long anything is believed at most.
const BELIEVED_AT_MOST: Duration = Duration::from_secs(2);

/// What the store said. Cheap to clone: all clones are one.
#[derive(Clone)]
pub(crate) struct Believed {
    store: Arc<dyn AccessStore>,
    /// Only tokens that are there: who makes tokens up fills no memory.
    tokens: Cache<TokenId, Arc<TokenRecord>>,
    members: Cache<(OrgId, UserId), Option<Arc<Member>>>,
    organizations: Cache<OrgId, Option<Arc<Organization>>>,
}

fn cache<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static>(time: Duration) -> Cache<K, V> {
    Cache::builder().max_capacity(KEPT).time_to_live(time.min(BELIEVED_AT_MOST)).build()
}

impl Believed {
    /// Nothing yet; asks this store, and believes it for so long.
    pub(crate) fn new(store: Arc<dyn AccessStore>, time: Duration) -> Self {
        Self { store, tokens: cache(time), members: cache(time), organizations: cache(time) }
    }

    /// What is stored of a token.
    pub(crate) async fn token(&self, id: &TokenId) -> Result<Option<Arc<TokenRecord>>> {
        if let Some(known) = self.tokens.get(id).await {
            return Ok(Some(known));
        }
        let Some(record) = self.store.token(id).await?.map(Arc::new) else { return Ok(None) };
        self.tokens.insert(id.clone(), Arc::clone(&record)).await;
        Ok(Some(record))
    }

    /// The member that a user is; a removed one, too.
    pub(crate) async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Arc<Member>>> {
        let key = (org.clone(), user.clone());
        if let Some(known) = self.members.get(&key).await {
            return Ok(known);
        }
        let member = self.store.member(org, user).await?.map(Arc::new);
        self.members.insert(key, member.clone()).await;
        Ok(member)
    }

    /// An organization.
    pub(crate) async fn organization(&self, org: &OrgId) -> Result<Option<Arc<Organization>>> {
        if let Some(known) = self.organizations.get(org).await {
            return Ok(known);
        }
        let organization = self.store.organization(org).await?.map(Arc::new);
        self.organizations.insert(org.clone(), organization.clone()).await;
        Ok(organization)
    }
}
