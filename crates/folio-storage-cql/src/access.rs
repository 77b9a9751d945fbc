//! Members, and the last uses of tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::{OrgId, Result, Timestamp, TokenId, UserId};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::AccessPart as Part;
use folio_storage::value::{TokenUse, decode, encode};
use folio_storage::{AccessStore, MEMBERS_MAX, full};

/// Number of uses that are read concurrently.
const READ_AT_ONCE: usize = 16;

pub(crate) struct Access(pub(crate) Arc<Keyspace>);

#[async_trait]
impl AccessStore for Access {
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let found = tables.access.get(cql, org.as_str(), Part::Member, user.as_str(), Strength::Quorum).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let rows = tables.access.list(cql, org.as_str(), Part::Member, "", usize::MAX).await?;
        rows.iter().map(|(_, bytes)| decode(bytes)).collect()
    }

    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let (rows, org_text, new) = (&tables.access, org.as_str(), encode(&write.after)?);
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

    async fn note_use(&self, org: &OrgId, token: &TokenId, at: Timestamp) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let value = encode(&TokenUse { at })?;
        tables.access.put(cql, org.as_str(), Part::TokenUse, token.as_str(), value).await
    }

    async fn last_uses(&self, org: &OrgId, tokens: &[TokenId]) -> Result<Vec<Option<Timestamp>>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let read = |token: TokenId| async move {
            let found = tables.access.get(cql, org.as_str(), Part::TokenUse, token.as_str(), Strength::Quorum).await?;
            found.map(|bytes| Ok(decode::<TokenUse>(&bytes)?.at)).transpose()
        };
        futures::stream::iter(tokens.to_vec()).map(read).buffered(READ_AT_ONCE).try_collect().await
    }

    async fn forget_use(&self, org: &OrgId, token: &TokenId) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        tables.access.remove(cql, org.as_str(), Part::TokenUse, token.as_str()).await
    }
}
