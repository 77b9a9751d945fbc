//! The routes of a page that signs users in, and of the organization of a token.

use folio_gateway::Options;
use folio_types::token::Token;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::json;

use super::{Answer, Http};
use crate::harness::Server;

const ROUTE: &str = "/v0/account/auth/token";
/// A request of the page for the user of [`register`], and the HMAC-SHA256 of the request with
/// [`crate::harness::PAGE_SECRET`].
const KNOWN: (&str, &str) = (
    r#"{"id": "1", "name": "Ann", "email": "ann@example.com"}"#,
    "e57ec6c48160be3893de87fe2127dc744258fd04cca31843cb1db275276c3d38",
);
/// A request as [`KNOWN`], for a user that does not exist.
const UNKNOWN: (&str, &str) = (
    r#"{"id": "1", "name": "Ann", "email": "unknown@example.com"}"#,
    "909736d27b20a282853f6384f3bfafcf6cc65f770f652ea77ed9601be7d4fadb",
);

async fn sign_in(http: &Http, body: &str, signature: Option<&str>) -> Answer {
    let request = http.request(Method::POST, ROUTE).body(body.to_owned());
    let signed = signature.into_iter().fold(request, |request, value| request.header("x-request-signature", value));
    http.send(signed).await
}

async fn register(server: &Server) {
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let user = json!({"user": {"email": "ann@example.com", "name": "Ann"}, "password": "a SECRET password"});
    admin.call_ok("CreateUser", user).await;
}

#[tokio::test]
async fn a_page_with_the_secret_starts_a_session_of_a_user() {
    let server = Server::start().await;
    register(&server).await;
    let anonymous = Http::new(&server, &server.stranger(None));
    let signed_in = sign_in(&anonymous, KNOWN.0, Some(KNOWN.1)).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let session = server.holder(signed_in.json()["token"].as_str().unwrap());
    let account = session.call_ok("GetAccount", json!({})).await;
    assert_eq!(account["user"]["email"], "ann@example.com");

    let refusal = async |body: &str, signature: Option<&str>| {
        let refused = sign_in(&anonymous, body, signature).await;
        (refused.status.as_u16(), refused.detail())
    };
    let invalid = (401, json!("Invalid request signature"));
    for signature in ["", "x", UNKNOWN.1] {
        assert_eq!(refusal(KNOWN.0, Some(signature)).await, invalid, "{signature}");
    }
    assert_eq!(refusal(&KNOWN.0.replace("Ann", "Bob"), Some(KNOWN.1)).await, invalid, "another body");
    assert_eq!(refusal(KNOWN.0, None).await, (401, json!("Missing X-Request-Signature header")));
    assert_eq!(refusal(UNKNOWN.0, Some(UNKNOWN.1)).await, (401, json!("User not found in database")));
    assert_eq!(refusal("{", Some(KNOWN.1)).await.0, 422);
    assert_eq!(refusal("{}", None).await.0, 422);
    server.stop().await;
}

#[tokio::test]
async fn failed_sign_ins_over_rest_count_against_their_address() {
    let server = Server::with(Options { failed_attempts_per_minute: 3, ..Options::default() }).await;
    register(&server).await;
    let anonymous = Http::new(&server, &server.stranger(None));
    for _ in 0..3 {
        assert_eq!(sign_in(&anonymous, KNOWN.0, Some("x")).await.status, 401);
    }
    let refused = sign_in(&anonymous, KNOWN.0, Some("x")).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (429, &json!("TOO_MANY_ATTEMPTS")));
    assert_eq!(sign_in(&anonymous, KNOWN.0, Some(KNOWN.1)).await.status, 200, "a valid signature");
    server.stop().await;
}

#[tokio::test]
async fn a_server_without_users_starts_no_session_for_a_page() {
    let server = Server::without_users().await;
    let refused = sign_in(&Http::new(&server, &server.stranger(None)), KNOWN.0, Some(KNOWN.1)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (400, &json!("USERS_DISABLED")));
    server.stop().await;
}

#[tokio::test]
async fn the_organization_of_a_token_is_found_without_a_header() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.user(&org, Role::Admin).await;
    let token = admin.authorization().unwrap().trim_start_matches("Bearer ").to_owned();
    let anonymous = Http::new(&server, &server.stranger(None));
    let route = |token: &str| format!("/v0/account/token/organization?token={token}");
    let found = anonymous.get(&route(&token)).await;
    let expected = json!({
        "organization_id": org.as_str(), "organization_name": "test", "organization_type": "team",
    });
    assert_eq!((found.status.as_u16(), found.json()), (200, expected.clone()));
    // The route reads the token in the query and ignores the token of the client.
    let other = Http::new(&server, &server.member().await);
    assert_eq!(other.get(&route(&token)).await.json(), expected);

    let user = server.account("ann", false).await;
    let session = server.session(&user, None).await.authorization().unwrap();
    let of_account = anonymous.get(&route(session.trim_start_matches("Bearer "))).await.json();
    assert_eq!(of_account, json!({"organization_id": null, "organization_name": null, "organization_type": null}));
    for invalid in ["", "x", &Token::generate(&org, &System).reveal()] {
        for http in [&anonymous, &other] {
            let refused = http.get(&route(invalid)).await;
            assert_eq!((refused.status.as_u16(), refused.detail()), (401, json!("Invalid token")), "{invalid}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn invalid_tokens_in_a_query_count_against_their_address() {
    let server = Server::with(Options { failed_attempts_per_minute: 3, ..Options::default() }).await;
    let anonymous = Http::new(&server, &server.stranger(None));
    let mut statuses = Vec::new();
    for number in 0..4 {
        let answer = anonymous.get(&format!("/v0/account/token/organization?token=wrong-{number}")).await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [401, 401, 401, 429]);
    server.stop().await;
}
