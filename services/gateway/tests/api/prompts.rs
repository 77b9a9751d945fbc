//! PromptService and ModelService.

use folio_proto::v1;
use folio_types::Reason;

use crate::harness::{MODEL, Server, refused};

fn content(name: &str) -> v1::Prompt {
    v1::Prompt { name: name.into(), content: "Read the total.".into(), ..Default::default() }
}

fn create(prompt: v1::Prompt) -> v1::CreatePromptRequest {
    v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() }
}

#[tokio::test]
async fn a_prompt_has_versions() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await;
    let tag = client.tag("t").await;
    let wanted = v1::Prompt {
        schema_revid: schema.schema_id.clone(),
        model: MODEL.into(),
        tag_ids: vec![tag.tag_id.clone()],
        ..content("Total")
    };
    let first = client.prompts().create_prompt(create(wanted)).await.unwrap().into_inner().prompt.unwrap();
    let latest = first.clone();
    assert_eq!(latest.schema_revid, format!("{}.1", schema.schema_id));
    assert_eq!((latest.model.as_str(), latest.tag_ids), (MODEL, vec![tag.tag_id]));

    let second = client.prompts().create_prompt(create(content("total"))).await.unwrap().into_inner().prompt.unwrap();
    let latest = second.clone();
    assert_eq!((second.prompt_id, latest.revision), (first.prompt_id.clone(), 2));
    assert_eq!(
        (latest.schema_revid.as_str(), latest.tag_ids.len()),
        ("", 0),
        "the next version is what the request says"
    );

    let update = v1::UpdatePromptRequest {
        prompt: Some(v1::Prompt {
            prompt_id: first.prompt_id.clone(),
            content: "Read the sum.".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let answer = client.prompts().update_prompt(update.clone()).await.unwrap().into_inner();
    assert!(answer.revised);
    assert!(!client.prompts().update_prompt(update).await.unwrap().into_inner().revised);

    let versions = v1::ListPromptRevisionsRequest { prompt_id: first.prompt_id, page_size: 2, ..Default::default() };
    let page = client.prompts().list_prompt_revisions(versions.clone()).await.unwrap().into_inner();
    assert_eq!((page.prompt_revisions.len(), page.total_size), (2, 3));
    let rest = v1::ListPromptRevisionsRequest { page_token: page.next_page_token, ..versions };
    let rest = client.prompts().list_prompt_revisions(rest).await.unwrap().into_inner();
    assert_eq!(rest.prompt_revisions.len(), 1);
    assert_eq!(rest.prompt_revisions[0].revision, 1);
    server.stop().await;
}

#[tokio::test]
async fn references_of_a_prompt_must_exist() {
    let server = Server::start().await;
    let client = server.member().await;
    let missing_tag = folio_types::TagId::derive(&["x"]).to_string();
    let missing_schema = folio_types::SchemaId::derive(&["x"]).to_string();
    let cases = [
        (v1::Prompt { model: "unknown".into(), ..content("a") }, Reason::ModelNotAvailable, "prompt.model"),
        (v1::Prompt { model: "chat-only".into(), ..content("a") }, Reason::ModelNotAvailable, "prompt.model"),
        (v1::Prompt { tag_ids: vec![missing_tag], ..content("a") }, Reason::NotFound, "prompt.tag_ids"),
        (v1::Prompt { schema_revid: missing_schema, ..content("a") }, Reason::NotFound, "prompt.schema_revid"),
        (v1::Prompt { content: " ".into(), ..content("a") }, Reason::InvalidField, "prompt.content"),
    ];
    for (wanted, reason, field) in cases {
        let check = v1::ValidatePromptRequest { prompt: Some(wanted.clone()) };
        let checked = client.prompts().validate_prompt(check).await.unwrap().into_inner();
        assert!(!checked.valid);
        assert_eq!(checked.violations.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(), [field]);
        assert_eq!(refused(client.prompts().create_prompt(create(wanted)).await, field).reason, reason);
    }
    let check = v1::ValidatePromptRequest { prompt: Some(content("a")) };
    assert!(client.prompts().validate_prompt(check).await.unwrap().into_inner().valid);
    let none = v1::ListPromptsRequest::default();
    assert_eq!(client.prompts().list_prompts(none).await.unwrap().into_inner().total_size, 0, "nothing was stored");
    server.stop().await;
}

#[tokio::test]
async fn data_is_validated_against_the_schema_of_a_prompt() {
    let server = Server::start().await;
    let client = server.member().await;
    let format = r#"{"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {"type": "object",
        "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": false}}}"#;
    let schema = v1::CreateSchemaRequest {
        schema: Some(v1::Schema { name: "s".into(), response_format_json: format.into(), ..Default::default() }),
        ..Default::default()
    };
    let schema = client.schemas().create_schema(schema).await.unwrap().into_inner().schema.unwrap();
    let check = async |prompt: v1::Prompt, data: &str| {
        let prompt = client.prompts().create_prompt(create(prompt)).await.unwrap().into_inner().prompt.unwrap();
        let request = v1::ValidatePromptDataRequest { prompt_revid: prompt.prompt_id, data_json: data.into() };
        client.prompts().validate_prompt_data(request).await.unwrap().into_inner()
    };
    let with = || v1::Prompt { schema_revid: schema.schema_id.clone(), ..content("with") };
    assert!(check(with(), r#"{"total": 3}"#).await.valid);
    let wrong = check(with(), r#"{"total": "three"}"#).await;
    assert!(!wrong.valid);
    assert_eq!(wrong.violations[0].path, "#/total");
    assert!(check(content("without"), r#"{"any": 1}"#).await.valid);
    assert!(!check(content("without"), "[1]").await.valid);
    server.stop().await;
}

#[tokio::test]
async fn models_are_listed_for_chats_and_for_prompts() {
    let server = Server::start().await;
    let client = server.member().await;
    let names = async |wanted: v1::ModelUse, filter: &str, order_by: &str| {
        let request = v1::ListModelsRequest {
            r#use: wanted.into(),
            filter: filter.into(),
            order_by: order_by.into(),
            ..Default::default()
        };
        let answer = client.models().list_models(request).await.unwrap().into_inner();
        assert_eq!(answer.default_model, MODEL);
        answer.models.into_iter().map(|model| model.name).collect::<Vec<_>>()
    };
    assert_eq!(names(v1::ModelUse::Unspecified, "", "").await, [MODEL, "chat-only", "prompts-only"]);
    assert_eq!(names(v1::ModelUse::Chat, "", "name").await, ["chat-only", MODEL]);
    assert_eq!(names(v1::ModelUse::Prompts, "name:ONLY", "").await, ["prompts-only"]);
    server.stop().await;
}
