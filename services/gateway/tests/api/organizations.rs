//! Organizations and their members.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::token::Token;
use folio_types::{Code, Error, OrgId, Reason, Role, System};
use serde_json::{Value, json};

use crate::harness::{Client, Server, record};

const SOON: Duration = Duration::from_secs(10);

/// Adds a member and returns it.
async fn member(admin: &Client, name: &str, role: &str) -> Value {
    admin.done("AddMember", json!({"member": {"name": name, "role": role}})).await["member"].take()
}

/// A client with a token for a member.
async fn client_of(server: &Server, admin: &Client, member: &Value, role: &str) -> Client {
    let token = json!({"name": "for a member", "user_id": member["user_id"], "role": role});
    server.holder(admin.done("CreateToken", json!({ "token": token })).await["secret"].as_str().unwrap())
}

async fn new_tag(client: &Client, name: &str) -> Result<Value, Error> {
    client.call("CreateTag", json!({"tag": {"name": name}})).await
}

async fn may_read(client: &Client) -> bool {
    client.call("ListTags", json!({})).await.is_ok()
}

#[tokio::test]
async fn a_platform_admin_creates_an_organization_with_its_own_admin() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let create = json!({"organization": {"name": "Acme"}, "admin_name": "ada", "request_id": "acme"});
    let made = platform.done("CreateOrganization", create.clone()).await;
    let admin = server.holder(made["admin_token"].as_str().unwrap());
    let own = admin.done("GetOrganization", json!({})).await;
    assert_eq!(own["organization"], made["organization"]);
    let again = platform.done("CreateOrganization", create).await;
    assert_eq!((&again["organization"], &again["admin"]), (&made["organization"], &made["admin"]));
    assert_eq!(again["admin_token"], Value::Null, "a token is shown once");

    // The new admin is no platform admin, and makes none.
    assert_eq!(admin.refusal("ListOrganizations", json!({})).await.code, Code::PermissionDenied);
    let wish = json!({"token": {"name": "more", "role": "ROLE_ADMIN", "platform": true}});
    assert_eq!(admin.refusal("CreateToken", wish).await.code, Code::PermissionDenied);

    let (mut seen, mut token) = (0, json!(""));
    while !token.is_null() {
        let mut page = platform.done("ListOrganizations", json!({"page_size": 1, "page_token": token})).await;
        seen += page["organizations"].as_array().unwrap().len();
        token = page["next_page_token"].take();
    }
    assert_eq!(seen, 2);

    let change = |name: &str, etag: &str| json!({"organization": {"name": name, "etag": etag}});
    let renamed = admin.done("UpdateOrganization", change("Acme Ltd", "v1")).await["organization"].take();
    assert_eq!([&renamed["name"], &renamed["etag"]], ["Acme Ltd", "v2"]);
    let late = admin.refusal("UpdateOrganization", change("late", "v7")).await;
    assert_eq!(late.reason, Reason::VersionConflict, "an old version");

    let keep =
        |days: u32| json!({"organization": {"thread_retention_days": days}, "update_mask": "threadRetentionDays"});
    let kept = admin.done("UpdateOrganization", keep(30)).await["organization"].take();
    assert_eq!((&kept["name"], &kept["thread_retention_days"]), (&json!("Acme Ltd"), &json!(30)));
    let named = admin.done("UpdateOrganization", change("Acme", "")).await;
    assert_eq!(named["organization"]["thread_retention_days"], 30);
    let kept = admin.done("UpdateOrganization", keep(0)).await;
    assert_eq!(kept["organization"]["thread_retention_days"], Value::Null);
    let error = admin.refusal("UpdateOrganization", keep(3_651)).await;
    assert_eq!(error.violations[0].field, "organization.thread_retention_days");
    server.stop().await;
}

