//! The tool `update_document`.

use std::collections::BTreeMap;

use async_trait::async_trait;

use folio_resources::{Document, DocumentChange, DocumentPatch};
use folio_types::limits::{self, NAME_CHARS};
use serde::Deserialize;
use serde_json::Value;

use super::document_id;
use crate::arguments::{self, list_of_text, map_of_text, optional, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{subject, tags};

const TAG_IDS: &str = "All tags that the document then has; [] removes all.";
const METADATA: &str = "All metadata that the document then has, such as {\"customer\":\"ACME\"}; {} removes all.";

pub(super) fn tool() -> Tool {
    write_tool::<UpdateDocument>(
        "update_document",
        "Updates the name, tags or metadata of a document. Omitted arguments stay unchanged; at least one is \
         required. Result: document_id, document_name.",
        vec![
            document_id(),
            optional("document_name", text(&format!("New name, 1 to {NAME_CHARS} characters."))),
            optional("tag_ids", list_of_text(TAG_IDS, limits::TAGS_MAX)),
            optional("metadata", map_of_text(METADATA)),
        ],
    )
}

struct UpdateDocument {
    document_id: Option<String>,
    patch: DocumentPatch,
}

#[async_trait]
impl WriteCall for UpdateDocument {
    type Target = Document;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        #[derive(Deserialize)]
        struct Arguments {
            document_id: Option<String>,
            document_name: Option<String>,
            tag_ids: Option<Vec<String>>,
            metadata: Option<BTreeMap<String, String>>,
        }
        let parsed: Arguments = arguments::parse(arguments)?;
        let tags = parsed.tag_ids.as_deref().map(arguments::tag_ids).transpose()?;
        let patch = DocumentPatch { name: parsed.document_name, tags, metadata: parsed.metadata };
        if patch == DocumentPatch::default() {
            let text = "Nothing to change: pass document_name, tag_ids or metadata.";
            return Err(ToolError::ForModel(text.to_owned()));
        }
        if let Some(name) = &patch.name {
            folio_resources::fields::check_name("document_name", name)?;
        }
        Ok(Self { document_id: parsed.document_id, patch: folio_resources::check_document_patch("", patch)? })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        tags::check_exist(context, self.patch.tags.as_deref().unwrap_or_default()).await?;
        subject::plan_existing::<Document>(context, self.document_id.as_deref()).await
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<DocumentChange, ToolError> {
        Ok(DocumentChange::Update(self.patch))
    }
}
