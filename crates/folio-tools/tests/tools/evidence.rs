//! Tests of quotes and confidences of a model, and of citations after a document was read again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_resources::{
    Citation, CitationKind, Document, Extraction, FieldConfidence, FieldDecision, FieldLog, FieldReview, Schema,
    SchemaChange, TextState,
};
use folio_storage::{IngestUpdate, NewPage};
use folio_tools::extraction::{check_again, plan_review};
use folio_types::message::FinishReason;
use folio_types::op::{Expected, Write, WriteOutcome};
use serde_json::{Value, json};

use crate::fixture::{Fixture, invoice, text};

/// Extracts the total of the document `Invoice INV-7 / Total: 120.50` with a model that states quotes.
async fn quoting() -> Fixture {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    test.models.has_evidence.store(true, Ordering::Relaxed);
    test
}

async fn stored(test: &Fixture, result: &Value) -> Extraction {
    test.extraction(&text(&result["extraction_id"]).parse().unwrap()).await
}

async fn document(test: &Fixture) -> Document {
    let resources = &test.context.resources;
    resources.stores.of::<Document>().get(&test.context.principal.org, &test.document()).await.unwrap().unwrap()
}

/// Returns the kinds and quotes of citations.
fn kinds(citations: &[Citation]) -> Vec<(CitationKind, &str)> {
    citations.iter().map(|citation| (citation.kind, citation.quote.as_str())).collect()
}

