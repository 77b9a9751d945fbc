//! Members, and the last uses of tokens, as rows of a [`RowStore`].

use std::fmt::Display;
use std::sync::Arc;

use folio_resources::{Member, MemberWrite};
use folio_types::{Error, OrgId, Reason, Result, Timestamp, TokenId, UserId};

use super::{ConditionalRow, RowStore};
use crate::value::{Stored, TokenUse, decode, encode};

/// Maximum number of members of an organization, including removed ones. Concurrent additions may exceed it slightly.
// proto: OrganizationService.AddMember "at most {} members"
pub const MEMBERS_MAX: usize = 10_000;

pub fn quota_exceeded(what: &str, limit: impl Display) -> Error {
    let message = format!("the organization has reached its limit of {limit} {what}; remove some before adding one");
    Error::exhausted(Reason::QuotaExceeded, message)
}

/// Members of organizations, and the last uses of their tokens. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessStore(Arc<dyn RowStore>);

impl AccessStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the member, also a removed one.
    pub async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        self.stored(org, user).await?.map(|bytes| decode(&bytes)).transpose()
    }

    /// Returns these members in the order of `users`, also removed ones. None: the user never was a member.
    pub async fn members_of(&self, org: &OrgId, users: &[UserId]) -> Result<Vec<Option<Member>>> {
        let keys: Vec<_> = users.iter().map(ToString::to_string).collect();
        let found = self.0.get(org, Member::KIND, &keys).await?;
        found.into_iter().map(|stored| stored.map(|bytes| decode(&bytes)).transpose()).collect()
    }

    /// Returns all members, including removed ones, ordered by id.
    pub async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        self.0.list(org, Member::KIND).await?.iter().map(|bytes| decode(bytes)).collect()
    }

    /// Writes a member if this member and its guard still have the values that were read; returns false otherwise.
    ///
    /// Errors: `QUOTA_EXCEEDED` over [`MEMBERS_MAX`].
    pub async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool> {
        let MemberWrite { before, after, guard } = write;
        if before.is_none() && self.0.list(org, Member::KIND).await?.len() >= MEMBERS_MAX {
            return Err(quota_exceeded("members", MEMBERS_MAX));
        }
        // The conditions compare stored bytes, because an unchanged row may have an older format.
        let (mut stored, is_guarded) = (Vec::new(), guard.is_some());
        for read in before.into_iter().chain(guard) {
            match self.stored(org, &read.user).await? {
                Some(bytes) if decode::<Member>(&bytes)? == read => stored.push((read.user.to_string(), bytes)),
                _ => return Ok(false),
            }
        }
        let guard = if is_guarded { stored.pop() } else { None };
        let before = stored.pop().map(|(_, bytes)| bytes);
        let (group, key) = (Member::KIND.to_owned(), after.user.to_string());
        self.0.compare_and_set(org, ConditionalRow { group, key, before, after: encode(&after)?, guard }).await
    }

    async fn stored(&self, org: &OrgId, user: &UserId) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(org, Member::KIND, &[user.to_string()]).await?.into_iter().flatten().next())
    }

    pub async fn record_use(&self, org: &OrgId, token: &TokenId, at: Timestamp) -> Result<()> {
        self.0.put(org, TokenUse::KIND, token.as_str(), encode(&TokenUse { at })?).await
    }

    /// Returns the times in the order of `tokens`. None: the token was never used.
    pub async fn last_uses(&self, org: &OrgId, tokens: &[TokenId]) -> Result<Vec<Option<Timestamp>>> {
        let keys: Vec<_> = tokens.iter().map(ToString::to_string).collect();
        let found = self.0.get(org, TokenUse::KIND, &keys).await?;
        let at = |stored: Vec<u8>| Ok(decode::<TokenUse>(&stored)?.at);
        found.into_iter().map(|stored| stored.map(at).transpose()).collect()
    }

    pub async fn delete_use(&self, org: &OrgId, token: &TokenId) -> Result<()> {
        self.0.remove(org, TokenUse::KIND, token.as_str()).await
    }
}
