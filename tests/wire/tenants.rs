//! Invariant 6: two organizations on one server, with the same names, never meet. A resource of another organization
//! looks like a missing one.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_resources::NewToken;
use folio_tests::harness::tenant;
use folio_types::token::Token;
use folio_types::{Code, OrgId, Role, System, UserId};
use tonic::Status;

use crate::client::{Client, approved, ask, decide, refused};
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = "
rules:
  - when: {response_format: true}
    answer: {text: '{\"total\": 957}'}
  - when: {user: write}
    rounds:
      - calls: [{name: create_tag, arguments: {name: written}}]
      - text: Made.
  - answer: {text: Hello.}
";

const FORMAT: &str = r#"{"type":"json_schema","json_schema":{"name":"bill","strict":true,"schema":{"type":"object","properties":{"total":{"type":"number"}},"required":["total"],"additionalProperties":false}}}"#;

/// Resources of an organization. The other organization has the same, under the same names and request ids.
struct Belongings {
    document: String,
    tag: String,
    schema: String,
    schema_revid: String,
    prompt: String,
    prompt_revid: String,
    extraction: String,
    thread: String,
    completed: String,
    waiting: v1::AwaitingApproval,
}

async fn furnish(client: &Client) -> Belongings {
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
    let schema = c.schemas.create_schema(schema).await.unwrap().into_inner().schema.unwrap();
    let schema_revid = schema.schema_revid;
    let content = v1::Prompt {
        name: "same".into(),
        content: "Extract.".into(),
        schema_revid: schema_revid.clone(),
        tag_ids: vec![tag.clone()],
        ..Default::default()
    };
    let prompt = v1::CreatePromptRequest { prompt: Some(content), request_id: "prompt".into() };
    let prompt = c.prompts.create_prompt(prompt).await.unwrap().into_inner().prompt.unwrap();
    let prompt_revid = prompt.prompt_revid;
    let run = v1::RunExtractionRequest {
        document_id: document.clone(),
        prompt_revid: prompt_revid.clone(),
        request_id: "run".into(),
        ..Default::default()
    };
    let extraction = c.extractions.run_extraction(run).await.unwrap().into_inner().extraction.unwrap().extraction_id;
    let stream = client.send(v1::ChatRequest { request_id: "chat".into(), ..ask(&document, "hello") }).await.unwrap();
    let (thread, completed) = (stream.thread(), stream.turn());
    stream.completed().await;
    let waiting = client.say(&thread, "write").await.pause().await;
    Belongings {
        document,
        tag,
        schema: schema.schema_id,
        schema_revid,
        prompt: prompt.prompt_id,
        prompt_revid,
        extraction,
        thread,
        completed,
        waiting,
    }
}

/// Creates a second organization next to the first: an admin of each, and its resources.
async fn two(sandbox: &mut Sandbox) -> [(Client, Belongings); 2] {
    let token = sandbox
        .offline(async |stores| {
            let org = OrgId::generate(&System);
            tenant::organization(&stores, &org, "other").await;
            let token = Token::generate(&org, &System);
            // The same user id as in the first one: only the organization differs.
            let new = NewToken::new(&token, UserId::derive(&["first user"]), Role::Admin, "other");
            tenant::store_token(&stores, &token, new).await;
            token.reveal()
        })
        .await;
    let (us, them) = (sandbox.client().await, Client::connect(&sandbox.url(), Some(&token)).await);
    let (ours, theirs) = (furnish(&us).await, furnish(&them).await);
    [(us, ours), (them, theirs)]
}

#[tokio::test]
async fn invariant_6_resources_of_another_organization_are_not_found() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let [(us, ours), (them, theirs)] = two(&mut sandbox).await;
    assert!(ours.thread != theirs.thread && ours.completed != theirs.completed, "a request id is its organization's");
    for (client, foreign) in [(&us, &theirs), (&them, &ours)] {
        for (call, answer) in trespass(client, foreign).await {
            let error = match answer {
                Ok(()) => panic!("{call}: it was answered"),
                Err(status) => refused::<()>(Err(status)),
            };
            assert_eq!((error.code, error.reason.as_str()), (Code::NotFound, "NOT_FOUND"), "{call}: {error:?}");
        }
    }
    let calls = sandbox.sim.chats().await.len();
    assert_eq!(calls, 2 * 3, "one extraction and two turns each; refused requests call no model");
    for (client, own) in [(&us, &ours), (&them, &theirs)] {
        has_its_own_only(client, own).await;
    }
}

