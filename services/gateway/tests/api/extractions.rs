//! ExtractionService.

use folio_proto::v1;
use folio_types::{Code, Reason};

use crate::harness::{Client, MODEL, Server, refused};

const TEXT: &str = "Invoice 17\nTotal 12.50";

/// A document, a prompt with a schema, and the extraction that it gave.
async fn extracted(server: &Server, client: &Client) -> v1::Extraction {
    let document = client.ready_document("a.txt", TEXT).await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Total", &schema.schema_id).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let request = v1::RunExtractionRequest {
        document_id: document.document_id,
        prompt_revid: prompt.prompt_id,
        request_id: "run".into(),
        ..Default::default()
    };
    let first = client.extractions().run_extraction(request.clone()).await.unwrap().into_inner().extraction.unwrap();
    let again = client.extractions().run_extraction(request).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(first, again);
    assert_eq!(server.model.asked(), 1, "the same request again costs no model call");
    first
}

#[tokio::test]
async fn a_request_repeated_while_it_runs_calls_the_model_once() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", TEXT).await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Total", &schema.schema_id).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let request = v1::RunExtractionRequest {
        document_id: document.document_id,
        prompt_revid: prompt.prompt_id,
        request_id: "run".into(),
        ..Default::default()
    };
    let runs = (0..6).map(|_| {
        let (mut extractions, request) = (client.extractions(), request.clone());
        async move { extractions.run_extraction(request).await.unwrap().into_inner().extraction.unwrap() }
    });
    let given = futures::future::join_all(runs).await;
    assert!(given.iter().all(|extraction| *extraction == given[0]), "{given:?}");
    assert_eq!(server.model.asked(), 1);
}

#[tokio::test]
async fn the_original_the_edited_form_and_the_verified_flag_are_all_kept() {
    let server = Server::start().await;
    let client = server.member().await;
    let extraction = extracted(&server, &client).await;
    assert_eq!((extraction.original_json.as_str(), extraction.edited_json.as_deref()), (r#"{"total":12.5}"#, None));
    assert_eq!(extraction.model, MODEL);

    let verify = v1::VerifyExtractionRequest {
        extraction_id: extraction.extraction_id.clone(),
        verified: true,
        etag: extraction.etag.clone(),
        ..Default::default()
    };
    let verified =
        client.extractions().verify_extraction(verify.clone()).await.unwrap().into_inner().extraction.unwrap();
    assert!(verified.verified);
    assert_eq!(verified.verified_by, client.user.to_string());
    assert_eq!(refused(client.extractions().verify_extraction(verify).await, "stale").reason, Reason::VersionConflict);

    let edit = v1::UpdateExtractionFieldRequest {
        extraction_id: extraction.extraction_id.clone(),
        path: "total".into(),
        value_json: "13".into(),
        request_id: "edit".into(),
        ..Default::default()
    };
    let edited =
        client.extractions().update_extraction_field(edit.clone()).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(edited.original_json, r#"{"total":12.5}"#);
    assert_eq!((edited.edited_json.as_deref(), edited.verified), (Some(r#"{"total":13}"#), false));
    let again = client.extractions().update_extraction_field(edit).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(again, edited);

    let replace = v1::ReplaceExtractionRequest {
        extraction_id: extraction.extraction_id.clone(),
        data_json: r#"{"total": 14}"#.into(),
        ..Default::default()
    };
    let replaced = client.extractions().replace_extraction(replace).await.unwrap().into_inner().extraction.unwrap();
    assert_eq!(replaced.edited_json.as_deref(), Some(r#"{"total":14}"#));

    let list = v1::ListExtractionsRequest { document_id: extraction.document_id.clone(), ..Default::default() };
    let list = client.extractions().list_extractions(list).await.unwrap().into_inner();
    assert_eq!((list.extractions, list.total_size), (vec![replaced], 1));

    let delete = v1::DeleteExtractionRequest { extraction_id: extraction.extraction_id.clone(), ..Default::default() };
    client.extractions().delete_extraction(delete).await.unwrap();
    let get = v1::GetExtractionRequest { extraction_id: extraction.extraction_id };
    assert_eq!(refused(client.extractions().get_extraction(get).await, "deleted").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn an_edit_must_match_the_schema() {
    let server = Server::start().await;
    let client = server.member().await;
    let extraction = extracted(&server, &client).await;
    let edit = |path: &str, value: &str| v1::UpdateExtractionFieldRequest {
        extraction_id: extraction.extraction_id.clone(),
        path: path.into(),
        value_json: value.into(),
        ..Default::default()
    };
    for (path, value, reason) in [
        ("total", "\"much\"", Reason::SchemaMismatch),
        ("total..x", "1", Reason::InvalidPath),
        ("other", "1", Reason::InvalidPath),
        ("total", "{", Reason::InvalidField),
        ("", "1", Reason::InvalidField),
    ] {
        let error = refused(client.extractions().update_extraction_field(edit(path, value)).await, path);
        assert_eq!(error.reason, reason, "{path} = {value}: {error}");
    }
    let replace = v1::ReplaceExtractionRequest {
        extraction_id: extraction.extraction_id.clone(),
        data_json: r#"{"total": 1, "more": 2}"#.into(),
        ..Default::default()
    };
    assert_eq!(refused(client.extractions().replace_extraction(replace).await, "more").reason, Reason::SchemaMismatch);
    server.stop().await;
}

#[tokio::test]
async fn an_impossible_run_is_refused_with_its_reason() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", TEXT).await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Total", &schema.schema_id).await;
    let run = v1::RunExtractionRequest {
        document_id: document.document_id.clone(),
        prompt_revid: prompt.prompt_id.clone(),
        request_id: "run".into(),
        ..Default::default()
    };
    let error = refused(client.extractions().run_extraction(run.clone()).await, "the model fails");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::ModelFailed));
    server.model.answer("no JSON");
    server.model.answer(r#"{"total": "twelve"}"#);
    let error = refused(client.extractions().run_extraction(run.clone()).await, "a mismatch twice");
    assert_eq!(error.reason, Reason::SchemaMismatch);
    server.model.answer(r#"{"total": 1}"#);
    client.extractions().run_extraction(run.clone()).await.unwrap();

    let unknown = v1::RunExtractionRequest { model: "unknown".into(), request_id: String::new(), ..run.clone() };
    let error = refused(client.extractions().run_extraction(unknown).await, "unknown model");
    assert_eq!(error.reason, Reason::ModelNotAvailable);
    let missing = folio_types::PromptId::derive(&["x"]).to_string();
    let missing = v1::RunExtractionRequest { prompt_revid: missing, request_id: String::new(), ..run };
    assert_eq!(refused(client.extractions().run_extraction(missing).await, "no prompt").code, Code::NotFound);
    server.stop().await;
}
