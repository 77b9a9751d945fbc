//! The tool `dictionary_lookup`.

use async_trait::async_trait;
use folio_resources::{DictionaryEntry, TERM_CHARS, check_term};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entries;
use crate::arguments::{list_of_text, required};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum number of terms of a call.
const TERMS_MAX: usize = 20;

pub(super) fn tool() -> Tool {
    let terms = format!(
        "Terms, such as [\"MY\", \"EBIT\"], 1 to {TERM_CHARS} characters each. Case and width of characters do not matter."
    );
    read_tool::<Lookup>(
        "dictionary_lookup",
        "Returns the meaning of terms in the dictionary of the organization. Call it before you interpret an abbreviation or a \
         name that the document does not explain. Result: entries (term, expansion, disambiguation, tags, provenance: person, \
         agent or inferred, confidence of an inferred one, source_document_ids), missing (the terms without an entry).",
        vec![required("terms", list_of_text(&terms, TERMS_MAX)).or_json_string()],
    )
}

#[derive(Deserialize)]
struct Lookup {
    terms: Vec<String>,
}

#[async_trait]
impl ReadCall for Lookup {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let terms: Vec<&str> = self.terms.iter().map(|term| term.trim()).collect();
        if terms.is_empty() {
            return Err(ToolError::ForModel("terms is empty: pass at least one term.".to_owned()));
        }
        for (index, term) in terms.iter().enumerate() {
            check_term(&format!("terms[{index}]"), term)?;
        }
        let found = entries(context, terms.iter().copied()).await?;
        let missing: Vec<&str> =
            terms.iter().zip(&found).filter(|(_, entry)| entry.is_none()).map(|(term, _)| *term).collect();
        let entries: Vec<Value> = found.iter().flatten().map(summary).collect();
        Ok(json!({ "entries": entries, "missing": missing }))
    }
}

fn summary(entry: &DictionaryEntry) -> Value {
    let mut shown = json!({
        "term": entry.term,
        "expansion": entry.expansion,
        "disambiguation": entry.disambiguation,
        "tags": entry.tags,
        "provenance": entry.provenance.name(),
        "source_document_ids": entry.sources,
    });
    if let (Some(confidence), Some(members)) = (entry.provenance.confidence(), shown.as_object_mut()) {
        members.insert("confidence".to_owned(), confidence.into());
    }
    shown
}
