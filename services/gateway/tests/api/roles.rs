//! Roles and scopes: every RPC that reflection describes, by every kind of caller.

use folio_gateway::rpc_path;
use folio_operations::{Access, Declaration, ORGANIZATION, operations};
use folio_proto::status;
use folio_types::access::Scope;
use folio_types::token::Token;
use folio_types::{Code, Error, OrgId, Reason, Role, System};
use prost::Message as _;
use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::Request;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::calls::{Encoded, send};
use crate::harness::{Client, Server};

async fn ask(server: &Server, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let mut answers = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let answer: ServerReflectionResponse = answers.next().await.unwrap().unwrap();
    answer.message_response.unwrap()
}

/// Returns the path of every RPC that the server describes, without a token.
async fn described(server: &Server) -> Vec<String> {
    let MessageResponse::ListServicesResponse(list) = ask(server, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list of services");
    };
    let mut paths = Vec::new();
    for service in list.service.into_iter().filter(|service| service.name.starts_with("folio.")) {
        let question = MessageRequest::FileContainingSymbol(service.name.clone());
        let MessageResponse::FileDescriptorResponse(files) = ask(server, question).await else {
            panic!("{} is not described", service.name);
        };
        for file in files.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(file.as_slice()).unwrap();
            for found in file.service.iter().filter(|found| service.name.ends_with(&format!(".{}", found.name()))) {
                paths.extend(found.method.iter().map(|method| format!("/{}/{}", service.name, method.name())));
            }
        }
    }
    paths
}

async fn call_empty(client: &Client, operation: &Declaration) -> Option<Error> {
    send(client, operation, vec![Vec::new()]).await.err().map(|status| status::to_error(&status))
}