#[tokio::test]
async fn a_token_follows_the_role_of_its_member_within_seconds() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", "ROLE_MEMBER").await;
    // The token says admin, its member does not: it is a member's.
    let client = client_of(&server, &admin, &max, "ROLE_ADMIN").await;
    new_tag(&client, "a").await.unwrap();
    assert_eq!(client.refusal("ListTokens", json!({})).await.reason, Reason::RoleNotAllowed);

    let id = &max["user_id"];
    admin.done("UpdateMember", json!({"member": {"user_id": id, "role": "ROLE_VIEWER"}})).await;
    wait_for("the lower role counts", SOON, || async {
        new_tag(&client, "b").await.is_err_and(|error| error.code == Code::PermissionDenied).then_some(())
    })
    .await;
    assert!(may_read(&client).await);

    admin.done("RemoveMember", json!({"user_id": id})).await;
    wait_for("the member is out", SOON, || async { (!may_read(&client).await).then_some(()) }).await;
    admin.done("RemoveMember", json!({"user_id": id})).await;
    let members = admin.done("ListMembers", json!({})).await;
    assert_eq!(members["total_size"], Value::Null, "a removed member is not listed");
    let token = json!({"token": {"name": "late", "user_id": id, "role": "ROLE_VIEWER"}});
    assert_eq!(admin.refusal("CreateToken", token).await.code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn earlier_tokens_of_a_readded_member_stay_revoked() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", "ROLE_MEMBER").await;
    let id = max["user_id"].as_str().unwrap();
    let old = client_of(&server, &admin, &max, "ROLE_MEMBER").await;
    assert!(may_read(&old).await);
    admin.done("RemoveMember", json!({"user_id": id})).await;
    let listed = async || {
        let mut list = admin.done("ListTokens", json!({"filter": format!("user:{id}")})).await;
        list["total_size"].take()
    };
    assert_eq!(listed().await, Value::Null, "its tokens are revoked");
    // One that was made in the very moment of the removal.
    let (token, user) = (Token::generate(&admin.org, &System), id.parse().unwrap());
    server.store_token(&token, record(&token, &user, Role::Member)).await;
    assert_eq!(listed().await, 1);

    let add = json!({"member": {"name": "max", "role": "ROLE_MEMBER", "user_id": id}});
    let back = admin.done("AddMember", add).await;
    assert_eq!((&back["member"]["user_id"], listed().await), (&max["user_id"], Value::Null));
    let new = client_of(&server, &admin, &max, "ROLE_MEMBER").await;
    let late = server.holder(&token.reveal());
    wait_for("the new token counts, and no other one", SOON, || async {
        (may_read(&new).await && !may_read(&old).await && !may_read(&late).await).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_member_cannot_be_added_again_with_another_name_or_role() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", "ROLE_VIEWER").await;
    let add = |name: &str, role: &str| json!({"member": {"name": name, "role": role, "user_id": max["user_id"]}});
    for (name, role) in [("max", "ROLE_ADMIN"), ("moritz", "ROLE_VIEWER")] {
        assert_eq!(admin.refusal("AddMember", add(name, role)).await.code, Code::AlreadyExists, "{name} {role:?}");
    }
    assert_eq!(admin.done("AddMember", add("max", "ROLE_VIEWER")).await["member"], max);
    let filter = "subject:OrganizationService.AddMember kind:change_applied";
    let log = admin.done("ListAuditEntries", json!({ "filter": filter })).await;
    let made = log["entries"].as_array().unwrap();
    let names_viewer = |entry: &Value| entry["arguments_json"].as_str().unwrap().contains("viewer");
    assert!(made.len() == 2 && made.iter().all(names_viewer), "{made:?}");
    server.stop().await;
}

#[tokio::test]
async fn the_last_admin_can_be_neither_demoted_nor_removed() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let made =
        platform.done("CreateOrganization", json!({"organization": {"name": "Acme"}, "admin_name": "ada"})).await;
    let (ada, admin) = (&made["admin"]["user_id"], server.holder(made["admin_token"].as_str().unwrap()));
    let lower = json!({"member": {"user_id": ada, "role": "ROLE_MEMBER"}});
    assert_eq!(admin.refusal("UpdateMember", lower).await.code, Code::FailedPrecondition);
    assert_eq!(admin.refusal("RemoveMember", json!({"user_id": ada})).await.code, Code::FailedPrecondition);
    let bob = member(&admin, "bob", "ROLE_ADMIN").await;
    admin.done("RemoveMember", json!({"user_id": ada})).await;
    let wish = json!({"token": {"name": "for bob", "user_id": bob["user_id"], "role": "ROLE_VIEWER"}});
    let error = platform.refusal("CreateToken", wish).await;
    assert_eq!(error.code, Code::NotFound, "a token for another organization's member");
    server.stop().await;
}

#[tokio::test]
async fn the_last_holder_of_platform_tokens_cannot_be_demoted() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (platform, admin) = (server.platform_admin(&org).await, server.user(&org, Role::Admin).await);
    let user = platform.user.to_string();
    platform.done("AddMember", json!({"member": {"user_id": user, "name": "first", "role": "ROLE_ADMIN"}})).await;
    member(&admin, "another", "ROLE_ADMIN").await;
    for error in [
        admin.refusal("UpdateMember", json!({"member": {"user_id": user, "role": "ROLE_MEMBER"}})).await,
        admin.refusal("RemoveMember", json!({"user_id": user})).await,
    ] {
        assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::InUse));
    }
    platform.done("GetOrganization", json!({})).await;
    let _second = server.platform_admin(&org).await;
    admin.done("RemoveMember", json!({"user_id": user})).await;
    server.stop().await;
}

