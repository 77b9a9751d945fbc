//! Organizations and their members.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::token::Token;
use folio_types::{Code, OrgId, Reason, Role, System};
use serde_json::{Value, json};

use crate::harness::{Client, Server, record};

const SOON: Duration = Duration::from_secs(30);

async fn member(admin: &Client, name: &str, role: &str) -> Value {
    admin.call_ok("AddMember", json!({"member": {"name": name, "role": role}})).await["member"].take()
}

async fn client_of(server: &Server, admin: &Client, member: &Value, role: &str) -> Client {
    let token = json!({"name": "for a member", "user_id": member["user_id"], "role": role});
    server.holder(admin.call_ok("CreateToken", json!({ "token": token })).await["secret"].as_str().unwrap())
}

async fn may_read(client: &Client) -> bool {
    client.call("ListTags", json!({})).await.is_ok()
}

#[tokio::test]
async fn earlier_tokens_of_a_readded_member_stay_revoked() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", "ROLE_MEMBER").await;
    let id = max["user_id"].as_str().unwrap();
    let old = client_of(&server, &admin, &max, "ROLE_MEMBER").await;
    assert!(may_read(&old).await);
    admin.call_ok("RemoveMember", json!({"user_id": id})).await;
    let listed = async || {
        let mut list = admin.call_ok("ListTokens", json!({"filter": format!("user:{id}")})).await;
        list["total_size"].take()
    };
    assert_eq!(listed().await, Value::Null, "its tokens are revoked");
    // A token that was created concurrently with the removal.
    let (token, user) = (Token::generate(&admin.org, &System), id.parse().unwrap());
    server.store_token(&token, record(&token, &user, Role::Member)).await;
    assert_eq!(listed().await, 1);

    let add = json!({"member": {"name": "max", "role": "ROLE_MEMBER", "user_id": id}});
    let back = admin.call_ok("AddMember", add).await;
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
        assert_eq!(admin.call_ok("ListMembers", json!({})).await["members"], Value::Null, "round {round}");
    }
    server.stop().await;
}
