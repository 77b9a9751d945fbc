//! Output of a write: the result for the model and the change of the working state. A repeated call with a recorded
//! result has the same output.

use folio_history::journal::{WorkingChange, WorkingExtraction};
use folio_resources::{Document, Prompt, Resource as _, Schema};
use folio_types::op::{OpResult, Target};
use serde_json::{Map, Value, json};

use crate::tool::ToolOutput;

/// Returns the output of a write to `target` with the recorded `result`.
pub(crate) fn of(target: &Target, result: OpResult) -> ToolOutput {
    let mut change = WorkingChange::default();
    let content = match result {
        OpResult::Schema { revid, name, revised } => {
            change.schema_revid = Some(revid.clone());
            json!({
                "schema_revid": revid,
                "schema_id": revid.of,
                "version": revid.version,
                "name": name,
                "new_version": revised,
            })
        }
        OpResult::Prompt { revid, name, schema, revised } => {
            change.prompt_revid = Some(revid.clone());
            json!({
                "prompt_revid": revid,
                "prompt_id": revid.of,
                "version": revid.version,
                "name": name,
                "schema_revid": schema,
                "new_version": revised,
            })
        }
        OpResult::Resource { id, name } if target.kind() == Document::KIND => {
            json!({ "document_id": id, "document_name": name })
        }
        OpResult::Resource { id, name } => {
            let mut content = Map::from_iter([(format!("{}_id", target.kind()), Value::from(id))]);
            content.insert("name".to_owned(), Value::from(name));
            Value::Object(content)
        }
        OpResult::Extraction { id, document, prompt, data, coverage, .. } => {
            let mut content =
                json!({ "extraction_id": id, "document_id": document, "prompt_revid": prompt, "data": data });
            if let (Some(coverage), Some(content)) = (coverage, content.as_object_mut()) {
                content.insert("coverage".to_owned(), json!(coverage));
            }
            change.extraction = Some(WorkingExtraction { id, document, prompt, data });
            content
        }
        OpResult::Deleted => {
            change.deleted_schema = Schema::id_in(target);
            change.deleted_prompt = Prompt::id_in(target);
            change.deleted_document = Document::id_in(target);
            json!({ "deleted": target.to_string() })
        }
    };
    ToolOutput { content, change }
}
