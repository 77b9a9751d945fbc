//! The summary at the end of the demo.

use anyhow::{Context as _, Result};
use folio_proto::v1;
use serde::Serialize;
use serde_json::{Value, json};

use super::conversation::FinishedTurn;
use crate::chat::screen::ChatScreen;
use crate::client::{Client, answer};
use crate::data::{extraction, job, parsed};
use crate::progress::Progress;
use crate::terminal::{BOLD, NOTE};

/// Number of places of values that are shown.
const SHOWN_CITATIONS: usize = 40;

/// The JSON object that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    document: Value,
    model: String,
    rounds: Vec<Value>,
    approvals: Vec<Value>,
    schema: Value,
    prompt: Value,
    extraction: Value,
    /// The citations of the values, with the confidence of the model.
    citations: Vec<Value>,
    /// The values of windows that differ from the extracted values.
    conflicts: Vec<Value>,
    /// The parts of the document that were read.
    coverage: Option<String>,
    usage: Value,
}

/// Reads the created resources, shows the extraction, and returns the summary.
pub(crate) async fn collect(
    client: &Client,
    screen: &mut ChatScreen,
    document: v1::Document,
    finished: FinishedTurn,
) -> Result<Report> {
    let working = finished.completed.working_state.unwrap_or_default();
    let extraction_id = match started_job(&finished.completed.rounds) {
        Some(job) => Some(job::wait_for_extraction(client, job, &Progress::stderr().line(&document.name)).await?),
        None => working.extraction.as_ref().map(|extraction| extraction.extraction_id.clone()),
    };
    let stored = match extraction_id {
        Some(id) => Some(stored(client, id).await?),
        None => None,
    };
    let extraction = stored.as_ref().map(extraction::data).unwrap_or_default();
    screen.line(BOLD, "\nExtraction");
    match &extraction {
        Value::Null => screen.line(NOTE, "none: the agent ended without one"),
        data => screen.line(anstyle::Style::new(), &serde_json::to_string_pretty(data)?),
    }
    let coverage = stored.as_ref().and_then(extraction::coverage);
    if let Some(coverage) = &coverage {
        screen.line(NOTE, coverage);
    }
    let stored = stored.unwrap_or_default();
    for citation in stored.citations.iter().take(SHOWN_CITATIONS) {
        screen.line(NOTE, &citation_line(&stored, citation));
    }
    for conflict in extraction::conflict_lines(&stored).take(SHOWN_CITATIONS) {
        screen.line(NOTE, &conflict);
    }
    Ok(Report {
        document: json!({
            "document_id": document.document_id, "name": document.name, "media_type": document.media_type,
            "pages": document.pages, "size_bytes": document.size_bytes,
        }),
        model: finished.model,
        rounds: finished
            .completed
            .rounds
            .iter()
            .map(|round| self::round(round, finished.usages.get(&round.round)))
            .collect(),
        approvals: finished.decisions.iter().map(approval).collect(),
        schema: schema(client, &working.schema_revid).await?,
        prompt: prompt(client, &working.prompt_revid).await?,
        extraction,
        citations: stored.citations.iter().map(|found| citation(&stored, found)).collect(),
        conflicts: stored.conflicts.iter().map(extraction::conflict).collect(),
        coverage,
        usage: usage(&finished.completed.usage.unwrap_or_default()),
    })
}

fn usage(usage: &v1::Usage) -> Value {
    json!({
        "model_calls": usage.model_calls, "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens, "output_tokens": usage.output_tokens,
        "reported": usage.reported,
    })
}

/// Returns the evidence for a value as a line for people.
fn citation_line(extraction: &v1::Extraction, found: &v1::Citation) -> String {
    // JSON escapes control characters of the document.
    let quote = Value::from(found.quote.as_str());
    let (path, kind, location) = (&found.path, extraction::kind(found.kind()), extraction::location(found));
    let confidence = extraction::confidence_of(extraction, path);
    let confidence = confidence.map(|share| format!(", confidence {share:.2}")).unwrap_or_default();
    format!("  {path}: {kind} on {location}, {quote}{confidence}")
}

fn citation(extraction: &v1::Extraction, found: &v1::Citation) -> Value {
    let mut citation = extraction::citation(found);
    if let Some(members) = citation.as_object_mut() {
        members.insert("confidence".to_owned(), json!(extraction::confidence_of(extraction, &found.path)));
    }
    citation
}

/// Returns the job of the newest extraction. None: it ran within its call, or there is none.
fn started_job(rounds: &[v1::Round]) -> Option<String> {
    let newest = rounds.iter().rev().flat_map(|round| {
        round.calls.iter().rev().filter(|call| call.name == "run_extraction").filter_map(|call| {
            round.results.iter().find(|result| result.call_id == call.call_id && result.status() == v1::CallStatus::Ok)
        })
    });
    let result = newest.map(|result| parsed(&result.content)).next()?;
    result.get("job_id").and_then(Value::as_str).map(str::to_owned)
}

