//! Invariant 6: two organizations on one server are isolated, although their resources have the same names. The
//! gateway's own tests call every RPC.

use folio_proto::v1;
use folio_resources::NewToken;
use folio_tests::harness::tenant;
use folio_types::token::Token;
use folio_types::{OrgId, Role, System, UserId};

use crate::client::{Client, ask};
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = "
rules:
  - when: {response_format: true}
    answer: {text: '{\"total\": 957}'}
";

const FORMAT: &str = r#"{"type":"json_schema","json_schema":{"name":"bill","strict":true,"schema":{"type":"object","properties":{"total":{"type":"number"}},"required":["total"],"additionalProperties":false}}}"#;

/// Ids of the resources of an organization. The other organization has the same, under the same names and request ids.
struct TenantResources {
    document: String,
    tag: String,
    schema: String,
    schema_revid: String,
    prompt: String,
    prompt_revid: String,
    extraction: String,
}

async fn create_resources(client: &Client) -> TenantResources {
    let mut c = client.clone();
    let document = client.upload("same.txt", INVOICE.as_bytes()).await;
    let tag = v1::CreateTagRequest {
        tag: Some(v1::Tag { name: "same".into(), ..Default::default() }),
        request_id: "tag".into(),
    };
    let tag = c.tags.create_tag(tag).await.unwrap().into_inner().tag.unwrap().tag_id;
    let schema = v1::CreateSchemaRequest {
        schema: Some(v1::Schema { name: "same".into(), response_format_json: FORMAT.into(), ..Default::default() }),
        request_id: "schema".into(),
        ..Default::default()
    };
    let v1::Schema { schema_id: schema, schema_revid, .. } =
        c.schemas.create_schema(schema).await.unwrap().into_inner().schema.unwrap();
    let content = v1::Prompt {
        name: "same".into(),
        content: "Extract.".into(),
        schema_revid: schema_revid.clone(),
        tag_ids: vec![tag.clone()],
        ..Default::default()
    };
    let prompt = v1::CreatePromptRequest { prompt: Some(content), request_id: "prompt".into() };
    let v1::Prompt { prompt_id: prompt, prompt_revid, .. } =
        c.prompts.create_prompt(prompt).await.unwrap().into_inner().prompt.unwrap();
    let run = v1::RunExtractionRequest {
        document_id: document.clone(),
        prompt_revid: prompt_revid.clone(),
        request_id: "run".into(),
        ..Default::default()
    };
    let extraction = c.extractions.run_extraction(run).await.unwrap().into_inner().extraction.unwrap().extraction_id;
    TenantResources { document, tag, schema, schema_revid, prompt, prompt_revid, extraction }
}

/// Creates a second organization next to the first: an admin of each, and its resources.
async fn create_tenants(sandbox: &mut Sandbox) -> [(Client, TenantResources); 2] {
    let token = sandbox
        .offline(async |stores| {
            let org = OrgId::generate(&System);
            tenant::create_organization(&stores, &org, "other").await;
            let token = Token::generate(&org, &System);
            // The user id equals that of the first organization's admin.
            let new = NewToken::new(&token, UserId::derive(&["first user"]), Role::Admin, "other");
            tenant::store_token(&stores, &token, new).await;
            token.reveal()
        })
        .await;
    let (us, them) = (sandbox.client().await, Client::connect(&sandbox.url(), Some(&token)).await);
    let (ours, theirs) = (create_resources(&us).await, create_resources(&them).await);
    [(us, ours), (them, theirs)]
}

#[tokio::test]
async fn invariant_6_neither_a_mention_nor_a_tool_reaches_another_organization() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let [(us, ours), (_, theirs)] = create_tenants(&mut sandbox).await;
    let TenantResources { document, tag, schema, schema_revid, prompt, prompt_revid, extraction, .. } = &theirs;
    let reads = format!(
        "[{{name: get_schema, arguments: {{schema_revid: {schema_revid}}}}}, \
          {{name: validate_against_schema, arguments: {{schema_revid: {schema_revid}, data: {{}}}}}}, \
          {{name: get_prompt, arguments: {{prompt_revid: {prompt_revid}}}}}, \
          {{name: get_tag, arguments: {{tag_id: {tag}}}}}, \
          {{name: get_extraction_result, arguments: {{prompt_revid: {prompt_revid}}}}}]"
    );
    let writes = format!(
        "[{{name: run_extraction, arguments: {{prompt_revid: {prompt_revid}}}}}, \
          {{name: update_document, arguments: {{document_id: {document}, document_name: mine}}}}, \
          {{name: delete_document, arguments: {{document_id: {document}}}}}, \
          {{name: update_schema, arguments: {{schema_id: {schema}, name: mine}}}}, \
          {{name: delete_schema, arguments: {{schema_id: {schema}}}}}, \
          {{name: update_prompt, arguments: {{prompt_id: {prompt}, content: mine}}}}, \
          {{name: delete_prompt, arguments: {{prompt_id: {prompt}}}}}, \
          {{name: update_tag, arguments: {{tag_id: {tag}, name: mine}}}}, \
          {{name: delete_tag, arguments: {{tag_id: {tag}}}}}, \
          {{name: create_prompt, arguments: {{name: new, content: c, tag_ids: [{tag}]}}}}]"
    );
    let lists = "[{name: list_documents}, {name: list_tags}, {name: list_schemas}, \
                  {name: list_prompts}]";
    let script = format!(
        "rules: [{{when: {{user: pry}}, rounds: [{{calls: {reads}}}, {{calls: {writes}}}, {{calls: {lists}}}, {{text: Tried.}}]}}]"
    );
    sandbox.sim.set_script(&script).await;
    use v1::mention::Target;
    let mention = |target| v1::Mention { target: Some(target) };
    let request = v1::ChatRequest {
        auto_approve: true,
        mentions: vec![
            mention(Target::SchemaRevid(schema_revid.clone())),
            mention(Target::PromptRevid(prompt_revid.clone())),
            mention(Target::TagId(tag.clone())),
        ],
        ..ask(&ours.document, "pry")
    };
    let rounds = us.send(request).await.unwrap().completed().await.rounds;
    let system = sandbox.sim.chat_requests().await.pop().unwrap().body["messages"][0]["content"].to_string();
    assert_eq!(system.matches("Not found: it was deleted or never existed.").count(), 3, "{system}");
    for round in &rounds[..2] {
        for (call, result) in round.calls.iter().zip(&round.results) {
            let result_text = (result.status(), result.content.to_lowercase());
            assert_eq!(result_text.0, v1::CallStatus::Failed, "{}: {result_text:?}", call.name);
            let missing = ["there is no", "not found", "no extraction", "does not exist"];
            assert!(missing.iter().any(|words| result_text.1.contains(words)), "{}: {result_text:?}", call.name);
        }
    }
    let listed: String = rounds[2].results.iter().map(|result| result.content.as_str()).collect();
    for id in [document, tag, schema, prompt, extraction] {
        assert!(!listed.contains(id.as_str()), "{id} in {listed}");
    }
    for id in [&ours.document, &ours.tag, &ours.schema, &ours.prompt] {
        assert!(listed.contains(id.as_str()), "{id} in {listed}");
    }
}
