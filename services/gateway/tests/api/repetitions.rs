//! Repeated administrative requests: one effect, one answer, one pair of audit entries.

use folio_proto::v1::*;
use folio_types::{OrgId, Reason, Role as RoleOf, System, TokenId};

use crate::harness::{Client, MODEL, Server, mask, refused};

async fn audit_entries(client: &Client) -> usize {
    let request = ListAuditEntriesRequest { page_size: 500, ..Default::default() };
    client.audits().list_audit_entries(request).await.unwrap().into_inner().entries.len()
}

/// Sends each request, then repeats it, then sends other content under the same id.
macro_rules! repeat {
    ($client:expr; $($service:ident.$call:ident($request:expr, $other:expr);)+) => {
        $({
            let (client, call) = (&$client, stringify!($call));
            let (mut request, mut other) = ($request, $other);
            (request.request_id, other.request_id) = (call.to_owned(), call.to_owned());
            let first = client.$service().$call(request.clone()).await.unwrap().into_inner();
            let entries = audit_entries(client).await;
            let again = client.$service().$call(request).await.unwrap().into_inner();
            assert_eq!(first, again, "{call}: the same answer");
            let error = refused(client.$service().$call(other).await, call);
            assert_eq!(error.reason, Reason::RequestIdConflict, "{call}: {error}");
            assert_eq!(audit_entries(client).await, entries, "{call}: a repetition is not recorded");
        })+
    };
}

fn model(name: &str) -> ProviderModel {
    ProviderModel { name: name.into(), enabled: true, chat: true, prompts: true, ..Default::default() }
}

fn provider(url: &str) -> UpdateProviderRequest {
    let models = vec![model("own")];
    let (name, base_url, api_key) = ("mine".into(), url.into(), "sk-own".into());
    let provider = Provider { name, base_url, models, api_key, ..Default::default() };
    UpdateProviderRequest { provider: Some(provider), ..Default::default() }
}

fn policy(seconds: u32) -> SetPolicyRequest {
    let policy = Policy { approval_ttl_seconds: seconds, ..Default::default() };
    SetPolicyRequest { policy: Some(policy), ..Default::default() }
}

fn limits(org: &OrgId, calls: u32) -> SetLimitsRequest {
    let own = OrganizationLimits { concurrent_model_calls: Some(calls), ..Default::default() };
    SetLimitsRequest { organization_id: org.to_string(), own: Some(own), ..Default::default() }
}

fn organization(name: &str) -> UpdateOrganizationRequest {
    let organization = Organization { name: name.into(), ..Default::default() };
    UpdateOrganizationRequest { organization: Some(organization), ..Default::default() }
}

fn renamed(user_id: &str, name: &str) -> UpdateMemberRequest {
    let member = Member { user_id: user_id.into(), name: name.into(), ..Default::default() };
    UpdateMemberRequest { member: Some(member), update_mask: Some(mask(&["name"])), ..Default::default() }
}

fn member(name: &str) -> AddMemberRequest {
    let member = Member { name: name.into(), role: Role::Member.into(), ..Default::default() };
    AddMemberRequest { member: Some(member), ..Default::default() }
}

#[tokio::test]
async fn a_repeated_change_has_one_effect_one_answer_and_one_record() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let ann = admin.organizations().add_member(member("ann")).await.unwrap().into_inner().member.unwrap().user_id;
    let bob = admin.organizations().add_member(member("bob")).await.unwrap().into_inner().member.unwrap().user_id;
    let token = server.user(&org, RoleOf::Viewer).await;
    let listed = admin.tokens().list_tokens(ListTokensRequest::default()).await.unwrap().into_inner().tokens;
    let token = listed.into_iter().find(|listed| listed.user_id == token.user.as_str()).unwrap().token_id;
    let defaults = |name: &str| SetModelDefaultsRequest { default_model: Some(name.into()), ..Default::default() };
    let removed = |user: &str| RemoveMemberRequest { user_id: user.into(), ..Default::default() };
    let revoked = |id: &str| RevokeTokenRequest { token_id: id.into(), ..Default::default() };
    let dropped = |name: &str| DeleteProviderRequest { name: name.into(), ..Default::default() };
    let grant = |credits| GrantCreditRequest { credits, ..Default::default() };
    let withdrawal = |credits| WithdrawCreditRequest { credits, ..Default::default() };
    repeat! { admin;
        organizations.update_organization(organization("renamed"), organization("another"));
        organizations.add_member(member("cid"), member("dan"));
        organizations.update_member(renamed(&ann, "anna"), renamed(&bob, "anna"));
        organizations.remove_member(removed(&ann), removed(&bob));
        tokens.revoke_token(revoked(&token), revoked(TokenId::derive(&["unknown"]).as_str()));
        policies.set_policy(policy(60), policy(61));
        limits.set_limits(limits(&org, 7), limits(&org, 8));
        providers.update_provider(provider("https://one.example/v1"), provider("https://two.example/v1"));
        providers.set_model_defaults(defaults("own"), defaults("hub-model"));
        credits.grant_credit(grant(5), grant(6));
        credits.withdraw_credit(withdrawal(2), withdrawal(3));
    }
    admin.providers().set_model_defaults(defaults("")).await.unwrap();
    repeat! { admin; providers.delete_provider(dropped("mine"), dropped("openai")); }
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_request_undoes_no_later_change() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), RoleOf::Admin).await;
    let first = UpdateOrganizationRequest { request_id: "first".into(), ..organization("one") };
    let answer = admin.organizations().update_organization(first.clone()).await.unwrap().into_inner();
    admin.organizations().update_organization(organization("two")).await.unwrap();
    let again = admin.organizations().update_organization(first).await.unwrap().into_inner();
    assert_eq!(again, answer, "the answer of the first request");
    let own = admin.organizations().get_organization(GetOrganizationRequest::default()).await.unwrap().into_inner();
    assert_eq!(own.organization.unwrap().name, "two");
    server.stop().await;
}

