//! Members, and the last uses of tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::{OrgId, Result, Timestamp, TokenId, UserId};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::value::TokenUse;
use folio_storage::{AccessStore, MEMBERS_MAX, full};

pub(crate) struct Access(pub(crate) Arc<Engine>);

#[async_trait]
impl AccessStore for Access {
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        self.0.read(|view| view.read(Space::Records, &keys::member(org, user)))
    }

    async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        let range = Range::prefix(Space::Records, keys::members(org));
        self.0.scan(move |view| view.values(range, usize::MAX)).await
    }

    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool> {
        let MemberWrite { before, after, guard } = write;
        let (key, all) = (keys::member(org, &after.user), keys::members(org));
        let guard = guard.map(|guard| (keys::member(org, &guard.user), guard));
        self.0
            .write(move |transaction| {
                let stored: Option<Member> = transaction.read(Space::Records, &key)?;
                let is_guarded = match guard {
                    Some((key, guard)) => transaction.read::<Member>(Space::Records, &key)? == Some(guard),
                    None => true,
                };
                if stored != before || !is_guarded {
                    return Ok(false);
                }
                if stored.is_none() && transaction.keys(Range::prefix(Space::Records, all))?.len() >= MEMBERS_MAX {
                    return Err(full("members", MEMBERS_MAX));
                }
                transaction.put(Space::Records, key, &after)?;
                Ok(true)
            })
            .await
    }

    async fn note_use(&self, org: &OrgId, token: &TokenId, at: Timestamp) -> Result<()> {
        let key = keys::token_use(org, token);
        self.0.write_lazily(move |transaction| transaction.put(Space::Records, key, &TokenUse { at })).await
    }

    async fn last_uses(&self, org: &OrgId, tokens: &[TokenId]) -> Result<Vec<Option<Timestamp>>> {
        let keys: Vec<_> = tokens.iter().map(|token| keys::token_use(org, token)).collect();
        self.0
            .scan(move |view| {
                let uses = keys.iter().map(|key| view.read::<TokenUse>(Space::Records, key));
                uses.map(|used| Ok(used?.map(|used| used.at))).collect()
            })
            .await
    }

    async fn forget_use(&self, org: &OrgId, token: &TokenId) -> Result<()> {
        let key = keys::token_use(org, token);
        self.0
            .write_lazily(move |transaction| {
                transaction.remove(Space::Records, key);
                Ok(())
            })
            .await
    }
}
