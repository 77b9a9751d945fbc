//! Organizations and their members.

use std::time::Duration;

use folio_proto::v1;
use folio_types::token::Token;
use folio_types::{Code, OrgId, Reason, Role, System};

use crate::harness::{Client, Server, mask, record, refused};

async fn member(admin: &Client, name: &str, role: v1::Role) -> v1::Member {
    let request = v1::AddMemberRequest {
        member: Some(v1::Member { name: name.into(), role: role.into(), ..Default::default() }),
        ..Default::default()
    };
    admin.organizations().add_member(request).await.unwrap().into_inner().member.unwrap()
}

/// A client with a token for a member.
async fn client_of(server: &Server, admin: &Client, member: &v1::Member, role: v1::Role) -> Client {
    let request = v1::CreateTokenRequest {
        token: Some(v1::Token {
            name: "for a member".into(),
            user_id: member.user_id.clone(),
            role: role.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let made = admin.tokens().create_token(request).await.unwrap().into_inner();
    server.holder(&made.secret)
}

async fn new_tag(client: &Client, name: &str) -> Result<(), tonic::Status> {
    let request =
        v1::CreateTagRequest { tag: Some(v1::Tag { name: name.into(), ..Default::default() }), ..Default::default() };
    client.tags().create_tag(request).await.map(drop)
}

async fn may_read(client: &Client) -> bool {
    client.tags().list_tags(v1::ListTagsRequest::default()).await.is_ok()
}

#[tokio::test]
async fn a_platform_admin_creates_an_organization_with_its_own_admin() {
    let server = Server::start().await;
    let platform = server.limited(&OrgId::generate(&System), Role::Admin, &[], true).await;
    let create = v1::CreateOrganizationRequest {
        organization: Some(v1::Organization { name: "Acme".into(), ..Default::default() }),
        admin_name: "ada".into(),
        request_id: "acme".into(),
    };
    let made = platform.organizations().create_organization(create.clone()).await.unwrap().into_inner();
    let admin = server.holder(&made.admin_token);
    let own = admin.organizations().get_organization(v1::GetOrganizationRequest::default()).await.unwrap().into_inner();
    assert_eq!(own.organization, made.organization);
    let again = platform.organizations().create_organization(create).await.unwrap().into_inner();
    assert_eq!((again.organization.clone(), again.admin.clone()), (made.organization.clone(), made.admin.clone()));
    assert!(again.admin_token.is_empty(), "a token is shown once");

    // The new admin is no platform admin, and makes none.
    let error = refused(
        admin.organizations().list_organizations(v1::ListOrganizationsRequest::default()).await,
        "list organizations",
    );
    assert_eq!(error.code, Code::PermissionDenied);
    let wish = v1::CreateTokenRequest {
        token: Some(v1::Token {
            name: "more".into(),
            role: v1::Role::Admin.into(),
            platform: true,
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(refused(admin.tokens().create_token(wish).await, "a platform token").code, Code::PermissionDenied);

    let (mut seen, mut request) = (0, v1::ListOrganizationsRequest { page_size: 1, ..Default::default() });
    loop {
        let page = platform.organizations().list_organizations(request.clone()).await.unwrap().into_inner();
        seen += page.organizations.len();
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, 2);

    let change = |name: &str, etag: &str| v1::UpdateOrganizationRequest {
        organization: Some(v1::Organization { name: name.into(), etag: etag.into(), ..Default::default() }),
        ..Default::default()
    };
    let renamed = admin.organizations().update_organization(change("Acme Ltd", "v1")).await.unwrap().into_inner();
    assert_eq!(
        renamed.organization.as_ref().map(|one| (one.name.as_str(), one.etag.as_str())),
        Some(("Acme Ltd", "v2"))
    );
    let late = refused(admin.organizations().update_organization(change("late", "v7")).await, "an old version");
    assert_eq!(late.reason, Reason::VersionConflict);

    let keep = async |days| {
        let request = v1::UpdateOrganizationRequest {
            organization: Some(v1::Organization { thread_retention_days: days, ..Default::default() }),
            update_mask: Some(mask(&["thread_retention_days"])),
            ..Default::default()
        };
        let kept = admin.organizations().update_organization(request).await?.into_inner().organization.unwrap();
        Ok::<_, tonic::Status>((kept.name, kept.thread_retention_days))
    };
    assert_eq!(keep(30).await.unwrap(), ("Acme Ltd".to_owned(), 30));
    let named = admin.organizations().update_organization(change("Acme", "")).await.unwrap().into_inner();
    assert_eq!(named.organization.map(|one| one.thread_retention_days), Some(30));
    assert_eq!(keep(0).await.unwrap().1, 0);
    assert_eq!(refused(keep(3_651).await, "too long").violations[0].field, "organization.thread_retention_days");
    server.stop().await;
}

#[tokio::test]
async fn a_token_follows_the_role_of_its_member_within_seconds() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", v1::Role::Member).await;
    // The token says admin, its member does not: it is a member's.
    let client = client_of(&server, &admin, &max, v1::Role::Admin).await;
    new_tag(&client, "a").await.unwrap();
    let list = client.tokens().list_tokens(v1::ListTokensRequest::default()).await;
    assert_eq!(refused(list, "an admin's call").reason, Reason::RoleNotAllowed);

    let update = v1::UpdateMemberRequest {
        member: Some(v1::Member { user_id: max.user_id.clone(), role: v1::Role::Viewer.into(), ..Default::default() }),
        ..Default::default()
    };
    admin.organizations().update_member(update).await.unwrap();
    folio_testkit::wait_for("the lower role counts", Duration::from_secs(10), || async {
        let denied = new_tag(&client, "b").await.is_err_and(|status| status.code() == tonic::Code::PermissionDenied);
        denied.then_some(())
    })
    .await;
    assert!(may_read(&client).await);

    let remove = v1::RemoveMemberRequest { user_id: max.user_id.clone(), ..Default::default() };
    admin.organizations().remove_member(remove.clone()).await.unwrap();
    folio_testkit::wait_for("the member is out", Duration::from_secs(10), || async {
        (!may_read(&client).await).then_some(())
    })
    .await;
    admin.organizations().remove_member(remove).await.unwrap();
    let members = admin.organizations().list_members(v1::ListMembersRequest::default()).await.unwrap().into_inner();
    assert_eq!(members.total_size, 0, "who is removed is not listed");
    let token = v1::CreateTokenRequest {
        token: Some(v1::Token {
            name: "late".into(),
            user_id: max.user_id,
            role: v1::Role::Viewer.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_eq!(refused(admin.tokens().create_token(token).await, "a token of who is gone").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn earlier_tokens_of_a_readded_member_stay_revoked() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", v1::Role::Member).await;
    let old = client_of(&server, &admin, &max, v1::Role::Member).await;
    assert!(may_read(&old).await);
    let remove = v1::RemoveMemberRequest { user_id: max.user_id.clone(), ..Default::default() };
    admin.organizations().remove_member(remove).await.unwrap();
    let listed = async || {
        let filter = format!("user:{}", max.user_id);
        let list = v1::ListTokensRequest { filter, ..Default::default() };
        admin.tokens().list_tokens(list).await.unwrap().into_inner().tokens
    };
    assert_eq!(listed().await, [], "its tokens are revoked");
    // One that was made in the very moment of the removal.
    let (token, user) = (Token::generate(&admin.org, &System), max.user_id.parse().unwrap());
    server.store_token(&token, record(&token, &user, Role::Member)).await;
    assert_eq!(listed().await.len(), 1);

    let add = v1::AddMemberRequest {
        member: Some(v1::Member {
            name: "max".into(),
            role: v1::Role::Member.into(),
            user_id: max.user_id.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let back = admin.organizations().add_member(add).await.unwrap().into_inner().member.unwrap();
    assert_eq!((back.user_id.as_str(), listed().await), (max.user_id.as_str(), Vec::new()));
    let new = client_of(&server, &admin, &max, v1::Role::Member).await;
    let late = server.holder(&token.reveal());
    folio_testkit::wait_for("the new token counts, and no other one", Duration::from_secs(10), || async {
        (may_read(&new).await && !may_read(&old).await && !may_read(&late).await).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_member_cannot_be_added_again_with_another_name_or_role() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = member(&admin, "max", v1::Role::Viewer).await;
    let add = async |name: &str, role: v1::Role| {
        let (name, user_id) = (name.into(), max.user_id.clone());
        let request = v1::AddMemberRequest {
            member: Some(v1::Member { name, role: role.into(), user_id, ..Default::default() }),
            ..Default::default()
        };
        admin.organizations().add_member(request).await
    };
    for (name, role) in [("max", v1::Role::Admin), ("moritz", v1::Role::Viewer)] {
        assert_eq!(refused(add(name, role).await, "another one").code, Code::AlreadyExists, "{name} {role:?}");
    }
    let same = add("max", v1::Role::Viewer).await.unwrap().into_inner().member.unwrap();
    assert_eq!(same, max);
    let filter = "subject:OrganizationService.AddMember kind:change_made".into();
    let list = v1::ListAuditEntriesRequest { filter, ..Default::default() };
    let made = admin.audits().list_audit_entries(list).await.unwrap().into_inner().entries;
    assert!(made.len() == 2 && made.iter().all(|entry| entry.arguments_json.contains("viewer")), "{made:?}");
    server.stop().await;
}

#[tokio::test]
async fn the_last_admin_stays_one() {
    let server = Server::start().await;
    let platform = server.limited(&OrgId::generate(&System), Role::Admin, &[], true).await;
    let create = v1::CreateOrganizationRequest {
        organization: Some(v1::Organization { name: "Acme".into(), ..Default::default() }),
        admin_name: "ada".into(),
        ..Default::default()
    };
    let made = platform.organizations().create_organization(create).await.unwrap().into_inner();
    let (ada, admin) = (made.admin.unwrap(), server.holder(&made.admin_token));
    let lower = |user: &str| v1::UpdateMemberRequest {
        member: Some(v1::Member { user_id: user.into(), role: v1::Role::Member.into(), ..Default::default() }),
        ..Default::default()
    };
    let remove = |user: &str| v1::RemoveMemberRequest { user_id: user.into(), ..Default::default() };
    let refusals = [
        refused(admin.organizations().update_member(lower(&ada.user_id)).await, "lower the last admin"),
        refused(admin.organizations().remove_member(remove(&ada.user_id)).await, "remove the last admin"),
    ];
    assert!(refusals.iter().all(|error| error.code == Code::FailedPrecondition), "{refusals:?}");
    let bob = member(&admin, "bob", v1::Role::Admin).await;
    admin.organizations().remove_member(remove(&ada.user_id)).await.unwrap();
    let wish = v1::CreateTokenRequest {
        token: Some(v1::Token {
            name: "for bob".into(),
            user_id: bob.user_id,
            role: v1::Role::Viewer.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let error = refused(platform.tokens().create_token(wish).await, "a token for another organization's member");
    assert_eq!(error.code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn the_last_holder_of_platform_tokens_cannot_be_demoted() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (platform, admin) = (server.platform_admin(&org).await, server.user(&org, Role::Admin).await);
    let user = platform.user.to_string();
    let add = v1::AddMemberRequest {
        member: Some(v1::Member {
            user_id: user.clone(),
            name: "first".into(),
            role: v1::Role::Admin.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    platform.organizations().add_member(add).await.unwrap();
    member(&admin, "another", v1::Role::Admin).await;
    let lower = v1::UpdateMemberRequest {
        member: Some(v1::Member { user_id: user.clone(), role: v1::Role::Member.into(), ..Default::default() }),
        ..Default::default()
    };
    let remove = || v1::RemoveMemberRequest { user_id: user.clone(), ..Default::default() };
    for error in [
        refused(admin.organizations().update_member(lower).await, "lower who holds them"),
        refused(admin.organizations().remove_member(remove()).await, "remove who holds them"),
    ] {
        assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::InUse));
    }
    platform.organizations().get_organization(v1::GetOrganizationRequest::default()).await.unwrap();
    let _second = server.platform_admin(&org).await;
    admin.organizations().remove_member(remove()).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn members_see_the_resources_of_their_organization() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let ina = member(&admin, "ina", v1::Role::Member).await;
    let max = member(&admin, "max", v1::Role::Member).await;
    let ina = client_of(&server, &admin, &ina, v1::Role::Member).await;
    let max = client_of(&server, &admin, &max, v1::Role::Viewer).await;
    let document = ina.upload("a.txt", "ours", "").await.unwrap();
    let (tag, schema) = (ina.tag("ours").await, ina.schema("ours", "total").await);
    let prompt = ina.prompt("ours", &schema.schema_id).await;
    let found = max.documents().list_documents(v1::ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(found.documents[0].document_id, document.document_id);
    let found = max.tags().list_tags(v1::ListTagsRequest::default()).await.unwrap().into_inner();
    assert_eq!(found.tags, [tag]);
    let found = max.schemas().list_schemas(v1::ListSchemasRequest::default()).await.unwrap().into_inner();
    assert_eq!(found.schemas[0].schema_id, schema.schema_id);
    let found = max.prompts().list_prompts(v1::ListPromptsRequest::default()).await.unwrap().into_inner();
    assert_eq!(found.prompts[0].prompt_id, prompt.prompt_id);
    let filter = v1::ListMembersRequest { filter: "name:MA".into(), ..Default::default() };
    let members = max.organizations().list_members(filter).await.unwrap().into_inner();
    assert_eq!((members.total_size, members.members[0].name.as_str()), (1, "max"));
    server.stop().await;
}

#[tokio::test]
async fn concurrent_demotions_leave_one_admin() {
    let server = Server::start().await;
    for round in 0..10 {
        let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
        let one = member(&admin, "one", v1::Role::Admin).await;
        let two = member(&admin, "two", v1::Role::Admin).await;
        let lower = async |member: &v1::Member| {
            let (user_id, role) = (member.user_id.clone(), v1::Role::Viewer.into());
            let request = v1::UpdateMemberRequest {
                member: Some(v1::Member { user_id, role, ..Default::default() }),
                ..Default::default()
            };
            admin.organizations().update_member(request).await
        };
        let remove = async |member: &v1::Member| {
            let request = v1::RemoveMemberRequest { user_id: member.user_id.clone(), ..Default::default() };
            admin.organizations().remove_member(request).await
        };
        let (lowered, removed) = tokio::join!(lower(&one), remove(&two));
        assert_ne!(lowered.is_ok(), removed.is_ok(), "round {round}");
        let error = if lowered.is_ok() { refused(removed, "the last") } else { refused(lowered, "the last") };
        assert_eq!(error.reason, Reason::InUse, "round {round}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_rename_does_not_restore_a_member_that_is_removed_concurrently() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    for round in 0..10 {
        let max = member(&admin, "max", v1::Role::Member).await;
        let (user_id, name) = (max.user_id.clone(), "moritz".into());
        let (mut renames, mut removes) = (admin.organizations(), admin.organizations());
        let rename = renames.update_member(v1::UpdateMemberRequest {
            member: Some(v1::Member { user_id, name, ..Default::default() }),
            ..Default::default()
        });
        let remove =
            removes.remove_member(v1::RemoveMemberRequest { user_id: max.user_id.clone(), ..Default::default() });
        let (renamed, removed) = tokio::join!(rename, remove);
        removed.unwrap();
        if renamed.is_err() {
            assert_eq!(refused(renamed, "after the removal").code, Code::NotFound, "round {round}");
        }
        let left = admin.organizations().list_members(v1::ListMembersRequest::default()).await.unwrap().into_inner();
        assert_eq!(left.members, [], "round {round}");
    }
    server.stop().await;
}
