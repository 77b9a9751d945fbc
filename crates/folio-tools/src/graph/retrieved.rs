//! The passages that the calls of a turn retrieved.

use std::collections::HashSet;

use folio_history::TurnRecord;
use folio_history::journal::CallStatus;
use serde_json::{Value, json};

/// The tool whose results are sources.
const RETRIEVE: &str = "retrieve_documents";
/// Maximum number of passages of an answer, and of one of its sources.
const PASSAGES_MAX: usize = 20;
const PASSAGES_OF_SOURCE_MAX: usize = 3;

/// Passages in the order in which the turn retrieved them.
pub(super) struct Retrieved {
    rows: Vec<Value>,
}

impl Retrieved {
    pub(super) fn of(record: &TurnRecord) -> Self {
        let calls = record.rounds.iter().flat_map(|round| &round.calls);
        let results = calls.filter(|call| call.call.name == RETRIEVE).filter_map(|call| call.result.as_ref());
        let rows = results.filter(|result| result.status == CallStatus::Ok).flat_map(|result| {
            let content: Option<Value> = serde_json::from_str(&result.content).ok();
            content.and_then(|mut content| content.get_mut("passages").map(Value::take))
        });
        let rows = rows.filter_map(|rows| match rows {
            Value::Array(rows) => Some(rows),
            _ => None,
        });
        Self { rows: rows.flatten().collect() }
    }

    /// Returns the ids of the documents, each once, in the order of their first passage.
    pub(super) fn documents(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        self.rows.iter().filter_map(document).filter(|id| seen.insert(*id)).collect()
    }

    /// Returns the first passages of each source: document, page, section and quote.
    pub(super) fn passages(&self, sources: &[&str]) -> Vec<Value> {
        let mut seen = HashSet::new();
        let mut passages = Vec::new();
        for source in sources {
            let of_source = self.rows.iter().filter(|row| document(row) == Some(*source));
            let new = of_source.filter(|row| seen.insert((text(row, "section_id"), text(row, "snippet"))));
            for row in new.take(PASSAGES_OF_SOURCE_MAX) {
                passages.push(json!({
                    "document_id": source,
                    "document_name": text(row, "document_name"),
                    "page": row.get("page"),
                    "section_id": text(row, "section_id"),
                    "section": text(row, "section"),
                    "quote": text(row, "snippet"),
                }));
            }
        }
        passages.truncate(PASSAGES_MAX);
        passages
    }
}

fn document(row: &Value) -> Option<&str> {
    row.get("document_id").and_then(Value::as_str)
}

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row.get(member).and_then(Value::as_str).unwrap_or_default()
}
