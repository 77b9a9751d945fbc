//! Stacks: the tools of the agents that fill the rows of a table or ask about them, the aggregates and conflicts of its cells, and
//! the jobs that fill them.
//!
//! The subject of the turn that fills rows names the stack, so that no argument can name another one. A document outside the stack is not found.
//! A turn that fills a row has one document, and no call reaches the row of another one.

mod aggregate;
mod answer;
mod ask;
mod cells;
mod claim;
mod columns;
mod complete;
mod conflicts;
mod extract;
mod fill;
mod list;
mod members;
mod state;
mod text;

use folio_resources::{Document, Stack, StackRow, StackRowId};
use folio_types::profile::{Subject, SubjectKind};
use folio_types::{DocumentId, Error};

use crate::arguments;
use crate::extraction::PAGE_TEXT_TOOL;
use crate::subject::ToolResource as _;
use crate::tool::{CallContext, Tool, ToolError};

pub use aggregate::{
    Aggregate, AggregateFunction, AggregateValue, AggregatedGroup, Aggregator, TABLE_AGGREGATES_MAX, TABLE_GROUPS_MAX,
    TableQuery,
};
pub use answer::{TableAnswer, answer_table};
pub(crate) use ask::{ASK_TABLE, LIST_TABLES, values_of};
pub use conflicts::{
    CONFLICT_DOCUMENTS_MAX, ConflictFinder, ConflictingValue, TABLE_CONFLICTS_MAX, TableConflict, check_key_columns,
};
pub use fill::{FillRun, FillStart, check_filled, plan_fill, start_fill};
pub use members::{TableRow, check_members, has_too_many_members, member_ids, table_rows, unfilled, with_documents};

/// Name of the tool that defines the columns.
pub(crate) const DEFINE_COLUMNS: &str = "define_columns";

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        columns::tool(),
        extract::extract_row(),
        extract::update_cell(),
        state::tool(),
        complete::tool(),
        ask::list_tables(),
        ask::ask_table(),
    ]
}

/// Returns the tool that replaces the tool with a name in profiles about a subject. None: the profiles have the tool itself.
pub(crate) fn replacement(subject: SubjectKind, name: &str) -> Option<Tool> {
    match (subject, name) {
        (SubjectKind::Stack, list::NAME) => Some(list::tool()),
        (SubjectKind::Stack, PAGE_TEXT_TOOL) => Some(text::tool()),
        _ => None,
    }
}

/// Returns the stack that the turn is about.
async fn of_turn(context: &CallContext) -> Result<Stack, ToolError> {
    let Some(Subject::Stack(id)) = &context.subject else {
        return Err(ToolError::Failed(Error::internal("a turn of a profile about stacks has no stack")));
    };
    let found = context.store::<Stack>().get(&context.principal.org, id).await?;
    found.ok_or_else(|| ToolError::ForModel("The stack was deleted. End your turn.".to_owned()))
}

/// Returns the only document that a turn may read and fill. None: the turn is about the whole stack.
fn only_document(context: &CallContext) -> Option<&DocumentId> {
    context.documents.first()
}

/// Returns the documents that a turn may read and fill: its only document, or those of the stack.
async fn documents_of(context: &CallContext, stack: &Stack) -> Result<Vec<DocumentId>, ToolError> {
    match only_document(context) {
        Some(only) => Ok(vec![only.clone()]),
        None => Ok(member_ids(&context.resources.stores, &context.principal.org, stack).await?),
    }
}

/// Returns a document of the stack.
async fn document_of(context: &CallContext, stack: &Stack, id: &str) -> Result<Document, ToolError> {
    let id: DocumentId = arguments::id("document_id", id, Document::HINT)?;
    let missing = || {
        let text =
            format!("document_id {id} is not a document of this stack. Call list_documents to find its documents.");
        ToolError::ForModel(text)
    };
    if only_document(context).is_some_and(|only| *only != id) {
        return Err(missing());
    }
    let found = context.store::<Document>().get(&context.principal.org, &id).await?;
    found.filter(|document| stack.contains(document)).ok_or_else(missing)
}

/// Returns the row of a document. None: the document has no row.
async fn row_of(context: &CallContext, stack: &Stack, document: &DocumentId) -> Result<Option<StackRow>, ToolError> {
    let id = StackRowId::of(&stack.id, document);
    Ok(context.store::<StackRow>().get(&context.principal.org, &id).await?)
}
