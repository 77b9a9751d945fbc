//! Invariant 6: tenants never meet. What belongs to another organization looks exactly like what is missing.

use std::collections::BTreeSet;

use folio_operations::operations;
use folio_proto::v1::*;
use folio_types::{Code, Error, OrgId, Reason, Role, System};
use futures::StreamExt as _;

use crate::harness::{Client, Server, format, refused};

/// Everything that one organization has, under names that the other has too.
struct Belongings {
    document: Document,
    tag: Tag,
    schema: Schema,
    prompt: Prompt,
    extraction: Extraction,
    member: String,
    token: String,
}

async fn furnish(server: &Server, client: &Client) -> Belongings {
    let document = client.ready_document("same.txt", "Total 12.50").await;
    let (tag, schema) = (client.tag("same").await, client.schema("same", "total").await);
    let prompt = client.prompt("same", &schema.schema_id).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let run = RunExtractionRequest {
        document_id: document.document_id.clone(),
        prompt_revid: prompt.prompt_id.clone(),
        ..Default::default()
    };
    let extraction = client.extractions().run_extraction(run).await.unwrap().into_inner().extraction.unwrap();
    let member = AddMemberRequest {
        member: Some(Member { name: "same".into(), role: folio_proto::v1::Role::Member.into(), ..Default::default() }),
        request_id: "same-member".into(),
    };
    let member = client.organizations().add_member(member).await.unwrap().into_inner().member.unwrap().user_id;
    let token = CreateTokenRequest {
        token: Some(Token {
            name: "same".into(),
            user_id: member.clone(),
            role: folio_proto::v1::Role::Viewer.into(),
            ..Default::default()
        }),
        request_id: "same".into(),
        ..Default::default()
    };
    let token = client.tokens().create_token(token).await.unwrap().into_inner().token.unwrap().token_id;
    Belongings { document, tag, schema, prompt, extraction, member, token }
}

/// The calls of some services, in lower case.
pub(crate) fn calls_of(wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    operations()
        .filter(|operation| wanted(operation.service.name))
        .map(|operation| operation.name.to_lowercase())
        .collect()
}

/// Calls with a foreign id and with a missing one, and compares.
macro_rules! strangers {
    ($client:expr, $seen:ident; $($service:ident.$call:ident(|$id:ident| $request:expr) on $foreign:expr, $missing:expr;)+) => {
        $({
            let ask = async |$id: String| crate::harness::refused($client.$service().$call($request).await, stringify!($call));
            let (theirs, nobodys) = (String::from($foreign.as_str()), String::from($missing.as_str()));
            let (foreign, missing) = (ask(theirs.clone()).await, ask(nobodys.clone()).await);
            crate::tenants::alike(stringify!($call), &foreign, &theirs, &missing, &nobodys);
            $seen.insert(stringify!($call).replace('_', ""));
        })+
    };
}
pub(crate) use strangers;

pub(crate) fn alike(call: &str, foreign: &Error, foreign_id: &str, missing: &Error, missing_id: &str) {
    assert_eq!(foreign.code, Code::NotFound, "{call}: {foreign}");
    let plain = |error: &Error, id: &str| {
        let mut error = error.clone();
        // A turn that nobody may see is answered by its thread.
        let owner = id.split('.').next().unwrap_or(id);
        error.message = error.message.replace(owner, "ID");
        for value in error.details.values_mut() {
            *value = value.replace(owner, "ID");
        }
        error
    };
    assert_eq!(plain(foreign, foreign_id), plain(missing, missing_id), "{call}");
}

