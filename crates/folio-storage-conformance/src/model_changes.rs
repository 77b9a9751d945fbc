//! One random change as each kind of thing has it.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{DocumentChange, DocumentPatch, ExtractionChange, PromptChange, SchemaChange, TagChange};
use folio_types::{DocumentId, PromptRevId, Result, SchemaRevId, TagId};
use serde_json::json;

use super::context::{create_document, create_extraction, create_prompt, create_schema, create_tag};

/// One random change, whatever its kind.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Create { name: String, uses: BTreeSet<String>, schema: Option<SchemaRevId>, content: u64 },
    Update { name: Option<String>, uses: Option<BTreeSet<String>>, content: Option<u64> },
    Delete,
}

pub(super) fn tag_change(change: &Change) -> TagChange {
    match change {
        Change::Create { name, content, .. } => {
            let mut created = create_tag(name);
            if let TagChange::Create { description, .. } = &mut created {
                *description = Some(content.to_string());
            }
            created
        }
        Change::Update { name, content, .. } => TagChange::Update {
            name: name.clone(),
            color: None,
            description: content.map(|content| Some(content.to_string())),
        },
        Change::Delete => TagChange::Delete,
    }
}

pub(super) fn schema_change(change: &Change) -> SchemaChange {
    match change {
        Change::Create { name, content, .. } => create_schema(name, &json!({ "content": content })),
        Change::Update { name, content, .. } => SchemaChange::Update {
            name: name.clone(),
            response_format: content.map(|content| (json!({ "content": content }), true)),
        },
        Change::Delete => SchemaChange::Delete,
    }
}

fn tags(uses: &BTreeSet<String>) -> Result<Vec<TagId>> {
    uses.iter().map(|id| id.parse()).collect()
}

pub(super) fn prompt_change(change: &Change) -> Result<PromptChange> {
    Ok(match change {
        Change::Create { name, uses, schema, content: text } => {
            let mut created = create_prompt(name, schema.as_ref(), &tags(uses)?);
            if let PromptChange::Create { content, .. } = &mut created {
                *content = text.to_string();
            }
            created
        }
        Change::Update { name, uses, content } => PromptChange::Update {
            name: name.clone(),
            content: content.map(|content| content.to_string()),
            schema: None,
            model: None,
            tags: uses.as_ref().map(tags).transpose()?,
        },
        Change::Delete => PromptChange::Delete,
    })
}

pub(super) fn document_change(change: &Change) -> Result<DocumentChange> {
    let metadata = |content: &u64| BTreeMap::from([("content".to_owned(), content.to_string())]);
    Ok(match change {
        Change::Create { name, uses, content, .. } => {
            let mut created = create_document(name, &tags(uses)?);
            if let DocumentChange::Create(new) = &mut created {
                new.metadata = metadata(content);
            }
            created
        }
        Change::Update { name, uses, content } => DocumentChange::Update(DocumentPatch {
            name: name.clone(),
            tags: uses.as_ref().map(tags).transpose()?,
            metadata: content.as_ref().map(metadata),
        }),
        Change::Delete => DocumentChange::Delete,
    })
}

pub(super) fn extraction_change(change: &Change, document: &DocumentId, prompt: &PromptRevId) -> ExtractionChange {
    match change {
        Change::Create { content, .. } => create_extraction(document, prompt, json!({ "content": content })),
        Change::Update { content, .. } => ExtractionChange::Edit { data: json!({ "content": content.unwrap_or(0) }) },
        Change::Delete => ExtractionChange::Delete,
    }
}
