//! Sessions of users: the result of a sign-in. A session is stored under its user until it ends.
//!
//! A session is not a [`crate::Resource`]: it is written once and removed as a whole.

use std::time::Duration;

use folio_types::token::{Token, TokenHash};
use folio_types::{Result, SessionToken, Timestamp, TokenId};
use serde::{Deserialize, Serialize};

use crate::User;

/// Lifetime of a session after the sign-in.
// proto: AccountService.SignIn "after {} hours"
pub const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum number of sessions of a user. A further sign-in ends the oldest session.
// proto: AccountService.SignIn "at most {} sessions"
// proto: AccountService.ListAccountSessions "at most {}."
pub const SESSIONS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: TokenId,
    /// Hash of the secret.
    pub hash: TokenHash,
    /// The number of the user's password at the sign-in.
    pub password_number: u64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Session {
    /// Returns the session of a sign-in.
    pub fn new(token: &SessionToken, user: &User, now: Timestamp) -> Self {
        Self {
            id: token.id().clone(),
            hash: token.hash(),
            password_number: user.password_number,
            created_at: now,
            expires_at: now + SESSION_LIFETIME,
        }
    }

    /// Checks the token of a request.
    ///
    /// # Errors
    /// `INVALID_TOKEN` if the secret differs, or if the session has ended.
    pub fn authenticate(&self, presented: &SessionToken, user: &User, now: Timestamp) -> Result<()> {
        if self.hash == presented.hash() && self.is_open(user, now) { Ok(()) } else { Err(Token::refused()) }
    }

    /// Returns true if the session has not expired, and the password of the user has not changed since the sign-in. The
    /// user may have been read before the sign-in: a lower number of the password is an earlier one.
    pub fn is_open(&self, user: &User, now: Timestamp) -> bool {
        now < self.expires_at && self.password_number >= user.password_number
    }

    /// Returns the sessions of a user that must be removed before a further one is added: those that have expired, and
    /// the oldest ones beyond [`SESSIONS_MAX`].
    pub fn removed_before_another(mut stored: Vec<Self>, now: Timestamp) -> Vec<TokenId> {
        stored.sort_by_key(|session| session.created_at);
        let (expired, live): (Vec<_>, Vec<_>) = stored.into_iter().partition(|session| session.expires_at <= now);
        let surplus = (live.len() + 1).saturating_sub(SESSIONS_MAX);
        expired.into_iter().chain(live.into_iter().take(surplus)).map(|session| session.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{Reason, System};

    use super::*;
    use crate::user::tests::user;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_session_ends_after_twelve_hours_and_with_the_password() {
        let (user, start) = (user(), at(1_000));
        let token = SessionToken::generate(&user.id, &System);
        let session = Session::new(&token, &user, start);
        let end = start + SESSION_LIFETIME;
        assert_eq!((&session.id, session.expires_at), (token.id(), end));
        let last = end - Duration::from_secs(1);
        assert!(session.authenticate(&token, &user, last).is_ok());
        let before = User { password_number: user.password_number - 1, ..user.clone() };
        assert!(session.authenticate(&token, &before, start).is_ok());
        let changed = User { password_number: user.password_number + 1, ..user.clone() };
        let another = SessionToken::generate(&user.id, &System);
        for (token, user, now) in [(&token, &user, end), (&token, &changed, start), (&another, &user, start)] {
            assert_eq!(session.authenticate(token, user, now).unwrap_err().reason, Reason::InvalidToken);
        }
    }

    #[test]
    fn a_sign_in_removes_expired_sessions_and_the_oldest_surplus() {
        let session = |created: i64, expires: i64| Session {
            created_at: at(created),
            expires_at: at(expires),
            ..Session::new(&SessionToken::generate(&user().id, &System), &user(), at(created))
        };
        let removed = |stored: &[Session]| Session::removed_before_another(stored.to_vec(), at(500));
        assert!(removed(&[]).is_empty());
        let [expired, live] = [session(1, 500), session(2, 501)];
        assert_eq!(removed(&[live.clone(), expired.clone()]), std::slice::from_ref(&expired.id));
        let mut full: Vec<_> = (0..SESSIONS_MAX).rev().map(|n| session(10 + i64::try_from(n).unwrap(), 600)).collect();
        let oldest = full.last().unwrap().id.clone();
        assert!(removed(&full[1..]).is_empty());
        assert_eq!(removed(&full), std::slice::from_ref(&oldest));
        full.extend([expired.clone(), live.clone()]);
        assert_eq!(removed(&full), [expired.id, live.id, oldest]);
    }
}
