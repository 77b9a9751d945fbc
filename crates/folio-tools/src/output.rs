//! Output of a write: the result for the model and the change of the working state. A repeated call with a recorded result
//! has the same output.

use folio_history::journal::{WorkingChange, WorkingExtraction};
use folio_types::op::{OpResult, Target};
use serde_json::json;

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
        OpResult::Tag { id, name } => json!({ "tag_id": id, "name": name }),
        OpResult::Document { id, name } => json!({ "document_id": id, "document_name": name }),
        OpResult::Extraction { id, document, prompt, data } => {
            let content = json!({ "extraction_id": id, "document_id": document, "prompt_revid": prompt, "data": data });
            change.extraction = Some(WorkingExtraction { id, document, prompt, data });
            content
        }
        OpResult::Deleted => {
            match target {
                Target::Schema(id) => change.deleted_schema = Some(id.clone()),
                Target::Prompt(id) => change.deleted_prompt = Some(id.clone()),
                Target::Document(id) => change.deleted_document = Some(id.clone()),
                _ => {}
            }
            json!({ "deleted": target.to_string() })
        }
    };
    ToolOutput { content, change }
}