#[tokio::test]
async fn a_secret_is_in_the_first_answer_only() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let wish = |name: &str| CreateTokenRequest {
        token: Some(Token { name: name.into(), role: Role::Viewer.into(), ..Default::default() }),
        request_id: "token".into(),
        ..Default::default()
    };
    let made = platform.tokens().create_token(wish("job")).await.unwrap().into_inner();
    let entries = audit_entries(&platform).await;
    let again = platform.tokens().create_token(wish("job")).await.unwrap().into_inner();
    assert!(!made.secret.is_empty());
    assert_eq!(again, CreateTokenResponse { secret: String::new(), ..made });
    let error = refused(platform.tokens().create_token(wish("other")).await, "other content");
    assert_eq!(error.reason, Reason::RequestIdConflict);
    let create = |name: &str| CreateOrganizationRequest {
        organization: Some(Organization { name: name.into(), ..Default::default() }),
        admin_name: "ada".into(),
        request_id: "organization".into(),
    };
    assert_eq!(audit_entries(&platform).await, entries);
    let made = platform.organizations().create_organization(create("Acme")).await.unwrap().into_inner();
    let entries = audit_entries(&platform).await;
    let again = platform.organizations().create_organization(create("Acme")).await.unwrap().into_inner();
    assert!(!made.admin_token.is_empty());
    assert_eq!(again, CreateOrganizationResponse { admin_token: String::new(), ..made.clone() });
    let error = refused(platform.organizations().create_organization(create("Other")).await, "other content");
    assert_eq!(error.reason, Reason::RequestIdConflict);

    let organization_id = made.organization.unwrap().organization_id;
    let delete = |name: &str| DeleteOrganizationRequest {
        organization_id: organization_id.clone(),
        name: name.into(),
        request_id: "delete".into(),
    };
    platform.organizations().delete_organization(delete("Acme")).await.unwrap();
    platform.organizations().delete_organization(delete("Acme")).await.unwrap();
    let error = refused(platform.organizations().delete_organization(delete("Other")).await, "other content");
    assert_eq!(error.reason, Reason::RequestIdConflict);
    assert_eq!(audit_entries(&platform).await, entries + 2, "one pair for the deletion");
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_test_calls_no_model() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), RoleOf::Admin).await;
    server.model.answer("ready");
    let test =
        |model: &str| TestProviderRequest { name: "test".into(), model: model.into(), request_id: "test".into() };
    let first = admin.providers().test_provider(test(MODEL)).await.unwrap().into_inner();
    let again = admin.providers().test_provider(test(MODEL)).await.unwrap().into_inner();
    assert_eq!((&again, server.model.asked()), (&first, 1));
    let error = refused(admin.providers().test_provider(test("")).await, "other content");
    assert_eq!((error.reason, server.model.asked()), (Reason::RequestIdConflict, 1));
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_discovery_calls_no_endpoint() {
    let server = Server::start().await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let (endpoint, url) = crate::harness::model_list().await;
    let owner = ProviderOwner::Platform.into();
    let set = UpdateProviderRequest { owner, ..provider(&url) };
    platform.providers().update_provider(set).await.unwrap();
    let discover = |name: &str| DiscoverModelsRequest { name: name.into(), owner, request_id: "discover".into() };
    let first = platform.providers().discover_models(discover("mine")).await.unwrap().into_inner();
    assert_eq!(first.provider.as_ref().unwrap().available_models, ["listed"]);
    endpoint.abort();
    let again = platform.providers().discover_models(discover("mine")).await.unwrap().into_inner();
    assert_eq!(again, first);
    let error = refused(platform.providers().discover_models(discover("openai")).await, "other content");
    assert_eq!(error.reason, Reason::RequestIdConflict);
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_request_ids_of_administrators_never_collide() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), RoleOf::Admin).await;
    let them = server.user(&OrgId::generate(&System), RoleOf::Admin).await;
    let rename = |name: &str| UpdateOrganizationRequest { request_id: "same".into(), ..organization(name) };
    let ours = us.organizations().update_organization(rename("ours")).await.unwrap().into_inner();
    let renamed_by_other = them.organizations().update_organization(rename("theirs")).await.unwrap().into_inner();
    let names = [ours, renamed_by_other].map(|answer| answer.organization.unwrap().name);
    assert_eq!(names, ["ours", "theirs"]);
    // Another operation under the id is another request.
    let policy = SetPolicyRequest { request_id: "same".into(), ..policy(60) };
    assert_eq!(refused(us.policies().set_policy(policy).await, "another operation").reason, Reason::RequestIdConflict);
    server.stop().await;
}
