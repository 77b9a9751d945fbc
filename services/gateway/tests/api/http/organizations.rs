//! The routes of organizations.

use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;

const ROUTE: &str = "/v0/account/organizations";

fn names(list: &Value) -> Vec<&str> {
    list["organizations"].as_array().unwrap().iter().map(|found| found["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_organization_is_created_renamed_and_deleted_by_an_administrator() {
    let server = Server::start().await;
    let user = server.account("ann", true).await;
    let http = Http::new(&server, &server.session(&user, None).await);
    let created = http.json(Method::POST, ROUTE, &json!({ "name": "Acme", "type": "team" })).await;
    let organization = created.json();
    assert_eq!((created.status.as_u16(), organization["name"].as_str()), (200, Some("Acme")), "{organization}");
    assert_eq!(organization["members"], json!([{ "user_id": user.id.as_str(), "role": "admin" }]));
    assert_eq!(organization["type"], "team");
    let id = organization["id"].as_str().unwrap();
    let org: OrgId = id.parse().unwrap();
    let session = server.session(&user, Some(&org)).await;
    let tokens = session.call_ok("ListTokens", json!({})).await;
    assert_eq!(tokens["tokens"].as_array().map_or(0, Vec::len), 0, "no response contains a first token: {tokens}");
    let one = format!("{ROUTE}/{id}");
    let found = http.get(&format!("{ROUTE}?organization_id={id}")).await.json();
    assert_eq!((&found["total_count"], &found["organizations"][0]), (&json!(1), &organization));

    let renamed = http.json(Method::PUT, &one, &json!({ "name": "Acme 2" })).await;
    assert_eq!(renamed.json()["name"], "Acme 2");
    assert!(renamed.header("etag").starts_with("\"v"), "{renamed:?}");
    let stale =
        http.send(http.request(Method::PUT, &one).header("if-match", "\"v1\"").json(&json!({"name": "x"}))).await;
    assert_eq!(stale.status, 412);
    let malformed = http.json(Method::POST, ROUTE, &json!({ "name": "a", "type": "other" })).await;
    assert_eq!((malformed.status.as_u16(), &malformed.detail()[0]["loc"]), (422, &json!(["body", "type"])));

    assert_eq!(http.json(Method::DELETE, &one, &Value::Null).await.json(), json!({ "status": "success" }));
    let deleted_one = http.get(&format!("{ROUTE}?organization_id={id}")).await;
    assert_eq!((deleted_one.status.as_u16(), deleted_one.detail()), (404, json!("Organization not found")));
    assert_eq!(http.json(Method::DELETE, &one, &Value::Null).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_user_lists_and_searches_its_organizations_and_an_administrator_all() {
    let server = Server::start().await;
    let [first, second, foreign] = [(); 3].map(|()| OrgId::generate(&System));
    let user = server.account("ann", false).await;
    server.join(&user, &first, Role::Admin).await;
    server.join(&user, &second, Role::Viewer).await;
    let bob = server.account("bob", false).await;
    server.join(&bob, &second, Role::Admin).await;
    server.organization(&foreign).await;
    let http = Http::new(&server, &server.session(&user, None).await);
    let renamed = http.json(Method::PUT, &format!("{ROUTE}/{first}"), &json!({ "name": "Acme (Berlin)" })).await;
    assert_eq!(renamed.status, 200);
    let list = async |query: &str| {
        let answer = http.get(&format!("{ROUTE}?{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        answer.json()
    };
    let all = list("").await;
    assert_eq!((all["total_count"].as_u64(), names(&all).len()), (Some(2), 2));
    let roles = |id: &OrgId| {
        let found = all["organizations"].as_array().unwrap().iter().find(|found| found["id"] == id.as_str()).unwrap();
        found["members"].as_array().unwrap().len()
    };
    assert_eq!((roles(&first), roles(&second)), (1, 2));
    assert_eq!(names(&list("name_search=acme%20(").await), ["Acme (Berlin)"]);
    assert_eq!(list("member_search=BOB").await["organizations"][0]["id"], second.as_str());
    let page = list("skip=1&limit=1").await;
    assert_eq!((page["skip"].as_u64(), page["total_count"].as_u64(), names(&page).len()), (Some(1), Some(2), 1));
    assert_eq!(list(&format!("user_id={}", user.id)).await["total_count"], 2);

    let refusal = async |query: &str| {
        let refused = http.get(&format!("{ROUTE}?{query}")).await;
        (refused.status.as_u16(), refused.detail())
    };
    for id in [foreign.as_str(), "nonsense", OrgId::generate(&System).as_str()] {
        let missing = (404, json!("Organization not found"));
        assert_eq!(refusal(&format!("organization_id={id}")).await, missing, "{id}");
    }
    let both = (400, json!("Cannot specify both user_id and organization_id"));
    assert_eq!(refusal("user_id=a&organization_id=b").await, both);
    assert_eq!(refusal(&format!("user_id={}", bob.id)).await.0, 403);
    let long = "x".repeat(201);
    let refused = (400, json!("name_search exceeds maximum length of 200"));
    assert_eq!(refusal(&format!("name_search={long}")).await, refused);
    assert_eq!(refusal("limit=101").await.0, 422);

    let platform = server.account("root", true).await;
    let platform = Http::new(&server, &server.session(&platform, None).await);
    let all = platform.get(&format!("{ROUTE}?limit=100")).await.json();
    let ids: Vec<_> = all["organizations"].as_array().unwrap().iter().map(|found| found["id"].as_str()).collect();
    assert!([&first, &second, &foreign].iter().all(|org| ids.contains(&Some(org.as_str()))), "{ids:?}");
    let found = platform.get(&format!("{ROUTE}?organization_id={foreign}")).await.json();
    assert_eq!(found["organizations"][0]["members"], json!([]), "only members read the members");
    server.stop().await;
}

#[tokio::test]
async fn the_members_of_an_organization_are_replaced_by_its_admin_only() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let [ann, bob, cleo] =
        [server.account("ann", false).await, server.account("bob", false).await, server.account("cleo", false).await];
    server.join(&ann, &org, Role::Admin).await;
    server.join(&bob, &org, Role::Viewer).await;
    let (http, viewer) =
        (Http::new(&server, &server.session(&ann, None).await), Http::new(&server, &server.session(&bob, None).await));
    let one = format!("{ROUTE}/{org}");
    let refused = viewer.json(Method::PUT, &one, &json!({ "name": "mine" })).await;
    let detail = json!("Not authorized to update this organization");
    assert_eq!((refused.status.as_u16(), refused.detail()), (403, detail));
    let outsider = Http::new(&server, &server.session(&cleo, None).await);
    let refused = outsider.json(Method::PUT, &one, &json!({ "name": "mine" })).await;
    let detail = json!("You are not a member of this organization");
    assert_eq!((refused.status.as_u16(), refused.detail()), (403, detail));
    let upgrade = http.json(Method::PUT, &one, &json!({ "type": "enterprise" })).await;
    let detail = json!("Only system administrators can upgrade organizations to Enterprise");
    assert_eq!((upgrade.status.as_u16(), upgrade.detail()), (403, detail));
    let none = http.json(Method::PUT, &one, &json!({ "members": [] })).await;
    assert_eq!((none.status.as_u16(), none.detail()), (400, json!("Organization must have at least one admin")));
    let malformed = http.json(Method::PUT, &one, &json!({ "members": [{ "user_id": "x", "role": "admin" }] })).await;
    assert_eq!(
        (malformed.status.as_u16(), &malformed.detail()[0]["loc"]),
        (422, &json!(["body", "members", 0, "user_id"]))
    );

    let member = |user: &folio_resources::User, role: &str| json!({ "user_id": user.id.as_str(), "role": role });
    let new = json!({ "members": [member(&bob, "admin"), member(&cleo, "user")], "name": "Ours" });
    let changed = http.json(Method::PUT, &one, &new).await;
    let body = changed.json();
    assert_eq!((changed.status.as_u16(), body["name"].as_str()), (200, Some("Ours")), "{body}");
    let mut roles: Vec<_> = body["members"].as_array().unwrap().clone();
    roles.sort_by_key(|member| member["role"].as_str().unwrap().to_owned());
    assert_eq!(roles, [member(&bob, "admin"), member(&cleo, "user")]);
    server.stop().await;
}
