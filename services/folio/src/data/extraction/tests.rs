//! Tests of extraction rows and evidence.

use super::*;

fn stored(id: &str, original: &str, edited: Option<&str>) -> v1::Extraction {
    v1::Extraction {
        extraction_id: id.to_owned(),
        original_json: original.to_owned(),
        edited_json: edited.map(str::to_owned),
        ..v1::Extraction::default()
    }
}

#[test]
fn a_row_names_the_document_and_states_an_edit() {
    let row = row("a.pdf", &stored("ext_1", "{}", Some("{\"a\":1}")));
    assert_eq!((&row["document"], &row["edited"], &row["data"]), (&json!("a.pdf"), &json!(true), &json!({"a": 1})));
}

#[test]
fn an_edited_value_has_no_evidence() {
    let citation = |path: &str| v1::Citation { path: path.to_owned(), ..v1::Citation::default() };
    let confidence = |path: &str| v1::FieldConfidence { path: path.to_owned(), confidence: 0.75 };
    let edited = v1::Extraction {
        citations: vec![citation("total"), citation("number")],
        confidences: vec![confidence("total"), confidence("number")],
        ..stored("ext_1", r#"{"total":1,"number":2}"#, Some(r#"{"total":1,"number":3}"#))
    };
    let shown = whole(&edited);
    for member in ["citations", "confidences"] {
        let paths: Vec<&Value> = shown[member].as_array().unwrap().iter().map(|found| &found["path"]).collect();
        assert_eq!(paths, ["total"], "{member}");
    }
}

#[test]
fn a_row_states_what_was_read_and_the_conflicts() {
    let coverage = v1::ExtractionCoverage {
        pages: 2,
        pages_read: 2,
        windows: 2,
        model_calls: 3,
        conflicts: 1,
        ..Default::default()
    };
    let conflict = |page| v1::ExtractionConflict { path: "total".to_owned(), value_json: "12.5".to_owned(), page };
    let extraction = v1::Extraction {
        coverage: Some(coverage),
        conflicts: vec![conflict(2), conflict(0)],
        originals: vec![v1::OriginalText { path: "total".to_owned(), text: "957,00 €".to_owned() }],
        citations: vec![v1::Citation {
            path: "total".to_owned(),
            page: 2,
            quote: "957,00".to_owned(),
            section: "Invoices".to_owned(),
            cell: "B7".to_owned(),
            occurrences: 1,
            kind: v1::CitationKind::Cited.into(),
            ..v1::Citation::default()
        }],
        confidences: vec![v1::FieldConfidence { path: "total".to_owned(), confidence: 0.75 }],
        checks: vec![v1::CheckResult {
            check: "total = 5".to_owned(),
            outcome: v1::CheckOutcome::NotEvaluable.into(),
            reason: "a reason".to_owned(),
            ..v1::CheckResult::default()
        }],
        reviews: vec![v1::FieldReview {
            path: "total".to_owned(),
            decision: v1::FieldDecision::Approved.into(),
            by_rule: true,
            ..v1::FieldReview::default()
        }],
        examples: vec![v1::ExtractionExample { extraction_id: "ext_2".to_owned(), similarity: 0.75, threshold: 0.5 }],
        ..stored("ext_1", "{}", None)
    };
    let shown = whole(&extraction);
    assert_eq!(shown["coverage"], "2 of 2 pages in 2 windows, 3 model calls, 1 conflict");
    let conflicts =
        json!([{"path": "total", "value": 12.5, "page": 2}, {"path": "total", "value": 12.5, "page": null}]);
    assert_eq!((&shown["windows"], &shown["conflicts"]), (&json!(2), &conflicts));
    assert_eq!(shown["originals"], json!([{"path": "total", "text": "957,00 €"}]));
    let citation = json!({
        "path": "total", "kind": "cited", "page": 2, "section": "Invoices", "cell": "B7", "quote": "957,00",
        "occurrences": 1
    });
    assert_eq!(shown["citations"], json!([citation]));
    assert_eq!(shown["confidences"], json!([{"path": "total", "confidence": 0.75}]));
    let check = json!({
        "check": "total = 5", "outcome": "not_evaluable", "left": null, "right": null, "reason": "a reason"
    });
    assert_eq!(shown["checks"], json!([check]));
    let review = json!({"path": "total", "decision": "approved", "user_id": "", "by_rule": true, "time": null});
    assert_eq!(shown["reviews"], json!([review]));
    let example = json!({"extraction_id": "ext_2", "similarity": 0.75, "threshold": 0.5});
    assert_eq!(shown["examples"], json!([example]));
    assert_eq!((confidence_of(&extraction, "total"), confidence_of(&extraction, "other")), (Some(0.75), None));
    let without = whole(&stored("ext_1", "{}", None));
    assert_eq!((&without["coverage"], &without["windows"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_location_names_the_section_or_the_cell() {
    for (section, cell, expected) in [
        ("", "", "page 2"),
        ("Terms", "", "page 2, section Terms"),
        ("", "B7", "page 2, cell B7"),
        ("Invoices", "B7", "page 2, cell Invoices!B7"),
    ] {
        let (section, cell) = (section.to_owned(), cell.to_owned());
        assert_eq!(location(&v1::Citation { page: 2, section, cell, ..v1::Citation::default() }), expected);
    }
}