/// Calls some RPCs with the other organization's ids: one that the gateway answers from the stores, and those that a
/// node answers. The gateway's own tests call every RPC.
async fn trespass(client: &Client, foreign: &Belongings) -> Vec<(&'static str, Result<(), Status>)> {
    let get = v1::GetDocumentRequest { document_id: foreign.document.clone() };
    let on = v1::ChatRequest { document_ids: Vec::new(), thread_id: foreign.thread.clone(), ..ask("", "hello") };
    let turn = &foreign.waiting.turn_id;
    vec![
        ("get_document", client.documents.clone().get_document(get).await.map(drop)),
        ("chat about", client.send(ask(&foreign.document, "hello")).await.map(drop)),
        ("chat on", client.send(on).await.map(drop)),
        ("get_turn", client.try_turn(turn).await.map(drop)),
        ("watch_turn", client.watch(turn, 0).await.map(drop)),
        ("approve", client.approve(decide(&foreign.waiting, approved)).await.map(drop)),
        ("cancel_turn", client.cancel(turn).await.map(drop)),
        ("resume_turn", client.resume(&foreign.completed).await.map(drop)),
    ]
}

/// Checks that lists and counts contain nothing of another organization, and that the own resources are unchanged.
async fn has_its_own_only(client: &Client, own: &Belongings) {
    let mut c = client.clone();
    let documents = c.documents.list_documents(v1::ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(documents.total_size, 1);
    assert_eq!(
        (&documents.documents[0].document_id, documents.documents[0].name.as_str()),
        (&own.document, "same.txt")
    );
    let tags = c.tags.list_tags(v1::ListTagsRequest { filter: "name:same".into(), ..Default::default() }).await;
    let tags = tags.unwrap().into_inner();
    assert_eq!((tags.total_size, &tags.tags[0].tag_id, tags.tags[0].name.as_str()), (1, &own.tag, "same"));
    let schemas = c.schemas.list_schemas(v1::ListSchemasRequest::default()).await.unwrap().into_inner();
    assert_eq!((schemas.total_size, &schemas.schemas[0].schema_id), (1, &own.schema));
    assert_eq!(schemas.schemas[0].revision, 1, "a name is its organization's");
    let prompts = c.prompts.list_prompts(v1::ListPromptsRequest::default()).await.unwrap().into_inner();
    assert_eq!((prompts.total_size, &prompts.prompts[0].prompt_id), (1, &own.prompt));
    let list = v1::ListExtractionsRequest { document_id: own.document.clone(), ..Default::default() };
    let extractions = c.extractions.list_extractions(list).await.unwrap().into_inner();
    assert_eq!((extractions.total_size, &extractions.extractions[0].extraction_id), (1, &own.extraction));
    assert_eq!(extractions.extractions[0].edited_json, None);
    let threads = c.threads.list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
    assert_eq!((threads.total_size, &threads.threads[0].thread_id), (1, &own.thread));
    // The turn still waits, and continues after the approval.
    let answer = client.approve_all(&own.waiting).await;
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    let mut names = client.tag_names().await;
    names.sort();
    assert_eq!(names, ["same", "written"]);
}

#[tokio::test]
async fn invariant_6_neither_a_mention_nor_a_tool_reaches_another_organization() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let [(us, ours), (_, theirs)] = two(&mut sandbox).await;
    let Belongings { document, tag, schema, schema_revid, prompt, prompt_revid, extraction, .. } = &theirs;
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
    sandbox.sim.script(&script).await;
    us.cancel(&ours.waiting.turn_id).await.unwrap();
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
    let system = sandbox.sim.chats().await.pop().unwrap().body["messages"][0]["content"].to_string();
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
