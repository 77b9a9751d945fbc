//! A record of an export.

use std::collections::BTreeSet;

use folio_resources::{BoundingBox, Citation, Extraction, ExtractionReport, FieldConfidence, FieldReview};
use serde::Serialize;
use serde_json::{Value, json};

/// An extraction as a record of JSON and JSON lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    pub extraction_id: String,
    pub document_id: String,
    /// The name of the document.
    pub document: String,
    pub prompt_revid: String,
    /// None: the prompt has no schema.
    pub schema_revid: Option<String>,
    pub model: String,
    pub verified: bool,
    pub create_time: String,
    pub update_time: String,
    /// The name of the state. The data of an extraction that is not `completed` is what an agent has written so far.
    pub state: &'static str,
    /// The current data.
    pub data: Value,
    /// The citations of the values that no edit changed. None: the export has no citations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub citations: Option<Vec<Value>>,
    /// The confidence of the model in the values that no edit changed. None: the export has no confidences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidences: Option<Vec<Value>>,
    /// The decisions about single values. None: the export has no citations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviews: Option<Vec<Value>>,
}

impl Record {
    /// `document`: the name of the document.
    pub fn new(extraction: &Extraction, document: &str, has_citations: bool) -> Self {
        let (report, reviews) = (&extraction.report, &extraction.fields.reviews);
        let unchanged = if has_citations { extraction.unchanged_paths() } else { BTreeSet::new() };
        let citations = report.citations.iter().filter(|found| unchanged.contains(&found.path));
        let confidences = report.confidences.iter().filter(|found| unchanged.contains(&found.path));
        Self {
            extraction_id: extraction.id.to_string(),
            document_id: extraction.document.to_string(),
            document: document.to_owned(),
            prompt_revid: extraction.prompt.to_string(),
            schema_revid: extraction.schema.as_ref().map(ToString::to_string),
            model: extraction.model.clone(),
            verified: extraction.verified,
            create_time: extraction.created_at.to_string(),
            update_time: extraction.updated_at.to_string(),
            state: extraction.state().as_str(),
            data: extraction.current().clone(),
            citations: has_citations.then(|| citations.map(|found| citation(report, found)).collect()),
            confidences: has_citations.then(|| confidences.map(confidence).collect()),
            reviews: has_citations.then(|| reviews.iter().map(|(path, review)| decision(path, review)).collect()),
        }
    }
}

fn citation(report: &ExtractionReport, citation: &Citation) -> Value {
    let Citation { path, kind, page, quote, start, section, cell, occurrences, boxes } = citation;
    let text_generation = report.text_generation.map(|at| at.to_string());
    let boxes: Vec<Value> = (0..boxes.len()).filter_map(|word| boxes.fractions(word)).map(bounding_box).collect();
    json!({
        "path": path, "kind": kind.name(), "page": page, "quote": quote, "start": start, "occurrences": occurrences,
        "section": section, "cell": cell, "text_generation": text_generation, "boxes": boxes,
    })
}

/// Returns a rectangle in fractions of the page with five decimals, which is the precision of the stored boxes.
fn bounding_box(area: BoundingBox) -> Value {
    let BoundingBox { left, top, right, bottom } = area;
    let [left, top, right, bottom] = [left, top, right, bottom].map(|at| (at * 1e5).round() / 1e5);
    json!({ "left": left, "top": top, "right": right, "bottom": bottom })
}

fn confidence(found: &FieldConfidence) -> Value {
    json!({ "path": found.path, "confidence": found.confidence })
}

fn decision(path: &str, review: &FieldReview) -> Value {
    let FieldReview { decision, by, is_by_rule, at } = review;
    let user_id = Some(by).filter(|_| !is_by_rule);
    json!({ "path": path, "decision": decision, "user_id": user_id, "by_rule": is_by_rule, "time": at.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an extraction of two values with evidence. `edited`: null is no edit.
    fn extraction(edited: &Value) -> Extraction {
        let evidence = |path: &str| {
            let boxes = json!({ "width": 100.0, "height": 100.0, "boxes": "mhmaGTMzZiY" });
            json!({
                "path": path, "page": 2, "quote": "957", "start": 12, "occurrences": 1, "boxes": boxes, "confidence": 0.75,
            })
        };
        let stored = json!({
            "id": "ext_f30f187168188861899f036152cad603", "org": "org_fa9cb13859228dbe826e977ab9cf66e0",
            "document": "doc_787d98d06bf185a7a3acc794b27be98d", "prompt": "prm_18b3abb5dcba8cb59d6e21c65ad42f05.3",
            "schema": null, "model": "model", "original": { "total": 957, "items": [{ "price": 957 }] },
            "edited": edited, "verified": false, "verified_by": null,
            "report": {
                "coverage": { "pages": 2, "pages_read": 2, "windows": 1, "model_calls": 1 },
                "citations": [evidence("total"), evidence("items[0].price")],
                "confidences": [evidence("total"), evidence("items[0].price")],
            },
            "created_by": "usr_af919444ae068b9db8d1d95740b2cc5d", "created_at": "2026-09-21T14:13:20Z",
            "updated_at": "2026-09-21T14:13:20Z", "version": 3,
        });
        serde_json::from_value(stored).unwrap()
    }

    /// Returns the paths of the citations and of the confidences.
    fn paths(edited: &Value) -> [Vec<String>; 2] {
        let record = Record::new(&extraction(edited), "a.pdf", true);
        let path = |entry: &Value| entry["path"].as_str().unwrap().to_owned();
        [record.citations, record.confidences].map(|found| found.unwrap().iter().map(path).collect())
    }

    #[test]
    fn an_edited_value_has_no_evidence() {
        for (edited, expected) in [
            (Value::Null, vec!["total", "items[0].price"]),
            (json!({ "total": 958, "items": [{ "price": 957 }] }), vec!["items[0].price"]),
            (json!({ "total": 957, "items": [] }), vec!["total"]),
            (json!({ "total": "957", "items": [{ "price": { "net": 957 } }] }), vec![]),
        ] {
            assert_eq!(paths(&edited), [expected.clone(), expected], "{edited}");
        }
        let without = Record::new(&extraction(&Value::Null), "a.pdf", false);
        assert_eq!((without.citations, without.confidences), (None, None));
    }

    #[test]
    fn a_citation_has_the_boxes_of_its_words() {
        let citations = Record::new(&extraction(&Value::Null), "a.pdf", true).citations.unwrap();
        assert_eq!(citations[0]["boxes"], json!([{ "left": 0.10001, "top": 0.10001, "right": 0.2, "bottom": 0.15 }]));
    }
}
