//! The tool `list_documents` of the profiles about stacks.

use async_trait::async_trait;
use folio_resources::{Column, Document, StackRow, StackRowId};
use folio_types::DocumentId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{documents_of, of_turn};
use crate::arguments::{self, number, optional};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

/// Number of documents of a page of a result.
const PAGE_DOCUMENTS: usize = 50;

pub(super) fn tool() -> Tool {
    read_tool::<ListDocuments>(
        NAME,
        "Returns the documents of the stack, 50 in a page. Result: documents (document_id, name, pages, missing_cells: the \
         number of cells of its row that are not filled), total (their number), next_page (only if there are more).",
        vec![optional("page", number("Page of the list, from 1. Default: 1.", 1, 1_000))],
    )
}

pub(super) const NAME: &str = "list_documents";

#[derive(Deserialize)]
struct ListDocuments {
    #[serde(default, deserialize_with = "arguments::whole")]
    page: Option<u32>,
}

#[async_trait]
impl ReadCall for ListDocuments {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let (stack, org) = (of_turn(context).await?, &context.principal.org);
        let members = documents_of(context, &stack).await?;
        let (page, rest) = page_of(&members, self.page, PAGE_DOCUMENTS);
        let ids: Vec<StackRowId> = page.iter().map(|document| StackRowId::of(&stack.id, document)).collect();
        let rows = context.store::<StackRow>().get_many(org, &ids).await?;
        let documents = context.store::<Document>().get_many(org, page).await?;
        let shown = |document: &Document| {
            let row = rows.iter().find(|row| row.document == document.id);
            let is_missing = |column: &&Column| row.is_none_or(|row| row.is_missing(column));
            json!({
                "document_id": document.id,
                "name": document.name,
                "pages": document.pages,
                "missing_cells": stack.columns.iter().filter(is_missing).count(),
            })
        };
        let documents: Vec<Value> = documents.iter().filter(|found| stack.contains(found)).map(shown).collect();
        let mut result = json!({ "documents": documents, "total": members.len() });
        if let (Some(next), Some(members)) = (rest, result.as_object_mut()) {
            members.insert("next_page".to_owned(), next.into());
        }
        Ok(result)
    }
}

/// Returns a page of documents, and the number of the next page. None: there is no further page.
pub(super) fn page_of(members: &[DocumentId], page: Option<u32>, size: usize) -> (&[DocumentId], Option<u32>) {
    let page = page.unwrap_or(1).max(1);
    let skipped = usize::try_from(page - 1).unwrap_or(usize::MAX).saturating_mul(size);
    let rest = members.get(skipped..).unwrap_or_default();
    let shown = rest.get(..size).unwrap_or(rest);
    (shown, (rest.len() > shown.len()).then(|| page.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_listed_in_pages() {
        let members: Vec<DocumentId> = (0..5_u8).map(|number| DocumentId::derive(&[&number.to_string()])).collect();
        assert_eq!(page_of(&members, None, 2), (&members[..2], Some(2)));
        assert_eq!(page_of(&members, Some(2), 2), (&members[2..4], Some(3)));
        assert_eq!(page_of(&members, Some(3), 2), (&members[4..], None));
        assert_eq!(page_of(&members, Some(9), 2), (&members[..0], None));
        assert_eq!(page_of(&members, Some(1), 5), (&members[..], None));
    }
}
