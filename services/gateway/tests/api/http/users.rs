//! The REST routes of users that sign in with a password.

use folio_types::{OrgId, Role, System, UserId};
use http::Method;
use serde_json::{Value, json};

use super::{Answer, Http};
use crate::harness::Server;

const ROUTE: &str = "/v0/account/users";
const PASSWORD: &str = "a SECRET password";

async fn session_of(server: &Server, email: &str, password: &str) -> Option<Http> {
    let signed_in = server.stranger(None).call("SignIn", json!({"email": email, "password": password})).await.ok()?;
    Some(Http::new(server, &server.holder(signed_in["session_token"].as_str().unwrap())))
}

fn refusal(answer: &Answer) -> (u16, Value) {
    (answer.status.as_u16(), answer.detail())
}

#[tokio::test]
async fn an_administrator_creates_changes_and_deletes_a_user() {
    let server = Server::start().await;
    let root = server.account("root", true).await;
    let http = Http::new(&server, &server.session(&root, None).await);
    let new = json!({ "email": "ann@example.com", "name": "Ann", "password": PASSWORD });
    let created = http.json(Method::POST, ROUTE, &new).await;
    let user = created.json();
    assert_eq!((created.status.as_u16(), user["email"].as_str()), (200, Some("ann@example.com")), "{user}");
    assert_eq!((&user["role"], &user["has_password"]), (&json!("user"), &json!(true)));
    assert!(!created.text.contains("argon2") && !created.text.contains(PASSWORD));
    let taken = http.json(Method::POST, ROUTE, &new).await;
    assert_eq!(refusal(&taken), (400, json!("Email already registered")));
    let short =
        http.json(Method::POST, ROUTE, &json!({ "email": "b@example.com", "name": "B", "password": "12SECRET" })).await;
    assert_eq!((short.status.as_u16(), &short.detail()[0]["loc"]), (422, &json!(["body", "password"])));
    assert!(!short.text.contains("12SECRET"), "a password is not repeated");

    // The user is the admin of an organization with the name of its address.
    let ann = session_of(&server, "ann@example.com", PASSWORD).await.unwrap();
    let own = ann.get("/v0/account/organizations").await.json();
    assert_eq!(own["organizations"][0]["name"], "ann@example.com");
    let id = user["id"].as_str().unwrap();
    assert_eq!(own["organizations"][0]["members"], json!([{ "user_id": id, "role": "admin" }]));

    let one = format!("{ROUTE}/{id}");
    let changed = http.json(Method::PUT, &one, &json!({ "name": "Ann B", "role": "admin" })).await.json();
    assert_eq!((&changed["name"], &changed["role"]), (&json!("Ann B"), &json!("admin")));
    let reset = http.json(Method::PUT, &one, &json!({ "password": "another SECRET password" })).await;
    assert_eq!(reset.status, 200, "{reset:?}");
    assert!(session_of(&server, "ann@example.com", PASSWORD).await.is_none());
    assert!(session_of(&server, "ann@example.com", "another SECRET password").await.is_some());
    assert_eq!(refusal(&http.json(Method::PUT, &one, &json!({})).await), (400, json!("No valid update data provided")));

    // The only admin of an organization is kept.
    assert_eq!(http.json(Method::DELETE, &one, &Value::Null).await.status, 400);
    let org = own["organizations"][0]["id"].as_str().unwrap();
    assert_eq!(http.json(Method::DELETE, &format!("/v0/account/organizations/{org}"), &Value::Null).await.status, 200);
    let deleted = http.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "User and related data deleted successfully" }));
    let deleted_one = http.get(&format!("{ROUTE}?user_id={id}")).await;
    assert_eq!(refusal(&deleted_one), (404, json!("User not found")));
    let own = format!("{ROUTE}/{}", root.id);
    let last = http.json(Method::PUT, &own, &json!({ "role": "user" })).await;
    assert_eq!(refusal(&last), (400, json!("Cannot remove admin role from the last admin user")));
    server.stop().await;
}

