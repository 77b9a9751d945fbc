//! Long calls end with their token: revoked, expired, its user removed or given a lower role, it ends what it began within seconds.
//!
//! What a call set off (a turn, an extraction) goes on; its caller no longer sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::token::TokenId;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::caller::Authenticator;
use folio_operations::Caller;

/// How often tokens with calls under way are looked at.
const EVERY: Duration = Duration::from_secs(2);
/// Tokens that are looked at at once.
const LOOKED_AT_ONCE: usize = 32;

/// The tokens with long calls under way.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<TokenId, Open>>,
}

struct Open {
    calls: usize,
    caller: Caller,
    ended: CancellationToken,
}

impl Sessions {
    /// A call begins with a token.
    pub(crate) fn begin(self: &Arc<Self>, caller: &Caller) -> Session {
        let token = caller.token.clone();
        let mut open = self.lock();
        let new = || Open { calls: 0, caller: caller.clone(), ended: CancellationToken::new() };
        let entry = open.entry(token.clone()).or_insert_with(new);
        entry.calls = entry.calls.saturating_add(1);
        // They are one: all of them end where the role falls below that of any.
        if entry.caller.principal.role < caller.principal.role {
            entry.caller = caller.clone();
        }
        Session { token, ended: entry.ended.clone(), sessions: Arc::clone(self) }
    }

    /// Looks at the tokens again and again. Never ends itself.
    pub(crate) async fn run(self: Arc<Self>, authenticator: Authenticator) {
        loop {
            tokio::time::sleep(EVERY).await;
            let callers: Vec<_> = self.lock().values().map(|open| open.caller.clone()).collect();
            let looks = futures::stream::iter(callers).map(|caller| self.look(&authenticator, caller));
            looks.buffer_unordered(LOOKED_AT_ONCE).collect::<()>().await;
        }
    }

    /// Ends the calls of a token that is no longer good.
    async fn look(&self, authenticator: &Authenticator, caller: Caller) {
        let token = &caller.token;
        // A store that does not answer ends nothing.
        if matches!(authenticator.is_good(&caller).await, Ok(false)) {
            tracing::info!(%token, "a token is no longer good; its calls are ended");
            if let Some(open) = self.lock().remove(token) {
                open.ended.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way.
pub(crate) struct Session {
    token: TokenId,
    ended: CancellationToken,
    sessions: Arc<Sessions>,
}

impl Session {
    /// Cancelled when the token is no longer good.
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
        let last = open.get_mut(&self.token).is_some_and(|open| {
            open.calls = open.calls.saturating_sub(1);
            open.calls == 0
        });
        if last {
            open.remove(&self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::token::Token;
    use folio_types::{OrgId, Principal, Role, System, UserId};

    use crate::empty::Empty;
    use crate::jwt::Issuers;
    use crate::options::Options;

    fn caller() -> Caller {
        let principal =
            Principal { org: OrgId::generate(&System), user: UserId::generate(&System), role: Role::Member };
        let token = Token::generate(&System).id().clone();
        Caller { principal, token, scopes: Vec::new(), platform: false, end: None, jwt: false }
    }

    #[tokio::test]
    async fn a_token_of_which_the_store_says_nothing_keeps_no_other_one_open() {
        let silent = caller();
        let store = Empty { silent: Some(silent.token.clone()) };
        let authenticator =
            Authenticator::new(Arc::new(store), Arc::new(System), Issuers::default(), &Options::default());
        let sessions = Arc::new(Sessions::default());
        let held = sessions.begin(&silent);
        let others: Vec<_> = (1..LOOKED_AT_ONCE).map(|_| sessions.begin(&caller())).collect();
        let looking = tokio::spawn(Arc::clone(&sessions).run(authenticator));
        let ended = futures::future::join_all(others.iter().map(|session| session.ended.cancelled()));
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("all others end");
        assert!(!held.ended().is_cancelled());
        looking.abort();
    }

    #[tokio::test]
    async fn calls_of_one_token_are_held_to_the_highest_role_that_one_began_with() {
        let sessions = Arc::new(Sessions::default());
        let viewer = Caller { principal: Principal { role: Role::Viewer, ..caller().principal }, ..caller() };
        let admin = Caller { principal: Principal { role: Role::Admin, ..viewer.principal.clone() }, ..viewer.clone() };
        let _open = [sessions.begin(&viewer), sessions.begin(&admin), sessions.begin(&viewer)];
        let roles: Vec<_> = sessions.lock().values().map(|open| open.caller.principal.role).collect();
        assert_eq!(roles, [Role::Admin]);
    }
}
