//! Roles and scopes: every RPC that reflection describes, by every kind of caller.

use bytes::{Buf as _, BufMut as _};
use folio_gateway::rpc_path;
use folio_operations::operations;
use folio_proto::{status, v1};
use folio_types::access::Scope;
use folio_types::token::Token;
use folio_types::{Code, OrgId, Reason, Role, System};
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio_stream::StreamExt as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::harness::{Client, Server, refused};

/// An RPC as reflection describes it.
pub(crate) struct Described {
    pub(crate) path: String,
    pub(crate) client_streaming: bool,
    pub(crate) server_streaming: bool,
}

async fn ask(server: &Server, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let mut answers = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let answer: ServerReflectionResponse = answers.next().await.unwrap().unwrap();
    answer.message_response.unwrap()
}

/// Returns every RPC that the server describes, without a token.
pub(crate) async fn described(server: &Server) -> Vec<Described> {
    let MessageResponse::ListServicesResponse(list) = ask(server, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list of services");
    };
    let mut calls = Vec::new();
    for service in list.service.into_iter().filter(|service| service.name.starts_with("folio.")) {
        let question = MessageRequest::FileContainingSymbol(service.name.clone());
        let MessageResponse::FileDescriptorResponse(files) = ask(server, question).await else {
            panic!("{} is not described", service.name);
        };
        for file in files.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(file.as_slice()).unwrap();
            for found in file.service.iter().filter(|found| service.name.ends_with(&format!(".{}", found.name()))) {
                calls.extend(found.method.iter().map(|method| Described {
                    path: format!("/{}/{}", service.name, method.name()),
                    client_streaming: method.client_streaming(),
                    server_streaming: method.server_streaming(),
                }));
            }
        }
    }
    calls
}

/// A codec of encoded messages.
#[derive(Clone, Copy, Default)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).into()))
    }
}

/// Sends encoded messages (of which only a client stream has more than one), and returns the first message of the
/// answer. Empty: the answer is an empty stream.
pub(crate) async fn call(client: &Client, described: &Described, messages: Vec<Vec<u8>>) -> Result<Vec<u8>, Status> {
    let path: PathAndQuery = described.path.parse().unwrap();
    let mut grpc = tonic::client::Grpc::new(client.authorized());
    grpc.ready().await.unwrap();
    if described.client_streaming {
        let messages = Request::new(tokio_stream::iter(messages));
        return grpc.client_streaming(messages, path, Encoded).await.map(Response::into_inner);
    }
    let message = Request::new(messages.into_iter().next().unwrap_or_default());
    if described.server_streaming {
        let mut answers = grpc.server_streaming(message, path, Encoded).await?.into_inner();
        return answers.message().await.map(Option::unwrap_or_default);
    }
    grpc.unary(message, path, Encoded).await.map(Response::into_inner)
}

/// Makes a call with an empty message.
async fn call_empty(client: &Client, described: &Described) -> Result<(), Status> {
    call(client, described, vec![Vec::new()]).await.map(drop)
}

#[tokio::test]
async fn every_call_needs_a_token_and_its_role() {
    let server = Server::start().await;
    let calls = described(&server).await;
    let mut paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    paths.sort_unstable();
    let mut declared: Vec<String> = operations().map(rpc_path).collect();
    declared.sort_unstable();
    assert_eq!(paths, declared, "the served RPCs and the declared operations differ");

    let org = OrgId::generate(&System);
    let nobody = server.stranger(None);
    // A token of another installation: nothing here knows it.
    let foreign = server.stranger(Some(&format!("Bearer {}", Token::generate(&org, &System).reveal())));
    let callers = [
        (Role::Viewer, false, server.user(&org, Role::Viewer).await),
        (Role::Member, false, server.user(&org, Role::Member).await),
        (Role::Admin, false, server.user(&org, Role::Admin).await),
        (Role::Viewer, true, server.limited(&org, Role::Viewer, &[], true).await),
        (Role::Admin, true, server.limited(&org, Role::Admin, &[], true).await),
    ];
    for described in &calls {
        let error = refused(call_empty(&nobody, described).await, &described.path);
        assert_eq!(error.code, Code::Unauthenticated, "{} without a token", described.path);
        let error = refused(call_empty(&foreign, described).await, &described.path);
        assert_eq!(error.code, Code::Unauthenticated, "{} with a foreign token", described.path);
        let operation = operations().find(|operation| rpc_path(operation) == described.path).unwrap();
        for (role, platform, caller) in &callers {
            let error = call_empty(caller, described).await.err().map(|status| status::to_error(&status));
            let denial = error.filter(|error| matches!(error.code, Code::PermissionDenied | Code::Unauthenticated));
            let lacks = *role < operation.role || (operation.platform && !platform);
            let expected = lacks.then_some(Reason::RoleNotAllowed);
            assert_eq!(denial.map(|error| error.reason), expected, "{} by {role:?}", described.path);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn another_organization_is_there_for_the_platforms_administrator_while_they_are_an_admin() {
    let server = Server::start().await;
    let other = OrgId::generate(&System);
    server.organization(&other).await;
    let org = OrgId::generate(&System);
    for (role, sees) in [(Role::Viewer, false), (Role::Member, false), (Role::Admin, true)] {
        let caller = server.limited(&org, role, &[], true).await;
        let get = v1::GetOrganizationRequest { organization_id: other.to_string() };
        let organization = caller.organizations().get_organization(get).await;
        let get = v1::GetPolicyRequest { organization_id: other.to_string() };
        let policy = caller.policies().get_policy(get).await;
        assert_eq!((organization.is_ok(), policy.is_ok()), (sees, sees), "{role:?}");
        if !sees {
            assert_eq!(refused(organization, "another organization").code, Code::NotFound, "{role:?}");
            assert_eq!(refused(policy, "another organization").code, Code::NotFound, "{role:?}");
        }
    }
    let admin = server.platform_admin(&org).await;
    for (role, is_made) in [(v1::Role::Viewer, false), (v1::Role::Member, false), (v1::Role::Admin, true)] {
        let wish = v1::CreateTokenRequest {
            token: Some(v1::Token { name: "more".into(), role: role.into(), platform: true, ..Default::default() }),
            ..Default::default()
        };
        let made = admin.tokens().create_token(wish).await;
        assert_eq!(made.is_ok(), is_made, "{role:?}");
        if !is_made {
            assert_eq!(refused(made, "a lower role").violations[0].field, "token.platform");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_limited_token_makes_the_calls_of_its_scopes_and_no_others() {
    let server = Server::start().await;
    let calls = described(&server).await;
    let org = OrgId::generate(&System);
    for scope in Scope::ALL {
        let limited = server.limited(&org, Role::Admin, &[scope], true).await;
        for described in &calls {
            let operation = operations().find(|operation| rpc_path(operation) == described.path).unwrap();
            let lacks = operation.scope().is_some_and(|needed| needed != scope);
            let refused = call_empty(&limited, described).await.err().map(|status| status::to_error(&status));
            let turned_away = refused.is_some_and(|error| error.reason == Reason::ScopeNotAllowed);
            assert_eq!(turned_away, lacks, "{} with {scope:?}", described.path);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_rpc_is_unimplemented() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    for path in ["/folio.v1.TagService/Nothing", "/folio.v2.TagService/GetTag", "/folio.cluster.v1.NodeService/Chat"] {
        let described = Described { path: path.into(), client_streaming: false, server_streaming: false };
        assert_eq!(call_empty(&admin, &described).await.unwrap_err().code(), tonic::Code::Unimplemented, "{path}");
    }
    server.stop().await;
}
