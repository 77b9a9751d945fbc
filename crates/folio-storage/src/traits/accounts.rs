//! Sessions of users, and the organizations that they joined, as rows of the platform in a [`RowStore`]. Each user has a
//! partition of its own for both.
//!
//! The organizations are a hint for lists: the member row of the organization is authoritative. The row of an
//! organization is written before its member row, and stays when the user leaves.

use std::sync::Arc;

use folio_resources::Session;
use folio_types::{Error, OrgId, Reason, Result, Timestamp, TokenId, UserId};

use super::RowStore;
use crate::UnreadableRecords;
use crate::value::{Stored, UserOrganization, decode, encode};

/// Maximum number of organizations of a user, including those that the user has left. Concurrent additions may exceed
/// it slightly.
// proto: AddMemberRequest.member "at most {} organizations"
pub const USER_ORGANIZATIONS_MAX: usize = 1_000;

/// The sessions and organizations of users. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccountStore {
    rows: Arc<dyn RowStore>,
    unreadable: UnreadableRecords,
}

fn group<T: Stored>(user: &UserId) -> String {
    format!("{}/{user}", T::KIND)
}

impl AccountStore {
    pub fn new(rows: Arc<dyn RowStore>, unreadable: UnreadableRecords) -> Self {
        Self { rows, unreadable }
    }

    /// Returns a session, also an expired one. None: it does not exist or was removed.
    pub async fn session(&self, user: &UserId, id: &TokenId) -> Result<Option<Session>> {
        let keys = [id.to_string()];
        let stored = self.rows.get(&OrgId::platform(), &group::<Session>(user), &keys).await?.pop().flatten();
        stored.as_deref().map(decode).transpose()
    }

    /// Returns the sessions of a user, including expired ones, in no order. Their number is bounded by
    /// [`Session::removed_before_another`].
    pub async fn sessions(&self, user: &UserId) -> Result<Vec<Session>> {
        let stored = self.rows.list(&OrgId::platform(), &group::<Session>(user)).await?;
        stored.iter().map(|bytes| decode(bytes)).collect()
    }

    /// Adds a session, and removes expired ones and the oldest surplus. Unreadable ones remain. The session may be lost if the
    /// machine loses power.
    pub async fn add_session(&self, user: &UserId, session: &Session, now: Timestamp) -> Result<()> {
        let (platform, group) = (OrgId::platform(), group::<Session>(user));
        let mut sessions = Vec::new();
        for bytes in self.rows.list(&platform, &group).await? {
            let session = decode::<Session>(&bytes);
            sessions.extend(self.unreadable.skip(format_args!("session of user {user}"), session)?);
        }
        for id in Session::removed_before_another(sessions, now) {
            self.rows.remove(&platform, &group, id.as_str()).await?;
        }
        self.rows.put(&platform, &group, session.id.as_str(), encode(session)?).await
    }

    pub async fn remove_session(&self, user: &UserId, id: &TokenId) -> Result<()> {
        self.rows.remove(&OrgId::platform(), &group::<Session>(user), id.as_str()).await
    }

    pub async fn remove_sessions(&self, user: &UserId) -> Result<()> {
        self.rows.remove_group(&OrgId::platform(), &group::<Session>(user)).await
    }

    /// Returns the organizations of which the user is or was a member, ordered by id.
    pub async fn organizations(&self, user: &UserId) -> Result<Vec<OrgId>> {
        let stored = self.rows.list(&OrgId::platform(), &group::<UserOrganization>(user)).await?;
        stored.iter().map(|bytes| Ok(decode::<UserOrganization>(bytes)?.org)).collect()
    }

    /// Adds an organization before its member row is written. Idempotent.
    ///
    /// Errors: `QUOTA_EXCEEDED` over [`USER_ORGANIZATIONS_MAX`].
    pub async fn add_organization(&self, user: &UserId, org: &OrgId) -> Result<()> {
        let stored = self.organizations(user).await?;
        if stored.contains(org) {
            return Ok(());
        }
        if stored.len() >= USER_ORGANIZATIONS_MAX {
            let message =
                format!("a user belongs to at most {USER_ORGANIZATIONS_MAX} organizations, including left ones");
            return Err(Error::exhausted(Reason::QuotaExceeded, message));
        }
        let row = encode(&UserOrganization { org: org.clone() })?;
        self.rows.put(&OrgId::platform(), &group::<UserOrganization>(user), org.as_str(), row).await
    }

    /// Removes an organization that was deleted.
    pub async fn remove_organization(&self, user: &UserId, org: &OrgId) -> Result<()> {
        self.rows.remove(&OrgId::platform(), &group::<UserOrganization>(user), org.as_str()).await
    }

    /// Removes all rows of a deleted user. Idempotent.
    pub async fn erase(&self, user: &UserId) -> Result<()> {
        self.remove_sessions(user).await?;
        self.rows.remove_group(&OrgId::platform(), &group::<UserOrganization>(user)).await
    }
}

#[cfg(test)]
mod tests {
    use folio_types::limits::DAY;
    use folio_types::{Environment as _, SessionToken, System};
    use futures::executor::block_on;

    use super::super::rows::memory::MemoryRows;
    use super::*;

    #[test]
    fn an_unreadable_session_prevents_no_further_session_of_its_user() {
        let (rows, unreadable) = (Arc::new(MemoryRows::default()), UnreadableRecords::default());
        let accounts = AccountStore::new(rows.clone(), unreadable.clone());
        let (user, now) = (UserId::derive(&["u"]), System.now());
        let session = |expires_at| {
            let token = SessionToken::generate(&user, &System);
            Session { id: token.id().clone(), hash: token.hash(), password_number: 1, created_at: now, expires_at }
        };
        let (expired, live) = (session(now), session(now + DAY));
        block_on(async {
            rows.put(&OrgId::platform(), &group::<Session>(&user), "0", b"damaged".to_vec()).await.unwrap();
            accounts.add_session(&user, &expired, now).await.unwrap();
            accounts.add_session(&user, &live, now).await.unwrap();
            assert_eq!(accounts.session(&user, &expired.id).await.unwrap(), None);
            assert_eq!(accounts.session(&user, &live.id).await.unwrap().as_ref(), Some(&live));
            assert_eq!(rows.names().len(), 2, "the unreadable session remains");
        });
        assert_eq!(unreadable.count(), 1);
    }
}
