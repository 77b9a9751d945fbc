//! Long calls end with their token: revoked, expired, its user removed or given a lower role, it ends what it began within seconds.
//!
//! What a call set off (a turn, an extraction) goes on; its caller no longer sees it. Whoever looks after that also writes when
//! tokens were used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::token::TokenId;
use tokio_util::sync::CancellationToken;

use crate::caller::{Authenticator, Caller};

/// How often tokens with calls under way are looked at.
const EVERY: Duration = Duration::from_secs(2);

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
            authenticator.write_uses().await;
            let callers: Vec<_> = self.lock().values().map(|open| open.caller.clone()).collect();
            for caller in callers {
                let token = &caller.token;
                // A store that does not answer ends nothing.
                if matches!(authenticator.is_good(&caller).await, Ok(false)) {
                    tracing::info!(%token, "a token is no longer good; its calls are ended");
                    if let Some(open) = self.lock().remove(token) {
                        open.ended.cancel();
                    }
                }
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
