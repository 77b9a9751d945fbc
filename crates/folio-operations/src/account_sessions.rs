//! The sessions of a user. They belong to `AccountService`.

use folio_resources::Session;
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{Error, Result, Timestamp, TokenId, limits};
use serde::Serialize;

use crate::accounts::SERVICE;
use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Access, Declaration};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};
use crate::users::own_user;

/// An open session, without the hash of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSession {
    pub id: TokenId,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// True for the session of the caller.
    pub is_current: bool,
}

impl AccountSession {
    fn new(session: &Session, current: &TokenId) -> Self {
        let Session { id, created_at, expires_at, .. } = session;
        Self { id: id.clone(), created_at: *created_at, expires_at: *expires_at, is_current: id == current }
    }
}

/// Lists the open sessions of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct ListAccountSessions {
    pub list: ListRequest,
}

impl Operation for ListAccountSessions {
    const DECLARATION: Declaration = SERVICE.read("ListAccountSessions").access(Access::Account);
    type Output = ListPage<AccountSession>;

    async fn run(self, context: &Context) -> Result<ListPage<AccountSession>> {
        filter::require_empty(&self.list.filter)?;
        let scope = ["account_sessions", context.principal().user.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let mut found = open_sessions(context).await?;
        // Sessions of the same instant have a fixed order, so that pages join without gaps.
        found.sort_by_key(|session| (session.created_at, session.id.clone()));
        if listing.page.order == Order::Newest {
            found.reverse();
        }
        let current = &context.caller.token;
        listing.slice(found.iter().map(|session| AccountSession::new(session, current)).collect())
    }
}

async fn open_sessions(context: &Context) -> Result<Vec<Session>> {
    let (user, now) = (own_user(context).await?, context.environment().now());
    let mut found = context.stores().accounts().sessions(&user.id).await?;
    found.retain(|session| session.is_open(&user, now));
    Ok(found)
}

/// Ends a session of the caller.
#[derive(Debug, Clone, Serialize)]
pub struct EndAccountSession {
    pub session_id: TokenId,
}

impl Operation for EndAccountSession {
    const DECLARATION: Declaration = SERVICE.change("EndAccountSession").access(Access::Account).recorded();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target("session", &self.session_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        context.caller.require(Scope::Administration, "EndAccountSession")?;
        // A session of another user is answered like a missing one.
        let is_open = open_sessions(context).await?.iter().any(|session| session.id == self.session_id);
        if !is_open {
            return Err(Error::not_found("session", &self.session_id));
        }
        context.stores().accounts().remove_session(&context.principal().user, &self.session_id).await
    }
}
