//! `update_document`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use folio_storage::DocumentChange;
use folio_types::document::{Document, DocumentPatch};
use folio_types::limits;
use serde::Deserialize;
use serde_json::Value;

use super::which;
use crate::arguments::{self, list_of_text, map_of_text, optional, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject, tags};

pub(super) fn tool() -> Tool {
    writes::<UpdateDocument>(
        "update_document",
        "Changes a document's name, tags or metadata; what is left out stays. Tags and metadata are given whole: what \
         is not listed is taken away.",
        vec![
            which(),
            optional("document_name", text("Its new name.")),
            optional("tag_ids", list_of_text("All its tags from now on, by tag_id.", limits::TAGS_MAX)),
            optional("metadata", map_of_text("All its metadata from now on: names with texts.")),
        ],
    )
}

struct UpdateDocument {
    document_id: Option<String>,
    patch: DocumentPatch,
}

#[async_trait]
impl WriteCall for UpdateDocument {
    type Of = Document;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Given {
            document_id: Option<String>,
            document_name: Option<String>,
            tag_ids: Option<Vec<String>>,
            metadata: Option<BTreeMap<String, String>>,
        }
        let given: Given = arguments::read(arguments)?;
        let tags = given.tag_ids.as_deref().map(arguments::tag_ids).transpose()?;
        let patch = DocumentPatch { name: given.document_name, tags, metadata: given.metadata };
        if patch == DocumentPatch::default() {
            let text = "Nothing to change: give document_name, tag_ids or metadata.";
            return Err(ToolError::Told(text.to_owned()));
        }
        if let Some(name) = &patch.name {
            rules::check_name("document_name", name)?;
        }
        Ok(Self { document_id: given.document_id, patch: rules::check_document_patch("", patch)? })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        tags::check_there(resources, context, self.patch.tags.as_deref().unwrap_or_default()).await?;
        subject::existing::<Document>(resources, context, self.document_id.as_deref()).await
    }

    async fn change(self, _: &ToolResources, _: &CallContext, _: &Plan) -> Result<DocumentChange, ToolError> {
        Ok(DocumentChange::Update(self.patch))
    }
}