#[tokio::test]
async fn invariant_6_two_organizations_with_the_same_names_never_meet() {
    let server = Server::start().await;
    let (ours, theirs) = (OrgId::generate(&System), OrgId::generate(&System));
    // Even an admin is one of the own organization only.
    let (us, them) = (server.user(&ours, Role::Admin).await, server.user(&theirs, Role::Admin).await);
    let have = furnish(&server, &them).await;
    let own = furnish(&server, &us).await;
    let no_document = folio_types::DocumentId::derive(&["x"]).to_string();
    let no_tag = folio_types::TagId::derive(&["x"]).to_string();
    let no_schema = folio_types::SchemaId::derive(&["x"]).to_string();
    let no_prompt = folio_types::PromptId::derive(&["x"]).to_string();
    let no_extraction = folio_types::ExtractionId::derive(&["x"]).to_string();
    let no_user = folio_types::UserId::derive(&["x"]).to_string();
    let no_org = OrgId::derive(&["x"]).to_string();
    let no_token = "0".repeat(24);
    let (document, tag) = (have.document.document_id, have.tag.tag_id);
    let (schema, prompt) = (have.schema.schema_id, have.prompt.prompt_id);
    let extraction = have.extraction.extraction_id;
    let revision = |id: &str| format!("{id}.1");
    let mut seen = BTreeSet::new();
    strangers! { us, seen;
        documents.get_document(|id| GetDocumentRequest { document_id: id }) on document, no_document;
        documents.download_document(|id| DownloadDocumentRequest { document_id: id }) on document, no_document;
        documents.update_document(|id| UpdateDocumentRequest { document: Some(Document { document_id: id, name: "mine".into(), ..Default::default() }), ..Default::default() }) on document, no_document;
        documents.delete_document(|id| DeleteDocumentRequest { document_id: id, ..Default::default() }) on document, no_document;
        documents.get_document_text(|id| GetDocumentTextRequest { document_id: id, ..Default::default() }) on document, no_document;
        schemas.get_schema_revision(|id| GetSchemaRevisionRequest { schema_revid: id }) on schema, no_schema;
        schemas.get_schema_revision(|id| GetSchemaRevisionRequest { schema_revid: id }) on revision(&schema), revision(&no_schema);
        schemas.list_schema_revisions(|id| ListSchemaRevisionsRequest { schema_id: id, ..Default::default() }) on schema, no_schema;
        schemas.update_schema(|id| UpdateSchemaRequest { schema: Some(Schema { schema_id: id, name: "mine".into(), ..Default::default() }), ..Default::default() }) on schema, no_schema;
        schemas.delete_schema(|id| DeleteSchemaRequest { schema_id: id, ..Default::default() }) on schema, no_schema;
        schemas.validate_data(|id| ValidateDataRequest { schema_revid: id, data_json: "{}".into() }) on revision(&schema), revision(&no_schema);
        prompts.create_prompt(|id| CreatePromptRequest { prompt: Some(Prompt { name: "n".into(), content: "c".into(), schema_revid: id, ..Default::default() }), ..Default::default() }) on revision(&schema), revision(&no_schema);
        prompts.create_prompt(|id| CreatePromptRequest { prompt: Some(Prompt { name: "n".into(), content: "c".into(), tag_ids: vec![id], ..Default::default() }), ..Default::default() }) on tag, no_tag;
        prompts.get_prompt_revision(|id| GetPromptRevisionRequest { prompt_revid: id }) on prompt, no_prompt;
        prompts.get_prompt_revision(|id| GetPromptRevisionRequest { prompt_revid: id }) on revision(&prompt), revision(&no_prompt);
        prompts.list_prompt_revisions(|id| ListPromptRevisionsRequest { prompt_id: id, ..Default::default() }) on prompt, no_prompt;
        prompts.update_prompt(|id| UpdatePromptRequest { prompt: Some(Prompt { prompt_id: id, name: "mine".into(), ..Default::default() }), ..Default::default() }) on prompt, no_prompt;
        prompts.update_prompt(|id| UpdatePromptRequest { prompt: Some(Prompt { prompt_id: own.prompt.prompt_id.clone(), tag_ids: vec![id], ..Default::default() }), ..Default::default() }) on tag, no_tag;
        prompts.delete_prompt(|id| DeletePromptRequest { prompt_id: id, ..Default::default() }) on prompt, no_prompt;
        prompts.validate_prompt_data(|id| ValidatePromptDataRequest { prompt_revid: id, data_json: "{}".into() }) on revision(&prompt), revision(&no_prompt);
        tags.get_tag(|id| GetTagRequest { tag_id: id }) on tag, no_tag;
        tags.update_tag(|id| UpdateTagRequest { tag: Some(Tag { tag_id: id, name: "mine".into(), ..Default::default() }), ..Default::default() }) on tag, no_tag;
        tags.delete_tag(|id| DeleteTagRequest { tag_id: id, ..Default::default() }) on tag, no_tag;
        documents.update_document(|id| UpdateDocumentRequest { document: Some(Document { document_id: own.document.document_id.clone(), tag_ids: vec![id], ..Default::default() }), ..Default::default() }) on tag, no_tag;
        extractions.run_extraction(|id| RunExtractionRequest { document_id: id, prompt_revid: own.prompt.prompt_id.clone(), ..Default::default() }) on document, no_document;
        extractions.run_extraction(|id| RunExtractionRequest { document_id: own.document.document_id.clone(), prompt_revid: id, ..Default::default() }) on prompt, no_prompt;
        extractions.get_extraction(|id| GetExtractionRequest { extraction_id: id }) on extraction, no_extraction;
        extractions.update_extraction_field(|id| UpdateExtractionFieldRequest { extraction_id: id, path: "total".into(), value_json: "1".into(), ..Default::default() }) on extraction, no_extraction;
        extractions.replace_extraction(|id| ReplaceExtractionRequest { extraction_id: id, data_json: "{}".into(), ..Default::default() }) on extraction, no_extraction;
        extractions.verify_extraction(|id| VerifyExtractionRequest { extraction_id: id, verified: true, ..Default::default() }) on extraction, no_extraction;
        extractions.delete_extraction(|id| DeleteExtractionRequest { extraction_id: id, ..Default::default() }) on extraction, no_extraction;
        usages.get_balance(|id| GetBalanceRequest { organization_id: id }) on them.org.to_string(), no_org;
        extractions.list_extractions(|id| ListExtractionsRequest { document_id: id, ..Default::default() }) on document, no_document;
        tokens.revoke_token(|id| RevokeTokenRequest { token_id: id, ..Default::default() }) on have.token, no_token;
        tokens.create_token(|id| CreateTokenRequest { token: Some(Token { name: "n".into(), role: folio_proto::v1::Role::Viewer.into(), user_id: id, ..Default::default() }), ..Default::default() }) on have.member, no_user;
        organizations.get_organization(|id| GetOrganizationRequest { organization_id: id }) on them.org.to_string(), no_org;
        limits.get_limits(|id| GetLimitsRequest { organization_id: id }) on them.org.to_string(), no_org;
        policies.get_policy(|id| GetPolicyRequest { organization_id: id }) on them.org.to_string(), no_org;
        organizations.update_member(|id| UpdateMemberRequest { member: Some(Member { user_id: id, name: "mine".into(), ..Default::default() }), ..Default::default() }) on have.member, no_user;
        organizations.remove_member(|id| RemoveMemberRequest { user_id: id, ..Default::default() }) on have.member, no_user;
    }
    // No id, but a name: what others called so is missing.
    set_models(&us, "ours", 5).await;
    set_models(&them, "theirs", 7).await;
    strangers! { us, seen;
        providers.discover_models(|id| DiscoverModelsRequest { name: id, ..Default::default() }) on "of-theirs".to_owned(), "of-nobody".to_owned();
    }
    models_are_the_own_only(&server, &us, &mut seen).await;
    lists_show_the_own_only(&us, &mut seen).await;
    seen.extend(["createtag", "createschema", "uploaddocument"].map(str::to_owned));
    // These name nothing of an organization.
    seen.extend(["validateschema", "validateprompt"].map(str::to_owned));
    // These are the platform administrator's: a role, and no organization, says who may.
    seen.extend(["createorganization", "listorganizations", "setlimits", "deleteorganization"].map(str::to_owned));
    // These name nothing either, and are tried in `credits.rs`; what is given is a role's, and no organization's, to give.
    seen.extend(["getusage", "downloadusage", "grantcredit", "withdrawcredit"].map(str::to_owned));
    // These name what the caller's organization set itself, and are tried in `providers.rs`.
    seen.extend(["listproviders", "updateprovider", "deleteprovider", "setmodeldefaults"].map(str::to_owned));
    let here = |service: &str| !matches!(service, "ConversationService" | "ThreadService");
    assert_eq!(seen, calls_of(here), "each call is tried across organizations");
    untouched(&them, &document, &tag, &schema).await;
    server.stop().await;
}

