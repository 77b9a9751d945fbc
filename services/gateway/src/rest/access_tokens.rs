//! The routes of access tokens: of an organization, and of an account.

use folio_operations::account_tokens::{CreateAccountToken, ListAccountTokens, RevokeAccountToken};
use folio_operations::tokens::{CreateToken, CreatedToken, ListTokens, ListedToken, RevokeToken};
use folio_operations::{ListPage, ListRequest};
use folio_resources::TokenRecord;
use folio_types::{Error, OrgId, Role, Timestamp, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post};
use super::extract::{Bounded, Client, Id, Json};
use super::failure::Failure;
use super::list::read_all;
use super::reply::{Message, Reply};
use super::routes::{Level, Route, org_path, route};

const OF_ORGANIZATION: &str = org_path!("/access_tokens");
const OF_ACCOUNT: &str = "/v0/account/access_tokens";

const DAY_SECONDS: u64 = 86_400;
/// The longest lifetime of a token. Clients that count in seconds send more, and get this one.
const LIFETIME_DAYS_MAX: u32 = 3_660;
const CREATE_DENIED: &str = "You are not authorized to create an organization-level API token";
/// Number of characters of a token that lists show.
const SHOWN_CHARS: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateToken>(Level::One, post(OF_ORGANIZATION, create)).denied_with(CREATE_DENIED),
        route::<ListTokens>(Level::One, get(OF_ORGANIZATION, list)),
        route::<RevokeToken>(Level::One, delete(org_path!("/access_tokens/{token_id}"), revoke)),
        route::<CreateAccountToken>(Level::One, post(OF_ACCOUNT, create_of_account)),
        route::<ListAccountTokens>(Level::One, get(OF_ACCOUNT, list_of_account)),
        route::<RevokeAccountToken>(Level::One, delete("/v0/account/access_tokens/{token_id}", revoke_of_account)),
    ]
}

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
struct TokenFields {
    /// The purpose.
    name: String,
    /// Days until the token is refused. 0: it does not expire. More than 3,660 days count as 3,660.
    #[schema(value_type = u32)]
    lifetime: Bounded<0, { i32::MAX as u32 }, 0>,
}

impl TokenFields {
    fn ttl_seconds(&self) -> u64 {
        u64::from(self.lifetime.0.min(LIFETIME_DAYS_MAX)) * DAY_SECONDS
    }
}

/// A token.
#[derive(Debug, Serialize, ToSchema)]
struct TokenBody {
    /// Identifies the token.
    id: String,
    /// The user that the token authenticates.
    user_id: String,
    /// The organization. Null: an account token.
    organization_id: Option<String>,
    /// The purpose.
    name: String,
    /// The complete token, once, in the response to its creation. Otherwise its first 10 characters.
    token: String,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Days from the creation until the token is refused. 0: it does not expire.
    lifetime: u32,
}

/// The tokens of the caller.
#[derive(Debug, Serialize, ToSchema)]
struct TokenList {
    /// The tokens that are not revoked, newest first.
    access_tokens: Vec<TokenBody>,
}

impl From<&TokenRecord> for TokenBody {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.to_string(),
            user_id: record.user.to_string(),
            organization_id: (record.org != OrgId::platform()).then(|| record.org.to_string()),
            name: record.name.clone(),
            token: shown(record),
            created_at: record.created_at,
            lifetime: lifetime_days(record.created_at, record.expires_at),
        }
    }
}

impl From<&ListedToken> for TokenBody {
    fn from(token: &ListedToken) -> Self {
        (&token.record).into()
    }
}

/// Returns the first characters of a token, which contain no secret.
fn shown(record: &TokenRecord) -> String {
    let digits = record.org.as_str().split_once('_').map_or("", |(_, digits)| digits);
    format!("folio_{digits}").chars().take(SHOWN_CHARS).collect()
}

/// Returns the lifetime of a token in days, rounded up. 0: no expiry.
fn lifetime_days(created_at: Timestamp, expires_at: Option<Timestamp>) -> u32 {
    let Some(end) = expires_at else { return 0 };
    let seconds = u64::try_from(end.duration_since(created_at).as_secs()).unwrap_or_default();
    u32::try_from(seconds.div_ceil(DAY_SECONDS)).unwrap_or(u32::MAX).max(1)
}

