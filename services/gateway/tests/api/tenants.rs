//! Invariant 6: a resource of another organization is answered exactly like a missing one, by every operation.

use folio_gateway::rpc_path;
use folio_operations::{Declaration, operations};
use folio_proto::{status, v1, v1::*};
use folio_types::{Code, OrgId, Role, System, TokenId};
use prost::Message as _;

use crate::harness::{Answer, Client, Server, format};
use crate::roles::{Described, call, described};

/// Ids and names of one organization's resources, as requests name them.
#[derive(Clone)]
struct Ids {
    organization: String,
    document: String,
    tag: String,
    schema: String,
    prompt: String,
    extraction: String,
    thread: String,
    member: String,
    token: String,
    provider: String,
    model: String,
}

impl Ids {
    /// Ids of the same form that name nothing.
    fn missing() -> Self {
        let nobody = ["nobody"];
        Self {
            organization: OrgId::derive(&nobody).to_string(),
            document: folio_types::DocumentId::derive(&nobody).to_string(),
            tag: folio_types::TagId::derive(&nobody).to_string(),
            schema: folio_types::SchemaId::derive(&nobody).to_string(),
            prompt: folio_types::PromptId::derive(&nobody).to_string(),
            extraction: folio_types::ExtractionId::derive(&nobody).to_string(),
            thread: folio_types::ThreadId::derive(&nobody).to_string(),
            member: folio_types::UserId::derive(&nobody).to_string(),
            token: TokenId::derive(&["unknown"]).to_string(),
            provider: "of-nobody".to_owned(),
            model: "nobody".to_owned(),
        }
    }

    fn all(&self) -> [&str; 11] {
        let Self { organization, document, tag, schema, prompt, extraction, thread, member, token, provider, model } =
            self;
        [organization, document, tag, schema, prompt, extraction, thread, member, token, provider, model]
            .map(String::as_str)
    }

    /// A text with each of these ids replaced by the same word.
    fn hidden_in(&self, text: &str) -> String {
        self.all().iter().fold(text.to_owned(), |text, id| text.replace(id, "ID"))
    }

    /// The turn that waits.
    fn turn(&self) -> String {
        format!("{}.1", self.thread)
    }
}

/// Messages of one request; only an upload has more than one.
type Request = Vec<Vec<u8>>;

