//! Operations on access tokens.

use std::time::Duration;

use folio_resources::audit::AuditTarget;
use folio_resources::{NewToken, TOKENS_MAX, TokenChange, TokenFilter, TokenRecord};
use folio_storage::quota_exceeded;
use folio_types::access::Scope;
use folio_types::page::{Order, PageRequest};
use folio_types::token::{Token, TokenHash};
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, Secret, Timestamp, TokenId, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use crate::audit::AuditRecord;
use crate::caller::{Caller, CredentialKind, permission_denied};
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};

service! {
    "TokenService", Some(Scope::Administration) =>
    CreateToken, ListTokens, RevokeToken
}

/// Maximum number of concurrent revocations.
const REVOCATIONS: usize = 16;

/// Ten years.
// proto: CreateTokenRequest.ttl_seconds "at most {} ("
// proto: CreateAccountTokenRequest.ttl_seconds "at most {} ("
const TTL_MAX: Duration = Duration::from_secs(316_224_000);

#[derive(Debug, Clone, Serialize)]
pub struct CreateToken {
    /// The purpose.
    pub name: String,
    /// The member that the token authenticates. None: the caller.
    pub user_id: Option<UserId>,
    pub role: Role,
    /// The scopes that the token is restricted to. Empty: unrestricted.
    pub scopes: Vec<Scope>,
    /// Lifetime in seconds. 0: no expiry.
    pub ttl_seconds: u64,
    /// True if the token belongs to the platform's administrator.
    pub platform: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreatedToken {
    pub record: TokenRecord,
    /// The complete token. None if the request was repeated: the secret is not stored.
    #[serde(skip)]
    pub secret: Option<Secret>,
}

impl CreatedToken {
    /// Returns the target of the audit entry of a change that has this token as its output.
    pub(crate) fn audit_target(&self) -> AuditTarget {
        AuditTarget::new("token", &self.record.id)
    }
}

impl Operation for CreateToken {
    const DECLARATION: Declaration = SERVICE.administer("CreateToken");
    type Output = CreatedToken;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<CreatedToken>> {
        Ok(AuditRecord::of_input(self)?.target_of(CreatedToken::audit_target))
    }

    async fn run(self, context: &Context) -> Result<CreatedToken> {
        let (caller, environment, access) = (&context.caller, context.environment(), context.stores().access());
        folio_resources::fields::check_name("token.name", &self.name)?;
        let scopes = check_scopes(caller, self.scopes)?;
        if self.platform && self.role != Role::Admin {
            return Err(Error::invalid_field("token.platform", "requires the role admin"));
        }
        if self.platform && !caller.is_platform_admin() {
            let message = "creating a token of the platform's administrator requires such a token";
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", "platform"));
        }
        let Principal { org, user: own, .. } = &caller.principal;
        let user = self.user_id.unwrap_or_else(|| own.clone());
        if user != *own || caller.credential == CredentialKind::Jwt {
            let member = access.member(org, &user).await?;
            member.filter(|member| member.removed_at.is_none()).ok_or_else(|| Error::not_found("member", &user))?;
        }
        let expires_at = expiry(caller, environment.now(), self.ttl_seconds)?;
        let (role, platform, name) = (self.role, self.platform, self.name);
        let new = |hash| NewToken { hash, user, role, name, scopes, platform, expires_at };
        let limit = (TOKENS_MAX, quota_exceeded("tokens", TOKENS_MAX));
        create_token(context, &TokenFilter::default(), limit, new).await
    }
}

/// Creates a token of the caller's organization, or an account token of a caller without one. `limit`: the maximum
/// number of tokens that match `filter`, and the error at this number. `new` returns the token with the hash of a new
/// secret.
pub(crate) async fn create_token(
    context: &Context,
    filter: &TokenFilter,
    (max, too_many): (u64, Error),
    new: impl FnOnce(TokenHash) -> NewToken + Send,
) -> Result<CreatedToken> {
    let org = &context.principal().org;
    let (tokens, id) = (context.stores().of::<TokenRecord>(), TokenId::derive(&context.request.id_parts()));
    if tokens.get(org, &id).await?.is_none() {
        let page = PageRequest { size: 1, ..PageRequest::default() };
        if tokens.list(org, filter, &page).await?.total >= max {
            return Err(too_many);
        }
    }
    let token = Token::with_id(org, id, context.environment());
    let change = TokenChange::Create(Box::new(new(token.hash())));
    context.request.create::<TokenRecord>(context.stores(), change).await?;
    let record = tokens.get(org, token.id()).await?.ok_or_else(|| Error::not_found("token", token.id()))?;
    // The first attempt of this request may have stored another secret, and crashed before it returned it.
    let secret = (record.hash == token.hash()).then(|| Secret::new(&token.reveal()));
    Ok(CreatedToken { record, secret })
}

/// Lists the tokens that are not revoked. Filter: `name:` a part of the name, `user=` a user.
#[derive(Debug, Clone, Serialize)]
pub struct ListTokens {
    pub list: ListRequest,
}

impl Operation for ListTokens {
    const DECLARATION: Declaration = SERVICE.read("ListTokens").role(Role::Admin);
    type Output = ListPage<ListedToken>;

