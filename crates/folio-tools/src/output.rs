//! Output of a write: the result for the model and the change of the working state. A repeated call with a recorded
//! result has the same output.

use folio_history::journal::{WorkingChange, WorkingExtraction};
use folio_resources::{Document, Extraction, Prompt, Resource as _, Schema, Tag};
use folio_types::op::{OpResult, Target};
use serde_json::{Map, Value, json};

use crate::tool::ToolOutput;

/// Returns the members of [`of`] that are ids, for a write to a resource of this kind that does not delete it.
pub(crate) fn ids(kind: &str) -> &'static [&'static str] {
    match kind {
        Schema::KIND => &["schema_revid", "schema_id"],
        Prompt::KIND => &["prompt_revid", "prompt_id", "schema_revid"],
        Tag::KIND => &["tag_id"],
        Document::KIND => &["document_id"],
        Extraction::KIND => &["extraction_id", "document_id", "prompt_revid"],
        _ => &[],
    }
}

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
    ToolOutput { change, ..ToolOutput::new(content) }
}

#[cfg(test)]
mod tests {
    use folio_types::{DocumentId, ExtractionId, PromptId, PromptRevId, SchemaId, SchemaRevId, TagId};

    use super::*;

    #[test]
    fn the_ids_of_each_kind_are_those_of_its_output() {
        let (schema, prompt) = (SchemaId::derive(&["s"]), PromptId::derive(&["p"]));
        let (document, tag) = (DocumentId::derive(&["d"]), TagId::derive(&["t"]));
        let (schema_revid, prompt_revid) = (SchemaRevId::new(schema.clone(), 1), PromptRevId::new(prompt.clone(), 2));
        let (id, name) = (ExtractionId::derive(&["e"]), || "name".to_owned());
        for (target, result) in [
            (Schema::target(&schema), OpResult::Schema { revid: schema_revid.clone(), name: name(), revised: true }),
            (
                Prompt::target(&prompt),
                OpResult::Prompt {
                    revid: prompt_revid.clone(),
                    name: name(),
                    schema: Some(schema_revid),
                    revised: true,
                },
            ),
            (Tag::target(&tag), OpResult::Resource { id: tag.to_string(), name: name() }),
            (Document::target(&document), OpResult::Resource { id: document.to_string(), name: name() }),
            (
                Extraction::target(&id),
                OpResult::Extraction {
                    id: id.clone(),
                    document: document.clone(),
                    prompt: prompt_revid,
                    version: 1,
                    data: Value::Null,
                    coverage: None,
                },
            ),
        ] {
            let content = of(&target, result).content;
            let members = content.as_object().unwrap().keys().map(String::as_str);
            let found: Vec<&str> = members.filter(|name| name.ends_with("id")).collect();
            assert_eq!(found, ids(target.kind()), "{content}");
        }
    }
}
