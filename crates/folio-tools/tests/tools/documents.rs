//! Tests of the document tools.

use folio_resources::{Document, TextState};
use folio_storage::IngestUpdate;
use folio_types::Timestamp;
use serde_json::json;

use crate::fixture::{Fixture, PAGES, text};

#[tokio::test]
async fn text_is_returned_by_page_and_completely() {
    let mut test = Fixture::new().await;
    let one = test.ok("get_ocr_text", json!({ "page_num": 2.0 })).await;
    assert_eq!((text(&one["text"]).trim(), &one["pages"]), (PAGES[1], &json!(2)));
    let all = text(&test.ok("get_ocr_text", json!({})).await["text"]);
    assert!(all.contains("--- page 1 ---\nInvoice INV-7") && all.contains("--- page 2 ---\nSecond page"), "{all}");
    assert!(test.error_of("get_ocr_text", json!({ "page_num": 3 })).await.contains("has 2 pages"));
}

#[tokio::test]
async fn long_text_is_cut_with_a_mark() {
    let mut test = Fixture::new().await;
    let page = "ä".repeat(20_000);
    let pages = [page.as_str(); 3];
    let long = test.add_document("long", &pages, &[]).await;
    test.context.documents = vec![long];
    let all = test.ok("get_ocr_text", json!({})).await;
    assert!(text(&all["truncated"]).contains("page 2"), "{}", all["truncated"]);
    assert!(text(&all["text"]).ends_with("[… cut]"));
    assert!(all.to_string().len() <= folio_types::limits::TOOL_RESULT_BYTES);
    assert_eq!(test.ok("get_ocr_text", json!({ "page_num": 3 })).await.get("truncated"), None);
}

#[tokio::test]
async fn missing_text_is_reported_with_its_reason() {
    let mut test = Fixture::new().await;
    let (org, id) = (test.context.principal.org.clone(), test.document());
    for (state, says) in [
        (TextState::Processing, "still being extracted"),
        (TextState::NoText("Tesseract is not installed".to_owned()), "Tesseract"),
        (TextState::Failed("malformed".to_owned()), "malformed"),
    ] {
        let update =
            IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: Timestamp::constant(1_790_000_001, 0) };
        test.context.resources.stores.texts.ingest(&org, id.as_str(), update).await.unwrap();
        let message = test.error_of("get_ocr_text", json!({})).await;
        assert!(message.contains(says), "{message}");
    }
    test.context.documents.clear();
    assert!(test.error_of("get_ocr_text", json!({})).await.contains("has no document"));
}

#[tokio::test]
async fn documents_are_listed_by_name_tag_and_metadata() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    test.add_document("Contract.pdf", &["x"], std::slice::from_ref(&tag)).await;
    for (arguments, total) in [
        (json!({}), 2),
        (json!({ "name_search": "CONTR" }), 1),
        (json!({ "tag_ids": [tag] }), 1),
        (json!({ "metadata_search": { "customer": "acm" } }), 2),
        (json!({ "metadata_search": { "customer": "other" } }), 0),
        (json!({ "name_search": "invoice", "tag_ids": [tag] }), 0),
    ] {
        let listed = test.ok("list_documents", arguments.clone()).await;
        assert_eq!(listed["total"], json!(total), "{arguments}");
    }
    let first = &test.ok("list_documents", json!({ "tag_ids": [tag] })).await["documents"][0];
    assert_eq!((&first["document_name"], &first["text"]), (&json!("Contract.pdf"), &json!("ready")));
}

#[tokio::test]
async fn a_document_is_changed_by_id_and_defaults_to_the_conversations_document() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    test.ok("update_document", json!({ "document_name": "a.pdf", "tag_ids": [tag, tag], "metadata": { "k": "v" } }))
        .await;
    let org = test.context.principal.org.clone();
    let stored = async |test: &Fixture| {
        test.context.resources.stores.of::<Document>().get(&org, &test.document()).await.unwrap().unwrap()
    };
    let changed = stored(&test).await;
    assert_eq!((changed.name.as_str(), changed.tags, changed.metadata["k"].as_str()), ("a.pdf", vec![tag], "v"));
    test.ok("update_document", json!({ "document_id": test.document(), "document_name": "b.pdf" })).await;
    let changed = stored(&test).await;
    assert_eq!((changed.name.as_str(), changed.metadata.len()), ("b.pdf", 1));
    let ghost = folio_types::TagId::derive(&["ghost"]);
    let cases = [
        (json!({}), "Nothing to change"),
        (json!({ "document_name": "a\nb" }), "control characters"),
        (json!({ "tag_ids": [ghost] }), "list_tags"),
        (json!({ "metadata": { "": "v" } }), "metadata"),
        (json!({ "document_id": "a.pdf", "document_name": "x" }), "list_documents"),
    ];
    test.assert_errors("update_document", cases).await;
}

#[tokio::test]
async fn a_turn_that_deleted_its_own_document_gets_errors_about_it() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    test.extract(r#"{"total": 1}"#).await;
    assert!(test.context.working.extraction.is_some());
    let deleted = test.ok("delete_document", json!({})).await;
    assert_eq!(deleted["deleted"], json!(test.document()));
    assert_eq!(test.context.working.extraction, None);
    for (name, arguments) in [
        ("get_ocr_text", json!({})),
        ("run_extraction", json!({ "prompt_revid": prompt })),
        ("get_extraction_result", json!({})),
        ("update_extraction_field", json!({ "path": "total", "value": 2 })),
        ("update_document", json!({ "document_name": "x" })),
        ("delete_document", json!({})),
    ] {
        let message = test.error_of(name, arguments).await;
        assert!(message.contains("was deleted"), "{name}: {message}");
    }
}
