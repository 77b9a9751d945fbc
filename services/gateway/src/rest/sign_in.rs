//! The routes of a page that signs users in, and of the organization of a token.

use folio_operations::organizations::GetOrganization;
use folio_operations::sign_in::{SignIn, SignInProof};
use folio_types::Reason;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Json, Query, Signed};
use super::failure::Failure;
use super::reply::Reply;
use super::routes::{Level, Route, route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<SignIn>(Level::Web, post("/v0/account/auth/token", sign_in)),
        route::<GetOrganization>(
            Level::One,
            get("/v0/account/token/organization", organization_of_token).with_token_in_query(),
        ),
    ]
}

/// A user that a page has authenticated.
#[derive(Debug, Deserialize, ToSchema)]
struct AuthenticatedUser {
    /// The id of the user at the page. It has no effect.
    #[expect(dead_code, reason = "the address identifies the user")]
    id: String,
    /// The name of the user at the page. It has no effect.
    #[expect(dead_code, reason = "the address identifies the user")]
    name: Option<String>,
    /// The e-mail address of the user.
    email: String,
}

/// A session.
#[derive(Serialize, ToSchema)]
struct SessionBody {
    /// The token of the session, a bearer token for all routes.
    token: String,
}

/// The query parameters of the organization of a token.
#[derive(Deserialize, ToSchema)]
struct TokenQuery {
    /// The token. Default: the token that the request presents in a header.
    #[expect(dead_code, reason = "it is the credential of the request")]
    token: Option<String>,
}

/// The organization of a token.
#[derive(Debug, Default, Serialize, ToSchema)]
struct OrganizationOfToken {
    /// Identifies the organization. Null: the token of an account or a session.
    organization_id: Option<String>,
    /// The display name.
    organization_name: Option<String>,
    /// Always `team`, or null.
    organization_type: Option<&'static str>,
}

async fn sign_in(client: Client, signed: Signed<AuthenticatedUser>) -> Reply<Json<SessionBody>> {
    let Some(signature) = signed.signature else {
        return Err(Failure::new(StatusCode::UNAUTHORIZED, "Missing X-Request-Signature header"));
    };
    let proof = SignInProof::Signature { body: signed.body, signature };
    let operation = SignIn { email: signed.value.email, proof, client: String::new() };
    let signed_in = client.run(operation).await.map_err(|failure| {
        let is_unknown = failure.error_detail("missing") == Some("user");
        let detail = if is_unknown { "User not found in database" } else { "Invalid request signature" };
        failure.when(Reason::SignInFailed, StatusCode::UNAUTHORIZED, detail)
    })?;
    Ok(Json(SessionBody { token: signed_in.token.reveal().to_owned() }))
}

async fn organization_of_token(client: Client, _: Query<TokenQuery>) -> Reply<Json<OrganizationOfToken>> {
    if !client.has_organization() {
        return Ok(Json(OrganizationOfToken::default()));
    }
    let found = client.run(GetOrganization { organization_id: None }).await?.organization;
    Ok(Json(OrganizationOfToken {
        organization_id: Some(found.id.to_string()),
        organization_name: Some(found.name),
        organization_type: Some("team"),
    }))
}
