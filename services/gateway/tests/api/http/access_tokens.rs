//! The routes of access tokens.

use std::time::Duration;

use folio_types::token::Token;
use folio_types::{Environment as _, OrgId, Role, System, UserId};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Server, record};

#[tokio::test]
async fn a_token_of_an_organization_is_created_listed_and_revoked() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (admin, colleague) = (server.user(&org, Role::Admin).await, server.user(&org, Role::Admin).await);
    let (http, other) = (Http::new(&server, &admin), Http::new(&server, &colleague));
    let tokens = format!("/v0/orgs/{org}/access_tokens");
    let created = http.json(Method::POST, &tokens, &json!({ "name": "robot", "lifetime": 30 })).await;
    let token = created.json();
    assert_eq!((created.status.as_u16(), &token["lifetime"]), (200, &json!(30)), "{token}");
    assert_eq!(token["organization_id"], org.as_str());
    assert_eq!(token["user_id"], admin.user.as_str());
    let secret = token["token"].as_str().unwrap().to_owned();
    let robot = Http::new(&server, &server.holder(&secret));
    assert_eq!(robot.get(&format!("/v0/orgs/{org}/tags")).await.status, 200);

    let listed = http.get(&tokens).await.json();
    let entry = &listed["access_tokens"][0];
    assert_eq!((&entry["id"], &entry["lifetime"]), (&token["id"], &json!(30)));
    assert_eq!(entry["token"].as_str().unwrap(), &secret[..10]);
    let of_other = other.get(&tokens).await.json();
    let of_other = of_other["access_tokens"].as_array().unwrap();
    assert!(of_other.iter().all(|token| token["user_id"] == colleague.user.as_str()), "only the tokens of the caller");

    let one = format!("{tokens}/{}", token["id"].as_str().unwrap());
    let missing = (404, json!("Token not found"));
    let delete = async |http: &Http| {
        let answer = http.json(Method::DELETE, &one, &Value::Null).await;
        (answer.status.as_u16(), answer.json())
    };
    let refused = delete(&other).await;
    assert_eq!((refused.0, refused.1["detail"].clone()), missing, "the token of another user");
    assert_eq!(delete(&http).await, (200, json!({ "message": "Token deleted successfully" })));
    let again = delete(&http).await;
    assert_eq!((again.0, again.1["detail"].clone()), missing);
    server.stop().await;
}

#[tokio::test]
async fn a_token_does_not_exceed_the_rights_of_its_creator_and_ends_within_ten_years() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let platform = server.platform_admin(&org).await;
    let (http, tokens) = (Http::new(&server, &platform), format!("/v0/orgs/{org}/access_tokens"));
    // Clients that count in seconds send one day as 86,400.
    let long = http.json(Method::POST, &tokens, &json!({ "name": "long", "lifetime": 86_400 })).await.json();
    assert_eq!(long["lifetime"], 86_400);
    assert_eq!(http.get(&tokens).await.json()["access_tokens"][0]["lifetime"], 3_660);
    let holder = server.holder(long["token"].as_str().unwrap());
    let refused = holder.refusal("ListOrganizations", json!({})).await;
    assert_eq!(refused.details.get("role").map(String::as_str), Some("platform"));

    let member = Http::new(&server, &server.user(&org, Role::Member).await);
    let refused = member.json(Method::POST, &tokens, &json!({ "name": "a", "lifetime": 0 })).await;
    let detail = json!("You are not authorized to create an organization-level API token");
    assert_eq!((refused.status.as_u16(), refused.detail()), (403, detail));
    for (body, location) in [
        (json!({ "name": "a" }), json!(["body", "lifetime"])),
        (json!({ "lifetime": 1 }), json!(["body", "name"])),
        (json!({ "name": "a", "lifetime": -1 }), json!(["body", "lifetime"])),
        (json!({ "name": "", "lifetime": 1 }), json!(["body", "name"])),
    ] {
        let refused = http.json(Method::POST, &tokens, &body).await;
        assert_eq!((refused.status.as_u16(), &refused.detail()[0]["loc"]), (422, &location), "{body}");
    }
    // A token that expires creates none that expires later.
    let short = http.json(Method::POST, &tokens, &json!({ "name": "short", "lifetime": 1 })).await.json();
    let short = Http::new(&server, &server.holder(short["token"].as_str().unwrap()));
    let refused = short.json(Method::POST, &tokens, &json!({ "name": "a", "lifetime": 2 })).await;
    assert_eq!((refused.status.as_u16(), &refused.detail()[0]["loc"]), (422, &json!(["body", "lifetime"])));
    server.stop().await;
}

#[tokio::test]
async fn only_rest_states_that_a_token_has_expired_and_only_to_its_holder() {
    let server = Server::start().await;
    let (org, user) = (OrgId::generate(&System), UserId::generate(&System));
    server.organization(&org).await;
    let expired = Token::generate(&org, &System);
    let mut old = record(&expired, &user, Role::Admin);
    old.expires_at = Some(System.now() - Duration::from_secs(1));
    server.store_token(&expired, old).await;
    let guessed = Token::with_id(&org, expired.id().clone(), &System);
    let [holder, stranger] = [&expired, &guessed].map(|token| Http::new(&server, &server.holder(&token.reveal())));
    let tags = format!("/v0/orgs/{org}/tags");
    // A client that receives 401 may send the same request again.
    for _ in 0..2 {
        for (http, text) in
            [(&holder, "API token expired"), (&stranger, "Invalid authentication credentials: invalid token")]
        {
            let refused = http.get(&tags).await;
            assert_eq!((refused.status.as_u16(), refused.detail()), (401, json!(text)));
            assert_eq!(refused.json()["code"], "INVALID_TOKEN");
        }
    }
    let in_query = holder.get(&format!("/v0/account/token/organization?token={}", expired.reveal())).await;
    assert_eq!((in_query.status.as_u16(), in_query.detail()), (401, json!("Invalid token")));
    for path in ["/folio.v1.TagService/ListTags", "/mcp"] {
        let refused = async |http: &Http| http.json(Method::POST, path, &json!({})).await.json();
        assert_eq!(refused(&holder).await, refused(&stranger).await, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_account_token_is_valid_in_the_organizations_of_its_user() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let user = server.account("ann", true).await;
    server.join(&user, &org, Role::Admin).await;
    let session = Http::new(&server, &server.session(&user, None).await);
    let tokens = "/v0/account/access_tokens";
    let created = session.json(Method::POST, tokens, &json!({ "name": "laptop", "lifetime": 0 })).await.json();
    assert_eq!((&created["organization_id"], &created["lifetime"]), (&Value::Null, &json!(0)));
    let holder = Http::new(&server, &server.holder(created["token"].as_str().unwrap()));
    assert_eq!(holder.get(&format!("/v0/orgs/{org}/tags")).await.status, 200);
    // The token has the right of its user on the installation.
    assert_eq!(holder.get("/v0/account/users").await.json()["total_count"], 1);
    let listed = holder.get(tokens).await.json();
    assert_eq!(listed["access_tokens"][0]["id"], created["id"]);
    assert!(!listed.to_string().contains(created["token"].as_str().unwrap()));
    let one = format!("{tokens}/{}", created["id"].as_str().unwrap());
    assert_eq!(session.json(Method::DELETE, &one, &Value::Null).await.status, 200);
    let again = session.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!((again.status.as_u16(), again.detail()), (404, json!("Token not found")));
    let of_organization = Http::new(&server, &server.user(&org, Role::Admin).await);
    assert_eq!(of_organization.get(tokens).await.status, 403, "a token of an organization is none of an account");
    server.stop().await;
}