/// Returns the sample requests of an operation: those that name something name `named`, and otherwise resources of the
/// caller, `own`. An operation without a sample fails the test.
#[expect(clippy::needless_update, reason = "some requests have no other field")]
fn samples(operation: &Declaration, own: &Ids, named: &Ids) -> Vec<Request> {
    let revision = |id: &str| format!("{id}.1");
    let (document_id, tag_id, turn_id) = (named.document.clone(), named.tag.clone(), named.turn());
    let (schema_id, prompt_id, extraction_id) = (named.schema.clone(), named.prompt.clone(), named.extraction.clone());
    let (thread_id, user_id, token_id) = (named.thread.clone(), named.member.clone(), named.token.clone());
    let organization_id = named.organization.clone();
    let of_user = format!("user={user_id}");
    macro_rules! requests {
        ($($request:ident { $($field:ident: $value:expr),* $(,)? }),+ $(,)?) => {
            vec![$(vec![$request { $($field: $value,)* ..Default::default() }.encode_to_vec()]),+]
        };
    }
    macro_rules! resource {
        ($resource:ident { $($field:ident: $value:expr),* $(,)? }) => { Some($resource { $($field: $value,)* ..Default::default() }) };
    }
    match operation.name {
        "Chat" => requests!(
            ChatRequest { text: "hello".into(), thread_id: thread_id },
            ChatRequest { text: "hello".into(), document_ids: vec![document_id] }
        ),
        "Approve" => {
            let approved = Some(decision::Decision::Approved(Approved {}));
            let decision = Decision { call_id: format!("{turn_id}.1.1"), decision: approved, ..Default::default() };
            requests!(ApproveRequest { turn_id: turn_id, decisions: vec![decision] })
        }
        "ResumeTurn" => requests!(ResumeTurnRequest { turn_id: turn_id }),
        "CancelTurn" => requests!(CancelTurnRequest { turn_id: turn_id }),
        "GetTurn" => vec![vec![GetTurnRequest { turn_id }.encode_to_vec()]],
        "WatchTurn" => requests!(WatchTurnRequest { turn_id: turn_id }),
        "ListTools" => requests!(ListToolsRequest {}),
        "ListPendingApprovals" => {
            requests!(ListPendingApprovalsRequest {}, ListPendingApprovalsRequest { filter: of_user })
        }
        "WatchPendingApprovals" => vec![vec![WatchPendingApprovalsRequest::default().encode_to_vec()]],
        "CreateThread" => requests!(CreateThreadRequest { document_ids: vec![document_id] }),
        "ListThreads" => requests!(ListThreadsRequest {}, ListThreadsRequest { filter: of_user }),
        "GetThread" => requests!(GetThreadRequest { thread_id: thread_id }),
        "RenameThread" => requests!(RenameThreadRequest { thread_id: thread_id, title: "mine".into() }),
        "DeleteThread" => requests!(DeleteThreadRequest { thread_id: thread_id }),
        "ForkThread" => requests!(ForkThreadRequest { thread_id: thread_id }),
        "UploadDocument" => {
            let description = DocumentDescription { name: "n.txt".into(), tag_ids: vec![tag_id], ..Default::default() };
            let parts = [
                upload_document_request::Part::Description(description),
                upload_document_request::Part::Chunk(b"text".into()),
            ];
            vec![parts.map(|part| UploadDocumentRequest { part: Some(part) }.encode_to_vec()).to_vec()]
        }
        "GetDocument" => vec![vec![GetDocumentRequest { document_id }.encode_to_vec()]],
        "DownloadDocument" => vec![vec![DownloadDocumentRequest { document_id }.encode_to_vec()]],
        "GetDocumentText" => requests!(GetDocumentTextRequest { document_id: document_id }),
        "ListDocuments" => requests!(ListDocumentsRequest {}, ListDocumentsRequest { filter: format!("tag:{tag_id}") }),
        "UpdateDocument" => requests!(
            UpdateDocumentRequest { document: resource!(Document { document_id: document_id, name: "mine".into() }) },
            UpdateDocumentRequest {
                document: resource!(Document { document_id: own.document.clone(), tag_ids: vec![tag_id] }),
            }
        ),
        "DeleteDocument" => requests!(DeleteDocumentRequest { document_id: document_id }),
        "CreateSchema" => requests!(CreateSchemaRequest {
            schema: resource!(Schema { name: "mine".into(), response_format_json: format("mine") }),
        }),
        "GetSchemaRevision" => [schema_id.clone(), revision(&schema_id)]
            .map(|schema_revid| vec![GetSchemaRevisionRequest { schema_revid }.encode_to_vec()])
            .to_vec(),
        "ListSchemas" => requests!(ListSchemasRequest {}),
        "ListSchemaRevisions" => requests!(ListSchemaRevisionsRequest { schema_id: schema_id }),
        "UpdateSchema" => {
            requests!(UpdateSchemaRequest { schema: resource!(Schema { schema_id: schema_id, name: "mine".into() }) })
        }
        "DeleteSchema" => requests!(DeleteSchemaRequest { schema_id: schema_id }),
        "ValidateSchema" => requests!(ValidateSchemaRequest { response_format_json: format("mine") }),
        "ValidateData" => requests!(ValidateDataRequest { schema_revid: revision(&schema_id), data_json: "{}".into() }),
        "CreatePrompt" => requests!(
            CreatePromptRequest {
                prompt: resource!(Prompt { name: "n".into(), content: "c".into(), schema_revid: revision(&schema_id) }),
            },
            CreatePromptRequest {
                prompt: resource!(Prompt { name: "n".into(), content: "c".into(), tag_ids: vec![tag_id] }),
            }
        ),
        "GetPromptRevision" => [prompt_id.clone(), revision(&prompt_id)]
            .map(|prompt_revid| vec![GetPromptRevisionRequest { prompt_revid }.encode_to_vec()])
            .to_vec(),
        "ListPrompts" => {
            requests!(ListPromptsRequest {}, ListPromptsRequest { filter: format!("document:{document_id}") })
        }
        "ListPromptRevisions" => requests!(ListPromptRevisionsRequest { prompt_id: prompt_id }),
        "UpdatePrompt" => requests!(
            UpdatePromptRequest { prompt: resource!(Prompt { prompt_id: prompt_id, name: "mine".into() }) },
            UpdatePromptRequest { prompt: resource!(Prompt { prompt_id: own.prompt.clone(), tag_ids: vec![tag_id] }) }
        ),
        "DeletePrompt" => requests!(DeletePromptRequest { prompt_id: prompt_id }),
        "ValidatePrompt" => requests!(ValidatePromptRequest {
            prompt: resource!(Prompt {
                name: "n".into(),
                content: "c".into(),
                schema_revid: revision(&schema_id),
                tag_ids: vec![tag_id],
            }),
        }),
        "ValidatePromptData" => {
            requests!(ValidatePromptDataRequest { prompt_revid: revision(&prompt_id), data_json: "{}".into() })
        }
        "CreateTag" => requests!(CreateTagRequest { tag: resource!(Tag { name: "mine".into() }) }),
        "GetTag" => vec![vec![GetTagRequest { tag_id }.encode_to_vec()]],
        "ListTags" => requests!(ListTagsRequest {}),
        "UpdateTag" => requests!(UpdateTagRequest { tag: resource!(Tag { tag_id: tag_id, name: "mine".into() }) }),
        "DeleteTag" => requests!(DeleteTagRequest { tag_id: tag_id }),
        "RunExtraction" => requests!(
            RunExtractionRequest { document_id: document_id, prompt_revid: own.prompt.clone() },
            RunExtractionRequest { document_id: own.document.clone(), prompt_revid: prompt_id }
        ),
        "GetExtraction" => vec![vec![GetExtractionRequest { extraction_id }.encode_to_vec()]],
        "UpdateExtractionField" => requests!(UpdateExtractionFieldRequest {
            extraction_id: extraction_id,
            path: "total".into(),
            value_json: "1".into(),
        }),
        "ReplaceExtraction" => {
            requests!(ReplaceExtractionRequest { extraction_id: extraction_id, data_json: "{}".into() })
        }
        "VerifyExtraction" => requests!(VerifyExtractionRequest { extraction_id: extraction_id, verified: true }),
        "DeleteExtraction" => requests!(DeleteExtractionRequest { extraction_id: extraction_id }),
        "ListExtractions" => requests!(ListExtractionsRequest { document_id: document_id }),
        "ListModels" => requests!(ListModelsRequest {}),
        "ListProviders" => requests!(ListProvidersRequest {}),
        "UpdateProvider" => requests!(UpdateProviderRequest {
            provider: resource!(Provider { name: "mine".into(), base_url: "https://mine.example/v1".into() }),
        }),
        "DeleteProvider" => requests!(DeleteProviderRequest { name: named.provider.clone() }),
        "SetModelDefaults" => requests!(SetModelDefaultsRequest { default_model: Some(named.model.clone()) }),
        "DiscoverModels" => requests!(DiscoverModelsRequest { name: named.provider.clone() }),
        "TestProvider" => requests!(
            TestProviderRequest { name: named.provider.clone() },
            TestProviderRequest { name: "same".into(), model: named.model.clone() }
        ),
        "CreateOrganization" => requests!(CreateOrganizationRequest {
            organization: resource!(Organization { name: "mine".into() }),
            admin_name: "me".into(),
        }),
        "ListOrganizations" => requests!(ListOrganizationsRequest {}),
        "GetOrganization" => [organization_id, String::new()]
            .map(|organization_id| vec![GetOrganizationRequest { organization_id }.encode_to_vec()])
            .to_vec(),
        "UpdateOrganization" => {
            requests!(UpdateOrganizationRequest { organization: resource!(Organization { name: "mine".into() }) })
        }
        "DeleteOrganization" => {
            requests!(DeleteOrganizationRequest { organization_id: organization_id, name: "test".into() })
        }
        "AddMember" => requests!(AddMemberRequest {
            member: resource!(Member { name: "mine".into(), role: v1::Role::Viewer.into() }),
        }),
        "ListMembers" => requests!(ListMembersRequest {}),
        "UpdateMember" => {
            requests!(UpdateMemberRequest { member: resource!(Member { user_id: user_id, name: "mine".into() }) })
        }
        "RemoveMember" => requests!(RemoveMemberRequest { user_id: user_id }),
        "GetPolicy" => [organization_id, String::new()]
            .map(|organization_id| vec![GetPolicyRequest { organization_id }.encode_to_vec()])
            .to_vec(),
        "SetPolicy" => {
            let ruling = Some(policy_rule::Ruling::Deny(Deny {}));
            let rules = vec![PolicyRule { name: "mine".into(), ruling, ..Default::default() }];
            requests!(SetPolicyRequest { policy: resource!(Policy { rules: rules }) })
        }
        "CreateToken" => {
            let of = |user_id: String| {
                resource!(Token { name: "mine".into(), role: v1::Role::Viewer.into(), user_id: user_id })
            };
            requests!(CreateTokenRequest { token: of(user_id) }, CreateTokenRequest { token: of(String::new()) })
        }
        "ListTokens" => requests!(ListTokensRequest {}, ListTokensRequest { filter: of_user }),
        "RevokeToken" => requests!(RevokeTokenRequest { token_id: token_id }),
        "GrantCredit" => requests!(GrantCreditRequest { organization_id: organization_id, credits: 1 }),
        "WithdrawCredit" => requests!(WithdrawCreditRequest { organization_id: organization_id, credits: 1 }),
        "GetLimits" => [organization_id, String::new()]
            .map(|organization_id| vec![GetLimitsRequest { organization_id }.encode_to_vec()])
            .to_vec(),
        "SetLimits" => requests!(SetLimitsRequest { organization_id: organization_id }),
        "GetBalance" => [organization_id, String::new()]
            .map(|organization_id| vec![GetBalanceRequest { organization_id }.encode_to_vec()])
            .to_vec(),
        "GetUsage" => {
            requests!(GetUsageRequest { group_by: vec![UsageGroup::User.into(), UsageGroup::Document.into()] })
        }
        "DownloadUsage" => requests!(DownloadUsageRequest {}),
        "ListAuditEntries" => requests!(ListAuditEntriesRequest {}, ListAuditEntriesRequest { filter: of_user }),
        "DownloadAuditEntries" => requests!(DownloadAuditEntriesRequest {}),
        unknown => panic!("add a sample request of {unknown}"),
    }
}