/// Returns the response to the creation of a token. The lifetime is the requested one.
fn created(created: &CreatedToken, fields: &TokenFields) -> Json<TokenBody> {
    let body = TokenBody::from(&created.record);
    let token = created.secret.as_ref().map_or(body.token, |secret| secret.reveal().to_owned());
    Json(TokenBody { token, lifetime: fields.lifetime.0, ..body })
}

fn rename(failure: Failure) -> Failure {
    failure.rename("ttl_seconds", "lifetime")
}

async fn create(client: Client, Json(fields): Json<TokenFields>) -> Reply<Json<TokenBody>> {
    // The token has the rights of the caller in the organization, and none on the installation.
    let operation = CreateToken {
        name: fields.name.clone(),
        user_id: None,
        role: client.principal().role,
        scopes: client.scopes().to_vec(),
        ttl_seconds: fields.ttl_seconds(),
        platform: false,
    };
    Ok(created(&client.run(operation).await.map_err(rename)?, &fields))
}

async fn create_of_account(client: Client, Json(fields): Json<TokenFields>) -> Reply<Json<TokenBody>> {
    let operation = CreateAccountToken {
        name: fields.name.clone(),
        role: client.principal().role,
        scopes: client.scopes().to_vec(),
        ttl_seconds: fields.ttl_seconds(),
        platform: client.has_platform_right() && client.principal().role == Role::Admin,
    };
    Ok(created(&client.run(operation).await.map_err(rename)?, &fields))
}

/// Returns a page of the tokens of the caller in its organization.
async fn own(client: &Client, list: ListRequest) -> Result<ListPage<ListedToken>, Failure> {
    let filter = format!("user={}", client.principal().user);
    client.run(ListTokens { list: ListRequest { filter, ..list } }).await
}

async fn list(client: Client) -> Reply<Json<TokenList>> {
    let tokens = read_all(|list| own(&client, list)).await?;
    Ok(Json(TokenList { access_tokens: tokens.iter().map(Into::into).collect() }))
}

async fn list_of_account(client: Client) -> Reply<Json<TokenList>> {
    let tokens = read_all(|list| client.run(ListAccountTokens { list })).await?;
    Ok(Json(TokenList { access_tokens: tokens.iter().map(Into::into).collect() }))
}

async fn revoke(client: Client, Id(token_id): Id<TokenId>) -> Reply<Json<Message>> {
    // A token of another user and a revoked one are answered like a missing one.
    let tokens = read_all(|list| own(&client, list)).await?;
    if !tokens.iter().any(|token| token.record.id == token_id) {
        return Err(Error::not_found("token", &token_id).into());
    }
    client.run(RevokeToken { token_id }).await?;
    Ok(Message::new("Token deleted successfully"))
}

async fn revoke_of_account(client: Client, Id(token_id): Id<TokenId>) -> Reply<Json<Message>> {
    client.run(RevokeAccountToken { token_id }).await?;
    Ok(Message::new("Token deleted successfully"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lifetime_is_in_days_and_ends_after_ten_years() {
        for (days, seconds) in [(0, 0), (1, 86_400), (3_660, 316_224_000), (86_400, 316_224_000)] {
            let fields: TokenFields =
                serde_json::from_value(serde_json::json!({"name": "a", "lifetime": days})).unwrap();
            assert_eq!(fields.ttl_seconds(), seconds, "{days}");
        }
        for refused in [serde_json::json!(-1), serde_json::json!(1.5), serde_json::json!("1"), serde_json::Value::Null]
        {
            let fields = serde_json::json!({"name": "a", "lifetime": refused});
            assert!(serde_json::from_value::<TokenFields>(fields).is_err(), "{refused}");
        }
        assert!(serde_json::from_value::<TokenFields>(serde_json::json!({"name": "a"})).is_err(), "is required");
    }

    #[test]
    fn the_lifetime_of_a_stored_token_is_rounded_up() {
        let start = Timestamp::UNIX_EPOCH;
        for (seconds, days) in [(1, 1), (86_400, 1), (86_401, 2), (316_224_000, 3_660)] {
            assert_eq!(lifetime_days(start, Some(start + Duration::from_secs(seconds))), days, "{seconds}");
        }
        assert_eq!(lifetime_days(start, None), 0);
    }
}
