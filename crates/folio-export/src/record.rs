//! A record of an export.

use folio_resources::{Citation, Extraction, ExtractionReport, FieldConfidence, FieldReview};
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
    /// The citations of the original data. None: the export has no citations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub citations: Option<Vec<Value>>,
    /// The confidence of the model in values of the original data. None: the export does not include citations and confidences.
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
            citations: has_citations.then(|| report.citations.iter().map(|found| citation(report, found)).collect()),
            confidences: has_citations.then(|| report.confidences.iter().map(confidence).collect()),
            reviews: has_citations.then(|| reviews.iter().map(|(path, review)| decision(path, review)).collect()),
        }
    }
}

fn citation(report: &ExtractionReport, citation: &Citation) -> Value {
    let Citation { path, kind, page, quote, start, section, cell, occurrences, .. } = citation;
    let text_generation = report.text_generation.map(|at| at.to_string());
    json!({
        "path": path, "kind": kind.name(), "page": page, "quote": quote, "start": start, "occurrences": occurrences,
        "section": section, "cell": cell, "text_generation": text_generation,
    })
}

fn confidence(found: &FieldConfidence) -> Value {
    json!({ "path": found.path, "confidence": found.confidence })
}

fn decision(path: &str, review: &FieldReview) -> Value {
    let FieldReview { decision, by, is_by_rule, at } = review;
    let user_id = Some(by).filter(|_| !is_by_rule);
    json!({ "path": path, "decision": decision, "user_id": user_id, "by_rule": is_by_rule, "time": at.to_string() })
}