    async fn run(self, context: &Context) -> Result<ListPage<ListedToken>> {
        let mut filter = TokenFilter::default();
        for condition in filter::parse(&self.list.filter)? {
            match condition.field.as_str() {
                "name" => filter::set_once(&mut filter.name_search, &condition, condition.search()?)?,
                "user" => filter::set_once(&mut filter.user, &condition, condition.id::<UserId>()?)?,
                _ => return Err(filter::unknown_field(&condition, "name and user")),
            }
        }
        list_tokens(context, &self.list, &filter).await
    }
}

/// Lists tokens of the caller's organization, or account tokens for a caller without one.
pub(crate) async fn list_tokens(
    context: &Context,
    request: &ListRequest,
    filter: &TokenFilter,
) -> Result<ListPage<ListedToken>> {
    let (org, stores) = (&context.principal().org, context.stores());
    let (scope, keys) = (["tokens", org.as_str()], SortKeys::CreateTimeAndName);
    let listing = Listing::new(request, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
    let tokens = stores.of::<TokenRecord>();
    let found = listing.fetch(async |page| tokens.list(org, filter, &page).await).await?;
    let ids: Vec<TokenId> = found.items.iter().map(|token| token.id.clone()).collect();
    let uses = stores.access().last_uses(org, &ids).await?;
    let items = found.items.into_iter().zip(uses).map(|(record, used_at)| ListedToken { record, used_at });
    Ok(ListPage {
        items: items.collect(),
        next_page_token: found.next_page_token,
        total_size: found.total_size,
        is_total_estimate: found.is_total_estimate,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedToken {
    pub record: TokenRecord,
    /// Time of the last use, accurate to about a minute. None: never used.
    pub used_at: Option<Timestamp>,
}

/// Revokes a token permanently. Revoking a revoked token has no effect.
#[derive(Debug, Clone, Serialize)]
pub struct RevokeToken {
    pub token_id: TokenId,
}

impl Operation for RevokeToken {
    const DECLARATION: Declaration = SERVICE.administer("RevokeToken");
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        AuditRecord::of_input(self).map(|record| record.target("token", &self.token_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        match context.request.delete::<TokenRecord>(context.stores(), &self.token_id, None).await {
            Err(error) if error.reason == Reason::NotFound => {
                context.request.check_existed::<TokenRecord>(context.stores(), &self.token_id).await?;
            }
            deleted => deleted?,
        }
        context.stores().access().delete_use(&context.principal().org, &self.token_id).await
    }
}

/// Returns the tokens of an organization, or of one user.
async fn tokens_of(context: &Context, org: &OrgId, user: Option<UserId>) -> Result<Vec<TokenRecord>> {
    let (store, filter) = (context.stores().of::<TokenRecord>(), TokenFilter { user, ..TokenFilter::default() });
    let mut page = PageRequest { size: limits::PAGE_SIZE_MAX, order: Order::Oldest, ..PageRequest::default() };
    let mut tokens = Vec::new();
    loop {
        let mut found = store.list(org, &filter, &page).await?;
        tokens.append(&mut found.items);
        let Some(next) = found.next else { return Ok(tokens) };
        page.token = Some(next);
    }
}

/// Revokes the tokens of an organization, or only those of a user.
pub(crate) async fn revoke_tokens(context: &Context, org: &OrgId, user: Option<UserId>) -> Result<()> {
    let (stores, now) = (context.stores(), context.environment().now());
    let revoke = |token: TokenRecord| async move {
        // A version mismatch means that another request has revoked the token.
        stores.of::<TokenRecord>().decide(&token.id, TokenChange::revoke_by_platform(org, &token.id, now)?).await?;
        stores.access().delete_use(org, &token.id).await
    };
    let revocations = futures::stream::iter(tokens_of(context, org, user).await?).map(revoke);
    let revoked: Result<()> = revocations.buffer_unordered(REVOCATIONS).try_collect().await;
    // The change before the revocation is already stored, so every error is retriable.
    revoked.map_err(|error| {
        let message = format!("not every token is revoked yet: {error}");
        Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
    })
}

/// Refuses to demote or remove the user with the only tokens of the platform's administrator, because only such a token
/// can create another one.
pub(crate) async fn check_other_platform_token(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let now = context.environment().now();
    let tokens = tokens_of(context, org, None).await?;
    let is_live = |token: &&TokenRecord| token.platform && token.expires_at.is_none_or(|end| end > now);
    let (own, others): (Vec<_>, Vec<_>) = tokens.iter().filter(is_live).partition(|token| token.user == *user);
    if own.is_empty() || !others.is_empty() {
        return Ok(());
    }
    let message = "the user holds the only tokens of the platform's administrator; create one for another admin first";
    Err(Error::precondition(Reason::InUse, message))
}

/// Returns the expiry of a new token. None: no expiry. A token that expires cannot create a token that expires later.
/// The expiry of a JWT or a session is no bound, because both expire soon; the new token is revoked when its member is
/// removed.
pub(crate) fn expiry(caller: &Caller, now: Timestamp, ttl_seconds: u64) -> Result<Option<Timestamp>> {
    let ttl = Duration::from_secs(ttl_seconds);
    if ttl > TTL_MAX {
        return Err(Error::invalid_field("ttl_seconds", format!("must be at most {} seconds", TTL_MAX.as_secs())));
    }
    let end = (!ttl.is_zero()).then(|| now + ttl);
    match caller.expires_at.filter(|_| caller.credential.is_token()) {
        Some(own) if end.is_none_or(|end| end > own) => {
            Err(Error::invalid_field("ttl_seconds", format!("must end by {own}, when the caller's token expires")))
        }
        _ => Ok(end),
    }
}

/// Returns the scopes of a new token, sorted and without duplicates. Error: `SCOPE_NOT_ALLOWED` if they exceed those of
/// the caller's token.
pub(crate) fn check_scopes(caller: &Caller, mut scopes: Vec<Scope>) -> Result<Vec<Scope>> {
    scopes.sort_unstable();
    scopes.dedup();
    let exceeds = match scopes.as_slice() {
        [] => !caller.scopes.is_empty(),
        scopes => scopes.iter().any(|scope| !caller.covers(*scope)),
    };
    if exceeds {
        let message = "a restricted token cannot create a token with scopes that it does not have";
        return Err(Error::new(Code::PermissionDenied, Reason::ScopeNotAllowed, message));
    }
    Ok(scopes)
}