/// A request id of one organization says nothing to another.
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

/// Two providers, one of a name that the other organization has too, with a model of a name that it has too.
async fn set_models(client: &Client, whose: &str, price: u64) {
    let model = |name: &str| ProviderModel {
        name: name.to_owned(),
        enabled: true,
        chat: true,
        prompts: true,
        input_price_microdollars: Some(price),
        ..Default::default()
    };
    for (name, models) in [("same", vec![model("same"), model(whose)]), (format!("of-{whose}").as_str(), Vec::new())] {
        let request = UpdateProviderRequest {
            provider: Some(Provider {
                name: name.to_owned(),
                base_url: format!("https://{whose}.example/v1"),
                models,
                api_key: format!("sk-{whose}"),
                ..Default::default()
            }),
            ..Default::default()
        };
        client.providers().update_provider(request).await.unwrap();
    }
}

async fn models_are_the_own_only(server: &Server, us: &Client, seen: &mut BTreeSet<String>) {
    let list = ListModelsRequest { filter: "provider:same".into(), order_by: "name".into(), ..Default::default() };
    let listed = us.models().list_models(list).await.unwrap().into_inner();
    let priced: Vec<_> =
        listed.models.iter().map(|model| (model.name.as_str(), model.input_price_microdollars)).collect();
    assert_eq!(priced, [("ours", Some(5)), ("same", Some(5))]);
    let test = async |name: &str, model: &str| {
        let request = TestProviderRequest { name: name.into(), model: model.into(), ..Default::default() };
        us.providers().test_provider(request).await
    };
    for (foreign, missing) in [(("same", "theirs"), ("same", "nobodys")), (("of-theirs", ""), ("of-nobody", ""))] {
        let plain = |error: Error, name: &str| format!("{error:?}").replace(name, "NAME");
        let of_theirs = refused(test(foreign.0, foreign.1).await, "a model of others");
        assert_eq!(of_theirs.reason, Reason::ModelNotAvailable, "{of_theirs}");
        let of_nobody = refused(test(missing.0, missing.1).await, "a model of nobody");
        assert_eq!(plain(of_theirs, foreign.0), plain(of_nobody, missing.0));
    }
    let asked = server.model.asked();
    server.model.answer("ready");
    let tested = test("same", "same").await.unwrap().into_inner();
    assert!(tested.answered && server.model.asked() == asked + 1, "{tested:?}");
    seen.extend(["listmodels", "testprovider"].map(str::to_owned));
}

