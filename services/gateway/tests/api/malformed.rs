//! Requests that no client should send: each is answered with an error that says what is wrong, and none is a fault.

use std::collections::BTreeSet;

use folio_operations::operations;
use folio_proto::{status, v1};
use folio_types::{Code, Error, OrgId, Reason, Role, System};
use http::uri::PathAndQuery;
use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

use crate::harness::{Client, Server, refused};
use crate::roles::{Described, described};

/// Bytes as they are, in and out.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}

async fn send(client: &Client, described: &Described, bytes: Bytes) -> Error {
    let path: PathAndQuery = described.path.parse().unwrap();
    let mut grpc = tonic::client::Grpc::new(client.authorized());
    grpc.ready().await.unwrap();
    let answer = if described.server_streaming {
        grpc.server_streaming(Request::new(bytes), path, Raw).await.map(drop)
    } else {
        grpc.client_streaming(Request::new(tokio_stream::iter([bytes])), path, Raw).await.map(drop)
    };
    refused(answer, &described.path)
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_callers_error() {
    let server = Server::start().await;
    let client = server.limited(&OrgId::generate(&System), Role::Admin, &[], true).await;
    let no_utf8: &[u8] = b"\x0a\x02\xff\xfe";
    let cut: &[u8] = b"\x0a\x7f\x01";
    let garbage: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    // A message inside a message, deeper than anybody may go: 200 groups that are opened and never closed.
    let deep = [0x0b_u8; 200];
    for described in described(&server).await {
        for bytes in [no_utf8, cut, garbage, &deep] {
            let error = send(&client, &described, Bytes::copy_from_slice(bytes)).await;
            assert_eq!(error.code, Code::InvalidArgument, "{} {bytes:?}: {error}", described.path);
            assert_eq!(error.reason, Reason::InvalidField, "{} {bytes:?}: {error}", described.path);
        }
        let huge = send(&client, &described, Bytes::from(vec![0; 5 * 1024 * 1024])).await;
        assert_eq!((huge.code, huge.reason), (Code::InvalidArgument, Reason::TooLarge), "{}", described.path);
    }
    server.stop().await;
}

/// Checks each request, and that none of the calls was forgotten.
macro_rules! table {
    ($client:expr, $seen:ident; $($service:ident.$call:ident($request:expr) => $code:ident $reason:ident $field:expr;)+) => {
        $({
            let what = format!("{} {:?}", stringify!($call), $field);
            let error = refused($client.$service().$call($request).await, &what);
            assert_eq!((error.code, error.reason), (Code::$code, Reason::$reason), "{what}: {error}");
            let field: &str = $field;
            if !field.is_empty() {
                let named = error.violations.iter().any(|violation| violation.field.starts_with(field));
                assert!(named, "{what}: {:?}", error.violations);
            }
            $seen.insert(stringify!($call).replace('_', ""));
        })+
    };
}

fn long(chars: usize) -> String {
    "x".repeat(chars)
}

fn deep() -> String {
    format!("{}{}", "[".repeat(100), "]".repeat(100))
}

#[tokio::test]
async fn malformed_requests_are_refused_by_their_field() {
    use v1::*;
    let server = Server::start().await;
    let client = server.limited(&OrgId::generate(&System), folio_types::Role::Admin, &[], true).await;
    let user = folio_types::UserId::derive(&["u"]).to_string();
    let document = folio_types::DocumentId::derive(&["d"]).to_string();
    let schema = folio_types::SchemaId::derive(&["s"]).to_string();
    let prompt = folio_types::PromptId::derive(&["p"]).to_string();
    let tag = folio_types::TagId::derive(&["t"]).to_string();
    let extraction = folio_types::ExtractionId::derive(&["e"]).to_string();
    let thread = folio_types::ThreadId::derive(&["t"]).to_string();
    let turn = format!("{thread}.1");
    let bad = || "../../etc/passwd".to_owned();
    let content =
        |name: &str, content: &str| Some(Prompt { name: name.into(), content: content.into(), ..Default::default() });
    let mut seen = BTreeSet::new();
    table! { client, seen;
        conversations.chat(ChatRequest::default()) => InvalidArgument InvalidField "text";
        conversations.chat(ChatRequest { text: long(200_000), ..Default::default() }) => InvalidArgument TooLarge "text";
        conversations.chat(ChatRequest { text: "a\0b".into(), ..Default::default() }) => InvalidArgument InvalidField "text";
        conversations.chat(ChatRequest { text: "a".into(), thread_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "thread_id";
        conversations.chat(ChatRequest { text: "a".into(), if_busy: 9, ..Default::default() }) => InvalidArgument InvalidField "if_busy";
        conversations.approve(ApproveRequest { turn_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "turn_id";
        conversations.approve(ApproveRequest { turn_id: turn.clone(), ..Default::default() }) => InvalidArgument InvalidField "round";
        conversations.approve(ApproveRequest { turn_id: turn.clone(), round: 1, undecided: 7, ..Default::default() }) => InvalidArgument InvalidField "undecided";
        conversations.resume_turn(ResumeTurnRequest { turn_id: format!("{thread}.0"), ..Default::default() }) => InvalidArgument InvalidId "turn_id";
        conversations.resume_turn(ResumeTurnRequest { turn_id: turn.clone(), request_id: " ".into() }) => InvalidArgument InvalidId "request_id";
        conversations.cancel_turn(CancelTurnRequest { turn_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "turn_id";
        conversations.list_pending_approvals(ListPendingApprovalsRequest { page_size: -1, ..Default::default() }) => InvalidArgument InvalidField "page_size";
        conversations.list_pending_approvals(ListPendingApprovalsRequest { page_token: bad(), ..Default::default() }) => InvalidArgument InvalidPageToken "page_token";
        conversations.watch_pending_approvals(WatchPendingApprovalsRequest { filter: "user:x".into() }) => InvalidArgument InvalidId "filter";
        conversations.get_turn(GetTurnRequest::default()) => InvalidArgument InvalidField "turn_id";
        conversations.watch_turn(WatchTurnRequest { turn_id: thread.clone(), ..Default::default() }) => InvalidArgument InvalidId "turn_id";
        conversations.list_tools(ListToolsRequest { filter: "access:sudo".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        conversations.list_tools(ListToolsRequest { profile: "a b".into(), ..Default::default() }) => InvalidArgument InvalidField "profile";
        threads.create_thread(CreateThreadRequest { document_ids: vec![bad()], ..Default::default() }) => InvalidArgument InvalidId "document_ids[0]";
        threads.create_thread(CreateThreadRequest { title: long(201), ..Default::default() }) => InvalidArgument InvalidField "title";
        threads.list_threads(ListThreadsRequest { page_size: -1, ..Default::default() }) => InvalidArgument InvalidField "page_size";
        threads.list_threads(ListThreadsRequest { order_by: "owner".into(), ..Default::default() }) => InvalidArgument InvalidField "order_by";
        threads.get_thread(GetThreadRequest { thread_id: document.clone(), ..Default::default() }) => InvalidArgument InvalidId "thread_id";
        threads.get_thread(GetThreadRequest { thread_id: thread.clone(), filter: "role:root".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        threads.rename_thread(RenameThreadRequest { thread_id: thread.clone(), ..Default::default() }) => InvalidArgument InvalidField "title";
        threads.delete_thread(DeleteThreadRequest { thread_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "thread_id";
        threads.fork_thread(ForkThreadRequest { thread_id: thread.clone(), title: "a\nb".into(), ..Default::default() }) => InvalidArgument InvalidField "title";
        documents.upload_document(tokio_stream::iter([UploadDocumentRequest::default()])) => InvalidArgument InvalidField "part";
        documents.get_document(GetDocumentRequest { document_id: bad() }) => InvalidArgument InvalidId "document_id";
        documents.download_document(DownloadDocumentRequest::default()) => InvalidArgument InvalidField "document_id";
        documents.list_documents(ListDocumentsRequest { filter: "name:\"".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        documents.list_documents(ListDocumentsRequest { page_token: long(5_000), ..Default::default() }) => InvalidArgument InvalidPageToken "page_token";
        documents.update_document(UpdateDocumentRequest { document: Some(Document { document_id: document.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "update_mask";
        documents.update_document(UpdateDocumentRequest { document: Some(Document { document_id: document.clone(), tag_ids: vec![tag.clone(); 51], ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "document.tag_ids";
        documents.update_document(UpdateDocumentRequest { document: Some(Document { document_id: document.clone(), metadata: [(String::new(), String::new())].into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "document.metadata";
        documents.delete_document(DeleteDocumentRequest { document_id: document.clone(), request_id: long(129), ..Default::default() }) => InvalidArgument InvalidId "request_id";
        documents.get_document_text(GetDocumentTextRequest { document_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "document_id";
        schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { response_format_json: "{}".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.name";
        schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { name: "a".into(), response_format_json: "{".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.response_format_json";
        schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { name: "a".into(), response_format_json: deep(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.response_format_json";
        schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { name: "a".into(), response_format_json: long(200_000), ..Default::default() }), ..Default::default() }) => InvalidArgument TooLarge "schema.response_format_json";
        schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { name: "a".into(), response_format_json: "{}".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidSchema "schema.response_format_json";
        schemas.get_schema_revision(GetSchemaRevisionRequest { schema_revid: format!("{schema}.x") }) => InvalidArgument InvalidId "schema_revid";
        schemas.list_schemas(ListSchemasRequest { filter: "colour:red".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        schemas.list_schema_revisions(ListSchemaRevisionsRequest { schema_id: schema.clone(), filter: "a:b".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        schemas.update_schema(UpdateSchemaRequest { schema: Some(Schema { schema_id: schema.clone(), name: long(201), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.name";
        schemas.update_schema(UpdateSchemaRequest { schema: Some(Schema { schema_id: bad(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidId "schema.schema_id";
        schemas.delete_schema(DeleteSchemaRequest::default()) => InvalidArgument InvalidField "schema_id";
        schemas.validate_schema(ValidateSchemaRequest { response_format_json: "nonsense".into(), ..Default::default() }) => InvalidArgument InvalidField "response_format_json";
        schemas.validate_data(ValidateDataRequest { schema_revid: schema.clone(), data_json: "[123456789012345678901]".into() }) => InvalidArgument InvalidField "data_json";
        prompts.create_prompt(CreatePromptRequest::default()) => InvalidArgument InvalidField "prompt";
        prompts.create_prompt(CreatePromptRequest { prompt: content("a", &long(70_000)), ..Default::default() }) => InvalidArgument InvalidField "prompt.content";
        prompts.create_prompt(CreatePromptRequest { prompt: content("", "b"), ..Default::default() }) => InvalidArgument InvalidField "prompt.name";
        prompts.get_prompt_revision(GetPromptRevisionRequest { prompt_revid: schema.clone() }) => InvalidArgument InvalidId "prompt_revid";
        prompts.list_prompts(ListPromptsRequest { filter: "tag:x".into(), ..Default::default() }) => InvalidArgument InvalidId "filter";
        prompts.list_prompt_revisions(ListPromptRevisionsRequest { prompt_id: prompt.clone(), skip: -1, ..Default::default() }) => InvalidArgument InvalidField "skip";
        prompts.update_prompt(UpdatePromptRequest { prompt: Some(Prompt { prompt_id: prompt.clone(), content: String::new(), ..Default::default() }), update_mask: Some(prost_types::FieldMask { paths: vec!["content".into()] }), ..Default::default() }) => InvalidArgument InvalidField "prompt.content";
        prompts.delete_prompt(DeletePromptRequest { prompt_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "prompt_id";
        prompts.validate_prompt(ValidatePromptRequest::default()) => InvalidArgument InvalidField "prompt";
        prompts.validate_prompt_data(ValidatePromptDataRequest { prompt_revid: prompt.clone(), data_json: "[".into() }) => InvalidArgument InvalidField "data_json";
        tags.create_tag(CreateTagRequest { tag: Some(Tag { name: "a".into(), color: "red".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.color";
        tags.create_tag(CreateTagRequest { tag: Some(Tag { name: "a\tb".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.name";
        tags.create_tag(CreateTagRequest { tag: Some(Tag { name: "a".into(), description: long(2_001), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.description";
        tags.get_tag(GetTagRequest { tag_id: tag.to_uppercase() }) => InvalidArgument InvalidId "tag_id";
        tags.list_tags(ListTagsRequest { order_by: "name sideways".into(), ..Default::default() }) => InvalidArgument InvalidField "order_by";
        tags.update_tag(UpdateTagRequest { tag: Some(Tag { tag_id: tag.clone(), color: "#12".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.color";
        tags.delete_tag(DeleteTagRequest { tag_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "tag_id";
        extractions.run_extraction(RunExtractionRequest { document_id: document.clone(), prompt_revid: bad(), ..Default::default() }) => InvalidArgument InvalidId "prompt_revid";
        extractions.run_extraction(RunExtractionRequest { document_id: document.clone(), prompt_revid: prompt.clone(), model: "a b".into(), ..Default::default() }) => InvalidArgument InvalidField "model";
        extractions.get_extraction(GetExtractionRequest { extraction_id: bad() }) => InvalidArgument InvalidId "extraction_id";
        extractions.update_extraction_field(UpdateExtractionFieldRequest { extraction_id: extraction.clone(), path: long(1_025), value_json: "1".into(), ..Default::default() }) => InvalidArgument TooLarge "path";
        extractions.update_extraction_field(UpdateExtractionFieldRequest { extraction_id: extraction.clone(), path: "a".into(), value_json: deep(), ..Default::default() }) => InvalidArgument InvalidField "value_json";
        extractions.replace_extraction(ReplaceExtractionRequest { extraction_id: extraction.clone(), data_json: format!("\"{}\"", long(200_000)), ..Default::default() }) => InvalidArgument TooLarge "data_json";
        extractions.verify_extraction(VerifyExtractionRequest::default()) => InvalidArgument InvalidField "extraction_id";
        extractions.delete_extraction(DeleteExtractionRequest { extraction_id: document.clone(), ..Default::default() }) => InvalidArgument InvalidId "extraction_id";
        extractions.list_extractions(ListExtractionsRequest { document_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "document_id";
        models.list_models(ListModelsRequest { r#use: 8, ..Default::default() }) => InvalidArgument InvalidField "use";
        tokens.create_token(CreateTokenRequest::default()) => InvalidArgument InvalidField "token";
        tokens.create_token(CreateTokenRequest { token: Some(Token { name: "a".into(), role: 9, ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "token.role";
        tokens.create_token(CreateTokenRequest { token: Some(Token { name: "a".into(), role: 1, user_id: bad(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidId "token.user_id";
        tokens.list_tokens(ListTokensRequest { filter: "user:x".into(), ..Default::default() }) => InvalidArgument InvalidId "filter";
        tokens.revoke_token(RevokeTokenRequest { token_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "token_id";
        organizations.create_organization(CreateOrganizationRequest::default()) => InvalidArgument InvalidField "organization";
        organizations.create_organization(CreateOrganizationRequest { organization: Some(Organization { name: "a".into(), ..Default::default() }), admin_name: " ".into(), ..Default::default() }) => InvalidArgument InvalidField "admin_name";
        organizations.delete_organization(DeleteOrganizationRequest { organization_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "organization_id";
        organizations.list_organizations(ListOrganizationsRequest { page_size: -1, ..Default::default() }) => InvalidArgument InvalidField "page_size";
        organizations.get_organization(GetOrganizationRequest { organization_id: bad() }) => InvalidArgument InvalidId "organization_id";
        organizations.update_organization(UpdateOrganizationRequest { organization: Some(Organization { name: " a".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "organization.name";
        organizations.add_member(AddMemberRequest { member: Some(Member { role: 1, ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "member.name";
        organizations.add_member(AddMemberRequest { member: Some(Member { name: "a".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "member.role";
        organizations.add_member(AddMemberRequest { member: Some(Member { name: "a".into(), role: 1, user_id: "x".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidId "member.user_id";
        organizations.list_members(ListMembersRequest { filter: "role:admin".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        organizations.update_member(UpdateMemberRequest { member: Some(Member { user_id: bad(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidId "member.user_id";
        policies.set_policy(SetPolicyRequest { policy: Some(Policy { rules: vec![PolicyRule::default()], ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "policy.rules[0].ruling";
        limits.get_limits(GetLimitsRequest { organization_id: bad() }) => InvalidArgument InvalidId "organization_id";
        limits.set_limits(SetLimitsRequest { own: Some(OrganizationLimits { concurrent_turns: Some(2_000_000), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "own.concurrent_turns";
        policies.get_policy(GetPolicyRequest { organization_id: bad() }) => InvalidArgument InvalidId "organization_id";
        organizations.remove_member(RemoveMemberRequest { user_id: user[1..].to_owned(), ..Default::default() }) => InvalidArgument InvalidId "user_id";
        providers.list_providers(ListProvidersRequest { owner: 9, ..Default::default() }) => InvalidArgument InvalidField "owner";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "A b".into(), enabled: true, ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.name";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "a".into(), enabled: true, ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.base_url";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "a".into(), base_url: "http://me:pw@x/v1".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.base_url";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "a".into(), base_url: "http://[::ffff:10.0.0.1]/v1".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.base_url";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "openai".into(), api_key: "a b".into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.api_key";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "openai".into(), output_limit_field: 9, ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.output_limit_field";
        providers.update_provider(UpdateProviderRequest { provider: Some(Provider { name: "openai".into(), models: vec![ProviderModel { name: "unknown".into(), ..Default::default() }], ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "provider.models[unknown]";
        providers.delete_provider(DeleteProviderRequest::default()) => InvalidArgument InvalidField "name";
        providers.set_model_defaults(SetModelDefaultsRequest { default_model: Some("a b".into()), ..Default::default() }) => InvalidArgument InvalidField "default_model";
        providers.set_model_defaults(SetModelDefaultsRequest { fallbacks: Some(ModelNames { models: vec!["hub-model".into(); 9] }), ..Default::default() }) => InvalidArgument InvalidField "fallbacks";
        providers.discover_models(DiscoverModelsRequest::default()) => InvalidArgument InvalidField "name";
        providers.test_provider(TestProviderRequest { name: "a b".into(), ..Default::default() }) => InvalidArgument InvalidField "name";
        credits.grant_credit(GrantCreditRequest { credits: 1, organization_id: bad(), ..Default::default() }) => InvalidArgument InvalidId "organization_id";
        credits.grant_credit(GrantCreditRequest { credits: 1, priority: 256, ..Default::default() }) => InvalidArgument InvalidField "priority";
        credits.grant_credit(GrantCreditRequest { credits: 1_000_000_000_001, ..Default::default() }) => InvalidArgument InvalidField "credits";
        credits.grant_credit(GrantCreditRequest { credits: 1, note: "a\nb".into(), ..Default::default() }) => InvalidArgument InvalidField "note";
        credits.withdraw_credit(WithdrawCreditRequest { credits: 0, ..Default::default() }) => InvalidArgument InvalidField "credits";
        audits.list_audit_entries(ListAuditEntriesRequest { filter: "kind:x".into(), ..Default::default() }) => InvalidArgument InvalidField "filter";
        audits.list_audit_entries(ListAuditEntriesRequest { filter: "user:x".into(), ..Default::default() }) => InvalidArgument InvalidId "filter";
        audits.list_audit_entries(ListAuditEntriesRequest { page_token: bad(), ..Default::default() }) => InvalidArgument InvalidPageToken "page_token";
        audits.list_audit_entries(ListAuditEntriesRequest { order_by: "name".into(), ..Default::default() }) => InvalidArgument InvalidField "order_by";
        audits.download_audit_entries(DownloadAuditEntriesRequest { start_time: Some(prost_types::Timestamp { seconds: 2, nanos: 0 }), end_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }), ..Default::default() }) => InvalidArgument InvalidField "start_time";
        audits.download_audit_entries(DownloadAuditEntriesRequest { filter: "thread:x".into(), ..Default::default() }) => InvalidArgument InvalidId "filter";
        usages.get_balance(GetBalanceRequest { organization_id: bad() }) => InvalidArgument InvalidId "organization_id";
        usages.get_usage(GetUsageRequest { group_by: vec![9], ..Default::default() }) => InvalidArgument InvalidField "group_by";
        usages.get_usage(GetUsageRequest { end_time: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }), ..Default::default() }) => InvalidArgument InvalidField "end_time";
        usages.download_usage(DownloadUsageRequest { start_time: Some(prost_types::Timestamp { seconds: 9_000_000_000, nanos: 0 }), ..Default::default() }) => InvalidArgument InvalidField "start_time";
    }
    let all: BTreeSet<String> = operations().map(|operation| operation.name.to_lowercase()).collect();
    assert_eq!(seen, all, "each call has its malformed requests here");
    server.stop().await;
}

#[tokio::test]
async fn a_name_with_blanks_around_it_is_refused_wherever_something_is_named() {
    use v1::*;
    let server = Server::start().await;
    let client = server.member().await;
    let document = folio_types::DocumentId::derive(&["d"]).to_string();
    let schema = folio_types::SchemaId::derive(&["s"]).to_string();
    let prompt = folio_types::PromptId::derive(&["p"]).to_string();
    let tag = folio_types::TagId::derive(&["t"]).to_string();
    let thread = folio_types::ThreadId::derive(&["t"]).to_string();
    let upload = |name: &str, key: &str| {
        let metadata = [(key.to_owned(), String::new())].into();
        let description = DocumentDescription { name: name.into(), metadata, ..Default::default() };
        let part = upload_document_request::Part::Description(description);
        tokio_stream::iter([UploadDocumentRequest { part: Some(part) }])
    };
    let content = |name: &str| Some(Prompt { name: name.into(), content: "c".into(), ..Default::default() });
    let format = "{}".to_owned();
    let mut seen = BTreeSet::new();
    for name in [" a", "a ", " ", "\u{a0}a"].map(str::to_owned) {
        table! { client, seen;
            documents.upload_document(upload(&name, "k")) => InvalidArgument InvalidField "description.name";
            documents.upload_document(upload("a", &name)) => InvalidArgument InvalidField "description.metadata";
            documents.update_document(UpdateDocumentRequest { document: Some(Document { document_id: document.clone(), name: name.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "document.name";
            documents.update_document(UpdateDocumentRequest { document: Some(Document { document_id: document.clone(), metadata: [(name.clone(), String::new())].into(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "document.metadata";
            schemas.create_schema(CreateSchemaRequest { schema: Some(Schema { name: name.clone(), response_format_json: format.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.name";
            schemas.update_schema(UpdateSchemaRequest { schema: Some(Schema { schema_id: schema.clone(), name: name.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "schema.name";
            prompts.create_prompt(CreatePromptRequest { prompt: content(&name), ..Default::default() }) => InvalidArgument InvalidField "prompt.name";
            prompts.update_prompt(UpdatePromptRequest { prompt: Some(Prompt { prompt_id: prompt.clone(), name: name.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "prompt.name";
            tags.create_tag(CreateTagRequest { tag: Some(Tag { name: name.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.name";
            tags.update_tag(UpdateTagRequest { tag: Some(Tag { tag_id: tag.clone(), name: name.clone(), ..Default::default() }), ..Default::default() }) => InvalidArgument InvalidField "tag.name";
            threads.create_thread(CreateThreadRequest { title: name.clone(), ..Default::default() }) => InvalidArgument InvalidField "title";
            threads.rename_thread(RenameThreadRequest { thread_id: thread.clone(), title: name.clone(), ..Default::default() }) => InvalidArgument InvalidField "title";
            threads.fork_thread(ForkThreadRequest { thread_id: thread.clone(), title: name.clone(), ..Default::default() }) => InvalidArgument InvalidField "title";
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_of_metadata_may_be_as_long_when_it_is_changed_as_when_it_was_uploaded() {
    let server = Server::start().await;
    let client = server.member().await;
    let uploaded = client.upload("a.txt", "text", "").await.unwrap();
    let entries: std::collections::BTreeMap<_, _> = [("ü".repeat(200), "v".to_owned())].into();
    let request = v1::UpdateDocumentRequest {
        document: Some(v1::Document {
            document_id: uploaded.document_id,
            metadata: entries.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let updated = client.documents().update_document(request).await.unwrap().into_inner().document.unwrap();
    assert_eq!(updated.metadata, entries);
    server.stop().await;
}

#[tokio::test]
async fn an_error_names_its_field_in_the_status() {
    let server = Server::start().await;
    let client = server.member().await;
    let answer = client.tags().get_tag(v1::GetTagRequest { tag_id: "x".into() }).await;
    let details = tonic_types::StatusExt::get_error_details(&answer.unwrap_err());
    let info = details.error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), (status::DOMAIN, "INVALID_ID"));
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "tag_id");
    server.stop().await;
}
