//! Organizations and tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::access::{Member, Organization};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, UserId};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{First, TokenUse};
use folio_storage::{AccessStore, MEMBERS_MAX, MemberChange, TOKENS_MAX, full};

fn organization(reads: &impl Reads, id: &OrgId) -> Result<Option<Organization>> {
    let found: Option<Organization> = reads.read(Space::Records, &keys::organization(id))?;
    Ok(found.and_then(Organization::live))
}

/// Enters a token into its organization's list.
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
    async fn create_organization(&self, new: Organization) -> Result<Organization> {
        self.0
            .write(move |transaction| {
                let there: Option<Organization> = transaction.read(Space::Records, &keys::organization(&new.id))?;
                if let Some(there) = there {
                    return there.live().ok_or_else(|| Error::not_found("organization", &new.id));
                }
                let first = keys::first_organization();
                if !transaction.contains(Space::System, &first)? {
                    transaction.put(Space::System, first, &First { org: new.id.clone() })?;
                }
                transaction.put(Space::System, keys::listed_organization(&new.id), &First { org: new.id.clone() })?;
                transaction.put(Space::Records, keys::organization(&new.id), &new)?;
                Ok(new)
            })
            .await
    }

    async fn organization(&self, id: &OrgId) -> Result<Option<Organization>> {
        self.0.read(|view| organization(view, id))
    }

    async fn first_organization(&self) -> Result<Option<Organization>> {
        self.0.read(|view| match view.read::<First>(Space::System, &keys::first_organization())? {
            Some(first) => organization(view, &first.org),
            None => Ok(None),
        })
    }

    async fn organizations(&self, after: Option<&OrgId>, limit: usize) -> Result<Vec<Organization>> {
        let mut range = Range::prefix(Space::System, keys::organizations());
        if let Some(after) = after {
            range = range.from(keys::after(&keys::listed_organization(after)));
        }
        self.0
            .scan(move |view| {
                let listed: Vec<First> = view.values(range, limit)?;
                let found = listed.iter().map(|listed| organization(view, &listed.org));
                found.filter_map(Result::transpose).collect()
            })
            .await
    }

    async fn change_organization(&self, new: Organization) -> Result<bool> {
        self.0
            .write(move |transaction| match organization(transaction, &new.id)? {
                Some(there) if there.version + 1 == new.version => {
                    transaction.put(Space::Records, keys::organization(&new.id), &new)?;
                    Ok(true)
                }
                _ => Ok(false),
            })
            .await
    }

    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        self.0.read(|view| view.read(Space::Records, &keys::member(org, user)))
    }

    async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        let range = Range::prefix(Space::Records, keys::members(org));
        self.0.scan(move |view| view.values(range, usize::MAX)).await
    }

    async fn change_member(&self, org: &OrgId, change: MemberChange) -> Result<bool> {
        let MemberChange { old, new, beside } = change;
        let (key, all) = (keys::member(org, &new.user), keys::members(org));
        let beside = beside.map(|beside| (keys::member(org, &beside.user), beside));
        self.0
            .write(move |transaction| {
                let there: Option<Member> = transaction.read(Space::Records, &key)?;
                let stays = match beside {
                    Some((key, beside)) => transaction.read::<Member>(Space::Records, &key)? == Some(beside),
                    None => true,
                };
                if there != old || !stays {
                    return Ok(false);
                }
                if there.is_none() && transaction.keys(Range::prefix(Space::Records, all))?.len() >= MEMBERS_MAX {
                    return Err(full("members", MEMBERS_MAX));
                }
                transaction.put(Space::Records, key, &new)?;
                Ok(true)
            })
            .await
    }

    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        self.0
            .write(move |transaction| {
                if organization(transaction, &token.org)?.is_none() {
                    return Err(Error::not_found("organization", &token.org));
                }
                let key = keys::token(&token.id);
                match transaction.read::<TokenRecord>(Space::System, &key)? {
                    Some(there) if there == token => Ok(()),
                    Some(_) => {
                        Err(Error::new(Code::AlreadyExists, Reason::NameTaken, "there is a token of this id already"))
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
