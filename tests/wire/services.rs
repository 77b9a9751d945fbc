//! The services that need no agent: documents, schemas, prompts, extractions, models.

use folio_proto::v1;
use folio_types::Code;

use crate::client::{Client, refused};
use crate::sandbox::{INVOICE, Sandbox};

const SCRIPT: &str = "
rules:
  - when: {response_format: true}
    answer: {text: '{\"total\": 957}'}
";

const FORMAT: &str = r#"{"type":"json_schema","json_schema":{"name":"bill","strict":true,"schema":{"type":"object","properties":{"total":{"type":"number"}},"required":["total"],"additionalProperties":false}}}"#;

async fn schema(client: &Client, request: v1::CreateSchemaRequest) -> Result<v1::Schema, tonic::Status> {
    Ok(client.schemas.clone().create_schema(request).await?.into_inner().schema.unwrap())
}

fn bill(request_id: &str) -> v1::CreateSchemaRequest {
    create("Bill", FORMAT, request_id)
}

fn create(name: &str, format: &str, request_id: &str) -> v1::CreateSchemaRequest {
    let schema = v1::Schema { name: name.into(), response_format_json: format.into(), ..Default::default() };
    v1::CreateSchemaRequest { schema: Some(schema), request_id: request_id.into(), ..Default::default() }
}

async fn prompt(client: &Client, schema: &v1::Schema) -> v1::Prompt {
    let content = v1::Prompt {
        name: "Bills".into(),
        content: "Extract the bill.".into(),
        schema_revid: schema.schema_revid.clone(),
        ..Default::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(content), ..Default::default() };
    client.prompts.clone().create_prompt(request).await.unwrap().into_inner().prompt.unwrap()
}

#[tokio::test]
async fn models_are_listed_by_use() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let list = |usage: v1::ModelUse| {
        let mut models = client.models.clone();
        async move {
            let request = v1::ListModelsRequest { r#use: usage.into(), ..Default::default() };
            let found = models.list_models(request).await.unwrap().into_inner();
            assert_eq!(found.default_model, "scripted");
            let mut names: Vec<_> = found.models.into_iter().map(|model| model.name).collect();
            names.sort();
            names
        }
    };
    assert_eq!(list(v1::ModelUse::Chat).await, ["scripted", "second"]);
    assert_eq!(list(v1::ModelUse::Prompts).await, ["extractor", "scripted", "second"]);
}

#[tokio::test]
async fn a_document_is_uploaded_read_downloaded_found_and_deleted() {
    use v1::download_document_response::Part;
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let mut c = client.clone();
    let id = client.upload("Invoice 7.txt", INVOICE.as_bytes()).await;
    client.upload("other.md", b"# Nothing").await;
    let request = v1::GetDocumentTextRequest { document_id: id.clone(), ..Default::default() };
    let text = c.documents.get_document_text(request).await.unwrap().into_inner();
    assert_eq!((text.state(), text.total_pages), (v1::DocumentState::Ready, 1));
    assert!(text.pages[0].text.contains("A-17"));

    let request = v1::DownloadDocumentRequest { document_id: id.clone() };
    let mut parts = c.documents.download_document(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        if let Some(Part::Chunk(chunk)) = part.part {
            bytes.extend_from_slice(&chunk);
        }
    }
    assert_eq!(bytes, INVOICE.as_bytes());

    let request = v1::ListDocumentsRequest { filter: "name:invoice".into(), ..Default::default() };
    let found = c.documents.list_documents(request).await.unwrap().into_inner();
    assert_eq!((found.total_size, found.documents[0].document_id.as_str()), (1, id.as_str()));
    let request = v1::DeleteDocumentRequest { document_id: id.clone(), ..Default::default() };
    c.documents.delete_document(request).await.unwrap();
    let error = refused(c.documents.get_document(v1::GetDocumentRequest { document_id: id }).await);
    assert_eq!(error.code, Code::NotFound);
}

#[tokio::test]
async fn the_same_request_id_makes_one_schema_and_an_unchanged_update_no_revision() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let mut c = client.clone();
    let first = schema(&client, bill("r-1")).await.unwrap();
    assert_eq!(schema(&client, bill("r-1")).await.unwrap(), first);
    let other = create("Other", FORMAT, "r-1");
    assert_eq!(refused(schema(&client, other).await).reason.as_str(), "REQUEST_ID_CONFLICT");
    let update = |response_format_json: String| {
        let schema_id = first.schema_id.clone();
        let schema = v1::Schema { schema_id, response_format_json, ..Default::default() };
        v1::UpdateSchemaRequest { schema: Some(schema), ..Default::default() }
    };
    let same = c.schemas.update_schema(update(FORMAT.into())).await.unwrap().into_inner();
    assert!(!same.revised);
    let changed = c.schemas.update_schema(update(FORMAT.replace("total", "sum"))).await.unwrap().into_inner();
    assert!(changed.revised);
    assert_ne!(changed.schema.unwrap().etag, first.etag);
    let stale =
        v1::Schema { name: "X".into(), schema_id: first.schema_id.clone(), etag: first.etag, ..Default::default() };
    let stale = v1::UpdateSchemaRequest { schema: Some(stale), ..Default::default() };
    assert_eq!(refused(c.schemas.update_schema(stale).await).reason.as_str(), "VERSION_CONFLICT");
    let request = v1::ListSchemaRevisionsRequest { schema_id: first.schema_id.clone(), ..Default::default() };
    assert_eq!(c.schemas.list_schema_revisions(request).await.unwrap().into_inner().total_size, 2);
}