/// Creates the resources of an organization, under names that the other one uses as well.
async fn furnish(server: &Server, client: &Client, whose: &str) -> Ids {
    let document = client.ready_document("same.txt", "Total 12.50").await.document_id;
    let (tag, schema) = (client.tag("same").await.tag_id, client.schema("same", "total").await.schema_id);
    let prompt = client.prompt("same", &schema).await.prompt_id;
    server.model.answer(r#"{"total": 12.5}"#);
    let run =
        RunExtractionRequest { document_id: document.clone(), prompt_revid: prompt.clone(), ..Default::default() };
    let extraction = client.extractions().run_extraction(run).await.unwrap().into_inner().extraction.unwrap();
    let member = AddMemberRequest {
        member: Some(Member { name: "same".into(), role: v1::Role::Member.into(), ..Default::default() }),
        request_id: "same-member".into(),
    };
    let member = client.organizations().add_member(member).await.unwrap().into_inner().member.unwrap().user_id;
    let token =
        Token { name: "same".into(), user_id: member.clone(), role: v1::Role::Viewer.into(), ..Default::default() };
    let token = CreateTokenRequest { token: Some(token), request_id: "same".into(), ..Default::default() };
    let token = client.tokens().create_token(token).await.unwrap().into_inner().token.unwrap().token_id;
    set_models(client, whose).await;
    // A turn that waits for approval.
    server.model.next(Answer::Calls(vec![("create_tag", serde_json::json!({ "name": "written" }))]));
    let chat = ChatRequest { text: "write".into(), document_ids: vec![document.clone()], ..Default::default() };
    let mut events = client.conversations().chat(chat).await.unwrap().into_inner();
    let mut turn = String::new();
    while let Some(ChatResponse { event: Some(event) }) = events.message().await.unwrap() {
        turn = event.turn_id;
    }
    let thread = turn.strip_suffix(".1").unwrap().to_owned();
    let (organization, extraction) = (client.org.to_string(), extraction.extraction_id);
    let (provider, model) = (format!("of-{whose}"), whose.to_owned());
    Ids { organization, document, tag, schema, prompt, extraction, thread, member, token, provider, model }
}

/// Sets two providers, one of a name that the other organization uses as well, with a model of a shared name and one of
/// its own.
async fn set_models(client: &Client, whose: &str) {
    let model = |name: &str| ProviderModel {
        name: name.to_owned(),
        enabled: true,
        chat: true,
        prompts: true,
        input_price_microdollars: Some(whose.len() as u64),
        ..Default::default()
    };
    for (name, models) in [("same", vec![model("same"), model(whose)]), (&*format!("of-{whose}"), Vec::new())] {
        let provider = Provider {
            name: name.to_owned(),
            base_url: format!("https://{whose}.example/v1"),
            models,
            api_key: format!("sk-{whose}"),
            ..Default::default()
        };
        let request = UpdateProviderRequest { provider: Some(provider), ..Default::default() };
        client.providers().update_provider(request).await.unwrap();
    }
}

/// Operations that name a provider or a model: a missing one is a failed precondition or an invalid field.
const NAMED_MODELS: &[&str] = &["TestProvider", "SetModelDefaults", "DiscoverModels", "DeleteProvider"];

#[tokio::test]
async fn invariant_6_every_operation_answers_a_foreign_resource_like_a_missing_one() {
    let server = Server::start().await;
    let (us, them) = (OrgId::generate(&System), OrgId::generate(&System));
    // Even an admin is an admin of the own organization only.
    let (us, them) = (server.user(&us, Role::Admin).await, server.user(&them, Role::Admin).await);
    let (foreign, own) = (furnish(&server, &them, "theirs").await, furnish(&server, &us, "ours").await);
    let missing = Ids::missing();
    let described = described(&server).await;
    let asked = server.model.asked();
    let mut operations: Vec<_> = operations().collect();
    // The audit log comes first: later it contains the foreign ids that the caller sent itself.
    operations.sort_by_key(|operation| operation.service.name != "AuditService");
    for operation in operations {
        let path = rpc_path(operation);
        let rpc = described.iter().find(|rpc| rpc.path == path).unwrap();
        let pairs = samples(operation, &own, &foreign).into_iter().zip(samples(operation, &own, &missing));
        for (of_theirs, of_nobody) in pairs {
            let names_nothing = of_theirs == of_nobody;
            let answer = answered(&us, rpc, of_theirs).await;
            if let Err(error) = &answer {
                let expected = match error.code {
                    Code::PermissionDenied => operation.platform,
                    Code::NotFound => !names_nothing,
                    Code::FailedPrecondition | Code::InvalidArgument => NAMED_MODELS.contains(&operation.name),
                    _ => false,
                };
                assert!(expected, "{path}: {error:?}");
            }
            let answer = shown(answer);
            if names_nothing {
                let leaked = foreign.all().into_iter().find(|id| answer.contains(*id));
                assert_eq!(leaked, None, "{path}: {answer}");
            } else {
                let of_nobody = shown(answered(&us, rpc, of_nobody).await);
                assert_eq!(foreign.hidden_in(&answer), missing.hidden_in(&of_nobody), "{path}");
            }
        }
    }
    assert_eq!(server.model.asked(), asked, "no model is called for another organization");
    untouched(&server, &them, &foreign).await;
    server.stop().await;
}

async fn answered(client: &Client, rpc: &Described, request: Request) -> Result<Vec<u8>, folio_types::Error> {
    call(client, rpc, request).await.map_err(|status| status::to_error(&status))
}

/// An answer as text: the first message, or the error with its details.
fn shown(answer: Result<Vec<u8>, folio_types::Error>) -> String {
    answer.map_or_else(|error| format!("{error:?}"), |message| String::from_utf8_lossy(&message).into_owned())
}

/// Checks that the other organization's resources are as they were created, and its turn still waits.
async fn untouched(server: &Server, them: &Client, theirs: &Ids) {
    let request = GetDocumentRequest { document_id: theirs.document.clone() };
    let document = them.documents().get_document(request).await.unwrap().into_inner().document.unwrap();
    assert_eq!((document.name.as_str(), document.tag_ids.len()), ("same.txt", 0));
    let tag = them.tags().get_tag(GetTagRequest { tag_id: theirs.tag.clone() }).await.unwrap().into_inner();
    assert_eq!(tag.tag.unwrap().name, "same");
    let request = GetSchemaRevisionRequest { schema_revid: theirs.schema.clone() };
    let schema = them.schemas().get_schema_revision(request).await.unwrap().into_inner().schema_revision.unwrap();
    assert_eq!((schema.name.as_str(), schema.revision), ("same", 1));
    let own = them.organizations().get_organization(GetOrganizationRequest::default()).await.unwrap().into_inner();
    assert_eq!(own.organization.unwrap().name, "test");
    let policy = them.policies().get_policy(GetPolicyRequest::default()).await.unwrap().into_inner().policy;
    assert_eq!(policy, Some(Policy::default()));
    let members = them.organizations().list_members(ListMembersRequest::default()).await.unwrap().into_inner();
    assert_eq!(members.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["same"]);
    let models = ListModelsRequest { filter: "provider:same".into(), order_by: "name".into(), ..Default::default() };
    let models = them.models().list_models(models).await.unwrap().into_inner().models;
    let priced: Vec<_> = models.iter().map(|model| (model.name.as_str(), model.input_price_microdollars)).collect();
    assert_eq!(priced, [("same", Some(6)), ("theirs", Some(6))]);
    let rejected =
        ApproveRequest { turn_id: theirs.turn(), round: 1, undecided: Undecided::Reject.into(), ..Default::default() };
    server.model.answer("Made.");
    let answer = them.conversations().approve(rejected).await.unwrap().into_inner();
    assert!(matches!(answer.outcome, Some(approve_response::Outcome::Completed(_))), "{answer:?}");
}

/// A request id of one organization has no meaning in another.
#[tokio::test]
async fn invariant_6_request_ids_never_meet() {
    let server = Server::start().await;
    let (us, them) = (server.member().await, server.member().await);
    let create = |name: &str| CreateTagRequest {
        tag: Some(Tag { name: name.into(), ..Default::default() }),
        request_id: "same".into(),
    };
    let theirs = them.tags().create_tag(create("theirs")).await.unwrap().into_inner().tag.unwrap();
    let ours = us.tags().create_tag(create("ours")).await.unwrap().into_inner().tag.unwrap();
    assert_ne!(theirs.tag_id, ours.tag_id);
    let first = them.upload("a.txt", "theirs", "same-file").await.unwrap();
    let second = us.upload("a.txt", "ours", "same-file").await.unwrap();
    assert_ne!(first.document_id, second.document_id);
    let schema = CreateSchemaRequest {
        schema: Some(Schema { name: "s".into(), response_format_json: format("total"), ..Default::default() }),
        request_id: "same-schema".into(),
        ..Default::default()
    };
    let theirs = them.schemas().create_schema(schema.clone()).await.unwrap().into_inner().schema.unwrap();
    let ours = us.schemas().create_schema(schema).await.unwrap().into_inner().schema.unwrap();
    assert_ne!(theirs.schema_id, ours.schema_id);
    assert_eq!(ours.revision, 1);
    server.stop().await;
}