async fn lists_show_the_own_only(us: &Client, seen: &mut BTreeSet<String>) {
    let documents = us.documents().list_documents(ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(documents.total_size, 1);
    let tags = us.tags().list_tags(ListTagsRequest { filter: "name:same".into(), ..Default::default() }).await;
    assert_eq!(tags.unwrap().into_inner().total_size, 1);
    let schemas = us.schemas().list_schemas(ListSchemasRequest::default()).await.unwrap().into_inner();
    assert_eq!(schemas.total_size, 1);
    let prompts = us.prompts().list_prompts(ListPromptsRequest::default()).await.unwrap().into_inner();
    assert_eq!(prompts.total_size, 1);
    let tokens = us.tokens().list_tokens(ListTokensRequest::default()).await.unwrap().into_inner();
    assert_eq!(tokens.total_size, 2, "{tokens:?}");
    let members = us.organizations().list_members(ListMembersRequest::default()).await.unwrap().into_inner();
    assert_eq!(members.total_size, 1, "{members:?}");
    let own = us.organizations().get_organization(GetOrganizationRequest::default()).await.unwrap().into_inner();
    assert_eq!(own.organization.unwrap().organization_id, us.org.to_string());
    let rename = UpdateOrganizationRequest {
        organization: Some(Organization { name: "ours".into(), ..Default::default() }),
        ..Default::default()
    };
    us.organizations().update_organization(rename).await.unwrap();
    let rule =
        PolicyRule { name: "ours".into(), ruling: Some(policy_rule::Ruling::Deny(Deny {})), ..Default::default() };
    let policy = Some(Policy { rules: vec![rule], ..Default::default() });
    us.policies().set_policy(SetPolicyRequest { policy, ..Default::default() }).await.unwrap();
    seen.insert("setpolicy".to_owned());
    let audited = us.audits().list_audit_entries(ListAuditEntriesRequest::default()).await.unwrap().into_inner();
    assert!(!audited.entries.is_empty());
    assert!(audited.entries.iter().all(|entry| entry.user_id == us.user.to_string()), "{audited:?}");
    let parts = us.audits().download_audit_entries(DownloadAuditEntriesRequest::default()).await.unwrap().into_inner();
    let lines: Vec<String> = parts.map(|part| part.unwrap().json_lines).collect().await;
    let lines = lines.concat();
    assert_eq!(lines.lines().count(), audited.entries.len(), "{lines}");
    for line in lines.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(entry["user"], us.user.to_string(), "{line}");
    }
    seen.extend(["listauditentries", "downloadauditentries"].map(str::to_owned));
    seen.extend(["listdocuments", "listtags", "listschemas", "listprompts"].map(str::to_owned));
    seen.extend(["listtokens", "listmembers", "addmember", "getorganization", "updateorganization"].map(str::to_owned));
}

async fn untouched(them: &Client, document: &str, tag: &str, schema: &str) {
    let found = them.documents().get_document(GetDocumentRequest { document_id: document.into() }).await.unwrap();
    assert_eq!(found.into_inner().document.unwrap().name, "same.txt");
    let found = them.tags().get_tag(GetTagRequest { tag_id: tag.into() }).await.unwrap();
    assert_eq!(found.into_inner().tag.unwrap().name, "same");
    let request = GetSchemaRevisionRequest { schema_revid: schema.into() };
    let found = them.schemas().get_schema_revision(request).await.unwrap();
    assert_eq!(found.into_inner().schema_revision.unwrap().name, "same");
    let own = them.organizations().get_organization(GetOrganizationRequest::default()).await.unwrap().into_inner();
    assert_eq!(own.organization.unwrap().name, "test");
    let policy = them.policies().get_policy(GetPolicyRequest::default()).await.unwrap().into_inner().policy;
    assert_eq!(policy, Some(Policy::default()));
    let members = them.organizations().list_members(ListMembersRequest::default()).await.unwrap().into_inner();
    assert_eq!(members.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["same"]);
}