#[tokio::test]
async fn the_details_of_errors_are_described_without_a_token() {
    let server = Server::start().await;
    for name in ["ErrorInfo", "BadRequest", "RetryInfo", "QuotaFailure"] {
        let answer = ask(&server, MessageRequest::FileContainingSymbol(format!("google.rpc.{name}"))).await;
        assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{name}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_call_needs_a_token_and_its_role() {
    let server = Server::start().await;
    let mut paths = described(&server).await;
    paths.sort_unstable();
    let mut declared: Vec<String> = operations().map(rpc_path).collect();
    declared.sort_unstable();
    assert_eq!(paths, declared, "the served RPCs and the declared operations differ");

    let org = OrgId::generate(&System);
    let anonymous = server.stranger(None);
    // A token of another installation, which this one does not store.
    let foreign = server.stranger(Some(&format!("Bearer {}", Token::generate(&org, &System).reveal())));
    let callers = [
        (Role::Viewer, false, server.user(&org, Role::Viewer).await),
        (Role::Member, false, server.user(&org, Role::Member).await),
        (Role::Admin, false, server.user(&org, Role::Admin).await),
        (Role::Viewer, true, server.restricted_user(&org, Role::Viewer, &[], true).await),
        (Role::Admin, true, server.restricted_user(&org, Role::Admin, &[], true).await),
    ];
    let mut signed_in = Vec::new();
    for (role, platform, _) in &callers {
        signed_in.push(server.signed_in(&org, *role, *platform).await);
    }
    for operation in operations() {
        let (name, is_public) = (operation.name, operation.access == Access::Public);
        for (caller, what) in [(&anonymous, "without a token"), (&foreign, "with a foreign token")] {
            let code = call_empty(caller, operation).await.map(|error| error.code);
            assert_eq!(code == Some(Code::Unauthenticated), !is_public, "{name} {what}: {code:?}");
        }
        for ((role, platform, caller), session) in callers.iter().zip(&signed_in) {
            check_role(caller, operation, *role, *platform, false).await;
            if name == "SignOut" {
                let another = server.signed_in(&org, *role, *platform).await;
                check_role(&another, operation, *role, *platform, true).await;
            } else {
                check_role(session, operation, *role, *platform, true).await;
            }
        }
    }
    server.stop().await;
}

/// Checks that an operation is refused if and only if the caller lacks a role, the platform right, or an account.
async fn check_role(caller: &Client, operation: &Declaration, role: Role, platform: bool, is_account: bool) {
    let error = call_empty(caller, operation).await;
    let denial = error.filter(|error| matches!(error.code, Code::PermissionDenied | Code::Unauthenticated));
    let lacks = match operation.access {
        Access::Public => false,
        Access::Account => !is_account,
        Access::Organization | Access::Installation => role < operation.role || (operation.platform && !platform),
    };
    let expected = lacks.then_some(Reason::RoleNotAllowed);
    let (name, reason) = (operation.name, denial.map(|error| error.reason));
    assert_eq!(reason, expected, "{name} by {role:?}, of an account: {is_account}");
}

#[tokio::test]
async fn a_session_reaches_the_organizations_of_its_user_only() {
    let server = Server::start().await;
    let [own, theirs, missing] = [(); 3].map(|()| OrgId::generate(&System));
    server.user(&theirs, Role::Admin).await;
    let sessions = [server.signed_in(&own, Role::Admin, false).await, server.signed_in(&own, Role::Admin, true).await];
    let operations = operations().filter(|operation| operation.access != Access::Public);
    // A sign-out ends the session.
    for operation in operations.filter(|operation| operation.name != "SignOut") {
        let name = operation.name;
        let is_of_account = operation.access == Access::Account;
        for org in [&theirs, &missing, &OrgId::platform()] {
            let session = sessions[1].in_organization(Some(org));
            let error = call_empty(&session, operation).await;
            let expected = (!is_of_account).then_some((Code::PermissionDenied, Reason::NotAMember));
            let denial = error.filter(|error| matches!(error.code, Code::PermissionDenied | Code::Unauthenticated));
            assert_eq!(denial.map(|error| (error.code, error.reason)), expected, "{name} in {org}");
        }
        for (platform, session) in [false, true].into_iter().zip(&sessions) {
            let session = session.in_organization(None);
            let error = call_empty(&session, operation).await;
            let is_missing = |error: &Error| error.violations.first().is_some_and(|first| first.field == ORGANIZATION);
            let requires_one = operation.access == Access::Organization;
            assert_eq!(error.as_ref().is_some_and(is_missing), requires_one, "{name}: {error:?}");
            let is_denied = error.is_some_and(|error| error.reason == Reason::RoleNotAllowed);
            assert_eq!(is_denied, !requires_one && operation.platform && !platform, "{name}, platform: {platform}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_platform_administrator_sees_other_organizations_only_with_the_admin_role() {
    let server = Server::start().await;
    let other = OrgId::generate(&System);
    server.organization(&other).await;
    let org = OrgId::generate(&System);
    for (role, sees) in [(Role::Viewer, false), (Role::Member, false), (Role::Admin, true)] {
        let caller = server.restricted_user(&org, role, &[], true).await;
        for operation in ["GetOrganization", "GetPolicy"] {
            let answer = caller.call(operation, json!({"organization_id": other.to_string()})).await;
            let expected = (!sees).then_some(Code::NotFound);
            assert_eq!(answer.err().map(|error| error.code), expected, "{operation} by {role:?}");
        }
    }
    let admin = server.platform_admin(&org).await;
    let own = admin.call_ok("GetOrganization", json!({})).await;
    let foreign = admin.call_ok("GetOrganization", json!({"organization_id": other.to_string()})).await;
    assert_eq!((&own["caller_role"], &foreign["caller_role"]), (&json!("ROLE_ADMIN"), &json!(null)));
    let new_token = |role: &str| json!({"token": {"name": "more", "role": role, "platform": true}});
    for role in ["ROLE_VIEWER", "ROLE_MEMBER"] {
        let error = admin.refusal("CreateToken", new_token(role)).await;
        assert_eq!(error.violations[0].field, "token.platform", "{role}");
    }
    admin.call_ok("CreateToken", new_token("ROLE_ADMIN")).await;
    // Every token reads its own organization, and another one only with the scope.
    let limited = server.restricted_user(&org, Role::Admin, &[Scope::Documents], true).await;
    let own = limited.call_ok("GetOrganization", json!({"organization_id": org.to_string()})).await;
    assert_eq!(own["caller_scopes"], json!(["SCOPE_DOCUMENTS"]));
    let error = limited.refusal("GetOrganization", json!({"organization_id": other.to_string()})).await;
    assert_eq!(error.reason, Reason::ScopeNotAllowed);
    server.stop().await;
}

#[tokio::test]
async fn a_limited_token_makes_the_calls_of_its_scopes_and_no_others() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    for scope in Scope::ALL.iter().copied() {
        let limited = server.restricted_user(&org, Role::Admin, &[scope], true).await;
        for operation in operations() {
            let lacks = operation.scope().is_some_and(|needed| needed != scope);
            let error = call_empty(&limited, operation).await;
            let refused = error.is_some_and(|error| error.reason == Reason::ScopeNotAllowed);
            assert_eq!(refused, lacks, "{} with {scope:?}", operation.name);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_rpc_is_unimplemented() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    for path in ["/folio.v1.TagService/Nothing", "/folio.v2.TagService/GetTag", "/folio.cluster.v1.NodeService/Chat"] {
        let mut grpc = tonic::client::Grpc::new(admin.authorized());
        grpc.ready().await.unwrap();
        let response = grpc.unary(Request::new(Vec::new()), path.parse().unwrap(), Encoded).await;
        assert_eq!(response.unwrap_err().code(), tonic::Code::Unimplemented, "{path}");
    }
    server.stop().await;
}
