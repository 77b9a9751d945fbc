//! Tools for documents.

mod list;
mod outline;
mod section;
mod text;
mod update;

use folio_resources::Document;
use folio_types::DocumentId;
use folio_types::profile::Subject;

use crate::arguments::{self, Argument, optional};
use crate::call::delete_tool;
use crate::scope::ReadableDocuments;
use crate::subject::{ToolResource, find, find_by_argument, id_of_argument};
use crate::tool::{CallContext, Tool, ToolError};

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        text::tool(),
        outline::tool(),
        section::tool(),
        list::tool(),
        update::tool(),
        delete_tool::<Document>(
            "delete_document",
            "Deletes a document with its file, text and extractions. This cannot be undone: call it only if the user \
             requests it. Result: deleted (the document_id).",
            document_id(),
        ),
    ]
}

impl ToolResource for Document {
    const ARGUMENT: &'static str = "document_id";
    const HINT: &'static str = "expected a document_id such as doc_…; call list_documents to find it.";
    const LIST_TOOL: &'static str = "list_documents";

    fn default_id(context: &CallContext) -> Result<DocumentId, ToolError> {
        context.documents.first().cloned().ok_or_else(|| {
            let text = "This conversation has no document. Pass document_id if the tool has that argument; call list_documents to \
                        find it.";
            ToolError::ForModel(text.to_owned())
        })
    }

    /// Restricts a run of the ingestion network to its document, so that the text of the document cannot make the run change another
    /// document. [`find_to_read`] also returns the documents to which the run followed links.
    fn reachable(context: &CallContext) -> Option<&[DocumentId]> {
        matches!(context.subject, Some(Subject::Ingestion(_))).then_some(context.documents.as_slice())
    }

    fn absence(context: &CallContext, id: &DocumentId) -> &'static str {
        if context.documents.contains(id) { "was deleted" } else { "does not exist" }
    }
}

fn document_id() -> Argument {
    let description = "Id, such as doc_…. Default: the conversation's document.";
    optional("document_id", arguments::text(description)).or_empty()
}

/// Returns a document that a call reads. A run of the ingestion network reads its document, and those to which it followed links. A
/// turn about the organization reads the documents of its thread and its scope.
pub(crate) async fn find_to_read(context: &CallContext, id: &DocumentId) -> Result<Document, ToolError> {
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    let root = Document::reachable(context).filter(|ids| !ids.contains(id)).and_then(<[DocumentId]>::first);
    if let Some(root) = root
        && stores.links().followed(org, root).await?.iter().any(|followed| followed.document == *id)
        && let Some(document) = stores.of::<Document>().get(org, id).await?
    {
        return Ok(document);
    }
    let document = find::<Document>(context, id).await?;
    if !ReadableDocuments::of(context).await?.contains(&document) {
        let text = format!(
            "document_id {id} is not a document of this conversation. Call retrieve_documents to find its documents."
        );
        return Err(ToolError::ForModel(text));
    }
    Ok(document)
}

/// Returns the document that an argument names, or that of the conversation, for a call that reads it.
pub(crate) async fn read_by_argument(context: &CallContext, argument: Option<&str>) -> Result<Document, ToolError> {
    find_to_read(context, &id_of_argument::<Document>(context, argument).await?).await
}

pub(crate) async fn of_conversation(context: &CallContext) -> Result<Document, ToolError> {
    find_by_argument(context, None).await
}
