//! Tools of documents.

mod list;
mod text;
mod update;

use folio_types::DocumentId;
use folio_types::document::Document;

use crate::arguments::{self, Argument, optional};
use crate::call::deletes;
use crate::subject::{Subject, find_named};
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        text::tool(),
        list::tool(),
        update::tool(),
        deletes::<Document>(
            "delete_document",
            "Deletes a document with its text and its extractions; it cannot be undone.",
            which(),
        ),
    ]
}

impl Subject for Document {
    const ARGUMENT: &'static str = "document_id";
    const HINT: &'static str = "a document_id looks like doc_…; list_documents shows them.";
    const LIST: &'static str = "list_documents";

    /// The document of the conversation.
    fn unnamed(context: &CallContext) -> Result<DocumentId, ToolError> {
        context.documents.first().cloned().ok_or_else(|| {
            let text = "This conversation has no document of its own; name one where the tool takes one.";
            ToolError::Told(text.to_owned())
        })
    }

    fn missing(context: &CallContext, id: &DocumentId) -> ToolError {
        let own = if context.documents.contains(id) { " any more; it was deleted" } else { "" };
        ToolError::Told(format!("There is no document {id}{own}. list_documents shows what there is."))
    }
}

fn which() -> Argument {
    let description = "The document, such as doc_…. Left out: the document of the conversation.";
    optional("document_id", arguments::text(description)).or_empty()
}

/// The document of the conversation.
pub(crate) async fn own(resources: &ToolResources, context: &CallContext) -> Result<Document, ToolError> {
    find_named(resources, context, None).await
}