#[tokio::test]
async fn members_see_the_resources_of_their_organization() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let (ina, max) = (member(&admin, "ina", "ROLE_MEMBER").await, member(&admin, "max", "ROLE_MEMBER").await);
    let ina = client_of(&server, &admin, &ina, "ROLE_MEMBER").await;
    let max = client_of(&server, &admin, &max, "ROLE_VIEWER").await;
    let document = ina.upload("a.txt", "ours", "").await.unwrap().document_id;
    let (tag, schema) = (ina.tag("ours").await.tag_id, ina.schema("ours", "total").await.schema_id);
    let prompt = ina.prompt("ours", &schema).await.prompt_id;
    for (operation, items, field, id) in [
        ("ListDocuments", "documents", "document_id", document),
        ("ListTags", "tags", "tag_id", tag),
        ("ListSchemas", "schemas", "schema_id", schema),
        ("ListPrompts", "prompts", "prompt_id", prompt),
    ] {
        assert_eq!(max.done(operation, json!({})).await[items][0][field], id);
    }
    let members = max.done("ListMembers", json!({"filter": "name:MA"})).await;
    assert_eq!((&members["total_size"], &members["members"][0]["name"]), (&json!(1), &json!("max")));
    server.stop().await;
}

#[tokio::test]
async fn concurrent_demotions_leave_one_admin() {
    let server = Server::start().await;
    for round in 0..10 {
        let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
        let (one, two) = (member(&admin, "one", "ROLE_ADMIN").await, member(&admin, "two", "ROLE_ADMIN").await);
        let lower = json!({"member": {"user_id": one["user_id"], "role": "ROLE_VIEWER"}});
        let remove = json!({"user_id": two["user_id"]});
        let (lowered, removed) = tokio::join!(admin.call("UpdateMember", lower), admin.call("RemoveMember", remove));
        assert_ne!(lowered.is_ok(), removed.is_ok(), "round {round}");
        let error = lowered.and(removed).unwrap_err();
        assert_eq!(error.reason, Reason::InUse, "round {round}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_rename_does_not_restore_a_member_that_is_removed_concurrently() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    for round in 0..10 {
        let id = member(&admin, "max", "ROLE_MEMBER").await["user_id"].take();
        let rename = json!({"member": {"user_id": id, "name": "moritz"}});
        let remove = json!({ "user_id": id });
        let (renamed, removed) = tokio::join!(admin.call("UpdateMember", rename), admin.call("RemoveMember", remove));
        removed.unwrap();
        if let Err(error) = renamed {
            assert_eq!(error.code, Code::NotFound, "round {round}");
        }
        assert_eq!(admin.done("ListMembers", json!({})).await["members"], Value::Null, "round {round}");
    }
    server.stop().await;
}
