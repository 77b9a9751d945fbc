//! Operations on access tokens.

use std::cmp::Reverse;
use std::time::Duration;

use folio_types::access::Scope;
use folio_types::audit::AuditTarget;
use folio_types::page::Order;
use folio_types::token::{ListedToken, Token, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, Secret, Timestamp, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use crate::audit::AuditRecord;
use crate::caller::Caller;
use crate::context::Context;
use crate::declaration::{Declaration, Service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_json};

pub(crate) static SERVICE: Service = Service { name: "TokenService", scope: Some(Scope::Administration) };

pub(crate) const DECLARATIONS: &[Declaration] =
    &[CreateToken::DECLARATION, ListTokens::DECLARATION, RevokeToken::DECLARATION];

/// Concurrent revocations of the tokens of an organization or a member.
const REVOCATIONS: usize = 16;

/// The maximum lifetime of a token: ten years.
const TTL_MAX: Duration = Duration::from_secs(316_224_000);

/// Creates a token.
#[derive(Debug, Clone, Serialize)]
pub struct CreateToken {
    /// The purpose: 1 to 200 characters without surrounding blanks.
    pub name: String,
    /// The user that the token authenticates: a member. None: the caller.
    pub user_id: Option<UserId>,
    /// The role of the token.
    pub role: Role,
    /// The scopes that the token is restricted to. Empty: unrestricted.
    pub scopes: Vec<Scope>,
    /// The lifetime. 0: no expiry.
    pub ttl_seconds: u64,
    /// Whether the token belongs to the platform's administrator.
    pub platform: bool,
}

/// A created token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreatedToken {
    /// The stored record.
    pub record: TokenRecord,
    /// The complete token. None if the request was repeated: the secret is not stored.
    #[serde(skip)]
    pub secret: Option<Secret>,
}

impl Operation for CreateToken {
    const DECLARATION: Declaration = SERVICE.administer("CreateToken");
    type Output = CreatedToken;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<CreatedToken>> {
        let record = AuditRecord::of_input(serde_json::to_value(self))?;
        Ok(record.target_of(|created: &CreatedToken| AuditTarget::new("token", &created.record.id)))
    }

