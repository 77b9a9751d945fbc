//! Serves `TokenService`.

use folio_operations::tokens::{CreateToken, CreatedToken, ListTokens, ListedToken, RevokeToken};
use folio_proto::{fields, time, v1};
use folio_types::access::Scope;
use folio_types::{Error, Result};
use v1::token_service_server::TokenService;

use super::Api;
use super::handler::{change, list};

#[tonic::async_trait]
impl TokenService for Api {
    change!(
        create_token,
        CreateTokenRequest,
        CreateTokenResponse,
        |request| {
            let token = fields::required("token", request.token)?;
            let role = fields::choice::<v1::Role>("token.role", token.role)?.specified();
            CreateToken {
                user_id: fields::optional_id("token.user_id", &token.user_id)?,
                role: fields::required("token.role", role)?,
                scopes: token.scopes.iter().map(|number| scope(*number)).collect::<Result<_>>()?,
                ttl_seconds: request.ttl_seconds,
                platform: token.platform,
                name: token.name,
            }
        },
        |created: CreatedToken| v1::CreateTokenResponse {
            token: Some((&created.record).into()),
            secret: created.secret.unwrap_or_default().reveal().to_owned(),
        }
    );

    list!(list_tokens, ListTokensRequest, ListTokens {}, ListTokensResponse { tokens: listed });

    change!(
        revoke_token,
        RevokeTokenRequest,
        RevokeTokenResponse,
        |request| RevokeToken { token_id: fields::id("token_id", &request.token_id)? },
        |()| v1::RevokeTokenResponse {}
    );
}

pub(super) fn listed(token: &ListedToken) -> v1::Token {
    v1::Token { last_use_time: token.used_at.map(time::to_proto), ..(&token.record).into() }
}

pub(super) fn scope(number: i32) -> Result<Scope> {
    let scope = fields::choice::<v1::Scope>("token.scopes", number)?.specified();
    scope.ok_or_else(|| Error::invalid_field("token.scopes", "must not contain SCOPE_UNSPECIFIED"))
}
