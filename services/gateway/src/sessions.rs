//! Ends long RPCs (`Class::Long`) when their token is no longer valid: within seconds after the token is revoked or
//! expires, or its user is removed or gets a lower role.
//!
//! Work that the RPC started (a turn, an extraction) continues; only the RPC ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::{OrgId, TokenId};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::authenticator::Authenticator;
use folio_operations::Caller;

/// Interval at which the tokens of long RPCs are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of concurrent checks.
const CHECKS_MAX: usize = 32;

/// A credential in one of the organizations in which it is valid.
type Key = (TokenId, OrgId);

/// The credentials with long RPCs in progress.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Key, OpenCalls>>,
}

struct OpenCalls {
    calls: usize,
    caller: Caller,
    ended: CancellationToken,
}

impl Sessions {
    pub(crate) fn begin(self: &Arc<Self>, caller: &Caller) -> Session {
        let key = (caller.token.clone(), caller.principal.org.clone());
        let mut open = self.lock();
        let new = || OpenCalls { calls: 0, caller: caller.clone(), ended: CancellationToken::new() };
        let entry = open.entry(key.clone()).or_insert_with(new);
        entry.calls = entry.calls.saturating_add(1);
        // All RPCs of a token in an organization end together, when the role falls below the highest role at the start of one of the RPCs.
        if entry.caller.principal.role < caller.principal.role {
            entry.caller = caller.clone();
        }
        Session { key, ended: entry.ended.clone(), sessions: Arc::clone(self) }
    }

    /// Checks all access tokens periodically. Never returns.
    pub(crate) async fn run(self: Arc<Self>, authenticator: Authenticator) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let callers: Vec<_> = self.lock().values().map(|open| open.caller.clone()).collect();
            let checks = futures::stream::iter(callers).map(|caller| self.check(&authenticator, caller));
            checks.buffer_unordered(CHECKS_MAX).collect::<()>().await;
        }
    }

    /// Ends the RPCs of a token that is no longer valid.
    async fn check(&self, authenticator: &Authenticator, caller: Caller) {
        let (token, org) = (&caller.token, &caller.principal.org);
        // A failed check (an unavailable store) ends no RPC.
        if matches!(authenticator.is_valid(&caller).await, Ok(false)) {
            tracing::info!(%token, "a token is no longer valid; ending its RPCs");
            if let Some(open) = self.lock().remove(&(token.clone(), org.clone())) {
                open.ended.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, OpenCalls>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A long RPC in progress. Dropping the session unregisters the RPC.
pub(crate) struct Session {
    key: Key,
    ended: CancellationToken,
    sessions: Arc<Sessions>,
}

impl Session {
    /// Returns a cancellation token, which is cancelled when the access token is no longer valid.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ended.is_cancelled() {
            return;
        }
        let mut open = self.sessions.lock();
        let last = open.get_mut(&self.key).is_some_and(|open| {
            open.calls = open.calls.saturating_sub(1);
            open.calls == 0
        });
        if last {
            open.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_operations::CredentialKind;
    use folio_types::{Principal, Role, System, UserId};

    use crate::empty_store::EmptyStore;
    use crate::options::Options;

    fn caller() -> Caller {
        let principal = Principal::new(OrgId::generate(&System), UserId::generate(&System), Role::Member);
        let token = TokenId::generate(&System);
        Caller { principal, token, credential: CredentialKind::Token, ..Caller::anonymous() }
    }

    #[tokio::test]
    async fn a_check_that_never_returns_does_not_delay_the_checks_of_other_tokens() {
        let silent = caller();
        let store = EmptyStore { silent: Some(silent.token.clone()) };
        let authenticator = store.authenticator(&Options::default());
        let sessions = Arc::new(Sessions::default());
        let session_guard = sessions.begin(&silent);
        let others: Vec<_> = (1..CHECKS_MAX).map(|_| sessions.begin(&caller())).collect();
        let checks = tokio::spawn(Arc::clone(&sessions).run(authenticator));
        let ended = futures::future::join_all(others.iter().map(|session| session.ended.cancelled()));
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the RPCs of all other tokens end");
        assert!(!session_guard.ended().is_cancelled());
        checks.abort();
    }

    #[tokio::test]
    async fn streams_of_one_token_are_checked_against_their_highest_initial_role() {
        let sessions = Arc::new(Sessions::default());
        let viewer = Caller { principal: Principal { role: Role::Viewer, ..caller().principal }, ..caller() };
        let admin = Caller { principal: Principal { role: Role::Admin, ..viewer.principal.clone() }, ..viewer.clone() };
        let _open = [sessions.begin(&viewer), sessions.begin(&admin), sessions.begin(&viewer)];
        let roles: Vec<_> = sessions.lock().values().map(|open| open.caller.principal.role).collect();
        assert_eq!(roles, [Role::Admin]);
    }

    #[tokio::test]
    async fn a_credential_is_checked_in_each_organization_of_its_calls() {
        let sessions = Arc::new(Sessions::default());
        let one = caller();
        let principal = Principal { org: OrgId::generate(&System), ..one.principal.clone() };
        let other = Caller { principal, ..one.clone() };
        let open = [sessions.begin(&one), sessions.begin(&other)];
        assert_eq!(sessions.lock().len(), 2);
        drop(open);
        assert!(sessions.lock().is_empty());
    }
}