#[tokio::test]
async fn a_value_with_a_valid_quote_is_cited_with_the_confidence_of_the_model() {
    let mut test = quoting().await;
    let result = test
        .extract(r#"{"total": 120.5, "_evidence": [{"path": "total", "quote": "Total:120.50", "confidence": 0.9}]}"#)
        .await;
    assert_eq!(result["data"], json!({ "total": 120.5 }), "the data is without the evidence");
    assert_eq!((&result["coverage"]["located"], &result["coverage"]["cited"]), (&json!(1), &json!(1)));
    let extraction = stored(&test, &result).await;
    assert_eq!(extraction.original, json!({ "total": 120.5 }));
    let [citation] = extraction.report.citations.as_slice() else { panic!("{:?}", extraction.report.citations) };
    assert_eq!((citation.kind, citation.page, citation.start), (CitationKind::Cited, 1, 14));
    assert_eq!(citation.quote, "Total: 120.50", "the words of the text");
    let confidence = FieldConfidence { path: "total".to_owned(), confidence: 0.9 };
    assert_eq!(extraction.report.confidences, [confidence]);
    assert_eq!(extraction.report.text_generation, document(&test).await.text_generation);
    let request = test.models.requests().remove(0);
    assert!(request.system.contains("_evidence"), "{}", request.system);
    let schema = request.response_format.unwrap().schema;
    assert_eq!(schema["required"], json!(["total", "_evidence"]));
    assert_eq!(request.max_output_tokens, Some(1_000), "the limit of the model");
}

#[tokio::test]
async fn evidence_is_requested_only_from_models_that_permit_it() {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    let result = test.extract(r#"{"total": 120.5}"#).await;
    let request = test.models.requests().remove(0);
    assert!(!request.system.contains("_evidence"), "{}", request.system);
    assert_eq!(request.response_format.unwrap().schema["required"], json!(["total"]));
    let report = stored(&test, &result).await.report;
    assert_eq!(kinds(&report.citations), [(CitationKind::Located, "120.50")]);
    assert!(report.confidences.is_empty());
}

#[tokio::test]
async fn malformed_or_invented_evidence_fails_no_extraction_and_cites_nothing() {
    let mut test = quoting().await;
    let located = [(CitationKind::Located, "120.50")];
    for evidence in [
        "null",
        "{}",
        "7",
        "[1, null, {}]",
        "NaN",
        r#"[{"path": "total", "quote": "Sum: 120.50", "confidence": 0.12345678901234567890}]"#,
        r#"[{"path": "total", "quote": "Invoice INV-7"}]"#,
        r#"[{"path": "total", "quote": "0.50"}]"#,
        r#"[{"path": "other", "quote": "Total: 120.50", "confidence": 1}]"#,
        r#"[{"path": "total", "quote": ["Total: 120.50"], "confidence": "1"}]"#,
    ] {
        let result = test.extract(&format!(r#"{{"total": 120.5, "_evidence": {evidence}}}"#)).await;
        assert_eq!((&result["data"], &result["coverage"]["model_calls"]), (&json!({ "total": 120.5 }), &json!(1)));
        let report = stored(&test, &result).await.report;
        assert_eq!(kinds(&report.citations), located, "{evidence}");
        assert!(report.confidences.iter().all(|found| found.path == "total"), "{evidence}");
    }
    let invented = test
        .extract(r#"{"total": 7000, "_evidence": [{"path": "total", "quote": "Total: 7000", "confidence": 1}]}"#)
        .await;
    let report = stored(&test, &invented).await.report;
    assert_eq!((report.citations.len(), report.coverage.inferred, report.confidences.len()), (0, 1, 1));
}

#[tokio::test]
async fn evidence_that_the_length_limit_ends_is_dropped() {
    let mut test = quoting().await;
    test.models.answer_until(FinishReason::Length, r#"{"total": 120.5, "_evidence": [{"path": "total", "quo"#);
    let result = test.ok("run_extraction", json!({})).await;
    assert_eq!((&result["data"], &result["coverage"]["model_calls"]), (&json!({ "total": 120.5 }), &json!(1)));
    assert_eq!(kinds(&stored(&test, &result).await.report.citations), [(CitationKind::Located, "120.50")]);
}

#[tokio::test]
async fn data_that_the_length_limit_ended_before_them_are_requested_again() {
    let mut test = Fixture::new().await;
    let schema = test.ok("create_schema", json!({ "name": "Invoice", "response_format": invoice() })).await;
    let mut format = invoice();
    format["json_schema"]["strict"] = json!(false);
    format["json_schema"]["schema"]["required"] = json!([]);
    let change = SchemaChange::Update { name: None, response_format: Some((format, false)), review_rule: None };
    let (stores, org, at) =
        (&test.context.resources.stores, test.context.principal.org.clone(), test.context.resources.environment.now());
    let write = Write::by_platform(org, "optional".parse().unwrap(), at, Expected::Version(1), change);
    let id = text(&schema["schema_id"]).parse().unwrap();
    assert!(matches!(stores.of::<Schema>().decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    let prompt = json!({ "name": "Invoice", "content": "Read the total.", "schema_id": schema["schema_id"] });
    test.ok("create_prompt", prompt).await;
    test.models.has_evidence.store(true, Ordering::Relaxed);
    test.models.answer_until(FinishReason::Length, r#"{"_evidence": [{"path": "total", "quo"#);
    let result = test.extract(r#"{"total": 120.5}"#).await;
    assert_eq!((&result["data"], &result["coverage"]["model_calls"]), (&json!({ "total": 120.5 }), &json!(2)));
}

#[tokio::test]
async fn a_correction_is_requested_without_evidence() {
    let mut test = quoting().await;
    test.models.answer(r#"{"total": "much", "_evidence": []}"#);
    let result = test.extract(r#"{"total": 120.5}"#).await;
    assert_eq!(result["coverage"]["model_calls"], json!(2));
    let schema = test.models.requests().remove(1).response_format.unwrap().schema;
    assert_eq!(schema["required"], json!(["total"]));
}

#[tokio::test]
async fn citations_and_approvals_of_a_rule_are_checked_again_when_the_document_was_read_again() {
    let mut test = quoting().await;
    let result = test
        .extract(r#"{"total": 120.5, "_evidence": [{"path": "total", "quote": "Total: 120.50", "confidence": 0.9}]}"#)
        .await;
    let extraction = stored(&test, &result).await;
    let resources = test.context.resources.clone();
    let (stores, mut at) = (resources.stores, document(&test).await.text_generation.unwrap());
    let (by, at_creation) = (extraction.created_by.clone(), extraction.created_at);
    let approval = FieldReview { decision: FieldDecision::Approved, by, at: at_creation, is_by_rule: true };
    let fields = FieldLog { reviews: [("total".to_owned(), approval)].into(), ..FieldLog::default() };
    let by_rule = Extraction { fields, verified: true, ..extraction.clone() };
    let same = check_again(&stores, &document(&test).await, extraction.clone()).await.unwrap();
    assert_eq!(same, extraction, "the same text");
    for (page, expected, counts) in [
        ("A new cover.\nTotal:\n120.50", vec![(CitationKind::Cited, "Total:\n120.50")], (1, 1, 0)),
        ("Sum 120,50", vec![(CitationKind::Located, "120,50")], (1, 0, 0)),
        ("nothing", vec![], (0, 0, 1)),
    ] {
        at += Duration::from_secs(1);
        let pages = vec![NewPage::of_text(1, page)];
        let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at };
        stores.texts.ingest(&test.context.principal.org, test.document().as_str(), update).await.unwrap();
        let document = document(&test).await;
        let checked = check_again(&stores, &document, by_rule.clone()).await.unwrap();
        let is_kept = !expected.is_empty();
        assert_eq!((checked.fields.reviews.len(), checked.verified), (usize::from(is_kept), is_kept), "{page}");
        let by_person = Extraction { verified_by: Some(by_rule.created_by.clone()), ..by_rule.clone() };
        assert!(check_again(&stores, &document, by_person).await.unwrap().verified, "{page}");
        let review = plan_review(&stores, &by_rule, "total", Some(FieldDecision::Rejected), None).await.unwrap();
        assert_eq!(review.withdrawn.len(), usize::from(!is_kept), "{page}");
        let report = checked.report;
        assert_eq!(kinds(&report.citations), expected, "{page}");
        assert_eq!((report.coverage.located, report.coverage.cited, report.coverage.inferred), counts);
        assert_eq!((report.text_generation, document.text_generation), (Some(at), Some(at)));
    }
    let update = IngestUpdate { state: TextState::Uploaded, pages: Vec::new(), lacks_program: false, at };
    stores.texts.ingest(&test.context.principal.org, test.document().as_str(), update).await.unwrap();
    let unread = check_again(&stores, &document(&test).await, extraction.clone()).await.unwrap();
    assert_eq!(unread, extraction, "the document is being read");
    for state in [TextState::NoText("a blank page".to_owned()), TextState::Failed("damaged".to_owned())] {
        let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
        stores.texts.ingest(&test.context.principal.org, test.document().as_str(), update).await.unwrap();
        let lost = check_again(&stores, &document(&test).await, by_rule.clone()).await.unwrap();
        assert!(!lost.verified && lost.fields.reviews.is_empty() && lost.report.citations.is_empty(), "{lost:?}");
        assert_eq!((lost.report.coverage.located, lost.report.coverage.inferred), (0, 1));
    }
}