#[tokio::test]
async fn a_user_changes_its_own_name_and_password_and_nothing_else() {
    let server = Server::start().await;
    let root = server.account("root", true).await;
    let http = Http::new(&server, &server.session(&root, None).await);
    let create = async |email: &str| {
        let new = json!({ "email": email, "name": email, "password": PASSWORD });
        http.json(Method::POST, ROUTE, &new).await.json()["id"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (create("ann@example.com").await, create("bob@example.com").await);
    let session = session_of(&server, "ann@example.com", PASSWORD).await.unwrap();
    let (own, other) = (format!("{ROUTE}/{ann}"), format!("{ROUTE}/{bob}"));
    assert_eq!(session.json(Method::PUT, &own, &json!({ "name": "Ann" })).await.json()["name"], "Ann");
    assert_eq!(session.json(Method::PUT, &own, &json!({ "has_seen_tour": true })).await.status, 200);
    for (path, change) in [
        (&own, json!({ "role": "admin" })),
        (&other, json!({ "name": "mine" })),
        (&other, json!({ "password": "another SECRET password" })),
    ] {
        let refused = session.json(Method::PUT, path, &change).await;
        assert_eq!(refusal(&refused), (403, json!("Admin access required")), "{change}");
    }
    assert_eq!(
        session.json(Method::DELETE, &other, &Value::Null).await.status,
        404,
        "a user that the caller may not see is like a missing one"
    );
    let new = "another SECRET password";
    let without = session.json(Method::PUT, &own, &json!({ "password": new })).await;
    assert_eq!(without.status, 400, "the current password is required");
    let wrong = json!({ "password": new, "current_password": "a WRONG password" });
    assert!(session.json(Method::PUT, &own, &wrong).await.status.is_client_error());
    let right = json!({ "password": new, "current_password": PASSWORD });
    assert_eq!(session.json(Method::PUT, &own, &right).await.status, 200);
    assert!(session_of(&server, "ann@example.com", PASSWORD).await.is_none());
    assert!(session_of(&server, "ann@example.com", new).await.is_some());
    server.stop().await;
}

#[tokio::test]
async fn users_are_listed_to_themselves_their_admins_and_administrators() {
    let server = Server::start().await;
    let [org, elsewhere] = [(); 2].map(|()| OrgId::generate(&System));
    let (root, ann, bob) =
        (server.account("root", true).await, server.account("ann", false).await, server.account("bob", false).await);
    server.join(&ann, &org, Role::Admin).await;
    server.join(&bob, &org, Role::Member).await;
    server.join(&bob, &elsewhere, Role::Member).await;
    // A member that does not sign in.
    let robot = json!({"member": {"name": "robot", "role": "ROLE_MEMBER"}});
    server.user(&org, Role::Admin).await.call_ok("AddMember", robot).await;
    let of = async |user: &folio_resources::User| Http::new(&server, &server.session(user, None).await);
    let (root_http, ann_http, bob_http) = (of(&root).await, of(&ann).await, of(&bob).await);
    let ids = async |http: &Http, query: &str| {
        let answer = http.get(&format!("{ROUTE}?{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let list = answer.json();
        let ids = list["users"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), list["total_count"].as_u64().unwrap())
    };
    assert_eq!(ids(&bob_http, "").await, (vec![bob.id.to_string()], 1), "a member sees itself");
    let (of_admin, total) = ids(&ann_http, "").await;
    assert_eq!((of_admin.len(), total), (3, 3), "ann, bob and the robot");
    assert_eq!(
        ids(&ann_http, &format!("organization_id={org}&search_name=BO&limit=1")).await.1,
        2,
        "bob and the robot"
    );
    assert_eq!(ids(&ann_http, &format!("user_id={}", ann.id)).await.0, [ann.id.to_string()]);
    let (all, total) = ids(&root_http, "").await;
    assert_eq!((all.len(), total), (3, 3), "users that sign in");

    for id in [bob.id.to_string(), UserId::generate(&System).to_string(), "../x".to_owned()] {
        let refused = ann_http.get(&format!("{ROUTE}?user_id={id}")).await;
        assert_eq!(refusal(&refused), (404, json!("User not found")), "{id}");
    }
    let refused = bob_http.get(&format!("{ROUTE}?organization_id={org}")).await;
    assert_eq!(refusal(&refused), (403, json!("You are not an admin of this organization")));
    let refused = ann_http.get(&format!("{ROUTE}?organization_id={elsewhere}")).await;
    assert_eq!(refusal(&refused), (404, json!("Organization not found")));
    let both = ann_http.get(&format!("{ROUTE}?organization_id={org}&user_id={}", ann.id)).await;
    assert_eq!(refusal(&both), (400, json!("Cannot specify both user_id and organization_id")));
    server.stop().await;
}
