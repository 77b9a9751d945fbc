//! Account tokens: access tokens of a user over all its organizations. They belong to `AccountService`.

use folio_resources::{ACCOUNT_TOKENS_MAX, NewToken, TokenFilter, TokenRecord};
use folio_types::access::Scope;
use folio_types::{Error, Reason, Result, Role, TokenId};
use serde::Serialize;

use crate::accounts::SERVICE;
use crate::audit::AuditRecord;
use crate::caller::permission_denied;
use crate::context::Context;
use crate::declaration::{Access, Declaration};
use crate::filter;
use crate::list::{ListPage, ListRequest};
use crate::operation::{Operation, outcome_as_json};
use crate::tokens::{CreatedToken, ListedToken, check_scopes, create_token, expiry, list_tokens};

/// Creates a token of the caller over all its organizations. A password change does not end it.
#[derive(Debug, Clone, Serialize)]
pub struct CreateAccountToken {
    /// The purpose.
    pub name: String,
    /// The maximum role of the token in each organization.
    pub role: Role,
    /// The scopes that the token is restricted to. Empty: unrestricted.
    pub scopes: Vec<Scope>,
    /// Lifetime in seconds. 0: no expiry.
    pub ttl_seconds: u64,
    /// True if the token may administer the platform.
    pub platform: bool,
}

impl Operation for CreateAccountToken {
    const DECLARATION: Declaration = SERVICE.change("CreateAccountToken").access(Access::Account).recorded();
    type Output = CreatedToken;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<CreatedToken>> {
        Ok(AuditRecord::of_input(self)?.target_of(CreatedToken::audit_target))
    }

    async fn run(self, context: &Context) -> Result<CreatedToken> {
        let (caller, user) = (&context.caller, context.principal().user.clone());
        caller.require(Scope::Administration, "CreateAccountToken")?;
        folio_resources::fields::check_name("token.name", &self.name)?;
        let scopes = check_scopes(caller, self.scopes)?;
        if self.role > context.principal().role {
            let message = "a token cannot create a token with a higher role";
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", self.role.as_str()));
        }
        if self.platform && self.role != Role::Admin {
            return Err(Error::invalid_field("token.platform", "requires the role admin"));
        }
        if self.platform && !caller.has_platform_right {
            let message = "creating a token of the platform's administrator requires this right";
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", "platform"));
        }
        let expires_at = expiry(caller, context.environment().now(), self.ttl_seconds)?;
        let filter = TokenFilter { user: Some(user.clone()), ..TokenFilter::default() };
        let message = format!("a user has at most {ACCOUNT_TOKENS_MAX} account tokens; revoke one first");
        let limit = (ACCOUNT_TOKENS_MAX, Error::exhausted(Reason::QuotaExceeded, message));
        let (role, platform, name) = (self.role, self.platform, self.name);
        let new = |hash| NewToken { hash, user, role, name, scopes, platform, expires_at };
        create_token(context, &filter, limit, new).await
    }
}

/// Lists the account tokens of the caller that are not revoked. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListAccountTokens {
    pub list: ListRequest,
}

impl Operation for ListAccountTokens {
    const DECLARATION: Declaration = SERVICE.read("ListAccountTokens").access(Access::Account);
    type Output = ListPage<ListedToken>;

    async fn run(self, context: &Context) -> Result<ListPage<ListedToken>> {
        let user = Some(context.principal().user.clone());
        let filter = TokenFilter { name_search: filter::name_search(&self.list.filter)?, user };
        list_tokens(context, &self.list, &filter).await
    }
}

/// Revokes an account token of the caller permanently.
#[derive(Debug, Clone, Serialize)]
pub struct RevokeAccountToken {
    pub token_id: TokenId,
}

impl Operation for RevokeAccountToken {
    const DECLARATION: Declaration = SERVICE.change("RevokeAccountToken").access(Access::Account).recorded();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target("token", &self.token_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        let (org, id) = (&context.principal().org, &self.token_id);
        // A token of another user is answered like a missing one. A token may revoke itself.
        let found = context.stores().of::<TokenRecord>().get(org, id).await?;
        let is_own = found.is_some_and(|token| token.user == context.principal().user);
        if !is_own {
            return Err(Error::not_found("token", id));
        }
        if *id != context.caller.token {
            context.caller.require(Scope::Administration, "RevokeAccountToken")?;
        }
        context.request.delete::<TokenRecord>(context.stores(), id, None).await?;
        context.stores().access().delete_use(org, id).await
    }
}