async fn stored(client: &Client, extraction_id: String) -> Result<v1::Extraction> {
    let request = v1::GetExtractionRequest { extraction_id };
    let found = answer(client.extractions().get_extraction(request)).await?.extraction;
    found.context("invalid response of the server: the extraction is missing")
}

/// `called`: usage of the model call of the round. None: the event with the usage was not received.
fn round(round: &v1::Round, called: Option<&v1::Usage>) -> Value {
    let calls = round.calls.iter().map(|call| {
        let result = round.results.iter().find(|result| result.call_id == call.call_id);
        json!({
            "call_id": call.call_id, "name": call.name, "arguments": parsed(&call.arguments_json),
            "status": result.map(|result| status(result.status())), "result": result.map(|result| parsed(&result.content)),
        })
    });
    json!({
        "round": round.round, "text": round.text, "thinking": round.thinking, "calls": calls.collect::<Vec<_>>(),
        "usage": called.map(usage),
    })
}

fn status(status: v1::CallStatus) -> String {
    status.as_str_name().trim_start_matches("CALL_STATUS_").to_lowercase()
}

fn approval((call, decision): &(v1::Call, v1::decision::Decision)) -> Value {
    use v1::decision::Decision;
    let (decision, reason) = match decision {
        Decision::Approved(_) => ("approved", None),
        Decision::ApprovedEdited(_) => ("approved_edited", None),
        Decision::Rejected(rejected) => ("rejected", Some(&rejected.reason)),
    };
    json!({
        "call_id": call.call_id, "name": call.name, "arguments": parsed(&call.arguments_json),
        "decision": decision, "reason": reason,
    })
}

async fn schema(client: &Client, revid: &str) -> Result<Value> {
    if revid.is_empty() {
        return Ok(Value::Null);
    }
    let request = v1::GetSchemaRevisionRequest { schema_revid: revid.to_owned() };
    let revision = answer(client.schemas().get_schema_revision(request)).await?.schema_revision;
    let revision = revision.context("invalid response of the server: the schema is missing")?;
    Ok(json!({
        "schema_revid": revision.schema_revid, "name": revision.name,
        "response_format": parsed(&revision.response_format_json),
    }))
}

async fn prompt(client: &Client, revid: &str) -> Result<Value> {
    if revid.is_empty() {
        return Ok(Value::Null);
    }
    let request = v1::GetPromptRevisionRequest { prompt_revid: revid.to_owned() };
    let revision = answer(client.prompts().get_prompt_revision(request)).await?.prompt_revision;
    let revision = revision.context("invalid response of the server: the prompt is missing")?;
    Ok(json!({
        "prompt_revid": revision.prompt_revid, "name": revision.name, "content": revision.content,
        "schema_revid": revision.schema_revid, "model": revision.model,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_is_shown_with_the_confidence_of_its_value() {
        let found = v1::Citation {
            path: "total".to_owned(),
            page: 2,
            quote: "957,00\u{1b}".to_owned(),
            kind: v1::CitationKind::Cited.into(),
            ..v1::Citation::default()
        };
        let confidences = vec![v1::FieldConfidence { path: "total".to_owned(), confidence: 0.75 }];
        let extraction = v1::Extraction { confidences, ..v1::Extraction::default() };
        let line = citation_line(&extraction, &found);
        assert_eq!(line, r#"  total: cited on page 2, "957,00\u001b", confidence 0.75"#);
        assert_eq!(citation(&extraction, &found)["confidence"], json!(0.75));
        let without = v1::Extraction::default();
        assert!(!citation_line(&without, &found).contains("confidence"));
        assert_eq!(citation(&without, &found)["confidence"], Value::Null);
    }

    #[test]
    fn the_newest_extraction_that_succeeded_decides_whether_there_is_a_job() {
        let call =
            |id: &str, name: &str| v1::Call { call_id: id.to_owned(), name: name.to_owned(), ..Default::default() };
        let result = |id: &str, status: v1::CallStatus, content: &str| v1::CallResult {
            call_id: id.to_owned(),
            status: status.into(),
            content: content.to_owned(),
        };
        let job = r#"{"job_id": "job_1", "note": "…"}"#;
        let mut rounds = vec![v1::Round {
            calls: vec![call("a", "create_prompt"), call("b", "run_extraction"), call("c", "run_extraction")],
            results: vec![
                result("a", v1::CallStatus::Ok, "{}"),
                result("b", v1::CallStatus::Ok, job),
                result("c", v1::CallStatus::Failed, "too long"),
            ],
            ..Default::default()
        }];
        assert_eq!(started_job(&rounds).as_deref(), Some("job_1"));
        rounds.push(v1::Round {
            calls: vec![call("d", "run_extraction")],
            results: vec![result("d", v1::CallStatus::Ok, r#"{"extraction_id": "ext_1"}"#)],
            ..Default::default()
        });
        assert_eq!(started_job(&rounds), None);
        assert_eq!(started_job(&[]), None);
    }
}