    async fn run(self, context: &Context) -> Result<CreatedToken> {
        let (caller, environment, access) = (&context.caller, context.environment(), &context.stores().access);
        folio_types::fields::check_name("token.name", &self.name)?;
        let scopes = check_scopes(caller, self.scopes)?;
        if self.platform && self.role != Role::Admin {
            return Err(Error::invalid_field("token.platform", "requires the role admin"));
        }
        if self.platform && !caller.is_platform_admin() {
            let message = "creating a token of the platform's administrator requires such a token";
            return Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", "platform"));
        }
        let Principal { org, user: own, .. } = &caller.principal;
        let user = self.user_id.unwrap_or_else(|| own.clone());
        if user != *own || caller.jwt {
            let member = access.member(org, &user).await?;
            member.filter(|member| member.removed_at.is_none()).ok_or_else(|| Error::not_found("member", &user))?;
        }
        let now = environment.now();
        let expires_at = expiry(caller, now, self.ttl_seconds)?;
        let token = Token::generate_as(&context.request.id_parts().join("/"), environment);
        let holder = Principal { org: org.clone(), user, role: self.role };
        let record = TokenRecord {
            scopes,
            platform: self.platform,
            expires_at,
            ..TokenRecord::new(&token, holder, &self.name, now)
        };
        match access.create_token(record.clone()).await {
            Ok(()) => Ok(CreatedToken { record, secret: Some(Secret::new(&token.reveal())) }),
            // The request's first attempt stored it, and died before it could answer.
            Err(error) if error.reason == Reason::NameTaken => {
                let stored = access.token(token.id()).await?.filter(|stored| stored.org == *org);
                stored.map(|record| CreatedToken { record, secret: None }).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// Lists the tokens that are not revoked. Filter: `name:` a part of the name, `user=` a user.
#[derive(Debug, Clone, Serialize)]
pub struct ListTokens {
    /// The page.
    pub list: ListRequest,
}

impl Operation for ListTokens {
    const DECLARATION: Declaration = SERVICE.read("ListTokens").role(Role::Admin);
    type Output = ListPage<ListedToken>;

    async fn run(self, context: &Context) -> Result<ListPage<ListedToken>> {
        let (mut name, mut user) = (None, None);
        for condition in filter::parse(&self.list.filter)? {
            match condition.field.as_str() {
                "name" => filter::once(&mut name, &condition, condition.search()?.to_lowercase())?,
                "user" => filter::once(&mut user, &condition, condition.id::<UserId>()?)?,
                _ => return Err(filter::unknown(&condition, "name and user")),
            }
        }
        let org = &context.principal().org;
        let (scope, keys) = (["tokens", org.as_str()], SortKeys::CreateTimeAndName);
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let mut tokens = context.stores().access.tokens(org).await?;
        tokens.retain(|ListedToken { record, .. }| {
            name.as_ref().is_none_or(|part| record.name.to_lowercase().contains(part))
                && user.as_ref().is_none_or(|user| record.user == *user)
        });
        match listing.page.order {
            Order::Oldest => {}
            Order::Newest => tokens.reverse(),
            Order::Name => tokens.sort_by_key(|token| token.record.name.to_lowercase()),
            Order::NameDescending => tokens.sort_by_key(|token| Reverse(token.record.name.to_lowercase())),
        }
        listing.slice(tokens)
    }
}

/// Revokes a token. Revoking a revoked token has no effect.
#[derive(Debug, Clone, Serialize)]
pub struct RevokeToken {
    /// The token.
    pub token_id: TokenId,
}

impl Operation for RevokeToken {
    const DECLARATION: Declaration = SERVICE.administer("RevokeToken");
    type Output = TokenRecord;
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<TokenRecord>> {
        AuditRecord::of_input(serde_json::to_value(self)).map(|record| record.target("token", &self.token_id))
    }

    async fn run(self, context: &Context) -> Result<TokenRecord> {
        let (access, now) = (&context.stores().access, context.environment().now());
        let revoked = access.revoke_token(&context.principal().org, &self.token_id, now).await?;
        revoked.ok_or_else(|| Error::not_found("token", &self.token_id))
    }
}

/// Revokes the tokens of an organization that `selects` selects.
pub(crate) async fn revoke_tokens(
    context: &Context,
    org: &OrgId,
    selects: impl Fn(&TokenRecord) -> bool + Send,
) -> Result<()> {
    let (access, now) = (&context.stores().access, context.environment().now());
    let tokens = access.tokens(org).await?.into_iter().map(|token| token.record);
    let ids: Vec<TokenId> = tokens.filter(selects).map(|token| token.id).collect();
    let revocations = futures::stream::iter(ids).map(|id| async move { access.revoke_token(org, &id, now).await });
    let revoked: Result<()> = revocations.buffer_unordered(REVOCATIONS).try_for_each(|_| async { Ok(()) }).await;
    // Whatever the error is: the change before it is stored.
    revoked.map_err(|error| {
        let message = format!("not every token is revoked yet: {error}");
        Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
    })
}

/// Refuses to lower the role of the user with the only tokens of the platform's administrator, because only such a token can create
/// another one.
pub(crate) async fn keep_a_platform_token(context: &Context, org: &OrgId, user: &UserId) -> Result<()> {
    let now = context.environment().now();
    let tokens = context.stores().access.tokens(org).await?;
    let is_live = |token: &&TokenRecord| token.platform && token.expires_at.is_none_or(|end| end > now);
    let (own, others): (Vec<_>, Vec<_>) =
        tokens.iter().map(|token| &token.record).filter(is_live).partition(|token| token.user == *user);
    if own.is_empty() || !others.is_empty() {
        return Ok(());
    }
    let message = "the user holds the only tokens of the platform's administrator; create one for another admin first";
    Err(Error::precondition(Reason::InUse, message))
}

/// Returns the expiry of a new token. None: no expiry. A token that expires creates no token that expires later. A JWT
/// bounds none, as it expires soon: removing the member revokes the token.
fn expiry(caller: &Caller, now: Timestamp, ttl_seconds: u64) -> Result<Option<Timestamp>> {
    let ttl = Duration::from_secs(ttl_seconds);
    if ttl > TTL_MAX {
        return Err(Error::invalid_field("ttl_seconds", format!("must be at most {}", TTL_MAX.as_secs())));
    }
    let end = (!ttl.is_zero()).then(|| now + ttl);
    match caller.end.filter(|_| !caller.jwt) {
        Some(own) if end.is_none_or(|end| end > own) => {
            Err(Error::invalid_field("ttl_seconds", format!("must end by {own}, when the caller's token expires")))
        }
        _ => Ok(end),
    }
}

/// Returns the scopes of a new token as a set. Error: `SCOPE_NOT_ALLOWED` if they exceed those of the caller's token.
fn check_scopes(caller: &Caller, mut scopes: Vec<Scope>) -> Result<Vec<Scope>> {
    scopes.sort_unstable();
    scopes.dedup();
    let exceeds = match scopes.as_slice() {
        [] => !caller.scopes.is_empty(),
        scopes => scopes.iter().any(|scope| !caller.covers(*scope)),
    };
    if exceeds {
        let message = "a restricted token creates no token with more scopes than its own";
        return Err(Error::new(Code::PermissionDenied, Reason::ScopeNotAllowed, message));
    }
    Ok(scopes)
}
