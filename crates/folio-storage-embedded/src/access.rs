//! Members and tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, UserId};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::TokenUse;
use folio_storage::{AccessStore, MEMBERS_MAX, TOKENS_MAX, full};

/// Adds a token to its organization's list.
fn list(transaction: &mut Transaction<'_>, token: &TokenRecord) -> Result<()> {
    if token.revoked_at.is_some() {
        return Ok(());
    }
    if transaction.keys(Range::prefix(Space::Records, keys::tokens_of(&token.org)))?.len() >= TOKENS_MAX {
        return Err(full("tokens", TOKENS_MAX));
    }
    transaction.put(Space::Records, keys::token_of(&token.org, &token.id), &token.id)
}

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

    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        self.0
            .write(move |transaction| {
                let key = keys::token(&token.id);
                match transaction.read::<TokenRecord>(Space::System, &key)? {
                    Some(there) if there == token => Ok(()),
                    Some(_) => {
                        Err(Error::new(Code::AlreadyExists, Reason::NameTaken, "a token with this id exists already"))
                    }
                    None => {
                        list(transaction, &token)?;
                        transaction.put(Space::System, key, &token)
                    }
                }
            })
            .await
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        self.0.read(|view| view.read(Space::System, &keys::token(id)))
    }

    async fn tokens(&self, org: &OrgId) -> Result<Vec<ListedToken>> {
        let org = org.clone();
        let mut found = self
            .0
            .scan(move |view| {
                let ids: Vec<TokenId> =
                    view.values(Range::prefix(Space::Records, keys::tokens_of(&org)), usize::MAX)?;
                let listed = ids.iter().map(|id| {
                    let record: Option<TokenRecord> = view.read(Space::System, &keys::token(id))?;
                    let used: Option<TokenUse> = view.read(Space::Records, &keys::token_use(&org, id))?;
                    Ok(record.map(|record| ListedToken { record, used_at: used.map(|used| used.at) }))
                });
                listed.filter_map(Result::transpose).collect::<Result<Vec<_>>>()
            })
            .await?;
        found.sort_by(|a, b| (a.record.created_at, &a.record.id).cmp(&(b.record.created_at, &b.record.id)));
        Ok(found)
    }

    async fn revoke_token(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Option<TokenRecord>> {
        let (org, id) = (org.clone(), id.clone());
        self.0
            .write(move |transaction| {
                let there = transaction.read::<TokenRecord>(Space::System, &keys::token(&id))?;
                let Some(mut record) = there.filter(|record| record.org == org) else { return Ok(None) };
                if record.revoked_at.is_none() {
                    record.revoked_at = Some(at);
                    transaction.put(Space::System, keys::token(&id), &record)?;
                    transaction.remove(Space::Records, keys::token_of(&org, &id));
                    transaction.remove(Space::Records, keys::token_use(&org, &id));
                }
                Ok(Some(record))
            })
            .await
    }

    async fn note_use(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<()> {
        let key = keys::token_use(org, id);
        self.0.write_lazily(move |transaction| transaction.put(Space::Records, key, &TokenUse { at })).await
    }
}
