//! Members and tokens.
//!
//! A token's row in its organization's list is written before the token and removed after its revocation. Lists
//! therefore read the tokens themselves, and omit those that do not exist or are revoked.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, UserId};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::AccessPart as Part;
use folio_storage::value::{TokenUse, decode, encode};
use folio_storage::{AccessStore, MEMBERS_MAX, TOKENS_MAX, full};

/// Number of tokens that are read concurrently.
const READ_AT_ONCE: usize = 16;

/// Maximum attempts of a change under contention.
const ATTEMPTS: u32 = 5;

pub(crate) struct Access(pub(crate) Arc<Keyspace>);

#[async_trait]
impl AccessStore for Access {
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let found = tables.access.rows.get(cql, org.as_str(), Part::Member, user.as_str(), Strength::Quorum).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let rows = tables.access.rows.list(cql, org.as_str(), Part::Member, "", usize::MAX).await?;
        rows.iter().map(|(_, bytes)| decode(bytes)).collect()
    }

    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let (rows, org_text, new) = (&tables.access.rows, org.as_str(), encode(&write.after)?);
        let key = write.after.user.as_str();
        let mut replaced = Vec::new();
        for there in [&write.before, &write.guard].into_iter().flatten() {
            let Some(stored) = rows.get(cql, org_text, Part::Member, there.user.as_str(), Strength::Serial).await?
            else {
                return Ok(false);
            };
            if decode::<Member>(&stored)? != *there {
                return Ok(false);
            }
            let changes = there.user == write.after.user;
            let after = if changes { new.clone() } else { stored.clone() };
            replaced.push(rows.replace(org_text, Part::Member, there.user.as_str(), stored, after));
        }
        if write.before.is_none() {
            // Approximate: concurrent additions may exceed the bound slightly.
            if self.members(org).await?.len() >= MEMBERS_MAX {
                return Err(full("members", MEMBERS_MAX));
            }
            replaced.push(rows.insert(org_text, Part::Member, key, new.clone()));
        }
        match cql.conditional_batch(replaced).await? {
            Sent::Applied => Ok(true),
            Sent::Refused => Ok(false),
            Sent::Unknown(_) => Ok(rows.get(cql, org_text, Part::Member, key, Strength::Serial).await? == Some(new)),
        }
    }

    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let as_it_is = |there: &[u8]| match decode::<TokenRecord>(there)? == token {
            true => Ok(()),
            false => Err(Error::new(Code::AlreadyExists, Reason::NameTaken, "a token with this id exists already")),
        };
        if let Some(there) = tables.access.tokens.get(cql, token.id.as_str(), Strength::Serial).await? {
            return as_it_is(&there);
        }
        let org = token.org.as_str();
        if token.revoked_at.is_none() {
            let listed = tables.access.rows.list(cql, org, Part::Token, "", TOKENS_MAX).await?;
            if listed.len() >= TOKENS_MAX {
                return Err(full("tokens", TOKENS_MAX));
            }
            tables.access.rows.put(cql, org, Part::Token, token.id.as_str(), encode(&token.id)?).await?;
        }
        as_it_is(&tables.access.tokens.insert(cql, token.id.as_str(), encode(&token)?).await?)
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let found = tables.access.tokens.get(cql, id.as_str(), Strength::Quorum).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn tokens(&self, org: &OrgId) -> Result<Vec<ListedToken>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let ids = tables.access.rows.list(cql, org.as_str(), Part::Token, "", usize::MAX).await?;
        let read = |(_, bytes): (String, Vec<u8>)| async move {
            let id: TokenId = decode(&bytes)?;
            let uses = tables.access.rows.get(cql, org.as_str(), Part::TokenUse, id.as_str(), Strength::Quorum);
            let (record, used) = futures::try_join!(self.token(&id), uses)?;
            let used = used.map(|bytes| decode::<TokenUse>(&bytes)).transpose()?;
            // The row is written before the token, and outlives its revocation briefly.
            let record = record.filter(|record| record.org == *org && record.revoked_at.is_none());
            Ok(record.map(|record| ListedToken { record, used_at: used.map(|used| used.at) }))
        };
        let found = futures::stream::iter(ids).map(read).buffered(READ_AT_ONCE);
        let mut found: Vec<ListedToken> = found.try_filter_map(async |found| Ok(found)).try_collect().await?;
        found.sort_by(|a, b| (a.record.created_at, &a.record.id).cmp(&(b.record.created_at, &b.record.id)));
        Ok(found)
    }

    async fn revoke_token(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Option<TokenRecord>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        for _ in 0..ATTEMPTS {
            let there = tables.access.tokens.get(cql, id.as_str(), Strength::Serial).await?;
            let Some(old) = there else { return Ok(None) };
            let mut record: TokenRecord = decode(&old)?;
            if record.org != *org {
                return Ok(None);
            }
            let revoked = record.revoked_at.is_some() || {
                record.revoked_at = Some(at);
                tables.access.tokens.replace(cql, id.as_str(), old, encode(&record)?).await?
            };
            if revoked {
                // Also if the token was revoked before: the process that revoked it may have ended here.
                tables.access.rows.remove(cql, org.as_str(), Part::Token, id.as_str()).await?;
                tables.access.rows.remove(cql, org.as_str(), Part::TokenUse, id.as_str()).await?;
                return Ok(Some(record));
            }
        }
        Err(super::retry::contended("a token"))
    }

    async fn note_use(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let value = encode(&TokenUse { at })?;
        tables.access.rows.put(cql, org.as_str(), Part::TokenUse, id.as_str(), value).await
    }
}