#[tokio::test]
async fn a_schema_that_is_not_strict_is_refused_with_its_paths_unless_allowed() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let loose =
        FORMAT.replace(",\"additionalProperties\":false", "").replace("\"required\":[\"total\"]", "\"required\":[]");
    let request = create("Bill", &loose, "");
    let error = refused(schema(&client, request.clone()).await);
    assert_eq!(error.reason.as_str(), "INVALID_SCHEMA");
    assert!(error.violations.len() >= 2, "each violation is reported: {error:?}");
    let kept = schema(&client, v1::CreateSchemaRequest { allow_non_strict: true, ..request }).await.unwrap();
    assert!(!kept.strict);
    for remote in ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "other.json"] {
        let format = FORMAT.replace("{\"type\":\"number\"}", &format!("{{\"$ref\":\"{remote}\"}}"));
        for allow_non_strict in [false, true] {
            let request = v1::CreateSchemaRequest { allow_non_strict, ..create("Bill", &format, "") };
            let error = refused(schema(&client, request).await);
            assert_eq!((error.code, error.reason.as_str()), (Code::InvalidArgument, "INVALID_SCHEMA"), "{remote}");
            assert!(
                error.violations.iter().all(|violation| violation.field.starts_with("schema.response_format_json"))
            );
        }
    }
}

#[tokio::test]
async fn an_extraction_keeps_original_edited_form_and_verified_flag() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let mut c = client.clone();
    let schema = schema(&client, bill("")).await.unwrap();
    let prompt = prompt(&client, &schema).await;
    let error = refused(
        c.schemas
            .delete_schema(v1::DeleteSchemaRequest { schema_id: schema.schema_id.clone(), ..Default::default() })
            .await,
    );
    assert_eq!(error.reason.as_str(), "IN_USE");

    let request = v1::RunExtractionRequest {
        document_id: document.clone(),
        prompt_revid: prompt.prompt_revid,
        request_id: "run".into(),
        ..Default::default()
    };
    let ran = c.extractions.run_extraction(request.clone()).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(ran.original_json, "{\"total\":957}");
    let again = c.extractions.run_extraction(request).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(again.extraction_id, ran.extraction_id);
    assert_eq!(sandbox.sim.chats().await.len(), 1, "asked again the model is not called again");

    let id = ran.extraction_id.clone();
    let verify = v1::VerifyExtractionRequest { extraction_id: id.clone(), verified: true, ..Default::default() };
    let verified = c.extractions.verify_extraction(verify).await.unwrap().into_inner().extraction.unwrap();
    assert!(verified.verified && !verified.verified_by.is_empty());
    let update = |path: &str, value: &str| v1::UpdateExtractionFieldRequest {
        extraction_id: id.clone(),
        path: path.into(),
        value_json: value.into(),
        ..Default::default()
    };
    let edited = c.extractions.update_extraction_field(update("total", "1250")).await.unwrap().into_inner();
    let edited = edited.extraction.unwrap();
    assert_eq!(
        (edited.original_json.as_str(), edited.edited_json.as_deref()),
        ("{\"total\":957}", Some("{\"total\":1250}"))
    );
    assert!(!edited.verified, "an edit takes the verification back");
    for (path, value, reason, field) in [
        ("", "1", "INVALID_FIELD", "path"),
        ("a..b", "1", "INVALID_PATH", "path"),
        ("[", "1", "INVALID_PATH", "path"),
        ("nothing.here", "1", "INVALID_PATH", "path"),
        ("total", "{", "INVALID_FIELD", "value_json"),
        ("total[99999999999999999999]", "1", "INVALID_PATH", "path"),
    ] {
        let error = refused(c.extractions.update_extraction_field(update(path, value)).await);
        let named: Vec<_> = error.violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(
            (error.code, error.reason.as_str(), named),
            (Code::InvalidArgument, reason, vec![field]),
            "{path:?} {value:?}: {error:?}"
        );
    }
    let request = v1::DeleteExtractionRequest { extraction_id: id.clone(), ..Default::default() };
    c.extractions.delete_extraction(request).await.unwrap();
    let error = refused(c.extractions.get_extraction(v1::GetExtractionRequest { extraction_id: id }).await);
    assert_eq!(error.code, Code::NotFound);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_once_more_and_then_reported() {
    let script = "
rules:
  - {when: {response_format: true}, times: 1, answer: {text: '{\"total\": \"much\"}'}}
  - {when: {response_format: true, last_message: {contains: total}}, answer: {text: '{\"total\": 5}'}}
";
    let sandbox = Sandbox::start(script).await;
    let (client, document) = sandbox.with_document().await;
    let schema = schema(&client, bill("")).await.unwrap();
    let prompt = prompt(&client, &schema).await;
    let request =
        v1::RunExtractionRequest { document_id: document, prompt_revid: prompt.prompt_revid, ..Default::default() };
    let ran = client.extractions.clone().run_extraction(request.clone()).await.unwrap().into_inner();
    assert_eq!(ran.extraction.unwrap().original_json, "{\"total\":5}");
    assert_eq!(sandbox.sim.chats().await.len(), 2);
    sandbox.sim.script("rules: [{answer: {text: '{\"total\": \"much\"}'}}]").await;
    let error = refused(client.extractions.clone().run_extraction(request).await);
    assert_eq!(error.reason.as_str(), "SCHEMA_MISMATCH");
    assert_eq!(sandbox.sim.chats().await.len(), 4);
}
