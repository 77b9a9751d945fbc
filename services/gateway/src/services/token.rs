//! TokenService.

use std::cmp::Reverse;
use std::time::Duration;

use folio_proto::{fields, v1};
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::token::{ListedToken, Token, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Principal, Reason, Result, Role, Timestamp, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tonic::{Request, Response, Status};
use v1::token_service_server::TokenService;

use super::{Api, answer, asked, listing};
use crate::audit::Made;
use crate::filter;
use crate::page::{By, total};
use folio_operations::Caller;

/// Tokens that are revoked at once, of an organization or a member.
const REVOKED_AT_ONCE: usize = 16;

/// The longest that a token may be good, unless it has no end.
const TTL_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

#[tonic::async_trait]
impl TokenService for Api {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let arguments = json!({
                "name": request.name,
                "user_id": request.user_id,
                "role": request.role().as_str_name(),
                "scopes": request.scopes().map(|scope| scope.as_str_name()).collect::<Vec<_>>(),
                "ttl_seconds": request.ttl_seconds,
                "platform": request.platform,
            });
            let (by, request_id) = (caller.principal.clone(), request.request_id.clone());
            let asked = ("TokenService.CreateToken", request_id.as_str(), arguments);
            let made = |made: &v1::CreateTokenResponse| {
                Made::here("token", made.token.as_ref().map(|token| token.token_id.as_str()).unwrap_or_default())
            };
            api.recorded(&by, asked, api.new_token(caller, request), made).await
        })
        .await
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        answer(request, |principal, request| self.tokens(principal, request)).await
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        self.changes(request, async |api, caller, request| {
            let principal = caller.principal;
            let id: TokenId = fields::id("token_id", &request.token_id)?;
            let asked = ("TokenService.RevokeToken", "", json!({ "token_id": id }));
            let revoke = async {
                let now = api.gateway.environment.now();
                let revoked = api.gateway.stores.access.revoke_token(&principal.org, &id, now).await?;
                revoked.ok_or_else(|| Error::not_found("token", &id))
            };
            let revoked = api.recorded(&principal, asked, revoke, |_| Made::here("token", &id)).await?;
            Ok(v1::RevokeTokenResponse { token: Some((&revoked).into()) })
        })
        .await
    }
}

