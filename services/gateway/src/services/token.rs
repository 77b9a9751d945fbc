//! TokenService.

use folio_operations::tokens::{CreateToken, CreatedToken, ListTokens, ListedToken, RevokeToken};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, time, v1};
use folio_types::access::Scope;
use folio_types::{Error, Result};
use tonic::Request;
use v1::token_service_server::TokenService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl TokenService for Api {
    async fn create_token(&self, request: Request<v1::CreateTokenRequest>) -> Reply<v1::CreateTokenResponse> {
        let call = |request: v1::CreateTokenRequest| {
            let token = fields::required("token", request.token)?;
            let role = fields::choice::<v1::Role>("token.role", token.role)?.specified();
            let operation = CreateToken {
                user_id: fields::optional_id("token.user_id", &token.user_id)?,
                role: fields::required("token.role", role)?,
                scopes: token.scopes.iter().map(|number| scope(*number)).collect::<Result<_>>()?,
                ttl_seconds: request.ttl_seconds,
                platform: token.platform,
                name: token.name,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |created: CreatedToken| v1::CreateTokenResponse {
            token: Some((&created.record).into()),
            secret: created.secret.unwrap_or_default().reveal().to_owned(),
        };
        self.call(request, call, response).await
    }

    async fn list_tokens(&self, request: Request<v1::ListTokensRequest>) -> Reply<v1::ListTokensResponse> {
        let call = |request: v1::ListTokensRequest| Ok(Call::new(ListTokens { list: list_request!(request) }));
        let response = |page: ListPage<ListedToken>| v1::ListTokensResponse {
            tokens: page.items.iter().map(listed).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn revoke_token(&self, request: Request<v1::RevokeTokenRequest>) -> Reply<v1::RevokeTokenResponse> {
        let call = |request: v1::RevokeTokenRequest| {
            let operation = RevokeToken { token_id: fields::id("token_id", &request.token_id)? };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |()| v1::RevokeTokenResponse {};
        self.call(request, call, response).await
    }
}

fn listed(token: &ListedToken) -> v1::Token {
    v1::Token { last_use_time: token.used_at.map(time::to_proto), ..(&token.record).into() }
}

fn scope(number: i32) -> Result<Scope> {
    let scope = fields::choice::<v1::Scope>("token.scopes", number)?.specified();
    scope.ok_or_else(|| Error::invalid_field("token.scopes", "must not contain SCOPE_UNSPECIFIED"))
}