impl Api {
    async fn new_token(&self, caller: Caller, request: v1::CreateTokenRequest) -> Result<v1::CreateTokenResponse> {
        let op = self.op(&caller.principal, "CreateToken", &request.request_id, &request)?;
        let (environment, access) = (self.gateway.environment.as_ref(), &self.gateway.stores.access);
        folio_types::fields::check_name("name", &request.name)?;
        let role = fields::choice::<v1::Role>("role", request.role)?.said();
        let role = role.ok_or_else(|| Error::invalid_field("role", "is missing"))?;
        let scopes = scopes(&caller, &request.scopes)?;
        if request.platform && role != Role::Admin {
            return Err(Error::invalid_field("platform", "is for the role admin only"));
        }
        if request.platform && !caller.is_platform_admin() {
            let message = "only a token of the platform's administrator makes another one";
            return Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, message).detail("role", "platform"));
        }
        let own = &caller.principal.user;
        let user = fields::optional_id::<UserId>("user_id", &request.user_id)?.unwrap_or_else(|| own.clone());
        if user != *own || caller.jwt {
            let member = access.member(&caller.principal.org, &user).await?;
            member.filter(|member| member.removed_at.is_none()).ok_or_else(|| Error::not_found("member", &user))?;
        }
        let now = environment.now();
        let expires_at = end(&caller, now, request.ttl_seconds)?;
        let token = Token::generate_as(&op.parts().join("/"), environment);
        let holder = Principal { org: caller.principal.org.clone(), user, role };
        let record = TokenRecord {
            scopes,
            platform: request.platform,
            expires_at,
            ..TokenRecord::new(&token, holder, &request.name, now)
        };
        access.create_token(record.clone()).await?;
        Ok(v1::CreateTokenResponse { token: Some((&record).into()), secret: token.reveal() })
    }

    /// Revokes those of an organization's tokens that are meant.
    pub(super) async fn revoke_tokens(&self, org: &OrgId, meant: impl Fn(&TokenRecord) -> bool) -> Result<()> {
        let (access, now) = (&self.gateway.stores.access, self.gateway.environment.now());
        let tokens = access.tokens(org).await?.into_iter().filter(|token| meant(&token.record));
        let revoked =
            futures::stream::iter(tokens).map(async |token| access.revoke_token(org, &token.record.id, now).await);
        let done: Result<()> = revoked.buffer_unordered(REVOKED_AT_ONCE).try_for_each(async |_| Ok(())).await;
        // Whatever it is: what came before it stands.
        done.map_err(|error| {
            let message = format!("not every token could be revoked yet: {error}");
            Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1))
        })
    }

    /// The platform's administrator stays: nobody else can make another one's token.
    pub(super) async fn another_platform_admin(&self, org: &OrgId, user: &UserId) -> Result<()> {
        let now = self.gateway.environment.now();
        let tokens = self.gateway.stores.access.tokens(org).await?;
        let lives = |token: &&TokenRecord| token.platform && token.expires_at.is_none_or(|end| end > now);
        let (own, others): (Vec<_>, Vec<_>) =
            tokens.iter().map(|token| &token.record).filter(lives).partition(|token| token.user == *user);
        if own.is_empty() || !others.is_empty() {
            return Ok(());
        }
        let message =
            "the user holds the only tokens of the platform's administrator; make one for another admin first";
        Err(Error::precondition(Reason::InUse, message))
    }

    async fn tokens(&self, principal: Principal, request: v1::ListTokensRequest) -> Result<v1::ListTokensResponse> {
        let (mut name, mut user) = (None, None);
        for term in filter::parse(&request.filter)? {
            match term.field.as_str() {
                "name" => filter::once(&mut name, &term, term.search()?.to_lowercase())?,
                "user" => filter::once(&mut user, &term, term.id::<UserId>()?)?,
                _ => return Err(filter::unknown(&term, "name and user")),
            }
        }
        let by = By::Name("name");
        let listing = listing(&principal, "tokens", &request.filter, asked!(request), by, limits::PAGE_SIZE_MAX)?;
        let mut tokens = self.gateway.stores.access.tokens(&principal.org).await?;
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
        let page = listing.slice(tokens)?;
        Ok(v1::ListTokensResponse {
            tokens: page.items.iter().map(v1::Token::from).collect(),
            next_page_token: listing.next(page.next),
            total_size: total(page.total),
        })
    }
}

/// When a new token ends; none: it does not. One that ends itself makes none that ends later. A JWT, which ends soon, bounds none: the
/// member's row does that.
fn end(caller: &Caller, now: Timestamp, ttl_seconds: u64) -> Result<Option<Timestamp>> {
    let ttl = Duration::from_secs(ttl_seconds);
    if ttl > TTL_MAX {
        return Err(Error::invalid_field("ttl_seconds", "is more than ten years"));
    }
    let end = (!ttl.is_zero()).then(|| now + ttl);
    match caller.end.filter(|_| !caller.jwt) {
        Some(own) if end.is_none_or(|end| end > own) => {
            Err(Error::invalid_field("ttl_seconds", format!("must end by {own}, as the token does that makes it")))
        }
        _ => Ok(end),
    }
}

/// What a new token is limited to: no more than what makes it.
fn scopes(caller: &Caller, asked: &[i32]) -> Result<Vec<Scope>> {
    let mut scopes = Vec::new();
    for number in asked {
        let scope = fields::choice::<v1::Scope>("scopes", *number)?.said();
        scopes.push(scope.ok_or_else(|| Error::invalid_field("scopes", "holds one that is not said"))?);
    }
    scopes.sort_unstable();
    scopes.dedup();
    let more = match scopes.as_slice() {
        [] => !caller.scopes.is_empty(),
        scopes => scopes.iter().any(|scope| !caller.covers(*scope)),
    };
    if more {
        let message = "a token that is limited makes none that may more than itself";
        return Err(Error::new(Code::PermissionDenied, Reason::ScopeNotAllowed, message));
    }
    Ok(scopes)
}
